/* The functions that decode and encode ZIO messages. They call Go. Each function first checks its arguments in C. In a
 * forked child, where Go does not run, it returns an error. Go reads the caller's memory during the call and
 * writes a description into C memory. After Go has returned, these functions take over frames and tensors; if that
 * fails, they give all of them back. */
#include "_cgo_export.h"

#include <stdio.h>
#include <stdlib.h>

#define DECODE_OPTIONS (DLB_DECODE_MESSAGE_ONLY | DLB_DECODE_JOIN | DLB_LIMIT(-1))

/* Undoes the holds of the frames from `first` on, so that the caller owns them again, and frees the message. */
static int32_t undo(dlb_message *message, size_t first, int32_t code) {
  for (size_t i = first; i < message->frame_count; i++) {
    dlbcapi_unhold(message->frames[i].share);
    message->frames[i].share = NULL;
  }
  dlbcapi_message_end(message);
  return code;
}

/* Takes over the frames of a message from `first` on. */
static int32_t hold_frames(const char *op, const char *what, dlb_message *message, size_t first,
                           const dlb_frame *frames, dlb_error *error) {
  for (size_t i = first; i < message->frame_count; i++) {
    int32_t code = dlbcapi_hold_frame(&message->frames[i].share, op, what, i - first, &frames[i - first], error);
    if (code != DLB_OK) return undo(message, first, code);
  }
  return dlbcapi_ok(error);
}

/* Publishes a message and sets *out to it, unless `code` is an error. */
static int32_t publish(dlb_message **out, dlb_message *message, int32_t code) {
  if (code != DLB_OK) return code;
  dlbcapi_object_publish(message, CAPI_MESSAGE);
  *out = message;
  return code;
}

int32_t dlb_message_decode(dlb_message **out, const dlb_frame *frames, size_t count,
                           uint64_t options, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check_frames(__func__, "frames", frames, count, error);
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "options", options, DECODE_OPTIONS, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  if (count == 0) frames = NULL;
  dlb_message *message = NULL;
  code = capiDecode(__func__, &message, (dlb_frame *)frames, count, options, error);
  if (code == DLB_OK) code = hold_frames(__func__, "frames", message, 0, frames, error);
  return publish(out, message, code);
}

/* Decodes all bytes from `offset` on as one message. If `next` is not NULL, decodes only the first message there, and
 * sets *next to its end. */
static int32_t decode_packed(const char *op, dlb_message **out, size_t *next, const dlb_frame *packed, size_t offset,
                             uint64_t options, dlb_error *error) {
  int32_t code = dlbcapi_check_frames(op, "packed", packed, 1, error);
  if (code == DLB_OK) code = dlbcapi_check_bits(op, "options", options, DECODE_OPTIONS, error);
  if (code == DLB_OK && offset > packed->size)
    code = dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: offset is %zu, but packed has %zu bytes", op, offset, packed->size);
  if (code == DLB_OK) code = dlbcapi_check_forked(op, error);
  if (code != DLB_OK) return code;
  dlb_message *message = NULL;
  int ended = next != NULL && offset == packed->size;
  size_t end = offset;
  if (!ended) code = capiDecodePacked(op, &message, next == NULL ? NULL : &end, (dlb_frame *)packed, offset, options, error);
  if (code != DLB_OK) return code;
  dlbcore_share *hold;
  code = dlbcapi_hold_frame(&hold, op, "packed", NO_INDEX, packed, error);
  if (code != DLB_OK) return ended ? code : undo(message, 0, code);
  if (next != NULL) *next = end;
  if (ended) {
    dlbcore_share_drop(hold);
    return dlbcapi_ok(error);
  }
  for (size_t i = 0; i < message->frame_count; i++) {
    if (i > 0) dlbcore_share_retain(hold);
    message->frames[i].share = hold;
  }
  return publish(out, message, dlbcapi_ok(error));
}

int32_t dlb_message_decode_packed(dlb_message **out, const dlb_frame *packed, uint64_t options,
                           dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  return code == DLB_OK ? decode_packed(__func__, out, NULL, packed, 0, options, error) : code;
}

int32_t dlb_message_decode_next(dlb_message **out, size_t *next, const dlb_frame *packed, size_t offset, uint64_t options,
                                dlb_error *error) {
  if (next != NULL) *next = 0;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK && next == NULL) code = dlbcapi_null(__func__, "next", error);
  return code == DLB_OK ? decode_packed(__func__, out, next, packed, offset, options, error) : code;
}

int32_t dlb_message_encode_parts(dlb_message **out, const dlb_header *header, dlb_bytes label,
                         const dlb_frame *parts, size_t count, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK && header == NULL) code = dlbcapi_null(__func__, "header", error);
  if (code == DLB_OK) code = dlbcapi_check_bytes(__func__, "label.data", label.data, label.size, error);
  if (code == DLB_OK) code = dlbcapi_check_frames(__func__, "parts", parts, count, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  if (label.size == 0) label.data = NULL;
  if (count == 0) parts = NULL;
  dlb_message *message = NULL;
  code = capiEncodeParts(__func__, &message, (dlb_header *)header, label, (dlb_frame *)parts, count, error);
  if (code == DLB_OK) code = hold_frames(__func__, "parts", message, 2, parts, error);
  return publish(out, message, code);
}

static int by_address(const void *a, const void *b) {
  const DLManagedTensorVersioned *x = *(DLManagedTensorVersioned *const *)a;
  const DLManagedTensorVersioned *y = *(DLManagedTensorVersioned *const *)b;
  return (x > y) - (x < y);
}

