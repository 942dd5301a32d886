/* text.h: writing text into a buffer of the caller. */
#ifndef DLB_TEXT_H_
#define DLB_TEXT_H_

#include "capi.h"

/* A text that is being written. What exceeds the room is only counted. */
typedef struct capi_text {
  char *data;
  size_t room, size;
} capi_text;

__attribute__((format(printf, 2, 3))) CAPI void capi_write(capi_text *t, const char *format, ...);
CAPI void capi_write_dtype(capi_text *t, DLDataType dtype);
CAPI void capi_write_device(capi_text *t, DLDevice device);

/* Checks the arguments of a function that writes a text. */
CAPI int32_t capi_text_check(const char *op, size_t *out, const char *data, size_t room, dlb_error *error);

/* Writes what `write` writes of `thing` into the caller's buffer, or only counts it, by the rules of dlbridge.h. The text is
 * written twice, because a buffer that is too small stays unchanged. */
CAPI int32_t capi_text_out(const char *op, size_t *out, char *data, size_t room, void (*write)(capi_text *t, const void *thing),
                           const void *thing, dlb_error *error);

#endif
