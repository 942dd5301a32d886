/* Functions of the Python module for tensors in segments, which are memory that processes share. The headers in
 * bridge/internal/segment describe the functions called here, and bridge/shm/doc.go describes what is trusted. */
#ifdef __linux__
#include "extension.h"

#include <discard.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <offer.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <transfer.h>
#include <unistd.h>

/* A converter of PyArg_ParseTuple for a number of bytes, an unsigned long long. */
static int byte_count(PyObject *object, void *out) {
  const unsigned long long n = PyLong_AsUnsignedLongLong(object);
  if (n == (unsigned long long)-1 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) PyErr_Format(PyExc_ValueError, "dlbridge: shm: %R is not a number of bytes", object);
    return 0;
  }
  *(unsigned long long *)out = n;
  return 1;
}

/* Raises an OSError with an errno and the text of a format. */
static PyObject *raise_os(int code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *text = PyUnicode_FromFormatV(format, args), *values = text == NULL ? NULL : Py_BuildValue("(iN)", code, text);
  va_end(args);
  if (values != NULL) PyErr_SetObject(PyExc_OSError, values);
  Py_XDECREF(values);
  return NULL;
}

/* Raises the exception for an errno. */
static PyObject *raise_errno(int code, const char *what) {
  if (code == ENOMEM) return PyErr_Format(PyExc_MemoryError, "dlbridge: shm: %s: no memory", what);
  return raise_os(code, "dlbridge: shm: %s: %s", what, strerror(code));
}

/* Raises the exception for a status of handover.h, which has just been returned: errno is its cause after CORE_ERR_SYSTEM. `tensor` is
 * the index of the tensor that it is about, or -1. */
static PyObject *raise_shm(dlbcore_status status, int64_t tensor, const char *text) {
  const int code = errno;
  char which[48] = "";
  PyObject *type = status == CORE_NEEDS_COPY ? PyExc_BufferError : status_type(status);
  if (tensor >= 0) PyOS_snprintf(which, sizeof which, "tensors[%lld]: ", (long long)tensor);
  if (status == CORE_ERR_SYSTEM) return raise_os(code, "dlbridge: shm: %s%s", which, text);
  const char *remedy = status == CORE_NEEDS_COPY ? "; shm.copy makes a copy that is" : "";
  return PyErr_Format(type, "dlbridge: shm: %s%s%s", which, text, remedy);
}

PyObject *shm_zeros(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  module_state *state = PyModule_GetState(module);
  int64_t shape[CORE_RANK_MAX];
  dlbcore_extent extent;
  DLTensor view = {.device = {kDLCPU, 0}, .shape = shape};
  if (parse_empty(state, "zeros", args, nargs, kwnames, &view, &extent) < 0) return NULL;
  segment *made;
  int code = dlbsegment_create(&made, extent.nbytes > 0 ? (size_t)extent.nbytes : 1);
  if (code != 0) return raise_errno(code, "a new segment");
  view.data = made->base;
  dlbcore_share *share = share_begin(dlbsegment_release, made);
  if (share == NULL) {
    dlbsegment_release(made);
    return PyErr_NoMemory();
  }
  return (PyObject *)tensor_on_share(state->tensor_type, share, &view, 0, 0, &extent);
}

/* A Tensor, which the caller has checked -> a copy in a new segment */
PyObject *shm_copy(PyObject *Py_UNUSED(module), PyObject *tensor) {
  Tensor *t = (Tensor *)tensor;
  dlbcore_extent extent = t->extent;
  DLTensor view = t->view;
  if (check_readable(t, "shm: copy") < 0) return NULL;
  dlbcore_share *held = tensor_hold(t), *share;
  segment *made;
  if (held == NULL) return NULL;
  int code;
  WITHOUT_GIL(code = dlbsegment_create(&made, extent.nbytes > 0 ? (size_t)extent.nbytes : 1);
              if (code == 0) dlbcore_copy_into(made->base, &view, &extent));
  share_end(held);
  if (code != 0) return raise_errno(code, "a new segment");
  share = share_begin(dlbsegment_release, made);
  if (share == NULL) {
    dlbsegment_release(made);
    return PyErr_NoMemory();
  }
  view.data = made->base;
  view.device = (DLDevice){kDLCPU, 0};
  view.strides = NULL;
  extent.low = 0;
  extent.high = extent.nbytes;
  extent.row_major = 1;
  return (PyObject *)tensor_on_share(Py_TYPE(tensor), share, &view, t->flags & ~DLPACK_FLAG_BITMASK_READ_ONLY, 0, &extent);
}

