/* dlbridge.h: the C interface of dlbridge, C99 and C++11.
 *
 * A producer owns memory and describes it. A consumer reads it. A view describes memory and owns
 * nothing. A managed tensor is a view plus a deleter that its holder calls exactly once. Here a
 * tensor is a DLManagedTensorVersioned of DLPack; there is no second tensor type.
 *
 * Every function that can fail returns DLB_OK or a positive code, writes its one output through the
 * first argument `out` (NULL or zero after an error), and describes the error in `error`, which the
 * caller owns and which may be NULL. On error nothing has moved. Nothing is ever printed.
 *
 * A function that fills a buffer of the caller's takes the buffer and its size, `data` and `room`, and writes
 * the number of bytes to *out. A buffer that is too small is DLB_ERROR_ROOM: *out is then the size that is
 * needed, and the buffer is unchanged. To ask for the size alone, pass `data` NULL and `room` 0, which is DLB_OK.
 *
 * No input ends the process, but for memory that is not there: what a pointer leads to has to be as long as
 * its size or count says, and readable. The description of a tensor must not change while it is in use. NULL,
 * sizes, indexes, flags, contents and descriptions are checked. Where there is no memory for what grows with the
 * input it is DLB_ERROR_MEMORY. Go reserves memory of its own in steps of 64 MiB of addresses, and smaller ones for
 * records of its own, and ends the process when it does not get them.
 *
 * The library recognises what it has made itself: messages, elements, tensors and frames. One that was given
 * back, or that a function has taken over, is DLB_ERROR_ARGUMENT wherever it is passed, and to give it back
 * again does nothing; one that was taken over stays as it is until its new owner is done with it. A frame is
 * recognised by its release and ctx, and so is a copy of the struct. A copy of a tensor's struct may be read,
 * but not taken over. A place is used again for another object after 64 others of the kind at the earliest; an
 * old address then means the new object, but for a tensor whose place has been given to one of the other form,
 * legacy or not: such an address must not be used.
 *
 * What others have made is not recognised: tensors with another deleter, and frames with a release of the
 * caller's own. Such a tensor or frame must not be passed after it was released or taken over, nor twice to
 * one call; only dlb_message_encode compares the tensors that it is given.
 *
 * Structures. A program that was compiled against one version of this header works with every later library of
 * the same major version, and with an earlier one if it uses nothing that is newer. Each structure that programs
 * allocate follows one of three rules for that:
 *
 * - dlb_frame, dlb_message_tensor, dlb_message_fields, dlb_elements and dlb_value end with reserved words. New
 *   fields take the place of the first ones, and 0 in them means what this version does. The size never changes, and
 *   neither does the stride of arrays. A program must set reserved words to 0: it initialises these structures with
 *   `= {0}` (`= {}` in C++) or with designated initialisers. A word that is not 0 is DLB_ERROR_ARGUMENT, because the
 *   structure was not initialised or the program uses a field that this library does not know. The library sets
 *   reserved words to 0 in what it fills in.
 * - dlb_counters grows at its end. dlb_counters_read takes the size that the program knows.
 * - dlb_error, dlb_bytes and dlb_header never change. Every call writes a dlb_error without reading it, so that it
 *   needs no initialiser; dlb_bytes is an address and a size; dlb_header has the fields that ZIO gives a message.
 *
 * The structures of DLPack change with the version that they carry. Options are bits, and unknown bits are refused.
 *
 * A release that a program passes may release other tensors, frames and messages, whose releases may release
 * others: such chains may be of any length, and need no more stack than eight releases inside each other. A
 * release that is begun deeper than that runs after the release that began it has returned; all of them have
 * run when the outermost call returns. A release must return: it must not end its thread or jump out.
 *
 * Reading takes at most 4 times the memory of the input for elements of a fixed size, 8 times for integers of 64
 * bits that are varints, 40 times for labels, and 32 times for elements of variable size and frames; a frame counts as
 * 40 bytes beside its own. What may take more has a limit: DLB_TENSORFLOW_LIMIT. The README of package bridge has the table
 * of all decoders.
 *
 * What Go asks of a process it asks here too: signal handlers that the program installs have SA_ONSTACK, and
 * alternate stacks that it gives to signals have 8 KiB at least. A thread that calls these functions has a stack of
 * 64 KiB at least. When the library is loaded, 1 GiB of address space, eight threads and eight file descriptors are to be
 * had: Go ends the process otherwise.
 */
