/* The tensor functions of dlbridge.h, and the errors, holds and checks that they share with the other files. All of it
 * is plain C on the C core. It does not enter Go, so that it works in a forked child and before the Go runtime has
 * started. */
#include "capi.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *dlb_version(void) {
  return VERSION(DLB_VERSION_MAJOR, DLB_VERSION_MINOR, DLB_VERSION_PATCH);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* A status of the core is also a code of the interface. */
_Static_assert((int)CORE_OK == DLB_OK && (int)CORE_ERR_NULL == DLB_ERROR_NULL &&
                   (int)CORE_ERR_VERSION == DLB_ERROR_VERSION &&
                   (int)CORE_ERR_DTYPE == DLB_ERROR_DTYPE &&
                   (int)CORE_ERR_DEVICE == DLB_ERROR_DEVICE &&
                   (int)CORE_ERR_LAYOUT == DLB_ERROR_LAYOUT &&
                   (int)CORE_ERR_OVERFLOW == DLB_ERROR_OVERFLOW &&
                   (int)CORE_ERR_READONLY == DLB_ERROR_READONLY &&
                   (int)CORE_ERR_UNALIGNED == DLB_ERROR_UNALIGNED &&
                   (int)CORE_ERR_MEMORY == DLB_ERROR_MEMORY,
               "core_status and DLB_ERROR_* have the same numbers");

const char *dlb_error_name(int32_t code) {
  switch (code) {
    case DLB_OK: return "ok";
    case DLB_ERROR_NULL: return "null";
    case DLB_ERROR_VERSION: return "version";
    case DLB_ERROR_DTYPE: return "dtype";
    case DLB_ERROR_DEVICE: return "device";
    case DLB_ERROR_LAYOUT: return "layout";
    case DLB_ERROR_OVERFLOW: return "overflow";
    case DLB_ERROR_READONLY: return "readonly";
    case DLB_ERROR_UNALIGNED: return "unaligned";
    case DLB_ERROR_MEMORY: return "memory";
    case DLB_ERROR_FORMAT: return "format";
    case DLB_ERROR_ARGUMENT: return "argument";
    case DLB_ERROR_FORKED: return "forked";
    case DLB_ERROR_INTERNAL: return "internal";
    case DLB_ERROR_ROOM: return "room";
    default: return "unknown";
  }
}

int32_t capi_ok(dlb_error *error) {
  if (error != NULL) {
    error->code = DLB_OK;
    error->message[0] = '\0';
  }
  return DLB_OK;
}

int32_t capi_fail(dlb_error *error, int32_t code, const char *format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    error->code = code;
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
  }
  return code;
}

int32_t capi_memory(const char *op, dlb_error *error) {
  return capi_fail(error, DLB_ERROR_MEMORY, "%s: out of memory", op);
}

int32_t capi_null(const char *op, const char *what, dlb_error *error) {
  return capi_fail(error, DLB_ERROR_NULL, "%s: %s is NULL", op, what);
}

/* ---- holds ----------------------------------------------------------------------------------- */

static int64_t held;

int64_t capi_held(void) { return __atomic_load_n(&held, __ATOMIC_RELAXED); }

static void end_hold(core_share *hold) {
  free(hold);
  __atomic_fetch_sub(&held, 1, __ATOMIC_RELAXED);
}

static void release_hold(core_share *hold) {
  void (*lender)(void *) = hold->lender;
  void *ctx = hold->ctx;
  end_hold(hold);
  core_release_lent(lender, ctx);
}

core_share *capi_hold(void (*release)(void *ctx), void *ctx) {
  core_share *hold = calloc(1, sizeof *hold);
  if (hold == NULL) return NULL;
  hold->count = 1;
  hold->release = release_hold;
  hold->lender = release;
  hold->ctx = ctx;
  __atomic_fetch_add(&held, 1, __ATOMIC_RELAXED);
  return hold;
}

static void release_versioned(void *ctx) { core_release_versioned(ctx); }

