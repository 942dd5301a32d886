//go:build !dlbridge_shared

/* convert.c: conversions between any two data types of numbers.
 *
 * A conversion has three steps, for SOME numbers at a time: read_some widens the numbers of the source to int64_t, double, or
 * two doubles; to_real or to_whole changes integers to floats or back, if the destination needs it; write_some narrows them
 * to the data type of the destination. The most common pairs of types have functions of their own instead (straight_of).
 *
 * Floats are rounded once, to nearest, ties to even. An integer on its way to a float narrower than double would be rounded
 * twice: to double, and then to the float. Therefore the first of these rounds to odd, which makes the result of the second
 * the same as if it were the only one (rounded_to_odd).
 *
 * All positions and steps are in bits, so packed numbers need no code of their own outside of take_bits and put_bits. */
#include "copy.h"

#include <inttypes.h>
#include <math.h>

#if HAS_AVX2
#include <immintrin.h>
#endif

/* ---- small floats ---------------------------------------------------------------------------- */

/* Which special values a float format has, and which codes stand for them. */
enum {
  IEEE,  /* the highest exponent means infinity or NaN */
  FN,    /* no infinity; the highest code of each sign is NaN */
  FNUZ,  /* no infinity and no -0; the code of -0 is NaN */
  FINITE /* neither infinity nor NaN */
};

typedef struct format {
  int exponent, mantissa; /* bits */
  int bias, special;
} format;

INLINE uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

INLINE double of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

enum { MANTISSA = 52, BIAS = 1023 }; /* of a double */

static const uint64_t QUIET = 0x7ff8000000000000, INFINITE = 0x7ff0000000000000;

/* Returns the number that a code stands for. NaNs of 16 bits keep their payload; narrower ones become quiet NaNs. */
INLINE double decode(uint32_t code, format f) {
  int width = f.exponent + f.mantissa;
  uint64_t sign = (uint64_t)(code >> width & 1) << 63;
  uint32_t whole = code & ((1u << width) - 1), top = (1u << f.exponent) - 1;
  uint32_t exponent = whole >> f.mantissa, m = whole & ((1u << f.mantissa) - 1);
  if (f.special == IEEE && exponent == top) {
    if (width > 8 && m != 0) return of_bits(sign | INFINITE | (uint64_t)m << (MANTISSA - f.mantissa));
    return of_bits(sign | (m != 0 ? QUIET : INFINITE));
  }
  if (f.special == FN && whole == (1u << width) - 1) return of_bits(sign | QUIET);
  if (f.special == FNUZ && sign != 0 && whole == 0) return of_bits(sign | QUIET);
  if (exponent == 0) {
    double unit = of_bits((uint64_t)(1 - f.bias - f.mantissa + BIAS) << MANTISSA);
    return of_bits(sign | bits_of(m * unit));
  }
  return of_bits(sign | (uint64_t)((int)exponent - f.bias + BIAS) << MANTISSA |
                 (uint64_t)m << (MANTISSA - f.mantissa));
}

/* Returns the code of the number nearest to a value; ties go to the even code. */
INLINE uint32_t encode(double value, format f) {
  int width = f.exponent + f.mantissa;
  uint64_t bits = bits_of(value), rest = bits & ~((uint64_t)1 << 63);
  uint32_t sign = (uint32_t)(bits >> 63) << width, top = ((1u << f.exponent) - 1) << f.mantissa;
  uint32_t all = (1u << width) - 1;
  uint32_t infinite = f.special == IEEE ? top : all; /* code of a value that is too large */
  uint32_t most = f.special == IEEE ? top - 1 : f.special == FN ? all - 1 : all;
  if (f.special == FNUZ) infinite = 1u << width, sign = rest == 0 ? 0 : sign;
  if (rest > INFINITE) {
    uint32_t payload = (uint32_t)(rest >> (MANTISSA - f.mantissa)) & ((1u << f.mantissa) - 1);
    if (f.special == FINITE) return sign ^ 1u << width; /* as ml-dtypes does */
    if (f.special == FNUZ) return infinite;
    if (f.special == FN) return sign | all;
    if (width == 15 && f.mantissa == 10) return sign | top | (payload != 0 ? payload : 1); /* as NumPy does */
    return sign | top | 1u << (f.mantissa - 1);
  }
  int exponent = (int)(rest >> MANTISSA) - BIAS, least = 1 - f.bias;
  uint64_t m = (rest & (((uint64_t)1 << MANTISSA) - 1)) | (uint64_t)1 << MANTISSA;
  int shift = MANTISSA - f.mantissa + (exponent < least ? least - exponent : 0);
  uint64_t code = exponent > least ? (uint64_t)(exponent - least) << f.mantissa : 0;
  if (shift <= MANTISSA + 1) {
    uint64_t lost = m & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
    m >>= shift;
    code += m + (lost > half || (lost == half && (m & 1)));
  } /* otherwise the value is less than half of the smallest number, and is rounded to 0 */
  if (rest == INFINITE || code > most) {
    if (f.special == FINITE) return sign | all;
    return f.special == FNUZ ? infinite : sign | infinite;
  }
  if (f.special == FNUZ && code == 0) return 0;
  return sign | (uint32_t)code;
}

