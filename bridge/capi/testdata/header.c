/* The header is complete in C99, C11 and C++17: it includes all headers that it needs. abi.txt lists its
 * declarations. */
#include <dlbridge.h>

#define ASSERT(name, condition) typedef char assert_##name[(condition) ? 1 : -1]

ASSERT(versioned, sizeof(DLManagedTensorVersioned) == 80);
ASSERT(legacy, sizeof(DLManagedTensor) == 64);
ASSERT(tensor, sizeof(DLTensor) == 48);
ASSERT(dtype, sizeof(DLDataType) == 4);
ASSERT(device, sizeof(DLDevice) == 8);

int main(void) {
  const char *version = dlb_version();
  return version[0] == '0' + DLB_VERSION_MAJOR && version[1] == '.' ? 0 : 1;
}
