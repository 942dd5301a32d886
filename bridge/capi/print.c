//go:build !dlbridge_shared

/* Writes tensors as text in one line, with the same words and numbers as %v in Go. It can also write the elements alone
 * as NumPy does, in lines. All of it is plain C, and independent of the locale. */
#include "copy.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* How many elements are printed. If a tensor has more than WHOLE elements, each dimension is shortened to its first and
 * last EDGE, and at most MOST elements are printed in all. */
enum { WHOLE = 1000, EDGE = 3, MOST = 1000 };

/* ---- numbers --------------------------------------------------------------------------------- */

static const DLDataType float32 = {kDLFloat, 32, 1}, float64 = {kDLFloat, 64, 1};

static int is_type(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits; }

/* Reports whether a text, read as a float of the type `dtype`, gives the positive number `value`. */
static int is_same(double value, const char *text, DLDataType dtype) {
  if (is_type(dtype, float64)) return strtod(text, NULL) == value;
  if (is_type(dtype, float32)) return strtof(text, NULL) == (float)value;
  static const int64_t one = 1;
  char bytes[2] = {0};
  double read = strtod(text, NULL);
  dlbcore_convert(bytes, dtype, &one, 1, (const char *)&read, float64, &one, 1, &one, 1);
  dlbcore_convert((char *)&read, float64, &one, 1, bytes, dtype, &one, 1, &one, 1);
  return read == value;
}

/* The decimal number 0.d1d2d3... * 10^point. */
typedef struct {
  char digits[20];
  int count, point;
} decimal;

/* Rounds a number to `count` digits. The digits are taken from the text without the decimal point, which differs by locale. */
static decimal rounded(double value, int count) {
  decimal d = {.count = count};
  char text[40];
  snprintf(text, sizeof text, "%.*e", count - 1, value);
  const char *p = text;
  for (int i = 0; *p != 'e'; p++) {
    if (*p >= '0' && *p <= '9') d.digits[i++] = *p;
  }
  d.point = atoi(p + 1) + 1;
  return d;
}

static int reads_back(double value, const decimal *d, DLDataType dtype) {
  char text[40];
  snprintf(text, sizeof text, "%.*se%d", d->count, d->digits, d->point - d->count);
  return is_same(value, text, dtype);
}

/* Returns the shortest decimal that reads back as `value`, which is positive. Floats below a power of two lie twice as
 * close together as those above it. So the nearest decimal below a power of two may read back as another float, while
 * the next decimal above reads back as the power. */
static decimal shortest(double value, DLDataType dtype) {
  int most = is_type(dtype, float64) ? 17 : 9;
  for (int count = 1; count < most; count++) {
    decimal d = rounded(value, count);
    if (reads_back(value, &d, dtype)) return d;
    int i = count - 1;
    while (i >= 0 && d.digits[i] == '9') d.digits[i--] = '0';
    if (i >= 0) d.digits[i]++;
    if (i >= 0 && reads_back(value, &d, dtype)) return d;
  }
  return rounded(value, most);
}

static void write_decimal(dlbcapi_text *t, const decimal *d) {
  if (d->point <= 0) dlbcapi_write(t, "0.%.*s%.*s", -d->point, "0000", d->count, d->digits);
  else if (d->count <= d->point) dlbcapi_write(t, "%.*s%.*s", d->count, d->digits, d->point - d->count, "0000000000000000");
  else dlbcapi_write(t, "%.*s.%.*s", d->point, d->digits, d->count - d->point, d->digits + d->point);
}

/* How elements are written as text: of_go writes them as Go does, of_numpy as NumPy does. */
typedef struct {
  const char *comma, *yes, *no, *nan, *infinity, *plus_infinity, *point, *complex_begin, *complex_end;
  int scientific; /* floats from 10^scientific on are written with an exponent */
  int narrow;     /* whether a float narrower than float32 is written with no more digits than its own type needs */
  int digits;     /* the most digits after the point, or 0 if there is no limit */
  int lines;      /* whether rows are lines of their own, with all elements as wide as the widest */
} notation;

static const notation of_go = {" ", "true", "false", "NaN", "Inf", "+Inf", "", "(", "i)", 6, 0, 0, 0};
static const notation of_numpy = {", ", "True", "False", "nan", "inf", "inf", ".", "", "j", 16, 1, 8, 1};

/* Writes a float. A float below 1e-4, or a large one (see `scientific`), has an exponent. With `plus` a positive float
 * has a sign. */
