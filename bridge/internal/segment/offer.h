/* Offers: a process offers a segment, and one other process of the same user fetches its descriptor, with a handle that travels by
 * any transport on the machine. Plain C, for Go, C and Python.
 *
 * The process that offers listens on an abstract Unix socket. The other process connects to it and sends the 16 bytes of the
 * token; the answer is a byte 1 with the descriptor (SCM_RIGHTS), a byte with the errno of why the descriptor cannot be sent now, or the
 * end of the connection. */
#ifndef DLBRIDGE_SEGMENT_OFFER_H
#define DLBRIDGE_SEGMENT_OFFER_H

#include "core.h"
#include "segment.h"

#include <stddef.h>
#include <stdint.h>

/* What another process needs to fetch a segment and to find memory in it. The first two are strings. */
typedef struct {
  char socket[46]; /* the name of the abstract socket, "dlbridge-shm-" and 32 hexadecimal digits */
  char token[33];  /* 32 hexadecimal digits */
  uint64_t offset; /* of the memory in the segment, in bytes */
  uint64_t size;   /* of the segment, in bytes */
  int read_only;   /* whether processes can map the segment only without write permission */
} dlbsegment_handle;

/* Sets the two strings of a handle to what another process has sent. Returns NULL, or what is wrong with them. */
CORE_API const char *dlbsegment_handle_set(dlbsegment_handle *out, const char *socket, size_t socket_size, const char *token, size_t token_size);

/* All functions that return an int return 0 or an errno. */

/* Offers the segment in which a place lies (dlbsegment_place_of), for this number of milliseconds. As its last step it decides whether
 * processes may write to the segment (dlbsegment_hand_over). A thread, which is started if there is none, answers until nothing is offered
 * any more. Takes over place->file, and closes it: after an error at once, otherwise when the segment was fetched, when the time is
 * over, or in dlbsegment_offers_end. A status that is not CORE_OK comes with a text. */
CORE_API dlbcore_status dlbsegment_offer(dlbsegment_handle *out, const dlbsegment_place *place, int writable, int64_t milliseconds, char *text,
                                   size_t text_size);

/* Does what dlbsegment_offer does with a descriptor, which it takes over, also after an error, and sets the two strings of the handle. */
CORE_API dlbcore_status dlbsegment_offer_file(dlbsegment_handle *out, int fd, int writable, int64_t milliseconds, char *text, size_t text_size);

/* Returns the number of offers that this process has made so far. */
CORE_API uint64_t dlbsegment_offers_made(void);

/* Returns how many of the first `made` offers of this process were not fetched, and have time left. UINT64_MAX stands for all. */
CORE_API size_t dlbsegment_offer_count(uint64_t made);

/* Withdraws all offers of this process, also those that other threads make meanwhile, and ends its thread. */
CORE_API void dlbsegment_offers_end(void);

/* Begins to fetch: connects to the process that has made the handle, and sends the token. The caller ends *conn, which does not
 * block, by dlbsegment_discard_socket. ENOENT: that process offers nothing any more; EACCES: it is of another user; EAGAIN: too many wait there, try again later. */
CORE_API int dlbsegment_fetch_begin(int *conn, const dlbsegment_handle *handle);

/* Receives the descriptor, which is the caller's. EAGAIN: there is no answer yet; call it again when `conn` can be read. ENOENT: it
 * was fetched before, or its time is over. EMFILE: it came, and this process can have no further descriptor. ETOOMANYREFS, ENOMEM,
 * ENOBUFS: the other process could not send it, and still offers it. */
CORE_API int dlbsegment_fetch_step(int conn, int *fd);

/* Returns what an errno of the two functions says of a handle, or NULL if it says no more than the system. */
CORE_API const char *dlbsegment_fetch_text(int code);

#endif
