/* Tensors of Decthings, decoded and encoded by the Go library, and the check of its rules. */
#include "elements.h"

static int32_t decode(const library *go, dlb_value *out, const dlb_frame *frame, uint64_t dialect, dlb_error *error) {
  return go->dlb_decthings_decode(out, frame, (int32_t)dialect, error);
}

static int32_t encode(const library *go, size_t *out, void *data, size_t room, const dlb_value *value,
                      uint64_t dialect, dlb_error *error) {
  return go->dlb_decthings_encode(out, data, room, value, (int32_t)dialect, error);
}

static const value_format decthings = {"decthings", TEXT_AND_VIEWS, decode, encode};

/* (data, dialect, Elements, limit) -> Tensor or Elements */
PyObject *decthings_decode(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  int dialect;
  Py_ssize_t limit;
  if (!PyArg_ParseTuple(args, "OiOn", &data, &dialect, &elements, &limit)) return NULL;
  return value_decode(&decthings, module, data, elements, (uint64_t)dialect, limit);
}

enum { BATCH = 128 };

/* (data, offset, dialect, Elements, limit) -> (list of Tensors and Elements, offset after them). The list is empty at
 * the end of data. It ends before a value that exceeds the limit, which is the error of the next call. */
PyObject *decthings_decode_batch(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  Py_ssize_t offset, limit;
  int dialect;
  value_input in;
  if (!PyArg_ParseTuple(args, "OniOn", &data, &offset, &dialect, &elements, &limit) ||
      input_begin(&decthings, module, data, elements, limit, &in) < 0)
    return NULL;
  dlb_value values[BATCH];
  dlb_error error = {0};
  int32_t code;
  WITHOUT_GIL(code = in.go->dlb_decthings_decode_batch(values, BATCH, &in.frame, (size_t)offset, dialect, &error));
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
      list_set(&list, (size_t)i, value_object(&in, &values[i]));
      continue;
    }
    if (list == NULL && type == NULL) PyErr_Fetch(&type, &exception, &traceback);
    /* A value that is not returned must be released too. */
    if (values[i].tensor != NULL) core_release_versioned(values[i].tensor);
    in.go->dlb_elements_free(values[i].elements);
  }
  if (type != NULL) PyErr_Restore(type, exception, traceback);
  Py_XDECREF(in.view);
  list = list_end(list);
  return list == NULL ? NULL : Py_BuildValue("(Nn)", list, offset);
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
  dlb_error error = {0};
  int32_t code;
  Py_BEGIN_ALLOW_THREADS;
  code = go->dlb_decthings_check((dlb_bytes){text, (size_t)size}, &out.value, &error);
  Py_END_ALLOW_THREADS;
  output_end(&out);
  if (code == DLB_OK) Py_RETURN_NONE;
  if (code == DLB_ERROR_DTYPE) error.code = DLB_ERROR_ARGUMENT; /* a broken rule is a ValueError */
  return raise_library(&error);
}
