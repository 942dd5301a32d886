//go:build !dlbridge_shared

/* dense.c: conversions of consecutive numbers.
 *
 * A conversion is one or several loops. Between loops are blocks of floats or doubles that stay in the level 1 cache.
 * Each loop is one line of dense_loops.h.
 *
 * Floats are rounded once, to nearest, ties to even. So a number that is wider than the intermediate float or double is
 * first rounded to odd: if bits are lost, the lowest remaining bit is set. If the intermediate number has at least two
 * bits more than the narrower floats, it is half way between two of them only if the original is. So rounding it gives
 * the same result as rounding the original. */
#include "dense.h"

#include <math.h>

#if HAS_AVX2
#include <immintrin.h>
#endif

/* gcc vectorises loops with conditions only at this level; clang does at all levels that the project is built with. The
 * second option gives up only the processor's exception flags, which no loop reads. The third makes every product round
 * before an addition, even on processors that can do both in one instruction. The last aligns loops: a short loop that
 * crosses a line of the instruction cache would take twice as long. */
#if defined(__GNUC__) && !defined(__clang__)
#define DENSE_FAST __attribute__((optimize("O3", "no-trapping-math", "fp-contract=off", "align-loops=32")))
#else
#pragma STDC FP_CONTRACT OFF
#define DENSE_FAST
#endif

/* ---- bits ------------------------------------------------------------------------------------ */

#define DENSE_CAST(name, from, to)                              \
  INLINE to name(from value) {                                  \
    to result;                                                  \
    return memcpy(&result, &value, sizeof result), result;      \
  }
DENSE_CAST(dense_bits, float, uint32_t)
DENSE_CAST(dense_float, uint32_t, float)
DENSE_CAST(dense_wide_bits, double, uint64_t)
DENSE_CAST(dense_double, uint64_t, double)

typedef struct dense_pair { uint64_t real, imaginary; } dense_pair;

enum { DENSE_SIGN = 31, DENSE_MANTISSA = 23, DENSE_BIAS = 127, DENSE_INFINITE = 0x7f800000, DENSE_QUIET = 0x7fc00000 }; /* of a float */

static const uint64_t DENSE_WIDE_INFINITE = 0x7ff0000000000000;

/* ---- small floats ---------------------------------------------------------------------------- */

/* Which special values a float format has: IEEE, the highest exponent means infinity or NaN; FN, no infinity, and the highest code of
 * each sign is NaN; FNUZ, no infinity and no -0, whose code is NaN; FINITE, neither infinity nor NaN. */
enum { DENSE_IEEE, DENSE_FN, DENSE_FNUZ, DENSE_FINITE };

typedef struct dense_format { uint32_t exponent, mantissa, bias, special; } dense_format; /* the first two in bits */

/* float8_e8m0fnu is not among them: it has its own functions. */
#define SMALL_FLOATS(X) \
  X(E3M4) X(E4M3) X(E4M3B11FNUZ) X(E4M3FN) X(E4M3FNUZ) X(E5M2) X(E5M2FNUZ) X(E2M3FN) X(E3M2FN) X(E2M1FN)

static const dense_format FORMAT_HALF = {5, 10, 15, DENSE_IEEE}, FORMAT_E3M4 = {3, 4, 3, DENSE_IEEE},
                          FORMAT_E4M3 = {4, 3, 7, DENSE_IEEE}, FORMAT_E4M3B11FNUZ = {4, 3, 11, DENSE_FNUZ},
                          FORMAT_E4M3FN = {4, 3, 7, DENSE_FN}, FORMAT_E4M3FNUZ = {4, 3, 8, DENSE_FNUZ},
                          FORMAT_E5M2 = {5, 2, 15, DENSE_IEEE}, FORMAT_E5M2FNUZ = {5, 2, 16, DENSE_FNUZ},
                          FORMAT_E2M3FN = {2, 3, 1, DENSE_FINITE}, FORMAT_E3M2FN = {3, 2, 3, DENSE_FINITE},
                          FORMAT_E2M1FN = {2, 1, 1, DENSE_FINITE};

