/* Views of a Tensor in other shapes and orders, as NumPy names them. layout.c of the core has the rules. */
#include "extension.h"

Tensor *tensor_view(Tensor *self, dlbcore_layout *layout, uint64_t flags, const char *place) {
  char message[MESSAGE_SIZE] = "";
  dlbcore_extent extent;
  DLTensor view = self->view;
  flags |= self->flags;
  dlbcore_status status = dlbcore_view_describe(&view, layout, flags, message, sizeof message);
  if (status == CORE_OK) status = dlbcore_check_tensor(&view, flags, &extent, message, sizeof message);
  if (status != CORE_OK) return (Tensor *)raise_status(status, place, message);
  dlbcore_share *share = tensor_hold(self);
  if (share == NULL) return NULL;
  return tensor_like(self, share, &view, flags, &extent);
}

/* Returns the view with a layout that has been computed, or raises the exception for a status other than CORE_OK. */
static PyObject *end(Tensor *self, dlbcore_viewing *v, uint64_t flags, dlbcore_status status, const char *place,
                     const char *message) {
  PyObject *view = NULL;
  if (status == CORE_OK) view = (PyObject *)tensor_view(self, &v->view, flags, place);
  else raise_status(status, place, message);
  dlbcore_viewing_end(v);
  return view;
}

/* Parses the numbers of dimensions, the argument `name`: an int or a sequence of ints. */
static int parse_axes(PyObject *object, int32_t *axes, int32_t *count, const char *place, const char *name) {
  Py_ssize_t size = 1;
  int sequence = PySequence_Check(object) && !PyUnicode_Check(object);
  if (!sequence && !PyIndex_Check(object))
    return raise_error(PyExc_TypeError, "dlbridge: %s: %s must be an int or a sequence of ints, not %R", place, name,
                       Py_TYPE(object));
  if (sequence) size = PySequence_Size(object);
  if (size < 0) return -1;
  if (size > CORE_RANK_MAX)
    return raise_error(PyExc_ValueError, "dlbridge: %s: %s has %zd axes, more than %d", place, name, size, CORE_RANK_MAX);
  for (Py_ssize_t k = 0; k < size; k++) {
    PyObject *item = sequence ? PySequence_GetItem(object, k) : Py_NewRef(object);
    Py_ssize_t axis = item == NULL ? -1 : PyNumber_AsSsize_t(item, NULL);
    Py_XDECREF(item);
    if (axis == -1 && PyErr_Occurred()) return -1;
    axes[k] = axis > INT32_MAX ? INT32_MAX : axis < INT32_MIN ? INT32_MIN : (int32_t)axis; /* which no tensor has */
  }
  *count = (int32_t)size;
  return 0;
}

__attribute__((noinline)) static PyObject *transposed(Tensor *self, int32_t count, const int32_t *axes) {
  char message[MESSAGE_SIZE] = "";
  dlbcore_viewing v;
  if (dlbcore_viewing_begin(&v, &self->view, count) != CORE_OK) return PyErr_NoMemory();
  dlbcore_status status = dlbcore_view_transpose(&v.view, &v.base, count, axes, message, sizeof message);
  return end(self, &v, 0, status, "transpose", message);
}

PyObject *tensor_transpose(PyObject *op, PyObject *args) {
  Tensor *self = (Tensor *)op;
  int32_t axes[CORE_RANK_MAX], count = 0;
  if (self->share == NULL) return raise_closed(self);
  PyObject *only = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;
  if (PyTuple_Size(args) == 0 || only == Py_None) return transposed(self, 0, NULL);
  PyObject *list = only != NULL && PySequence_Check(only) && !PyUnicode_Check(only) ? only : args;
  if (parse_axes(list, axes, &count, "transpose", "axes") < 0) return NULL;
  if (count == 0 && self->view.ndim > 0)
    return PyErr_Format(PyExc_ValueError, "dlbridge: transpose: axes is empty, but the tensor has %d dimension%s",
                        (int)self->view.ndim, ENDING(self->view.ndim));
  return transposed(self, count, axes);
}

