/* Managed tensors made in C for the tests: valid and hostile ones, whose deleters count. Loaded by
 * conftest.py through ctypes, as a PyDLL: all functions are called with the GIL held unless they say so.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANK = 300 };

static int64_t deletes;
static int64_t made;

int64_t fixture_deletes(void) { return __atomic_load_n(&deletes, __ATOMIC_SEQ_CST); }
int64_t fixture_made(void) { return made; }

typedef struct {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
  int64_t shape[RANK], strides[RANK];
  _Alignas(256) char data[4096];
} tensor;

static void delete_versioned(DLManagedTensorVersioned *self) {
  __atomic_fetch_add(&deletes, 1, __ATOMIC_SEQ_CST);
  free(self->manager_ctx);
}

static void delete_legacy(DLManagedTensor *self) {
  __atomic_fetch_add(&deletes, 1, __ATOMIC_SEQ_CST);
  free(self->manager_ctx);
}

/* The deleter that raises: what NumPy issue 32697 met. */
static void delete_raising(DLManagedTensorVersioned *self) {
  PyErr_SetString(PyExc_KeyError, "set by a deleter");
  delete_versioned(self);
}

/* What differs from a float32 tensor of shape (4,) with values 0, 1, 2, 3 in native memory. Mirrored in
 * conftest.py. */
typedef struct {
  int32_t legacy;
  uint32_t major, minor;
  uint64_t flags;
  int32_t device_type, device_id;
  int32_t code, bits, lanes;
  int32_t ndim;
  int32_t shape_count, strides_count; /* -1: NULL */
  int64_t shape[RANK], strides[RANK];
  uint64_t byte_offset;
  int64_t data_shift;
  int32_t null_data, null_deleter, raising_deleter;
  uint64_t data_at; /* where the data is said to lie, unless it is 0 */
} description;

void *fixture_make(const description *d) {
  tensor *t = NULL;
  if (posix_memalign((void **)&t, 256, sizeof *t) != 0) return NULL;
  memset(t, 0, sizeof *t);
  made++;
  for (int i = 0; i < 512; i++) {
    float f = (float)i;
    memcpy(t->data + 4 * i, &f, 4);
  }
  memcpy(t->shape, d->shape, sizeof t->shape);
  memcpy(t->strides, d->strides, sizeof t->strides);
  DLTensor *view = d->legacy ? &t->managed.legacy.dl_tensor : &t->managed.versioned.dl_tensor;
  view->data = d->null_data ? NULL : d->data_at != 0 ? (void *)(uintptr_t)d->data_at : t->data + d->data_shift;
  view->device = (DLDevice){(DLDeviceType)d->device_type, d->device_id};
  view->ndim = d->ndim;
  view->dtype = (DLDataType){(uint8_t)d->code, (uint8_t)d->bits, (uint16_t)d->lanes};
  view->shape = d->shape_count < 0 ? NULL : t->shape;
  view->strides = d->strides_count < 0 ? NULL : t->strides;
  view->byte_offset = d->byte_offset;
  if (d->legacy) {
    t->managed.legacy.manager_ctx = t;
    t->managed.legacy.deleter = d->null_deleter ? NULL : delete_legacy;
  } else {
    t->managed.versioned.version = (DLPackVersion){d->major, d->minor};
    t->managed.versioned.manager_ctx = t;
    t->managed.versioned.flags = d->flags;
    t->managed.versioned.deleter =
        d->null_deleter ? NULL : d->raising_deleter ? delete_raising : delete_versioned;
  }
  return t;
}

/* For tensors with a NULL deleter, when their time has come. */
void fixture_free(void *managed) { free(managed); }

/* A tensor of major version 2 whose fields behind `flags` are in memory that cannot be read. */
static char *guard;
static long page;
static void delete_guarded(DLManagedTensorVersioned *self) {
  (void)self;
  __atomic_fetch_add(&deletes, 1, __ATOMIC_SEQ_CST);
}
void *fixture_guarded(void) {
  page = sysconf(_SC_PAGESIZE);
  if (guard == NULL) {
    guard = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard == MAP_FAILED || mprotect(guard + page, page, PROT_NONE) != 0) return NULL;
  }
  DLManagedTensorVersioned *t =
      (DLManagedTensorVersioned *)(guard + page - offsetof(DLManagedTensorVersioned, dl_tensor));
  t->version = (DLPackVersion){2, 0};
  t->manager_ctx = NULL;
  t->deleter = delete_guarded;
  t->flags = 0;
  made++;
  return t;
}

