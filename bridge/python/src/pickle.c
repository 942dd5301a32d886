/* pickle.c: the part of dlbridge._pickle in C, which turns Tensors into bytes and bytes into Tensors. */
#include "extension.h"

/* __reduce_ex__, which pickle calls for all protocols. */
PyObject *tensor_reduce(PyObject *op, PyObject *protocol) {
  PyObject *module = PyImport_ImportModule("dlbridge._pickle");
  PyObject *reduced = module == NULL ? NULL : PyObject_CallMethod(module, "reduce", "OO", op, protocol);
  Py_XDECREF(module);
  return reduced;
}

PyObject *tensor_deepcopy(PyObject *op, PyObject *Py_UNUSED(memo)) { return tensor_copy_method(op, NULL); }

static int check_type(DLDataType dtype) {
  if (dtype.code != kDLOpaqueHandle) return 0;
  return raise_error(PyExc_TypeError, "dlbridge: pickle: the elements are handles, which mean nothing to another process");
}

/* Returns a Tensor of uint8 on the memory of a row-major Tensor. */
static Tensor *bytes_of(module_state *state, Tensor *self) {
  dlbcore_extent extent;
  DLTensor view = {.data = self->view.data, .device = {kDLCPU, 0}, .dtype = {kDLUInt, 8, 1}, .ndim = 1};
  view.shape = &self->extent.nbytes;
  if (check_tensor(&view, 0, &extent, "pickle") < 0) return NULL;
  dlbcore_share *share = tensor_hold(self);
  if (share == NULL) return NULL;
  return tensor_on_share(state->tensor_type, share, &view, self->flags, self->writability_unknown, &extent);
}

/* A Tensor -> (its bytes as a Tensor of uint8 on the same memory, or None if the elements are not row-major; whether elements
 * smaller than a byte are padded) */
PyObject *pickle_bytes(PyObject *module, PyObject *op) {
  if (!tensor_check(op)) return PyErr_Format(PyExc_TypeError, "dlbridge: pickle: the argument is not a Tensor");
  Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  if (check_type(self->view.dtype) < 0 || check_readable(self, "pickle") < 0) return NULL;
  PyObject *bytes = self->extent.row_major ? (PyObject *)bytes_of(PyModule_GetState(module), self) : Py_NewRef(Py_None);
  PyObject *padded = PyBool_FromLong((self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0);
  return Py_BuildValue("NN", bytes, padded);
}

/* (object with a buffer, dtype, shape, padded) -> a row-major Tensor on the bytes of the object */
PyObject *pickle_tensor(PyObject *module, PyObject *args) {
  PyObject *object, *dtype, *shape;
  int padded;
  if (!PyArg_ParseTuple(args, "OOOp", &object, &dtype, &shape, &padded)) return NULL;
  Tensor *self = tensor_on_buffer(PyModule_GetState(module), object, dtype, shape, 0,
                                  padded ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
  if (self != NULL && check_type(self->view.dtype) < 0) Py_CLEAR(self);
  return (PyObject *)self;
}

/* (why) -> a Tensor that raises a ConnectionError with this text at each use */
PyObject *pickle_missing(PyObject *module, PyObject *why) {
  module_state *state = PyModule_GetState(module);
  const DLTensor view = {.device = {kDLCPU, 0}, .dtype = {kDLUInt, 8, 1}};
  const dlbcore_extent extent = {.row_major = 1};
  if (!PyUnicode_Check(why)) return PyErr_Format(PyExc_TypeError, "dlbridge: pickle: a str is required, not %R", (PyObject *)Py_TYPE(why));
  Tensor *self = tensor_new(state->tensor_type, &view, 0, 0, &extent);
  if (self != NULL) self->missing = Py_NewRef(why);
  return (PyObject *)self;
}
