/* ZIO messages and the tensors in them, encoded and decoded by the Go library.
 *
 * The GIL is released around calls that enter Go, whose threads may need it. The functions that look at
 * a decoded message, or free it, are plain C and keep the GIL. */
#include "library.h"

#include <stdlib.h>
#include <string.h>

/* ---- frames ---------------------------------------------------------------------------------- */

void note_index(const char *what, size_t index) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *args = PyObject_GetAttrString(value, "args"), *text = NULL;
  int has_text = args != NULL && PyTuple_Check(args) && PyTuple_Size(args) == 1 && PyUnicode_Check(PyTuple_GetItem(args, 0)) &&
                 (type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_BufferError);
  if (has_text) {
    PyObject *why = PyTuple_GetItem(args, 0), *prefix = PyUnicode_FromString("dlbridge: ");
    int ours = prefix != NULL && PyUnicode_Tailmatch(why, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
    PyObject *rest = PyUnicode_Substring(why, ours ? PyUnicode_GetLength(prefix) : 0, PY_SSIZE_T_MAX);
    text = rest == NULL ? NULL : Py_BuildValue("(N)", PyUnicode_FromFormat("dlbridge: %s[%zu]: %U", what, index, rest));
    if (text != NULL) PyObject_SetAttrString(value, "args", text);
    Py_XDECREF(prefix);
    Py_XDECREF(rest);
  }
  Py_XDECREF(args);
  Py_XDECREF(text);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  if (!has_text) add_note("dlbridge: %s[%zu]", what, index);
}

/* Releases the first `count` frames, and frees the array. */
static void end_frames(dlb_frame *frames, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (frames[i].release != NULL) frames[i].release(frames[i].ctx);
  }
  free(frames);
}

/* Lends the bytes of a sequence of bytes-like objects, as an array of frames, which end_frames frees. `what` names the sequence
 * in errors. -1 with an exception. */
static int lend_frames(PyObject *sequence, const char *what, dlb_frame **out, size_t *count) {
  if (PyUnicode_Check(sequence) || PyBytes_Check(sequence) || PyByteArray_Check(sequence) || PyMemoryView_Check(sequence))
    return raise_error(PyExc_TypeError,
                       "dlbridge: %s must be a sequence of bytes-like objects, not %R; tens.decode_frames splits the "
                       "packed form of a message",
                       what, Py_TYPE(sequence));
  PyObject *list = private_list(sequence);
  if (list == NULL) return -1;
  *count = (size_t)PyList_Size(list);
  *out = calloc(*count + 1, sizeof **out);
  size_t done = 0;
  while (*out != NULL && done < *count && lend_frame(PyList_GetItem(list, (Py_ssize_t)done), *out + done) == 0) done++;
  Py_DECREF(list);
  if (*out == NULL) return raise_memory();
  if (done == *count) return 0;
  note_index(what, done);
  end_frames(*out, done);
  return -1;
}

/* A message that is being read, and the Tensors behind the memoryviews of its parts. */
typedef struct {
  module_state *state;
  const library *go;
  const dlb_message *message;
  Tensor **parts; /* referenced, because Python code may run in between and release the memoryviews */
  size_t part_count;
} reading;

static PyObject *frame_view(void *ctx, size_t index) {
  reading *r = ctx;
  dlb_frame frame;
  dlb_error error;
  if (r->go->dlb_message_frame(&frame, r->message, index, &error) != DLB_OK) return raise_library(&error);
  return view_of_frame(r->state, &frame);
}