/* float8_e8m0fnu has an exponent and nothing else: every code but 0xff, which is NaN, is a power of two. */
INLINE double decode_power(uint32_t code) {
  if (code == 0xff) return of_bits(QUIET);
  return of_bits((uint64_t)(code - 127 + BIAS) << MANTISSA);
}

/* A value in the middle of two powers becomes the higher one. Zero and negative values become NaN. */
INLINE uint32_t encode_power(double value) {
  uint64_t bits = bits_of(value);
  if (bits == 0 || bits >= INFINITE) return 0xff; /* negative values have the highest bit set */
  int64_t code = (int64_t)((bits + ((uint64_t)1 << (MANTISSA - 1))) >> MANTISSA) - BIAS + 127;
  return code < 0 ? 0 : code > 0xff ? 0xff : (uint32_t)code;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static const format HALF_FORMAT = {5, 10, 15, IEEE}, BRAIN_FORMAT = {8, 7, 127, IEEE},
                    E3M4_FORMAT = {3, 4, 3, IEEE}, E4M3_FORMAT = {4, 3, 7, IEEE},
                    E4M3B11FNUZ_FORMAT = {4, 3, 11, FNUZ}, E4M3FN_FORMAT = {4, 3, 7, FN},
                    E4M3FNUZ_FORMAT = {4, 3, 8, FNUZ}, E5M2_FORMAT = {5, 2, 15, IEEE},
                    E5M2FNUZ_FORMAT = {5, 2, 16, FNUZ}, E2M3FN_FORMAT = {2, 3, 1, FINITE},
                    E3M2FN_FORMAT = {3, 2, 3, FINITE}, E2M1FN_FORMAT = {2, 1, 1, FINITE};

/* All kinds of numbers: those of whole bytes, those of fewer than 8 bits, and those of two parts. Each has a name, the C type of
 * its bytes or parts, the member of `wide` that holds it while it is converted, and two expressions: the widened number that it
 * stands for, and what is stored for a widened number. INTEGER and NATURAL are signed and unsigned integers of fewer than 8
 * bits. The small floats, from E3M4 on, have the order of dlpack.h. */
#define KINDS(BYTES, BITS, TWO)                                                                \
  BYTES(BOOL, uint8_t, whole, x != 0, x != 0)                                                  \
  BYTES(INT8, int8_t, whole, x, x)                                                             \
  BYTES(INT16, int16_t, whole, x, x)                                                           \
  BYTES(INT32, int32_t, whole, x, x)                                                           \
  BYTES(INT64, int64_t, whole, x, x)                                                           \
  BYTES(UINT8, uint8_t, whole, x, x)                                                           \
  BYTES(UINT16, uint16_t, whole, x, x)                                                         \
  BYTES(UINT32, uint32_t, whole, x, x)                                                         \
  BYTES(UINT64, uint64_t, whole, (int64_t)x, x)                                                \
  BITS(INTEGER, whole, (int64_t)x - (int64_t)((x >> (s->bits - 1)) << s->bits), lowest(x, s->bits)) \
  BITS(NATURAL, whole, x, lowest(x, s->bits))                                                  \
  BYTES(HALF, uint16_t, real, decode(x, HALF_FORMAT), encode(x, HALF_FORMAT))                  \
  BYTES(BRAIN, uint16_t, real, decode(x, BRAIN_FORMAT), encode(x, BRAIN_FORMAT))               \
  BYTES(SINGLE, float, real, x, x)                                                             \
  BYTES(DOUBLE, double, real, x, x)                                                            \
  BYTES(E3M4, uint8_t, real, decode(x, E3M4_FORMAT), encode(x, E3M4_FORMAT))                   \
  BYTES(E4M3, uint8_t, real, decode(x, E4M3_FORMAT), encode(x, E4M3_FORMAT))                   \
  BYTES(E4M3B11FNUZ, uint8_t, real, decode(x, E4M3B11FNUZ_FORMAT), encode(x, E4M3B11FNUZ_FORMAT)) \
  BYTES(E4M3FN, uint8_t, real, decode(x, E4M3FN_FORMAT), encode(x, E4M3FN_FORMAT))             \
  BYTES(E4M3FNUZ, uint8_t, real, decode(x, E4M3FNUZ_FORMAT), encode(x, E4M3FNUZ_FORMAT))       \
  BYTES(E5M2, uint8_t, real, decode(x, E5M2_FORMAT), encode(x, E5M2_FORMAT))                   \
  BYTES(E5M2FNUZ, uint8_t, real, decode(x, E5M2FNUZ_FORMAT), encode(x, E5M2FNUZ_FORMAT))       \
  BYTES(E8M0FNU, uint8_t, real, decode_power(x), encode_power(x))                              \
  BITS(E2M3FN, real, decode(x, E2M3FN_FORMAT), encode(x, E2M3FN_FORMAT))                       \
  BITS(E3M2FN, real, decode(x, E3M2FN_FORMAT), encode(x, E3M2FN_FORMAT))                       \
  BITS(E2M1FN, real, decode(x, E2M1FN_FORMAT), encode(x, E2M1FN_FORMAT))                       \
  TWO(COMPLEX32, uint16_t, decode(x, HALF_FORMAT), encode(x, HALF_FORMAT))                     \
  TWO(COMPLEX64, float, x, x)                                                                  \
  TWO(COMPLEX128, double, x, x)

#define NAME(name, ...) name,
typedef enum kind { NONE, KINDS(NAME, NAME, NAME) } kind;
#undef NAME

_Static_assert(E2M1FN - E3M4 == kDLFloat4_e2m1fn - kDLFloat8_e3m4, "the small floats have the order of dlpack.h");

static int log2_bytes(int bits) { return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3; }

static kind kind_of(DLDataType t) {
  switch (t.code) {
    case kDLBool: return BOOL;
    case kDLInt: return t.bits < 8 ? INTEGER : (kind)((int)INT8 + log2_bytes(t.bits));
    case kDLUInt: return t.bits < 8 ? NATURAL : (kind)((int)UINT8 + log2_bytes(t.bits));
    case kDLFloat: return t.bits == 16 ? HALF : t.bits == 32 ? SINGLE : DOUBLE;
    case kDLBfloat: return BRAIN;
    case kDLComplex: return t.bits == 32 ? COMPLEX32 : t.bits == 64 ? COMPLEX64 : COMPLEX128;
    case kDLOpaqueHandle: return NONE;
    default: return t.code <= kDLFloat4_e2m1fn ? (kind)((int)E3M4 + t.code - (int)kDLFloat8_e3m4) : NONE;
  }
}

static int is_integer(kind k) { return k <= NATURAL; }
static int is_complex(kind k) { return k >= COMPLEX32; }

/* ---- reading and writing --------------------------------------------------------------------- */

enum { SOME = 192 }; /* numbers that are converted at a time, few enough to stay in the level 1 cache */

/* Widened numbers. An unsigned integer is stored as the int64_t with the same bits. */
typedef struct wide {
  union {
    int64_t whole[SOME];
    double real[SOME];
  };
  double imaginary[SOME];
} wide;

/* The data type of the source, or of the destination. */
typedef struct side {
  kind kind;
  int bits;
  bool padded;
} side;

/* Returns the offset of the byte in which a bit lies. at may be negative. */
INLINE int64_t byte_of(int64_t at) { return at >= 0 ? at / 8 : (at + 1) / 8 - 1; }

/* Reads a number of fewer than 8 bits, which may lie in two bytes. */
INLINE uint32_t take_bits(const uint8_t *base, int64_t at, int bits) {
  const uint8_t *byte = base + byte_of(at);
  int from = (int)(at & 7);
  uint32_t both = byte[0];
  if (from + bits > 8) both |= (uint32_t)byte[1] << 8;
  return both >> from & ((1u << bits) - 1);
}

INLINE void put_bits(uint8_t *base, int64_t at, int bits, bool padded, uint32_t code) {
  uint8_t *byte = base + byte_of(at);
  int from = (int)(at & 7);
  if (padded) {
    *byte = (uint8_t)code;
    return;
  }
  uint32_t mask = ((1u << bits) - 1) << from;
  byte[0] = (uint8_t)((byte[0] & ~mask) | code << from);
  if (from + bits > 8) byte[1] = (uint8_t)((byte[1] & ~(mask >> 8)) | code << from >> 8);
}

#define READ(name, type, target, expression, ignored)            \
  case name:                                                     \
    for (int i = 0; i < n; i++) {                                \
      type x;                                                    \
      memcpy(&x, first + i * bytes, sizeof x);                   \
      w->target[i] = expression;                                 \
    }                                                            \
    return;
#define READ_BITS(name, target, expression, ignored)             \
  case name:                                                     \
    for (int i = 0; i < n; i++) {                                \
      uint32_t x = take_bits(base, at + i * step, s->bits);      \
      w->target[i] = expression;                                 \
    }                                                            \
    return;
#define READ_TWO(name, type, expression, ignored)                \
  case name:                                                     \
    for (int i = 0; i < n; i++) {                                \
      type x, both[2];                                           \
      memcpy(both, first + i * bytes, sizeof both);              \
      x = both[0];                                               \
      w->real[i] = expression;                                   \
      x = both[1];                                               \
      w->imaginary[i] = expression;                              \
    }                                                            \
    return;

/* Reads and widens n numbers that lie `step` bits apart. */
static void read_some(wide *w, const side *s, const uint8_t *base, int64_t at, int64_t step, int n) {
  const uint8_t *first = base + at / 8; /* of numbers of whole bytes */
  int64_t bytes = step / 8;
  switch (s->kind) {
    KINDS(READ, READ_BITS, READ_TWO)
    case NONE: return;
  }
}

#define WRITE(name, type, source, ignored, expression)           \
  case name:                                                     \
    for (int i = 0; i < n; i++) {                                \
      __typeof__(w->source[0]) x = w->source[i];                 \
      type y = (type)(expression);                               \
      memcpy(first + i * bytes, &y, sizeof y);                   \
    }                                                            \
    return;
/* Returns the lowest `bits` bits of an integer. */
INLINE uint32_t lowest(int64_t x, int bits) { return (uint32_t)x & ((1u << bits) - 1); }

#define WRITE_BITS(name, source, ignored, expression)            \
  case name:                                                     \
    for (int i = 0; i < n; i++) {                                \
      __typeof__(w->source[0]) x = w->source[i];                 \
      put_bits(base, at + i * step, s->bits, s->padded, expression); \
    }                                                            \
    return;
#define WRITE_TWO(name, type, ignored, expression)               \
  case name:                                                     \
    for (int i = 0; i < n; i++) {                                \
      type both[2];                                              \
      double x = w->real[i];                                     \
      both[0] = (type)(expression);                              \
      x = w->imaginary[i];                                       \
      both[1] = (type)(expression);                              \
      memcpy(first + i * bytes, both, sizeof both);              \
    }                                                            \
    return;

/* Narrows n numbers and writes them to places that lie `step` bits apart. Integers that are too large lose their high bits. */
static void write_some(const wide *w, const side *s, uint8_t *base, int64_t at, int64_t step, int n) {
  uint8_t *first = base + at / 8; /* of numbers of whole bytes */
  int64_t bytes = step / 8;
  switch (s->kind) {
    KINDS(WRITE, WRITE_BITS, WRITE_TWO)
    case NONE: return;
  }
}

/* ---- integers to floats, and back ------------------------------------------------------------ */

/* Returns an integer as a double, rounded to odd: if bits are lost, the lowest bit that is kept is set. A double rounded this
 * way is never exactly half way between two narrower floats unless the integer is, so rounding it once more gives the same
 * result as rounding the integer directly. */
INLINE double rounded_to_odd(uint64_t magnitude) {
  if (magnitude >> (MANTISSA + 1) == 0) return (double)magnitude;
  int shift = 63 - __builtin_clzll(magnitude) - MANTISSA;
  uint64_t lost = magnitude & (((uint64_t)1 << shift) - 1);
  magnitude >>= shift;
  magnitude |= lost != 0;
  return (double)(magnitude << shift);
}

static void to_real(wide *w, kind from, kind to, int n) {
  int widest = to == DOUBLE || to == COMPLEX128;
  if (from != INT64 && from != UINT64) { /* a double holds them all */
    for (int i = 0; i < n; i++) w->real[i] = (double)w->whole[i];
    return;
  }
  for (int i = 0; i < n; i++) {
    int64_t x = w->whole[i];
    uint64_t u = (uint64_t)x;
    int negative = from != UINT64 && x < 0;
    if (widest) w->real[i] = from == UINT64 ? (double)u : (double)x;
    else w->real[i] = negative ? -rounded_to_odd(-u) : rounded_to_odd(u);
  }
}

/* Rounds floats towards zero. A value outside the range of the integer type becomes the nearest number in it, and NaN becomes
 * 0. Integers of fewer than 8 bits follow ml-dtypes: the value is first converted to int32_t, or to 0 if it is outside that
 * type's range, and write_some keeps the low bits. */
static void to_whole(wide *w, const side *to, int complex, int n) {
  if (to->kind == BOOL) {
    for (int i = 0; i < n; i++) {
      w->whole[i] = w->real[i] != 0 || (complex && w->imaginary[i] != 0);
    }
    return;
  }
  if (to->kind == INTEGER || to->kind == NATURAL) {
    for (int i = 0; i < n; i++) {
      double x = w->real[i];
      w->whole[i] = x >= INT32_MIN && x <= INT32_MAX ? (int64_t)x : 0;
    }
    return;
  }
  int natural = to->kind >= UINT8 && to->kind <= UINT64;
  uint64_t half = (uint64_t)1 << (to->bits - 1); /* one more than the highest signed number */
  double low = natural ? 0 : -(double)half, high = natural ? 2 * (double)half : (double)half;
  uint64_t least = natural ? 0 : -half, most = natural ? half - 1 + half : half - 1;
  if (to->bits < 64) { /* without branches, because a double holds all limits */
    for (int i = 0; i < n; i++) {
      double x = w->real[i];
      x = x > low ? x : low; /* also for NaN, which the last line makes 0 */
      x = x < high - 1 ? x : high - 1;
      w->whole[i] = w->real[i] == w->real[i] ? (int64_t)x : 0;
    }
    return;
  }
  for (int i = 0; i < n; i++) {
    double x = w->real[i];
    uint64_t y = 0;
    if (x >= high) y = most;
    else if (x <= low) y = least;
    else if (x == x) y = natural ? (uint64_t)x : (uint64_t)(int64_t)x;
    w->whole[i] = (int64_t)y;
  }
}

/* ---- direct conversions of the common pairs -------------------------------------------------- */

INLINE uint32_t single_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

INLINE float of_single_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The payload of a NaN is kept as it is. A conversion by the processor would make the NaN quiet. */
INLINE float half_to_single(uint16_t code) {
  uint32_t m = code & 0x3ff;
  if ((code & 0x7c00) == 0x7c00) return of_single_bits((uint32_t)(code & 0x8000) << 16 | 0x7f800000 | m << 13);
  return (float)decode(code, HALF_FORMAT);
}

INLINE uint16_t single_to_half(float value) {
  uint32_t bits = single_bits(value), m = bits >> 13 & 0x3ff;
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16 & 0x8000) | 0x7c00 | (m != 0 ? m : 1));
  return (uint16_t)encode(value, HALF_FORMAT);
}

