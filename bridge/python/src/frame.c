/* Frames for the Go library, and the limits, lists and memoryviews of decoders. */
#include "library.h"

#include <stdlib.h>
#include <string.h>

int lend_frame(PyObject *object, dlb_frame *frame) {
  Py_buffer *buffer = loan_begin(object, PyBUF_SIMPLE);
  if (buffer == NULL) return -1;
  *frame = (dlb_frame){.data = buffer->buf,
                       .size = (size_t)buffer->len,
                       .release = loan_end,
                       .ctx = buffer,
                       .flags = buffer->readonly ? 0 : DLB_FRAME_WRITABLE};
  return 0;
}

PyObject *view_of_frame(module_state *state, const dlb_frame *frame) {
  int64_t shape[1] = {(int64_t)frame->size};
  dlbcore_extent extent = {.count = shape[0], .nbytes = shape[0], .high = shape[0], .row_major = 1};
  DLTensor view = {.data = (void *)(uintptr_t)frame->data, .device = {kDLCPU, 0}, .ndim = 1,
                   .dtype = {kDLUInt, 8, 1}, .shape = shape};
  uint64_t flags = frame->flags & DLB_FRAME_WRITABLE ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY;
  dlbcore_share *share = share_begin(frame->release, frame->ctx);
  if (share == NULL) {
    if (frame->release != NULL) frame->release(frame->ctx);
    return PyErr_NoMemory();
  }
  Tensor *tensor = tensor_on_share(state->tensor_type, share, &view, flags, 0, &extent);
  if (tensor == NULL) return NULL;
  PyObject *memory = PyMemoryView_FromObject((PyObject *)tensor);
  Py_DECREF(tensor);
  return memory;
}

PyObject *view_again(module_state *state, PyObject *object, const dlb_frame *lent) {
  dlb_frame frame;
  if (lend_frame(object, &frame) < 0) return NULL;
  if (frame.size == lent->size &&
      (frame.data == lent->data || memcmp(frame.data, lent->data, frame.size) == 0))
    return view_of_frame(state, &frame);
  frame.release(frame.ctx);
  return PyErr_Format(PyExc_ValueError, "dlbridge: the buffer of data returns different bytes on each request");
}

PyObject *list_of(size_t count, PyObject *(*item)(void *ctx, size_t index), void *ctx) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  if (list != NULL) PyObject_GC_UnTrack(list);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *object = item(ctx, i);
    if (object != NULL) PyList_SetItem(list, (Py_ssize_t)i, object);
    else Py_CLEAR(list);
  }
  if (list != NULL) PyObject_GC_Track(list);
  return list;
}

int parse_limit(PyObject *object, void *out) {
  const long long most = (1LL << 47) - 1; /* the most that DLB_LIMIT can hold */
  PyObject *number = PyNumber_Index(object);
  if (number == NULL) return 0;
  int overflow;
  long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  int negative = overflow < 0 || (overflow == 0 && value < 0);
  if (negative) PyErr_Format(PyExc_ValueError, "dlbridge: limit = %R is negative", number);
  Py_DECREF(number);
  *(uint64_t *)out = (uint64_t)(overflow > 0 || value > most ? most : value);
  return !negative;
}

PyObject *check_limit(PyObject *Py_UNUSED(module), PyObject *object) {
  uint64_t limit;
  if (!parse_limit(object, &limit)) return NULL;
  Py_RETURN_NONE;
}

/* CPython 3.11 loses a reference if a list without items, as in PySequence_List, cannot allocate memory for the items of another list. */
PyObject *private_list(PyObject *sequence) {
  PyObject *iterator = PyObject_GetIter(sequence), *list = iterator == NULL ? NULL : PyList_New(0), *item;
  if (list != NULL) PyObject_GC_UnTrack(list);
  while (list != NULL && (item = PyIter_Next(iterator)) != NULL) {
    if (PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_DECREF(item);
  }
  if (PyErr_Occurred()) Py_CLEAR(list);
  Py_XDECREF(iterator);
  return list;
}
