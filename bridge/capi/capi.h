/* capi.h: declarations that the C files of this folder share. The library does not export them. */
#ifndef DLB_CAPI_H_
#define DLB_CAPI_H_

#include <dlbridge.h>
#include <string.h>

#include "core.h"

enum { PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED };

/* ---- errors ---------------------------------------------------------------------------------- */

/* Both set `error`, which may be NULL, and return its code: DLB_OK, or `code`. */
CORE_API int32_t dlbcapi_ok(dlb_error *error);
__attribute__((format(printf, 3, 4))) CORE_API int32_t dlbcapi_fail(dlb_error *error, int32_t code,
                                                             const char *format, ...);

/* ---- holds: shares of memory that a caller handed over ---------------------------------------- */

/* Returns the first share of memory that release(ctx) gives back, or NULL if memory for the share
 * cannot be allocated. */
CORE_API dlbcore_share *dlbcapi_hold(void (*release)(void *ctx), void *ctx);
/* Takes a tensor or frame over, and sets *out to the first share of its memory. An object of this library is refused if
 * it was released or taken over before. `what` and `index` name it in the error, as in dlbcapi_check_live. */
CORE_API int32_t dlbcapi_hold_versioned(dlbcore_share **out, const char *op, const char *what, size_t index,
                                 DLManagedTensorVersioned *managed, dlb_error *error);
CORE_API int32_t dlbcapi_hold_legacy(dlbcore_share **out, const char *op, const char *what, size_t index, DLManagedTensor *managed,
                              dlb_error *error);
CORE_API int32_t dlbcapi_hold_frame(dlbcore_share **out, const char *op, const char *what, size_t index, const dlb_frame *frame,
                             dlb_error *error);
/* Undoes dlbcapi_hold and the functions above while there is only one share. It does not call
 * release; the caller owns the object again. NULL is allowed. */
CORE_API void dlbcapi_unhold(dlbcore_share *hold);
/* Exports a tensor with the description `view` on the memory of `share`, and sets *out to it. The
 * caller gives up the share. If the export cannot be allocated, undo(share) is called. */
CORE_API int32_t dlbcapi_hand_over(DLManagedTensorVersioned **out, const char *op, dlbcore_share *share, const DLTensor *view,
                            uint64_t flags, void (*undo)(dlbcore_share *share), dlb_error *error);
/* Returns the number of holds that have not been released. */
CORE_API int64_t dlbcapi_held(void);

/* ---- registry: messages, elements and files, which programs refer to by their address ---------------- */

typedef enum { CAPI_FOREIGN = -1, CAPI_ENDED = 0, CAPI_MESSAGE, CAPI_ELEMENTS, CAPI_FILE, CAPI_KINDS } dlbcapi_kind;

/* Returns a zeroed dlb_message, dlbcapi_elements or dlb_file, or NULL if there is no memory. It
 * counts as ended until dlbcapi_object_publish, so a program that passes its address by mistake
 * cannot use or end it. */
CORE_API void *dlbcapi_object_new(void);
CORE_API void dlbcapi_object_publish(void *object, dlbcapi_kind kind);
/* Returns the kind of the object at any address, or CAPI_FOREIGN if there is none. It reads the
 * memory only if an object is there. */
CORE_API dlbcapi_kind dlbcapi_object_kind(const void *object);
/* Marks an object as ended, and reports whether this call has marked it. If so, the caller releases
 * everything that the object owns, and gives it back with dlbcapi_object_free. */
CORE_API int dlbcapi_object_end(void *object, dlbcapi_kind kind);
CORE_API void dlbcapi_object_free(void *object);
/* Returns the number of objects of a kind that have not ended. */
CORE_API int64_t dlbcapi_objects_live(dlbcapi_kind kind);

/* ---- ledger ---------------------------------------------------------------------------------- */

/* A kind of object, and a function that reports whether the object at a place is live. */
typedef struct dlbcapi_ledger_kind {
  const char *name;
  int (*live)(const void *object);
} dlbcapi_ledger_kind;