/* Returns memoryviews of the frames of an encoded message, and frees it. */
static PyObject *frames_of(module_state *state, const library *go, dlb_message *message) {
  reading r = {.state = state, .go = go, .message = message};
  PyObject *list = list_of(go->dlb_message_frame_count(message), frame_view, &r);
  KEEPING_EXCEPTION(go->dlb_message_free(message));
  return list;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static PyObject *bytes_or_none(dlb_bytes bytes) {
  if (bytes.data == NULL) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
}

static PyObject *part_view(void *ctx, size_t index) {
  reading *r = ctx;
  dlb_error error;
  DLManagedTensorVersioned *managed;
  if (r->go->dlb_message_part(&managed, r->message, index, &error) != DLB_OK) return raise_library(&error);
  r->parts[index] = take_over(r->state->tensor_type, managed, "message");
  return r->parts[index] == NULL ? NULL : PyMemoryView_FromObject((PyObject *)r->parts[index]);
}

/* Replaces the export that a tensor holds by a share of its part. So any number of tensors on one part need only one
 * export. The tensor keeps its export if the part was closed. */
static void share_part(Tensor *tensor, const Tensor *part) {
  if (part->share == NULL) return;
  dlbcore_share_retain(part->share);
  share_end(tensor->share);
  tensor->share = part->share;
}

static PyObject *message_tensor(void *ctx, size_t index) {
  reading *r = ctx;
  dlb_error error;
  DLManagedTensorVersioned *managed;
  int32_t code = r->go->dlb_message_tensor_at(&managed, r->message, index, &error);
  if (code == DLB_ERROR_FORMAT || code == DLB_ERROR_METADATA) Py_RETURN_NONE; /* a packing other than "dense", or only metadata */
  if (code != DLB_OK) return raise_library(&error);
  Tensor *tensor = take_over(r->state->tensor_type, managed, "message");
  if (tensor != NULL && !r->go->dlb_message_copied(r->message, index))
    share_part(tensor, r->parts[r->go->dlb_message_tensor_part(r->message, index)]);
  return (PyObject *)tensor;
}

static PyObject *tensor_metadata(void *ctx, size_t index) {
  reading *r = ctx;
  dlb_error error;
  dlb_bytes metadata;
  if (r->go->dlb_message_tensor_metadata(&metadata, r->message, index, &error) != DLB_OK) return raise_library(&error);
  return bytes_or_none(metadata);
}

/* (level, form, label, origin, granule, seqno, parts, tensors, metadata, tensor_metadata) */
static PyObject *read_message(module_state *state, const library *go, const dlb_message *message) {
  dlb_header header;
  dlb_bytes label, metadata;
  dlb_error error;
  int32_t code = go->dlb_message_header(&header, message, &error);
  if (code == DLB_OK) code = go->dlb_message_label(&label, message, &error);
  if (code == DLB_OK) code = go->dlb_message_metadata(&metadata, message, &error);
  if (code != DLB_OK) return raise_library(&error);
  reading r = {.state = state, .go = go, .message = message, .part_count = go->dlb_message_part_count(message)};
  size_t count = go->dlb_message_tensor_count(message);
  r.parts = calloc(r.part_count + 1, sizeof *r.parts);
  if (r.parts == NULL) return PyErr_NoMemory();
  PyObject *parts = list_of(r.part_count, part_view, &r);
  PyObject *tensors = parts == NULL ? NULL : list_of(count, message_tensor, &r);
  PyObject *each = tensors == NULL ? NULL : list_of(count, tensor_metadata, &r);
  PyObject *whole = each == NULL ? NULL : bytes_or_none(metadata);
  for (size_t i = 0; i < r.part_count; i++) Py_XDECREF((PyObject *)r.parts[i]);
  free(r.parts);
  if (whole != NULL)
    return Py_BuildValue("(iy#y#KKKNNNN)", (int)header.level, header.form, (Py_ssize_t)4,
                         label.data == NULL ? "" : label.data, (Py_ssize_t)label.size,
                         (unsigned long long)header.origin, (unsigned long long)header.granule,
                         (unsigned long long)header.seqno, parts, tensors, whole, each);
  Py_XDECREF(each);
  Py_XDECREF(tensors);
  Py_XDECREF(parts);
  return NULL;
}

/* Returns the message of some frames; NULL with an exception. Takes the frames over, also after an error, and frees the array. */
static dlb_message *decode_frames(const library *go, dlb_frame *frames, size_t count, uint64_t options) {
  dlb_message *message;
  dlb_error error;
  WITHOUT_GIL(go->dlb_message_decode(&message, frames, count, options, &error));
  end_frames(frames, error.code == DLB_OK ? 0 : count);
  if (error.code != DLB_OK) raise_library(&error);
  return message;
}

/* Returns the limit in bytes of the Go library for a message of these frames. The rule of Python's decoders (bridge/README.md) allows
 * 64 bytes for each byte of the frames and 2816 for each frame. Of these, the copies of `recv` take 4, and Python's objects for a
 * frame 2304; those for the tensors of a label take less than the library counts for it. */
static uint64_t library_limit(const dlb_frame *frames, size_t count, uint64_t limit) {
  uint64_t total = 1 + limit + 512 * (uint64_t)count;
  for (size_t i = 0; i < count && total >> 47 == 0; i++) total += 60 * (uint64_t)frames[i].size;
  return DLB_LIMIT(total);
}

/* (frames, message_only, join, limit) -> the fields of a Message */
PyObject *tens_decode(PyObject *module, PyObject *args) {
  PyObject *sequence;
  int message_only, join;
  uint64_t limit;
  if (!PyArg_ParseTuple(args, "OppO&", &sequence, &message_only, &join, parse_limit, &limit)) return NULL;
  uint64_t options = (message_only ? DLB_DECODE_MESSAGE_ONLY : 0) | (join ? DLB_DECODE_JOIN : 0);
  const library *go = get_library(module);
  dlb_frame *frames;
  size_t count;
  if (go == NULL || lend_frames(sequence, "frames", &frames, &count) < 0) return NULL;
  dlb_message *message = decode_frames(go, frames, count, options | library_limit(frames, count, limit));
  if (message == NULL) return NULL;
  PyObject *result = read_message(PyModule_GetState(module), go, message);
  KEEPING_EXCEPTION(go->dlb_message_free(message));
  return result;
}

/* A message that was decoded from one frame, and memoryviews of that frame and of none of its bytes. */
typedef struct {
  const library *go;
  const dlb_message *message;
  const dlb_frame *lent;
  PyObject *whole, *empty;
} slicing;

static PyObject *frame_slice(void *ctx, size_t index) {
  slicing *s = ctx;
  dlb_frame frame;
  dlb_error error;
  if (s->go->dlb_message_frame(&frame, s->message, index, &error) != DLB_OK) return raise_library(&error);
  frame.release(frame.ctx);
  if (frame.size == 0) return Py_NewRef(s->empty);
  Py_ssize_t at = (const char *)frame.data - (const char *)s->lent->data;
  return PySequence_GetSlice(s->whole, at, at + (Py_ssize_t)frame.size);
}

/* Returns the memoryviews of the frames of a message that was decoded from one frame, which `data` has lent. All empty frames share
 * one memoryview. */
static PyObject *slice_frames(module_state *state, const library *go, const dlb_message *message, PyObject *data,
                              const dlb_frame *lent) {
  slicing s = {.go = go, .message = message, .lent = lent};
  size_t count = go->dlb_message_frame_count(message);
  s.whole = view_again(state, data, lent);
  s.empty = s.whole == NULL ? NULL : PySequence_GetSlice(s.whole, 0, 0);
  PyObject *list = s.empty == NULL ? NULL : list_of(count, frame_slice, &s);
  Py_XDECREF(s.empty);
  Py_XDECREF(s.whole);
  return list;
}

/* Returns the memoryviews of the frames of a message in `data`, and sets *offset to its end: of the message at *offset or, if
 * `offset` is NULL, of the one that all bytes are. The list is empty at the end of data. NULL with an exception. */
static PyObject *decode_packed(PyObject *module, PyObject *data, size_t *offset) {
  const library *go = get_library(module);
  dlb_frame frame;
  if (go == NULL || lend_frame(data, &frame) < 0) return NULL;
  dlb_message *message;
  dlb_error error;
  size_t start = offset == NULL ? 0 : *offset, end = frame.size;
  if (offset == NULL) {
    WITHOUT_GIL(go->dlb_message_decode_packed(&message, &frame, DLB_DECODE_MESSAGE_ONLY, &error));
  } else {
    WITHOUT_GIL(go->dlb_message_decode_next(&message, &end, &frame, start, DLB_DECODE_MESSAGE_ONLY, &error));
    *offset = end;
  }
  if (error.code != DLB_OK) {
    loan_end(frame.ctx);
    return raise_library(&error);
  }
  if (message == NULL) return PyList_New(0);
  PyObject *list = slice_frames(PyModule_GetState(module), go, message, data, &frame);
  KEEPING_EXCEPTION(go->dlb_message_free(message));
  return list;
}

/* data -> frames */
PyObject *tens_decode_frames(PyObject *module, PyObject *data) { return decode_packed(module, data, NULL); }

/* (data, offset) -> (frames of the message at the offset, or none at the end of data, and the offset after it) */
PyObject *tens_decode_next(PyObject *module, PyObject *args) {
  PyObject *data;
  Py_ssize_t at;
  if (!PyArg_ParseTuple(args, "On", &data, &at)) return NULL;
  size_t offset = (size_t)at;
  PyObject *list = decode_packed(module, data, &offset);
  return list == NULL ? NULL : Py_BuildValue("(Nn)", list, (Py_ssize_t)offset);
}

/* frames -> bytes in the packed form */
PyObject *tens_encode_frames(PyObject *module, PyObject *sequence) {
  const library *go = get_library(module);
  dlb_frame *frames, packed;
  size_t count;
  if (go == NULL || lend_frames(sequence, "frames", &frames, &count) < 0) return NULL;
  dlb_message *message = decode_frames(go, frames, count, DLB_DECODE_MESSAGE_ONLY);
  if (message == NULL) return NULL;
  dlb_error error;
  Py_BEGIN_ALLOW_THREADS;
  go->dlb_message_encode_packed(&packed, message, &error);
  go->dlb_message_free(message);
  Py_END_ALLOW_THREADS;
  if (error.code != DLB_OK) return raise_library(&error);
  PyObject *bytes = PyBytes_FromStringAndSize(packed.data, (Py_ssize_t)packed.size);
  if (packed.release != NULL) packed.release(packed.ctx);
  return bytes;
}

/* ---- encoding -------------------------------------------------------------------------------- */

int parse_bytes(PyObject *object, dlb_bytes *out) {
  *out = (dlb_bytes){NULL, 0};
  if (object == Py_None) return 0;
  char *text;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &text, &size) < 0) return -1;
  *out = (dlb_bytes){text, (size_t)size};
  return 0;
}

