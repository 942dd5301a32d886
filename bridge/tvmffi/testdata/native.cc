// native.cc: the functions of served, as one writes them in C++ for TVM-FFI.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

static void nop() {}

static void scale(ffi::TensorView x, ffi::TensorView y, double k) {
  for (ffi::TensorView t : {x, y}) {
    if (t.dtype() != DLDataType{kDLFloat, 32, 1}) TVM_FFI_THROW(TypeError) << "the data type is not float32";
    if (t.device().device_type != kDLCPU || !t.IsContiguous()) TVM_FFI_THROW(ValueError) << "it is not packed on the host";
  }
  if (x.numel() != y.numel()) TVM_FFI_THROW(ValueError) << x.numel() << " elements, and room for " << y.numel();
  const float *from = static_cast<const float *>(x.data_ptr());
  float *to = static_cast<float *>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); i++) to[i] = static_cast<float>(k) * from[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(nop, nop);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);