static void release_legacy(void *ctx) { core_release_legacy(ctx); }

/* The release of a hold on an export of this library. It ends the control block, whatever its public fields contain. */
static void release_block(void *ctx) { core_block_end(ctx); }

void capi_unhold(core_share *hold) {
  if (hold == NULL) return;
  if (hold->lender == release_block) core_block_return(hold->ctx);
  end_hold(hold);
}

/* Returns the error for an argument, or an element of it, that must not be passed. */
static int32_t refuse(const char *op, const char *what, size_t index, const void *object, const char *why,
                      dlb_error *error) {
  char place[24] = "";
  if (index != NO_INDEX) snprintf(place, sizeof place, "[%zu]", index);
  return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s%s at %p %s", op, what, place, object, why);
}

int32_t capi_check_live(const char *op, const char *what, size_t index, const void *object,
                        const core_block *block, dlb_error *error) {
  int state = block != NULL ? core_block_state(block) : CORE_LIVE;
  if (state == CORE_LIVE) return DLB_OK;
  return refuse(op, what, index, object, state == CORE_TAKEN ? "was taken over before" : "was released", error);
}

/* Sets *out to a hold on `block`, or, if that is NULL, on memory that release(ctx) gives back. The block was live when
 * it was checked. It can have been taken over since by this call, if it was passed twice, or by another thread. */
static int32_t hold_block(core_share **out, const char *op, const char *what, size_t index, const void *object,
                          core_block *block, void (*release)(void *ctx), void *ctx, dlb_error *error) {
  *out = block != NULL ? capi_hold(release_block, block) : capi_hold(release, ctx);
  if (*out == NULL) return capi_memory(op, error);
  if (block == NULL || core_block_take(block)) return DLB_OK;
  end_hold(*out);
  *out = NULL;
  return refuse(op, what, index, object, "was taken over before", error);
}

/* A copy of the struct is refused, because the deleter expects the private fields of the control block after it. */
static const char COPIED[] = "is a copy of the struct: pass the tensor itself";

int32_t capi_hold_versioned(core_share **out, const char *op, const char *what, size_t index,
                            DLManagedTensorVersioned *managed, dlb_error *error) {
  core_block *block = core_block_of_versioned(managed);
  if (block == NULL && managed->deleter == core_delete_versioned) return refuse(op, what, index, managed, COPIED, error);
  return hold_block(out, op, what, index, managed, block, release_versioned, managed, error);
}

static int32_t hold_legacy(core_share **out, const char *op, DLManagedTensor *managed, dlb_error *error) {
  core_block *block = core_block_of_legacy(managed);
  if (block == NULL && managed->deleter == core_delete_legacy)
    return refuse(op, "tensor", NO_INDEX, managed, COPIED, error);
  return hold_block(out, op, "tensor", NO_INDEX, managed, block, release_legacy, managed, error);
}

void capi_release_frame(void *ctx) {
  if (ctx != NULL) core_delete_versioned(ctx);
}

