/* Segments: memory that several processes map, each a memfd. */
#ifndef DLBRIDGE_SEGMENT_H
#define DLBRIDGE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A mapping of a segment, or of a part of one, in this process. It ends with segment_release. */
typedef struct {
  char *base;
  size_t size;
  uint64_t start; /* the offset of base in the segment */
  int fd; /* -1 if it is not known, of mappings that others have made */
  int read_only;
  void (*done)(void *ctx); /* called after the mapping has ended; may be NULL */
  void *ctx;
} segment;

/* Where memory lies in a segment. */
typedef struct {
  int file; /* a duplicate of its descriptor, which the caller closes */
  int read_only;
  uint64_t offset;
  size_t size; /* of the mapping */
} segment_place;

/* All functions that return an int return 0 or an errno. */

/* Makes a segment of `size` bytes, which are 0, and maps it. Its size cannot change. */
int segment_create(segment **out, size_t size);

/* Maps `size` bytes of a segment from `start` on, a multiple of the page size, and takes over the descriptor. After an error the
 * descriptor stays the caller's. */
int segment_map(segment **out, int fd, uint64_t start, size_t size, int read_only);

/* Reads `size` bytes of a file from `start` on into private memory, which ends like a segment. EINVAL: the file is shorter. */
int segment_copy(segment **out, int fd, uint64_t start, size_t size);

/* Unmaps a segment and closes its descriptor. ctx is a segment. Any thread may call it. */
void segment_release(void *ctx);

/* Finds the mapping that all of some memory lies in. ENOENT: there is none. */
int segment_find(uintptr_t address, size_t size, segment_place *out);

/* Maps the pages of some memory once more, without write permission. The memory must be in one shared mapping, such as a segment or a
 * file that was mapped with MAP_SHARED; EINVAL: it is not. */
int segment_alias(segment **out, uintptr_t address, size_t size);

/* Forbids all further writable mappings of a segment, and writing to it by its descriptor. */
int segment_seal(int fd);

/* Sets *size to the size of the file of a descriptor that another process has sent, *fixed to whether the file can never become smaller,
 * and *writable to whether it can be mapped with write permission. EBADF: it is not a regular file. */
int segment_check(int fd, uint64_t *size, int *fixed, int *writable);

/* Returns the number of mappings in this process. */
int64_t segment_count(void);

#pragma GCC visibility pop

#endif
