/* Copies of tensors: dlb_tensor_copy, dlb_tensor_contiguous and dlb_tensor_convert. All of it is plain C. */
#include "capi.h"

enum { PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED };

static int32_t copy(const char *op, DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_share *share = NULL;
  char where[256];
  core_status status = core_copy_compact(&share, &tensor->dl_tensor, tensor->flags, where, sizeof where);
  if (status != CORE_OK) return capi_fail(error, (int32_t)status, "%s: tensor: %s", op, where);
  DLTensor view = tensor->dl_tensor;
  view.data = share->data;
  view.device = (DLDevice){.device_type = kDLCPU};
  view.strides = NULL;
  view.byte_offset = 0;
  uint64_t flags = DLPACK_FLAG_BITMASK_IS_COPIED | (tensor->flags & PADDED);
  return capi_hand_over(out, op, share, &view, flags, core_share_drop, error);
}

int32_t dlb_tensor_copy(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, NULL, error);
  return code == DLB_OK ? copy(__func__, out, tensor, error) : code;
}

int32_t dlb_tensor_contiguous(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  if (!extent.row_major) return copy(__func__, out, tensor, error);
  code = capi_check_own(__func__, "tensor", tensor, error);
  if (code != DLB_OK) return code;
  DLTensor view = tensor->dl_tensor;
  view.strides = NULL;
  uint64_t flags = tensor->flags & (DLPACK_FLAG_BITMASK_READ_ONLY | PADDED);
  *out = core_export_versioned(core_block_of_versioned(tensor)->share, &view, flags);
  return *out == NULL ? capi_memory(__func__, error) : capi_ok(error);
}

static int is_number(DLDataType dtype) { return core_known_dtype(dtype) && dtype.code != kDLOpaqueHandle; }

/* The name of a data type, for an error text. */
typedef struct {
  char text[64];
} name;

static name name_of(DLDataType dtype) {
  name n;
  size_t size;
  dlb_dtype_format(&size, n.text, sizeof n.text, dtype, NULL);
  return n;
}

/* Checks that tensors of the data type `from` can be converted to `to`. */
static int32_t check_numbers(const char *op, DLDataType to, DLDataType from, dlb_error *error) {
  if (!is_number(from) || !is_number(to))
    return capi_fail(error, DLB_ERROR_DTYPE, "%s: %s is not a type of numbers", op, name_of(is_number(from) ? to : from).text);
  if (to.lanes == from.lanes) return DLB_OK;
  return capi_fail(error, DLB_ERROR_DTYPE, "%s: %s has other lanes than %s", op, name_of(to).text, name_of(from).text);
}

int32_t dlb_tensor_convert(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, DLDataType dtype,
                           dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, NULL, error);
  if (code != DLB_OK) return code;
  const DLTensor *from = &tensor->dl_tensor;
  code = capi_check_readable(__func__, from, error);
  if (code == DLB_OK) code = check_numbers(__func__, dtype, from->dtype, error);
  if (code != DLB_OK) return code;

  core_share *share;
  core_extent extent;
  char where[256] = "";
  core_status status = core_copy_convert(&share, &extent, from, tensor->flags, dtype, where, sizeof where);
  if (status != CORE_OK) return capi_fail(error, (int32_t)status, "%s: %s", __func__, where);
  DLTensor view = {
      .data = share->data, .device = {.device_type = kDLCPU}, .ndim = from->ndim, .dtype = dtype, .shape = from->shape};
  return capi_hand_over(out, __func__, share, &view, DLPACK_FLAG_BITMASK_IS_COPIED, core_share_drop, error);
}
