//go:build !dlbridge_shared

/* export.c: exports without Go, for the C library and the Python extension. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>

/* A cell: a block, and a share right behind it. While the share is in use, the block serves only the first export of
 * that share, has no return queue, and is returned with the share. While the share is not in use, the block serves any
 * export. */
typedef struct {
  dlbcore_block block;
  dlbcore_share share;
  uintptr_t link;
} __attribute__((aligned(64))) cell;

/* A block cache. Dead blocks come back through the return queue. They are reused first in, first out, after
 * CORE_QUARANTINE more exports of the cache. */
typedef struct {
  pthread_mutex_t mutex; /* unused for cells: their callers exclude each other */
  dlbcore_return_queue returns;
  int32_t rank;
  uint32_t free;             /* number of blocks from first to last */
  uint64_t exports;
  dlbcore_block *first, *last;
  dlbcore_block *fresh;         /* blocks that were never used */
  uintptr_t all;             /* the block that was made last (see CORE_HIDDEN) */
} block_cache;

/* One cache for each rank that blocks have room for, so that a block is not much larger than its dimensions need, and
 * one cache of cells. */
enum { RANKS = 6, CELLS = RANKS, CACHES };

#define CACHE(ranks) {.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = ranks, .all = CORE_HIDDEN(0)}

/* All blocks of a cache are in a list, for counting. Its addresses are hidden. */
static block_cache caches[CACHES] = {CACHE(CORE_RANK_SMALL), CACHE(16), CACHE(32), CACHE(64), CACHE(128), CACHE(CORE_RANK_MAX),
                                           [CELLS] = CACHE(CORE_RANK_SMALL)};

/* Returns the place of the link to the previously made block: behind the block, or behind the share of a cell. */
static uintptr_t *link_of(const block_cache *cache, dlbcore_block *block) {
  if (cache == &caches[CELLS]) return &((cell *)block)->link;
  return (uintptr_t *)((char *)block + dlbcore_block_size(cache->rank));
}

/* The number of exports for which a dead block of the cache rests. Leak checkers name the call that allocated a lost
 * block. That is the wrong call if the block was reused. */
static uint64_t quarantine(const block_cache *cache) {
  return cache != &caches[CELLS] && dlbcore_checked() ? CORE_QUARANTINE_CHECKED : CORE_QUARANTINE;
}

static dlbcore_block *newest(const block_cache *cache) { return (dlbcore_block *)CORE_HIDDEN(__atomic_load_n(&cache->all, __ATOMIC_ACQUIRE)); }

static dlbcore_block *older(const block_cache *cache, dlbcore_block *block) { return (dlbcore_block *)CORE_HIDDEN(*link_of(cache, block)); }

/* Moves all blocks from the return queue to the end of the free ones. */
static void cache_drain(block_cache *cache) {
  dlbcore_block *block = __atomic_exchange_n(&cache->returns.top, NULL, __ATOMIC_ACQUIRE);
  while (block != NULL) {
    dlbcore_block *next = block->next;
    block->next = NULL;
    block->since = cache->exports;
    __atomic_store_n(&block->state, CORE_FREE, __ATOMIC_RELAXED);
    if (cache->free > 0) cache->last->next = block;
    else cache->first = block;
    cache->last = block;
    cache->free++;
    block = next;
  }
}

/* Makes new blocks. Each block for C programs is a separate allocation, and after it is handed out only its holder
 * refers to it. So leak checkers report a lost block together with everything that it keeps alive. Cells are the blocks
 * for Python. Leak checkers cannot look into Python's memory, so an allocation may hold many cells. The first call
 * makes spare blocks, so that not every later export has to look for dead blocks. Under a tool (dlbcore_checked) it
 * makes no spare blocks, so that the export that uses a block has also allocated it. */
static void cache_grow(block_cache *cache) {
  int cells = cache == &caches[CELLS], count = cells || (cache->all == CORE_HIDDEN(0) && !dlbcore_checked()) ? 2 * CORE_QUARANTINE : 1;
  char *slab = cells ? dlbcore_allocate_lasting((size_t)count * sizeof(cell)) : NULL;
  for (int i = 0; i < count; i++) {
    dlbcore_block *block;
    if (cells) block = slab == NULL ? NULL : &((cell *)(void *)slab)[i].block;
    else block = calloc(1, dlbcore_block_size(cache->rank) + sizeof(uintptr_t));
    if (block == NULL) return;
    block->returns = &cache->returns;
    block->next = cache->fresh;
    cache->fresh = block;
    *link_of(cache, block) = cache->all;
    __atomic_store_n(&cache->all, CORE_HIDDEN(block), __ATOMIC_RELEASE);
  }
}

