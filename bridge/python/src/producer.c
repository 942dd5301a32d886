/* __dlpack__ and exports: managed tensors on the memory of a Tensor. */
#include "extension.h"

static uint64_t export_flags(const Tensor *self) {
  return self->flags | (self->writability_unknown ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
}

/* Raises BufferError and returns -1 for a Tensor that the legacy form cannot represent. It can represent one of unknown
 * writability, which came in that form. */
static int refuse_legacy(const Tensor *self) {
  const char *what = NULL;
  if (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) what = "read-only memory";
  else if (self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
    what = "padded elements";
  if (what == NULL) return 0;
  return raise_error(PyExc_BufferError,
                     "dlbridge: __dlpack__: %s needs a consumer of DLPack 1.0, which passes max_version=(1, 0); for NumPy before 2.1, "
                     "tensor.numpy() makes the array",
                     what);
}

/* Returns 1 for the versioned form, 0 for the legacy form, -1 with an exception. */
static int parse_max_version(PyObject *object) {
  if (object == NULL || object == Py_None) return 0;
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2 && PyLong_Check(PyTuple_GetItem(object, 0)) &&
      PyLong_Check(PyTuple_GetItem(object, 1))) {
    int overflow;
    return PyLong_AsLongAndOverflow(PyTuple_GetItem(object, 0), &overflow) >= 1 || overflow > 0;
  }
  return raise_error(PyExc_TypeError,
                     "dlbridge: __dlpack__: max_version must be None or a tuple of two ints, not %R", object);
}

/* The arguments of __dlpack__ that select the form of the export. */
typedef struct {
  int versioned, copy;
  int cpu; /* page-locked memory is to be exported as memory of the CPU */
} request;

#ifndef Py_GIL_DISABLED
/* A cache of arguments. Consumers pass the same constant objects in every call. The cache holds references to the last
 * arguments whose meaning does not depend on the tensor. Several keywords are identified by the tuple of their names
 * (NumPy). A single keyword is identified by its name, because its tuple is new in each call (PyTorch). */
typedef struct {
  PyObject *key, *args[4];
  request means;
} known;

static known several, single;

static int recall(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, request *out) {
  if (kwnames == NULL || nargs > 0) return 0;
  if (kwnames == several.key) {
    for (int i = 0; i < 4 && several.args[i] != NULL; i++) {
      if (args[i] != several.args[i]) return 0;
    }
    *out = several.means;
    return 1;
  }
  if (single.key == NULL || PyTuple_Size(kwnames) != 1 || args[0] != single.args[0] ||
      PyTuple_GetItem(kwnames, 0) != single.key)
    return 0;
  *out = single.means;
  return 1;
}

static void replace(known *entry, known with) {
  known old = *entry;
  *entry = with;
  Py_XDECREF(old.key);
  for (int i = 0; i < 4; i++) Py_XDECREF(old.args[i]);
}

static void remember(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, request means) {
  known now = {.key = Py_NewRef(count == 1 ? PyTuple_GetItem(kwnames, 0) : kwnames), .means = means};
  for (Py_ssize_t i = 0; i < count; i++) now.args[i] = Py_NewRef(args[i]);
  replace(count == 1 ? &single : &several, now);
}

void forget_arguments(void) {
  replace(&several, (known){0});
  replace(&single, (known){0});
}
#else
void forget_arguments(void) {}

static int recall(PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(nargs), PyObject *Py_UNUSED(kwnames),
                  request *Py_UNUSED(out)) {
  return 0;
}

static void remember(PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count), PyObject *Py_UNUSED(kwnames),
                     request Py_UNUSED(means)) {}
#endif

static int parse_request(Tensor *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, request *out) {
  static const char *const names[] = {"stream", "max_version", "dl_device", "copy"};
  PyObject *values[4];
  if (parse_arguments("__dlpack__", args, nargs, kwnames, 0, names, 4, values) < 0) return -1;
  out->versioned = parse_max_version(values[1]);
  if (out->versioned < 0 || parse_copy(values[3], &out->copy) < 0) return -1;
  DLDevice device = self->view.device, is = device;
  int any_device = values[2] == NULL || values[2] == Py_None;
  /* The device is checked before the stream, because `stream` is a stream of that device. */
  if ((!any_device && parse_device(values[2], "dl_device", &device) < 0) ||
      check_device("__dlpack__", &is, device) < 0 || check_stream("__dlpack__", values[0], is, self->stream) < 0)
    return -1;
  out->cpu = is.device_type != self->view.device.device_type;
  Py_ssize_t count = kwnames == NULL ? 0 : PyTuple_Size(kwnames);
  if (count > 0 && any_device && (values[0] == NULL || values[0] == Py_None)) remember(args, count, kwnames, *out);
  return 0;
}

/* Returns a managed tensor in the versioned or the legacy form, on the CPU if `cpu` is set; NULL with an exception. */
static void *export_form(Tensor *self, int versioned, int cpu) {
  void *managed = NULL;
  DLTensor view = self->view;
  int open;
  if (cpu) view.device = (DLDevice){kDLCPU, 0};
  LOCK(self);
  open = self->share != NULL;
  if (open) {
    LOCK_CORE();
    if (versioned) managed = dlbcore_export_versioned_unlocked(self->share, &view, export_flags(self));
    else managed = dlbcore_export_legacy_unlocked(self->share, &view);
    UNLOCK_CORE();
  }
  UNLOCK();
  if (!open) raise_closed(self);
  else if (managed == NULL) PyErr_NoMemory();
  return managed;
}

DLManagedTensorVersioned *tensor_export(Tensor *self) { return export_form(self, 1, 0); }

static PyObject *capsule_of(Tensor *self, int versioned, int cpu) {
  if (!versioned && self->share != NULL && refuse_legacy(self) < 0) return NULL;
  void *managed = export_form(self, versioned, cpu);
  return managed == NULL ? NULL : capsule_new(managed, versioned);
}

PyObject *tensor_dlpack(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  Tensor *self = (Tensor *)op;
  request asks;
  int remembered = self->stream == DEFAULT_STREAM && recall(args, nargs, kwnames, &asks);
  if (!remembered && parse_request(self, args, nargs, kwnames, &asks) < 0) return NULL;
  if (asks.copy <= 0) return capsule_of(self, asks.versioned, asks.cpu);
  Tensor *copy = tensor_copy(self);
  if (copy == NULL) return NULL;
  copy->flags |= DLPACK_FLAG_BITMASK_IS_COPIED; /* nobody else has this Tensor */
  PyObject *capsule = capsule_of(copy, asks.versioned, 0);
  Py_DECREF(copy);
  return capsule;
}

PyObject *tensor_dlpack_device(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  DLDevice device = self->view.device;
  if (device.device_type == kDLCPU && device.device_id == 0) {
    module_state *state = PyType_GetModuleState(Py_TYPE(op));
    return state == NULL ? NULL : Py_NewRef(state->cpu);
  }
  return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}
