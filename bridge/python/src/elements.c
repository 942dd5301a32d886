/* Values of the formats: Tensors, and objects of the Python class Elements for types that DLPack lacks. The class is
 * passed as an argument. An element is a str, bytes-like, or, in Elements of media, a tuple (format, bytes-like). */
#include "elements.h"

#include <stdlib.h>
#include <string.h>

/* ---- decoding -------------------------------------------------------------------------------- */

/* Returns a memoryview of the bytes of an element, which are in the frame. */
static PyObject *view_of_bytes(value_input *in, dlb_bytes bytes) {
  if (in->view == NULL) in->view = view_again(in->state, in->data, &in->frame);
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

static int objects_of(const value_input *in, const dlb_elements *e) {
  if (in->format->objects == BYTES) return COPIES;
  return is_string(e->type) ? TEXTS : VIEWS;
}

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
  listing l = {.in = in, .e = e, .objects = objects_of(in, e)};
  PyObject *shape = tuple_of(e->shape, e->ndim);
  PyObject *values = shape == NULL ? NULL : list_of(e->count, element_object, &l);
  PyObject *object = NULL;
  if (values != NULL)
    object = PyObject_CallFunction(in->elements, "s#OO", e->type.data, (Py_ssize_t)e->type.size, shape, values);
  Py_XDECREF(l.format);
  Py_XDECREF(l.empty);
  Py_XDECREF(values);
  Py_XDECREF(shape);
  return object;
}

PyObject *value_object(value_input *in, const dlb_value *value) {
  if (value->tensor != NULL) return (PyObject *)take_over(in->state->tensor_type, value->tensor, in->format->name);
  PyObject *object = elements_object(in, value->elements);
  in->go->dlb_elements_free(value->elements);
  return object;
}

int input_begin(const value_format *format, PyObject *module, PyObject *data, PyObject *elements, value_input *out) {
  *out = (value_input){.format = format, .state = PyModule_GetState(module), .go = get_library(module), .data = data,
                       .elements = elements};
  if (out->go == NULL) return -1;
  if (PyUnicode_Check(data))
    return raise_error(PyExc_TypeError, "dlbridge: data must be bytes-like, not %R", Py_TYPE(data));
  return lend_frame(data, &out->frame);
}

PyObject *value_decode(const value_format *format, PyObject *module, PyObject *data, PyObject *elements,
                       uint64_t options) {
  value_input in;
  if (input_begin(format, module, data, elements, &in) < 0) return NULL;
  dlb_value value;
  dlb_error error;
  WITHOUT_GIL(format->decode(in.go, &value, &in.frame, options, &error));
  if (error.code != DLB_OK) {
    loan_end(in.frame.ctx);
    return raise_library(&error);
  }
  PyObject *object = value_object(&in, &value);
  Py_XDECREF(in.view);
  return object;
}

/* ---- encoding -------------------------------------------------------------------------------- */

void output_end(value_output *out) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (out->value.tensor != NULL) core_release_versioned(out->value.tensor);
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

int output_begin(module_state *state, value_output *out, PyObject *object, PyObject *elements, int with_values) {
  memset(out, 0, sizeof *out);
  int is_elements = PyObject_IsInstance(object, elements);
  if (is_elements < 0) return -1;
  if (!is_elements) {
    out->value.tensor = export_producer(state, object, NULL);
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

/* A small encoding is copied from the stack; a large one is written into the bytes object. */
PyObject *value_encode(const value_format *format, PyObject *module, PyObject *object, PyObject *elements,
                       uint64_t options) {
  const library *go = get_library(module);
  value_output out;
  if (go == NULL || output_begin(PyModule_GetState(module), &out, object, elements, 1) < 0) return NULL;
  char small[512];
  size_t size, written;
  dlb_error error;
  WITHOUT_GIL(format->encode(go, &size, small, sizeof small, &out.value, options, &error));
  PyObject *bytes = NULL;
  int large = error.code == DLB_ERROR_ROOM;
  if (error.code == DLB_OK || large) bytes = PyBytes_FromStringAndSize(large ? NULL : small, (Py_ssize_t)size);
  written = size;
  if (large && bytes != NULL) {
    char *data = PyBytes_AsString(bytes);
    WITHOUT_GIL(format->encode(go, &written, data, size, &out.value, options, &error));
  }
  if (error.code != DLB_OK && error.code != DLB_ERROR_ROOM) raise_value(&out, &error);
  else if (written != size)
    PyErr_SetString(PyExc_ValueError, "dlbridge: the elements changed while they were encoded");
  if (PyErr_Occurred()) Py_CLEAR(bytes);
  output_end(&out);
  return bytes;
}
