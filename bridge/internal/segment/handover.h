/* Messages that hand tensors in segments over to another process: encoding and decoding. Plain C, for Go, C and Python. */
#ifndef DLBRIDGE_SEGMENT_HANDOVER_H
#define DLBRIDGE_SEGMENT_HANDOVER_H

#include "core.h"
#include "rights.h"
#include "segment.h"

enum {
  SEGMENT_FIRST = 512,      /* the fewest bytes of a message: one read of 512 takes most messages, and nothing of the next one */
  SEGMENT_LARGEST = 1 << 20 /* the most bytes of a message */
};

/* Returns the status for an errno: the one table for Go, C and Python. EROFS stands for a segment that cannot be handed over or mapped in
 * the way that was asked for, and lack of a permission of the system (EPERM, EACCES) is CORE_ERR_SYSTEM. Files that cannot be opened, and
 * sockets that cannot be connected to, are CORE_ERR_SYSTEM whatever their errno. */
CORE_API dlbcore_status dlbsegment_status(int code);

/* Returns the status for an errno, writes a text that begins with `what`, and sets errno to `code`. Other functions of this file and of
 * offer.h set errno too when they return CORE_ERR_SYSTEM, so that their callers can report the cause. */
CORE_API dlbcore_status dlbsegment_fail(int code, const char *what, char *text, size_t text_size);

/* Calls dlbsegment_hand_over. A status that is not CORE_OK comes with a text. */
CORE_API dlbcore_status dlbsegment_decide(int fd, int writable, char *text, size_t text_size);

/* A message to send: its bytes, and the descriptors that go with the first of them (SCM_RIGHTS). */
typedef struct {
  char *data;
  size_t size;
  int files[SEGMENT_FILES], file_count;
  int writable; /* whether the receiver may write to them */
} dlbsegment_outbox;

/* Makes a message of tensors, all of whose elements must lie in segments. With `writable` the receiver may write to them;
 * without, nobody can map these segments writable any more, once that was decided (dlbsegment_send_step). What was decided before for one of
 * them (dlbsegment_hand_over) cannot be changed: that is CORE_ERR_READONLY. *failed is set to the index of the tensor that an error
 * is about, or -1. CORE_NEEDS_COPY: that tensor is not in a segment. A status that is not CORE_OK comes with a text.
 * dlbsegment_outbox_end frees the message and closes its descriptors; after an error there is nothing to free. */
CORE_API dlbcore_status dlbsegment_pack(dlbsegment_outbox *out, const DLManagedTensorVersioned *const *tensors, size_t count, int writable,
                                  int64_t *failed, char *text, size_t text_size);
CORE_API void dlbsegment_outbox_end(dlbsegment_outbox *out);

/* Calls dlbsegment_hand_over for the segments of a message, and returns its errno, with a text; EROFS stands for EPERM and EACCES. After
 * an error it has decided for the segments before the one that the error is about. */
CORE_API int dlbsegment_outbox_decide(const dlbsegment_outbox *box, char *text, size_t text_size);

/* Finds the segment of a tensor that was checked, with this extent as the result. CORE_ERR_LAYOUT: it has no elements. With `writable`
 * it is an error if the receiver of the tensor could not write to it. place->offset is that of element (0, ..., 0). CORE_NEEDS_COPY:
 * the tensor is not in a segment. The caller closes place->file, but not after an error. */
CORE_API dlbcore_status dlbsegment_place_of(dlbsegment_place *place, const DLTensor *tensor, const dlbcore_extent *extent, uint64_t flags,
                                      int writable, char *text, size_t text_size);

/* Reports whether all elements of a tensor are in a segment that others can map without trust in this process: one that no process
 * can make smaller. It is 0 for a tensor without elements, and for a broadcast with more bytes than its segment. The tensor was
 * checked, with this extent as the result. */
CORE_API int dlbsegment_is_shared(const DLTensor *tensor, const dlbcore_extent *extent);

/* A tensor that was received. */
typedef struct {
  DLTensor view; /* data is the address of element (0, ..., 0) */
  uint64_t flags;
  dlbcore_extent extent;
  int64_t mapping; /* index of its mapping in the inbox; -1 for a tensor without elements */
} dlbsegment_tensor;

/* The decoded content of a message. The caller ends each mapping with dlbsegment_release, once none of its tensors is used any
 * more. */
typedef struct {
  dlbsegment_tensor *tensors;
  size_t tensor_count;
  segment **mappings;
  int mapping_count;
  int64_t *dims; /* the memory of all shapes and strides */
} dlbsegment_inbox;

/* Checks the first bytes of a message, of which `have` bytes have arrived so far. Sets *whole to the size of the message in bytes, or to
 * 0 if too few bytes have arrived to know it. CORE_ERR_FORMAT, with a text: these bytes do not begin a message. */
CORE_API dlbcore_status dlbsegment_message_size(size_t *whole, const char *first, size_t have, char *text, size_t text_size);

/* Maps the segments of a message, whose bytes and descriptors another process has sent, and describes the tensors in them.
 * Takes over the descriptors, also after an error. A file that another process can make smaller is copied instead; more than
 * `copy_unsealed` bytes of copies are an error. *failed and the text are set as by dlbsegment_pack. After an error *out is empty. */
CORE_API dlbcore_status dlbsegment_unpack(dlbsegment_inbox *out, const char *data, size_t size, const int *files, size_t file_count,
                                    uint64_t copy_unsealed, int64_t *failed, char *text, size_t text_size);

/* Checks whether a tensor lies within a segment of `size` bytes. The element with all indices 0 is tensor->byte_offset bytes after
 * the beginning of the segment. dlbsegment_open makes the same check later, with the size that the kernel reports. */
CORE_API dlbcore_status dlbsegment_fits(const DLTensor *tensor, uint64_t flags, uint64_t size, char *text, size_t text_size);

/* Does what dlbsegment_unpack does for one tensor with elements, whose description did not come in a message. tensor->byte_offset is
 * its offset in the segment, its strides may be NULL, and its data and device are ignored. `file` is the descriptor, which is
 * taken over. With `trusted`, a file that another process can make smaller is mapped instead of copied. */
CORE_API dlbcore_status dlbsegment_open(dlbsegment_inbox *out, const DLTensor *tensor, uint64_t flags, int file, uint64_t copy_unsealed, int trusted,
                                  char *text, size_t text_size);

/* Makes a read-only tensor on a second mapping of the memory of `tensor`, which must be in a segment or in a file that is mapped
 * with MAP_SHARED. CORE_NEEDS_COPY: it is not. done(ctx) gives up the caller's share of the memory of `tensor`, whose owner may
 * reuse the memory afterwards. done is called when the second mapping has ended, or at once after an error and for a tensor
 * without elements. */
CORE_API dlbcore_status dlbsegment_read_only(dlbsegment_inbox *out, const DLTensor *tensor, uint64_t flags, void (*done)(void *ctx),
                                       void *ctx, char *text, size_t text_size);
/* Frees the descriptions of the tensors, but ends no mapping. */
CORE_API void dlbsegment_inbox_free(dlbsegment_inbox *in);

#endif
