/* The messages of message.h on a connected Unix socket of the type SOCK_STREAM, for C and Python. */
#ifndef DLBRIDGE_SEGMENT_TRANSFER_H
#define DLBRIDGE_SEGMENT_TRANSFER_H

#include "message.h"

/* Sends as much of a message as the socket takes. *sent, which must be 0 before the first call, counts the bytes; box->size means
 * that all are sent. Returns 0 or an errno; ECONNRESET: the other side has closed the connection. */
CORE_API int segment_send_step(int fd, const segment_outbox *box, size_t *sent);

/* A message that is being received. All fields must be 0 before the first call; segment_arrival_end frees what it holds. */
typedef struct {
  char first[SEGMENT_FIRST];
  char *rest;        /* the whole message, if it is larger than `first` */
  size_t size, done; /* in bytes; the size is 0 as long as it is not known */
  int files[SEGMENT_FILES];
  size_t file_count;
} segment_arrival;

/* Receives more of a message, which is complete when `size` is not 0 and `done` is `size`. Returns 0 or an errno. Three of them
 * come with a text: ECONNRESET, the other side has closed the connection; EPROTO, the bytes are no message; EMFILE, too many
 * descriptors. */
CORE_API int segment_receive_step(int fd, segment_arrival *a, char *text, size_t text_size);

/* Calls segment_unpack with a complete message. The caller still calls segment_arrival_end. */
CORE_API core_status segment_arrival_unpack(segment_inbox *out, segment_arrival *a, uint64_t copied, int64_t *failed, char *text,
                                            size_t text_size);

/* Frees a message, and closes the descriptors that have arrived and were not unpacked. */
CORE_API void segment_arrival_end(segment_arrival *a);

#endif
