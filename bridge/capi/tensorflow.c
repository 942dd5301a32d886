/* Decoding and encoding of tensors of TensorFlow, in Go. */
#include "_cgo_export.h"

int32_t dlb_tensorflow_decode(dlb_value *out, const dlb_frame *frame, uint64_t options,
                              dlb_error *error) {
  static const uint64_t known = DLB_TENSORFLOW_LENIENT | DLB_TENSORFLOW_INTEGERS | DLB_LIMIT(-1);
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check_bits(__func__, "options", options, known, error);
  if (code != DLB_OK) return code;
  capi_input in = {.count = 1, .options = options};
  return capi_decode_values(__func__, out, frame, capiTensorflowDecode, &in, error);
}

int32_t dlb_tensorflow_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                              uint64_t options, dlb_error *error) {
  static const uint64_t either = DLB_TENSORFLOW_FIELDS | DLB_TENSORFLOW_CONTENT;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check_bits(__func__, "options", options, either | DLB_TENSORFLOW_PAD, error);
  if (code != DLB_OK) return code;
  if ((options & either) == either)
    return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: options have both FIELDS and CONTENT", __func__);
  return capi_encode_value(__func__, out, data, room, value, capiTensorflowEncode, options, error);
}
