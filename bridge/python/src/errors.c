/* Exceptions: how errors of the core, of C functions, and of calls on closed Tensors, are raised. */
#include "extension.h"

#include <dlbridge.h>

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

/* A status of the core is the code of dlbridge.h for the same error. */
_Static_assert(DLB_ERROR_VERSION == (int)CORE_ERR_VERSION && DLB_ERROR_CLOSED == (int)CORE_ERR_CLOSED, "codes of errors");

PyObject *status_type(int32_t code) {
  switch (code) {
    case DLB_ERROR_VERSION:
    case DLB_ERROR_DTYPE:
    case DLB_ERROR_DEVICE:
    case DLB_ERROR_READONLY:
      return PyExc_BufferError;
    case DLB_ERROR_MEMORY:
      return PyExc_MemoryError;
    case DLB_ERROR_SYSTEM:
      return PyExc_OSError;
    case DLB_ERROR_CLOSED:
      return PyExc_ConnectionError;
    case DLB_ERROR_NULL:
    case DLB_ERROR_LAYOUT:
    case DLB_ERROR_OVERFLOW:
    case DLB_ERROR_UNALIGNED:
    case DLB_ERROR_FORMAT:
    case DLB_ERROR_ARGUMENT:
    case DLB_ERROR_ROOM:
    case CORE_NEEDS_COPY:
      return PyExc_ValueError;
    default: /* an error of a function's own, or an unknown code */
      return PyExc_RuntimeError;
  }
}

PyObject *raise_status(dlbcore_status status, const char *place, const char *message) {
  return PyErr_Format(status_type(status), "dlbridge: %s: %s", place, message);
}

int check_tensor(const DLTensor *view, uint64_t flags, dlbcore_extent *extent, const char *place) {
  char message[MESSAGE_SIZE];
  dlbcore_status status = dlbcore_check_tensor(view, flags, extent, message, sizeof message);
  if (status == CORE_OK) return 0;
  raise_status(status, place, message);
  return -1;
}
