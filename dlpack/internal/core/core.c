#include "core.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(core_block) == 256, "Go lays a struct over core_block");
_Static_assert(offsetof(core_block, managed) == 0, "deleters find their block at the tensor");
_Static_assert(sizeof(core_home) == 64, "a home is one cache line");

/* ---- fork ------------------------------------------------------------------------------------ */

static int forked;

static void lock_pools(void);
static void unlock_pools(void);

static void note_fork(void) {
  __atomic_store_n(&forked, 1, __ATOMIC_RELAXED);
  unlock_pools();
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(lock_pools, unlock_pools, note_fork); }

int core_forked(void) { return __atomic_load_n(&forked, __ATOMIC_RELAXED); }

/* ---- releases -------------------------------------------------------------------------------- */

void core_release_versioned(DLManagedTensorVersioned *managed) {
  if (managed->deleter == core_delete_versioned) core_block_end((core_block *)managed);
  else if (managed->deleter != NULL) managed->deleter(managed);
}

void core_release_legacy(DLManagedTensor *managed) {
  if (managed->deleter == core_delete_legacy) core_block_end((core_block *)managed);
  else if (managed->deleter != NULL) managed->deleter(managed);
}

void core_release_lent(void (*lender)(void *ctx), void *ctx) {
  if (lender != NULL) lender(ctx);
}

/* ---- shares ---------------------------------------------------------------------------------- */

void core_share_take(core_share *share) { __atomic_fetch_add(&share->count, 1, __ATOMIC_RELAXED); }

/* The releases that are running on this thread, by the frames of core_share_end that run them, the outermost first,
 * and the shares that wait for the innermost to return. The list goes through the shares themselves, so that it needs
 * no memory. These words are thread-local in the default model: a model that asks for static TLS would make dlopen of
 * the Python extension fail in processes that have used it up. There glibc allocates them when a thread first releases
 * something. */
typedef struct {
  int running;
  core_share *first, *last;
  uintptr_t frames[CORE_NESTED];
} release_list;

static __thread release_list releases;

/* Out of the way of the common case. */
__attribute__((noinline)) static void wait_for_release(release_list *list, core_share *share) {
  share->data = NULL;
  if (list->first != NULL) list->last->data = share;
  else list->first = share;
  list->last = share;
}

__attribute__((noinline)) static void release_waiting(release_list *list) {
  while (list->first != NULL) {
    core_share *share = list->first;
    list->first = share->data;
    share->release(share);
  }
}

/* A release that panics in Go, or jumps out, never comes back to its frame here, and would be counted for ever. Stacks
 * grow downwards: a frame that is not above the present one is left over from such a release, and is counted no longer.
 * On a program's other stacks frames may look left over while they are not. Then more releases run inside each other,
 * CORE_NESTED for each frame on a stack above, and nothing else changes. */
__attribute__((noinline)) static int releases_around(const release_list *list, uintptr_t frame) {
  int running = list->running;
  while (running > 0 && list->frames[running - 1] <= frame) running--;
  return running;
}

void core_share_end(core_share *share) {
  release_list *list = &releases;
  __asm__("" : "+r"(list)); /* or else its address would be looked up for each use */
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0); /* AddressSanitizer moves locals to other stacks, not this */
  int running = list->running == 0 ? 0 : releases_around(list, frame);
  if (running == CORE_NESTED) {
    wait_for_release(list, share);
    return;
  }
  list->frames[running] = frame;
  list->running = running + 1;
  share->release(share);
  if (list->first != NULL) release_waiting(list); /* at CORE_NESTED, or where what was to do so has not come back */
  list->running = running;
}

void core_share_drop(core_share *share) {
  if (core_share_leave(share)) core_share_end(share);
}

/* free, which does not keep errno everywhere. */
static void keep_errno_free(void *memory) {
  int saved = errno;
  free(memory);
  errno = saved;
}

#ifdef CORE_DEBUG
/* Where use after the end is to be found out, memory of our own lies in a mapping of its own: a page for
 * the share, then the data. Once it has ended, nobody may touch it, until the mapping goes with the
 * thousandth after it. */
enum { LOCKED_MAPPINGS = 1024 };
static void *locked[LOCKED_MAPPINGS];
static uint32_t locked_count;

