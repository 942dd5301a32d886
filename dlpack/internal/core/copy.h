/* copy.h: the functions behind dlbcore_copy that Go calls directly. */
#ifndef DLB_COPY_H_
#define DLB_COPY_H_

#include "core.h"

#include <stdbool.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Functions that are marked AVX2 are called only if dlbcore_has_avx2 reports that the processor has these instructions. */
CORE_API bool dlbcore_has_avx2(void);
#if defined(__x86_64__)
#define HAS_AVX2 1
#define AVX2 __attribute__((target("avx2,f16c")))
#else
#define HAS_AVX2 0
#endif

/* Like dlbcore_copy, for one part of a larger copy. The size of the larger copy, `whole` bytes, decides whether the
 * part bypasses the caches. With `plain` the function does not use AVX2; the results are the same. */
CORE_API void dlbcore_copy_part(bool plain, size_t whole, char *dst, const int64_t *dst_strides,
                             const char *src, const int64_t *src_strides, const int64_t *shape,
                             int32_t ndim, size_t itemsize);

/* Returns the size in bytes of all elements of a shape, with `item` bytes each, or SIZE_MAX if it is too large. */
INLINE size_t dlbcore_whole(size_t item, const int64_t *shape, int32_t ndim) {
  for (int32_t d = 0; d < ndim; d++) {
    if (__builtin_mul_overflow(item, (size_t)shape[d], &item)) item = SIZE_MAX;
  }
  return item;
}

INLINE int64_t dlbcore_magnitude(int64_t n) { return n < 0 ? -n : n; }

/* A dimension of a copy. */
typedef struct dlbcore_axis {
  int64_t size, dst, src; /* number of elements; steps in the destination and in the source, in bytes or bits */
} dlbcore_axis;

/* Describes a copy by as few axes as possible, from the slowest to the fastest axis of the destination. It leaves out
 * dimensions of size 1, and merges neighbours that follow each other without a gap in both source and destination. It
 * reverses dimensions with a negative stride in the destination, and moves *dst_start and *src_start to match. Steps
 * and starts have the unit of the strides. Returns the number of axes, at most CORE_AXES_MAX, or -1 if there is nothing
 * to copy. */
CORE_API int32_t dlbcore_axes(dlbcore_axis *axes, int64_t *dst_start, const int64_t *dst_strides,
                           int64_t *src_start, const int64_t *src_strides, const int64_t *shape,
                           int32_t ndim);

/* Advances an index over n axes, the last axis fastest, and the positions in the destination and in the source. After
 * the last index it returns false, and the index and the positions are back at the start. */
INLINE bool dlbcore_next(int64_t *index, const dlbcore_axis *axes, int32_t n, int64_t *dst, int64_t *src) {
  for (int32_t d = n - 1; d >= 0; d--) {
    *dst += axes[d].dst;
    *src += axes[d].src;
    if (++index[d] < axes[d].size) return true;
    *dst -= axes[d].size * axes[d].dst;
    *src -= axes[d].size * axes[d].src;
    index[d] = 0;
  }
  return false;
}

/* Converts numbers from one data type to another with the same number of lanes. dst and src are the addresses of
 * element (0, ..., 0). Strides are in elements. A side is padded if each of its elements takes whole bytes; the lanes
 * of an element are packed. Returns CORE_ERR_DTYPE, and does nothing, unless both types are numbers with the same
 * lanes. */
CORE_API dlbcore_status dlbcore_convert(char *dst, DLDataType dst_dtype, const int64_t *dst_strides,
                                  bool dst_padded, const char *src, DLDataType src_dtype,
                                  const int64_t *src_strides, bool src_padded,
                                  const int64_t *shape, int32_t ndim);

/* Like dlbcore_convert, for one part of a larger conversion. The size of all results, `whole` bytes, decides whether
 * they bypass the caches. With `plain` the function does not use AVX2; the results are the same. If `scaling` is not
 * NULL, the numbers are scaled; then no type may be complex, and elements of dst must not overlap each other. */
CORE_API dlbcore_status dlbcore_convert_part(bool plain, size_t whole, char *dst, DLDataType dst_dtype, const int64_t *dst_strides,
                                       bool dst_padded, const char *src, DLDataType src_dtype, const int64_t *src_strides,
                                       bool src_padded, const int64_t *shape, int32_t ndim, const dlbcore_scaling *scaling);

/* Checks a scaling for a conversion to a tensor of this type and shape, and makes its dimension count from the
 * beginning. Go: check */
CORE_API dlbcore_status dlbcore_check_scaling(dlbcore_scaling *scaling, DLDataType to, DLDataType from, const int64_t *shape,
                                              int32_t ndim, char *message, size_t size);

/* Reports whether two tensors of one shape and data type have equal numbers. 0 equals -0, and NaN equals NaN if
 * `nan_equal` is set. Every bool except 0 is true. The two parts of a complex number are compared one by one. The
 * arguments are as for dlbcore_convert. Returns -1 if the elements are not numbers. */
CORE_API int dlbcore_equal(const char *a, const int64_t *a_strides, bool a_padded, const char *b, const int64_t *b_strides,
                        bool b_padded, DLDataType dtype, const int64_t *shape, int32_t ndim, bool nan_equal);

#endif
