/* Decoding and encoding of tensors of Decthings, and the check of its rules, in Go. */
#include "_cgo_export.h"

static int32_t check_dialect(const char *op, int32_t dialect, dlb_error *error) {
  if (dialect >= DLB_DECTHINGS_DOC && dialect <= DLB_DECTHINGS_RS015) return DLB_OK;
  return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: dialect = %d is not in %d..%d (DLB_DECTHINGS_*)", op, (int)dialect,
                   DLB_DECTHINGS_DOC, DLB_DECTHINGS_RS015);
}

int32_t dlb_decthings_decode(dlb_value *out, const dlb_frame *frame, int32_t dialect, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = check_dialect(__func__, dialect, error);
  if (code != DLB_OK) return code;
  capi_input in = {.count = 1, .dialect = dialect};
  return capi_decode_values(__func__, out, frame, capiDecthingsDecode, &in, error);
}

int32_t dlb_decthings_decode_batch(dlb_value *out, size_t count, const dlb_frame *frame, size_t offset,
                              int32_t dialect, dlb_error *error) {
  if (count > PTRDIFF_MAX / sizeof *out)
    return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = %zu, more than memory can hold", __func__, count);
  int32_t code = capi_clear(__func__, out, count * sizeof *out, error);
  if (code == DLB_OK && count == 0) code = capi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = 0, must be at least 1", __func__);
  if (code == DLB_OK) code = check_dialect(__func__, dialect, error);
  if (code != DLB_OK) return code;
  capi_input in = {.count = count, .offset = offset, .dialect = dialect};
  return capi_decode_values(__func__, out, frame, capiDecthingsDecodeBatch, &in, error);
}

int32_t dlb_decthings_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                             int32_t dialect, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = check_dialect(__func__, dialect, error);
  if (code != DLB_OK) return code;
  return capi_encode_value(__func__, out, data, room, value, capiDecthingsEncode, (uint64_t)dialect, error);
}

int32_t dlb_decthings_check(dlb_bytes rules, const dlb_value *value, dlb_error *error) {
  DLManagedTensorVersioned view;
  int32_t code = capi_check_bytes(__func__, "rules.data", rules.data, rules.size, error);
  if (code == DLB_OK) code = capi_check_value(__func__, value, 0, &view, error);
  if (code == DLB_OK) code = capi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  if (rules.size == 0) rules.data = NULL;
  return capiDecthingsCheck(rules, value->tensor != NULL ? &view : NULL, value->elements, error);
}
