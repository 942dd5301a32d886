/* kernels.c: a module of TVM-FFI as compilers make them, with what the tests want to call. It is linked with
 * nothing; what it calls is in libtvm_ffi, which must be in the process already. */
#include <stdlib.h>
#include <string.h>

#include "../abi.h"

#define KERNEL(name) \
  __attribute__((visibility("default"))) int __tvm_ffi_##name(void *self, const ffi_any *args, int32_t n, ffi_any *result)

extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
extern int TVMFFIObjectIncRef(void *object);
extern int TVMFFIObjectDecRef(void *object);
extern int TVMFFIFunctionCall(void *function, ffi_any *args, int32_t count, ffi_any *result);
extern int TVMFFIAnyViewToOwnedAny(const ffi_any *view, ffi_any *out);
extern int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned *from, int32_t alignment, int32_t contiguous, void **out);

static int raise_error(const char *kind, const char *message) {
  TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

static int give(ffi_any *result, int32_t type, int64_t value) {
  result->type = type;
  result->size = 0;
  result->value.integer = value;
  return 0;
}

/* The DLTensor of an argument, or NULL. */
static const DLTensor *tensor(const ffi_any *arg) {
  if (arg->type == FFI_DLTENSOR) return arg->value.pointer;
  if (arg->type == FFI_TENSOR) return (const DLTensor *)(arg->value.object + 1);
  return NULL;
}

KERNEL(nop) { return 0; }

/* c = a + b, as a careful compiler has it. */
KERNEL(vadd) {
  const DLTensor *t[3];
  if (n != 3) return raise_error("TypeError", "vadd takes 3 arguments");
  for (int i = 0; i < 3; i++) {
    if ((t[i] = tensor(&args[i])) == NULL) return raise_error("TypeError", "not a tensor");
    if (t[i]->dtype.code != kDLFloat || t[i]->dtype.bits != 32) return raise_error("TypeError", "dtype is not float32");
    if (t[i]->device.device_type != kDLCPU) return raise_error("ValueError", "not on the CPU");
    if (t[i]->ndim != 1 || t[i]->strides == NULL || t[i]->strides[0] != 1) return raise_error("ValueError", "not a vector");
    if (t[i]->shape[0] != t[0]->shape[0]) return raise_error("ValueError", "Mismatched shape[0]");
  }
  const float *a = t[0]->data, *b = t[1]->data;
  float *c = t[2]->data;
  for (int64_t i = 0; i < t[0]->shape[0]; i++) c[i] = a[i] + b[i];
  return 0;
}

/* c = a b, row-major. */
KERNEL(matmul) {
  const DLTensor *a = tensor(&args[0]), *b = tensor(&args[1]), *c = tensor(&args[2]);
  const float *x = a->data, *y = b->data;
  float *z = c->data;
  int64_t rows = a->shape[0], inner = a->shape[1], columns = b->shape[1];
  if (b->shape[0] != inner || a->strides[0] != inner || b->strides[0] != columns) return raise_error("ValueError", "Mismatched shapes");
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      float sum = 0;
      for (int64_t k = 0; k < inner; k++) sum += x[i * inner + k] * y[k * columns + j];
      z[i * columns + j] = sum;
    }
  return 0;
}

/* What was given. */
KERNEL(echo) {
  if (args[0].type == FFI_DLTENSOR) return raise_error("TypeError", "it is only lent");
  return TVMFFIAnyViewToOwnedAny(&args[0], result);
}

/* The type of an argument, and its bits. */
KERNEL(type) { return give(result, FFI_INT, args[0].type); }
KERNEL(bits) { return give(result, FFI_INT, args[0].value.integer); }

/* Where a tensor's data is, and one number of its description. */
KERNEL(address) { return give(result, FFI_INT, (int64_t)(intptr_t)tensor(&args[0])->data); }
KERNEL(describe) {
  const DLTensor *t = tensor(&args[0]);
  int64_t which = args[1].value.integer;
  int64_t values[] = {t->ndim, t->device.device_type, t->device.device_id, t->dtype.code, t->dtype.bits, t->dtype.lanes, (int64_t)t->byte_offset};
  if (which < 7) return give(result, FFI_INT, values[which]);
  which -= 7;
  return give(result, FFI_INT, which < t->ndim ? t->shape[which] : t->strides[which - t->ndim]);
}

