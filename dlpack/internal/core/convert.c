//go:build !dlbridge_shared

/* convert.c: conversions between any two data types of numbers, and comparisons, in any layout.
 *
 * Numbers that lie one after another on both sides are converted where they lie (dense.c). A side on which they do not is moved, in
 * boxes: a box is a part of the tensor that fits in a buffer, in which its numbers do lie one after another. Boxes are moved by
 * dlbcore_copy, and by loops of their own where numbers have fewer than 8 bits. Of two sides in different orders, the one with the
 * narrower numbers is moved, since fewer bytes move then.
 *
 * All positions and steps are in bits, so packed numbers need no code of their own outside of take_bits and put_bits. The parts of
 * complex numbers are numbers of their own, along one more axis; for a bool both are read as one. */
#include "dense.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- sides ----------------------------------------------------------------------------------- */

_Static_assert(KIND_E2M1FN - KIND_E3M4 == kDLFloat4_e2m1fn - kDLFloat8_e3m4, "the small floats have the order of dlpack.h");

static int log2_bytes(int bits) { return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3; }

static dlbcore_number kind_of_numbers(DLDataType t) {
  int small = t.code - (int)kDLFloat8_e3m4;
  switch (t.code) {
    case kDLBool: return KIND_BOOL;
    case kDLInt: return t.bits < 8 ? KIND_INTEGER : (dlbcore_number)((int)KIND_INT8 + log2_bytes(t.bits));
    case kDLUInt: return t.bits < 8 ? KIND_NATURAL : (dlbcore_number)((int)KIND_UINT8 + log2_bytes(t.bits));
    case kDLFloat: return t.bits == 16 ? KIND_HALF : t.bits == 32 ? KIND_SINGLE : KIND_DOUBLE;
    case kDLBfloat: return KIND_BRAIN;
    case kDLComplex: return t.bits == 32 ? KIND_COMPLEX32 : t.bits == 64 ? KIND_COMPLEX64 : KIND_COMPLEX128;
    default: return small >= 0 && small <= kDLFloat4_e2m1fn - kDLFloat8_e3m4 ? (dlbcore_number)((int)KIND_E3M4 + small) : KIND_NONE;
  }
}

static bool is_complex(dlbcore_number k) { return k >= KIND_COMPLEX32; }

static bool is_whole(dlbcore_number k) { return k >= KIND_INT8 && k <= KIND_UINT64; }

static bool is_float(dlbcore_number k) { return k >= KIND_HALF && k <= KIND_E2M1FN; }

/* A tensor of a conversion or comparison, as the functions of copy.h take it. */
typedef struct operand {
  uint8_t *base; /* only read, if it is a source */
  DLDataType dtype;
  const int64_t *strides;
  bool padded;
} operand;

/* The numbers of an operand. */
typedef struct side {
  uint8_t *base;
  bool source; /* its steps are those of the source */
  bool padded; /* numbers of fewer than 8 bits take a byte each */
  bool direct; /* numbers are converted where they lie, along the fastest axis */
  dlbcore_number kind;
  int32_t bits; /* of a number */
} side;

static side side_of(const operand *o, bool source) {
  /* padding is between elements; their lanes are packed */
  return (side){o->base, source, o->padded && o->dtype.lanes == 1, false, kind_of_numbers(o->dtype), o->dtype.bits};
}

/* Returns the bytes of a number in a buffer. */
static int32_t buffer_bytes(const side *s) { return s->bits < 8 ? 1 : s->bits / 8; }

