#ifdef __linux__
#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Constants of Linux 3.17 and 5.1, which old versions of glibc do not define. */
#ifndef F_ADD_SEALS
#define F_ADD_SEALS (1024 + 9)
#define F_GET_SEALS (1024 + 10)
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#define F_SEAL_WRITE 0x0008
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
enum { WITH_CLOEXEC = 1, WITH_SEALING = 2 }; /* MFD_CLOEXEC, MFD_ALLOW_SEALING */

/* ---- all mappings of this process, and their files ----------------------------------------------
 *
 * known.all is sorted by descending addresses: Linux puts each new mapping below the others, so that it usually comes last. */

static struct {
  pthread_mutex_t mutex;
  segment **all;
  size_t count, room;
  void *files; /* a tree of tsearch, of all segment_files */
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child must not inherit the mutex from a thread that it does not have. offer.c calls segment_file_end while it holds its
 * own mutex, also in the child. So this constructor runs before that of offer.c: fork then takes this mutex last, and the child
 * gives it back first. */
static void lock(void) { pthread_mutex_lock(&known.mutex); }
static void unlock(void) { pthread_mutex_unlock(&known.mutex); }
__attribute__((constructor(1000))) static void watch_fork(void) { pthread_atfork(lock, unlock, unlock); }

/* ---- descriptors: one for each file, however many mappings and offers there are of it --------------- */

struct segment_file {
  int fd;
  size_t holders;
  /* What a further descriptor of the file is recognised by. It is not set until `listed`: a new segment is listed when its descriptor
   * is first duplicated, because it cannot come back before. */
  int listed, mode; /* mode: the O_ACCMODE that it was opened with */
  dev_t device;
  ino_t number;
  size_t size; /* of the file; it is set at once */
};

static int compare_files(const void *left, const void *right) {
  const segment_file *a = left, *b = right;
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  if (a->device != b->device) return a->device < b->device ? -1 : 1;
  return a->mode - b->mode;
}

static int identify(segment_file *file) {
  struct stat status;
  const int mode = fcntl(file->fd, F_GETFL);
  if (mode < 0 || fstat(file->fd, &status) != 0) return errno;
  file->mode = mode & O_ACCMODE;
  file->device = status.st_dev;
  file->number = status.st_ino;
  file->size = (size_t)status.st_size;
  return 0;
}

/* Adds a file to known.files. The caller has locked the mutex. */
static int list(segment_file *file) {
  const int failed = identify(file);
  if (failed) return failed;
  if (tsearch(file, &known.files, compare_files) == NULL) return ENOMEM;
  file->listed = 1;
  return 0;
}

/* Takes over the descriptor of a file that is new. */
static int begin(segment_file **out, int fd) {
  *out = malloc(sizeof **out);
  if (*out == NULL) return ENOMEM;
  **out = (segment_file){.fd = fd, .holders = 1};
  return 0;
}

/* Does the work of segment_file_take. The caller has locked the mutex. */
static int take(segment_file **out, int fd) {
  segment_file key = {.fd = fd}, now;
  int failed = identify(&key);
  if (failed) return failed;
  segment_file **found = tfind(&key, &known.files, compare_files);
  if (found != NULL) {
    *out = *found;
    now.fd = (*out)->fd;
    if (identify(&now) == 0 && compare_files(&now, &key) == 0) {
      (*out)->holders++;
      close(fd);
      return 0;
    }
    /* The program has closed all its descriptors, and the number may have another file by now. */
    (*out)->listed = 0;
    tdelete(&key, &known.files, compare_files);
  }
  failed = begin(out, fd); /* list sets the size */
  if (failed) return failed;
  failed = list(*out);
  if (failed) free(*out);
  return failed;
}

/* Does the work of segment_file_end. The caller has locked the mutex. */
static void end(segment_file *file) {
  if (--file->holders > 0) return;
  if (file->listed) tdelete(file, &known.files, compare_files);
  close(file->fd);
  free(file);
}

int segment_file_take(segment_file **out, int fd) {
  lock();
  const int failed = take(out, fd);
  unlock();
  return failed;
}

void segment_file_end(segment_file *file) {
  lock();
  end(file);
  unlock();
}

int segment_file_descriptor(const segment_file *file) { return file->fd; }


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

/* Adds a mapping. Its file is set by hold(&s->file, fd), unless hold is NULL. */
static int remember(segment *s, int fd, int (*hold)(segment_file **out, int fd)) {
  int failed = 0;
  lock();
  if (known.count == known.room) {
    size_t room = known.room == 0 ? 16 : 2 * known.room;
    segment **all = realloc(known.all, room * sizeof *all);
    if (all == NULL) failed = ENOMEM;
    else known.all = all, known.room = room;
  }
  if (!failed && hold != NULL) failed = hold(&s->file, fd);
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

/* Of these, a file has one that was handed over read-only. The kernel keeps what the first hand-over has decided, for all libraries and
 * processes: after a writable one, F_SEAL_SEAL forbids further seals. */
enum { READ_ONLY_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE };

/* Returns the mapping with a descriptor in which this memory lies, or NULL. The caller has locked the mutex. */
static const segment *with_memory(uintptr_t address, size_t size) {
  size_t first = above(address);
  if (first == known.count) return NULL;
  const segment *s = known.all[first];
  size_t at = address - (uintptr_t)s->base;
  return s->file != NULL && at <= s->size && size <= s->size - at ? s : NULL;
}

int segment_find(uintptr_t address, size_t size, segment_place *out) {
  int failed = ENOENT;
  lock();
  const segment *s = with_memory(address, size);
  if (s != NULL) {
    out->read_only = s->read_only;
    out->offset = s->start + (address - (uintptr_t)s->base);
    out->size = s->file->size;
    failed = s->file->listed ? 0 : list(s->file);
    if (!failed) out->file = fcntl(s->file->fd, F_DUPFD_CLOEXEC, 0);
    if (!failed && out->file < 0) failed = errno;
  }
  unlock();
  return failed;
}

int segment_is_fixed(uintptr_t address, size_t size, size_t *whole) {
  lock();
  const segment *s = with_memory(address, size);
  int fixed = s != NULL && fixed_by(fcntl(s->file->fd, F_GET_SEALS));
  *whole = s != NULL ? s->file->size : 0;
  unlock();
  return fixed;
}

/* ---- mappings ---------------------------------------------------------------------------------- */

/* Maps a file without adding the mapping to those that are known. Returns NULL with errno. */
static segment *map(int fd, uint64_t start, size_t size, int read_only) {
  segment *s = malloc(sizeof *s);
  if (s == NULL) return NULL;
  *s = (segment){.size = size, .start = start, .read_only = read_only};
  s->base = mmap(NULL, size, read_only ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
  if (s->base != MAP_FAILED) return s;
  free(s);
  return NULL;
}

/* Adds a mapping, whose file is that of `fd` by `take` or `begin`, which take the descriptor over. After an error the mapping has
 * ended. */
static int keep(segment **out, segment *s, int fd, int (*hold)(segment_file **out, int fd)) {
  const int failed = remember(s, fd, hold);
  if (failed) {
    munmap(s->base, s->size);
    free(s);
  } else {
    *out = s;
  }
  return failed;
}

int segment_map(segment **out, int fd, uint64_t start, size_t size, int read_only) {
  segment *s = map(fd, start, size, read_only);
  return s == NULL ? errno : keep(out, s, fd, take);
}

/* Reports by an errno that this process cannot have a segment of `size` bytes. Linux itself makes a memfd of any size, whose pages it
 * takes later: a program that then writes to more than there is gets SIGBUS. So the rule for other memory is applied by a trial, except
 * to small segments, for which the trial would cost as much as all else. Beyond RLIMIT_FSIZE ftruncate ends the process by SIGXFSZ. */
static int check_size(size_t size) {
  enum { SMALL = 64 << 20 };
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) return EFBIG; /* RLIM_INFINITY is the largest number */
  if (size <= SMALL) return 0;
  void *trial = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) return errno;
  munmap(trial, size);
  return 0;
}

int segment_create(segment **out, size_t size) {
  int failed = check_size(size);
  if (failed) return failed;
  int fd = (int)syscall(SYS_memfd_create, "dlbridge", WITH_CLOEXEC | WITH_SEALING);
  if (fd < 0) return errno;
  failed = ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ? errno : 0;
  if (!failed) {
    segment *s = map(fd, 0, size, 0);
    failed = s == NULL ? errno : keep(out, s, fd, begin);
    if (!failed) s->file->size = size;
  }
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
    *s = (segment){.base = base, .size = size, .start = start};
    failed = remember(s, -1, NULL);
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
  if (s->file != NULL) segment_file_end(s->file);
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

/* Maps a part of a file read-only, and takes the file over. */
static int alias_of_file(segment **out, segment_file *file, uint64_t start, size_t size) {
  segment *s = map(file->fd, start, size, 1);
  int failed = s == NULL ? errno : 0;
  if (s != NULL) {
    s->file = file;
    failed = keep(out, s, -1, NULL);
  }
  if (failed) segment_file_end(file);
  return failed;
}

int segment_alias(segment **out, uintptr_t address, size_t size) {
  segment_file *file = NULL;
  uint64_t start = 0;
  uintptr_t within = address % (uintptr_t)sysconf(_SC_PAGESIZE);
  lock();
  const segment *found = with_memory(address, size);
  if (found != NULL) {
    file = found->file;
    file->holders++;
    start = found->start + (address - (uintptr_t)found->base) - within;
  }
  unlock();
  if (file != NULL) return alias_of_file(out, file, start, size + within);
  if (!in_one_shared_mapping(address, size)) return EINVAL;
  int failed = 0;
  segment *s = malloc(sizeof *s);
  if (s == NULL) return ENOMEM;
  void *base = mremap((void *)(address - within), 0, size + within, MREMAP_MAYMOVE); /* size 0 keeps the old mapping */
  if (base == MAP_FAILED) {
    failed = errno;
    free(s);
    return failed;
  }
  *s = (segment){.base = base, .size = size + within, .read_only = 1};
  failed = mprotect(base, s->size, PROT_READ) != 0 ? errno : remember(s, -1, NULL);
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

int segment_may_hand_over(int fd, int writable) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (writable) return fixed_by(seals) && (seals & READ_ONLY_SEALS) ? EPERM : 0;
  if (seals < 0) return errno;
  if (!(seals & F_SEAL_SEAL) || (seals & READ_ONLY_SEALS)) return 0;
  return fixed_by(seals) ? EPERM : EACCES;
}

int segment_hand_over(int fd, int writable) {
  const int seals = fcntl(fd, F_GET_SEALS);
  const int failed = segment_may_hand_over(fd, writable);
  if (failed || (seals & READ_ONLY_SEALS) || (writable && (!fixed_by(seals) || (seals & F_SEAL_SEAL)))) return failed;
  if (fcntl(fd, F_ADD_SEALS, writable ? F_SEAL_SEAL : F_SEAL_FUTURE_WRITE) != 0 && errno != EPERM) return errno;
  const int now = fcntl(fd, F_GET_SEALS); /* another thread or process may have been faster */
  if (now < 0) return errno;
  if (writable) return (now & F_SEAL_SEAL) && !(now & READ_ONLY_SEALS) ? 0 : EPERM;
  return now & READ_ONLY_SEALS ? 0 : now & F_SEAL_SEAL ? EPERM : EACCES;
}

int segment_check(int fd, uint64_t *size, int *fixed, int *writable) {
  struct stat status;
  if (fstat(fd, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EBADF;
  int seals = fcntl(fd, F_GET_SEALS);
  int mode = fcntl(fd, F_GETFL);
  *size = (uint64_t)status.st_size;
  *fixed = fixed_by(seals);
  *writable = seals >= 0 && !(seals & READ_ONLY_SEALS) && mode >= 0 && (mode & O_ACCMODE) == O_RDWR;
  return 0;
}
#endif