PyObject *tensor_reversed_axes(PyObject *op, void *Py_UNUSED(closure)) {
  Tensor *self = (Tensor *)op;
  return self->share == NULL ? raise_closed(self) : transposed(self, 0, NULL);
}

/* Parses the argument `name`, the numbers of different dimensions that the tensor has, and counts them from the start. */
static int parse_own_axes(const Tensor *self, PyObject *object, int32_t *axes, int32_t *count, const char *place, const char *name) {
  uint8_t named[CORE_RANK_MAX] = {0};
  int32_t rank = self->view.ndim;
  if (object == NULL) return raise_error(PyExc_TypeError, "dlbridge: %s: %s is missing", place, name);
  if (parse_axes(object, axes, count, place, name) < 0) return -1;
  for (int32_t k = 0; k < *count; k++) {
    int32_t d = axes[k] < 0 ? axes[k] + rank : axes[k];
    if (d < 0 || d >= rank)
      return raise_error(PyExc_ValueError, "dlbridge: %s: %s %d is out of bounds for a tensor of %d dimension%s", place, name,
                         (int)axes[k], (int)rank, ENDING(rank));
    if (named[d]) return raise_error(PyExc_ValueError, "dlbridge: %s: %s has dimension %d twice", place, name, (int)d);
    named[d] = 1;
    axes[k] = d;
  }
  return 0;
}

PyObject *tensor_swapaxes(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"axis1", "axis2"};
  Tensor *self = (Tensor *)op;
  PyObject *values[2];
  int32_t swapped[2], order[CORE_RANK_MAX];
  if (parse_arguments("swapaxes", args, nargs, kwnames, 2, names, 2, values) < 0) return NULL;
  if (self->share == NULL) return raise_closed(self);
  for (int k = 0; k < 2; k++) {
    int32_t axis[CORE_RANK_MAX], count;
    if (values[k] != NULL && !PyIndex_Check(values[k]))
      return PyErr_Format(PyExc_TypeError, "dlbridge: swapaxes: %s must be an int, not %R", names[k], Py_TYPE(values[k]));
    if (parse_own_axes(self, values[k], axis, &count, "swapaxes", names[k]) < 0) return NULL;
    swapped[k] = axis[0];
  }
  for (int32_t d = 0; d < self->view.ndim; d++) order[d] = d;
  order[swapped[0]] = swapped[1];
  order[swapped[1]] = swapped[0];
  return transposed(self, self->view.ndim, order);
}

PyObject *tensor_moveaxis(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"source", "destination"};
  Tensor *self = (Tensor *)op;
  PyObject *values[2];
  int32_t source[CORE_RANK_MAX], destination[CORE_RANK_MAX], order[CORE_RANK_MAX], count, others, rank = self->view.ndim;
  uint8_t moved[CORE_RANK_MAX] = {0};
  if (parse_arguments("moveaxis", args, nargs, kwnames, 2, names, 2, values) < 0) return NULL;
  if (self->share == NULL) return raise_closed(self);
  if (parse_own_axes(self, values[0], source, &count, "moveaxis", names[0]) < 0 ||
      parse_own_axes(self, values[1], destination, &others, "moveaxis", names[1]) < 0)
    return NULL;
  if (count != others)
    return PyErr_Format(PyExc_ValueError, "dlbridge: moveaxis: source names %d axes, but destination names %d; both must name the same number",
                        (int)count, (int)others);
  for (int32_t d = 0; d < rank; d++) order[d] = -1;
  for (int32_t k = 0; k < count; k++) {
    order[destination[k]] = source[k];
    moved[source[k]] = 1;
  }
  for (int32_t d = 0, next = 0; d < rank; d++) {
    if (order[d] >= 0) continue;
    while (moved[next]) next++;
    order[d] = next++;
  }
  return transposed(self, rank, order);
}

typedef dlbcore_status axes_rule(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const int32_t *axes, char *message,
                                 size_t size);

