/* Converts the elements of a Tensor into Python's numbers, and into other data types, with convert.c of the core. */
#include "extension.h"

#include <copy.h>

enum { PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED };

/* A number of any data type, widened to the C type from which Python's number is made. */
typedef union {
  int64_t i;
  uint64_t u;
  double d[2];
  uint8_t b;
} number;

/* Returns the data type to which numbers of a data type are widened: int64, uint64, float64, complex128 or bool. */
static DLDataType wide_of(DLDataType dtype) {
  switch (dtype.code) {
    case kDLBool: return dtype;
    case kDLInt:
    case kDLUInt: return (DLDataType){dtype.code, 64, 1};
    case kDLComplex: return (DLDataType){kDLComplex, 128, 1};
    default: return (DLDataType){kDLFloat, 64, 1};
  }
}

static PyObject *object_of(DLDataType wide, const char *at) {
  number n;
  memcpy(&n, at, wide.bits / 8);
  switch (wide.code) {
    case kDLBool: return PyBool_FromLong(n.b != 0);
    case kDLInt: return PyLong_FromLongLong(n.i);
    case kDLUInt: return PyLong_FromUnsignedLongLong(n.u);
    case kDLComplex: return PyComplex_FromDoubles(n.d[0], n.d[1]);
    default: return PyFloat_FromDouble(n.d[0]);
  }
}

/* Checks that the elements are numbers in memory that the host can read. */
static int check_numbers(const Tensor *self, const char *place) {
  DLDataType dtype = self->view.dtype;
  if (check_readable(self, place) < 0) return -1;
  if (dtype.code != kDLOpaqueHandle && dtype.lanes == 1) return 0;
  PyObject *name = dtype_name(dtype);
  if (name != NULL) PyErr_Format(PyExc_BufferError, "dlbridge: %s: elements of %U are not single numbers", place, name);
  Py_XDECREF(name);
  return -1;
}

/* ---- one element ----------------------------------------------------------------------------- */

static int is_packed(const Tensor *self) { return self->view.dtype.bits % 8 != 0 && !(self->flags & PADDED); }

/* Returns the element at a position in row-major order, which must exist, as a Python number. A packed element is converted
 * together with up to seven elements before it, from one on that begins at a byte. */
static PyObject *element(const Tensor *self, int64_t position, const char *place) {
  DLDataType wide = wide_of(self->view.dtype);
  number numbers[8];
  int64_t offset = 0, count = 1, left = position;
  static const int64_t one = 1;
  if (is_packed(self)) {
    count = position % 8 + 1;
    offset = (position - position % 8) / 8 * self->view.dtype.bits;
  } else {
    for (int32_t d = self->view.ndim - 1; d >= 0; d--) {
      offset += left % self->view.shape[d] * self->view.strides[d];
      left /= self->view.shape[d];
    }
    offset *= dtype_itemsize(self->view.dtype);
  }
  dlbcore_share *share = tensor_hold((Tensor *)self);
  if (share == NULL) return NULL;
  const char *from = (const char *)self->view.data + offset;
  dlbcore_status status = dlbcore_convert((char *)numbers, wide, &one, false, from, self->view.dtype, &one,
                                          (self->flags & PADDED) != 0, &count, 1);
  share_end(share);
  if (status != CORE_OK) return raise_status(status, place, "the elements are not numbers");
  return object_of(wide, (const char *)numbers + (count - 1) * (wide.bits / 8));
}

/* Returns the only element as a Python number. TypeError if the tensor does not have exactly one. */
static PyObject *only_element(const Tensor *self, const char *place) {
  if (check_numbers(self, place) < 0) return NULL;
  if (self->extent.count == 1) return element(self, 0, place);
  return PyErr_Format(PyExc_TypeError, "dlbridge: %s: only a tensor of 1 element can be converted to a number, but this tensor has %lld", place,
                      (long long)self->extent.count);
}

/* Returns an index of item, or -1 with an exception. */
static Py_ssize_t item_index(PyObject *object) {
  if (PyIndex_Check(object)) return PyNumber_AsSsize_t(object, PyExc_IndexError);
  return raise_error(PyExc_TypeError, "dlbridge: item: an index must be an int, not %R", object);
}

