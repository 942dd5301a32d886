#include "extension.h"

#include <string.h>

void release_quietly(DLManagedTensorVersioned *managed) {
  KEEPING_EXCEPTION(dlbcore_release_versioned(managed));
}

/* Returns a Tensor of a managed tensor, without a share. The managed tensor is not taken over. */
static Tensor *describe(PyTypeObject *type, const DLTensor *view, uint64_t flags, int writability_unknown,
                        const char *place) {
  dlbcore_extent extent;
  if (check_tensor(view, flags, &extent, place) < 0) return NULL;
  return tensor_new(type, view, flags, writability_unknown, &extent);
}

/* Gives a Tensor a share that takes the managed tensor over. The caller must not fail after this has succeeded. */
static int hold(Tensor *self, void (*end)(void *), void *managed) {
  self->share = share_begin(end, managed);
  if (self->share != NULL) return 0;
  return raise_memory();
}

static PyObject *raise_version(const char *place, DLPackVersion version) {
  return PyErr_Format(PyExc_BufferError, "dlbridge: %s: DLPack version %u.%u is not supported, only 1.x is", place,
                      (unsigned)version.major, (unsigned)version.minor);
}

static PyObject *raise_claimed(const char *place, const void *managed) {
  return PyErr_Format(PyExc_ValueError,
                      "dlbridge: %s: the managed tensor at %p was released or taken over before", place,
                      managed);
}

Tensor *take_over(PyTypeObject *type, DLManagedTensorVersioned *managed, const char *place) {
  if (!dlbcore_claim(managed, 1)) return (Tensor *)raise_claimed(place, managed);
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    DLPackVersion version = managed->version;
    release_quietly(managed);
    return (Tensor *)raise_version(place, version);
  }
  Tensor *self = describe(type, &managed->dl_tensor, managed->flags, 0, place);
  if (self != NULL && hold(self, end_versioned, managed) < 0) Py_CLEAR(self);
  if (self == NULL) release_quietly(managed);
  return self;
}

/* ---- capsules -------------------------------------------------------------------------------- */

/* Makes a capsule the owner again of a managed tensor that was claimed. Reports whether that succeeded. */
static int disown(PyObject *capsule, void *managed, int versioned) {
  int disowned;
  KEEPING_EXCEPTION(disowned = PyCapsule_SetName(capsule, capsule_names[versioned]) == 0);
  if (disowned) dlbcore_unclaim(managed, versioned);
  return disowned;
}

static Tensor *raise_capsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, capsule_used_names[1]) || PyCapsule_IsValid(capsule, capsule_used_names[0]))
    return (Tensor *)PyErr_Format(PyExc_ValueError,
                                  "dlbridge: from_dlpack: the capsule has been consumed already; call __dlpack__ for a new one");
  const char *name = PyCapsule_GetName(capsule);
  if (PyErr_Occurred()) return NULL;
  return (Tensor *)PyErr_Format(PyExc_TypeError,
                                "dlbridge: from_dlpack: the capsule is named '%s', but must be named "
                                "'dltensor_versioned' or 'dltensor'",
                                name == NULL ? "" : name);
}

/* Moves the managed tensor of a capsule to a Tensor, and returns the Tensor. *flags is set to the flags of the managed tensor, 0
 * in the legacy form. After an error the capsule still owns its managed tensor, unless the major version is unknown: DLPack
 * requires that such a tensor is released. */
static Tensor *take_capsule(PyTypeObject *type, PyObject *capsule, uint64_t *flags) {
  *flags = 0;
  int versioned = PyCapsule_IsValid(capsule, capsule_names[1]);
  if (!versioned && !PyCapsule_IsValid(capsule, capsule_names[0])) return raise_capsule(capsule);
  void *pointer = PyCapsule_GetPointer(capsule, capsule_names[versioned]);
  DLManagedTensorVersioned *managed = pointer;
  if (!can_be_managed((uintptr_t)pointer))
    return (Tensor *)PyErr_Format(PyExc_ValueError,
                                  (uintptr_t)pointer % 8 != 0
                                      ? "dlbridge: from_dlpack: managed tensor at %p is not aligned"
                                      : "dlbridge: from_dlpack: there can be no managed tensor at %p",
                                  pointer);
  if (!dlbcore_claim(pointer, versioned)) return (Tensor *)raise_claimed("from_dlpack", pointer);
  if (versioned && managed->version.major != DLPACK_MAJOR_VERSION) {
    DLPackVersion version = managed->version;
    if (PyCapsule_SetName(capsule, capsule_used_names[1]) < 0) return NULL;
    release_quietly(managed);
    return (Tensor *)raise_version("from_dlpack", version);
  }
  if (versioned) *flags = managed->flags;
  const DLTensor *view = versioned ? &managed->dl_tensor : &((DLManagedTensor *)pointer)->dl_tensor;
  Tensor *self = describe(type, view, *flags, !versioned, "from_dlpack");
  if (self != NULL && PyCapsule_SetName(capsule, capsule_used_names[versioned]) == 0 &&
      hold(self, versioned ? end_versioned : end_legacy, pointer) == 0)
    return self;
  disown(capsule, pointer, versioned);
  Py_XDECREF((PyObject *)self);
  return NULL;
}

