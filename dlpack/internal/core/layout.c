//go:build !dlbridge_shared

/* layout.c: the layouts of views. The rules are the same as in package dlpack/layout of Go; both are tested with the
 * cases in testdata/views.json. Nothing here reads the memory of a tensor. */
#include "core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(status, ...) return dlbcore_fail(status, message, size, __VA_ARGS__)

/* The ending of a noun for n things. */
static const char *ending(int64_t n) { return n == 1 ? "" : "s"; }

dlbcore_status dlbcore_viewing_begin(dlbcore_viewing *v, const DLTensor *tensor, int32_t count) {
  size_t each = CORE_RANK_USUAL;
  int64_t *room = v->room;
  v->more = NULL;
  if ((int64_t)tensor->ndim + count > CORE_RANK_USUAL) {
    each = CORE_RANK_MAX;
    room = v->more = malloc(3 * each * sizeof *room);
    if (room == NULL) return CORE_ERR_MEMORY;
  }
  v->view = (dlbcore_layout){.shape = room, .strides = room + each};
  v->base = (dlbcore_layout){.ndim = tensor->ndim, .shape = tensor->shape, .strides = tensor->strides};
  if (tensor->strides != NULL) return CORE_OK;
  v->base.strides = room + 2 * each;
  dlbcore_set_row_major(v->base.strides, tensor->shape, tensor->ndim);
  return CORE_OK;
}

void dlbcore_viewing_end(dlbcore_viewing *v) { free(v->more); }

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Adds steps × stride to *offset, and reports whether the result fits in 63 bits. */
static int move_forward(int64_t *offset, int64_t steps, int64_t stride) {
  int64_t way;
  int overflow = __builtin_mul_overflow(steps, stride, &way);
  return !__builtin_add_overflow(*offset, way, offset) && !overflow;
}

/* Returns a × b, or 0 if it does not fit in 63 bits. It is for strides without a meaning. */
static int64_t product_or_0(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

/* Returns index i counted from the start of a dimension of size n. A negative i counts from the end. */
static int64_t index_from_start(int64_t i, int64_t n) { return i < 0 ? i + n : i; }

/* Returns the number of dimension `axis`, counted from the start, or -1 if there is no such dimension. */
static int32_t axis_from_start(int32_t axis, int32_t rank) {
  int64_t at = index_from_start(axis, rank);
  return at >= 0 && at < rank ? (int32_t)at : -1;
}

/* Returns the number of elements. If it does not fit in 63 bits, returns -1, and sets *axis to the dimension at which
 * the product overflows. No size may be negative. */
static int64_t count_elements(const int64_t *shape, int32_t ndim, int32_t *axis) {
  int64_t count = 1;
  *axis = -1;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 0) return 0;
    if (*axis < 0 && __builtin_mul_overflow(count, shape[d], &count)) *axis = d;
  }
  return *axis < 0 ? count : -1;
}

