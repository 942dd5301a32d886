#include "library.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

/* The type of the functions that dlbridge.wrap makes. They call a C function, and convert its arguments and its result, including
 * managed tensors. */

typedef DLManagedTensorVersioned *managed;
typedef void (*c_function)(void);

enum { RETURNS_TENSOR, RETURNS_NOTHING, RETURNS_OTHER };

enum { DIRECT = 8 }; /* the most arguments of a call that does not need ctypes */

typedef struct {
  PyObject_HEAD
  PyObject *dict, *weak;
  PyObject *name; /* for errors */
  PyObject *held; /* the tuple that holds the references to the following objects; NULL once the collector has cleared it */
  PyObject *call;       /* the ctypes function, without argtypes */
  PyObject *names;      /* a tuple: the name of each argument; None if they have none, and are positional only */
  PyObject *like;       /* a Python function with the same name and parameters; it raises what a wrong call raises in Python */
  PyObject *arguments;  /* a tuple: for each argument its type's from_param; for a tensor what makes a producer of it, or None */
  PyObject *kinds;      /* a tuple: for each argument its type, for errors; None for a tensor */
  PyObject *letters;    /* bytes: for each argument the letter that ctypes has for its type if that is of integers, or else '.' */
  PyObject *to;         /* converts the Tensor that is the result, or None */
  PyObject *pointer;    /* ctypes.c_void_p.from_param */
  PyTypeObject *data, *reference; /* of ctypes: the base of its types, and the type of byref() */
  PyObject *by_value;   /* a tuple of the types that are passed by value: Structure and Union */
  PyObject *reduce;     /* returns what pickle makes the function of */
  PyObject *probe;      /* a ctypes function that does nothing */
  PyObject *refusal;    /* the exception by which ctypes refuses a call; None if the call may raise it, too, after it was made */
  c_function address;   /* of the C function */
  int direct;           /* whether it can be called without ctypes: at most DIRECT pointers, all to tensors or the error */
  int takes_error;      /* whether the C function takes a dlb_error * as its last argument */
  int any_device;       /* whether it takes memory of every device */
  DLDevice device;      /* otherwise, that on which the memory of its tensors must be */
  int returns;
  PyObject *next; /* the next function in the list of those to be freed */
} Function;

/* Calls a C function with DIRECT pointers; those that it does not take are NULL. Pointers of all types are passed alike, and a
 * function that takes fewer arguments, or has no result, ignores the rest. Therefore, if wrap was told of too few arguments, the
 * others are NULL, which functions of dlbridge report, and not the values that happen to be in their registers. */
static managed call(c_function f, managed a[DIRECT]) {
  return ((managed (*)(managed, managed, managed, managed, managed, managed, managed, managed))f)(a[0], a[1], a[2], a[3], a[4],
                                                                                                  a[5], a[6], a[7]);
}

/* Takes over the tensor that the C function has returned, and converts it with self->to. */
static PyObject *finish(Function *self, module_state *state, managed result) {
  if (result == NULL)
    return PyErr_Format(PyExc_RuntimeError, "dlbridge: %U returned no tensor (%s)", self->name,
                        self->takes_error ? "returns=None declares a function without a result"
                                          : "add \"error\" to args if the function reports errors");
  if (!can_be_managed((uintptr_t)result))
    return PyErr_Format(PyExc_ValueError, "dlbridge: %U returned %p, where there can be no managed tensor", self->name,
                        result);
  Tensor *tensor = take_over(state->tensor_type, result, "wrap");
  if (tensor == NULL || self->to == Py_None) return (PyObject *)tensor;
  PyObject *converted = PyObject_CallFunctionObjArgs(self->to, tensor, NULL);
  Py_DECREF(tensor);
  return converted;
}

/* Returns the words for an argument in errors: "argument 2", or "argument 'scale'". */
static PyObject *place_of(Function *self, Py_ssize_t index) {
  return self->names == Py_None ? PyUnicode_FromFormat("argument %zd", index + 1)
                                : PyUnicode_FromFormat("argument %R", PyTuple_GetItem(self->names, index));
}

