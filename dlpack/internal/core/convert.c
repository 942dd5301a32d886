//go:build !dlbridge_shared

/* convert.c: conversions between any two data types of numbers, and comparisons, in any layout.
 *
 * Numbers that are consecutive on both sides are converted in place (dense.c). A side whose numbers are not consecutive
 * is moved through a buffer, in boxes: a box is a part of the tensor that fits in a buffer, where its numbers are
 * consecutive. dlbcore_copy moves boxes; numbers of fewer than 8 bits have their own loops. If the sides have different
 * orders, the side with the narrower numbers is moved, because that moves fewer bytes.
 *
 * All positions and steps are in bits, so only take_bits and put_bits treat packed numbers specially. The parts of
 * complex numbers are separate numbers, along one more axis. For a conversion to bool, both parts are read as one
 * number. */
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

/* A tensor of a conversion or comparison, as in the parameters of the functions of copy.h. */
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
  bool plain;  /* no AVX2 is used */
  bool padded; /* numbers of fewer than 8 bits take a byte each */
  bool direct; /* numbers are converted where they lie, along the fastest axis */
  dlbcore_number kind;
  int32_t bits; /* of a number */
  size_t whole; /* of a destination: bytes of all results, which decide whether these bypass the caches */
} side;

static void set_side(side *s, const operand *o, bool source, bool plain, size_t whole) {
  s->base = o->base, s->source = source, s->plain = plain, s->whole = whole, s->direct = false;
  s->padded = o->padded && o->dtype.lanes == 1; /* padding is between elements; their lanes are packed */
  s->kind = kind_of_numbers(o->dtype), s->bits = o->dtype.bits;
}

/* Returns the bytes of a number in a buffer. */
static int32_t buffer_bytes(const side *s) { return s->bits < 8 ? 1 : s->bits / 8; }

/* Turns the parts of complex numbers into numbers. */
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
  LONG_LINE = 1024,        /* a line of as many numbers is worth factors of its own */
  LINE_GAP = 64,           /* bytes between the lines of a box in a buffer, unless they are short */
  LARGE_RESULT = 32 << 20, /* bytes of a result that bypasses the caches */
};

/* The bytes of a number in a buffer, including its part of the gaps. */
#define BUFFER_BYTES(bytes) ((bytes) + LINE_GAP / SHORT_LINE)

/* The axes of a conversion, the last one fastest, with steps in bits, and the sizes of its boxes. */
typedef struct boxes {
  dlbcore_axis axes[CORE_AXES_MAX];
  int64_t sizes[CORE_AXES_MAX], index[CORE_AXES_MAX];
  int64_t dst, src; /* where the box begins, in bits from the bases */
  int64_t scaled_step; /* the step in the destination of the axis along which factors differ, which no other axis has, or 0 */
  int32_t n, across; /* across: where the side that is moved has its neighbours */
} boxes;

/* A box: its axes of more than one number, and the fastest axis. */
typedef struct box {
  dlbcore_axis axes[BOX_AXES];
  int64_t dst, src;
  int64_t line, lines; /* numbers along the fastest axis, and how often */
  int64_t factor;      /* where it begins along the axis along which factors differ */
  int32_t n, scaled;   /* scaled: that axis, or -1 if the box has one factor */
} box;

