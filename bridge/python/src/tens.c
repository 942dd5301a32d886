/* ZIO messages and the tensors in them, encoded and decoded by the Go library.
 *
 * The GIL is released around calls that enter Go, whose threads may need it. The functions that look at
 * a decoded message, or free it, are plain C and keep the GIL. */
#include "library.h"

#include <stdlib.h>
#include <string.h>

/* ---- frames ---------------------------------------------------------------------------------- */

/* Adds a note to the current exception: the name and index of the object that caused it. */
static void note_index(const char *what, size_t index) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *note = PyUnicode_FromFormat("dlbridge: %s[%zu]", what, index);
  PyObject *none = note == NULL ? NULL : PyObject_CallMethod(value, "add_note", "O", note);
  Py_XDECREF(note);
  Py_XDECREF(none);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

static void end_frames(dlb_frame *frames, size_t count) {
  if (frames == NULL) return;
  for (size_t i = 0; i < count; i++) {
    if (frames[i].release != NULL) frames[i].release(frames[i].ctx);
  }
  free(frames);
}

/* Lends a sequence of bytes-like objects. */
static int lend_frames(PyObject *sequence, const char *what, dlb_frame **out, size_t *count) {
  if (PyUnicode_Check(sequence) || PyBytes_Check(sequence))
    return raise_error(PyExc_TypeError, "dlbridge: %s must be a sequence of bytes-like objects, not %R", what,
                       Py_TYPE(sequence));
  PyObject *list = private_list(sequence);
  if (list == NULL) return -1;
  *count = (size_t)PyList_Size(list);
  *out = calloc(*count + 1, sizeof **out);
  size_t done = 0;
  if (*out == NULL) PyErr_NoMemory();
  while (*out != NULL && done < *count &&
         lend_frame(PyList_GetItem(list, (Py_ssize_t)done), *out + done) == 0)
    done++;
  Py_DECREF(list);
  if (*out != NULL && done == *count) return 0;
  if (*out != NULL) note_index(what, done);
  end_frames(*out, done);
  return -1;
}

/* Returns memoryviews of the frames of an encoded message, and frees it. */
static PyObject *frames_of(module_state *state, const library *go, dlb_message *message) {
  size_t count = go->dlb_message_frame_count(message);
  PyObject *list = list_begin(count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    dlb_frame frame;
    dlb_error error = {0};
    PyObject *view = NULL;
    if (go->dlb_message_frame(&frame, message, i, &error) == DLB_OK) view = view_of_frame(state, &frame);
    else raise_library(&error);
    list_set(&list, i, view);
  }
  KEEPING_EXCEPTION(go->dlb_message_free(message));
  return list_end(list);
}

/* ---- decoding -------------------------------------------------------------------------------- */

static PyObject *bytes_or_none(dlb_bytes bytes) {
  if (bytes.data == NULL) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
}

/* A decoded message, and the Tensors behind the memoryviews of its parts. */
typedef struct {
  module_state *state;
  const library *go;
  const dlb_message *message;
  Tensor **parts; /* referenced, because Python code may run in between and release the memoryviews */
  size_t part_count;
  size_t part;     /* index of the part that the last tensor is in */
  size_t empty;    /* index of the first part without bytes, or part_count */
  Tensor **sorted; /* the parts sorted by address, NULL until they are needed */
} reading;

/* Returns the memoryviews of the parts. */
static PyObject *list_parts(reading *r) {
  PyObject *list = list_begin(r->part_count);
  r->empty = r->part_count;
  for (size_t i = 0; list != NULL && i < r->part_count; i++) {
    dlb_error error = {0};
    DLManagedTensorVersioned *managed;
    PyObject *view = NULL;
    if (r->go->dlb_message_part(&managed, r->message, i, &error) != DLB_OK) raise_library(&error);
    else r->parts[i] = take_over(r->state->tensor_type, managed, "message");
    if (r->parts[i] != NULL) view = PyMemoryView_FromObject((PyObject *)r->parts[i]);
    if (view != NULL && r->empty == r->part_count && r->parts[i]->extent.nbytes == 0) r->empty = i;
    list_set(&list, i, view);
  }
  return list_end(list);
}

