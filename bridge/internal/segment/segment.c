#ifdef __linux__
#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Constants of Linux 3.17 and 5.1, which old versions of glibc do not define. */
#ifndef F_ADD_SEALS
#define F_ADD_SEALS (1024 + 9)
#define F_GET_SEALS (1024 + 10)
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#define F_SEAL_WRITE 0x0008
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
enum { WITH_CLOEXEC = 1, WITH_SEALING = 2 }; /* MFD_CLOEXEC, MFD_ALLOW_SEALING */

/* ---- all mappings of this process ---------------------------------------------------------------
 *
 * known.all is sorted by descending addresses: Linux puts each new mapping below the others, so that it usually comes last. */

static struct {
  pthread_mutex_t mutex;
  segment **all;
  size_t count, room;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child must not inherit the mutex from a thread that it does not have. */
static void lock(void) { pthread_mutex_lock(&known.mutex); }
static void unlock(void) { pthread_mutex_unlock(&known.mutex); }
__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(lock, unlock, unlock); }

/* Returns the number of mappings that begin above an address, which is the index of the first one that does not. */
static size_t above(uintptr_t address) {
  size_t low = 0, high = known.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)known.all[middle]->base > address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static int remember(segment *s) {
  int failed = 0;
  lock();
  if (known.count == known.room) {
    size_t room = known.room == 0 ? 16 : 2 * known.room;
    segment **all = realloc(known.all, room * sizeof *all);
    if (all == NULL) failed = ENOMEM;
    else known.all = all, known.room = room;
  }
  if (!failed) {
    size_t at = above((uintptr_t)s->base);
    memmove(known.all + at + 1, known.all + at, (known.count - at) * sizeof *known.all);
    known.all[at] = s;
    known.count++;
  }
  unlock();
  return failed;
}

static void forget(const segment *s) {
  lock();
  size_t at = above((uintptr_t)s->base);
  known.count--;
  memmove(known.all + at, known.all + at + 1, (known.count - at) * sizeof *known.all);
  unlock();
}

int64_t segment_count(void) {
  lock();
  int64_t count = (int64_t)known.count;
  unlock();
  return count;
}

/* Reports whether a file with these seals can never become smaller. They are -1 for a file that cannot have seals. */
static int fixed_by(int seals) { return seals >= 0 && (seals & F_SEAL_SHRINK); }

/* Returns the mapping with a descriptor in which this memory lies, or NULL. The caller has locked the mutex. */
static const segment *with_memory(uintptr_t address, size_t size) {
  size_t first = above(address);
  if (first == known.count) return NULL;
  const segment *s = known.all[first];
  size_t at = address - (uintptr_t)s->base;
  return s->fd >= 0 && at <= s->size && size <= s->size - at ? s : NULL;
}

int segment_find(uintptr_t address, size_t size, segment_place *out) {
  int failed = ENOENT;
  lock();
  const segment *s = with_memory(address, size);
  if (s != NULL) {
    out->file = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    out->read_only = s->read_only;
    out->offset = s->start + (address - (uintptr_t)s->base);
    out->size = s->size;
    failed = out->file < 0 ? errno : 0;
  }
  unlock();
  return failed;
}

int segment_is_fixed(uintptr_t address, size_t size, size_t *whole) {
  lock();
  const segment *s = with_memory(address, size);
  int fixed = s != NULL && fixed_by(fcntl(s->fd, F_GET_SEALS));
  *whole = s != NULL ? s->size : 0;
  unlock();
  return fixed;
}

/* ---- mappings ---------------------------------------------------------------------------------- */