static void write_float(dlbcapi_text *t, const notation *n, double value, DLDataType dtype, int plus) {
  if (isnan(value)) {
    dlbcapi_write(t, "%s%s", plus ? "+" : "", n->nan);
    return;
  }
  int negative = signbit(value) != 0;
  dlbcapi_write(t, "%s", negative ? "-" : plus ? "+" : "");
  value = fabs(value);
  if (isinf(value)) {
    dlbcapi_write(t, "%s", negative || plus ? n->infinity : n->plus_infinity);
    return;
  }
  if (value == 0) {
    dlbcapi_write(t, "0%s", n->point);
    return;
  }
  decimal d = shortest(value, dtype);
  int has_exponent = d.point < -3 || d.point > n->scientific, most = (has_exponent ? 1 : d.point) + n->digits;
  if (n->digits > 0 && d.count > most) d = rounded(value, most);
  while (d.count > 1 && d.digits[d.count - 1] == '0') d.count--;
  int exponent = d.point - 1;
  if (has_exponent) {
    dlbcapi_write(t, "%c%s%.*se%c%02d", d.digits[0], d.count > 1 ? "." : n->point, d.count - 1, d.digits + 1,
                  exponent < 0 ? '-' : '+', abs(exponent));
    return;
  }
  write_decimal(t, &d);
  if (d.count <= d.point) dlbcapi_write(t, "%s", n->point);
}

/* ---- elements -------------------------------------------------------------------------------- */

typedef struct {
  dlbcapi_text *text;
  const notation *notation;
  const DLTensor *tensor;
  const int64_t *strides;
  DLDataType shown; /* the type that an element is converted to */
  int padded, is_short;
  int width, widest; /* of an element: how wide one is at least, and how wide the widest was */
  int64_t left;      /* how many elements may still be printed */
} printer;

/* Returns the smallest type with an equivalent in C that can hold every number of a type. Its bits are 0 if the elements are
 * not single numbers. */
static DLDataType shown_as(DLDataType dtype) {
  if (dtype.lanes != 1 || dtype.code == kDLOpaqueHandle) return (DLDataType){0, 0, 1};
  uint8_t code = dtype.code, bits = dtype.bits;
  if (code == kDLInt || code == kDLUInt) return (DLDataType){code, bits < 8 ? 8 : bits, 1};
  if (code == kDLBool) return dtype;
  if (code == kDLComplex) return (DLDataType){code, bits < 64 ? 64 : bits, 1};
  return (DLDataType){kDLFloat, code == kDLFloat && bits == 64 ? 64 : 32, 1};
}

/* Copies element `at`, counted from the first element, to the start of `bytes`. A packed element gets its own byte. */
static void read_element(const printer *p, int64_t at, unsigned char bytes[16]) {
  const DLTensor *t = p->tensor;
  const unsigned char *data = (const unsigned char *)t->data + t->byte_offset;
  int bits = t->dtype.bits;
  if (bits % 8 == 0 || p->padded) {
    size_t size = (size_t)(bits + 7) / 8;
    memcpy(bytes, data + at * (int64_t)size, size);
    return;
  }
  int64_t bit = at * bits; /* packed elements are row-major, so that this is not negative */
  unsigned both = data[bit / 8];
  if (bit % 8 + bits > 8) both |= (unsigned)data[bit / 8 + 1] << 8;
  bytes[0] = (unsigned char)(both >> bit % 8 & ((1u << bits) - 1));
}

static void write_number(dlbcapi_text *text, const printer *p, int64_t at) {
  unsigned char bytes[16] = {0};
  union {
    int64_t i;
    uint64_t u;
    float f[2];
    double d[2];
    char bytes[16];
  } v = {0};
  static const int64_t one = 1;
  DLDataType wide = p->shown;
  if (wide.code == kDLInt || wide.code == kDLUInt) wide.bits = 64;
  read_element(p, at, bytes);
  const notation *n = p->notation;
  if (wide.code == kDLBool) {
    dlbcapi_write(text, "%s", bytes[0] > 1 ? "?" : bytes[0] ? n->yes : n->no);
    return;
  }
  dlbcore_convert(v.bytes, wide, &one, 0, (const char *)bytes, p->tensor->dtype, &one, 1, &one, 1);
  int is_double = wide.bits == (wide.code == kDLComplex ? 128 : 64);
  DLDataType written = is_double ? float64 : float32;
  if (n->narrow && p->tensor->dtype.code == kDLComplex && p->tensor->dtype.bits == 32) written.bits = 16;
  if (n->narrow && p->tensor->dtype.code != kDLComplex) written = p->tensor->dtype;
  switch (wide.code) {
    case kDLInt:
      dlbcapi_write(text, "%" PRId64, v.i);
      break;
    case kDLUInt:
      dlbcapi_write(text, "%" PRIu64, v.u);
      break;
    case kDLComplex:
      dlbcapi_write(text, "%s", n->complex_begin);
      write_float(text, n, is_double ? v.d[0] : (double)v.f[0], written, 0);
      write_float(text, n, is_double ? v.d[1] : (double)v.f[1], written, 1);
      dlbcapi_write(text, "%s", n->complex_end);
      break;
    default:
      write_float(text, n, is_double ? v.d[0] : (double)v.f[0], written, 0);
  }
}

static void write_element(printer *p, int64_t at) {
  char number[128];
  dlbcapi_text text = {number, sizeof number, 0};
  write_number(&text, p, at);
  if (p->widest < (int)text.size) p->widest = (int)text.size;
  dlbcapi_write(p->text, "%*s", p->width, number);
}

/* Writes the separator between two parts of dimension d. Like NumPy, it puts an empty line between matrices, two
 * between stacks of matrices, and so on. */
