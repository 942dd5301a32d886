/* tvmffi.c: the C side of package tvmffi. Each function must stay one call from Go: TVM-FFI stores an error in the
 * thread that raised it, and a goroutine may be on another thread at its next call into C. */
#define _GNU_SOURCE
#include "tvmffi.h"

#include <library.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
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

/* The constructor of libtvm_ffi installs a handler for SIGSEGV without SA_ONSTACK, with which Go could no longer turn
 * a nil dereference into a panic. The previous handler is recorded when this package starts, because Python may load
 * the library later, and again before the library is loaded here. */
static struct sigaction noted;

void ffi_note_handler(void) { sigaction(SIGSEGV, NULL, &noted); }

static void put_handler_back(const void *library) {
  struct sigaction now;
  Dl_info handler;
  if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler != noted.sa_handler &&
      dladdr((void *)(uintptr_t)now.sa_handler, &handler) && handler.dli_fbase == library) {
    sigaction(SIGSEGV, &noted, NULL);
  }
}

/* Loads a library and makes its symbols global in the process. Returns NULL, or the reason for the failure, which the caller
 * frees. */
char *ffi_load_global(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? NULL : library_error();
}

/* Returns NULL if the library at path has the version that abi.h is written for, or else why it must not be used. */
static char *other_version(const char *path, void *get_version) {
  ffi_version v;
  ((__typeof__(ffi.GetVersion))get_version)(&v);
  if (v.major == FFI_MAJOR && v.minor == FFI_MINOR) return NULL;
  return library_text("%s has version %u.%u.%u, want %d.%d.x, as in the wheel apache-tvm-ffi of that version", path, v.major, v.minor,
                      v.patch, FFI_MAJOR, FFI_MINOR);
}

static ffi_raise_text raise_text; /* of a libtvm_ffi that cannot be attached, or NULL */

/* Looks up the functions of the libtvm_ffi in the process. If there is none and path is not NULL, it loads the library from path.
 * Returns NULL, or the reason for the failure, and then no functions of the library are called later, except raise_text. *found is
 * the file of the library, or NULL if there is none. The caller frees both texts. */
char *ffi_attach(const char *path, char **found) {
  void *functions[COUNT];
  void *library = NULL;
  *found = NULL;
  if (dlsym(RTLD_DEFAULT, names[0])) {
    library = RTLD_DEFAULT;
  } else if ((library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD)) == NULL) {
    if (path == NULL) return NULL;
    ffi_note_handler();
    if ((library = dlopen(path, RTLD_NOW | RTLD_GLOBAL)) == NULL) return library_error();
  }
  Dl_info info = {.dli_fname = LIBRARY};
  char *why = library_functions(library, names, 1, functions);
  if (why) return why;
  if (dladdr(functions[0], &info)) put_handler_back(info.dli_fbase);
  __atomic_store_n(&raise_text, (ffi_raise_text)dlsym(library, "TVMFFIErrorSetRaisedFromCStr"), __ATOMIC_RELAXED);
  if ((why = other_version(info.dli_fname, functions[0])) != NULL) return why;
  if ((why = library_functions(library, names, COUNT, functions)) != NULL) return why;
  *found = library_text("%s", info.dli_fname);
  memcpy(&ffi, functions, sizeof ffi);
  return NULL;
}

/* Returns 1 if a library that has just been loaded lacks libtvm_runtime. Kernels call functions of libtvm_runtime,
 * such as those for parallel loops, through variables that are set when the kernels are loaded. Without it the
 * variables stay NULL, and the kernels crash because they do not check them. The library stays in the process from
 * here on, because it contains the code that deletes the results of its functions. */
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

/* Takes the error that was just raised in this thread. */
static ffi_result raised(void) {
  void *error = NULL;
  ffi.ErrorMoveFromRaised(&error);
  return (ffi_result){-1, FFI_ERROR, 0, 0, (uintptr_t)error};
}

static const ffi_any none = {FFI_NONE, 0, {0}};

/* ---- calls ----------------------------------------------------------------------------------- */

/* Sets *any to an argument. For a tensor that is described by value, it also sets *tensor, to which *any then points. */
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

/* Calls a function. The addresses of Go memory are arguments, so that Go keeps the memory in place until the call
 * returns. The tensors that refer to it lie on this stack, or in the heap if there are many. */
ffi_result ffi_invoke(uintptr_t function, const ffi_argument *arguments, int32_t count, const int64_t *dims,
                      char *d0, char *d1, char *d2, char *d3, char *d4, char *d5, char *d6, char *d7) {
  char *const direct[FFI_DIRECT] = {d0, d1, d2, d3, d4, d5, d6, d7};
  enum { FEW = 32 };
  ffi_any few[FEW], *args = few;
  DLTensor of_few[FEW], *tensors = of_few;
  if (count > FEW) {
    tensors = malloc((size_t)count * (sizeof *tensors + sizeof *args));
    if (tensors == NULL) return (ffi_result){.status = FFI_NO_MEMORY};
    args = (ffi_any *)(tensors + count);
  }
  for (int32_t i = 0; i < count; i++) describe(&args[i], &tensors[i], &arguments[i], (int64_t *)dims, direct);
  ffi_result result = invoke((void *)function, args, count);
  if (tensors != of_few) free(tensors);
  return result;
}

struct ffi_prepared {
  void *function;
  ffi_any *args;
  int32_t count;
};

/* Returns a call that can be made many times, in one piece of memory that the caller frees with free(). Returns 0 if
 * there is no memory. */
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

