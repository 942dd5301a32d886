/* message.h: declarations that Go shares with the C files of libdlbridge: messages and values that
 * Go decodes, and files. */
#ifndef DLB_MESSAGE_H_
#define DLB_MESSAGE_H_

#include "capi.h"
#include "formats.h"

/* The name of a C function. The function passes it to Go for the texts of errors. The type keeps
 * `const` in Go's declarations. */
typedef const char dlbcapi_name;

/* ---- messages -------------------------------------------------------------------------------- */

/* Returns a zeroed message with arrays of these sizes, or NULL if there is no memory. Calls refuse
 * it until dlbcapi_object_publish. */
CORE_API dlb_message *dlbcapi_message_new(size_t frames, size_t joined, size_t tensors, size_t dims, size_t text);
/* Releases a message that was not published, or was marked as ended. */
CORE_API void dlbcapi_message_end(dlb_message *message);
/* Gives each part of a tensor of the message that has no share yet a share of its memory, and drops
 * `share`. */
CORE_API void dlbcapi_message_share(dlb_message *message, size_t tensor, dlbcore_share *share);
CORE_API int32_t dlbcapi_message_check(const char *op, const dlb_message *message, dlb_error *error);
/* Sets *out to a frame with a share of the bytes of `frame`. The release of *out gives this share up once. */
CORE_API int32_t dlbcapi_frame_out(const char *op, dlb_frame *out, const dlbcapi_frame *frame, dlb_error *error);

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns zeroed elements with arrays for `count` values, `formats` formats and `ndim` dimensions,
 * and room for `text` bytes of text. Calls refuse them until dlbcapi_object_publish. Returns NULL
 * if there is no memory. */
CORE_API dlbcapi_elements *dlbcapi_elements_new(size_t count, size_t formats, size_t ndim, size_t text);

/* The description of a decoded value, which Go fills in. C then makes a dlb_value of it. */
typedef struct dlbcapi_reading {
  size_t start; /* offset of its elements in the frame */
  int copied;   /* the elements are not aligned there, and are to be copied */
  size_t end;   /* offset after the value; 0 if there is no value */
  DLDataType dtype;
  int32_t ndim;
  uint64_t flags; /* of DLManagedTensorVersioned */
  int64_t *shape;
  dlbcore_share *own;         /* share of the memory of the elements if they are not in the frame, otherwise NULL */
  dlbcapi_elements *elements; /* NULL for a tensor; if it is set, only `end` and `own` are set too */
} dlbcapi_reading;

/* The input of Go's decoder (capiValueDecode), and the readings for it to fill in. */
typedef struct dlbcapi_input {
  size_t format; /* its row in formats.h */
  int several;   /* whether other values may follow each value */
  const dlb_frame *frame;
  size_t offset;
  uint64_t options;
  dlbcapi_reading *readings; /* zeroed */
  size_t count;
  int64_t *dims; /* room for shapes */
  size_t room; /* of dims, in entries */
} dlbcapi_input;

/* ---- files ----------------------------------------------------------------------------------- */

/* Returns a zeroed file with arrays of these sizes, or NULL if there is no memory. Calls refuse it
 * until dlbcapi_object_publish. */
CORE_API dlb_file *dlbcapi_file_new(size_t count, size_t dims, size_t text);
/* Ends a file that was not published, or was marked as ended. Go's part of it stays. */
CORE_API void dlbcapi_file_end(dlb_file *file);
/* Calls fields->progress. */
CORE_API int32_t dlbcapi_file_progress(const dlb_file_fields *fields, uint64_t written, uint64_t total);

#endif
