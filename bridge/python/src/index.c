/* Tensors as sequences: their length, iteration, and basic indexing as in NumPy. dlbcore_view_slice has the rules of slices. */
#include "extension.h"

#include <math.h>
#include <string.h>

#define NOT_AN_INDEX \
  "dlbridge: only integers, slices (`:`), ellipsis (`...`) and numpy.newaxis (`None`) are valid indices, not %R; " \
  "tensor.numpy() also accepts arrays and masks as indices"

enum { INDICES_MAX = 2 * CORE_RANK_MAX + 1 }; /* as many as dlbcore_view_slice takes */

/* A slice that Python refuses gets a step of 0. dlbcore_view_slice refuses that too, unless it finds another error first, as NumPy
 * would. raise_indices then asks Python for the exception of the slice again. */
static int parse_slice(PyObject *slice, dlbcore_index *out) {
  Py_ssize_t start, stop, step;
  *out = (dlbcore_index){.kind = CORE_INDEX_START | CORE_INDEX_STOP};
  if (PySlice_Unpack(slice, &start, &stop, &step) == 0) {
    out->start = start;
    out->stop = stop;
    out->step = step;
    return 0;
  }
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
  PyErr_Clear();
  return 0;
}

static int parse_number(PyObject *object, dlbcore_index *out) {
  Py_ssize_t i = PyNumber_AsSsize_t(object, PyExc_IndexError);
  *out = (dlbcore_index){.start = i, .step = 1, .kind = CORE_INDEX_AT};
  if (i != -1 || !PyErr_Occurred()) return 0;
  if (PyLong_Check(object) || !PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
  PyErr_Clear(); /* an array of several elements */
  return raise_error(PyExc_IndexError, NOT_AN_INDEX, Py_TYPE(object));
}

static int parse_index(PyObject *object, dlbcore_index *out) {
  if (PyLong_CheckExact(object)) return parse_number(object, out);
  if (PySlice_Check(object)) return parse_slice(object, out);
  if (PyIndex_Check(object) && !PyBool_Check(object)) return parse_number(object, out);
  if (object == Py_None) *out = (dlbcore_index){.step = 1, .kind = CORE_INDEX_NEW_AXIS};
  else if (object == Py_Ellipsis) *out = (dlbcore_index){.step = 1, .kind = CORE_INDEX_ELLIPSIS};
  else return raise_error(PyExc_IndexError, NOT_AN_INDEX, Py_TYPE(object));
  return 0;
}

/* Raises the exception that NumPy raises for indices that dlbcore_view_slice has refused. `object` is the index, or a tuple of
 * them. */
static void raise_indices(const Tensor *self, PyObject *object, const dlbcore_index *indices, int32_t count, dlbcore_status status,
                          const char *message) {
  int32_t rank = self->view.ndim, taken = 0, ellipses = 0, d = 0;
  for (int32_t k = 0; k < count; k++) {
    ellipses += indices[k].kind == CORE_INDEX_ELLIPSIS;
    taken += indices[k].kind != CORE_INDEX_ELLIPSIS && indices[k].kind != CORE_INDEX_NEW_AXIS;
  }
  if (status != CORE_ERR_ARGUMENT) {
    raise_status(status, "index", message);
  } else if (ellipses > 1) {
    PyErr_SetString(PyExc_IndexError, "dlbridge: an index can only have a single ellipsis ('...')");
  } else if (taken > rank) {
    PyErr_Format(PyExc_IndexError, "dlbridge: too many indices for tensor: tensor is %d-dimensional, but %d were indexed",
                 (int)rank, (int)taken);
  } else {
    for (int32_t k = 0; k < count; k++) {
      const dlbcore_index *x = &indices[k];
      if (x->kind == CORE_INDEX_ELLIPSIS) d += rank - taken;
      if (x->kind == CORE_INDEX_ELLIPSIS || x->kind == CORE_INDEX_NEW_AXIS) continue;
      int64_t n = self->view.shape[d];
      if (x->kind == CORE_INDEX_AT && (x->start < -n || x->start >= n)) {
        raise_bounds(x->start, d, n);
        return;
      }
      Py_ssize_t ignored;
      if (x->step == 0 &&
          PySlice_Unpack(PyTuple_Check(object) ? PyTuple_GetItem(object, k) : object, &ignored, &ignored, &ignored) < 0)
        return;
      d++;
    }
    raise_status(status, "index", message);
  }
}

void raise_bounds(int64_t index, int32_t axis, int64_t size) {
  PyErr_Format(PyExc_IndexError, "dlbridge: index %lld is out of bounds for axis %d with size %lld", (long long)index, (int)axis,
               (long long)size);
}

static PyObject *view_at(Tensor *self, PyObject *object, const dlbcore_index *indices, int32_t count) {
  char message[MESSAGE_SIZE] = "";
  dlbcore_viewing v;
  if (dlbcore_viewing_begin(&v, &self->view, count) != CORE_OK) return PyErr_NoMemory();
  dlbcore_status status = dlbcore_view_slice(&v.view, &v.base, count, indices, message, sizeof message);
  PyObject *view = NULL;
  if (status == CORE_OK) view = (PyObject *)tensor_view(self, &v.view, 0, "index");
  else raise_indices(self, object, indices, count, status, message);
  dlbcore_viewing_end(&v);
  return view;
}

/* Returns the view at the indices of a tuple, for which `indices` has room. */
static PyObject *view_at_tuple(Tensor *self, PyObject *tuple, dlbcore_index *indices, Py_ssize_t count) {
  for (Py_ssize_t k = 0; k < count; k++) {
    if (parse_index(PyTuple_GetItem(tuple, k), &indices[k]) < 0) return NULL;
  }
  return view_at(self, tuple, indices, (int32_t)count);
}

PyObject *tensor_subscript(PyObject *op, PyObject *object) {
  Tensor *self = (Tensor *)op;
  dlbcore_index usual[CORE_RANK_USUAL];
  if (self->share == NULL) return raise_closed(self);
  if (!PyTuple_Check(object)) return parse_index(object, usual) < 0 ? NULL : view_at(self, object, usual, 1);
  Py_ssize_t count = PyTuple_Size(object);
  if (count <= CORE_RANK_USUAL) return view_at_tuple(self, object, usual, count);
  if (count > INDICES_MAX)
    return PyErr_Format(PyExc_IndexError,
                        "dlbridge: too many indices for tensor: %zd were given, but a tensor has at most %d dimensions", count,
                        CORE_RANK_MAX);
  dlbcore_index *indices = PyMem_Malloc((size_t)count * sizeof *indices);
  if (indices == NULL) return PyErr_NoMemory();
  PyObject *view = view_at_tuple(self, object, indices, count);
  PyMem_Free(indices);
  return view;
}

static int raise_unfit(PyObject *error, PyObject *object, DLDataType dtype) {
  PyObject *name = dtype_name(dtype);
  if (name != NULL) PyErr_Format(error, "dlbridge: assign: %R cannot be stored as %U", object, name);
  Py_XDECREF(name);
  return -1;
}

static int is_integer(DLDataType dtype) { return dtype.code == kDLInt || dtype.code == kDLUInt; }

/* Reports whether an int is a number of an integer type. */
static int int_fits(PyObject *object, DLDataType dtype) {
  int is_signed = dtype.code == kDLInt, bits = dtype.bits - is_signed, overflow;
  int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) return overflow > 0 && bits == 64; /* a uint64 above the range of int64 */
  return (is_signed || value >= 0) && (bits == 64 || value >> bits == 0 || (is_signed && value >> bits == -1));
}

