//go:build !dlbridge_shared

/* The views of dlbridge.h: tensors that share memory with another tensor. All of it is plain C. */
#include "capi.h"

#include <inttypes.h>

_Static_assert(sizeof(dlb_index) == sizeof(dlbcore_index) && offsetof(dlb_index, start) == offsetof(dlbcore_index, start) &&
                   offsetof(dlb_index, stop) == offsetof(dlbcore_index, stop) &&
                   offsetof(dlb_index, step) == offsetof(dlbcore_index, step) &&
                   offsetof(dlb_index, kind) == offsetof(dlbcore_index, kind) && DLB_INDEX_START == CORE_INDEX_START &&
                   DLB_INDEX_STOP == CORE_INDEX_STOP && DLB_INDEX_AT == CORE_INDEX_AT &&
                   DLB_INDEX_ELLIPSIS == CORE_INDEX_ELLIPSIS && DLB_INDEX_NEW_AXIS == CORE_INDEX_NEW_AXIS,
               "dlb_index and dlbcore_index are the same");

/* Checks the argument `what`, a list of `count` numbers. `count_name` is the name of the argument with their number. */
static int32_t check_list(const char *op, int32_t count, const char *count_name, const char *what, const void *list, size_t alignment,
                          dlb_error *error) {
  if (count < 0) return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s = %" PRId32 ", must not be negative", op, count_name, count);
  if (count > 0 && list == NULL) return dlbcapi_null(op, what, error);
  if (count > 0 && (uintptr_t)list % alignment != 0)
    return dlbcapi_fail(error, DLB_ERROR_UNALIGNED, "%s: %s at %p is not aligned", op, what, list);
  return DLB_OK;
}

/* Begins the view `op` of a tensor. Checks the tensor and the argument `what`, the `count` numbers at `list`, and
 * begins *v, which `end` ends. A tensor of another library has no share to count. */
static int32_t begin(const char *op, DLManagedTensorVersioned **out, dlbcore_viewing *v,
                     const DLManagedTensorVersioned *tensor, int32_t count, const char *count_name, const char *what,
                     const void *list, size_t alignment, dlb_error *error) {
  int32_t code = CAPI_CLEAR(op, out, error);
  if (code == DLB_OK) code = dlbcapi_check(op, "tensor", tensor, NULL, error);
  if (code == DLB_OK) code = dlbcapi_check_own(op, "tensor", tensor, error);
  if (code == DLB_OK) code = check_list(op, count, count_name, what, list, alignment, error);
  if (code != DLB_OK) return code;
  return dlbcore_viewing_begin(v, &tensor->dl_tensor, count) == CORE_OK ? DLB_OK : dlbcapi_memory(op, error);
}

/* Sets *out to a tensor with the layout. If `status` is an error, returns it with the text `where`. */
static int32_t export_view(const char *op, DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor,
                   dlbcore_layout *layout, uint64_t flags, dlbcore_status status, const char *where, dlb_error *error) {
  enum { KEPT = DLPACK_FLAG_BITMASK_READ_ONLY | PADDED };
  if (status == CORE_NEEDS_COPY)
    return dlbcapi_fail(error, DLB_ERROR_LAYOUT, "%s: %s; dlb_tensor_contiguous makes one", op, where);
  if (status != CORE_OK) return dlbcapi_fail(error, (int32_t)status, "%s: %s", op, where);
  flags |= tensor->flags & KEPT;
  DLTensor view = tensor->dl_tensor;
  char text[256] = "";
  status = dlbcore_view_describe(&view, layout, flags, text, sizeof text);
  if (status != CORE_OK) return dlbcapi_fail(error, (int32_t)status, "%s: %s", op, text);
  int32_t code = dlbcapi_check_description(op, "the view", &view, flags, NULL, error);
  if (code != DLB_OK) return code;
  *out = dlbcore_export_versioned(dlbcore_block_of_versioned(tensor)->share, &view, flags);
  return *out == NULL ? dlbcapi_memory(op, error) : dlbcapi_ok(error);
}

