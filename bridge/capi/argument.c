/* Checks at the beginning of functions: forked children, reserved words, addresses with sizes, frames. */
#include "capi.h"

#include <inttypes.h>
#include <stdio.h>

int32_t capi_check_forked(const char *op, dlb_error *error) {
  if (!core_forked()) return DLB_OK;
  return capi_fail(error, DLB_ERROR_FORKED,
                   "%s: needs Go, which does not run in a forked child: use spawn, forkserver or exec",
                   op);
}

int32_t capi_check_reserved(const char *op, const char *what, const uint64_t *words, size_t count,
                            dlb_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (words[i] == 0) continue;
    return capi_fail(error, DLB_ERROR_ARGUMENT,
                     "%s: %s.reserved[%zu] = %#" PRIx64 ", must be 0: either the structure was not initialised with "
                     "= {0}, or the program uses a field that this library, version %s, does not know",
                     op, what, i, words[i], dlb_version());
  }
  return DLB_OK;
}

int32_t capi_check_bytes(const char *op, const char *what, const void *data, size_t size,
                           dlb_error *error) {
  if (size == 0) return DLB_OK;
  if (data == NULL)
    return capi_fail(error, DLB_ERROR_NULL, "%s: %s is NULL with %zu bytes", op, what, size);
  if (size > PTRDIFF_MAX || !core_in_address_space((uintptr_t)data, 0, (int64_t)size))
    return capi_fail(error, DLB_ERROR_OVERFLOW, "%s: %s has %zu bytes at %p, outside the address space", op,
                     what, size, data);
  return DLB_OK;
}

static int32_t check_frame(const char *op, const char *what, const char *data, const dlb_frame *frame,
                           dlb_error *error) {
  int32_t code = capi_check_bytes(op, data, frame->data, frame->size, error);
  if (code != DLB_OK) return code;
  if (frame->flags & ~DLB_FRAME_WRITABLE)
    return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s.flags = %#" PRIx64 " has bits other than DLB_FRAME_WRITABLE", op,
                     what, frame->flags);
  return CAPI_CHECK_RESERVED(op, what, frame, error);
}

int32_t capi_check_frames(const char *op, const char *what, const dlb_frame *frames, size_t count,
                            dlb_error *error) {
  if (count > 0 && frames == NULL) return capi_null(op, what, error);
  if (count > PTRDIFF_MAX / sizeof *frames)
    return capi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s has %zu entries, more than memory can hold", op, what, count);
  for (size_t i = 0; i < count; i++) {
    if (check_frame(op, "", "", &frames[i], NULL) != DLB_OK) {
      char name[48], data[64];
      snprintf(name, sizeof name, "%s[%zu]", what, i);
      snprintf(data, sizeof data, "%s.data", name);
      return check_frame(op, name, data, &frames[i], error);
    }
    int32_t code = capi_check_live(op, what, i, frames[i].data, capi_block_of_frame(&frames[i]), error);
    if (code != DLB_OK) return code;
  }
  return DLB_OK;
}
