/* dense_loops.h: the loops of dense.c, which includes this file once for each set of instructions. LOOP converts one number at a
 * time, by an expression that compilers turn into vectors. VECTOR has instructions of AVX2 for `step` numbers at a time, from s to d,
 * that end with `continue` unless they cannot convert these numbers; the expression does so then. Plain code has the expression only. */

#define IN_SET_(name, set) name##_##set
#define IN_SET(name, set) IN_SET_(name, set)
#define ONE(S, D, at, expression)                      \
  S x;                                                 \
  memcpy(&x, from + (at) * sizeof x, sizeof x);        \
  D y = (D)(expression);                               \
  memcpy(to + (at) * sizeof y, &y, sizeof y)
#define LOOP(name, S, D, expression)                                                                              \
  KERNEL static void IN_SET(name, SET)(void *restrict dst, const void *restrict src, size_t groups) {             \
    char *restrict to = dst;                                                                                      \
    const char *restrict from = src;                                                                              \
    for (size_t i = 0; i < groups * DENSE_GROUP; i++) {                                                           \
      ONE(S, D, i, expression);                                                                                   \
    }                                                                                                             \
  }
#if VECTORS
#define VECTOR(name, S, D, step, expression, ...)                                                                 \
  KERNEL static void IN_SET(name, SET)(void *restrict dst, const void *restrict src, size_t groups) {             \
    char *restrict to = dst;                                                                                      \
    const char *restrict from = src;                                                                              \
    for (size_t i = 0; i < groups * DENSE_GROUP; i += (step)) {                                                   \
      const char *s = from + i * sizeof(S);                                                                       \
      char *d = to + i * sizeof(D);                                                                               \
      __VA_ARGS__                                                                                                 \
      for (size_t k = i; k < i + (step); k++) {                                                                   \
        ONE(S, D, k, expression);                                                                                 \
      }                                                                                                           \
    }                                                                                                             \
  }
#else
#define VECTOR(name, S, D, step, expression, ...) LOOP(name, S, D, expression)
#endif

/* ---- integers, and bool ---- */

#define INTEGER_LOOPS(K, T, single, double_)  \
  LOOP(K##_BOOL, T, uint8_t, x != 0)          \
  LOOP(K##_8, T, uint8_t, x)                  \
  LOOP(K##_16, T, uint16_t, x)                \
  LOOP(K##_32, T, uint32_t, x)                \
  LOOP(K##_64, T, uint64_t, x)                \
  LOOP(K##_SINGLE, T, float, single)          \
  LOOP(K##_DOUBLE, T, double, double_)
INTEGERS(INTEGER_LOOPS)

LOOP(BOOL_16, uint8_t, uint16_t, x != 0)
LOOP(BOOL_32, uint8_t, uint32_t, x != 0)
LOOP(BOOL_64, uint8_t, uint64_t, x != 0)
LOOP(BOOL_HALF, uint8_t, uint16_t, x != 0 ? 0x3c00 : 0)
LOOP(BOOL_BRAIN, uint8_t, uint16_t, x != 0 ? 0x3f80 : 0)
LOOP(BOOL_SINGLE, uint8_t, uint32_t, x != 0 ? 0x3f800000 : 0)
LOOP(BOOL_DOUBLE, uint8_t, uint64_t, x != 0 ? 0x3ff0000000000000 : 0)

/* Of floats, 0 and -0 are false: those whose bits are 0 without the sign. */
LOOP(HALF_BOOL, uint16_t, uint8_t, (x & 0x7fff) != 0)
LOOP(SINGLE_BOOL, uint32_t, uint8_t, (x & 0x7fffffff) != 0)
LOOP(DOUBLE_BOOL, uint64_t, uint8_t, (x & 0x7fffffffffffffff) != 0)
LOOP(COMPLEX32_BOOL, uint32_t, uint8_t, (x & 0x7fff7fff) != 0)
LOOP(COMPLEX64_BOOL, uint64_t, uint8_t, (x & 0x7fffffff7fffffff) != 0)
LOOP(COMPLEX128_BOOL, dense_pair, uint8_t, ((x.real | x.imaginary) & 0x7fffffffffffffff) != 0)

/* ---- floats to float and double ---- */

LOOP(DOUBLE_SINGLE, double, float, x)
LOOP(SINGLE_DOUBLE, float, double, x)
LOOP(HALF_DOUBLE, uint16_t, double, dense_keep(dense_decode(x, FORMAT_HALF)))
VECTOR(BRAIN_DOUBLE, uint16_t, double, 8, dense_keep(dense_float((uint32_t)x << 16)), /* the instruction would make a NaN quiet */
  __m256i codes = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)s));
  __m256 floats = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 16));
  if (__builtin_expect(dense_all_numbers(floats, floats), 1)) {
    dense_put(d, 0, _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_castps256_ps128(floats))));
    dense_put(d, 32, _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1))));
    continue;
  })