int segment_map(segment **out, int fd, uint64_t start, size_t size, int read_only) {
  segment *s = malloc(sizeof *s);
  if (s == NULL) return ENOMEM;
  void *base = mmap(NULL, size, read_only ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
  int failed = base == MAP_FAILED ? errno : 0;
  if (!failed) {
    *s = (segment){.base = base, .size = size, .start = start, .fd = fd, .read_only = read_only};
    failed = remember(s);
    if (failed) munmap(base, size);
  }
  if (failed) free(s);
  else *out = s;
  return failed;
}

int segment_create(segment **out, size_t size) {
  int fd = (int)syscall(SYS_memfd_create, "dlbridge", WITH_CLOEXEC | WITH_SEALING);
  if (fd < 0) return errno;
  int failed = ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ? errno : 0;
  if (!failed) failed = segment_map(out, fd, 0, size, 0);
  if (failed) close(fd);
  return failed;
}

int segment_copy(segment **out, int fd, uint64_t start, size_t size) {
  segment *s = malloc(sizeof *s);
  if (s == NULL) return ENOMEM;
  char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int failed = base == MAP_FAILED ? errno : 0;
  for (size_t done = 0; !failed && done < size;) {
    ssize_t n = pread(fd, base + done, size - done, (off_t)(start + done));
    if (n > 0) done += (size_t)n;
    else if (n == 0) failed = EINVAL;
    else if (errno != EINTR) failed = errno;
  }
  if (!failed) {
    *s = (segment){.base = base, .size = size, .start = start, .fd = -1};
    failed = remember(s);
  }
  if (failed) {
    if (base != MAP_FAILED) munmap(base, size);
    free(s);
  } else {
    close(fd);
    *out = s;
  }
  return failed;
}

void segment_release(void *ctx) {
  SEGMENT_WITHOUT_CANCELLATION;
  segment *s = ctx;
  forget(s); /* before munmap, after which a new mapping may get the same address */
  munmap(s->base, s->size);
  if (s->fd >= 0) close(s->fd);
  if (s->done != NULL) s->done(s->ctx);
  free(s);
}

/* Reports whether `size` bytes at an address are in one shared mapping of this process, whoever has made it. */
static int in_one_shared_mapping(uintptr_t address, size_t size) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return 0;
  int found = 0;
  char *line = NULL, shared;
  size_t room = 0;
  uintptr_t begin, end;
  while (!found && getline(&line, &room, maps) > 0) {
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*3c%c", &begin, &end, &shared) == 3 && begin <= address && address < end)
      found = shared == 's' && size <= end - address ? 1 : -1;
  }
  free(line);
  fclose(maps);
  return found == 1;
}

int segment_alias(segment **out, uintptr_t address, size_t size) {
  segment_place place;
  uintptr_t within = address % (uintptr_t)sysconf(_SC_PAGESIZE);
  int failed = segment_find(address, size, &place);
  if (failed == 0) {
    failed = segment_map(out, place.file, place.offset - within, size + within, 1);
    if (failed) close(place.file);
    return failed;
  }
  if (failed != ENOENT) return failed;
  if (!in_one_shared_mapping(address, size)) return EINVAL;
  segment *s = malloc(sizeof *s);
  if (s == NULL) return ENOMEM;
  void *base = mremap((void *)(address - within), 0, size + within, MREMAP_MAYMOVE); /* size 0 keeps the old mapping */
  if (base == MAP_FAILED) {
    failed = errno;
    free(s);
    return failed;
  }
  *s = (segment){.base = base, .size = size + within, .fd = -1, .read_only = 1};
  failed = mprotect(base, s->size, PROT_READ) != 0 ? errno : remember(s);
  if (failed) {
    munmap(base, s->size);
    free(s);
  } else {
    *out = s;
  }
  return failed;
}

/* ---- descriptors ------------------------------------------------------------------------------- */

int segment_open_named(int *fd, const char *directory, const char *name, int writable) {
  if (name[0] == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '/') != NULL) return EINVAL;
  const int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return errno;
  *fd = openat(dir, name, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const int failed = *fd < 0 ? errno : 0;
  close(dir);
  return failed == EISDIR || failed == ENXIO ? EINVAL : failed; /* a directory, a socket */
}

int segment_seal(int fd) {
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return errno;
  if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) return 0;
  return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 ? 0 : errno;
}

int segment_check(int fd, uint64_t *size, int *fixed, int *writable) {
  struct stat status;
  if (fstat(fd, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EBADF;
  int seals = fcntl(fd, F_GET_SEALS);
  int mode = fcntl(fd, F_GETFL);
  *size = (uint64_t)status.st_size;
  *fixed = fixed_by(seals);
  *writable = seals >= 0 && !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) && mode >= 0 && (mode & O_ACCMODE) == O_RDWR;
  return 0;
}
#endif