/* Reports whether any size is 0. */
static int has_no_elements(const int64_t *shape, int32_t ndim) {
  for (int32_t d = 0; d < ndim; d++)
    if (shape[d] == 0) return 1;
  return 0;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static dlbcore_status check_sizes(const int64_t *shape, int32_t ndim, char *message, size_t size) {
  for (int32_t d = 0; d < ndim; d++)
    if (shape[d] < 0) FAIL(CORE_ERR_LAYOUT, "shape[%" PRId32 "] is %" PRId64 ", must not be negative", d, shape[d]);
  return CORE_OK;
}

static dlbcore_status check_count(int64_t *out, const int64_t *shape, int32_t ndim, char *message, size_t size) {
  dlbcore_status status = check_sizes(shape, ndim, message, size);
  int32_t axis;
  if (status != CORE_OK) return status;
  *out = count_elements(shape, ndim, &axis);
  if (*out < 0) FAIL(CORE_ERR_OVERFLOW, "shape[%" PRId32 "] = %" PRId64 ": overflow", axis, shape[axis]);
  return CORE_OK;
}

static dlbcore_status check_rank(int64_t rank, char *message, size_t size) {
  if (rank < 0 || rank > CORE_RANK_MAX)
    FAIL(CORE_ERR_LAYOUT, "ndim = %" PRId64 " is not in 0..%d", rank, CORE_RANK_MAX);
  return CORE_OK;
}

/* Sets the offset of a view. A view without elements keeps the offset of its base. If `fits` is 0, the offset or a
 * stride has overflowed; that is an error unless the view is empty. */
static dlbcore_status set_offset(dlbcore_layout *out, const dlbcore_layout *base, int empty, int64_t offset, int fits,
                                 char *message, size_t size) {
  if (!empty && !fits) FAIL(CORE_ERR_OVERFLOW, "overflow");
  out->offset = empty ? base->offset : offset;
  return CORE_OK;
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Returns the error for more indices than there are dimensions. */
static dlbcore_status refuse_indices(int32_t count, int32_t rank, char *message, size_t size) {
  FAIL(CORE_ERR_ARGUMENT, "%" PRId32 " %s for %" PRId32 " dimension%s", count, count == 1 ? "index" : "indices", rank, ending(rank));
}

static int is_range(const dlbcore_index *x) { return (x->kind & ~(uint64_t)(CORE_INDEX_START | CORE_INDEX_STOP)) == 0; }

/* Writes an index in Python's notation, such as "1:7:2". */
static const char *print_index(char text[72], const dlbcore_index *x) {
  char start[24] = "", stop[24] = "", step[24] = "";
  if (x->kind & (CORE_INDEX_START | CORE_INDEX_AT)) snprintf(start, sizeof start, "%" PRId64, x->start);
  if (x->kind & CORE_INDEX_STOP) snprintf(stop, sizeof stop, "%" PRId64, x->stop);
  if (x->step != 1) snprintf(step, sizeof step, ":%" PRId64, x->step);
  if (x->kind == CORE_INDEX_AT) snprintf(text, 72, "%s", start);
  else snprintf(text, 72, "%s:%s%s", start, stop, step);
  return text;
}

static int64_t clamp(int64_t i, int64_t low, int64_t high) { return i < low ? low : i > high ? high : i; }

/* Sets the first index that a range takes from a dimension of size n, and returns the number of indices. The step is
 * not 0. */
static int64_t take_range(int64_t *first, const dlbcore_index *x, int64_t n) {
  /* low and high are the bounds of start and stop. They differ between ranges that run forwards and backwards. */
  int64_t low = 0, high = n, sign = 1, start = low, stop = high;
  if (x->step < 0) {
    low = stop = -1;
    high = start = n - 1;
    sign = -1;
  }
  if (x->kind & CORE_INDEX_START) start = clamp(index_from_start(x->start, n), low, high);
  if (x->kind & CORE_INDEX_STOP) stop = clamp(index_from_start(x->stop, n), low, high);
  *first = 0;
  if ((stop - start) * sign <= 0) return 0;
  *first = start;
  return (stop - start - sign) / x->step + 1;
}

static void append(dlbcore_layout *out, int64_t n, int64_t stride) {
  out->shape[out->ndim] = n;
  out->strides[out->ndim++] = stride;
}

/* Appends the dimensions of the base from `from` up to `to`, exclusive. */
static void append_whole(dlbcore_layout *out, const dlbcore_layout *base, int32_t from, int32_t to) {
  for (int32_t d = from; d < to; d++) append(out, base->shape[d], base->strides[d]);
}

/* Returns the stride for a new dimension of size 1 before dimension d of the base: the size of dimension d, at least 1, times
 * its stride; 1 after the last dimension; 0 if the product overflows. No address depends on it, because the only index of the
 * new dimension is 0. */
static int64_t new_axis(const dlbcore_layout *base, int32_t d) {
  if (d >= base->ndim) return 1;
  return product_or_0(base->shape[d] > 1 ? base->shape[d] : 1, base->strides[d]);
}

dlbcore_status dlbcore_view_slice(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const dlbcore_index *indices,
                            char *message, size_t size) {
  dlbcore_status status = check_sizes(base->shape, base->ndim, message, size);
  if (status != CORE_OK) return status;
  if (count > 2 * CORE_RANK_MAX + 1)
    FAIL(CORE_ERR_ARGUMENT, "%" PRId32 " indices are more than %d dimensions can have", count, CORE_RANK_MAX);
  int32_t taken = 0, rank = base->ndim;
  int more = 0;
  for (int32_t k = 0; k < count; k++) {
    const dlbcore_index *x = &indices[k];
    switch (x->kind) {
      case CORE_INDEX_ELLIPSIS:
        if (more) FAIL(CORE_ERR_ARGUMENT, "index %" PRId32 " is a second ellipsis", k);
        more = 1;
        break;
      case CORE_INDEX_NEW_AXIS: rank++; break;
      case CORE_INDEX_AT: taken++, rank--; break;
      default:
        if (!is_range(x))
          FAIL(CORE_ERR_ARGUMENT, "index %" PRId32 " has the unknown kind %#" PRIx64, k, x->kind);
        taken++;
    }
  }
  if (taken > base->ndim)
    return refuse_indices(taken, base->ndim, message, size);
  status = check_rank(rank, message, size);
  if (status != CORE_OK) return status;

  int empty = has_no_elements(base->shape, base->ndim), fits = 1;
  int64_t offset = base->offset;
  int32_t d = 0;
  out->ndim = 0;
  for (int32_t k = 0; k < count; k++) {
    const dlbcore_index *x = &indices[k];
    char text[72];
    if (x->kind == CORE_INDEX_ELLIPSIS) {
      int32_t end = d + base->ndim - taken;
      append_whole(out, base, d, end);
      d = end;
      continue;
    }
    if (x->kind == CORE_INDEX_NEW_AXIS) {
      append(out, 1, new_axis(base, d));
      continue;
    }
    int64_t n = base->shape[d], stride = base->strides[d];
    if (x->kind == CORE_INDEX_AT) {
      int64_t i = index_from_start(x->start, n);
      if (i < 0 || i >= n)
        FAIL(CORE_ERR_ARGUMENT, "index %" PRId64 " is out of bounds for dimension %" PRId32 " of size %" PRId64, x->start, d, n);
      fits &= move_forward(&offset, i, stride);
      d++;
      continue;
    }
    if (x->kind != 0 || x->step != 1) { /* not the whole dimension */
      int64_t first;
      if (x->step == 0) FAIL(CORE_ERR_ARGUMENT, "index %" PRId32 ", %s, has a step of 0", k, print_index(text, x));
      n = take_range(&first, x, n);
      empty |= n == 0;
      fits &= move_forward(&offset, first, stride);
      if (n > 1 && __builtin_mul_overflow(stride, x->step, &stride)) stride = fits = 0;
    }
    append(out, n, stride);
    d++;
  }
  append_whole(out, base, d, base->ndim);
  return set_offset(out, base, empty, offset, fits, message, size);
}

dlbcore_status dlbcore_view_index(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const int64_t *index,
                            char *message, size_t size) {
  dlbcore_status status = check_sizes(base->shape, base->ndim, message, size);
  if (status != CORE_OK) return status;
  if (count > base->ndim)
    return refuse_indices(count, base->ndim, message, size);
  int64_t offset = base->offset;
  int fits = 1;
  for (int32_t d = 0; d < count; d++) {
    int64_t n = base->shape[d], i = index_from_start(index[d], n);
    if (i < 0 || i >= n)
      FAIL(CORE_ERR_ARGUMENT, "index[%" PRId32 "] is %" PRId64 ", but dimension %" PRId32 " has size %" PRId64, d, index[d], d, n);
    fits &= move_forward(&offset, i, base->strides[d]);
  }
  out->ndim = 0;
  append_whole(out, base, count, base->ndim);
  return set_offset(out, base, has_no_elements(base->shape, base->ndim), offset, fits, message, size);
}

/* ---- other orders and shapes ----------------------------------------------------------------- */

dlbcore_status dlbcore_view_transpose(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const int32_t *order,
                                char *message, size_t size) {
  int32_t rank = base->ndim;
  uint8_t named[CORE_RANK_MAX] = {0};
  dlbcore_status status = check_sizes(base->shape, rank, message, size);
  if (status != CORE_OK) return status;
  out->ndim = 0;
  out->offset = base->offset;
  for (int32_t d = rank - 1; d >= 0 && count == 0; d--) append(out, base->shape[d], base->strides[d]);
  if (count == 0) return CORE_OK;
  if (count != rank)
    FAIL(CORE_ERR_ARGUMENT, "order has %" PRId32 " entr%s, but the tensor has %" PRId32 " dimension%s: not a permutation", count,
         count == 1 ? "y" : "ies", rank, ending(rank));
  for (int32_t k = 0; k < rank; k++) {
    int32_t d = axis_from_start(order[k], rank);
    if (d < 0)
      FAIL(CORE_ERR_ARGUMENT, "order[%" PRId32 "] is %" PRId32 ", but the tensor has %" PRId32 " dimension%s", k, order[k], rank, ending(rank));
    if (named[d]) FAIL(CORE_ERR_ARGUMENT, "order[%" PRId32 "] = %" PRId32 " repeats a dimension", k, order[k]);
    named[d] = 1;
    append(out, base->shape[d], base->strides[d]);
  }
  return CORE_OK;
}

/* Replaces a size of -1 so that the shape has `count` elements. Returns an error if that is impossible. */
static dlbcore_status complete_shape(int64_t *shape, int32_t ndim, int64_t count, char *message, size_t size) {
  int32_t open = -1;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] != -1) continue;
    if (open >= 0)
      FAIL(CORE_ERR_LAYOUT, "shape[%" PRId32 "] and shape[%" PRId32 "] are -1, but only one size may be -1", open, d);
    open = d;
    shape[d] = 1;
  }
  int64_t known;
  dlbcore_status status = check_count(&known, shape, ndim, message, size);
  if (status != CORE_OK || (open < 0 && known == count)) return status;
  if (open < 0)
    FAIL(CORE_ERR_LAYOUT, "the shape has %" PRId64 " element%s, but the tensor has %" PRId64 ": shapes do not match", known, ending(known), count);
  if (known != 0 && count % known == 0) {
    shape[open] = count / known;
    return CORE_OK;
  }
  if (known == 0 && count == 0)
    FAIL(CORE_ERR_LAYOUT, "shape[%" PRId32 "] = -1 could be any size, because another size is 0", open);
  FAIL(CORE_ERR_LAYOUT, "no size fits shape[%" PRId32 "] = -1: the other sizes have %" PRId64 " element%s, but the tensor has %" PRId64,
       open, known, ending(known), count);
}

