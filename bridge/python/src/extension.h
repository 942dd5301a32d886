/* extension.h: declarations that the files of the Python extension share.
 *
 * The extension implements the DLPack protocol of Python on the C core (dlpack/internal/core/core.h), without Go:
 *
 *   errors.c      exceptions
 *   arguments.c   arguments of functions and methods
 *   tensor.c      a Tensor: a view and a share of its memory
 *   type.c        the type Tensor: attributes, comparison, text, and the table of methods
 *   index.c       Tensors as sequences: length, basic indexing, iteration
 *   view.c        views in other shapes and orders
 *   values.c      elements as Python's numbers, and as other data types
 *   array.c       arrays of NumPy and JAX on the memory of a Tensor
 *   arrow.c       arrays of Apache Arrow on the memory of a Tensor
 *   producer.c    __dlpack__: exports of a Tensor
 *   capsule.c     capsules that own an export
 *   exchange.c    the C exchange API
 *   consumer.c    from_dlpack, from_buffer, from_address: the memory of others becomes Tensors
 *   wrap.c        C functions on managed tensors become Python functions on producers
 *   buffer.c      Python's buffer protocol, both ways
 *   loan.c        buffers that Python objects lend, functions of on_release, and the end of the interpreter
 *   number.c      Python's numbers as Tensors, and NumPy's as arrays
 *   pickle.c      Tensors in pickles
 *   shm.c         Tensors in memory that processes share
 *   dtype.c       names and struct letters of data types, and the type DType
 *   library.c     the Go library: loading it, its errors and counters
 *   frame.c       frames for the Go library, and lists of results
 *   tens.c        ZIO messages, by the Go library
 *   elements.c    Tensors and Elements as values of the formats, by the Go library
 *   files.c       files of tensors, by the Go library
 *   module.c      the module
 *   core.c        the C core
 *
 * Ownership is counted by the core: a Tensor has one share of its memory, and every export has another. A buffer that a
 * Python object lends is released with the GIL, until the interpreter ends (see loan_end), and functions of on_release are called
 * with it. All other memory can be released without the GIL.
 */
#ifndef DLBRIDGE_EXTENSION_H_
#define DLBRIDGE_EXTENSION_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The extension looks at the code in a dlb_error, not at the result of the function. */
#define DLB_NODISCARD
#include <core.h>
#include <stdint.h>

#if SIZEOF_VOID_P != 8
#error "dlbridge needs 64-bit pointers"
#endif

/* Free-threaded builds lock a Tensor while they take a share from it, remove its share or write its strides in bytes. In
 * other builds the GIL excludes other threads. */
#ifdef Py_GIL_DISABLED
#define LOCK(object) Py_BEGIN_CRITICAL_SECTION(object)
#define UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define LOCK(object) {
#define UNLOCK() }
#endif

/* The core's functions named ..._unlocked, and accesses to module_state.kinds and .known, must not run at the same time. The GIL ensures
 * that, and in free-threaded builds this mutex. */
#ifdef Py_GIL_DISABLED
extern PyMutex dlbcore_mutex;
#define LOCK_CORE() PyMutex_Lock(&dlbcore_mutex)
#define UNLOCK_CORE() PyMutex_Unlock(&dlbcore_mutex)
#else
#define LOCK_CORE() (void)0
#define UNLOCK_CORE() (void)0
#endif

/* The ending of a noun in an error text about n things. */
#define ENDING(n) ((n) == 1 ? "" : "s")

/* Marks a function that common calls do not reach. The compiler places it apart from the code of the fast path. */
#define COLD __attribute__((cold, noinline))

enum { MESSAGE_SIZE = 256 }; /* bytes of a buffer for an error text of the core */

/* Runs a statement that may run Python code or clear the exception. The current exception stays as it is. */
#define KEEPING_EXCEPTION(statement) \
  do { \
    PyObject *kept_type, *kept_value, *kept_traceback; \
    PyErr_Fetch(&kept_type, &kept_value, &kept_traceback); \
    statement; \
    PyErr_Restore(kept_type, kept_value, kept_traceback); \
  } while (0)

/* Runs a statement without the GIL. */
#define WITHOUT_GIL(statement) \
  do { \
    Py_BEGIN_ALLOW_THREADS; \
    statement; \
    Py_END_ALLOW_THREADS; \
  } while (0)

/* Puts a new reference, which may be NULL, into a variable, and then drops the old one, because that may run Python code. */
#define REPLACE(variable, reference) \
  do { \
    void *old_reference = (variable); \
    (variable) = (reference); \
    Py_XDECREF((PyObject *)old_reference); \
  } while (0)

