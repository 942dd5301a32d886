/* Tensors as arrays of Apache Arrow, through its C data interface
 * (https://arrow.apache.org/docs/format/CDataInterface.html): a consumer moves the two structures out of their capsules, and calls
 * their release functions, on any thread. A child may be moved out of its parent, and released after it; so each level has a block of
 * its own. */
#include "extension.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct ArrowSchema ArrowSchema;
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema **children, *dictionary;
  void (*release)(ArrowSchema *);
  void *private_data;
};

typedef struct ArrowArray ArrowArray;
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  ArrowArray **children, *dictionary;
  void (*release)(ArrowArray *);
  void *private_data;
};

enum { NULLABLE = 2, RANK_MAX = 64 };

/* What the schema or array of one dimension refers to. The innermost has no child, and the share of the memory. */
typedef struct {
  ArrowSchema child, *children[1];
  char format[24];
} schema_block;

typedef struct {
  ArrowArray child, *children[1];
  const void *buffers[2];
  dlbcore_share *share;
} array_block;

static const char schema_name[] = "arrow_schema", array_name[] = "arrow_array";
static char nothing; /* the address of a buffer without elements */

static void schema_release(ArrowSchema *schema) {
  schema_block *block = schema->private_data;
  if (block->child.release != NULL) block->child.release(&block->child);
  free(block);
  schema->release = NULL;
}

static void array_release(ArrowArray *array) {
  array_block *block = array->private_data;
  if (block->child.release != NULL) block->child.release(&block->child);
  if (block->share != NULL && dlbcore_share_leave(block->share)) dlbcore_share_end(block->share);
  free(block);
  array->release = NULL;
}

static void schema_capsule_end(PyObject *capsule) {
  ArrowSchema *schema = PyCapsule_GetPointer(capsule, schema_name);
  if (schema->release != NULL) schema->release(schema);
  free(schema);
}

static void array_capsule_end(PyObject *capsule) {
  ArrowArray *array = PyCapsule_GetPointer(capsule, array_name);
  if (array->release != NULL) KEEPING_EXCEPTION(array->release(array));
  free(array);
}

/* Describes the dimensions of a view from the last one outwards: lists of a fixed size, of lists, of numbers. Reports whether there was
 * memory for it; if not, *out needs no release. */
static int set_schema(ArrowSchema *out, const DLTensor *view, const char *letter) {
  ArrowSchema inner = {.release = NULL};
  for (int32_t d = view->ndim - 1, last = d; d >= 0; d--) {
    schema_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
      if (inner.release != NULL) inner.release(&inner);
      return 0;
    }
    block->child = inner;
    block->children[0] = &block->child;
    if (d == last) snprintf(block->format, sizeof block->format, "%s", letter);
    else snprintf(block->format, sizeof block->format, "+w:%lld", (long long)view->shape[d + 1]);
    inner = (ArrowSchema){.format = block->format, .name = d == 0 ? "" : "item", .flags = NULLABLE, .n_children = d != last,
                          .children = d != last ? block->children : NULL, .release = schema_release, .private_data = block};
  }
  *out = inner;
  return 1;
}

/* The same for the elements; `lengths` has their number in each level. Takes the share over, even if memory is short. */
static int set_array(ArrowArray *out, const DLTensor *view, const int64_t *lengths, dlbcore_share *share) {
  ArrowArray inner = {.release = NULL};
  for (int32_t d = view->ndim - 1, last = d; d >= 0; d--) {
    array_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
      if (inner.release != NULL) inner.release(&inner);
      else share_end(share);
      return 0;
    }
    block->child = inner;
    block->children[0] = &block->child;
    if (d == last) {
      block->share = share;
      block->buffers[1] = lengths[d] > 0 ? view->data : &nothing;
    }
    inner = (ArrowArray){.length = lengths[d], .n_buffers = d == last ? 2 : 1, .n_children = d != last, .buffers = block->buffers,
                         .children = d != last ? block->children : NULL, .release = array_release, .private_data = block};
  }
  *out = inner;
  return 1;
}

