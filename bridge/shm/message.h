/* Tensors in segments as a message between processes: what is sent, and what is made of it. Plain C, for Go, C and Python. */
#ifndef DLBRIDGE_SEGMENT_MESSAGE_H
#define DLBRIDGE_SEGMENT_MESSAGE_H

#include "core.h"
#include "segment.h"

#pragma GCC visibility push(hidden)

enum {
  SEGMENT_FIRST = 512,      /* bytes that a message has at least, so that one read takes most messages and nothing of the next */
  SEGMENT_FILES = 253,      /* descriptors that one message of a Unix socket can carry */
  SEGMENT_LARGEST = 1 << 20 /* bytes of a message */
};

/* A message to send: its bytes, and the descriptors that go with the first of them (SCM_RIGHTS). */
typedef struct {
  char *data;
  size_t size;
  int files[SEGMENT_FILES], file_count;
} segment_outbox;

/* Describes tensors, all of whose elements must lie in segments. Without `writable` it forbids all further writable mappings of these
 * segments. *failed is set to the number of the tensor that an error is about, or -1. CORE_NEEDS_COPY: it is not in a segment. A status
 * that is not CORE_OK comes with a text. * The message is ended by segment_outbox_end. */
core_status segment_pack(segment_outbox *out, const DLTensor *const *tensors, const uint64_t *flags, size_t count, int writable,
                         int64_t *failed, char *text, size_t text_size);
void segment_outbox_end(segment_outbox *out);

/* Finds the segment of a tensor with this extent, which was checked. The caller closes the descriptor. */
core_status segment_place_of(segment_place *place, const DLTensor *tensor, const core_extent *extent, uint64_t flags, int writable, char *text,
                             size_t text_size);

/* A tensor that was received. */
typedef struct {
  DLTensor view; /* data is its address */
  uint64_t flags;
  core_extent extent;
  int64_t mapping; /* the mapping it lies in; -1 without elements */
} segment_tensor;

/* What a message becomes. The tensors of a mapping need it; each mapping is ended by segment_release. */
typedef struct {
  segment_tensor *tensors;
  size_t tensor_count;
  segment *mappings[SEGMENT_FILES];
  int mapping_count;
  int64_t *dims;
} segment_inbox;

/* Returns the size of the message that begins with these SEGMENT_FIRST bytes, or 0 with a text. */
size_t segment_message_size(const char *first, char *text, size_t text_size);

/* Maps the segments of a message, whose bytes and descriptors another process has sent, and describes the tensors in them. Takes over the
 * descriptors, also after an error. Up to `copied` bytes of files that can become smaller are copied; more is an error. */
core_status segment_unpack(segment_inbox *out, const char *data, size_t size, const int *files, size_t file_count, uint64_t copied,
                           int64_t *failed, char *text, size_t text_size);
/* The same for one tensor, which is described by other means: byte_offset is its offset in the segment. strides may be NULL. With `trusted`
 * files that can become smaller are mapped. */
core_status segment_open(segment_inbox *out, const DLTensor *tensor, uint64_t flags, int file, uint64_t copied, int trusted, char *text,
                         size_t text_size);
/* Makes a read-only tensor on a second mapping of the memory of a tensor, which must be in a segment or in a mapped file. CORE_NEEDS_COPY:
 * it is not. done(ctx) gives up the memory of the tensor, whose owner may use it for something else from then on; it is called when the
 * mapping has ended, at once if there is none or after an error. */
core_status segment_read_only(segment_inbox *out, const DLTensor *tensor, uint64_t flags, void (*done)(void *ctx), void *ctx, char *text,
                              size_t text_size);
/* Frees the descriptions, but ends no mapping. */
void segment_inbox_free(segment_inbox *in);

#pragma GCC visibility pop

#endif
