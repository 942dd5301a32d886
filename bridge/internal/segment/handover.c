//go:build !dlbridge_shared

/* handover.c: messages that hand tensors in segments over to another process. All numbers are in the byte order of the machine, since
 * both processes run on it. A message has a header:
 *
 *   8 bytes   "dlb-shm" and a byte with the version, 1
 *   4         number of bytes that follow the header
 *   4         number of tensors
 *   4         number of segments, whose descriptors come with the first byte, in order
 *
 * then for each tensor
 *
 *   4         index of its segment; 2^32-1 for a tensor without elements
 *   4         data type, as in DLDataType
 *   4         flags: SENT_READ_ONLY, SENT_PADDED
 *   4         rank
 *   8         offset of element (0, ..., 0) in the segment, in bytes
 *   8 x rank  shape
 *   8 x rank  strides, in elements
 *
 * and zeros up to byte SEGMENT_FIRST, if the message would be shorter. */
#ifdef __linux__
#include "discard.h"
#include "handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 20, RECORD = 24, SENT_READ_ONLY = 1, SENT_PADDED = 2, VERSION = 1 };

static const char magic[7] = {'d', 'l', 'b', '-', 's', 'h', 'm'};
static const uint32_t no_segment = UINT32_MAX;

#define FAILURE(status, ...) dlbcore_fail(status, text, text_size, __VA_ARGS__)

dlbcore_status dlbsegment_status(int code) {
  switch (code) {
  case 0: return CORE_OK;
  case ENOMEM:
  case EOVERFLOW: return CORE_ERR_MEMORY;
  case EROFS: return CORE_ERR_READONLY;
  case EINVAL: /* a file that cannot have seals */
  case ENODEV: /* a file that cannot be mapped */
  case EPROTOTYPE: return CORE_ERR_ARGUMENT;
  case EPROTO: return CORE_ERR_FORMAT;
  case EPIPE:
  case ECONNRESET: return CORE_ERR_CLOSED;
  default: return CORE_ERR_SYSTEM;
  }
}

dlbcore_status dlbsegment_fail(int code, const char *what, char *text, size_t text_size) {
  dlbcore_status status = FAILURE(dlbsegment_status(code), "%s: %s", what,
                            code == EOVERFLOW ? "the segments of other processes would take more than a quarter of the address space of this "
                                                "process (RLIMIT_AS, or 47 bits); release some, or receive less at once"
                                              : strerror(code));
  errno = code;
  return status;
}

/* Returns the status for an errno of dlbsegment_hand_over or dlbsegment_may_hand_over. */
static dlbcore_status decided(int code, int writable, char *text, size_t text_size) {
  if (code == 0) return CORE_OK;
  if (code == EACCES)
    return FAILURE(CORE_ERR_READONLY, "its memory is a file that other processes can write to, so it cannot be made read-only; send it "
                                   "writable, or send a copy");
  if (code != EPERM) return dlbsegment_fail(code, "a segment cannot be made read-only", text, text_size);
  if (writable)
    return FAILURE(CORE_ERR_READONLY, "its segment was handed over read-only before, so no process can map it writable any more; send it "
                                   "read-only, or send a copy");
  return FAILURE(CORE_ERR_READONLY, "its segment was handed over writable before, and can no longer be made read-only; send it writable, or send a copy");
}

dlbcore_status dlbsegment_decide(int fd, int writable, char *text, size_t text_size) {
  return decided(dlbsegment_hand_over(fd, writable), writable, text, text_size);
}

int dlbsegment_outbox_decide(const dlbsegment_outbox *box, char *text, size_t text_size) {
  int code = 0;
  for (int i = 0; i < box->file_count && code == 0; i++) code = dlbsegment_hand_over(box->files[i], box->writable);
  return decided(code, box->writable, text, text_size) == CORE_ERR_READONLY ? EROFS : code;
}

/* ---- sending ----------------------------------------------------------------------------------- */

static char *put(char *at, const void *from, size_t size) {
  memcpy(at, from, size);
  return at + size;
}

static char *put32(char *at, uint32_t n) { return put(at, &n, sizeof n); }