/* Moves the managed tensor of a capsule to a new share, and returns the share, if an export may repeat its description as
 * it is: checked, with strides, and without a byte offset. Otherwise returns NULL without an exception, and the capsule
 * still owns the managed tensor. */
static dlbcore_share *take_exact(PyObject *capsule, DLManagedTensorVersioned **out) {
  if (!PyCapsule_IsValid(capsule, capsule_names[1])) return NULL;
  DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, capsule_names[1]);
  if (!can_be_managed((uintptr_t)managed) || !dlbcore_claim(managed, 1)) return NULL;
  const DLTensor *view = &managed->dl_tensor;
  dlbcore_extent extent;
  int exact = managed->version.major == DLPACK_MAJOR_VERSION &&
              (managed->flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY) == 0 && view->byte_offset == 0 &&
              (view->strides != NULL || view->ndim == 0) &&
              dlbcore_check_tensor(view, managed->flags, &extent, NULL, 0) == CORE_OK &&
              (extent.count > 0 || view->data == NULL);
  dlbcore_share *share = exact ? share_begin(end_versioned, managed) : NULL;
  if (share == NULL) {
    dlbcore_unclaim(managed, 1);
    return NULL;
  }
  PyCapsule_SetName(capsule, capsule_used_names[1]); /* which cannot fail, because the capsule is valid */
  *out = managed;
  return share;
}

/* Gives the managed tensor of a Tensor, which has the only share, back to its capsule. */
static void give_back(Tensor *self, PyObject *capsule) {
  if (disown(capsule, self->share->ctx, self->share->lender == end_versioned)) self->share->lender = NULL;
}

/* ---- producers ------------------------------------------------------------------------------- */

/* Reports whether the current TypeError was raised because a function does not accept one of our keywords: the text is
 * about arguments, and the traceback has no Python frame that has run. (Cython adds a frame that never ran, whose last
 * instruction is negative.) The error stays set. */
static int refused_keywords(void) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return 0;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  int entered = 0;
  PyObject *frame = Py_XNewRef(traceback);
  while (frame != NULL && frame != Py_None && !entered) {
    PyObject *last = PyObject_GetAttrString(frame, "tb_lasti");
    entered = last == NULL || PyLong_AsLong(last) >= 0;
    Py_XDECREF(last);
    PyObject *next = PyObject_GetAttrString(frame, "tb_next");
    REPLACE(frame, next);
  }
  Py_XDECREF(frame);
  int says = 0;
  if (!entered) {
    PyObject *text = PyObject_Str(value);
    Py_ssize_t size;
    const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &size);
    says = utf8 != NULL && strstr(utf8, "argument") != NULL;
    Py_XDECREF(text);
  }
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return says;
}

/* Ends an attempt that may fail, before which PyErr_Fetch has fetched an earlier exception. Drops the exception of the attempt, and sets
 * the earlier one again. It does not drop an interruption such as KeyboardInterrupt, which is no Exception; then it returns -1. */
