//go:build !dlbridge_shared

/* The functions of dlbridge.h for memory that processes share. The C files of package segment do the work. All of it is
 * plain C. */
#include "capi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __linux__
#include <discard.h>
#include <offer.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <transfer.h>
#include <unistd.h>

/* Returns the error for an errno of the system. */
static int32_t fail_errno(const char *op, const char *what, int number, dlb_error *error) {
  if (number == ENOMEM) return dlbcapi_memory(op, error);
  return dlbcapi_fail(error, DLB_ERROR_SYSTEM, "%s: %s: %s", op, what, strerror(number));
}

/* Returns the error for a status and a text of handover.h. `tensor` is the index of the tensor with the error, or
 * -1. */
static int32_t fail_status(const char *op, dlbcore_status status, int64_t tensor, const char *text, dlb_error *error) {
  int32_t code = status == CORE_NEEDS_COPY ? DLB_ERROR_ARGUMENT : (int32_t)status;
  const char *remedy = status == CORE_NEEDS_COPY ? "; dlb_shm_copy makes a copy that is" : "";
  if (tensor < 0) return dlbcapi_fail(error, code, "%s: %s%s", op, text, remedy);
  return dlbcapi_fail(error, code, "%s: tensors[%" PRId64 "]: %s%s", op, tensor, text, remedy);
}

/* Sets *out to a tensor on the segment `made`, which it takes over, also after an error. */
static int32_t tensor_on(const char *op, DLManagedTensorVersioned **out, segment *made, DLTensor *view, uint64_t flags, dlb_error *error) {
  dlbcore_share *share = dlbcapi_hold(dlbsegment_release, made);
  if (share == NULL) {
    dlbsegment_release(made);
    return dlbcapi_memory(op, error);
  }
  view->data = made->base;
  view->device = (DLDevice){kDLCPU, 0};
  view->strides = NULL;
  view->byte_offset = 0;
  return dlbcapi_hand_over(out, op, share, view, flags, dlbcore_share_drop, error);
}

int32_t dlb_shm_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  DLTensor view = {.device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)shape};
  dlbcore_extent extent;
  char where[256];
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code != DLB_OK) return code;
  dlbcore_status status = dlbcore_check_layout(&view, 0, &extent, where, sizeof where);
  if (status != CORE_OK) return dlbcapi_fail(error, (int32_t)status, "%s: tensor: %s", __func__, where);
  segment *made;
  int failed = dlbsegment_create(&made, extent.nbytes > 0 ? (size_t)extent.nbytes : 1);
  return failed ? fail_errno(__func__, "a new segment", failed, error) : tensor_on(__func__, out, made, &view, 0, error);
}

int32_t dlb_shm_copy(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, &extent, error);
  if (code == DLB_OK) code = dlbcapi_check_readable(__func__, &tensor->dl_tensor, error);
  if (code != DLB_OK) return code;
  DLTensor view = tensor->dl_tensor;
  segment *made;
  int failed = dlbsegment_create(&made, extent.nbytes > 0 ? (size_t)extent.nbytes : 1);
  if (failed) return fail_errno(__func__, "a new segment", failed, error);
  dlbcore_copy_into(made->base, &view, &extent);
  uint64_t flags = (tensor->flags & PADDED) | DLPACK_FLAG_BITMASK_IS_COPIED;
  return tensor_on(__func__, out, made, &view, flags, error);
}

int32_t dlb_shm_is_shared(int32_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  dlbcore_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  *out = dlbsegment_is_shared(&tensor->dl_tensor, &extent);
  return dlbcapi_ok(error);
}

static void drop_share(void *share) { dlbcore_share_drop(share); }

