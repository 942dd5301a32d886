#include "extension.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int raise_error(PyObject *type, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
  return -1;
}

int raise_memory(void) {
  PyErr_NoMemory();
  return -1;
}

PyObject *raise_closed(void) {
  return PyErr_Format(PyExc_ValueError, TENSOR_IS_CLOSED);
}

PyObject *status_type(core_status status) {
  switch (status) {
    case CORE_ERR_VERSION:
    case CORE_ERR_DTYPE:
    case CORE_ERR_DEVICE:
    case CORE_ERR_READONLY:
      return PyExc_BufferError;
    case CORE_ERR_MEMORY:
      return PyExc_MemoryError;
    default:
      return PyExc_ValueError;
  }
}

PyObject *raise_status(core_status status, const char *place, const char *message) {
  return PyErr_Format(status_type(status), "dlbridge: %s: %s", place, message);
}

int check_tensor(const DLTensor *view, uint64_t flags, core_extent *extent, const char *place) {
  char message[MESSAGE_SIZE];
  core_status status = core_check_tensor(view, flags, extent, message, sizeof message);
  if (status == CORE_OK) return 0;
  raise_status(status, place, message);
  return -1;
}

core_share *share_begin(void (*lender)(void *ctx), void *ctx) {
  core_share *share;
  TURN_BEGIN();
  share = core_hold_unlocked(lender, ctx);
  TURN_END();
  return share;
}

void share_end(core_share *share) {
  if (!core_share_leave(share)) return;
  KEEPING_EXCEPTION(core_share_end(share));
}

int tensor_read_only(const Tensor *self) {
  return self->writability_unknown || (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
}

#ifdef Py_GIL_DISABLED
void keep_spares(int Py_UNUSED(keep)) {}

static Tensor *tensor_alloc(PyTypeObject *type, Py_ssize_t ndim) { return PyObject_NewVar(Tensor, type, ndim); }

static void tensor_free(Tensor *self) { PyObject_Free(self); }
#else
/* Memory of freed Tensors of few dimensions, which new Tensors reuse. */
enum { SPARE_RANK = 4, SPARES = 32 };

static struct {
  Tensor *tensors[SPARES];
  int count, room;
} spares;

void keep_spares(int keep) {
  spares.room = keep ? SPARES : 0;
  while (spares.count > spares.room) PyObject_Free(spares.tensors[--spares.count]);
}

static Tensor *tensor_alloc(PyTypeObject *type, Py_ssize_t ndim) {
  if (ndim > SPARE_RANK) return PyObject_NewVar(Tensor, type, ndim);
  Tensor *self = spares.count > 0 ? spares.tensors[--spares.count]
                                  : PyObject_Malloc(sizeof(Tensor) + 3 * SPARE_RANK * sizeof(int64_t));
  if (self == NULL) return (Tensor *)PyErr_NoMemory();
  return (Tensor *)PyObject_InitVar((PyVarObject *)self, type, ndim);
}

static void tensor_free(Tensor *self) {
  if (self->view.ndim <= SPARE_RANK && spares.count < spares.room) spares.tensors[spares.count++] = self;
  else PyObject_Free(self);
}
#endif

Tensor *tensor_new(PyTypeObject *type, const DLTensor *view, uint64_t flags, int writability_unknown,
                   const core_extent *extent) {
  Py_ssize_t ndim = view->ndim;
  Tensor *self = tensor_alloc(type, ndim);
  if (self == NULL) return NULL;
  int64_t *shape = self->dims, *strides = shape + ndim;
  for (Py_ssize_t d = 0; d < ndim; d++) shape[d] = view->shape[d];
  if (view->strides != NULL) {
    for (Py_ssize_t d = 0; d < ndim; d++) strides[d] = view->strides[d];
  } else {
    core_set_row_major(strides, shape, view->ndim);
  }
  self->view = *view;
  self->view.shape = shape;
  self->view.strides = strides;
  if (core_host_readable(view->device.device_type)) {
    self->view.data = extent->count > 0 ? (char *)view->data + view->byte_offset : NULL;
    self->view.byte_offset = 0;
  }
  self->flags = flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  if (view->dtype.bits * view->dtype.lanes % 8 != 0)
    self->flags |= flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  self->writability_unknown = writability_unknown;
  self->share = NULL;
  self->buffers = 0;
  self->extent = *extent;
  return self;
}

Tensor *tensor_on_share(PyTypeObject *type, core_share *share, const DLTensor *view, uint64_t flags,
                        int writability_unknown, const core_extent *extent) {
  Tensor *self = tensor_new(type, view, flags, writability_unknown, extent);
  if (self != NULL) self->share = share;
  else share_end(share);
  return self;
}

/* The GIL is released for copies that take longer than acquiring it again. */
Tensor *tensor_copy(Tensor *self) {
  char message[MESSAGE_SIZE];
  core_share *held = NULL, *copied = NULL;
  LOCK(self);
  held = self->share;
  if (held != NULL) core_share_take(held);
  UNLOCK();
  if (held == NULL) return (Tensor *)raise_closed();
  core_status status;
  if (self->extent.nbytes < 1 << 16) {
    status = core_copy_compact(&copied, &self->view, self->flags, message, sizeof message);
  } else {
    WITHOUT_GIL(status = core_copy_compact(&copied, &self->view, self->flags, message, sizeof message));
  }
  share_end(held);
  if (status != CORE_OK) return (Tensor *)raise_status(status, "copy", message);
  DLTensor view = self->view;
  core_extent extent = self->extent;
  view.data = copied->data;
  view.device = (DLDevice){kDLCPU, 0};
  view.strides = NULL;
  extent.low = 0;
  extent.high = extent.nbytes;
  extent.row_major = 1;
  uint64_t flags = self->flags & ~DLPACK_FLAG_BITMASK_READ_ONLY;
  return tensor_on_share(Py_TYPE((PyObject *)self), copied, &view, flags, 0, &extent);
}

static void tensor_dealloc(PyObject *op) {
  Tensor *self = (Tensor *)op;
  PyTypeObject *type = Py_TYPE(op);
  if (self->share != NULL) share_end(self->share);
  tensor_free(self);
  Py_DECREF(type);
}

/* The type has no subtypes, so its deallocator identifies it, whichever module it was made in. */
int tensor_check(PyObject *object) {
  return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)tensor_dealloc;
}