/* Makes numbers of the parts of complex numbers. */
static void take_parts(side *s) {
  s->kind = s->kind == KIND_COMPLEX32 ? KIND_HALF : s->kind == KIND_COMPLEX64 ? KIND_SINGLE : KIND_DOUBLE;
  s->bits /= 2;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

enum {
  BOX_AXES = 18,           /* the most of more than one number, and the fastest: 17 of two would have more numbers than a box */
  BOX_NUMBERS = 1 << 16,   /* the most numbers of a box */
  BOX_BYTES = 1 << 18,     /* the most bytes of a box, as they lie in a buffer: the level 2 cache holds them */
  BOX_SIDE = 256,          /* numbers along the two axes of a transpose */
  SMALL_BOX = 64,          /* numbers of a box whose buffers lie on the stack */
  EQUAL_BOX = 192,         /* numbers that are compared at a time */
  SHORT_LINE = 32,         /* a line of fewer numbers is not worth a call */
  LINE_GAP = 64,           /* bytes between the lines of a box in a buffer, unless they are short */
  LARGE_RESULT = 32 << 20, /* bytes of a result that bypasses the caches */
};

/* The bytes of a number in a buffer, with its share of the gaps. */
#define BUFFER_BYTES(bytes) ((bytes) + LINE_GAP / SHORT_LINE)

/* The axes of a conversion, the last one fastest, with steps in bits, and the sizes of its boxes. */
typedef struct boxes {
  dlbcore_axis axes[CORE_AXES_MAX];
  int64_t sizes[CORE_AXES_MAX], index[CORE_AXES_MAX];
  int64_t dst, src; /* where the box begins, in bits from the bases */
  int32_t n, across; /* across: where the side that is moved has its neighbours */
} boxes;

/* A box: its axes of more than one number, and the fastest one. */
typedef struct box {
  dlbcore_axis axes[BOX_AXES];
  int64_t dst, src;
  int64_t line, lines; /* numbers along the fastest axis, and how often */
  int32_t n;
} box;

static void current_box(box *out, const boxes *b) {
  out->n = 0, out->lines = 1, out->dst = b->dst, out->src = b->src;
  for (int32_t d = 0; d < b->n; d++) {
    int64_t left = b->axes[d].size - b->index[d], size = left < b->sizes[d] ? left : b->sizes[d];
    if (size > 1 || d == b->n - 1) out->axes[out->n++] = (dlbcore_axis){size, b->axes[d].dst, b->axes[d].src};
    out->lines *= size;
  }
  out->line = out->axes[out->n - 1].size;
  out->lines /= out->line;
}

static bool next_box(boxes *b) {
  for (int32_t d = b->n - 1; d >= 0; d--) {
    b->dst += b->sizes[d] * b->axes[d].dst;
    b->src += b->sizes[d] * b->axes[d].src;
    b->index[d] += b->sizes[d];
    if (b->index[d] < b->axes[d].size) return true;
    b->dst -= b->index[d] * b->axes[d].dst;
    b->src -= b->index[d] * b->axes[d].src;
    b->index[d] = 0;
  }
  return false;
}

static int64_t less(int64_t a, int64_t b) { return a < b ? a : b; }

/* Chooses the sizes of boxes of at most so many numbers, and begins with the first box. */
static void set_sizes(boxes *b, int64_t most) {
  for (int32_t d = 0; d < b->n; d++) b->sizes[d] = 1, b->index[d] = 0;
  if (b->across != b->n - 1) {
    b->sizes[b->across] = less(b->axes[b->across].size, less(BOX_SIDE, most));
    most /= b->sizes[b->across];
  }
  for (int32_t d = b->n - 1; d >= 0 && most > 1; d--) {
    if (d == b->across && d != b->n - 1) continue;
    b->sizes[d] = less(b->axes[d].size, most);
    most /= b->sizes[d];
  }
}

/* ---- reading and writing --------------------------------------------------------------------- */

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

static int64_t step_of(const dlbcore_axis *a, bool source) { return source ? a->src : a->dst; }

/* Moves a box of numbers of whole bytes to a buffer, or back from it, whose lines begin `pitch` bytes apart. */
__attribute__((noinline)) static void move_bytes(const side *s, const box *b, bool back, uint8_t *buffer, int64_t pitch) {
  int64_t sizes[BOX_AXES], theirs[BOX_AXES], ours[BOX_AXES], step = pitch, item = s->bits / 8;
  for (int32_t d = b->n - 1; d >= 0; d--) {
    sizes[d] = b->axes[d].size;
    theirs[d] = step_of(&b->axes[d], s->source) / 8;
    ours[d] = d == b->n - 1 ? item : step;
    if (d < b->n - 1) step *= sizes[d];
  }
  uint8_t *first = s->base + (s->source ? b->src : b->dst) / 8;
  if (back) dlbcore_copy(first, theirs, buffer, ours, sizes, b->n, (size_t)item);
  else dlbcore_copy(buffer, ours, first, theirs, sizes, b->n, (size_t)item);
}

/* Like move_bytes, for numbers of fewer than 8 bits, which take a byte each in the buffer. */
__attribute__((noinline)) static void move_bits(const side *s, const box *b, bool back, uint8_t *buffer, int64_t pitch) {
  int64_t index[BOX_AXES] = {0}, dst = b->dst, src = b->src, step = step_of(&b->axes[b->n - 1], s->source), first;
  uint32_t sign = s->kind == KIND_INTEGER ? 1u << (s->bits - 1) : 0, all = (1u << s->bits) - 1;
  do {
    first = s->source ? src : dst;
    for (int64_t i = 0; i < b->line && !back; i++) buffer[i] = (uint8_t)((take_bits(s->base, first + i * step, s->bits) ^ sign) - sign);
    for (int64_t i = 0; i < b->line && back; i++) put_bits(s->base, first + i * step, s->bits, s->padded, buffer[i] & all);
    buffer += pitch;
  } while (dlbcore_next(index, b->axes, b->n - 1, &dst, &src));
}

static void move_box(const side *s, const box *b, bool back, uint8_t *buffer, int64_t pitch) {
  (s->bits < 8 ? move_bits : move_bytes)(s, b, back, buffer, pitch);
}

/* ---- conversions ----------------------------------------------------------------------------- */

/* A conversion of numbers: of parts, if both sides are complex. */
typedef struct conversion {
  dlbcore_dense way;
  side to, from;
  bool stream;
} conversion;

/* Converts a box, through a buffer for each side that is moved. A side that is moved to where the other one lies has gaps between its
 * lines, because lines at a distance of a power of two would evict each other from the caches. */
static void convert_box(const conversion *c, const box *b, uint8_t *result, uint8_t *source) {
  bool dense = !c->to.direct && !c->from.direct;
  int64_t gap = dense || b->line < SHORT_LINE ? 0 : LINE_GAP, to = b->line * c->way.to + gap, from = b->line * c->way.from + gap;
  if (!c->from.direct) move_box(&c->from, b, false, source, from);
  if (dense) {
    dlbcore_dense_convert(&c->way, result, source, (size_t)(b->line * b->lines), false);
  } else {
    int64_t index[BOX_AXES] = {0}, dst = b->dst, src = b->src, line = 0;
    do {
      dlbcore_dense_convert(&c->way, c->to.direct ? c->to.base + dst / 8 : result + line * to,
                            c->from.direct ? c->from.base + src / 8 : source + line * from, (size_t)b->line,
                            c->stream && c->to.direct);
      line++;
    } while (dlbcore_next(index, b->axes, b->n - 1, &dst, &src));
  }
  if (!c->to.direct) move_box(&c->to, b, true, result, to);
}

__attribute__((noinline)) static void convert_boxes(const conversion *c, boxes *b, int64_t numbers, uint8_t *result, uint8_t *source) {
  box now;
  set_sizes(b, numbers);
  do {
    current_box(&now, b);
    convert_box(c, &now, result, source);
  } while (next_box(b));
}

/* The buffers have a frame of their own. */
__attribute__((noinline)) static void convert_small_boxes(const conversion *c, boxes *b) {
  uint8_t buffers[2][SMALL_BOX * BUFFER_BYTES(16)] __attribute__((aligned(64)));
  convert_boxes(c, b, SMALL_BOX, buffers[0], buffers[1]);
}

static void convert_moved(const conversion *c, boxes *b) {
  int64_t to = c->to.direct ? 0 : c->way.to, from = c->from.direct ? 0 : c->way.from, numbers = 1;
  for (int32_t d = 0; d < b->n && numbers < BOX_NUMBERS; d++) numbers *= less(b->axes[d].size, BOX_NUMBERS);
  numbers = less(numbers, less(BOX_NUMBERS, BOX_BYTES / (to > from ? to : from)));
  uint8_t *buffers = numbers <= SMALL_BOX ? NULL : malloc((size_t)(numbers * (BUFFER_BYTES(to) + BUFFER_BYTES(from))));
  if (buffers != NULL) convert_boxes(c, b, numbers, buffers, buffers + numbers * BUFFER_BYTES(to));
  else convert_small_boxes(c, b); /* also where there is no memory */
  free(buffers);
}

static int64_t width_of(const operand *o) {
  int64_t bits = (int64_t)o->dtype.bits * o->dtype.lanes;
  return o->padded ? (bits + 7) / 8 * 8 : bits;
}

/* Describes the numbers of two tensors: all lanes of all elements, and both parts of each if `parts` is set. Returns false if there
 * are none. */
__attribute__((noinline)) static bool set_axes(boxes *b, const operand *to, const operand *from, const int64_t *shape, int32_t ndim,
                                               bool parts) {
  int64_t sizes[CORE_AXES_MAX], dst[CORE_AXES_MAX], src[CORE_AXES_MAX];
  int32_t n = 0;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] <= 0) return false;
  }
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 1) continue; /* the stride has no meaning */
    if (n == CORE_AXES_MAX - 1 - parts) return false; /* no tensor has so many elements */
    sizes[n] = shape[d], dst[n] = to->strides[d] * width_of(to), src[n++] = from->strides[d] * width_of(from);
  }
  sizes[n] = to->dtype.lanes, dst[n] = to->dtype.bits, src[n++] = from->dtype.bits;
  if (parts) sizes[n] = 2, dst[n] = to->dtype.bits / 2, src[n++] = from->dtype.bits / 2;
  b->dst = b->src = 0;
  b->n = dlbcore_axes(b->axes, &b->dst, dst, &b->src, src, sizes, n);
  return b->n >= 0;
}