/* Skips "tensor argument K" at the beginning of a text, as capi.Serve of Go writes it, which counts tensors alone. Returns the words for
 * that argument if it has a name; NULL, mostly without an exception, if there is none. */
static PyObject *reported_place(Function *self, const char **text) {
  static const char prefix[] = "tensor argument ";
  if (self->names == Py_None || strncmp(*text, prefix, sizeof prefix - 1) != 0) return NULL;
  char *end;
  long number = strtol(*text + sizeof prefix - 1, &end, 10);
  if (number < 1 || strncmp(end, ": ", 2) != 0) return NULL;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->kinds); i++) {
    if (PyTuple_GetItem(self->kinds, i) != Py_None || --number > 0) continue;
    *text = end;
    return place_of(self, i);
  }
  return NULL;
}

/* Raises the error that a C function has reported, as the exception that fits its code, with the text of the function. Its name at the
 * beginning of the text is left out, because the note has it. */
static PyObject *raise_reported(Function *self, dlb_error *error) {
  PyObject *type = error->code == DLB_ERROR_DTYPE ? PyExc_TypeError : status_type(error->code);
  Py_ssize_t size;
  const char *name = PyUnicode_AsUTF8AndSize(self->name, &size), *text = error->message;
  if (name == NULL) PyErr_Clear(); /* it is not the name of a function in C */
  error->message[sizeof error->message - 1] = '\0';
  int named = name != NULL && strlen(name) == (size_t)size && strncmp(text, name, (size_t)size) == 0;
  if (named && strncmp(text + size, ": ", 2) == 0) text += size + 2;
  PyObject *place = reported_place(self, &text);
  const char *argument = place == NULL ? "" : PyUnicode_AsUTF8AndSize(place, NULL);
  if (PyErr_Occurred()) { /* there is no memory for the name */
    Py_XDECREF(place);
    return NULL;
  }
  if (text[0] != '\0') raise_text(type, argument, text);
  else PyErr_Format(type, "dlbridge: %U has reported the error code %d without a text", self->name, (int)error->code);
  Py_XDECREF(place);
  add_note("reported by the function %U", self->name);
  return NULL;
}

/* Returns the text of an exception without the prefixes of from_dlpack, because the caller adds its own. */
static PyObject *text_of(PyObject *exception) {
  static const char *const prefixes[] = {"dlbridge: ", "from_dlpack: "};
  PyObject *text = PyObject_Str(exception);
  for (size_t i = 0; text != NULL && i < sizeof prefixes / sizeof *prefixes; i++) {
    PyObject *prefix = PyUnicode_FromString(prefixes[i]);
    if (prefix == NULL) {
      Py_CLEAR(text);
    } else if (PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1) == 1) {
      PyObject *rest = PyUnicode_Substring(text, PyUnicode_GetLength(prefix), PY_SSIZE_T_MAX);
      REPLACE(text, rest);
    }
    Py_XDECREF(prefix);
  }
  return text;
}

/* Sets a new exception that names an argument which was refused because of `cause`. */
static void set_noted(Function *self, PyObject *type, PyObject *args, Py_ssize_t index, PyObject *cause) {
  PyObject *kind = PyTuple_GetItem(self->kinds, index), *name = NULL, *given = NULL;
  PyObject *text = text_of(cause), *place = text == NULL ? NULL : place_of(self, index);
  if (place != NULL && kind == Py_None) {
    PyErr_Format(type, "dlbridge: %U: %U: %U", self->name, place, text);
  } else if (place != NULL) {
    name = PyType_Check(kind) ? PyObject_GetAttrString(kind, "__name__") : PyObject_Repr(kind);
    if (name != NULL) given = PyObject_GetAttrString((PyObject *)Py_TYPE(PyTuple_GetItem(args, index)), "__name__");
    if (given != NULL && type == PyExc_OverflowError)
      PyErr_Format(type, "dlbridge: %U: %U, declared as %S: %U", self->name, place, name, text);
    else if (given != NULL)
      PyErr_Format(type, "dlbridge: %U: %U, declared as %S, cannot be of type %S: %U", self->name, place, name, given, text);
  }
  Py_XDECREF(given);
  Py_XDECREF(name);
  Py_XDECREF(place);
  Py_XDECREF(text);
}

