// aten.cc is the only file that includes libtorch's headers, because compiling them takes about 15 seconds.

#include "aten.h"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

struct at_model {
  torch::jit::Module module;
};

namespace {

// An at_tensor * is the reference-counted pointer inside an at::Tensor, so a handle needs no memory of its own.
at_tensor *give(at::Tensor tensor) { return reinterpret_cast<at_tensor *>(tensor.unsafeReleaseTensorImpl()); }

at::Tensor see(const at_tensor *tensor) {
  auto *impl = reinterpret_cast<at::TensorImpl *>(const_cast<at_tensor *>(tensor));
  return at::Tensor(c10::intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>::reclaim_copy(impl));
}

// Converts C++ exceptions to errors.
template <typename F>
auto attempt(char *error, F function) -> decltype(function()) {
  try {
    return function();
  } catch (const c10::Error &e) {
    std::snprintf(error, AT_ERROR_SIZE, "%s", e.what_without_backtrace());
  } catch (const std::exception &e) {
    std::snprintf(error, AT_ERROR_SIZE, "%s", e.what());
  } catch (...) {
    std::snprintf(error, AT_ERROR_SIZE, "an exception of an unknown type");
  }
  if constexpr (std::is_same_v<decltype(function()), int>) return -1;
  else return nullptr;
}

void release(void *managed) {
  auto *m = static_cast<DLManagedTensorVersioned *>(managed);
  if (m->deleter != nullptr) m->deleter(m);
}

// Makes the same tensor over host memory as fromDLPackVersioned, in half the time. The storage takes over the memory and its
// deleter in the last step, which cannot fail.
at_tensor *from_host(DLManagedTensorVersioned *managed) {
  const DLTensor &t = managed->dl_tensor;
  const at::IntArrayRef sizes(t.shape, t.ndim), strides(t.strides, t.ndim);
  const caffe2::TypeMeta type = c10::scalarTypeToTypeMeta(at::toScalarType(t.dtype));
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, type.itemsize());
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, at::kCPU));
  c10::StorageImpl *memory = storage.unsafeGetStorageImpl();
  at::Tensor tensor = at::detail::make_tensor<at::TensorImpl>(std::move(storage), c10::DispatchKey::CPU, type);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  memory->set_data_ptr_noswap(at::DataPtr(t.data, managed, release, at::kCPU));
  return give(std::move(tensor));
}

// The managed tensor that from_anywhere is importing on this thread. The caller still owns it.
thread_local const DLManagedTensorVersioned *importing;

struct import_guard {
  explicit import_guard(const DLManagedTensorVersioned *managed) { importing = managed; }
  ~import_guard() { importing = nullptr; }
};

// When fromDLPackVersioned fails, the caller usually still owns the managed tensor, but in some cases the deleter has already
// been called. This deleter does nothing until the import has succeeded, so the caller always still owns it.
at_tensor *from_anywhere(DLManagedTensorVersioned *managed) {
  import_guard guard(managed);
  return give(at::fromDLPackVersioned(managed, [managed](void *) {
    if (importing != managed) release(managed);
  }));
}

}  // namespace

at_tensor *at_from_dlpack(DLManagedTensorVersioned *managed, char *error) {
  return attempt(error, [managed] {
    const DLTensor &t = managed->dl_tensor;
    const bool plain = t.device.device_type == kDLCPU && t.byte_offset == 0 && t.strides != nullptr;
    return plain ? from_host(managed) : from_anywhere(managed);
  });
}

// toDLPackVersioned exports tensors that PyTorch's __dlpack__ refuses: a conjugate view would arrive with wrong numbers.
DLManagedTensorVersioned *at_to_dlpack(const at_tensor *tensor, char *error) {
  return attempt(error, [tensor] {
    at::Tensor t = see(tensor);
    TORCH_CHECK(!t.requires_grad(), "the tensor requires gradient: detach it");
    TORCH_CHECK(!t.is_conj() && !t.is_neg(), "the tensor is a conjugate or negative view: resolve it");
    return at::toDLPackVersioned(t);
  });
}

void at_tensor_free(at_tensor *tensor) {
  c10::intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>::reclaim(reinterpret_cast<at::TensorImpl *>(tensor));
}

at_tensor *at_matmul(const at_tensor *a, const at_tensor *b, char *error) {
  return attempt(error, [=] {
    c10::NoGradGuard no_grad;
    return give(at::matmul(see(a), see(b)));
  });
}

at_tensor *at_softmax(const at_tensor *tensor, int64_t dim, char *error) {
  return attempt(error, [=] {
    c10::NoGradGuard no_grad;
    return give(at::softmax(see(tensor), dim));
  });
}

int at_add_scalar(at_tensor *tensor, double value, char *error) {
  return attempt(error, [=] {
    c10::NoGradGuard no_grad;
    see(tensor).add_(value);
    return 0;
  });
}

at_model *at_model_load(const char *path, char *error) {
  return attempt(error, [path] { return new at_model{torch::jit::load(std::string(path))}; });
}

at_tensor *at_model_run(at_model *model, const at_tensor *input, char *error) {
  return attempt(error, [=] {
    c10::NoGradGuard no_grad;
    return give(model->module.forward({see(input)}).toTensor());
  });
}

void at_model_free(at_model *model) { delete model; }
