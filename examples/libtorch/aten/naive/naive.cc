#include "naive.h"

#include <ATen/DLConvertor.h>

#include <exception>

void *naive_take(DLManagedTensorVersioned *managed) {
  try {
    return at::fromDLPackVersioned(managed).unsafeReleaseTensorImpl();
  } catch (const std::exception &) {
    return nullptr;
  }
}

void naive_free(void *tensor) {
  c10::intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>::reclaim(static_cast<at::TensorImpl *>(tensor));
}
