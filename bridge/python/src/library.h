/* library.h: the Go library, for the files that call it. */
#ifndef DLBRIDGE_LIBRARY_H_
#define DLBRIDGE_LIBRARY_H_

#include "extension.h"

#include <dlbridge.h>

#define FUNCTIONS(X) \
  X(dlb_version) \
  X(dlb_message_decode) \
  X(dlb_message_decode_packed) \
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
  X(dlb_message_frame_count) \
  X(dlb_message_frame) \
  X(dlb_message_encode_packed) \
  X(dlb_message_free) \
  X(dlb_elements_free) \
  X(dlb_decthings_decode) \
  X(dlb_decthings_decode_batch) \
  X(dlb_decthings_encode) \
  X(dlb_decthings_check) \
  X(dlb_tensorflow_decode) \
  X(dlb_tensorflow_encode) \
  X(dlb_counters_read)

#define FIELD(name) __typeof__(&name) name;
typedef struct {
  FUNCTIONS(FIELD)
} library;

/* The library of this process, loaded if it is not yet. */
const library *get_library(PyObject *module);
/* The exception of an error of the library. NULL. */
PyObject *raise_library(const dlb_error *error);
/* Lends the bytes of an object, bytes-like and without gaps. */
int lend_frame(PyObject *object, dlb_frame *frame);
/* A memoryview of the bytes that an object has lent before, on a loan of its own. */
PyObject *view_again(module_state *state, PyObject *object, const dlb_frame *lent);
/* Reports whether objects that take `size` bytes take no more than 32 times their input and `limit` bytes. */
int has_room(size_t size, size_t input, size_t limit);
/* Checks, before any is made, that objects for `count` of `what` take no more than 32 times their input and `limit`
 * bytes; `size` is what they take. -1 with ValueError. */
int check_room(const char *what, size_t count, size_t size, size_t input, size_t limit);
/* What every call may take, whatever its input. */
enum { CALL_SIZE = 64 << 10 };
/* What Python objects take, with the lists that have them: no less than they do. */
enum { PLACE_SIZE = 8, VIEW_SIZE = 208, TUPLE_SIZE = 80, OBJECT_SIZE = 72 };
/* What a frame takes in a message of the Go library. */
enum { MESSAGE_FRAME_SIZE = 32 };
/* A list of `count` places, which list_set fills from the first on. The collector, and so all Python code, learns of
 * the list in list_end only: Python code may run between the two, and would end the process on an empty place. NULL with
 * MemoryError. */
PyObject *list_begin(size_t count);
/* Puts an object, which it takes over, into a place; or drops the list, where the object is NULL. */
void list_set(PyObject **list, size_t index, PyObject *object);
/* The list, all places of which are filled; or NULL. */
PyObject *list_end(PyObject *list);
/* A list of the items of a sequence. It is made for one call, and the collector never learns of it: while the items are
 * worked on, Python code runs, which could shorten a list that it can find, and so end the items. NULL with an
 * exception. */
PyObject *private_list(PyObject *sequence);
/* A memoryview of format B that takes the frame over, whatever becomes of it. */
PyObject *view_of_frame(module_state *state, const dlb_frame *frame);

#endif