/* Which file a descriptor refers to. */
typedef struct {
  dev_t device;
  ino_t inode;
} identity;

/* Returns the index in the message of the segment with the descriptor `file`, and adds the segment if it is new. Returns -1 if
 * the message has no room for it. known[i] is the identity of segment i. Takes over `file`, also if it returns -1. */
static int number_of(dlbsegment_outbox *out, identity *known, int file) {
  struct stat status;
  if (fstat(file, &status) != 0) status = (struct stat){0}; /* which is equal to no file */
  for (int i = 0; i < out->file_count; i++) {
    if (known[i].device == status.st_dev && known[i].inode == status.st_ino && status.st_ino != 0) {
      close(file);
      return i;
    }
  }
  if (out->file_count == SEGMENT_FILES) {
    close(file);
    return -1;
  }
  known[out->file_count] = (identity){status.st_dev, status.st_ino};
  out->files[out->file_count] = file;
  return out->file_count++;
}

static uintptr_t first_of(const DLTensor *t, const dlbcore_extent *extent) {
  return (uintptr_t)t->data + t->byte_offset + (uintptr_t)extent->low;
}

int dlbsegment_is_shared(const DLTensor *t, const dlbcore_extent *extent) {
  size_t whole;
  return t->device.device_type == kDLCPU && extent->nbytes > 0 &&
         dlbsegment_is_fixed(first_of(t, extent), (size_t)(extent->high - extent->low), &whole) && (uint64_t)extent->nbytes <= whole;
}

dlbcore_status dlbsegment_place_of(dlbsegment_place *place, const DLTensor *t, const dlbcore_extent *extent, uint64_t flags, int writable, char *text,
                             size_t text_size) {
  if (t->device.device_type != kDLCPU)
    return FAILURE(CORE_ERR_DEVICE, "the memory is on device type %d, which processes cannot share", (int)t->device.device_type);
  if (extent->count == 0) return FAILURE(CORE_ERR_LAYOUT, "it has no elements, so there is nothing to fetch; pass on its shape instead");
  int code = dlbsegment_find(first_of(t, extent), (size_t)(extent->high - extent->low), place);
  if (code == ENOENT) return FAILURE(CORE_NEEDS_COPY, "the memory is not in a segment");
  if (code != 0) return dlbsegment_fail(code, "dup", text, text_size);
  place->offset -= (uint64_t)extent->low;
  dlbcore_status status;
  if (writable && (place->read_only || (flags & DLPACK_FLAG_BITMASK_READ_ONLY)))
    status = FAILURE(CORE_ERR_READONLY, "it is read-only, so it cannot be sent as writable");
  else
    status = decided(dlbsegment_may_hand_over(place->file, writable), writable, text, text_size);
  if (status == CORE_OK && extent->nbytes > (int64_t)place->size)
    status = FAILURE(CORE_ERR_LAYOUT, "it is a broadcast of %" PRId64 " bytes; send the tensor that it was made of", extent->nbytes);
  if (status != CORE_OK) close(place->file);
  return status;
}

