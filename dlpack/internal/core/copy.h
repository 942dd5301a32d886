/* copy.h: the functions behind core_copy that Go calls directly. */
#ifndef DLB_COPY_H_
#define DLB_COPY_H_

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The instructions that a copy may use. The results are the same. */
enum {
  CORE_COPY_PLAIN = 0,   /* plain C */
  CORE_COPY_SHUFFLE = 1, /* and vector registers of 32 bytes, which need AVX2 */
  CORE_COPY_STREAM = 2   /* and stores that bypass the caches */
};

/* Like core_copy, for one part of a larger copy. The larger copy has `whole` bytes in all, which decides whether the part
 * bypasses the caches. `most` limits the instructions to use; those that the processor lacks are not used in any case. */
CORE_API void core_copy_part(int most, size_t whole, void *dst, const int64_t *dst_strides,
                             const void *src, const int64_t *src_strides, const int64_t *shape,
                             int32_t ndim, size_t itemsize);

/* A dimension that a copy walks along. */
typedef struct core_axis {
  int64_t size, dst, src; /* number of elements, and the steps in the destination and in the source */
} core_axis;

/* Describes a copy by as few axes as possible, from the slowest to the fastest one of the destination. It leaves out dimensions
 * of size 1, merges neighbours that follow each other without a gap in the source and in the destination, and reverses
 * dimensions with a negative stride in the destination, moving *dst_start and *src_start to match. Returns the number of axes, or -1 if
 * there is nothing to copy. */
CORE_API int32_t core_axes(core_axis *axes, int64_t *dst_start, const int64_t *dst_strides,
                           int64_t *src_start, const int64_t *src_strides, const int64_t *shape,
                           int32_t ndim);

/* Converts numbers from one data type to another with the same number of lanes. Strides are in elements. `padded` is a sum of 1
 * and 2: 1 if numbers of fewer than 8 bits have a byte each in the destination, 2 if they have one in the source. Returns
 * CORE_ERR_DTYPE, and does nothing, unless both types are numbers with the same lanes. */
CORE_API core_status core_convert(void *dst, DLDataType dst_dtype, const int64_t *dst_strides,
                                  const void *src, DLDataType src_dtype,
                                  const int64_t *src_strides, const int64_t *shape, int32_t ndim,
                                  int32_t padded);

#ifdef __cplusplus
}
#endif

#endif
