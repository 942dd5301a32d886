//go:build !dlbridge_shared

/* The tensor functions of dlbridge.h. All of it is plain C on the C core. It does not enter Go, and so works in a
 * forked child and before the Go runtime has started. */
#include "capi.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
  FLAGS = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | PADDED
};

static int32_t allocate_tensor(const char *op, DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                        const int64_t *shape, int zeroed, dlb_error *error) {
  int32_t code = CAPI_CLEAR(op, out, error);
  if (code != DLB_OK) return code;
  DLTensor view = {
      .device = {.device_type = kDLCPU},
      .ndim = ndim,
      .dtype = dtype,
      .shape = (int64_t *)shape,
  };
  dlbcore_extent extent;
  char where[256];
  dlbcore_status status = dlbcore_check_layout(&view, 0, &extent, where, sizeof where);
  if (status != CORE_OK) return dlbcapi_refuse_description(op, "tensor", &view, status, where, error);
  dlbcore_share *share = dlbcore_share_alloc((size_t)extent.nbytes, zeroed);
  if (share == NULL)
    return dlbcapi_fail(error, DLB_ERROR_MEMORY, "%s: no memory for %" PRId64 " bytes", op,
                        extent.nbytes);
  view.data = share->data;
  return dlbcapi_hand_over(out, op, share, &view, 0, dlbcore_share_drop, error);
}

int32_t dlb_tensor_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         dlb_error *error) {
  return allocate_tensor(__func__, out, dtype, ndim, shape, 1, error);
}

int32_t dlb_tensor_empty(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         dlb_error *error) {
  return allocate_tensor(__func__, out, dtype, ndim, shape, 0, error);
}

/* Memory of dlb_tensor_alloc_with, and the allocator that takes it back. */
typedef struct {
  dlb_allocator allocator;
  void *memory;
  size_t size;
} allocation;

static void give_back(void *ctx) {
  allocation a = *(allocation *)ctx;
  free(ctx);
  a.allocator.free(a.allocator.ctx, a.memory, a.size);
}

/* Makes the tensor `view` on memory of extent->nbytes bytes of an allocator. */
static int32_t allocate_with(const char *op, DLManagedTensorVersioned **out, DLTensor *view, const dlbcore_extent *extent,
                             const dlb_allocator *allocator, dlb_error *error) {
  size_t size = (size_t)extent->nbytes;
  allocation *a = malloc(sizeof *a);
  if (a == NULL) return dlbcapi_memory(op, error);
  *a = (allocation){*allocator, allocator->allocate(allocator->ctx, size), size};
  if (a->memory == NULL) {
    free(a);
    return dlbcapi_fail(error, DLB_ERROR_MEMORY, "%s: the allocator has returned no memory for %zu bytes", op, size);
  }
  view->data = a->memory;
  dlbcore_share *hold = NULL;
  int32_t code = dlbcapi_check_description(op, "memory of the allocator", view, 0, NULL, error);
  if (code == DLB_OK) {
    memset(a->memory, 0, size);
    hold = dlbcapi_hold(give_back, a);
    code = hold == NULL ? dlbcapi_memory(op, error) : dlbcapi_hand_over(out, op, hold, view, 0, dlbcapi_unhold, error);
  }
  if (code != DLB_OK) give_back(a);
  return code;
}

int32_t dlb_tensor_alloc_with(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                              const dlb_allocator *allocator, dlb_error *error) {
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code != DLB_OK) return code;
  if (allocator == NULL) return dlbcapi_null(__func__, "allocator", error);
  if (allocator->allocate == NULL) return dlbcapi_null(__func__, "allocator->allocate", error);
  if (allocator->free == NULL) return dlbcapi_null(__func__, "allocator->free", error);
  DLTensor view = {.device = {.device_type = kDLCPU}, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)shape};
  char where[256];
  dlbcore_status status = dlbcore_check_layout(&view, 0, &extent, where, sizeof where);
  if (status != CORE_OK) return dlbcapi_refuse_description(__func__, "tensor", &view, status, where, error);
  if (extent.nbytes == 0) return allocate_tensor(__func__, out, dtype, ndim, shape, 0, error);
  return allocate_with(__func__, out, &view, &extent, allocator, error);
}

