/* dlbridge.h: the C interface of dlbridge, for C99 and C++11.
 *
 *   #include <dlbridge.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     const DLDataType float32 = {kDLFloat, 32, 1};
 *     const int64_t shape[] = {2, 3};
 *     DLManagedTensorVersioned *x;
 *     dlb_error error;
 *     if (dlb_tensor_alloc(&x, float32, 2, shape, &error) != DLB_OK) return puts(error.message), 1;
 *     float *elements = (float *)x->dl_tensor.data;
 *     elements[5] = 42; // row 1, column 2
 *     printf("%d dimensions, last element %g\n", (int)x->dl_tensor.ndim, elements[5]);
 *     dlb_tensor_release(x);
 *     return 0;
 *   }
 *
 * A producer owns memory and describes it; a consumer uses it. In this header, a tensor is a
 * DLManagedTensorVersioned of DLPack: a description of memory, and a deleter. The owner of a tensor
 * calls the deleter exactly once, with dlb_tensor_release. Several tensors, such as views, can
 * describe the same memory. The memory stays valid until the last of these tensors is released.
 *
 * The functions by topic:
 *
 *   Making and releasing tensors
 *     dlb_tensor_alloc             new memory, all zeros
 *     dlb_tensor_empty             new memory with undefined elements
 *     dlb_tensor_alloc_with        new memory from the program's allocator
 *     dlb_tensor_lend              a tensor on memory of the program
 *     dlb_tensor_import            takes over a tensor of another library
 *     dlb_tensor_from_legacy       takes over a tensor in the legacy form (before DLPack 1.0)
 *     dlb_tensor_to_legacy         converts a tensor to the legacy form
 *     dlb_tensor_share             another tensor on the same memory, for another owner
 *     dlb_tensor_release           releases a tensor: calls its deleter
 *   Copying and comparing elements
 *     dlb_tensor_copy              a copy in new row-major memory
 *     dlb_tensor_contiguous        a view if the tensor is row-major, otherwise a row-major copy
 *     dlb_tensor_convert           a copy with another data type
 *     dlb_tensor_copy_into         copies elements into another tensor, and converts them
 *     dlb_tensor_convert_scaled    copies, converts, scales and shifts elements
 *     dlb_tensor_fill              sets all elements to one value
 *     dlb_tensor_equal             do two tensors have equal types, shapes and elements?
 *   Describing tensors
 *     dlb_tensor_validate          is the description valid?
 *     dlb_tensor_count             the number of elements
 *     dlb_tensor_nbytes            the size of the elements in bytes
 *     dlb_tensor_is_contiguous     are the elements row-major, without gaps?
 *     dlb_tensor_address           the address of one element
 *     dlb_tensor_format            the type, the shape and the elements as text
 *   Views, which share the memory
 *     dlb_tensor_slice             a part of each dimension: x[1:3, -1]
 *     dlb_tensor_index             the part at the given indexes: x[i, j]
 *     dlb_tensor_transpose         the dimensions in another order
 *     dlb_tensor_reshape           another shape for the same elements
 *     dlb_tensor_broadcast_to      elements repeated to fill a shape
 *     dlb_tensor_flip              elements in reverse order along dimensions
 *     dlb_tensor_expand            dimensions of size 1 inserted
 *     dlb_tensor_squeeze           dimensions of size 1 removed
 *   Data types and devices
 *     dlb_dtype_bits               the number of bits of an element
 *     dlb_dtype_parse              reads a data type: "float32"
 *     dlb_dtype_format             writes a data type
 *     dlb_device_parse             reads a device: "cuda:0"
 *     dlb_device_format            writes a device
 *   Memory shared between processes
 *     dlb_shm_alloc                a tensor in a new segment, which other processes can map
 *     dlb_shm_copy                 copies a tensor into a new segment
 *     dlb_shm_is_shared            is a tensor in a segment?
 *     dlb_shm_readonly             a read-only view, through which no code can write
 *     dlb_shm_send                 sends tensors through a Unix socket
 *     dlb_shm_recv                 receives tensors through a Unix socket
 *     dlb_shm_offer                makes a handle, so that another process can fetch a tensor
 *     dlb_shm_fetch                fetches the tensor of a handle
 *     dlb_shm_attach               a tensor in a POSIX shared memory object with a given name
 *   Reading ZIO messages with tensors (libdlbridge)
 *     dlb_message_decode           reads a message of several frames
 *     dlb_message_decode_packed    reads a message in one frame
 *     dlb_message_decode_next      reads the next of several messages in one frame
 *     dlb_message_header           level, form, origin, granule and seqno
 *     dlb_message_label            the label, which describes the tensors
 *     dlb_message_metadata         the metadata of the message
 *     dlb_message_tensor_count     the number of tensors
 *     dlb_message_tensor_at        one of the tensors
 *     dlb_message_find             the index of the tensor with a given name
 *     dlb_message_tensor_name      the name of a tensor
 *     dlb_message_tensor_metadata  the metadata of a tensor
 *     dlb_message_tensor_part      the index of the payload part of a tensor
 *     dlb_message_copied           was a tensor copied?
 *     dlb_message_part_count       the number of payload parts
 *     dlb_message_part             one of the parts, as a tensor of bytes
 *     dlb_message_free             frees a message
 *   Writing ZIO messages with tensors (libdlbridge)
 *     dlb_message_encode           makes a message from tensors
 *     dlb_message_encode_parts     makes a message from a label and payload parts
 *     dlb_message_frame_count      the number of frames to send
 *     dlb_message_frame            one of the frames
 *     dlb_message_frames           all frames
 *     dlb_message_encode_packed    the message in one frame
 *     dlb_frames_release           releases frames
 *   Values: formats with one tensor in a message (libdlbridge)
 *     dlb_decthings_decode         reads a tensor of Decthings
 *     dlb_decthings_decode_batch   reads several tensors of Decthings in one frame
 *     dlb_decthings_encode         writes a tensor for Decthings
 *     dlb_decthings_check          checks a value's type and shape against rules of Decthings
 *     dlb_tensorflow_decode        reads a TensorProto
 *     dlb_tensorflow_encode        writes a TensorProto
 *     dlb_elements_free            frees decoded elements
 *   Files of tensors: safetensors, npy, npz and GGUF (libdlbridge)
 *     dlb_file_open                opens a file, or all files of an index of safetensors
 *     dlb_file_format              the format of a file
 *     dlb_file_count               the number of tensors
 *     dlb_file_at                  the name, type, shape and position of a tensor
 *     dlb_file_find                the index of the tensor with a given name
 *     dlb_file_tensor_at           a tensor in the memory of the file
 *     dlb_file_copy                a copy of a tensor in new memory
 *     dlb_file_metadata            the metadata of the file
 *     dlb_file_verify              checks that the file has not changed since it was opened
 *     dlb_file_sync                writes changes of a writable file to the disk
 *     dlb_file_close               closes a file
 *     dlb_file_write               writes a file
 *   The library itself
 *     dlb_version                  the version
 *     dlb_error_name               the name of an error code
 *     dlb_counters_read            how many objects are live
 *     dlb_ledger_set               switches the ledger of live objects on or off
 *     dlb_ledger_write             lists the live objects, and the calls that made them
 *
 * Results and errors. Every function that can fail returns DLB_OK or a positive code. A function
 * with an output has `out` as its first argument, and writes the output to *out. After an error,
 * the caller still owns all arguments, and *out is NULL or zero. Only after DLB_ERROR_ROOM, *out is
 * the required size (see Buffers). The function describes the error in `error`, which belongs to
 * the caller and may be NULL.
 *
 * Comments. The comment of each function ends with these four labels, or names a function whose
 * comment has them:
 *
 * - Ownership: who owns arguments and results. A function uses a borrowed argument only during the
 *   call. An argument that was taken over belongs to the library or to the result. The caller must
 *   no longer use or release the argument. The caller must release everything that the caller owns.
 * - Lifetime: how long the result may be used.
 * - Threads: on which threads, and when, the function may be called.
 * - On error: the state after an error, and the meaning of the codes in this function. Every
 *   function may also return DLB_ERROR_MEMORY, and codes for invalid arguments, such as
 *   DLB_ERROR_NULL.
 *
 * Buffers. Some functions fill a buffer of the caller. `data` is the address of the buffer, and
 * `room` is its size in bytes. The function sets *out to the number of bytes written. If the buffer
 * is too small, the function returns DLB_ERROR_ROOM, sets *out to the required size, and leaves the
 * buffer unchanged. If `data` is NULL and `room` is 0, the function returns DLB_OK and sets *out to
 * the required size.
 *
 * Structures. Some structures end with reserved words. A program must initialise these structures,
 * for example with `= {0}` (`= {}` in C++).
 *
 * Linking. Each section of this header names the library that has the functions of the section.
 * libdlbridge_tensor is plain C; link with -ldlbridge_tensor. libdlbridge adds messages, values and
 * files; link with -ldlbridge -ldlbridge_tensor. Loading libdlbridge starts the Go runtime and its
 * threads.
 *
 * Output. The library prints only the ledger and reports of repeated releases. It prints the ledger
 * if DLBRIDGE_LEDGER is in the environment, or if the program calls dlb_ledger_write. It reports
 * repeated releases if a tool such as valgrind checks the program (see the section on the ledger).
 *
 * Further rules are at the end of this header: libraries, invalid input, released objects,
 * structures and versions, release functions, memory, stacks, Go plugins, and requirements of Go.
 */
#ifndef DLBRIDGE_H_
#define DLBRIDGE_H_

#include "dlpack/dlpack.h" /* always installed beside this header */
#include <stddef.h>
#include <stdint.h>

/* Casts for the macros below. In C++, a template avoids warnings about C casts (-Wold-style-cast)
 * and about casts of a value to its own type (-Wuseless-cast). */
#ifdef __cplusplus
template <class T, class From>
constexpr T dlb_cast(From x) {
  return static_cast<T>(x);
}
#define DLB_CAST(T, x) dlb_cast<T>(x)
#else
#define DLB_CAST(T, x) ((T)(x))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLB_API
#if defined(__GNUC__)
#define DLB_API __attribute__((visibility("default")))
#else
#define DLB_API
#endif
#endif

/* Marks functions that return a code. The compiler warns if a call ignores the code. */
#ifndef DLB_NODISCARD
#if (defined(__cplusplus) && __cplusplus >= 201703L) || \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define DLB_NODISCARD [[nodiscard]]
#elif defined(__GNUC__)
#define DLB_NODISCARD __attribute__((warn_unused_result))
#else
#define DLB_NODISCARD
#endif
#endif

/* If `call` returns a code other than DLB_OK, the enclosing function returns this code.
 *
 *   int32_t twice(DLManagedTensorVersioned **out, const char *name, dlb_error *error) {
 *     const int64_t shape[] = {2};
 *     DLDataType dtype;
 *     *out = NULL;
 *     DLB_TRY(dlb_dtype_parse(&dtype, name, error));
 *     return dlb_tensor_alloc(out, dtype, 1, shape, error);
 *   }
 *
 * The macro does not release objects that the enclosing function owns. */
#define DLB_TRY(call)                                  \
  do {                                                 \
    const int32_t dlb_try_code_ = (call);              \
    if (dlb_try_code_ != DLB_OK) return dlb_try_code_; \
  } while (0)

/* ---- version and errors -----------------------------------------------------------------------
 *
 * Library: libdlbridge_tensor.
 */

/* The version of the interface. The SONAME of the library has the same major number. A release
 * raises the major number if it breaks programs that were built with an earlier release. It raises
 * the minor number if it adds something. */
#define DLB_VERSION_MAJOR 0
#define DLB_VERSION_MINOR 1
#define DLB_VERSION_PATCH 0