INLINE float brain_to_single(uint16_t code) { return of_single_bits((uint32_t)code << 16); }

INLINE uint16_t single_to_brain(float value) {
  uint32_t bits = single_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#if HAS_AVX2

/* The functions below convert eight numbers at a time, of lines without gaps, and return how many they have converted. All but
 * brains_to_singles stop before eight numbers with a NaN among them, because the instructions would not convert NaNs as the
 * scalar code does. */

AVX2 static int64_t halves_to_singles(uint8_t *dst, const uint8_t *src, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i)));
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) return i;
    _mm256_storeu_ps((float *)(void *)(dst + 4 * i), x);
  }
  return i;
}

AVX2 static int64_t singles_to_halves(uint8_t *dst, const uint8_t *src, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps((const float *)(const void *)(src + 4 * i));
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) return i;
    _mm_storeu_si128((__m128i *)(void *)(dst + 2 * i),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}

AVX2 static int64_t brains_to_singles(uint8_t *dst, const uint8_t *src, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i)));
    _mm256_storeu_si256((__m256i *)(void *)(dst + 4 * i), _mm256_slli_epi32(x, 16));
  }
  return i;
}

AVX2 static int64_t singles_to_brains(uint8_t *dst, const uint8_t *src, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps((const float *)(const void *)(src + 4 * i));
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) return i;
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    bits = _mm256_srli_epi32(bits, 16);
    bits = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)(dst + 2 * i), _mm256_castsi256_si128(bits));
  }
  return i;
}

