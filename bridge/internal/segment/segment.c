//go:build !dlbridge_shared

#ifdef __linux__
#include "discard.h"
#include "segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
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

struct dlbsegment_mapping {
  char *base;
  size_t size;
  uint64_t start;     /* the offset of base in the file */
  dlbsegment_file *file; /* NULL for a copy, and for memory that other code has mapped */
  int read_only;
  size_t holders;
  dlbsegment_mapping *next; /* of the same file */
};

static struct {
  pthread_mutex_t mutex;
  dlbsegment_mapping **all;
  size_t count, room;
  uint64_t of_others; /* bytes that are mapped of segments that this process has not made */
  void *files;        /* a tree of tsearch, of all dlbsegment_files */
  struct {
    int fd; /* of /proc/self/maps; -1 if it is not open */
    dev_t device;
    ino_t number;
    int old; /* the kernel answers no questions by it */
  } maps;
  uintptr_t heap; /* where the heap of brk begins; 0 if that is not known yet */
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER, .maps = {.fd = -1}};

/* A forked child must not inherit a mutex that is locked by a thread that the child does not have, so fork locks it. offer.c locks its own
 * mutex first and then this one, by dlbsegment_file_take, also in the child. Fork must lock them in the same order: handlers that were
 * registered first lock last, so this constructor has a priority and runs before the one of offer.c. */
static void lock_known(void) { pthread_mutex_lock(&known.mutex); }
static void unlock_known(void) { pthread_mutex_unlock(&known.mutex); }
/* The descriptor that the child has inherited tells of the memory of its parent. */
static void unlock_known_in_child(void) {
  struct stat status;
  if (known.maps.fd >= 0 && fstat(known.maps.fd, &status) == 0 && status.st_dev == known.maps.device && status.st_ino == known.maps.number)
    close(known.maps.fd);
  known.maps.fd = -1;
  unlock_known();
}
__attribute__((constructor(1000))) static void watch_fork_of_known(void) {
  pthread_atfork(lock_known, unlock_known, unlock_known_in_child);
}

int dlbsegment_duplicate(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 && errno == EINVAL) errno = EMFILE; /* the limit is 3 or less */
  return copy;
}

int dlbsegment_above_standard(int fd) {
  if (fd < 0 || fd > 2) return fd;
  const int copy = dlbsegment_duplicate(fd), before = errno;
  close(fd);
  errno = before;
  return copy;
}

/* ---- descriptors: one for each file, however many mappings and offers there are of it --------------- */

struct dlbsegment_file {
  int fd;
  size_t holders;
  /* What a further descriptor of the file is recognised by. It is not set until `listed`: a new segment is listed when its descriptor
   * is first duplicated, because it cannot come back before. */
  int listed, mode; /* mode: the O_ACCMODE that it was opened with */
  dev_t device;
  ino_t number;
  size_t size; /* of the file; it is set at once */
  int own;     /* dlbsegment_create has made it */
  dlbsegment_mapping *mappings;
};

static int compare_files(const void *left, const void *right) {
  const dlbsegment_file *a = left, *b = right;
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  if (a->device != b->device) return a->device < b->device ? -1 : 1;
  return a->mode - b->mode;
}

static int identify(dlbsegment_file *file) {
  struct stat status;
  const int mode = fcntl(file->fd, F_GETFL);
  if (mode < 0 || fstat(file->fd, &status) != 0) return errno;
  file->mode = mode & O_ACCMODE;
  file->device = status.st_dev;
  file->number = status.st_ino;
  file->size = (size_t)status.st_size;
  return 0;
}

/* Adds a file that was identified to known.files. The caller has locked the mutex. */
static int add_file(dlbsegment_file *file) {
  if (tsearch(file, &known.files, compare_files) == NULL) return ENOMEM;
  file->listed = 1;
  return 0;
}

static int list(dlbsegment_file *file) {
  const int failed = identify(file);
  return failed ? failed : add_file(file);
}

