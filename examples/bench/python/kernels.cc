// kernels.cc: TVM-FFI functions. scale is written by hand in C++; exporter has it in Go. add is like the output of a
// kernel compiler.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

static void check(ffi::TensorView t, int64_t count) {
  if (t.dtype() != DLDataType{kDLFloat, 32, 1}) TVM_FFI_THROW(TypeError) << "the data type is not float32";
  if (t.device().device_type != kDLCPU || !t.IsContiguous()) TVM_FFI_THROW(ValueError) << "it is not packed on the host";
  if (t.numel() != count) TVM_FFI_THROW(ValueError) << t.numel() << " elements instead of " << count;
}

static void scale(ffi::TensorView x, ffi::TensorView y, double k) {
  int64_t n = y.numel();
  check(x, n), check(y, n);
  const float *a = static_cast<const float *>(x.data_ptr()), f = static_cast<float>(k);
  float *b = static_cast<float *>(y.data_ptr());
  for (int64_t i = 0; i < n; i++) b[i] = f * a[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);

static int raise(const char *kind, const char *message) {
  TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_nothing(void *, const TVMFFIAny *, int32_t, TVMFFIAny *) { return 0; }

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_add(void *, const TVMFFIAny *args, int32_t count, TVMFFIAny *) {
  const DLTensor *t[3];
  if (count != 3) return raise("TypeError", "it takes 3 arguments");
  for (int i = 0; i < 3; i++) {
    if (args[i].type_index == kTVMFFIDLTensorPtr) {
      t[i] = static_cast<const DLTensor *>(args[i].v_ptr);
    } else if (args[i].type_index == kTVMFFITensor) {
      t[i] = TVMFFITensorGetDLTensorPtr(args[i].v_obj);
    } else {
      return raise("TypeError", "it is no tensor");
    }
    if (t[i]->dtype.code != kDLFloat || t[i]->dtype.bits != 32 || t[i]->dtype.lanes != 1) return raise("TypeError", "dtype");
    if (t[i]->ndim != 1 || t[i]->shape[0] != t[0]->shape[0]) return raise("ValueError", "shape");
    if (t[i]->strides != nullptr && t[i]->strides[0] != 1) return raise("ValueError", "strides");
    if (t[i]->byte_offset != 0 || t[i]->device.device_type != kDLCPU) return raise("ValueError", "device or byte_offset");
  }
  const float *a = static_cast<const float *>(t[0]->data), *b = static_cast<const float *>(t[1]->data);
  float *c = static_cast<float *>(t[2]->data);
  for (int64_t i = 0, n = t[0]->shape[0]; i < n; i++) c[i] = a[i] + b[i];
  return 0;
}
