/* tvmffi.c: the C side of package tvmffi. Each function is one step that must not be taken apart: errors
 * of TVM-FFI lie in the thread that they were raised in, and a goroutine may be on another one at its next
 * call into C. */
#define _GNU_SOURCE
#include "tvmffi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

#ifdef __APPLE__
#define LIBRARY "libtvm_ffi.dylib"
#else
#define LIBRARY "libtvm_ffi.so"
#endif

/* ---- the library ----------------------------------------------------------------------------- */

#define FIELD(result, name, parameters) result(*name) parameters;
#define NAME(result, name, parameters) "TVMFFI" #name,

static struct {
  FFI_FUNCTIONS(FIELD)
} ffi;

static const char *const names[] = {FFI_FUNCTIONS(NAME)};

enum { COUNT = sizeof names / sizeof *names };

_Static_assert(sizeof ffi == COUNT * sizeof(void *), "one pointer for each name");

static char *loader_error(void) {
  const char *why = dlerror();
  return strdup(why ? why : "the loader gives no reason");
}

/* The constructor of libtvm_ffi takes SIGSEGV over, without SA_ONSTACK, and so Go could not make a panic of a
 * nil dereference any more. The handler from before is noted when this package starts, since it may be Python
 * that loads the library later, and before it is loaded here. */
static struct sigaction noted;

void ffi_note_handler(void) { sigaction(SIGSEGV, NULL, &noted); }

static void put_handler_back(void) {
  struct sigaction now;
  Dl_info handler, library;
  if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler != noted.sa_handler &&
      dladdr((void *)(uintptr_t)now.sa_handler, &handler) && dladdr((void *)(uintptr_t)ffi.GetVersion, &library) &&
      handler.dli_fbase == library.dli_fbase) {
    sigaction(SIGSEGV, &noted, NULL);
  }
}

/* Loads a library, and makes its symbols those of the process. NULL, or why not. */
char *ffi_load_global(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? NULL : loader_error();
}

/* Takes the libtvm_ffi that the process has already, or else, with load, the one at path (NULL: where the
 * loader looks for libraries). NULL, or why not; *found is where it lies, and NULL when there is none. */
char *ffi_attach(const char *path, int load, char **found) {
  void *functions[COUNT];
  void *library = NULL;
  *found = NULL;
  if (dlsym(RTLD_DEFAULT, names[0])) {
    library = RTLD_DEFAULT;
  } else if ((library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD)) == NULL) {
    if (!load) return NULL;
    ffi_note_handler();
    if ((library = dlopen(path ? path : LIBRARY, RTLD_NOW | RTLD_GLOBAL)) == NULL) return loader_error();
  }
  for (int i = 0; i < COUNT; i++) {
    if ((functions[i] = dlsym(library, names[i])) == NULL) return loader_error(); /* it names the function */
  }
  Dl_info info;
  *found = strdup(dladdr(functions[0], &info) ? info.dli_fname : LIBRARY);
  if (*found == NULL) return loader_error();
  memcpy(&ffi, functions, sizeof ffi);
  put_handler_back();
  return NULL;
}

ffi_version ffi_loaded_version(void) {
  ffi_version version;
  ffi.GetVersion(&version);
  return version;
}

/* Looks closer at a library that was just loaded: 1 where it lacks libtvm_runtime. Kernels reach what that does
 * for them, parallel loops above all, through variables that are set when they are loaded, and that stay NULL
 * without it; they do not look, and crash. The library is kept in the process from here on: the code that
 * deletes what its functions have returned is in it. */
int ffi_lacks_runtime(const char *path) {
  static const char *const variables[] = {
      "__TVMBackendParallelLaunch", "__TVMBackendParallelBarrier",    "__TVMBackendAllocWorkspace",
      "__TVMBackendFreeWorkspace",  "__TVMFFIFunctionCall",           "__TVMFFIHandleInitOnce",
      "__TVMFFIErrorSetRaisedFromCStr", "__TVMFFIEnvModLookupFromImports",
  };
  int lacks = 0;
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (library == NULL) return 0;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    void **variable = dlsym(library, variables[i]);
    lacks |= variable && *variable == NULL;
  }
  dlclose(library);
  return lacks;
}

/* ---- results --------------------------------------------------------------------------------- */

static ffi_result value_of(const ffi_any *any) {
  return (ffi_result){0, any->type, any->size, 0, any->value.bits};
}

static ffi_result object_of(int32_t type, void *object) {
  return (ffi_result){0, object ? type : FFI_NONE, 0, 0, (uintptr_t)object};
}

/* The error that was just raised in this thread. */
static ffi_result raised(void) {
  void *error = NULL;
  ffi.ErrorMoveFromRaised(&error);
  return (ffi_result){-1, FFI_ERROR, 0, 0, (uintptr_t)error};
}

