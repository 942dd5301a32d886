#include "extension.h"

#include <dlbridge.h>
#include <string.h>

/* The names of the Go package, and the letters. dlb_dtype_parse reads these names, and those of types with several lanes. */
static const struct {
  const char *name;
  uint8_t code, bits;
  const char *letter; /* PEP 3118, native size */
} dtypes[] = {
    {"bool", kDLBool, 8, "?"},
    {"int2", kDLInt, 2, NULL},
    {"int4", kDLInt, 4, NULL},
    {"int8", kDLInt, 8, "b"},
    {"int16", kDLInt, 16, "h"},
    {"int32", kDLInt, 32, "i"},
    {"int64", kDLInt, 64, sizeof(long) == 8 ? "l" : "q"},
    {"uint2", kDLUInt, 2, NULL},
    {"uint4", kDLUInt, 4, NULL},
    {"uint8", kDLUInt, 8, "B"},
    {"uint16", kDLUInt, 16, "H"},
    {"uint32", kDLUInt, 32, "I"},
    {"uint64", kDLUInt, 64, sizeof(long) == 8 ? "L" : "Q"},
    {"float16", kDLFloat, 16, "e"},
    {"float32", kDLFloat, 32, "f"},
    {"float64", kDLFloat, 64, "d"},
    {"complex32", kDLComplex, 32, NULL},
    {"complex64", kDLComplex, 64, "Zf"},
    {"complex128", kDLComplex, 128, "Zd"},
    {"bfloat16", kDLBfloat, 16, NULL},
    {"float8_e3m4", kDLFloat8_e3m4, 8, NULL},
    {"float8_e4m3", kDLFloat8_e4m3, 8, NULL},
    {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8, NULL},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8, NULL},
    {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8, NULL},
    {"float8_e5m2", kDLFloat8_e5m2, 8, NULL},
    {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8, NULL},
    {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8, NULL},
    {"float6_e2m3fn", kDLFloat6_e2m3fn, 6, NULL},
    {"float6_e3m2fn", kDLFloat6_e3m2fn, 6, NULL},
    {"float4_e2m1fn", kDLFloat4_e2m1fn, 4, NULL},
    {"handle8", kDLOpaqueHandle, 8, NULL},
    {"handle16", kDLOpaqueHandle, 16, NULL},
    {"handle32", kDLOpaqueHandle, 32, NULL},
    {"handle64", kDLOpaqueHandle, 64, NULL},
    {"handle128", kDLOpaqueHandle, 128, NULL},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static int find(uint8_t code, uint8_t bits) {
  for (int i = 0; i < DTYPES; i++) {
    if (dtypes[i].code == code && dtypes[i].bits == bits) return i;
  }
  return -1;
}

int64_t dtype_itemsize(DLDataType dtype) { return ((int64_t)dtype.bits * dtype.lanes + 7) / 8; }

/* Further names of NumPy: those of C types, and letters. `long` has 64 bits, as on all systems that the package supports. */
static const char *const aliases[][2] = {
    {"half", "float16"}, {"single", "float32"}, {"double", "float64"}, {"float", "float64"}, {"csingle", "complex64"},
    {"cdouble", "complex128"}, {"complex", "complex128"}, {"int", "int64"}, {"uint", "uint64"}, {"byte", "int8"},
    {"ubyte", "uint8"}, {"short", "int16"}, {"ushort", "uint16"}, {"intc", "int32"}, {"uintc", "uint32"}, {"long", "int64"},
    {"ulong", "uint64"}, {"longlong", "int64"}, {"ulonglong", "uint64"}, {"intp", "int64"}, {"uintp", "uint64"},
    {"e", "float16"}, {"f", "float32"}, {"d", "float64"}, {"F", "complex64"}, {"D", "complex128"}, {"b", "int8"},
    {"B", "uint8"}, {"h", "int16"}, {"H", "uint16"}, {"i", "int32"}, {"I", "uint32"}, {"l", "int64"}, {"L", "uint64"},
    {"q", "int64"}, {"Q", "uint64"},
};

/* Parses a name or one of NumPy's type strings, by the rules of dlb_dtype_parse, and NumPy's further names. */
static int parse_text(PyObject *name, DLDataType *out) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == NULL) return -1;
  int whole = strlen(text) == (size_t)size;
  if (whole && dlb_dtype_parse(out, text, NULL) == DLB_OK) return 0;
  for (size_t k = 0; whole && k < sizeof aliases / sizeof *aliases; k++) {
    if (strcmp(text, aliases[k][0]) == 0 && dlb_dtype_parse(out, aliases[k][1], NULL) == DLB_OK) return 0;
  }
  if (whole && *text == '>' && dlb_dtype_parse(out, text + 1, NULL) == DLB_OK)
    return raise_error(PyExc_BufferError,
                       "dlbridge: dtype %R is not in native byte order, which all of DLPack is; swap the bytes first", name);
  return raise_error(PyExc_ValueError,
                     "dlbridge: dtype %R is not known; the names are those of NumPy and ml_dtypes, such as 'float32' or "
                     "'bfloat16', and NumPy's type strings, such as '<f4'",
                     name);
}

int dtype_parse(PyObject *object, DLDataType *out) {
  if (PyUnicode_Check(object)) return parse_text(object, out);
  PyObject *module = PyImport_ImportModule("dlbridge._dtypes");
  PyObject *name = module == NULL ? NULL : PyObject_CallMethod(module, "name_of", "O", object);
  int result = name == NULL ? -1 : parse_text(name, out);
  Py_XDECREF(name);
  Py_XDECREF(module);
  return result;
}

PyObject *dtype_name(DLDataType dtype) {
  int i = find(dtype.code, dtype.bits);
  if (i < 0) return PyErr_Format(PyExc_BufferError, "dlbridge: the data type has no name");
  if (dtype.lanes == 1) return PyUnicode_FromString(dtypes[i].name);
  return PyUnicode_FromFormat("%sx%d", dtypes[i].name, (int)dtype.lanes);
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
  int i = dtype.lanes == 1 ? find(dtype.code, dtype.bits) : -1;
  return i < 0 ? NULL : dtypes[i].letter;
}

static const struct {
  const char *letters;
  int code;
} kinds[] = {{"bhilqn", kDLInt}, {"BHILQN", kDLUInt}, {"efd", kDLFloat}, {"?", kDLBool}};

/* The letter only determines the kind of the type. The width is the item size, because ctypes uses '<l' for eight
 * bytes. */
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
  int i = code < 0 || letter[1] != '\0' || itemsize > 16 ? -1 : find((uint8_t)code, (uint8_t)(itemsize * 8));
  if (i < 0 || dtypes[i].letter == NULL)
    return raise_error(PyExc_BufferError,
                       "dlbridge: DLPack has no dtype for a buffer of format '%s' with elements of %zd bytes; dtype= names one",
                       format == NULL ? "B" : format, itemsize);
  if (swapped && itemsize > 1)
    return raise_error(PyExc_BufferError,
                       "dlbridge: a buffer of format '%s' is not in native byte order; convert it first", format);
  *out = (DLDataType){dtypes[i].code, dtypes[i].bits, 1};
  return 0;
}
