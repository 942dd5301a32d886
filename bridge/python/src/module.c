#include "extension.h"

PyDoc_STRVAR(from_dlpack_doc,
             "from_dlpack($module, producer, /, *, device=None, copy=None, stream=None)\n--\n\n"
             "Returns a Tensor on the memory of any DLPack producer or capsule, without copying.\n\n"
             "producer is an object with __dlpack__, a capsule, or a number of Python or NumPy. A capsule, named\n"
             "dltensor_versioned or dltensor, is consumed. A number is copied into a Tensor of 0 dimensions. device is\n"
             "the device that must hold the memory: (type, id), or a name such as 'cpu' or 'cuda:0'. With 'cpu',\n"
             "page-locked memory of the host is accepted too. With copy=None the producer decides whether it copies.\n\n"
             "copy=True always returns a copy. dlbridge first asks the producer for its memory, and copies memory of the host to\n"
             "the CPU itself. Only the producer can make other copies. If the producer refuses to export its memory, dlbridge asks\n"
             "for a copy. A copy that lies in the producer's own memory raises BufferError.\n\n"
             "copy=False never copies, as the array API standard requires, and is passed to the producer. If the producer still\n"
             "copies and sets the flag IS_COPIED, from_dlpack raises BufferError. A producer that copies without this flag\n"
             "breaks the standard, and cannot be detected.\n\n"
             "stream is passed to __dlpack__ of the producer, so that the producer can wait until the memory is ready. As in the\n"
             "array API standard, it is the number of a stream of the device. A stream of CUDA is 1 (the default stream), 2 (the\n"
             "default stream of the thread) or an address. A stream of ROCm is 0 (the default stream) or an address. stream is -1\n"
             "if the caller waits for the memory, and None on the CPU. On a device, None means the default stream, except that a\n"
             "Tensor keeps the stream it has. The new Tensor, and everything made from it, can be used only on its stream: a\n"
             "consumer that asks for another stream gets a BufferError. A function of wrap returns a tensor that is ready on the\n"
             "default stream. Without a stream, dlbridge uses the C exchange API of the producer only while the producer works on\n"
             "the default stream (current_work_stream), because that API does not wait.\n\n"
             "    >>> dlbridge.from_dlpack(np.arange(3)).tolist()\n"
             "    [0, 1, 2]\n\n"
             "An array with masked elements raises BufferError. The unit of a quantity is not part of the Tensor.\n\n"
             "Ownership: the export of the producer is held until the Tensor and everything made from it are gone.\n"
             "A legacy capsule cannot state whether its memory may be written, so its Tensor is readonly.\n"
             "Errors: BufferError for a data type, device or DLPack version that is not supported; ValueError for a\n"
             "malformed or consumed tensor; AttributeError if the object has no __dlpack__. After an error a capsule\n"
             "still owns its tensor. There is one exception: if the major version is not 1, the deleter has been called.");
PyDoc_STRVAR(from_address_doc,
             "from_address($module, address, /)\n--\n\n"
             "Takes over the DLManagedTensorVersioned at an address, such as the result of a C function.\n\n"
             "Ownership: ownership moves to the Tensor. If the managed tensor is refused, its deleter has been called\n"
             "once. An impossible address raises ValueError and is not accessed: an address in the first page or the\n"
             "upper half of the address space, or one that is not a multiple of 8.\n"
             "If an export of this package, such as the result of to_address, was released or taken over before,\n"
             "from_address raises ValueError and does not change it. This is not detected for exports of other\n"
             "libraries, nor for exports that another library has taken over. Nor is it detected when a later export\n"
             "has the same address, which can happen after 64 others. Therefore use each address only once.\n"
             "Errors: those of from_dlpack.\n\n"
             "    >>> dlbridge.from_address(dlbridge.to_address(np.arange(3))).tolist()\n"
             "    [0, 1, 2]");