/* Copies numbers of whole bytes to places `offset` bytes behind those of the numbers of a side. With `repeated` there is one number. */
__attribute__((noinline)) static void copy_numbers(const side *to, int64_t offset, const boxes *b, const uint8_t *src, bool repeated) {
  int64_t sizes[CORE_AXES_MAX], dst_steps[CORE_AXES_MAX], src_steps[CORE_AXES_MAX];
  for (int32_t d = 0; d < b->n; d++) {
    sizes[d] = b->axes[d].size, dst_steps[d] = b->axes[d].dst / 8, src_steps[d] = repeated ? 0 : b->axes[d].src / 8;
  }
  dlbcore_copy(to->base + b->dst / 8 + offset, dst_steps, src, src_steps, sizes, b->n, (size_t)to->bits / 8);
}

/* Returns the axis of the smallest step in the source, or in the destination. */
static int32_t nearest_axis(const boxes *b, bool source) {
  int32_t nearest = b->n - 1;
  for (int32_t d = b->n - 1; d >= 0; d--) {
    int64_t step = dlbcore_magnitude(step_of(&b->axes[d], source));
    if (step != 0 && step < dlbcore_magnitude(step_of(&b->axes[nearest], source))) nearest = d;
  }
  return nearest;
}

/* Orders the axes by their steps in the source. */
static void order_by_source(boxes *b) {
  for (int32_t d = 1; d < b->n; d++) {
    dlbcore_axis a = b->axes[d];
    int32_t at = d;
    for (; at > 0 && dlbcore_magnitude(b->axes[at - 1].src) < dlbcore_magnitude(a.src); at--) b->axes[at] = b->axes[at - 1];
    b->axes[at] = a;
  }
}

