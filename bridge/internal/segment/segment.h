/* Segments: memory that several processes map, each a memfd. */
#ifndef DLBRIDGE_SEGMENT_H
#define DLBRIDGE_SEGMENT_H

#include "core.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Forbids the cancellation of the thread (pthread_cancel) until the end of the block. A thread that is cancelled could lose a
 * descriptor that only its stack holds, since close is a cancellation point. The variable `cancellation` holds the state from
 * before. */
#define SEGMENT_WITHOUT_CANCELLATION __attribute__((unused, cleanup(dlbsegment_restore_cancellation))) int cancellation = dlbsegment_forbid_cancellation()
static inline int dlbsegment_forbid_cancellation(void) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}
static inline void dlbsegment_restore_cancellation(const int *before) { pthread_setcancelstate(*before, NULL); }

/* A file of a segment that this process has open. All mappings and offers of one segment share its descriptor. */
typedef struct dlbsegment_file dlbsegment_file;

/* A mapping in this process, of a segment or of other memory. Those who need parts of one segment share its mappings. */
typedef struct dlbsegment_mapping dlbsegment_mapping;

/* A segment, or a part of one, that is mapped in this process until dlbsegment_release. */
typedef struct {
  char *base;
  size_t size;
  uint64_t start; /* the offset of base in the segment */
  int read_only;
  dlbsegment_mapping *mapping;
  void (*done)(void *ctx); /* called by dlbsegment_release, as its last step; may be NULL */
  void *ctx;
} segment;

/* Where memory lies in a segment. */
typedef struct {
  int file; /* a duplicate of the descriptor of the segment, which the caller closes */
  int read_only; /* whether the mapping is */
  uint64_t offset; /* of the first byte of the memory in the segment */
  size_t size; /* of the file, of which this process may map a part only */
} dlbsegment_place;

/* Returns a descriptor in place of one that was just made, or -1 with errno, as it may be itself: another one if its number is 0, 1 or 2.
 * In a process without standard descriptors, what code writes to stderr would otherwise overwrite a segment. */
CORE_API int dlbsegment_above_standard(int fd);

/* Returns a duplicate of a descriptor, which is above the standard ones, or -1 with errno. */
CORE_API int dlbsegment_duplicate(int fd);

/* All other functions that return an int return 0 or an errno. */

/* Takes over a descriptor, and closes it if this process holds the same file already. The caller ends *out with dlbsegment_file_end. After
 * an error the descriptor stays the caller's. */
CORE_API int dlbsegment_file_take(dlbsegment_file **out, int fd);

/* Returns the descriptor, which stays open until dlbsegment_file_end. */
CORE_API int dlbsegment_file_descriptor(const dlbsegment_file *file);

/* Gives a file up. The last of its holders closes the descriptor. Any thread may call it. */
CORE_API void dlbsegment_file_end(dlbsegment_file *file);

/* Makes a segment of `size` zeroed bytes, and maps it. Its size can never change. EINVAL: the size is 0; ENOMEM: the
 * system would not give the process so much other memory either; EFBIG: it is more than RLIMIT_FSIZE. */
CORE_API int dlbsegment_create(segment **out, size_t size);

/* Maps `size` bytes of a segment from `start` on, a multiple of the page size, by a mapping that there is already if it has these bytes.
 * Takes over the descriptor, also after an error. EOVERFLOW: the segments that this process has not made would take more than a quarter
 * of its address space. EROFS: it cannot be mapped writable. */
CORE_API int dlbsegment_map(segment **out, int fd, uint64_t start, size_t size, int read_only);

/* Reads `size` bytes of a file from `start` on into new private memory, which dlbsegment_release frees, and closes the descriptor,
 * also after an error. EINVAL: the file is shorter. */
CORE_API int dlbsegment_copy(segment **out, int fd, uint64_t start, size_t size);

/* Opens a file that other programs share by its name, such as an object of shm_open, without following links. EINVAL: the name is
 * not one of a file in the directory itself, or one of a directory or a socket. */
CORE_API int dlbsegment_open_named(int *fd, const char *directory, const char *name, int writable);

/* Gives up a segment, ends its mapping if no other segment is a part of it, and calls `done`. ctx is the segment. Any thread may call
 * it. */
CORE_API void dlbsegment_release(void *ctx);

/* Returns how many bytes may be freed with a segment that has not been released: those of its file, or of its mapping if it has none. */
CORE_API size_t dlbsegment_file_size(const segment *s);

/* Finds the mapping of a file in which `size` bytes of memory at an address lie. It was made by one of these functions, in this library
 * or in another one of the process, which has a descriptor of it. ENOENT: there is none. EMFILE: there is no descriptor for out->file,
 * or to ask the kernel with. A segment of another library takes about 2 microseconds for each descriptor of the process. Memory of no
 * segment takes about 0.4, for a system call, and nothing in the heap of brk. Before Linux 6.11 it takes 4, and shared memory more, in
 * proportion to the mappings of the process. */
CORE_API int dlbsegment_find(uintptr_t address, size_t size, dlbsegment_place *out);

/* Reports whether dlbsegment_find would find such a mapping, and no process can make its file smaller. Sets *whole to the size of
 * the file. */
CORE_API int dlbsegment_is_fixed(uintptr_t address, size_t size, size_t *whole);

/* Maps the pages of `size` bytes of memory at an address once more, without write permission; (*out)->base is the beginning of
 * the first page. The memory must be in one shared mapping, such as a segment or a file that was mapped with MAP_SHARED;
 * EINVAL: it is not. */
CORE_API int dlbsegment_alias(segment **out, uintptr_t address, size_t size);

/* Decides, before a segment is handed over to another process, whether processes may write to it. The first decision holds for ever,
 * in all processes: a segment that is read-only can have no further writable mapping, and cannot be written by its descriptor; one
 * that is writable stays so. EPERM: the other was decided before. A file that can become smaller may be handed over writable at any
 * time. EACCES: this one cannot be made read-only. */
CORE_API int dlbsegment_hand_over(int fd, int writable);

/* Returns the error that dlbsegment_hand_over would return, and decides nothing. */
CORE_API int dlbsegment_may_hand_over(int fd, int writable);

/* Sets *size to the size of the file of a descriptor that another process has sent, *fixed to whether the file can never become
 * smaller, and *writable to whether it can be mapped with write permission; both are 0 for a file that cannot have seals. *fixed is also 0
 * for a file of huge pages: it may have holes for which the system has no page left, and is mapped in whole pages only.
 * EBADF: it is not a regular file. */
CORE_API int dlbsegment_check(int fd, uint64_t *size, int *fixed, int *writable);

/* Returns the number of mappings of this process that have not ended. */
CORE_API int64_t dlbsegment_count(void);

#endif