/* An inbox whose Tensors are being made, and a share of each of its mappings. */
typedef struct {
  module_state *state;
  dlbsegment_inbox *in;
  dlbcore_share *shares[SEGMENT_FILES];
} opening;

static PyObject *opened_tensor(void *ctx, size_t index) {
  opening *o = ctx;
  const dlbsegment_tensor *t = &o->in->tensors[index];
  dlbcore_share *share;
  if (t->mapping < 0) {
    share = dlbcore_share_alloc(0, 0);
    if (share == NULL) return PyErr_NoMemory();
  } else {
    share = o->shares[t->mapping];
    dlbcore_share_retain(share);
  }
  return (PyObject *)tensor_on_share(o->state->tensor_type, share, &t->view, t->flags, 0, &t->extent);
}

/* Returns the list of the Tensors of an inbox, which it takes over. */
static PyObject *list_of_inbox(module_state *state, dlbsegment_inbox *in) {
  opening o = {.state = state, .in = in};
  int done = 0;
  while (done < in->mapping_count && (o.shares[done] = share_begin(dlbsegment_release, in->mappings[done])) != NULL) done++;
  PyObject *list = NULL;
  if (done == in->mapping_count) list = list_of(in->tensor_count, opened_tensor, &o);
  else PyErr_NoMemory();
  for (int i = 0; i < done; i++) share_end(o.shares[i]);
  for (int i = done; i < in->mapping_count; i++) dlbsegment_release(in->mappings[i]);
  dlbsegment_inbox_free(in);
  return list;
}

static PyObject *only_tensor(module_state *state, dlbsegment_inbox *in) {
  PyObject *list = list_of_inbox(state, in);
  PyObject *only = list == NULL ? NULL : Py_NewRef(PyList_GetItem(list, 0));
  Py_XDECREF(list);
  return only;
}

/* Describes a Tensor for dlbsegment_pack, which reads no more of it. */
static DLManagedTensorVersioned described(const Tensor *t) {
  return (DLManagedTensorVersioned){.flags = t->flags | (tensor_read_only(t) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0), .dl_tensor = t->view};
}

/* Describes a tuple of Tensors as a message. Returns -1 with an exception. */
static int pack(dlbsegment_outbox *out, PyObject *tuple, int writable) {
  size_t count = (size_t)PyTuple_Size(tuple), held = 0;
  DLManagedTensorVersioned *each = PyMem_Calloc(count + 1, sizeof *each);
  const DLManagedTensorVersioned **all = PyMem_Calloc(count + 1, sizeof *all);
  dlbcore_share **shares = PyMem_Calloc(count + 1, sizeof *shares);
  if (each == NULL || all == NULL || shares == NULL) PyErr_NoMemory();
  for (; shares != NULL && all != NULL && each != NULL && held < count; held++) {
    PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)held);
    Tensor *t = (Tensor *)item;
    if (!tensor_check(item)) {
      PyErr_Format(PyExc_TypeError, "dlbridge: shm: send: tensors[%zu] is %R, not a dlbridge.Tensor; use shm.copy to copy any array into a "
                                    "Tensor", held,
                   (PyObject *)Py_TYPE(item));
      break;
    }
    shares[held] = tensor_hold(t);
    if (shares[held] == NULL) break;
    each[held] = described(t);
    all[held] = &each[held];
  }
  int failed = PyErr_Occurred() != NULL;
  if (!failed) {
    int64_t tensor;
    char text[MESSAGE_SIZE];
    dlbcore_status status = dlbsegment_pack(out, all, count, writable, &tensor, text, sizeof text);
    failed = status != CORE_OK;
    if (failed) raise_shm(status, tensor, text);
  }
  for (size_t i = 0; i < held; i++) share_end(shares[i]);
  PyMem_Free(each);
  PyMem_Free(all);
  PyMem_Free(shares);
  return failed ? -1 : 0;
}