/* Reports whether the descriptor of a file has not been closed by other code, and its number used again. */
static int still_open(const dlbsegment_file *file) {
  struct stat status;
  return fstat(file->fd, &status) == 0 && status.st_ino == file->number && status.st_dev == file->device;
}

/* Does the work of dlbsegment_file_take, except that the caller closes `fd` if it is not the file's. The caller has locked the mutex. */
static int take(dlbsegment_file **out, int fd) {
  dlbsegment_file key = {.fd = fd, .holders = 1};
  int failed = identify(&key);
  if (failed) return failed;
  dlbsegment_file **found = tfind(&key, &known.files, compare_files);
  if (found != NULL) {
    *out = *found;
    if (still_open(*out)) {
      (*out)->holders++;
      (*out)->size = key.size; /* a file that is not sealed may have grown */
      return 0;
    }
    (*out)->listed = 0;
    tdelete(&key, &known.files, compare_files);
  }
  *out = malloc(sizeof **out);
  if (*out == NULL) return ENOMEM;
  **out = key;
  failed = add_file(*out);
  if (failed) {
    free(*out);
    *out = NULL;
  }
  return failed;
}

int dlbsegment_file_take(dlbsegment_file **out, int fd) {
  lock_known();
  const int failed = take(out, fd);
  unlock_known();
  if (!failed && (*out)->fd != fd) close(fd);
  return failed;
}

/* Gives a file up. Returns 1 if that was its last holder: the caller calls close_file after it has unlocked the mutex, because to close a
 * file may take long, and then others would wait. */
static int leave(dlbsegment_file *file) {
  if (--file->holders > 0) return 0;
  if (file->listed) tdelete(file, &known.files, compare_files);
  return 1;
}

static void close_file(dlbsegment_file *file) {
  close(file->fd);
  free(file);
}

void dlbsegment_file_end(dlbsegment_file *file) {
  lock_known();
  const int last = leave(file);
  unlock_known();
  if (last) close_file(file);
}

int dlbsegment_file_descriptor(const dlbsegment_file *file) { return file->fd; }

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

/* Reports whether this process may have so many bytes mapped of segments that others have made. Their files take no memory as long as
 * they are empty, so that a peer could fill the address space with them. */
static int is_too_much(uint64_t bytes) {
  struct rlimit limit;
  const uint64_t most = UINT64_C(1) << 47;
  return bytes > (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < most ? limit.rlim_cur : most) / 4;
}

/* Adds a mapping to those that are known. It takes over the caller's hold on m->file. */
static int remember(dlbsegment_mapping *m) {
  int failed = 0;
  const uint64_t of_others = m->file != NULL && !m->file->own ? m->size : 0;
  lock_known();
  if (of_others > 0 && is_too_much(known.of_others + of_others)) failed = EOVERFLOW;
  if (!failed && known.count == known.room) {
    size_t room = known.room == 0 ? 16 : 2 * known.room;
    dlbsegment_mapping **all = realloc(known.all, room * sizeof *all);
    if (all == NULL) failed = ENOMEM;
    else known.all = all, known.room = room;
  }
  if (!failed) {
    size_t at = above((uintptr_t)m->base);
    memmove(known.all + at + 1, known.all + at, (known.count - at) * sizeof *known.all);
    known.all[at] = m;
    known.count++;
    known.of_others += of_others;
    if (m->file != NULL) {
      m->next = m->file->mappings;
      m->file->mappings = m;
    }
  }
  unlock_known();
  return failed;
}

/* Gives a mapping up. The last of its holders ends it: it is forgotten before munmap, after which a new mapping may get the same address,
 * and freed when the mutex is unlocked, since that may take long. */
static void drop_mapping(dlbsegment_mapping *m) {
  lock_known();
  if (--m->holders > 0) {
    unlock_known();
    return;
  }
  size_t at = above((uintptr_t)m->base);
  known.count--;
  memmove(known.all + at, known.all + at + 1, (known.count - at) * sizeof *known.all);
  int last = 0;
  if (m->file != NULL) {
    dlbsegment_mapping **link = &m->file->mappings;
    while (*link != m) link = &(*link)->next;
    *link = m->next;
    if (!m->file->own) known.of_others -= m->size;
    last = leave(m->file);
  }
  unlock_known();
  munmap(m->base, m->size);
  if (last) close_file(m->file);
  free(m);
}

