#include "extension.h"

#include <string.h>

/* ---- buffers of a Tensor --------------------------------------------------------------------- */

enum { BUFFER_RANK_MAX = 64 }; /* PyBUF_MAX_NDIM */

static char nothing; /* the address of the buffer of a tensor without elements */

static int refuse(const char *why) {
  return raise_error(PyExc_BufferError, "dlbridge: buffer: %s", why);
}

int column_major(const Tensor *self) {
  int64_t step = 1;
  if (self->extent.count == 0) return 1;
  for (int32_t d = 0; d < self->view.ndim; d++) {
    if (self->view.shape[d] != 1 && self->view.strides[d] != step) return 0;
    step *= self->view.shape[d];
  }
  return 1;
}

/* Reports whether two indices may refer to the same memory. Elements do not overlap if each stride is at least as large as
 * the span, in elements, of the dimensions with smaller strides. In other cases the function assumes that they do. */
static int overlapping(const Tensor *self) {
  uint64_t done = 0, span = 1;
  if (self->extent.count < 2 || self->extent.row_major) return 0;
  for (int32_t round = 0; round < self->view.ndim; round++) {
    int32_t next = -1;
    uint64_t least = 0;
    for (int32_t d = 0; d < self->view.ndim; d++) {
      int64_t stride = self->view.strides[d];
      uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
      if (done >> d & 1 || self->view.shape[d] == 1 || (next >= 0 && step >= least)) continue;
      next = d;
      least = step;
    }
    if (next < 0) return 0;
    if (least < span) return 1;
    done |= (uint64_t)1 << next;
    span += least * (uint64_t)(self->view.shape[next] - 1);
  }
  return 0;
}

int tensor_getbuffer(PyObject *op, Py_buffer *view, int flags) {
  Tensor *self = (Tensor *)op;
  view->obj = NULL;
  if (check_readable(self, "buffer") < 0) return -1;
  const char *letter = dtype_letter(self->view.dtype);
  if (letter == NULL) {
    PyObject *name = dtype_name(self->view.dtype);
    if (name != NULL)
      PyErr_Format(PyExc_BufferError, "dlbridge: buffer: Python's buffers have no format for %U; use view('uint8') or tobytes() for the bytes, or "
                                      "pass the tensor to a consumer of DLPack",
                   name);
    Py_XDECREF(name);
    return -1;
  }
  Py_ssize_t ndim = self->view.ndim;
  if (ndim > BUFFER_RANK_MAX)
    return refuse("the tensor has more than 64 dimensions, the most that a buffer can have; pass the tensor to a consumer of DLPack");
  int read_only = tensor_read_only(self);
  if (flags & PyBUF_WRITABLE && read_only)
    return refuse("the memory is read-only; copy() makes a writable copy");
  if (!read_only && overlapping(self)) {
    if (flags & PyBUF_WRITABLE)
      return refuse("the elements overlap, so that the memory is read-only; "
                    "copy() makes a writable copy");
    read_only = 1;
  }
  int row_major = self->extent.row_major;
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !row_major)
    return refuse("the tensor is not row-major; contiguous() returns a row-major tensor");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !column_major(self))
    return refuse("the tensor is not column-major");
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !row_major && !column_major(self))
    return refuse("the tensor is not contiguous; contiguous() returns a contiguous tensor");
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !row_major)
    return refuse("the tensor is not row-major, but the consumer did not ask for strides; contiguous() returns a row-major tensor");
  int64_t item = dtype_itemsize(self->view.dtype);
  int64_t *steps = self->dims + 2 * ndim;
  dlbcore_share *share = tensor_hold(self); /* the buffer has a share of its own, so that the tensor may be closed */
  if (share == NULL) return -1;
  LOCK(op);
  for (Py_ssize_t d = 0; d < ndim; d++) steps[d] = (int64_t)((uint64_t)self->view.strides[d] * (uint64_t)item);
  UNLOCK();
  view->obj = Py_NewRef(op);
  view->buf = self->extent.count > 0 ? self->view.data : &nothing;
  view->len = (Py_ssize_t)self->extent.nbytes;
  view->itemsize = (Py_ssize_t)item;
  view->readonly = read_only;
  view->ndim = (int)(flags & PyBUF_ND || ndim == 0 ? ndim : 1); /* without a shape there is one dimension, or none */
  view->format = flags & PyBUF_FORMAT ? (char *)letter : NULL;
  view->shape = flags & PyBUF_ND && ndim > 0 ? (Py_ssize_t *)self->view.shape : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && ndim > 0 ? (Py_ssize_t *)steps : NULL;
  view->suboffsets = NULL;
  view->internal = share;
  return 0;
}

