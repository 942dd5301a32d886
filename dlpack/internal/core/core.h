/* core.h: the C core of dlbridge, which owns, counts, validates and copies memory. Cgo compiles it into package core; the
 * Python extension and libdlbridge_tensor contain it without Go, slot.c and wake.c. DESIGN.md of package dlpack explains it.
 *
 *   share        counted ownership of some memory. Whoever gives up the last share ends the memory (share.c).
 *   slot         a share that Go counts too, in a table (slot.h).
 *   block        a control block: the managed tensor that a consumer gets, followed by the private words that its
 *                deleter trusts (block.c).
 *   block cache  free control blocks for the exports that C code makes (export.c).
 *
 * Nothing here enters Go. No deleter takes a lock or changes errno, unless it calls a function of a lender or of a
 * foreign producer that does. Fields that threads share have plain types, not C11's _Atomic, because Go lays its own
 * structs over these structs; only atomic builtins access these fields.
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

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dlbridge does not support big-endian machines: the formats have elements little-endian, and no bytes are swapped"
#endif

/* Begins the declaration of an internal function. Cgo and the Python extension compile files that call each other, so
 * there these functions are hidden. bridge/libdlbridge/tensor.c makes them static, except in libdlbridge_tensor.so,
 * whose internal functions libdlbridge.so calls. */
#ifndef CORE_API
#define CORE_API __attribute__((visibility("hidden")))
#endif

enum {
  CORE_RANK_SMALL = 8, /* dimensions that a small block has room for */
  CORE_RANK_MAX = 256, /* the most dimensions of a tensor */
  CORE_AXES_MAX = 63,  /* the most of more than one element, and one for lanes: 63 dimensions of two would have 2^63 elements */
  CORE_ALIGNMENT = 256, /* in bytes, of memory that the core allocates, as the DLPack standard asks */
  CORE_NESTED = 8,     /* the most releases that run inside each other on one thread */
#ifdef CORE_DEBUG
  CORE_QUARANTINE = 4096,
#else
  CORE_QUARANTINE = 64, /* further exports of the same block cache before a dead block is used again */
#endif
  CORE_QUARANTINE_CHECKED = 1 << 16, /* the same if dlbcore_checked, for exports without Go */
};

/* Turns an address into a number that leak checkers do not recognise as an address, and back. With a visible pointer to
 * an object, they would not report that its holder has lost it. */
#define CORE_HIDDEN(object) (~(uintptr_t)(object))

/* ---- checked.c: programs under AddressSanitizer or valgrind -------------------------------------- */

/* Reports whether the program runs under AddressSanitizer or valgrind without DLBRIDGE_CHECK=0 in its environment, or
 * with DLBRIDGE_CHECK=1. Then each export of a C program gets a new control block, and memory ends at its last byte, so
 * that the tools name the call that lost or overran it. Go and the Python extension reuse their blocks as usual. */
CORE_API int dlbcore_checked(void);
/* Make the tools report every access to the memory from now on, or no access. */
CORE_API void dlbcore_forbid(void *start, size_t size);
CORE_API void dlbcore_permit(void *start, size_t size);

/* ---- memory.c: memory of our own ------------------------------------------------------------- */

/* Allocates a header of `header` bytes, fewer than CORE_ALIGNMENT, and, somewhere behind it, `size` bytes aligned to
 * CORE_ALIGNMENT. Sets *data to the first of these bytes. Returns the address of the header, for dlbcore_free_memory,
 * or NULL if there is no memory. */
CORE_API void *dlbcore_allocate_memory(size_t header, size_t size, int zeroed, void **data);
CORE_API void dlbcore_free_memory(void *memory);
/* Like free, but keeps errno, which free changes on some systems. */
CORE_API void dlbcore_free(void *memory);
/* Returns zeroed memory that is never freed, aligned to 64 bytes, or NULL. Leak checkers follow the pointers in it. */
CORE_API void *dlbcore_allocate_lasting(size_t size);
/* dlbcore_map_pages returns zeroed pages for blocks, or NULL. dlbcore_clear_pages gives the memory of such pages back
 * to the system if possible. The pages stay mapped, and read as zeros. */
CORE_API void *dlbcore_map_pages(size_t size);
CORE_API void dlbcore_clear_pages(void *pages, size_t size);

/* ---- share.c: shares ------------------------------------------------------------------------- */

/* Counted ownership of memory: one share for each exported block, and one for the maker (a Python Tensor, for example,
 * or all Go tensors together). */