enum {
  DLB_OK = 0,
  DLB_ERROR_NULL = 1,      /* a pointer that must not be NULL is NULL */
  DLB_ERROR_VERSION = 2,   /* a DLPack major version other than 1 */
  DLB_ERROR_DTYPE = 3,     /* a data type that the format or DLPack lacks */
  DLB_ERROR_DEVICE = 4,    /* memory that the host cannot read */
  DLB_ERROR_LAYOUT = 5,    /* invalid or unsupported rank, shape or strides; overlapping memory */
  DLB_ERROR_OVERFLOW = 6,  /* a size above 2^63-1, or a host address outside 4096 to 2^63-1 */
  DLB_ERROR_READONLY = 7,  /* read-only memory that must be writable, or that the legacy form
                              cannot represent; or a segment that was first handed over with the
                              opposite permission */
  DLB_ERROR_UNALIGNED = 8, /* an address that is not aligned to its type */
  DLB_ERROR_MEMORY = 9,    /* memory cannot be allocated */
  DLB_ERROR_FORMAT = 10,   /* malformed input */
  DLB_ERROR_ARGUMENT = 11, /* an index out of range, or an invalid value or object */
  DLB_ERROR_FORKED = 12,   /* a forked child called a function that needs Go; use spawn or exec */
  DLB_ERROR_INTERNAL = 13, /* a defect of this library, or a panic in Go code of the program */
  DLB_ERROR_ROOM = 14,     /* the caller's buffer is too small; *out is the required size */
  DLB_ERROR_FUNCTION = 15, /* a function of the program failed: a Go function that calls Serve of
                              package capi, or progress of dlb_file_fields */
  DLB_ERROR_SYSTEM = 16,   /* the operating system has refused a request; see the message */
  DLB_ERROR_CLOSED = 17,   /* the peer has closed the connection, or no longer offers the segment */
  DLB_ERROR_METADATA = 18  /* a tensor of a message is only metadata, and has no elements */
};

/* The code and text of an error. The text ends with a NUL, and is truncated if it is too long.
 * After a panic in Go, the text continues with the call stack, innermost call first, as far as
 * there is room. Each call is a line "  in FUNCTION (FILE:LINE)". The caller frees nothing. */
typedef struct dlb_error {
  int32_t code;
  char message[508];
} dlb_error;

/* Returns the version of the library, "MAJOR.MINOR.PATCH".
 * Ownership: static. Lifetime: the process. Threads: any. On error: cannot fail. */
DLB_API const char *dlb_version(void);

/* Returns the short name of a code: "ok", "dtype", ...
 * Ownership: static. Lifetime: the process. Threads: any. On error: "unknown" for a number that is
 * not a code. */
DLB_API const char *dlb_error_name(int32_t code);

/* ---- tensors ----------------------------------------------------------------------------------
 *
 * Library: libdlbridge_tensor.
 *
 * These functions return tensors with byte_offset 0 if the host can read the memory. `data` is then
 * the address of the element with all indices 0, or NULL if there are no elements. New memory is
 * aligned to 256 bytes. Memory that was lent, or is part of a message, keeps its alignment;
 * dlb_tensor_copy makes an aligned copy.
 *
 * In these comments, READ_ONLY, IS_COPIED and IS_SUBBYTE_TYPE_PADDED are bits of `flags`. Their
 * full names in dlpack.h begin with DLPACK_FLAG_BITMASK_. IS_COPIED means that the function has
 * copied the elements into new memory, which only the caller holds. Every function of this header
 * that returns a copy sets IS_COPIED. Views of a copy do not have this flag.
 */

/* Allocates a row-major tensor of zeros on the CPU, aligned to 256 bytes.
 * Ownership: the caller owns *out and calls its deleter once. Lifetime: until the deleter is
 * called. Threads: any, also for the deleter. On error: *out is NULL. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                                 const int64_t *shape, dlb_error *error);

/* Allocates a tensor as dlb_tensor_alloc does, but its elements are undefined until the program has
 * written them.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_alloc. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_empty(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                                 const int64_t *shape, dlb_error *error);

/* An allocator of the program, for dlb_tensor_alloc_with. `allocate` returns a block of `size`
 * bytes, or NULL if there is no memory. `size` is more than 0, and the block may have any contents.
 * `free` frees the block. The library passes `ctx` to both functions. It may call them on any
 * thread, and on several threads at the same time. */
typedef struct dlb_allocator {
  void *(*allocate)(void *ctx, size_t size);
  void (*free)(void *ctx, void *memory, size_t size);
  void *ctx;
} dlb_allocator;

/* Allocates a tensor of zeros as dlb_tensor_alloc does, but in memory of `allocator`. The allocator
 * decides the alignment. JAX and TVM share only memory that is aligned to 256 bytes; they copy or
 * refuse other memory. A tensor without elements needs no memory.
 * Ownership: the caller owns *out. The library copies the struct `allocator`. The thread that
 * releases the last tensor on the memory calls allocator->free once. Lifetime: until the deleter is
 * called. Threads: any, also for the deleter. On error: *out is NULL, and all allocated memory is
 * freed. The code is DLB_ERROR_MEMORY if `allocate` returned NULL. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_alloc_with(DLManagedTensorVersioned **out, DLDataType dtype,
                                      int32_t ndim, const int64_t *shape,
                                      const dlb_allocator *allocator, dlb_error *error);

/* Lends memory of the caller to the library, and returns a tensor on this memory. `view` describes
 * the memory; the function copies its shape and strides. `strides` counts elements; NULL means
 * row-major. The device must be set: {kDLCPU, 0} for memory of the host. `flags` are
 * DLPACK_FLAG_BITMASK_* bits. The thread that releases the last tensor on the memory calls
 * release(ctx) once. `release` may be NULL.
 * Ownership: the library uses the memory until it calls release(ctx); the caller owns *out.
 * Lifetime: until the deleter of *out is called. Threads: any. On error: *out is NULL and release
 * is not called. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_lend(DLManagedTensorVersioned **out, const DLTensor *view,
                                uint64_t flags, void (*release)(void *ctx), void *ctx,
                                dlb_error *error);

/* Takes over a tensor of another library, and returns a tensor of this library on the same memory.
 * The program can make views of the result.
 * Ownership: on success, *out takes over `tensor`. Lifetime: until the deleter of *out is called.
 * Threads: any. On error: *out is NULL and the caller still owns `tensor`. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_import(DLManagedTensorVersioned **out, DLManagedTensorVersioned *tensor,
                                  dlb_error *error);

/* Copies a tensor into new row-major memory. The copy has the flag IS_COPIED.
 * Ownership: `tensor` is borrowed; the caller owns *out. Lifetime: until the deleter of *out is
 * called. Threads: any, as long as no thread writes to the tensor. On error: *out is NULL;
 * DLB_ERROR_DEVICE for memory that the host cannot read. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_copy(DLManagedTensorVersioned **out,
                                const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Returns a row-major tensor without gaps: a view if `tensor` is row-major already, otherwise a
 * copy with the flag IS_COPIED. A view has the address of `tensor`, which may be unaligned;
 * dlb_tensor_copy always makes an aligned copy. If `tensor` is row-major, it must belong to this
 * library, as for all views (see below).
 * Ownership: `tensor` is borrowed; the caller owns *out. Lifetime: until the deleter of *out is
 * called. Threads: any, as long as no thread writes to the tensor or releases it. On error: *out is
 * NULL. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_contiguous(DLManagedTensorVersioned **out,
                                      const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Copies a tensor into new row-major memory, and converts the elements to another data type with
 * the same number of lanes. From float to float, the result is the nearest number of the new type.
 * From float to integer, the fraction is dropped, and NaN becomes 0. A number outside the range of
 * the new type becomes the nearest number in the range. From float to an integer of fewer than 8
 * bits, the number becomes an int32, or 0 if an int32 cannot hold it; then the high bits are
 * dropped. From integer to integer, the high bits are dropped. To bool, 0 becomes false, and every
 * other number, including NaN, becomes true. From complex to real, the imaginary part is dropped.
 * The copy has the flag IS_COPIED.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_copy; DLB_ERROR_DTYPE for types that are
 * not numbers, or that have different numbers of lanes. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_convert(DLManagedTensorVersioned **out,
                                   const DLManagedTensorVersioned *tensor, DLDataType dtype,
                                   dlb_error *error);

/* Copies the elements of `src` into the memory of `dst`, as `dst[...] = src` does in NumPy. Both
 * tensors may have any layout. The function repeats `src` to fill the shape of `dst`, as
 * dlb_tensor_broadcast_to does. It converts the elements to the data type of `dst`, as
 * dlb_tensor_convert does. To write to a part of a tensor, pass a view of the part as `dst`. To
 * write to a buffer of the program, first make a tensor on the buffer: call dlb_tensor_lend with
 * `release` NULL.
 * Ownership: both tensors are borrowed; the description of `dst` does not change. Lifetime: the
 * call. Threads: any, as long as no other thread writes to `src` or uses the elements of `dst`. On
 * error: nothing is written. The codes are:
 *
 * - DLB_ERROR_READONLY: `dst` is read-only.
 * - DLB_ERROR_LAYOUT: the shapes do not fit, or elements of `dst` overlap each other.
 * - DLB_ERROR_LAYOUT: `src` and `dst` share memory, or may share memory. Two cases are allowed:
 *   both tensors are the same elements in memory, or `src` has one element. dlb_tensor_copy makes a
 *   separate `src`. If the elements of both tensors alternate in memory and share no byte, the
 *   tensors must have the same type and strides, or be in different columns of one matrix.
 * - DLB_ERROR_DTYPE: as for dlb_tensor_convert.
 * - DLB_ERROR_DEVICE: the host cannot use the memory. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_copy_into(const DLManagedTensorVersioned *dst,
                                     const DLManagedTensorVersioned *src, dlb_error *error);

/* Like dlb_tensor_copy_into, copies the elements of `src` into the memory of `dst`, but writes x *
 * scale + shift in place of each number x. `scales` is the number of scales: 0, 1, or the size of
 * dimension `axis` of `dst`. With 0, the numbers are not scaled. A single scale applies to all
 * elements. Otherwise, each index of the dimension has its own scale. The same rules apply to
 * `shifts`. A negative axis counts from the end. This code normalises images of shape (n, height,
 * width, 3) by the mean and the standard deviation of each channel:
 *
 *     double scale[3], shift[3];
 *     for (int i = 0; i < 3; i++) scale[i] = 1 / (255 * std[i]), shift[i] = -mean[i] / std[i];
 *     code = dlb_tensor_convert_scaled(floats, images, -1, 3, scale, 3, shift, &error);
 *
 * The result has the same bits on every machine. The function computes in float32 if `src` has
 * bools, integers of at most 16 bits or floats of at most 32 bits. Otherwise it computes in
 * float64. It rounds x, scale and shift to this type, then the product, then the sum. It converts
 * the sum as dlb_tensor_convert does. If the sum is NaN, its sign and payload are lost.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_copy_into, with these differences. `src`
 * and `dst` must not be the same elements in memory, unless there is only one element. The code is
 * also DLB_ERROR_ARGUMENT for an axis that `dst` lacks, DLB_ERROR_LAYOUT for a wrong number of
 * scales or shifts, or DLB_ERROR_DTYPE for complex numbers. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_convert_scaled(const DLManagedTensorVersioned *dst,
                                          const DLManagedTensorVersioned *src, int32_t axis,
                                          int64_t scales, const double *scale, int64_t shifts,
                                          const double *shift, dlb_error *error);

/* Sets every element of `dst` to the element at `value`. This element has the data type `dtype`;
 * the function converts it as dlb_tensor_convert does. For `double half = 0.5`, pass
 * `(DLDataType){kDLFloat, 64, 1}` and `&half`. A value of fewer than 8 bits is in the low bits of a
 * byte. `value` need not be aligned, and may point into the memory of `dst`.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_copy_into. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_fill(const DLManagedTensorVersioned *dst, DLDataType dtype,
                                const void *value, dlb_error *error);

/* For dlb_tensor_equal: NaN equals NaN. */
#define DLB_EQUAL_NAN UINT64_C(1)