static dlbcore_block *cache_take(block_cache *cache) {
  uint64_t rest = quarantine(cache);
  cache->exports++;
  if (cache->free <= rest + 1) cache_drain(cache); /* `rest` blocks rest; the others can be used */
  if (cache->fresh == NULL && (cache->free == 0 || cache->exports - cache->first->since <= rest)) cache_grow(cache);
  dlbcore_block *block = cache->fresh;
  if (block != NULL) {
    cache->fresh = block->next;
  } else {
    if (cache->free == 0 || cache->exports - cache->first->since <= rest) return NULL;
    block = cache->first;
    cache->first = block->next;
    if (--cache->free == 0) cache->last = NULL; /* leak checkers would take it for a reference to the block */
  }
  block->next = NULL; /* the holder of this block must not refer to the next one */
  block->since = cache->exports; /* the number of this export */
  return block;
}

static dlbcore_block *take_block(int32_t ndim) {
  block_cache *cache = caches;
  while (cache->rank < ndim) cache++;
  pthread_mutex_lock(&cache->mutex);
  dlbcore_block *block = cache_take(cache);
  pthread_mutex_unlock(&cache->mutex);
  return block;
}

/* All caches are locked around a fork, so that no cache is half changed in the child. The child uses the free blocks of
 * the caches. It may be unable to allocate other blocks: another thread may have been in the allocator at the fork, and
 * not every allocator handles that. */
static void lock_caches(void) {
  for (int i = 0; i < CACHES; i++) pthread_mutex_lock(&caches[i].mutex);
}

static void unlock_caches(void) {
  for (int i = 0; i < CACHES; i++) pthread_mutex_unlock(&caches[i].mutex);
}

static int forked;

static void note_fork(void) {
  __atomic_store_n(&forked, 1, __ATOMIC_RELAXED);
  unlock_caches();
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(lock_caches, unlock_caches, note_fork); }

int dlbcore_forked(void) { return __atomic_load_n(&forked, __ATOMIC_RELAXED); }

const int *dlbcore_fork_mark(void) { return &forked; }

typedef void export_watcher(const dlbcore_block *block, const DLTensor *tensor, int versioned);
static export_watcher *watcher;

void dlbcore_watch_exports(export_watcher *made) { __atomic_store_n(&watcher, made, __ATOMIC_RELAXED); }

/* Exports a tensor in a block that was taken for it, and adds a share for the block. Returns NULL if the block is NULL.
 * On the host, adds byte_offset to data, and sets data to NULL if there are no elements. */
static inline void *export(dlbcore_block *block, dlbcore_share *share, const DLTensor *view, int versioned, uint64_t flags) {
  if (block == NULL) return NULL;
  dlbcore_share_retain(share);
  DLTensor *out = versioned ? &block->managed.versioned.dl_tensor : &block->managed.legacy.dl_tensor;
  if (versioned) {
    block->managed.versioned.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    block->managed.versioned.manager_ctx = block;
    block->managed.versioned.deleter = dlbcore_delete_versioned;
    block->managed.versioned.flags = flags;
  } else {
    block->managed.legacy.manager_ctx = block;
    block->managed.legacy.deleter = dlbcore_delete_legacy;
  }
  int32_t ndim = view->ndim;
  int64_t *shape = block->dims, *strides = block->dims + ndim;
  int empty = 0;
  for (int32_t d = 0; d < ndim; d++) {
    shape[d] = view->shape[d];
    empty |= shape[d] == 0;
  }
  if (view->strides != NULL) {
    for (int32_t d = 0; d < ndim; d++) strides[d] = view->strides[d];
  } else {
    dlbcore_set_row_major(strides, shape, ndim);
  }
  *out = *view;
  if (dlbcore_host_readable(view->device.device_type)) {
    out->data = empty ? NULL : (char *)view->data + view->byte_offset;
    out->byte_offset = 0;
  }
  out->shape = shape;
  out->strides = strides;
  block->data = &out->data;
  __atomic_store_n(&block->share, share, __ATOMIC_RELAXED);
  export_watcher *exported = __atomic_load_n(&watcher, __ATOMIC_RELAXED);
  if (__builtin_expect(exported != NULL, 0)) exported(block, out, versioned);
  __atomic_store_n(&block->state, CORE_LIVE, __ATOMIC_RELEASE);
  return block;
}