void tensor_releasebuffer(PyObject *Py_UNUSED(op), Py_buffer *view) { share_end(view->internal); }

/* bytes(tensor) and tensor.tobytes(). Without __bytes__, bytes() would take an integer tensor of 0 dimensions for the number of
 * bytes to make. */
PyObject *tensor_bytes(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  const Tensor *self = (Tensor *)op;
  if (check_readable(self, "tobytes") < 0) return NULL;
  Tensor *dense = self->extent.row_major ? (Tensor *)Py_NewRef(op) : tensor_copy((Tensor *)op);
  dlbcore_share *share = dense == NULL ? NULL : tensor_hold(dense);
  PyObject *bytes = NULL;
  if (share != NULL) {
    bytes = PyBytes_FromStringAndSize(dense->view.data, (Py_ssize_t)dense->extent.nbytes);
    share_end(share);
  }
  Py_XDECREF((PyObject *)dense);
  return bytes;
}

/* ---- Tensors of a buffer --------------------------------------------------------------------- */

int parse_shape(PyObject *object, int64_t *shape, int32_t *ndim) {
  Py_ssize_t count = 1;
  int sequence = PySequence_Check(object) && !PyUnicode_Check(object);
  int scalar = !sequence && PyIndex_Check(object);
  if (sequence) {
    count = PySequence_Size(object);
    if (count < 0) return -1;
  } else if (!scalar) {
    return raise_error(PyExc_TypeError, "dlbridge: shape must be a sequence of ints, not %R", object);
  }
  if (count > CORE_RANK_MAX)
    return raise_error(PyExc_ValueError, "dlbridge: shape has %zd dimensions, more than %d", count, CORE_RANK_MAX);
  for (Py_ssize_t d = 0; d < count; d++) {
    PyObject *item = scalar ? Py_NewRef(object) : PySequence_GetItem(object, d);
    PyObject *number = item == NULL ? NULL : PyNumber_Index(item);
    Py_XDECREF(item);
    if (number == NULL) return -1;
    int overflow;
    shape[d] = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) PyErr_Format(PyExc_ValueError, "dlbridge: shape[%zd] = %R is out of range", d, number);
    Py_DECREF(number);
    if (overflow != 0) return -1;
  }
  *ndim = (int32_t)count;
  return 0;
}

/* Parses a shape without negative sizes. -1 with an exception, whose text names `place`. */
static int parse_sizes(PyObject *object, int64_t *shape, int32_t *ndim, const char *place) {
  if (parse_shape(object, shape, ndim) < 0) return -1;
  for (int32_t d = 0; d < *ndim; d++) {
    if (shape[d] < 0)
      return raise_error(PyExc_ValueError, "dlbridge: %s: shape[%d] is %lld, but must not be negative; only reshape accepts -1", place, (int)d,
                         (long long)shape[d]);
  }
  return 0;
}

