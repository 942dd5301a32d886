//go:build !dlbridge_shared

/* dense.c: conversions of numbers that lie one after another.
 *
 * A conversion is one loop, or two with a block of floats or doubles between them that stays in the level 1 cache. Each loop is one
 * line of dense_loops.h, which is compiled twice: with AVX2, and without for all other processors.
 *
 * Floats are rounded once, to nearest, ties to even. What is wider than the intermediate float or double is therefore rounded to odd
 * first: if bits are lost, the lowest bit that is kept is set. Such a number is never half way between two narrower floats unless the
 * original is, if it has two bits more than these; so rounding it gives what rounding the original gives. */
#include "dense.h"

#if HAS_AVX2
#include <immintrin.h>
#endif

/* gcc makes vectors of loops with conditions at this level only; clang does at all levels that the project is built with. No loop
 * reads the processor's flags of exceptions, which is all that the second option gives up. */
#if defined(__GNUC__) && !defined(__clang__)
#define DENSE_FAST __attribute__((optimize("O3", "no-trapping-math")))
#else
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

/* float8_e8m0fnu is not among them: it has functions of its own. */
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

/* Returns the code of the number nearest to a value; ties go to the even code. A number below the normal ones of the format is
 * rounded by adding the number whose last bit is the format's smallest number. */
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

/* float8_e8m0fnu has an exponent and nothing else: every code but 0xff, which is NaN, is a power of two. */
INLINE float dense_decode_power(uint32_t code) {
  uint32_t bits = code == 0 ? 1u << (DENSE_MANTISSA - 1) : code << DENSE_MANTISSA;
  return dense_float(code == 0xff ? (uint32_t)DENSE_QUIET : bits);
}

/* A value in the middle of two powers becomes the higher one. Zero and negative values become NaN. */
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

/* The top half and the low half become doubles of known exponents by their bits, exactly; only their sum is rounded. */
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

/* At most 24 bits remain of what has more, and 53 of what has 64, so that the conversions are exact. */
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

/* Rounds to odd. The float is exact unless it is below the normal floats: the formats for which this is called round those to 0.
 * (For bfloat16, which does not, dense_double_brain and dense_any_small look after them.) */
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

/* The numbers of bfloat16 reach below the normal floats, so they are rounded as doubles there: by adding the number whose last bit
 * is the smallest bfloat16. */
INLINE uint32_t dense_double_brain(double x) {
  uint64_t bits = dense_wide_bits(x), rest = bits & INT64_MAX, magic = dense_wide_bits(0x1p-81);
  uint64_t tiny = (dense_wide_bits(dense_double(rest) + 0x1p-81) - magic) | (bits >> 48 & 0x8000);
  return rest < dense_wide_bits(0x1p-126) ? (uint32_t)tiny : dense_encode_brain(dense_odd_double(x));
}

/* A double as an integer by shifts of its mantissa, for which there are vectors, as there are none of the conversion before AVX-512. */
INLINE uint64_t dense_shifted(uint64_t rest) {
  uint64_t m = (rest & 0xfffffffffffff) | 0x10000000000000;
  int64_t left = (int64_t)(rest >> 52) - 1075, right = -left;
  return left >= 0 ? m << (left & 63) : right > 63 ? 0 : m >> (right & 63);
}

INLINE int64_t dense_int64(double x) {
  uint64_t bits = dense_wide_bits(x), rest = bits & INT64_MAX, negative = -(bits >> 63);
  uint64_t whole = rest > 0x43dfffffffffffff ? (uint64_t)INT64_MAX : (dense_shifted(rest) ^ negative) - negative;
  whole = rest > 0x43dfffffffffffff && negative != 0 ? (uint64_t)INT64_MIN : whole;
  return rest > DENSE_WIDE_INFINITE ? 0 : (int64_t)whole;
}

INLINE uint64_t dense_uint64(double x) {
  uint64_t bits = dense_wide_bits(x), whole = bits > 0x43efffffffffffff ? UINT64_MAX : dense_shifted(bits);
  return bits > DENSE_WIDE_INFINITE ? 0 : whole; /* also of negative numbers, which have the highest bit set */
}

/* ---- vectors --------------------------------------------------------------------------------- */

#if HAS_AVX2

