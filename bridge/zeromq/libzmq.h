/* What Go calls of libzmq, several operations in one call. */
#ifndef DLBRIDGE_ZEROMQ_H
#define DLBRIDGE_ZEROMQ_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

/* A frame. Its bytes are at the address `at` if it has an owner, and otherwise at that distance in a buffer of small frames. */
typedef struct {
  uint64_t at, size;
  uintptr_t owner; /* sending: a managed tensor. receiving: a zmq_msg_t, freed by zeromq_free */
} zeromq_frame;

/* The frames of one message. The buffers are used again for the next. */
typedef struct {
  zeromq_frame *frames;
  size_t count, room;
  char *small;
  size_t used, space;
  int shared; /* libzmq shares a frame with other messages */
} zeromq_inbox;

enum { ZEROMQ_LIMIT = -1 }; /* the message exceeds the limit */

/* Sends a message without waiting. Returns 0 or an errno, and in *taken how many frames libzmq has taken: it releases the managed
   tensors of those, and the others stay the caller's. After EAGAIN nothing of the message is sent, also if frames were taken: the peer
   has gone in the middle of it, and the caller sends the whole message again. */
int zeromq_send(void *socket, const zeromq_frame *frames, size_t count, const char *small, size_t *taken);

/* Receives one message without waiting. Frames of fewer than `threshold` bytes are copied. Returns 0, an errno or ZEROMQ_LIMIT; after
   an error the inbox is empty, and a message that had arrived is dropped whole. limit < 0 is none. */
int zeromq_receive(void *socket, zeromq_inbox *inbox, size_t threshold, size_t overhead, int64_t limit);

/* Frees the buffers of an inbox that were needed for a large message. */
void zeromq_trim(zeromq_inbox *inbox, size_t keep);

/* Frees the message that owns a received frame. */
void zeromq_free(void *owner);

/* Returns zeromq_free. */
void *zeromq_free_function(void);

#endif
