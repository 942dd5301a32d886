//go:build !dlbridge_shared

#ifdef __linux__
#include "discard.h"
#include "transfer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Writes a text for the errno of a call, and returns the errno. */
static int refused(const char *call, int code, char *text, size_t text_size) {
  if (code != EAGAIN) dlbsegment_fail(code, call, text, text_size);
  return code;
}

int dlbsegment_check_socket(int fd, char *text, size_t text_size) {
  int family = 0, type = 0; /* SO_DOMAIN, SO_TYPE */
  socklen_t size = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    return refused("getsockopt", errno, text, text_size);
  if (family == AF_UNIX && type == SOCK_STREAM) return 0;
  snprintf(text, text_size, "a connected Unix socket of the type SOCK_STREAM is required, but the socket has family %d and type %d", family, type);
  return EPROTOTYPE;
}

int dlbsegment_send_step(int fd, const dlbsegment_outbox *box, size_t *sent, char *text, size_t text_size) {
  const int refusal = *sent == 0 ? dlbsegment_outbox_decide(box, text, text_size) : 0;
  if (refusal) return refusal;
  while (*sent < box->size) {
    const size_t files = *sent == 0 ? (size_t)box->file_count : 0; /* they go with the first byte */
    const ssize_t n = dlbsegment_rights_send(fd, box->data + *sent, box->size - *sent, box->files, files);
    if (n >= 0) *sent += (size_t)n;
    else if (errno != EINTR) return refused("sendmsg", errno == ECONNRESET ? EPIPE : errno, text, text_size);
  }
  return 0;
}

/* Looks at the first bytes of a message, as many as have come, and makes room for the rest once its size is known. */
static int look(dlbsegment_arrival *a, char *text, size_t text_size) {
  if (a->size > 0) return 0;
  if (dlbsegment_message_size(&a->size, a->first, a->done, text, text_size) != CORE_OK) return EPROTO;
  if (a->size <= SEGMENT_FIRST) return 0;
  a->rest = malloc(a->size);
  if (a->rest == NULL) return refused("a message", ENOMEM, text, text_size);
  memcpy(a->rest, a->first, a->done);
  return 0;
}

int dlbsegment_receive_step(int fd, dlbsegment_arrival *a, char *text, size_t text_size) {
  int failed = 0;
  while (!failed && (a->size == 0 || a->done < a->size)) {
    char *data = a->rest != NULL ? a->rest : a->first;
    const size_t left = (a->size == 0 ? SEGMENT_FIRST : a->size) - a->done;
    const ssize_t n = dlbsegment_rights_receive(fd, data + a->done, left, a->files, &a->file_count, &failed);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
      snprintf(text, text_size, "the other side has closed the connection%s", a->done > 0 ? " in the middle of a message" : "");
      return ECONNRESET;
    }
    if (n < 0 && errno != EINTR) return refused("recvmsg", errno == EINVAL ? ENOTCONN : errno, text, text_size); /* as sendmsg */
    if (failed == EMFILE) snprintf(text, text_size, "file descriptors came with the message, but this process cannot open more (RLIMIT_NOFILE)");
    if (failed == EPROTO) snprintf(text, text_size, "header: more than %d file descriptors came with the message", SEGMENT_FILES);
    if (n < 0 || failed) continue;
    a->done += (size_t)n;
    failed = look(a, text, text_size);
  }
  return failed;
}

dlbcore_status dlbsegment_arrival_unpack(dlbsegment_inbox *out, dlbsegment_arrival *a, uint64_t copy_unsealed, int64_t *failed, char *text,
                                   size_t text_size) {
  const size_t files = a->file_count;
  a->file_count = 0;
  return dlbsegment_unpack(out, a->rest != NULL ? a->rest : a->first, a->size, a->files, files, copy_unsealed, failed, text, text_size);
}

void dlbsegment_arrival_end(dlbsegment_arrival *a) {
  for (size_t i = 0; i < a->file_count; i++) dlbsegment_discard(a->files[i]);
  free(a->rest);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

int64_t dlbsegment_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t dlbsegment_after(int64_t milliseconds) {
  const int64_t now = dlbsegment_now();
  return milliseconds > INT64_MAX - now ? INT64_MAX : now + milliseconds;
}

/* A thread may be cancelled in poll. AddressSanitizer must not mark the memory around `ready`, because the marks would stay on the stack
 * for the functions that are called while the thread ends. */
__attribute__((no_sanitize_address)) int dlbsegment_wait(int fd, short events, int64_t end) {
  struct pollfd ready = {.fd = fd, .events = events};
  const int64_t left = end - dlbsegment_now();
  if (left <= 0) return ETIMEDOUT;
  return poll(&ready, 1, left > INT32_MAX ? INT32_MAX : (int)left) < 0 ? errno : 0;
}
#endif