/* Reads a tuple (level, form, label, origin, granule, seqno). */
static int parse_header(PyObject *tuple, dlb_header *out, dlb_bytes *label) {
  static const char *const names[] = {"level", "origin", "granule", "seqno"};
  PyObject *form, *text, *numbers[4];
  uint64_t level, *const values[] = {&level, &out->origin, &out->granule, &out->seqno};
  if (!PyArg_ParseTuple(tuple, "OOOOOO", &numbers[0], &form, &text, &numbers[1], &numbers[2], &numbers[3])) return -1;
  memset(out, 0, sizeof *out);
  for (int i = 0; i < 4; i++) {
    if (!PyIndex_Check(numbers[i]))
      return raise_error(PyExc_TypeError, "dlbridge: %s must be an int, not %R", names[i], numbers[i]);
    PyObject *number = PyNumber_Index(numbers[i]);
    if (number == NULL) return -1;
    *values[i] = PyLong_AsUnsignedLongLong(number);
    int failed = PyErr_Occurred() != NULL;
    PyErr_Clear();
    if (failed || (i == 0 && level > 8))
      raise_error(PyExc_ValueError, "dlbridge: %s %R is not in %s", names[i], number, i == 0 ? "0..8" : "0..2**64-1");
    Py_DECREF(number);
    if (PyErr_Occurred()) return -1;
  }
  out->level = (int32_t)level;
  char *four;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(form, &four, &size) < 0) return -1;
  if (size != 4) return raise_error(PyExc_ValueError, "dlbridge: form %R does not have four bytes", form);
  memcpy(out->form, four, 4);
  return parse_bytes(text, label);
}

