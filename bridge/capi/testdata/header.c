/* The header alone, as C99, C11 and C++17: it includes what it needs, and the layout of what crosses
 * the interface is fixed (G82). */
#include <dlbridge.h>

#define ASSERT(name, condition) typedef char assert_##name[(condition) ? 1 : -1]

ASSERT(versioned, sizeof(DLManagedTensorVersioned) == 80);
ASSERT(legacy, sizeof(DLManagedTensor) == 64);
ASSERT(tensor, sizeof(DLTensor) == 48);
ASSERT(dtype, sizeof(DLDataType) == 4);
ASSERT(device, sizeof(DLDevice) == 8);
ASSERT(error, sizeof(dlb_error) == 512);
ASSERT(error_message, offsetof(dlb_error, message) == 4);
ASSERT(frame, sizeof(dlb_frame) == 40);
ASSERT(frame_size, offsetof(dlb_frame, size) == 8);
ASSERT(frame_release, offsetof(dlb_frame, release) == 16);
ASSERT(frame_ctx, offsetof(dlb_frame, ctx) == 24);
ASSERT(frame_flags, offsetof(dlb_frame, flags) == 32);
ASSERT(header, sizeof(dlb_header) == 32);
ASSERT(header_form, offsetof(dlb_header, form) == 4);
ASSERT(header_origin, offsetof(dlb_header, origin) == 8);
ASSERT(bytes, sizeof(dlb_bytes) == 16);
ASSERT(message_tensor, sizeof(dlb_message_tensor) == 24);
ASSERT(message_fields, sizeof(dlb_message_fields) == 64);
ASSERT(elements, sizeof(dlb_elements) == 56);
ASSERT(elements_shape, offsetof(dlb_elements, shape) == 24);
ASSERT(elements_formats, offsetof(dlb_elements, formats) == 48);
ASSERT(value, sizeof(dlb_value) == 32);
ASSERT(value_copied, offsetof(dlb_value, copied) == 24);
ASSERT(counters, sizeof(dlb_counters) == 40);

int main(void) {
  const char *version = dlb_version();
  return version[0] == '0' + DLB_VERSION_MAJOR && version[1] == '.' ? 0 : 1;
}