/* Returns the format of Arrow for a data type, or NULL. (Arrow has bool too, with a bit for each element.) */
static const char *letter_of(DLDataType dtype) {
  static const char *const letters[3][4] = {[kDLInt] = {"c", "s", "i", "l"}, [kDLUInt] = {"C", "S", "I", "L"}, [kDLFloat] = {NULL, "e", "f", "g"}};
  if (dtype.code > kDLFloat || dtype.lanes != 1) return NULL;
  for (int i = 0; i < 4; i++)
    if (dtype.bits == 8 << i) return letters[dtype.code][i];
  return NULL;
}

static PyObject *refuse_dtype(DLDataType dtype) {
  if (dtype.code == kDLBool && dtype.lanes == 1)
    return PyErr_Format(PyExc_BufferError, "dlbridge: __arrow_c_array__: Arrow stores a bool as one bit; pass tensor.numpy(), which pyarrow "
                                           "and polars copy into bits");
  PyObject *name = dtype_name(dtype);
  if (name != NULL)
    PyErr_Format(PyExc_BufferError, "dlbridge: __arrow_c_array__: Arrow has no type %U; use tensor.convert() to get a type of Arrow", name);
  Py_XDECREF(name);
  return NULL;
}

/* Sets the number of elements of each level. -1 with BufferError for a shape that Arrow lacks. */
static int set_lengths(const DLTensor *view, int64_t *lengths) {
  if (view->ndim == 0 || view->ndim > RANK_MAX)
    return raise_error(PyExc_BufferError, "dlbridge: __arrow_c_array__: the tensor has %d dimensions, not 1 to %d; reshape it",
                       (int)view->ndim, RANK_MAX);
  for (int32_t d = 0; d < view->ndim; d++) {
    lengths[d] = view->shape[d];
    if (d > 0 && (view->shape[d] > INT32_MAX || __builtin_mul_overflow(lengths[d - 1], view->shape[d], &lengths[d])))
      return raise_error(PyExc_BufferError, "dlbridge: __arrow_c_array__: shape[%d] is %lld, too large for a list of Arrow; reshape it", (int)d,
                         (long long)view->shape[d]);
  }
  return 0;
}

/* Returns the two capsules of a row-major, aligned Tensor. */
static PyObject *capsules_of(Tensor *self, const char *letter, const int64_t *lengths) {
  ArrowSchema *schema = calloc(1, sizeof *schema);
  ArrowArray *array = calloc(1, sizeof *array);
  PyObject *described = schema == NULL ? NULL : PyCapsule_New(schema, schema_name, schema_capsule_end);
  PyObject *elements = array == NULL ? NULL : PyCapsule_New(array, array_name, array_capsule_end);
  PyObject *both = NULL;
  if (described == NULL) free(schema);
  if (elements == NULL) free(array);
  if (described != NULL && elements != NULL) {
    dlbcore_share *share = tensor_hold(self);
    if (share == NULL) both = NULL;
    else if (!set_array(array, &self->view, lengths, share) || !set_schema(schema, &self->view, letter)) PyErr_NoMemory();
    else both = PyTuple_Pack(2, described, elements);
  } else if (!PyErr_Occurred()) {
    PyErr_NoMemory();
  }
  Py_XDECREF(elements);
  Py_XDECREF(described);
  return both;
}

PyObject *tensor_arrow(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
  static const char *const names[] = {"requested_schema"};
  Tensor *self = (Tensor *)op;
  PyObject *ignored, *result = NULL; /* a producer may return another type than was asked for */
  int64_t lengths[RANK_MAX];
  if (parse_arguments("__arrow_c_array__", args, nargs, kwnames, 1, names, 1, &ignored) < 0) return NULL;
  if (check_readable(self, "__arrow_c_array__") < 0) return NULL;
  const char *letter = letter_of(self->view.dtype);
  if (letter == NULL) return refuse_dtype(self->view.dtype);
  if (set_lengths(&self->view, lengths) < 0) return NULL;
  const int aligned = (uintptr_t)self->view.data % (uintptr_t)dtype_itemsize(self->view.dtype) == 0;
  Tensor *dense = self->extent.row_major && aligned ? (Tensor *)Py_NewRef(op) : tensor_copy(self);
  if (dense != NULL) result = capsules_of(dense, letter, lengths);
  Py_XDECREF((PyObject *)dense);
  return result;
}