CORE_API int dlbcapi_ledger_on(void);
/* Records the place of an object that is about to become live, with the stack of this call. The kind must be static. */
CORE_API void dlbcapi_ledger_enter(const void *object, const dlbcapi_ledger_kind *kind, uint64_t bytes);
/* Turns the ledger record of a managed tensor, which its export has made, into the record of a
 * frame of `bytes` bytes. */
CORE_API void dlbcapi_ledger_enter_frame(const void *managed, uint64_t bytes);
/* Makes the ledger record of a managed tensor that Go has exported. */
CORE_API void dlbcapi_ledger_enter_tensor(const void *managed, uint64_t bytes);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Checks a managed tensor for the function `op`; `what` names the argument. A tensor of this library that was released
 * or taken over is refused. Sets *extent unless it is NULL. */
CORE_API int32_t dlbcapi_check(const char *op, const char *what, const DLManagedTensorVersioned *tensor,
                        dlbcore_extent *extent, dlb_error *error);
/* Checks a description without a deleter. */
CORE_API int32_t dlbcapi_check_description(const char *op, const char *what, const DLTensor *tensor, uint64_t flags,
                                    dlbcore_extent *extent, dlb_error *error);
/* Returns the error for a description that the core refuses with a status and the text `where`. */
CORE_API int32_t dlbcapi_refuse_description(const char *op, const char *what, const DLTensor *tensor, dlbcore_status status,
                                            const char *where, dlb_error *error);
/* Refuses a tensor that this library has not made. */
CORE_API int32_t dlbcapi_check_own(const char *op, const char *what, const DLManagedTensorVersioned *tensor, dlb_error *error);
/* Refuses memory that the host cannot read. */
CORE_API int32_t dlbcapi_check_readable(const char *op, const DLTensor *tensor, dlb_error *error);
/* Sets the `size` bytes of *out to zero. Refuses an `out` that is NULL. */
#define CAPI_CLEAR(op, out, error) dlbcapi_clear(op, out, sizeof *(out), error)
CORE_API int32_t dlbcapi_clear(const char *op, void *out, size_t size, dlb_error *error);
/* Return an error, for an argument that is NULL and for memory that cannot be allocated. `what`
 * names the argument. */
CORE_API int32_t dlbcapi_null(const char *op, const char *what, dlb_error *error);
CORE_API int32_t dlbcapi_memory(const char *op, dlb_error *error);
/* Refuses a function that needs Go in a forked child. */
CORE_API int32_t dlbcapi_check_forked(const char *op, dlb_error *error);
/* Checks that the reserved words of a structure, which `what` names, are 0. */
CORE_API int32_t dlbcapi_check_reserved(const char *op, const char *what, const uint64_t *words, size_t count,
                                 dlb_error *error);
#define CAPI_CHECK_RESERVED(op, what, structure, error) \
  dlbcapi_check_reserved(op, what, (structure)->reserved,  \
                      sizeof (structure)->reserved / sizeof *(structure)->reserved, error)
/* Refuses flags or options with bits outside `known`. `what` names the argument. */
CORE_API int32_t dlbcapi_check_bits(const char *op, const char *what, uint64_t bits, uint64_t known, dlb_error *error);
/* Checks an address and a size. With size 0, `data` may have any value: an empty slice of Rust
 * begins at 1 or 8, for example. Such a value must not become a Go pointer, because Go's pointer
 * checks would end the process. Callers replace it by NULL or never read it. */
CORE_API int32_t dlbcapi_check_bytes(const char *op, const char *what, const void *data, size_t size,
                              dlb_error *error);
CORE_API int32_t dlbcapi_check_frames(const char *op, const char *what, const dlb_frame *frames, size_t count,
                               dlb_error *error);
/* Checks that the caller still owns `object`. It is the argument `what`, or its element `index`
 * unless `index` is NO_INDEX. The caller owns it if the control block `block` is live, or if
 * `block` is NULL, as for objects of other libraries. */
#define NO_INDEX SIZE_MAX
CORE_API int32_t dlbcapi_check_live(const char *op, const char *what, size_t index, const void *object,
                             const dlbcore_block *block, dlb_error *error);
