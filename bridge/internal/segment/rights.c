//go:build !dlbridge_shared

#ifdef __linux__
#include "discard.h"
#include "rights.h"
#include "segment.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04 /* Linux 6.5 */
#endif

/* Room for what else comes beside descriptors if the socket has the option for it: the label of the sender's security context
 * (SO_PASSSEC, before the descriptors), its user and process (SO_PASSCRED, before them as well), a descriptor of that process
 * (SO_PASSPIDFD) and the number of bytes that follow (SO_INQ). Without that room Linux would drop descriptors. */
enum { LABEL = 1024 };

/* Room for the descriptors of a message, and for all that may come beside them. */
typedef union {
  struct cmsghdr header; /* aligns the room */
  char room[CMSG_SPACE(LABEL) + CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(SEGMENT_FILES * sizeof(int)) + 2 * CMSG_SPACE(sizeof(int))];
} rights;

ssize_t dlbsegment_rights_send(int socket, const void *data, size_t size, const int *files, size_t count) {
  rights control;
  struct iovec bytes = {(void *)data, size};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
  if (count > 0) {
    memset(&control, 0, CMSG_SPACE(count * sizeof *files));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(count * sizeof *files);
    memcpy(CMSG_DATA(&control.header), files, count * sizeof *files);
    message.msg_control = control.room;
    message.msg_controllen = CMSG_SPACE(count * sizeof *files);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t dlbsegment_rights_receive(int socket, void *data, size_t size, int files[SEGMENT_FILES], size_t *count, int *failed) {
  rights control;
  struct iovec bytes = {data, size};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  *failed = 0;
  if (received < 0) return received;
  if (message.msg_flags & MSG_CTRUNC) *failed = EMFILE;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare" /* in the macros of musl */
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
#pragma GCC diagnostic pop
    if (c->cmsg_level != SOL_SOCKET || (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_PIDFD)) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof *files;
    for (size_t i = 0; i < n; i++) {
      int file;
      memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
      if (c->cmsg_type == SCM_RIGHTS && *count < SEGMENT_FILES) {
        file = dlbsegment_above_standard(file);
        if (file >= 0) files[(*count)++] = file;
        else *failed = EMFILE;
      } else {
        if (c->cmsg_type == SCM_RIGHTS) dlbsegment_discard(file), *failed = EPROTO;
        else if (file >= 0) close(file); /* Linux gives an error in place of a process that has ended */
      }
    }
  }
  return received;
}
#endif
