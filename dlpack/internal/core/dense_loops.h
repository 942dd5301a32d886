/* dense_loops.h: the loops of dense.c. Each loop has a function without AVX2, name_plain, and a function with AVX2,
 * name_avx2. LOOP converts one number at a time, by an expression that compilers turn into vectors. VECTOR also has
 * AVX2 instructions that convert `step` numbers at a time, from s to d, and end with `continue`. If they cannot convert
 * these numbers, the expression does, as it does without AVX2. WHEN has instructions for a condition that usually
 * holds. */

#define FUNCTION(name, set, kernel, ...)                                                                                      \
  kernel static void name##_##set(void *restrict dst, const void *restrict src, size_t groups,                                \
                                  __attribute__((unused)) dlbcore_factors *f) {                                               \
    char *restrict to = dst;                                                                                                  \
    const char *restrict from = src;                                                                                          \
    __VA_ARGS__                                                                                                               \
  }
#if HAS_AVX2
#define WITH_AVX2(macro, name, ...) macro(name, avx2, DENSE_FAST AVX2, __VA_ARGS__)
#else
#define WITH_AVX2(macro, name, ...)
#endif
#define ONE(S, D, at, expression)                                                                                             \
  S x;                                                                                                                        \
  memcpy(&x, from + (at) * sizeof x, sizeof x);                                                                               \
  D y = (D)(expression);                                                                                                      \
  memcpy(to + (at) * sizeof y, &y, sizeof y)
#define ONE_BY_ONE(S, D, expression) for (size_t i = 0; i < groups * DENSE_GROUP; i++) { ONE(S, D, i, expression); }
#define LOOP(name, S, D, expression)                                                                                          \
  FUNCTION(name, plain, DENSE_FAST, ONE_BY_ONE(S, D, expression))                                                             \
  WITH_AVX2(FUNCTION, name, ONE_BY_ONE(S, D, expression))
#define VECTOR(name, S, D, step, expression, ...)                                                                             \
  FUNCTION(name, plain, DENSE_FAST, ONE_BY_ONE(S, D, expression))                                                             \
  WITH_AVX2(FUNCTION, name, for (size_t i = 0; i < groups * DENSE_GROUP; i += (step)) {                                       \
    const char *s = from + i * sizeof(S);                                                                                     \
    char *d = to + i * sizeof(D);                                                                                             \
    __VA_ARGS__                                                                                                               \
    for (size_t k = i; k < i + (step); k++) {                                                                                 \
      ONE(S, D, k, expression);                                                                                               \
    }                                                                                                                         \
  })
#define WHEN(condition, ...) if (__builtin_expect(condition, 1)) { __VA_ARGS__; continue; }

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

/* The floats 0 and -0 are false: their bits without the sign are 0. */
LOOP(HALF_BOOL, uint16_t, uint8_t, (x & 0x7fff) != 0)
LOOP(SINGLE_BOOL, uint32_t, uint8_t, (x & 0x7fffffff) != 0)
LOOP(DOUBLE_BOOL, uint64_t, uint8_t, (x & 0x7fffffffffffffff) != 0)
LOOP(COMPLEX32_BOOL, uint32_t, uint8_t, (x & 0x7fff7fff) != 0)
LOOP(COMPLEX64_BOOL, uint64_t, uint8_t, (x & 0x7fffffff7fffffff) != 0)
LOOP(COMPLEX128_BOOL, dense_pair, uint8_t, ((x.real | x.imaginary) & 0x7fffffffffffffff) != 0)

/* ---- floats to float and double ---- */

LOOP(DOUBLE_SINGLE, double, float, x)
LOOP(SINGLE_DOUBLE, float, double, x)
#define WIDEN(floats) /* unless one is NaN, which the instructions would make quiet */                                        \
  __m256 x = floats;                                                                                                          \
  WHEN(dense_all_numbers(x, x), dense_put(d, 0, _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_castps256_ps128(x))));             \
       dense_put(d, 32, _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)))))