/* The method `name`, whose only argument is `axis`: dimensions, or None for all. `rule` computes the layout of the view. */
static PyObject *view_by_axes(const char *name, axes_rule *rule, PyObject *op, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames) {
  static const char *const names[] = {"axis"};
  Tensor *self = (Tensor *)op;
  char message[MESSAGE_SIZE] = "";
  PyObject *axis;
  int32_t axes[CORE_RANK_MAX], count = 0;
  dlbcore_viewing v;
  if (parse_arguments(name, args, nargs, kwnames, 1, names, 1, &axis) < 0) return NULL;
  if (self->share == NULL) return raise_closed(self);
  int all = axis == NULL || axis == Py_None;
  if (!all && parse_axes(axis, axes, &count, name, "axis") < 0) return NULL;
  if (dlbcore_viewing_begin(&v, &self->view, count) != CORE_OK) return PyErr_NoMemory();
  dlbcore_status status;
  if (!all && count == 0) /* `rule` would take all */
    status = dlbcore_view_slice(&v.view, &v.base, 0, NULL, message, sizeof message);
  else
    status = rule(&v.view, &v.base, count, axes, message, sizeof message);
  return end(self, &v, 0, status, name, message);
}

PyObject *tensor_flip(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  return view_by_axes("flip", dlbcore_view_flip, op, args, nargs, kwnames);
}

PyObject *tensor_squeeze(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  return view_by_axes("squeeze", dlbcore_view_squeeze, op, args, nargs, kwnames);
}

PyObject *tensor_broadcast_to(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"shape"};
  Tensor *self = (Tensor *)op;
  char message[MESSAGE_SIZE] = "";
  PyObject *shape;
  int64_t sizes[CORE_RANK_MAX];
  int32_t ndim;
  dlbcore_viewing v;
  if (parse_arguments("broadcast_to", args, nargs, kwnames, 1, names, 1, &shape) < 0) return NULL;
  if (self->share == NULL) return raise_closed(self);
  if (shape == NULL) return PyErr_Format(PyExc_TypeError, "dlbridge: broadcast_to: shape is missing");
  if (parse_shape(shape, sizes, &ndim) < 0) return NULL;
  if (dlbcore_viewing_begin(&v, &self->view, ndim) != CORE_OK) return PyErr_NoMemory();
  dlbcore_status status = dlbcore_view_broadcast_to(&v.view, &v.base, ndim, sizes, message, sizeof message);
  uint64_t flags = status == CORE_OK && dlbcore_overlaps(&v.view) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  return end(self, &v, flags, status, "broadcast_to", message);
}

/* Returns a view with another shape; NULL with *needs_copy set and no exception if only a copy can have it. */
static PyObject *reshaped(Tensor *self, int32_t ndim, const int64_t *sizes, int *needs_copy) {
  char message[MESSAGE_SIZE] = "";
  dlbcore_viewing v;
  *needs_copy = 0;
  if (dlbcore_viewing_begin(&v, &self->view, ndim) != CORE_OK) return PyErr_NoMemory();
  dlbcore_status status = dlbcore_view_reshape(&v.view, &v.base, ndim, sizes, message, sizeof message);
  *needs_copy = status == CORE_NEEDS_COPY;
  if (!*needs_copy) return end(self, &v, 0, status, "reshape", message);
  dlbcore_viewing_end(&v);
  return NULL;
}