PyDoc_STRVAR(to_address_doc,
             "to_address($module, producer, /)\n--\n\n"
             "Returns the address of a new DLManagedTensorVersioned on the producer's memory.\n\n"
             "Ownership: the caller owns the managed tensor, and passes the address to from_address, or to a C function\n"
             "that calls the deleter. Errors: those of from_dlpack; BufferError for a Tensor that is not ready on the\n"
             "default stream.\n\n"
             "    >>> dlbridge.from_address(dlbridge.to_address(np.arange(3))).shape\n"
             "    (3,)");
PyDoc_STRVAR(from_buffer_doc,
             "from_buffer($module, object, /, dtype=None, shape=None, *, offset=0)\n--\n\n"
             "Returns a Tensor on the memory of an object with a buffer, without copying.\n\n"
             "dtype, shape (in elements) and offset (in bytes) select bytes of a row-major buffer and their type. If shape\n"
             "is given, the buffer may be larger than the Tensor. The Tensor is readonly if the buffer is. dtype is a name,\n"
             "such as 'float32' or '<f4', or a type of Python, NumPy, PyTorch and others, such as float or numpy.int8.\n\n"
             "    >>> dlbridge.from_buffer(b'abcdef', 'uint8', (2, 2), offset=1).tolist()\n"
             "    [[98, 99], [100, 101]]\n\n"
             "Ownership: the buffer is held until the Tensor and everything exported from it are gone. The thread that\n"
             "ends the last share then releases the buffer, with the GIL. While the interpreter ends, a thread without\n"
             "the GIL does not release the buffer. Errors: BufferError for a format or strides that DLPack cannot carry;\n"
             "ValueError if dtype and shape do not match the size of the buffer.");
PyDoc_STRVAR(empty_doc,
             "empty($module, shape, dtype)\n--\n\n"
             "Returns a row-major, writable Tensor of uninitialised CPU memory, aligned to 256 bytes.\n\n"
             "shape is an int or a sequence of ints. dtype is a name or a type, as in from_buffer.\n\n"
             "    >>> dlbridge.empty((2, 3), float).dtype\n"
             "    'float64'\n\n"
             "Errors: ValueError for a negative or too large size, or an unknown name; TypeError for other arguments; MemoryError.");
PyDoc_STRVAR(zeros_doc,
             "zeros($module, shape, dtype)\n--\n\n"
             "Returns a row-major, writable Tensor of zeros in CPU memory, aligned to 256 bytes.\n\n"
             "The arguments are those of empty.\n\n"
             "    >>> dlbridge.zeros((2, 3), 'int8').tolist()\n"
             "    [[0, 0, 0], [0, 0, 0]]\n\n"
             "Errors: those of empty.");
PyDoc_STRVAR(counters_doc,
             "counters($module, /)\n--\n\n"
             "Returns the numbers of live objects as a dict.\n\n"
             "exports are managed tensors whose deleter has not been called. imports are managed tensors that were taken\n"
             "over and not yet released. loans are buffers of Python objects. double_deletes are repeated calls of deleters,\n"
             "which were ignored. These four count objects of this package. The other numbers count objects of the Go library,\n"
             "and are 0 before it is loaded: messages and elements that were not freed yet, open files, and pinned_bytes, the\n"
             "bytes of Go's memory that exports keep pinned. Except for loans, the names are those of dlb_counters in\n"
             "dlbridge.h.\n\n"
             "    >>> sorted(dlbridge.counters())[:3]\n"
             "    ['double_deletes', 'elements', 'exports']");

#ifdef Py_GIL_DISABLED
PyMutex dlbcore_mutex;
#endif

#define FASTCALL(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
#define POSITIONAL(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL

static PyMethodDef functions[] = {
    {"from_dlpack", FASTCALL(from_dlpack), from_dlpack_doc},
    {"from_address", from_address, METH_O, from_address_doc},
    {"to_address", to_address, METH_O, to_address_doc},
    {"from_buffer", FASTCALL(from_buffer), from_buffer_doc},
    {"empty", FASTCALL(empty), empty_doc},
    {"zeros", FASTCALL(zeros), zeros_doc},
    {"load", library_load, METH_O, NULL},
    {"counters", counters, METH_NOARGS, counters_doc},
    {"dtype_of", dtype_of, METH_O, NULL},
    {"aligned", dtype_aligned, METH_O, NULL},
    {"pickle_bytes", pickle_bytes, METH_O, NULL},
    {"pickle_tensor", pickle_tensor, METH_VARARGS, NULL},
    {"pickle_missing", pickle_missing, METH_O, NULL},
    {"function", function_new, METH_VARARGS, NULL},
    {"tens_decode", tens_decode, METH_VARARGS, NULL},
    {"tens_encode", tens_encode, METH_VARARGS, NULL},
    {"tens_encode_parts", tens_encode_parts, METH_VARARGS, NULL},
    {"tens_encode_frames", tens_encode_frames, METH_O, NULL},
    {"tens_label_children", tens_label_children, METH_VARARGS, NULL},
    {"tens_decode_next", tens_decode_next, METH_VARARGS, NULL},
    {"tens_decode_frames", tens_decode_frames, METH_O, NULL},
    {"value_decode", POSITIONAL(value_decode), NULL},
    {"value_decode_batch", POSITIONAL(value_decode_batch), NULL},
    {"value_encode", POSITIONAL(value_encode), NULL},
    {"value_check", POSITIONAL(value_check), NULL},
    {"file_open", file_open, METH_VARARGS, NULL},
    {"file_format", file_format, METH_O, NULL},
    {"file_entries", file_entries, METH_O, NULL},
    {"file_tensor", file_tensor, METH_VARARGS, NULL},
    {"file_metadata", file_metadata, METH_O, NULL},
    {"file_check", file_check, METH_VARARGS, NULL},
    {"file_write", file_write, METH_VARARGS, NULL},
#ifdef __linux__
    {"shm_zeros", FASTCALL(shm_zeros), NULL},
    {"shm_copy", shm_copy, METH_O, NULL},
    {"shm_recv", shm_recv, METH_VARARGS, NULL},
    {"shm_send", shm_send, METH_VARARGS, NULL},
    {"shm_pickle", shm_pickle, METH_VARARGS, NULL},
    {"shm_unpickle", shm_unpickle, METH_VARARGS, NULL},
    {"shm_offer", shm_offer, METH_VARARGS, NULL},
    {"shm_offers_made", shm_offers_made, METH_NOARGS, NULL},
    {"shm_offer_count", shm_offer_count, METH_VARARGS, NULL},
    {"shm_offers_end", shm_offers_end, METH_NOARGS, NULL},
    {"shm_check", shm_check, METH_VARARGS, NULL},
    {"shm_check_handle", shm_check_handle, METH_VARARGS, NULL},
    {"shm_fetch", shm_fetch, METH_VARARGS, NULL},
    {"shm_attach", shm_attach, METH_VARARGS, NULL},
    {"shm_readonly", shm_readonly, METH_O, NULL},
    {"shm_is_shared", shm_is_shared, METH_O, NULL},
    {"shm_mappings", shm_mappings, METH_NOARGS, NULL},
#endif
    {"library_counters", library_counters, METH_NOARGS, NULL},
    {"require_library", library_require, METH_NOARGS, NULL},
    {"check_limit", check_limit, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static const char *const name_texts[NAME_COUNT] = {
    [NAME_DLPACK] = "__dlpack__",
    [NAME_DL_DEVICE] = "dl_device",
    [NAME_COPY] = "copy",
    [NAME_STREAM] = "stream",
    [NAME_REQUIRES_GRAD] = "requires_grad",
    [NAME_IS_CONJ] = "is_conj",
    [NAME_IS_NEG] = "is_neg",
    [NAME_MASK] = "mask",
    [NAME_FILLED] = "filled",
};

static int execute(PyObject *module) {
  /* Other threads release buffers through PyGILState, which supports only the main interpreter. */
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
    return raise_error(PyExc_ImportError, "dlbridge: the module cannot be imported in a subinterpreter");
  module_state *state = PyModule_GetState(module);
  for (int i = 0; i < NAME_COUNT; i++) {
    state->names[i] = PyUnicode_InternFromString(name_texts[i]);
    if (state->names[i] == NULL) return -1;
  }
  state->no_args = PyTuple_New(0);
  state->cpu = Py_BuildValue("(ii)", (int)kDLCPU, 0);
  state->version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  state->ask = PyDict_New();
  state->ask_names = Py_BuildValue("(N)", PyUnicode_InternFromString("max_version"));
  if (state->no_args == NULL || state->cpu == NULL || state->version == NULL || state->ask == NULL ||
      state->ask_names == NULL ||
      PyDict_SetItemString(state->ask, "max_version", state->version) < 0)
    return -1;
  PyObject *type = PyType_FromModuleAndSpec(module, &tensor_spec, NULL);
  if (type == NULL) return -1;
  state->tensor_type = (PyTypeObject *)type;
  /* PyObject_SetAttr refuses an immutable type, and type slots can only make descriptors. PyObject_GenericSetAttr has
   * no such check. It is safe here, because the type is not in use yet. */
  PyObject *api = exchange_capsule(), *name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  int failed = api == NULL || name == NULL || PyObject_GenericSetAttr(type, name, api) < 0;
  PyType_Modified(state->tensor_type);
  Py_XDECREF(name);
  Py_XDECREF(api);
  if (failed || PyModule_AddType(module, state->tensor_type) < 0) return -1;
  state->function_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &function_spec, NULL);
  state->dtype_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &dtype_spec, (PyObject *)&PyUnicode_Type);
  if (state->function_type == NULL || state->dtype_type == NULL || PyModule_AddType(module, state->dtype_type) < 0 || watch_end() < 0)
    return -1;
  exchange_type(state->tensor_type, 1);
  return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  module_state *state = PyModule_GetState(module);
  Py_VISIT(state->tensor_type);
  Py_VISIT(state->function_type);
  Py_VISIT(state->ask);
  Py_VISIT(state->numpy_array_of);
  Py_VISIT(state->dtype_type);
  for (int i = 0; i < KINDS; i++) Py_VISIT(state->kinds[i].type);
  for (int i = 0; i < KNOWN_DTYPES; i++) Py_VISIT(state->known[i].object);
  return 0;
}

