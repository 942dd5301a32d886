/* Decoding and encoding of tensors of TensorFlow, in Go. */
#include "_cgo_export.h"

int32_t dlb_tensorflow_decode(dlb_value *out, const dlb_frame *frame, uint64_t options,
                              dlb_error *error) {
  static const char op[] = "dlb_tensorflow_decode";
  if (out == NULL) return capi_null(op, "out", error);
  memset(out, 0, sizeof *out);
  static const uint64_t known = DLB_TENSORFLOW_LENIENT | DLB_TENSORFLOW_INTEGERS | DLB_TENSORFLOW_LIMIT(-1);
  int32_t code = capi_check_options(op, options, known, error);
  if (code != DLB_OK) return code;
  capi_input in = {.options = options};
  return capi_decode_value(op, out, frame, capiTensorflowDecode, &in, error);
}

int32_t dlb_tensorflow_encode(size_t *out, void *data, size_t room, const dlb_value *value,
                              uint64_t options, dlb_error *error) {
  static const char op[] = "dlb_tensorflow_encode";
  static const uint64_t either = DLB_TENSORFLOW_FIELDS | DLB_TENSORFLOW_CONTENT;
  if (out != NULL) *out = 0;
  int32_t code = capi_check_options(op, options, either | DLB_TENSORFLOW_PAD, error);
  if (code != DLB_OK) return code;
  if ((options & either) == either)
    return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: options have both FIELDS and CONTENT", op);
  return capi_encode_value(op, out, data, room, value, capiTensorflowEncode, options, error);
}