int64_t dlbsegment_count(void) {
  lock_known();
  int64_t count = (int64_t)known.count;
  unlock_known();
  return count;
}

/* Reports whether a file with these seals can never become smaller. They are -1 for a file that cannot have seals. */
static int fixed_by(int seals) { return seals >= 0 && (seals & F_SEAL_SHRINK); }

/* A file that was handed over read-only has at least one of these seals. The kernel keeps the decision of the first hand-over for all
 * libraries and processes: after a writable hand-over, the seal F_SEAL_SEAL forbids to add these. */
enum { READ_ONLY_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE };

/* Returns the mapping in which this memory lies, or NULL. The caller has locked the mutex. */
static const dlbsegment_mapping *with_memory(uintptr_t address, size_t size) {
  size_t first = above(address);
  if (first == known.count) return NULL;
  const dlbsegment_mapping *m = known.all[first];
  size_t at = address - (uintptr_t)m->base;
  return at <= m->size && size <= m->size - at ? m : NULL;
}

/* ---- mappings of other libraries ----------------------------------------------------------------
 *
 * Each library of a process that is built with this file (the Python extension, libdlbridge_tensor, a Go program) has its own list of
 * mappings. Memory that is not in the list may be in a segment of another library. Only the kernel can tell. */

/* A shared mapping of this process, made by any code. */
typedef struct {
  uintptr_t begin, end;
  uint64_t offset; /* of begin in the file */
  dev_t device;
  ino_t number;
  int writable, segment; /* segment: it has the name of a segment, which proves nothing */
} mapping;

static const char dlbsegment_name[] = "/memfd:dlbridge";

/* PROCMAP_QUERY of Linux 6.11. */
typedef struct {
  uint64_t size, flags, address, begin, end, permissions, page_size, offset, inode;
  uint32_t major, minor, name_size, build_id_size;
  uint64_t name, build_id;
} question;
enum { WRITABLE = 2, SHARED = 8 }; /* permissions */

/* Opens /proc/self/maps, to be kept. The caller has locked the mutex. */
static int open_maps(void) {
  struct stat status;
  const int fd = dlbsegment_above_standard(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (fd < 0) return errno;
  if (fstat(fd, &status) != 0) status = (struct stat){0};
  known.maps.fd = fd;
  known.maps.device = status.st_dev;
  known.maps.number = status.st_ino;
  return 0;
}

/* Asks for the mapping at q->address. ENOENT: there is none; ENOSYS: the kernel cannot say. The caller has locked the mutex. */
static int ask(question *q) {
  for (int opened = 0; !known.maps.old;) {
    if (known.maps.fd < 0) {
      const int failed = open_maps();
      if (failed) return failed;
      opened = 1;
    }
    if (ioctl(known.maps.fd, _IOWR('f', 17, question), q) == 0) return 0;
    if (errno == ENOENT) return ENOENT;
    if (opened) {
      close(known.maps.fd);
      known.maps.old = 1;
    }
    known.maps.fd = -1; /* or the program has closed all its descriptors, and the number may have another file by now */
  }
  return ENOSYS;
}

/* Reports whether memory is in the heap of brk, from which malloc takes small pieces: there no question is needed. The caller has locked
 * the mutex. */
static int in_heap(uintptr_t address) {
  const uintptr_t end = (uintptr_t)sbrk(0);
  if (known.heap == 0) {
    question q = {.size = sizeof q, .address = end - 1};
    known.heap = ask(&q) == 0 && !(q.permissions & SHARED) ? (uintptr_t)q.begin : UINTPTR_MAX;
  }
  return known.heap <= address && address < end;
}

/* Reports whether the page at an address is in use and private. */
static int is_private(uintptr_t address) {
  uint64_t page = 0;
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  if (pread(fd, &page, sizeof page, (off_t)(address / (uintptr_t)sysconf(_SC_PAGESIZE) * sizeof page)) != sizeof page) page = 0;
  close(fd);
  return page >> 63 && !(page >> 61 & 1); /* it is present, and not of a file or shared */
}

/* Does what mapping_at does, by the text of /proc/self/maps, in a time in proportion to the number of mappings of the process. */
static int read_maps(mapping *out, uintptr_t address) {
  if (is_private(address)) return ENOENT;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return errno;
  int failed = ENOENT, name, found = 0;
  char *line = NULL, permissions[5];
  size_t room = 0;
  uintptr_t begin, end;
  unsigned major, minor;
  unsigned long inode;
  while (!found && getline(&line, &room, maps) > 0) {
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %lu %n", &begin, &end, permissions, &out->offset, &major, &minor, &inode,
               &name) != 7 || address < begin || address >= end)
      continue;
    found = 1;
    if (permissions[3] != 's') continue;
    out->begin = begin;
    out->end = end;
    out->device = makedev(major, minor);
    out->number = inode;
    out->writable = permissions[1] == 'w';
    out->segment = strncmp(line + name, dlbsegment_name, sizeof dlbsegment_name - 1) == 0;
    failed = 0;
  }
  free(line);
  fclose(maps);
  return failed;
}

