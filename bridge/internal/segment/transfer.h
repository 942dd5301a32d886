/* The messages of handover.h on a connected Unix socket of the type SOCK_STREAM, for Go, C and Python. No call of this file waits for
 * the other side, whether the socket is in blocking mode or not, except dlbsegment_wait. */
#ifndef DLBRIDGE_SEGMENT_TRANSFER_H
#define DLBRIDGE_SEGMENT_TRANSFER_H

#include "handover.h"

/* The functions that return an int return 0 or an errno. An errno other than EAGAIN comes with a text; dlbsegment_status says what kind of
 * error it is. */

/* Checks that a descriptor is one of a Unix socket of the type SOCK_STREAM: others lose the rest of a message that is read in parts.
 * EPROTOTYPE: it is another socket. */
CORE_API int dlbsegment_check_socket(int fd, char *text, size_t text_size);

/* Sends the rest of a message. *sent, which must be 0 before the first call, counts its bytes. Before the first byte it decides, as
 * dlbsegment_outbox_decide does, and returns its errors; later errors do not change that. EAGAIN: call it again when the socket can be
 * written; EPIPE: the other side has closed the connection. */
CORE_API int dlbsegment_send_step(int fd, const dlbsegment_outbox *box, size_t *sent, char *text, size_t text_size);

/* A message that is being received. All fields must be 0 before the first call; dlbsegment_arrival_end frees what it holds. */
typedef struct {
  char first[SEGMENT_FIRST];
  char *rest;        /* the whole message, if it is larger than `first` */
  size_t size, done; /* in bytes; the size is 0 as long as it is not known */
  int files[SEGMENT_FILES];
  size_t file_count;
} dlbsegment_arrival;

/* Receives the rest of a message, and nothing of the next one. EAGAIN: call it again when the socket can be read; ECONNRESET: the other
 * side has closed the connection, also in the middle of a message; EPROTO: this is no message, as its first wrong byte shows; EMFILE: a
 * descriptor came, and this process can have no further one. */
CORE_API int dlbsegment_receive_step(int fd, dlbsegment_arrival *a, char *text, size_t text_size);

/* Calls dlbsegment_unpack with a complete message. The caller still calls dlbsegment_arrival_end. */
CORE_API dlbcore_status dlbsegment_arrival_unpack(dlbsegment_inbox *out, dlbsegment_arrival *a, uint64_t copy_unsealed, int64_t *failed, char *text,
                                            size_t text_size);

/* Frees a message, and closes the descriptors that have arrived and were not unpacked. */
CORE_API void dlbsegment_arrival_end(dlbsegment_arrival *a);

/* ---- waiting, for C and Python: Go waits by its own means --------------------------------------- */

/* Returns the time of the monotonic clock in milliseconds. */
CORE_API int64_t dlbsegment_now(void);

/* Returns the time of that clock after so many milliseconds, and INT64_MAX, which is never, if it has no such time. */
CORE_API int64_t dlbsegment_after(int64_t milliseconds);

/* Waits until a socket can be read (POLLIN) or written (POLLOUT), or until `end` on the clock of dlbsegment_now. Returns 0 if the caller
 * may try again, or an errno without a text: ETIMEDOUT if `end` is over; EINTR. */
CORE_API int dlbsegment_wait(int fd, short events, int64_t end);

#endif
