/* library.h: the Go library, for the files that call it. */
#ifndef DLBRIDGE_LIBRARY_H_
#define DLBRIDGE_LIBRARY_H_

#include "extension.h"

#include <dlbridge.h>
#include <formats.h>

/* The functions of the library that the extension calls. */
#define FUNCTIONS(X) \
  X(dlb_version) \
  X(dlb_message_decode) \
  X(dlb_message_decode_packed) \
  X(dlb_message_decode_next) \
  X(dlb_message_encode) \
  X(dlb_message_encode_parts) \
  X(dlb_message_header) \
  X(dlb_message_label) \
  X(dlb_message_metadata) \
  X(dlb_message_part_count) \
  X(dlb_message_tensor_count) \
  X(dlb_message_part) \
  X(dlb_message_tensor_at) \
  X(dlb_message_tensor_metadata) \
  X(dlb_message_copied) \
  X(dlb_message_tensor_part) \
  X(dlb_message_frame_count) \
  X(dlb_message_frame) \
  X(dlb_message_encode_packed) \
  X(dlb_message_free) \
  X(dlb_elements_free) \
  X(dlb_file_open) \
  X(dlb_file_close) \
  X(dlb_file_format) \
  X(dlb_file_count) \
  X(dlb_file_at) \
  X(dlb_file_tensor_at) \
  X(dlb_file_copy) \
  X(dlb_file_metadata) \
  X(dlb_file_verify) \
  X(dlb_file_sync) \
  X(dlb_file_write) \
  X(dlb_counters_read)

/* The functions of a format: dlb_NAME_decode and so on. The last two are NULL for a format that lacks them (formats.h). */
typedef struct {
  int32_t (*decode)(dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error);
  int32_t (*encode)(size_t *out, void *data, size_t room, const dlb_value *value, uint64_t options, dlb_error *error);
  int32_t (*decode_batch)(dlb_value *out, size_t count, size_t *next, const dlb_frame *frame, size_t offset, uint64_t options,
                          dlb_error *error);
  int32_t (*check)(dlb_bytes rules, const dlb_value *value, dlb_error *error);
} format_functions;

#define FIELD(name) __typeof__(&name) name;
typedef struct {
  FUNCTIONS(FIELD)
  format_functions formats[FORMAT_COUNT];
} library;

/* Returns the functions of the library, which it loads unless the process has loaded it already. NULL with an exception. */
const library *get_library(PyObject *module);
/* Reports whether a function belongs to the library and cannot be called, because the process was forked after it was loaded. */
int is_stopped(void *function);
/* Raises the exception for DLB_ERROR_FORKED, and returns NULL. */
PyObject *raise_forked(void);
/* Raises the exception for an error of the library, and returns NULL. */
PyObject *raise_library(const dlb_error *error);
/* Lends the bytes of a contiguous bytes-like object. -1 with an exception. */
int lend_frame(PyObject *object, dlb_frame *frame);
/* Converts the argument `limit` of a decoder to a uint64_t that DLB_LIMIT can hold, for PyArg_ParseTuple: 0 with an exception. */
int parse_limit(PyObject *object, void *out);
/* Returns a memoryview, with a loan of its own, of the bytes that an object has lent before; NULL with ValueError if the object
 * now has other bytes. */
PyObject *view_again(module_state *state, PyObject *object, const dlb_frame *lent);
/* Returns a new list of the items of a sequence, which the garbage collector does not track. While a call uses the
 * items, Python code may run; if it could find the list, it could shorten it and so free the items. NULL with an
 * exception. */
PyObject *private_list(PyObject *sequence);
/* Sets *out to the bytes of a bytes object, which stay its own; None stands for no bytes. -1 with an exception. */
int parse_bytes(PyObject *object, dlb_bytes *out);
/* Adds to the current exception the name and index of the object that caused it: to the text of the exceptions that Python itself
 * and this package raise, and as a note to others. */
void note_index(const char *what, size_t index);
/* Returns a memoryview of format B of the bytes of a frame; NULL with an exception. Takes the frame over, also after an error. */
PyObject *view_of_frame(module_state *state, const dlb_frame *frame);

#endif
