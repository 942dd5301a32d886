/* dlb_value and dlb_elements, and the functions of each format in formats.h. The Go decoder of a format reads the
 * caller's frame, and reports where the elements lie in it. After Go has returned, this file makes the tensors, copies
 * unaligned elements, and takes a share of the frame. */
#include "_cgo_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- elements -------------------------------------------------------------------------------- */

dlbcapi_elements *dlbcapi_elements_new(size_t count, size_t formats, size_t ndim, size_t text) {
  size_t shape_at = (count + formats) * sizeof(dlb_bytes);
  size_t text_at = shape_at + ndim * sizeof(int64_t);
  char *room = calloc(1, text_at + text + 1);
  dlbcapi_elements *elements = room != NULL ? dlbcapi_object_new() : NULL;
  if (elements == NULL) {
    free(room);
    return NULL;
  }
  elements->room = room;
  elements->text = room + text_at;
  elements->seen.ndim = (int32_t)ndim;
  elements->seen.shape = (int64_t *)(room + shape_at);
  elements->seen.count = count;
  elements->seen.values = (dlb_bytes *)room;
  if (formats > 0) elements->seen.formats = (dlb_bytes *)room + count;
  return elements;
}

static void end_elements(dlbcapi_elements *elements) {
  dlbcore_share *hold = elements->hold, *own = elements->own;
  free(elements->room);
  dlbcapi_object_free(elements);
  if (own != NULL) dlbcore_share_drop(own);
  if (hold != NULL) dlbcore_share_drop(hold);
}

