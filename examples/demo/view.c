/* A consumer in plain C, which uses DLPack only. */
#include <dlpack/dlpack.h>
#include <string.h>

uint64_t demo_c_address(const DLManagedTensorVersioned *m) {
  return (uint64_t)(uintptr_t)((const char *)m->dl_tensor.data + m->dl_tensor.byte_offset);
}

uint64_t demo_c_read(const DLManagedTensorVersioned *m) {
  uint64_t element = 0;
  memcpy(&element, (const char *)m->dl_tensor.data + m->dl_tensor.byte_offset,
         m->dl_tensor.dtype.bits / 8);
  return element;
}

void demo_c_release(DLManagedTensorVersioned *m) { m->deleter(m); }