#ifndef DLBRIDGE_H_
#define DLBRIDGE_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DLB_API __attribute__((visibility("default")))
#else
#define DLB_API
#endif

/* The interface's version. The major number is that of the library's SONAME, and is raised where a program
 * that was built before would not work any more; the minor one where something is added. */
#define DLB_VERSION_MAJOR 0
#define DLB_VERSION_MINOR 1
#define DLB_VERSION_PATCH 0

enum {
  DLB_OK = 0,
  DLB_ERROR_NULL = 1,      /* a pointer that must not be NULL is */
  DLB_ERROR_VERSION = 2,   /* a DLPack major version that is not 1 */
  DLB_ERROR_DTYPE = 3,     /* a data type that cannot be carried */
  DLB_ERROR_DEVICE = 4,    /* memory that the host cannot read */
  DLB_ERROR_LAYOUT = 5,    /* rank, shape or strides */
  DLB_ERROR_OVERFLOW = 6,  /* sizes beyond 2^63-1, or bytes of the host outside of 4096 to 2^63-1 */
  DLB_ERROR_READONLY = 7,  /* what was asked for cannot say that the memory is read-only */
  DLB_ERROR_UNALIGNED = 8, /* an address that its type does not allow */
  DLB_ERROR_MEMORY = 9,    /* there is none to be had */
  DLB_ERROR_FORMAT = 10,   /* malformed message */
  DLB_ERROR_ARGUMENT = 11, /* an index out of range, or a value that makes no sense */
  DLB_ERROR_FORKED = 12,   /* a call that needs Go, in a forked child: use spawn or exec */
  DLB_ERROR_INTERNAL = 13, /* a defect of this library */
  DLB_ERROR_ROOM = 14      /* the caller's buffer is too small: *out is the size that is needed */
};

/* Where an error was, in words. The text ends with a NUL; what does not fit is cut off. Nothing in it needs to be
 * freed. */
typedef struct dlb_error {
  int32_t code;
  char message[508];
} dlb_error;

/* The library's version, "MAJOR.MINOR.PATCH".
 * Ownership: static. Lifetime: the process. Threads: any. On error: cannot fail. */
DLB_API const char *dlb_version(void);

/* A short name of a code: "ok", "dtype", ...
 * Ownership: static. Lifetime: the process. Threads: any. On error: "unknown" for other numbers. */
DLB_API const char *dlb_error_name(int32_t code);

/* ---- tensors: plain C, no Go runtime is entered, safe in a forked child ----------------------- */

/* New memory on the CPU, 256-byte aligned, zeroed, row-major.
 * Ownership: the caller owns *out and calls its deleter once. Lifetime: until then. Threads: any,
 * the deleter too. On error: *out is NULL. */
DLB_API int32_t dlb_tensor_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                                 const int64_t *shape, dlb_error *error);

/* A tensor over memory of the caller's, described by `view` (strides NULL: row-major; shape and
 * strides are copied) with DLPACK_FLAG_BITMASK_* flags. When the last share of the memory is
 * released, release(ctx) runs once, on the thread that released it; release may be NULL.
 * Ownership: the memory stays the caller's until release(ctx); *out is the caller's. Lifetime: until
 * *out's deleter. Threads: any. On error: *out is NULL and release is not called. */
DLB_API int32_t dlb_tensor_lend(DLManagedTensorVersioned **out, const DLTensor *view, uint64_t flags,
                                void (*release)(void *ctx), void *ctx, dlb_error *error);

/* A row-major copy in new memory, IS_COPIED set.
 * Ownership: `tensor` is borrowed; *out is the caller's. Lifetime: until *out's deleter. Threads:
 * any, while nobody writes. On error: *out is NULL. */