static bool lies_dense(const side *s, int64_t step) { return s->bits >= 8 && step == s->bits; }

/* Converts the numbers that b->axes lists. */
static void convert_numbers(conversion *c, boxes *b) {
  if (b->n == 0) b->axes[b->n++] = (dlbcore_axis){1, c->to.bits, c->from.bits};
  b->across = nearest_axis(b, true);
  if (b->across != b->n - 1 && c->from.bits > c->to.bits) {
    order_by_source(b);
    b->across = nearest_axis(b, false);
  }
  dlbcore_axis line = b->axes[b->n - 1];
  bool worth = line.size >= SHORT_LINE || b->n == 1;
  c->to.direct = worth && lies_dense(&c->to, line.dst);
  c->from.direct = worth && lies_dense(&c->from, line.src);
  if (c->to.direct && c->from.direct) b->across = b->n - 1, convert_boxes(c, b, line.size, NULL, NULL);
  else convert_moved(c, b);
}

int dlbcore_can_convert(DLDataType to, DLDataType from) {
  return kind_of_numbers(to) != KIND_NONE && kind_of_numbers(from) != KIND_NONE && to.lanes == from.lanes;
}

static void convert_operands(bool plain, size_t whole, const operand *dst, const operand *src, const int64_t *shape, int32_t ndim) {
  static const uint8_t zeros[8];
  boxes b;
  conversion c = {.to = side_of(dst, false), .from = side_of(src, true), .stream = !plain && whole >= LARGE_RESULT};
  bool complex_to = is_complex(c.to.kind), complex_from = is_complex(c.from.kind);
  if (!set_axes(&b, dst, src, shape, ndim, complex_to && complex_from)) return;
  if (complex_to) take_parts(&c.to);
  if (complex_from && c.to.kind != KIND_BOOL) take_parts(&c.from);
  bool same = c.to.kind == c.from.kind && c.to.kind != KIND_BOOL; /* a bool that is not 0 must become 1 */
  bool by_double = (complex_to || complex_from) && (c.to.kind == KIND_SINGLE || c.from.kind == KIND_SINGLE);
  by_double = by_double && is_float(c.to.kind) && is_float(c.from.kind) && (!same || complex_to != complex_from);
  if (c.to.bits >= 8 && c.to.bits == c.from.bits && !by_double && (same || (is_whole(c.to.kind) && is_whole(c.from.kind)))) {
    copy_numbers(&c.to, 0, &b, c.from.base + b.src / 8, false);
  } else {
    c.way = dlbcore_dense_of(c.to.kind, c.from.kind, by_double, plain);
    convert_numbers(&c, &b);
  }
  if (complex_to && !complex_from) copy_numbers(&c.to, c.to.bits / 8, &b, zeros, true);
}

