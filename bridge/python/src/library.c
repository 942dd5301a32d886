/* The Go library: loading it, its errors and its counters. */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The library of this process. A Go runtime can only be loaded once, and never unloaded. */
static library loaded;
static char *loaded_path;
static void *loaded_handle;
static int loaded_by_format; /* rather than by dlbridge.load */

/* A thread that holds this lock must not have the GIL, and must not call Python. Making a Python object may run the
 * collector, and so a finalizer that loads the library: it would wait for this lock on the thread that holds it. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* The reason why the library cannot be loaded: the exception to be raised after the lock is released. */
typedef struct {
  PyObject *type; /* borrowed; NULL if nothing failed */
  char *text;     /* from malloc; NULL if there is no memory for it */
} failure;

__attribute__((format(printf, 3, 4))) static int fail(failure *out, PyObject *type, const char *format, ...) {
  va_list arguments;
  enum { SIZE = 6144 }; /* room for a path, and for a message of the loader with another */
  out->text = malloc(SIZE);
  va_start(arguments, format);
  if (out->text != NULL) PyOS_vsnprintf(out->text, SIZE, format, arguments);
  va_end(arguments);
  out->type = type;
  return -1;
}

#define OF_C "load a plain C library with ctypes.CDLL, and pass its functions to dlbridge.wrap"

/* Sets *function, a pointer to a function, to the symbol `name`. */
static int find(void *handle, const char *path, const char *name, void *function, failure *why) {
  void *symbol = dlsym(handle, name);
  if (symbol == NULL)
    return fail(why, PyExc_OSError,
                "dlbridge: %s has no symbol %s: a Go library must be built with the version of dlbridge that this "
                "package has (" OF_C ")", path, name);
  memcpy(function, &symbol, sizeof symbol);
  return 0;
}