/* Sets *out to the position, in row-major order, of the element with these indexes, one for each dimension. */
static int position_of(const Tensor *self, PyObject *indexes, int64_t *out) {
  int64_t position = 0;
  if (PyTuple_Size(indexes) != self->view.ndim)
    return raise_error(PyExc_ValueError, "dlbridge: item: %zd %s given, but the tensor has %d dimension%s", PyTuple_Size(indexes),
                       PyTuple_Size(indexes) == 1 ? "index" : "indices", (int)self->view.ndim, ENDING(self->view.ndim));
  for (int32_t d = 0; d < self->view.ndim; d++) {
    int64_t n = self->view.shape[d];
    Py_ssize_t i = item_index(PyTuple_GetItem(indexes, d));
    if (i == -1 && PyErr_Occurred()) return -1;
    if (i < -n || i >= n) {
      raise_bounds(i, d, n);
      return -1;
    }
    position = position * n + (i < 0 ? i + n : i);
  }
  *out = position;
  return 0;
}

PyObject *tensor_item(PyObject *op, PyObject *args) {
  const Tensor *self = (Tensor *)op;
  int64_t position = 0;
  if (check_numbers(self, "item") < 0) return NULL;
  PyObject *only = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;
  if (PyTuple_Size(args) == 0) {
    if (self->extent.count != 1)
      return PyErr_Format(PyExc_ValueError,
                          "dlbridge: item: can only convert a tensor of size 1 to a Python scalar, not one of %lld elements; "
                          "use item(index) for one element, or tolist() for all",
                          (long long)self->extent.count);
  } else if (only != NULL && !PyTuple_Check(only)) {
    Py_ssize_t i = item_index(only), n = (Py_ssize_t)self->extent.count;
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < -n || i >= n)
      return PyErr_Format(PyExc_IndexError, "dlbridge: item: index %zd is out of bounds for size %zd", i, n);
    position = i < 0 ? i + n : i;
  } else if (position_of(self, only != NULL ? only : args, &position) < 0) {
    return NULL;
  }
  return element(self, position, "item");
}

PyObject *tensor_int(PyObject *op) {
  PyObject *object = only_element((Tensor *)op, "int"), *result = object == NULL ? NULL : PyNumber_Long(object);
  Py_XDECREF(object);
  return result;
}

PyObject *tensor_float(PyObject *op) {
  PyObject *object = only_element((Tensor *)op, "float"), *result = object == NULL ? NULL : PyNumber_Float(object);
  Py_XDECREF(object);
  return result;
}

PyObject *tensor_format(PyObject *op, PyObject *spec) {
  const Tensor *self = (Tensor *)op;
  if (PyUnicode_Check(spec) && PyUnicode_GetLength(spec) == 0) return PyObject_Str(op);
  if (self->share != NULL && self->view.ndim > 0)
    return PyErr_Format(PyExc_TypeError, "dlbridge: format: %R is for numbers, not for a tensor of %d dimension%s; format the elements of "
                        "tensor.numpy() or tensor.tolist()", spec, (int)self->view.ndim, ENDING(self->view.ndim));
  PyObject *object = check_numbers(self, "format") < 0 ? NULL : element(self, 0, "format");
  PyObject *result = object == NULL ? NULL : PyObject_Format(object, spec);
  Py_XDECREF(object);
  return result;
}

PyObject *tensor_complex(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  PyObject *object = only_element((Tensor *)op, "complex"), *result = NULL;
  if (object != NULL && PyComplex_Check(object)) return object;
  double real = object == NULL ? -1 : PyFloat_AsDouble(object);
  if (object != NULL && !(real == -1 && PyErr_Occurred())) result = PyComplex_FromDoubles(real, 0);
  Py_XDECREF(object);
  return result;
}

PyObject *tensor_index(PyObject *op) {
  const Tensor *self = (Tensor *)op;
  uint8_t code = self->view.dtype.code;
  if (self->share == NULL) return raise_closed(self);
  if (self->view.ndim > 0 || self->view.dtype.lanes != 1 || (code != kDLInt && code != kDLUInt))
    return PyErr_Format(PyExc_TypeError, "dlbridge: only integer tensors of 0 dimensions can be used as an index");
  return check_numbers(self, "index") < 0 ? NULL : element(self, 0, "index");
}

