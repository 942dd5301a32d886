/* The arguments of functions and methods. */
#include "extension.h"

#include <dlbridge.h>
#include <string.h>

array_method array_method_of(PyObject *method) {
  if (!PyCFunction_CheckExact(method) || PyCFunction_GetFlags(method) != (METH_FASTCALL | METH_KEYWORDS)) return NULL;
  return (array_method)(void (*)(void))PyCFunction_GetFunction(method);
}

int parse_arguments(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                    Py_ssize_t positional, const char *const *names, Py_ssize_t count, PyObject **values) {
  if (nargs > positional)
    return raise_error(PyExc_TypeError, "dlbridge: %s: takes %zd positional argument%s, but %zd were given", function,
                       positional, positional == 1 ? "" : "s", nargs);
  for (Py_ssize_t i = 0; i < count; i++) values[i] = i < nargs ? args[i] : NULL;
  Py_ssize_t keywords = kwnames == NULL ? 0 : PyTuple_Size(kwnames);
  for (Py_ssize_t k = 0; k < keywords; k++) {
    PyObject *name = PyTuple_GetItem(kwnames, k);
    Py_ssize_t size, i = 0;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (text == NULL) PyErr_Clear(); /* a surrogate, which no name has */
    while (i < count && (text == NULL || names[i] == NULL || strcmp(text, names[i]) != 0 || strlen(text) != (size_t)size))
      i++;
    if (i == count || values[i] != NULL)
      return raise_error(PyExc_TypeError, "dlbridge: %s: %s argument '%U'", function,
                         i == count ? "unexpected keyword" : "more than one value for", name);
    values[i] = args[nargs + k];
  }
  return 0;
}

/* Returns the number of a device type, which may be a member of any Enum. -1 with an exception if it has none. */
static long device_type_of(PyObject *type) {
  PyObject *value = PyLong_Check(type) ? Py_NewRef(type) : PyObject_GetAttrString(type, "value");
  if (value == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Clear();
    value = Py_NewRef(type);
  }
  long number = PyLong_AsLong(value);
  Py_DECREF(value);
  return number;
}

int parse_device(PyObject *object, const char *name, DLDevice *out) {
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2) {
    long type = device_type_of(PyTuple_GetItem(object, 0));
    long id = PyErr_Occurred() ? 0 : PyLong_AsLong(PyTuple_GetItem(object, 1));
    int failed = PyErr_Occurred() != NULL;
    if (failed && !PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    int too_large = failed ? PyErr_ExceptionMatches(PyExc_OverflowError) : type != (int32_t)type || id != (int32_t)id;
    PyErr_Clear();
    if (too_large) return raise_error(PyExc_BufferError, "dlbridge: %s %R is not a device", name, object);
    *out = (DLDevice){(DLDeviceType)type, (int32_t)id};
    if (!failed) return 0;
  } else if (PyUnicode_Check(object)) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text != NULL && strlen(text) == (size_t)size && dlb_device_parse(out, text, NULL) == DLB_OK) return 0;
    PyErr_Clear();
    return raise_error(PyExc_ValueError, "dlbridge: %s %R is not known; the names are such as 'cpu' or 'cuda:0'", name, object);
  }
  return raise_error(PyExc_TypeError,
                     "dlbridge: %s must be a name, such as 'cpu' or 'cuda:0', or a tuple (type, id) of ints, not %R", name,
                     object);
}

int is_on(DLDevice is, DLDevice wanted) {
  if (wanted.device_type == kDLCPU) return dlbcore_host_readable(is.device_type);
  return is.device_type == wanted.device_type && is.device_id == wanted.device_id;
}

int check_device(const char *place, DLDevice *is, DLDevice wanted) {
  if (is_on(*is, wanted)) {
    if (is->device_type != wanted.device_type) *is = (DLDevice){kDLCPU, 0};
    return 0;
  }
  return raise_error(PyExc_BufferError, "dlbridge: %s: the memory is on device (%d, %d), not on (%d, %d)", place,
                     (int)is->device_type, (int)is->device_id, (int)wanted.device_type, (int)wanted.device_id);
}

int parse_stream(const char *place, PyObject *object, DLDevice device, int64_t *out) {
  *out = DEFAULT_STREAM;
  if (object == NULL || object == Py_None) return 0;
  if (!PyLong_Check(object))
    return raise_error(PyExc_TypeError, "dlbridge: %s: stream must be None or an int, not %R", place, object);
  int overflow, cuda = device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged, rocm = device.device_type == kDLROCM;
  long long stream = PyLong_AsLongLongAndOverflow(object, &overflow);
  if ((cuda && stream == 1) || (rocm && stream == 0)) return 0;
  if (stream < -1 || overflow != 0 || (dlbcore_host_readable(device.device_type) && stream >= 0) || (cuda && stream == 0) ||
      (rocm && (stream == 1 || stream == 2)))
    return raise_error(PyExc_ValueError, "dlbridge: %s: stream = %R is not allowed on device (%d, %d)", place, object,
                       (int)device.device_type, (int)device.device_id);
  *out = stream;
  return 0;
}

int check_stream(const char *place, PyObject *object, DLDevice device, int64_t ready) {
  int64_t stream;
  if (parse_stream(place, object, device, &stream) < 0) return -1;
  if (stream == -1 || stream == ready) return 0;
  const char *asked = object == NULL || object == Py_None ? "the default stream" : "stream ";
  PyObject *number = object == NULL || object == Py_None ? PyUnicode_FromString("") : PyObject_Repr(object);
  if (number == NULL) return -1;
  if (ready == DEFAULT_STREAM)
    PyErr_Format(PyExc_BufferError, "dlbridge: %s: cannot synchronise with %s%U: the memory is ready on the default stream", place, asked,
                 number);
  else if (ready == -1)
    PyErr_Format(PyExc_BufferError,
                 "dlbridge: %s: cannot synchronise with %s%U: from_dlpack with stream=-1 has made the memory ready on no stream; wait for "
                 "it, and hand it on with stream=-1",
                 place, asked, number);
  else
    PyErr_Format(PyExc_BufferError,
                 "dlbridge: %s: cannot synchronise with %s%U: from_dlpack with stream=%lld has made the memory ready on that stream only",
                 place, asked, number, (long long)ready);
  Py_DECREF(number);
  return -1;
}

int parse_copy(PyObject *object, int *out) {
  *out = -1;
  if (object == NULL || object == Py_None) return 0;
  if (!PyBool_Check(object)) /* a ValueError for texts, as in NumPy */
    return raise_error(PyUnicode_Check(object) ? PyExc_ValueError : PyExc_TypeError,
                       "dlbridge: copy must be None or a bool, not %R", object);
  *out = object == Py_True;
  return 0;
}