static void *allocate(size_t size, int zeroed) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  (void)zeroed;
  size = (size + 2 * page - 1) & ~(page - 1);
  char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  *(size_t *)base = size;
  return base + page - CORE_ALIGNMENT;
}

static void release_allocation(core_share *share) {
  int saved = errno;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *base = (char *)share->ctx + CORE_ALIGNMENT - page;
  size_t size = *(size_t *)base;
  madvise(base + page, size - page, MADV_DONTNEED);
  mprotect(base, size, PROT_NONE);
  uint32_t turn = __atomic_fetch_add(&locked_count, 1, __ATOMIC_RELAXED) % LOCKED_MAPPINGS;
  void *oldest = __atomic_exchange_n(&locked[turn], base, __ATOMIC_ACQ_REL);
  if (oldest != NULL && mprotect(oldest, page, PROT_READ) == 0) munmap(oldest, *(size_t *)oldest);
  errno = saved;
}
#else
static void *allocate(size_t size, int zeroed) { return zeroed ? calloc(1, size) : malloc(size); }

static void release_allocation(core_share *share) { keep_errno_free(share->ctx); }
#endif

static void release_loan(core_share *share) {
  void (*lender)(void *) = share->lender;
  void *ctx = share->ctx;
  keep_errno_free(share);
  core_release_lent(lender, ctx);
}

static void release_share_versioned(core_share *share) {
  DLManagedTensorVersioned *managed = share->ctx;
  keep_errno_free(share);
  core_release_versioned(managed);
}

static void release_share_legacy(core_share *share) {
  DLManagedTensor *managed = share->ctx;
  keep_errno_free(share);
  core_release_legacy(managed);
}

/* Asks for large pages under large memory, as NumPy does: a strided walk looks up fewer of them. Where the
 * system has none to give, nothing is lost. */
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

/* The share is the beginning of one allocation, as valgrind wants it, which else calls it possibly lost, and the data
 * lies behind it. Zeroed memory comes from calloc, which gets large ones from the system untouched. */
core_share *core_share_alloc(size_t size, int zeroed) {
  size_t room = sizeof(core_share) + CORE_ALIGNMENT;
  if (size > PTRDIFF_MAX - room) return NULL;
  char *base = allocate(size + room, zeroed);
  if (base == NULL) return NULL;
  uintptr_t data = ((uintptr_t)base + room) & ~(uintptr_t)(CORE_ALIGNMENT - 1);
  enlarge_pages(data, size);
  core_share *share = (core_share *)base;
  share->count = 1;
  share->release = release_allocation;
  share->lender = NULL;
  share->ctx = base;
  share->data = (void *)data;
  return share;
}

static core_share *make_share(void (*release)(core_share *), void (*lender)(void *), void *ctx) {
  core_share *share = calloc(1, sizeof *share);
  if (share == NULL) return NULL;
  share->count = 1;
  share->release = release;
  share->lender = lender;
  share->ctx = ctx;
  return share;
}

core_share *core_share_lend(void (*lender)(void *ctx), void *ctx) {
  return make_share(release_loan, lender, ctx);
}

core_share *core_share_versioned(DLManagedTensorVersioned *managed) {
  return make_share(release_share_versioned, NULL, managed);
}

core_share *core_share_legacy(DLManagedTensor *managed) {
  return make_share(release_share_legacy, NULL, managed);
}

/* ---- waking Go ------------------------------------------------------------------------------- */

static int wake_fd = -1;
static int64_t wake_threshold = 1 << 20;
static int64_t dead_bytes;

void core_wake_by(int fd) { __atomic_store_n(&wake_fd, fd, __ATOMIC_RELEASE); }

int64_t core_wake_at(int64_t threshold) {
  return __atomic_exchange_n(&wake_threshold, threshold, __ATOMIC_RELAXED);
}

int64_t *core_wake_bytes(void) { return &dead_bytes; }

/* Writes once when the bytes pass the threshold; the next time is after Go has reset them. In a
 * forked child the descriptor is the parent's. */