/* A stretch is a run of dimensions with one stride and no break. Sets the number of elements and the stride of the
 * stretch that begins with dimension d and extends to slower dimensions. Returns the first dimension after it, or
 * -1. */
static int32_t stretch_at(const dlbcore_layout *base, int32_t d, int64_t *count, int64_t *stride) {
  *count = *stride = 1;
  while (d >= 0 && base->shape[d] == 1) d--;
  if (d < 0) return d;
  *count = base->shape[d];
  *stride = base->strides[d];
  for (d--; d >= 0; d--) {
    int64_t step;
    if (base->shape[d] == 1) continue;
    if (__builtin_mul_overflow(*stride, *count, &step) || step != base->strides[d]) break;
    *count *= base->shape[d];
  }
  return d;
}

dlbcore_status dlbcore_view_reshape(dlbcore_layout *out, const dlbcore_layout *base, int32_t ndim, const int64_t *shape,
                              char *message, size_t size) {
  int64_t count;
  dlbcore_status status = check_count(&count, base->shape, base->ndim, message, size);
  if (status == CORE_OK) status = check_rank(ndim, message, size);
  if (status != CORE_OK) return status;
  out->ndim = ndim;
  out->offset = base->offset;
  for (int32_t d = 0; d < ndim; d++) out->shape[d] = shape[d];
  status = complete_shape(out->shape, ndim, count, message, size);
  if (status != CORE_OK) return status;
  /* Seen from the fastest dimension, the elements form stretches, each with one stride. A new dimension must lie within
   * one stretch, because it has only one stride. */
  int32_t d = base->ndim - 1;
  int64_t left = 1, stride = 1;
  for (int32_t k = ndim - 1; k >= 0; k--) {
    int64_t n = out->shape[k];
    if (count != 0 && n > 1 && left == 1) d = stretch_at(base, d, &left, &stride);
    out->strides[k] = stride;
    if (left == n) {
      left = 1;
    } else if (count != 0 && n != 1) {
      if (left % n != 0)
        FAIL(CORE_NEEDS_COPY, "shape[%" PRId32 "] = %" PRId64 " spans elements of different strides: needs a copy", k, n);
      left /= n;
    }
    stride = product_or_0(stride, n > 1 ? n : 1);
  }
  return CORE_OK;
}

