/* The tensor functions of dlbridge.h. All of it is plain C on the C core. It does not enter Go, so that it works in a forked
 * child and before the Go runtime has started. */
#include "capi.h"

#include <inttypes.h>

enum {
  PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
  FLAGS = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | PADDED
};

static int32_t allocate(const char *op, DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                        const int64_t *shape, int zeroed, dlb_error *error) {
  int32_t code = CAPI_CLEAR(op, out, error);
  if (code != DLB_OK) return code;
  DLTensor view = {
      .device = {.device_type = kDLCPU},
      .ndim = ndim,
      .dtype = dtype,
      .shape = (int64_t *)shape,
  };
  core_extent extent;
  char where[256];
  core_status status = core_check_layout(&view, 0, &extent, where, sizeof where);
  if (status != CORE_OK) return capi_fail(error, (int32_t)status, "%s: tensor: %s", op, where);
  core_share *share = core_share_alloc((size_t)extent.nbytes, zeroed);
  if (share == NULL)
    return capi_fail(error, DLB_ERROR_MEMORY, "%s: no memory for %" PRId64 " bytes", op,
                     extent.nbytes);
  view.data = share->data;
  return capi_hand_over(out, op, share, &view, 0, core_share_drop, error);
}

int32_t dlb_tensor_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         dlb_error *error) {
  return allocate(__func__, out, dtype, ndim, shape, 1, error);
}

int32_t dlb_tensor_empty(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         dlb_error *error) {
  return allocate(__func__, out, dtype, ndim, shape, 0, error);
}

int32_t dlb_tensor_lend(DLManagedTensorVersioned **out, const DLTensor *view, uint64_t flags,
                        void (*release)(void *ctx), void *ctx, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check_bits(__func__, "flags", flags, FLAGS, error);
  if (code == DLB_OK) code = capi_check_description(__func__, "view", view, flags, NULL, error);
  if (code == DLB_OK && view->device.device_type == 0)
    code = capi_fail(error, DLB_ERROR_DEVICE, "%s: view->device is not set: {kDLCPU, 0} is the memory of the host", __func__);
  if (code != DLB_OK) return code;
  core_share *hold = capi_hold(release, ctx);
  if (hold == NULL) return capi_memory(__func__, error);
  return capi_hand_over(out, __func__, hold, view, flags, capi_unhold, error);
}

int32_t dlb_tensor_import(DLManagedTensorVersioned **out, DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_share *hold;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, NULL, error);
  if (code == DLB_OK) code = capi_hold_versioned(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  return capi_hand_over(out, __func__, hold, &tensor->dl_tensor, tensor->flags & FLAGS, capi_unhold, error);
}

int32_t dlb_tensor_validate(const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = capi_check(__func__, "tensor", tensor, NULL, error);
  return code == DLB_OK ? capi_ok(error) : code;
}

int32_t dlb_tensor_nbytes(int64_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  *out = extent.nbytes;
  return capi_ok(error);
}

int32_t dlb_tensor_to_legacy(DLManagedTensor **out, DLManagedTensorVersioned *tensor,
                             dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, NULL, error);
  if (code != DLB_OK) return code;
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return capi_fail(error, DLB_ERROR_READONLY,
                     "%s: the tensor is read-only, which the legacy form cannot represent; dlb_tensor_copy makes a writable one",
                     __func__);
  if ((tensor->flags & PADDED) && tensor->dl_tensor.dtype.bits * tensor->dl_tensor.dtype.lanes % 8)
    return capi_fail(error, DLB_ERROR_DTYPE,
                     "%s: the elements are padded, which the legacy form cannot represent",
                     __func__);
  core_share *hold;
  code = capi_hold_versioned(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  *out = core_export_legacy(hold, &tensor->dl_tensor);
  if (*out == NULL) {
    capi_unhold(hold);
    return capi_memory(__func__, error);
  }
  core_share_drop(hold);
  return capi_ok(error);
}

int32_t dlb_tensor_from_legacy(DLManagedTensorVersioned **out, DLManagedTensor *tensor,
                               uint64_t flags, dlb_error *error) {
  core_share *hold;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check_address(__func__, "tensor", tensor, error);
  if (code == DLB_OK)
    code = capi_check_live(__func__, "tensor", NO_INDEX, tensor, core_block_of_legacy(tensor), error);
  if (code == DLB_OK) code = capi_check_bits(__func__, "flags", flags, FLAGS, error);
  if (code == DLB_OK) code = capi_check_description(__func__, "tensor", &tensor->dl_tensor, flags, NULL, error);
  if (code == DLB_OK) code = capi_hold_legacy(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  return capi_hand_over(out, __func__, hold, &tensor->dl_tensor, flags, capi_unhold, error);
}

void dlb_tensor_release(DLManagedTensorVersioned *tensor) {
  if (tensor == NULL || tensor->deleter == NULL) return;
  if (tensor->deleter == core_delete_versioned && tensor->manager_ctx != tensor) return; /* a copy of the struct */
  tensor->deleter(tensor);
}