VECTOR(HALF_DOUBLE, uint16_t, double, 8, dense_keep(dense_decode(x, FORMAT_HALF)),
       WIDEN(_mm256_cvtph_ps(dense_codes(s, 0))))
VECTOR(BRAIN_DOUBLE, uint16_t, double, 8, dense_keep(dense_float((uint32_t)x << 16)), WIDEN(dense_of_brain(s, 0)))
LOOP(BRAIN_SINGLE, uint16_t, uint32_t, (uint32_t)x << 16)
VECTOR(HALF_SINGLE, uint16_t, float, 16, dense_decode(x, FORMAT_HALF), /* the instruction would make a NaN quiet */
  __m256i codes = dense_ints(s, 0);
  __m256i nan = _mm256_cmpgt_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x7fff)), _mm256_set1_epi16(0x7c00));
  WHEN(_mm256_testz_si256(nan, nan), dense_put(d, 0, _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(codes))));
       dense_put(d, 32, _mm256_castps_si256(_mm256_cvtph_ps(_mm256_extracti128_si256(codes, 1))))))

/* ---- on the way to narrower floats ---- */

/* A 64-bit integer beyond the range of all narrow floats except bfloat16 and float8_e8m0fnu becomes 131071, which is
 * also beyond these ranges, and which a float holds. */
LOOP(INT64_LIMITED, int64_t, float, (int32_t)(x < -131071 ? -131071 : x > 131071 ? 131071 : x))
LOOP(UINT64_LIMITED, uint64_t, float, (int32_t)(x >> 17 != 0 ? 131071 : x))
LOOP(INT32_ODD, int32_t, float, dense_odd_int(x))
LOOP(UINT32_ODD, uint32_t, float, dense_odd_uint(x))
LOOP(INT64_ODD, int64_t, double, dense_odd_signed(x))
LOOP(UINT64_ODD, uint64_t, double, dense_odd_unsigned(x))
LOOP(DOUBLE_ODD, double, float, dense_odd_double(x))

/* ---- from float and double ---- */

VECTOR(SINGLE_BRAIN, float, uint16_t, 16, dense_encode_brain(x),
  __m256 low = dense_floats(s, 0), high = dense_floats(s, 32);
  WHEN(dense_all_numbers(low, high), dense_pack_16(d, true, dense_brain(low), dense_brain(high))))
#define TO_BRAIN(numbers, exact) /* rounds twice, unless there are ties that the first time may have made */                  \
  WHEN((numbers) && !dense_any_last(low, high, 16, 1u << 31), dense_pack_16(d, true, dense_nearer(low), dense_nearer(high)))  \
  WHEN((numbers) && (exact), dense_pack_16(d, true, dense_brain(low), dense_brain(high)))
VECTOR(INT32_BRAIN, int32_t, uint16_t, 16, dense_encode_brain(dense_odd_int(x)),
       __m256 low = dense_of_int(s, 0), high = dense_of_int(s, 32); TO_BRAIN(true, dense_exact_int(s, true)))
VECTOR(UINT32_BRAIN, uint32_t, uint16_t, 16, dense_encode_brain(dense_odd_uint(x)),
       __m256 low = dense_of_uint(s, 0), high = dense_of_uint(s, 32); TO_BRAIN(true, dense_exact_int(s, false)))
VECTOR(DOUBLE_BRAIN, double, uint16_t, 16, dense_double_brain(x), __m256 low = dense_of_double(s, 0), high = dense_of_double(s, 64);
       TO_BRAIN(dense_all_numbers(low, high), dense_exact_double(s, low) && dense_exact_double(s + 64, high)))
LOOP(SINGLE_E8M0FNU, float, uint8_t, dense_encode_power(x))
LOOP(DOUBLE_E8M0FNU, double, uint8_t, dense_encode_power(x))
VECTOR(SINGLE_HALF, float, uint16_t, 16, dense_encode(x, FORMAT_HALF), /* of a NaN the instruction would change the payload */
  __m256 low = dense_floats(s, 0), high = dense_floats(s, 32);
  WHEN(dense_all_numbers(low, high), dense_put(d, 0, dense_join(dense_half(low), dense_half(high)))))