/* Returns the message of a tuple (header, parts); NULL with an exception. */
static dlb_message *message_of(const library *go, PyObject *args) {
  PyObject *tuple, *sequence;
  dlb_header header;
  dlb_bytes label;
  dlb_frame *parts;
  size_t count;
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &tuple, &sequence) || parse_header(tuple, &header, &label) < 0 ||
      lend_frames(sequence, "parts", &parts, &count) < 0)
    return NULL;
  dlb_message *message;
  dlb_error error;
  WITHOUT_GIL(go->dlb_message_encode_parts(&message, &header, label, parts, count, &error));
  end_frames(parts, error.code == DLB_OK ? 0 : count);
  if (error.code != DLB_OK) raise_library(&error);
  return message;
}

/* (header, parts) -> frames */
PyObject *tens_encode_parts(PyObject *module, PyObject *args) {
  const library *go = get_library(module);
  dlb_message *message = go == NULL ? NULL : message_of(go, args);
  return message == NULL ? NULL : frames_of(PyModule_GetState(module), go, message);
}

static void end_tensors(dlb_message_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tensors[i].tensor != NULL) dlbcore_release_versioned(tensors[i].tensor);
  }
  free(tensors);
}

/* Exports all producers of a tuple, into an array that end_tensors frees; NULL with an exception. The bytes of `metadata`, a
 * tuple of the same length, are borrowed. If a message is `relayed`, None stands for a tensor that stays as it is there. */