/* ---- capsules, as a C producer makes them ---------------------------------------------------- */

static void capsule_end(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->deleter != NULL) m->deleter(m);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    DLManagedTensor *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m->deleter != NULL) m->deleter(m);
  }
}

PyObject *fixture_capsule(void *managed, int legacy) {
  return PyCapsule_New(managed, legacy ? "dltensor" : "dltensor_versioned", capsule_end);
}

PyObject *fixture_bare_capsule(void *pointer, const char *name) {
  return PyCapsule_New(pointer, name, NULL);
}

const char *fixture_capsule_name(PyObject *capsule) { return PyCapsule_GetName(capsule); }

void *fixture_capsule_pointer(PyObject *capsule) {
  return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
}

/* ---- a consumer in C ------------------------------------------------------------------------- */

void fixture_delete(DLManagedTensorVersioned *managed) { managed->deleter(managed); }

void *fixture_deleter(DLManagedTensorVersioned *managed) { return (void *)managed->deleter; }

/* Changes every field a consumer may change. */
void fixture_scribble(DLManagedTensorVersioned *managed) {
  memset(&managed->dl_tensor, 0xa5, sizeof managed->dl_tensor);
  managed->flags = ~(uint64_t)0;
  managed->version = (DLPackVersion){77, 77};
}

typedef struct {
  DLManagedTensorVersioned **managed;
  int64_t count;
} batch;

static void *delete_batch(void *arg) {
  batch *b = arg;
  for (int64_t i = 0; i < b->count; i++) b->managed[i]->deleter(b->managed[i]);
  return NULL;
}

/* Calls the deleters on threads that Python has never seen, with the GIL let go of or held. */
void fixture_delete_on_threads(DLManagedTensorVersioned **managed, int64_t count, int64_t threads,
                               int release_gil) {
  pthread_t ids[64];
  batch batches[64];
  PyThreadState *state = release_gil ? PyEval_SaveThread() : NULL;
  for (int64_t i = 0; i < threads; i++) {
    int64_t from = count * i / threads, to = count * (i + 1) / threads;
    batches[i] = (batch){managed + from, to - from};
    pthread_create(&ids[i], NULL, delete_batch, &batches[i]);
  }
  for (int64_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  if (release_gil) PyEval_RestoreThread(state);
}

/* Ends something while `error` is being raised, and answers with the error that is raised afterwards. */
static PyObject *error_after(PyObject *error, void (*end)(void *), void *arg) {
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  end(arg);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (value == NULL) Py_RETURN_NONE;
  return value;
}

static void end_managed(void *managed) { fixture_delete(managed); }
static void end_object(void *object) { Py_DECREF((PyObject *)object); }

PyObject *fixture_delete_under_error(PyObject *error, void *managed) {
  return error_after(error, end_managed, managed);
}

/* Calls `make` and drops the one reference to what it returns while `error` is being raised. */
PyObject *fixture_drop_under_error(PyObject *error, PyObject *make) {
  PyObject *object = PyObject_CallNoArgs(make);
  if (object == NULL) return NULL;
  return error_after(error, end_object, object);
}

/* Deletes a managed tensor when the process ends, long after the interpreter. */
static DLManagedTensorVersioned *late[4096];
static int late_count;
static void delete_late(void) {
  for (int i = 0; i < late_count; i++) late[i]->deleter(late[i]);
}
void fixture_delete_at_exit(DLManagedTensorVersioned *managed) {
  if (late_count == 0) atexit(delete_late);
  late[late_count++] = managed;
}

/* ---- deleters while the interpreter ends ------------------------------------------------------ */

/* What a frame does that cannot be unwound, such as a destructor in C++. */
static void end_process(void *said) {
  if (write(2, said, strlen(said)) > 0) abort();
  abort();
}

static int64_t guarded; /* deleters that have returned to guard_deleters */

static void *guard_deleters(void *arg) {
  batch b = *(batch *)arg;
  free(arg);
  pthread_cleanup_push(end_process, "a thread was ended in a deleter\n");
  for (int64_t i = 0; i < b.count; i++) {
    b.managed[i]->deleter(b.managed[i]);
    __atomic_fetch_add(&guarded, 1, __ATOMIC_SEQ_CST);
  }
  pthread_cleanup_pop(0);
  return NULL;
}

/* Calls the deleters on threads of their own that nobody joins. The array must stay. */
void fixture_start_deleters(DLManagedTensorVersioned **managed, int64_t count, int64_t threads) {
  for (int64_t i = 0; i < threads; i++) {
    int64_t from = count * i / threads, to = count * (i + 1) / threads;
    batch *b = malloc(sizeof *b);
    pthread_t id;
    if (b == NULL) abort();
    *b = (batch){managed + from, to - from};
    if (pthread_create(&id, NULL, guard_deleters, b) != 0) abort();
    pthread_detach(id);
  }
}

static int64_t thread_states(void) {
  int64_t count = 0;
  PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  for (; state != NULL; state = PyThreadState_Next(state)) count++;
  return count;
}

/* Calls each deleter on a thread of its own, and returns once each of these has finished or is about to wait for the
 * GIL, which the caller never lets go of: a thread that Python has not seen gets a thread state just before. */
void fixture_start_waiting_deleters(DLManagedTensorVersioned **managed, int64_t count) {
  int64_t until = thread_states() + __atomic_load_n(&guarded, __ATOMIC_SEQ_CST) + count;
  fixture_start_deleters(managed, count, count);
  while (thread_states() + __atomic_load_n(&guarded, __ATOMIC_SEQ_CST) < until) usleep(100);
}

/* Lets go of the GIL until so many deleters have returned. */
void fixture_await_deleters(int64_t count) {
  Py_BEGIN_ALLOW_THREADS;
  while (__atomic_load_n(&guarded, __ATOMIC_SEQ_CST) < count) usleep(100);
  Py_END_ALLOW_THREADS;
}

/* An object whose buffer is never given back: who releases it waits for ever. */
static char stuck_bytes[8];
static int stuck_reached;

static int stuck_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  return PyBuffer_FillInfo(view, self, stuck_bytes, sizeof stuck_bytes, 0, flags);
}

