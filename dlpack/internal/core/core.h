/* core.h: the C core of dlbridge. It is compiled twice: by cgo into package dlpack, and into the
 * Python extension, where there is no Go. It knows four things:
 *
 *   share   counted ownership of memory that Go's collector does not see. The thread that drops the
 *           last share runs the release, there and then: see core_share_end.
 *   block   one exported managed tensor: the struct a consumer gets, and behind it the private
 *           words that its deleter trusts. Its memory is never given back, so that an old address can be looked at.
 *   home    where a dead block goes: a lock-free stack that its owner drains.
 *   checks  validation, allocation and copies of the memory a DLTensor describes.
 *
 * Nothing here enters Go, and no deleter takes a lock or changes errno. Fields that threads share are
 * plain integers touched by atomic builtins only, since Go lays structs of its own over these.
 */
#ifndef DLB_CORE_H_
#define DLB_CORE_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#error "dlbridge needs the DLPack ABI of version 1.3 or a later 1.x"
#endif

#if defined(_WIN32)
#error "dlbridge does not support Windows: its ownership core needs POSIX"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CORE_API __attribute__((visibility("hidden")))

enum {
  CORE_RANK_SMALL = 8,   /* dimensions that a small block has room for */
  CORE_RANK_MAX = 256,   /* dimensions that anything here has room for */
  CORE_ALIGNMENT = 256,  /* of memory of our own, as dlpack.h asks */
  CORE_NESTED = 8,       /* releases that run inside each other on one thread */
#ifdef CORE_DEBUG
  CORE_QUARANTINE = 4096,
#else
  CORE_QUARANTINE = 64,  /* dead blocks that are kept back before the oldest is used again */
#endif
};

/* ---- shares ---------------------------------------------------------------------------------- */

/* A counted owner of memory. `count` holds one for each block that was exported on it, and one for
 * whoever made it (all of Go's views together, or a Python Tensor). */
typedef struct core_share core_share;
struct core_share {
  int64_t count;
  void (*release)(core_share *share); /* runs once, when the count reaches zero; frees the share too */
  void (*lender)(void *ctx);          /* lent memory: gives it back. May be NULL */
  void *ctx;                          /* what release works on */
  void *data;                         /* memory of our own: its first byte. Once the count is zero: the next share
                                         whose release has to wait, see core_share_end */
};

/* Memory of our own, CORE_ALIGNMENT aligned, with one share. NULL when there is none to be had. */
CORE_API core_share *core_share_alloc(size_t size, int zeroed);
/* Memory lent to us: lender(ctx) gives it back. */
CORE_API core_share *core_share_lend(void (*lender)(void *ctx), void *ctx);
/* Memory of a managed tensor we took over: its own deleter gives it back. */
CORE_API core_share *core_share_versioned(DLManagedTensorVersioned *managed);
CORE_API core_share *core_share_legacy(DLManagedTensor *managed);

CORE_API void core_share_take(core_share *share);
CORE_API void core_share_drop(core_share *share);
/* Runs the release of a share whose count has reached zero.
 *
 * A release may end other shares, whose releases may end others, and so on: chains of owners are as long as
 * programs make them. So that the C stack does not grow with them, at most CORE_NESTED releases run inside each
 * other on one thread. A share that ends deeper is put in a list of that thread, and released by the innermost of
 * these calls, once the release that ended it has returned. So whatever the outermost call ends has ended when
 * that returns, on the same thread; and up to CORE_NESTED levels deep that holds for each call.
 *
 * A release must return. One that jumps out, or panics in Go, leaves undone what it had yet to do, and shares that
 * waited for it wait for another release of its thread to return. It is not counted any longer. */
CORE_API void core_share_end(core_share *share);
/* Takes a share off. True for the last one: then the caller calls core_share_end. While the count is one nobody
 * else has a share to take another from, or to end. */
static inline int core_share_leave(core_share *share) {
  if (__atomic_load_n(&share->count, __ATOMIC_ACQUIRE) != 1)
    return __atomic_sub_fetch(&share->count, 1, __ATOMIC_ACQ_REL) == 0;
  __atomic_store_n(&share->count, 0, __ATOMIC_RELAXED);
  return 1;
}