INLINE AVX2 __m256i dense_ints(const char *s, int at) { return _mm256_loadu_si256((const __m256i *)(const void *)(s + at)); }
INLINE AVX2 __m256 dense_floats(const char *s, int at) { return _mm256_castsi256_ps(dense_ints(s, at)); }
INLINE AVX2 __m256d dense_doubles(const char *s, int at) { return _mm256_castsi256_pd(dense_ints(s, at)); }
INLINE AVX2 void dense_put(char *d, int at, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)(d + at), v); }

INLINE AVX2 __m256i dense_join(__m128i low, __m128i high) { return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1); }

INLINE AVX2 __m128i dense_half(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

/* dense_odd_double of four numbers. */
INLINE AVX2 __m128 dense_odd_four(__m256d x) {
  __m256i bits = _mm256_castpd_si256(x), low = _mm256_set1_epi64x((1 << 29) - 1);
  bits = _mm256_or_si256(bits, _mm256_add_epi64(_mm256_and_si256(bits, low), low));
  return _mm256_cvtpd_ps(_mm256_castsi256_pd(_mm256_andnot_si256(low, bits)));
}

INLINE AVX2 __m256 dense_odd_floats(__m256d low, __m256d high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(dense_odd_four(low)), dense_odd_four(high), 1);
}

INLINE AVX2 bool dense_all_numbers(__m256 a, __m256 b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) == 0; }

/* Keeps numbers within limits; NaN becomes 0. What is below a low limit other than 0 stays: the next instruction makes INT32_MIN of
 * it, which is the limit, or which packing narrows to the limit. */
INLINE AVX2 __m256d dense_clamp_double(__m256d x, double low, double high) {
  x = low == 0 ? _mm256_max_pd(x, _mm256_setzero_pd()) : _mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_ORD_Q)); /* NaN becomes 0 */
  return _mm256_min_pd(x, _mm256_set1_pd(high));
}

/* Eight numbers, from number 8 * at on, as integers. */
INLINE AVX2 __m256i dense_whole_single(const char *s, int at, float low, float high) {
  __m256 x = dense_floats(s, 32 * at);
  x = low == 0 ? _mm256_max_ps(x, _mm256_setzero_ps()) : _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
  return _mm256_cvttps_epi32(_mm256_min_ps(x, _mm256_set1_ps(high)));
}

INLINE AVX2 __m256i dense_whole_double(const char *s, int at, double low, double high) {
  return dense_join(_mm256_cvttpd_epi32(dense_clamp_double(dense_doubles(s, 64 * at), low, high)),
                    _mm256_cvttpd_epi32(dense_clamp_double(dense_doubles(s, 64 * at + 32), low, high)));
}

/* Eight numbers as uint32_t: the low halves of doubles whose last bit is worth 1. */
INLINE AVX2 __m256i dense_whole_double_natural(const char *s) {
  __m256d two[2];
  for (int i = 0; i < 2; i++) {
    __m256d x = dense_clamp_double(dense_doubles(s, 32 * i), 0, 0x1p32 - 1);
    two[i] = _mm256_add_pd(_mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), _mm256_set1_pd(0x1p52));
  }
  __m256 low = _mm256_shuffle_ps(_mm256_castpd_ps(two[0]), _mm256_castpd_ps(two[1]), 0x88);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xd8);
}

/* The instruction makes INT32_MIN of all that is too large or too small. */
INLINE AVX2 __m256i dense_int32(__m256 x) {
  __m256i large = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ));
  __m256i whole = _mm256_xor_si256(_mm256_cvttps_epi32(x), large);
  return _mm256_and_si256(whole, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q)));
}

INLINE AVX2 __m256i dense_uint32(__m256 x) {
  __m256 half = _mm256_set1_ps(0x1p31f);
  x = _mm256_max_ps(x, _mm256_setzero_ps()); /* NaN becomes 0 too */
  __m256 high = _mm256_cmp_ps(x, half, _CMP_GE_OQ), large = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p32f), _CMP_GE_OQ);
  __m256i whole = _mm256_cvttps_epi32(_mm256_sub_ps(x, _mm256_and_ps(high, half)));
  whole = _mm256_xor_si256(whole, _mm256_slli_epi32(_mm256_castps_si256(high), 31));
  return _mm256_or_si256(whole, _mm256_castps_si256(large));
}