dlbcore_status dlbcore_view_broadcast_to(dlbcore_layout *out, const dlbcore_layout *base, int32_t ndim, const int64_t *shape,
                                char *message, size_t size) {
  int64_t count;
  dlbcore_status status = check_sizes(base->shape, base->ndim, message, size);
  if (status == CORE_OK) status = check_rank(ndim, message, size);
  if (status == CORE_OK) status = check_count(&count, shape, ndim, message, size);
  if (status != CORE_OK) return status;
  int32_t missing = ndim - base->ndim;
  if (missing < 0)
    FAIL(CORE_ERR_LAYOUT, "the tensor has %" PRId32 " dimension%s, but the new shape has %" PRId32 ": shapes do not match", base->ndim,
         ending(base->ndim), ndim);
  out->ndim = ndim;
  out->offset = base->offset;
  for (int32_t k = 0; k < ndim; k++) {
    int32_t d = k - missing;
    out->shape[k] = shape[k];
    out->strides[k] = 0;
    if (d < 0) continue;
    int64_t n = base->shape[d];
    if (n == shape[k]) out->strides[k] = base->strides[d];
    else if (n != 1)
      FAIL(CORE_ERR_LAYOUT,
           "dimension %" PRId32 " of size %" PRId64 " cannot be repeated to size %" PRId64 "; only size 1 can be repeated: shapes do not match", d, n,
           shape[k]);
  }
  return CORE_OK;
}