/* Sets *out to the shared mapping at an address. ENOENT: there is none, or a private one. */
static int mapping_at(mapping *out, uintptr_t address) {
  char name[64] = "";
  question q = {.size = sizeof q, .address = address};
  lock_known();
  int failed = in_heap(address) ? ENOENT : ask(&q);
  if (!failed && (q.permissions & SHARED)) { /* a name takes longer; ENAMETOOLONG: it is a longer one */
    q = (question){.size = sizeof q, .address = address, .name = (uintptr_t)name, .name_size = sizeof name};
    if (ask(&q) != 0) q = (question){.size = sizeof q, .address = address}, failed = ask(&q);
  }
  unlock_known();
  if (failed == ENOSYS) return read_maps(out, address);
  if (failed) return failed;
  if (!(q.permissions & SHARED)) return ENOENT;
  *out = (mapping){
      .begin = (uintptr_t)q.begin,
      .end = (uintptr_t)q.end,
      .offset = q.offset,
      .device = makedev(q.major, q.minor),
      .number = (ino_t)q.inode,
      .writable = (q.permissions & WRITABLE) != 0,
      .segment = strncmp(name, dlbsegment_name, sizeof dlbsegment_name - 1) == 0,
  };
  return 0;
}

/* Sets *out to a duplicate of the descriptor `fd` if its file is that of a mapping and can never become smaller, and *size to that of the
 * file. ENOENT: it is another one; EMFILE: it is this one, and there is no descriptor for the duplicate. Another thread may close any
 * descriptor meanwhile, so the duplicate is checked. */
static int duplicate(int fd, const mapping *m, int *out, size_t *size) {
  struct stat status;
  const int copy = dlbsegment_duplicate(fd), failed = copy < 0 ? errno : 0, asked = failed ? fd : copy;
  if (fstat(asked, &status) == 0 && status.st_dev == m->device && status.st_ino == m->number &&
      fixed_by(fcntl(asked, F_GET_SEALS))) {
    *out = copy;
    *size = (size_t)status.st_size;
    return failed ? EMFILE : 0;
  }
  if (!failed) close(copy);
  return ENOENT;
}

/* Finds a descriptor that this process has of the file of a mapping, as `duplicate` does. It takes the time of all its descriptors. */
static int descriptor_of(const mapping *m, int *out, size_t *size) {
  int failed = ENOENT;
  DIR *all = opendir("/proc/self/fd");
  if (all == NULL) { /* there is no descriptor for it: most numbers are in use, up to the limit, which may have been higher */
    for (int fd = 0; failed == ENOENT && fd < 1 << 20; fd++) failed = duplicate(fd, m, out, size);
    return failed;
  }
  for (struct dirent *file; failed == ENOENT && (file = readdir(all)) != NULL;) {
    char target[sizeof dlbsegment_name];
    const ssize_t n = readlinkat(dirfd(all), file->d_name, target, sizeof target); /* cuts a longer one */
    if (n >= (ssize_t)sizeof dlbsegment_name - 1 && memcmp(target, dlbsegment_name, sizeof dlbsegment_name - 1) == 0)
      failed = duplicate(atoi(file->d_name), m, out, size);
  }
  closedir(all);
  return failed;
}