/* Report whether one of eight numbers is 2^30 or more, or if `negative` -2^30 or less. */
INLINE AVX2 bool dense_large_single(const char *s, bool negative) {
  __m256 x = dense_floats(s, 0);
  if (negative) x = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
  return _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p30f), _CMP_GE_OQ)) != 0;
}

INLINE AVX2 bool dense_large_double(const char *s, bool negative) {
  __m256d a = dense_doubles(s, 0), b = dense_doubles(s, 32), sign = _mm256_set1_pd(-0.0), limit = _mm256_set1_pd(0x1p30);
  if (negative) a = _mm256_andnot_pd(sign, a), b = _mm256_andnot_pd(sign, b);
  return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(a, limit, _CMP_GE_OQ), _mm256_cmp_pd(b, limit, _CMP_GE_OQ))) != 0;
}

/* Reports whether one of 16 floats is below the normal ones, and not 0. */
INLINE AVX2 bool dense_any_small(__m256 a, __m256 b) {
  __m256i all = _mm256_set1_epi32(0x7fffffff), one = _mm256_set1_epi32(1), most = _mm256_set1_epi32(0x7ffffe);
  __m256i x = _mm256_sub_epi32(_mm256_and_si256(_mm256_castps_si256(a), all), one); /* of 0 it is the largest of all */
  __m256i y = _mm256_sub_epi32(_mm256_and_si256(_mm256_castps_si256(b), all), one), least = _mm256_min_epu32(x, y);
  return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_min_epu32(least, most), least)) != 0;
}