static dlb_message_tensor *export_all(module_state *state, PyObject *producers, PyObject *metadata, int relayed,
                                      size_t count) {
  dlb_message_tensor *tensors = calloc(count + 1, sizeof *tensors);
  if (tensors == NULL) return (dlb_message_tensor *)PyErr_NoMemory();
  for (size_t i = 0; i < count; i++) {
    PyObject *producer = PyTuple_GetItem(producers, (Py_ssize_t)i);
    int parsed = parse_bytes(PyTuple_GetItem(metadata, (Py_ssize_t)i), &tensors[i].metadata) == 0;
    if (parsed && relayed && producer == Py_None) continue;
    if (parsed) tensors[i].tensor = export_producer(state, producer, NULL);
    if (tensors[i].tensor == NULL) {
      note_index("tensors", i);
      KEEPING_EXCEPTION(end_tensors(tensors, i));
      return NULL;
    }
  }
  return tensors;
}

/* (header, metadata, tensors, tensor_metadata, spread or 0, (header, parts) of the message to relay or None) -> frames */
PyObject *tens_encode(PyObject *module, PyObject *args) {
  PyObject *tuple, *whole, *producers, *metadata, *relay = Py_None;
  dlb_message_fields fields = {0};
  Py_ssize_t spread;
  if (!PyArg_ParseTuple(args, "O!OO!O!n|O", &PyTuple_Type, &tuple, &whole, &PyTuple_Type, &producers, &PyTuple_Type,
                        &metadata, &spread, &relay) ||
      parse_header(tuple, &fields.header, &fields.label) < 0 || parse_bytes(whole, &fields.metadata) < 0)
    return NULL;
  fields.spread = (uint64_t)spread;
  size_t count = (size_t)PyTuple_Size(producers);
  if ((size_t)PyTuple_Size(metadata) != count)
    return PyErr_Format(PyExc_ValueError, "dlbridge: encode: tensor_metadata has %zd items, but the message has %zd tensor%s",
                        PyTuple_Size(metadata), PyTuple_Size(producers), ENDING(count));
  const library *go = get_library(module);
  if (go == NULL) return NULL;
  dlb_message *relayed = NULL;
  if (relay != Py_None && (relayed = message_of(go, relay)) == NULL) return NULL;
  fields.relay = relayed;
  dlb_message_tensor *tensors = export_all(PyModule_GetState(module), producers, metadata, relayed != NULL, count);
  dlb_message *message = NULL;
  dlb_error error;
  if (tensors != NULL) {
    WITHOUT_GIL(go->dlb_message_encode(&message, &fields, tensors, count, &error));
    end_tensors(tensors, error.code == DLB_OK ? 0 : count);
  }
  if (relayed != NULL) KEEPING_EXCEPTION(go->dlb_message_free(relayed));
  if (tensors == NULL) return NULL;
  return error.code == DLB_OK ? frames_of(PyModule_GetState(module), go, message) : raise_library(&error);
}