static int lies_in(const Tensor *tensor, const Tensor *part) {
  if (tensor->extent.count == 0) return part->extent.nbytes == 0;
  uintptr_t start = (uintptr_t)part->view.data, at = (uintptr_t)tensor->view.data;
  return at + (uintptr_t)tensor->extent.low >= start &&
         at + (uintptr_t)tensor->extent.high <= start + (uintptr_t)part->extent.nbytes;
}

static int by_address(const void *a, const void *b) {
  const Tensor *x = *(Tensor *const *)a, *y = *(Tensor *const *)b;
  uintptr_t at = (uintptr_t)x->view.data, other = (uintptr_t)y->view.data;
  if (at != other) return at < other ? -1 : 1;
  return x->extent.nbytes < y->extent.nbytes ? -1 : x->extent.nbytes > y->extent.nbytes;
}

/* Returns the part that contains a tensor, or NULL. It is usually the part of the previous tensor, or the part with the
 * same index. Otherwise it is the last part that begins at the tensor or before. A tensor without elements is in any
 * part without bytes. */
static Tensor *part_of(reading *r, const Tensor *tensor, size_t index) {
  if (r->part_count == 0) return NULL;
  if (lies_in(tensor, r->parts[r->part])) return r->parts[r->part];
  if (index < r->part_count && lies_in(tensor, r->parts[index])) return r->parts[r->part = index];
  if (tensor->extent.count == 0) return r->empty < r->part_count ? r->parts[r->part = r->empty] : NULL;
  if (r->sorted == NULL) {
    r->sorted = malloc(r->part_count * sizeof *r->sorted);
    if (r->sorted == NULL) return NULL;
    memcpy(r->sorted, r->parts, r->part_count * sizeof *r->sorted);
    qsort(r->sorted, r->part_count, sizeof *r->sorted, by_address);
  }
  uintptr_t at = (uintptr_t)tensor->view.data + (uintptr_t)tensor->extent.low;
  /* Invariant: parts before low begin at `at` or before, parts from high on begin after it. */
  size_t low = 0, high = r->part_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)r->sorted[middle]->view.data <= at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && lies_in(tensor, r->sorted[low - 1]) ? r->sorted[low - 1] : NULL;
}

/* Replaces the export that a tensor holds by a share of its part. So any number of tensors on one part need only one
 * export. */
static void share_part(reading *r, Tensor *tensor, size_t index) {
  Tensor *part = part_of(r, tensor, index);
  if (part == NULL || part->share == NULL) return; /* the tensor keeps its export, because the part was closed */
  core_share_take(part->share);
  share_end(tensor->share);
  tensor->share = part->share;
}

static PyObject *list_tensors(reading *r, size_t count) {
  PyObject *list = list_begin(count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    dlb_error error = {0};
    DLManagedTensorVersioned *managed;
    Tensor *tensor = NULL;
    if (r->go->dlb_message_tensor_at(&managed, r->message, i, &error) != DLB_OK) raise_library(&error);
    else tensor = take_over(r->state->tensor_type, managed, "message");
    if (tensor != NULL) share_part(r, tensor, i);
    list_set(&list, i, (PyObject *)tensor);
  }
  return list_end(list);
}

static PyObject *list_metadata(reading *r, size_t count) {
  PyObject *list = list_begin(count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    dlb_error error = {0};
    dlb_bytes metadata;
    PyObject *item = NULL;
    if (r->go->dlb_message_tensor_metadata(&metadata, r->message, i, &error) != DLB_OK) raise_library(&error);
    else item = bytes_or_none(metadata);
    list_set(&list, i, item);
  }
  return list_end(list);
}

