/* Access to messages, in plain C. The functions that make them are in tens.c. */
#include "message.h"

#include <stdlib.h>
#include <string.h>

dlb_message *dlbcapi_message_new(size_t frames, size_t joined, size_t tensors, size_t dims, size_t text) {
  size_t tensors_at = (frames + joined) * sizeof(dlbcapi_frame);
  size_t dims_at = tensors_at + tensors * sizeof(dlbcapi_tensor);
  size_t text_at = dims_at + dims * sizeof(int64_t);
  char *room = calloc(1, text_at + text);
  dlb_message *message = room != NULL ? dlbcapi_object_new() : NULL;
  if (message == NULL) {
    free(room);
    return NULL;
  }
  message->frame_count = frames;
  message->joined_count = joined;
  message->tensor_count = tensors;
  message->frames = (dlbcapi_frame *)room;
  message->tensors = (dlbcapi_tensor *)(room + tensors_at);
  message->dims = (int64_t *)(room + dims_at);
  message->text = room + text_at;
  return message;
}

static int known(const dlb_message *message) { return dlbcapi_object_kind(message) == CAPI_MESSAGE; }

int32_t dlbcapi_message_check(const char *op, const dlb_message *message, dlb_error *error) {
  if (message == NULL) return dlbcapi_null(op, "message", error);
  if (known(message)) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: there is no message at %p, or it was freed", op,
                      (const void *)message);
}

void dlb_message_free(dlb_message *message) {
  if (dlbcapi_object_end(message, CAPI_MESSAGE)) dlbcapi_message_end(message);
}

void dlbcapi_message_end(dlb_message *message) {
  for (size_t i = 0; i < message->frame_count + message->joined_count; i++) {
    if (message->frames[i].share != NULL) dlbcore_share_drop(message->frames[i].share);
  }
  free(message->frames);
  dlbcapi_object_free(message);
}

void dlbcapi_message_share(dlb_message *message, size_t tensor, dlbcore_share *share) {
  dlbcapi_frame *frames = &message->frames[2 + message->tensors[tensor].part];
  for (size_t i = 0; i < message->tensors[tensor].parts; i++) {
    if (frames[i].share != NULL) continue; /* another tensor has this part too, on the same memory */
    dlbcore_share_retain(share);
    frames[i].share = share;
  }
  dlbcore_share_drop(share);
}

static int32_t check_index(const char *op, const char *what, size_t index, size_t count,
                           dlb_error *error) {
  if (index < count) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: index = %zu, but the message has %zu %s%s", op, index, count, what,
                      count == 1 ? "" : "s");
}

/* Begins a function that reads a message: clears *out, and checks the message. */
#define BEGIN(out, message, error) begin(__func__, out, sizeof *(out), message, error)
static int32_t begin(const char *op, void *out, size_t size, const dlb_message *message, dlb_error *error) {
  int32_t code = dlbcapi_clear(op, out, size, error);
  return code == DLB_OK ? dlbcapi_message_check(op, message, error) : code;
}

int32_t dlb_message_header(dlb_header *out, const dlb_message *message, dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code != DLB_OK) return code;
  *out = message->header;
  return dlbcapi_ok(error);
}

int32_t dlb_message_label(dlb_bytes *out, const dlb_message *message, dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code != DLB_OK) return code;
  *out = message->label;
  return dlbcapi_ok(error);
}

int32_t dlb_message_metadata(dlb_bytes *out, const dlb_message *message, dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code != DLB_OK) return code;
  *out = message->metadata;
  return dlbcapi_ok(error);
}

int32_t dlb_message_tensor_metadata(dlb_bytes *out, const dlb_message *message, size_t index,
                                    dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code == DLB_OK) code = check_index(__func__, "tensor", index, message->tensor_count, error);
  if (code != DLB_OK) return code;
  *out = message->tensors[index].metadata;
  return dlbcapi_ok(error);
}

int32_t dlb_message_tensor_name(dlb_bytes *out, const dlb_message *message, size_t index, dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code == DLB_OK) code = check_index(__func__, "tensor", index, message->tensor_count, error);
  if (code != DLB_OK) return code;
  *out = message->tensors[index].name;
  return dlbcapi_ok(error);
}

int32_t dlb_message_find(size_t *out, const dlb_message *message, const char *name, dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code == DLB_OK && name == NULL) code = dlbcapi_null(__func__, "name", error);
  if (code != DLB_OK) return code;
  size_t size = strlen(name), found = message->tensor_count;
  for (size_t i = 0; i < message->tensor_count; i++) {
    dlb_bytes of = message->tensors[i].name;
    if (of.data == NULL || of.size != size || memcmp(of.data, name, size) != 0) continue;
    if (found != message->tensor_count)
      return dlbcapi_fail(error, DLB_ERROR_FORMAT, "%s: tensors %zu and %zu are both named \"%.80s\"; if they are pieces of one "
                          "tensor, DLB_DECODE_JOIN joins them", __func__, found, i, name);
    found = i;
  }
  if (found == message->tensor_count)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: none of the %zu tensors is named \"%.80s\"; dlb_message_tensor_name "
                        "returns their names", __func__, message->tensor_count, name);
  *out = found;
  return dlbcapi_ok(error);
}

