/* formats.h: the formats in which each message holds one dlb_value, which is a tensor or elements. From these lists come the
 * functions of the formats in dlbridge.h and in the Python extension, and calls in the tests' C programs.
 * formats.go has a row for each format. */
#ifndef DLB_FORMATS_H_
#define DLB_FORMATS_H_

/* X(name, dialect, decode, encode, either): the functions dlb_NAME_decode and dlb_NAME_encode. Where `dialect` is not 0, the
 * options of both are a dialect, from 0 to this one. Otherwise `decode` and `encode` are the options that they know, and of `either`
 * only one may be set to encode. Decoders know DLB_LIMIT as well. */
#define FORMATS(X)                                                      \
  X(decthings, DLB_DECTHINGS_RS015, 0, 0, 0)                            \
  X(tensorflow, 0, DLB_TENSORFLOW_LENIENT | DLB_TENSORFLOW_INTEGERS,    \
    DLB_TENSORFLOW_FIELDS | DLB_TENSORFLOW_CONTENT | DLB_TENSORFLOW_PAD, \
    DLB_TENSORFLOW_FIELDS | DLB_TENSORFLOW_CONTENT)

/* X(name): formats whose values follow each other in a stream also have dlb_NAME_decode_batch. */
#define STREAMS(X) X(decthings)

/* X(name): formats with rules for tensors also have dlb_NAME_check. */
#define RULES(X) X(decthings)

#define FORMAT_INDEX(name, ...) FORMAT_##name,
enum { FORMATS(FORMAT_INDEX) FORMAT_COUNT };
#undef FORMAT_INDEX

#endif
