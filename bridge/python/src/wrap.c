#include "extension.h"

#include <structmember.h>

/* The type of the functions that dlbridge.wrap makes: Python functions that call a C function on managed tensors. */

typedef DLManagedTensorVersioned *managed;
typedef void (*c_function)(void);

enum { RETURNS_TENSOR, RETURNS_NOTHING, RETURNS_OTHER };

enum { DIRECT = 8 }; /* the most arguments of a call that does not need ctypes */

typedef struct {
  PyObject_HEAD
  PyObject *dict, *weak;
  PyObject *name;       /* for errors */
  PyObject *call;       /* the ctypes function, without argtypes; None once the collector has cleared this */
  PyObject *arguments;  /* a tuple: for each argument its type's from_param; None for a tensor */
  PyObject *to;         /* converts the Tensor that is the result, or None */
  PyObject *pointer;    /* ctypes.c_void_p.from_param */
  PyTypeObject *data, *reference; /* of ctypes: the base of its types, and the type of byref() */
  PyObject *by_value;   /* a tuple of the types that are passed by value: Structure and Union */
  PyObject *probe;      /* a ctypes function that does nothing */
  c_function direct;    /* the C function if it needs no ctypes: at most DIRECT arguments, all tensors; or NULL */
  int returns;
  PyObject *next; /* the next function in the list of those to be freed */
} Function;

#define NUMBER_OF_ARGUMENTS(R, END) \
  switch (count) { \
    case 0: END(((R (*)(void))f)()); \
    case 1: END(((R (*)(managed))f)(a[0])); \
    case 2: END(((R (*)(managed, managed))f)(a[0], a[1])); \
    case 3: END(((R (*)(managed, managed, managed))f)(a[0], a[1], a[2])); \
    case 4: END(((R (*)(managed, managed, managed, managed))f)(a[0], a[1], a[2], a[3])); \
    case 5: END(((R (*)(managed, managed, managed, managed, managed))f)(a[0], a[1], a[2], a[3], a[4])); \
    case 6: \
      END(((R (*)(managed, managed, managed, managed, managed, managed))f)(a[0], a[1], a[2], a[3], a[4], a[5])); \
    case 7: \
      END(((R (*)(managed, managed, managed, managed, managed, managed, managed))f)(a[0], a[1], a[2], a[3], \
                                                                                 a[4], a[5], a[6])); \
    default: \
      END(((R (*)(managed, managed, managed, managed, managed, managed, managed, managed))f)( \
          a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7])); \
  }
#define GIVE(call) return call
#define DROP(call) \
  call; \
  return NULL

static managed call_for_tensor(c_function f, managed *a, Py_ssize_t count) { NUMBER_OF_ARGUMENTS(managed, GIVE) }

static managed call_for_nothing(c_function f, managed *a, Py_ssize_t count) { NUMBER_OF_ARGUMENTS(void, DROP) }

static PyObject *finish(Function *self, module_state *state, managed result) {
  if (result == NULL) return PyErr_Format(PyExc_RuntimeError, "dlbridge: %U returned no tensor", self->name);
  if (!can_be_managed((uintptr_t)result))
    return PyErr_Format(PyExc_ValueError, "dlbridge: %U returned %p, where there can be no managed tensor", self->name,
                        result);
  Tensor *tensor = take_over(state->tensor_type, result, "wrap");
  if (tensor == NULL || self->to == Py_None) return (PyObject *)tensor;
  PyObject *converted = PyObject_CallFunctionObjArgs(self->to, tensor, NULL);
  Py_DECREF(tensor);
  return converted;
}

/* Replaces a pending TypeError by one that names the argument and has the first as its cause. Other exceptions
 * are left as they are. */
