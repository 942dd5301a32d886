#include "extension.h"

#include <structmember.h>

/* What dlbridge.wrap makes: a Python function on producers of a C function on managed tensors. */

typedef DLManagedTensorVersioned *managed;
typedef void (*c_function)(void);

enum { RETURNS_TENSOR, RETURNS_NOTHING, RETURNS_OTHER };

enum { DIRECT = 8 }; /* arguments of a call that ctypes is not needed for */

typedef struct {
  PyObject_HEAD
  PyObject *dict, *weak;
  PyObject *name;       /* for errors */
  PyObject *call;       /* the ctypes function, which takes addresses for tensors */
  PyObject *tensors;    /* bytes: which arguments are tensors; or None, and all are */
  PyObject *to;         /* what makes the result of a Tensor, or None */
  PyObject *argument_error; /* ctypes.ArgumentError: call has not called yet */
  PyObject *pointer;    /* ctypes.c_void_p */
  c_function direct;    /* all arguments are tensors, and the result is one or none; or NULL */
  int returns;
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

static PyObject *finish(Function *self, managed result) {
  if (result == NULL) return PyErr_Format(PyExc_RuntimeError, "dlbridge: %U returned no tensor", self->name);
  if (!can_be_managed((uintptr_t)result))
    return PyErr_Format(PyExc_ValueError, "dlbridge: %U returned %p, where no managed tensor can be", self->name,
                        result);
  module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)self));
  Tensor *tensor = take_over(state->tensor_type, result, "wrap");
  if (tensor == NULL || self->to == Py_None) return (PyObject *)tensor;
  PyObject *converted = PyObject_CallFunctionObjArgs(self->to, tensor, NULL);
  Py_DECREF(tensor);
  return converted;
}

/* The TypeError that says what ctypes says; the argument error is its cause. */
static void raise_type_error(Function *self) {
  PyObject *type, *cause, *traceback, *error;
  PyErr_Fetch(&type, &cause, &traceback);
  PyErr_NormalizeException(&type, &cause, &traceback);
  if (traceback != NULL) PyException_SetTraceback(cause, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  PyErr_Format(PyExc_TypeError, "dlbridge: %U: %S", self->name, cause);
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

static PyObject *call_directly(Function *self, managed *shared, Py_ssize_t count) {
  managed result;
  int returns_tensor = self->returns == RETURNS_TENSOR;
  Py_BEGIN_ALLOW_THREADS;
  result = (returns_tensor ? call_for_tensor : call_for_nothing)(self->direct, shared, count);
  Py_END_ALLOW_THREADS;
  return returns_tensor ? finish(self, result) : Py_NewRef(Py_None);
}

/* Without argtypes ctypes would cut an int to 32 bits. */
static PyObject *address_for_ctypes(Function *self, managed shared) {
  PyObject *address = PyLong_FromVoidPtr(shared);
  if (address != NULL && self->tensors == Py_None)
    REPLACE(address, PyObject_CallFunctionObjArgs(self->pointer, address, NULL));
  return address;
}

/* ctypes lets go of the GIL, if the function is of a kind that may be called without. */
static PyObject *call_by_ctypes(Function *self, PyObject *args, managed *shared, Py_ssize_t count) {
  PyObject *passed = PyTuple_New(count);
  for (Py_ssize_t i = 0; passed != NULL && i < count; i++) {
    PyObject *arg = shared[i] == NULL ? Py_NewRef(PyTuple_GetItem(args, i)) : address_for_ctypes(self, shared[i]);
    if (arg == NULL || PyTuple_SetItem(passed, i, arg) < 0) Py_CLEAR(passed);
  }
  PyObject *result = passed == NULL ? NULL : PyObject_Call(self->call, passed, NULL);
  int refused = result == NULL && (passed == NULL || PyErr_ExceptionMatches(self->argument_error));
  if (refused) release_all(shared, count);
  if (refused && passed != NULL) raise_type_error(self);
  Py_XDECREF(passed);
  if (result == NULL || self->returns != RETURNS_TENSOR) return result;
  managed address = result == Py_None ? NULL : PyLong_AsVoidPtr(result);
  Py_DECREF(result);
  return finish(self, address);
}

static PyObject *function_call(PyObject *op, PyObject *args, PyObject *keywords) {
  Function *self = (Function *)op;
  module_state *state = PyType_GetModuleState(Py_TYPE(op));
  Py_ssize_t count = PyTuple_Size(args), have = 0;
  if (keywords != NULL && PyDict_Size(keywords) > 0)
    return PyErr_Format(PyExc_TypeError, "dlbridge: %U takes no keyword arguments", self->name);
  const char *tensors = NULL;
  if (self->tensors != Py_None) {
    Py_ssize_t takes = PyBytes_Size(self->tensors);
    tensors = PyBytes_AsString(self->tensors);
    if (count != takes)
      return PyErr_Format(PyExc_TypeError, "dlbridge: %U takes %zd arguments, not %zd", self->name, takes, count);
  }
  managed few[DIRECT], *shared = count <= DIRECT ? few : PyMem_Malloc((size_t)count * sizeof *shared);
  if (shared == NULL) return PyErr_NoMemory();
  for (; have < count; have++) {
    shared[have] = NULL;
    if (tensors != NULL && !tensors[have]) continue;
    shared[have] = lend(state, PyTuple_GetItem(args, have));
    if (shared[have] == NULL) break;
  }
  PyObject *result = NULL;
  if (have < count) release_all(shared, have);
  else if (self->direct != NULL && count <= DIRECT) result = call_directly(self, shared, count);
  else result = call_by_ctypes(self, args, shared, count);
  if (shared != few) PyMem_Free(shared);
  return result;
}

PyObject *function_new(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  PyObject *name, *call, *tensors, *to, *argument_error, *pointer;
  unsigned long long direct;
  int returns;
  if (!PyArg_ParseTuple(args, "UOOOOOKi:function", &name, &call, &tensors, &to, &argument_error, &pointer, &direct,
                        &returns))
    return NULL;
  Function *self = PyObject_GC_New(Function, state->function_type);
  if (self == NULL) return NULL;
  self->dict = self->weak = NULL;
  self->name = Py_NewRef(name);
  self->call = Py_NewRef(call);
  self->tensors = Py_NewRef(tensors);
  self->to = Py_NewRef(to);
  self->argument_error = Py_NewRef(argument_error);
  self->pointer = Py_NewRef(pointer);
  self->direct = (c_function)(uintptr_t)direct;
  self->returns = returns;
  PyObject_GC_Track(self);
  return (PyObject *)self;
}

static int function_traverse(PyObject *op, visitproc visit, void *arg) {
  Function *self = (Function *)op;
  Py_VISIT(Py_TYPE(op));
  Py_VISIT(self->dict);
  Py_VISIT(self->call);
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

static void function_dealloc(PyObject *op) {
  Function *self = (Function *)op;
  PyTypeObject *type = Py_TYPE(op);
  PyObject_GC_UnTrack(op);
  PyObject_ClearWeakRefs(op);
  function_clear(op);
  Py_DECREF(self->name);
  Py_DECREF(self->call);
  Py_DECREF(self->tensors);
  Py_DECREF(self->to);
  Py_DECREF(self->argument_error);
  Py_DECREF(self->pointer);
  PyObject_GC_Del(op);
  Py_DECREF(type);
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
