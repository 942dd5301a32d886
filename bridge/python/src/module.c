#include "extension.h"

PyDoc_STRVAR(from_dlpack_doc,
             "from_dlpack($module, producer, /, *, device=None, copy=None, stream=None)\n--\n\n"
             "Returns a Tensor on the memory of any DLPack producer or capsule, without copying.\n\n"
             "producer is an object with __dlpack__, a capsule named dltensor_versioned or dltensor, which is\n"
             "consumed, or a number of Python or NumPy, which is copied into a Tensor of 0 dimensions. device is\n"
             "the device that the memory must be on: (type, id), or a name such as 'cpu' or 'cuda:0'. With 'cpu',\n"
             "page-locked memory of the host is accepted too. With copy=None the producer decides whether it copies.\n\n"
             "copy=True always returns a copy. Memory of the host is copied here, to the CPU. Only the producer can make any other\n"
             "copy; BufferError if the tensor it returns lies in the producer's own memory. The producer is asked for its memory\n"
             "first, and for a copy if it refuses.\n\n"
             "copy=False never copies, as the array API standard has it, and is passed to the producer. BufferError if the\n"
             "producer states by the flag IS_COPIED that it has copied all the same. A producer that copies without this flag\n"
             "breaks the standard, and cannot be detected.\n\n"
             "stream is passed to __dlpack__ of the producer, which lets it wait until the memory is ready. As in the array\n"
             "API standard it is the number of a stream of the device. For CUDA this is 1 (the default stream), 2 (the default\n"
             "stream of the thread) or an address; for ROCm 0 (the default stream) or an address. It is -1 if the caller waits for\n"
             "the memory itself, and None on the CPU. None means the default stream of the device; a Tensor that has a stream\n"
             "already keeps it. The Tensor, and all that is made from it, can then be used on that stream only: a consumer that\n"
             "asks for another gets a BufferError. The result of a function of wrap is ready on the default stream. Without a\n"
             "stream, the C exchange API of the producer is used while the producer works on the default stream\n"
             "(current_work_stream), because that API does not wait.\n\n"
             "    >>> dlbridge.from_dlpack(np.arange(3)).tolist()\n"
             "    [0, 1, 2]\n\n"
             "An array with masked elements raises BufferError. The unit of a quantity is not part of the Tensor.\n\n"
             "Ownership: the export of the producer is held until the Tensor and everything made from it is gone.\n"
             "A legacy capsule cannot state whether its memory may be written; the Tensor is then readonly.\n"
             "Errors: BufferError for a data type, device or DLPack version that is not supported; ValueError for a\n"
             "malformed or consumed tensor; AttributeError if the object has no __dlpack__. After an error a capsule\n"
             "still owns its tensor, unless the major version is not 1: then its deleter has been called.");
PyDoc_STRVAR(from_address_doc,
             "from_address($module, address, /)\n--\n\n"
             "Takes over the DLManagedTensorVersioned at an address, such as the result of a C function.\n\n"
             "Ownership: moves to the Tensor. If the tensor is refused, its deleter has been called once. An address\n"
             "that cannot be that of a managed tensor (in the first page or the upper half of the address space, or\n"
             "not a multiple of 8) raises ValueError and is not accessed.\n"
             "An export of this package, such as the result of to_address, raises ValueError and is not changed if\n"
             "it was released or taken over before. This cannot be detected for exports of other libraries, for\n"
             "exports that another library has taken over, and once a later export has the same address, which can\n"
             "happen after 64 others. Therefore use each address only once.\n"
             "Errors: as from_dlpack.\n\n"
             "    >>> dlbridge.from_address(dlbridge.to_address(np.arange(3))).tolist()\n"
             "    [0, 1, 2]");
PyDoc_STRVAR(to_address_doc,
             "to_address($module, producer, /)\n--\n\n"
             "Returns the address of a new DLManagedTensorVersioned on the producer's memory.\n\n"
             "Ownership: the caller owns it, and passes it to a C function, which calls the deleter, or to\n"
             "from_address. Errors: as from_dlpack; BufferError for a Tensor that is not ready on the default stream.\n\n"
             "    >>> dlbridge.from_address(dlbridge.to_address(np.arange(3))).shape\n"
             "    (3,)");
PyDoc_STRVAR(from_buffer_doc,
             "from_buffer($module, object, /, dtype=None, shape=None, *, offset=0)\n--\n\n"
             "Returns a Tensor on the memory of an object with a buffer, without copying.\n\n"
             "dtype, shape (in elements) and offset (in bytes) select and reinterpret bytes of a row-major buffer. With a\n"
             "shape, the buffer may be larger than the Tensor. The Tensor is readonly if the buffer is. dtype is a name,\n"
             "such as 'float32' or '<f4', or a type of Python, NumPy, PyTorch or others, such as float or numpy.int8.\n\n"
             "    >>> dlbridge.from_buffer(b'abcdef', 'uint8', (2, 2), offset=1).tolist()\n"
             "    [[98, 99], [100, 101]]\n\n"
             "Ownership: the buffer is held until the Tensor and everything exported from it is gone. It is then\n"
             "released on the thread that ends the last share, with the GIL. While the interpreter ends, a thread\n"
             "without the GIL does not release the buffer. Errors: BufferError for a format or strides that DLPack\n"
             "cannot carry; ValueError if dtype and shape do not match the size of the buffer.");
PyDoc_STRVAR(empty_doc,
             "empty($module, shape, dtype)\n--\n\n"
             "Returns a row-major, writable Tensor of uninitialised CPU memory, aligned to 256 bytes.\n\n"
             "shape is an int or a sequence of ints. dtype is a name or a type, as in from_buffer.\n\n"
             "    >>> dlbridge.empty((2, 3), float).dtype\n"
             "    'float64'\n\n"
             "Errors: ValueError for a negative or too large size, or an unknown name; TypeError for other arguments; MemoryError.");
PyDoc_STRVAR(zeros_doc,
             "zeros($module, shape, dtype)\n--\n\n"
             "Returns a row-major, writable Tensor of CPU memory that is all zeros, aligned to 256 bytes.\n\n"
             "The arguments are those of empty.\n\n"
             "    >>> dlbridge.zeros((2, 3), 'int8').tolist()\n"
             "    [[0, 0, 0], [0, 0, 0]]\n\n"
             "Errors: those of empty.");
PyDoc_STRVAR(counters_doc,
             "counters($module, /)\n--\n\n"
             "Returns the numbers of live objects as a dict.\n\n"
             "exports are managed tensors whose deleter has not been called; imports are managed tensors that were taken\n"
             "over and not yet released; loans are buffers of Python objects; double_deletes are repeated calls of\n"
             "deleters, which were ignored. These four count what this package does. The others count what the Go\n"
             "library does, and are 0 before it is loaded: messages and elements that were not freed yet, open files, and\n"
             "pinned_bytes, the bytes of Go's memory that exports keep pinned. Except for loans, the names are those\n"
             "of dlb_counters in dlbridge.h.\n\n"
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