/* Replaces a pending TypeError, ValueError, OverflowError or BufferError by one that names the function and the argument, and has the replaced
 * one as its cause. Exceptions of other types, including derived types, are left as they are. */
static void note_argument(Function *self, PyObject *args, Py_ssize_t index) {
  PyObject *type, *cause, *traceback, *error;
  PyErr_Fetch(&type, &cause, &traceback);
  if (type != PyExc_TypeError && type != PyExc_ValueError && type != PyExc_OverflowError && type != PyExc_BufferError) {
    PyErr_Restore(type, cause, traceback);
    return;
  }
  PyErr_NormalizeException(&type, &cause, &traceback);
  if (traceback != NULL) PyException_SetTraceback(cause, traceback);
  Py_XDECREF(traceback);
  set_noted(self, type, args, index, cause);
  Py_DECREF(type);
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  PyException_SetCause(error, cause); /* takes it over */
  PyErr_Restore(type, error, traceback);
}

static void release_all(managed *shared, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if (shared[i] != NULL) release_quietly(shared[i]);
  }
}

static void end_all(dlbcore_share **kept, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if (kept[i] != NULL) share_end(kept[i]);
  }
}

/* Returns an export of an argument, whose memory is on the device that the function takes; NULL with an exception. `keep` is as in
 * export_producer. */
static managed export_argument(Function *self, module_state *state, PyObject *args, Py_ssize_t index, dlbcore_share **keep) {
  PyObject *arg = PyTuple_GetItem(args, index), *converter = PyTuple_GetItem(self->arguments, index);
  PyObject *producer = converter == Py_None ? Py_NewRef(arg) : PyObject_CallFunctionObjArgs(converter, arg, NULL);
  if (producer == NULL) return NULL;
  managed made = export_producer(state, producer, keep);
  Py_DECREF(producer);
  if (made == NULL || self->any_device || check_device("wrap", &made->dl_tensor.device, self->device) == 0) return made;
  DLDevice is = made->dl_tensor.device;
  PyErr_Format(PyExc_BufferError,
               "the memory is on device (%d, %d), but the function accepts only device (%d, %d); the argument device= of wrap changes this",
               (int)is.device_type, (int)is.device_id, (int)self->device.device_type, (int)self->device.device_id);
  release_quietly(made);
  if (keep != NULL && *keep != NULL) share_end(*keep);
  return NULL;
}

/* Calls the C function without ctypes and without the GIL. Most functions call the deleters of their arguments. Shares of the
 * arguments are kept until the function has returned, so that the producers' own deleters, which acquire the GIL, run when the
 * GIL is held again. */
static PyObject *call_directly(Function *self, module_state *state, PyObject *args, Py_ssize_t takes) {
  managed shared[DIRECT] = {NULL}, result;
  dlbcore_share *kept[DIRECT];
  for (Py_ssize_t i = 0; i < takes; i++) {
    shared[i] = export_argument(self, state, args, i, &kept[i]);
    if (shared[i] == NULL) {
      note_argument(self, args, i);
      release_all(shared, i);
      end_all(kept, i);
      return NULL;
    }
  }
  dlb_error error;
  memset(&error, 0, sizeof(DLManagedTensorVersioned)); /* a function that takes it for a tensor finds version 0 and no deleter */
  if (self->takes_error) shared[takes] = (managed)&error;
  WITHOUT_GIL(result = call(self->address, shared));
  end_all(kept, takes);
  if (error.code != DLB_OK) return raise_reported(self, &error);
  return self->returns == RETURNS_TENSOR ? finish(self, state, result) : Py_NewRef(Py_None);
}