LOOP(BRAIN_SINGLE, uint16_t, uint32_t, (uint32_t)x << 16)
VECTOR(HALF_SINGLE, uint16_t, float, 16, dense_decode(x, FORMAT_HALF), /* the instruction would make a NaN quiet */
  __m256i codes = dense_ints(s, 0);
  __m256i nan = _mm256_cmpgt_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x7fff)), _mm256_set1_epi16(0x7c00));
  if (__builtin_expect(_mm256_testz_si256(nan, nan), 1)) {
    dense_put(d, 0, _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(codes))));
    dense_put(d, 32, _mm256_castps_si256(_mm256_cvtph_ps(_mm256_extracti128_si256(codes, 1))));
    continue;
  })

/* ---- on the way to narrower floats ---- */

/* An integer of 64 bits beyond the range of all narrow floats but bfloat16 and float8_e8m0fnu becomes 131071, which a float holds and
 * which is beyond these ranges as well. */
LOOP(INT64_LIMITED, int64_t, float, (int32_t)(x < -131071 ? -131071 : x > 131071 ? 131071 : x))
LOOP(UINT64_LIMITED, uint64_t, float, (int32_t)(x >> 17 != 0 ? 131071 : x))
LOOP(INT32_ODD, int32_t, float, dense_odd_int(x))
LOOP(UINT32_ODD, uint32_t, float, dense_odd_uint(x))
LOOP(INT64_ODD, int64_t, double, dense_odd_signed(x))
LOOP(UINT64_ODD, uint64_t, double, dense_odd_unsigned(x))
LOOP(DOUBLE_ODD, double, float, dense_odd_double(x))

/* ---- from float and double ---- */

VECTOR(SINGLE_BRAIN, float, uint16_t, 16, dense_encode_brain(x),
  dense_pack_16(d, true, dense_brain(dense_floats(s, 0)), dense_brain(dense_floats(s, 32)));
  continue;)
VECTOR(DOUBLE_BRAIN, double, uint16_t, 16, dense_double_brain(x),
  __m256 low = dense_odd_floats(dense_doubles(s, 0), dense_doubles(s, 32));
  __m256 high = dense_odd_floats(dense_doubles(s, 64), dense_doubles(s, 96));
  if (__builtin_expect(!dense_any_small(low, high), 1)) {
    dense_pack_16(d, true, dense_brain(low), dense_brain(high));
    continue;
  })
LOOP(SINGLE_E8M0FNU, float, uint8_t, dense_encode_power(x))
LOOP(DOUBLE_E8M0FNU, double, uint8_t, dense_encode_power(x))
VECTOR(SINGLE_HALF, float, uint16_t, 16, dense_encode(x, FORMAT_HALF), /* of a NaN the instruction would change the payload */
  __m256 low = dense_floats(s, 0), high = dense_floats(s, 32);
  if (__builtin_expect(dense_all_numbers(low, high), 1)) {
    dense_put(d, 0, dense_join(dense_half(low), dense_half(high)));
    continue;
  })
VECTOR(DOUBLE_HALF, double, uint16_t, 16, dense_double_half(x),
  __m256d a = dense_doubles(s, 0), b = dense_doubles(s, 32), c = dense_doubles(s, 64), e = dense_doubles(s, 96);
  __m256d nan = _mm256_or_pd(_mm256_cmp_pd(a, b, _CMP_UNORD_Q), _mm256_cmp_pd(c, e, _CMP_UNORD_Q));
  if (__builtin_expect(_mm256_testz_pd(nan, nan), 1)) {
    dense_put(d, 0, dense_join(dense_half(dense_odd_floats(a, b)), dense_half(dense_odd_floats(c, e))));
    continue;
  })