/* Reports whether the elements of a Tensor, of whose memory the caller holds a share, are in a segment. */
static int in_segment(const Tensor *t, const dlbcore_share *held) {
  /* Memory that the core has allocated is in no segment: the kernel need not be asked. */
  return held->data == NULL && dlbsegment_is_shared(&t->view, &t->extent);
}

/* A Tensor, which the caller has checked -> whether its elements are in a segment */
PyObject *shm_is_shared(PyObject *Py_UNUSED(module), PyObject *tensor) {
  dlbcore_share *held = tensor_hold((Tensor *)tensor);
  if (held == NULL) return NULL;
  int shared = in_segment((Tensor *)tensor, held);
  share_end(held);
  return PyBool_FromLong(shared);
}

/* Raises the exception for a Tensor in a segment that cannot be pickled. */
static PyObject *raise_not_pickled(dlbcore_status status, const Tensor *t, const char *text) {
  if (status != CORE_ERR_READONLY) return raise_shm(status, -1, text);
  return PyErr_Format(PyExc_BufferError, "dlbridge: shm: %s: use %sdlbridge.shm.copy(t) for a new copy", text,
                      tensor_read_only(t) ? "" : "dlbridge.shm.readonly(t) for a read-only tensor, or ");
}

/* Offers the segment of a Tensor. (Tensor, milliseconds) -> (bytes of a message, socket, token); None if it is in no segment; for a
 * Tensor that was not handed over, the str that says why */
PyObject *shm_pickle(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  Tensor *t;
  long long milliseconds;
  dlbsegment_outbox out = {.data = NULL};
  dlbsegment_handle h;
  int64_t failed;
  char text[MESSAGE_SIZE];
  dlbcore_status status;
  if (!PyArg_ParseTuple(args, "O!L", state->tensor_type, &t, &milliseconds)) return NULL;
  if (t->missing != NULL) return Py_NewRef(t->missing);
  dlbcore_share *held = tensor_hold(t);
  if (held == NULL) return NULL;
  const DLManagedTensorVersioned managed = described(t), *all = &managed;
  const int writable = !tensor_read_only(t);
  PyObject *result = NULL, *data = NULL;
  if (!in_segment(t, held)) {
    result = Py_NewRef(Py_None);
  } else if ((status = dlbsegment_pack(&out, &all, 1, writable, &failed, text, sizeof text)) != CORE_OK) {
    raise_not_pickled(status, t, text);
  } else if ((data = PyBytes_FromStringAndSize(out.data, (Py_ssize_t)out.size)) != NULL) {
    WITHOUT_GIL(status = dlbsegment_offer_file(&h, out.files[0], writable, milliseconds, text, sizeof text));
    out.file_count = 0; /* it was taken over */
    result = status == CORE_OK ? Py_BuildValue("(Oss)", data, h.socket, h.token) : raise_not_pickled(status, t, text);
  }
  Py_XDECREF(data);
  dlbsegment_outbox_end(&out);
  share_end(held);
  return result;
}

/* A socket, and how long to wait for it. */
typedef struct {
  int fd;
  const char *op; /* for errors */
  int waits;      /* 0 for a timeout of 0 */
  int64_t end;    /* on the clock of dlbsegment_now; INT64_MAX for None */
  int raised;     /* whether a handler of a signal has raised the exception */
} deadline;

/* Sets the deadline after so many seconds. */
static void deadline_after(deadline *d, double seconds) {
  d->waits = seconds > 0;
  d->end = seconds < 1e12 ? dlbsegment_after((int64_t)ceil(seconds * 1e3)) : INT64_MAX;
}