int32_t dlb_tensor_lend(DLManagedTensorVersioned **out, const DLTensor *view, uint64_t flags,
                        void (*release)(void *ctx), void *ctx, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "flags", flags, FLAGS, error);
  if (code == DLB_OK) code = dlbcapi_check_description(__func__, "view", view, flags, NULL, error);
  if (code == DLB_OK && view->device.device_type == 0)
    code = dlbcapi_fail(error, DLB_ERROR_DEVICE, "%s: view->device is not set: {kDLCPU, 0} is the memory of the host", __func__);
  if (code != DLB_OK) return code;
  dlbcore_share *hold = dlbcapi_hold(release, ctx);
  if (hold == NULL) return dlbcapi_memory(__func__, error);
  return dlbcapi_hand_over(out, __func__, hold, view, flags, dlbcapi_unhold, error);
}

int32_t dlb_tensor_import(DLManagedTensorVersioned **out, DLManagedTensorVersioned *tensor, dlb_error *error) {
  dlbcore_share *hold;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  if (code == DLB_OK) code = dlbcapi_hold_versioned(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  return dlbcapi_hand_over(out, __func__, hold, &tensor->dl_tensor, tensor->flags & FLAGS, dlbcapi_unhold, error);
}

static int32_t measure(const char *op, dlbcore_extent *extent, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = dlbcapi_check(op, "tensor", tensor, extent, error);
  return code == DLB_OK ? dlbcapi_ok(error) : code;
}

int32_t dlb_tensor_validate(const DLManagedTensorVersioned *tensor, dlb_error *error) {
  return measure(__func__, NULL, tensor, error);
}

int32_t dlb_tensor_nbytes(int64_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = measure(__func__, &extent, tensor, error);
  if (code == DLB_OK) *out = extent.nbytes;
  return code;
}

int32_t dlb_tensor_count(int64_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = measure(__func__, &extent, tensor, error);
  if (code == DLB_OK) *out = extent.count;
  return code;
}

int32_t dlb_tensor_is_contiguous(int32_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = measure(__func__, &extent, tensor, error);
  if (code == DLB_OK) *out = extent.row_major;
  return code;
}

int32_t dlb_tensor_to_legacy(DLManagedTensor **out, DLManagedTensorVersioned *tensor,
                             dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  if (code != DLB_OK) return code;
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return dlbcapi_fail(error, DLB_ERROR_READONLY,
                        "%s: the tensor is read-only, which the legacy form cannot represent; dlb_tensor_copy makes a writable one",
                        __func__);
  if ((tensor->flags & PADDED) && tensor->dl_tensor.dtype.bits * tensor->dl_tensor.dtype.lanes % 8)
    return dlbcapi_fail(error, DLB_ERROR_DTYPE,
                        "%s: the elements are padded, which the legacy form cannot represent",
                        __func__);
  dlbcore_share *hold;
  code = dlbcapi_hold_versioned(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  *out = dlbcore_export_legacy(hold, &tensor->dl_tensor);
  if (*out == NULL) {
    dlbcapi_unhold(hold);
    return dlbcapi_memory(__func__, error);
  }
  dlbcore_share_drop(hold);
  return dlbcapi_ok(error);
}

int32_t dlb_tensor_from_legacy(DLManagedTensorVersioned **out, DLManagedTensor *tensor,
                               uint64_t flags, dlb_error *error) {
  dlbcore_share *hold;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check_address(__func__, "tensor", tensor, error);
  if (code == DLB_OK)
    code = dlbcapi_check_live(__func__, "tensor", NO_INDEX, tensor, dlbcore_block_of_legacy(tensor), error);
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "flags", flags, FLAGS, error);
  if (code == DLB_OK) code = dlbcapi_check_description(__func__, "tensor", &tensor->dl_tensor, flags, NULL, error);
  if (code == DLB_OK) code = dlbcapi_hold_legacy(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  return dlbcapi_hand_over(out, __func__, hold, &tensor->dl_tensor, flags, dlbcapi_unhold, error);
}

void dlb_tensor_release(DLManagedTensorVersioned *tensor) {
  if (tensor == NULL || tensor->deleter == NULL) return;
  if (tensor->deleter == dlbcore_delete_versioned && tensor->manager_ctx != tensor) return; /* a copy of the struct */
  tensor->deleter(tensor);
}
