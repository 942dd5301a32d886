#include <dlbridge.h>
#include <stdio.h>

int main(void) {
  const DLDataType float32 = {kDLFloat, 32, 1};
  const int64_t shape[] = {2, 3};
  DLManagedTensorVersioned *x;
  dlb_error error;
  if (dlb_tensor_alloc(&x, float32, 2, shape, &error) != DLB_OK) return puts(error.message), 1;
  float *elements = (float *)x->dl_tensor.data;
  elements[5] = 42; // row 1, column 2
  printf("%d dimensions, last element %g\n", (int)x->dl_tensor.ndim, elements[5]);
  dlb_tensor_release(x);
  return 0;
}
