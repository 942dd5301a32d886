/* formats.h: the formats whose messages each hold one dlb_value, a tensor or elements. These lists
 * make the functions of the formats for dlbridge.h and the Python extension, and calls in the
 * tests' C programs. formats.go has a row for each format. */
#ifndef DLB_FORMATS_H_
#define DLB_FORMATS_H_

/* X(name, dialect, decode, encode, either): the functions dlb_NAME_decode and dlb_NAME_encode. If
 * `dialect` is not 0, the options of both are a dialect, from 0 to `dialect`. Otherwise `decode`
 * and `encode` are the options that they know; to encode, at most one option in `either` may be
 * set. Decoders also know DLB_LIMIT. */
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