/* Returns the number that a code stands for. A NaN of float16 keeps its payload; narrower ones become quiet. */
INLINE float dense_decode(uint32_t code, dense_format f) {
  uint32_t width = f.exponent + f.mantissa, all = (1u << width) - 1, top = all - ((1u << f.mantissa) - 1);
  uint32_t whole = code & all, sign = (code >> width & 1) << DENSE_SIGN, shift = DENSE_MANTISSA - f.mantissa;
  float unit = dense_float((1 - f.bias - f.mantissa + DENSE_BIAS) << DENSE_MANTISSA);
  uint32_t bits = (whole << shift) + ((DENSE_BIAS - f.bias) << DENSE_MANTISSA);
  bits = whole < 1u << f.mantissa ? dense_bits((float)(int32_t)whole * unit) : bits;
  if (f.special == DENSE_IEEE) {
    uint32_t nan = width > 8 ? DENSE_INFINITE | (whole & ((1u << f.mantissa) - 1)) << shift : DENSE_QUIET;
    bits = whole < top ? bits : whole == top ? (uint32_t)DENSE_INFINITE : nan;
  }
  if (f.special == DENSE_FN) bits = whole == all ? (uint32_t)DENSE_QUIET : bits;
  if (f.special == DENSE_FNUZ) bits = whole == 0 && sign != 0 ? (uint32_t)DENSE_QUIET : bits;
  return dense_float(bits | sign);
}

/* Returns the code of the number nearest to a value; ties go to the even code. To round a subnormal number of the
 * format, it adds the number whose last bit is the format's smallest number. */
INLINE uint32_t dense_encode(float value, dense_format f) {
  uint32_t width = f.exponent + f.mantissa, all = (1u << width) - 1, top = all - ((1u << f.mantissa) - 1);
  uint32_t bits = dense_bits(value), rest = bits & ~(1u << DENSE_SIGN), sign = bits >> DENSE_SIGN << width;
  uint32_t lost = DENSE_MANTISSA - f.mantissa, least = DENSE_BIAS + 1 - f.bias;
  float magic = dense_float((least + lost) << DENSE_MANTISSA);
  uint32_t code = ((rest + ((1u << (lost - 1)) - 1) + (rest >> lost & 1)) >> lost) - ((least - 1) << f.mantissa);
  code = rest < least << DENSE_MANTISSA ? dense_bits(dense_float(rest) + magic) - dense_bits(magic) : code;
  uint32_t payload = rest >> lost & ((1u << f.mantissa) - 1);
  if (f.special == DENSE_IEEE) {
    uint32_t nan = width > 8 ? payload != 0 ? payload : 1 : 1u << (f.mantissa - 1);
    code = code > top ? top : code;
    code = rest > DENSE_INFINITE ? top | nan : code;
  } else if (f.special == DENSE_FNUZ) {
    sign = code == 0 ? 0 : sign;
    code = code > all || rest > DENSE_INFINITE ? 1u << width : code;
    sign = code > all ? 0 : sign;
  } else {
    code = code > all ? all : code;
    if (f.special == DENSE_FINITE) { /* NaN becomes a zero with the other sign, as in ml_dtypes */
      sign = rest > DENSE_INFINITE ? sign ^ 1u << width : sign;
      code = rest > DENSE_INFINITE ? 0 : code;
    }
  }
  return sign | code;
}