/* Exports the tensors of an inbox, each with a share of its mapping. It takes the inbox over, also after an error. */
static int32_t export_all(const char *op, DLManagedTensorVersioned **out, dlbsegment_inbox *in, dlb_error *error) {
  dlbcore_share *shares[SEGMENT_FILES], *none = dlbcore_share_alloc(0, 0);
  int32_t code = none == NULL ? DLB_ERROR_MEMORY : DLB_OK;
  for (int i = 0; i < in->mapping_count; i++) {
    shares[i] = dlbcapi_hold(dlbsegment_release, in->mappings[i]);
    if (shares[i] != NULL) continue;
    dlbsegment_release(in->mappings[i]);
    code = DLB_ERROR_MEMORY;
  }
  size_t done = 0;
  for (; code == DLB_OK && done < in->tensor_count; done++) {
    dlbsegment_tensor *t = &in->tensors[done];
    out[done] = dlbcore_export_versioned(t->mapping < 0 ? none : shares[t->mapping], &t->view, t->flags);
    if (out[done] == NULL) code = DLB_ERROR_MEMORY;
  }
  for (size_t i = 0; code != DLB_OK && i < done; i++) {
    if (out[i] != NULL) dlbcore_release_versioned(out[i]);
    out[i] = NULL;
  }
  for (int i = 0; i < in->mapping_count; i++) {
    if (shares[i] != NULL) dlbcore_share_drop(shares[i]);
  }
  if (none != NULL) dlbcore_share_drop(none);
  dlbsegment_inbox_free(in);
  return code == DLB_OK ? dlbcapi_ok(error) : dlbcapi_memory(op, error);
}

int32_t dlb_shm_readonly(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  if (code == DLB_OK) code = dlbcapi_check_own(__func__, "tensor", tensor, error);
  if (code != DLB_OK) return code;
  dlbcore_share *share = dlbcore_block_of_versioned(tensor)->share;
  dlbsegment_inbox in;
  char text[256];
  dlbcore_share_retain(share);
  dlbcore_status status = dlbsegment_read_only(&in, &tensor->dl_tensor, tensor->flags, drop_share, share, text, sizeof text);
  return status == CORE_OK ? export_all(__func__, out, &in, error) : fail_status(__func__, status, -1, text, error);
}

static int32_t check_timeout(const char *op, int64_t timeout_ms, dlb_error *error) {
  if (timeout_ms > 0) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: timeout_ms is %" PRId64 "; it must be more than 0", op, timeout_ms);
}

/* Checks the socket for a message. */
static int32_t check_socket(const char *op, int fd, dlb_error *error) {
  char text[256];
  const int number = dlbsegment_check_socket(fd, text, sizeof text);
  return number ? dlbcapi_fail(error, (int32_t)dlbsegment_status(number), "%s: fd: %s", op, text) : DLB_OK;
}

/* Calls dlbsegment_wait. If the thread is cancelled meanwhile, it calls undo(ctx). */
static int wait_until(int fd, short events, int64_t end, int cancellation, void (*undo)(void *ctx), void *ctx) {
  int number;
  pthread_cleanup_push(undo, ctx);
  pthread_setcancelstate(cancellation, NULL);
  number = dlbsegment_wait(fd, events, end);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cleanup_pop(0);
  return number == EINTR ? 0 : number;
}

static int32_t late(const char *op, int64_t timeout_ms, dlb_error *error) {
  return dlbcapi_fail(error, DLB_ERROR_SYSTEM, "%s: the other side has not answered within %" PRId64 " milliseconds", op, timeout_ms);
}

static void end_outbox(void *box) { dlbsegment_outbox_end(box); }

static void end_arrival(void *arrival) { dlbsegment_arrival_end(arrival); }