void dlb_elements_free(dlb_elements *elements) {
  if (dlbcapi_object_end(elements, CAPI_ELEMENTS)) end_elements((dlbcapi_elements *)elements);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* The most values that one call of dlb_NAME_decode_batch decodes, and the most dimensions that they have together. */
enum { READINGS = 128, DIMS = 512 };

/* Sets *out to the tensor of a reading, which aliases the frame or has memory of its own. */
static int32_t deliver_tensor(dlb_value *out, const dlbcapi_reading *r, const dlb_frame *frame,
                              dlbcore_share *hold) {
  DLTensor view = {
      .device = {.device_type = kDLCPU},
      .ndim = r->ndim,
      .dtype = r->dtype,
      .shape = r->shape,
  };
  uint64_t flags = r->flags;
  dlbcore_extent extent;
  if (dlbcore_check_layout(&view, flags, &extent, NULL, 0) != CORE_OK) return DLB_ERROR_INTERNAL;
  size_t nbytes = (size_t)extent.nbytes;
  dlbcore_share *own = r->own;
  view.data = own != NULL ? own->data : (char *)frame->data + r->start;
  if (r->copied) {
    own = dlbcore_share_alloc(nbytes, 0);
    if (own == NULL) return DLB_ERROR_MEMORY;
    memcpy(own->data, view.data, nbytes);
    view.data = own->data;
  }
  if (nbytes == 0) view.data = NULL;
  if (own != NULL) flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  else if (!(frame->flags & DLB_FRAME_WRITABLE)) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  out->copied = own != NULL;
  out->tensor = dlbcore_export_versioned(own != NULL ? own : hold, &view, flags);
  if (own != r->own) dlbcore_share_drop(own);
  return out->tensor != NULL ? DLB_OK : DLB_ERROR_MEMORY;
}

/* Makes values of the readings. After an error all values are zero. */
static int32_t deliver(const char *op, dlb_value *out, const dlbcapi_input *in, dlb_error *error) {
  dlbcore_share *hold;
  int32_t code = dlbcapi_hold_frame(&hold, op, "frame", NO_INDEX, in->frame, error);
  if (code != DLB_OK) return code;
  size_t at = in->offset, i = 0;
  for (; i < in->count && in->readings[i].end > 0 && code == DLB_OK; i++) {
    dlbcapi_reading *r = &in->readings[i];
    out[i].size = r->end - at;
    at = r->end;
    if (r->elements != NULL) {
      r->elements->hold = hold;
      dlbcore_share_retain(hold);
      r->elements->own = r->own;
      r->own = NULL;
      out[i].elements = &r->elements->seen;
      r->elements = NULL;
    } else {
      code = deliver_tensor(&out[i], r, in->frame, hold);
    }
  }
  if (code == DLB_OK) {
    while (i-- > 0) {
      if (out[i].elements != NULL) dlbcapi_object_publish(out[i].elements, CAPI_ELEMENTS);
    }
    dlbcore_share_drop(hold);
    return code;
  }
  while (i-- > 0) {
    dlb_tensor_release(out[i].tensor);
    if (out[i].elements != NULL) end_elements((dlbcapi_elements *)out[i].elements);
    memset(&out[i], 0, sizeof out[i]);
  }
  dlbcapi_unhold(hold);
  if (code == DLB_ERROR_MEMORY) return dlbcapi_memory(op, error);
  return dlbcapi_fail(error, code, "%s: the decoded tensor is invalid", op);
}

/* Decodes values of a frame from in->offset on, at most in->count and at most READINGS. The caller sets format,
 * several, offset, options and count. The readings are on the heap, because they are too large for a small stack. */
static int32_t decode_values(const char *op, dlb_value *out, const dlb_frame *frame, dlbcapi_input *in, dlb_error *error) {
  int32_t code = dlbcapi_check_frames(op, "frame", frame, 1, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(op, error);
  if (code != DLB_OK) return code;
  if (in->offset > frame->size)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: offset is %zu, but frame has %zu bytes", op, in->offset,
                        frame->size);
  if (in->count > READINGS) in->count = READINGS;
  size_t dims_at = in->count * sizeof *in->readings;
  char *room = malloc(dims_at + DIMS * sizeof *in->dims);
  if (room == NULL) return dlbcapi_memory(op, error);
  memset(room, 0, dims_at);
  in->frame = frame;
  in->readings = (dlbcapi_reading *)room;
  in->dims = (int64_t *)(room + dims_at);
  in->room = DIMS;
  code = capiValueDecode(op, in, error);
  if (code == DLB_OK) code = deliver(op, out, in, error);
  for (size_t i = 0; i < in->count; i++) {
    if (in->readings[i].elements != NULL) end_elements(in->readings[i].elements);
    if (in->readings[i].own != NULL) dlbcore_share_drop(in->readings[i].own);
  }
  free(room);
  return code;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int32_t check_list(const char *op, const char *what, const dlb_bytes *list, size_t count,
                          dlb_error *error) {
  if (count > 0 && list == NULL) return dlbcapi_null(op, what, error);
  for (size_t i = 0; i < count; i++) {
    if (dlbcapi_check_bytes(op, "", list[i].data, list[i].size, NULL) == DLB_OK) continue;
    char name[64];
    snprintf(name, sizeof name, "%s[%zu].data", what, i);
    return dlbcapi_check_bytes(op, name, list[i].data, list[i].size, error);
  }
  return DLB_OK;
}

static int32_t check_elements(const char *op, const dlb_elements *e, int with_values, dlb_error *error) {
  if (dlbcapi_object_kind(e) == CAPI_ENDED)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: the elements at %p were freed", op, (const void *)e);
  int32_t code = CAPI_CHECK_RESERVED(op, "elements", e, error);
  if (code == DLB_OK) code = dlbcapi_check_bytes(op, "elements->type.data", e->type.data, e->type.size, error);
  if (code != DLB_OK) return code;
  if (e->ndim < 0 || e->ndim > CORE_RANK_MAX)
    return dlbcapi_fail(error, DLB_ERROR_LAYOUT, "%s: elements->ndim = %d is not in 0..%d", op, (int)e->ndim,
                        CORE_RANK_MAX);
  code = dlbcapi_check_bytes(op, "elements->shape", e->shape, (size_t)e->ndim * sizeof *e->shape, error);
  if (code != DLB_OK || !with_values) return code;
  if (e->count > PTRDIFF_MAX / sizeof(dlb_bytes))
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: elements->count = %zu, more than memory can hold", op, e->count);
  code = check_list(op, "elements->values", e->values, e->count, error);
  if (code != DLB_OK || e->formats == NULL) return code;
  return check_list(op, "elements->formats", e->formats, e->count, error);
}

/* Checks a value. If it is a tensor, sets *view to a copy of its description without a deleter, which Go may import. The values
 * and formats of elements are checked only if with_values is not 0. */
static int32_t check_value(const char *op, const dlb_value *value, int with_values, DLManagedTensorVersioned *view,
                           dlb_error *error) {
  if (value == NULL) return dlbcapi_null(op, "value", error);
  int32_t code = CAPI_CHECK_RESERVED(op, "value", value, error);
  if (code != DLB_OK) return code;
  if ((value->tensor == NULL) == (value->elements == NULL))
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: value has %s: set exactly one of them", op,
                        value->tensor != NULL ? "both tensor and elements" : "neither tensor nor elements");
  if (value->elements != NULL) return check_elements(op, value->elements, with_values, error);
  code = dlbcapi_check(op, "value->tensor", value->tensor, NULL, error);
  if (code != DLB_OK) return code;
  *view = *value->tensor;
  view->deleter = NULL;
  return DLB_OK;
}

/* ---- the functions of the formats ------------------------------------------------------------ */

/* The row of a format in formats.h, and its text for errors. */
typedef struct format_row {
  uint64_t dialect, decode, encode, either;
  const char *last_dialect, *either_text;
} format_row;

static const format_row rows[] = {
#define ROW(name, dialect, decode, encode, either) {dialect, decode, encode, either, #dialect, #either},
    FORMATS(ROW)
#undef ROW
};

/* Checks that the dialect exists or that all options are in `known`, and that options which exclude each other are not
 * combined. A decoder also accepts DLB_LIMIT, which uses the bits above the other options. */
static int32_t check_options(const char *op, size_t format, uint64_t options, uint64_t known, int decoder, dlb_error *error) {
  const format_row *f = &rows[format];
  if (f->dialect > 0) {
    uint64_t dialect = decoder ? options & (DLB_LIMIT(1) - 1) : options;
    if (dialect <= f->dialect) return DLB_OK;
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: dialect = %" PRIu64 " is not in 0..%" PRIu64 " (%s)", op, dialect,
                        f->dialect, f->last_dialect);
  }
  int32_t code = dlbcapi_check_bits(op, "options", options, decoder ? known | DLB_LIMIT(-1) : known, error);
  uint64_t chosen = decoder ? 0 : options & f->either;
  if (code != DLB_OK || (chosen & (chosen - 1)) == 0) return code;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: options have more than one of %s", op, f->either_text);
}

