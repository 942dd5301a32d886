#define _GNU_SOURCE
#include "libzmq.h"

#include <library.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zeromq_functions zeromq_functions;

#define NAME(result, name, parameters, arguments) "zmq_" #name,
static const char *const names[] = {ZMQ_FUNCTIONS(NAME)};
static const char *const drafts[] = {ZMQ_DRAFT_FUNCTIONS(NAME)};

enum { COUNT = sizeof names / sizeof *names, DRAFTS = sizeof drafts / sizeof *drafts };

_Static_assert(sizeof zeromq_functions == (COUNT + DRAFTS) * sizeof(void *), "one pointer for each name");

const char *zeromq_path(void) {
  Dl_info info;
  return dladdr((void *)(uintptr_t)zeromq_functions.version, &info) ? info.dli_fname : "";
}

char *zeromq_load(const char *path) {
  struct zeromq_functions found;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return library_error();
  char *why = library_functions(library, names, 1, (void **)&found);
  if (why != NULL) return why;
  int major, minor, patch;
  found.version(&major, &minor, &patch);
  if (major != ZEROMQ_MAJOR || minor < ZEROMQ_MINOR) {
    return library_text("%s has version %d.%d.%d, want %d.%d or a later %d.x", path, major, minor, patch, ZEROMQ_MAJOR, ZEROMQ_MINOR,
                        ZEROMQ_MAJOR);
  }
  if ((why = library_functions(library, names, COUNT, (void **)&found)) != NULL) return why;
  void **draft = (void **)&found + COUNT;
  if ((why = library_functions(library, drafts, DRAFTS, draft)) != NULL) {
    memset(draft, 0, DRAFTS * sizeof *draft);
    free(why);
  }
  zeromq_functions = found;
  return NULL;
}

/* The share of memory that libzmq releases when it no longer needs a frame. */
typedef struct {
  DLManagedTensorVersioned *managed; /* NULL if the frame was not sent: the caller keeps the managed tensor */
} loan;

static void release(void *data, void *hint) {
  loan *l = hint;
  (void)data;
  if (l->managed != NULL) l->managed->deleter(l->managed);
  free(l);
}

