#include "codec.h"

#include <stdlib.h>
#include <string.h>

/* Tensors of Decthings and TensorFlow. What DLPack has no type for is an object of the class Elements,
 * which is Python's and comes as an argument. Texts are str, media elements are tuples (format, content). */

/* What the bytes of elements become: str where the type is "string" and else a memoryview on the data, or
 * bytes. */
enum { TEXT_AND_VIEWS, BYTES };

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
  module_state *state;
  const library *go;
  PyObject *data;     /* the argument */
  PyObject *elements; /* the class */
  dlb_frame frame;    /* lent by data */
  PyObject *view;     /* a memoryview of it, once one is needed */
  int how;
  size_t limit; /* beyond 32 times the bytes of a value */
} input;

/* The bytes of an element that lie in the frame, as a part of the memoryview. */
static PyObject *view_of_bytes(input *in, dlb_bytes bytes) {
  if (in->view == NULL) in->view = view_again(in->state, in->data, &in->frame);
  if (in->view == NULL) return NULL;
  Py_ssize_t at = bytes.size == 0 ? 0 : bytes.data - (const char *)in->frame.data;
  return PySequence_GetSlice(in->view, at, at + (Py_ssize_t)bytes.size);
}

static int same_bytes(dlb_bytes a, dlb_bytes b) {
  return a.size == b.size && (a.data == b.data || a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Whether an element is the object of the one before. Those with the same bytes are, and of views those of the same
 * memory: other memory may come to have other bytes. */
static int repeats(const dlb_elements *e, size_t i, int views) {
  if (i == 0 || !same_bytes(e->values[i - 1], e->values[i])) return 0;
  if (views && e->values[i].size > 0 && e->values[i - 1].data != e->values[i].data) return 0;
  return e->formats == NULL || same_bytes(e->formats[i - 1], e->formats[i]);
}

enum { TEXTS, VIEWS, COPIES };

static int objects_of(const input *in, const dlb_elements *e) {
  if (in->how == BYTES) return COPIES;
  return e->type.size == 6 && memcmp(e->type.data, "string", 6) == 0 ? TEXTS : VIEWS;
}

/* What an element takes as a Python object, in no less than it does: a character may take four bytes. Those of one
 * byte or none there are already. */
static size_t object_size(dlb_bytes value, int objects) {
  if (objects == VIEWS) return value.size == 0 ? 0 : VIEW_SIZE;
  if (value.size < 2) return 0;
  return OBJECT_SIZE + (objects == TEXTS ? 4 : 1) * value.size;
}

/* The bytes that elements take as Python objects. The answer is 0 where there are so few elements that they are within
 * the limit, whatever they are: it covers the objects, and the text in them takes at most four times its bytes. */
static size_t size_of_elements(const input *in, const dlb_elements *e) {
  size_t each = sizeof(dlb_bytes) + PLACE_SIZE;
  int media = e->formats != NULL;
  if (media) each += sizeof(dlb_bytes);
  if (e->count <= (in->limit + CALL_SIZE) / 512) return 0;
  int objects = objects_of(in, e);
  size_t total = e->count * each;
  for (size_t i = 0; i < e->count; i++) {
    if (repeats(e, i, objects == VIEWS)) continue;
    total += object_size(e->values[i], objects);
    if (media) total += TUPLE_SIZE;
    if (media && (i == 0 || !same_bytes(e->formats[i - 1], e->formats[i]))) total += object_size(e->formats[i], TEXTS);
  }
  return total;
}

/* Checks that the objects of elements that have `size` bytes in the frame take no more memory than is allowed. */
static int check_elements(const input *in, const dlb_elements *e, size_t size) {
  return check_room("elements", e->count, size_of_elements(in, e), size, in->limit);
}

/* Elements that are equal to the one before are the same object. */
static PyObject *list_values(input *in, const dlb_elements *e) {
  int objects = objects_of(in, e);
  PyObject *list = list_begin(e->count);
  PyObject *format = NULL, *empty = NULL;
  PyObject *item = NULL; /* borrowed from the list */
  for (size_t i = 0; list != NULL && i < e->count; i++) {
    if (repeats(e, i, objects == VIEWS)) {
      list_set(&list, i, Py_NewRef(item));
      continue;
    }
    dlb_bytes value = e->values[i];
    const char *data = value.size == 0 ? "" : value.data;
    if (objects == COPIES) item = PyBytes_FromStringAndSize(data, (Py_ssize_t)value.size);
    else if (objects == TEXTS) item = PyUnicode_DecodeUTF8(data, (Py_ssize_t)value.size, NULL);
    else if (value.size > 0) item = view_of_bytes(in, value);
    else {
      if (empty == NULL) empty = view_of_bytes(in, value);
      item = Py_XNewRef(empty);
    }
    if (item != NULL && e->formats != NULL) {
      dlb_bytes name = e->formats[i];
      if (i == 0 || !same_bytes(e->formats[i - 1], name))
        REPLACE(format, PyUnicode_DecodeUTF8(name.size == 0 ? "" : name.data, (Py_ssize_t)name.size, NULL));
      PyObject *pair = format == NULL ? NULL : PyTuple_Pack(2, format, item);
      Py_DECREF(item);
      item = pair;
    }
    list_set(&list, i, item);
  }
  Py_XDECREF(format);
  Py_XDECREF(empty);
  return list_end(list);
}

/* Elements(type, shape, values) */
static PyObject *elements_object(input *in, const dlb_elements *e, size_t size) {
  if (check_elements(in, e, size) < 0) return NULL;
  PyObject *shape = tuple_of(e->shape, e->ndim);
  PyObject *values = shape == NULL ? NULL : list_values(in, e);
  PyObject *object = NULL;
  if (values != NULL)
    object = PyObject_CallFunction(in->elements, "s#OO", e->type.data, (Py_ssize_t)e->type.size, shape, values);
  Py_XDECREF(values);
  Py_XDECREF(shape);
  return object;
}

/* Takes the value over, whatever becomes of it. */
static PyObject *value_object(input *in, const dlb_value *value, const char *place) {
  if (value->tensor != NULL) return (PyObject *)take_over(in->state->tensor_type, value->tensor, place);
  PyObject *object = elements_object(in, value->elements, value->size);
  in->go->dlb_elements_free(value->elements);
  return object;
}

/* Lends the bytes of data and finds the library. */
static int begin(PyObject *module, PyObject *data, PyObject *elements, int how, Py_ssize_t limit, input *out) {
  *out = (input){.state = PyModule_GetState(module), .go = get_library(module), .data = data, .elements = elements,
                 .how = how, .limit = (size_t)limit};
  if (out->go == NULL) return -1;
  if (PyUnicode_Check(data)) {
    PyErr_Format(PyExc_TypeError, "dlbridge: data must be bytes-like, not %R", Py_TYPE(data));
    return -1;
  }
  return lend_frame(data, &out->frame);
}

static PyObject *decoded(input *in, int32_t code, const dlb_value *value, const dlb_error *error, const char *place) {
  if (code != DLB_OK) {
    loan_end(in->frame.ctx);
    return raise_library(error);
  }
  PyObject *object = value_object(in, value, place);
  Py_XDECREF(in->view);
  return object;
}

/* (data, dialect, Elements, limit) -> Tensor or Elements */
PyObject *decthings_decode(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  int dialect;
  Py_ssize_t limit;
  input in;
  if (!PyArg_ParseTuple(args, "OiOn", &data, &dialect, &elements, &limit) ||
      begin(module, data, elements, TEXT_AND_VIEWS, limit, &in) < 0)
    return NULL;
  dlb_value value = {0};
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = in.go->dlb_decthings_decode(&value, &in.frame, dialect, &error);
  Py_END_ALLOW_THREADS;
  return decoded(&in, code, &value, &error, "decthings");
}

/* (data, Elements, limit) -> Tensor or Elements */
PyObject *tensorflow_decode(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  Py_ssize_t limit;
  input in;
  if (!PyArg_ParseTuple(args, "OOn", &data, &elements, &limit) || begin(module, data, elements, BYTES, limit, &in) < 0)
    return NULL;
  uint64_t options = DLB_TENSORFLOW_LIMIT(limit > 0 ? limit : 1);
  dlb_value value = {0};
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = in.go->dlb_tensorflow_decode(&value, &in.frame, options, &error);
  Py_END_ALLOW_THREADS;
  return decoded(&in, code, &value, &error, "tensorflow");
}

enum { BATCH = 128 };

/* A value that is over its limit is an error when its turn comes: as the first of a call. */
static int is_allowed(const input *in, const dlb_value *value) {
  return value->elements == NULL || has_room(size_of_elements(in, value->elements), value->size, in->limit);
}

/* (data, offset, dialect, Elements, limit) -> (list of Tensors and Elements, offset behind them); the list is empty
 * where data ends */
PyObject *decthings_consume(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  Py_ssize_t offset, limit;
  int dialect;
  input in;
  if (!PyArg_ParseTuple(args, "OniOn", &data, &offset, &dialect, &elements, &limit) ||
      begin(module, data, elements, TEXT_AND_VIEWS, limit, &in) < 0)
    return NULL;
  dlb_value values[BATCH];
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = in.go->dlb_decthings_consume(values, BATCH, &in.frame, (size_t)offset, dialect, &error);
  Py_END_ALLOW_THREADS;
  if (code != DLB_OK) {
    loan_end(in.frame.ctx);
    return raise_library(&error);
  }
  Py_ssize_t all = 0, count = 0;
  while (all < BATCH && values[all].size > 0) all++;
  while (count < all && (count == 0 || is_allowed(&in, &values[count]))) offset += (Py_ssize_t)values[count++].size;
  PyObject *list = list_begin((size_t)count);
  PyObject *type = NULL, *exception = NULL, *traceback = NULL;
  for (Py_ssize_t i = 0; i < all; i++) {
    if (list != NULL && i < count) {
      list_set(&list, (size_t)i, value_object(&in, &values[i], "decthings"));
      continue;
    }
    if (list == NULL && type == NULL) PyErr_Fetch(&type, &exception, &traceback);
    if (values[i].tensor != NULL) core_release_versioned(values[i].tensor); /* what is left has to end, too */
    in.go->dlb_elements_free(values[i].elements);
  }
  if (type != NULL) PyErr_Restore(type, exception, traceback);
  Py_XDECREF(in.view);
  list = list_end(list);
  return list == NULL ? NULL : Py_BuildValue("(Nn)", list, offset);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A value that Go can read without the GIL, and what keeps it. */
typedef struct {
  dlb_value value;
  dlb_elements elements;
  PyObject *type, *shape, *list; /* of elements, held; the lists are private ones */
  int64_t *dims;
  dlb_bytes *values, *formats;
  Py_buffer *buffers;
  size_t buffer_count;
} output;

static void end_output(output *out) {
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

/* The bytes of a bytes-like object, which out holds. */
static int bytes_of(output *out, PyObject *object, size_t index, dlb_bytes *bytes) {
  if (PyBytes_Check(object)) {
    *bytes = (dlb_bytes){PyBytes_AsString(object), (size_t)PyBytes_Size(object)};
    return 0;
  }
  if (out->buffers == NULL) {
    out->buffers = calloc(out->elements.count, sizeof *out->buffers);
    if (out->buffers == NULL) {
      PyErr_NoMemory();
      return -1;
    }
  }
  if (PyObject_GetBuffer(object, &out->buffers[out->buffer_count], PyBUF_SIMPLE) < 0) {
    if (!PyObject_CheckBuffer(object)) {
      PyErr_Clear();
      PyErr_Format(PyExc_TypeError, "dlbridge: element %zu of type %S must be bytes-like, not %R", index, out->type,
                   Py_TYPE(object));
    }
    return -1;
  }
  Py_buffer *buffer = &out->buffers[out->buffer_count++];
  *bytes = (dlb_bytes){buffer->buf, (size_t)buffer->len};
  return 0;
}

/* One element: text, which the type string alone has, bytes, or a format and bytes. */
static int parse_element(output *out, PyObject *object, size_t index, int text) {
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2 && PyUnicode_Check(PyTuple_GetItem(object, 0))) {
    if (out->formats == NULL && index == 0) out->formats = calloc(out->elements.count, sizeof *out->formats);
    if (out->formats == NULL) {
      if (index == 0) PyErr_NoMemory();
      else
        PyErr_Format(PyExc_TypeError, "dlbridge: element %zu has a format, the ones before it have none", index);
      return -1;
    }
    if (text_of(PyTuple_GetItem(object, 0), &out->formats[index]) < 0) return -1;
    return bytes_of(out, PyTuple_GetItem(object, 1), index, &out->values[index]);
  }
  if (out->formats != NULL) {
    PyErr_Format(PyExc_TypeError, "dlbridge: element %zu must be (format, bytes) as the ones before it, not %R", index,
                 Py_TYPE(object));
    return -1;
  }
  if (text && PyUnicode_Check(object)) return text_of(object, &out->values[index]);
  return bytes_of(out, object, index, &out->values[index]);
}

static int parse_shape(output *out, PyObject *shape) {
  out->shape = PySequence_Check(shape) && !PyUnicode_Check(shape) ? private_list(shape) : NULL;
  if (out->shape == NULL) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "dlbridge: shape must be a sequence of ints, not %R", Py_TYPE(shape));
    return -1;
  }
  Py_ssize_t ndim = PyList_Size(out->shape);
  out->dims = calloc((size_t)ndim + 1, sizeof *out->dims);
  if (out->dims == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t d = 0; d < ndim; d++) {
    PyObject *size = PyNumber_Index(PyList_GetItem(out->shape, d));
    if (size == NULL) return -1;
    int overflow;
    out->dims[d] = PyLong_AsLongLongAndOverflow(size, &overflow);
    Py_DECREF(size);
    if (overflow != 0) {
      PyErr_Format(PyExc_ValueError, "dlbridge: shape[%zd] = %S", d, PyList_GetItem(out->shape, d));
      return -1;
    }
  }
  out->elements.ndim = (int32_t)(ndim <= INT32_MAX ? ndim : INT32_MAX);
  out->elements.shape = out->dims;
  return 0;
}

static int parse_values(output *out, PyObject *values) {
  out->list = PyUnicode_Check(values) || PyBytes_Check(values) ? NULL : private_list(values);
  if (out->list == NULL) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "dlbridge: values must be a sequence, not %R", Py_TYPE(values));
    return -1;
  }
  size_t count = (size_t)PyList_Size(out->list);
  out->elements.count = count;
  out->values = calloc(count + 1, sizeof *out->values);
  if (out->values == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  int text = out->elements.type.size == 6 && memcmp(out->elements.type.data, "string", 6) == 0;
  for (size_t i = 0; i < count; i++) {
    if (parse_element(out, PyList_GetItem(out->list, (Py_ssize_t)i), i, text) < 0) return -1;
  }
  out->elements.values = out->values;
  out->elements.formats = out->formats;
  return 0;
}

