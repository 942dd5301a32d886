//go:build !dlbridge_shared

/* validate.c: checks a tensor's description, and computes its extent. These rules and Go's are tested with the cases in
 * testdata/extents.json. */
#include "core.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

dlbcore_status dlbcore_fail(dlbcore_status status, char *message, size_t size, const char *format, ...) {
  if (message != NULL && size > 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, size, format, args);
    va_end(args);
  }
  return status;
}

/* Type 20, host memory of a TPU, is not among them: no released DLPack says that the CPU can read it. */
int dlbcore_host_readable(int32_t device_type) {
  return device_type == kDLCPU || device_type == kDLCUDAHost || device_type == kDLROCMHost;
}

static const dlbcore_kind kinds[] = {
    [kDLInt] = {"int", {8, 16, 32, 64, 4, 2}, 1},
    [kDLUInt] = {"uint", {8, 16, 32, 64, 4, 2}, 1},
    [kDLFloat] = {"float", {32, 64, 16}, 1},
    [kDLOpaqueHandle] = {"handle", {64, 8, 16, 32, 128}, 1},
    [kDLBfloat] = {"bfloat", {16}, 1},
    [kDLComplex] = {"complex", {32, 64, 128}, 1},
    [kDLBool] = {"bool", {8}, 0},
    [kDLFloat8_e3m4] = {"float8_e3m4", {8}, 0},
    [kDLFloat8_e4m3] = {"float8_e4m3", {8}, 0},
    [kDLFloat8_e4m3b11fnuz] = {"float8_e4m3b11fnuz", {8}, 0},
    [kDLFloat8_e4m3fn] = {"float8_e4m3fn", {8}, 0},
    [kDLFloat8_e4m3fnuz] = {"float8_e4m3fnuz", {8}, 0},
    [kDLFloat8_e5m2] = {"float8_e5m2", {8}, 0},
    [kDLFloat8_e5m2fnuz] = {"float8_e5m2fnuz", {8}, 0},
    [kDLFloat8_e8m0fnu] = {"float8_e8m0fnu", {8}, 0},
    [kDLFloat6_e2m3fn] = {"float6_e2m3fn", {6}, 0},
    [kDLFloat6_e3m2fn] = {"float6_e3m2fn", {6}, 0},
    [kDLFloat4_e2m1fn] = {"float4_e2m1fn", {4}, 0},
};

const dlbcore_kind *dlbcore_kind_of(uint8_t code) { return code < sizeof kinds / sizeof kinds[0] ? &kinds[code] : NULL; }

int dlbcore_known_dtype(DLDataType dtype) {
  const dlbcore_kind *kind = dlbcore_kind_of(dtype.code);
  if (kind == NULL || dtype.bits == 0 || dtype.lanes == 0) return 0;
  for (size_t i = 0; i < sizeof kind->widths; i++) {
    if (dtype.bits == kind->widths[i]) return 1;
  }
  return 0;
}

void dlbcore_set_row_major(int64_t *strides, const int64_t *shape, int32_t ndim) {
  uint64_t step = 1;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    strides[d] = (int64_t)step;
    if (shape[d] > 1) step *= (uint64_t)shape[d];
  }
}

/* Reports whether shape or strides point below all memory. Only strides may be NULL. */
static int nowhere(const int64_t *shape, const int64_t *strides) {
  return (uintptr_t)shape < CORE_LOWEST || (uintptr_t)strides - 1 < CORE_LOWEST - 1;
}

/* The fast path for most tensors: row-major without gaps, with at least one element, and elements of whole bytes.
 * Returns 1 and sets *out if such a tensor is valid. Returns 0 for all others, valid or not; *out is then undefined. */