PyObject *tensor_reshape(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"copy"};
  Tensor *self = (Tensor *)op;
  PyObject *wanted;
  int64_t sizes[CORE_RANK_MAX];
  int32_t ndim;
  int copy, needs_copy = 0;
  if (parse_arguments("reshape", args + nargs, 0, kwnames, 0, names, 1, &wanted) < 0 || parse_copy(wanted, &copy) < 0)
    return NULL;
  if (self->share == NULL) return raise_closed(self);
  if (nargs == 0) return PyErr_Format(PyExc_TypeError, "dlbridge: reshape: shape is missing");
  PyObject *shape = nargs == 1 ? Py_NewRef(args[0]) : PyTuple_New(nargs);
  for (Py_ssize_t k = 0; nargs > 1 && shape != NULL && k < nargs; k++) PyTuple_SetItem(shape, k, Py_NewRef(args[k]));
  int failed = shape == NULL || parse_shape(shape, sizes, &ndim) < 0;
  Py_XDECREF(shape);
  if (failed) return NULL;
  PyObject *result = copy > 0 ? NULL : reshaped(self, ndim, sizes, &needs_copy);
  if (copy <= 0 && !needs_copy) return result;
  if (copy == 0)
    return PyErr_Format(PyExc_ValueError, "dlbridge: reshape: only a copy can have this shape; use copy=None to allow a copy");
  Tensor *copied = tensor_copy(self);
  if (copied == NULL) return NULL;
  result = reshaped(copied, ndim, sizes, &needs_copy);
  Py_DECREF((PyObject *)copied);
  return result;
}

PyObject *tensor_ravel(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  PyObject *size = PyLong_FromLong(-1);
  PyObject *result = size == NULL ? NULL : tensor_reshape(op, &size, 1, NULL);
  Py_XDECREF(size);
  return result;
}

PyObject *tensor_flatten(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  int64_t count = ((Tensor *)op)->extent.count;
  int needs_copy;
  Tensor *copied = tensor_copy((Tensor *)op);
  PyObject *result = copied == NULL ? NULL : reshaped(copied, 1, &count, &needs_copy);
  Py_XDECREF((PyObject *)copied);
  return result;
}

/* Returns the distance in bits from one element of a type to the next, packed or padded as in a Tensor. */
static int64_t width_of(const Tensor *self, DLDataType dtype) {
  int padded = (self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
  return padded ? 8 * dtype_itemsize(dtype) : (int64_t)dtype.bits * dtype.lanes;
}

PyObject *tensor_view_as(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"dtype"};
  Tensor *self = (Tensor *)op;
  char message[MESSAGE_SIZE] = "";
  PyObject *name, *view = NULL;
  DLDataType dtype;
  dlbcore_viewing v;
  if (parse_arguments("view", args, nargs, kwnames, 1, names, 1, &name) < 0) return NULL;
  if (self->share == NULL) return raise_closed(self);
  if (name == NULL) return PyErr_Format(PyExc_TypeError, "dlbridge: view: dtype is missing; use t[...] for a view of the same type");
  if (dtype_parse(PyType_GetModuleState(Py_TYPE(op)), name, &dtype) < 0) return NULL;
  int64_t from = width_of(self, self->view.dtype), to = width_of(self, dtype);
  if (self->view.ndim == 0 && from != to)
    return PyErr_Format(PyExc_ValueError,
                        "dlbridge: view: a tensor of 0 dimensions cannot change the size of its element; use t[None].view(dtype)");
  if (dlbcore_viewing_begin(&v, &self->view, 0) != CORE_OK) return PyErr_NoMemory();
  dlbcore_status status = dlbcore_view_bitcast(&v.view, &v.base, from, to, message, sizeof message);
  if (status == CORE_OK) view = (PyObject *)tensor_retyped(self, dtype, &v.view, self->flags, "view");
  else if (status == CORE_NEEDS_COPY) PyErr_Format(PyExc_ValueError, "dlbridge: view: %s; contiguous() makes one", message);
  else raise_status(status, "view", message);
  dlbcore_viewing_end(&v);
  return view;
}

PyObject *tensor_contiguous(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  if (!self->extent.row_major) return (PyObject *)tensor_copy(self);
  dlbcore_share *share = tensor_hold(self);
  if (share == NULL) return NULL;
  DLTensor view = self->view;
  view.strides = NULL;
  return (PyObject *)tensor_like(self, share, &view, self->flags, &self->extent);
}

PyObject *tensor_copy_method(PyObject *op, PyObject *Py_UNUSED(ignored)) { return (PyObject *)tensor_copy((Tensor *)op); }
