//go:build !dlbridge_shared

/* assign.c: the elements of one tensor written to another, as NumPy's `x[...] = y` does. */
#include "copy.h"

#include <stdlib.h>

/* A side of an assignment. */
typedef struct {
  const DLTensor *tensor;
  bool padded;
  dlbcore_extent extent;
} part;

static int64_t element_bits(const part *p) { return (int64_t)p->tensor->dtype.bits * p->tensor->dtype.lanes; }
static int64_t element_bytes(const part *p) { return (element_bits(p) + 7) / 8; }
static bool is_packed(const part *p) { return element_bits(p) % 8 != 0 && !p->padded; }
static uint64_t address_of(const part *p) { return (uint64_t)(uintptr_t)p->tensor->data + p->tensor->byte_offset; }

static bool same_dtype(const part *a, const part *b) {
  DLDataType x = a->tensor->dtype, y = b->tensor->dtype;
  return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes;
}

/* The dimensions of more than one element, with their strides in elements. */
typedef struct {
  int64_t sizes[CORE_AXES_MAX], to[CORE_AXES_MAX], from[CORE_AXES_MAX];
  int32_t count;
} walk;

static dlbcore_status check_part(part *p, uint64_t flags, const char *what, char *message, size_t size) {
  dlbcore_status status = dlbcore_check_tensor(p->tensor, flags, &p->extent, message, size);
  if (status != CORE_OK) return status;
  p->padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
  if (dlbcore_host_readable(p->tensor->device.device_type)) return CORE_OK;
  return dlbcore_fail(CORE_ERR_DEVICE, message, size,
                      "the memory of the %s is on device type %d, which the host cannot use; its producer can copy it to the CPU", what,
                      (int)p->tensor->device.device_type);
}

/* Lists the dimensions of dst, and repeats src in them where needed. Leading dimensions of size 1 that only src has are
 * ignored, as in NumPy. */
__attribute__((noinline)) static dlbcore_status list_walk(walk *w, const DLTensor *dst, DLTensor src, char *message, size_t size) {
  dlbcore_viewing v;
  while (src.ndim > dst->ndim && src.shape[0] == 1) {
    src.ndim--;
    src.shape++;
    if (src.strides != NULL) src.strides++;
  }
  if (dlbcore_viewing_begin(&v, &src, dst->ndim) != CORE_OK) return dlbcore_fail(CORE_ERR_MEMORY, message, size, "no memory for the shape");
  char why[160] = "";
  dlbcore_status status = dlbcore_view_broadcast_to(&v.view, &v.base, dst->ndim, dst->shape, why, sizeof why);
  if (status != CORE_OK) dlbcore_fail(status, message, size, "the source cannot be repeated to the shape of the destination: %s", why);
  int64_t step = 1;
  w->count = 0;
  for (int32_t d = dst->ndim - 1; d >= 0 && status == CORE_OK; d--) { /* the last dimension comes first, for index_in_walk */
    int64_t n = dst->shape[d];
    if (n > 1 && w->count < CORE_AXES_MAX) { /* no tensor with elements has more */
      w->sizes[w->count] = n;
      w->to[w->count] = dst->strides == NULL ? step : dst->strides[d];
      w->from[w->count++] = v.view.strides[d];
    }
    step = (int64_t)((uint64_t)step * (uint64_t)n); /* overflows only if there are no elements */
  }
  dlbcore_viewing_end(&v);
  return status;
}

/* Returns the index that list_walk gives to a dimension of more than one element: it lists the last dimension first. */
static int32_t index_in_walk(const DLTensor *dst, int32_t dim) {
  int32_t index = 0;
  for (int32_t d = dst->ndim - 1; d > dim; d--) index += dst->shape[d] > 1;
  return index;
}

/* Reports whether two elements of a layout lie at the same place. Unless `between` is 0, the layout has another
 * dimension of two indices. */
__attribute__((noinline)) static int overlaps(const walk *w, int64_t between) {
  int64_t sizes[CORE_AXES_MAX + 1], strides[CORE_AXES_MAX + 1];
  dlbcore_layout layout = {.ndim = w->count, .shape = sizes, .strides = strides};
  memcpy(sizes, w->sizes, (size_t)w->count * sizeof *sizes);
  memcpy(strides, w->to, (size_t)w->count * sizeof *strides);
  if (between != 0) {
    sizes[layout.ndim] = 2;
    strides[layout.ndim++] = between;
  }
  return dlbcore_overlaps(&layout);
}

/* Returns the greatest common divisor of `step` and all steps of a side, in bytes. That of 0 and 0 is 0. */
static uint64_t common_step(uint64_t step, const int64_t *steps, int32_t count, int64_t item) {
  for (int32_t d = 0; d < count; d++) {
    uint64_t rest = (uint64_t)dlbcore_magnitude(steps[d]) * (uint64_t)item;
    while (rest != 0) {
      uint64_t next = step % rest;
      step = rest;
      rest = next;
    }
  }
  return step;
}

