/* Values of the formats (formats.h), decoded and encoded by the Go library: Tensors, and objects of the Python class Elements
 * for types that DLPack lacks. The name of the format and the class are passed as arguments. An element is a str, bytes-like, or, in
 * Elements of media, a tuple (format, bytes-like). */
#include "library.h"

#include <stdlib.h>
#include <string.h>

/* A call of a function of a format. */
typedef struct {
  const char *name; /* of the format */
  const format_functions *functions;
  const library *go;
  module_state *state;
  PyObject *elements; /* the class Elements */
} value_call;

/* Begins the call of a function with `takes` arguments. The first is the name of the format, and the last is the class Elements.
 * -1 with an exception. */
static int call_begin(value_call *out, PyObject *module, PyObject *const *args, Py_ssize_t nargs, Py_ssize_t takes) {
  static const char *const names[] = {
#define NAME(name, ...) #name,
      FORMATS(NAME)
#undef NAME
  };
  if (nargs != takes) return raise_error(PyExc_TypeError, "dlbridge: %zd arguments, not %zd", nargs, takes);
  *out = (value_call){.name = PyUnicode_AsUTF8AndSize(args[0], NULL), .state = PyModule_GetState(module), .elements = args[nargs - 1]};
  if (out->name == NULL) return -1;
  size_t i = 0;
  while (i < FORMAT_COUNT && strcmp(names[i], out->name) != 0) i++;
  if (i == FORMAT_COUNT) return raise_error(PyExc_ValueError, "dlbridge: no format has the name %s", out->name);
  out->go = get_library(module);
  if (out->go == NULL) return -1;
  out->functions = &out->go->formats[i];
  return 0;
}

