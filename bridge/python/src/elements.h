/* elements.h: decoding and encoding of values, each a tensor or Elements, for the files of the formats. */
#ifndef DLBRIDGE_ELEMENTS_H_
#define DLBRIDGE_ELEMENTS_H_

#include "library.h"

/* The Python objects that decoded elements become. TEXT_AND_VIEWS: str if the type is "string", else memoryviews of the data.
 * BYTES: always bytes. */
typedef enum { TEXT_AND_VIEWS, BYTES } element_objects;

/* A format: how the Go library decodes and encodes one of its tensors. Both functions run without the GIL. */
typedef struct {
  const char *name; /* for errors */
  element_objects objects;
  int32_t (*decode)(const library *go, dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error);
  int32_t (*encode)(const library *go, size_t *out, void *data, size_t room, const dlb_value *value, uint64_t options,
                    dlb_error *error);
} value_format;

/* The bytes-like argument of a decoder. */
typedef struct {
  const value_format *format;
  module_state *state;
  const library *go;
  PyObject *data;     /* the argument */
  PyObject *elements; /* the class Elements */
  dlb_frame frame;    /* lent by data */
  PyObject *view;     /* a memoryview of data, NULL until one is needed */
} value_input;

/* Loads the library and lends it the bytes of `data`. -1 with an exception. If decoding fails afterwards, the caller ends the
 * loan: loan_end(out->frame.ctx). */
int input_begin(const value_format *format, PyObject *module, PyObject *data, PyObject *elements, value_input *out);
/* Returns the Tensor or Elements of a value, and always takes the value over. */
PyObject *value_object(value_input *in, const dlb_value *value);
/* Decodes `data`, which must be one tensor. */
PyObject *value_decode(const value_format *format, PyObject *module, PyObject *data, PyObject *elements,
                       uint64_t options);
/* Encodes a producer or Elements as bytes. */
PyObject *value_encode(const value_format *format, PyObject *module, PyObject *object, PyObject *elements,
                       uint64_t options);

/* A value that Go can read without the GIL, and the objects that its memory belongs to. */
typedef struct {
  dlb_value value;
  dlb_elements elements;
  PyObject *type, *shape, *list; /* of Elements: a str, and private lists (see private_list) of the sizes and the values */
  int64_t *dims;
  dlb_bytes *values, *formats;
  Py_buffer *buffers;
  size_t buffer_count;
} value_output;

/* Makes a value of a producer or of Elements; without `with_values` only type and shape of Elements are read. -1 with
 * an exception, and then there is nothing to end. */
int output_begin(module_state *state, value_output *out, PyObject *object, PyObject *elements, int with_values);
/* Releases the memory of the value; the current exception stays as it is. */
void output_end(value_output *out);

#endif
