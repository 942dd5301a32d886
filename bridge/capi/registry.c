//go:build !dlbridge_shared

/* The registry of messages, elements and files, which programs refer to by their address.
 *
 * The objects are in slabs that are never freed. So the library can look up any address that a program passes without
 * reading the memory there, and recognises addresses of no object and of ended objects. Places of ended objects are
 * reused first in, first out, and only after KEPT_BACK other objects. Until then the library knows that the object has
 * ended. */
#include "capi.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct registry_entry entry;
struct registry_entry {
  union {
    dlb_message message;
    dlbcapi_elements elements;
    dlb_file file;
  } object;
  int64_t kind;
  entry *next;
};

/* Slab i has FIRST << i entries. */
enum { FIRST = 128, SLABS = 24, KEPT_BACK = 64 };

/* The free entries are a queue under the mutex. Entries of ended objects are pushed to `ended` without a lock, and move
 * to the queue when new objects need entries. A forked child needs no entries, because only Go makes these objects. */
static struct {
  entry *slabs[SLABS];
  uint32_t slab_count;
  int64_t live[CAPI_KINDS];
  pthread_mutex_t mutex;
  entry *first, *last, *ended;
  uint64_t free_count;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void append_entries(entry *chain) {
  while (chain != NULL) {
    entry *next = chain->next;
    chain->next = NULL;
    if (registry.last != NULL) registry.last->next = chain;
    else registry.first = chain;
    registry.last = chain;
    registry.free_count++;
    chain = next;
  }
}

static void grow(void) {
  if (registry.slab_count == SLABS) return;
  size_t count = (size_t)FIRST << registry.slab_count;
  entry *slab = calloc(count, sizeof *slab);
  if (slab == NULL) return;
  for (size_t i = 0; i + 1 < count; i++) slab[i].next = &slab[i + 1];
  append_entries(slab);
  registry.slabs[registry.slab_count] = slab;
  __atomic_store_n(&registry.slab_count, registry.slab_count + 1, __ATOMIC_RELEASE);
}

void *dlbcapi_object_new(void) {
  pthread_mutex_lock(&registry.mutex);
  if (registry.free_count <= KEPT_BACK) append_entries(__atomic_exchange_n(&registry.ended, NULL, __ATOMIC_ACQUIRE));
  if (registry.free_count <= KEPT_BACK) grow();
  entry *e = registry.free_count > KEPT_BACK ? registry.first : NULL;
  if (e != NULL) {
    registry.first = e->next;
    registry.free_count--;
  }
  pthread_mutex_unlock(&registry.mutex);
  return e;
}

static int message_is_live(const void *object) { return dlbcapi_object_kind(object) == CAPI_MESSAGE; }

static int elements_are_live(const void *object) { return dlbcapi_object_kind(object) == CAPI_ELEMENTS; }

static int file_is_live(const void *object) { return dlbcapi_object_kind(object) == CAPI_FILE; }

static const dlbcapi_ledger_kind ledger_kinds[CAPI_KINDS] = {[CAPI_MESSAGE] = {"message", message_is_live},
                                                          [CAPI_ELEMENTS] = {"elements", elements_are_live},
                                                          [CAPI_FILE] = {"file", file_is_live}};

/* Returns the bytes of the frames of a message, of the values of elements, or of the tensors of a file. */
static uint64_t bytes_of(const entry *e, dlbcapi_kind kind) {
  const dlb_message *message = &e->object.message;
  const dlb_elements *elements = &e->object.elements.seen;
  const dlb_file *file = &e->object.file;
  uint64_t bytes = 0;
  for (size_t i = 0; kind == CAPI_MESSAGE && i < message->frame_count; i++) bytes += message->frames[i].size;
  for (size_t i = 0; kind == CAPI_ELEMENTS && i < elements->count; i++) bytes += elements->values[i].size;
  for (size_t i = 0; kind == CAPI_FILE && i < file->count; i++) bytes += file->entries[i].size;
  return bytes;
}

void dlbcapi_object_publish(void *object, dlbcapi_kind kind) {
  entry *e = object;
  if (dlbcapi_ledger_on()) dlbcapi_ledger_enter(object, &ledger_kinds[kind], bytes_of(e, kind));
  __atomic_fetch_add(&registry.live[kind], 1, __ATOMIC_RELAXED);
  __atomic_store_n(&e->kind, kind, __ATOMIC_RELEASE);
}

static entry *find_entry(const void *object) {
  uint32_t count = __atomic_load_n(&registry.slab_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    uintptr_t offset = (uintptr_t)object - (uintptr_t)registry.slabs[i];
    if (offset / sizeof(entry) < (size_t)FIRST << i)
      return offset % sizeof(entry) == 0 ? (entry *)object : NULL;
  }
  return NULL;
}

dlbcapi_kind dlbcapi_object_kind(const void *object) {
  entry *e = find_entry(object);
  return e == NULL ? CAPI_FOREIGN : (dlbcapi_kind)__atomic_load_n(&e->kind, __ATOMIC_ACQUIRE);
}

int dlbcapi_object_end(void *object, dlbcapi_kind kind) {
  entry *e = find_entry(object);
  int64_t is = kind;
  if (e == NULL || !__atomic_compare_exchange_n(&e->kind, &is, CAPI_ENDED, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return 0;
  __atomic_fetch_sub(&registry.live[kind], 1, __ATOMIC_RELAXED);
  return 1;
}

/* An unused entry is zeroed. Otherwise leak checkers would mistake its old addresses for references to new memory
 * there. */
void dlbcapi_object_free(void *object) {
  entry *e = object, *top = __atomic_load_n(&registry.ended, __ATOMIC_RELAXED);
  memset(&e->object, 0, sizeof e->object);
  do {
    e->next = top;
  } while (!__atomic_compare_exchange_n(&registry.ended, &top, e, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

int64_t dlbcapi_objects_live(dlbcapi_kind kind) { return __atomic_load_n(&registry.live[kind], __ATOMIC_RELAXED); }
