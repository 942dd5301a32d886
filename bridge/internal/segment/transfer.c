#ifdef __linux__
#include "transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int segment_send_step(int fd, const segment_outbox *box, size_t *sent) {
  const size_t files = *sent == 0 ? (size_t)box->file_count : 0;
  const ssize_t n = segment_rights_send(fd, box->data + *sent, box->size - *sent, box->files, files);
  if (n < 0) return errno == EPIPE ? ECONNRESET : errno;
  *sent += (size_t)n;
  return 0;
}

int segment_receive_step(int fd, segment_arrival *a, char *text, size_t text_size) {
  char *data = a->rest != NULL ? a->rest : a->first;
  int all;
  const ssize_t n = segment_rights_receive(fd, data + a->done, (a->size == 0 ? SEGMENT_FIRST : a->size) - a->done, a->files, &a->file_count, &all);
  if (n < 0 && errno != ECONNRESET) return errno;
  if (n <= 0) {
    snprintf(text, text_size, "the other side has closed the connection%s", a->done > 0 ? " in the middle of a message" : "");
    return ECONNRESET;
  }
  if (!all) {
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
