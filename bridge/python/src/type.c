/* The type Tensor: its attributes, comparison and text, and the tables of its methods, with their documentation. */
#include "extension.h"

#include <stdio.h>
#include <string.h>
#include <structmember.h>
#include <text.h>

static PyObject *tensor_close(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  Tensor *self = (Tensor *)op;
  dlbcore_share *share;
  LOCK(op);
  share = self->share;
  self->share = NULL;
  UNLOCK();
  if (share != NULL) share_end(share);
  Py_RETURN_NONE;
}

static PyObject *tensor_enter(PyObject *op, PyObject *Py_UNUSED(ignored)) {
  const Tensor *self = (Tensor *)op;
  if (self->share == NULL) return raise_closed(self);
  return Py_NewRef(op);
}

/* Defines the getter of an attribute of an open Tensor. */
#define GETTER(name, value) \
  static PyObject *get_##name(PyObject *op, void *Py_UNUSED(closure)) { \
    Tensor *self = (Tensor *)op; \
    return self->share == NULL ? raise_closed(self) : (value); \
  }

GETTER(shape, tuple_of(self->view.shape, self->view.ndim))
GETTER(strides, tuple_of(self->view.strides, self->view.ndim))
GETTER(ndim, PyLong_FromLong(self->view.ndim))
GETTER(size, PyLong_FromLongLong(self->extent.count))
GETTER(itemsize, PyLong_FromLongLong(dtype_itemsize(self->view.dtype)))
GETTER(nbytes, PyLong_FromLongLong(self->extent.nbytes))
GETTER(dtype, dtype_object(PyType_GetModuleState(Py_TYPE(op)), self->view.dtype))
GETTER(device, tensor_dlpack_device(op, NULL))
GETTER(readonly, PyBool_FromLong(tensor_read_only(self)))
GETTER(data_ptr, PyLong_FromUnsignedLongLong(
                     self->extent.count == 0 ? 0 : (uintptr_t)self->view.data + self->view.byte_offset))

/* ---- attributes of arrays, which a Tensor does not have ---------------------------------------- */

/* The getter of an attribute that arrays of NumPy have, and its text in a call, such as "sum(...)". It raises AttributeError, so that
 * `hasattr` is False, and numpy.sum(t), which tries t.sum first, goes on with an array. One function for all names that a Tensor lacks
 * (Py_tp_getattro) would double the time of t.numpy(). */
static PyObject *get_of_array(PyObject *op, void *closure) {
  const char *text = closure;
  char name[32];
  if (((Tensor *)op)->share == NULL) return raise_closed((Tensor *)op);
  PyOS_snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "("), text);
  return PyErr_Format(PyExc_AttributeError, "a dlbridge.Tensor has no %s; t.numpy() returns an array on the same memory, which has it: t.numpy().%s",
                      name, text);
}

/* An attribute of arrays, with what follows its name in a call. */
#define OF_ARRAY(name, call) {#name, get_of_array, NULL, "Of the array that numpy() returns, and not of a Tensor: t.numpy()." #name call ".", #name call}

/* ---- arithmetic, which a Tensor does not have ------------------------------------------------ */

/* Raises TypeError; for a Tensor that was not handed over, raises its ConnectionError. */
static PyObject *refuse_arithmetic(PyObject *left, PyObject *right) {
  PyObject *const operands[] = {left, right};
  for (int i = 0; i < 2; i++)
    if (tensor_check(operands[i]) && ((Tensor *)operands[i])->missing != NULL) return raise_closed((Tensor *)operands[i]);
  return PyErr_Format(PyExc_TypeError, "a dlbridge.Tensor has neither arithmetic nor ordering (<, >); tensor.numpy() returns an array on the same "
                                       "memory, which has both");
}

/* Reports whether an object leaves arithmetic with a Tensor to the Tensor, unlike NumPy's arrays. */
static int leaves_arithmetic(PyObject *object) {
  return tensor_check(object) || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyComplex_CheckExact(object);
}

static PyObject *tensor_binary(PyObject *left, PyObject *right) {
  if (leaves_arithmetic(left) && leaves_arithmetic(right)) return refuse_arithmetic(left, right);
  Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *tensor_power(PyObject *left, PyObject *right, PyObject *Py_UNUSED(modulus)) { return tensor_binary(left, right); }

static PyObject *tensor_unary(PyObject *op) { return refuse_arithmetic(op, op); }

/* Without a function for `t += x`, Python would compute `t + x`, and replace t by a new array when NumPy computes it. */
static PyObject *tensor_in_place(PyObject *op, PyObject *Py_UNUSED(other)) {
  if (((Tensor *)op)->missing != NULL) return raise_closed((Tensor *)op);
  return PyErr_Format(PyExc_TypeError, "a dlbridge.Tensor has no arithmetic in place; %s",
                      tensor_read_only((Tensor *)op)
                          ? "its memory is read-only, and tensor.copy().numpy() returns an array on a writable copy"
                          : "after `a = tensor.numpy()`, `a += ...` changes the memory of the tensor");
}

static PyObject *tensor_power_in_place(PyObject *op, PyObject *other, PyObject *Py_UNUSED(modulus)) {
  return tensor_in_place(op, other);
}

/* Reports whether an object is a number, of whatever type, or -1 with an exception. A type that registers its numbers has imported
 * the module numbers. */
static int is_number(PyObject *object) {
  if (!PyNumber_Check(object)) return 0;
  if (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object)) return 1;
  PyObject *name = PyUnicode_FromString("numbers"), *numbers = name == NULL ? NULL : PyImport_GetModule(name);
  PyObject *type = numbers == NULL ? NULL : PyObject_GetAttrString(numbers, "Number");
  int result = type != NULL ? PyObject_IsInstance(object, type) : PyErr_Occurred() ? -1 : 0;
  Py_XDECREF(type);
  Py_XDECREF(numbers);
  Py_XDECREF(name);
  return result;
}