/* Code that runs while the collector clears other objects may still call functions of the module. Therefore the state
 * stays valid until the module is freed. The types in the state do not keep the module from being freed, because the
 * collector clears their references to it. */
static int clear(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  if (state->tensor_type != NULL) {
    exchange_type(state->tensor_type, 0);
    forget_arguments();
  }
  return 0;
}

static void free_module(void *module) {
  module_state *state = PyModule_GetState(module);
  clear(module);
  Py_CLEAR(state->tensor_type);
  Py_CLEAR(state->function_type);
  Py_CLEAR(state->ask);
  Py_CLEAR(state->ask_names);
  Py_CLEAR(state->version);
  Py_CLEAR(state->no_args);
  Py_CLEAR(state->cpu);
  Py_CLEAR(state->numpy_array_of);
  Py_CLEAR(state->dtype_type);
  for (int i = 0; i < NAME_COUNT; i++) Py_CLEAR(state->names[i]);
  for (int i = 0; i < KINDS; i++) Py_CLEAR(state->kinds[i].type);
  for (int i = 0; i < KNOWN_DTYPES; i++) Py_CLEAR(state->known[i].object);
}

/* A slot of Python 3.12. It is set at run time, because one binary serves all versions from 3.11 on, and is compiled with headers that
 * lack it. There is no Py_mod_gil: the extension was never tested without the GIL, so a free-threaded Python enables it. */
enum { MOD_MULTIPLE_INTERPRETERS = 3 };

static PyModuleDef_Slot slots[3] = {{Py_mod_exec, (void *)execute}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dlbridge._core",
    .m_doc = "The DLPack protocol of dlbridge, in C. Use it through the package dlbridge.",
    .m_size = sizeof(module_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__core(void) {
  void *not_supported = (void *)0;
  if (Py_Version >= 0x030C0000) slots[1] = (PyModuleDef_Slot){MOD_MULTIPLE_INTERPRETERS, not_supported};
  return PyModuleDef_Init(&definition);
}