int parse_empty(module_state *state, const char *place, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, DLTensor *view,
                dlbcore_extent *extent) {
  static const char *const names[] = {"shape", "dtype"};
  PyObject *values[2];
  char message[MESSAGE_SIZE];
  if (parse_arguments(place, args, nargs, kwnames, 2, names, 2, values) < 0) return -1;
  for (int k = 0; k < 2; k++)
    if (values[k] == NULL) return raise_error(PyExc_TypeError, "dlbridge: %s: %s is missing", place, names[k]);
  if (parse_sizes(values[0], view->shape, &view->ndim, place) < 0 || dtype_parse(state, values[1], &view->dtype) < 0) return -1;
  dlbcore_status status = dlbcore_check_layout(view, 0, extent, message, sizeof message);
  if (status == CORE_OK) return 0;
  raise_status(status, place, message);
  return -1;
}

static PyObject *new_memory(const char *place, int zeroed, PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames) {
  module_state *state = PyModule_GetState(module);
  int64_t shape[CORE_RANK_MAX];
  dlbcore_extent extent;
  DLTensor view = {.device = {kDLCPU, 0}, .shape = shape};
  if (parse_empty(state, place, args, nargs, kwnames, &view, &extent) < 0) return NULL;
  dlbcore_share *share = dlbcore_share_alloc((size_t)extent.nbytes, zeroed);
  if (share == NULL)
    return PyErr_Format(PyExc_MemoryError, "dlbridge: %s: no memory for %lld bytes", place, (long long)extent.nbytes);
  view.data = share->data;
  return (PyObject *)tensor_on_share(state->tensor_type, share, &view, 0, 0, &extent);
}

PyObject *empty(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  return new_memory("empty", 0, module, args, nargs, kwnames);
}

PyObject *zeros(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  return new_memory("zeros", 1, module, args, nargs, kwnames);
}

/* Sets the shape of a view to the shape of a buffer. An exporter may omit the shape of one dimension. */
static void buffer_shape(const Py_buffer *buffer, DLTensor *view) {
  view->ndim = buffer->ndim;
  for (int d = 0; d < buffer->ndim; d++)
    view->shape[d] = buffer->shape != NULL ? buffer->shape[d] : buffer->len / buffer->itemsize;
}

/* Sets shape and strides of a view from a buffer, whose strides are in bytes. */
static int buffer_layout(const Py_buffer *buffer, int64_t item, DLTensor *view) {
  buffer_shape(buffer, view);
  if (buffer->strides == NULL) view->strides = NULL; /* row-major, as for ctypes */
  for (int d = 0; d < buffer->ndim; d++) {
    if (buffer->suboffsets != NULL && buffer->suboffsets[d] >= 0)
      return refuse("the buffer has suboffsets, which DLPack lacks; bytes(x) copies it");
    if (view->strides == NULL) continue;
    if (view->shape[d] > 1 && buffer->strides[d] % item != 0)
      return refuse("the strides are not multiples of the element size; numpy.ascontiguousarray(x) makes a copy in which they are");
    view->strides[d] = buffer->strides[d] / item;
  }
  return 0;
}

/* Reports whether elements, or fields of them, are references to objects. The names of fields are between colons. */
static int has_objects(const char *format) {
  int name = 0;
  for (; format != NULL && *format != 0; format++) {
    if (*format == ':') name = !name;
    else if (*format == 'O' && !name) return 1;
  }
  return 0;
}

/* Sets a view to the bytes of a row-major buffer, from `offset` (in bytes) on, with the data type view->dtype. `shape` may be
 * NULL: then the view has all these bytes. With a shape, it may have fewer. -1 with an exception. */