int32_t dlb_shm_send(int32_t fd, DLManagedTensorVersioned *const *tensors, size_t count, int64_t timeout_ms, uint64_t flags,
                     dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  int32_t code = dlbcapi_check_bits(__func__, "flags", flags, DLB_SHM_WRITABLE, error);
  if (code == DLB_OK) code = check_timeout(__func__, timeout_ms, error);
  if (code == DLB_OK) code = check_socket(__func__, fd, error);
  if (code == DLB_OK && count > 0 && tensors == NULL) code = dlbcapi_null(__func__, "tensors", error);
  if (code == DLB_OK && count > SEGMENT_LARGEST)
    code = dlbcapi_fail(error, DLB_ERROR_OVERFLOW, "%s: %zu tensors are too many for one message; send fewer at once", __func__, count);
  for (size_t i = 0; code == DLB_OK && i < count; i++) {
    char name[48];
    snprintf(name, sizeof name, "tensors[%zu]", i);
    code = dlbcapi_check(__func__, name, tensors[i], NULL, error);
  }
  if (code != DLB_OK) return code;
  const DLManagedTensorVersioned *const *all = (const DLManagedTensorVersioned *const *)tensors;
  dlbsegment_outbox box;
  int64_t failed;
  char text[256];
  dlbcore_status status = dlbsegment_pack(&box, all, count, flags & DLB_SHM_WRITABLE ? 1 : 0, &failed, text, sizeof text);
  if (status != CORE_OK) return fail_status(__func__, status, failed, text, error);
  const int64_t end = dlbsegment_after(timeout_ms);
  size_t sent = 0;
  int number;
  do {
    number = dlbsegment_send_step(fd, &box, &sent, text, sizeof text);
  } while (number == EAGAIN && (number = wait_until(fd, POLLOUT, end, cancellation, end_outbox, &box)) == 0);
  dlbsegment_outbox_end(&box);
  if (number == ETIMEDOUT) return late(__func__, timeout_ms, error);
  return number ? dlbcapi_fail(error, (int32_t)dlbsegment_status(number), "%s: %s", __func__, text) : dlbcapi_ok(error);
}

int32_t dlb_shm_recv(size_t *out, DLManagedTensorVersioned **tensors, size_t room, int32_t fd, uint64_t copy_unsealed,
                     int64_t timeout_ms, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  int countable = room <= PTRDIFF_MAX / sizeof *tensors;
  for (size_t i = 0; tensors != NULL && countable && i < room; i++) tensors[i] = NULL;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK && room > 0 && tensors == NULL) code = dlbcapi_null(__func__, "tensors", error);
  if (code == DLB_OK && !countable)
    code = dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: tensors has %zu entries, more than memory can hold", __func__, room);
  if (code == DLB_OK) code = check_timeout(__func__, timeout_ms, error);
  if (code == DLB_OK) code = check_socket(__func__, fd, error);
  if (code != DLB_OK) return code;
  const int64_t end = dlbsegment_after(timeout_ms);
  dlbsegment_arrival arrival = {.size = 0};
  dlbsegment_inbox in;
  char text[256];
  int number;
  do {
    number = dlbsegment_receive_step(fd, &arrival, text, sizeof text);
  } while (number == EAGAIN && (number = wait_until(fd, POLLIN, end, cancellation, end_arrival, &arrival)) == 0);
  if (number == ETIMEDOUT) {
    code = late(__func__, timeout_ms, error);
  } else if (number) {
    code = dlbcapi_fail(error, (int32_t)dlbsegment_status(number), "%s: %s", __func__, text);
  } else {
    int64_t failed;
    dlbcore_status status = dlbsegment_arrival_unpack(&in, &arrival, copy_unsealed, &failed, text, sizeof text);
    if (status != CORE_OK) code = fail_status(__func__, status, failed, text, error);
  }
  dlbsegment_arrival_end(&arrival);
  if (code != DLB_OK) return code;
  size_t count = in.tensor_count;
  if (count > room) {
    for (int i = 0; i < in.mapping_count; i++) dlbsegment_release(in.mappings[i]);
    dlbsegment_inbox_free(&in);
    *out = count;
    return dlbcapi_fail(error, DLB_ERROR_ROOM, "%s: %zu tensors came, but there is room for only %zu; the message is lost", __func__, count, room);
  }
  code = export_all(__func__, tensors, &in, error);
  if (code == DLB_OK) *out = count;
  return code;
}

