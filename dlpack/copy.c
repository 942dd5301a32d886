#include "core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy_items(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t count,
                       size_t itemsize) {
  if (dst_step == (int64_t)itemsize && src_step == (int64_t)itemsize) {
    memcpy(dst, src, (size_t)count * itemsize);
    return;
  }
#define COPY_ITEMS(n) \
  case n:             \
    for (int64_t i = 0; i < count; i++) memcpy(dst + i * dst_step, src + i * src_step, n); \
    return
  switch (itemsize) {
    COPY_ITEMS(1);
    COPY_ITEMS(2);
    COPY_ITEMS(4);
    COPY_ITEMS(8);
    COPY_ITEMS(16);
    default:
      for (int64_t i = 0; i < count; i++) memcpy(dst + i * dst_step, src + i * src_step, itemsize);
  }
#undef COPY_ITEMS
}

/* Outer dimensions are counted like the digits of a number; runs without gaps on both sides are
 * merged into the inner one first. */
void core_copy(void *dst, const int64_t *dst_strides, const void *src, const int64_t *src_strides,
               const int64_t *shape, int32_t ndim, size_t itemsize) {
  int64_t index[CORE_RANK_MAX] = {0};
  int64_t run = 1, dst_step = (int64_t)itemsize, src_step = (int64_t)itemsize;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 0) return;
  }
  while (ndim > 0) {
    int32_t d = ndim - 1;
    if (run == 1) {
      dst_step = dst_strides[d];
      src_step = src_strides[d];
    } else if (shape[d] != 1 && (dst_strides[d] != dst_step * run || src_strides[d] != src_step * run)) {
      break;
    }
    run *= shape[d];
    ndim--;
  }
  char *to = dst;
  const char *from = src;
  for (;;) {
    copy_items(to, dst_step, from, src_step, run, itemsize);
    int32_t d = ndim - 1;
    for (; d >= 0; d--) {
      to += dst_strides[d];
      from += src_strides[d];
      if (++index[d] < shape[d]) break;
      to -= index[d] * dst_strides[d];
      from -= index[d] * src_strides[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

core_status core_copy_compact(core_share **out, const DLTensor *t, uint64_t flags, char *message,
                              size_t size) {
  core_extent extent;
  core_status status = core_validate(t, flags, &extent, message, size);
  if (status != CORE_OK) return status;
  if (!core_host_readable(t->device.device_type)) {
    snprintf(message, message != NULL ? size : 0, "device type %d is not one the host can read", t->device.device_type);
    return CORE_ERR_DEVICE;
  }
  core_share *share = core_share_alloc((size_t)extent.nbytes, 0);
  if (share == NULL) {
    snprintf(message, message != NULL ? size : 0, "no memory for %" PRId64 " bytes", extent.nbytes);
    return CORE_ERR_MEMORY;
  }
  const char *src = (const char *)t->data + t->byte_offset;
  if (extent.row_major) {
    if (extent.nbytes > 0) memcpy(share->data, src, (size_t)extent.nbytes);
  } else {
    int64_t item = ((int64_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
    int64_t to[CORE_RANK_MAX], from[CORE_RANK_MAX];
    int64_t step = item;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
      to[d] = step;
      from[d] = t->strides[d] * item;
      if (t->shape[d] > 1) step *= t->shape[d]; /* validated: there is no stride without elements */
    }
    core_copy(share->data, to, src, from, t->shape, t->ndim, (size_t)item);
  }
  *out = share;
  return CORE_OK;
}
