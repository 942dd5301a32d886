//go:build !dlbridge_shared

/* Checks at the beginning of functions: forked children, reserved words, bits, addresses with sizes, frames, tensors. */
#include "capi.h"

#include <inttypes.h>
#include <stdio.h>

int32_t dlbcapi_check_forked(const char *op, dlb_error *error) {
  if (!dlbcore_forked()) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_FORKED,
                      "%s: needs Go, which does not run in a forked child: call exec after fork",
                      op);
}

int32_t dlbcapi_check_reserved(const char *op, const char *what, const uint64_t *words, size_t count,
                               dlb_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (words[i] == 0) continue;
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT,
                        "%s: %s.reserved[%zu] = %#" PRIx64 ", must be 0: either the structure was not initialised with "
                        "= {0}, or the program uses a field that this library, version %s, does not know",
                        op, what, i, words[i], dlb_version());
  }
  return DLB_OK;
}

int32_t dlbcapi_check_bytes(const char *op, const char *what, const void *data, size_t size,
                           dlb_error *error) {
  if (size == 0) return DLB_OK;
  if (data == NULL)
    return dlbcapi_fail(error, DLB_ERROR_NULL, "%s: %s is NULL, but size is %zu bytes", op, what, size);
  if (size > PTRDIFF_MAX || !dlbcore_in_address_space((uintptr_t)data, 0, (int64_t)size))
    return dlbcapi_fail(error, DLB_ERROR_OVERFLOW, "%s: %s has %zu bytes at %p, outside the address space", op,
                        what, size, data);
  return DLB_OK;
}

int32_t dlbcapi_check_live(const char *op, const char *what, size_t index, const void *object,
                           const dlbcore_block *block, dlb_error *error) {
  int state = block != NULL ? dlbcore_block_state(block) : CORE_LIVE;
  if (state == CORE_LIVE) return DLB_OK;
  return dlbcapi_refuse(op, what, index, object, state == CORE_TAKEN ? "was taken over before" : "was released", error);
}

static int32_t check_frame(const char *op, const char *what, const char *data, const dlb_frame *frame,
                           dlb_error *error) {
  int32_t code = dlbcapi_check_bytes(op, data, frame->data, frame->size, error);
  if (code != DLB_OK) return code;
  if (frame->flags & ~DLB_FRAME_WRITABLE)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s.flags = %#" PRIx64 " has bits other than DLB_FRAME_WRITABLE", op,
                        what, frame->flags);
  return CAPI_CHECK_RESERVED(op, what, frame, error);
}

int32_t dlbcapi_check_frames(const char *op, const char *what, const dlb_frame *frames, size_t count,
                            dlb_error *error) {
  if (count > 0 && frames == NULL) return dlbcapi_null(op, what, error);
  if (count > PTRDIFF_MAX / sizeof *frames)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s has %zu entries, more than memory can hold", op, what, count);
  for (size_t i = 0; i < count; i++) {
    if (check_frame(op, "", "", &frames[i], NULL) != DLB_OK) {
      char name[48], data[64];
      snprintf(name, sizeof name, "%s[%zu]", what, i);
      snprintf(data, sizeof data, "%s.data", name);
      return check_frame(op, name, data, &frames[i], error);
    }
    int32_t code = dlbcapi_check_live(op, what, i, frames[i].data, dlbcapi_block_of_frame(&frames[i]), error);
    if (code != DLB_OK) return code;
  }
  return DLB_OK;
}

int32_t dlbcapi_refuse_description(const char *op, const char *what, const DLTensor *tensor, dlbcore_status status, const char *where,
                                   dlb_error *error) {
  /* With another status the pointer may be NULL. */
  int unset = status == CORE_ERR_DTYPE && tensor->dtype.code == 0 && tensor->dtype.bits == 0 && tensor->dtype.lanes == 0;
  return dlbcapi_fail(error, (int32_t)status, "%s: %s: %s%s", op, what, where, unset ? "; it is not set: {kDLFloat, 32, 1} is float32" : "");
}

int32_t dlbcapi_check_description(const char *op, const char *what, const DLTensor *tensor, uint64_t flags,
                                  dlbcore_extent *extent, dlb_error *error) {
  char where[256];
  dlbcore_status status = dlbcore_check_tensor(tensor, flags, extent, where, sizeof where);
  return status == CORE_OK ? DLB_OK : dlbcapi_refuse_description(op, what, tensor, status, where, error);
}

int32_t dlbcapi_check_address(const char *op, const char *what, const void *tensor, dlb_error *error) {
  if (tensor == NULL) return dlbcapi_null(op, what, error);
  if ((uintptr_t)tensor < CORE_LOWEST)
    return dlbcapi_fail(error, DLB_ERROR_NULL, "%s: %s at %p lies below address %d", op, what, tensor, CORE_LOWEST);
  if ((uintptr_t)tensor % sizeof(void *) == 0) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_UNALIGNED, "%s: %s at %p is not aligned", op, what, tensor);
}

/* If the major version is not 1, no field after the version is read. */
int32_t dlbcapi_check(const char *op, const char *what, const DLManagedTensorVersioned *tensor,
                      dlbcore_extent *extent, dlb_error *error) {
  int32_t code = dlbcapi_check_address(op, what, tensor, error);
  if (code != DLB_OK) return code;
  if (tensor->version.major != DLPACK_MAJOR_VERSION)
    return dlbcapi_fail(error, DLB_ERROR_VERSION,
                        "%s: %s: DLPack version %" PRIu32 ".%" PRIu32 " is not supported, only %d.x is",
                        op, what, tensor->version.major, tensor->version.minor, DLPACK_MAJOR_VERSION);
  code = dlbcapi_check_live(op, what, NO_INDEX, tensor, dlbcore_block_of_versioned(tensor), error);
  return code == DLB_OK ? dlbcapi_check_description(op, what, &tensor->dl_tensor, tensor->flags, extent, error) : code;
}

int32_t dlbcapi_check_own(const char *op, const char *what, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  if (dlbcore_block_of_versioned(tensor) != NULL) return DLB_OK;
  if (tensor->deleter == dlbcore_delete_versioned) return dlbcapi_refuse(op, what, NO_INDEX, tensor, COPY_OF_STRUCT, error);
  return dlbcapi_refuse(op, what, NO_INDEX, tensor, "is a tensor of another library: dlb_tensor_import takes it over", error);
}

int32_t dlbcapi_check_bits(const char *op, const char *what, uint64_t bits, uint64_t known, dlb_error *error) {
  if ((bits & ~known) == 0) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s = %#" PRIx64 " has unknown bits; the known bits are %#" PRIx64, op,
                      what, bits, known);
}