/* (level, form, label, origin, granule, seqno, parts, tensors, metadata, tensor_metadata) */
static PyObject *read_message(module_state *state, const library *go, const dlb_message *message) {
  dlb_header header;
  dlb_bytes label, metadata;
  dlb_error error = {0};
  int32_t code = go->dlb_message_header(&header, message, &error);
  if (code == DLB_OK) code = go->dlb_message_label(&label, message, &error);
  if (code == DLB_OK) code = go->dlb_message_metadata(&metadata, message, &error);
  if (code != DLB_OK) return raise_library(&error);
  reading r = {.state = state, .go = go, .message = message, .part_count = go->dlb_message_part_count(message)};
  size_t count = go->dlb_message_tensor_count(message);
  r.parts = calloc(r.part_count + 1, sizeof *r.parts);
  if (r.parts == NULL) return PyErr_NoMemory();
  PyObject *parts = list_parts(&r);
  PyObject *tensors = parts == NULL ? NULL : list_tensors(&r, count);
  PyObject *each = tensors == NULL ? NULL : list_metadata(&r, count);
  PyObject *whole = each == NULL ? NULL : bytes_or_none(metadata);
  for (size_t i = 0; i < r.part_count; i++) Py_XDECREF((PyObject *)r.parts[i]);
  free(r.parts);
  free(r.sorted);
  PyObject *result = NULL;
  if (whole != NULL)
    result = Py_BuildValue("(iy#y#KKKOOOO)", (int)header.level, header.form, (Py_ssize_t)4,
                           label.data == NULL ? "" : label.data, (Py_ssize_t)label.size,
                           (unsigned long long)header.origin, (unsigned long long)header.granule,
                           (unsigned long long)header.seqno, parts, tensors, whole, each);
  Py_XDECREF(whole);
  Py_XDECREF(each);
  Py_XDECREF(tensors);
  Py_XDECREF(parts);
  return result;
}

/* Decodes a message of frames, which takes the frames over, or releases them after an error. Frees the array. */
static dlb_message *decode_frames(const library *go, dlb_frame *frames, size_t count, uint64_t options) {
  dlb_message *message = NULL;
  dlb_error error = {0};
  int32_t code;
  WITHOUT_GIL(code = go->dlb_message_decode(&message, frames, count, options, &error));
  if (code == DLB_OK) {
    free(frames);
    return message;
  }
  end_frames(frames, count);
  raise_library(&error);
  return NULL;
}

PyObject *tens_decode(PyObject *module, PyObject *args) {
  PyObject *sequence;
  int message_only;
  if (!PyArg_ParseTuple(args, "Op", &sequence, &message_only)) return NULL;
  const library *go = get_library(module);
  dlb_frame *frames;
  size_t count;
  if (go == NULL || lend_frames(sequence, "frames", &frames, &count) < 0) return NULL;
  dlb_message *message = decode_frames(go, frames, count, message_only ? DLB_DECODE_MESSAGE_ONLY : 0);
  if (message == NULL) return NULL;
  PyObject *result = read_message(PyModule_GetState(module), go, message);
  KEEPING_EXCEPTION(go->dlb_message_free(message));
  return result;
}

/* Returns the size of the memoryviews of all frames of a message. All empty frames share one memoryview. */
static size_t size_of_views(const library *go, const dlb_message *message, size_t count) {
  size_t size = count * PLACE_SIZE;
  for (size_t i = 0; i < count; i++) {
    dlb_frame frame = {0};
    dlb_error error;
    if (go->dlb_message_frame(&frame, message, i, &error) == DLB_OK && frame.size > 0) size += VIEW_SIZE;
    if (frame.release != NULL) frame.release(frame.ctx);
  }
  return size;
}