/* The floating-point mode of conversions: they round to nearest and know numbers below the normal ones, whatever the program has set
 * for itself. */
#if defined(__x86_64__)
enum { FLOAT_MODE = 0x1f80, FLOAT_FLAGS = 0x3f };
#else
enum { FLOAT_MODE = 0 };
#endif

/* Sets a floating-point mode, and returns the one there was. */
static uint64_t set_float_mode(uint64_t mode) {
  uint64_t was = mode;
#if defined(__x86_64__)
  was = _mm_getcsr();
  if (((was ^ mode) & ~(uint64_t)FLOAT_FLAGS) != 0) _mm_setcsr((uint32_t)mode);
#elif defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr" : "=r"(was));
  if (was != mode) __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
#endif
  return was;
}

dlbcore_status dlbcore_convert_part(bool plain, size_t whole, char *dst, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded,
                                    const char *src, DLDataType src_dtype, const int64_t *src_strides, bool src_padded,
                                    const int64_t *shape, int32_t ndim) {
  if (!dlbcore_can_convert(dst_dtype, src_dtype)) return CORE_ERR_DTYPE;
  operand to = {(uint8_t *)dst, dst_dtype, dst_strides, dst_padded}, from = {(uint8_t *)(uintptr_t)src, src_dtype, src_strides, src_padded};
  uint64_t mode = set_float_mode(FLOAT_MODE);
  convert_operands(plain, whole, &to, &from, shape, ndim);
  set_float_mode(mode);
  return CORE_OK;
}