/* Reports whether a float without its fraction is a number of an integer type. The limits are powers of two, which a double holds
 * exactly; the largest integer itself may not be exact. */
static int float_fits(double value, DLDataType dtype) {
  int is_signed = dtype.code == kDLInt;
  double end = 2.0 * (double)(UINT64_C(1) << (dtype.bits - is_signed - 1)), first = is_signed ? -end : 0;
  return value < end && (value >= first || value > first - 1);
}

/* Returns the type of the exception for a bool, int, float or complex that cannot be an element, or NULL. */
static PyObject *unfit(PyObject *value, DLDataType dtype) {
  if (PyComplex_Check(value)) return dtype.code == kDLComplex || dtype.code == kDLBool ? NULL : PyExc_TypeError;
  if (!is_integer(dtype)) return NULL;
  if (!PyFloat_Check(value)) return int_fits(value, dtype) ? NULL : PyExc_OverflowError;
  double number = PyFloat_AsDouble(value);
  return isnan(number) ? PyExc_ValueError : float_fits(number, dtype) ? NULL : PyExc_OverflowError;
}

/* Checks that a value fits into an element of a data type. `object` is a number of Python or a scalar of NumPy, and `number` the tensor
 * that was made of it. Without this check the value would lose its high bits or its imaginary part, as in a conversion of a tensor. */
static int check_fits(PyObject *object, Tensor *number, DLDataType dtype) {
  int exact = PyLong_CheckExact(object) || PyFloat_CheckExact(object);
  int is_number = exact || PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ? 1 : is_numpy_scalar(object);
  if (is_number <= 0) return is_number;
  PyObject *value = exact ? Py_NewRef(object) : PyObject_CallMethod((PyObject *)number, "item", NULL);
  if (value == NULL) return -1;
  PyObject *error = unfit(value, dtype);
  Py_DECREF(value);
  return error == NULL ? 0 : raise_unfit(error, object, dtype);
}