/* Raises the exception for an errno of transfer.h and its text. Returns -1. */
static int raise_step(int code, const char *op, const char *text) {
  switch (dlbsegment_status(code)) {
  case CORE_ERR_MEMORY: PyErr_NoMemory(); break;
  case CORE_ERR_READONLY: PyErr_Format(PyExc_BufferError, "dlbridge: shm: %s", text); break; /* another thread has decided just now */
  case CORE_ERR_FORMAT: PyErr_Format(PyExc_ValueError, "dlbridge: shm: %s: %s", op, text); break;
  case CORE_ERR_ARGUMENT: PyErr_Format(PyExc_TypeError, "dlbridge: shm: %s: %s", op, text); break;
  case CORE_ERR_CLOSED:
    if (code == ECONNRESET) PyErr_Format(PyExc_EOFError, "dlbridge: shm: %s: %s", op, text);
    else raise_os(code, "dlbridge: shm: %s: the other side has closed the connection", op);
    break;
  default: raise_os(code, "dlbridge: shm: %s: %s", op, text);
  }
  return -1;
}

/* Checks a socket of Python, and sets the deadline by its timeout, a number of seconds or None. Returns -1 with an exception. */
static int deadline_set(deadline *d, PyObject *timeout) {
  char text[MESSAGE_SIZE];
  const int code = dlbsegment_check_socket(d->fd, text, sizeof text);
  const double seconds = timeout == Py_None ? INFINITY : PyFloat_AsDouble(timeout);
  if (code != 0) return raise_step(code, d->op, text);
  if (seconds == -1 && PyErr_Occurred()) return -1;
  deadline_after(d, seconds);
  return 0;
}

/* Calls the handlers of signals. Returns -1 with the exception of one of them. */
static int handle_signals(deadline *d) {
  d->raised = PyErr_CheckSignals() < 0;
  return d->raised ? -1 : 0;
}

/* Called after a step that has found nothing to do (EAGAIN). Waits for the socket, and returns 0 when the step can be repeated;
 * otherwise -1 with an exception. */
static int await(deadline *d, short events) {
  int code;
  if (!d->waits) {
    raise_os(EAGAIN, "dlbridge: shm: %s: the socket has a timeout of 0, and the call would have to wait", d->op);
    return -1;
  }
  WITHOUT_GIL(code = dlbsegment_wait(d->fd, events, d->end));
  if (code == 0) return 0;
  if (code == EINTR) return handle_signals(d);
  if (code == ETIMEDOUT) PyErr_Format(PyExc_TimeoutError, "dlbridge: shm: %s: timed out", d->op);
  else raise_errno(code, "poll");
  return -1;
}

/* (descriptor of a socket, its timeout, tuple of Tensors, writable) -> None */
PyObject *shm_send(PyObject *Py_UNUSED(module), PyObject *args) {
  PyObject *tuple, *timeout;
  int writable, code, failed = 0;
  dlbsegment_outbox out;
  size_t sent = 0;
  char text[MESSAGE_SIZE];
  deadline d = {.op = "send"};
  if (!PyArg_ParseTuple(args, "iOO!p", &d.fd, &timeout, &PyTuple_Type, &tuple, &writable)) return NULL;
  if (deadline_set(&d, timeout) < 0 || pack(&out, tuple, writable) < 0) return NULL;
  do {
    WITHOUT_GIL(code = dlbsegment_send_step(d.fd, &out, &sent, text, sizeof text));
    if (code != 0) failed = code == EAGAIN ? await(&d, POLLOUT) : raise_step(code, d.op, text);
  } while (code != 0 && !failed);
  dlbsegment_outbox_end(&out);
  return failed ? NULL : Py_NewRef(Py_None);
}

/* (descriptor of a socket, its timeout, bytes that may be copied) -> list of Tensors */
PyObject *shm_recv(PyObject *module, PyObject *args) {
  PyObject *timeout;
  unsigned long long copy_unsealed;
  int code, failed = 0;
  char text[MESSAGE_SIZE];
  deadline d = {.op = "recv"};
  if (!PyArg_ParseTuple(args, "iOO&", &d.fd, &timeout, byte_count, &copy_unsealed) || deadline_set(&d, timeout) < 0) return NULL;
  dlbsegment_arrival arrival = {.size = 0};
  do {
    WITHOUT_GIL(code = dlbsegment_receive_step(d.fd, &arrival, text, sizeof text));
    if (code != 0) failed = code == EAGAIN ? await(&d, POLLIN) : raise_step(code, d.op, text);
  } while (code != 0 && !failed);
  dlbsegment_inbox in;
  if (!failed) {
    int64_t tensor;
    dlbcore_status status;
    WITHOUT_GIL(status = dlbsegment_arrival_unpack(&in, &arrival, copy_unsealed, &tensor, text, sizeof text));
    failed = status != CORE_OK;
    if (failed) raise_shm(status, tensor, text);
  }
  dlbsegment_arrival_end(&arrival);
  return failed ? NULL : list_of_inbox(PyModule_GetState(module), &in);
}