static PyObject *tensor_close(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Tensor *self = (Tensor *)op;
  core_share *share = NULL;
  Py_ssize_t buffers;
  LOCK(op);
  buffers = self->buffers;
  if (buffers == 0) {
    share = self->share;
    self->share = NULL;
  }
  UNLOCK();
  if (buffers > 0)
    return PyErr_Format(PyExc_BufferError,
                        "dlbridge: close: %zd buffers of the tensor are still in use; release the memoryviews and arrays first",
                        buffers);
  if (share != NULL) share_end(share);
  Py_RETURN_NONE;
}

static PyObject *tensor_enter(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  if (((Tensor *)op)->share == NULL) return raise_closed();
  return Py_NewRef(op);
}

/* Without this method the first two pickle protocols would write data that cannot be read. */
static PyObject *tensor_reduce(PyObject *Py_UNUSED(op), PyObject *Py_UNUSED(ignored)) {
  return PyErr_Format(PyExc_TypeError,
                      "dlbridge: a Tensor cannot be pickled, or copied by the module copy; from_dlpack(tensor, "
                      "copy=True) copies it, numpy.from_dlpack and tens.encode make objects that can be pickled");
}

/* NumPy asks for the buffer first, and ignores the error if there is none. Without __array__ it would then make an
 * array of one object, the Tensor. This method asks for the buffer again, and raises its error. */
static PyObject *tensor_array(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"dtype", "copy"};
  PyObject *values[2], *array = NULL;
  if (parse_arguments("__array__", args, nargs, kwnames, 2, names, 2, values) < 0) return NULL;
  PyObject *view = PyMemoryView_FromObject(op);
  if (view == NULL) return NULL;
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *make = numpy == NULL ? NULL : PyObject_GetAttrString(numpy, "array");
  PyObject *positional = make == NULL ? NULL : PyTuple_Pack(1, view);
  PyObject *keywords = positional == NULL ? NULL
                                          : Py_BuildValue("{sOsO}", "dtype", values[0] == NULL ? Py_None : values[0],
                                                          "copy", values[1] == NULL ? Py_None : values[1]);
  if (keywords != NULL) array = PyObject_Call(make, positional, keywords);
  Py_XDECREF(keywords);
  Py_XDECREF(positional);
  Py_XDECREF(make);
  Py_XDECREF(numpy);
  Py_DECREF(view);
  return array;
}

/* No Python code runs between PyTuple_New and the last int. Otherwise it could find the tuple with empty places. */
PyObject *tuple_of(const int64_t *values, Py_ssize_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
    PyObject *item = PyLong_FromLongLong(values[i]);
    if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

/* Defines the getter of an attribute of an open Tensor. */
#define GETTER(name, value) \
  static PyObject *get_##name(PyObject *op, void *Py_UNUSED(closure)) { \
    Tensor *self = (Tensor *)op; \
    return self->share == NULL ? raise_closed() : (value); \
  }

GETTER(shape, tuple_of(self->view.shape, self->view.ndim))
GETTER(strides, tuple_of(self->view.strides, self->view.ndim))
GETTER(ndim, PyLong_FromLong(self->view.ndim))
GETTER(size, PyLong_FromLongLong(self->extent.count))
GETTER(itemsize, PyLong_FromLongLong(dtype_itemsize(self->view.dtype)))
GETTER(nbytes, PyLong_FromLongLong(self->extent.nbytes))
GETTER(dtype, dtype_name(self->view.dtype))
GETTER(device, tensor_dlpack_device(op, NULL))
GETTER(readonly, PyBool_FromLong(tensor_read_only(self)))
GETTER(data_ptr, PyLong_FromUnsignedLongLong(
                     self->extent.count == 0 ? 0 : (uintptr_t)self->view.data + self->view.byte_offset))