DLManagedTensorVersioned *dlbcore_export_versioned(dlbcore_share *share, const DLTensor *view,
                                                   uint64_t flags) {
  return export(take_block(view->ndim), share, view, 1, flags);
}

DLManagedTensor *dlbcore_export_legacy(dlbcore_share *share, const DLTensor *view) {
  return export(take_block(view->ndim), share, view, 0, 0);
}

static dlbcore_block *block_of(dlbcore_share *share) { return (dlbcore_block *)share - 1; }

static void release_cell(dlbcore_share *share) {
  void (*lender)(void *) = share->lender;
  void *ctx = share->ctx;
  dlbcore_block *block = block_of(share);
  dlbcore_return(&caches[CELLS].returns, block, &block->next);
  dlbcore_release_lent(lender, ctx);
}

dlbcore_share *dlbcore_hold_unlocked(void (*lender)(void *ctx), void *ctx) {
  cell *cell = (void *)cache_take(&caches[CELLS]);
  if (cell == NULL) return NULL;
  dlbcore_share *share = &cell->share;
  share->data = NULL; /* it may have linked the share to others that waited for their release */
  share->release = release_cell;
  share->lender = lender;
  share->ctx = ctx;
  __atomic_store_n(&share->count, 1, __ATOMIC_RELAXED);
  return share;
}

int64_t dlbcore_held_unlocked(void (*lender)(void *ctx)) {
  int64_t held = 0;
  block_cache *cells = &caches[CELLS];
  for (dlbcore_block *block = newest(cells); block != NULL; block = older(cells, block)) {
    dlbcore_share *share = &((cell *)block)->share;
    held += __atomic_load_n(&share->count, __ATOMIC_RELAXED) > 0 && share->lender == lender;
  }
  return held;
}

/* Takes a block for an export of `share`. For the first export of a cell's share, it is the block of that cell. */
static dlbcore_block *take_unlocked(dlbcore_share *share, int32_t ndim) {
  if (ndim > CORE_RANK_SMALL) return take_block(ndim);
  int own = share->release == release_cell && dlbcore_block_state(block_of(share)) == CORE_FREE;
  dlbcore_block *block = own ? block_of(share) : cache_take(&caches[CELLS]);
  if (block != NULL) block->returns = own ? NULL : &caches[CELLS].returns;
  return block;
}

DLManagedTensorVersioned *dlbcore_export_versioned_unlocked(dlbcore_share *share, const DLTensor *view,
                                                            uint64_t flags) {
  return export(take_unlocked(share, view->ndim), share, view, 1, flags);
}

DLManagedTensor *dlbcore_export_legacy_unlocked(dlbcore_share *share, const DLTensor *view) {
  return export(take_unlocked(share, view->ndim), share, view, 0, 0);
}

static dlbcore_block *block_of_managed(const void *managed, int versioned) {
  return versioned ? dlbcore_block_of_versioned(managed) : dlbcore_block_of_legacy(managed);
}

int dlbcore_claim(void *managed, int versioned) {
  dlbcore_block *block = block_of_managed(managed, versioned);
  if (block != NULL) return dlbcore_block_claim(block);
  if (versioned) return ((DLManagedTensorVersioned *)managed)->deleter != dlbcore_delete_versioned;
  return ((DLManagedTensor *)managed)->deleter != dlbcore_delete_legacy;
}

void dlbcore_unclaim(void *managed, int versioned) {
  dlbcore_block *block = block_of_managed(managed, versioned);
  if (block != NULL) dlbcore_block_return(block);
}

int64_t dlbcore_live_exports(void) {
  int64_t live = 0;
  for (int i = 0; i < CACHES; i++) {
    for (dlbcore_block *block = newest(&caches[i]); block != NULL; block = older(&caches[i], block)) {
      int state = dlbcore_block_state(block);
      live += state == CORE_LIVE || state == CORE_TAKEN;
    }
  }
  return live;
}
