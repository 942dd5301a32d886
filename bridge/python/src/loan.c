/* Releases memory that needs the GIL: buffers that Python objects lend, and functions of on_release. Handles the end of the
 * interpreter. */
#include "extension.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the end of the interpreter --------------------------------------------------------------- */

/* Invariant: no thread waits for the GIL in loan_end while the interpreter ends.
 *
 * Python stops every thread that waits for the GIL then. Before 3.14 it calls pthread_exit, which terminates the
 * process if a C++ frame is noexcept, such as a destructor that has called a deleter. Later versions make the thread
 * wait forever. Therefore a function of the module atexit, which runs shortly before, sets `ending` and waits for the
 * threads in loan_end. A thread that comes later does not release its loan, unless it has the GIL or is the thread that
 * ends the interpreter, which can always take it. */
static struct {
  int64_t *inside;  /* points to the number of threads in loan_end, one of counts: see note_fork */
  int64_t counts[2];
  int ending;
  pthread_t ender;  /* the thread that ends the interpreter, valid while ending */
  pthread_mutex_t mutex;
  pthread_cond_t left;
} end = {.inside = end.counts, .mutex = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

/* PyGILState_Check, which the limited API lacks; NULL if this Python has no such function. */
static int (*gil_check)(void);

/* With subinterpreters PyGILState_Check returns 1 for every thread. A thread without a thread state cannot have the
 * GIL. */
static int has_gil(void) { return PyGILState_GetThisThreadState() != NULL && (gil_check == NULL || gil_check()); }

static int may_take_gil(void) {
  if (!Py_IsInitialized()) return 0;
  if (!__atomic_load_n(&end.ending, __ATOMIC_SEQ_CST)) return 1;
  return pthread_equal(end.ender, pthread_self()) || has_gil();
}

static void leave(int64_t *inside) {
  __atomic_sub_fetch(inside, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&end.ending, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&end.mutex);
  pthread_cond_broadcast(&end.left);
  pthread_mutex_unlock(&end.mutex);
}

/* Registers a thread that may take the GIL: the end of the interpreter waits until it calls leave with the result.
 * Returns NULL if the thread must not take the GIL. The thread counts itself before it checks whether the interpreter
 * is ending; otherwise the end could miss the thread while the thread misses the end. */
static int64_t *go_in(void) {
  if (__atomic_load_n(&end.ending, __ATOMIC_SEQ_CST) && !may_take_gil()) return NULL; /* without being waited for */
  int64_t *inside = end.inside;
  __atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST);
  if (may_take_gil()) return inside;
  leave(inside);
  return NULL;
}

/* The limit in seconds for which begin_end waits. A release function may itself wait for the thread that waits here. */
enum { PATIENCE = 1 };

