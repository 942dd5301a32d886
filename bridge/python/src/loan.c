/* Loans: the buffers that Python objects lend, and how they are given back while the interpreter ends. */
#include "extension.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the end of the interpreter --------------------------------------------------------------- */

/* Python ends every thread that waits for the GIL while the interpreter ends: before 3.14 by pthread_exit, which no C++
 * frame that is noexcept survives, such as the destructor that has called a deleter; later the thread waits for ever.
 * So no thread may be on its way to the GIL by then. A function of the module atexit, which runs shortly before, sets
 * `ending`, and lets the threads that are inside of loan_end finish. Threads that come later leave their loan to the
 * system, unless they have the GIL, or are the one that ends the interpreter, which may take it always. */
static struct {
  int64_t *inside;  /* calls of loan_end that have gone in: one of counts */
  int64_t counts[2];
  int ending;
  pthread_t ender;  /* the thread that ends the interpreter, once it does */
  pthread_mutex_t mutex;
  pthread_cond_t left;
} end = {.inside = end.counts, .mutex = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

/* PyGILState_Check, which the limited API lacks; NULL where Python has none. */
static int (*gil_check)(void);

/* Once there are subinterpreters, PyGILState_Check says yes to every thread; those without a thread state cannot have
 * the GIL. */
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

/* Where the thread may take the GIL it is waited for until it calls leave with the result; where not, that is NULL. The
 * thread goes in before it looks whether the interpreter is ending, so that one of the two sees the other. */
static int64_t *go_in(void) {
  if (__atomic_load_n(&end.ending, __ATOMIC_SEQ_CST) && !may_take_gil()) return NULL; /* nor keeps the ender waiting */
  int64_t *inside = end.inside;
  __atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST);
  if (may_take_gil()) return inside;
  leave(inside);
  return NULL;
}

enum { PATIENCE = 1 }; /* seconds that threads get: the release of a buffer may wait for the thread that waits here */

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

/* Once for each interpreter of the process, one after the other: importing the module again changes nothing. */
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

/* A forked child has only the thread that forked. What that is still to leave is in the other count. The child does not
 * end with its parent, unless by the thread that ends it. */
static void note_fork(void) {
  end.inside = end.inside == end.counts ? end.counts + 1 : end.counts;
  *end.inside = 0;
  end.ending = end.ending && pthread_equal(end.ender, pthread_self());
  end.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  end.left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

/* ---- loans ----------------------------------------------------------------------------------- */

static int64_t loans; /* changed with the GIL only, where there is one */

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

/* Runs on whichever thread ends the last share. Once the interpreter is gone, what it lent is left to the system, and
 * while it ends, what it lent to threads that would have to wait for the GIL. */
void loan_end(void *context) {
  Py_buffer *buffer = context;
  int64_t *inside = go_in();
  if (inside == NULL) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyBuffer_Release(buffer);
  PyErr_Restore(type, value, traceback);
  count_loan(-1);
  PyGILState_Release(gil);
  free(buffer);
  leave(inside);
}