INLINE uint32_t dense_encode_brain(float value) {
  uint32_t bits = dense_bits(value), nan = (bits >> 16 & 0x8000) | 0x7fc0;
  return (bits & 0x7fffffff) > DENSE_INFINITE ? nan : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* float8_e8m0fnu has only an exponent: every code except 0xff, which is NaN, is a power of two. */
INLINE float dense_decode_power(uint32_t code) {
  uint32_t bits = code == 0 ? 1u << (DENSE_MANTISSA - 1) : code << DENSE_MANTISSA;
  return dense_float(code == 0xff ? (uint32_t)DENSE_QUIET : bits);
}

/* A value half way between two powers becomes the higher power. Zero and negative values become NaN. */
INLINE uint32_t dense_encode_power(double value) {
  uint64_t bits = dense_wide_bits(value);
  int64_t code = (int64_t)((bits + ((uint64_t)1 << 51)) >> 52) - 1023 + 127;
  code = code < 0 ? 0 : code > 0xff ? 0xff : code;
  return bits == 0 || bits >= DENSE_WIDE_INFINITE ? 0xff : (uint32_t)code; /* negative values have the highest bit set */
}

/* ---- to the intermediate float or double ----------------------------------------------------- */

/* A NaN of 16 bits stays as it is. The processor would make it quiet. */
INLINE double dense_keep(float x) {
  uint64_t bits = dense_bits(x), nan = bits >> DENSE_SIGN << 63 | DENSE_WIDE_INFINITE | (bits & 0x7fffff) << 29;
  return dense_double((bits & 0x7fffffff) > DENSE_INFINITE ? nan : dense_wide_bits((double)x));
}

/* The bits of the high half and of the low half become doubles of known exponents, exactly. Only their sum is
 * rounded. */
INLINE double dense_unsigned(uint64_t x) {
#if defined(__x86_64__)
  return (dense_double(x >> 32 | 0x4530000000000000) - 0x1.00000001p84) + dense_double((x & 0xffffffff) | 0x4330000000000000);
#else
  return (double)x;
#endif
}

INLINE double dense_signed(int64_t x) {
#if defined(__x86_64__)
  uint64_t u = (uint64_t)x;
  return (dense_double(u >> 32 ^ 0x4530000080000000) - 0x1.00000801p84) + dense_double((u & 0xffffffff) | 0x4330000000000000);
#else
  return (double)x;
#endif
}

/* Rounds an integer to odd at bit `bits`, counted from 0. */
#define DENSE_ODD(x, bits) (((x) | (((x) & ((1 << (bits)) - 1)) + ((1 << (bits)) - 1))) & ~(((__typeof__(x))1 << (bits)) - 1))

/* At most 24 bits remain of a wider integer for a float, and 53 of a 64-bit integer for a double, so the conversions
 * are exact. */
INLINE float dense_odd_uint(uint32_t x) { return (float)(x >> 24 != 0 ? DENSE_ODD(x, 8) : x); }

INLINE float dense_odd_int(int32_t x) {
  uint32_t magnitude = x < 0 ? -(uint32_t)x : (uint32_t)x;
  return (float)(magnitude >> 24 != 0 ? DENSE_ODD(x, 8) : x);
}

INLINE double dense_odd_unsigned(uint64_t x) { return dense_unsigned(x >> 53 != 0 ? DENSE_ODD(x, 11) : x); }

INLINE double dense_odd_signed(int64_t x) {
  uint64_t shifted = (uint64_t)x + ((uint64_t)1 << 52);
  return dense_signed(shifted >> 53 != 0 ? DENSE_ODD(x, 11) : x);
}

/* Rounds to odd. The result is not exact for subnormal floats, but the formats for which this is called round those to
 * 0. (bfloat16 does not; dense_double_brain handles them.) */
INLINE float dense_odd_double(double x) {
  uint64_t bits = dense_wide_bits(x);
  return (float)dense_double(DENSE_ODD(bits, 29));
}

INLINE uint32_t dense_double_half(double x) {
  uint64_t bits = dense_wide_bits(x), rest = bits & INT64_MAX;
  uint32_t payload = (uint32_t)(rest >> 42) & 0x3ff;
  uint32_t nan = (uint32_t)(bits >> 48 & 0x8000) | 0x7c00 | (payload != 0 ? payload : 1);
  uint32_t code = dense_encode(dense_odd_double(x), FORMAT_HALF);
  return rest > DENSE_WIDE_INFINITE ? nan : code;
}

/* bfloat16 has numbers among the subnormal floats. These are rounded as doubles, by adding the number whose last bit is
 * the smallest bfloat16. */
INLINE uint32_t dense_double_brain(double x) {
  uint64_t bits = dense_wide_bits(x), rest = bits & INT64_MAX, magic = dense_wide_bits(0x1p-81);
  uint64_t tiny = (dense_wide_bits(dense_double(rest) + 0x1p-81) - magic) | (bits >> 48 & 0x8000);
  return rest < dense_wide_bits(0x1p-126) ? (uint32_t)tiny : dense_encode_brain(dense_odd_double(x));
}

/* To 64-bit integers, without branches. NaN becomes 0, and a number out of range becomes the nearest limit. */
INLINE int64_t dense_int64(double x) {
  uint64_t within = -(uint64_t)((x >= -0x1p63) & (x < 0x1p63));
  int64_t above = -(int64_t)(x >= 0x1p63), below = -(int64_t)(x < -0x1p63);
  return (int64_t)dense_double(dense_wide_bits(x) & within) | (above & INT64_MAX) | (below & INT64_MIN);
}

INLINE uint64_t dense_uint64(double x) { /* by way of int64_t, for which processors have an instruction */
  uint64_t positive = -(uint64_t)(x > 0), high = -(uint64_t)(x >= 0x1p63), above = -(uint64_t)(x >= 0x1p64);
  double half = dense_double(dense_wide_bits(0x1p63) & high);
  return (((uint64_t)dense_int64(x - half) & positive) ^ high << 63) | above;
}

/* ---- vectors --------------------------------------------------------------------------------- */

#if HAS_AVX2

INLINE AVX2 __m256i dense_ints(const char *s, int at) { return _mm256_loadu_si256((const __m256i *)(const void *)(s + at)); }
INLINE AVX2 __m256 dense_floats(const char *s, int at) { return _mm256_castsi256_ps(dense_ints(s, at)); }
INLINE AVX2 __m256d dense_doubles(const char *s, int at) { return _mm256_castsi256_pd(dense_ints(s, at)); }
INLINE AVX2 __m128i dense_codes(const char *s, int at) { return _mm_loadu_si128((const __m128i *)(const void *)(s + at)); }
INLINE AVX2 void dense_put(char *d, int at, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)(d + at), v); }