static void current_box(box *out, const boxes *b) {
  out->n = 0, out->lines = 1, out->dst = b->dst, out->src = b->src;
  out->factor = 0, out->scaled = -1;
  for (int32_t d = 0; d < b->n; d++) {
    int64_t left = b->axes[d].size - b->index[d], size = left < b->sizes[d] ? left : b->sizes[d];
    bool kept = size > 1 || d == b->n - 1;
    if (b->scaled_step != 0 && b->axes[d].dst == b->scaled_step) out->factor = b->index[d], out->scaled = kept ? out->n : -1;
    if (kept) out->axes[out->n++] = (dlbcore_axis){size, b->axes[d].dst, b->axes[d].src};
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

/* Chooses the sizes of boxes, with at most the given number of numbers, and begins with the first box. */
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

/* Returns the offset of the byte that contains bit `at`, which may be negative. */
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

/* Moves a box of numbers of whole bytes to or from a buffer, whose lines begin `pitch` bytes apart. */
__attribute__((noinline)) static void move_bytes(const side *s, const box *b, bool back, uint8_t *buffer, int64_t pitch) {
  int64_t sizes[BOX_AXES], theirs[BOX_AXES], ours[BOX_AXES], step = pitch, item = s->bits / 8;
  for (int32_t d = b->n - 1; d >= 0; d--) {
    sizes[d] = b->axes[d].size;
    theirs[d] = step_of(&b->axes[d], s->source) / 8;
    ours[d] = d == b->n - 1 ? item : step;
    if (d < b->n - 1) step *= sizes[d];
  }
  char *there = (char *)s->base + (s->source ? b->src : b->dst) / 8, *here = (char *)buffer;
  if (back) dlbcore_copy_part(s->plain, s->whole, there, theirs, here, ours, sizes, b->n, (size_t)item);
  else dlbcore_copy_part(s->plain, 0, here, ours, there, theirs, sizes, b->n, (size_t)item);
}

/* Like move_bytes, for numbers of fewer than 8 bits. In the buffer each takes a byte. */
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

/* A conversion of numbers. If both sides are complex, these are the parts. */
typedef struct conversion {
  dlbcore_dense way;
  side to, from;
  struct scaler *scaler; /* NULL unless numbers are scaled */
} conversion;

/* The factors of a conversion. */
typedef struct scaler {
  const dlbcore_scaling *given;
  dlbcore_factors factors;
  int64_t entries, each; /* how many scales and shifts there are, and how many numbers along their axis have the same */
  int64_t most;          /* numbers of a line */
  int32_t computed;      /* bytes of a factor */
  bool constant;         /* the factors are set once, and not for every line */
  char *memory;          /* that of the factors, or NULL if it is `room` */
  double room[2][2 * DENSE_GROUP] __attribute__((aligned(64)));
} scaler;

/* Sets n factors for the numbers from `first` on. `each` consecutive numbers have the same factor. */
static void set_factors(scaler *s, int64_t first, int64_t each, int64_t n) {
  const dlbcore_scaling *g = s->given;
  char *scales = s->factors.scale, *shifts = s->factors.shift;
  int64_t at = first / each % s->entries, same = each - first % each;
  s->factors.finite = true;
  for (int64_t i = 0; i < n; at = at + 1 < s->entries ? at + 1 : 0, same = each) {
    double scale = g->scales == 0 ? 1 : g->scale[g->scales > 1 ? at : 0];
    double shift = g->shifts == 0 ? -0.0 : g->shift[g->shifts > 1 ? at : 0]; /* x + -0.0 is x, also if that is -0 */
    for (int64_t end = i + less(n - i, same); i < end; i++) {
      if (s->computed == 8) ((double *)(void *)scales)[i] = scale, ((double *)(void *)shifts)[i] = shift;
      else ((float *)(void *)scales)[i] = (float)scale, ((float *)(void *)shifts)[i] = (float)shift;
    }
    s->factors.finite &= isfinite((float)scale) && isfinite((float)shift);
  }
}

/* Returns the period to give to loops for factors that repeat after n numbers. */
static int64_t loop_period(int64_t n) {
  if (DENSE_GROUP % n == 0) return DENSE_GROUP;
  if (DENSE_THREES % n == 0) return 2 * DENSE_THREES;
  return n < 2 * DENSE_GROUP ? n * DENSE_GROUP : less(n, BOX_NUMBERS); /* of few, whole groups: their factors are aligned then */
}

/* Makes room for factors, and sets them if they are the same for all lines, or repeat along the lines. If they repeat
 * after too many numbers, or differ along an axis other than the fastest, they are set for each line. Without memory,
 * lines are short. */
static void begin_factors(scaler *s, const boxes *b) {
  bool along = b->scaled_step != 0 && b->axes[b->n - 1].dst == b->scaled_step;
  int64_t repeat = along ? s->entries * s->each : 1, period = loop_period(repeat);
  s->constant = repeat <= BOX_NUMBERS && (along || s->entries == 1);
  int64_t room = ((period + DENSE_GROUP) * s->computed + 63) / 64 * 64;
  s->memory = along ? aligned_alloc(64, (size_t)room * 2) : NULL;
  if (along && s->memory == NULL) s->constant = false, period = DENSE_GROUP;
  s->factors = (dlbcore_factors){(char *)s->room[0], (char *)s->room[1], (size_t)period, 0, false};
  if (s->memory != NULL) s->factors.scale = s->memory, s->factors.shift = s->memory + room;
  s->most = s->constant || !along ? INT64_MAX : period;
  if (s->constant) set_factors(s, 0, s->each, period + DENSE_GROUP);
}

/* Chooses the factors of n numbers, a line of a box. */
static void choose_factors(scaler *s, const box *b, const int64_t *index, int64_t n) {
  bool along = b->scaled == b->n - 1;
  int64_t at = b->factor + (b->scaled < 0 || along ? 0 : index[b->scaled]);
  s->factors.at = s->constant ? (size_t)at % s->factors.period : 0;
  if (s->constant) return;
  if (along) set_factors(s, at, s->each, (n + DENSE_GROUP - 1) / DENSE_GROUP * DENSE_GROUP);
  else set_factors(s, at / s->each * 2 * DENSE_GROUP, 2 * DENSE_GROUP, 2 * DENSE_GROUP);
}

/* Reports whether consecutive lines of a box have the factors of one line of this length. */
static bool is_one_line(const scaler *s, const box *b) {
  return s->entries == 1 || (s->constant && b->scaled == b->n - 1 && b->factor == 0 && b->line % (s->entries * s->each) == 0);
}

/* Converts lines along the last of n axes. A side that is moved has its lines in a buffer, with the given distance in
 * bytes. `scaled` is NULL, or the box with these axes. */
INLINE void convert_lines(const conversion *c, const dlbcore_axis *axes, int32_t n, int64_t dst, int64_t src, uint8_t *result, int64_t to,
                          const uint8_t *source, int64_t from, const box *scaled) {
  int64_t index[CORE_AXES_MAX];
  for (int32_t d = 0; d < n - 1; d++) index[d] = 0;
  do {
    if (scaled != NULL) choose_factors(c->scaler, scaled, index, axes[n - 1].size);
    dlbcore_dense_convert(&c->way, c->to.direct ? c->to.base + dst / 8 : result, c->from.direct ? c->from.base + src / 8 : source,
                          (size_t)axes[n - 1].size, c->to.direct && !c->to.plain && c->to.whole >= LARGE_RESULT);
    if (!c->to.direct) result += to;
    if (!c->from.direct) source += from;
  } while (dlbcore_next(index, axes, n - 1, &dst, &src));
}

/* Converts a box, through a buffer for each side that is moved. If only one side is moved, its buffer has gaps between
 * lines, because lines at a distance of a power of two would evict each other from the caches. */
static void convert_box(const conversion *c, const box *b, uint8_t *result, uint8_t *source) {
  bool dense = !c->to.direct && !c->from.direct;
  int64_t gap = dense || b->line < SHORT_LINE ? 0 : LINE_GAP, to = b->line * c->way.to + gap, from = b->line * c->way.from + gap;
  if (!c->from.direct) move_box(&c->from, b, false, source, from);
  if (dense && (c->scaler == NULL || is_one_line(c->scaler, b))) {
    if (c->scaler != NULL) c->scaler->factors.at = 0;
    dlbcore_dense_convert(&c->way, result, source, (size_t)(b->line * b->lines), false);
  } else {
    convert_lines(c, b->axes, b->n, b->dst, b->src, result, to, source, from, c->scaler != NULL ? b : NULL);
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

/* A separate function, so that the buffers have their own stack frame. */
__attribute__((noinline)) static void convert_small_boxes(const conversion *c, boxes *b) {
  uint8_t buffers[2][SMALL_BOX * BUFFER_BYTES(16)] __attribute__((aligned(64)));
  convert_boxes(c, b, c->scaler == NULL ? SMALL_BOX : less(SMALL_BOX, c->scaler->most), buffers[0], buffers[1]);
}

static void convert_moved(const conversion *c, boxes *b) {
  int64_t to = c->to.direct ? 0 : c->way.to, from = c->from.direct ? 0 : c->way.from, numbers = 1;
  for (int32_t d = 0; d < b->n && numbers < BOX_NUMBERS; d++) numbers *= less(b->axes[d].size, BOX_NUMBERS);
  numbers = less(numbers, less(BOX_NUMBERS, BOX_BYTES / (to > from ? to : from)));
  if (c->scaler != NULL) numbers = less(numbers, c->scaler->most);
  uint8_t *buffers = numbers <= SMALL_BOX ? NULL : malloc((size_t)(numbers * (BUFFER_BYTES(to) + BUFFER_BYTES(from))));
  if (buffers != NULL) convert_boxes(c, b, numbers, buffers, buffers + numbers * BUFFER_BYTES(to));
  else convert_small_boxes(c, b); /* also where there is no memory */
  free(buffers);
}

static int64_t width_of(const operand *o) {
  int64_t bits = (int64_t)o->dtype.bits * o->dtype.lanes;
  return o->padded ? (bits + 7) / 8 * 8 : bits;
}

/* Sets a single axis for tensors whose elements follow each other without gaps on both sides. Returns false if there
 * are gaps. */
static bool set_one_axis(boxes *b, const operand *to, const operand *from, const int64_t *shape, int32_t ndim, bool parts) {
  int64_t step = 1, lanes = to->dtype.lanes;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    if (shape[d] == 1) continue; /* the stride has no meaning */
    if (shape[d] <= 0 || to->strides[d] != step || from->strides[d] != step || __builtin_mul_overflow(step, shape[d], &step)) return false;
  }
  int64_t dst = to->dtype.bits >> parts, src = from->dtype.bits >> parts;
  if (width_of(to) != to->dtype.bits * lanes || width_of(from) != from->dtype.bits * lanes) return false;
  b->axes[0] = (dlbcore_axis){step * (lanes << parts), dst, src};
  b->dst = b->src = 0, b->n = 1;
  return true;
}

/* Describes the numbers of two tensors: all lanes of all elements, and both parts of each number if `parts` is set.
 * Leaves out dimension `without`, unless it is -1. Returns false if there are no numbers. */
__attribute__((noinline)) static bool set_axes(boxes *b, const operand *to, const operand *from, const int64_t *shape, int32_t ndim,
                                               bool parts, int32_t without) {
  int64_t sizes[CORE_AXES_MAX], dst[CORE_AXES_MAX], src[CORE_AXES_MAX];
  int32_t n = 0;
  b->scaled_step = 0;
  if (without < 0 && set_one_axis(b, to, from, shape, ndim, parts)) return true;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] <= 0) return false;
  }
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 1 || d == without) continue; /* of 1, the stride has no meaning */
    if (n == CORE_AXES_MAX - 1 - (parts || without >= 0)) return false; /* no tensor has so many elements */
    sizes[n] = shape[d], dst[n] = to->strides[d] * width_of(to), src[n++] = from->strides[d] * width_of(from);
  }
  sizes[n] = to->dtype.lanes, dst[n] = to->dtype.bits, src[n++] = from->dtype.bits;
  if (parts) sizes[n] = 2, dst[n] = to->dtype.bits / 2, src[n++] = from->dtype.bits / 2;
  b->dst = b->src = 0;
  b->n = dlbcore_axes(b->axes, &b->dst, dst, &b->src, src, sizes, n);
  return b->n >= 0;
}