/* Does what dlbsegment_find does, for a segment that another library of this process has mapped. EMFILE: there is no descriptor to ask the
 * kernel with, and out->size is 0, or none for out->file, and all else is set. */
static int find_of_others(uintptr_t address, size_t size, dlbsegment_place *out) {
  mapping m;
  out->size = 0;
  int failed = mapping_at(&m, address);
  if (failed || !m.segment || size > m.end - address) return failed ? failed : ENOENT;
  out->read_only = !m.writable;
  out->offset = m.offset + (address - m.begin);
  failed = descriptor_of(&m, &out->file, &out->size);
  if (failed == ENOENT || (out->offset <= out->size && size <= out->size - out->offset)) return failed;
  if (!failed) close(out->file);
  return ENOENT;
}

/* ---- finding -------------------------------------------------------------------------------------- */

int dlbsegment_find(uintptr_t address, size_t size, dlbsegment_place *out) {
  int failed = ENOENT;
  lock_known();
  const dlbsegment_mapping *m = with_memory(address, size);
  if (m != NULL && m->file != NULL) {
    out->read_only = m->read_only;
    out->offset = m->start + (address - (uintptr_t)m->base);
    out->size = m->file->size;
    failed = m->file->listed ? 0 : list(m->file);
    if (!failed) out->file = dlbsegment_duplicate(m->file->fd);
    if (!failed && out->file < 0) failed = errno;
  }
  unlock_known();
  return m != NULL ? failed : find_of_others(address, size, out);
}

int dlbsegment_is_fixed(uintptr_t address, size_t size, size_t *whole) {
  dlbsegment_place place;
  lock_known();
  const dlbsegment_mapping *m = with_memory(address, size);
  int fixed = m != NULL && m->file != NULL && fixed_by(fcntl(m->file->fd, F_GET_SEALS));
  *whole = fixed ? m->file->size : 0;
  unlock_known();
  const int failed = m != NULL ? ENOENT : find_of_others(address, size, &place);
  if (failed == 0) close(place.file);
  if (failed == 0 || (failed == EMFILE && place.size > 0)) {
    *whole = place.size;
    fixed = 1;
  }
  return fixed;
}

/* ---- mappings ---------------------------------------------------------------------------------- */

/* Returns the errno of a call that has not mapped memory. ENOMEM also stands for EAGAIN: the process may lock no more (mlockall). */
static int not_mapped(void) { return errno == EAGAIN ? ENOMEM : errno; }

/* Maps a part of a file anew, and takes over the caller's hold on the file. After an error the hold stays the caller's. */
static int map(dlbsegment_mapping **out, dlbsegment_file *file, uint64_t start, size_t size, int read_only) {
  dlbsegment_mapping *m = malloc(sizeof *m);
  if (m == NULL) return ENOMEM;
  *m = (dlbsegment_mapping){.size = size, .start = start, .file = file, .read_only = read_only, .holders = 1};
  m->base = mmap(NULL, size, read_only ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)start);
  int failed = m->base == MAP_FAILED ? not_mapped() : 0;
  if (!read_only && (failed == EPERM || failed == EACCES)) failed = EROFS; /* it is sealed, or was opened read-only */
  if (!failed && (failed = remember(m)) != 0) munmap(m->base, size);
  if (failed) free(m);
  else *out = m;
  return failed;
}

