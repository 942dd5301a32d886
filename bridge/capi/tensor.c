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

static const char *const error_names[] = {
    [DLB_OK] = "ok", [DLB_ERROR_NULL] = "null", [DLB_ERROR_VERSION] = "version", [DLB_ERROR_DTYPE] = "dtype",
    [DLB_ERROR_DEVICE] = "device", [DLB_ERROR_LAYOUT] = "layout", [DLB_ERROR_OVERFLOW] = "overflow",
    [DLB_ERROR_READONLY] = "readonly", [DLB_ERROR_UNALIGNED] = "unaligned", [DLB_ERROR_MEMORY] = "memory",
    [DLB_ERROR_FORMAT] = "format", [DLB_ERROR_ARGUMENT] = "argument", [DLB_ERROR_FORKED] = "forked",
    [DLB_ERROR_INTERNAL] = "internal", [DLB_ERROR_ROOM] = "room", [DLB_ERROR_FUNCTION] = "function",
    [DLB_ERROR_SYSTEM] = "system", [DLB_ERROR_CLOSED] = "closed",
};

const char *dlb_error_name(int32_t code) {
  return code >= 0 && (size_t)code < sizeof error_names / sizeof *error_names ? error_names[code] : "unknown";
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

int32_t capi_clear(const char *op, void *out, size_t size, dlb_error *error) {
  if (out == NULL) return capi_null(op, "out", error);
  memset(out, 0, size);
  return DLB_OK;
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
  core_share *hold = malloc(sizeof *hold);
  if (hold == NULL) return NULL;
  *hold = (core_share){.count = 1, .release = release_hold, .lender = release, .ctx = ctx};
  __atomic_fetch_add(&held, 1, __ATOMIC_RELAXED);
  return hold;
}

static void release_versioned(void *ctx) { core_release_versioned(ctx); }

static void release_legacy(void *ctx) { core_release_legacy(ctx); }

/* The release function of a hold on an export of this library. It ends the control block, whatever the public fields of the
 * managed tensor contain. */
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

#define COPY_OF_STRUCT "is a copy of the struct: pass the tensor itself"

/* Sets *out to a hold on a managed tensor, whose block is NULL unless this library has exported it. A copy of an export
 * is refused (it has `own_deleter` but no block), because the deleter expects the private fields of the control block
 * after the struct. */
static int32_t hold_managed(core_share **out, const char *op, const char *what, size_t index, void *managed,
                            core_block *block, int own_deleter, void (*release)(void *ctx), dlb_error *error) {
  if (block == NULL && own_deleter)
    return refuse(op, what, index, managed, COPY_OF_STRUCT, error);
  return hold_block(out, op, what, index, managed, block, release, managed, error);
}

int32_t capi_hold_versioned(core_share **out, const char *op, const char *what, size_t index,
                            DLManagedTensorVersioned *managed, dlb_error *error) {
  return hold_managed(out, op, what, index, managed, core_block_of_versioned(managed),
                      managed->deleter == core_delete_versioned, release_versioned, error);
}

void capi_release_frame(void *ctx) {
  if (ctx != NULL) core_delete_versioned(ctx);
}

int32_t capi_hold_frame(core_share **out, const char *op, const char *what, size_t index, const dlb_frame *frame,
                        dlb_error *error) {
  return hold_block(out, op, what, index, frame->data, capi_block_of_frame(frame), frame->release, frame->ctx, error);
}

/* ---- checks ---------------------------------------------------------------------------------- */

int32_t capi_check_description(const char *op, const char *what, const DLTensor *tensor, uint64_t flags,
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

/* If the major version is not 1, no field after the version is read. */
int32_t capi_check(const char *op, const char *what, const DLManagedTensorVersioned *tensor,
                   core_extent *extent, dlb_error *error) {
  int32_t code = check_address(op, what, tensor, error);
  if (code != DLB_OK) return code;
  if (tensor->version.major != DLPACK_MAJOR_VERSION)
    return capi_fail(error, DLB_ERROR_VERSION,
                     "%s: %s: DLPack version %" PRIu32 ".%" PRIu32 " is not supported, only %d.x is",
                     op, what, tensor->version.major, tensor->version.minor, DLPACK_MAJOR_VERSION);
  code = capi_check_live(op, what, NO_INDEX, tensor, core_block_of_versioned(tensor), error);
  return code == DLB_OK ? capi_check_description(op, what, &tensor->dl_tensor, tensor->flags, extent, error) : code;
}

int32_t capi_check_own(const char *op, const char *what, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  if (core_block_of_versioned(tensor) != NULL) return DLB_OK;
  if (tensor->deleter == core_delete_versioned) return refuse(op, what, NO_INDEX, tensor, COPY_OF_STRUCT, error);
  return refuse(op, what, NO_INDEX, tensor, "is a tensor of another library: dlb_tensor_import takes it over", error);
}

int32_t capi_check_readable(const char *op, const DLTensor *tensor, dlb_error *error) {
  if (core_host_readable(tensor->device.device_type)) return DLB_OK;
  return capi_fail(error, DLB_ERROR_DEVICE, "%s: memory on device type %d cannot be read; its producer can copy it to the CPU", op,
                   (int)tensor->device.device_type);
}

enum {
  PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
  FLAGS = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | PADDED
};

int32_t capi_check_bits(const char *op, const char *what, uint64_t bits, uint64_t known, dlb_error *error) {
  if ((bits & ~known) == 0) return DLB_OK;
  return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s = %#" PRIx64 " has unknown bits, %#" PRIx64 " are known", op,
                   what, bits, known);
}

/* ---- tensors --------------------------------------------------------------------------------- */

int32_t capi_hand_over(DLManagedTensorVersioned **out, const char *op, core_share *share, const DLTensor *view,
                       uint64_t flags, void (*undo)(core_share *share), dlb_error *error) {
  *out = core_export_versioned(share, view, flags);
  if (*out == NULL) {
    undo(share);
    return capi_memory(op, error);
  }
  core_share_drop(share);
  return capi_ok(error);
}

static int32_t allocate(const char *op, DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim,
                        const int64_t *shape, int zeroed, dlb_error *error) {
  int32_t code = CAPI_CLEAR(op, out, error);
  if (code != DLB_OK) return code;
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
  core_share *share = core_share_alloc((size_t)extent.nbytes, zeroed);
  if (share == NULL)
    return capi_fail(error, DLB_ERROR_MEMORY, "%s: no memory for %" PRId64 " bytes", op,
                     extent.nbytes);
  view.data = share->data;
  return capi_hand_over(out, op, share, &view, 0, core_share_drop, error);
}

int32_t dlb_tensor_alloc(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         dlb_error *error) {
  return allocate(__func__, out, dtype, ndim, shape, 1, error);
}

int32_t dlb_tensor_empty(DLManagedTensorVersioned **out, DLDataType dtype, int32_t ndim, const int64_t *shape,
                         dlb_error *error) {
  return allocate(__func__, out, dtype, ndim, shape, 0, error);
}

int32_t dlb_tensor_lend(DLManagedTensorVersioned **out, const DLTensor *view, uint64_t flags,
                        void (*release)(void *ctx), void *ctx, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check_bits(__func__, "flags", flags, FLAGS, error);
  if (code == DLB_OK) code = capi_check_description(__func__, "view", view, flags, NULL, error);
  if (code == DLB_OK && view->device.device_type == 0)
    code = capi_fail(error, DLB_ERROR_DEVICE, "%s: view->device is not set: {kDLCPU, 0} is the memory of the host", __func__);
  if (code != DLB_OK) return code;
  core_share *hold = capi_hold(release, ctx);
  if (hold == NULL) return capi_memory(__func__, error);
  return capi_hand_over(out, __func__, hold, view, flags, capi_unhold, error);
}

int32_t dlb_tensor_import(DLManagedTensorVersioned **out, DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_share *hold;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, NULL, error);
  if (code == DLB_OK) code = capi_hold_versioned(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  return capi_hand_over(out, __func__, hold, &tensor->dl_tensor, tensor->flags & FLAGS, capi_unhold, error);
}

int32_t dlb_tensor_validate(const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = capi_check(__func__, "tensor", tensor, NULL, error);
  return code == DLB_OK ? capi_ok(error) : code;
}

int32_t dlb_tensor_nbytes(int64_t *out, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  core_extent extent;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, &extent, error);
  if (code != DLB_OK) return code;
  *out = extent.nbytes;
  return capi_ok(error);
}

