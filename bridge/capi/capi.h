/* capi.h: what the files of this folder share. Nothing in it is exported from the library. */
#ifndef DLB_CAPI_H_
#define DLB_CAPI_H_

#include <dlbridge.h>
#include <string.h>

#include "core.h"

#define CAPI __attribute__((visibility("hidden")))

/* ---- errors ---------------------------------------------------------------------------------- */

/* Both return the code that they put into `error`, which may be NULL. */
CAPI int32_t capi_ok(dlb_error *error);
__attribute__((format(printf, 3, 4))) CAPI int32_t capi_fail(dlb_error *error, int32_t code,
                                                             const char *format, ...);

/* ---- holds: memory that a caller handed over ------------------------------------------------- */

/* A share of memory that release(ctx) gives back. NULL when there is no memory. */
CAPI core_share *capi_hold(void (*release)(void *ctx), void *ctx);
/* The same of a tensor or frame, which is taken over with it: the library's own once, and not after it was released.
 * `what` and `index` name it as in capi_check_live. */
CAPI int32_t capi_hold_versioned(core_share **out, const char *op, const char *what, size_t index,
                                 DLManagedTensorVersioned *managed, dlb_error *error);
CAPI int32_t capi_hold_frame(core_share **out, const char *op, const char *what, size_t index, const dlb_frame *frame,
                             dlb_error *error);
/* Takes a hold back that nobody has shared: release is not called, and what was taken over is the caller's again.
 * NULL is allowed. */
CAPI void capi_unhold(core_share *hold);
/* Holds that have not been released. */
CAPI int64_t capi_held(void);

/* ---- handles: what a program holds of ours by its address ------------------------------------ */

typedef enum { CAPI_FOREIGN = -1, CAPI_ENDED = 0, CAPI_MESSAGE, CAPI_ELEMENTS, CAPI_KINDS } capi_kind;

/* A zeroed dlb_message or capi_elements, which counts as ended until capi_object_publish. Until then only its maker has it,
 * whatever address others pass. NULL when there is no memory. */
CAPI void *capi_object_new(void);
CAPI void capi_object_publish(void *object, capi_kind kind);
/* What lies at an address, which may be any: nothing is read there unless it is a handle. */
CAPI capi_kind capi_object_kind(const void *object);
/* Ends a handle of a kind. True for the one call that does: what the handle has is then the caller's to end,
 * who gives it back with capi_object_free. */
CAPI int capi_object_end(void *object, capi_kind kind);
CAPI void capi_object_free(void *object);
/* Those that have not ended. */
CAPI int64_t capi_objects_live(capi_kind kind);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Checks a managed tensor for the function `op`; `what` names the argument. One of the library's own that was released
 * or taken over is refused. */
CAPI int32_t capi_check(const char *op, const char *what, const DLManagedTensorVersioned *tensor,
                        core_extent *extent, dlb_error *error);
/* Whether arguments are what they must be; `what` names one. */
CAPI int32_t capi_null(const char *op, const char *what, dlb_error *error);
CAPI int32_t capi_memory(const char *op, dlb_error *error);
CAPI int32_t capi_check_forked(const char *op, dlb_error *error);
/* Whether the reserved words of a structure, which `what` names, are 0. */
CAPI int32_t capi_check_reserved(const char *op, const char *what, const uint64_t *words, size_t count,
                                 dlb_error *error);
#define CAPI_CHECK_RESERVED(op, what, structure, error) \
  capi_check_reserved(op, what, (structure)->reserved,  \
                      sizeof (structure)->reserved / sizeof *(structure)->reserved, error)
CAPI int32_t capi_check_options(const char *op, uint64_t options, uint64_t known, dlb_error *error);
/* Without bytes `data` may be anything, also what is no address: Rust has 1 or 8 there. Such must not get into a Go
 * pointer, so that it is not passed on to Go, or not looked at there. */
CAPI int32_t capi_check_bytes(const char *op, const char *what, const void *data, size_t size,
                              dlb_error *error);
CAPI int32_t capi_check_frames(const char *op, const char *what, const dlb_frame *frames, size_t count,
                               dlb_error *error);
/* Whether what is at `object`, argument `what` or element `index` of it, is its caller's still: `block`, if it has one of
 * ours, is live. */
#define NO_INDEX SIZE_MAX
CAPI int32_t capi_check_live(const char *op, const char *what, size_t index, const void *object,
                             const core_block *block, dlb_error *error);

/* ---- messages -------------------------------------------------------------------------------- */