/* Reports whether a value is an instance of a ctypes type that ctypes can pass. ctypes cannot pass a structure without members,
 * but finds that out only in a call. So this function calls one that does nothing. */
static int is_data_passed(Function *self, PyObject *value) {
  if (!PyType_IsSubtype(Py_TYPE(value), self->data)) return 0;
  int by_value = PyObject_IsInstance(value, self->by_value);
  PyObject *done = by_value == 1 ? PyObject_CallFunctionObjArgs(self->probe, value, NULL) : NULL;
  int passed = done != NULL || by_value == 0;
  Py_XDECREF(done);
  PyErr_Clear();
  return passed;
}

/* Reports whether ctypes can pass `value` as an argument for which it knows no type. A value that it cannot pass must
 * be refused before the call: from an error of the call nobody can tell whether the C function has been entered, and
 * so whether it owns the tensors. */
static int is_passed(Function *self, PyObject *value) {
  if (Py_IS_TYPE(value, self->reference) || value == Py_None || PyBytes_Check(value)) return 1;
  if (PyUnicode_Check(value)) return PyUnicode_FindChar(value, 0, 0, PyUnicode_GetLength(value), 1) == -1;
  if (!PyLong_Check(value)) return is_data_passed(self, value);
  int overflow;
  (void)PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow > 0) {
    (void)PyLong_AsUnsignedLongLong(value);
    overflow = PyErr_Occurred() != NULL;
    PyErr_Clear();
  }
  return overflow == 0;
}

enum { PARAMETERS = 8 }; /* how often _as_parameter_ is followed at most */

/* Raises OverflowError for an int that is not in the range of the integer type with this letter. ctypes itself would drop its high
 * bits. An address, of the letter P, may be a signed or an unsigned number. */
static int check_range(char letter, PyObject *number) {
  static const char letters[] = "bhilqP", *const unsigned_letters = "BHILQP";
  static const unsigned char sizes[] = {sizeof(char), sizeof(short), sizeof(int), sizeof(long), sizeof(long long), sizeof(void *)};
  const char *at = strchr(letters, letter), *unsigned_at = strchr(unsigned_letters, letter);
  const int bits = 8 * sizes[at != NULL ? at - letters : unsigned_at - unsigned_letters];
  const unsigned long long ones = ~0ULL >> (64 - bits), high = unsigned_at != NULL ? ones : ones / 2;
  const long long low = at != NULL ? -(long long)(ones / 2) - 1 : 0;
  int overflow;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  int fits = overflow == 0 && value >= low && (value < 0 || (unsigned long long)value <= high);
  if (overflow > 0 && high > ones / 2 && bits == 64) {
    (void)PyLong_AsUnsignedLongLong(number);
    fits = PyErr_Occurred() == NULL;
    PyErr_Clear();
  }
  if (fits) return 0;
  PyObject *text = PyObject_Str(number);
  if (text != NULL && PyUnicode_GetLength(text) <= 40) {
    raise_error(PyExc_OverflowError, "%U is not in %lld..%llu", text, low, high);
  } else { /* such a number may have more digits than Python writes */
    PyErr_Clear();
    PyObject *size = PyObject_CallMethod(number, "bit_length", NULL);
    if (size != NULL) raise_error(PyExc_OverflowError, "an int of %S bits is not in %lld..%llu", size, low, high);
    Py_XDECREF(size);
  }
  Py_XDECREF(text);
  return -1;
}

/* Returns the int for which an argument of an integer type stands, after a check of its range; or the argument itself if it stands for
 * none, as an instance of the type does. NULL with an exception. */
