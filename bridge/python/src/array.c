/* Arrays of NumPy and JAX on the memory of a Tensor. NumPy is imported when the first one is made. */
#include "extension.h"

#include <dlbridge.h>
#include <stdio.h>

static PyObject *attribute_of(const char *module, const char *name) {
  PyObject *imported = PyImport_ImportModule(module);
  PyObject *attribute = imported == NULL ? NULL : PyObject_GetAttrString(imported, name);
  Py_XDECREF(imported);
  return attribute;
}

/* ---- versions of NumPy ----------------------------------------------------------------------- */

/* Versions as numpy_version returns them. pyproject.toml and README.md name the oldest one too. */
enum {
  NUMPY_OLDEST = 12600,
  NUMPY_COPY_NONE = 20000,        /* before, numpy.array takes other values for copy=None and copy=False */
  NUMPY_EXPORTS_FLAGS = 20100,    /* before, __dlpack__ cannot say whether the memory may be written */
  NUMPY_IMPORTS_WRITABLE = 20205, /* before, from_dlpack makes read-only arrays of all memory */
};

/* Returns the version of NumPy, such as 20205 for 2.2.5; -1 with an exception if it is too old. */
static int numpy_version(module_state *state) {
  if (state->numpy_version > 0) return state->numpy_version;
  PyObject *version = attribute_of("numpy", "__version__");
  const char *text = version == NULL ? NULL : PyUnicode_AsUTF8AndSize(version, NULL);
  int major = 0, minor = 0, patch = 0, number = -1;
  if (text != NULL) {
    sscanf(text, "%4d.%2d.%2d", &major, &minor, &patch);
    number = 10000 * major + 100 * minor + patch;
  }
  if (text != NULL && number < NUMPY_OLDEST) {
    PyErr_Format(PyExc_ImportError, "dlbridge: NumPy %U is too old; install 1.26 or later: pip install 'numpy>=1.26'", version);
    number = -1;
  }
  Py_XDECREF(version);
  if (number > 0) state->numpy_version = number;
  return number;
}

int lends_by_buffer(module_state *state, PyTypeObject *type) {
  PyObject *array = imported_numpy("ndarray");
  int is_array = array != NULL && PyObject_IsSubclass((PyObject *)type, array) > 0;
  Py_XDECREF(array);
  PyErr_Clear();
  int version = is_array ? numpy_version(state) : 0;
  return version <= 0 ? version : version < NUMPY_EXPORTS_FLAGS;
}

/* Returns an array on the memory of a Tensor, which is writable if the memory is. */
static PyObject *array_of(PyObject *op) {
  module_state *state = PyType_GetModuleState(Py_TYPE(op));
  if (state == NULL) return NULL;
  if (state->numpy_array_of == NULL) {
    int version = numpy_version(state);
    if (version < 0) return NULL;
    REPLACE(state->numpy_array_of, attribute_of("numpy", version < NUMPY_IMPORTS_WRITABLE ? "asarray" : "from_dlpack"));
  }
  if (state->numpy_array_of == NULL) return NULL;
  array_method function = array_method_of(state->numpy_array_of);
  if (function != NULL) return function(PyCFunction_GetSelf(state->numpy_array_of), &op, 1, NULL);
  return PyObject_CallFunctionObjArgs(state->numpy_array_of, op, NULL);
}

/* ---- data types of ml_dtypes ----------------------------------------------------------------- */

/* Returns the type of ml_dtypes for a data type that NumPy lacks. NULL with BufferError if there is none, or no ml_dtypes. */
static PyObject *ml_type(DLDataType dtype) {
  PyObject *name = dtype_name(dtype);
  if (name == NULL) return NULL;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  int can_be = text != NULL && dtype.lanes == 1 && dtype.code != kDLOpaqueHandle && dtype.code != kDLComplex;
  PyObject *type = can_be ? attribute_of("ml_dtypes", text) : NULL;
  if (type == NULL && can_be && PyErr_ExceptionMatches(PyExc_ImportError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_BufferError,
                 "dlbridge: NumPy has %U only with the package ml_dtypes, which is not installed; "
                 "astype('float32') makes a tensor of a type that NumPy has",
                 name);
  } else if (type == NULL && (!can_be || PyErr_ExceptionMatches(PyExc_AttributeError))) {
    PyErr_Clear();
    PyErr_Format(PyExc_BufferError,
                 "dlbridge: neither NumPy nor ml_dtypes has %U; pass the tensor to a consumer of DLPack, or use view('uint8') for its bytes", name);
  }
  Py_DECREF(name);
  return type;
}

/* Returns a Tensor of unsigned integers, as large as the elements, on the same memory. The elements must not be packed. */
static Tensor *bits_of(Tensor *self) {
  return tensor_retyped(self, (DLDataType){kDLUInt, (uint8_t)(8 * dtype_itemsize(self->view.dtype)), 1}, NULL, 0, "numpy");
}

/* Sets *out to the data type of a NumPy array whose type another package, such as ml_dtypes, has registered. Returns 0 for any
 * other array, possibly with an exception. */
static int registered_dtype(PyObject *array, DLDataType *out) {
  PyObject *dtype = PyObject_GetAttrString(array, "dtype");
  PyObject *builtin = dtype == NULL ? NULL : PyObject_GetAttrString(dtype, "isbuiltin"); /* 2: registered */
  PyObject *name = dtype == NULL ? NULL : PyObject_GetAttrString(dtype, "name");
  const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  int found = builtin != NULL && PyLong_Check(builtin) && PyLong_AsLong(builtin) == 2 && text != NULL &&
              dlb_dtype_parse(out, text, NULL) == DLB_OK;
  Py_XDECREF(name);
  Py_XDECREF(builtin);
  Py_XDECREF(dtype);
  return found;
}