/* A frame of a message, and what keeps its bytes. */
typedef struct capi_frame {
  core_share *share;
  const char *data;
  size_t size;
  uint64_t flags; /* of dlb_frame */
} capi_frame;

/* A tensor of a message: a view of one of its frames. */
typedef struct capi_tensor {
  DLTensor view;
  uint64_t flags; /* of DLManagedTensorVersioned */
  capi_frame *frame;
  dlb_bytes metadata;
  int32_t copied;
} capi_tensor;

/* Go fills a message and is then done with it: messages are read, shared and freed by C alone. */
struct dlb_message {
  dlb_header header;
  dlb_bytes label; /* inside frame 0 */
  dlb_bytes metadata;
  size_t frame_count, tensor_count;
  capi_frame *frames; /* prefix, header, payload parts; all that follows is in one allocation with them */
  capi_tensor *tensors;
  int64_t *dims; /* room for shapes and strides */
  char *text;    /* room for metadata */
};

/* A zeroed message with room for as much, which capi_object_publish makes one that a program may pass. NULL when there is
 * no memory. */
CAPI dlb_message *capi_message_new(size_t frames, size_t tensors, size_t dims, size_t text);
/* Ends a message that no program has. */
CAPI void capi_message_end(dlb_message *message);
CAPI int32_t capi_message_check(const char *op, const dlb_message *message, dlb_error *error);
/* Hands a frame out together with a share of its bytes, which its release drops, once. */
CAPI int32_t capi_frame_out(const char *op, dlb_frame *out, const capi_frame *frame, dlb_error *error);
/* The release of frames that were handed out. By that they are known, also copies of the struct: their ctx is the block
 * of an export. */
CAPI void capi_release_frame(void *ctx);
static inline core_block *capi_block_of_frame(const dlb_frame *frame) {
  return frame->release == capi_release_frame ? frame->ctx : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Elements that were read: what the caller sees and may change, and behind it what is private. */
typedef struct capi_elements {
  dlb_elements seen;
  core_share *hold; /* on the frame */
  core_share *own;  /* has the values, where they do not lie in the frame */
  void *room;       /* of all that is seen */
  char *text;       /* in it */
} capi_elements;

/* Elements with room for as much, which capi_object_publish makes such that a program may pass. NULL when there is no
 * memory. */
CAPI capi_elements *capi_elements_new(size_t count, size_t formats, size_t ndim, size_t text);

/* What a tensor in a frame is: Go says so, and C makes a dlb_value of it. */
typedef struct capi_reading {
  size_t start; /* of its elements */
  size_t end;   /* of the tensor; 0 where there is none */
  DLDataType dtype;
  int32_t ndim;
  uint64_t flags; /* of DLManagedTensorVersioned */
  int64_t *shape;
  core_share *own;         /* has the elements, where they do not lie in the frame */
  capi_elements *elements; /* instead of all of it but end and own: they have no hold yet */
} capi_reading;

/* Where tensors are read from, and to. */
typedef struct capi_input {
  const dlb_frame *frame;
  size_t offset;
  int32_t dialect;
  uint64_t options;
  capi_reading *readings; /* zeroed */
  size_t count;
  int64_t *dims; /* room for shapes */
  size_t room;
} capi_input;

/* Go's decoder of a format: fills the readings of `in`. */
typedef int32_t (*capi_decoder)(capi_input *in, dlb_error *error);
/* Go's encoder of a format: writes the tensor, or the elements if it is NULL, with a dialect or options in `how`. */
typedef int32_t (*capi_encoder)(size_t *out, void *data, size_t room, DLManagedTensorVersioned *tensor,
                                dlb_elements *elements, uint64_t how, dlb_error *error);

/* Decodes one value. It needs little enough of the stack for the smallest stack that a thread can have. */
CAPI int32_t capi_decode_value(const char *op, dlb_value *out, const dlb_frame *frame, capi_decoder decoder,
                               capi_input *in, dlb_error *error);
/* Decodes up to in->count values. */
CAPI int32_t capi_decode_values(const char *op, dlb_value *out, const dlb_frame *frame, capi_decoder decoder,
                                capi_input *in, dlb_error *error);
/* Checks a value. If it is a tensor, sets *view to a copy of its description without a deleter, which Go may import. */
CAPI int32_t capi_check_value(const char *op, const dlb_value *value, int with_values, DLManagedTensorVersioned *view,
                              dlb_error *error);
CAPI int32_t capi_encode_value(const char *op, size_t *out, void *data, size_t room, const dlb_value *value,
                               capi_encoder encoder, uint64_t how, dlb_error *error);

#endif