int tensor_bool(PyObject *op) {
  const Tensor *self = (Tensor *)op;
  if (check_numbers(self, "bool") < 0) return -1;
  if (self->extent.count != 1)
    return raise_error(PyExc_ValueError,
                       "dlbridge: the truth value of a tensor of %lld elements is ambiguous; use any() or all() of "
                       "tensor.numpy(), or test `tensor is not None`",
                       (long long)self->extent.count);
  PyObject *object = element(self, 0, "bool");
  int yes = object == NULL ? -1 : PyObject_IsTrue(object);
  Py_XDECREF(object);
  return yes;
}

/* ---- all elements ---------------------------------------------------------------------------- */

/* Converts the elements, scaled unless `scaling` is NULL, into new row-major memory, and sets *extent. NULL with an exception, whose text
 * names `place`. */
static dlbcore_share *converted(Tensor *self, DLDataType dtype, const dlbcore_scaling *scaling, dlbcore_extent *extent, const char *place) {
  char message[MESSAGE_SIZE] = "the data types must be numeric and have the same number of lanes";
  dlbcore_share *share = tensor_hold(self), *made = NULL;
  if (share == NULL) return NULL;
  dlbcore_status status;
  if (self->extent.nbytes < 1 << 16) {
    status = dlbcore_copy_convert(&made, extent, &self->view, self->flags, dtype, scaling, message, sizeof message);
  } else {
    WITHOUT_GIL(status = dlbcore_copy_convert(&made, extent, &self->view, self->flags, dtype, scaling, message, sizeof message));
  }
  share_end(share);
  return status == CORE_OK ? made : (dlbcore_share *)raise_status(status, place, message);
}

/* Nested lists that are being made of row-major numbers. */
typedef struct {
  const DLTensor *view;
  DLDataType wide;
  const char *at; /* the next number */
  int32_t d;      /* the number of lists that are open: the dimension of the next item */
} nested;

static PyObject *nested_item(void *ctx, size_t Py_UNUSED(index)) {
  nested *n = ctx;
  if (n->d == n->view->ndim) {
    const char *at = n->at;
    n->at += n->wide.bits / 8;
    return object_of(n->wide, at);
  }
  size_t size = (size_t)n->view->shape[n->d++];
  PyObject *list = list_of(size, nested_item, n);
  n->d--;
  return list;
}

PyObject *tensor_tolist(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Tensor *self = (Tensor *)op;
  dlbcore_extent extent;
  if (check_numbers(self, "tolist") < 0) return NULL;
  nested all = {.view = &self->view, .wide = wide_of(self->view.dtype)};
  dlbcore_share *share = converted(self, all.wide, NULL, &extent, "tolist");
  if (share == NULL) return NULL;
  all.at = share->data;
  PyObject *result = nested_item(&all, 0);
  KEEPING_EXCEPTION(dlbcore_share_drop(share));
  return result;
}

/* Checks that the result of a conversion has the shape of `to`, and its data type, unless `dtype` is None or NULL. */
static int check_out(const Tensor *self, const Tensor *to, PyObject *dtype) {
  DLDataType asked, has = to->view.dtype;
  if (dtype != NULL && dtype != Py_None) {
    if (dtype_parse(PyType_GetModuleState(Py_TYPE((PyObject *)self)), dtype, &asked) < 0) return -1;
    if (asked.code != has.code || asked.bits != has.bits || asked.lanes != has.lanes)
      return raise_error(PyExc_TypeError, "dlbridge: convert: out must have the data type that dtype names; leave out dtype to "
                                          "convert to the type of out");
  }
  if (self->view.ndim == to->view.ndim && memcmp(self->view.shape, to->view.shape, (size_t)to->view.ndim * sizeof(int64_t)) == 0)
    return 0;
  PyObject *shape = tuple_of(self->view.shape, self->view.ndim), *other = tuple_of(to->view.shape, to->view.ndim);
  if (shape != NULL && other != NULL)
    PyErr_Format(PyExc_ValueError, "dlbridge: convert: out has the shape %R, but the tensor has %R; reshape one of them", other, shape);
  Py_XDECREF(other);
  Py_XDECREF(shape);
  return -1;
}

/* Converts the elements into the memory of `out`, and returns `out`. */
static PyObject *convert_into(Tensor *self, PyObject *dtype, PyObject *out, const dlbcore_scaling *scaling) {
  if (self->share == NULL) return raise_closed(self);
  Tensor *to = consume_out(PyType_GetModuleState(Py_TYPE((PyObject *)self)), out, "convert");
  int failed = to == NULL || check_out(self, to, dtype) < 0 || tensor_write(to, self, scaling, "convert") < 0;
  Py_XDECREF((PyObject *)to);
  return failed ? NULL : Py_NewRef(out);
}