typedef struct dlbcore_share dlbcore_share;
struct dlbcore_share {
  int64_t count;                      /* lower 32 bits: the shares; upper 32: the turn of a slot, or 0 */
  void (*release)(dlbcore_share *share); /* called once, when no share is left: ends the memory; frees or recycles the struct */
  void (*lender)(void *ctx);          /* gives back lent memory; may be NULL. Pinned or allocated slots: not NULL if Go is woken at once */
  void *ctx;                          /* what release works on */
  void *data;                         /* first byte of memory that the core allocated. Without shares: a link */
};

/* Allocates `size` bytes at share->data, aligned to CORE_ALIGNMENT. The caller has the only share. Returns NULL if
 * there is no memory. */
CORE_API dlbcore_share *dlbcore_share_alloc(size_t size, int zeroed);

/* Adds a share while another share keeps the memory. */
CORE_API void dlbcore_share_retain(dlbcore_share *share);
/* Gives up a share. Reports whether it was the last; if so, the caller must call dlbcore_share_end. */
CORE_API int dlbcore_share_leave(dlbcore_share *share);
/* Gives up a share, and ends the memory if it was the last share. */
CORE_API void dlbcore_share_drop(dlbcore_share *share);
/* Runs the release of a share whose count has reached zero.
 *
 * A release may end other shares, whose releases may end others, and so on: programs may make chains of owners of any
 * length. To bound the C stack, at most CORE_NESTED releases run inside each other on one thread. A share that ends
 * deeper is put in a list of that thread. The innermost call of dlbcore_share_end releases it after the release that
 * ended it has returned. So when the outermost call returns, the same thread has released everything that this call
 * ended. The same is true of each call that is at most CORE_NESTED levels deep.
 *
 * A release must return. If a release jumps out, or panics in Go, the rest of it is not done, and the shares that
 * waited for it wait until another release of its thread returns. It counts as running until an outer call of
 * dlbcore_share_end returns, or the thread calls dlbcore_share_end from the same or a higher stack address. */
CORE_API void dlbcore_share_end(dlbcore_share *share);

/* Calls lender(ctx), unless lender is NULL. */
CORE_API void dlbcore_release_lent(void (*lender)(void *ctx), void *ctx);

/* ---- return queues ---------------------------------------------------------------------------- */

/* A return queue: blocks or slots that C code has ended, and that wait for their block cache or, in Go, their bin of
 * free slots. Any thread adds to the queue; its owner takes all of them in one step. */
typedef struct dlbcore_return_queue {
  void *top;
  char pad[56]; /* the queues lie side by side: one cache line each */
} dlbcore_return_queue;

/* Adds `thing`, a block or slot, to a queue; *link is its field for the next thing in the queue. The thing may be in
 * use again immediately, so the caller must not touch it after this call. The link is stored atomically only for
 * ThreadSanitizer, which does not see that Go takes the slots of a queue before another thread can return them
 * again. */