static const ffi_any none = {FFI_NONE, 0, {0}};

/* ---- calls ----------------------------------------------------------------------------------- */

static void describe(ffi_any *any, DLTensor *tensor, const ffi_argument *a, int64_t *dims, char *const *direct) {
  any->type = a->type;
  any->size = a->size;
  any->value.bits = a->value;
  if (a->type != FFI_DLTENSOR || a->ndim < 0) return;
  any->value.pointer = tensor;
  tensor->data = a->direct < 0 ? (void *)(uintptr_t)a->value : direct[a->direct];
  tensor->device = (DLDevice){(DLDeviceType)a->device_type, a->device_id};
  tensor->ndim = a->ndim;
  memcpy(&tensor->dtype, &a->dtype, sizeof a->dtype);
  tensor->shape = dims + a->dims;
  tensor->strides = tensor->shape + a->ndim;
  tensor->byte_offset = a->byte_offset;
}

static ffi_result invoke(void *function, ffi_any *args, int32_t count) {
  ffi_any result = none;
  return ffi.FunctionCall(function, args, count, &result) == 0 ? value_of(&result) : raised();
}

/* Calls a function. The addresses are arguments, so that Go lets the memory be where it is until the call
 * is over; what refers to it lies on this stack. */
ffi_result ffi_invoke(uintptr_t function, const ffi_argument *arguments, int32_t count, const int64_t *dims,
                      char *d0, char *d1, char *d2, char *d3, char *d4, char *d5, char *d6, char *d7) {
  char *const direct[FFI_DIRECT] = {d0, d1, d2, d3, d4, d5, d6, d7};
  ffi_any args[count + 1];
  DLTensor tensors[count + 1];
  for (int32_t i = 0; i < count; i++) describe(&args[i], &tensors[i], &arguments[i], (int64_t *)dims, direct);
  return invoke((void *)function, args, count);
}

struct ffi_prepared {
  void *function;
  ffi_any *args;
  int32_t count;
};

/* A call that can be made again and again: one piece of memory, for free(). 0 when there is none. */
uintptr_t ffi_prepare(uintptr_t function, const ffi_argument *arguments, int32_t count, const int64_t *dims,
                      size_t ndims) {
  size_t each = sizeof(DLTensor) + sizeof(ffi_any);
  ffi_prepared *p = malloc(sizeof *p + (size_t)count * each + ndims * sizeof *dims);
  if (p == NULL) return 0;
  DLTensor *tensors = (DLTensor *)(p + 1);
  p->function = (void *)function;
  p->args = (ffi_any *)(tensors + count);
  p->count = count;
  int64_t *own = (int64_t *)(p->args + count);
  if (ndims > 0) memcpy(own, dims, ndims * sizeof *dims);
  for (int32_t i = 0; i < count; i++) describe(&p->args[i], &tensors[i], &arguments[i], own, NULL);
  return (uintptr_t)p;
}

ffi_result ffi_invoke_prepared(uintptr_t prepared) {
  ffi_prepared *p = (ffi_prepared *)prepared;
  return invoke(p->function, p->args, p->count);
}

/* ---- objects --------------------------------------------------------------------------------- */

void ffi_incref(uintptr_t object) { ffi.ObjectIncRef((void *)object); }

void ffi_decref(uintptr_t object) { ffi.ObjectDecRef((void *)object); }

ffi_result ffi_string(const char *data, size_t size, int bytes) {
  ffi_any out = none;
  ffi_bytes input = {data ? data : "", size};
  int status = bytes ? ffi.BytesFromByteArray(&input, &out) : ffi.StringFromByteArray(&input, &out);
  return status == 0 ? value_of(&out) : raised();
}

ffi_result ffi_global(const char *name, size_t size) {
  void *function = NULL;
  ffi_bytes key = {name ? name : "", size};
  return ffi.FunctionGetGlobal(&key, &function) == 0 ? object_of(FFI_FUNCTION, function) : raised();
}

ffi_result ffi_set_global(const char *name, size_t size, uintptr_t function, int replace) {
  ffi_bytes key = {name ? name : "", size};
  return ffi.FunctionSetGlobal(&key, (void *)function, replace) == 0 ? value_of(&none) : raised();
}

/* A tensor of TVM-FFI's that takes a managed tensor over. On error it is still the caller's. */
ffi_result ffi_tensor(uintptr_t managed) {
  void *tensor = NULL;
  int status = ffi.TensorFromDLPackVersioned((DLManagedTensorVersioned *)managed, 0, 0, &tensor);
  return status == 0 ? object_of(FFI_TENSOR, tensor) : raised();
}

