/* A view of memory and a share of it: how Tensors are made, copied and freed. type.c has what Python sees of them. */
#include "extension.h"

#ifdef __linux__
#include <segment.h>

/* Reports whether a share is of so large a segment that other threads should run while its pages are freed. */
static int frees_much(const dlbcore_share *share) {
  return share->lender == dlbsegment_release && dlbsegment_file_size(share->ctx) >= 1 << 20;
}
#else
static int frees_much(const dlbcore_share *Py_UNUSED(share)) { return 0; }
#endif

dlbcore_share *share_begin(void (*lender)(void *ctx), void *ctx) {
  dlbcore_share *share;
  LOCK_CORE();
  share = dlbcore_hold_unlocked(lender, ctx);
  UNLOCK_CORE();
  return share;
}

void share_end(dlbcore_share *share) {
  if (!dlbcore_share_leave(share)) return;
  if (frees_much(share)) KEEPING_EXCEPTION(WITHOUT_GIL(dlbcore_share_end(share)));
  else KEEPING_EXCEPTION(dlbcore_share_end(share));
}

void end_versioned(void *managed) { dlbcore_release_versioned(managed); }

void end_legacy(void *managed) { dlbcore_release_legacy(managed); }

int is_import(void (*lender)(void *ctx)) { return lender == end_versioned || lender == end_legacy; }

int64_t held_imports(void) {
  int64_t held;
  LOCK_CORE();
  held = dlbcore_held_unlocked(end_versioned) + dlbcore_held_unlocked(end_legacy);
  UNLOCK_CORE();
  return held;
}

int tensor_read_only(const Tensor *self) {
  return self->writability_unknown || (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
}

Tensor *tensor_new(PyTypeObject *type, const DLTensor *view, uint64_t flags, int writability_unknown,
                   const dlbcore_extent *extent) {
  Py_ssize_t ndim = view->ndim;
  Tensor *self = PyObject_NewVar(Tensor, type, ndim);
  if (self == NULL) return NULL;
  int64_t *shape = self->dims, *strides = shape + ndim;
  for (Py_ssize_t d = 0; d < ndim; d++) shape[d] = view->shape[d];
  if (view->strides != NULL) {
    for (Py_ssize_t d = 0; d < ndim; d++) strides[d] = view->strides[d];
  } else {
    dlbcore_set_row_major(strides, shape, view->ndim);
  }
  self->view = *view;
  self->view.shape = shape;
  self->view.strides = strides;
  if (dlbcore_host_readable(view->device.device_type)) {
    self->view.data = extent->count > 0 ? (char *)view->data + view->byte_offset : NULL;
    self->view.byte_offset = 0;
  }
  self->flags = flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  if (view->dtype.bits * view->dtype.lanes % 8 != 0)
    self->flags |= flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  self->writability_unknown = writability_unknown;
  self->stream = DEFAULT_STREAM;
  self->share = NULL;
  self->weak = NULL;
  self->missing = NULL;
  self->extent = *extent;
  return self;
}

Tensor *tensor_on_share(PyTypeObject *type, dlbcore_share *share, const DLTensor *view, uint64_t flags,
                        int writability_unknown, const dlbcore_extent *extent) {
  Tensor *self = tensor_new(type, view, flags, writability_unknown, extent);
  if (self != NULL) self->share = share;
  else share_end(share);
  return self;
}

Tensor *tensor_like(const Tensor *self, dlbcore_share *share, const DLTensor *view, uint64_t flags, const dlbcore_extent *extent) {
  Tensor *made = tensor_on_share(Py_TYPE((PyObject *)self), share, view, flags, self->writability_unknown, extent);
  if (made != NULL) made->stream = self->stream;
  return made;
}

dlbcore_share *tensor_hold(Tensor *self) {
  dlbcore_share *share;
  LOCK(self);
  share = self->share;
  if (share != NULL) dlbcore_share_retain(share);
  UNLOCK();
  if (share == NULL) raise_closed(self);
  return share;
}

/* The GIL is released for copies that take longer than acquiring it again. */
Tensor *tensor_copy(Tensor *self) {
  char message[MESSAGE_SIZE];
  dlbcore_share *held = tensor_hold(self), *copied = NULL;
  if (held == NULL) return NULL;
  dlbcore_status status;
  if (self->extent.nbytes < 1 << 16) {
    status = dlbcore_copy_compact(&copied, &self->view, self->flags, message, sizeof message);
  } else {
    WITHOUT_GIL(status = dlbcore_copy_compact(&copied, &self->view, self->flags, message, sizeof message));
  }
  share_end(held);
  if (status != CORE_OK) return (Tensor *)raise_status(status, "copy", message);
  DLTensor view = self->view;
  dlbcore_extent extent = self->extent;
  view.data = copied->data;
  view.device = (DLDevice){kDLCPU, 0};
  view.strides = NULL;
  extent.low = 0;
  extent.high = extent.nbytes;
  extent.row_major = 1;
  uint64_t flags = self->flags & ~DLPACK_FLAG_BITMASK_READ_ONLY;
  return tensor_on_share(Py_TYPE((PyObject *)self), copied, &view, flags, 0, &extent);
}

Tensor *tensor_retyped(Tensor *self, DLDataType dtype, const dlbcore_layout *layout, uint64_t padded, const char *place) {
  dlbcore_extent extent;
  DLTensor view = self->view;
  uint64_t flags = (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) | padded;
  view.dtype = dtype;
  if (layout != NULL) {
    view.ndim = layout->ndim;
    view.shape = layout->shape;
    view.strides = layout->strides;
  }
  if (check_tensor(&view, flags, &extent, place) < 0) return NULL;
  dlbcore_share *share = tensor_hold(self);
  if (share == NULL) return NULL;
  return tensor_like(self, share, &view, flags, &extent);
}

void tensor_dealloc(PyObject *op) {
  Tensor *self = (Tensor *)op;
  PyTypeObject *type = Py_TYPE(op);
  if (self->weak != NULL) PyObject_ClearWeakRefs(op);
  if (self->share != NULL) share_end(self->share);
  Py_XDECREF(self->missing);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* The type has no subtypes, so its deallocator identifies it, whichever module it was made in. */
int tensor_check(PyObject *object) {
  return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)tensor_dealloc;
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