/* Reports whether the elements of two sides lie in different columns of one matrix. The distance of its rows is the
 * largest that all steps allow. */
static bool in_columns(const part *dst, const part *src, const walk *w) {
  int64_t item = element_bytes(dst), taken = element_bytes(src);
  uint64_t row = common_step(common_step(0, w->to, w->count, item), w->from, w->count, taken);
  if (row == 0) return false;
  uint64_t between = (address_of(src) % row + row - address_of(dst) % row) % row;
  return between >= (uint64_t)item && between + (uint64_t)taken <= row;
}

static bool same_steps(const walk *w) { return memcmp(w->to, w->from, (size_t)w->count * sizeof *w->to) == 0; }

/* Reports whether two tensors are known to have no byte in common. Go: disjoint */
static bool disjoint(const part *dst, const part *src, const walk *w) {
  uint64_t d = address_of(dst), s = address_of(src);
  if (d + (uint64_t)dst->extent.high <= s + (uint64_t)src->extent.low || s + (uint64_t)src->extent.high <= d + (uint64_t)dst->extent.low)
    return true;
  if (is_packed(dst) || is_packed(src)) return false;
  if (in_columns(dst, src, w)) return true;
  int64_t item = element_bytes(dst), between = (int64_t)(s - d);
  if (!same_dtype(dst, src) || !same_steps(w) || between == 0 || between % item != 0) return false;
  return !overlaps(w, between / item); /* the two are the halves of a tensor with one more dimension */
}

/* Writes the elements from `taken` on, as bytes or as numbers. */
static void write_from(const part *dst, const part *src, walk *w, const char *taken, bool bytes, const dlbcore_scaling *scaling) {
  const DLTensor *t = dst->tensor;
  char *first = (char *)t->data + t->byte_offset;
  if (!bytes) {
    dlbcore_convert_part(false, dlbcore_whole((size_t)element_bytes(dst), w->sizes, w->count), first, t->dtype, w->to, dst->padded, taken,
                         src->tensor->dtype, w->from, src->padded, w->sizes, w->count, scaling);
    return;
  }
  int64_t item = element_bytes(dst);
  for (int32_t d = 0; d < w->count; d++) w->to[d] *= item, w->from[d] *= item;
  dlbcore_copy(first, w->to, taken, w->from, w->sizes, w->count, (size_t)item);
}

/* A source of one element may lie in the destination. It is first copied to other memory. */
dlbcore_status dlbcore_assign(const DLTensor *dst, uint64_t dst_flags, const DLTensor *src, uint64_t src_flags,
                              const dlbcore_scaling *scaling, char *message, size_t size) {
  part to = {.tensor = dst}, from = {.tensor = src};
  walk w;
  dlbcore_status status = check_part(&to, dst_flags, "destination", message, size);
  if (status == CORE_OK) status = check_part(&from, src_flags, "source", message, size);
  if (status != CORE_OK) return status;
  if (dst_flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return dlbcore_fail(CORE_ERR_READONLY, message, size, "the destination is read-only; dlb_tensor_copy makes a writable one");
  bool same = scaling == NULL && same_dtype(&to, &from) && is_packed(&to) == is_packed(&from), bytes = same && !is_packed(&to);
  if (!bytes && !dlbcore_can_convert(dst->dtype, src->dtype)) return CORE_ERR_DTYPE;
  dlbcore_scaling listed = scaling == NULL ? (dlbcore_scaling){0} : *scaling;
  if (scaling != NULL) status = dlbcore_check_scaling(&listed, dst->dtype, src->dtype, dst->shape, dst->ndim, message, size);
  if (status == CORE_OK) status = list_walk(&w, dst, *src, message, size);
  if (status != CORE_OK || to.extent.count == 0) return status;
  if (!to.extent.row_major && overlaps(&w, 0))
    return dlbcore_fail(CORE_ERR_LAYOUT, message, size, "elements of the destination overlap each other; dlb_tensor_copy makes one in which they do not");
  if (scaling != NULL) {
    listed.dim = index_in_walk(dst, listed.dim);
    scaling = &listed;
  }
  if (same && address_of(&to) == address_of(&from) && same_steps(&w)) return CORE_OK; /* the same elements */
  const char *taken = (const char *)src->data + src->byte_offset;
  if (disjoint(&to, &from, &w)) {
    write_from(&to, &from, &w, taken, bytes, scaling);
    return CORE_OK;
  }
  if (from.extent.count > 1)
    return dlbcore_fail(CORE_ERR_LAYOUT, message, size,
                        "source and destination may have memory in common; copy the source with dlb_tensor_copy first");
  size_t item = (size_t)element_bytes(&from);
  char *one = malloc(item);
  if (one == NULL) return dlbcore_fail(CORE_ERR_MEMORY, message, size, "no memory for %zu bytes", item);
  write_from(&to, &from, &w, memcpy(one, taken, item), bytes, scaling);
  free(one);
  return CORE_OK;
}
