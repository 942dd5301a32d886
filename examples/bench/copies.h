/* copies.h: copies in C without dlbridge: memcpy and a transpose written by hand. */
#ifndef BENCH_COPIES_H_
#define BENCH_COPIES_H_

#include <stddef.h>

void plain_memcpy(void *dst, const void *src, size_t size);

/* Transposes a matrix of side*side floats: dst[j][i] = src[i][j]. It works on 8x8 tiles in registers and 64x64
 * blocks, and its stores bypass the cache. Without AVX2 it is plain C with 64x64 blocks. side must be a multiple
 * of 64, and dst must be aligned to 32 bytes. */
void reference_transpose(float *dst, const float *src, int side);

#endif
