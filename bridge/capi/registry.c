/* Handles: what a program holds of ours by its address, messages and elements. They lie in slabs that are
 * never given back, so that an address is looked up without touching what lies there: one that is none of ours,
 * or not any more, is told from one that is, whatever a program passes. What has ended is used again, first
 * in, first out, after KEPT_BACK others; until then it is known to have ended. */
#include "capi.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct handle handle;
struct handle {
  union {
    dlb_message message;
    capi_elements elements;
  } object;
  int64_t kind;
  handle *next;
};

/* Slab i has FIRST << i handles. */
enum { FIRST = 128, SLABS = 24, KEPT_BACK = 64 };

static handle *slabs[SLABS];
static uint32_t slab_count;
static int64_t live[CAPI_KINDS];

/* The free ones. Those that have ended are pushed without a lock, and come in here when they are needed. In a forked
 * child nobody needs any: what makes messages and elements is Go. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static handle *first, *last, *ended;
static uint64_t free_count;

static void append(handle *chain) {
  while (chain != NULL) {
    handle *next = chain->next;
    chain->next = NULL;
    if (last != NULL) last->next = chain;
    else first = chain;
    last = chain;
    free_count++;
    chain = next;
  }
}

static void grow(void) {
  if (slab_count == SLABS) return;
  size_t count = (size_t)FIRST << slab_count;
  handle *slab = calloc(count, sizeof *slab);
  if (slab == NULL) return;
  for (size_t i = 0; i + 1 < count; i++) slab[i].next = &slab[i + 1];
  append(slab);
  slabs[slab_count] = slab;
  __atomic_store_n(&slab_count, slab_count + 1, __ATOMIC_RELEASE);
}

void *capi_object_new(void) {
  pthread_mutex_lock(&mutex);
  if (free_count <= KEPT_BACK) append(__atomic_exchange_n(&ended, NULL, __ATOMIC_ACQUIRE));
  if (free_count <= KEPT_BACK) grow();
  handle *h = free_count > KEPT_BACK ? first : NULL;
  if (h != NULL) {
    first = h->next;
    free_count--;
  }
  pthread_mutex_unlock(&mutex);
  if (h == NULL) return NULL;
  memset(&h->object, 0, sizeof h->object);
  return h;
}

void capi_object_publish(void *object, capi_kind kind) {
  handle *h = object;
  __atomic_fetch_add(&live[kind], 1, __ATOMIC_RELAXED);
  __atomic_store_n(&h->kind, kind, __ATOMIC_RELEASE);
}

static handle *find(const void *object) {
  uint32_t count = __atomic_load_n(&slab_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    uintptr_t offset = (uintptr_t)object - (uintptr_t)slabs[i];
    if (offset / sizeof(handle) < (size_t)FIRST << i)
      return offset % sizeof(handle) == 0 ? (handle *)object : NULL;
  }
  return NULL;
}

capi_kind capi_object_kind(const void *object) {
  handle *h = find(object);
  return h == NULL ? CAPI_FOREIGN : (capi_kind)__atomic_load_n(&h->kind, __ATOMIC_ACQUIRE);
}

int capi_object_end(void *object, capi_kind kind) {
  handle *h = find(object);
  int64_t is = kind;
  if (h == NULL || !__atomic_compare_exchange_n(&h->kind, &is, CAPI_ENDED, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return 0;
  __atomic_fetch_sub(&live[kind], 1, __ATOMIC_RELAXED);
  return 1;
}

void capi_object_free(void *object) {
  handle *h = object, *top = __atomic_load_n(&ended, __ATOMIC_RELAXED);
  do {
    h->next = top;
  } while (!__atomic_compare_exchange_n(&ended, &top, h, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

int64_t capi_objects_live(capi_kind kind) { return __atomic_load_n(&live[kind], __ATOMIC_RELAXED); }