COLD PyObject *bits_of_ml_dtypes(PyObject *object, DLDataType *out) {
  PyObject *ndarray = imported_numpy("ndarray"), *bits = NULL;
  if (ndarray != NULL && PyObject_IsInstance(object, ndarray) > 0 && registered_dtype(object, out) && dtype_itemsize(*out) <= 2)
    bits = PyObject_CallMethod(object, "view", "s", dtype_itemsize(*out) == 1 ? "u1" : "u2");
  Py_XDECREF(ndarray);
  return bits;
}

/* ml_dtypes has one element in each byte. Packed elements are copied, by way of float32, which has all their values. */
static PyObject *unpacked(Tensor *self, PyObject *type) {
  PyObject *wide = PyObject_CallMethod((PyObject *)self, "convert", "s", "float32");
  PyObject *floats = wide == NULL ? NULL : array_of(wide);
  PyObject *array = floats == NULL ? NULL : PyObject_CallMethod(floats, "astype", "O", type);
  Py_XDECREF(floats);
  Py_XDECREF(wide);
  return array;
}

/* Returns a NumPy array of a type of ml_dtypes: on the same memory, or, if the elements are packed, a copy; ValueError without
 * `may_copy`. */
static PyObject *ml_array(Tensor *self, int may_copy) {
  PyObject *type = ml_type(self->view.dtype), *array = NULL;
  if (type == NULL) return NULL;
  int packed = self->view.dtype.bits % 8 != 0 && !(self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  if (!packed) {
    Tensor *bits = bits_of(self);
    PyObject *integers = bits == NULL ? NULL : array_of((PyObject *)bits);
    array = integers == NULL ? NULL : PyObject_CallMethod(integers, "view", "O", type);
    Py_XDECREF(integers);
    Py_XDECREF((PyObject *)bits);
  } else if (may_copy) {
    array = unpacked(self, type);
  } else {
    PyErr_SetString(PyExc_ValueError,
                    "dlbridge: Unable to avoid copy: several elements share a byte, but NumPy needs a byte for each; "
                    "numpy.asarray(tensor) copies them");
  }
  Py_DECREF(type);
  return array;
}

/* ---- methods --------------------------------------------------------------------------------- */

PyObject *tensor_numpy(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Tensor *self = (Tensor *)op;
  if (check_readable(self, "numpy") < 0) return NULL;
  return dtype_letter(self->view.dtype) != NULL ? array_of(op) : ml_array(self, 0);
}

/* Returns what numpy.array takes as `copy` for an argument of __array__, a new reference; NULL with an exception. */
static PyObject *copy_mode(module_state *state, PyObject *copy) {
  int version = state == NULL ? -1 : numpy_version(state);
  if (version < 0) return NULL;
  if (version >= NUMPY_COPY_NONE || (copy != Py_None && copy != Py_False)) return Py_NewRef(copy);
  if (copy == Py_None) return Py_NewRef(Py_False);
  PyObject *modes = attribute_of("numpy", "_CopyMode"), *never = modes == NULL ? NULL : PyObject_GetAttrString(modes, "NEVER");
  Py_XDECREF(modes);
  return never;
}

/* NumPy asks for the buffer first, and ignores the error if there is none. Without __array__ it would then make an
 * array of one object, the Tensor. This method asks for the buffer again, and raises its error. */
PyObject *tensor_array(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"dtype", "copy"};
  Tensor *self = (Tensor *)op;
  PyObject *values[2], *array = NULL, *dtype = Py_None, *copy = Py_None;
  if (parse_arguments("__array__", args, nargs, kwnames, 2, names, 2, values) < 0 || check_readable(self, "numpy") < 0)
    return NULL;
  if (values[0] != NULL) dtype = values[0];
  if (values[1] != NULL) copy = values[1];
  PyObject *same = dtype_letter(self->view.dtype) != NULL ? PyMemoryView_FromObject(op) : ml_array(self, copy != Py_False);
  PyObject *mode = same == NULL ? NULL : copy_mode(PyType_GetModuleState(Py_TYPE(op)), copy);
  PyObject *make = mode == NULL ? NULL : attribute_of("numpy", "array");
  PyObject *positional = make == NULL ? NULL : PyTuple_Pack(1, same);
  PyObject *keywords = positional == NULL ? NULL : Py_BuildValue("{sOsO}", "dtype", dtype, "copy", mode);
  if (keywords != NULL) array = PyObject_Call(make, positional, keywords);
  Py_XDECREF(keywords);
  Py_XDECREF(positional);
  Py_XDECREF(make);
  Py_XDECREF(mode);
  Py_XDECREF(same);
  return array;
}

/* JAX calls this method, and is therefore imported already. It has no arrays with gaps or negative strides. */
PyObject *tensor_jax_array(PyObject *op, PyObject *ignored) {
  Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  PyObject *dense = self->extent.row_major || column_major(self) ? Py_NewRef(op) : tensor_contiguous(op, ignored);
  PyObject *function = dense == NULL ? NULL : attribute_of("jax.dlpack", "from_dlpack");
  PyObject *array = function == NULL ? NULL : PyObject_CallFunctionObjArgs(function, dense, NULL);
  Py_XDECREF(function);
  Py_XDECREF(dense);
  return array;
}