/* Ends the view: calls `export_view` for the layout v->view. */
static int32_t end_view(const char *op, DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlbcore_viewing *v,
                   uint64_t flags, dlbcore_status status, const char *where, dlb_error *error) {
  int32_t code = export_view(op, out, tensor, &v->view, flags, status, where, error);
  dlbcore_viewing_end(v);
  return code;
}

/* The body of a function that makes a view. `rule` is a function that computes the layout of the view from the layout
 * of `tensor` and the numbers in `list`. The view gets the flags `more` in addition to those that follow from
 * `tensor`. */
#define VIEW(rule, count, list, cast, more)                                                                         \
  dlbcore_viewing v;                                                                                                   \
  char where[256] = "";                                                                                             \
  int32_t code = begin(__func__, out, &v, tensor, count, #count, #list, list, _Alignof(cast), error);               \
  if (code != DLB_OK) return code;                                                                                  \
  dlbcore_status status = rule(&v.view, &v.base, count, (const cast *)list, where, sizeof where);                      \
  return end_view(__func__, out, tensor, &v, more, status, where, error)

int32_t dlb_tensor_slice(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t count,
                         const dlb_index *index, dlb_error *error) {
  VIEW(dlbcore_view_slice, count, index, dlbcore_index, 0);
}

int32_t dlb_tensor_index(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t count,
                         const int64_t *index, dlb_error *error) {
  VIEW(dlbcore_view_index, count, index, int64_t, 0);
}

int32_t dlb_tensor_address(void **out, const DLManagedTensorVersioned *tensor, int32_t count, const int64_t *index,
                           dlb_error *error) {
  dlbcore_viewing v;
  dlbcore_extent extent;
  char where[256] = "";
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, &extent, error);
  if (code == DLB_OK) code = dlbcapi_check_readable(__func__, &tensor->dl_tensor, error);
  if (code == DLB_OK) code = check_list(__func__, count, "count", "index", index, _Alignof(int64_t), error);
  if (code != DLB_OK) return code;
  if (dlbcore_viewing_begin(&v, &tensor->dl_tensor, count) != CORE_OK) return dlbcapi_memory(__func__, error);
  DLTensor part = tensor->dl_tensor;
  dlbcore_status status = dlbcore_view_index(&v.view, &v.base, count, index, where, sizeof where);
  if (status == CORE_OK) status = dlbcore_view_describe(&part, &v.view, tensor->flags, where, sizeof where);
  dlbcore_viewing_end(&v);
  if (status != CORE_OK) return dlbcapi_fail(error, (int32_t)status, "%s: %s", __func__, where);
  if (extent.count == 0) return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: a tensor without elements has no addresses", __func__);
  *out = (char *)part.data + part.byte_offset;
  return dlbcapi_ok(error);
}

int32_t dlb_tensor_transpose(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t count,
                             const int32_t *order, dlb_error *error) {
  VIEW(dlbcore_view_transpose, count, order, int32_t, 0);
}

int32_t dlb_tensor_reshape(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t ndim,
                           const int64_t *shape, dlb_error *error) {
  VIEW(dlbcore_view_reshape, ndim, shape, int64_t, 0);
}

int32_t dlb_tensor_broadcast_to(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t ndim,
                                const int64_t *shape, dlb_error *error) {
  VIEW(dlbcore_view_broadcast_to, ndim, shape, int64_t,
       status == CORE_OK && dlbcore_overlaps(&v.view) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
}

int32_t dlb_tensor_flip(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t count,
                        const int32_t *axes, dlb_error *error) {
  VIEW(dlbcore_view_flip, count, axes, int32_t, 0);
}

int32_t dlb_tensor_expand(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t count,
                          const int32_t *axes, dlb_error *error) {
  VIEW(dlbcore_view_expand, count, axes, int32_t, 0);
}

int32_t dlb_tensor_squeeze(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, int32_t count,
                           const int32_t *axes, dlb_error *error) {
  VIEW(dlbcore_view_squeeze, count, axes, int32_t, 0);
}
