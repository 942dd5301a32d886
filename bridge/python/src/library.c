/* The Go library: loading it, its errors and its counters. */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The library of this process. A Go runtime can only be loaded once, and never unloaded. */
static library loaded;
static char *loaded_path;
static void *loaded_handle;

/* A thread that holds this lock must not have the GIL, and must not call Python. Making a Python object may run the
 * collector, and so a finalizer that loads the library: it would wait for this lock on the thread that holds it. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* The reason why the library cannot be loaded: the exception to be raised after the lock is released. */
typedef struct {
  PyObject *type; /* borrowed; NULL if nothing failed */
  char text[6144]; /* room for a path, and for a message of the loader with another */
} failure;

__attribute__((format(printf, 3, 4))) static int fail(failure *out, PyObject *type, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyOS_vsnprintf(out->text, sizeof out->text, format, arguments);
  va_end(arguments);
  out->type = type;
  return -1;
}

static int resolve(void *handle, const char *path, failure *why) {
  library found;
#define RESOLVE(name) \
  do { \
    void *symbol = dlsym(handle, #name); \
    if (symbol == NULL) return fail(why, PyExc_OSError, "dlbridge: %s has no symbol %s", path, #name); \
    memcpy(&found.name, &symbol, sizeof symbol); \
  } while (0);
  FUNCTIONS(RESOLVE)
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

static void note_fork(void) {
  if (pthread_mutex_trylock(&loading) == 0) {
    pthread_mutex_unlock(&loading);
    return;
  }
  loading = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  stranded = loaded_path == NULL;
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

static const char forked[] =
    "dlbridge: the Go library was loaded before this process was forked, and Go does not survive a fork: start the "
    "process with multiprocessing's 'spawn' or 'forkserver'";

/* Reports whether something other than a regular file is at a path. The loader must not open a FIFO, because it would
 * wait for a writer. */
static int is_no_file(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* Loads the library at a path. It is opened with RTLD_LOCAL, because its symbols are looked up by its handle and must not
 * be found by other libraries. */
static int open_library(const char *path, failure *why) {
  if (stranded) return fail(why, PyExc_RuntimeError, "%s", forked);
  if (is_no_file(path)) return fail(why, PyExc_OSError, "dlbridge: cannot load %s: it is not a regular file", path);
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
  PyObject *none = PyObject_CallMethod(runtimes, "warn", "K", (unsigned long long)(uintptr_t)loaded.dlb_version);
  Py_DECREF(runtimes);
  Py_XDECREF(none);
  return none == NULL ? -1 : 0;
}

/* Returns $DLBRIDGE_LIBRARY, or else the path of the library next to this module. */
static PyObject *default_path(PyObject *module) {
  const char *given = getenv("DLBRIDGE_LIBRARY");
  if (given != NULL && *given != '\0') return PyUnicode_DecodeFSDefault(given);
  PyObject *file = PyModule_GetFilenameObject(module);
  if (file == NULL) return NULL;
  Py_ssize_t size = PyUnicode_GetLength(file);
  Py_ssize_t slash = PyUnicode_FindChar(file, '/', 0, size, -1);
  PyObject *folder = PyUnicode_Substring(file, 0, slash + 1);
  Py_DECREF(file);
  if (folder == NULL) return NULL;
#ifdef __APPLE__
  PyObject *path = PyUnicode_FromFormat("%U_lib/libdlbridge.dylib", folder);
#else
  PyObject *path = PyUnicode_FromFormat("%U_lib/libdlbridge.so", folder);
#endif
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

/* Loads the library at a path, unless one is loaded already. With `only`, the loaded one must be the one at the path.
 * */
static int load(const char *path, int only) {
  failure why = {0};
  int opened = 0;
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&loading);
  if (loaded_path == NULL)
    opened = open_library(path, &why) == 0;
  else if (only && !is_loaded_library(path))
    fail(&why, PyExc_RuntimeError, "dlbridge: load: %s is loaded already, and a process can have only one Go library",
         loaded_path);
  pthread_mutex_unlock(&loading);
  Py_END_ALLOW_THREADS;
  if (why.type != NULL) return raise_error(why.type, "%s", why.text);
  return opened ? warn_of_other_runtimes() : 0;
}

PyObject *library_load(PyObject *Py_UNUSED(module), PyObject *object) {
  PyObject *bytes;
  if (!PyUnicode_FSConverter(object, &bytes)) return NULL;
  int failed = load(PyBytes_AsString(bytes), 1) < 0;
  Py_DECREF(bytes);
  if (failed) return NULL;
  Py_RETURN_NONE;
}

const library *get_library(PyObject *module) {
  if (__atomic_load_n(&loaded_path, __ATOMIC_ACQUIRE) != NULL) return &loaded;
  PyObject *path = default_path(module), *bytes = NULL;
  if (path == NULL || !PyUnicode_FSConverter(path, &bytes)) {
    Py_XDECREF(path);
    return NULL;
  }
  int failed = load(PyBytes_AsString(bytes), 0) < 0;
  Py_DECREF(path);
  Py_DECREF(bytes);
  return failed ? NULL : &loaded;
}

PyObject *raise_library(const dlb_error *error) {
  PyObject *type = PyExc_ValueError;
  switch (error->code) {
    case DLB_ERROR_VERSION:
    case DLB_ERROR_DTYPE:
    case DLB_ERROR_DEVICE:
    case DLB_ERROR_READONLY:
      type = PyExc_BufferError;
      break;
    case DLB_ERROR_MEMORY:
      type = PyExc_MemoryError;
      break;
    case DLB_ERROR_FORKED:
      return PyErr_Format(PyExc_RuntimeError, "%s", forked);
    case DLB_ERROR_INTERNAL:
      type = PyExc_RuntimeError;
      break;
    default:
      break;
  }
  static const char prefix[] = "dlbridge: "; /* of errors that name no package */
  const char *text = error->message;
  if (strncmp(text, prefix, sizeof prefix - 1) == 0) text += sizeof prefix - 1;
  return PyErr_Format(type, "dlbridge: %s", text);
}

PyObject *library_counters(PyObject *module, PyObject *Py_UNUSED(ignored)) {
  const library *go = get_library(module);
  if (go == NULL) return NULL;
  dlb_counters counts;
  WITHOUT_GIL(go->dlb_counters_read(&counts, sizeof counts));
  return Py_BuildValue("{sLsLsLsLsK}", "exports", (long long)counts.exports, "imports",
                       (long long)counts.imports, "messages", (long long)counts.messages, "elements",
                       (long long)counts.elements, "double_deletes", (unsigned long long)counts.double_deletes);
}