/* An attribute of elements. */
static PyObject *attribute(PyObject *object, const char *name) { return PyObject_GetAttrString(object, name); }

static int parse_elements(output *out, PyObject *object, int with_values) {
  out->type = attribute(object, "type");
  if (out->type == NULL) return -1;
  if (!PyUnicode_Check(out->type)) {
    PyErr_Format(PyExc_TypeError, "dlbridge: type must be a str, not %R", Py_TYPE(out->type));
    return -1;
  }
  if (text_of(out->type, &out->elements.type) < 0) return -1;
  PyObject *part = attribute(object, "shape");
  int failed = part == NULL || parse_shape(out, part) < 0;
  Py_XDECREF(part);
  if (failed || !with_values) return failed ? -1 : 0;
  part = attribute(object, "values");
  failed = part == NULL || parse_values(out, part) < 0;
  Py_XDECREF(part);
  return failed ? -1 : 0;
}

/* A producer, or elements. */
static int parse_value(module_state *state, output *out, PyObject *object, PyObject *elements, int with_values) {
  memset(out, 0, sizeof *out);
  int is_elements = PyObject_IsInstance(object, elements);
  if (is_elements < 0) return -1;
  if (is_elements) {
    out->value.elements = &out->elements;
    if (parse_elements(out, object, with_values) == 0) return 0;
    end_output(out);
    return -1;
  }
  Tensor *tensor = consume(state, object);
  if (tensor == NULL) return -1;
  out->value.tensor = tensor_export(tensor);
  Py_DECREF(tensor);
  return out->value.tensor == NULL ? -1 : 0;
}