static int resolve(void *handle, const char *path, failure *why) {
  library found = {0};
  if (dlsym(handle, "dlb_version") == NULL)
    return fail(why, PyExc_OSError,
                "dlbridge: %s is not a dlbridge library, because it has no symbol dlb_version: a Go library must import "
                "github.com/dlbridge/dlbridge/bridge/capi (" OF_C ")",
                path);
#define RESOLVE(name) \
  if (find(handle, path, #name, &found.name, why) < 0) return -1;
  FUNCTIONS(RESOLVE)
#define RESOLVE_OF(name, function) \
  if (find(handle, path, "dlb_" #name "_" #function, &found.formats[FORMAT_##name].function, why) < 0) return -1;
#define RESOLVE_FORMAT(name, ...) RESOLVE_OF(name, decode) RESOLVE_OF(name, encode)
#define RESOLVE_STREAM(name) RESOLVE_OF(name, decode_batch)
#define RESOLVE_RULES(name) RESOLVE_OF(name, check)
  FORMATS(RESOLVE_FORMAT)
  STREAMS(RESOLVE_STREAM)
  RULES(RESOLVE_RULES)
  const char *version = found.dlb_version();
  if (strtol(version, NULL, 10) != DLB_VERSION_MAJOR)
    return fail(why, PyExc_OSError, "dlbridge: %s has version %s, but this package needs %d.x", path, version,
                DLB_VERSION_MAJOR);
  loaded = found;
  return 0;
}

/* Set in a forked child if the library was being loaded: the child lacks the loading thread, and cannot use the partly
 * initialised Go runtime. */
static int stranded;

/* Set in a forked child if the library was loaded before: Go does not run there. */
static int stopped;

static void note_fork(void) {
  stopped = loaded_path != NULL;
  if (pthread_mutex_trylock(&loading) == 0) {
    pthread_mutex_unlock(&loading);
    return;
  }
  loading = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  stranded = !stopped;
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

static const char forked[] =
    "dlbridge: the Go library was loaded before this process was forked, and Go does not survive a fork: start the "
    "process with multiprocessing's 'spawn' or 'forkserver'";

int is_stopped(void *function) {
  Dl_info of_function, of_library;
  void *symbol;
  if (!stopped) return 0;
  memcpy(&symbol, &loaded.dlb_message_decode, sizeof symbol);
  return dladdr(function, &of_function) != 0 && dladdr(symbol, &of_library) != 0 &&
         of_function.dli_fbase == of_library.dli_fbase;
}

/* Reports whether something other than a regular file is at a path. The loader must not open a FIFO, because it would
 * wait for a writer. */
static int is_no_file(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* Loads the library at a path. `given` is whether the user has named the path; otherwise the library is the one in this package.
 * It is opened with RTLD_LOCAL, because its symbols are looked up by its handle and must not be found by other libraries. */
static int open_library(const char *path, int given, failure *why) {
  if (stranded) return fail(why, PyExc_RuntimeError, "%s", forked);
  if (is_no_file(path)) return fail(why, PyExc_OSError, "dlbridge: cannot load %s: it is not a regular file", path);
  if (!given && access(path, F_OK) != 0)
    return fail(why, PyExc_OSError,
                "dlbridge: this package was built without Go, which its formats need: install Go 1.26 or later and build the "
                "package again, or set DLBRIDGE_LIBRARY (or call dlbridge.load) to the path of a library, which is not at %s",
                path);
  char *copy = strdup(path);
  if (copy == NULL) return fail(why, PyExc_MemoryError, "dlbridge: load: no memory for the path");
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *error = dlerror();
    fail(why, PyExc_OSError,
         "dlbridge: cannot load %s: %s (dlbridge.load or DLBRIDGE_LIBRARY selects the Go library)", path,
         error == NULL ? "unknown error" : error);
  }
  if (handle == NULL || resolve(handle, path, why) < 0) {
    free(copy);
    return -1;
  }
  loaded_handle = handle;
  __atomic_store_n(&loaded_path, copy, __ATOMIC_RELEASE);
  return 0;
}

static int warn_of_other_runtimes(void) {
  PyObject *runtimes = PyImport_ImportModule("dlbridge._runtimes");
  if (runtimes == NULL) { /* in a finalizer while the interpreter ends: the library works without the warning */
    PyErr_Clear();
    return 0;
  }
  PyObject *none = PyObject_CallMethod(runtimes, "warn", "K", (unsigned long long)(uintptr_t)loaded.dlb_message_decode);
  Py_DECREF(runtimes);
  Py_XDECREF(none);
  return none == NULL ? -1 : 0;
}

/* Reports whether the environment names a library. */
static int is_named(void) {
  const char *path = getenv("DLBRIDGE_LIBRARY");
  return path != NULL && *path != '\0';
}

/* Returns $DLBRIDGE_LIBRARY, or else the path of the library next to this module. */
static PyObject *default_path(PyObject *module) {
  if (is_named()) return PyUnicode_DecodeFSDefault(getenv("DLBRIDGE_LIBRARY"));
  PyObject *file = PyModule_GetFilenameObject(module);
  if (file == NULL) return NULL;
  Py_ssize_t size = PyUnicode_GetLength(file);
  Py_ssize_t slash = PyUnicode_FindChar(file, '/', 0, size, -1);
  PyObject *folder = PyUnicode_Substring(file, 0, slash + 1);
  Py_DECREF(file);
  if (folder == NULL) return NULL;
  PyObject *path = PyUnicode_FromFormat("%U_lib/libdlbridge.so", folder);
  Py_DECREF(folder);
  return path;
}

/* Reports whether a path leads to the loaded library, possibly by another name. */
static int is_loaded_library(const char *path) {
  if (strcmp(loaded_path, path) == 0) return 1;
  if (is_no_file(path)) return 0;
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle != NULL) dlclose(handle); /* the library itself stays open */
  return handle == loaded_handle;
}

/* Loads the library at a path, unless one is loaded already. With `only`, the loaded one must be the one at the path. -1 with an
 * exception. */
static int load(const char *path, int only) {
  failure why = {0};
  int opened = 0, given = only || is_named();
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&loading);
  if (loaded_path == NULL) {
    opened = open_library(path, given, &why) == 0;
    loaded_by_format = opened && !only;
  } else if (only && strchr(path, '/') != NULL && access(path, F_OK) != 0)
    fail(&why, PyExc_OSError, "dlbridge: load: %s: %s", path, strerror(errno));
  else if (only && !is_loaded_library(path) && loaded_by_format)
    fail(&why, PyExc_RuntimeError, "dlbridge: load: the first use of a format has loaded %s, and a process can have only one Go library: "
         "call load before it, or set DLBRIDGE_LIBRARY=%s in the environment (" OF_C ")", loaded_path, path);
  else if (only && !is_loaded_library(path))
    fail(&why, PyExc_RuntimeError, "dlbridge: load: %s is loaded already, and a process can have only one Go library: "
         "put the functions of %s into it (" OF_C ")", loaded_path, path);
  pthread_mutex_unlock(&loading);
  Py_END_ALLOW_THREADS;
  if (why.type != NULL) {
    raise_error(why.type, "%s", why.text == NULL ? "dlbridge: load: no memory for the reason" : why.text);
    free(why.text);
    return -1;
  }
  return opened ? warn_of_other_runtimes() : 0;
}

static int load_object(PyObject *path, int only) {
  PyObject *bytes;
  if (!PyUnicode_FSConverter(path, &bytes)) return -1;
  int result = load(PyBytes_AsString(bytes), only);
  Py_DECREF(bytes);
  return result;
}

PyObject *library_load(PyObject *Py_UNUSED(module), PyObject *path) {
  if (load_object(path, 1) < 0) return NULL;
  Py_RETURN_NONE;
}

const library *get_library(PyObject *module) {
  if (__atomic_load_n(&loaded_path, __ATOMIC_ACQUIRE) != NULL) return &loaded;
  PyObject *path = default_path(module);
  int failed = path == NULL || load_object(path, 0) < 0;
  Py_XDECREF(path);
  return failed ? NULL : &loaded;
}

PyObject *raise_forked(void) { return PyErr_Format(PyExc_RuntimeError, "%s", forked); }

PyObject *raise_library(const dlb_error *error) {
  if (error->code == DLB_ERROR_FORKED) return raise_forked();
  const char *text = strstr(error->message, ": "); /* behind the name of the C function, which is not the one that Python calls */
  return raise_text(status_type(error->code), "dlbridge: ", text != NULL ? text + 2 : error->message);
}

PyObject *library_require(PyObject *module, PyObject *Py_UNUSED(ignored)) {
  if (get_library(module) == NULL) return NULL;
  if (stopped) return raise_forked();
  Py_RETURN_NONE;
}

PyObject *library_counters(PyObject *module, PyObject *Py_UNUSED(ignored)) {
  const library *go = get_library(module);
  if (go == NULL) return NULL;
  dlb_counters counts;
  WITHOUT_GIL(go->dlb_counters_read(&counts, sizeof counts));
  return Py_BuildValue("{sLsLsLsLsKsLsL}", "exports", (long long)counts.exports, "imports",
                       (long long)counts.imports, "messages", (long long)counts.messages, "elements",
                       (long long)counts.elements, "double_deletes", (unsigned long long)counts.double_deletes,
                       "pinned_bytes", (long long)counts.pinned_bytes, "files", (long long)counts.files);
}

PyObject *counters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
  dlb_counters counts = {0};
  if (__atomic_load_n(&loaded_path, __ATOMIC_ACQUIRE) != NULL) WITHOUT_GIL(loaded.dlb_counters_read(&counts, sizeof counts));
  return Py_BuildValue("{sLsLsLsKsLsLsLsL}", "exports", (long long)dlbcore_live_exports(), "imports",
                       (long long)live_imports(), "loans", (long long)live_loans(), "double_deletes",
                       (unsigned long long)dlbcore_double_deletes(), "messages", (long long)counts.messages, "elements",
                       (long long)counts.elements, "pinned_bytes", (long long)counts.pinned_bytes, "files", (long long)counts.files);
}
