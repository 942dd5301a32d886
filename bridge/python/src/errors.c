/* Exceptions: how errors of the core, and of calls on closed Tensors, are raised. */
#include "extension.h"

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

PyObject *raise_closed(const Tensor *self) {
  if (self->missing != NULL) return PyErr_Format(PyExc_ConnectionError, "dlbridge: the tensor was not handed over: %U", self->missing);
  return PyErr_Format(PyExc_ValueError, "dlbridge: the tensor is closed");
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
    case CORE_ERR_SYSTEM:
      return PyExc_OSError;
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