#endif

#define STRAIGHT(name, from, to, expression, many)                             \
  static void name(uint8_t *dst, int64_t dst_step, const uint8_t *src,         \
                   int64_t src_step, int64_t n) {                              \
    int dense = dst_step == sizeof(to) && src_step == sizeof(from) && dlbcore_has_avx2(); \
    (void)dense;                                                               \
    for (int64_t i = 0; i < n; i++) {                                          \
      many;                                                                    \
      if (i == n) return;                                                      \
      from x;                                                                  \
      memcpy(&x, src + i * src_step, sizeof x);                                \
      to y = expression;                                                       \
      memcpy(dst + i * dst_step, &y, sizeof y);                                \
    }                                                                          \
  }
#if HAS_AVX2
#define MANY(name) \
  if (dense && i % 8 == 0) i += name(dst + i * dst_step, src + i * src_step, n - i)
#else
#define MANY(name) (void)0
#endif
STRAIGHT(half_single, uint16_t, float, half_to_single(x), MANY(halves_to_singles))
STRAIGHT(single_half, float, uint16_t, single_to_half(x), MANY(singles_to_halves))
STRAIGHT(brain_single, uint16_t, float, brain_to_single(x), MANY(brains_to_singles))
STRAIGHT(single_brain, float, uint16_t, single_to_brain(x), MANY(singles_to_brains))
STRAIGHT(single_double, float, double, x, (void)0)
STRAIGHT(double_single, double, float, (float)x, (void)0)
#undef STRAIGHT
#undef MANY

