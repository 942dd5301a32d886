//go:build !dlbridge_shared

/* Holds: shares of memory that a caller has handed over. Exports of such memory. */
#include "capi.h"

#include <stdlib.h>

static int64_t held;

int64_t dlbcapi_held(void) { return __atomic_load_n(&held, __ATOMIC_RELAXED); }

static void end_hold(dlbcore_share *hold) {
  free(hold);
  __atomic_fetch_sub(&held, 1, __ATOMIC_RELAXED);
}

static void release_hold(dlbcore_share *hold) {
  void (*lender)(void *) = hold->lender;
  void *ctx = hold->ctx;
  end_hold(hold);
  dlbcore_release_lent(lender, ctx);
}

dlbcore_share *dlbcapi_hold(void (*release)(void *ctx), void *ctx) {
  dlbcore_share *hold = malloc(sizeof *hold);
  if (hold == NULL) return NULL;
  *hold = (dlbcore_share){.count = 1, .release = release_hold, .lender = release, .ctx = ctx};
  __atomic_fetch_add(&held, 1, __ATOMIC_RELAXED);
  return hold;
}

static void release_versioned(void *ctx) { dlbcore_release_versioned(ctx); }

static void release_legacy(void *ctx) { dlbcore_release_legacy(ctx); }

/* The release function of a hold on an export of this library. It ends the control block, whatever the public fields of the
 * managed tensor contain. */
static void release_block(void *ctx) { dlbcore_block_end(ctx); }

void dlbcapi_unhold(dlbcore_share *hold) {
  if (hold == NULL) return;
  if (hold->lender == release_block) dlbcore_block_return(hold->ctx);
  end_hold(hold);
}

/* Sets *out to a hold on `block` or, if `block` is NULL, on memory that release(ctx) gives back. The block was live
 * when it was checked. Since then, another thread may have taken it over, or this call itself if the block was passed
 * twice. */
static int32_t hold_block(dlbcore_share **out, const char *op, const char *what, size_t index, const void *object,
                          dlbcore_block *block, void (*release)(void *ctx), void *ctx, dlb_error *error) {
  *out = block != NULL ? dlbcapi_hold(release_block, block) : dlbcapi_hold(release, ctx);
  if (*out == NULL) return dlbcapi_memory(op, error);
  if (block == NULL || dlbcore_block_claim(block)) return DLB_OK;
  end_hold(*out);
  *out = NULL;
  return dlbcapi_refuse(op, what, index, object, "was taken over before", error);
}

/* Sets *out to a hold on a managed tensor. Its block is NULL unless this library has exported the tensor. A copy of an
 * export, which has `own_deleter` but no block, is refused: the deleter expects the private fields of the control block
 * after the struct. */
static int32_t hold_managed(dlbcore_share **out, const char *op, const char *what, size_t index, void *managed,
                            dlbcore_block *block, int own_deleter, void (*release)(void *ctx), dlb_error *error) {
  if (block == NULL && own_deleter)
    return dlbcapi_refuse(op, what, index, managed, COPY_OF_STRUCT, error);
  return hold_block(out, op, what, index, managed, block, release, managed, error);
}

int32_t dlbcapi_hold_versioned(dlbcore_share **out, const char *op, const char *what, size_t index,
                               DLManagedTensorVersioned *managed, dlb_error *error) {
  return hold_managed(out, op, what, index, managed, dlbcore_block_of_versioned(managed),
                      managed->deleter == dlbcore_delete_versioned, release_versioned, error);
}

int32_t dlbcapi_hold_legacy(dlbcore_share **out, const char *op, const char *what, size_t index, DLManagedTensor *managed,
                            dlb_error *error) {
  return hold_managed(out, op, what, index, managed, dlbcore_block_of_legacy(managed), managed->deleter == dlbcore_delete_legacy,
                      release_legacy, error);
}

void dlbcapi_release_frame(void *ctx) {
  if (ctx != NULL) dlbcore_delete_versioned(ctx);
}

int32_t dlbcapi_hold_frame(dlbcore_share **out, const char *op, const char *what, size_t index, const dlb_frame *frame,
                           dlb_error *error) {
  return hold_block(out, op, what, index, frame->data, dlbcapi_block_of_frame(frame), frame->release, frame->ctx, error);
}

int32_t dlbcapi_hand_over(DLManagedTensorVersioned **out, const char *op, dlbcore_share *share, const DLTensor *view,
                          uint64_t flags, void (*undo)(dlbcore_share *share), dlb_error *error) {
  *out = dlbcore_export_versioned(share, view, flags);
  if (*out == NULL) {
    undo(share);
    return dlbcapi_memory(op, error);
  }
  dlbcore_share_drop(share);
  return dlbcapi_ok(error);
}