/* Refuses a tensor that is passed twice: it would be deleted twice. */
static int32_t check_distinct(const char *op, const dlb_message_tensor *tensors, size_t count,
                              dlb_error *error) {
  if (count < 2) return DLB_OK;
  const DLManagedTensorVersioned **sorted = malloc(count * sizeof *sorted);
  if (sorted == NULL) return dlbcapi_memory(op, error);
  for (size_t i = 0; i < count; i++) sorted[i] = tensors[i].tensor;
  qsort(sorted, count, sizeof *sorted, by_address);
  int32_t code = DLB_OK;
  for (size_t i = 1; i < count && code == DLB_OK; i++) {
    if (sorted[i] == sorted[i - 1] && sorted[i] != NULL)
      code = dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: tensors: the tensor at %p is passed twice", op,
                          (const void *)sorted[i]);
  }
  free(sorted);
  return code;
}

static int32_t check_tensor(const char *op, const char *what, const char *managed, const char *metadata, int relayed,
                            const dlb_message_tensor *tensor, dlb_error *error) {
  int32_t code = relayed && tensor->tensor == NULL ? DLB_OK : dlbcapi_check(op, managed, tensor->tensor, NULL, error);
  if (code == DLB_OK) code = dlbcapi_check_bytes(op, metadata, tensor->metadata.data, tensor->metadata.size, error);
  return code == DLB_OK ? CAPI_CHECK_RESERVED(op, what, tensor, error) : code;
}

/* Checks the tensors, and copies their descriptions without deleters. Go imports the copies, so that closing them does
 * not release the tensors. With `relayed` a tensor may be NULL. */
static int32_t describe(const char *op, DLManagedTensorVersioned *views, int relayed,
                        const dlb_message_tensor *tensors, size_t count, dlb_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (check_tensor(op, "", "", "", relayed, &tensors[i], NULL) != DLB_OK) {
      char name[48], managed[64], metadata[64];
      snprintf(name, sizeof name, "tensors[%zu]", i);
      snprintf(managed, sizeof managed, "%s.tensor", name);
      snprintf(metadata, sizeof metadata, "%s.metadata.data", name);
      return check_tensor(op, name, managed, metadata, relayed, &tensors[i], error);
    }
    if (tensors[i].tensor == NULL) continue;
    views[i] = *tensors[i].tensor;
    views[i].deleter = NULL;
  }
  return DLB_OK;
}

/* Takes all tensors over. A tensor that is relayed unchanged may be NULL. Each part that aliases a tensor gets a share
 * of it. A tensor that was copied is released. */
static int32_t hold_tensors(const char *op, dlbcore_share **holds, dlb_message *message, const dlb_message_tensor *tensors,
                            dlb_error *error) {
  size_t count = message->tensor_count;
  for (size_t i = 0; i < count; i++) {
    if (tensors[i].tensor == NULL) continue;
    int32_t code = dlbcapi_hold_versioned(&holds[i], op, "tensors", i, tensors[i].tensor, error);
    if (code == DLB_OK) continue;
    while (i-- > 0) {
      if (holds[i] != NULL) dlbcapi_unhold(holds[i]);
    }
    dlbcapi_message_end(message);
    return code;
  }
  for (size_t i = 0; i < count; i++) {
    if (holds[i] == NULL) continue;
    if (message->tensors[i].copied) dlbcore_share_drop(holds[i]);
    else dlbcapi_message_share(message, i, holds[i]);
  }
  return dlbcapi_ok(error);
}

int32_t dlb_message_encode(dlb_message **out, const dlb_message_fields *fields,
                           const dlb_message_tensor *tensors, size_t count, dlb_error *error) {
  static const dlb_message_fields none;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code != DLB_OK) return code;
  if (fields == NULL) fields = &none;
  if (count == 0) tensors = NULL;
  else if (tensors == NULL) return dlbcapi_null(__func__, "tensors", error);
  if (count >= PTRDIFF_MAX / (sizeof(DLManagedTensorVersioned) + sizeof(dlbcore_share *)))
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = %zu, more than memory can hold", __func__, count);
  code = CAPI_CHECK_RESERVED(__func__, "fields", fields, error);
  if (code == DLB_OK)
    code = dlbcapi_check_bytes(__func__, "fields->label.data", fields->label.data, fields->label.size, error);
  if (code == DLB_OK)
    code = dlbcapi_check_bytes(__func__, "fields->metadata.data", fields->metadata.data, fields->metadata.size, error);
  if (code == DLB_OK && fields->relay != NULL) code = dlbcapi_message_check(__func__, fields->relay, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  DLManagedTensorVersioned *views = calloc(count + 1, sizeof *views + sizeof(dlbcore_share *));
  if (views == NULL) return dlbcapi_memory(__func__, error);
  dlbcore_share **holds = (dlbcore_share **)(views + count + 1);
  dlb_message *message = NULL;
  code = describe(__func__, views, fields->relay != NULL, tensors, count, error);
  if (code == DLB_OK) code = check_distinct(__func__, tensors, count, error);
  if (code == DLB_OK)
    code = capiEncode(__func__, &message, (dlb_message_fields *)fields, (dlb_message_tensor *)tensors, views,
                      count, error);
  if (code == DLB_OK) code = hold_tensors(__func__, holds, message, tensors, error);
  free(views);
  return publish(out, message, code);
}

int32_t dlb_message_encode_packed(dlb_frame *out, const dlb_message *message, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_message_check(__func__, message, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  dlbcapi_frame packed = {.flags = DLB_FRAME_WRITABLE};
  code = capiEncodePacked(__func__, &packed, (dlb_message *)message, error);
  if (code != DLB_OK) return code;
  code = dlbcapi_frame_out(__func__, out, &packed, error);
  dlbcore_share_drop(packed.share);
  return code;
}