/* Copies numbers of whole bytes to `offset` bytes behind the places of the numbers of a side. With `repeated` there is
 * one number. */
__attribute__((noinline)) static void copy_numbers(const side *to, int64_t offset, const boxes *b, const uint8_t *src, bool repeated) {
  int64_t sizes[CORE_AXES_MAX], dst_steps[CORE_AXES_MAX], src_steps[CORE_AXES_MAX];
  for (int32_t d = 0; d < b->n; d++) {
    sizes[d] = b->axes[d].size, dst_steps[d] = b->axes[d].dst / 8, src_steps[d] = repeated ? 0 : b->axes[d].src / 8;
  }
  dlbcore_copy_part(to->plain, to->whole, (char *)to->base + b->dst / 8 + offset, dst_steps, (const char *)src, src_steps, sizes, b->n,
                    (size_t)to->bits / 8);
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

/* Orders the axes by their steps in the source. Axes along which the source repeats its numbers come first. */
static void order_by_source(boxes *b) {
  for (int32_t d = 1; d < b->n; d++) {
    dlbcore_axis a = b->axes[d];
    uint64_t step = (uint64_t)dlbcore_magnitude(a.src) - 1; /* 0 becomes the largest */
    int32_t at = d;
    for (; at > 0 && (uint64_t)dlbcore_magnitude(b->axes[at - 1].src) - 1 < step; at--) b->axes[at] = b->axes[at - 1];
    b->axes[at] = a;
  }
}

/* Merges two axes that follow each other without a gap. */
static bool join_axes(boxes *b, int32_t d) {
  dlbcore_axis *a = &b->axes[d];
  if (a[0].dst != a[1].size * a[1].dst || a[0].src != a[1].size * a[1].src) return false;
  a[1].size *= a[0].size;
  memmove(a, a + 1, (size_t)(--b->n - d) * sizeof *a);
  return true;
}

/* Adds the axis along which factors differ, and merges a short axis that follows into it, so that lines are long. */
static void add_scaled(scaler *s, boxes *b, dlbcore_axis scaled) {
  int32_t at = b->n++;
  for (; at > 0 && b->axes[at - 1].dst < dlbcore_magnitude(scaled.dst); at--) b->axes[at] = b->axes[at - 1];
  b->axes[at] = scaled;
  int64_t next = at + 2 == b->n ? b->axes[at + 1].size : LONG_LINE;
  if (next < LONG_LINE && scaled.size <= BOX_NUMBERS / next && join_axes(b, at)) s->each = next;
  b->scaled_step = b->axes[at].dst;
  if (at > 0 && at == b->n - 1) join_axes(b, at - 1);
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
  if (c->scaler != NULL) begin_factors(c->scaler, b);
  dlbcore_axis line = b->axes[b->n - 1];
  bool worth = line.size >= SHORT_LINE || b->n == 1;
  c->to.direct = worth && lies_dense(&c->to, line.dst);
  c->from.direct = worth && lies_dense(&c->from, line.src);
  if (!c->to.direct || !c->from.direct) convert_moved(c, b);
  else if (c->scaler != NULL) b->across = b->n - 1, convert_boxes(c, b, less(line.size, c->scaler->most), NULL, NULL);
  else convert_lines(c, b->axes, b->n, b->dst, b->src, c->to.base, 0, c->from.base, 0, NULL);
}

int dlbcore_can_convert(DLDataType to, DLDataType from) {
  return kind_of_numbers(to) != KIND_NONE && kind_of_numbers(from) != KIND_NONE && to.lanes == from.lanes;
}

/* Scales and converts real numbers. */
__attribute__((noinline)) static void convert_scaled(conversion *c, bool plain, const operand *dst, const operand *src,
                                                     const int64_t *shape, int32_t ndim, const dlbcore_scaling *given) {
  boxes b;
  scaler s = {.given = given, .entries = 1, .each = 1};
  bool several = given->scales > 1 || given->shifts > 1;
  int32_t d = several ? given->dim : -1;
  if (!set_axes(&b, dst, src, shape, ndim, false, d)) return;
  if (several) {
    s.entries = shape[d];
    add_scaled(&s, &b, (dlbcore_axis){shape[d], dst->strides[d] * width_of(dst), src->strides[d] * width_of(src)});
  }
  dlbcore_dense_scaled(&c->way, c->to.kind, c->from.kind, plain, &s.factors);
  s.computed = c->way.between;
  c->scaler = &s;
  convert_numbers(c, &b);
  free(s.memory);
}

static dlbcore_status convert_operands(bool plain, size_t whole, const operand *dst, const operand *src, const int64_t *shape,
                                       int32_t ndim, const dlbcore_scaling *scaling) {
  static const uint8_t zeros[8];
  boxes b;
  conversion c;
  set_side(&c.to, dst, false, plain, whole), set_side(&c.from, src, true, plain, 0);
  if (c.to.kind == KIND_NONE || c.from.kind == KIND_NONE || dst->dtype.lanes != src->dtype.lanes) return CORE_ERR_DTYPE;
  c.scaler = NULL;
  if (scaling != NULL) return convert_scaled(&c, plain, dst, src, shape, ndim, scaling), CORE_OK;
  bool complex_to = is_complex(c.to.kind), complex_from = is_complex(c.from.kind);
  if (!set_axes(&b, dst, src, shape, ndim, complex_to && complex_from, -1)) return CORE_OK;
  if (complex_to) take_parts(&c.to);
  if (complex_from && c.to.kind != KIND_BOOL) take_parts(&c.from);
  bool same = c.to.kind == c.from.kind && c.to.kind != KIND_BOOL; /* a bool that is not 0 must become 1 */
  bool by_double = (complex_to || complex_from) && (c.to.kind == KIND_SINGLE || c.from.kind == KIND_SINGLE);
  by_double = by_double && is_float(c.to.kind) && is_float(c.from.kind) && (!same || complex_to != complex_from);
  if (c.to.bits >= 8 && c.to.bits == c.from.bits && !by_double && (same || (is_whole(c.to.kind) && is_whole(c.from.kind)))) {
    copy_numbers(&c.to, 0, &b, c.from.base + b.src / 8, false);
  } else {
    dlbcore_dense_of(&c.way, c.to.kind, c.from.kind, by_double, plain);
    convert_numbers(&c, &b);
  }
  if (complex_to && !complex_from) copy_numbers(&c.to, c.to.bits / 8, &b, zeros, true);
  return CORE_OK;
}

/* The floating-point mode of conversions. They round to nearest and keep subnormal numbers, whatever mode the program
 * has set. */
#if defined(__x86_64__)
enum { FLOAT_MODE = 0x1f80, FLOAT_FLAGS = 0x3f }; /* flags say what has happened, and are part of the register only */
#else
enum { FLOAT_MODE = 0, FLOAT_FLAGS = 0 };
#endif

/* Returns the current mode. */
static uint64_t float_mode(void) {
  uint64_t mode = FLOAT_MODE;
#if defined(__x86_64__)
  mode = _mm_getcsr();
#elif defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
#endif
  return mode;
}

static void change_float_mode(uint64_t from, uint64_t to) {
  if (((from ^ to) & ~(uint64_t)FLOAT_FLAGS) == 0) return;
#if defined(__x86_64__)
  _mm_setcsr((uint32_t)to);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(to) : "memory");
#endif
}