static void stuck_releasebuffer(PyObject *self, Py_buffer *view) {
  (void)self;
  (void)view;
  __atomic_store_n(&stuck_reached, 1, __ATOMIC_SEQ_CST);
  Py_BEGIN_ALLOW_THREADS;
  for (;;) pause();
  Py_END_ALLOW_THREADS;
}

PyObject *fixture_stuck(void) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, (void *)stuck_getbuffer},
                                {Py_bf_releasebuffer, (void *)stuck_releasebuffer},
                                {0, NULL}};
  static PyType_Spec spec = {.name = "test.Stuck", .basicsize = sizeof(PyObject), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
  PyObject *type = PyType_FromSpec(&spec);
  if (type == NULL) return NULL;
  PyObject *object = PyObject_CallNoArgs(type);
  Py_DECREF(type);
  return object;
}

/* Waits until somebody waits in there. */
void fixture_await_stuck(void) {
  Py_BEGIN_ALLOW_THREADS;
  while (!__atomic_load_n(&stuck_reached, __ATOMIC_SEQ_CST)) usleep(100);
  Py_END_ALLOW_THREADS;
}

/* ---- functions for dlbridge.wrap: they own their arguments ------------------------------------ */

/* Adds y to x in place and returns x. float32, row-major. */
DLManagedTensorVersioned *fixture_add(DLManagedTensorVersioned *x, DLManagedTensorVersioned *y) {
  float *a = x->dl_tensor.data, *b = y->dl_tensor.data;
  for (int64_t i = 0; i < x->dl_tensor.shape[0]; i++) a[i] += b[i];
  y->deleter(y);
  return x;
}

DLManagedTensorVersioned *fixture_scale(DLManagedTensorVersioned *x, float factor) {
  float *a = x->dl_tensor.data;
  for (int64_t i = 0; i < x->dl_tensor.shape[0]; i++) a[i] *= factor;
  return x;
}

DLManagedTensorVersioned *fixture_refuse(DLManagedTensorVersioned *x) {
  x->deleter(x);
  return NULL;
}

/* Takes the tensor over, and raises an exception as a function of a PyDLL may. */
DLManagedTensorVersioned *fixture_raise(DLManagedTensorVersioned *x, PyObject *type) {
  x->deleter(x);
  PyErr_SetNone(type);
  return NULL;
}

double fixture_sum(DLManagedTensorVersioned *x) {
  double sum = 0;
  for (int64_t i = 0; i < x->dl_tensor.shape[0]; i++) sum += ((float *)x->dl_tensor.data)[i];
  x->deleter(x);
  return sum;
}