/* What Elements cannot say is a wrong value; what DLPack can and a format cannot is a buffer's error. */
static PyObject *raise_value(const output *out, const dlb_error *error) {
  dlb_error said = *error;
  if (out->value.elements != NULL && said.code == DLB_ERROR_DTYPE) said.code = DLB_ERROR_ARGUMENT;
  return raise_library(&said);
}

typedef struct {
  const library *go;
  int tensorflow;
  int32_t dialect;
  uint64_t options;
} format;

/* No GIL is needed. */
static int32_t write_value(const format *f, size_t *size, void *data, size_t room, const dlb_value *value,
                           dlb_error *error) {
  if (f->tensorflow) return f->go->dlb_tensorflow_encode(size, data, room, value, f->options, error);
  return f->go->dlb_decthings_encode(size, data, room, value, f->dialect, error);
}

/* The bytes of a value: small ones by way of the stack, large ones written where they stay. */
static PyObject *encode(PyObject *module, PyObject *object, PyObject *elements, format *f) {
  f->go = get_library(module);
  output out;
  if (f->go == NULL || parse_value(PyModule_GetState(module), &out, object, elements, 1) < 0) return NULL;
  char small[512];
  size_t size = 0, written = 0;
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = write_value(f, &size, small, sizeof small, &out.value, &error);
  Py_END_ALLOW_THREADS;
  PyObject *bytes = NULL;
  if (code == DLB_OK) {
    bytes = PyBytes_FromStringAndSize(small, (Py_ssize_t)size);
  } else if (code != DLB_ERROR_ROOM) {
    raise_value(&out, &error);
  } else {
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes != NULL) {
      char *data = PyBytes_AsString(bytes);
      Py_BEGIN_ALLOW_THREADS;
      code = write_value(f, &written, data, size, &out.value, &error);
      Py_END_ALLOW_THREADS;
      if (code != DLB_OK && code != DLB_ERROR_ROOM) raise_value(&out, &error);
      else if (written != size)
        PyErr_SetString(PyExc_ValueError, "dlbridge: the elements changed while they were written");
      if (code != DLB_OK || written != size) Py_CLEAR(bytes);
    }
  }
  end_output(&out);
  return bytes;
}