/* Returns a part of a mapping as a segment. It takes over the caller's hold on the mapping, also after an error. */
static int part_of_mapping(segment **out, dlbsegment_mapping *m, uint64_t start, size_t size) {
  segment *s = malloc(sizeof *s);
  if (s == NULL) {
    drop_mapping(m);
    return ENOMEM;
  }
  *s = (segment){.base = m->base + (start - m->start), .size = size, .start = start, .read_only = m->read_only, .mapping = m};
  *out = s;
  return 0;
}

/* Maps a part of a file, unless there is a mapping that has it. It takes over the caller's hold on the file, also after an error. The
 * second mapping of a file is one of all of it, so that it has few, however many parts are asked for. */
static int map_part(segment **out, dlbsegment_file *file, uint64_t start, size_t size, int read_only) {
  int failed = -1;
  lock_known();
  dlbsegment_mapping *m = file->mappings, *other = NULL;
  for (; m != NULL; m = m->next) {
    if (m->read_only != read_only) continue;
    if (m->start <= start && start - m->start <= m->size && size <= m->size - (start - m->start)) break;
    other = m;
  }
  if (m != NULL) m->holders++;
  const size_t whole = other != NULL && start <= file->size && size <= file->size - start ? file->size : 0;
  unlock_known();
  if (m != NULL) dlbsegment_file_end(file);
  else if (whole > 0) failed = map(&m, file, 0, whole, read_only);
  if (m == NULL && failed) failed = map(&m, file, start, size, read_only);
  if (m != NULL) return part_of_mapping(out, m, start, size);
  dlbsegment_file_end(file);
  return failed;
}

int dlbsegment_map(segment **out, int fd, uint64_t start, size_t size, int read_only) {
  dlbsegment_file *file;
  const int failed = dlbsegment_file_take(&file, fd);
  if (failed) dlbsegment_discard(fd);
  return failed ? failed : map_part(out, file, start, size, read_only);
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
  if (trial == MAP_FAILED) return not_mapped();
  munmap(trial, size);
  return 0;
}

int dlbsegment_create(segment **out, size_t size) {
  int failed = check_size(size);
  if (failed) return failed;
  int fd = dlbsegment_above_standard((int)syscall(SYS_memfd_create, "dlbridge", WITH_CLOEXEC | WITH_SEALING));
  if (fd < 0) return errno;
  dlbsegment_file *file = malloc(sizeof *file);
  if (file == NULL) failed = ENOMEM;
  else if (ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) failed = errno;
  if (failed) {
    free(file);
    close(fd);
    return failed;
  }
  *file = (dlbsegment_file){.fd = fd, .holders = 1, .size = size, .own = 1};
  return map_part(out, file, 0, size, 0);
}

/* Returns memory that has no file as a segment. After an error the memory is unmapped. */
static int without_file(segment **out, char *base, uint64_t start, size_t size, int read_only) {
  dlbsegment_mapping *m = malloc(sizeof *m);
  if (m != NULL) *m = (dlbsegment_mapping){.base = base, .size = size, .start = start, .read_only = read_only, .holders = 1};
  const int failed = m == NULL ? ENOMEM : remember(m);
  if (!failed) return part_of_mapping(out, m, start, size);
  munmap(base, size);
  free(m);
  return failed;
}

int dlbsegment_copy(segment **out, int fd, uint64_t start, size_t size) {
  char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int failed = base == MAP_FAILED ? not_mapped() : 0;
  for (size_t done = 0; !failed && done < size;) {
    ssize_t n = pread(fd, base + done, size - done, (off_t)(start + done));
    if (n > 0) done += (size_t)n;
    else if (n == 0) failed = EINVAL;
    else if (errno != EINTR) failed = errno;
  }
  dlbsegment_discard(fd);
  if (!failed) return without_file(out, base, start, size, 0);
  if (base != MAP_FAILED) munmap(base, size);
  return failed;
}

void dlbsegment_release(void *ctx) {
  SEGMENT_WITHOUT_CANCELLATION;
  segment *s = ctx;
  drop_mapping(s->mapping);
  if (s->done != NULL) s->done(s->ctx);
  free(s);
}

size_t dlbsegment_file_size(const segment *s) { return s->mapping->file != NULL ? s->mapping->file->size : s->mapping->size; }

