/* For tools that look for leaks and wild writes, and must name the function that is to blame: "blame leak" loses a
 * tensor, "blame behind" and "blame before" write behind and before it. "blame release", "blame deleter" and "blame
 * taken" end a tensor without an owner. */
#include "check.h"

/* More often than a control block rests without a tool. */
enum { OFTEN = 500, ELEMENTS = 3 };

static float *elements_of(DLManagedTensorVersioned *tensor) { return tensor->dl_tensor.data; }

static DLManagedTensorVersioned *make(void) {
  DLManagedTensorVersioned *tensor;
  int64_t shape[] = {ELEMENTS};
  CHECK_OK(dlb_tensor_alloc(&tensor, FLOAT32, 1, shape, &error));
  for (int i = 0; i < ELEMENTS; i++) CHECK(elements_of(tensor)[i] == 0);
  return tensor;
}

__attribute__((noinline)) static void innocent(void) { dlb_tensor_release(make()); }

__attribute__((noinline)) static void guilty(int index) {
  volatile float *elements = elements_of(make());
  elements[index] = 1;
}

/* Ends a tensor that was released, or that another tensor has taken over. */
__attribute__((noinline)) void guilty_of_repeating(const char *fault) {
  DLManagedTensorVersioned *tensor = make(), *owner = NULL;
  if (strcmp(fault, "taken") == 0) CHECK_OK(dlb_tensor_import(&owner, tensor, &error));
  else dlb_tensor_release(tensor);
  if (strcmp(fault, "deleter") == 0) tensor->deleter(tensor);
  else dlb_tensor_release(tensor);
  printf("%#" PRIxPTR "\n", (uintptr_t)tensor);
  dlb_tensor_release(owner);
}

/* Overwrites the references that guilty has left on the stack. */
__attribute__((noinline)) static void forget(void) {
  volatile char room[1 << 14];
  for (size_t i = 0; i < sizeof room; i++) room[i] = 0;
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  for (int i = 0; i < OFTEN; i++) innocent();
  if (strcmp(argv[1], "leak") == 0) guilty(ELEMENTS - 1);
  if (strcmp(argv[1], "behind") == 0) guilty(ELEMENTS);
  if (strcmp(argv[1], "before") == 0) guilty(-1);
  if (strcmp(argv[1], "release") == 0 || strcmp(argv[1], "deleter") == 0 || strcmp(argv[1], "taken") == 0) guilty_of_repeating(argv[1]);
  forget();
  return 0;
}