int32_t dlb_tensor_to_legacy(DLManagedTensor **out, DLManagedTensorVersioned *tensor,
                             dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = capi_check(__func__, "tensor", tensor, NULL, error);
  if (code != DLB_OK) return code;
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return capi_fail(error, DLB_ERROR_READONLY,
                     "%s: the tensor is read-only, which the legacy form cannot represent; dlb_tensor_copy makes a writable one",
                     __func__);
  if ((tensor->flags & PADDED) && tensor->dl_tensor.dtype.bits * tensor->dl_tensor.dtype.lanes % 8)
    return capi_fail(error, DLB_ERROR_DTYPE,
                     "%s: the elements are padded, which the legacy form cannot represent",
                     __func__);
  core_share *hold;
  code = capi_hold_versioned(&hold, __func__, "tensor", NO_INDEX, tensor, error);
  if (code != DLB_OK) return code;
  *out = core_export_legacy(hold, &tensor->dl_tensor);
  if (*out == NULL) {
    capi_unhold(hold);
    return capi_memory(__func__, error);
  }
  core_share_drop(hold);
  return capi_ok(error);
}

int32_t dlb_tensor_from_legacy(DLManagedTensorVersioned **out, DLManagedTensor *tensor,
                               uint64_t flags, dlb_error *error) {
  core_share *hold;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK) code = check_address(__func__, "tensor", tensor, error);
  if (code == DLB_OK)
    code = capi_check_live(__func__, "tensor", NO_INDEX, tensor, core_block_of_legacy(tensor), error);
  if (code == DLB_OK) code = capi_check_bits(__func__, "flags", flags, FLAGS, error);
  if (code == DLB_OK) code = capi_check_description(__func__, "tensor", &tensor->dl_tensor, flags, NULL, error);
  if (code == DLB_OK)
    code = hold_managed(&hold, __func__, "tensor", NO_INDEX, tensor, core_block_of_legacy(tensor),
                        tensor->deleter == core_delete_legacy, release_legacy, error);
  if (code != DLB_OK) return code;
  return capi_hand_over(out, __func__, hold, &tensor->dl_tensor, flags, capi_unhold, error);
}

void dlb_tensor_release(DLManagedTensorVersioned *tensor) {
  if (tensor == NULL || tensor->deleter == NULL) return;
  if (tensor->deleter == core_delete_versioned && tensor->manager_ctx != tensor) return; /* a copy of the struct */
  tensor->deleter(tensor);
}