/* Returns the tensor of an int of more than 64 bits, which DLPack lacks. For float and complex elements, the tensor has the
 * nearest float, and for bools True; integers cannot hold it. */
COLD static Tensor *tensor_of_large_int(module_state *state, PyObject *object, DLDataType dtype) {
  if (is_integer(dtype)) return raise_unfit(PyExc_OverflowError, object, dtype), NULL;
  PyObject *nearest = dtype.code == kDLBool ? Py_NewRef(Py_True) : PyNumber_Float(object);
  Tensor *number = nearest == NULL ? NULL : consume(state, nearest);
  Py_XDECREF(nearest);
  return number;
}

/* Returns the tensor of a value that is assigned to elements of a data type. */
static Tensor *assigned(module_state *state, PyObject *object, DLDataType dtype) {
  Tensor *from = consume(state, object);
  if (from != NULL && from->view.ndim != 0) return from;
  if (!PyLong_CheckExact(object) && !PyFloat_CheckExact(object) && is_producer(state, object)) return from;
  if (from == NULL && PyLong_Check(object) && PyErr_ExceptionMatches(PyExc_BufferError)) {
    PyErr_Clear();
    return tensor_of_large_int(state, object, dtype);
  }
  if (from != NULL && check_fits(object, from, dtype) < 0) Py_CLEAR(from);
  return from;
}

int tensor_write(Tensor *to, Tensor *from, const dlbcore_scaling *scaling, const char *place) {
  char message[MESSAGE_SIZE] = "";
  uint64_t flags = to->flags | (tensor_read_only(to) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
  dlbcore_share *target = tensor_hold(to), *source = target == NULL ? NULL : tensor_hold(from);
  dlbcore_status status = CORE_OK;
  if (source != NULL && to->extent.nbytes < 1 << 16) {
    status = dlbcore_assign(&to->view, flags, &from->view, from->flags, scaling, message, sizeof message);
  } else if (source != NULL) {
    WITHOUT_GIL(status = dlbcore_assign(&to->view, flags, &from->view, from->flags, scaling, message, sizeof message));
  }
  int held = source != NULL;
  if (source != NULL) share_end(source);
  if (target != NULL) share_end(target);
  if (!held) return -1;
  if (status == CORE_OK) return 0;
  raise_status(status, place, message[0] != 0 ? message : "the data types must be numeric and have the same number of lanes");
  return -1;
}

int tensor_assign(PyObject *op, PyObject *index, PyObject *value) {
  if (value == NULL) return raise_error(PyExc_TypeError, "'dlbridge.Tensor' object does not support item deletion");
  PyObject *to = tensor_subscript(op, index);
  if (to == NULL) return -1;
  Tensor *from = assigned(PyType_GetModuleState(Py_TYPE(op)), value, ((Tensor *)to)->view.dtype);
  int failed = from == NULL || tensor_write((Tensor *)to, from, NULL, "assign") < 0;
  Py_XDECREF((PyObject *)from);
  Py_DECREF(to);
  return failed ? -1 : 0;
}

static int raise_unsized(const char *text) { return raise_error(PyExc_TypeError, "dlbridge: %s", text); }

Py_ssize_t tensor_length(PyObject *op) {
  const Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self), -1;
  if (self->view.ndim == 0) return raise_unsized("len() of unsized tensor: it has 0 dimensions");
  return (Py_ssize_t)self->view.shape[0];
}

/* The slot sq_item. Python has already added the length to a negative index. */
PyObject *tensor_item_at(PyObject *op, Py_ssize_t index) {
  Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  if (self->view.ndim > 0 && index < 0) {
    raise_bounds(index, 0, self->view.shape[0]);
    return NULL;
  }
  const dlbcore_index at = {.start = index, .step = 1, .kind = CORE_INDEX_AT};
  return view_at(self, NULL, &at, 1);
}

PyObject *tensor_iterate(PyObject *op) {
  const Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  if (self->view.ndim > 0) return PySeqIter_New(op);
  raise_unsized("iteration over a tensor of 0 dimensions");
  return NULL;
}

/* Without this function Python would compare with ==, which compares Tensors by identity. */
int tensor_contains(PyObject *op, PyObject *Py_UNUSED(value)) {
  const Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self), -1;
  return raise_error(PyExc_TypeError,
                     "dlbridge: `in` does not compare elements; `value in tensor.numpy()` and `value in tensor.tolist()` do");
}
