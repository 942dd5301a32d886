/* Tensors of TensorFlow, decoded and encoded by the Go library. */
#include "elements.h"

static int32_t decode(const library *go, dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error) {
  return go->dlb_tensorflow_decode(out, frame, options, error);
}

static int32_t encode(const library *go, size_t *out, void *data, size_t room, const dlb_value *value,
                      uint64_t options, dlb_error *error) {
  return go->dlb_tensorflow_encode(out, data, room, value, options, error);
}

static const value_format tensorflow = {"tensorflow", BYTES, decode, encode};

/* (data, Elements, limit, lenient, integers) -> Tensor or Elements */
PyObject *tensorflow_decode(PyObject *module, PyObject *args) {
  PyObject *data, *elements;
  uint64_t limit;
  int lenient, integers;
  if (!PyArg_ParseTuple(args, "OOO&pp", &data, &elements, parse_limit, &limit, &lenient, &integers)) return NULL;
  uint64_t options = DLB_LIMIT(limit > 0 ? limit : 1);
  options |= (lenient ? DLB_TENSORFLOW_LENIENT : 0) | (integers ? DLB_TENSORFLOW_INTEGERS : 0);
  return value_decode(&tensorflow, module, data, elements, options);
}

/* (x, fields, pad, Elements) -> bytes */
PyObject *tensorflow_encode(PyObject *module, PyObject *args) {
  PyObject *object, *elements;
  int fields, pad;
  if (!PyArg_ParseTuple(args, "OppO", &object, &fields, &pad, &elements)) return NULL;
  uint64_t options = (fields ? DLB_TENSORFLOW_FIELDS : 0) | (pad ? DLB_TENSORFLOW_PAD : 0);
  return value_encode(&tensorflow, module, object, elements, options);
}