size_t dlb_message_frame_count(const dlb_message *message) {
  return known(message) ? message->frame_count : 0;
}

size_t dlb_message_part_count(const dlb_message *message) {
  return known(message) ? message->frame_count - 2 : 0;
}

size_t dlb_message_tensor_count(const dlb_message *message) {
  return known(message) ? message->tensor_count : 0;
}

size_t dlb_message_tensor_part(const dlb_message *message, size_t index) {
  return known(message) && index < message->tensor_count ? message->tensors[index].part : 0;
}

int32_t dlb_message_copied(const dlb_message *message, size_t index) {
  return known(message) && index < message->tensor_count && message->tensors[index].copied;
}

static DLManagedTensorVersioned *export_bytes(const dlbcapi_frame *frame) {
  int64_t shape[] = {(int64_t)frame->size};
  DLTensor view = {
      .data = (void *)frame->data,
      .device = {.device_type = kDLCPU},
      .ndim = 1,
      .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1},
      .shape = shape,
  };
  return dlbcore_export_versioned(frame->share, &view,
                                  frame->flags & DLB_FRAME_WRITABLE ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY);
}

int32_t dlb_message_part(DLManagedTensorVersioned **out, const dlb_message *message, size_t index,
                         dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code == DLB_OK) code = check_index(__func__, "part", index, message->frame_count - 2, error);
  if (code != DLB_OK) return code;
  *out = export_bytes(&message->frames[2 + index]);
  return *out != NULL ? dlbcapi_ok(error) : dlbcapi_memory(__func__, error);
}

int32_t dlb_message_tensor_at(DLManagedTensorVersioned **out, const dlb_message *message,
                              size_t index, dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code == DLB_OK) code = check_index(__func__, "tensor", index, message->tensor_count, error);
  if (code != DLB_OK) return code;
  const dlbcapi_tensor *tensor = &message->tensors[index];
  if (tensor->only_metadata)
    return dlbcapi_fail(error, DLB_ERROR_METADATA, "%s: tensor %zu is only metadata; use dlb_message_tensor_metadata to get it", __func__,
                        index);
  if (tensor->frame == NULL)
    return dlbcapi_fail(error, DLB_ERROR_FORMAT, "%s: tensor %zu has a packing other than \"dense\"; dlb_message_label returns the label that names it",
                        __func__, index);
  *out = dlbcore_export_versioned(tensor->frame->share, &tensor->view, tensor->flags);
  return *out != NULL ? dlbcapi_ok(error) : dlbcapi_memory(__func__, error);
}

/* The frame has an export for its ctx, so that releasing it twice has no effect. */
int32_t dlbcapi_frame_out(const char *op, dlb_frame *out, const dlbcapi_frame *frame, dlb_error *error) {
  DLManagedTensorVersioned *managed = export_bytes(frame);
  if (managed == NULL) return dlbcapi_memory(op, error);
  if (dlbcapi_ledger_on()) dlbcapi_ledger_enter_frame(managed, frame->size);
  *out = (dlb_frame){.data = frame->data,
                     .size = frame->size,
                     .release = dlbcapi_release_frame,
                     .ctx = managed,
                     .flags = frame->flags};
  return dlbcapi_ok(error);
}

int32_t dlb_message_frame(dlb_frame *out, const dlb_message *message, size_t index,
                          dlb_error *error) {
  int32_t code = BEGIN(out, message, error);
  if (code == DLB_OK) code = check_index(__func__, "frame", index, message->frame_count, error);
  if (code != DLB_OK) return code;
  return dlbcapi_frame_out(__func__, out, &message->frames[index], error);
}

int32_t dlb_message_frames(dlb_frame *out, size_t count, const dlb_message *message, dlb_error *error) {
  if (count > PTRDIFF_MAX / sizeof *out)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = %zu, more than memory can hold", __func__, count);
  int32_t code = dlbcapi_clear(__func__, out, count * sizeof *out, error);
  if (code == DLB_OK) code = dlbcapi_message_check(__func__, message, error);
  if (code != DLB_OK) return code;
  if (count != message->frame_count)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: count is %zu, but the message has %zu frames (dlb_message_frame_count)", __func__,
                        count, message->frame_count);
  for (size_t i = 0; i < count && code == DLB_OK; i++) code = dlbcapi_frame_out(__func__, &out[i], &message->frames[i], error);
  if (code != DLB_OK) dlb_frames_release(out, count);
  return code;
}

void dlb_frames_release(dlb_frame *frames, size_t count) {
  for (size_t i = 0; frames != NULL && i < count; i++) {
    dlb_frame frame = frames[i];
    memset(&frames[i], 0, sizeof frames[i]);
    if (frame.release != NULL) frame.release(frame.ctx);
  }
}