static PyObject *integer_of(Function *self, char letter, PyObject *arg) {
  PyObject *value = Py_NewRef(arg);
  for (int i = 0; value != NULL && i < PARAMETERS && !PyLong_Check(value); i++) {
    PyObject *inner;
    if (value == Py_None || PyBytes_Check(value) || Py_IS_TYPE(value, self->reference) || PyType_IsSubtype(Py_TYPE(value), self->data))
      break;
    if (letter != 'P' && PyIndex_Check(value)) inner = PyNumber_Index(value);
    else inner = PyObject_GetAttrString(value, "_as_parameter_");
    if (inner == NULL && PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
      PyErr_Clear(); /* ctypes says what is wrong */
      break;
    }
    REPLACE(value, inner);
  }
  if (value != NULL && !PyLong_Check(value)) REPLACE(value, Py_NewRef(arg));
  else if (value != NULL && check_range(letter, value) < 0) Py_CLEAR(value);
  return value;
}

/* Converts an argument that is no tensor as ctypes does: by from_param of its type, then by _as_parameter_. */
static PyObject *convert(Function *self, Py_ssize_t index, PyObject *arg) {
  const char letter = PyBytes_AsString(self->letters)[index];
  PyObject *from = letter == '.' ? Py_NewRef(arg) : integer_of(self, letter, arg);
  PyObject *value = from == NULL ? NULL : PyObject_CallFunctionObjArgs(PyTuple_GetItem(self->arguments, index), from, NULL);
  Py_XDECREF(from);
  for (int i = 0; value != NULL && !is_passed(self, value); i++) {
    PyObject *inner = i < PARAMETERS ? PyObject_GetAttrString(value, "_as_parameter_") : NULL;
    if (inner == NULL && (i == PARAMETERS || PyErr_ExceptionMatches(PyExc_AttributeError))) {
      PyErr_Clear();
      PyErr_Format(PyExc_TypeError, "from_param returned %R, which ctypes cannot pass", value);
    }
    REPLACE(value, inner);
  }
  return value;
}

/* The arguments of a call. */
typedef struct {
  Function *self;
  module_state *state;
  PyObject *args;
  managed *shared; /* for each argument its export if it is a tensor, or else NULL */
  dlb_error *error;
} passing;

static PyObject *pass_address(Function *self, void *address) {
  PyObject *number = PyLong_FromVoidPtr(address);
  PyObject *value = number == NULL ? NULL : PyObject_CallFunctionObjArgs(self->pointer, number, NULL);
  Py_XDECREF(number);
  return value;
}

/* Converts an argument for ctypes. A tensor is exported, and passed as a c_void_p, because ctypes would cut a plain int
 * to 32 bits. */
static PyObject *pass(void *ctx, size_t index) {
  passing *p = ctx;
  if (index == (size_t)PyTuple_Size(p->args)) return pass_address(p->self, p->error);
  PyObject *value = NULL;
  if (PyTuple_GetItem(p->self->kinds, (Py_ssize_t)index) == Py_None) {
    p->shared[index] = export_argument(p->self, p->state, p->args, (Py_ssize_t)index, NULL);
    if (p->shared[index] != NULL) value = pass_address(p->self, p->shared[index]);
  } else {
    value = convert(p->self, (Py_ssize_t)index, PyTuple_GetItem(p->args, (Py_ssize_t)index));
  }
  if (value == NULL) note_argument(p->self, p->args, (Py_ssize_t)index);
  return value;
}

/* Calls by ctypes, which releases the GIL unless the function is of a PyDLL. All arguments are converted before, so that ctypes has
 * hardly a reason left to refuse the call, other than a lack of memory. If it does, by self->refusal, the C function was not
 * entered, and the tensors are released. After any other error they belong to the C function. */
static PyObject *call_by_ctypes(Function *self, module_state *state, PyObject *args, Py_ssize_t count) {
  dlb_error error = {DLB_OK, {0}};
  passing p = {self, state, args, PyMem_Calloc((size_t)count, sizeof *p.shared), &error};
  if (p.shared == NULL) return PyErr_NoMemory();
  PyObject *list = list_of((size_t)count + (self->takes_error != 0), pass, &p);
  PyObject *passed = list == NULL ? NULL : PyList_AsTuple(list);
  Py_XDECREF(list);
  PyObject *result = passed == NULL ? NULL : PyObject_Call(self->call, passed, NULL);
  Py_XDECREF(passed);
  if (passed == NULL || (result == NULL && self->refusal != Py_None && PyErr_ExceptionMatches(self->refusal)))
    release_all(p.shared, count);
  PyMem_Free(p.shared);
  if (result != NULL && error.code != DLB_OK) {
    Py_DECREF(result);
    return raise_reported(self, &error);
  }
  if (result == NULL || self->returns != RETURNS_TENSOR) return result;
  managed address = result == Py_None ? NULL : PyLong_AsVoidPtr(result);
  Py_DECREF(result);
  return PyErr_Occurred() ? NULL : finish(self, state, address);
}