VECTOR(DOUBLE_HALF, double, uint16_t, 16, dense_double_half(x), /* a float that is a tie, also below the normal ones, ends in 12 zeros */
  __m256 low = dense_of_double(s, 0), high = dense_of_double(s, 64);
  if (dense_any_last(low, high, 20, 0)) low = dense_odd_floats(s, 0), high = dense_odd_floats(s, 64);
  WHEN(dense_all_numbers(low, high), dense_put(d, 0, dense_join(dense_half(low), dense_half(high)))))

/* A float becomes an integer without its fraction. A float out of range becomes the nearest limit, and NaN becomes
 * 0. */
#define CLAMP(x, low, high) ((x) == (x) ? (x) > (low) ? (x) < (high) ? (x) : (high) : (low) : 0)
#define PACK_8(source)                                                                                                        \
  __m256i a = dense_whole_##source(s, 0);                                                                                     \
  if (__builtin_expect(dense_any_least(a), 0)) a = dense_limited_##source(s, 0);                                              \
  dense_put(d, 0, a); continue;
#define PACK_16(source, natural)                                                                                              \
  __m256i a = dense_whole_##source(s, 0), b = dense_whole_##source(s, 1), least = _mm256_min_epi32(a, b);                     \
  if (__builtin_expect(dense_any_least(least), 0)) a = dense_limited_##source(s, 0), b = dense_limited_##source(s, 1);        \
  dense_pack_16(d, natural, a, b); continue;
#define PACK_32(source, natural)                                                                                              \
  __m256i a = dense_whole_##source(s, 0), b = dense_whole_##source(s, 1);                                                     \
  __m256i c = dense_whole_##source(s, 2), e = dense_whole_##source(s, 3);                                                     \
  if (__builtin_expect(dense_any_least(_mm256_min_epi32(_mm256_min_epi32(a, b), _mm256_min_epi32(c, e))), 0))                 \
    a = dense_limited_##source(s, 0), b = dense_limited_##source(s, 1),                                                       \
    c = dense_limited_##source(s, 2), e = dense_limited_##source(s, 3);                                                       \
  dense_pack_32(d, natural, a, b, c, e); continue;