dlbcore_status dlbsegment_pack(dlbsegment_outbox *out, const DLManagedTensorVersioned *const *tensors, size_t count, int writable, int64_t *failed,
                         char *text, size_t text_size) {
  size_t size = HEADER;
  out->data = NULL;
  out->file_count = 0;
  out->writable = writable;
  for (size_t i = 0; i < count && size <= SEGMENT_LARGEST; i++) {
    dlbcore_extent extent;
    *failed = (int64_t)i;
    dlbcore_status status = dlbcore_check_tensor(&tensors[i]->dl_tensor, tensors[i]->flags, &extent, text, text_size);
    if (status != CORE_OK) return status;
    size += RECORD + 16 * (size_t)tensors[i]->dl_tensor.ndim;
  }
  *failed = -1;
  if (size > SEGMENT_LARGEST)
    return FAILURE(CORE_ERR_OVERFLOW, "the descriptions of %zu tensors take more than %d bytes; send fewer at once", count, SEGMENT_LARGEST);
  out->size = size < SEGMENT_FIRST ? SEGMENT_FIRST : size;
  out->data = calloc(1, out->size);
  identity *known = malloc((count < SEGMENT_FILES ? count + 1 : SEGMENT_FILES) * sizeof *known);
  if (out->data == NULL || known == NULL) {
    free(known);
    dlbsegment_outbox_end(out);
    return FAILURE(CORE_ERR_MEMORY, "no memory for %zu bytes", out->size);
  }
  char *at = out->data + HEADER;
  dlbcore_status status = CORE_OK;
  for (size_t i = 0; i < count && status == CORE_OK; i++) {
    const DLTensor *t = &tensors[i]->dl_tensor;
    const uint64_t flags = tensors[i]->flags;
    dlbcore_extent extent;
    dlbsegment_place place = {.file = -1};
    uint32_t number = no_segment;
    *failed = (int64_t)i;
    status = dlbcore_check_tensor(t, flags, &extent, text, text_size);
    if (status == CORE_OK && extent.count > 0) {
      status = dlbsegment_place_of(&place, t, &extent, flags, writable, text, text_size);
      if (status != CORE_OK) break;
      int found = number_of(out, known, place.file);
      if (found < 0) {
        status = FAILURE(CORE_ERR_OVERFLOW, "the tensors lie in more than %d segments, the maximum of one message; send fewer at once",
                      SEGMENT_FILES);
        break;
      }
      number = (uint32_t)found;
    }
    int64_t row_major[CORE_RANK_MAX];
    const int64_t *strides = t->strides;
    if (strides == NULL && status == CORE_OK) {
      dlbcore_set_row_major(row_major, t->shape, t->ndim);
      strides = row_major;
    }
    if (status != CORE_OK) break;
    at = put32(at, number);
    at = put(at, &t->dtype, 4);
    at = put32(at, (writable ? 0 : SENT_READ_ONLY) | (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED ? SENT_PADDED : 0));
    at = put32(at, (uint32_t)t->ndim);
    at = put(at, &place.offset, 8);
    at = put(at, t->shape, 8 * (size_t)t->ndim);
    at = put(at, strides, 8 * (size_t)t->ndim);
  }
  free(known);
  if (status != CORE_OK) {
    dlbsegment_outbox_end(out);
    return status;
  }
  *failed = -1;
  at = put(out->data, magic, sizeof magic);
  *at++ = VERSION;
  at = put32(at, (uint32_t)(out->size - HEADER));
  at = put32(at, (uint32_t)count);
  put32(at, (uint32_t)out->file_count);
  return CORE_OK;
}

void dlbsegment_outbox_end(dlbsegment_outbox *out) {
  const int before = errno; /* of dlbsegment_fail */
  for (int i = 0; i < out->file_count; i++) close(out->files[i]);
  free(out->data);
  out->data = NULL;
  out->file_count = 0;
  errno = before;
}

/* ---- receiving --------------------------------------------------------------------------------- */

static uint32_t get32(const char *at) {
  uint32_t n;
  memcpy(&n, at, sizeof n);
  return n;
}

dlbcore_status dlbsegment_message_size(size_t *whole, const char *first, size_t have, char *text, size_t text_size) {
  *whole = 0;
  if (memcmp(first, magic, have < sizeof magic ? have : sizeof magic) != 0)
    return FAILURE(CORE_ERR_FORMAT, "header: this is not a message of tensors in shared memory");
  if (have > sizeof magic && first[sizeof magic] != VERSION)
    return FAILURE(CORE_ERR_FORMAT, "header: the message has version %d, but this library reads version %d; use the same version of dlbridge on both sides",
                (unsigned char)first[sizeof magic], VERSION);
  if (have < HEADER) return CORE_OK;
  uint32_t size = get32(first + 8), tensors = get32(first + 12), segments = get32(first + 16);
  if (size < SEGMENT_FIRST - HEADER || size > SEGMENT_LARGEST - HEADER || tensors > size / RECORD || segments > SEGMENT_FILES || segments > tensors)
    return FAILURE(CORE_ERR_FORMAT, "header: a message of %" PRIu32 " bytes cannot describe %" PRIu32 " tensors in %" PRIu32 " segments", size, tensors,
                segments);
  *whole = HEADER + size;
  return CORE_OK;
}