/* Reports whether a type has an attribute that is not None. */
static int type_has(PyTypeObject *type, const char *name) {
  PyObject *value = PyObject_GetAttrString((PyObject *)type, name);
  if (value == NULL) PyErr_Clear();
  Py_XDECREF(value);
  return value != NULL && value != Py_None;
}

/* Reports whether objects of a type have a length, and items in an order or one after another. */
static int is_collection(PyTypeObject *type) {
  return (PyType_GetSlot(type, Py_tp_iter) != NULL || PyType_GetSlot(type, Py_sq_item) != NULL) &&
         (PyType_GetSlot(type, Py_sq_length) != NULL || PyType_GetSlot(type, Py_mp_length) != NULL);
}

/* Reports whether an object is an array or another collection. A text is not: bytes and str count as one value each. */
static int has_elements(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (PyUnicode_Check(object) || PyBytes_Check(object)) return 0;
  return PyObject_CheckBuffer(object) || is_collection(type) || type_has(type, "__dlpack__") || type_has(type, "__array__") ||
         type_has(type, "__array_interface__");
}

/* == and != compare the identity of two Tensors. NumPy's scalars, and objects that take part in NumPy's arithmetic
 * (__array_ufunc__), compare the elements themselves. With other numbers, arrays and collections the answer would always be
 * False, which no caller wants. */
static PyObject *tensor_compare(PyObject *left, PyObject *right, int operation) {
  if (operation != Py_EQ && operation != Py_NE) {
    if (leaves_arithmetic(right)) return refuse_arithmetic(left, right);
    Py_RETURN_NOTIMPLEMENTED;
  }
  if (right == Py_None || tensor_check(right) || type_has(Py_TYPE(right), "__array_ufunc__")) Py_RETURN_NOTIMPLEMENTED;
  int number = is_number(right);
  int refused = number != 0 ? number : has_elements(right);
  int scalar = refused > 0 ? is_numpy_scalar(right) : 0;
  if (refused < 0 || scalar < 0) return NULL;
  if (!refused || scalar) Py_RETURN_NOTIMPLEMENTED;
  if (number)
    return PyErr_Format(PyExc_TypeError,
                        "a dlbridge.Tensor does not compare its elements with a number; compare t.item(), t.tolist() or t.numpy() instead");
  return PyErr_Format(PyExc_TypeError,
                      "a dlbridge.Tensor does not compare its elements with those of %R; compare t.item(), t.tolist() or t.numpy() instead",
                      Py_TYPE(right));
}

static PyObject *tensor_made(PyTypeObject *Py_UNUSED(type), PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs)) {
  return PyErr_Format(PyExc_TypeError, "cannot create 'dlbridge.Tensor' instances by the type; use from_dlpack for an array, "
                                       "from_buffer for bytes, asarray for lists, and empty or zeros for new memory");
}

/* Hashes the address, because == compares identity. Objects lie at multiples of 16. */
static Py_hash_t tensor_hash(PyObject *op) { return (Py_hash_t)((uintptr_t)op >> 4); }

static PyObject *get_closed(PyObject *op, void *Py_UNUSED(closure)) { return PyBool_FromLong(((Tensor *)op)->share == NULL); }

/* ---- text ------------------------------------------------------------------------------------ */

/* Returns the text of numpy.array2string, which follows NumPy's options and reads only the elements it shows. NULL without an
 * exception if NumPy was not imported, or cannot show them. */
