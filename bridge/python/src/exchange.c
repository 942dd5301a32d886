/* The C exchange API of DLPack for the type Tensor. */
#include "extension.h"

/* The Tensor types of all live modules. Managed tensors from C become objects of the last one. There are several
 * modules if a program has imported the package again. */
enum { LIVE = 8 };

static PyTypeObject *live_types[LIVE];
static int live_count;

void exchange_type(PyTypeObject *type, int live) {
  int kept = 0;
  for (int i = 0; i < live_count; i++) {
    if (live_types[i] != type) live_types[kept++] = live_types[i];
  }
  if (live && kept < LIVE) live_types[kept++] = type;
  live_count = kept;
}

/* Called with or without the GIL. */
static int exchange_alloc(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                          void (*set_error)(void *error_ctx, const char *kind, const char *message)) {
  char message[MESSAGE_SIZE] = "the prototype is NULL", whole[MESSAGE_SIZE + 32];
  dlbcore_extent extent;
  dlbcore_status status = CORE_ERR_NULL;
  DLTensor view;
  *out = NULL;
  if (prototype != NULL) {
    view = *prototype;
    view.byte_offset = 0;
    view.strides = NULL;
    status = dlbcore_check_layout(&view, 0, &extent, message, sizeof message);
  }
  if (status == CORE_OK && view.device.device_type != kDLCPU) {
    status = CORE_ERR_DEVICE;
    PyOS_snprintf(message, sizeof message, "no allocator for device type %d",
                  (int)view.device.device_type);
  }
  dlbcore_share *share = status == CORE_OK ? dlbcore_share_alloc((size_t)extent.nbytes, 0) : NULL;
  if (share != NULL) {
    view.data = share->data;
    *out = dlbcore_export_versioned(share, &view, 0);
    dlbcore_share_drop(share);
  }
  if (*out != NULL) return 0;
  const char *kind = "ValueError";
  if (status == CORE_OK) {
    kind = "MemoryError";
    PyOS_snprintf(message, sizeof message, "no memory for %lld bytes", (long long)extent.nbytes);
  } else if (status == CORE_ERR_DTYPE || status == CORE_ERR_DEVICE) {
    kind = "BufferError";
  }
  PyOS_snprintf(whole, sizeof whole, "dlbridge: allocate: %s", message);
  if (set_error != NULL) set_error(error_ctx, kind, whole);
  return -1;
}

static Tensor *exchange_object(void *object) {
  if (object != NULL && tensor_check(object)) return object;
  return (Tensor *)PyErr_Format(
      PyExc_TypeError, "dlbridge: the C exchange API of dlbridge.Tensor accepts only objects of this type");
}

static int exchange_from_object(void *object, DLManagedTensorVersioned **out) {
  *out = NULL;
  Tensor *self = exchange_object(object);
  if (self != NULL && check_stream("C exchange API", NULL, self->view.device, self->stream) == 0) *out = tensor_export(self);
  return *out == NULL ? -1 : 0;
}

static int exchange_to_object(DLManagedTensorVersioned *managed, void **out) {
  *out = NULL;
  if (!can_be_managed((uintptr_t)managed))
    return raise_error(PyExc_ValueError, "dlbridge: C exchange API: there can be no managed tensor at %p", managed);
  if (live_count == 0) {
    dlbcore_release_versioned(managed);
    return raise_error(PyExc_RuntimeError, "dlbridge: the module was freed");
  }
  *out = take_over(live_types[live_count - 1], managed, "C exchange API");
  return *out == NULL ? -1 : 0;
}

/* A DLTensor has no flags, so that it can represent neither read-only memory nor padded elements. */
static int exchange_view(void *object, DLTensor *out) {
  Tensor *self = exchange_object(object);
  if (self == NULL) return -1;
  if (self->share == NULL) return raise_closed(self), -1;
  if (check_stream("C exchange API", NULL, self->view.device, self->stream) < 0) return -1;
  const char *what = tensor_read_only(self)                                    ? "read-only memory"
                     : self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED ? "padded elements"
                                                                                : NULL;
  if (what != NULL)
    return raise_error(PyExc_BufferError,
                       "dlbridge: C exchange API: a DLTensor cannot represent %s; get a managed tensor from "
                       "managed_tensor_from_py_object_no_sync or __dlpack__(max_version=(1, 0))", what);
  *out = self->view;
  return 0;
}

/* A Tensor that the table exports is ready on the default stream of its device, which NULL stands for. dlbridge itself works on no
 * stream. */
static int exchange_stream(DLDeviceType Py_UNUSED(device_type), int32_t Py_UNUSED(device_id),
                           void **out) {
  *out = NULL;
  return 0;
}

static const DLPackExchangeAPI exchange_api = {
    .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL},
    .managed_tensor_allocator = exchange_alloc,
    .managed_tensor_from_py_object_no_sync = exchange_from_object,
    .managed_tensor_to_py_object_no_sync = exchange_to_object,
    .dltensor_from_py_object_no_sync = exchange_view,
    .current_work_stream = exchange_stream,
};

PyObject *exchange_capsule(void) {
  return PyCapsule_New((void *)&exchange_api, "dlpack_exchange_api", NULL);
}