static void note_argument(Function *self, Py_ssize_t index) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return;
  PyObject *type, *cause, *traceback, *error;
  PyErr_Fetch(&type, &cause, &traceback);
  PyErr_NormalizeException(&type, &cause, &traceback);
  if (traceback != NULL) PyException_SetTraceback(cause, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  PyErr_Format(PyExc_TypeError, "dlbridge: %U: argument %zd: %S", self->name, index + 1, cause);
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

/* Calls the C function without ctypes. */
static PyObject *call_directly(Function *self, module_state *state, PyObject *args, Py_ssize_t count) {
  managed shared[DIRECT], result;
  for (Py_ssize_t i = 0; i < count; i++) {
    shared[i] = export_producer(state, PyTuple_GetItem(args, i));
    if (shared[i] == NULL) {
      release_all(shared, i);
      return NULL;
    }
  }
  int returns_tensor = self->returns == RETURNS_TENSOR;
  WITHOUT_GIL(result = (returns_tensor ? call_for_tensor : call_for_nothing)(self->direct, shared, count));
  return returns_tensor ? finish(self, state, result) : Py_NewRef(Py_None);
}

/* Reports whether ctypes can pass an instance of one of its types. A structure without members it cannot, and it finds
 * out only in a call: here one of a function that does nothing. */
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

enum { PARAMETERS = 8 }; /* _as_parameter_ is followed so many times */

/* Converts an argument that is no tensor as ctypes does: by from_param of its type, then by _as_parameter_. */
static PyObject *convert(Function *self, PyObject *from_param, PyObject *arg) {
  PyObject *value = PyObject_CallFunctionObjArgs(from_param, arg, NULL);
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

/* Converts argument `index` for ctypes. A tensor is exported to *shared, which is NULL for any other argument, and
 * passed as a c_void_p, because ctypes would cut a plain int to 32 bits. */
static PyObject *pass(Function *self, module_state *state, PyObject *arg, Py_ssize_t index, managed *shared) {
  PyObject *from_param = PyTuple_GetItem(self->arguments, index), *value = NULL;
  *shared = NULL;
  if (from_param == Py_None) {
    *shared = export_producer(state, arg);
    PyObject *address = *shared == NULL ? NULL : PyLong_FromVoidPtr(*shared);
    if (address != NULL) value = PyObject_CallFunctionObjArgs(self->pointer, address, NULL);
    Py_XDECREF(address);
  } else {
    value = convert(self, from_param, arg);
    if (value == NULL) note_argument(self, index);
  }
  return value;
}

/* A tuple of the values, which it takes over, or drops on an error. It is made once all are there: while arguments are
 * converted, Python code runs, and it must not come across a tuple with gaps. */
static PyObject *tuple_of_values(PyObject **values, Py_ssize_t have, Py_ssize_t count) {
  PyObject *tuple = have == count ? PyTuple_New(count) : NULL;
  for (Py_ssize_t i = 0; i < have; i++) {
    if (tuple == NULL) Py_DECREF(values[i]);
    else PyTuple_SetItem(tuple, i, values[i]);
  }
  return tuple;
}

/* Calls by ctypes, which releases the GIL unless the function is of a PyDLL. All arguments are converted before, so
 * that every error of the call comes after the C function was entered: the tensors are its own then, and must not be
 * released here. */
static PyObject *call_by_ctypes(Function *self, module_state *state, PyObject *args, Py_ssize_t count) {
  managed few_shared[DIRECT], *shared = few_shared;
  PyObject *few_values[DIRECT], **values = few_values;
  void *room = NULL;
  if (count > DIRECT) {
    room = PyMem_Malloc((size_t)count * (sizeof *shared + sizeof *values));
    if (room == NULL) return PyErr_NoMemory();
    shared = room;
    values = (PyObject **)(shared + count);
  }
  Py_ssize_t have = 0;
  while (have < count && (values[have] = pass(self, state, PyTuple_GetItem(args, have), have, &shared[have])) != NULL)
    have++;
  PyObject *passed = tuple_of_values(values, have, count), *result = NULL;
  if (passed == NULL) release_all(shared, have < count ? have + 1 : count);
  PyMem_Free(room);
  if (passed == NULL) return NULL;
  result = PyObject_Call(self->call, passed, NULL);
  Py_DECREF(passed);
  if (result == NULL || self->returns != RETURNS_TENSOR) return result;
  managed address = result == Py_None ? NULL : PyLong_AsVoidPtr(result);
  Py_DECREF(result);
  return PyErr_Occurred() ? NULL : finish(self, state, address);
}

static PyObject *function_call(PyObject *op, PyObject *args, PyObject *keywords) {
  Function *self = (Function *)op;
  module_state *state = PyType_GetModuleState(Py_TYPE(op));
  if (state == NULL) return NULL;
  Py_ssize_t count = PyTuple_Size(args), takes = PyTuple_Size(self->arguments);
  if (self->call == Py_None) /* direct may be the address of a callback that was freed */
    return PyErr_Format(PyExc_RuntimeError, "dlbridge: %U was cleared by the garbage collector", self->name);
  if (keywords != NULL && PyDict_Size(keywords) > 0)
    return PyErr_Format(PyExc_TypeError, "dlbridge: %U takes no keyword arguments", self->name);
  if (count != takes)
    return PyErr_Format(PyExc_TypeError, "dlbridge: %U takes %zd arguments, not %zd", self->name, takes, count);
  return (self->direct != NULL ? call_directly : call_by_ctypes)(self, state, args, count);
}

PyObject *function_new(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  PyObject *name, *call, *arguments, *to, *pointer, *data, *reference, *by_value, *probe;
  unsigned long long direct;
  int returns;
  if (!PyArg_ParseTuple(args, "UOO!OOO!O!O!OKi:function", &name, &call, &PyTuple_Type, &arguments, &to, &pointer,
                        &PyType_Type, &data, &PyType_Type, &reference, &PyTuple_Type, &by_value, &probe, &direct, &returns))
    return NULL;
  Function *self = PyObject_GC_New(Function, state->function_type);
  if (self == NULL) return NULL;
  self->dict = self->weak = NULL;
  self->name = Py_NewRef(name);
  self->call = Py_NewRef(call);
  self->arguments = Py_NewRef(arguments);
  self->to = Py_NewRef(to);
  self->pointer = Py_NewRef(pointer);
  self->data = (PyTypeObject *)Py_NewRef(data);
  self->reference = (PyTypeObject *)Py_NewRef(reference);
  self->by_value = Py_NewRef(by_value);
  self->probe = Py_NewRef(probe);
  self->direct = PyTuple_Size(arguments) <= DIRECT ? (c_function)(uintptr_t)direct : NULL;
  self->returns = returns;
  PyObject_GC_Track(self);
  return (PyObject *)self;
}

static int function_traverse(PyObject *op, visitproc visit, void *arg) {
  Function *self = (Function *)op;
  Py_VISIT(Py_TYPE(op));
  Py_VISIT(self->dict);
  Py_VISIT(self->call);
  Py_VISIT(self->arguments);
  Py_VISIT(self->to);
  return 0;
}

static int function_clear(PyObject *op) {
  Function *self = (Function *)op;
  Py_CLEAR(self->dict);
  REPLACE(self->call, Py_NewRef(Py_None));
  REPLACE(self->to, Py_NewRef(Py_None));
  return 0;
}

static void function_end(PyObject *op) {
  Function *self = (Function *)op;
  PyTypeObject *type = Py_TYPE(op);
  PyObject_ClearWeakRefs(op);
  function_clear(op);
  Py_DECREF(self->name);
  Py_DECREF(self->call);
  Py_DECREF(self->arguments);
  Py_DECREF(self->to);
  Py_DECREF(self->pointer);
  Py_DECREF((PyObject *)self->data);
  Py_DECREF((PyObject *)self->reference);
  Py_DECREF(self->by_value);
  Py_DECREF(self->probe);
  PyObject_GC_Del(op);
  Py_DECREF(type);
}

/* A function may convert the results of another function, which may convert those of a third. Such chains can have any
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
