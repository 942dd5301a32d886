/* values.h: what the test programs for values (dlb_value) share. */
#ifndef VALUES_H_
#define VALUES_H_

#include "formats.h"

static inline int is(dlb_bytes bytes, const char *text) {
  return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static inline void check_zero(const void *memory, size_t size) {
  for (size_t i = 0; i < size; i++) CHECK_INT(0, ((const char *)memory)[i]);
}

#endif