/* Converts the elements into new memory. */
static PyObject *convert(const char *method, Tensor *self, PyObject *name, const dlbcore_scaling *scaling) {
  dlbcore_extent extent;
  DLTensor view = self->view;
  if (self->share == NULL) return raise_closed(self);
  if (name == NULL) return PyErr_Format(PyExc_TypeError, "dlbridge: %s: dtype is missing", method);
  if (dtype_parse(PyType_GetModuleState(Py_TYPE((PyObject *)self)), name, &view.dtype) < 0) return NULL;
  if (check_readable(self, method) < 0) return NULL;
  dlbcore_share *share = converted(self, view.dtype, scaling, &extent, method);
  if (share == NULL) return NULL;
  view.data = share->data;
  view.device = (DLDevice){kDLCPU, 0};
  view.strides = NULL;
  view.byte_offset = 0;
  return (PyObject *)tensor_on_share(Py_TYPE((PyObject *)self), share, &view, 0, 0, &extent);
}

/* Sets *numbers to the numbers of an object, a number or a sequence of numbers, in memory that the caller frees, and *count to how many there
 * are: 0 if it is None or was not passed. -1 with an exception, which names the argument. */
static int read_factors(PyObject *object, const char *name, const double **numbers, int64_t *count) {
  if (object == NULL || object == Py_None) return 0;
  Py_ssize_t size = PyFloat_Check(object) || PyLong_Check(object) || !PySequence_Check(object) ? -1 : PySequence_Size(object);
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Clear(); /* an array of no dimensions is a number */
  }
  if (size == 0) return raise_error(PyExc_ValueError, "dlbridge: convert: %s has no numbers; leave it out, or pass None", name);
  int one = size < 0;
  double *read = PyMem_Malloc((size_t)(one ? 1 : size) * sizeof(double));
  if (read == NULL) return PyErr_NoMemory(), -1;
  *numbers = read;
  for (*count = 0; *count < (one ? 1 : size); ++*count) {
    PyObject *item = one ? Py_NewRef(object) : PySequence_GetItem(object, (Py_ssize_t)*count);
    read[*count] = item == NULL ? -1 : PyFloat_AsDouble(item);
    Py_XDECREF(item);
    if (!PyErr_Occurred()) continue;
    if (PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Format(PyExc_TypeError, "dlbridge: convert: %s must be a number or a sequence of numbers, not %R", name, object);
    return -1;
  }
  return 0;
}

/* Sets *axis to a dimension. -1 with an exception. */
static int read_axis(PyObject *object, int32_t *axis) {
  Py_ssize_t value = object == NULL ? -1 : PyNumber_AsSsize_t(object, NULL);
  if (value == -1 && PyErr_Occurred()) return -1;
  *axis = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value; /* which no tensor has */
  return 0;
}

static const char *const convert_names[] = {"dtype", "out", "scale", "shift", "axis"};

PyObject *tensor_convert(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  PyObject *values[5], *result = NULL;
  Tensor *self = (Tensor *)op;
  if (parse_arguments("convert", args, nargs, kwnames, 1, convert_names, 5, values) < 0) return NULL;
  dlbcore_scaling s = {0}, *scaling = NULL;
  if (read_axis(values[4], &s.dim) == 0 && read_factors(values[2], "scale", &s.scale, &s.scales) == 0 &&
      read_factors(values[3], "shift", &s.shift, &s.shifts) == 0) {
    if (s.scales != 0 || s.shifts != 0) scaling = &s;
    if (values[1] == NULL || values[1] == Py_None) result = convert("convert", self, values[0], scaling);
    else result = convert_into(self, values[0], values[1], scaling);
  }
  PyMem_Free((void *)(uintptr_t)s.scale);
  PyMem_Free((void *)(uintptr_t)s.shift);
  return result;
}

/* As in NumPy, None stands for float64. */
PyObject *tensor_astype(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  PyObject *dtype;
  if (parse_arguments("astype", args, nargs, kwnames, 1, convert_names, 1, &dtype) < 0) return NULL;
  return convert("astype", (Tensor *)op, dtype == Py_None ? (PyObject *)&PyFloat_Type : dtype, NULL);
}