/* What is known of a segment before it is mapped. */
typedef struct {
  uint64_t size, low, high; /* size of the file in bytes; the first byte that its tensors need; the end of the last such byte */
  /* The first two as dlbsegment_check sets them; `used`: a tensor lies in it; `read_only`: all its tensors are read-only. */
  int fixed, writable, used, read_only;
} need;

/* Checks a tensor against its segment *n, sets the tensor's extent and flags, and adds its bytes to those that the segment must
 * provide. n is NULL if the message names no segment. `flags` are SENT_READ_ONLY and SENT_PADDED, as in the message. */
static dlbcore_status check_place(dlbsegment_tensor *t, uint32_t flags, need *n, char *text, size_t text_size) {
  t->flags = (flags & SENT_READ_ONLY ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) | (flags & SENT_PADDED ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
  dlbcore_status status = dlbcore_check_layout(&t->view, t->flags, &t->extent, text, text_size);
  if (status != CORE_OK) return status;
  const dlbcore_extent *e = &t->extent;
  if (n == NULL && e->count > 0) return FAILURE(CORE_ERR_LAYOUT, "it has %" PRId64 " elements, but is not in a segment", e->count);
  if (n == NULL) return CORE_OK;
  if (e->count == 0) return FAILURE(CORE_ERR_LAYOUT, "it has no elements, but is in a segment");
  uint64_t offset = t->view.byte_offset, before = (uint64_t)-e->low;
  if (offset > n->size || before > offset || (uint64_t)e->high > n->size - offset)
    return FAILURE(CORE_ERR_OVERFLOW, "its elements reach from byte %" PRId64 " to %" PRIu64 ", but the segment has %" PRIu64 " bytes",
                (int64_t)(offset - before), offset + (uint64_t)e->high, n->size);
  if ((uint64_t)e->nbytes > n->size)
    return FAILURE(CORE_ERR_LAYOUT, "it is a broadcast: its elements have %" PRId64 " bytes, but the segment has %" PRIu64, e->nbytes, n->size);
  if (!n->used || offset - before < n->low) n->low = offset - before;
  if (!n->used || offset + (uint64_t)e->high > n->high) n->high = offset + (uint64_t)e->high;
  n->read_only = (!n->used || n->read_only) && (flags & SENT_READ_ONLY);
  n->used = 1;
  return CORE_OK;
}

/* Reads the description of one tensor at `at`, where `left` bytes of the message are left, and checks it against its segment.
 * Shape and strides go to dims. *taken is the number of bytes that the description takes. */
static dlbcore_status read_tensor(dlbsegment_tensor *t, int64_t *dims, size_t *taken, const char *at, size_t left, need *needs, uint32_t segments,
                               char *text, size_t text_size) {
  if (left < RECORD) return FAILURE(CORE_ERR_ARGUMENT, "its description is truncated");
  uint32_t number = get32(at), flags = get32(at + 8), rank = get32(at + 12);
  if (number != no_segment && number >= segments)
    return FAILURE(CORE_ERR_ARGUMENT, "it names segment %" PRIu32 ", but the message has %" PRIu32, number, segments);
  if (flags & ~(uint32_t)(SENT_READ_ONLY | SENT_PADDED)) return FAILURE(CORE_ERR_ARGUMENT, "flags %#" PRIx32 " are not known", flags);
  if (rank > CORE_RANK_MAX) return FAILURE(CORE_ERR_LAYOUT, "%" PRIu32 " dimensions, but at most %d are allowed", rank, CORE_RANK_MAX);
  if ((left - RECORD) / 16 < rank) return FAILURE(CORE_ERR_ARGUMENT, "its description is truncated");
  memcpy(dims, at + RECORD, 16 * (size_t)rank);
  *taken = RECORD + 16 * (size_t)rank;
  t->view = (DLTensor){.device = {kDLCPU, 0}, .ndim = (int32_t)rank, .shape = dims, .strides = dims + rank};
  memcpy(&t->view.dtype, at + 4, sizeof t->view.dtype);
  memcpy(&t->view.byte_offset, at + 16, sizeof t->view.byte_offset);
  t->mapping = number == no_segment ? -1 : (int64_t)number;
  return check_place(t, flags, t->mapping < 0 ? NULL : &needs[number], text, text_size);
}

/* Returns the error for bytes that must be neither mapped nor copied. */
static dlbcore_status check_need(const need *n, const char *what, uint64_t size, uint64_t copy_unsealed, char *text, size_t text_size) {
  if (!n->used) return FAILURE(CORE_ERR_ARGUMENT, "%s: no tensor lies in it", what);
  if (n->fixed && !n->read_only && !n->writable)
    return FAILURE(CORE_ERR_READONLY, "%s: a tensor is described as writable, but the segment is read-only", what);
  if (n->fixed || size <= copy_unsealed) return CORE_OK;
  return FAILURE(CORE_ERR_ARGUMENT,
              "%s: another process can make it smaller at any time, so its %" PRIu64
              " bytes must be copied; copy_unsealed must allow as many bytes, but is %" PRIu64,
              what, size, copy_unsealed);
}

/* Maps those bytes of segment `number` of a message that its tensors need; the number is -1 for the only file. If the file can become
 * smaller, copies them instead; *copy_unsealed is the number of bytes that may still be copied. Takes over the descriptor, also after an
 * error. */
static dlbcore_status map_one(segment **out, int file, const need *n, int number, uint64_t *copy_unsealed, char *text, size_t text_size) {
  char what[64] = "its file";
  if (number >= 0) snprintf(what, sizeof what, "segment %d", number);
  const uint64_t start = n->low - n->low % (uint64_t)sysconf(_SC_PAGESIZE), size = n->high - start;
  const dlbcore_status status = check_need(n, what, size, *copy_unsealed, text, text_size);
  if (status != CORE_OK) {
    dlbsegment_discard(file);
    return status;
  }
  int code;
  if (n->fixed) {
    code = dlbsegment_map(out, file, start, size, n->read_only);
  } else {
    *copy_unsealed -= size;
    code = dlbsegment_copy(out, file, start, size);
    if (code == EINVAL) return FAILURE(CORE_ERR_ARGUMENT, "%s: it became smaller while it was copied", what);
  }
  return code == 0 ? CORE_OK : dlbsegment_fail(code, what, text, text_size);
}

/* Makes room in an empty inbox for tensors, their mappings, and so many bytes of shapes and strides. After an error it is empty. */
static dlbcore_status inbox_room(dlbsegment_inbox *out, size_t tensors, size_t mappings, size_t dims) {
  out->tensors = calloc(tensors + 1, sizeof *out->tensors);
  out->mappings = calloc(mappings + 1, sizeof *out->mappings);
  out->dims = malloc(dims + 1);
  if (out->tensors != NULL && out->mappings != NULL && out->dims != NULL) return CORE_OK;
  dlbsegment_inbox_free(out);
  return CORE_ERR_MEMORY;
}

/* Maps all segments and sets the addresses of the tensors. Takes over all descriptors. If `status` is an error already, or a
 * mapping fails, it frees everything, closes all descriptors and returns the error. */
static dlbcore_status map_all(dlbsegment_inbox *out, const need *needs, const int *files, size_t count, uint64_t copy_unsealed, dlbcore_status status,
                           char *text, size_t text_size) {
  int given = 0;
  for (size_t i = 0; i < count; i++) {
    if (status != CORE_OK) dlbsegment_discard(files[i]);
    else status = map_one(&out->mappings[i], files[i], &needs[i], count == 1 ? -1 : (int)i, &copy_unsealed, text, text_size);
    if (status == CORE_OK) given++;
  }
  out->mapping_count = given;
  if (status != CORE_OK) {
    const int before = errno; /* of dlbsegment_fail */
    for (int i = 0; i < given; i++) dlbsegment_release(out->mappings[i]);
    dlbsegment_inbox_free(out);
    errno = before;
    return status;
  }
  for (size_t i = 0; i < out->tensor_count; i++) {
    dlbsegment_tensor *t = &out->tensors[i];
    if (t->mapping < 0) continue;
    const segment *s = out->mappings[t->mapping];
    t->view.data = s->base + (t->view.byte_offset - s->start);
    t->view.byte_offset = 0;
    if (!needs[t->mapping].fixed) t->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  }
  return CORE_OK;
}

dlbcore_status dlbsegment_unpack(dlbsegment_inbox *out, const char *data, size_t size, const int *files, size_t file_count, uint64_t copy_unsealed,
                           int64_t *failed, char *text, size_t text_size) {
  need *needs = NULL;
  uint32_t tensors = 0, segments = 0;
  *out = (dlbsegment_inbox){0};
  *failed = -1;
  size_t claimed = SEGMENT_FIRST;
  dlbcore_status status = size < SEGMENT_FIRST ? CORE_OK : dlbsegment_message_size(&claimed, data, size, text, text_size);
  if (status == CORE_OK && claimed != size) {
    status = FAILURE(CORE_ERR_ARGUMENT, "header: the message has %zu bytes, but should have %zu", size, claimed);
  } else if (status == CORE_OK) {
    tensors = get32(data + 12);
    segments = get32(data + 16);
    if (file_count != segments)
      status = FAILURE(CORE_ERR_ARGUMENT, "header: %zu file descriptors came with the message, but it has %" PRIu32 " segments", file_count, segments);
  }
  if (status == CORE_OK) {
    needs = calloc((size_t)segments + 1, sizeof *needs);
    if (needs == NULL || inbox_room(out, tensors, segments, size) != CORE_OK)
      status = FAILURE(CORE_ERR_MEMORY, "no memory for %" PRIu32 " tensors", tensors);
  }
  for (uint32_t i = 0; i < segments && status == CORE_OK; i++) {
    if (dlbsegment_check(files[i], &needs[i].size, &needs[i].fixed, &needs[i].writable) != 0)
      status = FAILURE(CORE_ERR_ARGUMENT, "segment %" PRIu32 ": the descriptor does not refer to a regular file", i);
  }
  const char *at = data + HEADER;
  int64_t *dims = out->dims;
  for (uint32_t i = 0; i < tensors && status == CORE_OK; i++) {
    size_t taken = 0;
    *failed = (int64_t)i;
    status = read_tensor(&out->tensors[i], dims, &taken, at, size - (size_t)(at - data), needs, segments, text, text_size);
    if (status == CORE_OK) {
      at += taken;
      dims += 2 * out->tensors[i].view.ndim;
      out->tensor_count++;
      *failed = -1;
    }
  }
  if (status == CORE_OK && size > SEGMENT_FIRST && size > (size_t)(at - data))
    status = FAILURE(CORE_ERR_ARGUMENT, "%zu bytes follow the description of the last tensor", size - (size_t)(at - data));
  status = map_all(out, needs, files, file_count, copy_unsealed, status, text, text_size);
  free(needs);
  return status;
}

/* Fills an empty inbox with one tensor, whose description it copies. After an error the inbox is empty. */
static dlbcore_status describe(dlbsegment_inbox *out, const DLTensor *tensor, char *text, size_t text_size) {
  if (tensor->ndim < 0 || tensor->ndim > CORE_RANK_MAX)
    return FAILURE(CORE_ERR_LAYOUT, "ndim is %d, but must be in 0..%d", (int)tensor->ndim, CORE_RANK_MAX);
  if (tensor->ndim > 0 && tensor->shape == NULL) return FAILURE(CORE_ERR_NULL, "shape is NULL, but ndim is %d", (int)tensor->ndim);
  size_t size = (size_t)tensor->ndim * sizeof(int64_t);
  if (inbox_room(out, 1, 1, 2 * size) != CORE_OK) return FAILURE(CORE_ERR_MEMORY, "no memory for a tensor");
  DLTensor *view = &out->tensors->view;
  *view = *tensor;
  view->device = (DLDevice){kDLCPU, 0};
  view->shape = out->dims;
  view->strides = out->dims + tensor->ndim;
  if (size > 0) memcpy(view->shape, tensor->shape, size);
  if (size > 0 && tensor->strides != NULL) memcpy(view->strides, tensor->strides, size);
  else dlbcore_set_row_major(view->strides, view->shape, tensor->ndim);
  out->tensor_count = 1;
  return CORE_OK;
}

/* Returns the flags that a message has for a tensor with these flags of DLPack. */
static uint32_t message_flags(uint64_t flags) {
  return (flags & DLPACK_FLAG_BITMASK_READ_ONLY ? SENT_READ_ONLY : 0) | (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED ? SENT_PADDED : 0);
}

dlbcore_status dlbsegment_fits(const DLTensor *tensor, uint64_t flags, uint64_t size, char *text, size_t text_size) {
  dlbsegment_tensor t = {.view = *tensor};
  need n = {.size = size};
  return check_place(&t, message_flags(flags), &n, text, text_size);
}

dlbcore_status dlbsegment_open(dlbsegment_inbox *out, const DLTensor *tensor, uint64_t flags, int file, uint64_t copy_unsealed, int trusted, char *text,
                         size_t text_size) {
  need n = {0};
  dlbcore_status status = CORE_OK;
  *out = (dlbsegment_inbox){0};
  if (dlbsegment_check(file, &n.size, &n.fixed, &n.writable) != 0) {
    status = FAILURE(CORE_ERR_ARGUMENT, "it is not a regular file");
  } else {
    status = describe(out, tensor, text, text_size);
  }
  if (status == CORE_OK) {
    if (!n.fixed && trusted) n.writable = (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR;
    n.fixed |= trusted;
    status = check_place(out->tensors, message_flags(flags), &n, text, text_size);
  }
  return map_all(out, &n, &file, 1, copy_unsealed, status, text, text_size);
}

/* dlbsegment_read_only without `done`. */
static dlbcore_status map_again(dlbsegment_inbox *out, const DLTensor *tensor, uint64_t flags, char *text, size_t text_size) {
  dlbcore_extent extent;
  *out = (dlbsegment_inbox){0};
  dlbcore_status status = dlbcore_check_tensor(tensor, flags, &extent, text, text_size);
  if (status != CORE_OK) return status;
  if (tensor->device.device_type != kDLCPU)
    return FAILURE(CORE_ERR_DEVICE, "the memory is on device type %d, which cannot be mapped again", (int)tensor->device.device_type);
  status = describe(out, tensor, text, text_size);
  if (status != CORE_OK) return status;
  dlbsegment_tensor *t = out->tensors;
  t->flags = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) | DLPACK_FLAG_BITMASK_READ_ONLY;
  t->extent = extent;
  t->mapping = extent.count == 0 ? -1 : 0;
  if (extent.count == 0) return CORE_OK;
  uintptr_t at = (uintptr_t)tensor->data + tensor->byte_offset;
  int code = dlbsegment_alias(&out->mappings[0], at + (uintptr_t)extent.low, (size_t)(extent.high - extent.low));
  if (code == 0) {
    uintptr_t first = (at + (uintptr_t)extent.low) % (uintptr_t)sysconf(_SC_PAGESIZE);
    out->mapping_count = 1;
    t->view.data = out->mappings[0]->base + first - extent.low;
    t->view.byte_offset = 0;
    return CORE_OK;
  }
  dlbsegment_inbox_free(out);
  if (code == EINVAL) return FAILURE(CORE_NEEDS_COPY, "the memory is not in one shared mapping");
  return dlbsegment_fail(code, "the memory cannot be mapped again", text, text_size);
}

dlbcore_status dlbsegment_read_only(dlbsegment_inbox *out, const DLTensor *tensor, uint64_t flags, void (*done)(void *ctx), void *ctx, char *text,
                              size_t text_size) {
  dlbcore_status status = map_again(out, tensor, flags, text, text_size);
  if (status != CORE_OK || out->mapping_count == 0) {
    const int before = errno; /* of dlbsegment_fail */
    done(ctx);
    errno = before;
    return status;
  }
  out->mappings[0]->done = done;
  out->mappings[0]->ctx = ctx;
  return CORE_OK;
}

void dlbsegment_inbox_free(dlbsegment_inbox *in) {
  free(in->tensors);
  free(in->mappings);
  free(in->dims);
  *in = (dlbsegment_inbox){0};
}
#endif