INLINE AVX2 __m256i dense_join(__m128i low, __m128i high) { return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1); }

INLINE AVX2 __m128i dense_half(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

/* dense_odd_double of four numbers. */
INLINE AVX2 __m128 dense_odd_four(__m256d x) {
  __m256i bits = _mm256_castpd_si256(x), low = _mm256_set1_epi64x((1 << 29) - 1);
  bits = _mm256_or_si256(bits, _mm256_add_epi64(_mm256_and_si256(bits, low), low));
  return _mm256_cvtpd_ps(_mm256_castsi256_pd(_mm256_andnot_si256(low, bits)));
}

INLINE AVX2 __m256 dense_odd_floats(const char *s, int at) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(dense_odd_four(dense_doubles(s, at))), dense_odd_four(dense_doubles(s, at + 32)), 1);
}

/* Eight numbers as floats, rounded to nearest. */
INLINE AVX2 __m256 dense_of_single(const char *s, int at) { return dense_floats(s, at); }
INLINE AVX2 __m256 dense_of_int(const char *s, int at) { return _mm256_cvtepi32_ps(dense_ints(s, at)); }

INLINE AVX2 __m256 dense_of_brain(const char *s, int at) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(dense_codes(s, at)), 16));
}

INLINE AVX2 __m256 dense_of_uint(const char *s, int at) { /* by halves, as dense_unsigned */
  __m256i x = dense_ints(s, at), low = _mm256_blend_epi16(x, _mm256_set1_epi32(0x4b000000), 0xaa);
  __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(0x53000000), 0xaa);
  return _mm256_add_ps(_mm256_sub_ps(_mm256_castsi256_ps(high), _mm256_set1_ps(0x1.0001p39f)), _mm256_castsi256_ps(low));
}

INLINE AVX2 __m256 dense_of_double(const char *s, int at) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(dense_doubles(s, at))), _mm256_cvtpd_ps(dense_doubles(s, at + 32)), 1);
}

INLINE AVX2 bool dense_all_numbers(__m256 a, __m256 b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) == 0; }

/* Reports whether one of 16 floats ends in `tie`, whose bits after the first `shift` count. A float that was rounded to
 * nearest may be rounded again, unless it is half way between two narrower floats: the first rounding may have put it
 * there. */
INLINE AVX2 bool dense_any_last(__m256 a, __m256 b, int shift, uint32_t tie) {
  __m256i x = _mm256_slli_epi32(_mm256_castps_si256(a), shift), y = _mm256_slli_epi32(_mm256_castps_si256(b), shift);
  __m256i t = _mm256_set1_epi32((int32_t)tie);
  return _mm256_movemask_epi8(_mm256_or_si256(_mm256_cmpeq_epi32(x, t), _mm256_cmpeq_epi32(y, t))) != 0;
}

/* Eight numbers, from number 8 * at on, as integers without fractions. The instruction turns NaN and numbers out of
 * range into INT32_MIN. */
INLINE AVX2 __m256i dense_whole_single(const char *s, int at) { return _mm256_cvttps_epi32(dense_floats(s, 32 * at)); }
INLINE AVX2 __m256i dense_whole_brain(const char *s, int at) { return _mm256_cvttps_epi32(dense_of_brain(s, 16 * at)); }

