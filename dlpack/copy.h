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

#ifdef __cplusplus
}
#endif

#endif