static int fast_extent(const DLTensor *t, dlbcore_extent *out) {
  if ((uintptr_t)t % 8 != 0 || (uintptr_t)t < CORE_LOWEST) return 0;
  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes, count = 1;
  uint64_t start;
  if (((uintptr_t)t->shape | (uintptr_t)t->strides) % 8 != 0 || t->ndim < 0 ||
      t->ndim > CORE_RANK_MAX || (t->ndim > 0 && nowhere(t->shape, t->strides)) || t->data == NULL ||
      bits % 8 != 0 || !dlbcore_known_dtype(t->dtype))
    return 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    int64_t n = t->shape[d];
    if (n <= 0 || (t->strides != NULL && t->strides[d] != count && n != 1) ||
        __builtin_mul_overflow(count, n, &count))
      return 0;
  }
  *out = (dlbcore_extent){.count = count, .row_major = 1};
  if (__builtin_mul_overflow(count, bits / 8, &out->nbytes) ||
      __builtin_add_overflow((uint64_t)(uintptr_t)t->data, t->byte_offset, &start) ||
      !dlbcore_in_address_space(start, 0, out->nbytes))
    return 0;
  out->high = out->nbytes;
  return 1;
}

#define FAIL(status, ...) return dlbcore_fail(status, message, size, __VA_ARGS__)

/* Refuses a type that dlbcore_known_dtype does not know, with the same words as DataType.refusal in Go. */
static dlbcore_status refuse_dtype(DLDataType dtype, char *message, size_t size) {
  const dlbcore_kind *kind = dlbcore_kind_of(dtype.code);
  char why[64] = "lanes must be at least 1";
  if (kind == NULL) {
    snprintf(why, sizeof why, "code %d is unknown, codes are 0 to %zu", dtype.code, sizeof kinds / sizeof kinds[0] - 1);
  } else if (!dlbcore_known_dtype((DLDataType){dtype.code, dtype.bits, 1})) {
    int n = snprintf(why, sizeof why, "%s has", kind->name);
    const char *comma = "";
    for (int bits = 1; bits <= UINT8_MAX; bits++) {
      if (!dlbcore_known_dtype((DLDataType){dtype.code, (uint8_t)bits, 1})) continue;
      n += snprintf(why + n, sizeof why - (size_t)n, "%s %d", comma, bits);
      comma = ",";
    }
    snprintf(why + n, sizeof why - (size_t)n, " bits, not %d", dtype.bits);
  }
  FAIL(CORE_ERR_DTYPE, "dtype = (code %d, bits %d, lanes %d): %s", dtype.code, dtype.bits, dtype.lanes, why);
}

