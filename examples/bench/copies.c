#include "copies.h"

#include <string.h>

void plain_memcpy(void *dst, const void *src, size_t size) { memcpy(dst, src, size); }

enum { BLOCK = 64 };

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static inline void tile(float *dst, const float *src, size_t side) {
  __m256 a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(src + i * side);
  for (int i = 0; i < 4; i++) {
    b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    _mm256_stream_ps(dst + i * side, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_stream_ps(dst + (i + 4) * side, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

/* The inner loop goes down the source. Two successive tiles then fill each 64-byte cache line of dst. */
__attribute__((target("avx2"))) static void blocks(float *dst, const float *src, size_t side) {
  for (size_t i = 0; i < side; i += BLOCK) {
    for (size_t j = 0; j < side; j += BLOCK) {
      for (size_t c = j; c < j + BLOCK; c += 8) {
        for (size_t r = i; r < i + BLOCK; r += 8) tile(dst + c * side + r, src + r * side + c, side);
      }
    }
  }
  _mm_sfence();
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
static void blocks(float *dst, const float *src, size_t side) { (void)dst, (void)src, (void)side; }
static int has_avx2(void) { return 0; }
#endif

void reference_transpose(float *dst, const float *src, int n) {
  size_t side = (size_t)n;
  if (has_avx2()) {
    blocks(dst, src, side);
    return;
  }
  for (size_t i = 0; i < side; i += BLOCK) {
    for (size_t j = 0; j < side; j += BLOCK) {
      for (size_t r = i; r < i + BLOCK; r++) {
        for (size_t c = j; c < j + BLOCK; c++) dst[c * side + r] = src[r * side + c];
      }
    }
  }
}