static void leave_share(void *share) {
  if (dlbcore_share_leave(share)) dlbcore_share_end(share);
}

/* A Tensor, which the caller has checked -> a read-only Tensor on a second mapping of its memory */
PyObject *shm_readonly(PyObject *module, PyObject *tensor) {
  module_state *state = PyModule_GetState(module);
  Tensor *t = (Tensor *)tensor;
  char text[MESSAGE_SIZE];
  dlbcore_share *held = tensor_hold(t);
  if (held == NULL) return NULL;
  dlbsegment_inbox in;
  dlbcore_status status = dlbsegment_read_only(&in, &t->view, t->flags, leave_share, held, text, sizeof text);
  return status == CORE_OK ? only_tensor(state, &in) : raise_shm(status, -1, text);
}

/* Finds the segment of a Tensor, as dlbsegment_place_of. Returns -1 with an exception. */
static int place_of(dlbsegment_place *place, Tensor *t, int writable) {
  char text[MESSAGE_SIZE];
  dlbcore_share *held = tensor_hold(t);
  if (held == NULL) return -1;
  const DLManagedTensorVersioned m = described(t);
  dlbcore_status status = dlbsegment_place_of(place, &m.dl_tensor, &t->extent, m.flags, writable, text, sizeof text);
  if (status != CORE_OK) raise_shm(status, -1, text);
  share_end(held);
  return status == CORE_OK ? 0 : -1;
}

/* Raises the errors that shm_offer would raise before it offers anything. (Tensor, writable) -> None */
PyObject *shm_check(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  PyObject *tensor;
  int writable;
  dlbsegment_place place;
  if (!PyArg_ParseTuple(args, "O!p", state->tensor_type, &tensor, &writable) || place_of(&place, (Tensor *)tensor, writable) < 0)
    return NULL;
  close(place.file);
  Py_RETURN_NONE;
}

/* Offers the segment of a Tensor. (Tensor, writable, milliseconds) -> (socket, token, offset, size), which are fields of a handle:
 * the offset is the number of bytes from the beginning of the segment to the element with all indices 0. */