/* The least and the largest of x. */
void fixture_range(DLManagedTensorVersioned *x, double *out) {
  float *a = x->dl_tensor.data;
  out[0] = out[1] = a[0];
  for (int64_t i = 1; i < x->dl_tensor.shape[0]; i++) {
    if (a[i] < out[0]) out[0] = a[i];
    if (a[i] > out[1]) out[1] = a[i];
  }
  x->deleter(x);
}

/* Returns a number, of several types. */
int fixture_int(DLManagedTensorVersioned *x, int number) {
  x->deleter(x);
  return number;
}
long fixture_long(DLManagedTensorVersioned *x, long number) {
  x->deleter(x);
  return number;
}

/* Returns the flags of x. */
int64_t fixture_flags(DLManagedTensorVersioned *x) {
  int64_t flags = (int64_t)x->flags;
  x->deleter(x);
  return flags;
}

/* Returns x as it is. */
DLManagedTensorVersioned *fixture_return(DLManagedTensorVersioned *x) { return x; }

/* Returns x although it has released it. */
DLManagedTensorVersioned *fixture_return_released(DLManagedTensorVersioned *x) {
  x->deleter(x);
  return x;
}

/* Keeps x until fixture_end_kept, and raises `error`, of a PyDLL. */
static DLManagedTensorVersioned *kept;
PyObject *fixture_keep_and_raise(DLManagedTensorVersioned *x, PyObject *error) {
  kept = x;
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  return NULL;
}
void fixture_end_kept(void) { kept->deleter(kept); }

/* Waits, for a few seconds, until somebody has called fixture_open: NULL if nobody has. */
static int opened;
void fixture_open(void) { __atomic_store_n(&opened, 1, __ATOMIC_SEQ_CST); }
DLManagedTensorVersioned *fixture_wait(DLManagedTensorVersioned *x) {
  for (int i = 0; i < 5000; i++) {
    if (__atomic_exchange_n(&opened, 0, __ATOMIC_SEQ_CST)) return x;
    usleep(1000);
  }
  x->deleter(x);
  return NULL;
}

/* Writes whether the caller has the GIL. */
void fixture_note_gil(DLManagedTensorVersioned *x) {
  *(float *)x->dl_tensor.data = (float)PyGILState_Check();
  x->deleter(x);
}

static void *delete_here(void *managed) {
  ((DLManagedTensorVersioned *)managed)->deleter(managed);
  return NULL;
}

/* Ends its arguments on a thread that it waits for, as a library with threads of its own may. */
void fixture_delete_elsewhere(DLManagedTensorVersioned *x, DLManagedTensorVersioned *y) {
  DLManagedTensorVersioned *both[] = {x, y};
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, delete_here, both[i]) != 0) abort();
    pthread_join(thread, NULL);
  }
}

/* ---- a type with a C exchange API of its own ----------------------------------------------------- */

static description table_makes;
static DLPackExchangeAPI table_api;
static int table_calls, table_fails;
static int64_t table_stream;

static int table_from_object(void *object, DLManagedTensorVersioned **out) {
  (void)object;
  table_calls++;
  if (table_fails) {
    PyErr_SetString(PyExc_RuntimeError, "the table fails");
    return -1;
  }
  *out = fixture_make(&table_makes);
  return 0;
}

/* A producer that works on table_stream. It fails if that is negative. */
static int table_work_stream(DLDeviceType device_type, int32_t device_id, void **out) {
  if (table_stream < 0 || (int32_t)device_type != table_makes.device_type || device_id != table_makes.device_id) {
    PyErr_SetString(PyExc_RuntimeError, "the table knows no stream");
    return -1;
  }
  *out = (void *)(intptr_t)table_stream;
  return 0;
}

/* Lets the last table have a function for the stream. */
void fixture_table_works_on(int64_t stream) {
  table_stream = stream;
  table_api.current_work_stream = table_work_stream;
}

/* A capsule of a table whose tensors are as described; `major` is that of the newest, which a table of
 * version 1.3 stands behind. */
PyObject *fixture_table(const description *d, const char *name, int fails, int major) {
  static DLPackExchangeAPI newer;
  table_makes = *d;
  table_fails = fails;
  table_calls = 0;
  table_api = (DLPackExchangeAPI){.header = {{1, 3}, NULL}, .managed_tensor_from_py_object_no_sync = table_from_object};
  newer.header.version = (DLPackVersion){(uint32_t)major, 0};
  newer.header.prev_api = &table_api.header;
  return PyCapsule_New(major == 1 ? &table_api : &newer, name, NULL);
}