int zeromq_events(void *socket, int *events) {
  size_t size = sizeof *events;
  while (zmq_getsockopt(socket, ZMQ_EVENTS, events, &size) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

/* Reports whether the socket is ready after all. zmq_getsockopt makes libzmq look for changes of the socket's state, which a send or
 * receive that fails does not always do. */
static int ready(void *socket, int event) {
  int events = 0;
  return zeromq_events(socket, &events) == 0 && (events & event) != 0;
}

/* Sends a frame without waiting. Returns 0 or an errno; after an error the message is still the caller's. It tries again after EINTR,
 * because Go's signals interrupt calls of libzmq, and with `look` once if libzmq is ready after all. */
static int send_frame(void *socket, zmq_msg_t *message, bool look, int more) {
  for (int tries = 0;; tries++) {
    if (zmq_msg_send(message, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0) return 0;
    int error = errno;
    if (error == EINTR || (error == EAGAIN && look && tries == 0 && ready(socket, ZMQ_POLLOUT))) continue;
    return error;
  }
}

int zeromq_send_empty(void *socket) {
  zmq_msg_t last;
  zmq_msg_init(&last);
  int error = send_frame(socket, &last, false, 0);
  zmq_msg_close(&last);
  return error;
}

/* The values of *cut beside 0: the last request of a REQ socket was cut. */
enum {
  CUT_OPEN = 1, /* libzmq waits for its last frame */
  CUT_ENDED     /* libzmq waits for an answer, which cannot come; ZMQ_REQ_RELAXED is set, so that another request can be sent */
};

static void set_relaxed(void *socket, int relaxed) { zmq_setsockopt(socket, ZMQ_REQ_RELAXED, &relaxed, sizeof relaxed); }

/* Ends a request that was cut. Returns 0 or an errno. The frame goes nowhere, or as a message without an envelope, which REP ignores, to
 * another peer. */
static int end_request(void *socket, int *cut) {
  int error = zeromq_send_empty(socket);
  if (error != 0) return error;
  set_relaxed(socket, 1);
  *cut = CUT_ENDED;
  return 0;
}

/* A frame that is to be sent, and its loan, if its memory is not copied. */
typedef struct {
  zmq_msg_t message;
  loan *lent;
} outgoing;

/* Makes the message of a frame, which lends the memory of its owner or copies the bytes from `small`. Returns 0 or ENOMEM. */
static int make_message(outgoing *out, const zeromq_frame *frame, const char *small) {
  out->lent = NULL;
  if (frame->owner == 0) {
    if (zmq_msg_init_size(&out->message, frame->size) != 0) return ENOMEM;
    if (frame->size > 0) memcpy(zmq_msg_data(&out->message), small + frame->at, frame->size);
    return 0;
  }
  out->lent = malloc(sizeof *out->lent);
  if (out->lent == NULL) return ENOMEM;
  out->lent->managed = (DLManagedTensorVersioned *)frame->owner;
  if (zmq_msg_init_data(&out->message, (void *)(uintptr_t)frame->at, frame->size, release, out->lent) == 0) return 0;
  free(out->lent);
  return ENOMEM;
}

/* Makes the message of a frame, for the peer that the frame names. Returns 0 or ENOMEM. */
static int make(outgoing *out, const zeromq_frame *frame, const char *small) {
  int error = make_message(out, frame, small);
  if (error == 0 && frame->peer != 0) zmq_msg_set_routing_id(&out->message, frame->peer);
  return error;
}

/* Closes the messages of a block that make_all has returned, from `first` on. They were not sent; their owners stay the caller's. */
static void unmake(outgoing *out, size_t first, size_t count) {
  for (size_t i = first; i < count; i++) {
    if (out[i].lent != NULL) out[i].lent->managed = NULL;
    zmq_msg_close(&out[i].message);
  }
  free(out);
}

/* Makes all frames, before the first is sent, because a message cannot be taken back. Returns NULL if there is no memory. */
static outgoing *make_all(const zeromq_frame *frames, size_t count, const char *small) {
  outgoing *out = malloc(count * sizeof *out);
  for (size_t i = 0; out != NULL && i < count; i++) {
    if (make(&out[i], &frames[i], small) != 0) {
      unmake(out, 0, i);
      return NULL;
    }
  }
  return out;
}

int zeromq_send(void *socket, const zeromq_frame *frames, size_t count, const char *small, zeromq_progress *p, int *cut, bool look) {
  outgoing *out = p->made != 0 ? (outgoing *)p->made : make_all(frames, count, small);
  int error = 0;
  p->taken = 0;
  p->made = 0;
  if (out == NULL) return ENOMEM;
  if (cut != NULL && *cut == CUT_OPEN) error = end_request(socket, cut);
  while (p->taken < count && error == 0) {
    int more = p->taken + 1 < count;
    error = send_frame(socket, &out[p->taken].message, look && p->taken == 0, more);
    if (error == EAGAIN && p->taken > 0) {
      if (cut != NULL) {
        *cut = CUT_OPEN;
        end_request(socket, cut);
      } else if (more) {
        zeromq_send_empty(socket); /* which ends the message whose remaining frames libzmq drops */
      }
    }
    p->taken += error == 0;
  }
  if (error == EAGAIN && p->taken == 0) {
    p->made = (uintptr_t)out;
    return error;
  }
  if (error == 0 && cut != NULL && *cut == CUT_ENDED) {
    set_relaxed(socket, 0);
    *cut = 0;
  }
  unmake(out, p->taken, count);
  return error;
}

void zeromq_unmake(uintptr_t made, size_t count) { unmake((outgoing *)made, 0, count); }

/* Makes room for `needed` elements of `size` bytes; *room is how many fit. Returns 0 and changes nothing if there is no memory. */
static int grow(void **memory, size_t *room, size_t needed, size_t size) {
  if (needed <= *room) return 1;
  size_t wanted = *room * 2 > needed ? *room * 2 : needed + 16;
  void *larger = wanted > SIZE_MAX / size ? NULL : realloc(*memory, wanted * size);
  if (larger == NULL) return 0;
  *memory = larger;
  *room = wanted;
  return 1;
}

/* Adds a received frame to the inbox: a copy if it has fewer than `threshold` bytes, otherwise the message itself. Returns 0 or
 * ENOMEM. */
static int keep(zeromq_inbox *inbox, zmq_msg_t *message, size_t threshold) {
  size_t size = zmq_msg_size(message);
  if (!grow((void **)&inbox->frames, &inbox->room, inbox->count + 1, sizeof *inbox->frames)) return ENOMEM;
  zeromq_frame *frame = &inbox->frames[inbox->count];
  frame->size = size;
  frame->peer = zeromq_drafts() ? zmq_msg_routing_id(message) : 0;
  if (size < threshold) {
    if (!grow((void **)&inbox->small, &inbox->space, inbox->used + size, 1)) return ENOMEM;
    if (size > 0) memcpy(inbox->small + inbox->used, zmq_msg_data(message), size);
    frame->at = inbox->used;
    frame->owner = 0;
    inbox->used += size;
  } else {
    zmq_msg_t *owner = malloc(sizeof *owner);
    if (owner == NULL) return ENOMEM;
    zmq_msg_init(owner);
    zmq_msg_move(owner, message);
    inbox->shared |= zmq_msg_get(owner, ZMQ_SHARED) == 1;
    frame->at = (uintptr_t)zmq_msg_data(owner);
    frame->owner = (uintptr_t)owner;
  }
  inbox->count++;
  return 0;
}

int zeromq_draft_fd(void *socket, void **poller, int *fd) {
  if (*poller == NULL) {
    if ((*poller = zmq_poller_new()) == NULL) return errno;
    if (zmq_poller_add(*poller, socket, NULL, ZMQ_POLLIN | ZMQ_POLLOUT) != 0) {
      int error = errno;
      zmq_poller_destroy(poller);
      return error;
    }
  }
  return zmq_poller_fd(*poller, fd) == 0 ? 0 : errno;
}

void zeromq_clear(zeromq_inbox *inbox) {
  for (size_t i = 0; i < inbox->count; i++) {
    if (inbox->frames[i].owner != 0) zeromq_free((void *)inbox->frames[i].owner);
  }
  inbox->count = inbox->used = 0;
}

int zeromq_receive(void *socket, zeromq_inbox *inbox, size_t threshold, size_t overhead, int64_t limit) {
  int error = 0, more = 1;
  inbox->count = inbox->used = 0;
  inbox->shared = 0;
  for (int tries = 0, first = 1; more;) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
      int failure = errno;
      zmq_msg_close(&message);
      if (failure == EINTR) continue;
      if (failure == EAGAIN && first && tries++ == 0 && ready(socket, ZMQ_POLLIN)) continue;
      zeromq_clear(inbox); /* EAGAIN behind the first frame: the connection has ended here, and the other frames never come */
      return failure;
    }
    first = 0;
    more = zmq_msg_more(&message);
    if (error == 0 && limit >= 0) {
      uint64_t size = (uint64_t)zmq_msg_size(&message) + overhead;
      if (size > (uint64_t)limit) error = ZEROMQ_LIMIT;
      else limit -= (int64_t)size;
    }
    if (error == 0) error = keep(inbox, &message, threshold);
    if (error != 0) zeromq_clear(inbox);
    zmq_msg_close(&message);
  }
  return error;
}

void zeromq_trim(zeromq_inbox *inbox, size_t keep) {
  if (inbox->space > keep) {
    free(inbox->small);
    inbox->small = NULL;
    inbox->space = 0;
  }
  if (inbox->room * sizeof *inbox->frames > keep) {
    free(inbox->frames);
    inbox->frames = NULL;
    inbox->room = 0;
  }
}

void zeromq_free(void *owner) {
  zmq_msg_close(owner);
  free(owner);
}

void *zeromq_free_function(void) { return (void *)zeromq_free; }