/* Sets *out to 1 if two tensors have the same data type, the same shape and equal elements,
 * otherwise to 0. Their layouts and flags do not matter. 0 equals -0. With DLB_EQUAL_NAN in
 * `flags`, NaN equals NaN; otherwise NaN equals nothing. The function compares the two parts of a
 * complex number separately.
 * Ownership: both tensors are borrowed. Lifetime: the call. Threads: any, as long as no thread
 * writes to the tensors. On error: *out is 0; DLB_ERROR_DTYPE for types that are not numbers;
 * DLB_ERROR_DEVICE for memory that the host cannot read. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_equal(int32_t *out, const DLManagedTensorVersioned *a,
                                 const DLManagedTensorVersioned *b, uint64_t flags,
                                 dlb_error *error);

/* Checks the description of a tensor: version, rank, shape, strides, data type, overflow and NULL
 * pointers. Does not access the memory of the tensor.
 * Ownership: `tensor` is borrowed. Lifetime: the call. Threads: any. On error: the code says what
 * is invalid. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_validate(const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Sets *out to the size of the elements in bytes, without gaps. Elements of fewer than 8 bits count
 * as packed. But if the tensor has the flag IS_SUBBYTE_TYPE_PADDED, each such element counts
 * as one byte.
 * Ownership: `tensor` is borrowed. Lifetime: the call. Threads: any. On error: *out is 0. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_nbytes(int64_t *out, const DLManagedTensorVersioned *tensor,
                                  dlb_error *error);

/* Sets *out to the number of elements, which is the product of all sizes in the shape.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_nbytes. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_count(int64_t *out, const DLManagedTensorVersioned *tensor,
                                 dlb_error *error);

/* Sets *out to 1 if the elements are row-major without gaps, or if there are no elements. Otherwise
 * sets *out to 0.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_nbytes. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_is_contiguous(int32_t *out, const DLManagedTensorVersioned *tensor,
                                         dlb_error *error);

/* Sets *out to the address of an element. `index` has the indexes of the element in the first
 * `count` dimensions; the indexes in all further dimensions are 0. Negative indexes count from the
 * end. The tensor may be READ_ONLY, and the address may be unaligned; the function checks neither.
 * Ownership: `tensor` is borrowed, and still owns the memory. Lifetime: until `tensor` is released.
 * Threads: any. On error: *out is NULL; DLB_ERROR_ARGUMENT for an index out of range, and for a
 * tensor without elements; DLB_ERROR_LAYOUT for a packed element that begins inside a byte;
 * DLB_ERROR_DEVICE for memory that the host cannot read. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_address(void **out, const DLManagedTensorVersioned *tensor,
                                   int32_t count, const int64_t *index, dlb_error *error);

/* Converts a tensor to the legacy form, which is older than DLPack 1.0. TensorFlow and ONNX Runtime
 * accept only this form. The legacy form cannot represent read-only tensors (DLB_ERROR_READONLY) or
 * tensors whose elements are padded to whole bytes (DLB_ERROR_DTYPE).
 * Ownership: on success, *out takes over `tensor`. Lifetime: until the deleter of *out is called.
 * Threads: any. On error: *out is NULL and the caller still owns `tensor`. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_to_legacy(DLManagedTensor **out, DLManagedTensorVersioned *tensor,
                                     dlb_error *error);

/* Converts a tensor from the legacy form. `flags` are flags to add, such as READ_ONLY, because the
 * legacy form has no flags.
 * Ownership: on success, *out takes over `tensor`. Lifetime: until the deleter of *out is called.
 * Threads: any. On error: *out is NULL and the caller still owns `tensor`. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_from_legacy(DLManagedTensorVersioned **out, DLManagedTensor *tensor,
                                       uint64_t flags, dlb_error *error);

/* Calls the deleter of the tensor, if the tensor has a deleter. NULL is allowed.
 * Ownership: the caller's ownership ends. Lifetime: the tensor must not be used again. Threads:
 * any. On error: if a tensor of this library was released or taken over before, the call has no
 * effect, but is counted in double_deletes. If a tool such as valgrind checks the program, the
 * library also reports the call on stderr (see the ledger). The function ignores a copy of the
 * struct of such a tensor. */
DLB_API void dlb_tensor_release(DLManagedTensorVersioned *tensor);

/* ---- views of tensors --------------------------------------------------------------------------
 *
 * Library: libdlbridge_tensor.
 *
 * A view is another tensor on the same memory; nothing is copied. A view keeps the memory alive
 * after the original tensor is released, and must be released too. A view of a READ_ONLY tensor is
 * READ_ONLY. Negative indexes and axes count from the end, as in NumPy. A view of packed elements
 * of fewer than 8 bits must be row-major without gaps, and must start at the beginning of a byte.
 * The code is DLB_ERROR_ARGUMENT for an index or axis that the tensor lacks, and DLB_ERROR_LAYOUT
 * for a shape that the elements cannot have. The tensor must belong to this library;
 * dlb_tensor_import takes over a tensor of another library.
 */

/* A subscript of dlb_tensor_slice: an index, a range, an ellipsis or a new axis. Programs use the
 * macros below. */
typedef struct dlb_index {
  int64_t start; /* the first index of a range, or the index of DLB_AT */
  int64_t stop;  /* the index after the last one */
  int64_t step;  /* not 0 */
  uint64_t kind; /* DLB_INDEX_START if start is given, plus DLB_INDEX_STOP if stop is given; or one
                    of the other values below */
} dlb_index;

#define DLB_INDEX_START UINT64_C(1)
#define DLB_INDEX_STOP UINT64_C(2)
#define DLB_INDEX_AT UINT64_C(4)
#define DLB_INDEX_ELLIPSIS UINT64_C(8)
#define DLB_INDEX_NEW_AXIS UINT64_C(16)

/* Initialisers of a dlb_index: `dlb_index rows[] = {DLB_RANGE(1, 3), DLB_AT(-1)}` is [1:3, -1] in
 * Python. */
#define DLB_ALL {0, 0, 1, 0}                                    /* : */
#define DLB_AT(i) {DLB_CAST(int64_t, i), 0, 1, DLB_INDEX_AT}    /* i; removes the dimension */
#define DLB_FROM(i) {DLB_CAST(int64_t, i), 0, 1, DLB_INDEX_START} /* i: */
#define DLB_UNTIL(i) {0, DLB_CAST(int64_t, i), 1, DLB_INDEX_STOP} /* :i */
#define DLB_RANGE(a, b) DLB_RANGE_STEP(a, b, 1)                 /* a:b */
#define DLB_STEP(step) {0, 0, DLB_CAST(int64_t, step), 0}       /* ::step */
#define DLB_RANGE_STEP(a, b, step)                                        \
  {DLB_CAST(int64_t, a), DLB_CAST(int64_t, b), DLB_CAST(int64_t, step), \
   DLB_INDEX_START | DLB_INDEX_STOP} /* a:b:step */
#define DLB_ELLIPSIS {0, 0, 1, DLB_INDEX_ELLIPSIS} /* ..., the remaining dimensions */
#define DLB_NEW_AXIS {0, 0, 1, DLB_INDEX_NEW_AXIS} /* None, a new dimension of size 1 */

/* Makes a view of all elements, for another owner of the memory.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_share(DLManagedTensorVersioned **out,
                                 const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Makes a view of a part of each dimension, by the rules of slices in Python. A dimension without
 * an index stays whole.
 * Ownership: `tensor` is borrowed; the caller owns *out. Lifetime: until the deleter of *out is
 * called; `tensor` may be released earlier. Threads: any, as long as no thread releases `tensor`
 * during the call. On error: *out is NULL. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_slice(DLManagedTensorVersioned **out,
                                 const DLManagedTensorVersioned *tensor, int32_t count,
                                 const dlb_index *index, dlb_error *error);

/* Makes a view of the part with the given indexes in the first `count` dimensions. The view lacks
 * these dimensions, as in x[i, j] of Python.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_index(DLManagedTensorVersioned **out,
                                 const DLManagedTensorVersioned *tensor, int32_t count,
                                 const int64_t *index, dlb_error *error);

/* Puts the dimensions into another order: dimension k of the view is dimension order[k] of the
 * tensor. `count` is the number of dimensions. With `count` 0 and `order` NULL, the function
 * reverses the order of the dimensions.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_transpose(DLManagedTensorVersioned **out,
                                     const DLManagedTensorVersioned *tensor, int32_t count,
                                     const int32_t *order, dlb_error *error);

/* Makes a view with another shape. The row-major order of the elements stays the same. One size may
 * be -1; the function computes this size from the others. If only a copy can have the shape, the
 * code is DLB_ERROR_LAYOUT; dlb_tensor_contiguous makes a copy that can be reshaped.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_reshape(DLManagedTensorVersioned **out,
                                   const DLManagedTensorVersioned *tensor, int32_t ndim,
                                   const int64_t *shape, dlb_error *error);

/* Makes a view of the given shape, in which elements are repeated. Dimensions are matched from the
 * last to the first. Dimensions of size 1 are repeated, and missing dimensions are added in front.
 * The view is READ_ONLY if several indexes refer to the same element.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_broadcast_to(DLManagedTensorVersioned **out,
                                        const DLManagedTensorVersioned *tensor, int32_t ndim,
                                        const int64_t *shape, dlb_error *error);

/* Reverses the order of the elements along the dimensions in `axes`, or along all dimensions if
 * `count` is 0.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_flip(DLManagedTensorVersioned **out,
                                const DLManagedTensorVersioned *tensor, int32_t count,
                                const int32_t *axes, dlb_error *error);

/* Inserts dimensions of size 1. `axes` are the positions of the new dimensions in the view.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_expand(DLManagedTensorVersioned **out,
                                  const DLManagedTensorVersioned *tensor, int32_t count,
                                  const int32_t *axes, dlb_error *error);

/* Removes the dimensions in `axes`, which must have size 1. If `count` is 0, the function removes
 * all dimensions of size 1.
 * Ownership, Lifetime, Threads, On error: as dlb_tensor_slice. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_squeeze(DLManagedTensorVersioned **out,
                                   const DLManagedTensorVersioned *tensor, int32_t count,
                                   const int32_t *axes, dlb_error *error);

/* ---- text -------------------------------------------------------------------------------------
 *
 * Library: libdlbridge_tensor.
 *
 * Data types and devices have the same names as in Go and Python. Each text ends with a NUL, and
 * *out includes this NUL.
 */

/* Returns the number of bits of an element with all its lanes: 4 for int4, 96 for float32x3.
 * Ownership: none. Lifetime: none. Threads: any. On error: cannot fail; the type is not checked. */
DLB_API int32_t dlb_dtype_bits(DLDataType dtype);

/* Reads a data type: "float32", "bfloat16", "float8_e4m3fn", "int4", "float32x4" with four lanes,
 * or a name of NumPy. NumPy's names are type strings, letters, and names of C types. The C types
 * have the sizes of 64-bit Linux. As in NumPy, "float" is float64 and "int" is int64.
 *
 *   int8: "i1" "b" "byte"               uint8: "u1" "B" "ubyte"
 *   int16: "i2" "h" "short"             uint16: "u2" "H" "ushort"
 *   int32: "i4" "i" "intc"              uint32: "u4" "I" "uintc"
 *   int64: "i8" "l" "q" "int" "long" "longlong" "intp"
 *   uint64: "u8" "L" "Q" "uint" "ulong" "ulonglong" "uintp"
 *   float16: "f2" "e" "half"            float32: "f4" "f" "single"
 *   float64: "f8" "d" "double" "float"  bool: "b1" "?"
 *   complex64: "c8" "F" "csingle"       complex128: "c16" "D" "cdouble" "complex"
 *
 * A type string or letter may begin with a byte order, as in "<f4". The function refuses a byte
 * order other than the machine's.
 * Ownership: `text` is borrowed. Lifetime: the call. Threads: any. On error: *out is zeroed. */
DLB_NODISCARD
DLB_API int32_t dlb_dtype_parse(DLDataType *out, const char *text, dlb_error *error);

/* Writes the name of a data type into the `room` bytes at `data`. If the type has no name, the text
 * is its three numbers.
 * Ownership: the caller keeps `data`. Lifetime: the call. Threads: any. On error: *out is the
 * required number of bytes after DLB_ERROR_ROOM, and 0 after any other error. */
DLB_NODISCARD
DLB_API int32_t dlb_dtype_format(size_t *out, char *data, size_t room, DLDataType dtype,
                                 dlb_error *error);

/* Reads a device: "cpu", "cuda:1", or "99:0" with the number of a type without a name. The names
 * come from dlpack.h, in lower case ("cuda_host"). The types 19 to 21, which this dlpack.h lacks,
 * are "tpu", "tpu_host" and "ascend". Without a colon, device_id is 0.
 * Ownership, Lifetime, Threads, On error: as dlb_dtype_parse. */
DLB_NODISCARD
DLB_API int32_t dlb_device_parse(DLDevice *out, const char *text, dlb_error *error);

/* Writes the name of a device: "cpu", "cuda:1".
 * Ownership, Lifetime, Threads, On error: as dlb_dtype_format. */
DLB_NODISCARD
DLB_API int32_t dlb_device_format(size_t *out, char *data, size_t room, DLDevice device,
                                  dlb_error *error);