static int restore(PyObject *type, PyObject *value, PyObject *traceback) {
  if (PyErr_Occurred() == NULL || PyErr_ExceptionMatches(PyExc_Exception)) {
    PyErr_Restore(type, value, traceback);
    return 0;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return -1;
}

/* Reports whether a type has an attribute. An exception that is pending may be lost. */
static int has(PyTypeObject *type, PyObject *name) {
  PyObject *value = PyObject_GetAttr((PyObject *)type, name);
  if (value == NULL) PyErr_Clear();
  Py_XDECREF(value);
  return value != NULL;
}

int is_producer(module_state *state, PyObject *object) {
  int found;
  KEEPING_EXCEPTION(found = has(Py_TYPE(object), state->names[NAME_DLPACK]));
  return found;
}

/* Reports whether the pending exception says that a producer has no __dlpack__. If the type has the attribute, the exception
 * comes from the attribute itself, a property or a method. */
COLD static int has_no_method(module_state *state, PyObject *producer) {
  return PyErr_ExceptionMatches(PyExc_AttributeError) && !is_producer(state, producer);
}

/* Returns the Tensor of a number. For any other object, replaces the AttributeError for its missing __dlpack__ by an
 * exception of the type `error`. */
COLD static Tensor *number_or_error(module_state *state, PyObject *producer, PyObject *error) {
  PyErr_Clear();
  PyObject *array = array_of_scalar(producer); /* first, because numpy.float64 is a float */
  Tensor *self = NULL;
  if (array != NULL) self = consume(state, array);
  else if (!PyErr_Occurred()) self = tensor_of_number(state, producer);
  Py_XDECREF(array);
  if (self == NULL && !PyErr_Occurred())
    PyErr_Format(error,
                 PyObject_CheckBuffer(producer)
                     ? "dlbridge: from_dlpack: %R has no __dlpack__; use from_buffer for objects with a buffer"
                     : "dlbridge: from_dlpack: %R has no __dlpack__; use dlbridge.asarray for lists and other collections of numbers",
                 Py_TYPE(producer));
  return self;
}

/* Returns the C function of a producer's __dlpack__ if no object of the same type can ever have another, as with NumPy's arrays;
 * otherwise NULL. This holds if the type is static, so that nobody can change it, if it looks attributes up in the usual way,
 * and if its objects have no attributes of their own. Looking the method up and binding it takes a third of the time of an
 * import. */
static array_method lasting_dlpack(module_state *state, PyObject *producer) {
  PyTypeObject *type = Py_TYPE(producer);
  if (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) return NULL;
  if (PyType_GetSlot(type, Py_tp_getattro) != (void *)PyObject_GenericGetAttr) return NULL;
  PyObject *of_type = PyObject_GetAttr((PyObject *)type, state->names[NAME_DLPACK]);
  PyObject *dict = PyObject_GetAttrString((PyObject *)type, "__dictoffset__");
  PyObject *method = PyObject_GetAttr(producer, state->names[NAME_DLPACK]);
  array_method found = NULL;
  if (of_type != NULL && Py_IS_TYPE(of_type, &PyMethodDescr_Type) && dict != NULL && PyLong_AsLong(dict) == 0 && method != NULL)
    found = array_method_of(method);
  Py_XDECREF(of_type);
  Py_XDECREF(dict);
  Py_XDECREF(method);
  PyErr_Clear();
  return found;
}

/* Calls the C function of a __dlpack__ with max_version. */
static PyObject *call_with_array(module_state *state, array_method function, PyObject *self) {
  PyObject *result = function(self, &state->version, 0, state->ask_names);
  if (result == NULL && !PyErr_Occurred())
    PyErr_Format(PyExc_SystemError, "dlbridge: from_dlpack: __dlpack__ has failed without an exception");
  return result;
}

/* Calls a bound __dlpack__ with max_version. */
static PyObject *call_with_defaults(module_state *state, PyObject *method) {
  array_method function = array_method_of(method);
  if (function == NULL) return PyObject_Call(method, state->no_args, state->ask);
  return call_with_array(state, function, PyCFunction_GetSelf(method));
}

/* The arguments of __dlpack__ besides max_version. */
typedef struct {
  const DLDevice *device; /* NULL: any */
  int copy;               /* as parse_copy sets it */
  PyObject *stream;       /* an int, or NULL for the default stream */
} wish;

/* Calls a bound __dlpack__ with max_version if `versioned` is set, and with those arguments of the wish that are given. */
static PyObject *call_with_more(module_state *state, PyObject *method, wish asks, int versioned) {
  const DLDevice *device = asks.device;
  PyObject *keywords = versioned ? PyDict_Copy(state->ask) : PyDict_New(), *capsule = NULL;
  PyObject *pair = device == NULL ? Py_NewRef(Py_None)
                                  : Py_BuildValue("(ii)", (int)device->device_type, (int)device->device_id);
  if (keywords != NULL && pair != NULL &&
      (asks.stream == NULL || PyDict_SetItem(keywords, state->names[NAME_STREAM], asks.stream) == 0) &&
      (device == NULL || PyDict_SetItem(keywords, state->names[NAME_DL_DEVICE], pair) == 0) &&
      (asks.copy < 0 || PyDict_SetItem(keywords, state->names[NAME_COPY], asks.copy ? Py_True : Py_False) == 0))
    capsule = PyObject_Call(method, state->no_args, keywords);
  Py_XDECREF(pair);
  Py_XDECREF(keywords);
  return capsule;
}

/* Calls __dlpack__ of a producer, and returns the capsule; NULL with an exception. `lasting` is the result of lasting_dlpack. A
 * producer that does not accept dl_device and copy is called again without them, and one that does not accept max_version is
 * called again without that. A stream is never left out: without it, the memory would not be ready. *asked is set to whether the
 * first call, with all arguments, was accepted. */
static PyObject *ask(module_state *state, PyObject *producer, array_method lasting, wish asks, int *asked) {
  PyObject *method = NULL, *capsule;
  int more = asks.device != NULL || asks.copy >= 0;
  wish fewer = {NULL, -1, asks.stream};
  *asked = 1;
  if (lasting != NULL && !more && asks.stream == NULL) {
    capsule = call_with_array(state, lasting, producer);
  } else {
    method = PyObject_GetAttr(producer, state->names[NAME_DLPACK]);
    if (method == NULL) return NULL;
    capsule = more || asks.stream != NULL ? call_with_more(state, method, asks, 1) : call_with_defaults(state, method);
  }
  if (capsule == NULL && more && refused_keywords()) {
    PyErr_Clear();
    *asked = 0;
    capsule = asks.stream != NULL ? call_with_more(state, method, fewer, 1) : call_with_defaults(state, method);
  }
  if (capsule == NULL && refused_keywords()) {
    PyErr_Clear();
    *asked = 0;
    capsule = method != NULL ? call_with_more(state, method, fewer, 0) : lasting(producer, NULL, 0, NULL);
  }
  Py_XDECREF(method);
  if (capsule != NULL && !PyCapsule_CheckExact(capsule)) {
    PyErr_Format(PyExc_TypeError, "dlbridge: from_dlpack: __dlpack__ returned %R, not a capsule",
                 Py_TYPE(capsule));
    Py_CLEAR(capsule);
  }
  return capsule;
}

/* Returns the exchange API that a type itself declares, or NULL. An inherited one does not count, because a subclass
 * may do more in __dlpack__. */
static const DLPackExchangeAPI *own_api(PyTypeObject *type) {
  PyObject *dict = PyObject_GetAttrString((PyObject *)type, "__dict__");
  PyObject *capsule = dict == NULL ? NULL : PyMapping_GetItemString(dict, "__dlpack_c_exchange_api__");
  const DLPackExchangeAPI *api = NULL;
  if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
    api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_XDECREF(capsule);
  Py_XDECREF(dict);
  PyErr_Clear();
  while (api != NULL && api->header.version.major != DLPACK_MAJOR_VERSION)
    api = (const DLPackExchangeAPI *)api->header.prev_api;
  return api == NULL || api->managed_tensor_from_py_object_no_sync == NULL ? NULL : api;
}

/* Returns the kind of a producer's type, from the cache if it is there. Its type is NULL after an exception. */
static producer_kind kind_of(module_state *state, PyObject *producer) {
  PyTypeObject *type = Py_TYPE(producer);
  producer_kind *place = &state->kinds[((uintptr_t)type >> 4) % KINDS], kind;
  LOCK_CORE();
  kind = *place;
  UNLOCK_CORE();
  if (kind.type == type) return kind;
  kind.by_buffer = lends_by_buffer(state, type);
  if (kind.by_buffer < 0) return (producer_kind){NULL};
  kind.type = (PyTypeObject *)Py_NewRef((PyObject *)type); /* a reference, so that no other type gets its address */
  kind.api = own_api(type);
  kind.dlpack = lasting_dlpack(state, producer);
  kind.lazy = has(type, state->names[NAME_REQUIRES_GRAD]) && has(type, state->names[NAME_IS_CONJ]) &&
              has(type, state->names[NAME_IS_NEG]);
  kind.masked = has(type, state->names[NAME_MASK]) && has(type, state->names[NAME_FILLED]);
  producer_kind was;
  LOCK_CORE();
  was = *place;
  *place = kind;
  UNLOCK_CORE();
  Py_XDECREF((PyObject *)was.type);
  return kind;
}

COLD static int refuse_mask(module_state *state, PyObject *array, const char *place) {
  PyObject *mask = PyObject_GetAttr(array, state->names[NAME_MASK]);
  PyObject *any = mask == NULL ? NULL : PyObject_CallMethod(mask, "any", NULL);
  int yes = any == NULL ? -1 : PyObject_IsTrue(any);
  Py_XDECREF(any);
  Py_XDECREF(mask);
  if (yes < 0 && PyErr_ExceptionMatches(PyExc_AttributeError)) yes = 0; /* `mask` is something else here, such as a method */
  else if (yes < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) yes = 1; /* a mask for each field of records */
  if (yes < 0) return -1;
  PyErr_Clear();
  if (!yes) return 0;
  return raise_error(PyExc_BufferError,
                     "dlbridge: %s: elements of the array are masked, and a tensor has no mask; array.filled(value) puts numbers in "
                     "their place, and array.data is the array without its mask",
                     place);
}

int refuse_masked(module_state *state, PyObject *array, const char *place) {
  if (!(PyType_GetFlags(Py_TYPE(array)) & Py_TPFLAGS_HEAPTYPE)) return 0; /* bytes, for example, and NumPy's own array */
  producer_kind kind = kind_of(state, array);
  if (kind.type == NULL) return -1;
  return kind.masked ? refuse_mask(state, array, place) : 0;
}

enum { FALSE_, TRUE_, RAISED };

/* Returns the truth value of an answer, which is taken over: FALSE_ or TRUE_, RAISED if asking has raised an Exception,
 * as types that imitate PyTorch's may do, or -1 with any other exception. */
static int answer(PyObject *said) {
  int yes = said == NULL ? -1 : PyObject_IsTrue(said);
  Py_XDECREF(said);
  if (yes >= 0 || !PyErr_ExceptionMatches(PyExc_Exception)) return yes;
  PyErr_Clear();
  return RAISED;
}

static int says_negative(module_state *state, PyObject *producer) {
  return answer(PyObject_CallMethodObjArgs(producer, state->names[NAME_IS_NEG], NULL));
}

/* Enters the context in which a subclass of PyTorch's Tensor behaves like a plain tensor, and returns it. Outside of it,
 * PyTorch's ReadOnlyTensorWrapper supports only __dlpack__, which enters this context itself. Returns NULL without an
 * exception if PyTorch was not imported, or the producer is not a tensor of PyTorch. */
static PyObject *plain_tensors(PyObject *producer) {
  PyObject *name = PyUnicode_FromString("torch"), *torch = name == NULL ? NULL : PyImport_GetModule(name);
  PyObject *type = torch == NULL ? NULL : PyObject_GetAttrString(torch, "Tensor"), *c = NULL, *context = NULL;
  if (type != NULL && PyObject_IsInstance(producer, type) == 1) c = PyObject_GetAttrString(torch, "_C");
  if (c != NULL) context = PyObject_CallMethod(c, "DisableTorchFunctionSubclass", NULL);
  PyObject *entered = context == NULL ? NULL : PyObject_CallMethod(context, "__enter__", NULL);
  if (entered == NULL) Py_CLEAR(context);
  PyErr_Clear();
  Py_XDECREF(entered);
  Py_XDECREF(c);
  Py_XDECREF(type);
  Py_XDECREF(torch);
  Py_XDECREF(name);
  return context;
}

/* Returns whether a tensor is a negative view: FALSE_, TRUE_ or RAISED, or -1 with an exception. The elements of a negative view
 * have the wrong sign in memory, and PyTorch's __dlpack__ does not check for it. */
static int is_negative(module_state *state, PyObject *producer) {
  int negative = says_negative(state, producer);
  PyObject *context = negative == RAISED ? plain_tensors(producer) : NULL;
  if (context == NULL) return negative;
  negative = says_negative(state, producer);
  KEEPING_EXCEPTION({
    PyObject *left = PyObject_CallMethod(context, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (left == NULL) PyErr_Clear();
    Py_XDECREF(left);
    Py_DECREF(context);
  });
  return negative;
}

/* PyTorch refuses to export a conjugate view without naming a way out. If the pending exception is its BufferError, this function
 * replaces it by an exception that does. */
static void explain_conjugate(module_state *state, PyObject *producer) {
  if (!PyErr_ExceptionMatches(PyExc_BufferError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  int conjugate = answer(PyObject_CallMethodObjArgs(producer, state->names[NAME_IS_CONJ], NULL));
  if (restore(type, value, traceback) == 0 && conjugate == TRUE_)
    PyErr_SetString(PyExc_BufferError,
                    "dlbridge: from_dlpack: the tensor has the conjugate bit set; use tensor.resolve_conj()");
}

/* Reports whether the memory of a device that an exchange API has exported may be used on the default stream of the device, as every
 * Tensor requires. The API does not wait, so the producer must work on that stream itself. */
static int is_on_default_stream(const DLPackExchangeAPI *api, DLDevice device) {
  void *stream = NULL;
  if (dlbcore_host_readable(device.device_type)) return 1;
  if (api->current_work_stream == NULL) return 0;
  int failed = api->current_work_stream(device.device_type, device.device_id, &stream) != 0;
  if (failed) PyErr_Clear();
  return !failed && stream == NULL;
}

/* Returns a Tensor by the C exchange API of a type. NULL without an exception means that the caller must call
 * __dlpack__: it raises the reason of a refusal, for example for gradients and conjugate views, and waits for the streams of devices. */
static Tensor *take_exchanged(module_state *state, producer_kind kind, PyObject *producer) {
  if (kind.lazy && answer(PyObject_GetAttr(producer, state->names[NAME_REQUIRES_GRAD])) != FALSE_) return NULL;
  DLManagedTensorVersioned *managed = NULL;
  if (kind.api->managed_tensor_from_py_object_no_sync(producer, &managed) != 0 || managed == NULL) {
    PyErr_Clear();
    return NULL;
  }
  if (managed->version.major == DLPACK_MAJOR_VERSION &&
      (!is_on_default_stream(kind.api, managed->dl_tensor.device) ||
       (kind.lazy && managed->dl_tensor.dtype.code == kDLComplex &&
        answer(PyObject_CallMethodObjArgs(producer, state->names[NAME_IS_CONJ], NULL)) != FALSE_))) {
    release_quietly(managed);
    return NULL;
  }
  return take_over(state->tensor_type, managed, "from_dlpack");
}

/* Returns another Tensor on the memory of a Tensor. */
static Tensor *tensor_share(Tensor *self) {
  dlbcore_share *share = tensor_hold(self);
  if (share == NULL) return NULL;
  return tensor_like(self, share, &self->view, self->flags, &self->extent);
}

/* Returns a Tensor on the memory of a NumPy array whose elements have a type of ml_dtypes, which NumPy does not export, and
 * clears the pending exception. For any other object, returns NULL and leaves the pending exception as it is. */
COLD static Tensor *tensor_of_ml_dtypes(module_state *state, PyObject *object) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  DLDataType dtype;
  PyObject *bits = bits_of_ml_dtypes(object, &dtype);
  Tensor *integers = bits == NULL ? NULL : consume(state, bits), *self = NULL;
  if (integers != NULL)
    self = tensor_retyped(integers, dtype, NULL, dtype.bits % 8 != 0 ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0, "numpy");
  Py_XDECREF((PyObject *)integers);
  Py_XDECREF(bits);
  if (self == NULL) {
    restore(type, value, traceback);
    return NULL;
  }
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return self;
}

/* Returns a Tensor on the buffer of an array of NumPy. NULL without an exception means that __dlpack__ must be called: it is not
 * NumPy's own, or it raises the reason of a refusal. */
COLD static Tensor *tensor_of_array(module_state *state, PyObject *array) {
  PyObject *method = PyObject_GetAttr(array, state->names[NAME_DLPACK]);
  int own = method != NULL && PyCFunction_Check(method) && PyCFunction_GetSelf(method) == array;
  Py_XDECREF(method);
  PyErr_Clear();
  if (!own) return NULL;
  Tensor *self = tensor_on_buffer(state, array, NULL, NULL, 0, 0);
  if (self == NULL && (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError))) PyErr_Clear();
  return self;
}

/* A managed tensor that was taken without a Tensor, and the share that holds it. */
typedef struct {
  dlbcore_share *share;
  DLManagedTensorVersioned *managed;
} exact_import;

/* Reports whether `data` is a handle on devices of this type. A handle is no address, and must not be added to. DLPack's own header says of
 * `data`: "This will be CUDA device pointer or cl_mem handle in OpenCL. It may be opaque on some device types." */
static int has_handles(DLDeviceType type) {
  return type == kDLOpenCL || type == kDLVulkan || type == kDLMetal || type == kDLVPI || type == kDLWebGPU;
}

/* Reports whether two Tensors have a byte of memory in common: by their addresses, or by their handles and the offsets within. */
static int overlap(const Tensor *a, const Tensor *b) {
  int handles = has_handles(a->view.device.device_type) || has_handles(b->view.device.device_type);
  if (handles && a->view.data != b->view.data) return 0;
  uint64_t at = (uint64_t)(uintptr_t)a->view.data + a->view.byte_offset, bt = (uint64_t)(uintptr_t)b->view.data + b->view.byte_offset;
  if (a->extent.count == 0 || b->extent.count == 0) return 0;
  return at + (uint64_t)a->extent.low < bt + (uint64_t)b->extent.high && bt + (uint64_t)b->extent.low < at + (uint64_t)a->extent.high;
}

/* Notes the stream on which a producer was asked to make memory ready. -1 with an exception for a stream that the device of the
 * memory cannot have, or that nobody has asked the producer for. */
static int set_stream(Tensor *self, PyObject *object, PyObject *producer) {
  if (PyCapsule_CheckExact(producer))
    return raise_error(PyExc_ValueError, "dlbridge: from_dlpack: stream = %R comes too late for a capsule; pass it to the __dlpack__ that "
                                         "makes the capsule", object);
  if (tensor_check(producer)) return check_stream("from_dlpack", object, self->view.device, self->stream);
  int64_t stream;
  if (parse_stream("from_dlpack", object, self->view.device, &stream) < 0) return -1;
  if (!dlbcore_host_readable(self->view.device.device_type)) self->stream = stream;
  return 0;
}

/* Returns a copy of the memory of the producer of `self`; NULL with an exception. A producer's claim of a copy, such as IS_COPIED,
 * proves nothing. Therefore memory of the host is copied here, to the CPU. Only the producer can make any other copy: the tensor
 * that it returns for copy=True must lie apart from `self`. */
static Tensor *copy_of(module_state *state, PyObject *producer, Tensor *self, wish asks) {
  int on_cpu = asks.device == NULL || asks.device->device_type == kDLCPU;
  if ((on_cpu && dlbcore_host_readable(self->view.device.device_type)) || tensor_check(producer) || PyCapsule_CheckExact(producer))
    return tensor_copy(self);
  int asked;
  uint64_t flags;
  PyObject *capsule = ask(state, producer, NULL, asks, &asked);
  if (capsule == NULL) return NULL;
  Tensor *copy = asked ? take_capsule(state->tensor_type, capsule, &flags) : tensor_copy(self);
  KEEPING_EXCEPTION(Py_DECREF(capsule));
  if (copy != NULL && overlap(copy, self)) {
    PyErr_Format(PyExc_BufferError,
                 "dlbridge: from_dlpack: the producer has returned its own memory although copy=True was passed, and only it can copy "
                 "memory of device (%d, %d); make the copy with its own library",
                 (int)self->view.device.device_type, (int)self->view.device.device_id);
    Py_CLEAR(copy);
  }
  return copy;
}

/* Reports whether a producer says on which device its memory is, and sets *out to that; -1 with an exception if it was interrupted.
 * Otherwise the pending exception stays as it is. */
COLD static int says_device(PyObject *producer, DLDevice *out) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *said = PyObject_CallMethod(producer, "__dlpack_device__", NULL);
  int said_it = said != NULL && parse_device(said, "__dlpack_device__", out) == 0;
  Py_XDECREF(said);
  return restore(type, value, traceback) < 0 ? -1 : said_it;
}

/* Changes the wish to the producer's own memory, on any device. A stream belongs to the wished device, and is dropped if the memory is
 * on another. -1 with an exception. */
static int wish_for_own(PyObject *producer, wish *asks) {
  DLDevice is;
  if (asks->stream != NULL && asks->device != NULL) {
    int said = says_device(producer, &is);
    if (said < 0) return -1;
    if (!said || is.device_type != asks->device->device_type) asks->stream = NULL;
  }
  asks->device = NULL;
  asks->copy = -1;
  return 0;
}

/* Calls __dlpack__ as ask does. If a copy is wished for, the producer is asked for its own memory first (see copy_of), and for a copy if
 * it refuses. A producer of page-locked memory that refuses to export it as memory of the CPU is asked again without a device. */
static PyObject *ask_for_memory(module_state *state, PyObject *producer, array_method lasting, wish asks) {
  int asked;
  DLDevice is;
  wish first = asks;
  if (asks.copy > 0 && wish_for_own(producer, &first) < 0) return NULL;
  PyObject *capsule = ask(state, producer, lasting, first, &asked);
  if (capsule != NULL || !PyErr_ExceptionMatches(PyExc_BufferError)) return capsule;
  if (asks.copy > 0) {
    PyErr_Clear();
    return ask(state, producer, lasting, asks, &asked);
  }
  if (asks.device == NULL || says_device(producer, &is) <= 0) return NULL;
  if (is.device_type == asks.device->device_type || !is_on(is, *asks.device)) return NULL;
  PyErr_Clear();
  asks.device = NULL;
  return ask(state, producer, lasting, asks, &asked);
}

/* Returns a Tensor of any producer, capsule or number. Any other object raises an exception of the type `no_producer`. If `exact` is not
 * NULL, exact->share must be NULL. The managed tensor may then be put into *exact instead (see take_exact), and NULL is returned without
 * an exception. */
static Tensor *from_producer(module_state *state, PyObject *producer, wish asks, PyObject *no_producer, exact_import *exact) {
  const DLDevice *device = asks.device;
  int copy = asks.copy;
  Tensor *self = NULL;
  uint64_t flags = 0;
  if (tensor_check(producer)) {
    self = tensor_share((Tensor *)producer);
  } else if (PyCapsule_CheckExact(producer)) {
    self = take_capsule(state->tensor_type, producer, &flags);
  } else {
    producer_kind kind = kind_of(state, producer);
    if (kind.type == NULL || (kind.masked && refuse_mask(state, producer, "from_dlpack") < 0)) return NULL;
    int negative = kind.lazy ? is_negative(state, producer) : FALSE_;
    if (negative == TRUE_)
      PyErr_SetString(PyExc_BufferError,
                      "dlbridge: from_dlpack: the tensor has the negative bit set; use tensor.resolve_neg()");
    if (negative < 0 || negative == TRUE_) return NULL;
    if (negative == FALSE_ && kind.api != NULL && device == NULL && copy < 0 && asks.stream == NULL) {
      self = take_exchanged(state, kind, producer);
      if (self != NULL || PyErr_Occurred()) return self;
    }
    if (kind.by_buffer && asks.stream == NULL) {
      self = tensor_of_array(state, producer);
      if (self == NULL && PyErr_Occurred()) return NULL;
    }
    PyObject *capsule = self != NULL ? NULL : ask_for_memory(state, producer, kind.dlpack, asks);
    if (self != NULL) {
      /* taken by its buffer */
    } else if (capsule == NULL && has_no_method(state, producer)) {
      self = number_or_error(state, producer, no_producer);
      flags = DLPACK_FLAG_BITMASK_IS_COPIED;
      if (copy > 0) copy = -1; /* which this is */
    } else if (capsule == NULL) {
      if (kind.lazy) explain_conjugate(state, producer);
      self = PyErr_ExceptionMatches(PyExc_BufferError) ? tensor_of_ml_dtypes(state, producer) : NULL;
    } else {
      if (exact != NULL) exact->share = take_exact(capsule, &exact->managed);
      self = exact != NULL && exact->share != NULL ? NULL : take_capsule(state->tensor_type, capsule, &flags);
      KEEPING_EXCEPTION(Py_DECREF(capsule)); /* may free it, and so run code of its producer */
    }
  }
  if (self == NULL) return NULL;
  Tensor *result = self;
  if (copy > 0) result = copy_of(state, producer, self, asks);
  if (result != NULL && ((device != NULL && check_device("from_dlpack", &result->view.device, *device) < 0) ||
                         (asks.stream != NULL && set_stream(result, asks.stream, producer) < 0))) {
    if (result != self) Py_DECREF((PyObject *)result);
    result = NULL;
  } else if (copy == 0 && !PyCapsule_CheckExact(producer) && flags & DLPACK_FLAG_BITMASK_IS_COPIED) {
    PyErr_SetString(PyExc_BufferError, "dlbridge: from_dlpack: the producer has copied although copy=False was passed; "
                                        "copy=None allows it");
    result = NULL;
  }
  if (result == NULL && PyCapsule_CheckExact(producer)) give_back(self, producer);
  if (result != self) Py_DECREF((PyObject *)self);
  return result;
}

Tensor *consume(module_state *state, PyObject *producer) {
  return from_producer(state, producer, (wish){NULL, -1, NULL}, PyExc_TypeError, NULL);
}

Tensor *consume_out(module_state *state, PyObject *out, const char *place) {
  if (tensor_check(out) || is_producer(state, out)) return from_producer(state, out, (wish){NULL, 0, NULL}, PyExc_TypeError, NULL);
  return (Tensor *)PyErr_Format(PyExc_TypeError, "dlbridge: %s: out must be a tensor or an array with __dlpack__, not %R", place,
                                Py_TYPE(out));
}

DLManagedTensorVersioned *export_producer(module_state *state, PyObject *producer, dlbcore_share **keep) {
  if (keep != NULL) *keep = NULL;
  if (tensor_check(producer)) return tensor_export((Tensor *)producer);
  exact_import exact = {NULL, NULL};
  Tensor *tensor = from_producer(state, producer, (wish){NULL, -1, NULL}, PyExc_TypeError, &exact);
  DLManagedTensorVersioned *managed = NULL;
  dlbcore_share *share = exact.share;
  if (tensor != NULL) {
    managed = tensor_export(tensor);
    share = tensor->share;
    dlbcore_share_retain(share);
    Py_DECREF((PyObject *)tensor);
  } else if (share != NULL) {
    LOCK_CORE();
    managed = dlbcore_export_versioned_unlocked(share, &exact.managed->dl_tensor, exact.managed->flags);
    UNLOCK_CORE();
    if (managed == NULL) PyErr_NoMemory();
  }
  if (managed != NULL && keep != NULL) *keep = share;
  else if (share != NULL)
    share_end(share);
  return managed;
}

/* ---- functions of the module ----------------------------------------------------------------- */

PyObject *from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {NULL, "device", "copy", "stream"};
  module_state *state = PyModule_GetState(module);
  PyObject *values[4];
  DLDevice device;
  int copy;
  if (parse_arguments("from_dlpack", args, nargs, kwnames, 1, names, 4, values) < 0) return NULL;
  if (values[0] == NULL)
    return PyErr_Format(PyExc_TypeError, "dlbridge: from_dlpack: the argument, a producer or a capsule, is missing");
  int given = values[1] != NULL && values[1] != Py_None;
  if ((given && parse_device(values[1], "device", &device) < 0) || parse_copy(values[2], &copy) < 0)
    return NULL;
  PyObject *stream = values[3] == Py_None ? NULL : values[3];
  int64_t number;
  if (stream != NULL && given && parse_stream("from_dlpack", stream, device, &number) < 0) return NULL;
  if (stream != NULL && !PyLong_Check(stream))
    return PyErr_Format(PyExc_TypeError, "dlbridge: from_dlpack: stream must be None or an int, not %R", stream);
  wish asks = {given ? &device : NULL, copy, stream};
  /* The array API standard asks for an AttributeError, which NumPy and PyTorch raise too. */
  return (PyObject *)from_producer(state, values[0], asks, PyExc_AttributeError, NULL);
}