INLINE AVX2 __m256i dense_whole_double(const char *s, int at) {
  return dense_join(_mm256_cvttpd_epi32(dense_doubles(s, 64 * at)), _mm256_cvttpd_epi32(dense_doubles(s, 64 * at + 32)));
}

INLINE AVX2 bool dense_any_least(__m256i x) { return _mm256_movemask_epi8(_mm256_cmpeq_epi32(x, _mm256_set1_epi32(INT32_MIN))) != 0; }

/* The same, but numbers out of range become the limits of int32_t, and NaN becomes 0. Packing narrows them to the
 * limits of smaller integers. */
INLINE AVX2 __m256i dense_int32(__m256 x) {
  __m256i large = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ));
  __m256i whole = _mm256_xor_si256(_mm256_cvttps_epi32(x), large);
  return _mm256_and_si256(whole, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q)));
}

INLINE AVX2 __m256i dense_limited_single(const char *s, int at) { return dense_int32(dense_floats(s, 32 * at)); }
INLINE AVX2 __m256i dense_limited_brain(const char *s, int at) { return dense_int32(dense_of_brain(s, 16 * at)); }

INLINE AVX2 __m256i dense_limited_double(const char *s, int at) {
  __m256d a = dense_doubles(s, 64 * at), b = dense_doubles(s, 64 * at + 32), most = _mm256_set1_pd(0x1p31 - 1);
  a = _mm256_and_pd(a, _mm256_cmp_pd(a, a, _CMP_ORD_Q)), b = _mm256_and_pd(b, _mm256_cmp_pd(b, b, _CMP_ORD_Q));
  return dense_join(_mm256_cvttpd_epi32(_mm256_min_pd(a, most)), _mm256_cvttpd_epi32(_mm256_min_pd(b, most)));
}

/* Eight numbers as uint32_t: the low halves of doubles whose last bit is worth 1. */
INLINE AVX2 __m256i dense_whole_double_natural(const char *s) {
  __m256d two[2];
  for (int i = 0; i < 2; i++) {
    __m256d x = _mm256_max_pd(dense_doubles(s, 32 * i), _mm256_setzero_pd()), most = _mm256_set1_pd(0x1p32 - 1); /* NaN becomes 0 */
    two[i] = _mm256_add_pd(_mm256_round_pd(_mm256_min_pd(x, most), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), _mm256_set1_pd(0x1p52));
  }
  __m256 low = _mm256_shuffle_ps(_mm256_castpd_ps(two[0]), _mm256_castpd_ps(two[1]), 0x88);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xd8);
}

INLINE AVX2 __m256i dense_uint32(__m256 x) {
  __m256 half = _mm256_set1_ps(0x1p31f);
  x = _mm256_max_ps(x, _mm256_setzero_ps()); /* NaN becomes 0 too */
  __m256 high = _mm256_cmp_ps(x, half, _CMP_GE_OQ), large = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p32f), _CMP_GE_OQ);
  __m256i whole = _mm256_cvttps_epi32(_mm256_sub_ps(x, _mm256_and_ps(high, half)));
  whole = _mm256_xor_si256(whole, _mm256_slli_epi32(_mm256_castps_si256(high), 31));
  return _mm256_or_si256(whole, _mm256_castps_si256(large));
}

/* Four numbers, from number 4 * at on. */
INLINE AVX2 __m256d dense_four_single(const char *s, int at) { return _mm256_cvtps_pd(_mm_loadu_ps((const void *)(s + 16 * at))); }
INLINE AVX2 __m256d dense_four_double(const char *s, int at) { return dense_doubles(s, 32 * at); }

/* Four numbers as int64_t, or as uint64_t if `natural`. The digits of a number are shifted by its exponent, to the left
 * and to the right: a negative count is read as a count above 63, which gives 0. Then the limits are applied, and NaN
 * becomes 0. */