int32_t capi_hold_frame(core_share **out, const char *op, const char *what, size_t index, const dlb_frame *frame,
                        dlb_error *error) {
  return hold_block(out, op, what, index, frame->data, capi_block_of_frame(frame), frame->release, frame->ctx, error);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static int32_t check(const char *op, const char *what, const DLTensor *tensor, uint64_t flags,
                     core_extent *extent, dlb_error *error) {
  char where[256];
  core_status status = core_check_tensor(tensor, flags, extent, where, sizeof where);
  if (status == CORE_OK) return DLB_OK;
  return capi_fail(error, (int32_t)status, "%s: %s: %s", op, what, where);
}

static int32_t check_address(const char *op, const char *what, const void *tensor, dlb_error *error) {
  if (tensor == NULL) return capi_null(op, what, error);
  if ((uintptr_t)tensor < CORE_LOWEST)
    return capi_fail(error, DLB_ERROR_NULL, "%s: %s at %p lies below address %d", op, what, tensor, CORE_LOWEST);
  if ((uintptr_t)tensor % sizeof(void *) == 0) return DLB_OK;
  return capi_fail(error, DLB_ERROR_UNALIGNED, "%s: %s at %p is not aligned", op, what, tensor);
}

/* If the major version is another one, no field after the version is read. */
int32_t capi_check(const char *op, const char *what, const DLManagedTensorVersioned *tensor,
                   core_extent *extent, dlb_error *error) {
  int32_t code = check_address(op, what, tensor, error);
  if (code != DLB_OK) return code;
  if (tensor->version.major != DLPACK_MAJOR_VERSION)
    return capi_fail(error, DLB_ERROR_VERSION, "%s: %s: DLPack version %" PRIu32 ".%" PRIu32 " is not supported, only %d.x is",
                     op, what, tensor->version.major, tensor->version.minor, DLPACK_MAJOR_VERSION);
  code = capi_check_live(op, what, NO_INDEX, tensor, core_block_of_versioned(tensor), error);
  if (code != DLB_OK) return code;
  return check(op, what, &tensor->dl_tensor, tensor->flags, extent, error);
}

enum {
  PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
  FLAGS = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | PADDED
};

/* Refuses unknown flags, whose meaning the library could not guarantee. */
static int32_t check_flags(const char *op, uint64_t flags, dlb_error *error) {
  if ((flags & ~(uint64_t)FLAGS) == 0) return DLB_OK;
  return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: flags = %#" PRIx64 " has unknown bits", op, flags);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Exports a tensor on a share, and drops the caller's share if that succeeds. */
static DLManagedTensorVersioned *hand_over(core_share *share, const DLTensor *view, uint64_t flags) {
  DLManagedTensorVersioned *managed = core_export_versioned(share, view, flags);
  if (managed != NULL) core_share_drop(share);
  return managed;
}

int32_t dlb_tensor_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                         const int64_t *shape, dlb_error *error) {
  static const char op[] = "dlb_tensor_alloc";
  if (out == NULL) return capi_null(op, "out", error);
  *out = NULL;
  DLTensor view = {
      .device = {.device_type = kDLCPU},
      .ndim = ndim,
      .dtype = dtype,
      .shape = (int64_t *)shape,
  };
  core_extent extent;
  char where[256];
  core_status status = core_check_layout(&view, 0, &extent, where, sizeof where);
  if (status != CORE_OK) return capi_fail(error, (int32_t)status, "%s: tensor: %s", op, where);
  core_share *share = core_share_alloc((size_t)extent.nbytes, 1);
  if (share == NULL)
    return capi_fail(error, DLB_ERROR_MEMORY, "%s: no memory for %" PRId64 " bytes", op,
                     extent.nbytes);
  view.data = share->data;
  *out = hand_over(share, &view, 0);
  if (*out == NULL) {
    core_share_drop(share);
    return capi_memory(op, error);
  }
  return capi_ok(error);
}

int32_t dlb_tensor_lend(DLManagedTensorVersioned **out, const DLTensor *view, uint64_t flags,
                        void (*release)(void *ctx), void *ctx, dlb_error *error) {
  static const char op[] = "dlb_tensor_lend";
  if (out == NULL) return capi_null(op, "out", error);
  *out = NULL;
  int32_t code = check_flags(op, flags, error);
  if (code != DLB_OK) return code;
  core_extent extent;
  code = check(op, "view", view, flags, &extent, error);
  if (code != DLB_OK) return code;
  core_share *hold = capi_hold(release, ctx);
  if (hold != NULL) *out = hand_over(hold, view, flags);
  if (*out == NULL) {
    capi_unhold(hold);
    return capi_memory(op, error);
  }
  return capi_ok(error);
}

int32_t dlb_tensor_copy(DLManagedTensorVersioned **out, const DLManagedTensorVersioned *tensor,
                        dlb_error *error) {
  static const char op[] = "dlb_tensor_copy";
  if (out == NULL) return capi_null(op, "out", error);
  *out = NULL;
  core_extent extent;
  int32_t code = capi_check(op, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  core_share *share = NULL;
  char where[256];
  core_status status =
      core_copy_compact(&share, &tensor->dl_tensor, tensor->flags, where, sizeof where);
  if (status != CORE_OK) return capi_fail(error, (int32_t)status, "%s: tensor: %s", op, where);
  DLTensor view = tensor->dl_tensor;
  view.data = share->data;
  view.device = (DLDevice){.device_type = kDLCPU};
  view.strides = NULL;
  view.byte_offset = 0;
  *out = hand_over(share, &view, DLPACK_FLAG_BITMASK_IS_COPIED | (tensor->flags & PADDED));
  if (*out == NULL) {
    core_share_drop(share);
    return capi_memory(op, error);
  }
  return capi_ok(error);
}

int32_t dlb_tensor_validate(const DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_extent extent;
  int32_t code = capi_check("dlb_tensor_validate", "tensor", tensor, &extent, error);
  return code == DLB_OK ? capi_ok(error) : code;
}

int32_t dlb_tensor_nbytes(int64_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  static const char op[] = "dlb_tensor_nbytes";
  if (out == NULL) return capi_null(op, "out", error);
  *out = 0;
  core_extent extent;
  int32_t code = capi_check(op, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  *out = extent.nbytes;
  return capi_ok(error);
}

int32_t dlb_tensor_to_legacy(DLManagedTensor **out, DLManagedTensorVersioned *tensor,
                             dlb_error *error) {
  static const char op[] = "dlb_tensor_to_legacy";
  if (out == NULL) return capi_null(op, "out", error);
  *out = NULL;
  core_extent extent;
  int32_t code = capi_check(op, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return capi_fail(error, DLB_ERROR_READONLY,
                     "%s: the tensor is read-only, which the legacy form cannot represent",
                     op);
  if ((tensor->flags & PADDED) && tensor->dl_tensor.dtype.bits * tensor->dl_tensor.dtype.lanes % 8)
    return capi_fail(error, DLB_ERROR_DTYPE,
                     "%s: the elements are padded, which the legacy form cannot represent",
                     op);
  core_share *hold;
  code = capi_hold_versioned(&hold, op, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  *out = core_export_legacy(hold, &tensor->dl_tensor);
  if (*out == NULL) {
    capi_unhold(hold);
    return capi_memory(op, error);
  }
  core_share_drop(hold);
  return capi_ok(error);
}

int32_t dlb_tensor_from_legacy(DLManagedTensorVersioned **out, DLManagedTensor *tensor,
                               uint64_t flags, dlb_error *error) {
  static const char op[] = "dlb_tensor_from_legacy";
  if (out == NULL) return capi_null(op, "out", error);
  *out = NULL;
  int32_t code = check_address(op, "tensor", tensor, error);
  if (code == DLB_OK)
    code = capi_check_live(op, "tensor", NO_INDEX, tensor, core_block_of_legacy(tensor), error);
  if (code == DLB_OK) code = check_flags(op, flags, error);
  if (code != DLB_OK) return code;
  core_extent extent;
  code = check(op, "tensor", &tensor->dl_tensor, flags, &extent, error);
  if (code != DLB_OK) return code;
  core_share *hold;
  code = hold_legacy(&hold, op, tensor, error);
  if (code != DLB_OK) return code;
  *out = hand_over(hold, &tensor->dl_tensor, flags);
  if (*out == NULL) {
    capi_unhold(hold);
    return capi_memory(op, error);
  }
  return capi_ok(error);
}

void dlb_tensor_release(DLManagedTensorVersioned *tensor) {
  if (tensor == NULL || tensor->deleter == NULL) return;
  if (tensor->deleter == core_delete_versioned && tensor->manager_ctx != tensor) return; /* a copy of the struct */
  tensor->deleter(tensor);
}
