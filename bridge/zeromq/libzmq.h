/* The C functions that Go calls: those of libzmq, and those that make several calls of it. */
#ifndef DLBRIDGE_ZEROMQ_H
#define DLBRIDGE_ZEROMQ_H

#include "abi.h"

#include <dlpack/dlpack.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Loads libzmq from path and looks up its functions. Returns NULL, or why it cannot be used, which the caller frees. One
   thread at a time calls it, and no other function here is called before it has returned NULL. */
char *zeromq_load(const char *path);

/* The functions of libzmq, after zeromq_load. */
#define ZMQ_FIELD(result, name, parameters, arguments) result(*name) parameters;
extern struct zeromq_functions {
  ZMQ_FUNCTIONS(ZMQ_FIELD)
  ZMQ_DRAFT_FUNCTIONS(ZMQ_FIELD) /* all NULL if libzmq lacks one of them */
} zeromq_functions __attribute__((visibility("hidden")));

/* Each under its name in libzmq, such as zmq_bind. */
#define ZMQ_CALL(result, name, parameters, arguments) \
  static inline result zmq_##name parameters { return zeromq_functions.name arguments; }
ZMQ_FUNCTIONS(ZMQ_CALL)
ZMQ_DRAFT_FUNCTIONS(ZMQ_CALL)

/* Reports whether libzmq has the draft API. */
static inline bool zeromq_drafts(void) { return zeromq_functions.msg_routing_id != NULL; }

/* Returns the file that libzmq was loaded from. */
const char *zeromq_path(void);

/* A frame. If it has an owner, its bytes are at the address `at`, and otherwise at the offset `at` in the buffer of small frames. */
typedef struct {
  uint64_t at, size;
  uintptr_t owner; /* sending: a managed tensor. receiving: a zmq_msg_t, freed by zeromq_free */
  uint32_t peer;   /* the routing id of the peer of a SERVER, and 0 for other sockets */
} zeromq_frame;

/* The frames of one message. The buffers are used again for the next message. `room` is the size of `frames` in frames, and `space`
   that of `small` in bytes. */
typedef struct {
  zeromq_frame *frames;
  size_t count, room;
  char *small;
  size_t used, space;
  int shared; /* libzmq shares a frame with other messages */
} zeromq_inbox;

enum { ZEROMQ_LIMIT = -1 }; /* the message exceeds the limit */

/* Stores what the socket is ready for: ZMQ_POLLIN, ZMQ_POLLOUT. Returns 0 or an errno, never EINTR. */
int zeromq_events(void *socket, int *events);

/* How far a message is sent: all 0 before the first try. */
typedef struct {
  size_t taken;   /* the number of frames that libzmq has taken in this try */
  uintptr_t made; /* what zeromq_send has made for the next try, so that copies are made once; if there is none, zeromq_unmake frees it */
} zeromq_progress;

/* Sends a message without waiting. Returns 0 or an errno. libzmq releases the managed tensors of the frames that it has taken, and
   those of the others stay the caller's. After EAGAIN nothing of the message is sent, also if frames were taken: the peer has gone in the
   middle of the message, and the caller sends the whole message again. `cut` is NULL, or for a REQ socket a number that is 0 at first:
   afterwards it is not 0 if the last request was cut, so that there is none to which an answer can come. `look` allows it to ask libzmq what
   the socket is ready for. */
int zeromq_send(void *socket, const zeromq_frame *frames, size_t count, const char *small, zeromq_progress *p, int *cut, bool look);

/* Sends an empty last frame without waiting. Returns 0 or an errno. */
int zeromq_send_empty(void *socket);

/* Frees what zeromq_send has made for another try. The managed tensors stay the caller's. */
void zeromq_unmake(uintptr_t made, size_t count);

/* Receives one message without waiting. Frames of fewer than `threshold` bytes are copied. Returns 0, an errno or ZEROMQ_LIMIT; after
   an error the inbox is empty, and a message that had arrived is dropped whole. So is one whose connection has ended here after its first
   frame was received: that is EAGAIN. `limit` is the most bytes that the frames may have, with `overhead` added for each; there is none
   if it is negative. */
int zeromq_receive(void *socket, zeromq_inbox *inbox, size_t threshold, size_t overhead, int64_t limit);

/* Stores the descriptor by which libzmq signals changes of a socket of the draft API. Such a socket has no ZMQ_FD; a poller has the
   descriptor, which the first call makes and stores in *poller. The caller reads the signals, so that they do not pile up, and destroys
   the poller before the socket is closed. Returns 0 or an errno. */
int zeromq_draft_fd(void *socket, void **poller, int *fd);

/* Frees the frames of an inbox. */
void zeromq_clear(zeromq_inbox *inbox);

/* Frees each buffer of an inbox that has more than `keep` bytes. The frames in it must not be used afterwards. */
void zeromq_trim(zeromq_inbox *inbox, size_t keep);

/* Frees the zmq_msg_t that owns a received frame, and its memory. */
void zeromq_free(void *owner);

/* Returns the address of zeromq_free. */
void *zeromq_free_function(void);

#endif