typedef void straight(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n);

static straight *straight_of(kind from, kind to) {
  if (from == HALF && to == SINGLE) return half_single;
  if (from == SINGLE && to == HALF) return single_half;
  if (from == BRAIN && to == SINGLE) return brain_single;
  if (from == SINGLE && to == BRAIN) return single_brain;
  if (from == SINGLE && to == DOUBLE) return single_double;
  if (from == DOUBLE && to == SINGLE) return double_single;
  return NULL;
}

/* ---- conversions ----------------------------------------------------------------------------- */

/* Converts a line of n numbers. Positions and steps are in bits. The buffer has a frame of its own, beside that of dlbcore_convert. */
__attribute__((noinline)) static void convert_line(const side *to, uint8_t *dst, int64_t dst_at, int64_t dst_step,
                         const side *from, const uint8_t *src, int64_t src_at, int64_t src_step,
                         int64_t n) {
  straight *direct = straight_of(from->kind, to->kind);
  if (direct != NULL) {
    direct(dst + dst_at / 8, dst_step / 8, src + src_at / 8, src_step / 8, n);
    return;
  }
  wide w;
  for (int64_t done = 0; done < n; done += SOME) {
    int some = n - done < SOME ? (int)(n - done) : SOME;
    read_some(&w, from, src, src_at + done * src_step, src_step, some);
    if (is_integer(from->kind)) {
      if (!is_integer(to->kind)) to_real(&w, from->kind, to->kind, some);
    } else if (is_integer(to->kind)) {
      to_whole(&w, to, is_complex(from->kind), some);
    }
    if (is_complex(to->kind) && !is_complex(from->kind)) memset(w.imaginary, 0, sizeof w.imaginary);
    write_some(&w, to, dst, dst_at + done * dst_step, dst_step, some);
  }
}