/* Returns the memoryviews of the frames of a message that was decoded from one frame, which `data` has lent. */
static PyObject *slice_frames(module_state *state, const library *go, const dlb_message *message, PyObject *data,
                              const dlb_frame *lent, size_t limit) {
  size_t count = go->dlb_message_frame_count(message);
  size_t size = size_of_views(go, message, count) + count * MESSAGE_FRAME_SIZE;
  if (check_room("frames", count, size, lent->size, limit) < 0) return NULL;
  PyObject *whole = view_again(state, data, lent);
  PyObject *empty = whole == NULL ? NULL : PySequence_GetSlice(whole, 0, 0);
  PyObject *list = empty == NULL ? NULL : list_begin(count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    dlb_frame frame = {0};
    dlb_error error = {0};
    PyObject *part = NULL;
    if (go->dlb_message_frame(&frame, message, i, &error) != DLB_OK) {
      raise_library(&error);
    } else if (frame.size == 0) {
      part = Py_NewRef(empty);
    } else {
      Py_ssize_t at = (const char *)frame.data - (const char *)lent->data;
      part = PySequence_GetSlice(whole, at, at + (Py_ssize_t)frame.size);
    }
    if (frame.release != NULL) frame.release(frame.ctx);
    list_set(&list, i, part);
  }
  Py_XDECREF(empty);
  Py_XDECREF(whole);
  return list_end(list);
}

/* (data, limit) -> frames */
PyObject *tens_decode_frames(PyObject *module, PyObject *args) {
  PyObject *data;
  Py_ssize_t limit;
  if (!PyArg_ParseTuple(args, "On", &data, &limit)) return NULL;
  const library *go = get_library(module);
  dlb_frame frame;
  if (go == NULL || lend_frame(data, &frame) < 0) return NULL;
  dlb_message *message = NULL;
  dlb_error error = {0};
  int32_t code;
  WITHOUT_GIL(code = go->dlb_message_decode_packed(&message, &frame, DLB_DECODE_MESSAGE_ONLY, &error));
  if (code != DLB_OK) {
    loan_end(frame.ctx);
    return raise_library(&error);
  }
  PyObject *list = slice_frames(PyModule_GetState(module), go, message, data, &frame, (size_t)limit);
  KEEPING_EXCEPTION(go->dlb_message_free(message));
  return list;
}

PyObject *tens_encode_frames(PyObject *module, PyObject *sequence) {
  const library *go = get_library(module);
  dlb_frame *frames, packed = {0};
  size_t count;
  if (go == NULL || lend_frames(sequence, "frames", &frames, &count) < 0) return NULL;
  dlb_message *message = decode_frames(go, frames, count, DLB_DECODE_MESSAGE_ONLY);
  if (message == NULL) return NULL;
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = go->dlb_message_encode_packed(&packed, message, &error);
  go->dlb_message_free(message);
  Py_END_ALLOW_THREADS;
  if (code != DLB_OK) return raise_library(&error);
  PyObject *bytes = PyBytes_FromStringAndSize(packed.data, (Py_ssize_t)packed.size);
  if (packed.release != NULL) packed.release(packed.ctx);
  return bytes;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int parse_header(PyObject *level, PyObject *form, PyObject *origin, PyObject *granule, PyObject *seqno,
                        dlb_header *out) {
  static const char *const names[] = {"origin", "granule", "seqno"};
  PyObject *numbers[] = {origin, granule, seqno};
  uint64_t *fields[] = {&out->origin, &out->granule, &out->seqno};
  memset(out, 0, sizeof *out);
  if (!PyLong_Check(level))
    return raise_error(PyExc_TypeError, "dlbridge: level must be an int, not %R", level);
  int overflow;
  long value = PyLong_AsLongAndOverflow(level, &overflow);
  if (overflow != 0 || value < 0 || value > 8)
    return raise_error(PyExc_ValueError, "dlbridge: level %R is not in 0..8", level);
  out->level = (int32_t)value;
  char *text;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(form, &text, &size) < 0) return -1;
  if (size != 4)
    return raise_error(PyExc_ValueError, "dlbridge: form %R does not have four bytes", form);
  memcpy(out->form, text, 4);
  for (int i = 0; i < 3; i++) {
    if (!PyLong_Check(numbers[i]))
      return raise_error(PyExc_TypeError, "dlbridge: %s must be an int, not %R", names[i], numbers[i]);
    *fields[i] = PyLong_AsUnsignedLongLong(numbers[i]);
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return raise_error(PyExc_ValueError, "dlbridge: %s %R is not in 0..2**64-1", names[i], numbers[i]);
    }
  }
  return 0;
}