PyObject *shm_offer(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  Tensor *t;
  int writable;
  long long milliseconds;
  if (!PyArg_ParseTuple(args, "O!pL", state->tensor_type, &t, &writable, &milliseconds)) return NULL;
  if (t->share == NULL) return raise_closed(t);
  if (!t->extent.row_major)
    return PyErr_Format(PyExc_BufferError, "dlbridge: shm: offer: the tensor is not row-major; shm.copy makes a copy that is");
  if (t->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
    return PyErr_Format(PyExc_BufferError, "dlbridge: shm: offer: each element has a byte of its own, but fetch expects packed elements; "
                                           "send them, or offer shm.copy(t.convert(\"int8\")) or a copy in another type of whole bytes");
  char text[MESSAGE_SIZE];
  dlbsegment_place place;
  dlbsegment_handle h;
  if (place_of(&place, t, writable) < 0) return NULL;
  dlbcore_status status;
  WITHOUT_GIL(status = dlbsegment_offer(&h, &place, writable, milliseconds, text, sizeof text)); /* may free segments that are over */
  if (status != CORE_OK) return raise_shm(status, -1, text);
  return Py_BuildValue("(ssKK)", h.socket, h.token, (unsigned long long)h.offset, (unsigned long long)h.size);
}

PyObject *shm_offers_made(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
  return PyLong_FromUnsignedLongLong(dlbsegment_offers_made());
}

/* (made), by default all -> how many of the first `made` offers were not fetched, and have time left */
PyObject *shm_offer_count(PyObject *Py_UNUSED(module), PyObject *args) {
  unsigned long long made = UINT64_MAX;
  return PyArg_ParseTuple(args, "|K", &made) ? PyLong_FromSize_t(dlbsegment_offer_count(made)) : NULL;
}

PyObject *shm_offers_end(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
  WITHOUT_GIL(dlbsegment_offers_end());
  Py_RETURN_NONE;
}

/* Raises the exception for an errno of dlbsegment_fetch_begin or dlbsegment_fetch_step. */
static void raise_not_fetched(int code) {
  const char *text = dlbsegment_fetch_text(code);
  if (text == NULL) raise_errno(code, "fetch");
  else if (code == ENOENT) PyErr_Format(PyExc_LookupError, "dlbridge: shm: handle: %s", text);
  else raise_os(code, "dlbridge: shm: handle: %s", text);
}

/* Begins to fetch, and returns the descriptor of the connection, or -1 with an exception. */
static int fetch_begin(const dlbsegment_handle *h, deadline *d) {
  int conn, code;
  while ((code = dlbsegment_fetch_begin(&conn, h)) == EAGAIN && dlbsegment_now() < d->end) { /* too many processes wait there */
    WITHOUT_GIL(usleep(1000));
    if (handle_signals(d) < 0) return -1;
  }
  if (code == 0) return conn;
  if (code == EAGAIN) PyErr_Format(PyExc_TimeoutError, "dlbridge: shm: %s: timed out", d->op);
  else raise_not_fetched(code);
  return -1;
}

/* Fetches the descriptor that a handle is for. Returns -1 with an exception. */
static int fetch(const dlbsegment_handle *h, deadline *d, double seconds) {
  int file = -1, code, failed = 0;
  d->op = "fetch";
  deadline_after(d, seconds);
  d->fd = fetch_begin(h, d);
  if (d->fd < 0) return -1;
  do {
    code = dlbsegment_fetch_step(d->fd, &file);
    if (code == EAGAIN) failed = await(d, POLLIN);
  } while (code == EAGAIN && !failed);
  dlbsegment_discard_socket(d->fd);
  if (code == 0) return file;
  if (code != EAGAIN) raise_not_fetched(code);
  return -1;
}

/* Returns the Tensor that `view` describes in a file, whose descriptor it takes over. */
static PyObject *open_file(PyObject *module, int file, const DLTensor *view, int writable, unsigned long long copy_unsealed, int trusted) {
  char text[MESSAGE_SIZE];
  dlbsegment_inbox in;
  dlbcore_status status;
  const uint64_t flags = writable ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY;
  WITHOUT_GIL(status = dlbsegment_open(&in, view, flags, file, copy_unsealed, trusted, text, sizeof text));
  if (status != CORE_OK) return raise_shm(status, -1, text);
  return only_tensor(PyModule_GetState(module), &in);
}

/* Sets the strings of a handle, and checks whether a tensor fits its segment. Returns -1 with an exception, which does not use the
 * handle up. */
static int set_handle(dlbsegment_handle *out, const char *socket, Py_ssize_t socket_size, const char *token, Py_ssize_t token_size,
                      const DLTensor *view, unsigned long long size) {
  char text[MESSAGE_SIZE];
  const char *wrong = dlbsegment_handle_set(out, socket, (size_t)socket_size, token, (size_t)token_size);
  if (wrong != NULL) return raise_error(PyExc_ValueError, "dlbridge: shm: handle: %s", wrong);
  dlbcore_status status = dlbsegment_fits(view, 0, size, text, sizeof text);
  if (status == CORE_OK) return 0;
  raise_shm(status, -1, text);
  return -1;
}

/* Raises the errors that shm_fetch would raise before it uses up a handle. (socket, token, offset, size; number of bytes) -> None */
PyObject *shm_check_handle(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *socket, *token;
  Py_ssize_t socket_size, token_size;
  unsigned long long offset, size;
  long long bytes;
  dlbsegment_handle h;
  DLTensor view = {.device = {kDLCPU, 0}, .dtype = {kDLUInt, 8, 1}, .ndim = 1};
  if (!PyArg_ParseTuple(args, "s#s#O&O&L", &socket, &socket_size, &token, &token_size, byte_count, &offset, byte_count, &size, &bytes))
    return NULL;
  int64_t shape[] = {bytes};
  view.shape = shape;
  view.byte_offset = offset;
  if (set_handle(&h, socket, socket_size, token, token_size, &view, size) < 0) return NULL;
  Py_RETURN_NONE;
}

/* (socket, token, offset and size of a handle; shape; data type; writable; seconds; bytes that may be copied) -> a Tensor */
PyObject *shm_fetch(PyObject *module, PyObject *args) {
  const char *socket, *token;
  Py_ssize_t socket_size, token_size;
  unsigned long long offset, size, copy_unsealed;
  PyObject *description[2];
  int writable;
  double seconds;
  dlbsegment_handle h;
  int64_t shape[CORE_RANK_MAX];
  dlbcore_extent extent;
  DLTensor view = {.device = {kDLCPU, 0}, .shape = shape};
  if (!PyArg_ParseTuple(args, "s#s#O&O&OOpdO&", &socket, &socket_size, &token, &token_size, byte_count, &offset, byte_count, &size,
                        &description[0], &description[1], &writable, &seconds, byte_count, &copy_unsealed) ||
      parse_empty(PyModule_GetState(module), "fetch", description, 2, NULL, &view, &extent) < 0)
    return NULL;
  view.byte_offset = offset;
  if (set_handle(&h, socket, socket_size, token, token_size, &view, size) < 0) return NULL;
  int file = fetch(&h, &(deadline){.raised = 0}, seconds);
  return file < 0 ? NULL : open_file(module, file, &view, writable, copy_unsealed, 0);
}

static PyObject *unpickle(PyObject *module, PyObject *args, deadline *d) {
  const char *data, *socket, *token;
  Py_ssize_t size, socket_size, token_size;
  double seconds;
  dlbsegment_handle h;
  dlbsegment_inbox in;
  int64_t failed;
  char text[MESSAGE_SIZE];
  dlbcore_status status;
  if (!PyArg_ParseTuple(args, "y#s#s#d", &data, &size, &socket, &socket_size, &token, &token_size, &seconds)) return NULL;
  const char *wrong = dlbsegment_handle_set(&h, socket, (size_t)socket_size, token, (size_t)token_size);
  if (wrong != NULL) return PyErr_Format(PyExc_ValueError, "dlbridge: shm: handle: %s", wrong);
  const int file = fetch(&h, d, seconds);
  if (file < 0) return NULL;
  WITHOUT_GIL(status = dlbsegment_unpack(&in, data, (size_t)size, &file, 1, 0, &failed, text, sizeof text));
  return status == CORE_OK ? only_tensor(PyModule_GetState(module), &in) : raise_shm(status, failed, text);
}

/* The result of shm_pickle, and a number of seconds -> the Tensor, or the exception that says why it was not handed over. It raises only
 * exceptions of signal handlers. */
PyObject *shm_unpickle(PyObject *module, PyObject *args) {
  deadline d = {.raised = 0};
  PyObject *tensor = unpickle(module, args, &d), *type, *error, *traceback;
  if (tensor != NULL || d.raised) return tensor;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return error;
}

/* (directory, name, offset, shape, data type, writable, trusted) -> a Tensor */
PyObject *shm_attach(PyObject *module, PyObject *args) {
  const char *directory, *name;
  int file, writable, trusted;
  unsigned long long offset;
  PyObject *description[2];
  int64_t shape[CORE_RANK_MAX];
  dlbcore_extent extent;
  DLTensor view = {.device = {kDLCPU, 0}, .shape = shape};
  if (!PyArg_ParseTuple(args, "ssO&OOpp", &directory, &name, byte_count, &offset, &description[0], &description[1], &writable, &trusted) ||
      parse_empty(PyModule_GetState(module), "attach", description, 2, NULL, &view, &extent) < 0)
    return NULL;
  view.byte_offset = offset;
  int code = dlbsegment_open_named(&file, directory, name, trusted && writable);
  if (code == EINVAL)
    return PyErr_Format(PyExc_ValueError, "dlbridge: shm: attach: '%s' is not the name of a file in %s; pass the name of a file, without a slash", name,
                        directory);
  if (code == 0) return open_file(module, file, &view, writable, ULLONG_MAX, trusted);
  errno = code;
  return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
}

PyObject *shm_mappings(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) { return PyLong_FromLongLong(dlbsegment_count()); }
#endif
