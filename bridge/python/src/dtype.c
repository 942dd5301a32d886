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

/* A Tensor -> the Tensor itself if C can read its elements where they lie, which must be at multiples of the size of a number, or
 * if they are memory of a device; else a copy */
PyObject *dtype_aligned(PyObject *Py_UNUSED(module), PyObject *op) {
  if (!tensor_check(op)) return PyErr_Format(PyExc_TypeError, "dlbridge: aligned: the argument is not a Tensor");
  const Tensor *self = (const Tensor *)op;
  const DLDataType dtype = self->view.dtype;
  const int bytes = dtype.bits / (dtype.code == kDLComplex ? 16 : 8);
  if (self->share == NULL || bytes < 2 || ((uintptr_t)self->view.data + self->view.byte_offset) % (uintptr_t)bytes == 0 ||
      !dlbcore_host_readable(self->view.device.device_type))
    return Py_NewRef(op);
  return (PyObject *)tensor_copy((Tensor *)op);
}

/* Parses a name by the rules of dlb_dtype_parse. */
static int parse_text(PyObject *name, DLDataType *out) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == NULL) return -1;
  int whole = strlen(text) == (size_t)size;
  if (whole && dlb_dtype_parse(out, text, NULL) == DLB_OK) return 0;
  if (whole && *text == '>' && dlb_dtype_parse(out, text + 1, NULL) == DLB_OK)
    return raise_error(PyExc_BufferError,
                       "dlbridge: dtype %R is not in native byte order, which DLPack requires; swap the bytes first", name);
  return raise_error(PyExc_TypeError, /* as NumPy */
                     "dlbridge: dtype %R is not known; the names are those of NumPy and ml_dtypes, such as 'float32' or "
                     "'bfloat16', and NumPy's type strings, such as '<f4'",
                     name);
}

/* ---- known objects ---------------------------------------------------------------------------- */

static int is_same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

/* Sets *out to the data type that a remembered object names, and reports whether it is remembered. */
static int recall(module_state *state, PyObject *object, DLDataType *out) {
  int found = 0;
  LOCK_CORE();
  for (int i = 0; i < KNOWN_DTYPES && !found; i++) {
    found = state->known[i].object == object;
    if (found) *out = state->known[i].dtype;
  }
  UNLOCK_CORE();
  return found;
}

/* Caches the data type of an object, in place of the oldest object. The reference keeps its address from being reused. */
static void remember(module_state *state, PyObject *object, DLDataType dtype) {
  PyObject *was;
  Py_INCREF(object);
  LOCK_CORE();
  known_dtype *place = &state->known[state->next_known++ % KNOWN_DTYPES];
  was = place->object;
  *place = (known_dtype){object, dtype};
  UNLOCK_CORE();
  Py_XDECREF(was);
}

PyObject *imported_numpy(const char *name) {
  PyObject *module = PyUnicode_FromString("numpy"), *numpy = module == NULL ? NULL : PyImport_GetModule(module);
  PyObject *attribute = numpy == NULL || numpy == Py_None ? NULL : PyObject_GetAttrString(numpy, name);
  Py_XDECREF(numpy);
  Py_XDECREF(module);
  return attribute;
}

/* Reports whether an object always names the same data type: Python's own types, and NumPy's dtypes and scalar types. */
static int is_lasting(PyObject *object) {
  if (PyType_Check(object) && !(PyType_GetFlags((PyTypeObject *)object) & Py_TPFLAGS_HEAPTYPE)) return 1;
  PyObject *of_numpy = imported_numpy(PyType_Check(object) ? "generic" : "dtype");
  PyTypeObject *type = PyType_Check(object) ? (PyTypeObject *)object : Py_TYPE(object);
  int lasting = of_numpy != NULL && PyType_Check(of_numpy) && PyType_IsSubtype(type, (PyTypeObject *)of_numpy);
  Py_XDECREF(of_numpy);
  PyErr_Clear();
  return lasting;
}

int dtype_parse(module_state *state, PyObject *object, DLDataType *out) {
  if (state == NULL) return -1;
  if (!PyUnicode_CheckExact(object) && recall(state, object, out)) return 0;
  if (PyUnicode_Check(object)) return parse_text(object, out);
  PyObject *module = PyImport_ImportModule("dlbridge._dtypes");
  PyObject *name = module == NULL ? NULL : PyObject_CallMethod(module, "name_of", "(O)", object);
  int result = name == NULL ? -1 : parse_text(name, out);
  Py_XDECREF(name);
  Py_XDECREF(module);
  if (result == 0 && is_lasting(object)) remember(state, object, *out);
  return result;
}

PyObject *dtype_name(DLDataType dtype) {
  char name[64];
  dlbcapi_text text = {name, sizeof name, 0};
  dlbcapi_write_dtype(&text, dtype);
  return PyUnicode_FromStringAndSize(name, (Py_ssize_t)text.size);
}

