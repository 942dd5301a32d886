#include <dlbridge.h>
#include <stdio.h>

/* A consumer: it needs only DLPack's struct, and takes any layout of two dimensions of float32. */
static double sum(const DLTensor *x) {
  const float *elements = (const float *)((const char *)x->data + x->byte_offset);
  double total = 0;
  for (int64_t i = 0; i < x->shape[0]; i++)
    for (int64_t j = 0; j < x->shape[1]; j++) total += elements[i * x->strides[0] + j * x->strides[1]];
  return total;
}

int main(void) {
  const DLDataType float32 = {kDLFloat, 32, 1};
  const int64_t shape[] = {3, 4};
  const dlb_index columns[] = {DLB_ALL, DLB_RANGE(1, 3)};
  DLManagedTensorVersioned *x = NULL, *part = NULL, *turned = NULL, *copy = NULL;
  dlb_error error;
  int32_t status = dlb_tensor_alloc(&x, float32, 2, shape, &error);
  for (int i = 0; status == DLB_OK && i < 12; i++) ((float *)x->dl_tensor.data)[i] = (float)i;
  if (status == DLB_OK) status = dlb_tensor_slice(&part, x, 2, columns, &error); /* x[:, 1:3] */
  if (status == DLB_OK) status = dlb_tensor_transpose(&turned, part, 0, NULL, &error);
  if (status == DLB_OK) status = dlb_tensor_copy(&copy, turned, &error); /* row-major */
  dlb_tensor_release(x); /* the views keep the memory */
  dlb_tensor_release(part);
  if (status == DLB_OK) {
    printf("view: strides %d %d, sum %g\n", (int)turned->dl_tensor.strides[0], (int)turned->dl_tensor.strides[1],
           sum(&turned->dl_tensor));
    printf("copy: strides %d %d, sum %g\n", (int)copy->dl_tensor.strides[0], (int)copy->dl_tensor.strides[1],
           sum(&copy->dl_tensor));
  } else {
    puts(error.message);
  }
  dlb_tensor_release(turned);
  dlb_tensor_release(copy);
  return status != DLB_OK;
}
