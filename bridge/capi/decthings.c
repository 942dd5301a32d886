/* Decoding and encoding of tensors of Decthings, and the check of its rules, in Go. */
#include "_cgo_export.h"

#include <inttypes.h>

static int32_t check_dialect(const char *op, uint64_t dialect, dlb_error *error) {
  if (dialect <= DLB_DECTHINGS_RS015) return DLB_OK;
  return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: dialect = %" PRIu64 " is not in 0..2 (DLB_DECTHINGS_*)", op, dialect);
}

static uint64_t without_limit(uint64_t options) { return options & (DLB_LIMIT(1) - 1); }

int32_t dlb_decthings_decode(dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = check_dialect(__func__, without_limit(options), error);
  if (code != DLB_OK) return code;
  capi_input in = {.count = 1, .options = options};
  return capi_decode_values(__func__, out, frame, capiDecthingsDecode, &in, error);
}

int32_t dlb_decthings_decode_batch(dlb_value *out, size_t count, size_t *next, const dlb_frame *frame, size_t offset,
                                   uint64_t options, dlb_error *error) {
  if (next != NULL) *next = 0;
  if (count > PTRDIFF_MAX / sizeof *out)
    return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = %zu, more than memory can hold", __func__, count);
  int32_t code = capi_clear(__func__, out, count * sizeof *out, error);
  if (code == DLB_OK && next == NULL) code = capi_null(__func__, "next", error);
  if (code == DLB_OK && count == 0) code = capi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = 0, must be at least 1", __func__);
  if (code == DLB_OK) code = check_dialect(__func__, without_limit(options), error);
  if (code != DLB_OK) return code;
  capi_input in = {.count = count, .offset = offset, .options = options};
  code = capi_decode_values(__func__, out, frame, capiDecthingsDecodeBatch, &in, error);
  if (code != DLB_OK) return code;
  *next = offset;
  for (size_t i = 0; i < count && out[i].size > 0; i++) *next += out[i].size;
  return code;
}

int32_t dlb_decthings_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                             uint64_t dialect, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = check_dialect(__func__, dialect, error);
  if (code != DLB_OK) return code;
  return capi_encode_value(__func__, out, data, room, value, capiDecthingsEncode, dialect, error);
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