static PyObject *begin_end(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
  Py_BEGIN_ALLOW_THREADS;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE;
  end.ender = pthread_self();
  __atomic_store_n(&end.ending, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&end.mutex);
  while (__atomic_load_n(end.inside, __ATOMIC_SEQ_CST) > 0 &&
         pthread_cond_timedwait(&end.left, &end.mutex, &until) == 0)
    ;
  pthread_mutex_unlock(&end.mutex);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

/* Registers begin_end once in each interpreter of the process; importing the module again has no effect. */
int watch_end(void) {
  static PyMethodDef callback = {"_begin_end", begin_end, METH_NOARGS, NULL};
  static const char mark[] = "dlbridge._core: the end is watched";
  PyObject *known = PyInterpreterState_GetDict(PyInterpreterState_Get());
  if (known == NULL || PyMapping_HasKeyString(known, mark)) return 0;
  void *check = dlsym(RTLD_DEFAULT, "PyGILState_Check");
  memcpy(&gil_check, &check, sizeof check);
  __atomic_store_n(&end.ending, 0, __ATOMIC_SEQ_CST);
  PyObject *module = PyImport_ImportModule("atexit"), *function = PyCFunction_New(&callback, NULL);
  PyObject *done = module == NULL || function == NULL ? NULL : PyObject_CallMethod(module, "register", "O", function);
  int failed = done == NULL || PyDict_SetItemString(known, mark, Py_True) < 0;
  Py_XDECREF(done);
  Py_XDECREF(function);
  Py_XDECREF(module);
  return failed ? -1 : 0;
}

/* A forked child has only the thread that forked, so that it begins with the other count, at 0. If the forking thread
 * is in loan_end, it leaves through the old count. The child is not ending, unless the forking thread ends the
 * interpreter. */
static void note_fork(void) {
  end.inside = end.inside == end.counts ? end.counts + 1 : end.counts;
  *end.inside = 0;
  end.ending = end.ending && pthread_equal(end.ender, pthread_self());
  end.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  end.left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

/* ---- loans ----------------------------------------------------------------------------------- */

static int64_t loans; /* changed only with the GIL, except in free-threaded builds */

static void count_loan(int64_t change) {
#ifdef Py_GIL_DISABLED
  __atomic_fetch_add(&loans, change, __ATOMIC_RELAXED);
#else
  loans += change;
#endif
}

int64_t live_loans(void) { return __atomic_load_n(&loans, __ATOMIC_RELAXED); }

Py_buffer *loan_begin(PyObject *object, int flags) {
  Py_buffer *buffer = malloc(sizeof *buffer);
  if (buffer == NULL) {
    PyErr_NoMemory();
  } else if (PyObject_GetBuffer(object, buffer, flags) < 0) {
    free(buffer);
    buffer = NULL;
  } else {
    count_loan(1);
  }
  return buffer;
}

/* Releases a buffer, on the thread that ends the last share. While the interpreter ends, the buffer is released only if this
 * thread need not wait for the GIL; after the end it is not released. */
void loan_end(void *context) {
  Py_buffer *buffer = context;
  int64_t *inside = go_in();
  if (inside == NULL) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  KEEPING_EXCEPTION(PyBuffer_Release(buffer));
  count_loan(-1);
  PyGILState_Release(gil);
  free(buffer);
  leave(inside);
}

/* ---- functions of on_release ------------------------------------------------------------------ */

typedef struct function_list {
  PyObject *function;
  struct function_list *next;
} function_list;

/* Takes the place of the lender in a share: how the memory ends, and the functions that are called after that, the last
 * first. A share of memory that the core allocated has no lender; there it takes the place of the memory. */
typedef struct {
  void (*lender)(void *ctx);
  void *ctx;
  function_list *functions;
} notice;

static int64_t noticed_imports;

int64_t live_imports(void) { return held_imports() + __atomic_load_n(&noticed_imports, __ATOMIC_RELAXED); }

static void call_functions(notice *told) {
  function_list *entry;
  while ((entry = told->functions) != NULL) {
    PyObject *result = PyObject_CallNoArgs(entry->function);
    if (result == NULL) PyErr_WriteUnraisable(entry->function);
    Py_XDECREF(result);
    Py_DECREF(entry->function);
    told->functions = entry->next;
    free(entry);
  }
  free(told);
}

/* Ends the memory, without the GIL if it needs none, and calls the functions with the GIL, on the thread that ends the last
 * share. They are not called if the thread cannot have the GIL any more because the interpreter ends: see loan_end. */
static void end_and_notify(void *context) {
  notice *told = context;
  if (is_import(told->lender)) __atomic_fetch_sub(&noticed_imports, 1, __ATOMIC_RELAXED);
  dlbcore_release_lent(told->lender, told->ctx);
  int64_t *inside = go_in();
  if (inside == NULL) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  KEEPING_EXCEPTION(call_functions(told));
  PyGILState_Release(gil);
  leave(inside);
}

static void release_and_notify(dlbcore_share *share) { end_and_notify(share->ctx); }

/* The caller has a share, so that nobody ends the memory meanwhile. */
static void add_function(dlbcore_share *share, notice *new, function_list *entry) {
  int allocated = share->ctx == share, noticed = share->lender == end_and_notify || share->release == release_and_notify;
  notice *told = noticed ? share->ctx : new;
  entry->next = told->functions;
  told->functions = entry;
  if (noticed) return;
  told->lender = allocated ? dlbcore_free_memory : share->lender;
  told->ctx = share->ctx;
  if (is_import(told->lender)) __atomic_fetch_add(&noticed_imports, 1, __ATOMIC_RELAXED);
  share->ctx = told;
  if (allocated) share->release = release_and_notify;
  else share->lender = end_and_notify;
}

PyObject *tensor_on_release(PyObject *op, PyObject *function) {
  if (!PyCallable_Check(function))
    return PyErr_Format(PyExc_TypeError, "dlbridge: on_release needs a function, not %R", Py_TYPE(function));
  dlbcore_share *share = tensor_hold((Tensor *)op);
  if (share == NULL) return NULL;
  notice *told = calloc(1, sizeof *told);
  function_list *entry = malloc(sizeof *entry);
  int failed = told == NULL || entry == NULL;
  if (!failed) {
    entry->function = Py_NewRef(function);
    LOCK_CORE();
    add_function(share, told, entry);
    UNLOCK_CORE();
    if (share->ctx == told) told = NULL; /* it is in use now */
    entry = NULL;
  }
  free(told);
  free(entry);
  share_end(share);
  if (failed) return PyErr_NoMemory();
  Py_RETURN_NONE;
}