/* Returns the error for such an argument that must not be passed, with the reason. */
CORE_API int32_t dlbcapi_refuse(const char *op, const char *what, size_t index, const void *object, const char *why,
                         dlb_error *error);
#define COPY_OF_STRUCT "is a copy of the struct: pass the tensor itself"
/* Refuses a tensor whose address is NULL, very low or unaligned. */
CORE_API int32_t dlbcapi_check_address(const char *op, const char *what, const void *tensor, dlb_error *error);

/* ---- counters -------------------------------------------------------------------------------- */

/* A Go library in the process, which adds its own counts to the counters of C. */
typedef struct dlbcapi_counting {
  void (*add)(dlb_counters *now);
  struct dlbcapi_counting *next;
} dlbcapi_counting;
CORE_API void dlbcapi_counters_add(dlbcapi_counting *library);

/* ---- messages -------------------------------------------------------------------------------- */

/* A frame of a message, and its share of the bytes. */
typedef struct dlbcapi_frame {
  dlbcore_share *share;
  const char *data;
  size_t size;
  uint64_t flags; /* of dlb_frame */
} dlbcapi_frame;

/* A tensor of a message: a view of the memory of its frames, or of a joined copy. */
typedef struct dlbcapi_tensor {
  DLTensor view;
  uint64_t flags; /* of DLManagedTensorVersioned */
  dlbcapi_frame *frame; /* keeps the memory of the tensor; NULL if there are no elements to read: see dlb_message_tensor_at */
  size_t part, parts; /* the index of its first payload part, and the number of its parts */
  dlb_bytes metadata, name;
  int32_t copied, only_metadata;
} dlbcapi_tensor;

/* Go fills in a message. Afterwards only C reads, shares and frees it, except that capiEncodePacked
 * reads the frames. */
struct dlb_message {
  dlb_header header;
  dlb_bytes label; /* inside frame 0 */
  dlb_bytes metadata;
  size_t frame_count, tensor_count;
  size_t joined_count; /* further entries of `frames`, which are no frames: the memory of tensors that were joined */
  dlbcapi_frame *frames; /* prefix, header, payload parts; the arrays below are in the same allocation */
  dlbcapi_tensor *tensors;
  int64_t *dims; /* room for shapes and strides */
  char *text;    /* room for metadata and names */
};

/* The release function of all frames that the library returns. It identifies frames and copies of
 * their struct; their ctx is the control block of an export. */
CORE_API void dlbcapi_release_frame(void *ctx);
static inline dlbcore_block *dlbcapi_block_of_frame(const dlb_frame *frame) {
  return frame->release == dlbcapi_release_frame ? frame->ctx : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Decoded elements: a structure that the caller sees and may change, followed by private fields. */
typedef struct dlbcapi_elements {
  dlb_elements seen;
  dlbcore_share *hold; /* share of the frame */
  dlbcore_share *own;  /* share of the memory of the values if they are not in the frame, otherwise NULL */
  void *room;       /* memory of the arrays in seen */
  char *text;       /* in room: the name of the type */
} dlbcapi_elements;

/* ---- files ----------------------------------------------------------------------------------- */

/* The functions of the Go library that has opened a file. `handle` is its handle of the file. */
typedef struct dlbcapi_file_calls {
  int32_t (*tensor)(const char *op, uintptr_t handle, size_t index, int32_t copy, DLManagedTensorVersioned **out, dlb_error *error);
  int32_t (*metadata)(const char *op, uintptr_t handle, dlb_bytes **out, dlb_error *error); /* *out in one allocation */
  int32_t (*check)(const char *op, uintptr_t handle, int32_t sync, dlb_error *error);
  void (*close)(uintptr_t handle);
} dlbcapi_file_calls;

/* A file. Go fills it in. Afterwards only the metadata change, once. */
struct dlb_file {
  uintptr_t handle;
  const dlbcapi_file_calls *calls;
  dlb_bytes format, *metadata; /* metadata: NULL until they are asked for */
  size_t count;
  dlb_file_entry *entries; /* the arrays below are in the same allocation */
  int64_t *dims;           /* room for shapes */
  char *text;              /* room for texts */
};

#endif
