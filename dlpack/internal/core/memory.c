//go:build !dlbridge_shared

/* memory.c: memory that the core allocates. */
#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void dlbcore_free(void *memory) {
  int saved = errno;
  free(memory);
  errno = saved;
}

#ifdef CORE_DEBUG
/* To detect use after free, each allocation has its own mapping: a page for the header, then the data. Freed memory
 * cannot be accessed. Its mapping is removed after LOCKED_MAPPINGS more allocations have been freed. */
enum { LOCKED_MAPPINGS = 1024 };
static void *locked[LOCKED_MAPPINGS];
static uint32_t locked_count;

static void *allocate(size_t header, size_t size, int zeroed) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  (void)zeroed;
  size = (header + CORE_ALIGNMENT + size + 2 * page - 1) & ~(page - 1);
  char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  *(size_t *)base = size;
  return base + page - CORE_ALIGNMENT;
}

void dlbcore_free_memory(void *memory) {
  int saved = errno;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *base = (char *)memory + CORE_ALIGNMENT - page;
  size_t size = *(size_t *)base;
  madvise(base + page, size - page, MADV_DONTNEED);
  mprotect(base, size, PROT_NONE);
  uint32_t turn = __atomic_fetch_add(&locked_count, 1, __ATOMIC_RELAXED) % LOCKED_MAPPINGS;
  void *oldest = __atomic_exchange_n(&locked[turn], base, __ATOMIC_ACQ_REL);
  if (oldest != NULL && mprotect(oldest, page, PROT_READ) == 0) munmap(oldest, *(size_t *)oldest);
  errno = saved;
}
#else
/* Under a tool (dlbcore_checked), the memory ends with the data, and access to the gap between header and data is
 * forbidden. */
static void *allocate(size_t header, size_t size, int zeroed) {
  size_t room = header + CORE_ALIGNMENT, start = room & ~(size_t)(CORE_ALIGNMENT - 1);
  if (!dlbcore_checked()) return zeroed ? calloc(1, room + size) : malloc(room + size);
  void *base;
  if (posix_memalign(&base, CORE_ALIGNMENT, start + size) != 0) return NULL;
  if (zeroed) memset(base, 0, start + size);
  dlbcore_forbid((char *)base + header, start - header);
  return base;
}

/* The allocator may belong to the program; it reuses the memory, and does not know about the gap. */
void dlbcore_free_memory(void *memory) {
  if (memory != NULL && dlbcore_checked()) dlbcore_permit(memory, CORE_ALIGNMENT);
  dlbcore_free(memory);
}
#endif

/* Asks for pages of 2 MiB for memory of 4 MiB or more, as NumPy does, so that a strided walk touches fewer pages. If
 * the system has no such pages, nothing is lost. */
static void enlarge_pages(uintptr_t data, size_t size) {
#if defined(MADV_HUGEPAGE)
  const uintptr_t page = 2 << 20;
  if (size < 2 * page) return;
  uintptr_t start = (data + page - 1) & ~(page - 1), end = (data + size) & ~(page - 1);
  madvise((void *)start, end - start, MADV_HUGEPAGE);
#else
  (void)data, (void)size;
#endif
}

/* Zeroed memory comes from calloc, which does not write to large memory that the system has zeroed. */
void *dlbcore_allocate_memory(size_t header, size_t size, int zeroed, void **data) {
  size_t room = header + CORE_ALIGNMENT;
  if (size > PTRDIFF_MAX - room) return NULL;
  char *base = allocate(header, size, zeroed);
  if (base == NULL) return NULL;
  uintptr_t start = ((uintptr_t)base + room) & ~(uintptr_t)(CORE_ALIGNMENT - 1);
  enlarge_pages(start, size);
  *data = (void *)start;
  return base;
}

/* The list of all lasting memory. It is for leak checkers, which do not follow Go's pointers, and would report memory
 * to which only Go refers. */
typedef struct lasting lasting;
struct lasting {
  lasting *next;
};

static lasting *all_lasting;

void *dlbcore_allocate_lasting(size_t size) {
  enum { CACHE_LINE = 64 };
  lasting *made = calloc(1, sizeof *made + CACHE_LINE + size); /* which does not touch large memory */
  if (made == NULL) return NULL;
  lasting *top = __atomic_load_n(&all_lasting, __ATOMIC_RELAXED);
  do {
    made->next = top;
  } while (!__atomic_compare_exchange_n(&all_lasting, &top, made, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
  return (void *)(((uintptr_t)(made + 1) + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
}

void *dlbcore_map_pages(size_t size) {
  void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

/* If the system does not take the pages back, their blocks must still read as free. */
void dlbcore_clear_pages(void *pages, size_t size) {
#if defined(__linux__)
  if (madvise(pages, size, MADV_DONTNEED) == 0) return;
#endif
  memset(pages, 0, size);
}