static int buffer_reread(const Py_buffer *buffer, PyObject *shape, Py_ssize_t offset, uint64_t flags, DLTensor *view,
                         dlbcore_extent *extent) {
  if (has_objects(buffer->format)) return refuse("the elements are references to objects, which cannot be shared");
  if (!PyBuffer_IsContiguous(buffer, 'C'))
    return refuse("a new dtype, shape or offset needs a row-major buffer; numpy.ascontiguousarray(x) makes a row-major copy");
  if (offset < 0 || offset > buffer->len)
    return raise_error(PyExc_ValueError, "dlbridge: from_buffer: offset = %zd is not in 0..%zd, the size of the buffer", offset,
                       buffer->len);
  int64_t bits = (int64_t)view->dtype.bits * view->dtype.lanes, left = buffer->len - offset;
  view->strides = NULL;
  view->byte_offset = (uint64_t)offset;
  if (shape != NULL) {
    if (parse_sizes(shape, view->shape, &view->ndim, "from_buffer") < 0) return -1;
  } else if (offset == 0 && (int64_t)buffer->itemsize * 8 == bits) {
    buffer_shape(buffer, view);
  } else {
    view->shape[0] = left * 8 / bits;
    view->ndim = 1;
  }
  if (check_tensor(view, flags, extent, "from_buffer") < 0) return -1;
  if (shape != NULL ? extent->nbytes <= left : extent->nbytes == left) return 0;
  if (shape == NULL)
    return raise_error(PyExc_ValueError,
                       "dlbridge: from_buffer: the buffer has %lld byte%s, which is not a multiple of the %lld bytes of an element; "
                       "use shape= to select a part",
                       (long long)left, ENDING(left), (long long)dtype_itemsize(view->dtype));
  return raise_error(PyExc_ValueError, "dlbridge: from_buffer: the tensor has %lld byte%s, but the buffer has %lld%s",
                     (long long)extent->nbytes, ENDING(extent->nbytes), (long long)left, offset > 0 ? " from offset on" : "");
}

/* Returns a Tensor on the memory of a buffer, without a share. `sizes` has room for its shape, in another frame than the strides: each
 * frame is smaller than a page. */
__attribute__((noinline)) static Tensor *tensor_of_buffer(module_state *state, Py_buffer *buffer, PyObject *dtype, PyObject *shape,
                                                          Py_ssize_t offset, uint64_t flags, int64_t *sizes) {
  int64_t strides[CORE_RANK_MAX];
  dlbcore_extent extent;
  DLTensor view = {.data = buffer->buf, .device = {kDLCPU, 0}, .shape = sizes, .strides = strides};
  if (buffer->readonly) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (buffer->ndim < 0 || buffer->ndim > CORE_RANK_MAX || buffer->itemsize <= 0) {
    refuse("the rank or the element size is invalid");
    return NULL;
  }
  if (dtype != NULL ? dtype_parse(state, dtype, &view.dtype)
                    : dtype_of_format(buffer->format, buffer->itemsize, &view.dtype))
    return NULL;
  if (dtype != NULL || shape != NULL || offset != 0) {
    if (buffer_reread(buffer, shape, offset, flags, &view, &extent) < 0) return NULL;
  } else {
    if (buffer_layout(buffer, dtype_itemsize(view.dtype), &view) < 0 ||
        check_tensor(&view, 0, &extent, "from_buffer") < 0)
      return NULL;
    if (extent.nbytes != buffer->len)
      return (Tensor *)PyErr_Format(PyExc_ValueError,
                                    "dlbridge: from_buffer: the buffer has %zd byte%s, but its shape requires %lld",
                                    buffer->len, ENDING(buffer->len), (long long)extent.nbytes);
  }
  return tensor_new(state->tensor_type, &view, flags, 0, &extent);
}

Tensor *tensor_on_buffer(module_state *state, PyObject *object, PyObject *dtype, PyObject *shape, Py_ssize_t offset,
                         uint64_t flags) {
  Py_buffer *buffer = loan_begin(object, PyBUF_FULL_RO);
  if (buffer == NULL) return NULL;
  dlbcore_share *share = share_begin(loan_end, buffer);
  if (share == NULL) {
    loan_end(buffer);
    return (Tensor *)PyErr_NoMemory();
  }
  int64_t sizes[CORE_RANK_MAX];
  Tensor *self = tensor_of_buffer(state, buffer, dtype, shape, offset, flags, sizes);
  if (self != NULL) self->share = share;
  else share_end(share);
  return self;
}