/* Ends a managed tensor: calls its deleter, if it has one. One that was taken over by core_block_take is ended too. */
CORE_API void core_release_versioned(DLManagedTensorVersioned *managed);
CORE_API void core_release_legacy(DLManagedTensor *managed);
/* Calls a lender's release. */
CORE_API void core_release_lent(void (*lender)(void *ctx), void *ctx);

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The low bits of a block's state. Above them stands, while the block is in a ring of Go's and so ready to be
 * exported again, which one that is, and in which turn it was exported last; 0 for none.
 *
 *         export        core_block_take                core_block_end
 *   FREE ---------> LIVE <-----------------> TAKEN -------------------> DEAD, or IDLE in a ring
 *                    |    core_block_return                              ^
 *                    +---------------------------------------------------+
 *                               the deleter, or core_block_end
 */
enum {
  CORE_FREE = 0,
  CORE_LIVE = 1,
  CORE_DEAD = 2,
  CORE_IDLE = 3,
  CORE_TAKEN = 5, /* live, and taken over: its deleter does nothing, since only the former holder would call it */
  CORE_STATES = 7
};

typedef struct core_block core_block;
typedef struct core_home core_home;

/* The first member is what the consumer sees and may change; the deleter reads none of it. */
struct core_block {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
  core_block *next;   /* link of the dead stack, then of the free list */
  uint64_t state;     /* CORE_LIVE: its deleter ends it. CORE_LIVE of a ring: its deleter makes it CORE_IDLE */
  core_share *share;  /* what the block shares; NULL where Go pinned the memory */
  core_home *home;
  uint64_t payload;   /* bytes that stay pinned until Go reaps the block */
  uint64_t slot;      /* Go's slot for what it pinned */
  int64_t dims[2 * CORE_RANK_SMALL]; /* shape, then strides; blocks for higher ranks have more */
};

struct core_home {
  core_block *dead;   /* pushed by deleters on any thread, taken whole by the owner */
  int32_t drainer;    /* index of the pool of Go that drains it, or -1: the C side does, unwoken */
  int32_t rank;       /* room for dimensions in its blocks */
  char pad[48];       /* homes lie side by side: one cache line each */
};

/* The deleters that every exported block carries. Their addresses tell our own exports apart. */
CORE_API void core_delete_versioned(DLManagedTensorVersioned *self);
CORE_API void core_delete_legacy(DLManagedTensor *self);

/* Deleter calls that found nothing to delete, since the start of the process. */
CORE_API uint64_t core_double_deletes(void);

/* The block of a managed tensor, where this core has exported it; NULL for the tensors of others, and for copies of the
 * struct, which have no block behind them. */
static inline core_block *core_block_of_versioned(const DLManagedTensorVersioned *managed) {
  return managed->deleter == core_delete_versioned && managed->manager_ctx == managed ? (core_block *)managed : NULL;
}
static inline core_block *core_block_of_legacy(const DLManagedTensor *managed) {
  return managed->deleter == core_delete_legacy && managed->manager_ctx == managed ? (core_block *)managed : NULL;
}

/* CORE_LIVE, CORE_TAKEN, or one of the others once the block has ended, until it is exported again. */
static inline int core_block_state(const core_block *block) {
  return (int)(__atomic_load_n(&block->state, __ATOMIC_RELAXED) & CORE_STATES);
}
/* Takes a live block over from who holds its tensor. Reports whether it was live: of several calls, one succeeds. */
CORE_API int core_block_take(core_block *block);
/* Gives a block that was taken over back to who had it. */
CORE_API void core_block_return(core_block *block);
/* Ends a block that is live or was taken over. */
CORE_API void core_block_end(core_block *block);

/* `count` free blocks for dimensions up to home->rank, linked by next; NULL when there is no memory.
 * They are never given back. */
CORE_API core_block *core_slab(core_home *home, uint32_t count, uint32_t first_slot);
CORE_API core_home *core_homes(int32_t count);

/* Says where deleters write when `threshold` bytes of Go's are dead: an eventfd or a pipe. */
CORE_API void core_wake_by(int fd);
CORE_API int64_t core_wake_at(int64_t threshold); /* returns the last one */
CORE_API int64_t *core_wake_bytes(void);

/* Whether this process is a fork of the one that the core was started in. */
CORE_API int core_forked(void);

/* ---- exports without Go ---------------------------------------------------------------------- */

/* An exported tensor on `share`, which it takes a share of. The strides are in elements, NULL for
 * row-major. The description must have been validated. NULL when there is no memory. */
CORE_API DLManagedTensorVersioned *core_export_versioned(core_share *share, const DLTensor *view,
                                                         uint64_t flags);
