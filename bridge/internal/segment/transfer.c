/* transfer.c: messages on Unix sockets. The descriptors of a message come with its first byte (unix(7), SCM_RIGHTS). */
#ifdef __linux__
#define _GNU_SOURCE
#include "transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for the descriptors of a message. */
typedef union {
  struct cmsghdr header; /* aligns the room */
  char room[CMSG_SPACE(SEGMENT_FILES * sizeof(int))];
} rights;

int segment_send_step(int fd, const segment_outbox *box, size_t *sent) {
  rights control;
  struct iovec bytes = {box->data + *sent, box->size - *sent};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
  const size_t files = (size_t)box->file_count * sizeof *box->files;
  if (*sent == 0 && files > 0) {
    memset(&control, 0, CMSG_SPACE(files));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(files);
    memcpy(CMSG_DATA(&control.header), box->files, files);
    message.msg_control = control.room;
    message.msg_controllen = CMSG_SPACE(files);
  }
  ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
  if (n < 0) return errno == EPIPE ? ECONNRESET : errno;
  *sent += (size_t)n;
  return 0;
}

/* Takes the descriptors of one recvmsg. Reports whether all were taken. */
static int take_files(segment_arrival *a, struct msghdr *message) {
  int all = !(message->msg_flags & MSG_CTRUNC);
  for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int file;
      memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
      if (a->file_count < SEGMENT_FILES) {
        a->files[a->file_count++] = file;
      } else {
        close(file);
        all = 0;
      }
    }
  }
  return all;
}

int segment_receive_step(int fd, segment_arrival *a, char *text, size_t text_size) {
  rights control;
  char *data = a->rest != NULL ? a->rest : a->first;
  struct iovec bytes = {data + a->done, (a->size == 0 ? SEGMENT_FIRST : a->size) - a->done};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (n < 0 && errno != ECONNRESET) return errno;
  if (n <= 0) {
    snprintf(text, text_size, "the other side has closed the connection%s", a->done > 0 ? " in the middle of a message" : "");
    return ECONNRESET;
  }
  if (!take_files(a, &message)) {
    snprintf(text, text_size, "more descriptors came than this process can have, or than one message carries");
    return EMFILE;
  }
  a->done += (size_t)n;
  if (a->size > 0 || a->done < SEGMENT_FIRST) return 0;
  a->size = segment_message_size(a->first, text, text_size);
  if (a->size == 0) return EPROTO;
  if (a->size == SEGMENT_FIRST) return 0;
  a->rest = malloc(a->size);
  if (a->rest == NULL) return ENOMEM;
  memcpy(a->rest, a->first, SEGMENT_FIRST);
  return 0;
}

core_status segment_arrival_unpack(segment_inbox *out, segment_arrival *a, uint64_t copied, int64_t *failed, char *text,
                                   size_t text_size) {
  const size_t files = a->file_count;
  a->file_count = 0;
  return segment_unpack(out, a->rest != NULL ? a->rest : a->first, a->size, a->files, files, copied, failed, text, text_size);
}

void segment_arrival_end(segment_arrival *a) {
  for (size_t i = 0; i < a->file_count; i++) close(a->files[i]);
  free(a->rest);
}
#endif