/* ---- named dimensions ------------------------------------------------------------------------ */

/* Checks the sizes of the base, and sets named[d] for each dimension d that is given, in a view of this rank. */
static dlbcore_status name_axes(uint8_t *named, const dlbcore_layout *base, int32_t rank, int32_t count, const int32_t *axes,
                                char *message, size_t size) {
  dlbcore_status status = check_sizes(base->shape, base->ndim, message, size);
  if (status != CORE_OK) return status;
  for (int32_t k = 0; k < count; k++) {
    int32_t d = axis_from_start(axes[k], rank);
    if (d < 0)
      FAIL(CORE_ERR_ARGUMENT, "dimension %" PRId32 " is out of range for %" PRId32 " dimension%s: no such dimension", axes[k], rank,
           ending(rank));
    if (named[d]) FAIL(CORE_ERR_ARGUMENT, "dimension %" PRId32 " is named twice", axes[k]);
    named[d] = 1;
  }
  return CORE_OK;
}

dlbcore_status dlbcore_view_flip(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const int32_t *axes, char *message,
                           size_t size) {
  uint8_t named[CORE_RANK_MAX] = {0};
  dlbcore_status status = name_axes(named, base, base->ndim, count, axes, message, size);
  if (status != CORE_OK) return status;
  int empty = has_no_elements(base->shape, base->ndim), fits = 1;
  int64_t offset = base->offset;
  out->ndim = 0;
  for (int32_t d = 0; d < base->ndim; d++) {
    int64_t n = base->shape[d], stride = base->strides[d];
    if (!empty && (count == 0 || named[d]) && n > 1) {
      fits &= move_forward(&offset, n - 1, stride);
      fits &= !__builtin_sub_overflow((int64_t)0, stride, &stride);
    }
    append(out, n, stride);
  }
  return set_offset(out, base, empty, offset, fits, message, size);
}

dlbcore_status dlbcore_view_squeeze(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const int32_t *axes,
                              char *message, size_t size) {
  uint8_t named[CORE_RANK_MAX] = {0};
  dlbcore_status status = name_axes(named, base, base->ndim, count, axes, message, size);
  if (status != CORE_OK) return status;
  out->ndim = 0;
  out->offset = base->offset;
  for (int32_t d = 0; d < base->ndim; d++) {
    int64_t n = base->shape[d];
    if (named[d] && n != 1)
      FAIL(CORE_ERR_LAYOUT,
           "dimension %" PRId32 " is of size %" PRId64 ", but only size 1 can be removed: shapes do not match", d, n);
    if (n != 1 || (count != 0 && !named[d])) append(out, n, base->strides[d]);
  }
  return CORE_OK;
}