static dlbcore_status validate(const DLTensor *t, uint64_t flags, dlbcore_extent *out, char *message,
                               size_t size) {
  dlbcore_extent extent = {.count = 1, .row_major = 1};
  if (t == NULL) FAIL(CORE_ERR_NULL, "tensor is NULL");
  if ((uintptr_t)t % 8 != 0) FAIL(CORE_ERR_UNALIGNED, "tensor at %p is not aligned", (void *)t);
  if ((uintptr_t)t < CORE_LOWEST)
    FAIL(CORE_ERR_NULL, "tensor at %p lies below address %d", (void *)t, CORE_LOWEST);
  if (t->ndim < 0 || t->ndim > CORE_RANK_MAX)
    FAIL(CORE_ERR_LAYOUT, "ndim = %" PRId32 " is not in 0..%d", t->ndim, CORE_RANK_MAX);
  if (!dlbcore_known_dtype(t->dtype))
    return refuse_dtype(t->dtype, message, size);
  if (t->ndim > 0 && t->shape == NULL)
    FAIL(CORE_ERR_NULL, "shape is NULL, but ndim is %" PRId32, t->ndim);
  if (t->ndim > 0 && ((uintptr_t)t->shape % 8 != 0 || (uintptr_t)t->strides % 8 != 0))
    FAIL(CORE_ERR_UNALIGNED, "shape at 0x%" PRIxPTR " or strides at 0x%" PRIxPTR " is not aligned",
         (uintptr_t)t->shape, (uintptr_t)t->strides);
  if (t->ndim > 0 && nowhere(t->shape, t->strides))
    FAIL(CORE_ERR_NULL, "shape at 0x%" PRIxPTR " or strides at 0x%" PRIxPTR " lies below address %d",
         (uintptr_t)t->shape, (uintptr_t)t->strides, CORE_LOWEST);

  int empty = 0;
  for (int32_t d = 0; d < t->ndim; d++) {
    if (t->shape[d] < 0)
      FAIL(CORE_ERR_LAYOUT, "shape[%" PRId32 "] is %" PRId64 ", must not be negative", d, t->shape[d]);
    empty |= t->shape[d] == 0;
  }
  for (int32_t d = 0; d < t->ndim && !empty; d++) {
    if (__builtin_mul_overflow(extent.count, t->shape[d], &extent.count))
      FAIL(CORE_ERR_OVERFLOW, "shape has more than 2^63-1 elements from axis %" PRId32 " on", d);
  }
  if (empty) extent.count = 0;

  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
  int packed = bits % 8 != 0 && !(flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  int64_t item = (bits + 7) / 8;
  if (packed) {
    int64_t total;
    if (__builtin_mul_overflow(extent.count, bits, &total) || total > INT64_MAX - 7)
      FAIL(CORE_ERR_OVERFLOW, "%" PRId64 " elements of %" PRId64 " bits overflow", extent.count,
           bits);
    extent.nbytes = (total + 7) / 8;
  } else if (__builtin_mul_overflow(extent.count, item, &extent.nbytes)) {
    FAIL(CORE_ERR_OVERFLOW, "%" PRId64 " elements of %" PRId64 " bytes overflow", extent.count,
         item);
  }

  /* How far the strides lead from element (0, ..., 0) in both directions, in elements. */
  int64_t low = 0, high = 0, step = 1, span;
  if (t->strides != NULL && !empty) {
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
      if (t->shape[d] == 1) continue;
      int64_t reach;
      if (__builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach) ||
          (reach < 0 ? __builtin_add_overflow(low, reach, &low)
                     : __builtin_add_overflow(high, reach, &high)))
        FAIL(CORE_ERR_OVERFLOW, "strides[%" PRId32 "] = %" PRId64 " with shape[%" PRId32
             "] = %" PRId64 " overflows", d, t->strides[d], d, t->shape[d]);
      if (t->strides[d] != step) extent.row_major = 0;
      step *= t->shape[d];
    }
  } else {
    high = empty ? -1 : extent.count - 1;
  }
  if (empty) {
    extent.low = extent.high = 0;
  } else if (packed) {
    if (!extent.row_major)
      FAIL(CORE_ERR_LAYOUT, "packed elements of %" PRId64 " bits must be row-major without gaps",
           bits);
    extent.high = extent.nbytes;
  } else if (__builtin_mul_overflow(low, item, &extent.low) ||
             __builtin_add_overflow(high, (int64_t)1, &high) ||
             __builtin_mul_overflow(high, item, &extent.high) ||
             __builtin_sub_overflow(extent.high, extent.low, &span)) {
    FAIL(CORE_ERR_OVERFLOW, "the strides span more than 2^63-1 bytes");
  }

  if (!empty && t->data == NULL)
    FAIL(CORE_ERR_NULL, "data is NULL, but the tensor has %" PRId64 " element%s", extent.count, extent.count == 1 ? "" : "s");
  if (!empty && dlbcore_host_readable(t->device.device_type)) {
    uint64_t start;
    if (__builtin_add_overflow((uint64_t)(uintptr_t)t->data, t->byte_offset, &start) ||
        !dlbcore_in_address_space(start, extent.low, extent.high))
      FAIL(CORE_ERR_OVERFLOW, "data = %#" PRIx64 " with byte_offset = %" PRIu64 " leads outside the address space",
           (uint64_t)(uintptr_t)t->data, t->byte_offset);
  }
  *out = extent;
  return CORE_OK;
}

dlbcore_status dlbcore_check_tensor(const DLTensor *t, uint64_t flags, dlbcore_extent *out, char *message,
                          size_t size) {
  dlbcore_extent extent;
  if (out == NULL) out = &extent;
  if (t != NULL && fast_extent(t, out)) return CORE_OK;
  return validate(t, flags, out, message, size);
}

/* kDLExtDev stands for any device. Addresses on a device are not checked, but data must not be NULL. */
dlbcore_status dlbcore_check_layout(const DLTensor *t, uint64_t flags, dlbcore_extent *out, char *message,
                                   size_t size) {
  DLTensor view = *t;
  view.data = &view;
  view.byte_offset = 0;
  view.device.device_type = kDLExtDev;
  return dlbcore_check_tensor(&view, flags, out, message, size);
}