static int64_t width_of(DLDataType t, bool padded) {
  int64_t bits = (int64_t)t.bits * t.lanes;
  return padded ? (bits + 7) / 8 * 8 : bits;
}

/* The dimensions of more than one element, with their strides in bytes or bits. */
typedef struct {
  int64_t sizes[CORE_AXES_MAX], dst[CORE_AXES_MAX], src[CORE_AXES_MAX];
  int32_t count;
} steps;

/* Lists the dimensions of a shape. An element of each side has so many bytes or bits. Returns false if there are no elements. */
static bool list_steps(steps *out, const int64_t *dst_strides, int64_t dst_item, const int64_t *src_strides, int64_t src_item,
                       const int64_t *shape, int32_t ndim) {
  out->count = 0;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] <= 0) return false;
  }
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 1) continue; /* the stride has no meaning */
    if (out->count == CORE_AXES_MAX - 1) return false; /* no tensor has so many elements */
    out->sizes[out->count] = shape[d];
    out->dst[out->count] = dst_strides[d] * dst_item;
    out->src[out->count++] = src_strides[d] * src_item;
  }
  return true;
}

/* dlbcore_axes for the numbers of two tensors, that is, for all lanes of all elements. Steps are in bits. */
static int32_t bit_axes(dlbcore_axis *axes, int64_t *dst_start, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded,
                        int64_t *src_start, DLDataType src_dtype, const int64_t *src_strides, bool src_padded, const int64_t *shape,
                        int32_t ndim) {
  steps s;
  if (!list_steps(&s, dst_strides, width_of(dst_dtype, dst_padded), src_strides, width_of(src_dtype, src_padded), shape, ndim)) return -1;
  s.sizes[s.count] = dst_dtype.lanes;
  s.dst[s.count] = dst_dtype.bits;
  s.src[s.count++] = src_dtype.bits;
  return dlbcore_axes(axes, dst_start, s.dst, src_start, s.src, s.sizes, s.count);
}

