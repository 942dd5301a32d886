/* scalar.c: conversions of one number at a time, as plainly as they can be said. */
#include "scalar.h"

#include <stdbool.h>
#include <string.h>

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

static uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

enum { MANTISSA = 52, BIAS = 1023 }; /* of a double */

static const uint64_t QUIET = 0x7ff8000000000000, INFINITE = 0x7ff0000000000000;

/* Returns the number that a code stands for. NaNs of 16 bits keep their payload; narrower ones become quiet NaNs. */
static double decode(uint32_t code, format f) {
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
static uint32_t encode(double value, format f) {
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
static double decode_power(uint32_t code) {
  if (code == 0xff) return of_bits(QUIET);
  return of_bits((uint64_t)(code - 127 + BIAS) << MANTISSA);
}

/* A value in the middle of two powers becomes the higher one. Zero and negative values become NaN. */
static uint32_t encode_power(double value) {
  uint64_t bits = bits_of(value);
  if (bits == 0 || bits >= INFINITE) return 0xff; /* negative values have the highest bit set */
  int64_t code = (int64_t)((bits + ((uint64_t)1 << (MANTISSA - 1))) >> MANTISSA) - BIAS + 127;
  return code < 0 ? 0 : code > 0xff ? 0xff : (uint32_t)code;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const format HALF = {5, 10, 15, IEEE}, BRAIN = {8, 7, 127, IEEE};

/* Returns the format of a float of at most 16 bits. float8_e8m0fnu has none. */
static format format_of(DLDataType t) {
  switch (t.code) {
    case kDLFloat8_e3m4: return (format){3, 4, 3, IEEE};
    case kDLFloat8_e4m3: return (format){4, 3, 7, IEEE};
    case kDLFloat8_e4m3b11fnuz: return (format){4, 3, 11, FNUZ};
    case kDLFloat8_e4m3fn: return (format){4, 3, 7, FN};
    case kDLFloat8_e4m3fnuz: return (format){4, 3, 8, FNUZ};
    case kDLFloat8_e5m2: return (format){5, 2, 15, IEEE};
    case kDLFloat8_e5m2fnuz: return (format){5, 2, 16, FNUZ};
    case kDLFloat6_e2m3fn: return (format){2, 3, 1, FINITE};
    case kDLFloat6_e3m2fn: return (format){3, 2, 3, FINITE};
    case kDLFloat4_e2m1fn: return (format){2, 1, 1, FINITE};
    case kDLBfloat: return BRAIN;
    default: return HALF;
  }
}

typedef struct number {
  bool integer;
  uint64_t whole; /* of an integer: a signed one as the uint64_t with the same bits */
  double real, imaginary;
} number;

static double read_float(DLDataType t, int bits, const uint8_t *src) {
  uint64_t code = 0;
  float single;
  memcpy(&code, src, (size_t)(bits + 7) / 8);
  if (bits < 8) code &= (1u << bits) - 1;
  if (bits == 64) return of_bits(code);
  if (bits == 32) return memcpy(&single, src, 4), (double)single;
  if (t.code == kDLFloat8_e8m0fnu) return decode_power((uint32_t)code);
  return decode((uint32_t)code, format_of(t));
}

static void write_float(DLDataType t, int bits, uint8_t *dst, double x) {
  uint64_t code = bits_of(x);
  float single = (float)x;
  if (bits == 32) memcpy(&code, &single, 4);
  if (bits <= 16) code = t.code == kDLFloat8_e8m0fnu ? encode_power(x) : encode(x, format_of(t));
  memcpy(dst, &code, (size_t)(bits + 7) / 8);
}

static number read_number(DLDataType t, const uint8_t *src) {
  number n = {.integer = t.code == kDLInt || t.code == kDLUInt || t.code == kDLBool};
  int bits = t.code == kDLComplex ? t.bits / 2 : t.bits;
  if (!n.integer) {
    n.real = read_float(t, bits, src);
    if (t.code == kDLComplex) n.imaginary = read_float(t, bits, src + bits / 8);
    return n;
  }
  memcpy(&n.whole, src, (size_t)(bits + 7) / 8);
  if (t.code == kDLBool) n.whole = n.whole != 0;
  else n.whole <<= 64 - bits;
  if (t.code == kDLInt) n.whole = (uint64_t)((int64_t)n.whole >> (64 - bits));
  if (t.code == kDLUInt) n.whole >>= 64 - bits;
  return n;
}

/* Returns an integer as a double. For floats narrower than double it is rounded to odd: if bits are lost, the lowest bit that is kept
 * is set, so that it is not half way between two narrower floats unless the integer is. */
static double integer_to_double(uint64_t magnitude, bool odd) {
  if (!odd || magnitude >> (MANTISSA + 1) == 0) return (double)magnitude;
  int shift = 63 - __builtin_clzll(magnitude) - MANTISSA;
  uint64_t lost = magnitude & (((uint64_t)1 << shift) - 1);
  return (double)((magnitude >> shift | (lost != 0)) << shift);
}

static uint64_t double_to_integer(double x, DLDataType to) {
  bool natural = to.code == kDLUInt;
  if (to.bits < 8) return x >= INT32_MIN && x <= INT32_MAX ? (uint64_t)(int64_t)x : 0; /* as ml_dtypes does */
  uint64_t half = (uint64_t)1 << (to.bits - 1); /* one more than the highest signed number */
  if (x != x) return 0;
  if (natural) return x <= 0 ? 0 : x >= 2 * (double)half ? half - 1 + half : (uint64_t)x;
  return x <= -(double)half ? -half : x >= (double)half ? half - 1 : (uint64_t)(int64_t)x;
}

static bool is_real(DLDataType t, uint8_t code, uint8_t bits) { return t.code == code && t.bits == bits; }

/* The processor would make a NaN quiet; between float32 and the floats of 16 bits it stays as it is, except for bfloat16 as the
 * destination. Returns false, and dst is to be written again, if there is no such NaN. */
static bool keep_nan(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src) {
  uint32_t single = 0;
  uint16_t half = 0;
  if (is_real(to, kDLFloat, 16) && is_real(from, kDLFloat, 32)) {
    memcpy(&single, src, 4);
    uint32_t payload = single >> 13 & 0x3ff;
    half = (uint16_t)((single >> 16 & 0x8000) | 0x7c00 | (payload != 0 ? payload : 1));
    memcpy(dst, &half, 2);
  } else if (is_real(to, kDLFloat, 32) && is_real(from, kDLFloat, 16)) {
    memcpy(&half, src, 2);
    single = (uint32_t)(half & 0x8000) << 16 | (uint32_t)(half & 0x7fff) << 13;
    if ((half & 0x7c00) == 0x7c00) single |= 0x7f800000;
    memcpy(dst, &single, 4);
  } else if (is_real(to, kDLFloat, 32) && is_real(from, kDLBfloat, 16)) {
    memcpy(&half, src, 2);
    single = (uint32_t)half << 16;
    memcpy(dst, &single, 4);
  }
  return (single & 0x7fffffff) > 0x7f800000;
}

static void convert(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src) {
  number n = read_number(from, src);
  int bits = to.code == kDLComplex ? to.bits / 2 : to.bits;
  if (to.code == from.code && to.bits == from.bits && to.code != kDLBool && to.bits >= 8) {
    memcpy(dst, src, to.bits / 8);
    return;
  }
  if (keep_nan(to, dst, from, src)) return;
  if (to.code == kDLBool) {
    *dst = n.integer ? n.whole != 0 : n.real != 0 || n.imaginary != 0;
  } else if (to.code == kDLInt || to.code == kDLUInt) {
    uint64_t whole = n.integer ? n.whole : double_to_integer(n.real, to);
    if (to.bits < 8) whole &= (1u << to.bits) - 1;
    memcpy(dst, &whole, (size_t)(to.bits + 7) / 8);
  } else {
    if (n.integer) {
      bool negative = from.code == kDLInt && (int64_t)n.whole < 0;
      n.real = integer_to_double(negative ? -n.whole : n.whole, bits < 64);
      if (negative) n.real = -n.real;
    }
    write_float(to, bits, dst, n.real);
    if (to.code == kDLComplex) write_float(to, bits, dst + bits / 8, n.imaginary);
  }
}

void scalar_convert(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src, size_t n) {
  for (size_t i = 0; i < n; i++) convert(to, dst + i * ((to.bits + 7u) / 8), from, src + i * ((from.bits + 7u) / 8));
}

/* Two roundings: the product is stored before the shift is added. */
static void scale_float(uint8_t *number, double scale, double shift) {
  float x;
  memcpy(&x, number, sizeof x);
  volatile float product = x * (float)scale;
  x = product + (float)shift;
  if (x != x) x = __builtin_nanf("");
  memcpy(number, &x, sizeof x);
}

static void scale_double(uint8_t *number, double scale, double shift) {
  double x;
  memcpy(&x, number, sizeof x);
  volatile double product = x * scale;
  x = product + shift;
  if (x != x) x = __builtin_nan("");
  memcpy(number, &x, sizeof x);
}

void scalar_convert_scaled(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src, const double *scale, const double *shift,
                           size_t n) {
  bool wide = from.code <= kDLFloat && from.bits >= 32 && !is_real(from, kDLFloat, 32);
  DLDataType computed = {kDLFloat, wide ? 64 : 32, 1};
  for (size_t i = 0; i < n; i++) {
    uint8_t number[8];
    convert(computed, number, from, src + i * ((from.bits + 7u) / 8));
    (wide ? scale_double : scale_float)(number, scale[i], shift[i]);
    convert(to, dst + i * ((to.bits + 7u) / 8), computed, number);
  }
}
