/* The part of the demo in C, which uses only DLPack. Each function owns its argument, and releases it by its deleter. */
#include <dlpack/dlpack.h>
#include <stdio.h>

static void *first(const DLTensor *t) { return (char *)t->data + t->byte_offset; }

uint64_t c_address(DLManagedTensorVersioned *m) {
  uint64_t address = (uint64_t)(uintptr_t)first(&m->dl_tensor);
  m->deleter(m);
  return address;
}

void c_print(DLManagedTensorVersioned *m) {
  const float *numbers = first(&m->dl_tensor);
  printf("   C reads      [%g %g %g %g]\n", numbers[0], numbers[1], numbers[2], numbers[3]);
  fflush(stdout);
  m->deleter(m);
}

void c_double(DLManagedTensorVersioned *m) {
  float *numbers = first(&m->dl_tensor);
  for (int64_t i = 0; i < m->dl_tensor.shape[0]; i++) {
    numbers[i] *= 2;
  }
  m->deleter(m);
}

/* Returns the last element. Strides count elements. */
double c_last(DLManagedTensorVersioned *m) {
  const DLTensor *t = &m->dl_tensor;
  int64_t last = 0;
  for (int32_t d = 0; d < t->ndim; d++) {
    last += (t->shape[d] - 1) * t->strides[d];
  }
  double value = -1;
  if (t->dtype.code == kDLFloat) {
    value = t->dtype.bits == 64 ? ((double *)first(t))[last] : ((float *)first(t))[last];
  } else if (t->dtype.code == kDLInt) {
    value = t->dtype.bits == 64 ? (double)((int64_t *)first(t))[last] : ((int32_t *)first(t))[last];
  } else if (t->dtype.code == kDLUInt && t->dtype.bits == 16) {
    value = ((uint16_t *)first(t))[last];
  }
  m->deleter(m);
  return value;
}
