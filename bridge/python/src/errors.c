/* Exceptions: how errors of the core, of C functions, and of calls on closed Tensors, are raised. */
#include "extension.h"

#include <dlbridge.h>
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

PyObject *raise_closed(const Tensor *self) {
  if (self->missing != NULL) return PyErr_Format(PyExc_ConnectionError, "dlbridge: the tensor was not handed over: %U", self->missing);
  return PyErr_Format(PyExc_ValueError, "dlbridge: the tensor is closed");
}

int check_readable(const Tensor *self, const char *place) {
  if (self->share == NULL) return raise_closed(self), -1;
  if (dlbcore_host_readable(self->view.device.device_type)) return 0;
  return raise_error(PyExc_BufferError,
                     "dlbridge: %s: the memory is not in the host; dlbridge.from_dlpack(x, device='cpu', copy=True) asks the producer x for "
                     "a copy on the CPU",
                     place);
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
    case DLB_ERROR_METADATA:
    case DLB_ERROR_ARGUMENT:
    case DLB_ERROR_ROOM:
    case CORE_NEEDS_COPY:
      return PyExc_ValueError;
    default: /* an error of a function's own, or an unknown code */
      return PyExc_RuntimeError;
  }
}

/* Returns `prefix` and a text of the core or a dlb_error, with the ways out in words of Python. */
static PyObject *in_python(const char *prefix, const char *text) {
  static const struct {
    const char *in_c, *in_python;
  } remedies[] = {
#define REMEDY(in_go, in_c, in_python) {in_c, in_python},
#include "internal/errtext/remedies.h"
#undef REMEDY
  };
  PyObject *out = PyUnicode_FromFormat("%s%s", prefix, text);
  for (size_t i = 0; out != NULL && i < sizeof remedies / sizeof *remedies; i++) {
    if (strstr(text, remedies[i].in_c) == NULL) continue;
    PyObject *from = PyUnicode_FromString(remedies[i].in_c), *to = PyUnicode_FromString(remedies[i].in_python);
    PyObject *replaced = from == NULL || to == NULL ? NULL : PyUnicode_Replace(out, from, to, -1);
    Py_XDECREF(from);
    Py_XDECREF(to);
    REPLACE(out, replaced);
  }
  return out;
}

PyObject *raise_status(dlbcore_status status, const char *place, const char *message) {
  PyObject *text = in_python("", message);
  if (text != NULL) PyErr_Format(status_type(status), "dlbridge: %s: %U", place, text);
  Py_XDECREF(text);
  return NULL;
}

void add_note(const char *format, ...) {
  PyObject *type, *error, *traceback;
  va_list arguments;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  va_start(arguments, format);
  PyObject *note = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  PyObject *none = note == NULL ? NULL : PyObject_CallMethod(error, "add_note", "O", note);
  if (none == NULL) PyErr_Clear();
  Py_XDECREF(none);
  Py_XDECREF(note);
  PyErr_Restore(type, error, traceback);
}

PyObject *raise_text(PyObject *type, const char *prefix, const char *text) {
  char copy[sizeof((dlb_error *)NULL)->message];
  size_t length = strnlen(text, sizeof copy - 1);
  memcpy(copy, text, length);
  copy[length] = '\0';
  char *line = strstr(copy, "\n  in ");
  if (line != NULL) *line = '\0';
  PyObject *shown = in_python(prefix, copy);
  if (shown != NULL) PyErr_SetObject(type, shown);
  Py_XDECREF(shown);
  while (line != NULL) {
    char *frame = line + strlen("\n  ");
    line = strstr(frame, "\n  ");
    if (line != NULL) *line = '\0';
    add_note("%s", frame);
  }
  return NULL;
}

int check_tensor(const DLTensor *view, uint64_t flags, dlbcore_extent *extent, const char *place) {
  char message[MESSAGE_SIZE];
  dlbcore_status status = dlbcore_check_tensor(view, flags, extent, message, sizeof message);
  if (status == CORE_OK) return 0;
  raise_status(status, place, message);
  return -1;
}