/* Writes the type, the shape and the elements of a tensor in one line:
 * "float32[2 3] on cpu [[1 2 3] [4 5 6]]". Go prints the same words and numbers with %v, but each
 * row on its own line. If the tensor is not row-major, the strides follow the shape. If the tensor
 * is read-only, ", read-only" follows the device. A float64 is written as the shortest decimal that
 * reads back as the same float64. A narrower float is written as the shortest decimal that reads
 * back as the same float32. A number below 1e-4, or of at least 1e6, has an exponent. If a tensor
 * has more than 1000 elements, the text has the first three and last three elements of each
 * dimension, and at most 1000 elements in all. If a tensor has no elements, the text ends with "[]"
 * for every shape. The text has no elements if the host cannot read the memory, or if the elements
 * are not single numbers. A bool whose byte is not 0 or 1 is written as "?". The text does not
 * depend on the locale.
 * Ownership: `tensor` is borrowed; the caller keeps `data`. Lifetime: the call. Threads: any, as
 * long as no thread writes to the tensor. On error: as dlb_dtype_format. */
DLB_NODISCARD
DLB_API int32_t dlb_tensor_format(size_t *out, char *data, size_t room,
                                  const DLManagedTensorVersioned *tensor, dlb_error *error);

/* ---- shared memory ------------------------------------------------------------------------------
 *
 * Library: libdlbridge_tensor. Linux 5.1 or later. On other systems dlb_shm_is_shared sets *out to
 * 0, and the other functions return DLB_ERROR_SYSTEM.
 *
 * A segment is memory that several processes map. These functions make tensors in segments, and
 * hand tensors of any size to another process without a copy. A program sends the tensors through a
 * connected Unix socket, or sends a handle by any means. A handle is valid only on the same
 * machine, in the same network namespace. A segment is a file without a name (memfd_create). The
 * system frees a segment when no process uses it any more, even if processes were killed. Each
 * segment uses one descriptor in every process that has the segment. A tensor in a segment works
 * like any other tensor, and its views are in the same segment. The packages bridge/shm of Go and
 * dlbridge.shm of Python send and receive the same messages, and their handles have the same
 * fields. In these functions, a thread can be cancelled (pthread_cancel) only while it waits for a
 * socket. A cancelled thread leaves no descriptor and no mapping behind.
 *
 * The first hand-over of a segment, by dlb_shm_send or dlb_shm_offer, decides the permission of
 * other processes: to write with DLB_SHM_WRITABLE, otherwise only to read. If any process later
 * hands over a tensor of the segment with the opposite permission, the call fails with
 * DLB_ERROR_READONLY and sends nothing. So no call can change the permission of a message or offer
 * that has not yet arrived. dlb_shm_copy makes a tensor in a new segment, whose permission is still
 * undecided. A call of dlb_shm_send decides the permission even if the call times out or fails at
 * the socket. A call of dlb_shm_offer that fails does not decide.
 */

/* For dlb_shm_send and dlb_shm_offer: the receiver may write to the memory. */
#define DLB_SHM_WRITABLE UINT64_C(1)

/* Allocates a row-major tensor of zeros in a new segment.
 * Ownership, Lifetime, Threads: as dlb_tensor_alloc. On error: *out is NULL. DLB_ERROR_MEMORY also
 * means that the segment is larger than the memory of the machine (vm.overcommit_memory sets the
 * limit). DLB_ERROR_SYSTEM means that the process has too many descriptors, or that the file would
 * be larger than RLIMIT_FSIZE. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                              const int64_t *shape, dlb_error *error);

/* Copies a tensor into a new segment. The copy is row-major.
 * Ownership, Lifetime, Threads: as dlb_tensor_copy. On error: as dlb_shm_alloc. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_copy(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor,
                             dlb_error *error);

/* Sets *out to 1 if all elements of a tensor are in a segment, and to 0 otherwise. Any library of
 * the process may have made the segment. *out is 0 for a tensor without elements, and for a
 * broadcast with more bytes than its segment. *out is also 0 for memory that dlb_shm_attach has
 * mapped, because the object can become smaller. The function recognises segments of this library
 * immediately. For other memory the function asks the kernel, by a system call on a descriptor that
 * the process keeps open. Before Linux 6.11, the call takes some microseconds, but needs no
 * descriptor. For a segment of another library, the function also searches the descriptors of the
 * process. This takes about 2 microseconds for each open descriptor. Without /proc or a free
 * descriptor, the function recognises only segments of this library.
 * Ownership: `tensor` is borrowed. Lifetime: the call. Threads: any. On error: *out is 0. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_is_shared(int32_t *out, const DLManagedTensorVersioned *tensor,
                                  dlb_error *error);

/* Maps the memory of a tensor once more, without write permission, and returns a read-only tensor
 * in the new mapping. A write to this mapping ends the process (SIGSEGV). The memory must be in a
 * segment, or in a file that was mapped with MAP_SHARED. The tensor must belong to this library
 * (see dlb_tensor_import).
 * Ownership: *out keeps the memory alive; the caller still owns `tensor`. Lifetime: until the
 * deleter of *out is called. Threads: any. On error: *out is NULL. The code is DLB_ERROR_ARGUMENT
 * for private memory, which dlb_shm_copy can copy into a segment. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_readonly(DLManagedTensorVersioned **out,
                                 const DLManagedTensorVersioned *tensor, dlb_error *error);

/* Sends tensors, which must be in segments, to a process that calls dlb_shm_recv. `fd` is a
 * connected Unix socket of the type SOCK_STREAM, blocking or non-blocking. If the other side does
 * not read, the call waits at most `timeout_ms` milliseconds in all; INT64_MAX means no limit. The
 * timeouts of the socket itself have no effect. Without DLB_SHM_WRITABLE in `flags`, the receiver
 * cannot write, and no process can make new writable mappings of these segments. Older writable
 * mappings, such as the sender's, stay writable. The first hand-over of a segment decides whether
 * others may write to it (see above).
 * Ownership: the caller keeps `fd` and the tensors, and may release the tensors after the call.
 * Lifetime: the call. Threads: any, but only one at a time in each direction of a socket. On error:
 *
 * - DLB_ERROR_ARGUMENT: a tensor is not in a segment, the socket has another family or type, or
 *   `timeout_ms` is 0 or less.
 * - DLB_ERROR_LAYOUT: a broadcast has more bytes than its segment.
 * - DLB_ERROR_READONLY: a read-only tensor was passed with DLB_SHM_WRITABLE, or a segment was first
 *   handed over with the opposite permission. Nothing was sent. No permission was decided either,
 *   unless another thread or process handed over one of several segments during the call.
 * - DLB_ERROR_OVERFLOW: the tensors are in more than 253 segments, or a message of 1 MiB cannot
 *   describe all tensors.
 * - DLB_ERROR_CLOSED, DLB_ERROR_SYSTEM (also after a timeout) or DLB_ERROR_MEMORY: close the
 *   socket, because a part of the message may have been sent. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_send(int32_t fd, DLManagedTensorVersioned *const *tensors, size_t count,
                             int64_t timeout_ms, uint64_t flags, dlb_error *error);

/* Receives the tensors of one dlb_shm_send into the `room` entries at `tensors`, and sets *out to
 * their number. `fd` and `timeout_ms` are as for dlb_shm_send: the whole message must arrive before
 * the timeout. A peer that sends one byte can make this process hold 253 descriptors until the
 * timeout or the end of the message. The function checks the sizes and permissions in the message
 * against those of the kernel. It copies each file that another process can make smaller, and maps
 * all other files. It refuses a message whose copies need more than `copy_unsealed` bytes in all.
 * Entries without a tensor become NULL.
 * Ownership: the caller owns the tensors; a segment stays mapped until the last of its tensors is
 * released. Lifetime: until their deleters are called. Threads: as dlb_shm_send. On error: all
 * entries are NULL, no mapping or descriptor remains, and *out is 0. After an error other than
 * DLB_ERROR_ROOM, close the socket. The codes are:
 *
 * - DLB_ERROR_ROOM: there are more than `room` tensors. The tensors are lost, and *out is their
 *   number.
 * - DLB_ERROR_CLOSED: the connection has ended, perhaps in the middle of a message.
 * - DLB_ERROR_SYSTEM: a system call failed, or the call timed out.
 * - DLB_ERROR_FORMAT: the first bytes do not begin a message. The function does not wait for more.
 * - DLB_ERROR_ARGUMENT, _LAYOUT, _OVERFLOW or _READONLY: dlb_shm_send does not write such a
 *   message. DLB_ERROR_ARGUMENT also means a wrong socket or `timeout_ms`, as for dlb_shm_send.
 * - DLB_ERROR_MEMORY: memory cannot be allocated, or the segments of other processes would take
 *   more than a quarter of the address space (RLIMIT_AS, or 47 bits). */
DLB_NODISCARD
DLB_API int32_t dlb_shm_recv(size_t *out, DLManagedTensorVersioned **tensors, size_t room,
                             int32_t fd, uint64_t copy_unsealed, int64_t timeout_ms,
                             dlb_error *error);

/* A handle, with which another process fetches a segment. A program sends the handle as a struct,
 * or field by field. In Go and Python, a handle is the JSON object {"socket": ..., "token": ...,
 * "offset": ..., "size": ..., "readonly": true}. */
typedef struct dlb_shm_handle {
  char socket[48];   /* a string: the name of an abstract Unix socket, without the leading NUL */
  char token[40];    /* a string of 32 hexadecimal digits; can be used once */
  uint64_t offset;   /* the byte position in the segment of the element with all indices 0 */
  uint64_t size;     /* the size of the segment, in bytes */
  uint64_t readonly; /* 1: the segment can be mapped only for reading; 0: also for writing */
} dlb_shm_handle;

/* Sets *out to a handle of the segment of a tensor. A process of the same user, or this process
 * itself, can fetch the segment once with dlb_shm_fetch, Go or Python. The segment must be fetched
 * within `timeout_ms` milliseconds. `flags` is 0 or DLB_SHM_WRITABLE. Without DLB_SHM_WRITABLE, no
 * process can make new writable mappings of the segment, as after dlb_shm_send. The program must
 * send the handle, and also the data type, shape and strides of the tensor. During an offer, a
 * thread of the library answers fetches. This thread blocks all signals. A forked child does not
 * inherit the offers of its parent.
 * Ownership: the caller still owns `tensor`, and may release it, because the offer holds the
 * segment. Lifetime: until the segment is fetched, the time is over, or the process ends. Threads:
 * any. On error: *out is zero. The codes are those of dlb_shm_send except DLB_ERROR_CLOSED.
 * DLB_ERROR_LAYOUT is also returned for a tensor without elements. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_offer(dlb_shm_handle *out, const DLManagedTensorVersioned *tensor,
                              int64_t timeout_ms, uint64_t flags, dlb_error *error);

/* Returns a tensor in the segment of a handle. dlb_shm_offer, Go or Python has made the handle, in
 * this or another process. `view` describes the tensor as in dlb_tensor_lend, but its data and
 * byte_offset are ignored. `flags` are 0, DLPACK_FLAG_BITMASK_READ_ONLY or
 * DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED. If `readonly` of the handle is 1, the tensor is
 * always READ_ONLY. The function first checks the description against the size in the handle; if
 * this check fails, the handle can be used again. The function then fetches the segment, and checks
 * the description against the size that the kernel reports. `copy_unsealed` is the number of bytes
 * that may be copied, as for dlb_shm_recv.
 * Ownership: the caller owns *out; `handle` and `view` are borrowed. Lifetime: until the deleter of
 * *out is called. Threads: any. On error: *out is NULL, and no mapping or descriptor remains. The
 * codes are:
 *
 * - DLB_ERROR_CLOSED: the handle was used before, its time is over, or its process has ended or is
 *   in another network namespace.
 * - DLB_ERROR_ARGUMENT: dlb_shm_offer cannot have made the handle.
 * - DLB_ERROR_SYSTEM: the socket belongs to another user, or the process that made the socket has
 *   changed its user since then.
 * - DLB_ERROR_SYSTEM: no answer came within `timeout_ms` milliseconds.
 * - DLB_ERROR_SYSTEM: this user has too many file descriptors in transit (RLIMIT_NOFILE). The
 *   handle can be used again.
 * - DLB_ERROR_DTYPE, _DEVICE, _LAYOUT, _OVERFLOW or _READONLY: the description is invalid or does
 *   not fit the segment.
 * - DLB_ERROR_MEMORY: as for dlb_shm_recv. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_fetch(DLManagedTensorVersioned **out, const dlb_shm_handle *handle,
                              const DLTensor *view, uint64_t flags, uint64_t copy_unsealed,
                              int64_t timeout_ms, dlb_error *error);

/* For dlb_shm_attach: the tensor uses the memory of the object itself. If another process makes the
 * object smaller, an access to the missing part ends this process (SIGBUS). */