static int32_t decode(const char *op, size_t format, dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error) {
  int32_t code = CAPI_CLEAR(op, out, error);
  if (code == DLB_OK) code = check_options(op, format, options, rows[format].decode, 1, error);
  if (code != DLB_OK) return code;
  dlbcapi_input in = {.format = format, .count = 1, .options = options};
  return decode_values(op, out, frame, &in, error);
}

static int32_t decode_batch(const char *op, size_t format, dlb_value *out, size_t count, size_t *next, const dlb_frame *frame,
                            size_t offset, uint64_t options, dlb_error *error) {
  if (next != NULL) *next = 0;
  if (count > PTRDIFF_MAX / sizeof *out)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = %zu, more than memory can hold", op, count);
  int32_t code = dlbcapi_clear(op, out, count * sizeof *out, error);
  if (code == DLB_OK && next == NULL) code = dlbcapi_null(op, "next", error);
  if (code == DLB_OK && count == 0) code = dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = 0, must be at least 1", op);
  if (code == DLB_OK) code = check_options(op, format, options, rows[format].decode, 1, error);
  if (code != DLB_OK) return code;
  dlbcapi_input in = {.format = format, .several = 1, .count = count, .offset = offset, .options = options};
  code = decode_values(op, out, frame, &in, error);
  if (code != DLB_OK) return code;
  *next = offset;
  for (size_t i = 0; i < count && out[i].size > 0; i++) *next += out[i].size;
  return code;
}

static int32_t encode(const char *op, size_t format, size_t *out, void *data, size_t room, const dlb_value *value,
                      uint64_t options, dlb_error *error) {
  DLManagedTensorVersioned view;
  int32_t code = CAPI_CLEAR(op, out, error);
  if (code == DLB_OK) code = check_options(op, format, options, rows[format].encode, 0, error);
  if (code == DLB_OK) code = dlbcapi_check_bytes(op, "data", data, room, error);
  if (code == DLB_OK) code = check_value(op, value, 1, &view, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(op, error);
  if (code != DLB_OK) return code;
  /* Without room `data` may be any value, which must not become a Go pointer. */
  code = capiValueEncode(op, format, out, room == 0 ? NULL : data, room, value->tensor != NULL ? &view : NULL, value->elements,
                         options, error);
  if (code != DLB_OK || data == NULL || *out <= room) return code;
  return dlbcapi_fail(error, DLB_ERROR_ROOM, "%s: data has room for %zu bytes, but %zu are required", op, room, *out);
}

static int32_t check(const char *op, size_t format, dlb_bytes rules, const dlb_value *value, dlb_error *error) {
  DLManagedTensorVersioned view;
  int32_t code = dlbcapi_check_bytes(op, "rules.data", rules.data, rules.size, error);
  if (code == DLB_OK) code = check_value(op, value, 0, &view, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(op, error);
  if (code != DLB_OK) return code;
  if (rules.size == 0) rules.data = NULL;
  return capiValueCheck(op, format, rules, value->tensor != NULL ? &view : NULL, value->elements, error);
}

#define FORMAT(name, ...)                                                                                                  \
  int32_t dlb_##name##_decode(dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error) {                \
    return decode(__func__, FORMAT_##name, out, frame, options, error);                                                    \
  }                                                                                                                        \
  int32_t dlb_##name##_encode(size_t *out, void *data, size_t room, const dlb_value *value, uint64_t options,              \
                              dlb_error *error) {                                                                          \
    return encode(__func__, FORMAT_##name, out, data, room, value, options, error);                                        \
  }
FORMATS(FORMAT)

#define STREAM(name)                                                                                                       \
  int32_t dlb_##name##_decode_batch(dlb_value *out, size_t count, size_t *next, const dlb_frame *frame, size_t offset,     \
                                    uint64_t options, dlb_error *error) {                                                  \
    return decode_batch(__func__, FORMAT_##name, out, count, next, frame, offset, options, error);                         \
  }
STREAMS(STREAM)

#define RULE(name)                                                                                                         \
  int32_t dlb_##name##_check(dlb_bytes rules, const dlb_value *value, dlb_error *error) {                                  \
    return check(__func__, FORMAT_##name, rules, value, error);                                                            \
  }
RULES(RULE)