static inline void dlbcore_return(dlbcore_return_queue *stack, void *thing, void **link) {
  void *top = __atomic_load_n(&stack->top, __ATOMIC_RELAXED);
  do {
    __atomic_store_n(link, top, __ATOMIC_RELAXED);
  } while (!__atomic_compare_exchange_n(&stack->top, &top, thing, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* ---- block.c: control blocks ----------------------------------------------------------------- */

/*         export         dlbcore_block_claim             dlbcore_block_end
 *   FREE ----------> LIVE <-----------------> TAKEN -------------------> DEAD
 *    ^                |    dlbcore_block_return                           | ^
 *    |                +---------------------------------------------------|-+
 *    +--------------------------------------------------------------------+
 *      its cache finds it       the deleter, or dlbcore_block_end
 */
enum {
  CORE_FREE = 0, /* also the value in pages that were given back */
  CORE_LIVE,
  CORE_TAKEN, /* live, and taken over: its deleter does nothing, because only the former holder would call it */
  CORE_DEAD
};

typedef struct dlbcore_block dlbcore_block;

/* The consumer sees the first member and may change it; the deleter never reads it. */
struct dlbcore_block {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
  uint64_t state;
  dlbcore_share *share; /* held by the block */
  dlbcore_return_queue *returns; /* takes the dead block; NULL if Go's cache finds it by itself, or if it returns with its cell */
  void *next;        /* link of the list that it is in */
  uint64_t since;    /* number of exports that its cache had made when the block was found dead. Before that, in C: when
                      * the block was exported; in Go: 0 */
  void **data;       /* where `managed` has the address of the elements; only of exports without Go */
  int64_t dims[2 * CORE_RANK_SMALL]; /* shape, then strides; blocks for higher ranks have more */
};

/* Returns the size of a block for tensors of up to `rank` dimensions. */
static inline size_t dlbcore_block_size(int32_t rank) {
  size_t more = rank > CORE_RANK_SMALL ? (size_t)(rank - CORE_RANK_SMALL) : 0;
  return sizeof(dlbcore_block) + 2 * more * sizeof(int64_t);
}

/* The deleters of every exported block. The address of its deleter identifies an export of this core. */
CORE_API void dlbcore_delete_versioned(DLManagedTensorVersioned *self);
CORE_API void dlbcore_delete_legacy(DLManagedTensor *self);

/* Returns the number of deleter calls since the start of the process that were ignored because the block was not CORE_LIVE. */
CORE_API uint64_t dlbcore_double_deletes(void);
/* If dlbcore_checked, writes to stderr that a block in this state, which is not CORE_LIVE, is released. */
CORE_API void dlbcore_report_repeat(const void *block, uint64_t state);
/* Sets a function that writes the current calls, which dlbcore_report_repeat calls after its line; NULL for none. */
CORE_API void dlbcore_watch_repeats(void (*watcher)(void));

/* Returns the block of a managed tensor that this core has exported. Returns NULL for tensors of others, and for copies
 * of the struct, which have no block behind them. */
static inline dlbcore_block *dlbcore_block_of_versioned(const DLManagedTensorVersioned *managed) {
  return managed->deleter == dlbcore_delete_versioned && managed->manager_ctx == managed ? (dlbcore_block *)managed : NULL;
}
static inline dlbcore_block *dlbcore_block_of_legacy(const DLManagedTensor *managed) {
  return managed->deleter == dlbcore_delete_legacy && managed->manager_ctx == managed ? (dlbcore_block *)managed : NULL;
}

/* Returns the state of a block. After its end it is neither CORE_LIVE nor CORE_TAKEN until it is exported again. */
static inline int dlbcore_block_state(const dlbcore_block *block) {
  return (int)__atomic_load_n(&block->state, __ATOMIC_RELAXED);
}
/* Takes a live block over from the holder of its tensor. Reports whether it was live: only one of several calls succeeds. */
CORE_API int dlbcore_block_claim(dlbcore_block *block);
/* Gives a block back to the holder from whom dlbcore_block_claim has taken it. */
CORE_API void dlbcore_block_return(dlbcore_block *block);
/* Ends a block that is live or was taken over. */
CORE_API void dlbcore_block_end(dlbcore_block *block);

/* Ends a managed tensor: calls its deleter, if it has one. Also ends an export of this core that dlbcore_block_claim
 * has taken over. */
CORE_API void dlbcore_release_versioned(DLManagedTensorVersioned *managed);
CORE_API void dlbcore_release_legacy(DLManagedTensor *managed);
/* Returns the first share of the memory of a managed tensor that the caller has taken over. Giving up the last share
 * calls the tensor's deleter. Returns NULL if there is no memory; the tensor is then still the caller's. */
CORE_API dlbcore_share *dlbcore_share_versioned(DLManagedTensorVersioned *managed);

/* Reports whether this process is a fork of the process in which the core was started. */
CORE_API int dlbcore_forked(void);
/* Returns the address of the answer, so that Go reads it without a call into C. It is written in the child before fork
 * returns there. */
CORE_API const int *dlbcore_fork_mark(void);

/* ---- export.c: exports without Go ------------------------------------------------------------ */

/* Exports a tensor in the memory of `share`. The export adds its own share, and copies the description. The caller must
 * have checked the description; strides of NULL mean row-major. The caller owns the result. Returns NULL if there is no
 * memory. */
CORE_API DLManagedTensorVersioned *dlbcore_export_versioned(dlbcore_share *share, const DLTensor *view,
                                                            uint64_t flags);
CORE_API DLManagedTensor *dlbcore_export_legacy(dlbcore_share *share, const DLTensor *view);

/* The same for callers that exclude each other, as holders of Python's GIL do. The first export of a share of
 * dlbcore_hold_unlocked allocates nothing if the tensor has at most CORE_RANK_SMALL dimensions. */
CORE_API DLManagedTensorVersioned *dlbcore_export_versioned_unlocked(dlbcore_share *share,
                                                                     const DLTensor *view,
                                                                     uint64_t flags);
CORE_API DLManagedTensor *dlbcore_export_legacy_unlocked(dlbcore_share *share, const DLTensor *view);
/* Returns the first share of lent memory, with room for an export in the same allocation. When no share is left,
 * lender(ctx) gives the memory back. Returns NULL, and does not call lender, if there is no memory. Callers exclude
 * each other, as above. */
CORE_API dlbcore_share *dlbcore_hold_unlocked(void (*lender)(void *ctx), void *ctx);
/* Returns the number of shares of dlbcore_hold_unlocked with that lender that have not ended. */
CORE_API int64_t dlbcore_held_unlocked(void (*lender)(void *ctx));

/* Takes over a managed tensor, a DLManagedTensorVersioned or a DLManagedTensor, for a new owner. Returns 1 on success.
 * Returns 0, and changes nothing, for an export of this copy of the core that was released or taken over before, and
 * for a copy of the struct of an export. Always returns 1, and does nothing, for a tensor of another library. Go:
 * Claim */
CORE_API int dlbcore_claim(void *managed, int versioned);
/* Withdraws a claim: the tensor belongs to its former owner again. Go: Unclaim */
CORE_API void dlbcore_unclaim(void *managed, int versioned);

/* Returns the number of live exports by the functions above. */
CORE_API int64_t dlbcore_live_exports(void);

/* Sets a function that the functions above call for each export, before its block is live; NULL for none. `tensor`
 * describes the export. */
CORE_API void dlbcore_watch_exports(void (*made)(const dlbcore_block *block, const DLTensor *tensor, int versioned));

/* ---- validate.c, copy.c, convert.c, assign.c: checks, copies and conversions ------------------ */

/* The result of a check. Go: Status */
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
  CORE_ERR_MEMORY,    /* an allocation failed */
  CORE_ERR_FORMAT,    /* malformed input */
  CORE_ERR_ARGUMENT,  /* an index, axis or order that does not exist */
  CORE_ERR_SYSTEM = 16,       /* the operating system has refused something */
  CORE_ERR_CLOSED = 17,       /* the other side has closed the connection */
  CORE_NEEDS_COPY = 255       /* only a copy can have the layout, or lie in a segment; callers report an error of their own */
} dlbcore_status;

/* The size and the reach of a valid description. Go: Extent */
typedef struct dlbcore_extent {
  int64_t count;     /* elements */
  int64_t nbytes;    /* of `count` elements without gaps */
  int64_t low;       /* byte offset, from element (0, ..., 0), of the lowest byte touched (<= 0) */
  int64_t high;      /* and one past the highest */
  int32_t row_major; /* without gaps, the last index fastest */
} dlbcore_extent;

/* Memory lies at addresses from CORE_LOWEST up to CORE_HIGHEST, exclusive. The first page is never mapped: an address
 * in it is NULL plus an offset, an error code, or the placeholder of an empty array. Go ends the process if it finds
 * such an address in a pointer on a stack. The upper half of the address space belongs to the kernel, and Go uses
 * addresses there as marks. */
enum { CORE_LOWEST = 4096 };
#define CORE_HIGHEST ((uint64_t)1 << 63)

/* Reports whether the bytes from `low` (<= 0) to `high` (>= 0), relative to `start`, lie at such addresses. */
static inline int dlbcore_in_address_space(uint64_t start, int64_t low, int64_t high) {
  return start >= CORE_LOWEST - (uint64_t)low && start <= CORE_HIGHEST - (uint64_t)high;
}

/* Writes the text of an error to the `size` bytes of `message`, which may be NULL, and returns `status`. */
__attribute__((format(printf, 4, 5))) CORE_API dlbcore_status dlbcore_fail(dlbcore_status status, char *message, size_t size,
                                                                     const char *format, ...);

/* Checks a description as far as possible without touching the memory that it describes. Sets *out to the extent of its
 * elements; after an error *out is undefined. Writes the offending field and its value to `message`. `out` and
 * `message` may be NULL. A tensor that is NULL is an error. Go: CheckTensor of package core, and checkTensor of package
 * dlpack. */
CORE_API dlbcore_status dlbcore_check_tensor(const DLTensor *tensor, uint64_t flags, dlbcore_extent *out,
                                   char *message, size_t size);

/* The same for a tensor that has no memory yet: data, byte_offset and device are ignored. `tensor` must not be NULL.
 * Go: CheckLayout */
CORE_API dlbcore_status dlbcore_check_layout(const DLTensor *tensor, uint64_t flags, dlbcore_extent *out,
                                            char *message, size_t size);

/* Sets the strides, in elements, of a row-major tensor without gaps. A size of 0 counts as 1. Only strides of a shape
 * without elements can exceed 63 bits; these are never used, and are truncated. */
CORE_API void dlbcore_set_row_major(int64_t *strides, const int64_t *shape, int32_t ndim);

/* A code of data types: its name, the widths in bits that an element may have, and whether the name of a type includes
 * the width. Go: kinds of package dlpack */
typedef struct {
  const char *name;
  uint8_t widths[6], sized;
} dlbcore_kind;

/* Returns the entry of a code, or NULL for a code that DLPack 1.3 does not have. */
CORE_API const dlbcore_kind *dlbcore_kind_of(uint8_t code);

/* Reports whether DLPack 1.3 knows the data type, in a width that is in use. Go: DataType.Validate */
CORE_API int dlbcore_known_dtype(DLDataType dtype);

/* Reports whether the host can read the memory of a device of this type. Go: Device.HostReadable */
CORE_API int dlbcore_host_readable(int32_t device_type);

/* Copies elements of `itemsize` bytes between two layouts of one shape. dst and src are the addresses of element (0,
 * ..., 0). Strides are in bytes. Source and destination must not overlap, unless they are the same elements. */
CORE_API void dlbcore_copy(void *dst, const int64_t *dst_strides, const void *src,
                           const int64_t *src_strides, const int64_t *shape, int32_t ndim,
                           size_t itemsize);

/* Copies a host tensor row-major into memory of extent->nbytes bytes. The extent must come from
 * dlbcore_check_tensor. */
CORE_API void dlbcore_copy_into(void *dst, const DLTensor *tensor, const dlbcore_extent *extent);

/* Checks and compacts a host tensor: copies it row-major into new memory, and sets *out to a share of it, which the
 * caller owns. After an error *out is unchanged. */
CORE_API dlbcore_status dlbcore_copy_compact(dlbcore_share **out, const DLTensor *tensor, uint64_t flags,
                                       char *message, size_t size);

/* Replaces each number x by x * scale + shift during a conversion. There is no scale, one scale, or one for each entry
 * of the dimension `dim`; the same holds for shifts. x is a float if the source has bools, integers of at most 16 bits
 * or floats of at most 32 bits, and otherwise a double. Scale and shift are rounded to this type first, then the
 * product, then the sum, and then the result of the conversion. A NaN loses its sign and payload. */
typedef struct dlbcore_scaling {
  const double *scale, *shift;
  int64_t scales, shifts; /* how many numbers there are */
  int32_t dim;
} dlbcore_scaling;

/* Converts the numbers of a checked host tensor to another data type with the same lanes. Writes the result row-major
 * into new memory, and sets *out to a share of it, which the caller owns. Scales the numbers unless `scaling` is NULL;
 * checks `scaling`, whose dimension counts from the end if it is negative. Sets *extent to the extent of the result.
 * After an error *out is unchanged. Returns CORE_ERR_DTYPE, without a text, unless both types are numbers with the same
 * lanes. */
CORE_API dlbcore_status dlbcore_copy_convert(dlbcore_share **out, dlbcore_extent *extent, const DLTensor *tensor, uint64_t flags,
                                       DLDataType dtype, const dlbcore_scaling *scaling, char *message, size_t size);

/* Reports whether numbers of the type `from` can be converted to the type `to`: both must be types of numbers with the
 * same lanes. */
CORE_API int dlbcore_can_convert(DLDataType to, DLDataType from);

/* Writes the elements of src to those of dst. Repeats src to the shape of dst, as dlbcore_view_broadcast_to does, and
 * converts it to the data type of dst. Checks both descriptions first, and writes nothing after an error. Refuses
 * memory that the host cannot use, a read-only dst, elements of dst that overlap each other, and memory that the two
 * have, or may have, in common, unless both are the same elements or src has one element. Returns CORE_ERR_DTYPE,
 * without a text, if dlbcore_can_convert is false for the data types. Scales the numbers by a dimension of dst unless
 * `scaling` is NULL; then dst and src must not be the same elements, unless there is only one. Go: copyInto */
CORE_API dlbcore_status dlbcore_assign(const DLTensor *dst, uint64_t dst_flags, const DLTensor *src, uint64_t src_flags,
                                       const dlbcore_scaling *scaling, char *message, size_t size);

/* ---- layout.c: layouts of views ---------------------------------------------------------------- */

/* Shape and strides, and the offset from element (0, ..., 0) of the tensor to element (0, ..., 0) of the view. All
 * count elements. Go: layout.Layout */
typedef struct dlbcore_layout {
  int32_t ndim;
  int64_t offset;
  int64_t *shape, *strides;
} dlbcore_layout;

/* The layouts of a tensor and of a view of it. Layouts of more than CORE_RANK_USUAL dimensions are on the heap, so that
 * no thread needs a large stack. */
enum { CORE_RANK_USUAL = 64 };
typedef struct dlbcore_viewing {
  dlbcore_layout base, view;
  int64_t room[3 * CORE_RANK_USUAL], *more;
} dlbcore_viewing;

/* Sets v->base to the layout of a tensor, with offset 0. The tensor must be checked, and must outlive the layout. Sets
 * v->view to a layout with room for any view that takes `count` indices, dimensions or sizes. The only error is
 * CORE_ERR_MEMORY; after it there is nothing to end. */
CORE_API dlbcore_status dlbcore_viewing_begin(dlbcore_viewing *v, const DLTensor *tensor, int32_t count);
CORE_API void dlbcore_viewing_end(dlbcore_viewing *v);

/* The kinds of dlbcore_index. A range has START, STOP, both or 0 as its kind, and a step other than 0. */
enum {
  CORE_INDEX_START = 1,
  CORE_INDEX_STOP = 2,
  CORE_INDEX_AT = 4, /* the index `start` */
  CORE_INDEX_ELLIPSIS = 8,
  CORE_INDEX_NEW_AXIS = 16
};

/* The part of a dimension that dlbcore_view_slice takes. A dlb_index of dlbridge.h has the same fields, and may be read
 * as a dlbcore_index. Go: layout.Index */
typedef struct __attribute__((may_alias)) dlbcore_index {
  int64_t start, stop, step;
  uint64_t kind;
} dlbcore_index;

/* Each sets *out to the layout of a view of `base`, as the method of Go's layout.Layout of the same name does. `out`
 * must have room for it, separate from that of `base`. On error *out is undefined. `count`, the length of the array
 * after it, must not be negative. If `count` is 0, dlbcore_view_transpose reverses the dimensions, dlbcore_view_flip
 * flips all dimensions, and dlbcore_view_squeeze removes all dimensions of size 1. */
CORE_API dlbcore_status dlbcore_view_slice(dlbcore_layout *out, const dlbcore_layout *base, int32_t count,
                                     const dlbcore_index *indices, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_index(dlbcore_layout *out, const dlbcore_layout *base, int32_t count,
                                     const int64_t *index, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_transpose(dlbcore_layout *out, const dlbcore_layout *base, int32_t count,
                                         const int32_t *order, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_reshape(dlbcore_layout *out, const dlbcore_layout *base, int32_t ndim,
                                       const int64_t *shape, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_broadcast_to(dlbcore_layout *out, const dlbcore_layout *base, int32_t ndim,
                                         const int64_t *shape, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_flip(dlbcore_layout *out, const dlbcore_layout *base, int32_t count,
                                    const int32_t *axes, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_squeeze(dlbcore_layout *out, const dlbcore_layout *base, int32_t count,
                                       const int32_t *axes, char *message, size_t size);
CORE_API dlbcore_status dlbcore_view_expand(dlbcore_layout *out, const dlbcore_layout *base, int32_t count,
                                      const int32_t *axes, char *message, size_t size);

/* Sets *out to the layout of the same memory with elements of another size: `from` bits before, `to` bits after, both
 * positive. The last dimension changes its size; if it has gaps, the result is CORE_NEEDS_COPY. Go:
 * layout.Layout.Bitcast */
CORE_API dlbcore_status dlbcore_view_bitcast(dlbcore_layout *out, const dlbcore_layout *base, int64_t from, int64_t to, char *message,
                                       size_t size);

/* Changes *view from the description of a tensor with these flags to the description of its view with this layout.
 * *view refers to shape and strides in the layout, which must outlive it. The caller must check the view with
 * dlbcore_check_tensor. On error *view is undefined. */
CORE_API dlbcore_status dlbcore_view_describe(DLTensor *view, dlbcore_layout *layout, uint64_t flags, char *message,
                                        size_t size);

/* Reports whether two indices reach the same element of a layout whose reach fits in 63 bits. Also returns 1 if the
 * strides interlock in so many ways that it gives up the search. Go: layout.Overlaps */
CORE_API int dlbcore_overlaps(const dlbcore_layout *layout);

#endif