/* A float becomes an integer without its fraction. What is out of range becomes the nearest limit, and NaN becomes 0. */
#define CLAMP(low, high) (x == x ? x > (low) ? x < (high) ? x : (high) : (low) : 0)
#define PACK_16(source, low, high, natural)                                                                                   \
  dense_pack_16(d, natural, dense_whole_##source(s, 0, low, high), dense_whole_##source(s, 1, low, high));                    \
  continue;
#define PACK_32(source, low, high, natural)                                                                                   \
  dense_pack_32(d, natural, dense_whole_##source(s, 0, low, high), dense_whole_##source(s, 1, low, high),                     \
                dense_whole_##source(s, 2, low, high), dense_whole_##source(s, 3, low, high));                                \
  continue;
#define NARROW_LOOPS(K, source, S)                                                                                            \
  VECTOR(K##_INT8, S, int8_t, 32, (int32_t)CLAMP(-128, 127), PACK_32(source, -128, 127, false))                               \
  VECTOR(K##_UINT8, S, uint8_t, 32, (int32_t)CLAMP(0, 255), PACK_32(source, 0, 255, true))                                    \
  VECTOR(K##_INT16, S, int16_t, 16, (int32_t)CLAMP(-32768, 32767), PACK_16(source, -32768, 32767, false))                     \
  VECTOR(K##_UINT16, S, uint16_t, 16, (int32_t)CLAMP(0, 65535), PACK_16(source, 0, 65535, true))
NARROW_LOOPS(SINGLE, single, float)
NARROW_LOOPS(DOUBLE, double, double)
LOOP(SINGLE_INTEGER, float, uint8_t, (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : 0)) /* the low bits of an int32_t, or 0 */
LOOP(DOUBLE_INTEGER, double, uint8_t, (int32_t)(x >= -0x1p31 && x <= 0x1p31 - 1 ? x : 0))
VECTOR(SINGLE_INT32, float, int32_t, 8, x >= 0x1p31f ? INT32_MAX : (int32_t)CLAMP(-0x1p31f, 0x1.fffffep30f),
       dense_put(d, 0, dense_int32(dense_floats(s, 0))); continue;)
VECTOR(SINGLE_UINT32, float, uint32_t, 8, x >= 0x1p32f ? UINT32_MAX : (uint32_t)CLAMP(0, 0x1.fffffep31f),
       dense_put(d, 0, dense_uint32(dense_floats(s, 0))); continue;)
VECTOR(DOUBLE_INT32, double, int32_t, 8, (int32_t)CLAMP(-0x1p31, 0x1p31 - 1),
       dense_put(d, 0, dense_whole_double(s, 0, -0x1p31, 0x1p31 - 1)); continue;)
VECTOR(DOUBLE_UINT32, double, uint32_t, 8, (uint32_t)CLAMP(0, 0x1p32 - 1), dense_put(d, 0, dense_whole_double_natural(s)); continue;)
#define IF_SMALL(source, least)                                                                                               \
  if (!dense_large_##source(s, (least) < 0)) {                                                                                \
    __m256i whole = dense_whole_##source(s, 0, least, 0x1p30f);                                                               \
    dense_put(d, 0, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(whole)));                                                    \
    dense_put(d, 32, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(whole, 1)));                                              \
    continue;                                                                                                                 \
  }
VECTOR(SINGLE_INT64, float, int64_t, 8, dense_int64(x), IF_SMALL(single, -1))
VECTOR(SINGLE_UINT64, float, uint64_t, 8, dense_uint64(x), IF_SMALL(single, 0))
VECTOR(DOUBLE_INT64, double, int64_t, 8, dense_int64(x), IF_SMALL(double, -1))
VECTOR(DOUBLE_UINT64, double, uint64_t, 8, dense_uint64(x), IF_SMALL(double, 0))

/* ---- small floats ---- */

#define SMALL_LOOPS(K)                                                  \
  LOOP(K##_SINGLE, uint8_t, float, dense_decode(x, FORMAT_##K))         \
  LOOP(SINGLE_##K, float, uint8_t, dense_encode(x, FORMAT_##K))
SMALL_FLOATS(SMALL_LOOPS)
LOOP(E8M0FNU_SINGLE, uint8_t, float, dense_decode_power(x))

/* ---- the table ---- */

#define IN(name) IN_SET(name, SET)
#define RESIZE(K, ...) [KIND_##K] = {IN(K##_8), IN(K##_16), IN(K##_32), IN(K##_64)},
#define TO_BOOL(K, ...) [KIND_##K] = IN(K##_BOOL),
#define TO_SINGLE(K, ...) [KIND_##K] = IN(K##_SINGLE),
#define TO_DOUBLE(K, ...) [KIND_##K] = IN(K##_DOUBLE),
#define OF_SINGLE(K, ...) [KIND_##K] = IN(SINGLE_##K),
#define OF_DOUBLE(K, ...) [KIND_##K] = IN(DOUBLE_##K),
static const dense_loops IN_SET(dense, SET) = {
    .resize = {INTEGERS(RESIZE)},
    .to_bool = {[KIND_BOOL] = IN(UINT8_BOOL), [KIND_BRAIN] = IN(HALF_BOOL), INTEGERS(TO_BOOL) TO_BOOL(HALF) TO_BOOL(SINGLE)
                TO_BOOL(DOUBLE) TO_BOOL(COMPLEX32) TO_BOOL(COMPLEX64) TO_BOOL(COMPLEX128)},
    .of_bool = {[KIND_INT8] = IN(UINT8_BOOL), [KIND_INT16] = IN(BOOL_16), [KIND_INT32] = IN(BOOL_32), [KIND_INT64] = IN(BOOL_64),
                [KIND_UINT8] = IN(UINT8_BOOL), [KIND_UINT16] = IN(BOOL_16), [KIND_UINT32] = IN(BOOL_32), [KIND_UINT64] = IN(BOOL_64),
                [KIND_INTEGER] = IN(UINT8_BOOL), [KIND_NATURAL] = IN(UINT8_BOOL), [KIND_HALF] = IN(BOOL_HALF),
                [KIND_BRAIN] = IN(BOOL_BRAIN), [KIND_SINGLE] = IN(BOOL_SINGLE), [KIND_DOUBLE] = IN(BOOL_DOUBLE)},
    .to_single = {INTEGERS(TO_SINGLE) SMALL_FLOATS(TO_SINGLE) TO_SINGLE(HALF) TO_SINGLE(BRAIN) TO_SINGLE(DOUBLE) TO_SINGLE(E8M0FNU)},
    .to_double = {INTEGERS(TO_DOUBLE) TO_DOUBLE(HALF) TO_DOUBLE(BRAIN) TO_DOUBLE(SINGLE)},
    .of_single = {[KIND_NATURAL] = IN(SINGLE_INTEGER), INTEGERS(OF_SINGLE) SMALL_FLOATS(OF_SINGLE) OF_SINGLE(INTEGER) OF_SINGLE(HALF)
                  OF_SINGLE(BRAIN) OF_SINGLE(DOUBLE) OF_SINGLE(BOOL) OF_SINGLE(E8M0FNU)},
    .of_double = {[KIND_NATURAL] = IN(DOUBLE_INTEGER), INTEGERS(OF_DOUBLE) OF_DOUBLE(INTEGER) OF_DOUBLE(HALF) OF_DOUBLE(BRAIN)
                  OF_DOUBLE(SINGLE) OF_DOUBLE(E8M0FNU)},
    .narrowing = {[KIND_INT64] = IN(INT64_LIMITED), [KIND_UINT64] = IN(UINT64_LIMITED), [KIND_INT32] = IN(INT32_ODD),
                  [KIND_UINT32] = IN(UINT32_ODD), [KIND_DOUBLE] = IN(DOUBLE_ODD), [KIND_BOOL] = IN(BOOL_SINGLE), TO_SINGLE(INT8)
                  TO_SINGLE(INT16) TO_SINGLE(UINT8) TO_SINGLE(UINT16) TO_SINGLE(HALF) TO_SINGLE(BRAIN) TO_SINGLE(E8M0FNU)
                  SMALL_FLOATS(TO_SINGLE)},
    .odd = {[KIND_INT64] = IN(INT64_ODD), [KIND_UINT64] = IN(UINT64_ODD)},
};

#undef SET
#undef VECTORS
#undef VECTOR
#undef KERNEL