dlbcore_status dlbcore_convert_part(bool plain, size_t whole, char *dst, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded,
                                    const char *src, DLDataType src_dtype, const int64_t *src_strides, bool src_padded,
                                    const int64_t *shape, int32_t ndim, const dlbcore_scaling *scaling) {
  operand to = {(uint8_t *)dst, dst_dtype, dst_strides, dst_padded}, from = {(uint8_t *)(uintptr_t)src, src_dtype, src_strides, src_padded};
  uint64_t mode = float_mode();
  change_float_mode(mode, FLOAT_MODE);
  dlbcore_status status = convert_operands(plain, whole, &to, &from, shape, ndim, scaling);
  change_float_mode(FLOAT_MODE, mode);
  return status;
}

dlbcore_status dlbcore_convert(char *dst, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded, const char *src,
                               DLDataType src_dtype, const int64_t *src_strides, bool src_padded, const int64_t *shape, int32_t ndim) {
  size_t whole = dlbcore_whole(((size_t)dst_dtype.bits * dst_dtype.lanes + 7) / 8, shape, ndim);
  return dlbcore_convert_part(false, whole, dst, dst_dtype, dst_strides, dst_padded, src, src_dtype, src_strides, src_padded, shape, ndim, NULL);
}

dlbcore_status dlbcore_check_scaling(dlbcore_scaling *s, DLDataType to, DLDataType from, const int64_t *shape, int32_t ndim,
                                     char *message, size_t size) {
  if (is_complex(kind_of_numbers(to)) || is_complex(kind_of_numbers(from)))
    return dlbcore_fail(CORE_ERR_DTYPE, message, size, "complex numbers cannot be scaled; dlb_tensor_convert makes them real");
  int32_t given = s->dim;
  if (s->dim < 0) s->dim += ndim;
  for (int i = 0; i < 2; i++) {
    const char *name = i == 0 ? "scales" : "shifts";
    int64_t n = i == 0 ? s->scales : s->shifts;
    if (n < 0) return dlbcore_fail(CORE_ERR_ARGUMENT, message, size, "%" PRId64 " %s, the number must not be negative", n, name);
    if (n > 1 && (s->dim < 0 || s->dim >= ndim))
      return dlbcore_fail(CORE_ERR_ARGUMENT, message, size, "%" PRId64 " %s for axis %d, but the tensor has %d dimension%s", n, name,
                          (int)given, (int)ndim, ndim == 1 ? "" : "s");
    if (n > 1 && n != shape[s->dim])
      return dlbcore_fail(CORE_ERR_LAYOUT, message, size,
                          "%" PRId64 " %s for axis %d of size %" PRId64 ", want one for each index or one for all", n, name,
                          (int)given, shape[s->dim]);
  }
  if (s->scales <= 1 && s->shifts <= 1) s->dim = 0; /* whatever it was: each counts for all elements */
  return CORE_OK;
}

