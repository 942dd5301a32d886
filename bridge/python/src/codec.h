/* codec.h: the Go library, for the files that call it. */
#ifndef DLBRIDGE_CODEC_H_
#define DLBRIDGE_CODEC_H_

#include "extension.h"

#include <dlbridge.h>

#define FUNCTIONS(X) \
  X(dlb_version) \
  X(dlb_message_decode) \
  X(dlb_message_unpack) \
  X(dlb_message_encode) \
  X(dlb_message_make) \
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
  X(dlb_message_pack) \
  X(dlb_message_free) \
  X(dlb_elements_free) \
  X(dlb_decthings_decode) \
  X(dlb_decthings_consume) \
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
/* A memoryview of format B that takes the frame over, whatever becomes of it. */
PyObject *view_of_frame(module_state *state, const dlb_frame *frame);

#endif