/* Attributes and keywords that are used often: interned once per module. */
enum {
  NAME_DLPACK,
  NAME_DL_DEVICE,
  NAME_COPY,
  NAME_STREAM,
  NAME_REQUIRES_GRAD,
  NAME_IS_CONJ,
  NAME_IS_NEG,
  NAME_MASK,
  NAME_FILLED,
  NAME_COUNT
};

/* A method in C that takes its arguments as an array: METH_FASTCALL | METH_KEYWORDS. */
typedef PyObject *(*array_method)(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* A Python type whose objects are producers. */
typedef struct {
  PyTypeObject *type;
  const DLPackExchangeAPI *api; /* its own C exchange API, or NULL */
  array_method dlpack;          /* the C function of its __dlpack__, if no object of the type can ever have another; or NULL */
  int lazy; /* whether its tensors can require gradients, or be conjugate or negative views, as those of PyTorch can */
  int masked; /* whether its elements can be masked, as those of numpy.ma can */
  int by_buffer; /* whether its objects are asked for a buffer before __dlpack__ (lends_by_buffer) */
} producer_kind;

enum { KINDS = 8 }; /* the places of the cache module_state.kinds */

/* An object, and the data type that it names. */
typedef struct {
  PyObject *object;
  DLDataType dtype;
} known_dtype;

enum { KNOWN_DTYPES = 32 }; /* the places of the cache module_state.known */

typedef struct {
  PyTypeObject *tensor_type, *function_type, *dtype_type;
  PyObject *names[NAME_COUNT];
  PyObject *version;  /* (1, 3) */
  PyObject *ask;      /* {"max_version": (1, 3)}, the default arguments of __dlpack__ */
  PyObject *ask_names; /* the keys of ask, a tuple */
  PyObject *no_args;  /* () */
  PyObject *cpu;      /* (1, 0) */
  PyObject *numpy_array_of; /* numpy.from_dlpack, or numpy.asarray before NumPy 2.2.5; NULL until it is needed */
  int numpy_version;        /* as numpy_version in array.c returns it; 0 until it is needed */
  producer_kind kinds[KINDS];
  known_dtype known[KNOWN_DTYPES]; /* objects that name data types, and DTypes of data types */
  unsigned next_known;             /* the place of the next one, modulo KNOWN_DTYPES */
} module_state;

enum { DEFAULT_STREAM = -2 }; /* of any device, whatever its number there */

/* A view of memory and one share of it. Once other code can see the Tensor, only `share`, `weak` and the last third of `dims`
 * change. */
typedef struct {
  PyObject_VAR_HEAD
  DLTensor view;       /* strides is never NULL; in host memory byte_offset is 0, because it was added to data */
  uint64_t flags;      /* READ_ONLY and IS_SUBBYTE_TYPE_PADDED, and IS_COPIED for __dlpack__(copy=True); exports repeat them */
  int writability_unknown; /* the memory came in the legacy form, which does not state whether it may be written */
  int64_t stream;      /* of the device: the one on which the memory is ready; -1: none */
  dlbcore_share *share;   /* NULL once closed */
  PyObject *weak;      /* the list of weak references */
  PyObject *missing;   /* why another process could not hand the memory over, a str; NULL for all other Tensors */
  dlbcore_extent extent;
  int64_t dims[];      /* shape, strides, and the strides in bytes, which each request of a buffer sets */
} Tensor;

/* ---- errors.c */
/* Raise an exception, and return -1. */
int raise_error(PyObject *type, const char *format, ...);
int raise_memory(void);
/* Raise an exception, and return NULL. */
PyObject *raise_closed(const Tensor *self);
PyObject *raise_status(dlbcore_status status, const char *place, const char *message);
/* Raises an error with the text of a dlb_error behind `prefix`, and with the ways out in words of Python. The lines
 * "  in FUNCTION (FILE:LINE)", which the text of a panic in Go ends with, become notes. */
PyObject *raise_text(PyObject *type, const char *prefix, const char *text);
/* Adds a note to the pending exception, which shows it below its text. */
void add_note(const char *format, ...);
/* Checks that a Tensor is open, and in memory that the host can read. -1 with an exception, whose text names `place`. */
int check_readable(const Tensor *self, const char *place);
/* Returns the type of the exception for a code of dlbridge.h or a status of the core. */
PyObject *status_type(int32_t code);
/* Checks the description of a tensor, and sets *extent. -1 with an exception, whose text names `place`. */
int check_tensor(const DLTensor *view, uint64_t flags, dlbcore_extent *extent, const char *place);

/* ---- arguments.c */
/* Returns the C function of a bound method if it takes its arguments as an array, as NumPy's __dlpack__ does, or NULL.
 * PyObject_Vectorcall, which passes an array to any function, is not in the stable ABI of Python 3.11. */
array_method array_method_of(PyObject *method);
/* Assigns the arguments of a METH_FASTCALL | METH_KEYWORDS function: values[i] is the argument names[i], borrowed, or NULL if it
 * was not passed. names[i] is NULL for an argument that cannot be a keyword, and only the first `positional` arguments can be
 * positional. -1 with TypeError. */
int parse_arguments(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                    Py_ssize_t positional, const char *const *names, Py_ssize_t count, PyObject **values);
/* Parses the argument `copy`, NULL if it was not passed. Sets *out to -1 for None, else to 0 or 1. -1 with an exception. */
int parse_copy(PyObject *object, int *out);
/* Reports whether memory on the device `is` counts as memory on the device `wanted`. All ids of the CPU are one device. Page-locked
 * memory of the host counts as memory of the CPU; memory of the CPU does not count as page-locked. */
int is_on(DLDevice is, DLDevice wanted);
/* Returns 0 if *is counts as `wanted`; a page-locked *is becomes (1, 0) where the CPU is wanted. Otherwise raises BufferError, and
 * returns -1. */
int check_device(const char *place, DLDevice *is, DLDevice wanted);
/* Parses a stream of a device, numbered as the array API standard says: sets *out to DEFAULT_STREAM for None, NULL and the number of the
 * default stream, to -1 for no stream, or to another number. -1 with an exception for a number that the standard does not allow. */
int parse_stream(const char *place, PyObject *object, DLDevice device, int64_t *out);
/* Returns 0 if a consumer may use memory that is ready on the stream `ready` as it asks by `object`. Otherwise raises an exception, and
 * returns -1: nothing here can let one stream wait for another. */
int check_stream(const char *place, PyObject *object, DLDevice device, int64_t ready);
/* Parses a device: a tuple (type, id), or a name such as "cuda:0". -1 with an exception, whose text begins with `name`. */
int parse_device(PyObject *object, const char *name, DLDevice *out);

/* ---- tensor.c */
int tensor_check(PyObject *object);
/* Returns a Tensor of `view` without a share, which the caller must set; NULL with an exception. Shape and strides are copied;
 * strides that are NULL stand for row-major ones. */
Tensor *tensor_new(PyTypeObject *type, const DLTensor *view, uint64_t flags, int writability_unknown,
                   const dlbcore_extent *extent);
/* The same with a share, which is taken over, also after an error. */
Tensor *tensor_on_share(PyTypeObject *type, dlbcore_share *share, const DLTensor *view, uint64_t flags,
                        int writability_unknown, const dlbcore_extent *extent);
/* Returns another Tensor on the memory of a Tensor, with a share of it, which is taken over, also after an error. */
Tensor *tensor_like(const Tensor *self, dlbcore_share *share, const DLTensor *view, uint64_t flags, const dlbcore_extent *extent);
/* Returns a row-major, writable copy of a Tensor; NULL with an exception. */
Tensor *tensor_copy(Tensor *self);
/* Returns a Tensor on the same memory with another data type, and with another layout from the same start, unless `layout` is NULL: then the
 * elements must have the same size. `padded` is IS_SUBBYTE_TYPE_PADDED or 0. NULL with an exception, whose text names `place`. */
Tensor *tensor_retyped(Tensor *self, DLDataType dtype, const dlbcore_layout *layout, uint64_t padded, const char *place);
void tensor_dealloc(PyObject *self);
/* Returns a further share of the memory, which the caller must end; NULL with an exception if the Tensor is closed. */
dlbcore_share *tensor_hold(Tensor *self);
/* Reports whether the memory must not be written. Unknown writability counts as read-only. */
int tensor_read_only(const Tensor *self);
/* Returns a tuple of ints. */
PyObject *tuple_of(const int64_t *values, Py_ssize_t count);
/* Returns the first share of memory that somebody else owns, or NULL without an exception if there is no memory for the share.
 * When the last share ends, lender(ctx) is called to tell the owner; lender may be NULL. */
dlbcore_share *share_begin(void (*lender)(void *ctx), void *ctx);
/* The lenders of imported managed tensors. */
void end_versioned(void *managed);
void end_legacy(void *managed);
/* Returns the number of live imports without a function of on_release. */
int64_t held_imports(void);
/* Reports whether memory belongs to an imported managed tensor, by the lender of its share. */
int is_import(void (*lender)(void *ctx));
/* Ends a share. The current exception stays as it is, even if a release function runs. */
void share_end(dlbcore_share *share);

/* ---- type.c */
extern PyType_Spec tensor_spec;

/* ---- index.c */
PyObject *tensor_subscript(PyObject *self, PyObject *index);
int tensor_assign(PyObject *self, PyObject *index, PyObject *value);
/* Copies the elements of `from` into the memory of `to`, scaled unless `scaling` is NULL, by dlbcore_assign. -1 with an exception, whose text names `place`. */
int tensor_write(Tensor *to, Tensor *from, const dlbcore_scaling *scaling, const char *place);
Py_ssize_t tensor_length(PyObject *self);
PyObject *tensor_item_at(PyObject *self, Py_ssize_t index);
PyObject *tensor_iterate(PyObject *self);
int tensor_contains(PyObject *self, PyObject *value);
/* Raises IndexError. */
void raise_bounds(int64_t index, int32_t axis, int64_t size);

/* ---- view.c */
/* Returns a Tensor with another layout on the memory of `self`; NULL with an exception, whose text names `place`. Its flags are
 * `flags` and those of `self`. */
Tensor *tensor_view(Tensor *self, dlbcore_layout *layout, uint64_t flags, const char *place);
PyObject *tensor_transpose(PyObject *self, PyObject *args);
PyObject *tensor_swapaxes(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_moveaxis(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_reversed_axes(PyObject *self, void *closure);
PyObject *tensor_flip(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_broadcast_to(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_reshape(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_ravel(PyObject *self, PyObject *ignored);
PyObject *tensor_flatten(PyObject *self, PyObject *ignored);
PyObject *tensor_view_as(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_squeeze(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_contiguous(PyObject *self, PyObject *ignored);
PyObject *tensor_copy_method(PyObject *self, PyObject *ignored);

/* ---- values.c */
PyObject *tensor_item(PyObject *self, PyObject *args);
PyObject *tensor_tolist(PyObject *self, PyObject *ignored);
PyObject *tensor_astype(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_convert(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_int(PyObject *self);
PyObject *tensor_float(PyObject *self);
PyObject *tensor_format(PyObject *self, PyObject *spec);
PyObject *tensor_complex(PyObject *self, PyObject *ignored);
PyObject *tensor_index(PyObject *self);
int tensor_bool(PyObject *self);

/* ---- array.c */
PyObject *tensor_numpy(PyObject *self, PyObject *ignored);
PyObject *tensor_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_jax_array(PyObject *self, PyObject *ignored);
/* Returns an array of unsigned integers on the memory of a NumPy array whose elements have a type of ml_dtypes, which NumPy does
 * not export, and sets *out to that type. For any other object, returns NULL, possibly with an exception. */
PyObject *bits_of_ml_dtypes(PyObject *object, DLDataType *out);
/* Reports whether a type is NumPy's array, or a subclass, of NumPy before 2.1, where its __dlpack__ cannot say that memory may be
 * written. -1 with ImportError if NumPy is too old. */
int lends_by_buffer(module_state *state, PyTypeObject *type);

/* ---- arrow.c */
PyObject *tensor_arrow(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* ---- capsule.c */
/* The names of capsules, before and after a consumer has taken the tensor: [0] in the legacy form, [1] in the versioned form. */
extern const char capsule_names[2][24], capsule_used_names[2][24];
/* Returns a capsule that owns an export of this package: a DLManagedTensorVersioned, or a DLManagedTensor if not
 * `versioned`. Takes the export over, also after an error. */
PyObject *capsule_new(void *managed, int versioned);

/* ---- producer.c */
PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *ignored);
/* Drops the references to the arguments of earlier calls of __dlpack__. */
void forget_arguments(void);
/* Returns a managed tensor on the Tensor's memory, which the caller owns; NULL with an exception. */
DLManagedTensorVersioned *tensor_export(Tensor *self);

/* ---- exchange.c */
PyObject *exchange_capsule(void);
/* Registers the Tensor type of a module, for the Tensors that the exchange API makes; without `live`, removes it. */
void exchange_type(PyTypeObject *type, int live);

/* ---- consumer.c */
PyObject *from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *from_buffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *from_address(PyObject *module, PyObject *address);
PyObject *to_address(PyObject *module, PyObject *object);
/* Raises BufferError and returns -1 if an element of an array is masked: DLPack has no mask. */
int refuse_masked(module_state *state, PyObject *array, const char *place);
/* Reports whether the type of an object has __dlpack__. A pending exception stays as it is. */
int is_producer(module_state *state, PyObject *object);
/* Returns a Tensor of any producer, capsule or number; NULL with an exception. */
Tensor *consume(module_state *state, PyObject *producer);
/* Returns a Tensor on the memory that the argument `out` of a function stands for, a Tensor or another producer; NULL with an exception,
 * whose text names `place`. A producer that returns a copy is refused: nobody would see writes to the copy. */
Tensor *consume_out(module_state *state, PyObject *out, const char *place);
/* Returns a managed tensor on the memory of any producer or capsule, which the caller owns; NULL with an exception. If keep is
 * not NULL, *keep is set to a share of the memory, which the caller must end, or to NULL. */
DLManagedTensorVersioned *export_producer(module_state *state, PyObject *producer, dlbcore_share **keep);
/* Returns a Tensor that has taken over a managed tensor; NULL with an exception. After an error the deleter has been called,
 * unless the tensor was released or taken over before. */
Tensor *take_over(PyTypeObject *type, DLManagedTensorVersioned *managed, const char *place);
/* Reports whether a managed tensor can be at an address. */
int can_be_managed(uintptr_t address);
/* Calls the deleter. The current exception stays as it is. */
void release_quietly(DLManagedTensorVersioned *managed);

/* ---- number.c */
/* Returns a Tensor of 0 dimensions with a copy of a number of Python; NULL with an exception. For any other object, returns NULL
 * without an exception. */
Tensor *tensor_of_number(module_state *state, PyObject *object);
/* Returns numpy.asarray(object) for a scalar of NumPy, and NULL without an exception for any other object. */
PyObject *array_of_scalar(PyObject *object);
/* Reports whether an object is a scalar of NumPy, which need not be imported; -1 with an exception. */
int is_numpy_scalar(PyObject *object);

/* ---- wrap.c */
extern PyType_Spec function_spec;
PyObject *function_new(PyObject *module, PyObject *args);

/* ---- buffer.c */
/* Reports whether the elements are contiguous with the first index varying fastest. */
int column_major(const Tensor *self);
int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void tensor_releasebuffer(PyObject *self, Py_buffer *view);
PyObject *tensor_bytes(PyObject *self, PyObject *ignored);
PyObject *empty(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *zeros(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Returns a Tensor on the memory of an object with a buffer, from `offset` (in bytes) on; NULL with an exception. dtype and shape
 * may be NULL; the buffer's are then used. A read-only buffer adds READ_ONLY to `flags`. */
Tensor *tensor_on_buffer(module_state *state, PyObject *object, PyObject *dtype, PyObject *shape, Py_ssize_t offset,
                         uint64_t flags);
/* Parses a shape: an int or a sequence of ints, which may be negative. `shape` has room for CORE_RANK_MAX sizes. -1 with an
 * exception. */
int parse_shape(PyObject *object, int64_t *shape, int32_t *ndim);
/* Parses and checks the arguments shape and dtype of `empty` and others. Sets view->shape, which must have room for CORE_RANK_MAX sizes,
 * view->ndim, view->dtype and *extent. -1 with an exception, whose text names `place`. */
int parse_empty(module_state *state, const char *place, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, DLTensor *view,
                dlbcore_extent *extent);

/* ---- pickle.c */
PyObject *tensor_reduce(PyObject *self, PyObject *protocol);
PyObject *tensor_deepcopy(PyObject *self, PyObject *memo);
PyObject *pickle_bytes(PyObject *module, PyObject *tensor);
PyObject *pickle_tensor(PyObject *module, PyObject *args);
PyObject *pickle_missing(PyObject *module, PyObject *why);

/* ---- loan.c */
/* Returns the buffer of `object`, which any thread may release and free with loan_end; NULL with an exception. */
Py_buffer *loan_begin(PyObject *object, int flags);
void loan_end(void *buffer);
int64_t live_loans(void);
PyObject *tensor_on_release(PyObject *tensor, PyObject *function);
int64_t live_imports(void);

/* ---- shm.c */
PyObject *shm_zeros(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *shm_copy(PyObject *module, PyObject *tensor);
PyObject *shm_recv(PyObject *module, PyObject *args);
PyObject *shm_send(PyObject *module, PyObject *args);
PyObject *shm_pickle(PyObject *module, PyObject *args);
PyObject *shm_unpickle(PyObject *module, PyObject *args);
PyObject *shm_offer(PyObject *module, PyObject *args);
PyObject *shm_offers_made(PyObject *module, PyObject *ignored);
PyObject *shm_offer_count(PyObject *module, PyObject *args);
PyObject *shm_offers_end(PyObject *module, PyObject *ignored);
PyObject *shm_check(PyObject *module, PyObject *args);
PyObject *shm_check_handle(PyObject *module, PyObject *args);
PyObject *shm_fetch(PyObject *module, PyObject *args);
PyObject *shm_attach(PyObject *module, PyObject *args);
PyObject *shm_readonly(PyObject *module, PyObject *tensor);
PyObject *shm_is_shared(PyObject *module, PyObject *tensor);
PyObject *shm_mappings(PyObject *module, PyObject *ignored);

/* ---- loan.c: the end of the interpreter */
/* Registers a function that tells loan_end when the interpreter ends. -1 with an exception. */
int watch_end(void);

/* ---- dtype.c */
/* Sets *out to the data type that an object names: a str, or a data type of Python, NumPy or another package. -1 with an
 * exception. */
int dtype_parse(module_state *state, PyObject *object, DLDataType *out);
/* Returns an attribute of NumPy. If NumPy was not imported, or lacks it, returns NULL, possibly with an exception. */
PyObject *imported_numpy(const char *name);
PyObject *dtype_name(DLDataType dtype);
/* Returns the name of a data type as a DType, for the attribute `dtype`; NULL with an exception. */
PyObject *dtype_object(module_state *state, DLDataType dtype);
PyObject *dtype_of(PyObject *module, PyObject *object);
PyObject *dtype_aligned(PyObject *module, PyObject *op);
extern PyType_Spec dtype_spec;
/* Returns the struct letter of a data type, or NULL if it has none. */
const char *dtype_letter(DLDataType dtype);
/* Sets *out to the data type of a buffer with this format, where NULL stands for "B", and with elements of `itemsize` bytes. -1
 * with BufferError if DLPack has no such type, or the byte order is not native. */
int dtype_of_format(const char *format, Py_ssize_t itemsize, DLDataType *out);
/* Returns the size of an element in bytes, rounded up. */
int64_t dtype_itemsize(DLDataType dtype);

/* ---- frame.c */
/* Returns the list of item(ctx, 0), ..., item(ctx, count - 1), which are new references. The garbage collector does not
 * track the list before it is complete, so that no Python code can find it: Python code may run in between, and would
 * crash on an empty place. If item returns NULL, list_of returns NULL, with the exception of that item if it has set one. */
PyObject *list_of(size_t count, PyObject *(*item)(void *ctx, size_t index), void *ctx);
/* Raises the exception that a decoder raises for its argument `limit`, or returns None. */
PyObject *check_limit(PyObject *module, PyObject *limit);

/* ---- library.c */
PyObject *library_load(PyObject *module, PyObject *path);
/* Loads the library, unless it is loaded, and raises the exception that its functions would raise in a forked child. */
PyObject *library_require(PyObject *module, PyObject *ignored);
PyObject *library_counters(PyObject *module, PyObject *ignored);
/* Returns the counters of this package, and those that only the library has, which are 0 before it is loaded. */
PyObject *counters(PyObject *module, PyObject *ignored);

/* ---- tens.c */
PyObject *tens_decode(PyObject *module, PyObject *args);
PyObject *tens_encode(PyObject *module, PyObject *args);
PyObject *tens_encode_parts(PyObject *module, PyObject *args);
PyObject *tens_encode_frames(PyObject *module, PyObject *frames);
PyObject *tens_label_children(PyObject *module, PyObject *args);
PyObject *tens_decode_next(PyObject *module, PyObject *args);
PyObject *tens_decode_frames(PyObject *module, PyObject *data);

/* ---- elements.c */
PyObject *value_decode(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *value_decode_batch(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *value_encode(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *value_check(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* ---- files.c */
PyObject *file_open(PyObject *module, PyObject *args);
PyObject *file_format(PyObject *module, PyObject *file);
PyObject *file_entries(PyObject *module, PyObject *file);
PyObject *file_tensor(PyObject *module, PyObject *args);
PyObject *file_metadata(PyObject *module, PyObject *file);
PyObject *file_check(PyObject *module, PyObject *args);
PyObject *file_write(PyObject *module, PyObject *args);

#endif