#define DLB_SHM_TRUST_PEER UINT64_C(1)

/* Returns a tensor from a POSIX shared memory object. Another program has made the object with
 * shm_open and the name `name`, as multiprocessing.shared_memory of Python does. The function
 * copies the elements, because the object can become smaller at any time. With DLB_SHM_TRUST_PEER
 * in `options`, the function copies nothing, and the tensor is writable unless `flags` has
 * READ_ONLY. The function looks up the name only in `directory`, and follows no links. For objects
 * of shm_open, `directory` is "/dev/shm". `view` describes the tensor as in dlb_tensor_lend, but
 * its data is ignored. Its byte_offset is the position of the element with all indices 0 in the
 * object. `flags` are the same as for dlb_shm_fetch. The library never removes the object. The
 * program that made the object may remove the name as soon as this call has returned.
 * Ownership: the caller owns *out; the strings and `view` are borrowed. Lifetime: until the deleter
 * of *out is called. Threads: any. On error: *out is NULL. The codes are:
 *
 * - DLB_ERROR_ARGUMENT: the name is empty or contains a slash, or the object is not a regular file.
 * - DLB_ERROR_SYSTEM: the object cannot be opened or is a link.
 * - DLB_ERROR_DTYPE, _DEVICE, _LAYOUT, _OVERFLOW or _READONLY: as for dlb_shm_fetch. */
DLB_NODISCARD
DLB_API int32_t dlb_shm_attach(DLManagedTensorVersioned **out, const char *directory,
                               const char *name, const DLTensor *view, uint64_t flags,
                               uint64_t options, dlb_error *error);

/* ---- messages: ZIO messages and the tensors in them (ZIO TENS, sections 2 and 3) ---------------
 *
 * Library: libdlbridge.
 *
 * The functions that decode and encode need Go; in a forked child they return DLB_ERROR_FORKED. All
 * other functions are plain C, and also work in a forked child.
 */

/* Bytes, and the function release(ctx) that gives them back. The owner of the frame calls release
 * once. When the library no longer needs the bytes of a frame that it has taken over, it calls
 * release, on any thread. A frame that the library has returned belongs to the caller, who calls
 * release or passes the frame on. If `release` is NULL, the bytes must stay valid until all objects
 * made from the frame are released. */
typedef struct dlb_frame {
  const void *data;
  size_t size;
  void (*release)(void *ctx);
  void *ctx;
  uint64_t flags;       /* DLB_FRAME_WRITABLE or 0 */
  uint64_t reserved[4]; /* 0 */
} dlb_frame;

/* Tensors on the frame may be written to. Without this flag they are READ_ONLY. */
#define DLB_FRAME_WRITABLE UINT64_C(1)

/* A message: level, form, label, header, payload parts, and the tensors that the label
 * describes. */
typedef struct dlb_message dlb_message;

/* The fields of fixed size in a message: its prefix header and coordinate header. */
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

/* Options of dlb_message_decode, dlb_message_decode_packed and dlb_message_decode_next. */
#define DLB_DECODE_MESSAGE_ONLY UINT64_C(1) /* skip the label; the message has no tensors */
#define DLB_DECODE_JOIN UINT64_C(2)         /* join each tensor in several parts, by a copy */

/* An option of every function that decodes: the maximum number of bytes that a call may use in
 * addition to the frames. A call that needs more fails with DLB_ERROR_FORMAT before it allocates
 * the memory. 0 means the default of the format. A limit above 2^47 - 1 counts as 2^47 - 1, which
 * is more than any process has. The macro evaluates its argument more than once. For a message,
 * each frame counts 128 bytes. A label that is decoded counts 48 times the size of the prefix.
 * Tensors in several parts also count (see dlb_message_decode). For values, see the functions that
 * decode them. */
#define DLB_LIMIT(bytes) \
  ((DLB_CAST(uint64_t, bytes) >> 47 != 0 ? (UINT64_C(1) << 47) - 1 : DLB_CAST(uint64_t, bytes)) \
   << 16)

/* Decodes a message of `count` frames: prefix, header, payload parts. Payloads are not copied: the
 * parts and tensors alias the frames. If a tensor is in several parts (dlb_message_fields.spread),
 * each piece becomes a tensor, in the order of the parts. The message then has more tensors than
 * the label. With DLB_DECODE_JOIN, all pieces become one row-major tensor in new writable memory.
 * This tensor has the flag IS_COPIED, and is aligned to 256 bytes. The copies of a message may use
 * 64 MiB plus four times the size of the payload; if they need more, the code is DLB_ERROR_MEMORY.
 * Without DLB_DECODE_JOIN, the same limit applies to the pieces. Each piece counts 1600 bytes, and
 * 64 more for each dimension. If `options` has a DLB_LIMIT, only the DLB_LIMIT applies.
 * Ownership: on success, the message and its tensors own the frames. They release each frame once,
 * when they no longer need the frame. The caller owns *out, and frees it with dlb_message_free.
 * Lifetime: until the message is freed; tensors of the message stay valid. Threads: any. On error:
 * *out is NULL and no frame is released. */
DLB_NODISCARD
DLB_API int32_t dlb_message_decode(dlb_message **out, const dlb_frame *frames, size_t count,
                                   uint64_t options, dlb_error *error);

/* Decodes a message in the packed form, which is one frame. If the frame has a second message, the
 * code is DLB_ERROR_FORMAT; dlb_message_decode_next reads several messages.
 * Ownership, Lifetime, Threads, On error: as dlb_message_decode. */
DLB_NODISCARD
DLB_API int32_t dlb_message_decode_packed(dlb_message **out, const dlb_frame *packed,
                                          uint64_t options, dlb_error *error);

/* Decodes the message at `offset` of a frame that holds consecutive messages in the packed form,
 * and sets *next to the offset for the next call. At the end of the frame, *out is NULL and *next
 * is the size of the frame. The packed form does not say where a message ends. If the third or a
 * later part of a message begins with ZIO and a digit from 0 to 8, this part is the prefix header
 * of the next message. The limit applies to each call separately.
 * Ownership: on success, the message and its tensors own the frame. They release the frame once,
 * when they no longer need it. A call at the end of the frame releases the frame immediately. The
 * caller owns *out. Lifetime, Threads: as dlb_message_decode. On error: *out is NULL, *next is 0,
 * and the frame is not released. */
DLB_NODISCARD
DLB_API int32_t dlb_message_decode_next(dlb_message **out, size_t *next, const dlb_frame *packed,
                                        size_t offset, uint64_t options, dlb_error *error);

/* A tensor to encode, with its metadata and its name. The name becomes the text "name" in the
 * metadata. If the metadata already have a name, both names must be the same. A name in this struct
 * must be unique in the message. */
typedef struct dlb_message_tensor {
  DLManagedTensorVersioned *tensor;
  dlb_bytes metadata;   /* a JSON object of scalars; size 0 for none */
  const char *name;     /* UTF-8; NULL or "" for none */
  uint64_t reserved[3]; /* 0 */
} dlb_message_tensor;

/* The fields of a message to encode. */
typedef struct dlb_message_fields {
  dlb_header header;    /* a form of four zeros stands for "TENS" */
  dlb_bytes label;      /* a JSON object with further attributes of the label; size 0 for none */
  dlb_bytes metadata;   /* TENS.metadata, a JSON object; size 0 for {} */
  uint64_t spread;      /* the maximum size of a payload part in bytes; a larger tensor is cut into
                           several parts; 0 for no limit */
  const dlb_message *relay; /* a decoded message to send on; NULL for none */
  uint64_t reserved[2];     /* 0 */
} dlb_message_fields;

/* Encodes tensors as a message. A row-major, permuted or reversed tensor without gaps is not
 * copied. The memory of the tensor becomes the payload part, or several parts with fields->spread.
 * Any other tensor is copied into a compact part; dlb_message_copied reports whether a tensor was
 * copied. fields->spread cuts a tensor along its slowest dimension. A part has at least one index
 * of this dimension, even if the part then has more bytes than `spread`. Only dlbridge knows the
 * attribute `parts` of a tensor in several parts. Other readers find the first part too small if
 * they compare sizes. `fields` may be NULL.
 *
 * fields->relay is a decoded message to send on, with the same or other tensors. The metadata,
 * names and further attributes of the decoded message stay. Where nothing was changed, even the
 * bytes stay the same. A relayed label may contain two things that this function otherwise refuses:
 * objects and arrays in the metadata of tensors, and tensors that are only metadata. Pass as many
 * tensors as the label has; a tensor in several parts is one tensor (DLB_DECODE_JOIN). If
 * dlb_message_tensor_at cannot return a tensor, pass NULL in its place; this tensor and its part
 * stay unchanged. Payload parts without a tensor stay. If the form in fields->header is four zeros,
 * the header of the relayed message stays. Other fields, and the metadata of a tensor, replace
 * those of the relayed message. The relayed message is borrowed, and may be freed after the call.
 *
 *   // Encodes a tensor as a message in one frame. The tensor is taken over, also on error.
 *   int32_t encode(dlb_frame *out, DLManagedTensorVersioned *x, dlb_error *error) {
 *     const dlb_message_tensor in[] = {{.tensor = x, .name = "x"}};
 *     dlb_message *message;
 *     const int32_t code = dlb_message_encode(&message, NULL, in, 1, error);
 *     if (code != DLB_OK) return dlb_tensor_release(x), code;
 *     const int32_t packed = dlb_message_encode_packed(out, message, error);
 *     dlb_message_free(message); // releases x
 *     return packed;
 *   }
 *
 * Ownership: on success, the message takes over every tensor; the function refuses a tensor that is
 * passed twice. The caller owns *out, and frees it with dlb_message_free. Lifetime: until the
 * message is freed; frames of the message stay valid. Threads: any. On error: *out is NULL and the
 * caller still owns all tensors. */
DLB_NODISCARD
DLB_API int32_t dlb_message_encode(dlb_message **out, const dlb_message_fields *fields,
                                   const dlb_message_tensor *tensors, size_t count,
                                   dlb_error *error);

/* Encodes a message from its header, label and payload parts. The label may be any bytes. The parts
 * are not copied.
 * Ownership: on success, the message takes over the parts. The caller owns *out, and frees it with
 * dlb_message_free. Lifetime: until the message is freed. Threads: any. On error: *out is NULL and
 * no part is released. */
DLB_NODISCARD
DLB_API int32_t dlb_message_encode_parts(dlb_message **out, const dlb_header *header,
                                         dlb_bytes label, const dlb_frame *parts, size_t count,
                                         dlb_error *error);

/* Sets *out to the level, form, origin, granule and seqno of a message.
 * Ownership: *out is a copy. Lifetime: none. Threads: any. On error: *out is zeroed. */
DLB_NODISCARD
DLB_API int32_t dlb_message_header(dlb_header *out, const dlb_message *message, dlb_error *error);

/* Sets *out to the bytes of the label.
 * Ownership: the message owns the bytes. Lifetime: until dlb_message_free. Threads: any. On error:
 * *out is empty. */
DLB_NODISCARD
DLB_API int32_t dlb_message_label(dlb_bytes *out, const dlb_message *message, dlb_error *error);

/* Sets *out to TENS.metadata as JSON text. For a decoded message, `data` is NULL if the message has
 * no metadata, or if its label was not decoded. For a message of dlb_message_encode, the text is
 * fields->metadata, the metadata of fields->relay, or {}. For a message of
 * dlb_message_encode_parts, `data` is NULL, because dlb_message_encode_parts does not read the
 * label.
 * Ownership: the message owns the bytes. Lifetime: until dlb_message_free. Threads: any. On error:
 * *out is empty. */
DLB_NODISCARD
DLB_API int32_t dlb_message_metadata(dlb_bytes *out, const dlb_message *message, dlb_error *error);

/* Returns the number of payload parts.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_part_count(const dlb_message *message);

/* Returns the number of tensors.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_tensor_count(const dlb_message *message);

/* Returns a one-dimensional uint8 tensor on payload part `index`.
 * Ownership: the caller owns *out, which has a share of the part's memory. Lifetime: until its
 * deleter is called, even after dlb_message_free. Threads: any. On error: *out is NULL. */
DLB_NODISCARD
DLB_API int32_t dlb_message_part(DLManagedTensorVersioned **out, const dlb_message *message,
                                 size_t index, dlb_error *error);