dlbcore_status dlbcore_view_expand(dlbcore_layout *out, const dlbcore_layout *base, int32_t count, const int32_t *axes,
                             char *message, size_t size) {
  uint8_t named[CORE_RANK_MAX] = {0};
  dlbcore_status status = check_rank((int64_t)base->ndim + count, message, size);
  int32_t rank = base->ndim + (status == CORE_OK ? count : 0), d = 0;
  if (status == CORE_OK) status = name_axes(named, base, rank, count, axes, message, size);
  if (status != CORE_OK) return status;
  out->ndim = 0;
  out->offset = base->offset;
  for (int32_t k = 0; k < rank; k++) {
    if (named[k]) append(out, 1, new_axis(base, d));
    else append_whole(out, base, d, d + 1), d++;
  }
  return CORE_OK;
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

dlbcore_status dlbcore_view_bitcast(dlbcore_layout *out, const dlbcore_layout *base, int64_t from, int64_t to, char *message,
                              size_t size) {
  dlbcore_status status = check_sizes(base->shape, base->ndim, message, size);
  if (status != CORE_OK) return status;
  int64_t unit = greatest_divisor(from, to), factor = from / unit, part = to / unit; /* factor new elements for part old ones */
  int32_t last = base->ndim - 1;
  int empty = has_no_elements(base->shape, base->ndim);
  out->ndim = 0;
  out->offset = base->offset;
  for (int32_t d = 0; d <= last && factor == part; d++) append(out, base->shape[d], base->strides[d]);
  if (factor == part) return CORE_OK;
  if (last < 0)
    FAIL(CORE_ERR_ARGUMENT,
         "the element size of a scalar cannot change from %" PRId64 " to %" PRId64 "; add a dimension of size 1 first", from, to);
  int64_t n = base->shape[last], offset;
  if (n % part != 0)
    FAIL(CORE_ERR_LAYOUT, "%" PRId64 " element%s of size %" PRId64 " %s not a whole number of elements of size %" PRId64 ": shapes do not match",
         n, ending(n), from, n == 1 ? "is" : "are", to);
  if (n > 1 && base->strides[last] != 1 && !empty)
    FAIL(CORE_NEEDS_COPY, "the last dimension has stride %" PRId64 " instead of 1: needs a copy", base->strides[last]);
  for (int32_t d = 0; d < last; d++) {
    int64_t stride = base->strides[d], wide;
    int reached = base->shape[d] > 1 && !empty;
    if (stride % part != 0 && reached)
      FAIL(CORE_NEEDS_COPY, "strides[%" PRId32 "] = %" PRId64 " is not a multiple of %" PRId64 ": needs a copy", d, stride, part);
    if (__builtin_mul_overflow(stride / part, factor, &wide) && reached)
      FAIL(CORE_ERR_OVERFLOW, "strides[%" PRId32 "] = %" PRId64 ": overflow", d, stride);
    append(out, base->shape[d], reached ? wide : product_or_0(stride / part, factor));
  }
  if (__builtin_mul_overflow(n / part, factor, &n))
    FAIL(CORE_ERR_OVERFLOW, "shape[%" PRId32 "] = %" PRId64 ": overflow", last, base->shape[last]);
  append(out, n, 1);
  if (base->offset % part != 0 && !empty)
    FAIL(CORE_NEEDS_COPY, "offset %" PRId64 " is not at the start of an element of size %" PRId64 ": needs a copy", base->offset, to);
  if (__builtin_mul_overflow(base->offset / part, factor, &offset))
    FAIL(CORE_ERR_OVERFLOW, "offset = %" PRId64 ": overflow", base->offset);
  out->offset = offset;
  return CORE_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Moves element (0, ..., 0) by `bytes`. On a device only byte_offset changes, because data need not be an address. */
static dlbcore_status move_start(DLTensor *view, int64_t bytes, char *message, size_t size) {
  uint64_t offset = view->byte_offset + (uint64_t)bytes;
  if (dlbcore_host_readable(view->device.device_type)) {
    view->data = (void *)((uintptr_t)view->data + offset); /* not arithmetic on a pointer: offset may be negative */
    view->byte_offset = 0;
    return CORE_OK;
  }
  if (bytes != 0 && offset > INT64_MAX)
    FAIL(CORE_ERR_LAYOUT, "the view: data at %p with byte_offset = %" PRId64 ": byte_offset must not be negative", view->data, (int64_t)offset);
  view->byte_offset = offset;
  return CORE_OK;
}

dlbcore_status dlbcore_view_describe(DLTensor *view, dlbcore_layout *layout, uint64_t flags, char *message, size_t size) {
  int64_t width = (int64_t)view->dtype.bits * view->dtype.lanes, bits;
  if (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) width = (width + 7) / 8 * 8;
  if (__builtin_mul_overflow(layout->offset, width, &bits))
    FAIL(CORE_ERR_OVERFLOW, "the byte offset of element %" PRId64 " of %" PRId64 " bits overflows", layout->offset, width);
  if (bits % 8 != 0)
    FAIL(CORE_ERR_LAYOUT, "element %" PRId64 " of %" PRId64 " bits begins inside a byte", layout->offset, width);
  view->ndim = layout->ndim;
  view->shape = layout->shape;
  view->strides = layout->strides;
  return move_start(view, bits / 8, message, size);
}

/* ---- overlaps -------------------------------------------------------------------------------- */

/* An axis is a dimension of more than one element. step is the magnitude of its stride, most is the largest difference
 * of two indices, and beyond is the distance that all narrower axes cover together. */
typedef struct {
  int64_t step, most, beyond;
} step_axis;

static int wider_first(const void *a, const void *b) {
  int64_t x = ((const step_axis *)a)->step, y = ((const step_axis *)b)->step;
  return (x < y) - (x > y);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Reports whether two different elements can lie at one place. They can if each axis has a difference of indices n such
 * that the sum of all n * step is -rest. All differences may be 0 only if `moved` is set: then the difference along a
 * wider axis is not 0. The search goes from the widest step to the narrowest, and tries only differences that the
 * remaining axes can compensate. When the budget is used up, it returns 1. */
static int axes_meet(const step_axis *axes, int32_t count, int64_t rest, int moved, int *budget) {
  if (count == 0) return moved && rest == 0;
  int64_t first = -floor_div(rest + axes->beyond, axes->step), last = floor_div(axes->beyond - rest, axes->step);
  if (first < -axes->most) first = -axes->most;
  if (last > axes->most) last = axes->most;
  if (!moved) first = 0; /* the opposite differences need not be tried */
  for (int64_t n = first; n <= last; n++) {
    if (--*budget < 0) return 1;
    if (axes_meet(axes + 1, count - 1, rest + n * axes->step, moved || n != 0, budget)) return 1;
  }
  return 0;
}

int dlbcore_overlaps(const dlbcore_layout *layout) {
  if (has_no_elements(layout->shape, layout->ndim)) return 0;
  step_axis axes[CORE_AXES_MAX];
  int32_t count = 0;
  for (int32_t d = 0; d < layout->ndim; d++) {
    int64_t stride = layout->strides[d];
    if (layout->shape[d] == 1) continue;
    if (stride == 0 || count == CORE_AXES_MAX) return 1; /* or more elements than addresses */
    axes[count++] = (step_axis){.step = stride < 0 ? -stride : stride, .most = layout->shape[d] - 1};
  }
  qsort(axes, (size_t)count, sizeof *axes, wider_first);
  /* Whether two indices meet depends only on the magnitude of their difference. */
  int64_t reach = 0;
  int apart = 1, budget = 1 << 14;
  for (int32_t k = count - 1; k >= 0; k--) {
    axes[k].beyond = reach;
    apart &= axes[k].step > reach;
    reach += axes[k].step * axes[k].most;
  }
  return !apart && axes_meet(axes, count, 0, 0, &budget);
}