dlbcore_status dlbcore_copy_convert(dlbcore_share **out, dlbcore_extent *extent, const DLTensor *tensor, uint64_t flags,
                                    DLDataType dtype, const dlbcore_scaling *scaling, char *message, size_t size) {
  int64_t to[CORE_RANK_MAX];
  const int64_t *from = tensor->strides == NULL ? to : tensor->strides;
  DLTensor view = {.ndim = tensor->ndim, .dtype = dtype, .shape = tensor->shape};
  if (!dlbcore_can_convert(dtype, tensor->dtype)) return CORE_ERR_DTYPE;
  dlbcore_status status = dlbcore_check_layout(&view, 0, extent, message, size);
  dlbcore_scaling checked = scaling == NULL ? (dlbcore_scaling){0} : *scaling;
  if (status == CORE_OK && scaling != NULL)
    status = dlbcore_check_scaling(&checked, dtype, tensor->dtype, tensor->shape, tensor->ndim, message, size);
  if (status != CORE_OK) return status;
  dlbcore_share *share = dlbcore_share_alloc((size_t)extent->nbytes, 0);
  if (share == NULL) return dlbcore_fail(CORE_ERR_MEMORY, message, size, "no memory for %" PRId64 " bytes", extent->nbytes);
  dlbcore_set_row_major(to, tensor->shape, tensor->ndim);
  if (extent->count > 0)
    dlbcore_convert_part(false, (size_t)extent->nbytes, share->data, dtype, to, false, (const char *)tensor->data + tensor->byte_offset,
                         tensor->dtype, from, (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0, tensor->shape, tensor->ndim,
                         scaling == NULL ? NULL : &checked);
  *out = share;
  return CORE_OK;
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* Reports whether n numbers in two buffers are equal. It is a separate function, so that the doubles have their own
 * stack frame. */
__attribute__((noinline)) static bool equal_numbers(dlbcore_number kind, int32_t bytes, const void *a, const void *b, int64_t n,
                                                    bool nan_equal) {
  double x[EQUAL_BOX], y[EQUAL_BOX];
  if (!is_float(kind) && kind != KIND_BOOL) return memcmp(a, b, (size_t)(n * bytes)) == 0;
  dlbcore_dense way;
  dlbcore_dense_of(&way, KIND_DOUBLE, kind, false, false);
  dlbcore_dense_convert(&way, x, a, (size_t)n, false);
  dlbcore_dense_convert(&way, y, b, (size_t)n, false);
  bool same = true;
  for (int64_t i = 0; i < n; i++) same &= x[i] == y[i] || (nan_equal && isnan(x[i]) && isnan(y[i]));
  return same;
}

/* Returns the numbers of a box, and moves them to the buffer unless they are consecutive. */
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
  side x, y;
  boxes all;
  set_side(&x, &first, false, false, 0), set_side(&y, &second, true, false, 0);
  if (x.kind == KIND_NONE) return -1;
  if (!set_axes(&all, &first, &second, shape, ndim, is_complex(x.kind), -1)) return 1;
  if (is_complex(x.kind)) take_parts(&x), take_parts(&y);
  if (all.n == 0) all.axes[all.n++] = (dlbcore_axis){1, x.bits, y.bits};
  all.across = all.n - 1;
  set_sizes(&all, EQUAL_BOX);
  uint64_t mode = float_mode();
  change_float_mode(mode, FLOAT_MODE);
  bool equal = equal_boxes(&x, &y, &all, nan_equal);
  change_float_mode(FLOAT_MODE, mode);
  return equal;
}