/* Returns tensor `index`. The tensor aliases its payload part, unless DLB_DECODE_JOIN has copied
 * the tensor. The function fails with DLB_ERROR_FORMAT for a tensor whose packing is not "dense",
 * such as a compressed tensor; the label (dlb_message_label) names the packing. It fails with
 * DLB_ERROR_METADATA for a tensor that is only metadata; dlb_message_tensor_metadata returns the
 * metadata. The Wire-Cell Toolkit sends tensors that are only metadata with dtype "?" and word 0.
 * In the packed form, parts and their elements may have unaligned addresses. C programs must not
 * read a float or int64_t at an unaligned address; dlb_tensor_copy makes an aligned copy.
 * Ownership: the caller owns *out, which has a share of the part's memory. Lifetime: until its
 * deleter is called, even after dlb_message_free. Threads: any. On error: *out is NULL. */
DLB_NODISCARD
DLB_API int32_t dlb_message_tensor_at(DLManagedTensorVersioned **out, const dlb_message *message,
                                      size_t index, dlb_error *error);

/* Sets *out to the index of the tensor with the name `name`, for dlb_message_tensor_at. All pieces
 * of a tensor in several parts have the same name; with DLB_DECODE_JOIN, the pieces are one tensor.
 * Ownership: *out is a copy, and `name` is borrowed. Lifetime: none. Threads: any. On error: *out
 * is 0. The code is DLB_ERROR_ARGUMENT if no tensor has the name, and DLB_ERROR_FORMAT if several
 * tensors have it. */
DLB_NODISCARD
DLB_API int32_t dlb_message_find(size_t *out, const dlb_message *message, const char *name,
                                 dlb_error *error);

/* Sets *out to the name of tensor `index`: the text "name" in its metadata, as UTF-8 without the
 * escapes of JSON. `data` is NULL if the tensor has no name.
 * Ownership: the message owns the bytes. Lifetime: until dlb_message_free. Threads: any. On error:
 * *out is empty. */
DLB_NODISCARD
DLB_API int32_t dlb_message_tensor_name(dlb_bytes *out, const dlb_message *message, size_t index,
                                        dlb_error *error);

/* Sets *out to the metadata of tensor `index` as JSON text. `data` is NULL if the tensor has no
 * metadata.
 * Ownership: the message owns the bytes. Lifetime: until dlb_message_free. Threads: any. On error:
 * *out is empty. */
DLB_NODISCARD
DLB_API int32_t dlb_message_tensor_metadata(dlb_bytes *out, const dlb_message *message,
                                            size_t index, dlb_error *error);

/* Returns the index of the payload part of tensor `index`, or of the first part if the tensor has
 * several parts. Returns 0 for a tensor that cannot be read or is only metadata.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_tensor_part(const dlb_message *message, size_t index);

/* Reports whether dlb_message_encode or DLB_DECODE_JOIN copied tensor `index`.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API int32_t dlb_message_copied(const dlb_message *message, size_t index);

/* Returns the number of frames: prefix, header and the payload parts.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_message_frame_count(const dlb_message *message);

/* Returns frame `index`, ready to be sent. Payloads are not copied.
 * Ownership: the caller owns *out. The caller calls out->release(out->ctx) once, or passes the
 * frame to a function that takes it over. Lifetime: until the frame is released, also after
 * dlb_message_free. Threads: any, also for release. On error: *out is zeroed. */
DLB_NODISCARD
DLB_API int32_t dlb_message_frame(dlb_frame *out, const dlb_message *message, size_t index,
                                  dlb_error *error);

/* Fills out[0] to out[count-1] with all frames, ready to be sent. `count` must be the result of
 * dlb_message_frame_count.
 * Ownership: the caller owns the frames. The caller releases all frames with dlb_frames_release, or
 * each frame with its own release function. Lifetime, Threads: as dlb_message_frame. On error: all
 * entries are zeroed. */
DLB_NODISCARD
DLB_API int32_t dlb_message_frames(dlb_frame *out, size_t count, const dlb_message *message,
                                   dlb_error *error);

/* Releases `count` frames of the library or of the program, and zeroes them. A frame without a
 * release function is only zeroed. NULL is allowed.
 * Ownership: the caller's ownership ends. Lifetime: the bytes must not be used again. Threads: any.
 * On error: if a frame of this library was already released or taken over, double_deletes counts
 * this frame. */
DLB_API void dlb_frames_release(dlb_frame *frames, size_t count);

/* Encodes a message in the packed form: all frames in one block of new memory. The code is
 * DLB_ERROR_ARGUMENT for a part that begins like a prefix header (see dlb_message_decode_next),
 * because a reader would mistake the part for the next message. Separate frames can carry such a
 * part. The packed form has no padding, so tensors decoded from it are aligned only by chance.
 * Separate frames keep the alignment of the memory, and dlb_tensor_copy makes aligned copies.
 * Ownership, Lifetime, Threads, On error: as dlb_message_frame. */
DLB_NODISCARD
DLB_API int32_t dlb_message_encode_packed(dlb_frame *out, const dlb_message *message,
                                          dlb_error *error);

/* Frees a message. Tensors and frames of the message stay valid. NULL is allowed.
 * Ownership: the caller's ownership ends. Lifetime: the message must not be used again. Threads:
 * any. On error: the function ignores an address at which there is no live message. */
DLB_API void dlb_message_free(dlb_message *message);

/* ---- values: formats with one tensor, or one list of elements, in a message -------------------
 *
 * Library: libdlbridge.
 *
 * If DLPack has the type of a value, the value is a tensor. Any other value, such as strings or
 * images, is a list of elements (dlb_elements). A decoded tensor aliases the frame if its elements
 * are aligned in the frame and have the same form as in memory. The tensor is then READ_ONLY,
 * unless the frame has DLB_FRAME_WRITABLE. Any other decoded tensor is a writable copy.
 * dlb_tensor_copy makes a writable copy of any tensor.
 *
 * All functions except dlb_elements_free need Go; in a forked child they return DLB_ERROR_FORKED.
 */

/* A tensor of a type that DLPack lacks. To encode such a tensor, the program fills in the
 * structure. */
typedef struct dlb_elements {
  dlb_bytes type;           /* the name in the format: "string", "image", "qint8" */
  int32_t ndim;
  const int64_t *shape;
  size_t count;             /* the number of elements: the product of the shape */
  const dlb_bytes *values;  /* the bytes of each element, in row-major order */
  const dlb_bytes *formats; /* for images, audio and video: "png", "mp3"; otherwise NULL */
  uint64_t reserved[4];     /* 0 */
} dlb_elements;

/* Frees decoded elements, and their share of the frame. NULL is allowed.
 * Ownership: the caller's ownership ends. Lifetime: the elements and their values must not be used
 * again. Threads: any. On error: the function ignores an address at which there are no live
 * elements. */
DLB_API void dlb_elements_free(dlb_elements *elements);

/* A tensor, or elements; the unused pointer is NULL. Both pointers are NULL if there was nothing to
 * decode. Decoders set size and copied; encoders ignore these two fields. */
typedef struct dlb_value {
  DLManagedTensorVersioned *tensor; /* decoded: the caller releases it with dlb_tensor_release */
  dlb_elements *elements;           /* decoded: the caller frees them with dlb_elements_free */
  size_t size;                      /* the number of bytes of the value in the frame */
  int32_t copied;                   /* 1: the tensor is a writable copy with the flag IS_COPIED */
  uint64_t reserved[4];             /* 0 */
} dlb_value;

/* The dialects of Decthings. They encode types of variable size (strings, binaries and media)
 * differently. The encoded bytes do not show the dialect. Numbers and booleans are the same in all
 * dialects. */
#define DLB_DECTHINGS_DOC UINT64_C(0)   /* the published document */
#define DLB_DECTHINGS_PY004 UINT64_C(1) /* Python client up to 0.0.4, Rust crate up to 0.1.3 */
#define DLB_DECTHINGS_RS015 UINT64_C(2) /* Rust crate from 0.1.4 */

/* Decodes a frame that has one tensor of Decthings and nothing else. The options are a dialect and
 * DLB_LIMIT. The limit counts copies of unaligned elements, 16 bytes for each element of
 * dlb_elements (32 with formats), and 8 bytes for each dimension. Without DLB_LIMIT, a call uses at
 * most 32 times the size of the frame.
 * Ownership: on success, the value owns the frame, and releases it once, when the frame is no
 * longer needed. The caller owns *out. Lifetime: until the caller calls the deleter of the tensor,
 * or dlb_elements_free. Threads: any. On error: *out is zeroed and the frame is not released. */
DLB_NODISCARD
DLB_API int32_t dlb_decthings_decode(dlb_value *out, const dlb_frame *frame, uint64_t options,
                                     dlb_error *error);

/* Decodes at most `count` consecutive tensors in a frame, from `offset` on, and sets *next to the
 * offset for the next call. After the last tensor, *next is the size of the frame. A call may
 * decode fewer than `count` tensors, but decodes at least one unless the frame ends at `offset`.
 * The remaining values are zeroed. The batch ends before a tensor that is malformed or exceeds the
 * rest of the call's limit. The next call begins with this tensor. If the first tensor of a call
 * has such a fault, the call fails.
 * Ownership: on success, the values own the frame, and release it once, when the frame is no longer
 * needed. The caller owns the values. Lifetime, Threads: as dlb_decthings_decode. On error: all
 * values and *next are zeroed and the frame is not released. */
DLB_NODISCARD
DLB_API int32_t dlb_decthings_decode_batch(dlb_value *out, size_t count, size_t *next,
                                           const dlb_frame *frame, size_t offset, uint64_t options,
                                           dlb_error *error);

/* Encodes elements, or a tensor in any layout, into the buffer at `data`, which has `room` bytes,
 * and sets *out to the number of encoded bytes. With `data` NULL and `room` 0, the function only
 * sets *out. The elements of a tensor are at the end of the encoded bytes. A reader can decode them
 * without a copy if the program places the encoded bytes so that the elements are aligned. The
 * memory of a tensor may overlap the buffer; the memory of elements must not overlap it.
 * Ownership: the caller keeps `value` and `data`. Lifetime: none. Threads: any, as long as no
 * thread writes to the tensor. On error: after DLB_ERROR_ROOM *out is the required number of bytes,
 * and the buffer is unchanged; after any other error *out is 0, and the contents of the buffer are
 * undefined. */
DLB_NODISCARD
DLB_API int32_t dlb_decthings_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                                     uint64_t dialect, dlb_error *error);

/* Checks that `rules` allow the type and shape of a value. `rules` is a JSON object,
 * DecthingsTensorRules. Returns DLB_OK, DLB_ERROR_DTYPE, DLB_ERROR_LAYOUT, or DLB_ERROR_ARGUMENT
 * for malformed rules.
 * Ownership: the arguments are borrowed. Lifetime: the call. Threads: any. On error: the message
 * names the rule. */
DLB_NODISCARD
DLB_API int32_t dlb_decthings_check(dlb_bytes rules, const dlb_value *value, dlb_error *error);

/* Options of dlb_tensorflow_decode. With DLB_TENSORFLOW_LENIENT, the function accepts everything
 * that TensorFlow's C++ code accepts. It ignores values after the last element, and the content of
 * a tensor without elements. It truncates integers out of range to their low bits. If the rank of a
 * shape is marked as unknown, it uses the dimensions that the shape has. */
#define DLB_TENSORFLOW_LENIENT UINT64_C(1)
#define DLB_TENSORFLOW_INTEGERS UINT64_C(2) /* decode quantised numbers as tensors of integers */

/* Decodes a frame that has a TensorProto. A TensorProto may omit values that repeat the last value.
 * Only then does DLB_LIMIT apply; its default is 64 MiB. The limit counts the size of a tensor's
 * elements. Each element of dlb_elements counts 24 bytes; a quantised number in dlb_elements counts
 * 24 bytes plus its size. The bytes of strings, resources and variants are in the frame and do not
 * count. A TensorProto with all values uses at most 32 times the size of the frame.
 * Ownership, Lifetime, Threads, On error: as dlb_decthings_decode. */
DLB_NODISCARD
DLB_API int32_t dlb_tensorflow_decode(dlb_value *out, const dlb_frame *frame, uint64_t options,
                                      dlb_error *error);

/* Options of dlb_tensorflow_encode. By default, elements of a fixed size are encoded in
 * tensor_content, and all other elements in the field of their type. FIELDS and CONTENT must not be
 * combined. */
#define DLB_TENSORFLOW_FIELDS UINT64_C(1)  /* use the field of the type, as AsProtoField does */
#define DLB_TENSORFLOW_CONTENT UINT64_C(2) /* use tensor_content, as AsProtoTensorContent does */
#define DLB_TENSORFLOW_PAD UINT64_C(4)     /* put elements at a multiple of 64 bytes from `data` */