int32_t dlb_shm_offer(dlb_shm_handle *out, const DLManagedTensorVersioned *tensor, int64_t timeout_ms, uint64_t flags, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  dlbcore_extent extent;
  dlbsegment_place place;
  dlbsegment_handle made;
  char text[256];
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, &extent, error);
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "flags", flags, DLB_SHM_WRITABLE, error);
  if (code == DLB_OK) code = check_timeout(__func__, timeout_ms, error);
  if (code != DLB_OK) return code;
  const int writable = flags & DLB_SHM_WRITABLE ? 1 : 0;
  dlbcore_status status = dlbsegment_place_of(&place, &tensor->dl_tensor, &extent, tensor->flags, writable, text, sizeof text);
  if (status != CORE_OK) return fail_status(__func__, status, -1, text, error);
  status = dlbsegment_offer(&made, &place, writable, timeout_ms, text, sizeof text);
  if (status != CORE_OK) return fail_status(__func__, status, -1, text, error);
  memcpy(out->socket, made.socket, sizeof made.socket);
  memcpy(out->token, made.token, sizeof made.token);
  out->offset = made.offset;
  out->size = made.size;
  out->readonly = (uint64_t)made.read_only;
  return dlbcapi_ok(error);
}

/* Checks the description of a tensor to open. */
static int32_t check_view(const char *op, const DLTensor *view, uint64_t flags, dlb_error *error) {
  if (view == NULL) return dlbcapi_null(op, "view", error);
  if (view->device.device_type != kDLCPU)
    return dlbcapi_fail(error, DLB_ERROR_DEVICE, "%s: view: the device type is %d; it must be kDLCPU", op, (int)view->device.device_type);
  return dlbcapi_check_bits(op, "flags", flags, DLPACK_FLAG_BITMASK_READ_ONLY | PADDED, error);
}

/* Sets *out to the tensor of a file, and takes over the descriptor. `view` says where the tensor begins. */
static int32_t open_file(const char *op, DLManagedTensorVersioned **out, int file, const DLTensor *view, uint64_t flags, uint64_t copy_unsealed,
                         int trusted, dlb_error *error) {
  dlbsegment_inbox in;
  char text[256];
  dlbcore_status status = dlbsegment_open(&in, view, flags, file, copy_unsealed, trusted, text, sizeof text);
  return status == CORE_OK ? export_all(op, out, &in, error) : fail_status(op, status, -1, text, error);
}

static void close_socket(void *conn) { dlbsegment_discard_socket(*(int *)conn); }

/* Returns the error for an errno of dlbsegment_fetch_begin or dlbsegment_fetch_step. */
static int32_t not_fetched(const char *op, const char *call, int number, dlb_error *error) {
  const char *text = dlbsegment_fetch_text(number);
  if (text == NULL) return fail_errno(op, call, number, error);
  return dlbcapi_fail(error, number == ENOENT ? DLB_ERROR_CLOSED : DLB_ERROR_SYSTEM, "%s: handle: %s", op, text);
}

/* Fetches the descriptor of a handle. */
static int32_t fetch_file(const char *op, int *file, const dlbsegment_handle *handle, int64_t timeout_ms, int cancellation, dlb_error *error) {
  const int64_t end = dlbsegment_after(timeout_ms);
  int conn, failed;
  while ((failed = dlbsegment_fetch_begin(&conn, handle)) == EAGAIN && dlbsegment_now() < end) {
    pthread_setcancelstate(cancellation, NULL);
    usleep(1000);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  }
  if (failed == EAGAIN) return late(op, timeout_ms, error);
  if (failed) return not_fetched(op, "connect", failed, error);
  do {
    failed = dlbsegment_fetch_step(conn, file);
  } while (failed == EAGAIN && (failed = wait_until(conn, POLLIN, end, cancellation, close_socket, &conn)) == 0);
  dlbsegment_discard_socket(conn);
  if (failed == ETIMEDOUT) return late(op, timeout_ms, error);
  return failed ? not_fetched(op, "recvmsg", failed, error) : DLB_OK;
}