static void write_between(const printer *p, int32_t d) {
  int32_t inner = p->tensor->ndim - d - 1;
  if (!p->notation->lines || inner == 0) {
    dlbcapi_write(p->text, "%s", p->notation->comma);
    return;
  }
  dlbcapi_write(p->text, ",");
  while (inner-- > 0) dlbcapi_write(p->text, "\n");
  dlbcapi_write(p->text, "%*s", (int)d + 1, "");
}

/* Writes the elements of a tensor that has some. It is a loop, because the stack of a recursion would grow with the
 * number of dimensions. */
__attribute__((noinline)) static void write_elements(printer *p) {
  const int64_t *shape = p->tensor->shape, *strides = p->strides;
  int64_t index[CORE_RANK_MAX];
  uint64_t at = 0; /* the element at `index`, modulo 2^64: the stride of a dimension of size 1 may be any number */
  int32_t d = 0, rank = p->tensor->ndim;
  if (rank == 0) {
    write_element(p, 0);
    return;
  }
  index[0] = 0;
  dlbcapi_write(p->text, "[");
  while (d >= 0) {
    if (index[d] > 0 && index[d] < shape[d]) write_between(p, d);
    if (index[d] == shape[d] || p->left == 0) {
      dlbcapi_write(p->text, index[d] == shape[d] ? "]" : "...]");
      at -= (uint64_t)index[d] * (uint64_t)strides[d];
      d--;
    } else {
      if (p->is_short && index[d] == EDGE && shape[d] > 2 * EDGE) {
        dlbcapi_write(p->text, "...");
        write_between(p, d);
        at += (uint64_t)(shape[d] - 2 * EDGE) * (uint64_t)strides[d];
        index[d] = shape[d] - EDGE;
      }
      if (d + 1 < rank) {
        index[++d] = 0;
        dlbcapi_write(p->text, "[");
        continue;
      }
      p->left--;
      write_element(p, (int64_t)at);
    }
    if (d < 0) break;
    index[d]++;
    at += (uint64_t)strides[d];
  }
}

/* Writes `before` and the elements. Returns 0, and writes nothing, in the same cases as dlbcapi_write_elements. */
static int write_values(dlbcapi_text *t, const notation *how, const DLTensor *tensor, uint64_t flags, int64_t count,
                        const char *before) {
  int64_t row_major[CORE_RANK_MAX];
  dlbcore_set_row_major(row_major, tensor->shape, tensor->ndim);
  DLDataType shown = shown_as(tensor->dtype);
  if (shown.bits == 0 || !dlbcore_host_readable(tensor->device.device_type)) return 0;
  dlbcapi_write(t, "%s", before);
  if (count == 0) { /* its other dimensions may be of any size */
    dlbcapi_write(t, "[]");
    return 1;
  }
  printer p = {
      .text = t,
      .notation = how,
      .tensor = tensor,
      .strides = tensor->strides == NULL ? row_major : tensor->strides,
      .shown = shown,
      .padded = (flags & PADDED) != 0,
      .is_short = count > WHOLE,
      .left = MOST,
  };
  if (how->lines && tensor->ndim > 1) {
    dlbcapi_text measured = {NULL, 0, 0};
    p.text = &measured;
    write_elements(&p);
    p.text = t;
    p.width = p.widest;
    p.left = MOST;
  }
  write_elements(&p);
  return 1;
}

int dlbcapi_write_elements(dlbcapi_text *t, const DLTensor *tensor, uint64_t flags, int64_t count) {
  return write_values(t, &of_numpy, tensor, flags, count, "");
}

static void write_numbers(dlbcapi_text *t, const int64_t *numbers, int32_t count) {
  dlbcapi_write(t, "[");
  for (int32_t d = 0; d < count; d++) dlbcapi_write(t, "%s%" PRId64, d > 0 ? " " : "", numbers[d]);
  dlbcapi_write(t, "]");
}

typedef struct {
  const DLManagedTensorVersioned *tensor;
  dlbcore_extent extent;
} checked_tensor;

static void write_tensor(dlbcapi_text *t, const void *thing) {
  const checked_tensor *c = thing;
  const DLTensor *d = &c->tensor->dl_tensor;
  dlbcapi_write_dtype(t, d->dtype);
  write_numbers(t, d->shape, d->ndim);
  if (!c->extent.row_major) {
    dlbcapi_write(t, " strides ");
    write_numbers(t, d->strides, d->ndim);
  }
  dlbcapi_write(t, " on ");
  dlbcapi_write_device(t, d->device);
  if (c->tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) dlbcapi_write(t, ", read-only");
  write_values(t, &of_go, d, c->tensor->flags, c->extent.count, " ");
}

int32_t dlb_tensor_format(size_t *out, char *data, size_t room, const DLManagedTensorVersioned *tensor, dlb_error *error) {
  int32_t code = dlbcapi_text_check(__func__, out, data, room, error);
  checked_tensor c = {.tensor = tensor};
  if (code == DLB_OK) code = dlbcapi_check(__func__, "tensor", tensor, &c.extent, error);
  return code == DLB_OK ? dlbcapi_text_out(__func__, out, data, room, write_tensor, &c, error) : code;
}