/* dense_encode_brain of eight numbers. */
INLINE AVX2 __m256i dense_brain(__m256 x) {
  __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
  __m256i code = _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
  __m256i nan = _mm256_or_si256(_mm256_and_si256(high, _mm256_set1_epi32(0x8000)), _mm256_set1_epi32(0x7fc0));
  code = _mm256_srli_epi32(_mm256_add_epi32(bits, code), 16);
  return _mm256_blendv_epi8(code, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

/* Write 16 numbers of two bytes, and 32 of a byte. All are within the limits of their type, or packing makes them so. */
INLINE AVX2 void dense_pack_16(char *d, bool natural, __m256i a, __m256i b) {
  dense_put(d, 0, _mm256_permute4x64_epi64(natural ? _mm256_packus_epi32(a, b) : _mm256_packs_epi32(a, b), 0xd8));
}

INLINE AVX2 void dense_pack_32(char *d, bool natural, __m256i a, __m256i b, __m256i c, __m256i e) {
  __m256i low = _mm256_packs_epi32(a, b), high = _mm256_packs_epi32(c, e);
  __m256i all = natural ? _mm256_packus_epi16(low, high) : _mm256_packs_epi16(low, high);
  dense_put(d, 0, _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

#endif

/* Each integer with its type, and how it becomes a float (from 64 bits by a double that is rounded to odd) and a double. */
#define INTEGERS(X)                                                                                              \
  X(INT8, int8_t, x, x) X(INT16, int16_t, x, x) X(INT32, int32_t, x, x)                                          \
  X(INT64, int64_t, dense_odd_signed(x), dense_signed(x))                                                        \
  X(UINT8, uint8_t, x, x) X(UINT16, uint16_t, x, x) X(UINT32, uint32_t, x, x)                                    \
  X(UINT64, uint64_t, dense_odd_unsigned(x), dense_unsigned(x))

/* ---- the loops ------------------------------------------------------------------------------- */

enum { DENSE_GROUP = 32 }; /* numbers: every loop converts whole vectors, and has no code for less */

typedef struct dense_loops {
  dlbcore_loop *resize[KIND_UINT64 + 1][4]; /* integers to integers of 1, 2, 4 and 8 bytes */
  dlbcore_loop *to_bool[KIND_COUNT], *of_bool[KIND_COUNT];
  dlbcore_loop *to_single[KIND_COUNT], *to_double[KIND_COUNT], *of_single[KIND_COUNT], *of_double[KIND_COUNT];
  dlbcore_loop *narrowing[KIND_COUNT]; /* to float, in such a way that the next rounding is the only one */
  dlbcore_loop *odd[KIND_COUNT];       /* integers of 64 bits to double, rounded to odd */
} dense_loops;

#define SET plain
#define VECTORS 0
#define KERNEL DENSE_FAST
#include "dense_loops.h"

#if HAS_AVX2
#define SET avx2
#define VECTORS 1
#define KERNEL DENSE_FAST AVX2
#include "dense_loops.h"
#else
#define dense_avx2 dense_plain
#endif

/* ---- ways ------------------------------------------------------------------------------------ */

static bool dense_is_integer(dlbcore_number k) { return k >= KIND_INT8 && k <= KIND_NATURAL; }

static int32_t dense_bytes(dlbcore_number k) {
  static const uint8_t bytes[KIND_COUNT] = {
      [KIND_INT16] = 2, [KIND_UINT16] = 2, [KIND_HALF] = 2, [KIND_BRAIN] = 2, [KIND_INT32] = 4, [KIND_UINT32] = 4, [KIND_SINGLE] = 4,
      [KIND_COMPLEX32] = 4, [KIND_INT64] = 8, [KIND_UINT64] = 8, [KIND_DOUBLE] = 8, [KIND_COMPLEX64] = 8, [KIND_COMPLEX128] = 16};
  return bytes[k] != 0 ? bytes[k] : 1;
}

/* Sets the loops of a way, and the bytes of the numbers between them. */
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
    first = l->resize[dense_is_integer(from) ? from : same[way->from]][way->to == 8 ? 3 : way->to / 2];
  else if (from == KIND_SINGLE) first = l->of_single[to];
  else if (to == KIND_SINGLE) first = l->to_single[from];
  else if (to == KIND_DOUBLE && l->to_double[from] != NULL) first = l->to_double[from];
  else if (from == KIND_DOUBLE && l->of_double[to] != NULL) first = l->of_double[to];
  else first = l->narrowing[from], second = l->of_single[to];
  way->first = first, way->second = second;
}

dlbcore_dense dlbcore_dense_of(dlbcore_number to, dlbcore_number from, bool by_double, bool plain) {
  const dense_loops *l = plain || !dlbcore_has_avx2() ? &dense_plain : &dense_avx2;
  dlbcore_dense way = {.from = dense_bytes(from), .to = dense_bytes(to)};
  from = from == KIND_INTEGER ? KIND_INT8 : from == KIND_NATURAL ? KIND_UINT8 : from;
  dense_choose(&way, l, to, from, by_double);
  return way;
}

enum { DENSE_BLOCK = 3072 }; /* bytes between two loops: few enough for the level 1 cache and for the stack */
enum { DENSE_AHEAD = 4096 }; /* bytes of the source that are on their way from memory while a part is converted */

__attribute__((noinline)) static void dense_groups(const dlbcore_dense *way, char *dst, const char *src, size_t groups) {
  uint8_t between[DENSE_BLOCK] __attribute__((aligned(64)));
  if (way->second == NULL) {
    way->first(dst, src, groups);
    return;
  }
  size_t most = DENSE_BLOCK / DENSE_GROUP / (size_t)way->between;
  for (size_t done = 0; done < groups; done += most) {
    size_t some = groups - done < most ? groups - done : most;
    way->first(between, src + done * DENSE_GROUP * (size_t)way->from, some);
    way->second(dst + done * DENSE_GROUP * (size_t)way->to, between, some);
  }
}

/* Fewer numbers than a group are converted as one, in a copy. */
static void dense_rest(const dlbcore_dense *way, char *dst, const char *src, size_t n) {
  char from[DENSE_GROUP * 16] = {0}, to[DENSE_GROUP * 8];
  memcpy(from, src, n * (size_t)way->from);
  dense_groups(way, to, from, 1);
  memcpy(dst, to, n * (size_t)way->to);
}

static void dense_run(const dlbcore_dense *way, char *dst, const char *src, size_t n) {
  size_t groups = n / DENSE_GROUP, done = groups * DENSE_GROUP;
  if (groups > 0) dense_groups(way, dst, src, groups);
  if (n > done) dense_rest(way, dst + done * (size_t)way->to, src + done * (size_t)way->from, n - done);
}

#if HAS_AVX2

/* Converts to a buffer, and writes that past the caches. */
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