/* ---- text of labels ---------------------------------------------------------------------------- */

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static size_t skip_space(const char *text, size_t size, size_t at) {
  while (at < size && is_space(text[at])) at++;
  return at;
}

/* Returns where the string ends whose first quote is at `at`. */
static size_t skip_string(const char *text, size_t size, size_t at) {
  for (at++; at < size && text[at] != '"'; at++) {
    if (text[at] == '\\') at++;
  }
  return at < size ? at + 1 : size;
}

/* Returns where the value ends that begins at `at`. */
static size_t skip_value(const char *text, size_t size, size_t at) {
  size_t open = 0; /* brackets and braces */
  while (at < size) {
    const char c = text[at];
    if (open == 0 && (c == ',' || c == ']' || c == '}' || is_space(c))) break; /* the end of a number or a word */
    if (c == '"') at = skip_string(text, size, at);
    else at++;
    if (c == '[' || c == '{') open++;
    else if ((c == ']' || c == '}') && open > 0) open--;
    if (open == 0 && (c == '"' || c == ']' || c == '}')) break;
  }
  return at;
}

/* (text, place of a brace or bracket) -> list of (name between its quotes, or None; where the member or element begins; where its
 * value begins; where it ends). The text is valid JSON; of any other text the result has no meaning. */
PyObject *tens_label_children(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *text;
  Py_ssize_t length, start;
  if (!PyArg_ParseTuple(args, "y#n", &text, &length, &start)) return NULL;
  const size_t size = (size_t)length;
  PyObject *list = start < 0 || start >= length ? NULL : PyList_New(0);
  size_t at = list == NULL ? size : skip_space(text, size, (size_t)start + 1);
  while (at < size && text[at] != ']' && text[at] != '}') {
    const size_t begin = at;
    PyObject *name;
    if (text[start] == '{') {
      at = skip_string(text, size, at);
      name = at < begin + 2 ? NULL : PyUnicode_DecodeUTF8(text + begin + 1, (Py_ssize_t)(at - begin - 2), NULL);
      at = skip_space(text, size, skip_space(text, size, at) + 1); /* the colon */
    } else {
      name = Py_NewRef(Py_None);
    }
    const size_t value = at;
    at = skip_value(text, size, at);
    PyObject *child = name == NULL ? NULL : Py_BuildValue("(Nnnn)", name, (Py_ssize_t)begin, (Py_ssize_t)value, (Py_ssize_t)at);
    const int failed = child == NULL || at == value || PyList_Append(list, child) < 0;
    Py_XDECREF(child);
    if (failed) {
      Py_CLEAR(list);
      break;
    }
    at = skip_space(text, size, at);
    if (at < size && text[at] == ',') at = skip_space(text, size, at + 1);
  }
  if (list == NULL && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "dlbridge: label: the text is not valid JSON");
  return list;
}