/* (object) -> the name of the data type that the object names */
PyObject *dtype_of(PyObject *module, PyObject *object) {
  DLDataType dtype;
  return dtype_parse(PyModule_GetState(module), object, &dtype) < 0 ? NULL : dtype_name(dtype);
}

/* ---- the type DType --------------------------------------------------------------------------- */

PyObject *dtype_object(module_state *state, DLDataType dtype) {
  PyObject *object = NULL;
  if (state == NULL) return NULL;
  LOCK_CORE();
  for (int i = 0; i < KNOWN_DTYPES && object == NULL; i++) {
    const known_dtype *known = &state->known[i];
    if (known->object != NULL && is_same(known->dtype, dtype) && Py_IS_TYPE(known->object, state->dtype_type))
      object = Py_NewRef(known->object);
  }
  UNLOCK_CORE();
  if (object != NULL) return object;
  PyObject *name = dtype_name(dtype);
  object = name == NULL ? NULL : PyObject_CallFunctionObjArgs((PyObject *)state->dtype_type, name, NULL);
  Py_XDECREF(name);
  if (object != NULL) remember(state, object, dtype);
  return object;
}

static PyObject *dtype_compare(PyObject *self, PyObject *other, int operation) {
  if (operation != Py_EQ && operation != Py_NE) return PyUnicode_RichCompare(self, other, operation);
  if (PyUnicode_Check(other)) {
    PyObject *same = PyUnicode_RichCompare(self, other, Py_EQ);
    Py_XDECREF(same);
    if (same == NULL) return NULL;
    if (same == Py_True) return PyBool_FromLong(operation == Py_EQ);
  }
  module_state *state = PyType_GetModuleState(Py_TYPE(self));
  DLDataType left, right;
  if (dtype_parse(state, other, &right) == 0 && dtype_parse(state, self, &left) == 0)
    return PyBool_FromLong(is_same(left, right) == (operation == Py_EQ));
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
      !PyErr_ExceptionMatches(PyExc_BufferError))
    return NULL;
  PyErr_Clear();
  Py_RETURN_NOTIMPLEMENTED;
}

static Py_hash_t dtype_hash(PyObject *self) {
  return ((hashfunc)PyType_GetSlot(&PyUnicode_Type, Py_tp_hash))(self);
}

static PyObject *dtype_reduce(PyObject *self, PyObject *Py_UNUSED(ignored)) {
  PyObject *text = PyObject_Str(self); /* of exactly the type str */
  return text == NULL ? NULL : Py_BuildValue("O(N)", &PyUnicode_Type, text);
}

static PyObject *dtype_get_itemsize(PyObject *self, void *Py_UNUSED(closure)) {
  DLDataType dtype;
  if (dtype_parse(PyType_GetModuleState(Py_TYPE(self)), self, &dtype) < 0) return NULL;
  return PyLong_FromLongLong(dtype_itemsize(dtype));
}

/* A cached DType refers, through its type, to the module that caches it. The collector must see this to free the module. */
static int dtype_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

PyDoc_STRVAR(dtype_doc,
             "The data type of a Tensor: a str that is equal to every name of the type.\n\n"
             "    >>> t = dlbridge.empty(3, 'float32')\n"
             "    >>> t.dtype, t.dtype == np.float32, t.dtype == '<f4', t.dtype == float\n"
             "    ('float32', True, True, False)\n"
             "    >>> t.dtype.itemsize\n"
             "    4");
PyDoc_STRVAR(dtype_reduce_doc, "__reduce__($self, /)\n--\n\nReturns what pickle writes: the name, as a str.");

static PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, dtype_reduce_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef dtype_getset[] = {
    {"itemsize", dtype_get_itemsize, NULL,
     "The size of one element in bytes, with all lanes, rounded up to whole bytes.\n\n"
     "It is 16 for 'float32x4', and 1 for 'int4', although two elements of int4 can share a byte (Tensor.nbytes).", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot dtype_slots[] = {
    {Py_tp_doc, (void *)dtype_doc},
    {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_getset},
    {Py_tp_richcompare, (void *)dtype_compare},
    {Py_tp_hash, (void *)dtype_hash},
    {Py_tp_traverse, (void *)dtype_traverse},
    {0, NULL},
};

PyType_Spec dtype_spec = {
    .name = "dlbridge._core.DType",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = dtype_slots,
};

/* ---- letters of the buffer protocol ----------------------------------------------------------- */

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

/* The letter determines only the kind of the type. The width is the item size, because the width of a letter depends on the
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
                       "dlbridge: DLPack has no dtype for a buffer of format '%s' with elements of %zd byte%s; use dtype= to name one",
                       format == NULL ? "B" : format, itemsize, ENDING(itemsize));
  if (swapped && itemsize > 1)
    return raise_error(PyExc_BufferError,
                       "dlbridge: a buffer of format '%s' is not in native byte order; numpy.asarray(x).astype(dtype) converts it", format);
  *out = dtype;
  return 0;
}
