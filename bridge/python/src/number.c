/* Python's numbers as Tensors of 0 dimensions, and NumPy's as arrays, wherever a producer is taken. */
#include "extension.h"

#include <string.h>

static Tensor *tensor_of(module_state *state, DLDataType dtype, const void *number) {
  dlbcore_extent extent;
  int64_t none[1] = {0};
  DLTensor view = {.device = {kDLCPU, 0}, .dtype = dtype, .shape = none, .strides = none};
  size_t size = (size_t)dtype_itemsize(dtype);
  dlbcore_share *share = dlbcore_share_alloc(size, 0);
  if (share == NULL) return (Tensor *)PyErr_NoMemory();
  memcpy(share->data, number, size);
  view.data = share->data;
  if (check_tensor(&view, 0, &extent, "from_dlpack") == 0)
    return tensor_on_share(state->tensor_type, share, &view, 0, 0, &extent);
  share_end(share);
  return NULL;
}

/* An int is an int64 or, above its range, a uint64, as in NumPy. */
static Tensor *tensor_of_int(module_state *state, PyObject *object) {
  int overflow;
  int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (number == -1 && PyErr_Occurred()) return NULL;
  if (overflow == 0) return tensor_of(state, (DLDataType){kDLInt, 64, 1}, &number);
  uint64_t natural = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : UINT64_MAX;
  if (overflow > 0 && !PyErr_Occurred()) return tensor_of(state, (DLDataType){kDLUInt, 64, 1}, &natural);
  PyErr_Clear();
  return (Tensor *)PyErr_Format(PyExc_BufferError, "dlbridge: from_dlpack: DLPack has no integers of more than 64 bits");
}

int is_numpy_scalar(PyObject *object) {
  PyObject *type = imported_numpy("generic");
  int result = type != NULL ? PyObject_IsInstance(object, type) : PyErr_Occurred() ? -1 : 0;
  Py_XDECREF(type);
  return result;
}

PyObject *array_of_scalar(PyObject *object) {
  if (is_numpy_scalar(object) <= 0) return NULL;
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *array = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "asarray", "O", object);
  Py_XDECREF(numpy);
  return array;
}

Tensor *tensor_of_number(module_state *state, PyObject *object) {
  if (PyBool_Check(object)) {
    uint8_t yes = object == Py_True;
    return tensor_of(state, (DLDataType){kDLBool, 8, 1}, &yes);
  }
  if (PyLong_Check(object)) return tensor_of_int(state, object);
  if (PyFloat_Check(object)) {
    double number = PyFloat_AsDouble(object);
    return tensor_of(state, (DLDataType){kDLFloat, 64, 1}, &number);
  }
  if (PyComplex_Check(object)) {
    double numbers[2] = {PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)};
    return tensor_of(state, (DLDataType){kDLComplex, 128, 1}, numbers);
  }
  return NULL;
}