int dlbsegment_alias(segment **out, uintptr_t address, size_t size) {
  dlbsegment_file *file = NULL;
  uint64_t start = 0;
  uintptr_t within = address % (uintptr_t)sysconf(_SC_PAGESIZE);
  lock_known();
  const dlbsegment_mapping *found = with_memory(address, size);
  if (found != NULL && found->file != NULL) {
    file = found->file;
    file->holders++;
    start = found->start + (address - (uintptr_t)found->base) - within;
  }
  unlock_known();
  if (file != NULL) return map_part(out, file, start, size + within, 1);
  dlbsegment_place place;
  mapping m;
  int failed = find_of_others(address, size, &place);
  if (failed == 0) return dlbsegment_map(out, place.file, place.offset - within, size + within, 1);
  failed = mapping_at(&m, address);
  if (failed == ENOENT || (!failed && size > m.end - address)) return EINVAL;
  if (failed) return failed;
  void *base = mremap((void *)(address - within), 0, size + within, MREMAP_MAYMOVE); /* size 0 keeps the old mapping */
  if (base == MAP_FAILED) return not_mapped();
  if (mprotect(base, size + within, PROT_READ) == 0) return without_file(out, base, 0, size + within, 1);
  failed = errno;
  munmap(base, size + within);
  return failed;
}

/* ---- descriptors ------------------------------------------------------------------------------- */

int dlbsegment_open_named(int *fd, const char *directory, const char *name, int writable) {
  if (name[0] == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '/') != NULL) return EINVAL;
  const int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return errno;
  *fd = dlbsegment_above_standard(openat(dir, name, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const int failed = *fd < 0 ? errno : 0;
  close(dir);
  return failed == EISDIR || failed == ENXIO ? EINVAL : failed; /* a directory, a socket */
}

/* Returns the error of a hand-over of a file with these seals. */
static int refuses(int seals, int writable) {
  if (writable) return fixed_by(seals) && (seals & READ_ONLY_SEALS) ? EPERM : 0;
  if (seals < 0) return EINVAL; /* the file cannot have seals */
  if (!(seals & F_SEAL_SEAL) || (seals & READ_ONLY_SEALS)) return 0;
  return fixed_by(seals) ? EPERM : EACCES;
}

int dlbsegment_may_hand_over(int fd, int writable) { return refuses(fcntl(fd, F_GET_SEALS), writable); }

int dlbsegment_hand_over(int fd, int writable) {
  const int seals = fcntl(fd, F_GET_SEALS), failed = refuses(seals, writable);
  if (failed || (seals & READ_ONLY_SEALS) || (writable && (!fixed_by(seals) || (seals & F_SEAL_SEAL)))) return failed;
  if (fcntl(fd, F_ADD_SEALS, writable ? F_SEAL_SEAL : F_SEAL_FUTURE_WRITE) != 0 && errno != EPERM) return errno;
  const int now = fcntl(fd, F_GET_SEALS); /* another thread or process may have been faster */
  if (writable) return now >= 0 && (now & F_SEAL_SEAL) && !(now & READ_ONLY_SEALS) ? 0 : EPERM;
  if (now >= 0 && (now & READ_ONLY_SEALS)) return 0;
  return now >= 0 && (now & F_SEAL_SEAL) ? EPERM : EACCES;
}

int dlbsegment_check(int fd, uint64_t *size, int *fixed, int *writable) {
  struct stat status;
  if (fstat(fd, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EBADF;
  int seals = fcntl(fd, F_GET_SEALS);
  int mode = fcntl(fd, F_GETFL);
  *size = (uint64_t)status.st_size;
  struct statfs system;
  *fixed = fixed_by(seals) && fstatfs(fd, &system) == 0 && (unsigned long)system.f_type != HUGETLBFS_MAGIC;
  *writable = seals >= 0 && !(seals & READ_ONLY_SEALS) && mode >= 0 && (mode & O_ACCMODE) == O_RDWR;
  return 0;
}
#endif