static int parse_options(PyObject *object, uint64_t *out) {
  *out = PyLong_AsUnsignedLongLong(object);
  return *out == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* The bytes-like argument of a decoder. */
typedef struct {
  value_call call;
  PyObject *data;   /* the argument */
  int copies;       /* whether elements become bytes; otherwise str if their type is "string", or memoryviews of the data */
  dlb_frame frame;  /* lent by data */
  PyObject *view;   /* a memoryview of data, NULL until one is needed */
} value_input;

/* Returns a memoryview of the bytes of an element, which are in the frame. */
static PyObject *view_of_bytes(value_input *in, dlb_bytes bytes) {
  if (in->view == NULL) in->view = view_again(in->call.state, in->data, &in->frame);
  if (in->view == NULL) return NULL;
  Py_ssize_t at = bytes.size == 0 ? 0 : bytes.data - (const char *)in->frame.data;
  return PySequence_GetSlice(in->view, at, at + (Py_ssize_t)bytes.size);
}

static int same_bytes(dlb_bytes a, dlb_bytes b) {
  return a.size == b.size && (a.data == b.data || a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Reports whether an element becomes the same object as the one before: if their bytes are equal, and for memoryviews
 * if they are also the same memory, because the bytes of other memory may change later. */
static int repeats(const dlb_elements *e, size_t i, int views) {
  if (i == 0 || !same_bytes(e->values[i - 1], e->values[i])) return 0;
  if (views && e->values[i].size > 0 && e->values[i - 1].data != e->values[i].data) return 0;
  return e->formats == NULL || same_bytes(e->formats[i - 1], e->formats[i]);
}

static int is_string(dlb_bytes type) { return type.size == 6 && memcmp(type.data, "string", 6) == 0; }

enum { TEXTS, VIEWS, COPIES };

/* Elements that become a list. */
typedef struct {
  value_input *in;
  const dlb_elements *e;
  int objects;
  PyObject *format, *empty;
  PyObject *last; /* borrowed from the list */
} listing;

static PyObject *text_object(dlb_bytes text) {
  return PyUnicode_DecodeUTF8(text.size == 0 ? "" : text.data, (Py_ssize_t)text.size, NULL);
}

static PyObject *bytes_object(listing *l, dlb_bytes value) {
  if (l->objects == COPIES) return PyBytes_FromStringAndSize(value.data, (Py_ssize_t)value.size);
  if (l->objects == TEXTS) return text_object(value);
  if (value.size > 0) return view_of_bytes(l->in, value);
  if (l->empty == NULL) l->empty = view_of_bytes(l->in, value);
  return Py_XNewRef(l->empty);
}

/* Returns an item of the list. An element for which `repeats` holds is the same object as the one before. */
static PyObject *element_object(void *ctx, size_t i) {
  listing *l = ctx;
  const dlb_elements *e = l->e;
  if (repeats(e, i, l->objects == VIEWS)) return Py_NewRef(l->last);
  PyObject *item = bytes_object(l, e->values[i]);
  if (item != NULL && e->formats != NULL) {
    if (i == 0 || !same_bytes(e->formats[i - 1], e->formats[i])) REPLACE(l->format, text_object(e->formats[i]));
    REPLACE(item, l->format == NULL ? NULL : PyTuple_Pack(2, l->format, item));
  }
  return l->last = item;
}

/* Returns Elements(type, shape, values) of decoded elements. Their objects need no limit: each of them, with its format and its place
 * in the list, takes less than the rule of Python's decoders (bridge/README.md) allows for an element, and elements that repeat the
 * last one take a place only, which the library has counted. */
static PyObject *elements_object(value_input *in, const dlb_elements *e) {
  listing l = {.in = in, .e = e, .objects = in->copies ? COPIES : is_string(e->type) ? TEXTS : VIEWS};
  PyObject *shape = tuple_of(e->shape, e->ndim);
  PyObject *values = shape == NULL ? NULL : list_of(e->count, element_object, &l);
  PyObject *object = NULL;
  if (values != NULL)
    object = PyObject_CallFunction(in->call.elements, "s#OO", e->type.data, (Py_ssize_t)e->type.size, shape, values);
  Py_XDECREF(l.format);
  Py_XDECREF(l.empty);
  Py_XDECREF(values);
  Py_XDECREF(shape);
  return object;
}

/* Returns the Tensor or Elements of a value, and always takes the value over. */
static PyObject *value_object(value_input *in, const dlb_value *value) {
  if (value->tensor != NULL) return (PyObject *)take_over(in->call.state->tensor_type, value->tensor, in->call.name);
  PyObject *object = elements_object(in, value->elements);
  in->call.go->dlb_elements_free(value->elements);
  return object;
}

/* Lends the library the bytes of `data`. -1 with an exception. If decoding fails afterwards, the caller ends the loan:
 * loan_end(in->frame.ctx). */
static int input_begin(value_input *in, PyObject *data, PyObject *copies) {
  in->data = data;
  in->copies = copies == Py_True;
  in->view = NULL;
  if (PyUnicode_Check(data))
    return raise_error(PyExc_TypeError, "dlbridge: data must be bytes-like, not %R", Py_TYPE(data));
  return lend_frame(data, &in->frame);
}

/* (format, data, options, limit, copies, Elements) -> the Tensor or Elements that data holds. limit is None for a format that needs
 * none. With copies, elements are bytes; otherwise they are str, or memoryviews of data. */
PyObject *value_decode(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  value_input in;
  uint64_t options, limit = 0;
  if (call_begin(&in.call, module, args, nargs, 6) < 0 || parse_options(args[2], &options) < 0 ||
      (args[3] != Py_None && !parse_limit(args[3], &limit)) || input_begin(&in, args[1], args[4]) < 0)
    return NULL;
  if (args[3] != Py_None) options |= DLB_LIMIT(limit > 0 ? limit : 1);
  dlb_value value;
  dlb_error error;
  WITHOUT_GIL(in.call.functions->decode(&value, &in.frame, options, &error));
  if (error.code != DLB_OK) {
    loan_end(in.frame.ctx);
    return raise_library(&error);
  }
  PyObject *object = value_object(&in, &value);
  Py_XDECREF(in.view);
  return object;
}

enum { BATCH = 128 };

/* Values that one call of the Go library has decoded, and the number of those that have become objects. */
typedef struct {
  value_input in;
  dlb_value *values;
  Py_ssize_t taken;
} batch;

static PyObject *batch_object(void *ctx, size_t index) {
  batch *b = ctx;
  b->taken++;
  return value_object(&b->in, &b->values[index]);
}

static void release_rest(batch *b, Py_ssize_t count) {
  for (; b->taken < count; b->taken++) {
    if (b->values[b->taken].tensor != NULL) dlbcore_release_versioned(b->values[b->taken].tensor);
    b->in.call.go->dlb_elements_free(b->values[b->taken].elements);
  }
}

/* (format, data, offset, options, copies, Elements) -> (list of Tensors and Elements, offset after them), of a format in STREAMS. The list
 * is empty at the end of data. It ends before a value that is malformed; the next call raises the error of that value. */
PyObject *value_decode_batch(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  batch b = {.taken = 0};
  uint64_t options, offset;
  if (call_begin(&b.in.call, module, args, nargs, 6) < 0 || parse_options(args[2], &offset) < 0 || parse_options(args[3], &options) < 0)
    return NULL;
  if (b.in.call.functions->decode_batch == NULL) return PyErr_Format(PyExc_ValueError, "dlbridge: %s is not in STREAMS", b.in.call.name);
  if (input_begin(&b.in, args[1], args[4]) < 0) return NULL;
  dlb_error error;
  size_t next;
  b.values = PyMem_Calloc(BATCH, sizeof *b.values);
  if (b.values == NULL) {
    loan_end(b.in.frame.ctx);
    return PyErr_NoMemory();
  }
  WITHOUT_GIL(b.in.call.functions->decode_batch(b.values, BATCH, &next, &b.in.frame, (size_t)offset, options, &error));
  if (error.code != DLB_OK) {
    loan_end(b.in.frame.ctx);
    PyMem_Free(b.values);
    return raise_library(&error);
  }
  Py_ssize_t count = 0;
  while (count < BATCH && b.values[count].size > 0) count++;
  PyObject *list = list_of((size_t)count, batch_object, &b);
  KEEPING_EXCEPTION(release_rest(&b, count));
  PyMem_Free(b.values);
  Py_XDECREF(b.in.view);
  return list == NULL ? NULL : Py_BuildValue("(Nn)", list, (Py_ssize_t)next);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* A value that Go can read without the GIL, and the objects that its memory belongs to. */
typedef struct {
  dlb_value value;
  dlb_elements elements;
  PyObject *type, *shape, *list; /* of Elements: a str, and private lists (see private_list) of the sizes and the values */
  int64_t *dims;
  dlb_bytes *values, *formats;
  Py_buffer *buffers;
  size_t buffer_count;
} value_output;

/* Releases the memory of the value; the current exception stays as it is. */
static void output_end(value_output *out) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (out->value.tensor != NULL) dlbcore_release_versioned(out->value.tensor);
  for (size_t i = 0; i < out->buffer_count; i++) PyBuffer_Release(&out->buffers[i]);
  free(out->buffers);
  free(out->formats);
  free(out->values);
  free(out->dims);
  Py_XDECREF(out->list);
  Py_XDECREF(out->shape);
  Py_XDECREF(out->type);
  PyErr_Restore(type, value, traceback);
}

static int text_of(PyObject *object, dlb_bytes *out) {
  Py_ssize_t size;
  const char *data = PyUnicode_AsUTF8AndSize(object, &size);
  *out = (dlb_bytes){data, (size_t)size};
  return data == NULL ? -1 : 0;
}

/* Sets *bytes to the bytes of a bytes-like object, whose buffer `out` holds. */
static int bytes_of(value_output *out, PyObject *object, size_t index, dlb_bytes *bytes) {
  if (PyBytes_Check(object)) {
    *bytes = (dlb_bytes){PyBytes_AsString(object), (size_t)PyBytes_Size(object)};
    return 0;
  }
  if (out->buffers == NULL) {
    out->buffers = calloc(out->elements.count, sizeof *out->buffers);
    if (out->buffers == NULL) return raise_memory();
  }
  if (PyObject_GetBuffer(object, &out->buffers[out->buffer_count], PyBUF_SIMPLE) < 0) {
    if (!PyObject_CheckBuffer(object)) {
      PyErr_Clear();
      PyErr_Format(PyExc_TypeError, "dlbridge: element %zu of type %S must be %s, not %R%s", index, out->type,
                   is_string(out->elements.type) ? "a str or bytes-like" : "bytes-like", Py_TYPE(object),
                   PyUnicode_Check(object) ? "; only elements of type string may be str" : "");
    }
    return -1;
  }
  Py_buffer *buffer = &out->buffers[out->buffer_count++];
  *bytes = (dlb_bytes){buffer->buf, (size_t)buffer->len};
  return 0;
}

/* Sets the value, and the format, of an element: a str for the type "string", bytes, or a tuple (format, bytes). */
static int parse_element(value_output *out, PyObject *object, size_t index, int text) {
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2 && PyUnicode_Check(PyTuple_GetItem(object, 0))) {
    if (out->formats == NULL && index > 0)
      return raise_error(PyExc_TypeError, "dlbridge: element %zu has a format, but the elements before it have none",
                         index);
    if (out->formats == NULL) out->formats = calloc(out->elements.count, sizeof *out->formats);
    if (out->formats == NULL) return raise_memory();
    if (text_of(PyTuple_GetItem(object, 0), &out->formats[index]) < 0) return -1;
    return bytes_of(out, PyTuple_GetItem(object, 1), index, &out->values[index]);
  }
  if (out->formats != NULL)
    return raise_error(PyExc_TypeError,
                       "dlbridge: element %zu must be (format, bytes) like the elements before it, not %R",
                       index, Py_TYPE(object));
  if (PyUnicode_CompareWithASCIIString(out->type, "image") == 0 || PyUnicode_CompareWithASCIIString(out->type, "audio") == 0 ||
      PyUnicode_CompareWithASCIIString(out->type, "video") == 0)
    return raise_error(PyExc_TypeError, "dlbridge: element %zu of type %S must be a tuple (format, bytes), such as ('png', data), not %R",
                       index, out->type, Py_TYPE(object));
  if (text && PyUnicode_Check(object)) return text_of(object, &out->values[index]);
  return bytes_of(out, object, index, &out->values[index]);
}

static int parse_elements_shape(value_output *out, PyObject *shape) {
  if (!PySequence_Check(shape) || PyUnicode_Check(shape))
    return raise_error(PyExc_TypeError, "dlbridge: shape must be a sequence of ints, not %R", Py_TYPE(shape));
  out->shape = private_list(shape);
  if (out->shape == NULL) return -1;
  Py_ssize_t ndim = PyList_Size(out->shape);
  out->dims = calloc((size_t)ndim + 1, sizeof *out->dims);
  if (out->dims == NULL) return raise_memory();
  for (Py_ssize_t d = 0; d < ndim; d++) {
    PyObject *size = PyNumber_Index(PyList_GetItem(out->shape, d));
    if (size == NULL) return -1;
    int overflow;
    out->dims[d] = PyLong_AsLongLongAndOverflow(size, &overflow);
    Py_DECREF(size);
    if (overflow != 0)
      return raise_error(PyExc_ValueError, "dlbridge: shape[%zd] = %S", d, PyList_GetItem(out->shape, d));
  }
  out->elements.ndim = (int32_t)(ndim <= INT32_MAX ? ndim : INT32_MAX);
  out->elements.shape = out->dims;
  return 0;
}

static int parse_values(value_output *out, PyObject *values) {
  if (PyUnicode_Check(values) || PyBytes_Check(values))
    return raise_error(PyExc_TypeError, "dlbridge: values must be a sequence, not %R", Py_TYPE(values));
  out->list = private_list(values);
  if (out->list == NULL) return -1;
  size_t count = (size_t)PyList_Size(out->list);
  out->elements.count = count;
  out->values = calloc(count + 1, sizeof *out->values);
  if (out->values == NULL) return raise_memory();
  int text = is_string(out->elements.type);
  for (size_t i = 0; i < count; i++) {
    if (parse_element(out, PyList_GetItem(out->list, (Py_ssize_t)i), i, text) < 0) return -1;
  }
  out->elements.values = out->values;
  out->elements.formats = out->formats;
  return 0;
}

static int parse_type(value_output *out, PyObject *type) {
  if (!PyUnicode_Check(type))
    return raise_error(PyExc_TypeError, "dlbridge: type must be a str, not %R", Py_TYPE(type));
  out->type = Py_NewRef(type);
  return text_of(type, &out->elements.type);
}

static int parse_attribute(value_output *out, PyObject *object, const char *name,
                           int (*parse)(value_output *out, PyObject *attribute)) {
  PyObject *attribute = PyObject_GetAttrString(object, name);
  int failed = attribute == NULL || parse(out, attribute) < 0;
  Py_XDECREF(attribute);
  return failed ? -1 : 0;
}

/* Makes a value of a producer or of Elements; without `with_values` only type and shape of Elements are read. -1 with
 * an exception, and then there is nothing to end. */
static int output_begin(const value_call *call, value_output *out, PyObject *object, int with_values) {
  memset(out, 0, sizeof *out);
  int is_elements = PyObject_IsInstance(object, call->elements);
  if (is_elements < 0) return -1;
  if (!is_elements) {
    out->value.tensor = export_producer(call->state, object, NULL);
    return out->value.tensor == NULL ? -1 : 0;
  }
  out->value.elements = &out->elements;
  if (parse_attribute(out, object, "type", parse_type) == 0 && parse_attribute(out, object, "shape", parse_elements_shape) == 0 &&
      (!with_values || parse_attribute(out, object, "values", parse_values) == 0))
    return 0;
  output_end(out);
  return -1;
}

/* Raises ValueError for a type of Elements that the format lacks, and BufferError for a data type of DLPack that it
 * lacks. */
static PyObject *raise_value(const value_output *out, dlb_error *error) {
  if (out->value.elements != NULL && error->code == DLB_ERROR_DTYPE) error->code = DLB_ERROR_ARGUMENT;
  return raise_library(error);
}

/* (format, x, options, Elements) -> bytes. A small encoding is copied from the stack; a large one is written into the bytes
 * object. */
PyObject *value_encode(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  value_call call;
  value_output out;
  uint64_t options;
  if (call_begin(&call, module, args, nargs, 4) < 0 || parse_options(args[2], &options) < 0 || output_begin(&call, &out, args[1], 1) < 0)
    return NULL;
  char small[512];
  size_t size, written;
  dlb_error error;
  WITHOUT_GIL(call.functions->encode(&size, small, sizeof small, &out.value, options, &error));
  PyObject *bytes = NULL;
  int large = error.code == DLB_ERROR_ROOM;
  if (error.code == DLB_OK || large) bytes = PyBytes_FromStringAndSize(large ? NULL : small, (Py_ssize_t)size);
  written = size;
  if (large && bytes != NULL) {
    char *data = PyBytes_AsString(bytes);
    WITHOUT_GIL(call.functions->encode(&written, data, size, &out.value, options, &error));
  }
  if (error.code != DLB_OK && error.code != DLB_ERROR_ROOM) raise_value(&out, &error);
  else if (written != size)
    PyErr_SetString(PyExc_ValueError, "dlbridge: the elements changed while they were encoded");
  if (PyErr_Occurred()) Py_CLEAR(bytes);
  output_end(&out);
  return bytes;
}

/* (format, rules as bytes, x, Elements) -> None, of a format in RULES. */
PyObject *value_check(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  value_call call;
  value_output out;
  char *text;
  Py_ssize_t size;
  if (call_begin(&call, module, args, nargs, 4) < 0 || PyBytes_AsStringAndSize(args[1], &text, &size) < 0) return NULL;
  if (call.functions->check == NULL) return PyErr_Format(PyExc_ValueError, "dlbridge: %s is not in RULES", call.name);
  if (output_begin(&call, &out, args[2], 0) < 0) return NULL;
  dlb_bytes rules = {text, (size_t)size};
  dlb_error error;
  WITHOUT_GIL(call.functions->check(rules, &out.value, &error));
  output_end(&out);
  if (error.code == DLB_OK) Py_RETURN_NONE;
  if (error.code == DLB_ERROR_DTYPE) error.code = DLB_ERROR_ARGUMENT; /* a broken rule is a ValueError */
  return raise_library(&error);
}