dlbcore_status dlbcore_convert(char *dst, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded, const char *src,
                               DLDataType src_dtype, const int64_t *src_strides, bool src_padded, const int64_t *shape, int32_t ndim) {
  size_t whole = dlbcore_whole(((size_t)dst_dtype.bits * dst_dtype.lanes + 7) / 8, shape, ndim);
  return dlbcore_convert_part(false, whole, dst, dst_dtype, dst_strides, dst_padded, src, src_dtype, src_strides, src_padded, shape, ndim);
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

/* Reports whether n numbers in two buffers are equal. The doubles have a frame of their own. */
__attribute__((noinline)) static bool equal_numbers(dlbcore_number kind, int32_t bytes, const void *a, const void *b, int64_t n,
                                                    bool nan_equal) {
  double x[EQUAL_BOX], y[EQUAL_BOX];
  if (!is_float(kind) && kind != KIND_BOOL) return memcmp(a, b, (size_t)(n * bytes)) == 0;
  dlbcore_dense way = dlbcore_dense_of(KIND_DOUBLE, kind, false, false);
  dlbcore_dense_convert(&way, x, a, (size_t)n, false);
  dlbcore_dense_convert(&way, y, b, (size_t)n, false);
  bool same = true;
  for (int64_t i = 0; i < n; i++) same &= x[i] == y[i] || (nan_equal && isnan(x[i]) && isnan(y[i]));
  return same;
}

/* Returns the numbers of a box, which are moved to the buffer unless they lie one after another. */
static const uint8_t *dense_box(const side *s, const box *b, uint8_t *buffer) {
  const dlbcore_axis *line = &b->axes[b->n - 1];
  if (b->lines == 1 && lies_dense(s, step_of(line, s->source))) return s->base + (s->source ? b->src : b->dst) / 8;
  move_box(s, b, false, buffer, b->line * buffer_bytes(s));
  return buffer;
}

__attribute__((noinline)) static bool equal_boxes(const side *x, const side *y, boxes *b, bool nan_equal) {
  uint8_t first[EQUAL_BOX * 8], second[EQUAL_BOX * 8];
  box now;
  do {
    current_box(&now, b);
    const uint8_t *p = dense_box(x, &now, first), *q = dense_box(y, &now, second);
    if (!equal_numbers(x->kind, buffer_bytes(x), p, q, now.line * now.lines, nan_equal)) return false;
  } while (next_box(b));
  return true;
}

int dlbcore_equal(const char *a, const int64_t *a_strides, bool a_padded, const char *b, const int64_t *b_strides, bool b_padded,
               DLDataType dtype, const int64_t *shape, int32_t ndim, bool nan_equal) {
  operand first = {(uint8_t *)(uintptr_t)a, dtype, a_strides, a_padded}, second = {(uint8_t *)(uintptr_t)b, dtype, b_strides, b_padded};
  side x = side_of(&first, false), y = side_of(&second, true);
  boxes all;
  if (x.kind == KIND_NONE) return -1;
  if (!set_axes(&all, &first, &second, shape, ndim, is_complex(x.kind))) return 1;
  if (is_complex(x.kind)) take_parts(&x), take_parts(&y);
  if (all.n == 0) all.axes[all.n++] = (dlbcore_axis){1, x.bits, y.bits};
  all.across = all.n - 1;
  set_sizes(&all, EQUAL_BOX);
  uint64_t mode = set_float_mode(FLOAT_MODE);
  bool equal = equal_boxes(&x, &y, &all, nan_equal);
  set_float_mode(mode);
  return equal;
}