int dlbcore_can_convert(DLDataType to, DLDataType from) {
  return kind_of(to) != NONE && kind_of(from) != NONE && to.lanes == from.lanes;
}

dlbcore_status dlbcore_convert(char *dst, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded,
                         const char *src, DLDataType src_dtype, const int64_t *src_strides,
                         bool src_padded, const int64_t *shape, int32_t ndim) {
  side to = {kind_of(dst_dtype), dst_dtype.bits, dst_padded};
  side from = {kind_of(src_dtype), src_dtype.bits, src_padded};
  if (!dlbcore_can_convert(dst_dtype, src_dtype)) return CORE_ERR_DTYPE;
  if (to.kind == from.kind && to.kind != BOOL && dst_dtype.bits % 8 == 0) { /* not BOOL: a bool that is not 0 must become 1 */
    const int64_t item = dst_dtype.bits / 8 * dst_dtype.lanes;
    steps s;
    if (!list_steps(&s, dst_strides, item, src_strides, item, shape, ndim)) return CORE_OK;
    dlbcore_copy(dst, s.dst, src, s.src, s.sizes, s.count, (size_t)item);
    return CORE_OK;
  }
  dlbcore_axis axes[CORE_AXES_MAX], line = {1, 0, 0};
  int64_t dst_at = 0, src_at = 0, index[CORE_AXES_MAX];
  int32_t n = bit_axes(axes, &dst_at, dst_dtype, dst_strides, to.padded, &src_at, src_dtype, src_strides, from.padded, shape, ndim);
  if (dst_dtype.lanes > 1) to.padded = false; /* padding is between elements; their lanes are packed */
  if (n < 0) return CORE_OK;
  if (n > 0) line = axes[--n];
  memset(index, 0, (size_t)n * sizeof index[0]);
  /* A position is below 0 only if strides are negative. Packed elements have no such strides, so elements below 0 begin with a
   * whole byte; only their lanes may begin inside one. */
  do {
    convert_line(&to, (uint8_t *)dst, dst_at, line.dst, &from, (const uint8_t *)src, src_at, line.src, line.size);
  } while (dlbcore_next(index, axes, n, &dst_at, &src_at));
  return CORE_OK;
}