CORE_API DLManagedTensor *core_export_legacy(core_share *share, const DLTensor *view);

/* The same for callers that take turns, as those who hold Python's GIL do. On a share of
 * core_hold_unlocked the first export costs no allocation. */
CORE_API DLManagedTensorVersioned *core_export_versioned_unlocked(core_share *share,
                                                                  const DLTensor *view,
                                                                  uint64_t flags);
CORE_API DLManagedTensor *core_export_legacy_unlocked(core_share *share, const DLTensor *view);
/* Memory lent to us, as by core_share_lend, with room for an export in the same allocation. */
CORE_API core_share *core_hold_unlocked(void (*lender)(void *ctx), void *ctx);
/* Shares of core_hold_unlocked that are held, of that lender. */
CORE_API int64_t core_held_unlocked(void (*lender)(void *ctx));

/* Takes a managed tensor over for a new owner, so that no second one does. Returns 0, and changes nothing, if the
 * tensor is an export of this copy of the core that was released or taken over before, or a copy of the struct of
 * one. Exports of other libraries can always be claimed. */
CORE_API int core_claim_versioned(DLManagedTensorVersioned *managed);
CORE_API int core_claim_legacy(DLManagedTensor *managed);
/* Withdraws a claim: the tensor is its former owner's again. */
CORE_API void core_unclaim_versioned(DLManagedTensorVersioned *managed);
CORE_API void core_unclaim_legacy(DLManagedTensor *managed);

/* Exports made by the functions above that are still alive. */
CORE_API int64_t core_live_exports(void);

/* ---- checks and copies ----------------------------------------------------------------------- */

/* What is wrong with a description. */
typedef enum {
  CORE_OK = 0,
  CORE_ERR_NULL,      /* a pointer that must not be NULL is */
  CORE_ERR_VERSION,
  CORE_ERR_DTYPE,
  CORE_ERR_DEVICE,
  CORE_ERR_LAYOUT,    /* rank, shape or strides */
  CORE_ERR_OVERFLOW,
  CORE_ERR_READONLY,
  CORE_ERR_UNALIGNED,
  CORE_ERR_MEMORY     /* there is none to be had */
} core_status;

/* What a valid description comes to. */
typedef struct core_extent {
  int64_t count;     /* elements */
  int64_t nbytes;    /* of `count` elements without gaps */
  int64_t low;       /* byte offset, from element (0, ..., 0), of the lowest byte touched (<= 0) */
  int64_t high;      /* and one past the highest */
  int32_t row_major; /* without gaps, the last index fastest */
} core_extent;

/* Where memory can lie: from CORE_LOWEST up to, and without, CORE_HIGHEST. The first page is never mapped: an address in
 * it is NULL with something added, or a status, or what some languages put into an empty array. Go ends the process when
 * it finds such an address in a pointer on a stack. The upper half of the address space is the kernel's, and Go has marks
 * of its own there. */
enum { CORE_LOWEST = 4096 };
#define CORE_HIGHEST ((uint64_t)1 << 63)

/* Whether the bytes from `low` (<= 0) to `high` (>= 0) around an address lie where memory can lie. */
static inline int core_in_address_space(uint64_t start, int64_t low, int64_t high) {
  return start >= CORE_LOWEST - (uint64_t)low && start <= CORE_HIGHEST - (uint64_t)high;
}

/* Checks everything that can be checked of a description without touching the memory it describes.
 * `message` (may be NULL) gets the place and the offending value. */
CORE_API core_status core_validate(const DLTensor *tensor, uint64_t flags, core_extent *out,
                                   char *message, size_t size);

/* The same for a tensor that is yet to get memory: whatever data, byte_offset and device are. */
CORE_API core_status core_validate_unplaced(const DLTensor *tensor, uint64_t flags, core_extent *out,
                                            char *message, size_t size);

/* Whether the host may read the memory of a device of this type. */
CORE_API int core_host_readable(int32_t device_type);

/* Copies `shape` elements of `itemsize` bytes between two layouts; strides are in bytes. */
CORE_API void core_copy(void *dst, const int64_t *dst_strides, const void *src,
                        const int64_t *src_strides, const int64_t *shape, int32_t ndim,
                        size_t itemsize);

/* A row-major copy of a host tensor in memory of our own: a share whose data holds it. */
CORE_API core_status core_copy_compact(core_share **out, const DLTensor *tensor, uint64_t flags,
                                       char *message, size_t size);

#ifdef __cplusplus
}
#endif

#endif