PyObject *from_buffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {NULL, "dtype", "shape", "offset"};
  PyObject *values[4];
  if (parse_arguments("from_buffer", args, nargs, kwnames, 3, names, 4, values) < 0) return NULL;
  if (values[0] == NULL)
    return PyErr_Format(PyExc_TypeError, "dlbridge: from_buffer: the argument, an object with a buffer, is missing");
  if (!PyObject_CheckBuffer(values[0]))
    return PyErr_Format(PyExc_TypeError, "dlbridge: from_buffer: a bytes-like object is required, not %R; use from_dlpack for arrays",
                        Py_TYPE(values[0]));
  Py_ssize_t offset = values[3] == NULL ? 0 : PyNumber_AsSsize_t(values[3], PyExc_ValueError);
  if (offset == -1 && PyErr_Occurred()) return NULL;
  module_state *state = PyModule_GetState(module);
  if (refuse_masked(state, values[0], "from_buffer") < 0) return NULL;
  return (PyObject *)tensor_on_buffer(state, values[0], values[1] == Py_None ? NULL : values[1],
                                      values[2] == Py_None ? NULL : values[2], offset, 0);
}

/* A small number is probably a status, which a C function has returned instead of a pointer. */
int can_be_managed(uintptr_t address) {
  return dlbcore_in_address_space(address, 0, sizeof(DLManagedTensor)) && address % 8 == 0;
}

PyObject *from_address(PyObject *module, PyObject *object) {
  if (!PyLong_Check(object))
    return PyErr_Format(PyExc_TypeError, "dlbridge: from_address: the address must be an int, not %R", Py_TYPE(object));
  uintptr_t address = PyLong_AsUnsignedLong(object); /* all ones after an error */
  if (!can_be_managed(address)) {
    PyErr_Clear();
    return PyErr_Format(PyExc_ValueError, "dlbridge: from_address: there can be no managed tensor at %R", object);
  }
  module_state *state = PyModule_GetState(module);
  return (PyObject *)take_over(state->tensor_type, (DLManagedTensorVersioned *)address, "from_address");
}

PyObject *to_address(PyObject *module, PyObject *object) {
  if (tensor_check(object)) {
    Tensor *self = (Tensor *)object;
    if (check_stream("to_address", NULL, self->view.device, self->stream) < 0) return NULL;
  }
  DLManagedTensorVersioned *managed = export_producer(PyModule_GetState(module), object, NULL);
  if (managed == NULL) return NULL;
  PyObject *address = PyLong_FromVoidPtr(managed);
  if (address == NULL) dlbcore_release_versioned(managed);
  return address;
}