/* Encodes elements, or a tensor in any layout, as a TensorProto into the `room` bytes at `data`.
 * `out`, `data` and `room` are as for dlb_decthings_encode. With DLB_TENSORFLOW_FIELDS, or if
 * several elements share a byte, the function makes a temporary copy of a tensor, even if it only
 * computes the size. The code is DLB_ERROR_OVERFLOW for a TensorProto of more than 2^31 - 1 bytes,
 * because no reader of protocol buffers accepts it.
 * Ownership, Lifetime, Threads, On error: as dlb_decthings_encode. */
DLB_NODISCARD
DLB_API int32_t dlb_tensorflow_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                                      uint64_t options, dlb_error *error);

/* ---- files: tensors of safetensors, npy, npz and GGUF ------------------------------------------
 *
 * Library: libdlbridge. Linux and macOS.
 *
 *   dlb_file *file;
 *   dlb_file_entry entry;
 *   DLB_TRY(dlb_file_open(&file, "model.safetensors", NULL, error));
 *   for (size_t i = 0; i < dlb_file_count(file); i++) {
 *     if (dlb_file_at(&entry, file, i, error) == DLB_OK)
 *       printf("%.*s\n", (int)entry.name.size, entry.name.data);
 *   }
 *   dlb_file_close(file);
 *
 * The file is mapped into memory, not read. Its tensors use the memory of the mapping. The mapping
 * stays until the file is closed and the last tensor is released, even if the file is renamed,
 * replaced or deleted. The format depends on the contents of the file, not on its name. The
 * documentation of the Go package bridge/files says which files are accepted.
 *
 * If another program changes a mapped file, the tensors change too. If another program makes the
 * file shorter, and this process reads a page beyond the new end, SIGBUS ends this process. So
 * programs must replace a file, as dlb_file_write does, instead of writing to the file. If a
 * function of this section reads such a page, for example dlb_file_copy, the function returns an
 * error instead. There is one exception: if dlb_file_write must copy a tensor because of its
 * layout, SIGBUS ends the process.
 *
 * The functions that open, read and write files need Go; in a forked child they return
 * DLB_ERROR_FORKED. dlb_file_format, _count, _at and _find are plain C and also work in a forked
 * child. dlb_file_close works in a forked child, but leaves the descriptor of the file open.
 * dlb_file_metadata works in a forked child if it was called before the fork.
 */

/* An open file with tensors. */
typedef struct dlb_file dlb_file;

/* Flags of dlb_file_options. */
#define DLB_FILE_SET UINT64_C(1)      /* the path is an index: *.safetensors.index.json */
#define DLB_FILE_WRITABLE UINT64_C(2) /* npy: writing to the tensor changes the file */

/* How a file is opened. `as` is a data type without a name in NumPy, such as {kDLBfloat, 16, 1}.
 * The tensor of an npy file gets this data type. In an npz file, each tensor whose type is only an
 * element size gets this data type, if the size is the same. */
typedef struct dlb_file_options {
  uint64_t flags;       /* DLB_FILE_* */
  DLDataType as;        /* all zeros for none */
  uint64_t reserved[4]; /* 0 */
} dlb_file_options;

/* The description of a tensor of a file. An array without a name, as in an npy file, has the name
 * "arr_0". */
typedef struct dlb_file_entry {
  dlb_bytes name;
  dlb_bytes type;   /* the name of the type in the format: "F32", "<f4", "Q4_K" */
  dlb_bytes copied; /* why dlb_file_tensor_at copies: "big-endian", "deflated" or empty */
  dlb_bytes path;   /* the path of the file that has this tensor */
  DLDataType dtype; /* the type of the tensor; uint8 for quantised blocks of GGUF */
  int32_t ndim;
  const int64_t *shape; /* the shape of the tensor; for quantised blocks, of their numbers */
  uint64_t offset;      /* where the elements, or their deflated bytes, begin in the file */
  uint64_t size;        /* the size of the tensor, in bytes */
  int32_t aligned;      /* 1 if the elements are aligned to their type in the mapping */
  int32_t status;       /* DLB_OK, or an error; with an error only name, path and problem are set */
  dlb_bytes problem;    /* the text of the error in status */
  uint64_t reserved[4]; /* 0 */
} dlb_file_entry;

/* Opens and maps a file, and checks the descriptions of its tensors without reading the tensors.
 * With DLB_FILE_SET, `path` is an index of safetensors: the function opens all its files, with the
 * tensors that the index lists. Only regular files are opened. `options` may be NULL.
 * Ownership: `path` and `options` are borrowed; the caller owns *out, and closes it with
 * dlb_file_close. Lifetime: until the file is closed; tensors of the file stay valid. Threads: any.
 * On error: *out is NULL and nothing stays open. The codes are:
 *
 * - DLB_ERROR_FORMAT: the file is malformed. The text has the position of the wrong byte.
 * - DLB_ERROR_DTYPE: an npy file has a type that tensors cannot have, or a tensor has an unknown
 *   type.
 * - DLB_ERROR_ARGUMENT: the file is not regular, is empty, or has none of the formats; or the
 *   format lacks a given option.
 * - DLB_ERROR_SYSTEM: the system refuses to open the file, or the file becomes shorter during the
 *   call. */
DLB_NODISCARD
DLB_API int32_t dlb_file_open(dlb_file **out, const char *path, const dlb_file_options *options,
                              dlb_error *error);

/* Closes a file. The function ignores NULL, and a file that was closed before.
 * Ownership: the caller's ownership ends. Lifetime: descriptions and metadata of the file must not
 * be used again; its tensors stay valid. Threads: any. On error: cannot fail. */
DLB_API void dlb_file_close(dlb_file *file);

/* Sets *out to the format of a file: "safetensors", "npy", "npz" or "gguf".
 * Ownership: the file owns the bytes. Lifetime: until dlb_file_close. Threads: any. On error: *out
 * is empty. */
DLB_NODISCARD
DLB_API int32_t dlb_file_format(dlb_bytes *out, const dlb_file *file, dlb_error *error);

/* Returns the number of tensors.
 * Ownership: none. Lifetime: none. Threads: any. On error: 0. */
DLB_API size_t dlb_file_count(const dlb_file *file);

/* Sets *out to the description of tensor `index`, in the order of the file.
 * Ownership: the file owns the texts and the shape in *out. Lifetime: until dlb_file_close.
 * Threads: any. On error: *out is zeroed. */
DLB_NODISCARD
DLB_API int32_t dlb_file_at(dlb_file_entry *out, const dlb_file *file, size_t index,
                            dlb_error *error);

/* Sets *out to the index of the tensor with the name `name`. The function compares the names one by
 * one.
 * Ownership: *out is a copy, and `name` is borrowed. Lifetime: none. Threads: any. On error: *out
 * is 0; DLB_ERROR_ARGUMENT if no tensor has the name. */
DLB_NODISCARD
DLB_API int32_t dlb_file_find(size_t *out, const dlb_file *file, const char *name,
                              dlb_error *error);

/* Returns tensor `index` in the mapping of the file, without reading the elements. Without
 * DLB_FILE_WRITABLE, the tensor is READ_ONLY, and writing to it ends the process. The address of
 * the tensor is aligned only if its dlb_file_entry has `aligned` 1. If `copied` of the
 * dlb_file_entry is not empty, the result is a copy as from dlb_file_copy. Quantised blocks of GGUF
 * are uint8. The last dimension counts the bytes of a block; the dimension before the last counts
 * the blocks of a row.
 * Ownership: the caller owns *out, which keeps the mapping. Lifetime: until its deleter is called,
 * even after dlb_file_close, and even after the file is deleted. Threads: any.
 * On error: *out is NULL. The code is the `status` of the dlb_file_entry if it is not DLB_OK,
 * DLB_ERROR_FORMAT if the elements cannot be inflated, or DLB_ERROR_SYSTEM if a copy is made and
 * the file has become shorter. */
DLB_NODISCARD
DLB_API int32_t dlb_file_tensor_at(DLManagedTensorVersioned **out, const dlb_file *file,
                                   size_t index, dlb_error *error);

/* Returns a copy of tensor `index` in new writable memory, aligned to 256 bytes. The copy has the
 * flag IS_COPIED. The function reads the file, not the mapping, unless `copied` of the
 * dlb_file_entry is not empty. In both cases it returns an error if the file has become shorter.
 * Ownership: the caller owns *out. Lifetime: until its deleter is called. Threads: any. On error:
 * as dlb_file_tensor_at; DLB_ERROR_SYSTEM also if the file cannot be read. */
DLB_NODISCARD
DLB_API int32_t dlb_file_copy(DLManagedTensorVersioned **out, const dlb_file *file, size_t index,
                              dlb_error *error);

/* Sets *out to the metadata of a file as one JSON object, in UTF-8. With DLB_FILE_SET, the object
 * is the metadata of the index. Without metadata, the object is {}. Numbers of GGUF keep their
 * values. A float32 is written as the shortest number that reads back as the same float32 (0.1f is
 * 0.1). Infinite numbers and NaN are written as Infinity, -Infinity and NaN, which some readers of
 * JSON do not know. In a text, a byte that is not UTF-8 is written as \udc80 to \udcff.
 * Ownership: the file owns the bytes. Lifetime: until dlb_file_close. Threads: any. On error: *out
 * is empty. */
DLB_NODISCARD
DLB_API int32_t dlb_file_metadata(dlb_bytes *out, const dlb_file *file, dlb_error *error);

/* Checks that the size of a file has not changed since it was opened. Without DLB_FILE_WRITABLE,
 * the function also checks the time of the last change. It does not check whether the path now
 * names another file.
 * Ownership: `file` is borrowed. Lifetime: none. Threads: any. On error: DLB_ERROR_SYSTEM if the
 * file has changed, or if the system cannot report its size or time. */
DLB_NODISCARD
DLB_API int32_t dlb_file_verify(const dlb_file *file, dlb_error *error);

/* Waits until all changes to the tensors of a file with DLB_FILE_WRITABLE are on the disk.
 * Ownership: `file` is borrowed. Lifetime: none. Threads: any. On error: DLB_ERROR_SYSTEM. */
DLB_NODISCARD
DLB_API int32_t dlb_file_sync(const dlb_file *file, dlb_error *error);

/* A tensor to write, and its name. */
typedef struct dlb_file_tensor {
  DLManagedTensorVersioned *tensor;
  const char *name;     /* UTF-8; NULL stands for "" */
  uint64_t reserved[2]; /* 0 */
} dlb_file_tensor;

/* How a file is written. */
typedef struct dlb_file_fields {
  const char *format; /* "safetensors", "npy" or "npz"; NULL: the ending of the path decides */
  uint64_t align;     /* safetensors: align tensors to this many bytes if possible; 0: no */
  dlb_bytes metadata; /* safetensors: a JSON object of texts; size 0 for none */
  /* The library calls progress repeatedly, with the number of bytes written so far and the number
   * of bytes of all tensors. In the last call, both numbers are equal. If the result is not 0,
   * writing stops. NULL for none. */
  int32_t (*progress)(void *ctx, uint64_t written, uint64_t total);
  void *ctx;            /* for progress */
  uint64_t reserved[4]; /* 0 */
} dlb_file_fields;

/* Writes a file with tensors in any layout. The function writes a temporary file in the same
 * folder, waits until this file is on the disk, and then renames it to `path`. If `path` is a link,
 * the new file replaces the file that the link leads to. So the file at `path` is never incomplete,
 * and the tensors of an earlier file at `path` do not change. In a safetensors file, tensors with
 * the largest data types come first; tensors of the same type are sorted by name. An npz file keeps
 * the order of `tensors`. `fields` may be NULL.
 * Ownership: all arguments are borrowed. Lifetime: the call. Threads: any, as long as no thread
 * writes to the tensors; progress is called on the thread of the call. On error: an earlier file at
 * `path` does not change. The codes are:
 *
 * - DLB_ERROR_ARGUMENT: the format is unknown or lacks a given field, a name is not possible in
 *   the format, two tensors have the same name, or `path` leads to something other than a regular
 *   file.
 * - DLB_ERROR_DTYPE, _DEVICE or _LAYOUT: a tensor is not possible in the format.
 * - DLB_ERROR_FUNCTION: progress has stopped the call.
 * - DLB_ERROR_SYSTEM: the system refuses to write the file. */