DLB_API int32_t dlb_tensor_copy(DLManagedTensorVersioned **out,
                                const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Checks all of a description that can be checked without touching its memory: version, rank, shape,
 * strides, data type, overflow, NULL pointers.
 * Ownership: borrowed. Lifetime: the call. Threads: any. On error: the code says what is wrong. */
DLB_API int32_t dlb_tensor_validate(const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Bytes of the elements without gaps, packed where the type is packed.
 * Ownership: borrowed. Lifetime: the call. Threads: any. On error: *out is 0. */
DLB_API int32_t dlb_tensor_nbytes(int64_t *out, const DLManagedTensorVersioned *tensor,
                                  dlb_error *error);

/* The same tensor in the form of before DLPack 1.0 (jax and TensorFlow take no other). A read-only
 * tensor is refused: that form cannot say so.
 * Ownership: on success `tensor` is taken over by *out. Lifetime: until *out's deleter. Threads: any.
 * On error: *out is NULL and `tensor` is still the caller's. */
DLB_API int32_t dlb_tensor_to_legacy(DLManagedTensor **out, DLManagedTensorVersioned *tensor,
                                     dlb_error *error);

/* The other way. `flags` says what the old form could not (READ_ONLY).
 * Ownership: on success `tensor` is taken over by *out. Lifetime: until *out's deleter. Threads: any.
 * On error: *out is NULL and `tensor` is still the caller's. */
DLB_API int32_t dlb_tensor_from_legacy(DLManagedTensorVersioned **out, DLManagedTensor *tensor,
                                       uint64_t flags, dlb_error *error);

/* Calls the tensor's deleter, if it has one. NULL is allowed.
 * Ownership: ends the caller's. Lifetime: the tensor must not be used again. Threads: any. On error:
 * a tensor of this library's that was released or taken over before is left alone, and counted in
 * double_deletes. */
DLB_API void dlb_tensor_release(DLManagedTensorVersioned *tensor);

/* ---- messages: ZIO messages and the tensors in them (ZIO TENS, sections 2 and 3) ---------------
 *
 * dlb_message_decode, _unpack, _make, _encode and _pack need Go: in a forked child they answer
 * DLB_ERROR_FORKED. All others are plain C and work there too.
 */

/* Bytes with a way to give them back. `release` runs once, on any thread, when nothing views the
 * bytes any more; it may be NULL. */
typedef struct dlb_frame {
  const void *data;
  size_t size;
  void (*release)(void *ctx);
  void *ctx;
  uint64_t flags;       /* DLB_FRAME_WRITABLE or 0 */
  uint64_t reserved[4]; /* 0 */
} dlb_frame;

/* Tensors over the frame may be written to. Without it they carry READ_ONLY. */
#define DLB_FRAME_WRITABLE ((uint64_t)1)

/* A message: level, form, label, header, payload parts, and the tensors that the label describes. */
typedef struct dlb_message dlb_message;

/* Fixed-size fields of a message (ZIO message, prefix and coordinate headers). */
typedef struct dlb_header {
  int32_t level; /* 0 to 8 */
  char form[4];  /* padded with spaces */
  uint64_t origin;
  uint64_t granule;
  uint64_t seqno;
} dlb_header;

/* Text or bytes inside a message, not NUL-terminated. */
typedef struct dlb_bytes {
  const char *data;
  size_t size;
} dlb_bytes;

/* Options of dlb_message_decode. */
#define DLB_DECODE_MESSAGE_ONLY ((uint64_t)1) /* do not look at the label: no tensors */

/* Reads a message of `count` frames: prefix, header, payload parts. Payloads are not copied: parts and
 * tensors alias the frames.
 * Ownership: on success the frames are the message's and of the tensors made from it; each is released
 * once, when none of them needs it. *out is the caller's: dlb_message_free. Lifetime: until then; tensors
 * live on. Threads: any, one at a time per message. On error: *out is NULL and no frame is released. */
DLB_API int32_t dlb_message_decode(dlb_message **out, const dlb_frame *frames, size_t count,
                                   uint64_t options, dlb_error *error);

/* The same from the single-part form, one frame.
 * Ownership, Lifetime, Threads, On error: as dlb_message_decode. */
DLB_API int32_t dlb_message_decode_packed(dlb_message **out, const dlb_frame *packed, uint64_t options,
                                   dlb_error *error);

/* One tensor of a message to be made: a view of its memory, and its metadata. */
typedef struct dlb_message_tensor {
  DLManagedTensorVersioned *tensor;
  dlb_bytes metadata;   /* a JSON object; size 0 for none */
  uint64_t reserved[4]; /* 0 */
} dlb_message_tensor;

/* What a message to be made says beside its tensors. */
typedef struct dlb_message_fields {
  dlb_header header;    /* form all zero: "TENS" */
  dlb_bytes label;      /* a JSON object whose attributes the label gets beside TENS; size 0 for none */
  dlb_bytes metadata;   /* TENS.metadata, a JSON object; size 0: {} */
  uint64_t reserved[4]; /* 0 */
} dlb_message_fields;

/* Makes a message of tensors. Row-major, permuted and reversed tensors without gaps are not copied:
 * their memory is the payload part; others are compacted (dlb_message_copied says which). `fields` may be
 * NULL.
 * Ownership: on success every tensor is taken over; one that is there twice is refused. *out is the
 * caller's: dlb_message_free. Lifetime: until then; frames taken out live on. Threads: any, one at a time
 * per message. On error: *out is NULL and all tensors are still the caller's. */
DLB_API int32_t dlb_message_encode(dlb_message **out, const dlb_message_fields *fields,
                                   const dlb_message_tensor *tensors, size_t count, dlb_error *error);

/* Makes a message of parts as they are; the label is any bytes.
 * Ownership: on success the parts are taken over. *out is the caller's: dlb_message_free. Lifetime: until
 * then. Threads: any, one at a time per message. On error: *out is NULL and no part is released. */
DLB_API int32_t dlb_message_encode_parts(dlb_message **out, const dlb_header *header, dlb_bytes label,
                                 const dlb_frame *parts, size_t count, dlb_error *error);

/* Level, form, origin, granule and seqno.
 * Ownership: a copy. Lifetime: none. Threads: any. On error: *out is zeroed. */
DLB_API int32_t dlb_message_header(dlb_header *out, const dlb_message *message, dlb_error *error);

/* The label's bytes, of any kind.
 * Ownership: the message's. Lifetime: until dlb_message_free. Threads: any. On error: *out is empty. */
DLB_API int32_t dlb_message_label(dlb_bytes *out, const dlb_message *message, dlb_error *error);

/* TENS.metadata as JSON text; data is NULL where the message has none. What dlb_message_encode was
 * given is given back as it came.
 * Ownership: the message's. Lifetime: until dlb_message_free. Threads: any. On error: *out is empty. */
DLB_API int32_t dlb_message_metadata(dlb_bytes *out, const dlb_message *message, dlb_error *error);

/* How many payload parts there are.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_part_count(const dlb_message *message);

/* How many tensors.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_tensor_count(const dlb_message *message);

/* Payload part `index` as a one-dimensional uint8 tensor that aliases it.
 * Ownership: *out is the caller's, a share of the part's memory. Lifetime: until its deleter, also after
 * dlb_message_free. Threads: any. On error: *out is NULL. */
DLB_API int32_t dlb_message_part(DLManagedTensorVersioned **out, const dlb_message *message, size_t index,
                                 dlb_error *error);

/* Tensor `index`, aliasing its part.
 * Ownership: *out is the caller's, a share of the part's memory. Lifetime: until its deleter, also after
 * dlb_message_free. Threads: any. On error: *out is NULL. */
DLB_API int32_t dlb_message_tensor_at(DLManagedTensorVersioned **out, const dlb_message *message,
                                      size_t index, dlb_error *error);

/* The metadata of tensor `index` as JSON text; data is NULL where it has none.
 * Ownership: the message's. Lifetime: until dlb_message_free. Threads: any. On error: *out is empty. */
DLB_API int32_t dlb_message_tensor_metadata(dlb_bytes *out, const dlb_message *message, size_t index,
                                            dlb_error *error);

/* Whether dlb_message_encode had to copy tensor `index`; 0 for messages that were read.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API int32_t dlb_message_copied(const dlb_message *message, size_t index);

/* How many frames the message has: prefix, header and the payload parts.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_frame_count(const dlb_message *message);

/* Frame `index`, ready to be sent: payloads are not copied.
 * Ownership: *out is the caller's, who calls out->release(out->ctx) once, unless a function that takes frames
 * takes it over. Lifetime: until then, also after dlb_message_free. Threads: any, release too. On error: *out
 * is zeroed. */
DLB_API int32_t dlb_message_frame(dlb_frame *out, const dlb_message *message, size_t index,
                                  dlb_error *error);

/* The single-part form: all frames in one piece of new memory.
 * Ownership, Lifetime, Threads, On error: as dlb_message_frame. */
DLB_API int32_t dlb_message_encode_packed(dlb_frame *out, const dlb_message *message, dlb_error *error);

/* Ends the caller's hold on a message. NULL is allowed.
 * Ownership: ends the caller's. Lifetime: the message must not be used again. Threads: any. On error:
 * what is no message, or not any more, is left alone. */
DLB_API void dlb_message_free(dlb_message *message);

/* ---- values: the tensors of Decthings and TensorFlow ------------------------------------------
 *
 * Numbers and booleans are tensors; what DLPack has no type for, such as strings and images, are elements.
 * A frame is aliased wherever its numbers are aligned to what they need there.
 *
 * All of these functions but dlb_elements_free need Go: in a forked child they answer DLB_ERROR_FORKED.
 */

/* A tensor whose elements DLPack has no type for. To be written it may be filled in by hand. */
typedef struct dlb_elements {
  dlb_bytes type;           /* the format's own name: "string", "image", "qint8" */
  int32_t ndim;
  const int64_t *shape;
  size_t count;             /* as many as the product of the shape */
  const dlb_bytes *values;  /* the bytes of each element, row-major */
  const dlb_bytes *formats; /* of images, audio and video ("png", "mp3"); NULL for all other types */
  uint64_t reserved[4];     /* 0 */
} dlb_elements;

/* Ends elements that were read, and so their hold on the frame. NULL is allowed.
 * Ownership: ends the caller's. Lifetime: elements and values must not be used again. Threads: any. On
 * error: what was not read, or is freed already, is left alone. */
DLB_API void dlb_elements_free(dlb_elements *elements);

/* One of the two, the other is NULL; or neither, where there was nothing to read. */
typedef struct dlb_value {
  DLManagedTensorVersioned *tensor; /* what was read: dlb_tensor_release */
  dlb_elements *elements;           /* what was read: dlb_elements_free */
  size_t size;                      /* read: the bytes that it has in the frame */
  int32_t copied;                   /* read: the tensor has memory of its own, and IS_COPIED */
  uint64_t reserved[4];             /* 0 */
} dlb_value;

/* How Decthings writes types of variable size (strings, binaries and media). It cannot be told from the
 * bytes; numbers and booleans are the same in all. */
enum {
  DLB_DECTHINGS_DOC = 0,   /* the published document */
  DLB_DECTHINGS_PY004 = 1, /* the Python client up to 0.0.4, the Rust crate up to 0.1.3 */
  DLB_DECTHINGS_RS015 = 2  /* the Rust crate from 0.1.4 */
};

/* Reads a frame that is one tensor of Decthings.
 * Ownership: on success the frame is the value's, and released once, when nothing needs it; *out is the
 * caller's. Lifetime: until the tensor's deleter, or dlb_elements_free. Threads: any. On error: *out is
 * zeroed and the frame is not released. */
DLB_API int32_t dlb_decthings_decode(dlb_value *out, const dlb_frame *frame, int32_t dialect,
                                     dlb_error *error);

/* Reads tensors that stand in a frame one after another, from `offset` on, into `count` values: as many as
 * one call is good for, and at least one unless the frame ends there. The values behind the last one are
 * zeroed; the next call's offset is this one's and the size of each value. A malformed tensor behind good
 * ones is the next call's error.
 * Ownership: on success the frame is that of the values, and released once, when none needs it; the values
 * are the caller's. Lifetime, Threads: as dlb_decthings_decode. On error: all values are zeroed and the
 * frame is not released. */
DLB_API int32_t dlb_decthings_decode_batch(dlb_value *out, size_t count, const dlb_frame *frame,
                                      size_t offset, int32_t dialect, dlb_error *error);

/* Writes a tensor, in any layout, or elements into the `room` bytes at `data`, and the number of bytes to *out.
 * `data` NULL and `room` 0 ask for that number only. The payload of a tensor is what the bytes end with: whoever
 * places those so that it is aligned can have it read without a copy. A tensor may lie in the buffer, elements
 * must not.
 * Ownership: value and data stay the caller's. Lifetime: none. Threads: any, while nobody writes to the
 * tensor. On error: after DLB_ERROR_ROOM *out is the number of bytes that are needed, and the buffer is
 * unchanged; after any other error *out is 0, and the contents of the buffer are undefined. */
DLB_API int32_t dlb_decthings_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                                     int32_t dialect, dlb_error *error);

/* Whether rules (a JSON object: DecthingsTensorRules) allow a value: DLB_OK, DLB_ERROR_DTYPE or
 * DLB_ERROR_LAYOUT. Only type and shape of it are looked at. Rules that are none are DLB_ERROR_ARGUMENT.
 * Ownership: borrowed. Lifetime: the call. Threads: any. On error: the message names the rule. */
DLB_API int32_t dlb_decthings_check(dlb_bytes rules, const dlb_value *value, dlb_error *error);

/* Options of dlb_tensorflow_decode. With DLB_TENSORFLOW_LENIENT it reads as TensorFlow's C++ does: it ignores values behind
 * the last element and the content of a tensor without elements, keeps the low bits of integers that are out of range,
 * and takes the dimensions that are given where the rank is said to be unknown. */
#define DLB_TENSORFLOW_LENIENT ((uint64_t)1)
#define DLB_TENSORFLOW_INTEGERS ((uint64_t)2) /* quantised numbers as tensors of integers */
/* How many bytes a tensor may take that says only some of its values; the last one then stands for all that
 * follow. Up to 2^47 bytes; 0, the default, is 64 MiB. An element that is one of dlb_elements counts as 24 bytes
 * beside its own: strings, resources and variants, whose bytes are those of the frame, and quantised numbers. */
#define DLB_TENSORFLOW_LIMIT(bytes) ((uint64_t)(bytes) << 16)

/* Reads a frame that is a TensorProto.
 * Ownership, Lifetime, Threads, On error: as dlb_decthings_decode. */
DLB_API int32_t dlb_tensorflow_decode(dlb_value *out, const dlb_frame *frame, uint64_t options,
                                      dlb_error *error);

/* Options of dlb_tensorflow_encode: without FIELDS and CONTENT, which exclude each other, elements of a fixed
 * size are written in tensor_content and all others in their field. */
#define DLB_TENSORFLOW_FIELDS ((uint64_t)1)  /* the field of the type, as AsProtoField */
#define DLB_TENSORFLOW_CONTENT ((uint64_t)2) /* tensor_content, as AsProtoTensorContent */
#define DLB_TENSORFLOW_PAD ((uint64_t)4)     /* elements at a multiple of 64 bytes from `data` on */

/* Writes a tensor, in any layout, or elements as a TensorProto into the `room` bytes at `data`, as
 * dlb_decthings_encode does. A tensor with FIELDS, or with packed elements, is copied for the time of the call, also where
 * only the size is asked for.
 * Ownership, Lifetime, Threads, On error: as dlb_decthings_encode. */
DLB_API int32_t dlb_tensorflow_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                                      uint64_t options, dlb_error *error);

/* ---- counters -------------------------------------------------------------------------------- */

/* What is alive in this process. A forked child counts what C made only. Later versions add counters. */
typedef struct dlb_counters {
  int64_t exports;         /* tensors and frames handed out, and not yet released */
  int64_t imports;         /* memory taken over, and not yet given back */
  int64_t messages;        /* not freed */
  uint64_t double_deletes; /* releases of tensors and frames that came twice, or too late, and were ignored */
  int64_t elements;        /* not freed */
} dlb_counters;

/* Reads the counters. `size` is sizeof(dlb_counters) in the program: no more bytes than that are written. Counters
 * that this library does not have are 0.
 * Ownership: none. Lifetime: none. Threads: any. On error: cannot fail; NULL is left alone. */
DLB_API void dlb_counters_read(dlb_counters *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
