/* A program whose allocator knows nothing of tools uses all memory that a tensor has given back, without a report of them. It is linked
 * with -Wl,--wrap=posix_memalign,--wrap=free. */
#include "check.h"

void __real_free(void *memory);
void __wrap_free(void *memory);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

static _Alignas(256) char pool[1024];
static int in_use, uses;

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  CHECK(!in_use && alignment <= 256 && size <= sizeof pool);
  *out = pool;
  in_use = 1;
  uses++;
  return 0;
}

void __wrap_free(void *memory) {
  if (memory == pool) in_use = 0;
  else __real_free(memory);
}

int main(void) {
  DLManagedTensorVersioned *t;
  for (int i = 0; i < 2; i++) {
    CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 1, (int64_t[]){3}, &error));
    dlb_tensor_release(t);
    CHECK_INT(0, in_use);
    CHECK_INT(i + 1, uses);
    volatile char *memory = pool;
    for (size_t at = 0; at < sizeof pool; at++) memory[at] = 1;
  }
  return 0;
}
