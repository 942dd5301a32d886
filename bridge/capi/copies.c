//go:build !dlbridge_shared

/* Copies of tensors, into new or existing memory; views that share memory; comparison. All of it is plain C. */
#include "capi.h"
#include "copy.h"

static int32_t copy(const char *op, DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  dlbcore_share *share = NULL;
  char where[256];
  dlbcore_status status = dlbcore_copy_compact(&share, &tensor->dl_tensor, tensor->flags, where, sizeof where);
  if (status != CORE_OK) return dlbcapi_fail(error, (int32_t)status, "%s: tensor: %s", op, where);
  DLTensor view = tensor->dl_tensor;
  view.data = share->data;
  view.device = (DLDevice){.device_type = kDLCPU};
  view.strides = NULL;
  view.byte_offset = 0;
  uint64_t flags = DLPACK_FLAG_BITMASK_IS_COPIED | (tensor->flags & PADDED);
  return dlbcapi_hand_over(out, op, share, &view, flags, dlbcore_share_drop, error);
}

int32_t dlb_tensor_copy(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  return code == DLB_OK ? copy(__func__, out, tensor, error) : code;
}

/* Sets *out to another tensor on the memory of a tensor of this library, with these strides; NULL means row-major. */
static int32_t share(const char *op, DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int64_t *strides,
                     dlb_error *error) {
  int32_t code = dlbcapi_check_own(op, "tensor", tensor, error);
  if (code != DLB_OK) return code;
  DLTensor view = tensor->dl_tensor;
  view.strides = strides;
  uint64_t flags = tensor->flags & (DLPACK_FLAG_BITMASK_READ_ONLY | PADDED);
  *out = dlbcore_export_versioned(dlbcore_block_of_versioned(tensor)->share, &view, flags);
  return *out == NULL ? dlbcapi_memory(op, error) : dlbcapi_ok(error);
}

int32_t dlb_tensor_share(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  return code == DLB_OK ? share(__func__, out, tensor, tensor->dl_tensor.strides, error) : code;
}

int32_t dlb_tensor_contiguous(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  return extent.row_major ? share(__func__, out, tensor, NULL, error) : copy(__func__, out, tensor, error);
}

static int is_number(DLDataType dtype) { return dlbcore_can_convert(dtype, dtype); }

/* The name of a data type, for an error text. */
typedef struct {
  char text[64];
} name;

static name name_of(DLDataType dtype) {
  name n;
  size_t size;
  if (dlb_dtype_format(&size, n.text, sizeof n.text, dtype, NULL) != DLB_OK) n.text[0] = 0;
  return n;
}

/* Checks that tensors of the data type `from` can be converted to `to`. */
static int32_t check_numbers(const char *op, DLDataType to, DLDataType from, dlb_error *error) {
  if (!is_number(from) || !is_number(to))
    return dlbcapi_fail(error, DLB_ERROR_DTYPE, "%s: %s is not a type of numbers", op, name_of(is_number(from) ? to : from).text);
  if (to.lanes == from.lanes) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_DTYPE, "%s: %s has another number of lanes than %s", op, name_of(to).text, name_of(from).text);
}

int32_t dlb_tensor_convert(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, DLDataType dtype,
                           dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  if (code != DLB_OK) return code;
  const DLTensor *from = &tensor->dl_tensor;
  code = dlbcapi_check_readable(__func__, from, error);
  if (code == DLB_OK) code = check_numbers(__func__, dtype, from->dtype, error);
  if (code != DLB_OK) return code;

  dlbcore_share *share = NULL;
  dlbcore_extent extent;
  char where[256] = "";
  dlbcore_status status = dlbcore_copy_convert(&share, &extent, from, tensor->flags, dtype, NULL, where, sizeof where);
  if (status != CORE_OK) return dlbcapi_fail(error, (int32_t)status, "%s: %s", __func__, where);
  DLTensor view = {
      .data = share->data, .device = {.device_type = kDLCPU}, .ndim = from->ndim, .dtype = dtype, .shape = from->shape};
  return dlbcapi_hand_over(out, __func__, share, &view, DLPACK_FLAG_BITMASK_IS_COPIED, dlbcore_share_drop, error);
}