DLB_NODISCARD
DLB_API int32_t dlb_file_write(const char *path, const dlb_file_tensor *tensors, size_t count,
                               const dlb_file_fields *fields, dlb_error *error);

/* ---- counters ---------------------------------------------------------------------------------
 *
 * Library: libdlbridge_tensor.
 */

/* The numbers of live objects in this process. A forked child counts only objects that C code has
 * made. Later versions may add counters. */
typedef struct dlb_counters {
  int64_t exports;         /* tensors and frames that the library has returned, until they are
                              released; if a message or another tensor has taken them over,
                              they count until their memory is no longer in use */
  int64_t imports;         /* tensors and frames that were taken over, and memory that was lent,
                              until they are given back */
  int64_t messages;        /* messages not yet freed */
  uint64_t double_deletes; /* repeated releases of tensors and frames; the library ignored them */
  int64_t elements;        /* decoded elements not yet freed */
  int64_t pinned_bytes;    /* Go memory that exports keep pinned; 0 in a forked child */
  int64_t files;           /* open files */
} dlb_counters;

/* Reads the counters. `size` must be sizeof(dlb_counters); the function writes at most `size`
 * bytes. Counters that this library lacks are set to 0.
 * Ownership: none. Lifetime: none. Threads: any. On error: cannot fail; NULL is ignored. */
DLB_API void dlb_counters_read(dlb_counters *out, size_t size);

/* ---- ledger: where the live objects were made -------------------------------------------------
 *
 * Library: libdlbridge_tensor.
 *
 * The ledger records the calls in which the functions of this header returned tensors, frames,
 * messages, elements objects and files. The ledger is off unless the environment variable
 * DLBRIDGE_LEDGER has a value other than 0, or the program calls dlb_ledger_set. If the variable is
 * set, the library prints the live objects to stderr when the process ends by exit or by a return
 * from main. The library prints them after all functions of atexit have run. If there are no live
 * objects, it prints nothing. For each object, it prints the kind, the address, the size in bytes,
 * and the calls that made the object:
 *
 *   dlbridge: process 4711 has 1 live object
 *   dlbridge: tensor at 0x55d0c8e3a2c0, 24 bytes, made by
 *       dlb_tensor_alloc (/usr/local/lib/libdlbridge_tensor.so.0+0x91f3)
 *       ./program+0x11c4
 *
 * Functions of the program have names if the program was linked with -rdynamic. Otherwise,
 * `addr2line -f -e ./program 0x11c4` prints the name and line. With libdlbridge_tensor.a, some
 * calls inside the library come first, without names. An object of the ledger may belong to another
 * object: a message keeps the tensors that it has taken over. A forked child inherits the objects
 * and their records. Objects that a Go program makes with package dlpack are in the ledger of
 * package dlpack (dlpack.SetLedger, dlpack.Live). DLBRIDGE_LEDGER switches on both ledgers.
 *
 * While the ledger is on, making an object takes some microseconds more. The functions of the
 * ledger are plain C, and work in a forked child.
 *
 * Valgrind (on x86-64 Linux) and AddressSanitizer also find lost tensors, lost frames and wild
 * writes, and name the responsible call. Under these tools, each tensor and frame gets new memory
 * for its description. Memory of dlb_tensor_alloc ends at the last element, and the tools also
 * report accesses just before the memory. No special build of the library is needed; build the
 * program with -g and -fno-omit-frame-pointer. With DLBRIDGE_CHECK=1 in the environment, the
 * library works in the same way for other tools; DLBRIDGE_CHECK=0 switches this off. If a tensor or
 * frame was released or taken over before, releasing it again has no effect under these tools
 * either. But the library reports the release on stderr, with the calls that led to it: "dlbridge:
 * the tensor or frame at 0x55d0c8e3a2c0 is released, but was released before". The program
 * continues. The tools do not find:
 *
 * - A repeated release of a tensor whose description was reused for another tensor. The description
 *   is reused after at least 65536 other tensors. Without a tool, it is reused after at least 64
 *   other tensors, and repeated releases are only counted, in double_deletes.
 * - Writes that are more than 200 bytes before the memory, or are after the memory and beyond the
 *   tool's red zone (16 bytes in valgrind).
 * - Writes outside a part of a frame, or outside other memory that the library has not allocated.
 * - Reads of the struct of a tensor after its release. The library itself reads the struct, to
 *   refuse the tensor.
 * - Lost messages, elements and files. The ledger lists these objects.
 * - The call responsible for a lost tensor, if the description of this tensor is in reused memory.
 *   The memory of a description is reused after at least 65536 other tensors.
 *
 * With the suppressions that `make install` installs, valgrind does not report the Go runtime:
 * valgrind --leak-check=full --suppressions=PREFIX/share/dlbridge/dlbridge.supp. LeakSanitizer ends
 * a process with leaks before the ledger is printed, unless ASAN_OPTIONS has detect_leaks=0. Some
 * memory that valgrind reports as "still reachable" is not a leak: the library keeps it for reuse.
 * Ignore valgrind's warnings about debug information and client stacks, which come from Go.
 */

/* Switches the ledger on or off, and returns 1 if it was on before, otherwise 0. Switching the
 * ledger off drops its records. Objects made while the ledger is off are never recorded.
 * Ownership: none. Lifetime: none. Threads: any. On error: cannot fail. */
DLB_API int32_t dlb_ledger_set(int32_t on);

/* Writes the live objects to the file descriptor `fd`, such as 2 for stderr, and sets *out to their
 * number.
 * Ownership: the caller keeps `fd`. Lifetime: none. Threads: any. On error: *out is 0;
 * DLB_ERROR_ARGUMENT if the ledger is off or `fd` cannot be written to. */
DLB_NODISCARD
DLB_API int32_t dlb_ledger_write(size_t *out, int32_t fd, dlb_error *error);

#ifdef __cplusplus
}
#endif

/* ---- further rules ----------------------------------------------------------------------------
 *
 * Libraries. libdlbridge_tensor needs no Go and works in a forked child. It starts threads for two
 * purposes only. One thread answers fetches of offers (dlb_shm_offer). Other threads close
 * descriptors that another process has sent instead of segments, because closing them may take
 * long.
 *
 * libdlbridge.so is linked to libdlbridge_tensor.so. So a process that loads both libraries has one
 * set of counters, and each library recognises the other library's tensors.
 *
 * A program or plugin that contains libdlbridge_tensor.a has its own library, with its own
 * counters. Its tensors are foreign to other libraries. The functions of libdlbridge_tensor.a are
 * hidden, so that each plugin calls its own copy of them. To share one library, a program and its
 * plugins must use libdlbridge_tensor.so. A plugin that contains libdlbridge_tensor.a stays loaded
 * after dlclose, as the shared libraries do, because the deleters of its tensors may be called
 * later. If the plugin is opened again after its file has changed, the old code still runs.
 *
 * Invalid input. The library checks NULL pointers, sizes, indexes, flags, contents and
 * descriptions. The memory at a pointer must be readable up to the given size or count. An address
 * that is not mapped may end the process. The description of a tensor must not change while the
 * tensor is in use. If a function cannot allocate memory whose size depends on the input, it
 * returns DLB_ERROR_MEMORY. The Go runtime in libdlbridge also reserves address space, in steps of
 * 64 MiB, and smaller blocks for its records. If the Go runtime cannot get this memory, it ends the
 * process.
 *
 * Released objects. The library recognises the messages, elements, files, tensors and frames that
 * it has made. For an object that was released or taken over, the functions return
 * DLB_ERROR_ARGUMENT. Releasing the object again has no effect. An object that was taken over stays
 * valid until its new owner releases it. The library recognises a frame, or a copy of its struct,
 * by the fields release and ctx. A program may pass a copy of the struct of a tensor only to
 * functions that do not take it over. The library reuses the address of a released object after at
 * least 64 other objects of the same kind; the address then refers to the new object. The address
 * of a tensor may also be reused for a tensor of the other form (legacy or versioned). Then the
 * program must not use the old address.
 *
 * The library does not recognise foreign objects: tensors with another deleter, and frames with a
 * release function of the caller. Never pass a foreign object twice to one call, or after it was
 * released or taken over. Only dlb_message_encode detects a tensor that is passed twice.
 *
 * Structures. A program works with every library that has the same major version and is not older
 * than the header of the program. A program also works with an older library if the library has
 * everything that the program uses. Each structure that programs allocate follows one of three
 * rules:
 *
 * - dlb_frame, dlb_message_tensor, dlb_message_fields, dlb_elements, dlb_value, dlb_file_options,
 *   dlb_file_entry, dlb_file_tensor and dlb_file_fields end with reserved words. A new field
 *   replaces the first reserved word, and its value 0 keeps the behaviour of this version. The size
 *   of the structure, and so the stride of arrays, never changes. A program must set the reserved
 *   words to 0 by initialising the structure with `= {0}` (`= {}` in C++) or with designated
 *   initialisers. If a reserved word is not 0, the code is DLB_ERROR_ARGUMENT: the program has not
 *   initialised the structure, or uses a field that this library does not know. The library sets
 *   the reserved words of its outputs to 0.
 * - dlb_counters grows at its end. The program passes sizeof(dlb_counters) to dlb_counters_read.
 * - dlb_error, dlb_bytes, dlb_header, dlb_index, dlb_allocator and dlb_shm_handle never change. A
 *   dlb_error needs no initialiser, because every call writes it without reading it. dlb_bytes is
 *   an address and a size. dlb_header has the fixed fields of a ZIO message. dlb_index is an index
 *   as in Python. A dlb_shm_handle travels between programs that were compiled with different
 *   versions.
 *
 * The structures of DLPack depend on the version number in them. Options are bits; the library
 * refuses unknown bits.
 *
 * Release functions. A release function of the program may release other tensors, frames and
 * messages, whose release functions may release more. These chains may have any length. At most
 * eight releases are nested on the stack; a deeper release runs after the release that started it.
 * All releases have run when the outermost call returns. A release function must return: it must
 * not end its thread or leave by longjmp.
 *
 * Memory. A call that decodes uses at most 64 MiB plus 48 times the size of its input; each frame
 * counts 40 bytes more than its size. Only two inputs can need the 64 MiB: a TensorProto that omits
 * values, and a message in which two tensors, each in several parts, share a part. DLB_LIMIT sets
 * another limit. The README of the package bridge has the rule for all decoders.
 *
 * Stacks. A thread that calls functions of libdlbridge_tensor must have a stack of at least 32 KiB.
 * These functions use up to 16 KiB. No stack frame is larger than 4 KiB. So an overflow hits the
 * guard page of the stack, and never writes to other memory.
 *
 * Go plugins. A Go plugin is a Go library whose exported functions call Serve of package capi. A
 * program opens the plugin with dlopen, or links it; see examples/plugin. The program itself
 * declares each of these functions:
 *
 *   DLManagedTensorVersioned *f(DLManagedTensorVersioned *x, dlb_error *e);
 *
 * Unlike the functions of this header, f takes over its tensors even on error. *e gets DLB_OK, or
 * the code and the text of the error. The text begins with the name of the function, except in a
 * forked child. e may be NULL. f returns NULL after an error, or if f has no result. The tensors of
 * the plugin are foreign to the libraries of this header until dlb_tensor_import takes them over.
 * After dlclose, the plugin stays loaded, and its tensors stay valid. libdlbridge and each plugin
 * contain a Go runtime, but Go supports only one runtime in a process. So link the host to
 * libdlbridge_tensor alone. A plugin with package capi exports all functions of this header. If
 * libdlbridge_tensor lacks a function, such as dlb_message_decode, the host finds the function in
 * the plugin with dlsym. The host must not call functions of a plugin in a forked child. Such a
 * call releases its tensors and sets DLB_ERROR_FORKED, but it may wait forever if threads of Go
 * were busy at the fork.
 *
 * Requirements of Go, in libdlbridge and in plugins. Signal handlers that the program installs must
 * have SA_ONSTACK, and alternate signal stacks must have at least 8 KiB. Go installs handlers for
 * SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and SIGURG. If one of these signals, except SIGURG, does not
 * come from Go, the handler of Go calls the previous handler. If the program later installs a
 * handler for SIGSEGV, SIGBUS or SIGFPE, the new handler must call the handler that it replaces. A
 * thread that calls functions of libdlbridge or of a plugin must have a stack of at least 64 KiB.
 * Loading the library needs 1 GiB of address space, eight threads and eight file descriptors;
 * without these, Go ends the process.
 */

#endif
