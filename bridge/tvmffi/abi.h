/* abi.h: the part of the C ABI of TVM-FFI 0.1 that dlbridge uses, declared under names of its own.
 * TVM-FFI is not needed to compile or to link this: the functions are looked up in libtvm_ffi when it is
 * loaded. A test compares the values, layouts and signatures with upstream's header, which the wheel
 * apache-tvm-ffi contains.
 */
#ifndef DLB_TVMFFI_ABI_H_
#define DLB_TVMFFI_ABI_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* The versions of libtvm_ffi that have this ABI: FFI_MAJOR.FFI_MINOR.x. */
enum { FFI_MAJOR = 0, FFI_MINOR = 1 };

/* The types of an ffi_any. A value of type FFI_OBJECT or above is a counted reference to an object. */
enum {
  FFI_NONE = 0,
  FFI_INT = 1,
  FFI_BOOL = 2,
  FFI_FLOAT = 3,
  FFI_POINTER = 4,
  FFI_DTYPE = 5,
  FFI_DEVICE = 6,
  FFI_DLTENSOR = 7,     /* DLTensor *, the caller's: arguments only */
  FFI_RAW_STRING = 8,   /* const char *, the caller's: arguments only */
  FFI_BYTE_ARRAY = 9,   /* ffi_bytes *, the caller's: arguments only */
  FFI_MOVED = 10,       /* ffi_object **, the caller's, from which the callee may take the object: arguments only */
  FFI_SMALL_STRING = 11, /* up to FFI_SMALL_MAX bytes, in the ffi_any itself */
  FFI_SMALL_BYTES = 12,
  FFI_UNCHANGED = 13, /* what a structural mutation returns for what it leaves as it was */
  FFI_OBJECT = 64,
  FFI_STRING = 65,
  FFI_BYTES = 66,
  FFI_ERROR = 67,
  FFI_FUNCTION = 68,
  FFI_SHAPE = 69,
  FFI_TENSOR = 70,
  FFI_ARRAY = 71,
  FFI_MODULE = 73
};

/* The header of an object. The cell follows it: the content, whose form depends on the type. The cell of a
 * tensor is its DLTensor. */
typedef struct ffi_object {
  uint64_t references; /* strong ones in the lower 32 bits, weak ones in the upper */
  int32_t type;
  uint32_t unused;
  void (*deleter)(void *self, int flags);
} ffi_object;

typedef struct ffi_any {
  int32_t type;
  uint32_t size; /* of small strings and bytes; 0 for all others */
  union {
    int64_t integer; /* bool too */
    double number;
    void *pointer;
    ffi_object *object;
    DLDataType dtype;
    DLDevice device;
    char bytes[8];
    uint64_t bits;
  } value;
} ffi_any;

enum { FFI_SMALL_MAX = 7 };

/* The cell of strings and bytes. */
typedef struct ffi_bytes {
  const char *data;
  size_t size;
} ffi_bytes;

/* The first fields of an error's cell. */
typedef struct ffi_error {
  ffi_bytes kind;
  ffi_bytes message;
  ffi_bytes backtrace; /* the innermost call first: `  File "name", line 1, in function` */
} ffi_error;

typedef struct ffi_version {
  uint32_t major, minor, patch;
} ffi_version;

/* The C form of a function. The caller sets *result to FFI_NONE before the call, and owns it afterwards.
 * Returns 0, or -1 with an error left in the thread. */
typedef int (*ffi_call)(void *self, const ffi_any *args, int32_t count, ffi_any *result);

/* ErrorSetRaisedFromCStr, which leaves an error in the thread. It takes nothing whose form could depend on the version, and
 * is the only function besides GetVersion that is called in a libtvm_ffi of another version. */
typedef void (*ffi_raise_text)(const char *kind, const char *message);

/* The functions that are looked up in libtvm_ffi. Their names there begin with TVMFFI. */
#define FFI_FUNCTIONS(X)                                                                            \
  X(void, GetVersion, (ffi_version *out))                                                           \
  X(int, ObjectIncRef, (void *object))                                                              \
  X(int, ObjectDecRef, (void *object))                                                              \
  X(int, FunctionCreate, (void *self, ffi_call call, void (*deleter)(void *self), void **out))      \
  X(int, FunctionGetGlobal, (const ffi_bytes *name, void **out))                                    \
  X(int, FunctionSetGlobal, (const ffi_bytes *name, void *function, int replace))                   \
  X(int, FunctionCall, (void *function, ffi_any *args, int32_t count, ffi_any *result))             \
  X(int, AnyViewToOwnedAny, (const ffi_any *view, ffi_any *out))                                    \
  X(void, ErrorMoveFromRaised, (void **out))                                                        \
  X(void, ErrorSetRaised, (void *error))                                                            \
  X(int, ErrorCreate,                                                                               \
    (const ffi_bytes *kind, const ffi_bytes *message, const ffi_bytes *backtrace, void **out))      \
  X(int, TensorFromDLPackVersioned,                                                                 \
    (DLManagedTensorVersioned *from, int32_t alignment, int32_t contiguous, void **out))            \
  X(int, TensorToDLPackVersioned, (void *tensor, DLManagedTensorVersioned **out))                   \
  X(int, StringFromByteArray, (const ffi_bytes *input, ffi_any *out))                               \
  X(int, BytesFromByteArray, (const ffi_bytes *input, ffi_any *out))

#endif