/* The arguments of a call, some of them given by name. */
typedef struct {
  Function *self;
  PyObject *args, *keywords; /* a tuple, and a dict or NULL */
  Py_ssize_t named;          /* how many of the keywords were taken */
} calling;

/* Returns the argument at an index; NULL, mostly without an exception, if it was not given once. */
static PyObject *take(void *ctx, size_t index) {
  calling *c = ctx;
  Py_ssize_t i = (Py_ssize_t)index;
  int positional = i < PyTuple_Size(c->args);
  PyObject *value = c->keywords == NULL ? NULL : PyDict_GetItemWithError(c->keywords, PyTuple_GetItem(c->self->names, i));
  if (positional) return value != NULL || PyErr_Occurred() ? NULL : Py_NewRef(PyTuple_GetItem(c->args, i));
  c->named += value != NULL;
  return Py_XNewRef(value);
}

/* Raises the TypeError of a wrong call, in Python's own words. */
static PyObject *raise_miscalled(Function *self, PyObject *args, PyObject *keywords) {
  PyObject *result = PyObject_Call(self->like, args, keywords);
  if (result != NULL) PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument", self->name); /* keys that lie */
  Py_XDECREF(result);
  return NULL;
}

/* Returns the arguments of a call in the order of the C function, as a tuple; NULL with TypeError. */
static PyObject *in_order(Function *self, PyObject *args, PyObject *keywords) {
  Py_ssize_t count = PyTuple_Size(args), takes = PyTuple_Size(self->arguments), named = keywords == NULL ? 0 : PyDict_Size(keywords);
  if (count == takes && named == 0) return Py_NewRef(args);
  if (named > 0 && self->names == Py_None)
    return PyErr_Format(PyExc_TypeError, "%U() takes no keyword arguments; pass args to wrap as a dict to name them",
                        self->name);
  if (count > takes || self->names == Py_None) return raise_miscalled(self, args, keywords);
  calling c = {self, args, keywords, 0};
  PyObject *list = list_of((size_t)takes, take, &c);
  if (list == NULL || c.named < named) {
    Py_XDECREF(list);
    return PyErr_Occurred() ? NULL : raise_miscalled(self, args, keywords);
  }
  PyObject *ordered = PyList_AsTuple(list);
  Py_DECREF(list);
  return ordered;
}

static PyObject *raise_cleared(Function *self) {
  return PyErr_Format(PyExc_RuntimeError, "dlbridge: %U was cleared by the garbage collector", self->name);
}

static PyObject *function_call(PyObject *op, PyObject *args, PyObject *keywords) {
  Function *self = (Function *)op;
  module_state *state = PyType_GetModuleState(Py_TYPE(op));
  if (state == NULL) return NULL;
  if (self->held == NULL) return raise_cleared(self); /* the address may be that of a callback that was freed */
  if (is_stopped((void *)(uintptr_t)self->address)) return raise_forked();
  PyObject *held = Py_NewRef(self->held), *ordered = in_order(self, args, keywords);
  PyObject *result =
      ordered == NULL ? NULL : (self->direct ? call_directly : call_by_ctypes)(self, state, ordered, PyTuple_Size(ordered));
  Py_XDECREF(ordered);
  Py_DECREF(held);
  return result;
}

/* (name, call, names, like, arguments, kinds, letters, to, (pointer, data, reference, by_value, probe), refusal, address, direct,
 * takes_error, returns, reduce, device) -> a Function with these fields; device is None for any device */