INLINE AVX2 __m256i dense_long(__m256d x, bool natural) {
  if (natural) x = _mm256_max_pd(x, _mm256_setzero_pd()); /* NaN becomes 0 too */
  __m256i bits = _mm256_castpd_si256(x), one = _mm256_set1_epi64x((int64_t)1 << 52), unit = _mm256_set1_epi64x(1023 + 52);
  __m256i digits = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi64x(((int64_t)1 << 52) - 1)), one);
  __m256i exponent = _mm256_srli_epi64(_mm256_slli_epi64(bits, 1), 53);
  __m256i large = _mm256_cmpgt_epi64(exponent, _mm256_set1_epi64x(1023 + 62 + natural));
  __m256i right = _mm256_srlv_epi64(digits, _mm256_sub_epi64(unit, exponent));
  __m256i whole = _mm256_or_si256(_mm256_sllv_epi64(digits, _mm256_sub_epi64(exponent, unit)), right);
  if (natural) return _mm256_or_si256(whole, large);
  __m256i negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits), most = _mm256_xor_si256(negative, _mm256_set1_epi64x(INT64_MAX));
  whole = _mm256_sub_epi64(_mm256_xor_si256(whole, negative), negative);
  return _mm256_and_si256(_mm256_blendv_epi8(whole, most, large), _mm256_castpd_si256(_mm256_cmp_pd(x, x, _CMP_ORD_Q)));
}

/* dense_encode_brain of eight numbers, none of which is NaN. */
INLINE AVX2 __m256i dense_brain(__m256 x) {
  __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}

/* The same if, in addition, no number lies half way between two bfloat16. */
INLINE AVX2 __m256i dense_nearer(__m256 x) {
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x8000)), 16);
}

/* Report whether eight or 16 numbers did not change when they became floats. For integers, those below 2^24 do not. */
INLINE AVX2 bool dense_exact_int(const char *s, bool negative) {
  __m256i x = dense_ints(s, 0), y = dense_ints(s, 32);
  if (negative) x = _mm256_abs_epi32(x), y = _mm256_abs_epi32(y);
  return _mm256_testz_si256(_mm256_or_si256(x, y), _mm256_set1_epi32((int32_t)0xff000000)) != 0;
}

INLINE AVX2 bool dense_exact_double(const char *s, __m256 x) {
  __m256d low = _mm256_cmp_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)), dense_doubles(s, 0), _CMP_EQ_OQ);
  __m256d high = _mm256_cmp_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), dense_doubles(s, 32), _CMP_EQ_OQ);
  return _mm256_movemask_pd(_mm256_and_pd(low, high)) == 0xf;
}

/* Write 16 numbers of two bytes, and 32 numbers of a byte. All numbers are within the limits of their type, or packing
 * limits them. */
INLINE AVX2 void dense_pack_16(char *d, bool natural, __m256i a, __m256i b) {
  dense_put(d, 0, _mm256_permute4x64_epi64(natural ? _mm256_packus_epi32(a, b) : _mm256_packs_epi32(a, b), 0xd8));
}