/* Adds one to each float32 of a vector. */
KERNEL(increment) {
  const DLTensor *t = tensor(&args[0]);
  for (int64_t i = 0; i < t->shape[0]; i++) ((float *)t->data)[i] += 1;
  return 0;
}

/* The sum of all arguments' first elements. */
KERNEL(firsts) {
  double sum = 0;
  for (int32_t i = 0; i < n; i++) sum += *(const float *)tensor(&args[i])->data;
  give(result, FFI_FLOAT, 0);
  result->value.number = sum;
  return 0;
}

/* Keeps a tensor beyond the call; reads it; lets go of it. */
static ffi_object *kept;

KERNEL(keep) {
  if (args[0].type != FFI_TENSOR) return raise_error("TypeError", "expected ffi.Tensor");
  TVMFFIObjectIncRef(kept = args[0].value.object);
  return 0;
}

KERNEL(kept_sum) {
  const DLTensor *t = (const DLTensor *)(kept + 1);
  float sum = 0;
  for (int64_t i = 0; i < t->shape[0]; i++) sum += ((const float *)t->data)[i];
  give(result, FFI_FLOAT, 0);
  result->value.number = sum;
  return 0;
}

KERNEL(return_kept) {
  give(result, FFI_TENSOR, (int64_t)(intptr_t)kept);
  kept = NULL;
  return 0;
}

KERNEL(let_go) {
  TVMFFIObjectDecRef(kept);
  kept = NULL;
  return 0;
}

/* A new vector 0, 1, ..., n-1 of float32, made by C; with a second argument its ndim is that. */
static int64_t deletes;

static void delete_made(DLManagedTensorVersioned *self) {
  __atomic_fetch_add(&deletes, 1, __ATOMIC_RELAXED);
  free(self->manager_ctx);
  free(self);
}

KERNEL(make) {
  int64_t count = args[0].value.integer;
  DLManagedTensorVersioned *m = calloc(1, sizeof *m + 2 * sizeof(int64_t));
  float *data = aligned_alloc(64, (size_t)(count * 4 + 63) / 64 * 64);
  for (int64_t i = 0; i < count; i++) data[i] = (float)i;
  int64_t *dims = (int64_t *)(m + 1);
  dims[0] = count;
  dims[1] = 1;
  m->version.major = DLPACK_MAJOR_VERSION;
  m->version.minor = DLPACK_MINOR_VERSION;
  m->manager_ctx = data;
  m->deleter = delete_made;
  m->dl_tensor.data = data;
  m->dl_tensor.device.device_type = kDLCPU;
  m->dl_tensor.ndim = n > 1 ? (int32_t)args[1].value.integer : 1;
  m->dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  m->dl_tensor.shape = dims;
  m->dl_tensor.strides = dims + 1;
  void *out = NULL;
  if (TVMFFITensorFromDLPackVersioned(m, 0, 0, &out) != 0) {
    delete_made(m);
    return -1;
  }
  return give(result, FFI_TENSOR, (int64_t)(intptr_t)out);
}

KERNEL(deletes) { return give(result, FFI_INT, __atomic_load_n(&deletes, __ATOMIC_RELAXED)); }

/* Errors. */
KERNEL(fail) { return raise_error("KeyError", "as asked for"); }
KERNEL(fail_silently) { return -1; }

/* Calls its first argument with the others. */
KERNEL(apply) {
  ffi_any rest[8];
  memcpy(rest, args + 1, sizeof *args * (size_t)(n - 1));
  return TVMFFIFunctionCall(args[0].value.object, rest, n - 1, result);
}

#ifdef WITHOUT_RUNTIME
/* What TVM's compiler leaves for libtvm_runtime to set, and calls in parallel loops. */
__attribute__((visibility("default"))) void *__TVMBackendParallelLaunch;
#endif

/* A borrowed tensor as a result, which nobody may return. */
KERNEL(borrowed) { return give(result, FFI_DLTENSOR, (int64_t)(intptr_t)&kept); }