PyObject *function_new(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  Function *self = PyObject_GC_New(Function, state->function_type);
  if (self == NULL) return NULL;
  unsigned long long address;
  PyObject *device = Py_None;
  self->dict = self->weak = self->name = NULL;
  self->held = Py_NewRef(args);
  int parsed =
      PyArg_ParseTuple(args, "UOOOO!O!SO(OO!O!O!O)OKppiOO:function", &self->name, &self->call, &self->names, &self->like,
                       &PyTuple_Type, &self->arguments, &PyTuple_Type, &self->kinds, &self->letters, &self->to, &self->pointer,
                       &PyType_Type, &self->data, &PyType_Type, &self->reference, &PyTuple_Type, &self->by_value, &self->probe,
                       &self->refusal, &address, &self->direct, &self->takes_error, &self->returns, &self->reduce, &device);
  self->any_device = device == Py_None;
  parsed = parsed && (self->any_device || parse_device(device, "wrap: device", &self->device) == 0);
  Py_XINCREF(self->name);
  if (!parsed) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  int fits = PyTuple_Size(self->arguments) + (self->takes_error != 0) <= DIRECT;
  self->direct = self->direct && fits;
  self->address = (c_function)(uintptr_t)address;
  PyObject_GC_Track(self);
  return (PyObject *)self;
}

static int function_traverse(PyObject *op, visitproc visit, void *arg) {
  Function *self = (Function *)op;
  Py_VISIT(Py_TYPE(op));
  Py_VISIT(self->dict);
  Py_VISIT(self->held);
  return 0;
}

static int function_clear(PyObject *op) {
  Function *self = (Function *)op;
  Py_CLEAR(self->dict);
  Py_CLEAR(self->held);
  return 0;
}

static void function_end(PyObject *op) {
  Function *self = (Function *)op;
  PyTypeObject *type = Py_TYPE(op);
  PyObject_ClearWeakRefs(op);
  function_clear(op);
  Py_XDECREF(self->name);
  PyObject_GC_Del(op);
  Py_DECREF(type);
}

/* A function may convert the results of another function, which may convert the results of a third. Such chains can have any
 * length. To keep the C stack small, few functions are ended inside each other on a thread. A function that is dropped
 * deeper than that waits until the outermost has ended. */
static void function_dealloc(PyObject *op) {
  enum { NESTED = 8 };
  static __thread PyObject *waiting;
  static __thread int ending;
  PyObject_GC_UnTrack(op);
  if (ending == NESTED) {
    ((Function *)op)->next = waiting;
    waiting = op;
    return;
  }
  ending++;
  function_end(op);
  while (ending == 1 && waiting != NULL) {
    op = waiting;
    waiting = ((Function *)op)->next;
    function_end(op);
  }
  ending--;
}

static PyObject *function_repr(PyObject *op) {
  return PyUnicode_FromFormat("<dlbridge function %U>", ((Function *)op)->name);
}

static PyObject *function_reduce(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Function *self = (Function *)op;
  PyObject *held = Py_XNewRef(self->held), *result = held == NULL ? raise_cleared(self) : PyObject_CallNoArgs(self->reduce);
  Py_XDECREF(held);
  return result;
}

static PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, "Returns how pickle makes the function again, by its library and its name."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef function_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Function, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Function, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef function_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot function_slots[] = {
    {Py_tp_dealloc, (void *)function_dealloc},
    {Py_tp_traverse, (void *)function_traverse},
    {Py_tp_clear, (void *)function_clear},
    {Py_tp_call, (void *)function_call},
    {Py_tp_repr, (void *)function_repr},
    {Py_tp_methods, function_methods},
    {Py_tp_members, function_members},
    {Py_tp_getset, function_getset},
    {0, NULL},
};

PyType_Spec function_spec = {
    .name = "dlbridge.Function",
    .basicsize = sizeof(Function),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = function_slots,
};
