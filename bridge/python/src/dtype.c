#include "extension.h"

#include <dlbridge.h>
#include <string.h>
#include <text.h>

/* The letters of the buffer protocol (PEP 3118), in native size. */
static const struct {
  const char *letter;
  uint8_t code, bits;
} letters[] = {
    {"?", kDLBool, 8}, {"b", kDLInt, 8}, {"h", kDLInt, 16}, {"i", kDLInt, 32}, {sizeof(long) == 8 ? "l" : "q", kDLInt, 64},
    {"B", kDLUInt, 8}, {"H", kDLUInt, 16}, {"I", kDLUInt, 32}, {sizeof(long) == 8 ? "L" : "Q", kDLUInt, 64},
    {"e", kDLFloat, 16}, {"f", kDLFloat, 32}, {"d", kDLFloat, 64}, {"Zf", kDLComplex, 64}, {"Zd", kDLComplex, 128},
};

int64_t dtype_itemsize(DLDataType dtype) { return ((int64_t)dtype.bits * dtype.lanes + 7) / 8; }

/* Parses a name by the rules of dlb_dtype_parse. */
static int parse_text(PyObject *name, DLDataType *out) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == NULL) return -1;
  int whole = strlen(text) == (size_t)size;
  if (whole && dlb_dtype_parse(out, text, NULL) == DLB_OK) return 0;
  if (whole && *text == '>' && dlb_dtype_parse(out, text + 1, NULL) == DLB_OK)
    return raise_error(PyExc_BufferError,
                       "dlbridge: dtype %R is not in native byte order, which all of DLPack is; swap the bytes first", name);
  return raise_error(PyExc_TypeError, /* as NumPy */
                     "dlbridge: dtype %R is not known; the names are those of NumPy and ml_dtypes, such as 'float32' or "
                     "'bfloat16', and NumPy's type strings, such as '<f4'",
                     name);
}

int dtype_parse(PyObject *object, DLDataType *out) {
  if (PyUnicode_Check(object)) return parse_text(object, out);
  PyObject *module = PyImport_ImportModule("dlbridge._dtypes");
  PyObject *name = module == NULL ? NULL : PyObject_CallMethod(module, "name_of", "(O)", object);
  int result = name == NULL ? -1 : parse_text(name, out);
  Py_XDECREF(name);
  Py_XDECREF(module);
  return result;
}

PyObject *dtype_name(DLDataType dtype) {
  char name[64];
  dlbcapi_text text = {name, sizeof name, 0};
  dlbcapi_write_dtype(&text, dtype);
  return PyUnicode_FromStringAndSize(name, (Py_ssize_t)text.size);
}

PyObject *dtype_object(module_state *state, DLDataType dtype) {
  PyObject *name = dtype_name(dtype);
  if (name == NULL || state == NULL) return name;
  if (state->dtype_class == NULL) {
    PyObject *module = PyImport_ImportModule("dlbridge._dtypes");
    if (module != NULL) REPLACE(state->dtype_class, PyObject_GetAttrString(module, "DType"));
    Py_XDECREF(module);
  }
  PyObject *object = state->dtype_class == NULL ? NULL : PyObject_CallFunctionObjArgs(state->dtype_class, name, NULL);
  Py_DECREF(name);
  return object;
}

/* (object) -> the name of the data type that the object names */
PyObject *dtype_of(PyObject *Py_UNUSED(module), PyObject *object) {
  DLDataType dtype;
  return dtype_parse(object, &dtype) < 0 ? NULL : dtype_name(dtype);
}

const char *dtype_letter(DLDataType dtype) {
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
    if (letters[i].code == dtype.code && letters[i].bits == dtype.bits && dtype.lanes == 1) return letters[i].letter;
  }
  return NULL;
}

static const struct {
  const char *letters;
  int code;
} kinds[] = {{"bhilqn", kDLInt}, {"BHILQN", kDLUInt}, {"efd", kDLFloat}, {"?", kDLBool}};

/* The letter determines only the kind of the type. The width is the item size, because that of a letter depends on the
 * producer: 'l' has 8 bytes in native size, and 4 in standard size. */
int dtype_of_format(const char *format, Py_ssize_t itemsize, DLDataType *out) {
  const char *letter = format == NULL ? "B" : format;
  int swapped = *letter == '>' || *letter == '!';
  if (strchr("@=<>!", *letter) != NULL && *letter != '\0') letter++;
  int code = -1;
  if (letter[0] == 'Z' && (letter[1] == 'f' || letter[1] == 'd')) {
    code = kDLComplex;
    letter++;
  }
  for (int k = 0; k < 4 && code < 0 && *letter != '\0'; k++) {
    if (strchr(kinds[k].letters, *letter) != NULL) code = kinds[k].code;
  }
  DLDataType dtype = {(uint8_t)code, (uint8_t)(itemsize * 8), 1};
  if (code < 0 || letter[1] != '\0' || itemsize > 16 || dtype_letter(dtype) == NULL)
    return raise_error(PyExc_BufferError,
                       "dlbridge: DLPack has no dtype for a buffer of format '%s' with elements of %zd bytes; dtype= names one",
                       format == NULL ? "B" : format, itemsize);
  if (swapped && itemsize > 1)
    return raise_error(PyExc_BufferError,
                       "dlbridge: a buffer of format '%s' is not in native byte order; convert it first", format);
  *out = dtype;
  return 0;
}
