/* A program that uses only tensors. It lends memory, transposes and converts it, prints the result, and releases
 * everything. */
#include <dlbridge.h>
#include <stdio.h>

static int32_t transposed(DLManagedTensorVersioned **out, float *elements, dlb_error *error) {
  int64_t shape[] = {2, 3};
  DLTensor view = {.data = elements, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  const DLDataType int32 = {kDLInt, 32, 1};
  DLManagedTensorVersioned *lent, *turned;
  *out = NULL;
  DLB_TRY(dlb_tensor_lend(&lent, &view, 0, NULL, NULL, error));
  int32_t code = dlb_tensor_transpose(&turned, lent, 0, NULL, error);
  dlb_tensor_release(lent);
  if (code == DLB_OK) {
    code = dlb_tensor_convert(out, turned, int32, error);
    dlb_tensor_release(turned);
  }
  return code;
}

int main(void) {
  float elements[] = {1, 2, 3, 4, 5, 6};
  DLManagedTensorVersioned *tensor;
  dlb_error error;
  char text[200];
  size_t size;
  if (transposed(&tensor, elements, &error) != DLB_OK ||
      dlb_tensor_format(&size, text, sizeof text, tensor, &error) != DLB_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  dlb_tensor_release(tensor);
  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  printf("%s: %s, %d left\n", dlb_version(), text, (int)(left.exports + left.imports));
  return 0;
}