static PyObject *tensor_repr(PyObject *op) {
  Tensor *self = (Tensor *)op;
  PyObject *dtype = dtype_name(self->view.dtype);
  PyObject *shape = tuple_of(self->view.shape, self->view.ndim);
  PyObject *strides = tuple_of(self->view.strides, self->view.ndim);
  PyObject *text = NULL;
  if (dtype != NULL && shape != NULL && strides != NULL) {
    DLDevice device = self->view.device;
    if (self->share == NULL)
      text = PyUnicode_FromFormat("<closed dlbridge.Tensor, %S%R>", dtype, shape);
    else if (self->extent.row_major)
      text = PyUnicode_FromFormat("<dlbridge.Tensor, %S%R, device (%d, %d)%s>", dtype, shape,
                                  (int)device.device_type, (int)device.device_id,
                                  tensor_read_only(self) ? ", read-only" : "");
    else
      text = PyUnicode_FromFormat("<dlbridge.Tensor, %S%R, strides %R, device (%d, %d)%s>", dtype, shape,
                                  strides, (int)device.device_type, (int)device.device_id,
                                  tensor_read_only(self) ? ", read-only" : "");
  }
  Py_XDECREF(dtype);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return text;
}

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions, a tuple of int.", NULL},
    {"strides", get_strides, NULL, "The strides in elements, a tuple of int.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"size", get_size, NULL, "The number of elements: the product of the shape.", NULL},
    {"itemsize", get_itemsize, NULL, "The size of one element in bytes, rounded up to whole bytes.", NULL},
    {"nbytes", get_nbytes, NULL,
     "The size of the elements in bytes, without gaps. Elements smaller than a byte count as packed, unless they are\n"
     "padded.", NULL},
    {"dtype", get_dtype, NULL, "The data type, a str such as 'float32', 'bfloat16' or 'float32x4'.", NULL},
    {"device", get_device, NULL, "The DLPack device, a tuple (type, id); (1, 0) is the CPU.", NULL},
    {"readonly", get_readonly, NULL,
     "Whether the memory must not be written. It is also True if the producer could not state it.", NULL},
    {"data_ptr", get_data_ptr, NULL,
     "The address of element (0, ..., 0), including byte_offset; 0 if there are no elements.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(close_doc,
             "close($self, /)\n--\n\n"
             "Releases the tensor's share of its memory. Further calls have no effect.\n\n"
             "Exports of the tensor stay valid. Any other use of a closed tensor raises ValueError. If a buffer of\n"
             "the tensor, such as a memoryview, is in use, close raises BufferError and does nothing.");
PyDoc_STRVAR(dlpack_doc,
             "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
             "Returns a capsule with a managed tensor on the same memory, whose deleter releases one share of it.\n\n"
             "The managed tensor is versioned (DLPack 1.3) if max_version is (1, 0) or later. Otherwise it has the\n"
             "legacy form, and read-only memory raises BufferError. copy=True exports a copy, with IS_COPIED set.\n"
             "dl_device must be the tensor's own device. On the CPU, stream must be None or -1.");
PyDoc_STRVAR(array_doc,
             "__array__($self, /, dtype=None, copy=None)\n--\n\n"
             "Returns a NumPy array on the same memory. numpy.asarray and numpy.array call it if there is no buffer.\n\n"
             "Errors: BufferError if the tensor has no buffer, because NumPy lacks its data type (such as bfloat16)\n"
             "or its memory is not in the host; ValueError if the tensor is closed.");
PyDoc_STRVAR(dlpack_device_doc,
             "__dlpack_device__($self, /)\n--\n\nReturns the DLPack device, a tuple (type, id).");

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS, dlpack_doc},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, dlpack_device_doc},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_FASTCALL | METH_KEYWORDS, array_doc},
    {"close", tensor_close, METH_NOARGS, close_doc},
    {"__enter__", tensor_enter, METH_NOARGS, NULL},
    {"__exit__", tensor_close, METH_VARARGS, NULL},
    {"__reduce__", tensor_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(tensor_doc,
             "A view of memory, and a share in its ownership.\n\n"
             "Tensors are made by from_dlpack, from_address, from_buffer, empty and the decoders. A Tensor is a\n"
             "DLPack producer (__dlpack__, __dlpack_device__, the C exchange API). In host memory it supports\n"
             "Python's buffer protocol. The memory is given back to its producer when the tensor is closed or freed,\n"
             "and everything exported from it has been released. The garbage collector cannot follow a share to the\n"
             "owner of the memory: if that object refers to the tensor, only close breaks the cycle.");

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_repr, (void *)tensor_repr},
    {Py_tp_getset, tensor_getset},
    {Py_tp_methods, tensor_methods},
    {Py_tp_doc, (void *)tensor_doc},
    {Py_bf_getbuffer, (void *)tensor_getbuffer},
    {Py_bf_releasebuffer, (void *)tensor_releasebuffer},
    {0, NULL},
};

PyType_Spec tensor_spec = {
    .name = "dlbridge.Tensor",
    .basicsize = sizeof(Tensor),
    .itemsize = 3 * sizeof(int64_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tensor_slots,
};
