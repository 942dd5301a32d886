/* text.h: writing text into a buffer of the caller. */
#ifndef DLB_TEXT_H_
#define DLB_TEXT_H_

#include "capi.h"

/* A text that is being written into the `room` bytes at `data`. `size` counts all its bytes,
 * including those that do not fit. */
typedef struct dlbcapi_text {
  char *data;
  size_t room, size;
} dlbcapi_text;

__attribute__((format(printf, 2, 3))) CORE_API void dlbcapi_write(dlbcapi_text *t, const char *format, ...);
CORE_API void dlbcapi_write_dtype(dlbcapi_text *t, DLDataType dtype);
CORE_API void dlbcapi_write_device(dlbcapi_text *t, DLDevice device);

/* Writes the `count` elements of a checked tensor in the way of NumPy: each number with at most 8 digits after the point, and each row in
 * a line of its own: "[[ 1., 2.5],\n [nan,  3.]]". If there are more than 1000, it writes only the first and last three of each
 * dimension. It writes at most 1000 in all. Returns 0, and writes nothing, for memory that the host cannot read and for elements that
 * are not single numbers. */
CORE_API int dlbcapi_write_elements(dlbcapi_text *t, const DLTensor *tensor, uint64_t flags, int64_t count);

/* Checks the arguments of a function that writes a text. */
CORE_API int32_t dlbcapi_text_check(const char *op, size_t *out, const char *data, size_t room, dlb_error *error);

/* Writes a text into the caller's buffer, or counts its bytes, by the rules of dlbridge.h for
 * buffers. It calls write(t, thing) once to count and once to write, because a buffer that is too
 * small must stay unchanged. */
CORE_API int32_t dlbcapi_text_out(const char *op, size_t *out, char *data, size_t room, void (*write)(dlbcapi_text *t, const void *thing),
                           const void *thing, dlb_error *error);

#endif
