/* floor.c: a minimal counterpart of dlbridge.Tensor, written in C with the full Python API. It takes over a managed
 * tensor by address, makes any number of capsules, and calls the deleter at the end. It checks nothing and makes only
 * versioned capsules. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlpack/dlpack.h>

typedef struct share {
  int64_t count;
  DLManagedTensorVersioned *managed;
} share;

typedef struct tensor {
  PyObject_HEAD
  share *share;
} tensor;

static void drop(share *s) {
  if (__atomic_sub_fetch(&s->count, 1, __ATOMIC_ACQ_REL) > 0) return;
  s->managed->deleter(s->managed);
  free(s);
}

static void delete_export(DLManagedTensorVersioned *self) {
  drop(self->manager_ctx);
  free(self);
}

static void delete_capsule(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return; /* a consumer has taken it over */
  DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  managed->deleter(managed);
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  (void)args, (void)n, (void)names;
  share *s = ((tensor *)self)->share;
  DLManagedTensorVersioned *managed = malloc(sizeof *managed);
  if (managed == NULL) return PyErr_NoMemory();
  *managed = *s->managed;
  managed->manager_ctx = s;
  managed->deleter = delete_export;
  PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", delete_capsule);
  if (capsule == NULL) {
    free(managed);
    return NULL;
  }
  __atomic_fetch_add(&s->count, 1, __ATOMIC_RELAXED);
  return capsule;
}

static PyObject *tensor_device(PyObject *self, PyObject *unused) {
  (void)unused;
  DLDevice device = ((tensor *)self)->share->managed->dl_tensor.device;
  return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

static void tensor_free(PyObject *self) {
  drop(((tensor *)self)->share);
  PyObject_Free(self);
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", tensor_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject tensor_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Tensor",
    .tp_basicsize = sizeof(tensor),
    .tp_dealloc = tensor_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = tensor_methods,
};

static PyObject *from_address(PyObject *module, PyObject *address) {
  (void)module;
  DLManagedTensorVersioned *managed = PyLong_AsVoidPtr(address);
  if (managed == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "no address");
  tensor *self = PyObject_New(tensor, &tensor_type);
  if (self == NULL) return NULL;
  self->share = malloc(sizeof *self->share);
  if (self->share == NULL) {
    PyObject_Free(self);
    return PyErr_NoMemory();
  }
  *self->share = (share){1, managed};
  return (PyObject *)self;
}

/* Both functions compute x += y. add_borrowed leaves the tensors to the caller; add_owned takes ownership of them. */
__attribute__((visibility("default"))) void add_borrowed(DLManagedTensorVersioned *x, DLManagedTensorVersioned *y) {
  float *a = x->dl_tensor.data, *b = y->dl_tensor.data;
  for (int64_t i = 0; i < x->dl_tensor.shape[0]; i++) a[i] += b[i];
}

__attribute__((visibility("default"))) void add_owned(DLManagedTensorVersioned *x, DLManagedTensorVersioned *y) {
  add_borrowed(x, y);
  x->deleter(x);
  y->deleter(y);
}

static PyMethodDef functions[] = {{"from_address", from_address, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "floor", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_floor(void) {
  if (PyType_Ready(&tensor_type) < 0) return NULL;
  return PyModule_Create(&module);
}