/* (x, dialect, Elements) -> bytes */
PyObject *decthings_encode(PyObject *module, PyObject *args) {
  PyObject *object, *elements;
  int dialect;
  if (!PyArg_ParseTuple(args, "OiO", &object, &dialect, &elements)) return NULL;
  format f = {.dialect = dialect};
  return encode(module, object, elements, &f);
}

/* (x, fields, pad, Elements) -> bytes */
PyObject *tensorflow_encode(PyObject *module, PyObject *args) {
  PyObject *object, *elements;
  int fields, pad;
  if (!PyArg_ParseTuple(args, "OppO", &object, &fields, &pad, &elements)) return NULL;
  format f = {.tensorflow = 1, .options = (fields ? DLB_TENSORFLOW_FIELDS : 0) | (pad ? DLB_TENSORFLOW_PAD : 0)};
  return encode(module, object, elements, &f);
}

/* (rules as JSON, x, Elements) -> None */
PyObject *decthings_check(PyObject *module, PyObject *args) {
  PyObject *object, *elements;
  const char *text;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "y#OO", &text, &size, &object, &elements)) return NULL;
  const library *go = get_library(module);
  output out;
  if (go == NULL || parse_value(PyModule_GetState(module), &out, object, elements, 0) < 0) return NULL;
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = go->dlb_decthings_check((dlb_bytes){text, (size_t)size}, &out.value, &error);
  Py_END_ALLOW_THREADS;
  end_output(&out);
  if (code == DLB_OK) Py_RETURN_NONE;
  if (code == DLB_ERROR_DTYPE) error.code = DLB_ERROR_ARGUMENT; /* a rule is broken, no format */
  return raise_library(&error);
}
