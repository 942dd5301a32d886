/* copy.h: the kernels behind core_copy, as Go calls them. */
#ifndef DLB_COPY_H_
#define DLB_COPY_H_

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The means of a copy. The results are the same. */
enum {
  CORE_COPY_PLAIN = 0,   /* plain C */
  CORE_COPY_SHUFFLE = 1, /* registers of 32 bytes, which need AVX2 */
  CORE_COPY_STREAM = 2   /* stores that pass by the caches */
};

/* core_copy, for a part of a copy of `whole` bytes, which tell whether it pays to pass by the caches,
 * with no other means than up to `most`. Those that the processor lacks are left out. */
CORE_API void core_copy_part(int most, size_t whole, void *dst, const int64_t *dst_strides,
                             const void *src, const int64_t *src_strides, const int64_t *shape,
                             int32_t ndim, size_t itemsize);

/* A dimension that a copy walks along. */
typedef struct core_axis {
  int64_t size, dst, src; /* elements, and the steps on both sides */
} core_axis;

/* The dimensions of a copy from the slowest to the fastest of the destination, as few as there can be:
 * without those of size 1, those of which one follows the other as one, and forwards in the destination,
 * for which the starts are moved. Returns how many there are, or -1 where there is nothing to copy. */
CORE_API int32_t core_axes(core_axis *axes, int64_t *dst_start, const int64_t *dst_strides,
                           int64_t *src_start, const int64_t *src_strides, const int64_t *shape,
                           int32_t ndim);

/* Converts numbers from one data type to another, of the same lanes; strides are in elements. `padded` is
 * 1 for a destination, and 2 for a source, whose numbers of fewer than 8 bits have bytes of their own.
 * Returns CORE_ERR_DTYPE where a type is no number's, and has done nothing then. */
CORE_API core_status core_convert(void *dst, DLDataType dst_dtype, const int64_t *dst_strides,
                                  const void *src, DLDataType src_dtype,
                                  const int64_t *src_strides, const int64_t *shape, int32_t ndim,
                                  int32_t padded);

#ifdef __cplusplus
}
#endif

#endif