/* A managed tensor that keeps a tensor of TVM-FFI's. */
ffi_result ffi_managed(uintptr_t tensor) {
  DLManagedTensorVersioned *managed = NULL;
  return ffi.TensorToDLPackVersioned((void *)tensor, &managed) == 0 ? object_of(FFI_POINTER, managed) : raised();
}

/* What an argument holds, beyond the call. */
ffi_result ffi_own(const ffi_any *argument) {
  ffi_any out = none;
  return ffi.AnyViewToOwnedAny(argument, &out) == 0 ? value_of(&out) : raised();
}

/* Leaves an error in this thread, for the caller of a Go function. The result is the status to return. */
int ffi_raise(const char *kind, size_t kind_size, const char *message, size_t message_size, const char *backtrace,
              size_t backtrace_size) {
  ffi_bytes k = {kind ? kind : "", kind_size}, m = {message ? message : "", message_size};
  ffi_bytes b = {backtrace ? backtrace : "", backtrace_size};
  void *error = NULL;
  if (ffi.ErrorCreate && ffi.ErrorCreate(&k, &m, &b, &error) == 0) {
    ffi.ErrorSetRaised(error);
    ffi.ObjectDecRef(error);
  }
  return -1;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static int forked;

static void note_fork(void) { forked = 1; }

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

/* A forked child has one thread of Go's many. On its way into Go it would wait for what the others had when they
 * were lost, and so it is told before. */
static int raise_forked(void) {
  static const char kind[] = "RuntimeError",
                    message[] = "dlbridge: Go was loaded before this process was forked, and does not survive a fork: "
                                "start the process with multiprocessing's 'spawn' or 'forkserver'";
  char *found = NULL;
  if (ffi.ErrorCreate == NULL) free(ffi_attach(NULL, 0, &found)); /* there is no other thread */
  free(found);
  return ffi_raise(kind, sizeof kind - 1, message, sizeof message - 1, NULL, 0);
}

#ifdef __linux__
/* What cgo makes of an //export has no place for a check: it waits for Go to start, if it has to, and enters it with
 * a frame of the arguments and the result. The linker (--wrap, in library.go) makes both calls come here. They are
 * weak for what is linked without it. */
size_t __real__cgo_wait_runtime_init_done(void) __attribute__((weak));
void __real_crosscall2(void (*function)(void *), void *frame, int size, size_t context) __attribute__((weak));

/* Whether an address is in a function that TVM-FFI calls. */
static __attribute__((cold, noinline)) int served_at(void *address) {
  static const char prefix[] = "__tvm_ffi_";
  Dl_info info;
  return dladdr(address, &info) && info.dli_sname && strncmp(info.dli_sname, prefix, sizeof prefix - 1) == 0;
}

FFI_HIDDEN size_t __wrap__cgo_wait_runtime_init_done(void) {
  if (forked && served_at(__builtin_return_address(0))) return 0;
  return __real__cgo_wait_runtime_init_done();
}

FFI_HIDDEN void __wrap_crosscall2(void (*function)(void *), void *frame, int size, size_t context) {
  if (forked && served_at(__builtin_return_address(0))) {
    ((struct { void *self, *args; int32_t count; void *result; int32_t status; } *)frame)->status = raise_forked();
  } else {
    __real_crosscall2(function, frame, size, context);
  }
}
#endif

/* ---- Go functions ---------------------------------------------------------------------------- */

/* What TVM-FFI has of a Go function: its number. The deleter may run on any thread and at any time, and so
 * does not enter Go: it leaves the number where Go finds it when it makes its next function. */
typedef struct served {
  uint64_t id;
  struct served *next;
} served;

static served *dead;

static int serve(void *self, const ffi_any *args, int32_t count, ffi_any *result) {
  if (forked) return raise_forked();
  return dlb_tvmffi_serve(((served *)self)->id, (void *)args, count, result);
}

static void bury(void *self) {
  served *s = self;
  s->next = __atomic_load_n(&dead, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&dead, &s->next, s, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

/* Makes a function of a Go function's number. */
ffi_result ffi_function(uint64_t id) {
  void *function = NULL;
  served *s = malloc(sizeof *s);
  if (s == NULL) return (ffi_result){-1, FFI_ERROR, 0, 0, 0};
  s->id = id;
  if (ffi.FunctionCreate(s, serve, bury, &function) == 0) return object_of(FFI_FUNCTION, function);
  free(s);
  return raised();
}

/* Takes the number of a function that is gone, if there is one. Only one thread may be here. */
int ffi_dead_function(uint64_t *id) {
  static served *mine;
  if (mine == NULL) mine = __atomic_exchange_n(&dead, NULL, __ATOMIC_ACQUIRE);
  served *s = mine;
  if (s == NULL) return 0;
  mine = s->next;
  *id = s->id;
  free(s);
  return 1;
}
