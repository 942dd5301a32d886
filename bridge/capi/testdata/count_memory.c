/* Counts the memory that C code has in use, and the maximum of it. The functions replace those of the C library if they are
 * linked into a program with -rdynamic, or loaded by LD_PRELOAD. */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static int64_t used, most;

static void *taken(void *memory) {
  if (memory == NULL) return NULL;
  int64_t size = (int64_t)malloc_usable_size(memory);
  int64_t now = __atomic_add_fetch(&used, size, __ATOMIC_RELAXED), old = __atomic_load_n(&most, __ATOMIC_RELAXED);
  while (now > old && !__atomic_compare_exchange_n(&most, &old, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return memory;
}

static void given_back(void *memory) {
  if (memory != NULL) __atomic_sub_fetch(&used, (int64_t)malloc_usable_size(memory), __ATOMIC_RELAXED);
}

void *malloc(size_t size) { return taken(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) { return taken(__libc_calloc(count, size)); }

void *realloc(void *old, size_t size) {
  given_back(old);
  void *memory = __libc_realloc(old, size);
  if (memory == NULL && size > 0) taken(old);
  return taken(memory);
}

void *memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
  void *memory = memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *out = memory;
  return 0;
}

void free(void *memory) {
  given_back(memory);
  __libc_free(memory);
}

/* Begins a measurement. */
void count_begin(void);
void count_begin(void) { __atomic_store_n(&most, __atomic_load_n(&used, __ATOMIC_RELAXED), __ATOMIC_RELAXED); }

/* Return the maximum number of bytes in use since then, and the current number. */
int64_t count_most(void);
int64_t count_most(void) { return __atomic_load_n(&most, __ATOMIC_RELAXED); }
int64_t count_used(void);
int64_t count_used(void) { return __atomic_load_n(&used, __ATOMIC_RELAXED); }