/* Copies the elements of one tensor into the memory of another, by dlbcore_assign. */
static int32_t assign(const char *op, const DLManagedTensorVersioned *dst, const DLTensor *src, uint64_t flags,
                      const dlbcore_scaling *scaling, dlb_error *error) {
  char where[256] = "";
  dlbcore_status status = dlbcore_assign(&dst->dl_tensor, dst->flags, src, flags, scaling, where, sizeof where);
  if (status == CORE_OK) return dlbcapi_ok(error);
  if (status == CORE_ERR_DTYPE && where[0] == 0) {
    int32_t code = check_numbers(op, dst->dl_tensor.dtype, src->dtype, error);
    if (code != DLB_OK) return code;
  }
  return dlbcapi_fail(error, (int32_t)status, "%s: %s", op, where);
}

int32_t dlb_tensor_copy_into(const DLManagedTensorVersioned *dst, const DLManagedTensorVersioned *src, dlb_error *error) {
  int32_t code = dlbcapi_check(__func__, "dst", dst, NULL, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "src", src, NULL, error);
  return code == DLB_OK ? assign(__func__, dst, &src->dl_tensor, src->flags, NULL, error) : code;
}

int32_t dlb_tensor_convert_scaled(const DLManagedTensorVersioned *dst, const DLManagedTensorVersioned *src, int32_t axis,
                                  int64_t scales, const double *scale, int64_t shifts, const double *shift, dlb_error *error) {
  int32_t code = dlbcapi_check(__func__, "dst", dst, NULL, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "src", src, NULL, error);
  if (code != DLB_OK) return code;
  if (scales > 0 && scale == NULL) return dlbcapi_null(__func__, "scale", error);
  if (shifts > 0 && shift == NULL) return dlbcapi_null(__func__, "shift", error);
  dlbcore_scaling scaling = {.scale = scale, .shift = shift, .scales = scales, .shifts = shifts, .dim = axis};
  return assign(__func__, dst, &src->dl_tensor, src->flags, &scaling, error);
}

int32_t dlb_tensor_fill(const DLManagedTensorVersioned *dst, DLDataType dtype, const void *value, dlb_error *error) {
  int32_t code = dlbcapi_check(__func__, "dst", dst, NULL, error);
  if (code != DLB_OK) return code;
  if (value == NULL) return dlbcapi_null(__func__, "value", error);
  DLTensor one = {.data = (void *)value, .device = {.device_type = kDLCPU}, .dtype = dtype};
  code = dlbcapi_check_description(__func__, "value", &one, PADDED, NULL, error);
  return code == DLB_OK ? assign(__func__, dst, &one, PADDED, NULL, error) : code;
}

static int same_shape(const DLTensor *a, const DLTensor *b) {
  if (a->ndim != b->ndim) return 0;
  for (int32_t d = 0; d < a->ndim; d++) {
    if (a->shape[d] != b->shape[d]) return 0;
  }
  return 1;
}

int32_t dlb_tensor_equal(int32_t *out, const DLManagedTensorVersioned *a, const DLManagedTensorVersioned *b, uint64_t flags,
                         dlb_error *error) {
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "a", a, &extent, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "b", b, NULL, error);
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "flags", flags, DLB_EQUAL_NAN, error);
  if (code != DLB_OK) return code;
  const DLTensor *x = &a->dl_tensor, *y = &b->dl_tensor;
  code = dlbcapi_check_readable(__func__, x, error);
  if (code == DLB_OK) code = dlbcapi_check_readable(__func__, y, error);
  if (code == DLB_OK) code = check_numbers(__func__, x->dtype, x->dtype, error);
  if (code == DLB_OK) code = check_numbers(__func__, y->dtype, y->dtype, error);
  if (code != DLB_OK) return code;
  if (x->dtype.code != y->dtype.code || x->dtype.bits != y->dtype.bits || x->dtype.lanes != y->dtype.lanes || !same_shape(x, y))
    return dlbcapi_ok(error);
  int64_t steps[CORE_RANK_MAX];
  dlbcore_set_row_major(steps, x->shape, x->ndim);
  *out = extent.count == 0 || dlbcore_equal((const char *)x->data + x->byte_offset, x->strides == NULL ? steps : x->strides,
                                         (a->flags & PADDED) != 0, (const char *)y->data + y->byte_offset,
                                         y->strides == NULL ? steps : y->strides, (b->flags & PADDED) != 0, x->dtype, x->shape,
                                         x->ndim, (flags & DLB_EQUAL_NAN) != 0) == 1;
  return dlbcapi_ok(error);
}