static PyObject *text_of_numpy(Tensor *self) {
  PyObject *function = dtype_letter(self->view.dtype) == NULL ? NULL : imported_numpy("array2string");
  PyObject *array = function == NULL ? NULL : tensor_numpy((PyObject *)self, NULL);
  PyObject *positional = array == NULL ? NULL : PyTuple_Pack(1, array);
  PyObject *keywords = positional == NULL ? NULL : Py_BuildValue("{ss}", "separator", ", ");
  PyObject *text = keywords == NULL ? NULL : PyObject_Call(function, positional, keywords);
  Py_XDECREF(keywords);
  Py_XDECREF(positional);
  Py_XDECREF(array);
  Py_XDECREF(function);
  if (text != NULL && !PyUnicode_Check(text)) Py_CLEAR(text);
  if (text == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
  return text;
}

/* Returns the elements as text, "" for elements that cannot be shown. */
static PyObject *text_of_core(const Tensor *self) {
  dlbcapi_text counted = {NULL, 0, 0}, text = {NULL, 0, 0};
  dlbcore_share *share = tensor_hold((Tensor *)self);
  PyObject *result = NULL;
  if (share == NULL) return NULL;
  if (!dlbcapi_write_elements(&counted, &self->view, self->flags, self->extent.count)) {
    result = PyUnicode_FromString("");
  } else {
    text.room = counted.size + 256; /* another thread may write longer numbers to the memory meanwhile */
    text.data = PyMem_Malloc(text.room);
    if (text.data != NULL) dlbcapi_write_elements(&text, &self->view, self->flags, self->extent.count);
    result = text.data == NULL ? PyErr_NoMemory() : PyUnicode_FromString(text.data);
    PyMem_Free(text.data);
  }
  share_end(share);
  return result;
}

/* Returns ": " and the elements as text, which begins a line if it has several, or "" for elements that cannot be shown. */
static PyObject *text_of_elements(Tensor *self) {
  PyObject *elements = text_of_numpy(self);
  if (elements == NULL && !PyErr_Occurred()) elements = text_of_core(self);
  Py_ssize_t length = elements == NULL ? 0 : PyUnicode_GetLength(elements);
  if (length == 0) return elements;
  PyObject *text = PyUnicode_FromFormat(PyUnicode_FindChar(elements, '\n', 0, length, 1) >= 0 ? ":\n%U" : ": %U", elements);
  Py_DECREF(elements);
  return text;
}

static PyObject *tensor_repr(PyObject *op) {
  Tensor *self = (Tensor *)op;
  PyObject *dtype = dtype_name(self->view.dtype);
  PyObject *shape = dtype == NULL ? NULL : tuple_of(self->view.shape, self->view.ndim);
  PyObject *strides = shape == NULL ? NULL : tuple_of(self->view.strides, self->view.ndim);
  PyObject *elements = strides == NULL || self->share == NULL ? NULL : text_of_elements(self);
  PyObject *text = NULL;
  DLDevice device = self->view.device;
  char place[64] = "", *end = place;
  if (device.device_type != kDLCPU) end += sprintf(end, ", device (%d, %d)", (int)device.device_type, (int)device.device_id);
  if (tensor_read_only(self)) sprintf(end, ", read-only");
  if (strides == NULL || (elements == NULL && self->share != NULL)) text = NULL;
  else if (self->missing != NULL) text = PyUnicode_FromFormat("<dlbridge.Tensor that was not handed over: %U>", self->missing);
  else if (self->share == NULL) text = PyUnicode_FromFormat("<closed dlbridge.Tensor, %U%R>", dtype, shape);
  else if (self->extent.row_major) text = PyUnicode_FromFormat("<dlbridge.Tensor, %U%R%s%U>", dtype, shape, place, elements);
  else text = PyUnicode_FromFormat("<dlbridge.Tensor, %U%R, strides %R%s%U>", dtype, shape, strides, place, elements);
  Py_XDECREF(dtype);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  Py_XDECREF(elements);
  return text;
}

/* ---- the type -------------------------------------------------------------------------------- */

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions, a tuple of int.", NULL},
    {"strides", get_strides, NULL, "The strides in elements, a tuple of int.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"size", get_size, NULL, "The number of elements: the product of the shape.", NULL},
    {"itemsize", get_itemsize, NULL, "The size of one element in bytes, rounded up to whole bytes.", NULL},
    {"nbytes", get_nbytes, NULL,
     "The size of the elements in bytes, without gaps.\n\n"
     "Elements smaller than a byte count as packed, unless they are padded.", NULL},
    {"dtype", get_dtype, NULL, 
     "The data type, a str such as 'float32', 'bfloat16' or 'float32x4'.\n\n"
     "It is also equal to other names of the type, such as numpy.float32 and '<f4'.", NULL},
    {"device", get_device, NULL, "The DLPack device, a tuple (type, id); (1, 0) is the CPU.", NULL},
    {"readonly", get_readonly, NULL,
     "Whether the memory must not be written. It is also True if the producer could not state that the memory is writable.", NULL},
    {"data_ptr", get_data_ptr, NULL,
     "The address of element (0, ..., 0), with byte_offset added. It is 0 if there are no elements.", NULL},
    {"closed", get_closed, NULL,
     "Whether the tensor was closed, or could not be handed over to this process (dlbridge.shm).\n\n"
     "A closed tensor has no other attributes.", NULL},
    {"T", tensor_reversed_axes, NULL, "A view with the dimensions in reverse order, as transpose() returns it.", NULL},
    OF_ARRAY(all, "(...)"), OF_ARRAY(any, "(...)"), OF_ARRAY(argmax, "(...)"), OF_ARRAY(argmin, "(...)"),
    OF_ARRAY(argsort, "(...)"), OF_ARRAY(clip, "(...)"), OF_ARRAY(conj, "(...)"), OF_ARRAY(cumprod, "(...)"),
    OF_ARRAY(cumsum, "(...)"), OF_ARRAY(diagonal, "(...)"), OF_ARRAY(dot, "(...)"), OF_ARRAY(fill, "(...)"),
    OF_ARRAY(max, "(...)"), OF_ARRAY(mean, "(...)"), OF_ARRAY(min, "(...)"), OF_ARRAY(nonzero, "(...)"), OF_ARRAY(prod, "(...)"),
    OF_ARRAY(repeat, "(...)"), OF_ARRAY(round, "(...)"), OF_ARRAY(searchsorted, "(...)"), OF_ARRAY(sort, "(...)"),
    OF_ARRAY(std, "(...)"), OF_ARRAY(sum, "(...)"), OF_ARRAY(take, "(...)"), OF_ARRAY(tofile, "(...)"), OF_ARRAY(trace, "(...)"),
    OF_ARRAY(var, "(...)"), OF_ARRAY(flags, ""), OF_ARRAY(flat, ""), OF_ARRAY(imag, ""), OF_ARRAY(real, ""),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(close_doc,
             "close($self, /)\n--\n\n"
             "Releases the tensor's share of its memory. Further calls have no effect.\n\n"
             "Exports, views, arrays and buffers of the tensor stay valid. closed and repr() still work on a closed tensor.\n"
             "All its other methods and attributes raise ValueError.\n\n"
             "    >>> with dlbridge.empty(3, 'int8') as t:  # closes t at the end\n"
             "    ...     t.shape\n"
             "    (3,)");
PyDoc_STRVAR(on_release_doc,
             "on_release($self, function, /)\n--\n\n"
             "Calls function() once, after the last holder has released the memory of the tensor.\n\n"
             "The holders are all tensors of the memory, including views and from_dlpack(tensor), and all its consumers: arrays,\n"
             "memoryviews, and frames that a socket sends. Before function() is called, the memory is freed or given back to its\n"
             "producer, so a pool of buffers can use it again. If the memory has several functions, the function that was\n"
             "passed last is called first.\n\n"
             "    >>> free, buffer = [], np.zeros(3)\n"
             "    >>> with dlbridge.from_dlpack(buffer) as t:\n"
             "    ...     t.on_release(lambda: free.append(buffer))\n"
             "    ...     array = t.numpy()\n"
             "    >>> len(free)\n"
             "    0\n"
             "    >>> del array\n"
             "    >>> len(free)\n"
             "    1\n\n"
             "The thread of the last holder calls the function, as with weakref.finalize. This may be any thread, such as a thread\n"
             "of pyzmq, in the middle of other code. Therefore the function should be short and must not wait. Its exceptions go\n"
             "to sys.unraisablehook. If the interpreter ends first, the function is not called. A forked child has its own\n"
             "copies of the tensors and of the function.\n\n"
             "Lifetime: the function is held until it has been called. The function should not refer to a tensor of the memory:\n"
             "that tensor would stay alive until it is closed. Errors: ValueError if the tensor is closed, TypeError if function\n"
             "cannot be called.");
PyDoc_STRVAR(dlpack_doc,
             "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
             "Returns a capsule with a managed tensor on the same memory. Its deleter releases one share of the memory.\n\n"
             "The managed tensor is versioned (DLPack 1.3) if max_version is (1, 0) or later. Otherwise it has the\n"
             "legacy form, and read-only memory and padded elements raise BufferError. copy=True exports a copy; its versioned\n"
             "form has the flag IS_COPIED. No other export has this flag: even an export of t.copy() lacks it, since the export\n"
             "shares the memory of that tensor.\n"
             "dl_device must be the tensor's own device. It may also be the CPU for page-locked memory, which is then exported as\n"
             "memory of the CPU. The memory is ready on the stream that was passed to from_dlpack, or else on the default stream\n"
             "of its device. dlbridge cannot wait for another stream, so stream must be that stream, or -1 (the consumer waits\n"
             "itself). The default stream is None, 1 for CUDA or 0 for ROCm. On the CPU, stream is None or -1.\n\n"
             "Errors: BufferError for another device or another stream; ValueError for a stream that the standard does not\n"
             "allow.\n\n"
             "    >>> np.from_dlpack(dlbridge.empty((2, 3), 'int8')).shape\n"
             "    (2, 3)");
PyDoc_STRVAR(array_doc,
             "__array__($self, /, dtype=None, copy=None)\n--\n\n"
             "Returns a NumPy array. numpy.asarray and numpy.array call this if the tensor has no buffer.\n\n"
             "The array is on the same memory if dtype and copy allow it, as in NumPy. An array of bfloat16, or another type\n"
             "that NumPy lacks, has the type of the package ml_dtypes. Packed elements are copied, since ml_dtypes stores\n"
             "each in a byte.\n\n"
             "    >>> dlbridge.empty(3, 'bfloat16').__array__().shape\n"
             "    (3,)\n\n"
             "Errors: BufferError if NumPy cannot have the data type, or the memory is not in the host; ValueError if the\n"
             "tensor is closed, or copy=False and a copy is needed; ImportError without NumPy 1.26 or later.");
PyDoc_STRVAR(arrow_doc,
             "__arrow_c_array__($self, /, requested_schema=None)\n--\n\n"
             "Returns the capsules of an array of Apache Arrow on the tensor's memory, for pyarrow.array, polars.Series and others.\n\n"
             "A tensor of several dimensions becomes an array of lists of fixed sizes. Elements that are unaligned or not\n"
             "row-major are copied. requested_schema is ignored, as the interface allows: the consumer converts. Consumers of\n"
             "Arrow require that elements do not change: do not write to the tensor while a consumer uses it.\n\n"
             "    >>> schema, array = dlbridge.empty(3, 'int8').__arrow_c_array__()\n\n"
             "Ownership: the array holds the memory until its consumer releases the array. Errors: BufferError for bool, which\n"
             "Arrow stores in one bit, and for data types that Arrow lacks. BufferError also for tensors of 0 or more than 64\n"
             "dimensions, for sizes of more than 2^31 - 1 except the first, and for memory that is not in the host. ValueError\n"
             "if the tensor is closed.");
PyDoc_STRVAR(jax_array_doc,
             "__jax_array__($self, /)\n--\n\n"
             "Returns jax.dlpack.from_dlpack(self), for jax.numpy.asarray and the operators of arrays of JAX.\n\n"
             "The array is on the tensor's memory if JAX shares it. Elements that are neither row-major nor column-major are copied.\n"
             "JAX may compute later: do not write to the tensor until then.\n\n"
             "Errors: those of jax.dlpack.from_dlpack; ValueError if the tensor is closed.");
PyDoc_STRVAR(numpy_doc,
             "numpy($self, /)\n--\n\n"
             "Returns a NumPy array on the same memory.\n\n"
             "An array of bfloat16, or another type that NumPy lacks, has the type of the package ml_dtypes.\n\n"
             "    >>> dlbridge.from_buffer(b'abc').numpy()\n"
             "    array([97, 98, 99], dtype=uint8)\n\n"
             "Ownership: the array keeps the memory alive, and is read-only if the tensor is. (Before NumPy 2.2.5, it is also\n"
             "read-only if elements overlap.) Errors: those of __array__; ValueError for packed elements, since NumPy needs a\n"
             "copy of them.");
PyDoc_STRVAR(reshape_doc,
             "reshape($self, /, *shape, copy=None)\n--\n\n"
             "Returns a view with another shape, in which the elements keep their row-major order.\n\n"
             "shape is a sequence of ints, or the ints themselves. One size may be -1: it is computed from the others. If the\n"
             "shape needs a copy, copy=None copies and copy=False raises ValueError. copy=True always copies.\n\n"
             "    >>> dlbridge.empty((2, 3), 'int8').reshape(3, -1).shape\n"
             "    (3, 2)");
PyDoc_STRVAR(transpose_doc,
             "transpose($self, /, *axes)\n--\n\n"
             "Returns a view with the dimensions in another order: dimension k of the view is dimension axes[k] of the tensor.\n\n"
             "Without axes, or with None, the order is reversed, as by T.\n\n"
             "    >>> dlbridge.empty((2, 3, 4), 'int8').transpose(0, 2, 1).shape\n"
             "    (2, 4, 3)");
PyDoc_STRVAR(swapaxes_doc,
             "swapaxes($self, /, axis1, axis2)\n--\n\n"
             "Returns a view with two dimensions swapped.\n\n"
             "    >>> dlbridge.empty((2, 3, 4), 'int8').swapaxes(0, -1).shape\n"
             "    (4, 3, 2)\n\n"
             "Errors: ValueError for a dimension that does not exist.");
PyDoc_STRVAR(moveaxis_doc,
             "moveaxis($self, /, source, destination)\n--\n\n"
             "Returns a view with dimensions moved to other places.\n\n"
             "Dimension source[k] becomes dimension destination[k], and the other dimensions keep their order. source and\n"
             "destination are ints, or sequences of ints of the same length.\n\n"
             "    >>> dlbridge.empty((2, 3, 4), 'int8').moveaxis(0, -1).shape\n"
             "    (3, 4, 2)\n\n"
             "Errors: ValueError for a dimension that does not exist or is named twice, and for different numbers of dimensions.");
PyDoc_STRVAR(flatten_doc,
             "flatten($self, /)\n--\n\n"
             "Returns a 1-d copy of the elements in row-major order. ravel() copies only if it must.\n\n"
             "    >>> dlbridge.empty((2, 3), 'int8').flatten().shape\n"
             "    (6,)");
PyDoc_STRVAR(view_doc,
             "view($self, /, dtype)\n--\n\n"
             "Returns a tensor on the same memory that reads its bytes as elements of another data type.\n\n"
             "If the new elements have another size, the size of the last dimension changes. The last dimension must then have\n"
             "no gaps, and hold a whole number of the new elements. view('uint8') returns the bytes of any type, such as bfloat16,\n"
             "which the buffer protocol lacks. view('float32') makes an element of each lane of float32x4. Padded elements stay\n"
             "padded.\n\n"
             "    >>> dlbridge.from_buffer(b'abcd', shape=(2, 2)).view('uint16').tolist()\n"
             "    [[25185], [25699]]\n\n"
             "Errors: ValueError if the last dimension does not fit or has gaps, and if elements of a tensor of 0 dimensions would\n"
             "change their size; TypeError for an unknown dtype.");
PyDoc_STRVAR(flip_doc,
             "flip($self, /, axis=None)\n--\n\n"
             "Returns a view with the elements in reverse order along each dimension that axis names, or along all (None).\n\n"
             "    >>> dlbridge.from_buffer(b'abc').flip().tolist()\n"
             "    [99, 98, 97]");
PyDoc_STRVAR(broadcast_to_doc,
             "broadcast_to($self, /, shape)\n--\n\n"
             "Returns a view of the given shape, in which elements are repeated.\n\n"
             "Dimensions are matched from the last to the first. Dimensions of size 1 are repeated, and missing dimensions are\n"
             "added. The view is readonly if two indexes lead to the same element.\n\n"
             "    >>> dlbridge.from_buffer(b'ab').broadcast_to((2, 2)).tolist()\n"
             "    [[97, 98], [97, 98]]");
PyDoc_STRVAR(contiguous_doc,
             "contiguous($self, /)\n--\n\n"
             "Returns a row-major tensor without gaps: a view if the tensor is row-major already, and a copy otherwise.\n\n"
             "    >>> dlbridge.empty((2, 3), 'int8').T.contiguous().strides\n"
             "    (2, 1)");
PyDoc_STRVAR(copy_doc,
             "copy($self, /)\n--\n\n"
             "Returns a row-major, writable copy in new memory.\n\n"
             "    >>> dlbridge.from_buffer(b'abc').copy().readonly\n"
             "    False");
PyDoc_STRVAR(convert_doc,
             "convert($self, /, dtype=None, *, out=None, scale=None, shift=None, axis=-1)\n--\n\n"
             "Returns a row-major copy of another data type, or writes the elements to `out` and returns `out`.\n\n"
             "out is a tensor or an array of another library. It has the shape of the tensor and any layout. The default of dtype\n"
             "is the data type of out.\n\n"
             "Conversion to a float type gives the nearest number of that type. Conversion of a float to an integer drops its\n"
             "fraction. A float out of range becomes the nearest integer of the type; for types of fewer than 8 bits, the result\n"
             "is the same as in ml_dtypes. NaN becomes 0. An integer that is out of range of another integer type keeps only its\n"
             "low bits. A complex number that becomes real loses its imaginary part. Every number except 0 becomes True.\n\n"
             "    >>> dlbridge.from_buffer(b'abc').convert('float32').tolist()\n"
             "    [97.0, 98.0, 99.0]\n"
             "    >>> dlbridge.from_buffer(b'abc').convert(out=np.zeros(3))\n"
             "    array([97., 98., 99.])\n\n"
             "scale and shift are numbers, or sequences or 1-d arrays with one number for each index of the axis. With them, each\n"
             "element x is converted as x * scale + shift. The computation uses float32 if the tensor has bools, integers of at\n"
             "most 16 bits or floats of at most 32 bits. Otherwise it uses float64. x, scale and shift are rounded to this type\n"
             "first, then the product, then the sum. If the sum is NaN, its sign and payload are lost.\n\n"
             "    >>> dlbridge.from_buffer(b'abcd', shape=(2, 2)).convert('float32', scale=[1, 0.5], shift=-1).tolist()\n"
             "    [[96.0, 48.0], [98.0, 49.0]]\n\n"
             "Errors: BufferError for types that are not numbers, for different numbers of lanes, for memory that is not in the\n"
             "host, and for scales of complex numbers. BufferError also if out is read-only, or its producer exports a copy.\n"
             "ValueError if out has another shape or overlapping elements, for an axis that does not exist, and for a wrong number\n"
             "of scales or shifts. ValueError also if out has, or may have, memory in common with a tensor of several elements.\n"
             "(Both may be the same elements of one type, without scale and shift.) TypeError if dtype is not the type of out,\n"
             "and for a scale or shift that is not a number. After an error nothing is written.\n"
             "Threads: no other thread may write to the tensor, or use out, during the call.");
PyDoc_STRVAR(tolist_doc,
             "tolist($self, /)\n--\n\n"
             "Returns the elements as nested lists of Python numbers, or one number for a tensor of 0 dimensions.\n\n"
             "    >>> dlbridge.from_buffer(b'abcd', shape=(2, 2)).tolist()\n"
             "    [[97, 98], [99, 100]]");
PyDoc_STRVAR(item_doc,
             "item($self, /, *index)\n--\n\n"
             "Returns one element as a Python number: a bool, int, float or complex.\n\n"
             "Without an index, the tensor must have exactly one element. A single int counts the elements in row-major order.\n"
             "Several ints, or a tuple, are one index for each dimension.\n\n"
             "    >>> dlbridge.from_buffer(b'abc').item(-1)\n"
             "    99");
PyDoc_STRVAR(bytes_doc,
             "__bytes__($self, /)\n--\n\n"
             "Returns a copy of the elements in row-major order, for bytes(tensor).\n\n"
             "    >>> bytes(dlbridge.from_buffer(b'abc')[::-1])\n"
             "    b'cba'");
PyDoc_STRVAR(complex_doc,
             "__complex__($self, /)\n--\n\n"
             "Returns the element of a tensor that has only one, for complex(tensor).\n\n"
             "    >>> complex(dlbridge.from_dlpack(1 + 2j))\n"
             "    (1+2j)");
PyDoc_STRVAR(enter_doc, "__enter__($self, /)\n--\n\nReturns the tensor. ValueError if it is closed.");
PyDoc_STRVAR(exit_doc, "__exit__($self, /, *exception)\n--\n\nCloses the tensor, as close() does.");
PyDoc_STRVAR(shallow_copy_doc,
             "__copy__($self, /)\n--\n\n"
             "Returns copy(), for copy.copy.\n\n"
             "    >>> import copy\n"
             "    >>> copy.copy(dlbridge.from_buffer(b'abc')).tolist()\n"
             "    [97, 98, 99]");
PyDoc_STRVAR(dir_doc,
             "__dir__($self, /)\n--\n\n"
             "Returns the names of the attributes, without those that only arrays have.");

static PyObject *tensor_dir(PyObject *op, PyObject *unused) {
  (void)unused;
  PyObject *names = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__dir__", "O", op);
  for (PyGetSetDef *of = tensor_getset; names != NULL && of->name != NULL; of++) {
    if (of->get != get_of_array) continue;
    PyObject *none = PyObject_CallMethod(names, "remove", "s", of->name);
    if (none == NULL) Py_CLEAR(names);
    Py_XDECREF(none);
  }
  return names;
}

PyDoc_STRVAR(deepcopy_doc,
             "__deepcopy__($self, memo, /)\n--\n\n"
             "Returns copy(), for copy.deepcopy.\n\n"
             "    >>> import copy\n"
             "    >>> copy.deepcopy([dlbridge.from_buffer(b'abc')])[0].tolist()\n"
             "    [97, 98, 99]");
PyDoc_STRVAR(reduce_doc,
             "__reduce_ex__($self, protocol, /)\n--\n\n"
             "Returns the contents of a pickle: shape, data type and elements, without gaps.\n\n"
             "With protocol 5 and a buffer_callback, the elements are a PickleBuffer on the tensor's memory. pickle.loads then\n"
             "makes a tensor on the memory of the buffer in its argument buffers. The tensor is read-only if the buffer is.\n"
             "Otherwise the elements are copied into the pickle. Elements that are neither row-major nor column-major are copied\n"
             "first. A read-only tensor is read-only again after pickle.loads.\n\n"
             "    >>> import pickle\n"
             "    >>> pickle.loads(pickle.dumps(dlbridge.from_buffer(b'abc'))).tolist()\n"
             "    [97, 98, 99]\n\n"
             "Errors: ValueError if the tensor is closed; BufferError if the memory is not in the host; TypeError for handles. A\n"
             "queue of multiprocessing pickles in a thread, where nobody would see the error. Instead it sends a tensor that raises\n"
             "a ConnectionError with the cause at each use.");
PyDoc_STRVAR(dlpack_device_doc,
             "__dlpack_device__($self, /)\n--\n\nReturns the DLPack device, a tuple (type, id).\n\n"
             "    >>> dlbridge.empty(3, 'int8').__dlpack_device__()\n"
             "    (1, 0)");

PyDoc_STRVAR(astype_doc,
             "astype($self, /, dtype)\n--\n\n"
             "Returns convert(dtype), under NumPy's name. As in NumPy, None stands for float64.\n\n"
             "    >>> dlbridge.from_buffer(b'abc').astype('float32').tolist()\n"
             "    [97.0, 98.0, 99.0]");
PyDoc_STRVAR(ravel_doc,
             "ravel($self, /)\n--\n\n"
             "Returns a 1-d tensor of the elements in row-major order, as reshape(-1) does. It is a view if possible.\n\n"
             "    >>> dlbridge.empty((2, 3), 'int8').ravel().shape\n"
             "    (6,)");
PyDoc_STRVAR(squeeze_doc,
             "squeeze($self, /, axis=None)\n--\n\n"
             "Returns a view without dimensions of size 1: without all of them, or without those that axis names.\n\n"
             "    >>> dlbridge.empty((1, 3, 1), 'int8').squeeze().shape\n"
             "    (3,)\n\n"
             "Errors: ValueError for a dimension of another size.");
PyDoc_STRVAR(tobytes_doc,
             "tobytes($self, /)\n--\n\n"
             "Returns a copy of the elements in row-major order, as bytes(tensor) does.\n\n"
             "    >>> dlbridge.from_buffer(b'abc').flip().tobytes()\n"
             "    b'cba'");

PyDoc_STRVAR(format_doc,
             "__format__($self, spec, /)\n--\n\n"
             "Formats the number of a tensor of 0 dimensions. Without a specification the result is str(tensor).\n\n"
             "    >>> f'{dlbridge.from_dlpack(np.array([2.5, 3]))[0]:.2f}'\n"
             "    '2.50'\n\n"
             "Errors: TypeError for a tensor with dimensions.");

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS, dlpack_doc},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, dlpack_device_doc},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_FASTCALL | METH_KEYWORDS, array_doc},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))tensor_arrow, METH_FASTCALL | METH_KEYWORDS, arrow_doc},
    {"__jax_array__", tensor_jax_array, METH_NOARGS, jax_array_doc},
    {"numpy", tensor_numpy, METH_NOARGS, numpy_doc},
    {"reshape", (PyCFunction)(void (*)(void))tensor_reshape, METH_FASTCALL | METH_KEYWORDS, reshape_doc},
    {"transpose", tensor_transpose, METH_VARARGS, transpose_doc},
    {"swapaxes", (PyCFunction)(void (*)(void))tensor_swapaxes, METH_FASTCALL | METH_KEYWORDS, swapaxes_doc},
    {"moveaxis", (PyCFunction)(void (*)(void))tensor_moveaxis, METH_FASTCALL | METH_KEYWORDS, moveaxis_doc},
    {"flatten", tensor_flatten, METH_NOARGS, flatten_doc},
    {"view", (PyCFunction)(void (*)(void))tensor_view_as, METH_FASTCALL | METH_KEYWORDS, view_doc},
    {"ravel", tensor_ravel, METH_NOARGS, ravel_doc},
    {"squeeze", (PyCFunction)(void (*)(void))tensor_squeeze, METH_FASTCALL | METH_KEYWORDS, squeeze_doc},
    {"flip", (PyCFunction)(void (*)(void))tensor_flip, METH_FASTCALL | METH_KEYWORDS, flip_doc},
    {"broadcast_to", (PyCFunction)(void (*)(void))tensor_broadcast_to, METH_FASTCALL | METH_KEYWORDS, broadcast_to_doc},
    {"contiguous", tensor_contiguous, METH_NOARGS, contiguous_doc},
    {"copy", tensor_copy_method, METH_NOARGS, copy_doc},
    {"convert", (PyCFunction)(void (*)(void))tensor_convert, METH_FASTCALL | METH_KEYWORDS, convert_doc},
    {"astype", (PyCFunction)(void (*)(void))tensor_astype, METH_FASTCALL | METH_KEYWORDS, astype_doc},
    {"tolist", tensor_tolist, METH_NOARGS, tolist_doc},
    {"item", tensor_item, METH_VARARGS, item_doc},
    {"__complex__", tensor_complex, METH_NOARGS, complex_doc},
    {"__format__", tensor_format, METH_O, format_doc},
    {"tobytes", tensor_bytes, METH_NOARGS, tobytes_doc},
    {"__bytes__", tensor_bytes, METH_NOARGS, bytes_doc},
    {"close", tensor_close, METH_NOARGS, close_doc},
    {"on_release", tensor_on_release, METH_O, on_release_doc},
    {"__enter__", tensor_enter, METH_NOARGS, enter_doc},
    {"__exit__", tensor_close, METH_VARARGS, exit_doc},
    {"__reduce_ex__", tensor_reduce, METH_O, reduce_doc},
    {"__copy__", tensor_copy_method, METH_NOARGS, shallow_copy_doc},
    {"__deepcopy__", tensor_deepcopy, METH_O, deepcopy_doc},
    {"__dir__", tensor_dir, METH_NOARGS, dir_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(tensor_doc,
             "A view of memory, and a share in its ownership.\n\n"
             "Integers, slices, `...` and None index a tensor as in NumPy, and the result is always a view. With one int\n"
             "for each dimension, the view is a tensor of 0 dimensions, and float(), int() and item() return its number. Where\n"
             "NumPy has the same method, names are NumPy's. numpy() returns an array, which has NumPy's other methods.\n"
             "strides count elements.\n\n"
             "`t[index] = y` writes a tensor, array or number y to the memory, as in NumPy: y is repeated to the shape of\n"
             "t[index], and converted as by convert(). A number of Python or scalar of NumPy must fit the type of t: a number\n"
             "out of range of an integer type raises OverflowError, NaN raises ValueError if the type is an integer type, and a\n"
             "complex number raises TypeError if the type is real. Masked elements raise BufferError.\n"
             "If y has several elements, and has or may have memory in common with t[index], it is refused: copy y first. Only\n"
             "y and t[index] with the same elements are accepted.\n\n"
             "`==` compares the identity of two tensors, not their elements. With an array of NumPy, NumPy compares the\n"
             "elements. With numbers, and with all other arrays, buffers and collections, `==` raises TypeError.\n\n"
             "    >>> dlbridge.from_buffer(b'abcd', shape=(2, 2))[:, 1].tolist()\n"
             "    [98, 100]\n\n"
             "Tensors are made by from_dlpack, from_address, from_buffer, asarray, empty, zeros and the decoders. A Tensor is a\n"
             "DLPack producer (__dlpack__, __dlpack_device__, the C exchange API). In host memory it also supports\n"
             "Python's buffer protocol. The producer gets its memory back when the tensor is closed or freed, and\n"
             "everything exported from it has been released. The garbage collector cannot follow a share to the\n"
             "owner of the memory: if the owner refers to the tensor, only close breaks the cycle.");

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_repr, (void *)tensor_repr},
    {Py_tp_getset, tensor_getset},
    {Py_tp_methods, tensor_methods},
    {Py_tp_members, tensor_members},
    {Py_tp_iter, (void *)tensor_iterate},
    {Py_mp_subscript, (void *)tensor_subscript},
    {Py_mp_length, (void *)tensor_length},
    {Py_mp_ass_subscript, (void *)tensor_assign},
    {Py_sq_length, (void *)tensor_length},
    {Py_sq_item, (void *)tensor_item_at},
    {Py_sq_contains, (void *)tensor_contains},
    {Py_nb_bool, (void *)tensor_bool},
    {Py_nb_add, (void *)tensor_binary},
    {Py_nb_subtract, (void *)tensor_binary},
    {Py_nb_multiply, (void *)tensor_binary},
    {Py_nb_true_divide, (void *)tensor_binary},
    {Py_nb_floor_divide, (void *)tensor_binary},
    {Py_nb_remainder, (void *)tensor_binary},
    {Py_nb_matrix_multiply, (void *)tensor_binary},
    {Py_nb_power, (void *)tensor_power},
    {Py_nb_inplace_add, (void *)tensor_in_place},
    {Py_nb_inplace_subtract, (void *)tensor_in_place},
    {Py_nb_inplace_multiply, (void *)tensor_in_place},
    {Py_nb_inplace_true_divide, (void *)tensor_in_place},
    {Py_nb_inplace_floor_divide, (void *)tensor_in_place},
    {Py_nb_inplace_remainder, (void *)tensor_in_place},
    {Py_nb_inplace_matrix_multiply, (void *)tensor_in_place},
    {Py_nb_inplace_lshift, (void *)tensor_in_place},
    {Py_nb_inplace_rshift, (void *)tensor_in_place},
    {Py_nb_inplace_and, (void *)tensor_in_place},
    {Py_nb_inplace_or, (void *)tensor_in_place},
    {Py_nb_inplace_xor, (void *)tensor_in_place},
    {Py_nb_inplace_power, (void *)tensor_power_in_place},
    {Py_nb_negative, (void *)tensor_unary},
    {Py_nb_absolute, (void *)tensor_unary},
    {Py_tp_new, (void *)tensor_made},
    {Py_tp_richcompare, (void *)tensor_compare},
    {Py_tp_hash, (void *)tensor_hash},
    {Py_nb_int, (void *)tensor_int},
    {Py_nb_float, (void *)tensor_float},
    {Py_nb_index, (void *)tensor_index},
    {Py_tp_doc, (void *)tensor_doc},
    {Py_bf_getbuffer, (void *)tensor_getbuffer},
    {Py_bf_releasebuffer, (void *)tensor_releasebuffer},
    {0, NULL},
};

PyType_Spec tensor_spec = {
    .name = "dlbridge.Tensor",
    .basicsize = sizeof(Tensor),
    .itemsize = 3 * sizeof(int64_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tensor_slots,
};
