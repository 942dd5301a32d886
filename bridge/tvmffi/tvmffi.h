/* tvmffi.h: the C functions that Go calls. See tvmffi.c. */
#ifndef DLB_TVMFFI_H_
#define DLB_TVMFFI_H_

#include "abi.h"

#define FFI_HIDDEN __attribute__((visibility("hidden")))

enum {
  FFI_ARGUMENTS = 255, /* the most that one call can have */
  FFI_DIRECT = 8       /* addresses of Go memory that are arguments of ffi_invoke itself: d0 to d7 */
};

/* An argument as Go describes it: an ffi_any without a union, and a DLTensor without pointers. It contains no
 * address of Go memory except pinned ones. */
typedef struct ffi_argument {
  int32_t type;
  uint32_t size;
  uint64_t value;       /* of a tensor that is described by value: the address of its data, unless it is direct */
  int32_t direct;       /* of a tensor: which of d0 to d7 is the address of its data, or -1 */
  int32_t ndim;         /* of a tensor that is described by value; -1: value is complete, such as a DLTensor * */
  uint32_t dtype;
  uint32_t dims;        /* where the shape starts in dims; the strides follow it */
  int32_t device_type;
  int32_t device_id;
  uint64_t byte_offset;
} ffi_argument;

enum { FFI_NO_MEMORY = 1 };

/* The result of a call. If status is not 0, value is the error object, or 0 if there is none. */
typedef struct ffi_result {
  int32_t status; /* 0, -1 for an error of TVM-FFI, or FFI_NO_MEMORY, before the call */
  int32_t type;
  uint32_t size;
  uint32_t unused;
  uint64_t value;
} ffi_result;

typedef struct ffi_prepared ffi_prepared;

FFI_HIDDEN char *ffi_attach(const char *path, char **found);
FFI_HIDDEN char *ffi_load_global(const char *path);
FFI_HIDDEN void ffi_note_handler(void);
FFI_HIDDEN int ffi_lacks_runtime(const char *path);

FFI_HIDDEN ffi_result ffi_invoke(uintptr_t function, const ffi_argument *arguments, int32_t count,
                                 const int64_t *dims, char *d0, char *d1, char *d2, char *d3, char *d4,
                                 char *d5, char *d6, char *d7);
FFI_HIDDEN uintptr_t ffi_prepare(uintptr_t function, const ffi_argument *arguments, int32_t count,
                                 const int64_t *dims, size_t ndims);
FFI_HIDDEN ffi_result ffi_invoke_prepared(uintptr_t prepared);

FFI_HIDDEN void ffi_incref(uintptr_t object);
FFI_HIDDEN void ffi_decref(uintptr_t object);
FFI_HIDDEN ffi_result ffi_string(const char *data, size_t size, int bytes);
FFI_HIDDEN ffi_result ffi_global(const char *name, size_t size);
FFI_HIDDEN ffi_result ffi_set_global(const char *name, size_t size, uintptr_t function, int replace);
FFI_HIDDEN ffi_result ffi_function(uint64_t id);
FFI_HIDDEN int ffi_deleted_function(uint64_t *id);
FFI_HIDDEN ffi_result ffi_tensor(uintptr_t managed);
FFI_HIDDEN ffi_result ffi_managed(uintptr_t tensor);
FFI_HIDDEN ffi_result ffi_own(const ffi_any *argument);
FFI_HIDDEN int ffi_refuse(const char *message);
FFI_HIDDEN int ffi_raise(const char *kind, size_t kind_size, const char *message, size_t message_size,
                         const char *backtrace, size_t backtrace_size);

#endif