INLINE AVX2 void dense_pack_32(char *d, bool natural, __m256i a, __m256i b, __m256i c, __m256i e) {
  __m256i low = _mm256_packs_epi32(a, b), high = _mm256_packs_epi32(c, e);
  __m256i all = natural ? _mm256_packus_epi16(low, high) : _mm256_packs_epi16(low, high);
  dense_put(d, 0, _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

#endif

static bool dense_is_integer(dlbcore_number k) { return k >= KIND_INT8 && k <= KIND_NATURAL; }

/* Each integer with its type, and how it becomes a float and a double. uint64_t becomes a float through a double that
 * is rounded to odd; int64_t by an instruction that has no vector form. */
#define INTEGERS(X)                                                                                              \
  X(INT8, int8_t, x, x) X(INT16, int16_t, x, x) X(INT32, int32_t, x, x)                                          \
  X(INT64, int64_t, x, dense_signed(x))                                                                          \
  X(UINT8, uint8_t, x, x) X(UINT16, uint16_t, x, x) X(UINT32, uint32_t, x, x)                                    \
  X(UINT64, uint64_t, dense_odd_unsigned(x), dense_unsigned(x))

/* ---- the loops ------------------------------------------------------------------------------- */

typedef struct dense_loops {
  dlbcore_loop *resize[KIND_UINT64 + 1][4]; /* integers to integers of 1, 2, 4 and 8 bytes */
  dlbcore_loop *to_bool[KIND_COUNT], *of_bool[KIND_COUNT];
  dlbcore_loop *to_single[KIND_COUNT], *to_double[KIND_COUNT], *of_single[KIND_COUNT], *of_double[KIND_COUNT];
  dlbcore_loop *of_brain[KIND_COUNT], *to_brain[KIND_COUNT]; /* in one step */
  dlbcore_loop *narrowing[KIND_COUNT]; /* to float, in such a way that the next rounding is the only one */
  dlbcore_loop *odd[KIND_COUNT];       /* integers of 64 bits to double, rounded to odd */
  dlbcore_loop *scaled[KIND_COUNT]; /* to float, or to double if a float does not hold all numbers */
} dense_loops;

#include "dense_loops.h"

/* ---- ways ------------------------------------------------------------------------------------ */

static int32_t dense_bytes(dlbcore_number k) {
  static const uint8_t bytes[KIND_COUNT] = {
      [KIND_INT16] = 2, [KIND_UINT16] = 2, [KIND_HALF] = 2, [KIND_BRAIN] = 2, [KIND_INT32] = 4, [KIND_UINT32] = 4, [KIND_SINGLE] = 4,
      [KIND_COMPLEX32] = 4, [KIND_INT64] = 8, [KIND_UINT64] = 8, [KIND_DOUBLE] = 8, [KIND_COMPLEX64] = 8, [KIND_COMPLEX128] = 16};
  return bytes[k] != 0 ? bytes[k] : 1;
}

/* Adds the loops from one kind to another, and sets the size of the numbers between them. */
static void dense_choose(dlbcore_dense *way, const dense_loops *l, dlbcore_number to, dlbcore_number from, bool by_double) {
  static const dlbcore_number same[9] = {[1] = KIND_UINT8, [2] = KIND_UINT16, [4] = KIND_UINT32, [8] = KIND_UINT64};
  bool whole = from == KIND_INT64 || from == KIND_UINT64;
  dlbcore_loop *first, *second = NULL;
  by_double = by_double && l->to_double[from] != NULL && l->of_double[to] != NULL; /* narrower floats have quiet NaNs only */
  way->between = 4;
  if (to == KIND_BOOL && l->to_bool[from] != NULL) first = l->to_bool[from];
  else if (from == KIND_BOOL && l->of_bool[to] != NULL) first = l->of_bool[to];
  else if (by_double || (whole && (to == KIND_BRAIN || to == KIND_E8M0FNU)))
    first = whole ? l->odd[from] : l->to_double[from], second = l->of_double[to], way->between = 8;
  else if (from == to || (dense_is_integer(from) && dense_is_integer(to)))
    first = l->resize[dense_is_integer(from) ? from : same[dense_bytes(from)]][way->to == 8 ? 3 : way->to / 2];
  else if (from == KIND_SINGLE) first = l->of_single[to];
  else if (to == KIND_SINGLE) first = l->to_single[from];
  else if (from == KIND_BRAIN && l->of_brain[to] != NULL) first = l->of_brain[to];
  else if (to == KIND_BRAIN && l->to_brain[from] != NULL) first = l->to_brain[from];
  else if (to == KIND_DOUBLE && l->to_double[from] != NULL) first = l->to_double[from];
  else if (from == KIND_DOUBLE && l->of_double[to] != NULL) first = l->of_double[to];
  else first = l->narrowing[from], second = l->of_single[to];
  way->loops[way->n++] = first;
  if (second != NULL) way->loops[way->n++] = second;
}

static const dense_loops *dense_loops_of(bool plain) { return plain || !dlbcore_has_avx2() ? &dense_plain : &dense_avx2; }

/* Numbers of fewer than 8 bits lie in bytes here. */
static dlbcore_number dense_read_as(dlbcore_number k) { return k == KIND_INTEGER ? KIND_INT8 : k == KIND_NATURAL ? KIND_UINT8 : k; }

void dlbcore_dense_of(dlbcore_dense *way, dlbcore_number to, dlbcore_number from, bool by_double, bool plain) {
  const dense_loops *l = dense_loops_of(plain);
  way->from = dense_bytes(from), way->to = dense_bytes(to), way->n = 0, way->factors = NULL;
  dense_choose(way, l, to, dense_read_as(from), by_double);
}

static bool dense_computes_doubles(dlbcore_number k) {
  return k == KIND_DOUBLE || k == KIND_INT32 || k == KIND_INT64 || k == KIND_UINT32 || k == KIND_UINT64;
}

void dlbcore_dense_scaled(dlbcore_dense *way, dlbcore_number to, dlbcore_number from, bool plain, dlbcore_factors *factors) {
  const dense_loops *l = dense_loops_of(plain);
  dlbcore_number computed = dense_computes_doubles(from) ? KIND_DOUBLE : KIND_SINGLE, read = dense_read_as(from);
  way->from = dense_bytes(from), way->to = dense_bytes(to), way->n = 0, way->factors = factors;
  if (l->scaled[read] == NULL) dense_choose(way, l, computed, read, false), read = computed;
  way->loops[way->n++] = l->scaled[read];
  if (to != computed) dense_choose(way, l, to, computed, false);
  way->between = dense_bytes(computed);
}

enum { DENSE_BLOCK = 3072 }; /* bytes between two loops: few enough for the level 1 cache and for the stack */
enum { DENSE_AHEAD = 4096 }; /* bytes of the source that are on their way from memory while a part is converted */

/* Converts groups by several loops. It is a separate function, so that the blocks have their own stack frame. */
__attribute__((noinline)) static void dense_blocks(const dlbcore_dense *way, char *dst, const char *src, size_t groups) {
  char blocks[DENSE_BLOCK] __attribute__((aligned(64)));
  size_t size = way->n > 2 ? DENSE_BLOCK / 2 : DENSE_BLOCK, most = size / DENSE_GROUP / (size_t)way->between;
  for (size_t done = 0; done < groups; done += most) {
    size_t some = groups - done < most ? groups - done : most;
    const char *now = src + done * DENSE_GROUP * (size_t)way->from;
    for (int32_t i = 0; i < way->n; i++) {
      char *next = i + 1 < way->n ? blocks + (i & 1) * size : dst + done * DENSE_GROUP * (size_t)way->to;
      way->loops[i](next, now, some, way->factors);
      now = next;
    }
  }
}

static void dense_groups(const dlbcore_dense *way, char *dst, const char *src, size_t groups) {
  if (way->n == 1) way->loops[0](dst, src, groups, way->factors);
  else dense_blocks(way, dst, src, groups);
}

/* Fewer numbers than a group are copied, and converted as a group. */
static void dense_rest(const dlbcore_dense *way, char *dst, const char *src, size_t n) {
  char from[DENSE_GROUP * 16] __attribute__((aligned(64))), to[DENSE_GROUP * 8] __attribute__((aligned(64)));
  size_t bytes = n * (size_t)way->from, next = way->factors == NULL ? 0 : (way->factors->at + n) % way->factors->period;
  memcpy(from, src, bytes);
  memset(from + bytes, 0, DENSE_GROUP * (size_t)way->from - bytes);
  dense_groups(way, to, from, 1);
  if (way->factors != NULL) way->factors->at = next;
  memcpy(dst, to, n * (size_t)way->to);
}

static void dense_run(const dlbcore_dense *way, char *dst, const char *src, size_t n) {
  size_t groups = n / DENSE_GROUP, done = groups * DENSE_GROUP;
  if (groups > 0) dense_groups(way, dst, src, groups);
  if (n > done) dense_rest(way, dst + done * (size_t)way->to, src + done * (size_t)way->from, n - done);
}

#if HAS_AVX2

/* Converts to a buffer, and writes the buffer past the caches. */
AVX2 static void dense_stream(const dlbcore_dense *way, char *dst, const char *src, size_t n) {
  char buffer[DENSE_BLOCK] __attribute__((aligned(64)));
  size_t from = (size_t)way->from, to = (size_t)way->to, some = to > 4 ? 384 : 512, done = -(uintptr_t)dst % 64 / to;
  dense_run(way, dst, src, done);
  for (; n - done >= some; done += some) {
    for (size_t at = 0; at < some * from; at += 64) __builtin_prefetch(src + done * from + DENSE_AHEAD + at);
    dense_run(way, buffer, src + done * from, some);
    for (size_t at = 0; at < some * to; at += 32) {
      _mm256_stream_si256((__m256i *)(void *)(dst + done * to + at), _mm256_load_si256((const __m256i *)(const void *)(buffer + at)));
    }
  }
  dense_run(way, dst + done * to, src + done * from, n - done);
  _mm_sfence();
}

#endif

void dlbcore_dense_convert(const dlbcore_dense *way, void *dst, const void *src, size_t n, bool stream) {
  (void)stream;
#if HAS_AVX2
  if (stream && n >= 1024 && (uintptr_t)dst % (size_t)way->to == 0 && dlbcore_has_avx2()) dense_stream(way, dst, src, n);
  else
#endif
    dense_run(way, dst, src, n);
}
