/* copies.h: what C does without dlbridge: memcpy, and a transpose as one writes it by hand. */
#ifndef BENCH_COPIES_H_
#define BENCH_COPIES_H_

#include <stddef.h>

void plain_memcpy(void *dst, const void *src, size_t size);

/* dst[j][i] = src[i][j] of side*side floats: tiles of 8x8 in registers, blocks of 64x64, and stores that
 * pass by the cache. side is a multiple of 64, dst of 32 bytes. Plain C where there is no AVX2. */
void reference_transpose(float *dst, const float *src, int side);

#endif
