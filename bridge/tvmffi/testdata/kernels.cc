// kernels.cc: functions as C++ programs write them, with TVM-FFI's own headers, which the wheel carries.
#include <tvm/ffi/tvm_ffi.h>

#include <stdexcept>

namespace ffi = tvm::ffi;

namespace {

void scale(ffi::TensorView x, ffi::TensorView y, double k) {
  if (x.size(0) != y.size(0)) TVM_FFI_THROW(ValueError) << x.size(0) << " elements, and room for " << y.size(0);
  const float *from = static_cast<const float *>(x.data_ptr());
  for (int64_t i = 0; i < x.size(0); i++) static_cast<float *>(y.data_ptr())[i] = static_cast<float>(k) * from[i];
}

// Exceptions of TVM-FFI's, and of C++'s.
void fail(int64_t how) {
  if (how == 0) TVM_FFI_THROW(IndexError) << "as asked for";
  throw std::out_of_range("as asked for");
}

// Calls of functions of Go's, whose results C++ checks, and whose errors are exceptions.
int64_t apply(ffi::Function f, ffi::Any x) { return f(x).cast<int64_t>(); }

ffi::String caught(ffi::Function f, ffi::Any x) {
  try {
    f(x);
  } catch (const ffi::Error &e) {
    return e.kind() + ": " + e.message();
  }
  return "nothing";
}

// A list, which Go cannot represent, with tensors in it.
ffi::Array<ffi::Any> list(ffi::Tensor x) { return {x, x, ffi::String("a longer string"), nullptr}; }

ffi::Tensor last(ffi::Array<ffi::Tensor> tensors) { return tensors.back(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, fail)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply, apply)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(caught, caught)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(list, list)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(last, last)