/* Returns a string or, if bytes is set, a byte string: up to FFI_SMALL_MAX bytes in the result itself, otherwise a new object. */
ffi_result ffi_string(const char *data, size_t size, int bytes) {
  ffi_any out = none;
  ffi_bytes input = {data ? data : "", size};
  int status = bytes ? ffi.BytesFromByteArray(&input, &out) : ffi.StringFromByteArray(&input, &out);
  return status == 0 ? value_of(&out) : raised();
}

/* Returns a function of the global table, or FFI_NONE if there is none of this name. */
ffi_result ffi_global(const char *name, size_t size) {
  void *function = NULL;
  ffi_bytes key = {name ? name : "", size};
  return ffi.FunctionGetGlobal(&key, &function) == 0 ? object_of(FFI_FUNCTION, function) : raised();
}

ffi_result ffi_set_global(const char *name, size_t size, uintptr_t function, int replace) {
  ffi_bytes key = {name ? name : "", size};
  return ffi.FunctionSetGlobal(&key, (void *)function, replace) == 0 ? value_of(&none) : raised();
}

/* Returns a tensor object that takes over a managed tensor. On error the caller still owns the managed tensor. */
ffi_result ffi_tensor(uintptr_t managed) {
  void *tensor = NULL;
  int status = ffi.TensorFromDLPackVersioned((DLManagedTensorVersioned *)managed, 0, 0, &tensor);
  return status == 0 ? object_of(FFI_TENSOR, tensor) : raised();
}

/* Returns a managed tensor that holds a reference to a tensor object. */
ffi_result ffi_managed(uintptr_t tensor) {
  DLManagedTensorVersioned *managed = NULL;
  return ffi.TensorToDLPackVersioned((void *)tensor, &managed) == 0 ? object_of(FFI_POINTER, managed) : raised();
}

/* Returns an owned copy of an argument, which outlives the call. */
ffi_result ffi_own(const ffi_any *argument) {
  ffi_any out = none;
  return ffi.AnyViewToOwnedAny(argument, &out) == 0 ? value_of(&out) : raised();
}

/* Leaves an error in this thread, for the caller of a Go function. Returns the status for that caller. */
int ffi_raise(const char *kind, size_t kind_size, const char *message, size_t message_size, const char *backtrace,
              size_t backtrace_size) {
  ffi_bytes k = {kind ? kind : "", kind_size}, m = {message ? message : "", message_size};
  ffi_bytes b = {backtrace ? backtrace : "", backtrace_size};
  void *error = NULL;
  if (ffi.ErrorCreate(&k, &m, &b, &error) == 0) {
    ffi.ErrorSetRaised(error);
    ffi.ObjectDecRef(error);
  }
  return -1;
}

/* Leaves an error in this thread if libtvm_ffi cannot be attached: callers such as Python crash where one is missing. Returns
 * the status for the caller. */
int ffi_refuse(const char *message) {
  ffi_raise_text raise = __atomic_load_n(&raise_text, __ATOMIC_RELAXED);
  if (raise) raise("RuntimeError", message);
  return -1;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static int forked;

static void note_fork(void) { forked = 1; }

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

/* A forked child has only one of Go's threads. It would wait forever for locks that the other threads held, so it
 * gets an error before it enters Go. */
static int raise_forked(void) {
  static const char kind[] = "RuntimeError",
                    message[] = "dlbridge: Go was loaded before this process was forked, and does not survive a fork: "
                                "start the process with multiprocessing's 'spawn' or 'forkserver'";
  char *found = NULL;
  if (ffi.ErrorCreate == NULL) free(ffi_attach(NULL, &found)); /* needs no lock: there is no other thread */
  free(found);
  if (ffi.ErrorCreate == NULL) return ffi_refuse(message);
  return ffi_raise(kind, sizeof kind - 1, message, sizeof message - 1, NULL, 0);
}

#ifdef __linux__
/* The code that cgo generates for an //export has no place for a check. It waits until Go has started and enters Go with
 * a frame of the arguments and the result. The linker (--wrap, in library.go) redirects both calls to the functions
 * below. The originals are weak symbols for programs that are linked without --wrap. */
size_t __real__cgo_wait_runtime_init_done(void) __attribute__((weak));
void __real_crosscall2(void (*function)(void *), void *frame, int size, size_t context) __attribute__((weak));

/* Reports whether an address lies in a function that TVM-FFI calls. */
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

/* TVM-FFI refers to a Go function by its number. The deleter may run on any thread at any time, so it does not enter Go:
 * it puts the number on a list, from which Go takes it when it makes its next function. */
typedef struct served {
  uint64_t id;
  struct served *next;
} served;

static served *deleted;

static int serve(void *self, const ffi_any *args, int32_t count, ffi_any *result) {
  if (forked) return raise_forked();
  return dlb_tvmffi_serve(((served *)self)->id, (void *)args, count, result);
}

static void delete_served(void *self) {
  served *s = self;
  s->next = __atomic_load_n(&deleted, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&deleted, &s->next, s, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

/* Returns a function for the Go function with this number. */
ffi_result ffi_function(uint64_t id) {
  void *function = NULL;
  served *s = malloc(sizeof *s);
  if (s == NULL) return (ffi_result){-1, FFI_ERROR, 0, 0, 0};
  s->id = id;
  if (ffi.FunctionCreate(s, serve, delete_served, &function) == 0) return object_of(FFI_FUNCTION, function);
  free(s);
  return raised();
}

/* Takes the number of a Go function whose TVM-FFI function was deleted off the list, sets *id to it and returns 1.
 * Returns 0 if there is none. One thread at a time may call it. */
int ffi_deleted_function(uint64_t *id) {
  static served *mine;
  if (mine == NULL) mine = __atomic_exchange_n(&deleted, NULL, __ATOMIC_ACQUIRE);
  served *s = mine;
  if (s == NULL) return 0;
  mine = s->next;
  *id = s->id;
  free(s);
  return 1;
}