int fixture_table_calls(void) { return table_calls; }

/* ---- the C exchange API ----------------------------------------------------------------------- */

static char exchange_error[512];
static void set_error(void *ctx, const char *kind, const char *message) {
  (void)ctx;
  snprintf(exchange_error, sizeof exchange_error, "%s: %s", kind, message);
}

const char *fixture_exchange_error(void) { return exchange_error; }

void *fixture_exchange_alloc(const DLPackExchangeAPI *api, const description *d) {
  DLTensor prototype = {.device = {(DLDeviceType)d->device_type, d->device_id},
                        .ndim = d->ndim,
                        .dtype = {(uint8_t)d->code, (uint8_t)d->bits, (uint16_t)d->lanes},
                        .shape = (int64_t *)d->shape};
  DLManagedTensorVersioned *out = (void *)8;
  exchange_error[0] = '\0';
  int rc = api->managed_tensor_allocator(&prototype, &out, NULL, set_error);
  return rc == 0 ? out : NULL;
}

void *fixture_exchange_from(const DLPackExchangeAPI *api, PyObject *object) {
  DLManagedTensorVersioned *out = NULL;
  return api->managed_tensor_from_py_object_no_sync(object, &out) == 0 ? out : NULL;
}

PyObject *fixture_exchange_to(const DLPackExchangeAPI *api, void *managed) {
  void *object = NULL;
  return api->managed_tensor_to_py_object_no_sync(managed, &object) == 0 ? object : NULL;
}

PyObject *fixture_exchange_view(const DLPackExchangeAPI *api, PyObject *object) {
  DLTensor t;
  if (api->dltensor_from_py_object_no_sync(object, &t) != 0) return NULL;
  return Py_BuildValue("(KiLLK)", (unsigned long long)(uintptr_t)t.data, (int)t.ndim,
                       (long long)t.shape[0], (long long)t.strides[0], (unsigned long long)t.byte_offset);
}

int fixture_exchange_stream(const DLPackExchangeAPI *api) {
  void *stream = (void *)8;
  return api->current_work_stream(kDLCPU, 0, &stream) == 0 && stream == NULL;
}

PyObject *fixture_exchange_header(const DLPackExchangeAPI *api) {
  return Py_BuildValue("(IIi)", api->header.version.major, api->header.version.minor,
                       api->header.prev_api == NULL);
}

/* What a buffer that is asked for with `flags` says. */
static PyObject *sizes(const Py_ssize_t *values, int count) {
  if (values == NULL) Py_RETURN_NONE;
  PyObject *tuple = PyTuple_New(count);
  for (int i = 0; i < count; i++) PyTuple_SetItem(tuple, i, PyLong_FromSsize_t(values[i]));
  return tuple;
}

PyObject *fixture_buffer(PyObject *object, int flags) {
  Py_buffer b;
  if (PyObject_GetBuffer(object, &b, flags) < 0) return NULL;
  PyObject *said = Py_BuildValue("(KnziNNN)", (unsigned long long)(uintptr_t)b.buf, b.len, b.format, b.ndim,
                                 sizes(b.shape, b.ndim), sizes(b.strides, b.ndim),
                                 sizes(b.suboffsets, b.ndim));
  PyBuffer_Release(&b);
  return said;
}

/* What a managed tensor says: version, flags, device, dtype, shape, strides, data, byte_offset. */
PyObject *fixture_describe(const DLManagedTensorVersioned *m) {
  const DLTensor *t = &m->dl_tensor;
  PyObject *shape = PyTuple_New(t->ndim), *strides = PyTuple_New(t->ndim);
  for (int d = 0; d < t->ndim; d++) {
    PyTuple_SetItem(shape, d, PyLong_FromLongLong(t->shape[d]));
    PyTuple_SetItem(strides, d, PyLong_FromLongLong(t->strides[d]));
  }
  return Py_BuildValue("{s(II)sKs(ii)s(iii)sNsNsKsK}", "version", m->version.major, m->version.minor,
                       "flags", (unsigned long long)m->flags, "device", (int)t->device.device_type,
                       t->device.device_id, "dtype", t->dtype.code, t->dtype.bits, t->dtype.lanes, "shape",
                       shape, "strides", strides, "data", (unsigned long long)(uintptr_t)t->data,
                       "byte_offset", (unsigned long long)t->byte_offset);
}
