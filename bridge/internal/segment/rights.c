#ifdef __linux__
#define _GNU_SOURCE
#include "rights.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for the descriptors of a message. */
typedef union {
  struct cmsghdr header; /* aligns the room */
  char room[CMSG_SPACE(SEGMENT_FILES * sizeof(int))];
} rights;

ssize_t segment_rights_send(int socket, const void *data, size_t size, const int *files, size_t count) {
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
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t segment_rights_receive(int socket, void *data, size_t size, int files[SEGMENT_FILES], size_t *count, int *all) {
  rights control;
  struct iovec bytes = {data, size};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  *all = 1;
  if (received < 0) return received;
  if (message.msg_flags & MSG_CTRUNC) *all = 0;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof *files;
    for (size_t i = 0; i < n; i++) {
      int file;
      memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
      if (*count < SEGMENT_FILES) {
        files[(*count)++] = file;
      } else {
        close(file);
        *all = 0;
      }
    }
  }
  return received;
}
#endif