static void wake(int64_t bytes) {
  int64_t before = __atomic_fetch_add(&dead_bytes, bytes, __ATOMIC_RELEASE); /* behind the push */
  int64_t threshold = __atomic_load_n(&wake_threshold, __ATOMIC_RELAXED);
  if (before >= threshold || before + bytes < threshold) return;
  int fd = __atomic_load_n(&wake_fd, __ATOMIC_ACQUIRE);
  if (fd < 0 || core_forked()) return;
  int saved = errno;
  uint64_t one = 1;
  ssize_t written = write(fd, &one, sizeof one); /* fails only when it is full: Go wakes anyway */
  (void)written;
  errno = saved;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint64_t double_deletes;

uint64_t core_double_deletes(void) { return __atomic_load_n(&double_deletes, __ATOMIC_RELAXED); }

/* The block may be in use again as soon as it is pushed. */
static void push_dead(core_home *home, core_block *block) {
  core_block *top = __atomic_load_n(&home->dead, __ATOMIC_RELAXED);
  do {
    block->next = top;
  } while (!__atomic_compare_exchange_n(&home->dead, &top, block, 1, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

/* What CORE_TAKEN has and CORE_LIVE has not. */
enum { TAKEN = CORE_TAKEN & ~CORE_LIVE };

/* A block of a ring stays where it is, with its share or pin, ready for the next export. One whose share
 * lies right behind it goes home with the share. Any other is pushed. Only Go's memory has to wait for
 * Go, so that only its bytes are counted: after the push, so that what Go has not reaped is never
 * uncounted. `taken` is TAKEN for calls that end what was taken over, too. */
static inline void delete_block(core_block *block, uint64_t taken) {
  uint64_t state = __atomic_load_n(&block->state, __ATOMIC_RELAXED), then;
  do {
    then = state & ~taken;
    if ((then & CORE_STATES) != CORE_LIVE) {
      __atomic_fetch_add(&double_deletes, 1, __ATOMIC_RELAXED);
      return;
    }
    then = then == CORE_LIVE ? CORE_DEAD : then | CORE_IDLE;
  } while (!__atomic_compare_exchange_n(&block->state, &state, then, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  if (then != CORE_DEAD) return;
  core_share *share = block->share;
  core_home *home = block->home;
  int64_t bytes = (int64_t)(block->payload + sizeof *block);
  if (share != (core_share *)(block + 1)) push_dead(home, block);
  if (share != NULL) core_share_drop(share);
  else wake(bytes);
}

void core_delete_versioned(DLManagedTensorVersioned *self) { delete_block((core_block *)self, 0); }

void core_delete_legacy(DLManagedTensor *self) { delete_block((core_block *)self, 0); }

void core_block_end(core_block *block) { delete_block(block, TAKEN); }

/* Nobody else changes whether a live block is taken; but what stands above may change meanwhile, where Go lets the block
 * of a ring go. */
int core_block_take(core_block *block) {
  uint64_t state = __atomic_load_n(&block->state, __ATOMIC_RELAXED);
  do {
    if ((state & CORE_STATES) != CORE_LIVE) return 0;
  } while (!__atomic_compare_exchange_n(&block->state, &state, state | TAKEN, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  return 1;
}

void core_block_return(core_block *block) {
  __atomic_fetch_and(&block->state, ~(uint64_t)TAKEN, __ATOMIC_RELEASE);
}

static size_t block_size(int32_t rank) {
  size_t more = rank > CORE_RANK_SMALL ? (size_t)(rank - CORE_RANK_SMALL) : 0;
  return sizeof(core_block) + 2 * more * sizeof(int64_t);
}

/* Memory that is never given back: a list of all there is starts in C. Leak checkers do not look into Go's memory, and
 * would report what is referenced from nowhere else. */
typedef struct lasting lasting;
struct lasting {
  lasting *next;
} __attribute__((aligned(64)));

static lasting *all_lasting;

static void *allocate_lasting(size_t size) {
  lasting *made = NULL;
  if (posix_memalign((void **)&made, 64, sizeof *made + size) != 0) return NULL;
  memset(made, 0, sizeof *made + size);
  lasting *top = __atomic_load_n(&all_lasting, __ATOMIC_RELAXED);
  do {
    made->next = top;
  } while (!__atomic_compare_exchange_n(&all_lasting, &top, made, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
  return made + 1;
}

static core_block *make_slab(core_home *home, size_t size, uint32_t count, uint32_t first_slot) {
  char *slab = allocate_lasting(size * count + 1); /* one more: no share of another's lies right behind the last */
  if (slab == NULL) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    core_block *block = (core_block *)(slab + i * size);
    block->home = home;
    block->slot = (uint64_t)first_slot + i;
    block->next = i + 1 < count ? (core_block *)(slab + (i + 1) * size) : NULL;
  }
  return (core_block *)slab;
}

core_block *core_slab(core_home *home, uint32_t count, uint32_t first_slot) {
  return make_slab(home, block_size(home->rank), count, first_slot);
}

core_home *core_homes(int32_t count) { return allocate_lasting((size_t)count * sizeof(core_home)); }

/* ---- exports without Go ---------------------------------------------------------------------- */

/* A block, and a share that lies right behind it. In use for both, it is the share's: the block is there
 * for the first export on it, and goes home with it. */
typedef struct {
  core_block block;
  core_share share;
  uintptr_t link;
} __attribute__((aligned(64))) cell;

/* Blocks that C code exports: one pool for each kind, first in, first out. */
typedef struct {
  pthread_mutex_t mutex; /* of the cells nobody's: their callers take turns */
  core_home home;
  core_block *first, *last;
  uint32_t free;
  uintptr_t all; /* the block that was made last, hidden */
} pool;

/* Pools of blocks by the rank that they have room for, so that a block costs about what its dimensions need, and one of
 * cells. */
enum { RANKS = 6, CELLS = RANKS, POOLS };

#define POOL(ranks) {.mutex = PTHREAD_MUTEX_INITIALIZER, .home = {.drainer = -1, .rank = ranks}, .all = HIDDEN(0)}

/* All blocks of a pool are in a list, for those who count. Its addresses are hidden: a pointer to a block that is live
 * would hide from leak checkers that its holder has lost it. */
#define HIDDEN(block) (~(uintptr_t)(block))

static pool pools[POOLS] = {POOL(CORE_RANK_SMALL), POOL(16), POOL(32), POOL(64), POOL(128), POOL(CORE_RANK_MAX),
                            [CELLS] = POOL(CORE_RANK_SMALL)};

/* The link to the block that was made before stands behind a block, and behind the share of a cell. */
static uintptr_t *link_of(const pool *pool, core_block *block) {
  if (pool == &pools[CELLS]) return &((cell *)block)->link;
  return (uintptr_t *)((char *)block + block_size(pool->home.rank));
}

static core_block *newest(const pool *pool) { return (core_block *)HIDDEN(__atomic_load_n(&pool->all, __ATOMIC_ACQUIRE)); }

static core_block *older(const pool *pool, core_block *block) { return (core_block *)HIDDEN(*link_of(pool, block)); }

static void pool_append(pool *pool, core_block *block) {
  while (block != NULL) {
    core_block *next = block->next;
    __atomic_store_n(&block->state, CORE_FREE, __ATOMIC_RELAXED);
    block->next = NULL;
    if (pool->last != NULL) pool->last->next = block;
    else pool->first = block;
    pool->last = block;
    pool->free++;
    block = next;
  }
}

/* With the link in its allocation, no share of another's lies right behind a block: see delete_block. */
static core_block *make_block(core_home *home) {
  core_block *block = calloc(1, block_size(home->rank) + sizeof(uintptr_t));
  if (block != NULL) block->home = home;
  return block;
}

/* Makes one block in an allocation of its own, which only its holder refers to, so that leak checkers report it with all
 * that it shares once it is lost. The cells of those who take turns are Python's, whose memory leak checkers do not look
 * into: they lie in slabs. */
static int pool_grow(pool *pool) {
  core_block *made = pool == &pools[CELLS] ? make_slab(&pool->home, sizeof(cell), 2 * CORE_QUARANTINE, 0)
                                           : make_block(&pool->home);
  for (core_block *block = made; block != NULL; block = block->next) {
    *link_of(pool, block) = pool->all;
    __atomic_store_n(&pool->all, HIDDEN(block), __ATOMIC_RELEASE);
  }
  pool_append(pool, made);
  return made != NULL;
}

static core_block *pool_take(pool *pool) {
  if (pool->free <= CORE_QUARANTINE) {
    pool_append(pool, __atomic_exchange_n(&pool->home.dead, NULL, __ATOMIC_ACQUIRE));
  }
  if (pool->free <= CORE_QUARANTINE) {
    /* At first there are more to spare, so that not every export looks for dead ones. */
    uint32_t enough = pool->all == HIDDEN(0) ? 2 * CORE_QUARANTINE : CORE_QUARANTINE + 1;
    while (pool->free < enough && pool_grow(pool)) {
    }
    if (pool->free <= CORE_QUARANTINE) return NULL;
  }
  core_block *block = pool->first;
  pool->first = block->next;
  pool->free--;
  block->next = NULL; /* who holds this block does not refer to the next one's */
  return block;
}

static core_block *take_block(int32_t ndim) {
  pool *pool = pools;
  while (pool->home.rank < ndim) pool++;
  pthread_mutex_lock(&pool->mutex);
  core_block *block = pool_take(pool);
  pthread_mutex_unlock(&pool->mutex);
  return block;
}

/* Around a fork nobody is in a pool, so that none is half done in the child. There it has the blocks that are free: to make
 * as many anew may be impossible, where another thread was in the allocator, and the allocator does not see to that. */
static void lock_pools(void) {
  for (int i = 0; i < POOLS; i++) pthread_mutex_lock(&pools[i].mutex);
}

static void unlock_pools(void) {
  for (int i = 0; i < POOLS; i++) pthread_mutex_unlock(&pools[i].mutex);
}

/* Only a shape without elements can overflow here, and then no stride is ever followed. */
static void row_major_strides(int64_t *strides, const int64_t *shape, int32_t ndim) {
  int64_t step = 1;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    strides[d] = step;
    if (shape[d] > 1 && __builtin_mul_overflow(step, shape[d], &step)) step = INT64_MAX;
  }
}

/* Memory that the host can address gets its offset folded into data. */
static void fill_block(core_share *share, const DLTensor *view, DLTensor *out, core_block *block) {
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
    row_major_strides(strides, shape, ndim);
  }
  out->data = view->data;
  out->byte_offset = view->byte_offset;
  if (core_host_readable(view->device.device_type)) {
    out->data = empty ? NULL : (char *)view->data + view->byte_offset;
    out->byte_offset = 0;
  }
  out->device = view->device;
  out->ndim = ndim;
  out->dtype = view->dtype;
  out->shape = shape;
  out->strides = strides;
  block->share = share;
  block->payload = 0;
  __atomic_store_n(&block->state, CORE_LIVE, __ATOMIC_RELEASE);
}

static DLManagedTensorVersioned *export_versioned(core_block *block, core_share *share,
                                                  const DLTensor *view, uint64_t flags) {
  DLManagedTensorVersioned *managed = &block->managed.versioned;
  managed->version.major = DLPACK_MAJOR_VERSION;
  managed->version.minor = DLPACK_MINOR_VERSION;
  managed->manager_ctx = block;
  managed->deleter = core_delete_versioned;
  managed->flags = flags;
  fill_block(share, view, &managed->dl_tensor, block);
  return managed;
}

static DLManagedTensor *export_legacy(core_block *block, core_share *share, const DLTensor *view) {
  DLManagedTensor *managed = &block->managed.legacy;
  managed->manager_ctx = block;
  managed->deleter = core_delete_legacy;
  fill_block(share, view, &managed->dl_tensor, block);
  return managed;
}

DLManagedTensorVersioned *core_export_versioned(core_share *share, const DLTensor *view,
                                                uint64_t flags) {
  core_block *block = take_block(view->ndim);
  if (block == NULL) return NULL;
  core_share_take(share);
  return export_versioned(block, share, view, flags);
}

DLManagedTensor *core_export_legacy(core_share *share, const DLTensor *view) {
  core_block *block = take_block(view->ndim);
  if (block == NULL) return NULL;
  core_share_take(share);
  return export_legacy(block, share, view);
}

static core_block *block_of(core_share *share) { return (core_block *)share - 1; }

static void release_cell(core_share *share) {
  void (*lender)(void *) = share->lender;
  void *ctx = share->ctx;
  push_dead(&pools[CELLS].home, block_of(share));
  core_release_lent(lender, ctx);
}

core_share *core_hold_unlocked(void (*lender)(void *ctx), void *ctx) {
  cell *cell = (void *)pool_take(&pools[CELLS]);
  if (cell == NULL) return NULL;
  core_share *share = &cell->share;
  share->release = release_cell;
  share->lender = lender;
  share->ctx = ctx;
  __atomic_store_n(&share->count, 1, __ATOMIC_RELAXED);
  return share;
}

int64_t core_held_unlocked(void (*lender)(void *ctx)) {
  int64_t held = 0;
  pool *cells = &pools[CELLS];
  for (core_block *block = newest(cells); block != NULL; block = older(cells, block)) {
    core_share *share = &((cell *)block)->share;
    held += __atomic_load_n(&share->count, __ATOMIC_RELAXED) > 0 && share->lender == lender;
  }
  return held;
}

/* A block for an export on `share`, and a share for it. Nobody else has one while the count is one. */
static core_block *take_unlocked(core_share *share, int32_t ndim) {
  core_block *block;
  if (ndim > CORE_RANK_SMALL) {
    block = take_block(ndim);
  } else if (share->release == release_cell &&
             __atomic_load_n(&block_of(share)->state, __ATOMIC_RELAXED) == CORE_FREE) {
    block = block_of(share);
  } else {
    block = pool_take(&pools[CELLS]);
  }
  if (block == NULL) return NULL;
  if (__atomic_load_n(&share->count, __ATOMIC_RELAXED) == 1)
    __atomic_store_n(&share->count, 2, __ATOMIC_RELAXED);
  else
    core_share_take(share);
  return block;
}

DLManagedTensorVersioned *core_export_versioned_unlocked(core_share *share, const DLTensor *view,
                                                         uint64_t flags) {
  core_block *block = take_unlocked(share, view->ndim);
  return block == NULL ? NULL : export_versioned(block, share, view, flags);
}

DLManagedTensor *core_export_legacy_unlocked(core_share *share, const DLTensor *view) {
  core_block *block = take_unlocked(share, view->ndim);
  return block == NULL ? NULL : export_legacy(block, share, view);
}

int core_claim_versioned(DLManagedTensorVersioned *managed) {
  core_block *block = core_block_of_versioned(managed);
  return block != NULL ? core_block_take(block) : managed->deleter != core_delete_versioned;
}

int core_claim_legacy(DLManagedTensor *managed) {
  core_block *block = core_block_of_legacy(managed);
  return block != NULL ? core_block_take(block) : managed->deleter != core_delete_legacy;
}

void core_unclaim_versioned(DLManagedTensorVersioned *managed) {
  core_block *block = core_block_of_versioned(managed);
  if (block != NULL) core_block_return(block);
}

void core_unclaim_legacy(DLManagedTensor *managed) {
  core_block *block = core_block_of_legacy(managed);
  if (block != NULL) core_block_return(block);
}

int64_t core_live_exports(void) {
  int64_t live = 0;
  for (int i = 0; i < POOLS; i++) {
    for (core_block *block = newest(&pools[i]); block != NULL; block = older(&pools[i], block)) {
      int state = core_block_state(block);
      live += state == CORE_LIVE || state == CORE_TAKEN;
    }
  }
  return live;
}

/* ---- checks ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static core_status fail(core_status status, char *message,
                                                              size_t size, const char *format,
                                                              ...) {
  if (message != NULL && size > 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, size, format, args);
    va_end(args);
  }
  return status;
}

int core_host_readable(int32_t device_type) {
  return device_type == kDLCPU || device_type == kDLCUDAHost || device_type == kDLROCMHost;
}

static int known_dtype(DLDataType dtype) {
  int bits = dtype.bits;
  if (dtype.lanes == 0) return 0;
  switch (dtype.code) {
    case kDLInt:
    case kDLUInt:
      return bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case kDLFloat:
      return bits == 16 || bits == 32 || bits == 64;
    case kDLOpaqueHandle:
      return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128;
    case kDLBfloat:
      return bits == 16;
    case kDLComplex:
      return bits == 32 || bits == 64 || bits == 128;
    case kDLBool:
    case kDLFloat8_e3m4:
    case kDLFloat8_e4m3:
    case kDLFloat8_e4m3b11fnuz:
    case kDLFloat8_e4m3fn:
    case kDLFloat8_e4m3fnuz:
    case kDLFloat8_e5m2:
    case kDLFloat8_e5m2fnuz:
    case kDLFloat8_e8m0fnu:
      return bits == 8;
    case kDLFloat6_e2m3fn:
    case kDLFloat6_e3m2fn:
      return bits == 6;
    case kDLFloat4_e2m1fn:
      return bits == 4;
    default:
      return 0;
  }
}

/* Whether shape or strides lie where no memory can be; only strides may be NULL. */
static int nowhere(const int64_t *shape, const int64_t *strides) {
  return (uintptr_t)shape < CORE_LOWEST || (uintptr_t)strides - 1 < CORE_LOWEST - 1;
}

/* Most tensors are row-major without gaps: one look at each dimension tells that they are sound. */
static int sound(const DLTensor *t, core_extent *out) {
  if ((uintptr_t)t % 8 != 0 || (uintptr_t)t < CORE_LOWEST) return 0;
  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes, count = 1;
  uint64_t start;
  if (((uintptr_t)t->shape | (uintptr_t)t->strides) % 8 != 0 || t->ndim < 0 ||
      t->ndim > CORE_RANK_MAX || (t->ndim > 0 && nowhere(t->shape, t->strides)) || t->data == NULL ||
      bits % 8 != 0 || !known_dtype(t->dtype))
    return 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    int64_t n = t->shape[d];
    if (n <= 0 || (t->strides != NULL && t->strides[d] != count && n != 1) ||
        __builtin_mul_overflow(count, n, &count))
      return 0;
  }
  *out = (core_extent){.count = count, .row_major = 1};
  if (__builtin_mul_overflow(count, bits / 8, &out->nbytes) ||
      __builtin_add_overflow((uint64_t)(uintptr_t)t->data, t->byte_offset, &start) ||
      !core_in_address_space(start, 0, out->nbytes))
    return 0;
  out->high = out->nbytes;
  return 1;
}

#define FAIL(status, ...) return fail(status, message, size, __VA_ARGS__)

static core_status validate(const DLTensor *t, uint64_t flags, core_extent *out, char *message,
                            size_t size) {
  core_extent extent = {.count = 1, .row_major = 1};
  if (t == NULL) FAIL(CORE_ERR_NULL, "tensor is NULL");
  if ((uintptr_t)t % 8 != 0) FAIL(CORE_ERR_UNALIGNED, "tensor at %p is not aligned", (void *)t);
  if ((uintptr_t)t < CORE_LOWEST)
    FAIL(CORE_ERR_NULL, "tensor at %p lies below address %d", (void *)t, CORE_LOWEST);
  if (t->ndim < 0 || t->ndim > CORE_RANK_MAX)
    FAIL(CORE_ERR_LAYOUT, "ndim = %" PRId32 " is not in 0..%d", t->ndim, CORE_RANK_MAX);
  if (!known_dtype(t->dtype))
    FAIL(CORE_ERR_DTYPE, "dtype = (code %d, bits %d, lanes %d) is not one that can be carried",
         t->dtype.code, t->dtype.bits, t->dtype.lanes);
  if (t->ndim > 0 && t->shape == NULL)
    FAIL(CORE_ERR_NULL, "shape is NULL with ndim = %" PRId32, t->ndim);
  if (t->ndim > 0 && ((uintptr_t)t->shape % 8 != 0 || (uintptr_t)t->strides % 8 != 0))
    FAIL(CORE_ERR_UNALIGNED, "shape at 0x%" PRIxPTR " or strides at 0x%" PRIxPTR " is not aligned",
         (uintptr_t)t->shape, (uintptr_t)t->strides);
  if (t->ndim > 0 && nowhere(t->shape, t->strides))
    FAIL(CORE_ERR_NULL, "shape at 0x%" PRIxPTR " or strides at 0x%" PRIxPTR " lies below address %d",
         (uintptr_t)t->shape, (uintptr_t)t->strides, CORE_LOWEST);

  int empty = 0;
  for (int32_t d = 0; d < t->ndim; d++) {
    if (t->shape[d] < 0)
      FAIL(CORE_ERR_LAYOUT, "shape[%" PRId32 "] = %" PRId64, d, t->shape[d]);
    empty |= t->shape[d] == 0;
  }
  for (int32_t d = 0; d < t->ndim && !empty; d++) {
    if (__builtin_mul_overflow(extent.count, t->shape[d], &extent.count))
      FAIL(CORE_ERR_OVERFLOW, "shape has more than 2^63-1 elements from axis %" PRId32 " on", d);
  }
  if (empty) extent.count = 0;

  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
  int packed = bits % 8 != 0 && !(flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  int64_t item = (bits + 7) / 8;
  if (packed) {
    int64_t total;
    if (__builtin_mul_overflow(extent.count, bits, &total) || total > INT64_MAX - 7)
      FAIL(CORE_ERR_OVERFLOW, "%" PRId64 " elements of %" PRId64 " bits overflow", extent.count,
           bits);
    extent.nbytes = (total + 7) / 8;
  } else if (__builtin_mul_overflow(extent.count, item, &extent.nbytes)) {
    FAIL(CORE_ERR_OVERFLOW, "%" PRId64 " elements of %" PRId64 " bytes overflow", extent.count,
         item);
  }

  /* The span: how far the strides lead from element (0, ..., 0), in elements, both ways. */
  int64_t low = 0, high = 0, step = 1, span;
  if (t->strides != NULL && !empty) {
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
      if (t->shape[d] == 1) continue;
      int64_t reach;
      if (__builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach) ||
          (reach < 0 ? __builtin_add_overflow(low, reach, &low)
                     : __builtin_add_overflow(high, reach, &high)))
        FAIL(CORE_ERR_OVERFLOW, "strides[%" PRId32 "] = %" PRId64 " over shape[%" PRId32
             "] = %" PRId64 " overflows", d, t->strides[d], d, t->shape[d]);
      if (t->strides[d] != step) extent.row_major = 0;
      step *= t->shape[d];
    }
  } else {
    high = empty ? -1 : extent.count - 1;
  }
  if (empty) {
    extent.low = extent.high = 0;
  } else if (packed) {
    if (!extent.row_major)
      FAIL(CORE_ERR_LAYOUT, "packed elements of %" PRId64 " bits must be row-major without gaps",
           bits);
    extent.high = extent.nbytes;
  } else if (__builtin_mul_overflow(low, item, &extent.low) ||
             __builtin_add_overflow(high, (int64_t)1, &high) ||
             __builtin_mul_overflow(high, item, &extent.high) ||
             __builtin_sub_overflow(extent.high, extent.low, &span)) {
    FAIL(CORE_ERR_OVERFLOW, "strides reach over more than 2^63-1 bytes");
  }

  if (!empty && t->data == NULL)
    FAIL(CORE_ERR_NULL, "data is NULL with %" PRId64 " elements", extent.count);
  if (!empty && core_host_readable(t->device.device_type)) {
    uint64_t start;
    if (__builtin_add_overflow((uint64_t)(uintptr_t)t->data, t->byte_offset, &start) ||
        !core_in_address_space(start, extent.low, extent.high))
      FAIL(CORE_ERR_OVERFLOW, "data = %#" PRIx64 " with byte_offset = %" PRIu64 " leads outside the address space",
           (uint64_t)(uintptr_t)t->data, t->byte_offset);
  }
  *out = extent;
  return CORE_OK;
}

core_status core_validate(const DLTensor *t, uint64_t flags, core_extent *out, char *message,
                          size_t size) {
  core_extent extent;
  if (out == NULL) out = &extent;
  if (t != NULL && sound(t, out)) return CORE_OK;
  return validate(t, flags, out, message, size);
}

/* On a device data may be anything but NULL. */
core_status core_validate_unplaced(const DLTensor *t, uint64_t flags, core_extent *out, char *message,
                                   size_t size) {
  DLTensor view = *t;
  view.data = &view;
  view.byte_offset = 0;
  view.device.device_type = kDLExtDev;
  return core_validate(&view, flags, out, message, size);
}