/* None stands for no bytes. */
static int parse_bytes(PyObject *object, dlb_bytes *out) {
  *out = (dlb_bytes){NULL, 0};
  if (object == Py_None) return 0;
  char *text;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &text, &size) < 0) return -1;
  *out = (dlb_bytes){text, (size_t)size};
  return 0;
}

/* (level, form, label, origin, granule, seqno, parts) -> frames */
PyObject *tens_encode_parts(PyObject *module, PyObject *args) {
  PyObject *level, *form, *text, *origin, *granule, *seqno, *sequence;
  dlb_header header;
  dlb_bytes label;
  if (!PyArg_ParseTuple(args, "OOOOOOO", &level, &form, &text, &origin, &granule, &seqno, &sequence) ||
      parse_header(level, form, origin, granule, seqno, &header) < 0 || parse_bytes(text, &label) < 0)
    return NULL;
  const library *go = get_library(module);
  dlb_frame *parts;
  size_t count;
  if (go == NULL || lend_frames(sequence, "parts", &parts, &count) < 0) return NULL;
  dlb_message *message = NULL;
  dlb_error error = {0};
  int32_t code;
  WITHOUT_GIL(code = go->dlb_message_encode_parts(&message, &header, label, parts, count, &error));
  if (code != DLB_OK) {
    end_frames(parts, count);
    return raise_library(&error);
  }
  free(parts);
  return frames_of(PyModule_GetState(module), go, message);
}

static void end_tensors(dlb_message_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) core_release_versioned(tensors[i].tensor);
  free(tensors);
}

/* Exports all producers of a tuple. The bytes of `metadata`, a tuple of the same length, are borrowed. */
static dlb_message_tensor *export_all(module_state *state, PyObject *producers, PyObject *metadata,
                                      size_t count) {
  dlb_message_tensor *tensors = calloc(count + 1, sizeof *tensors);
  if (tensors == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    Tensor *tensor = NULL;
    if (parse_bytes(PyTuple_GetItem(metadata, (Py_ssize_t)i), &tensors[i].metadata) == 0)
      tensor = consume(state, PyTuple_GetItem(producers, (Py_ssize_t)i));
    if (tensor != NULL) tensors[i].tensor = tensor_export(tensor);
    Py_XDECREF((PyObject *)tensor);
    if (tensors[i].tensor == NULL) {
      note_index("tensors", i);
      KEEPING_EXCEPTION(end_tensors(tensors, i));
      return NULL;
    }
  }
  return tensors;
}

/* (level, form, label, origin, granule, seqno, metadata, tensors, tensor_metadata) -> frames */
PyObject *tens_encode(PyObject *module, PyObject *args) {
  PyObject *level, *form, *text, *origin, *granule, *seqno, *whole, *producers, *metadata;
  dlb_message_fields fields = {0};
  if (!PyArg_ParseTuple(args, "OOOOOOOO!O!", &level, &form, &text, &origin, &granule, &seqno, &whole,
                        &PyTuple_Type, &producers, &PyTuple_Type, &metadata) ||
      parse_header(level, form, origin, granule, seqno, &fields.header) < 0 ||
      parse_bytes(text, &fields.label) < 0 || parse_bytes(whole, &fields.metadata) < 0)
    return NULL;
  size_t count = (size_t)PyTuple_Size(producers);
  if ((size_t)PyTuple_Size(metadata) != count)
    return PyErr_Format(PyExc_ValueError, "dlbridge: encode: %zd tensor metadata for %zd tensors",
                        PyTuple_Size(metadata), PyTuple_Size(producers));
  const library *go = get_library(module);
  dlb_message_tensor *tensors =
      go == NULL ? NULL : export_all(PyModule_GetState(module), producers, metadata, count);
  if (tensors == NULL) return NULL;
  dlb_message *message = NULL;
  dlb_error error = {0};
  int32_t code;
  WITHOUT_GIL(code = go->dlb_message_encode(&message, &fields, tensors, count, &error));
  if (code != DLB_OK) {
    end_tensors(tensors, count);
    return raise_library(&error);
  }
  free(tensors);
  return frames_of(PyModule_GetState(module), go, message);
}