dlbcore_status dlbcore_copy_convert(dlbcore_share **out, dlbcore_extent *extent, const DLTensor *tensor, uint64_t flags,
                              DLDataType dtype, char *message, size_t size) {
  int64_t to[CORE_RANK_MAX];
  const int64_t *from = tensor->strides == NULL ? to : tensor->strides;
  DLTensor view = {.ndim = tensor->ndim, .dtype = dtype, .shape = tensor->shape};
  if (!dlbcore_can_convert(dtype, tensor->dtype)) return CORE_ERR_DTYPE;
  dlbcore_status status = dlbcore_check_layout(&view, 0, extent, message, size);
  if (status != CORE_OK) return status;
  dlbcore_share *share = dlbcore_share_alloc((size_t)extent->nbytes, 0);
  if (share == NULL) return dlbcore_fail(CORE_ERR_MEMORY, message, size, "no memory for %" PRId64 " bytes", extent->nbytes);
  dlbcore_set_row_major(to, tensor->shape, tensor->ndim);
  if (extent->count > 0)
    dlbcore_convert(share->data, dtype, to, false, (const char *)tensor->data + tensor->byte_offset, tensor->dtype, from,
                 (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0, tensor->shape, tensor->ndim);
  *out = share;
  return CORE_OK;
}

/* ---- comparison ------------------------------------------------------------------------------ */

INLINE bool same_real(double x, double y, bool nan_equal) { return x == y || (nan_equal && isnan(x) && isnan(y)); }

/* Reports whether n numbers of a side, `step` bits apart, are those in w. The buffer has a frame of its own, beside that of
 * equal_line. */
__attribute__((noinline)) static bool equal_some(const wide *w, const side *s, const uint8_t *base, int64_t at, int64_t step,
                                                 int n, bool nan_equal) {
  wide other;
  read_some(&other, s, base, at, step, n);
  if (is_integer(s->kind)) return memcmp(w->whole, other.whole, (size_t)n * sizeof *w->whole) == 0;
  bool same = true;
  for (int i = 0; i < n; i++) same &= same_real(w->real[i], other.real[i], nan_equal);
  for (int i = 0; i < n && is_complex(s->kind); i++) same &= same_real(w->imaginary[i], other.imaginary[i], nan_equal);
  return same;
}

__attribute__((noinline)) static bool equal_line(const side *x, const uint8_t *a, int64_t a_at, int64_t a_step, const side *y,
                                                 const uint8_t *b, int64_t b_at, int64_t b_step, int64_t n, bool nan_equal) {
  wide w;
  for (int64_t done = 0; done < n; done += SOME) {
    int some = n - done < SOME ? (int)(n - done) : SOME;
    read_some(&w, x, a, a_at + done * a_step, a_step, some);
    if (!equal_some(&w, y, b, b_at + done * b_step, b_step, some, nan_equal)) return false;
  }
  return true;
}

int dlbcore_equal(const char *a, const int64_t *a_strides, bool a_padded, const char *b, const int64_t *b_strides, bool b_padded,
               DLDataType dtype, const int64_t *shape, int32_t ndim, bool nan_equal) {
  side x = {kind_of(dtype), dtype.bits, a_padded}, y = {x.kind, dtype.bits, b_padded};
  if (x.kind == NONE) return -1;
  dlbcore_axis axes[CORE_AXES_MAX], line = {1, 0, 0};
  int64_t a_at = 0, b_at = 0, index[CORE_AXES_MAX];
  int32_t n = bit_axes(axes, &a_at, dtype, a_strides, a_padded, &b_at, dtype, b_strides, b_padded, shape, ndim);
  if (n < 0) return 1;
  if (n > 0) line = axes[--n];
  memset(index, 0, (size_t)n * sizeof index[0]);
  do {
    if (!equal_line(&x, (const uint8_t *)a, a_at, line.dst, &y, (const uint8_t *)b, b_at, line.src, line.size, nan_equal)) return 0;
  } while (dlbcore_next(index, axes, n, &a_at, &b_at));
  return 1;
}
