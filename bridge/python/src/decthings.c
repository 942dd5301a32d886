/* Tensors of Decthings, decoded and encoded by the Go library, and the check of its rules. */
#include "elements.h"

static int32_t decode(const library *go, dlb_value *out, const dlb_frame *frame, uint64_t dialect, dlb_error *error) {
  return go->dlb_decthings_decode(out, frame, dialect, error);
}

static int32_t encode(const library *go, size_t *out, void *data, size_t room, const dlb_value *value,
                      uint64_t dialect, dlb_error *error) {
  return go->dlb_decthings_encode(out, data, room, value, dialect, error);
}

static const value_format decthings = {"decthings", TEXT_AND_VIEWS, decode, encode};

/* (data, dialect, Elements) -> Tensor or Elements */
PyObject *decthings_decode(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  int dialect;
  if (!PyArg_ParseTuple(args, "OiO", &data, &dialect, &elements)) return NULL;
  return value_decode(&decthings, module, data, elements, (uint64_t)dialect);
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
    if (b->values[b->taken].tensor != NULL) core_release_versioned(b->values[b->taken].tensor);
    b->in.go->dlb_elements_free(b->values[b->taken].elements);
  }
}

/* (data, offset, dialect, Elements) -> (list of Tensors and Elements, offset after them). The list is empty at the end of data. It
 * ends before a value that is malformed; the next call raises the error of that value. */
PyObject *decthings_decode_batch(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  Py_ssize_t offset;
  int dialect;
  batch b;
  if (!PyArg_ParseTuple(args, "OniO", &data, &offset, &dialect, &elements) ||
      input_begin(&decthings, module, data, elements, &b.in) < 0)
    return NULL;
  dlb_error error;
  size_t next;
  b.values = PyMem_Calloc(BATCH, sizeof *b.values);
  if (b.values == NULL) {
    loan_end(b.in.frame.ctx);
    return PyErr_NoMemory();
  }
  WITHOUT_GIL(
      b.in.go->dlb_decthings_decode_batch(b.values, BATCH, &next, &b.in.frame, (size_t)offset, (uint64_t)dialect, &error));
  if (error.code != DLB_OK) {
    loan_end(b.in.frame.ctx);
    PyMem_Free(b.values);
    return raise_library(&error);
  }
  Py_ssize_t count = 0;
  while (count < BATCH && b.values[count].size > 0) count++;
  b.taken = 0;
  PyObject *list = list_of((size_t)count, batch_object, &b);
  KEEPING_EXCEPTION(release_rest(&b, count));
  PyMem_Free(b.values);
  Py_XDECREF(b.in.view);
  return list == NULL ? NULL : Py_BuildValue("(Nn)", list, (Py_ssize_t)next);
}

/* (x, dialect, Elements) -> bytes */
PyObject *decthings_encode(PyObject *module, PyObject *args) {
  PyObject *object, *elements;
  int dialect;
  if (!PyArg_ParseTuple(args, "OiO", &object, &dialect, &elements)) return NULL;
  return value_encode(&decthings, module, object, elements, (uint64_t)dialect);
}

/* (rules as JSON, x, Elements) -> None */
PyObject *decthings_check(PyObject *module, PyObject *args) {
  PyObject *object, *elements;
  const char *text;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "y#OO", &text, &size, &object, &elements)) return NULL;
  const library *go = get_library(module);
  value_output out;
  if (go == NULL || output_begin(PyModule_GetState(module), &out, object, elements, 0) < 0) return NULL;
  dlb_bytes rules = {text, (size_t)size};
  dlb_error error;
  WITHOUT_GIL(go->dlb_decthings_check(rules, &out.value, &error));
  output_end(&out);
  if (error.code == DLB_OK) Py_RETURN_NONE;
  if (error.code == DLB_ERROR_DTYPE) error.code = DLB_ERROR_ARGUMENT; /* a broken rule is a ValueError */
  return raise_library(&error);
}