#define NARROW_LOOPS(K, source, S, x)                                                                                         \
  VECTOR(K##_INT8, S, int8_t, 32, (int32_t)CLAMP(x, -128, 127), PACK_32(source, false))                                       \
  VECTOR(K##_UINT8, S, uint8_t, 32, (int32_t)CLAMP(x, 0, 255), PACK_32(source, true))                                         \
  VECTOR(K##_INT16, S, int16_t, 16, (int32_t)CLAMP(x, -32768, 32767), PACK_16(source, false))                                 \
  VECTOR(K##_UINT16, S, uint16_t, 16, (int32_t)CLAMP(x, 0, 65535), PACK_16(source, true))
#define FLOAT_LOOPS(K, source, S, x, ...)                                                                                     \
  NARROW_LOOPS(K, source, S, x)                                                                                               \
  VECTOR(K##_INT32, S, int32_t, 8, x >= 0x1p31f ? INT32_MAX : (int32_t)CLAMP(x, -0x1p31f, 0x1.fffffep30f), __VA_ARGS__)       \
  VECTOR(K##_UINT32, S, uint32_t, 8, x >= 0x1p32f ? UINT32_MAX : (uint32_t)CLAMP(x, 0, 0x1.fffffep31f),                       \
         dense_put(d, 0, dense_uint32(dense_of_##source(s, 0))); continue;)
FLOAT_LOOPS(SINGLE, single, float, x, dense_put(d, 0, dense_limited_single(s, 0)); continue;)
FLOAT_LOOPS(BRAIN, brain, uint16_t, dense_float((uint32_t)x << 16), PACK_8(brain))
NARROW_LOOPS(DOUBLE, double, double, x)
LOOP(SINGLE_INTEGER, float, uint8_t, (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : 0)) /* the low bits of an int32_t, or 0 */
LOOP(DOUBLE_INTEGER, double, uint8_t, (int32_t)(x >= -0x1p31 && x <= 0x1p31 - 1 ? x : 0))
VECTOR(DOUBLE_INT32, double, int32_t, 8, (int32_t)CLAMP(x, -0x1p31, 0x1p31 - 1), PACK_8(double))
VECTOR(DOUBLE_UINT32, double, uint32_t, 8, (uint32_t)CLAMP(x, 0, 0x1p32 - 1), dense_put(d, 0, dense_whole_double_natural(s)); continue;)
#define TO_LONG(source, natural)                                                                                                 \
  dense_put(d, 0, dense_long(dense_four_##source(s, 0), natural));                                                            \
  dense_put(d, 32, dense_long(dense_four_##source(s, 1), natural)); continue;
#define LONG_LOOPS(K, source, S)                                                                                              \
  VECTOR(K##_INT64, S, int64_t, 8, dense_int64(x), TO_LONG(source, false))                                                       \
  VECTOR(K##_UINT64, S, uint64_t, 8, dense_uint64(x), TO_LONG(source, true))
LONG_LOOPS(SINGLE, single, float)
LONG_LOOPS(DOUBLE, double, double)

/* ---- small floats ---- */

#define SMALL_LOOPS(K)                                                  \
  LOOP(K##_SINGLE, uint8_t, float, dense_decode(x, FORMAT_##K))         \
  LOOP(SINGLE_##K, float, uint8_t, dense_encode(x, FORMAT_##K))
SMALL_FLOATS(SMALL_LOOPS)
LOOP(E8M0FNU_SINGLE, uint8_t, float, dense_decode_power(x))

/* ---- scale and shift ---- */

/* Converts `step` numbers at a time. If the factors are the `same` each time, they stay in registers. A NaN loses its
 * sign and payload, because processors differ in these. */
#define SCALED_FUNCTION(K, set, kernel, S, T, ...)                                                                            \
  kernel INLINE void K##_steps_##set(char *restrict to, const char *restrict from, size_t steps, dlbcore_factors *f,          \
                                     const size_t step, bool same) {                                                          \
    size_t at = f->at, period = f->period;                                                                                    \
    for (; steps > 0; steps--, to += step * sizeof(T), from += step * sizeof(S)) {                                            \
      const char *scale = f->scale + at * sizeof(T), *shift = f->shift + at * sizeof(T);                                      \
      __VA_ARGS__                                                                                                             \
      if (same) continue;                                                                                                     \
      at += step;                                                                                                             \
      at = at >= period ? at - period : at;                                                                                   \
    }                                                                                                                         \
    f->at = at;                                                                                                               \
  }                                                                                                                           \
  FUNCTION(K##_SCALED, set, kernel,                                                                                           \
    size_t threes = f->period == 2 * DENSE_THREES ? groups / 3 * 4 : 0, done = threes * DENSE_THREES;                         \
    if (f->period == DENSE_GROUP) K##_steps_##set(to, from, groups, f, DENSE_GROUP, true);                                    \
    else {                                                                                                                    \
      K##_steps_##set(to, from, threes, f, DENSE_THREES, true);                                                               \
      K##_steps_##set(to + done * sizeof(T), from + done * sizeof(S), groups - done / DENSE_GROUP, f, DENSE_GROUP, false);    \
    })
#define SCALED_ONE_BY_ONE(T)                                                                                                  \
  for (size_t k = 0; k < step; k++) {                                                                                         \
    T x, factor, offset;                                                                                                      \
    memcpy(&x, from + k * sizeof x, sizeof x);                                                                                \
    memcpy(&factor, scale + k * sizeof x, sizeof x);                                                                          \
    memcpy(&offset, shift + k * sizeof x, sizeof x);                                                                          \
    x *= factor;                                                                                                              \
    x += offset;                                                                                                              \
    x = x == x ? x : (T)NAN;                                                                                                  \
    memcpy(to + k * sizeof x, &x, sizeof x);                                                                                  \
  }
#define SCALED(K, T)                                                                                                          \
  SCALED_FUNCTION(K, plain, DENSE_FAST, T, T, SCALED_ONE_BY_ONE(T))                                                           \
  WITH_AVX2(SCALED_FUNCTION, K, T, T, SCALED_ONE_BY_ONE(T))
SCALED(SINGLE, float)
SCALED(DOUBLE, double)
/* Integers and finite factors never make a NaN. */
#define SCALED_VECTOR(K, S, eight)                                                                                            \
  WITH_AVX2(SCALED_FUNCTION, K, S, float,                                                                                     \
    bool numbers = dense_is_integer(KIND_##K) && f->finite;                                                                   \
    const int n = (int)step / 8;                                                                                              \
    __m256 y[4];                                                                                                              \
    for (int k = 0; k < n; k++) {                                                                                             \
      const void *s = from + k * 8 * (int)sizeof(S);                                                                          \
      y[k] = _mm256_add_ps(_mm256_mul_ps(eight, dense_floats(scale, k * 32)), dense_floats(shift, k * 32));                   \
    }                                                                                                                         \
    __m256 nan = _mm256_or_ps(_mm256_cmp_ps(y[0], y[1], _CMP_UNORD_Q), _mm256_cmp_ps(y[2], y[n - 1], _CMP_UNORD_Q));          \
    if (!numbers && __builtin_expect(_mm256_movemask_ps(nan) != 0, 0)) {                                                      \
      for (int k = 0; k < n; k++) y[k] = _mm256_blendv_ps(y[k], _mm256_set1_ps(NAN), _mm256_cmp_ps(y[k], y[k], _CMP_UNORD_Q)); \
    }                                                                                                                         \
    for (int k = 0; k < n; k++) dense_put(to, k * 32, _mm256_castps_si256(y[k]));)
#define SCALED_VECTORS(X)                                                                                                     \
  X(INT8, int8_t, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(s))))                                               \
  X(UINT8, uint8_t, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(s))))                                             \
  X(INT16, int16_t, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(dense_codes(s, 0))))                                             \
  X(UINT16, uint16_t, _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(dense_codes(s, 0))))                                           \
  X(HALF, uint16_t, _mm256_cvtph_ps(dense_codes(s, 0)))                                                                       \
  X(BRAIN, uint16_t, dense_of_brain(s, 0))
SCALED_VECTORS(SCALED_VECTOR)

/* ---- the table ---- */

/* IN adds the name of a set of instructions. */
#define OF_SCALED(K, ...) [KIND_##K] = IN(K##_SCALED),
#define RESIZE(K, ...) [KIND_##K] = {IN(K##_8), IN(K##_16), IN(K##_32), IN(K##_64)},
#define TO_BOOL(K, ...) [KIND_##K] = IN(K##_BOOL),
#define TO_SINGLE(K, ...) [KIND_##K] = IN(K##_SINGLE),
#define TO_DOUBLE(K, ...) [KIND_##K] = IN(K##_DOUBLE),
#define OF_SINGLE(K, ...) [KIND_##K] = IN(SINGLE_##K),
#define OF_DOUBLE(K, ...) [KIND_##K] = IN(DOUBLE_##K),
#define LOOPS(scaled_vectors) {                                                                                               \
  .resize = {INTEGERS(RESIZE)},                                                                                               \
  .to_bool = {[KIND_BOOL] = IN(UINT8_BOOL), [KIND_BRAIN] = IN(HALF_BOOL), INTEGERS(TO_BOOL) TO_BOOL(HALF) TO_BOOL(SINGLE)     \
              TO_BOOL(DOUBLE) TO_BOOL(COMPLEX32) TO_BOOL(COMPLEX64) TO_BOOL(COMPLEX128)},                                     \
  .of_bool = {[KIND_INT8] = IN(UINT8_BOOL), [KIND_INT16] = IN(BOOL_16), [KIND_INT32] = IN(BOOL_32),                           \
              [KIND_INT64] = IN(BOOL_64), [KIND_UINT8] = IN(UINT8_BOOL), [KIND_UINT16] = IN(BOOL_16),                         \
              [KIND_UINT32] = IN(BOOL_32), [KIND_UINT64] = IN(BOOL_64), [KIND_INTEGER] = IN(UINT8_BOOL),                      \
              [KIND_NATURAL] = IN(UINT8_BOOL), [KIND_HALF] = IN(BOOL_HALF), [KIND_BRAIN] = IN(BOOL_BRAIN),                    \
              [KIND_SINGLE] = IN(BOOL_SINGLE), [KIND_DOUBLE] = IN(BOOL_DOUBLE)},                                              \
  .to_single = {INTEGERS(TO_SINGLE) SMALL_FLOATS(TO_SINGLE) TO_SINGLE(HALF) TO_SINGLE(BRAIN) TO_SINGLE(DOUBLE)                \
                TO_SINGLE(E8M0FNU)},                                                                                          \
  .to_double = {INTEGERS(TO_DOUBLE) TO_DOUBLE(HALF) TO_DOUBLE(BRAIN) TO_DOUBLE(SINGLE)},                                      \
  .of_single = {[KIND_NATURAL] = IN(SINGLE_INTEGER), INTEGERS(OF_SINGLE) SMALL_FLOATS(OF_SINGLE) OF_SINGLE(INTEGER)           \
                OF_SINGLE(HALF) OF_SINGLE(BRAIN) OF_SINGLE(DOUBLE) OF_SINGLE(BOOL) OF_SINGLE(E8M0FNU)},                       \
  .of_double = {[KIND_NATURAL] = IN(DOUBLE_INTEGER), INTEGERS(OF_DOUBLE) OF_DOUBLE(INTEGER) OF_DOUBLE(HALF)                   \
                OF_DOUBLE(BRAIN) OF_DOUBLE(SINGLE) OF_DOUBLE(E8M0FNU)},                                                       \
  .of_brain = {[KIND_INT8] = IN(BRAIN_INT8), [KIND_INT16] = IN(BRAIN_INT16), [KIND_INT32] = IN(BRAIN_INT32),                  \
               [KIND_UINT8] = IN(BRAIN_UINT8), [KIND_UINT16] = IN(BRAIN_UINT16), [KIND_UINT32] = IN(BRAIN_UINT32)},           \
  .to_brain = {[KIND_INT32] = IN(INT32_BRAIN), [KIND_UINT32] = IN(UINT32_BRAIN)},                                             \
  .narrowing = {[KIND_INT64] = IN(INT64_LIMITED), [KIND_UINT64] = IN(UINT64_LIMITED), [KIND_INT32] = IN(INT32_ODD),           \
                [KIND_UINT32] = IN(UINT32_ODD), [KIND_DOUBLE] = IN(DOUBLE_ODD), [KIND_BOOL] = IN(BOOL_SINGLE),                \
                TO_SINGLE(INT8) TO_SINGLE(INT16) TO_SINGLE(UINT8) TO_SINGLE(UINT16) TO_SINGLE(HALF) TO_SINGLE(BRAIN)          \
                TO_SINGLE(E8M0FNU) SMALL_FLOATS(TO_SINGLE)},                                                                  \
  .odd = {[KIND_INT64] = IN(INT64_ODD), [KIND_UINT64] = IN(UINT64_ODD)},                                                      \
  .scaled = {OF_SCALED(SINGLE) OF_SCALED(DOUBLE) scaled_vectors},                                                             \
}
#define IN(name) name##_plain
static const dense_loops dense_plain = LOOPS();
#if HAS_AVX2
#undef IN
#define IN(name) name##_avx2
static const dense_loops dense_avx2 = LOOPS(SCALED_VECTORS(OF_SCALED));
#else
#define dense_avx2 dense_plain
#endif