int32_t dlb_shm_fetch(DLManagedTensorVersioned **out, const dlb_shm_handle *handle, const DLTensor *view, uint64_t flags, uint64_t copy_unsealed,
                      int64_t timeout_ms, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  dlbsegment_handle h;
  int file = -1;
  char text[256];
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK && handle == NULL) code = dlbcapi_null(__func__, "handle", error);
  if (code == DLB_OK) code = check_view(__func__, view, flags, error);
  if (code == DLB_OK) code = check_timeout(__func__, timeout_ms, error);
  if (code != DLB_OK) return code;
  const char *wrong = dlbsegment_handle_set(&h, handle->socket, strnlen(handle->socket, sizeof handle->socket), handle->token,
                                            strnlen(handle->token, sizeof handle->token));
  if (wrong != NULL) return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: handle: %s", __func__, wrong);
  DLTensor placed = *view;
  placed.byte_offset = handle->offset;
  dlbcore_status status = dlbsegment_fits(&placed, flags, handle->size, text, sizeof text); /* an error here does not use the handle up */
  if (status != CORE_OK) return fail_status(__func__, status, -1, text, error);
  code = fetch_file(__func__, &file, &h, timeout_ms, cancellation, error);
  if (code != DLB_OK) return code;
  if (handle->readonly) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  return open_file(__func__, out, file, &placed, flags, copy_unsealed, 0, error);
}

int32_t dlb_shm_attach(DLManagedTensorVersioned **out, const char *directory, const char *name, const DLTensor *view, uint64_t flags,
                       uint64_t options, dlb_error *error) {
  SEGMENT_WITHOUT_CANCELLATION;
  int file = -1;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK && directory == NULL) code = dlbcapi_null(__func__, "directory", error);
  if (code == DLB_OK && name == NULL) code = dlbcapi_null(__func__, "name", error);
  if (code == DLB_OK) code = check_view(__func__, view, flags, error);
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "options", options, DLB_SHM_TRUST_PEER, error);
  if (code != DLB_OK) return code;
  const int trusted = options & DLB_SHM_TRUST_PEER ? 1 : 0;
  int failed = dlbsegment_open_named(&file, directory, name, trusted && !(flags & DLPACK_FLAG_BITMASK_READ_ONLY));
  if (failed == EINVAL)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: \"%.80s\" is not the name of a file in %.80s; pass the name of a file, without a slash", __func__, name, directory);
  if (failed) {
    char what[192];
    snprintf(what, sizeof what, "\"%.80s\" in %.80s cannot be opened", name, directory);
    return fail_errno(__func__, what, failed, error);
  }
  return open_file(__func__, out, file, view, flags, UINT64_MAX, trusted, error);
}
#else
/* These functions use only `out` and `error`. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static int32_t unsupported(const char *op, dlb_error *error) {
  return dlbcapi_fail(error, DLB_ERROR_SYSTEM, "%s: shared memory needs Linux", op);
}

static int32_t cleared(const char *op, void *out, size_t size, dlb_error *error) {
  int32_t code = dlbcapi_clear(op, out, size, error);
  return code == DLB_OK ? unsupported(op, error) : code;
}

int32_t dlb_shm_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}

int32_t dlb_shm_copy(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}

int32_t dlb_shm_is_shared(int32_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, NULL, error);
  return code == DLB_OK ? dlbcapi_ok(error) : code;
}

int32_t dlb_shm_readonly(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}

int32_t dlb_shm_send(int32_t fd, DLManagedTensorVersioned *const *tensors, size_t count, int64_t timeout_ms, uint64_t flags,
                     dlb_error *error) {
  return unsupported(__func__, error);
}

int32_t dlb_shm_recv(size_t *out, DLManagedTensorVersioned **tensors, size_t room, int32_t fd, uint64_t copy_unsealed,
                     int64_t timeout_ms, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}

int32_t dlb_shm_offer(dlb_shm_handle *out, const DLManagedTensorVersioned *tensor, int64_t timeout_ms, uint64_t flags, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}

int32_t dlb_shm_fetch(DLManagedTensorVersioned **out, const dlb_shm_handle *handle, const DLTensor *view, uint64_t flags, uint64_t copy_unsealed,
                      int64_t timeout_ms, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}

int32_t dlb_shm_attach(DLManagedTensorVersioned **out, const char *directory, const char *name, const DLTensor *view, uint64_t flags,
                       uint64_t options, dlb_error *error) {
  return cleared(__func__, out, sizeof *out, error);
}
#endif
