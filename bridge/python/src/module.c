#include "extension.h"

PyDoc_STRVAR(from_dlpack_doc,
             "from_dlpack($module, producer, /, *, device=None, copy=None)\n--\n\n"
             "A Tensor on the memory of any DLPack producer or capsule, without copying.\n\n"
             "producer: an object with __dlpack__, or a capsule named dltensor_versioned or dltensor, which\n"
             "is consumed. device: (type, id) or 'cpu', where the memory must be. copy: True for new memory,\n"
             "False to refuse any copy, None to leave it to the producer.\n\n"
             "Ownership: of what the producer exported, until the Tensor and everything made of it is gone.\n"
             "Capsules of before DLPack 1.0 cannot say whether their memory may be written: it is readonly.\n"
             "Errors: BufferError for what cannot be carried (data type, device, a DLPack version that is\n"
             "not 1.x: its deleter has been called), ValueError for a malformed or consumed tensor, TypeError\n"
             "for what is no producer. After one of them a capsule still owns its tensor.");
PyDoc_STRVAR(from_address_doc,
             "from_address($module, address, /)\n--\n\n"
             "Take over the DLManagedTensorVersioned at an address, such as a C function returned.\n\n"
             "Ownership: moves to the Tensor. When the tensor is refused, its deleter has been called, once;\n"
             "an address that can be none (in the first or last page, or not a multiple of 8) is a ValueError\n"
             "and is not touched.\n"
             "An export of this package, such as to_address returns, is refused with a ValueError, and not\n"
             "touched, if it was released or has been taken over already. That cannot be seen of the exports of\n"
             "other libraries, of one that another library has taken over, and of one whose place in memory has\n"
             "been given to a later export, after at least 64 others: use each address once.\n"
             "Errors: as from_dlpack.");
PyDoc_STRVAR(to_address_doc,
             "to_address($module, producer, /)\n--\n\n"
             "The address of a new DLManagedTensorVersioned on the producer's memory.\n\n"
             "Ownership: the caller's, to hand to a C function whose deleter call ends it, or back to\n"
             "from_address. Errors: as from_dlpack.");
PyDoc_STRVAR(from_buffer_doc,
             "from_buffer($module, object, /, dtype=None, shape=None)\n--\n\n"
             "A Tensor on the memory of an object with a buffer, without copying.\n\n"
             "dtype and shape (in elements) read the bytes of a row-major buffer anew. The Tensor is readonly\n"
             "where the buffer is.\n\n"
             "Ownership: the buffer is held, and given back (on whatever thread, with the GIL) when the Tensor\n"
             "and everything exported from it is gone. While the interpreter ends, a thread that does not have\n"
             "the GIL leaves the buffer to the system. Errors: BufferError for a format or strides that DLPack\n"
             "cannot carry, ValueError for sizes that do not fit.");
PyDoc_STRVAR(empty_doc,
             "empty($module, shape, dtype)\n--\n\n"
             "A Tensor of new, uninitialised memory on the CPU: 256-byte aligned, row-major, writable.\n\n"
             "shape: an int or a sequence of ints, in elements. dtype: a str such as 'float32'.");
PyDoc_STRVAR(load_doc,
             "load($module, path, /)\n--\n\n"
             "Load the Go library that serves the codecs, before the first codec call does.\n\n"
             "path: a libdlbridge, or any C shared library of Go that contains dlbridge's C interface. By\n"
             "default it is $DLBRIDGE_LIBRARY, else the one in this package. Loading starts the Go runtime,\n"
             "which does not survive a fork. Errors: OSError when it cannot be loaded, RuntimeError when\n"
             "another one already is.");
PyDoc_STRVAR(counters_doc,
             "counters($module, /)\n--\n\n"
             "What is alive, a dict: exports (managed tensors whose deleter has not run), imports (managed\n"
             "tensors taken over and not given back), loans (buffers of Python objects), and double_deletes\n"
             "(deleter calls that came twice, and were ignored).");

#ifdef Py_GIL_DISABLED
PyMutex turn;
#endif

static PyObject *counters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
  return Py_BuildValue("{sLsLsLsK}", "exports", (long long)core_live_exports(), "imports",
                       (long long)live_imports(), "loans", (long long)live_loans(), "double_deletes",
                       (unsigned long long)core_double_deletes());
}

#define FASTCALL(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"from_dlpack", FASTCALL(from_dlpack), from_dlpack_doc},
    {"from_address", from_address, METH_O, from_address_doc},
    {"to_address", to_address, METH_O, to_address_doc},
    {"from_buffer", FASTCALL(from_buffer), from_buffer_doc},
    {"empty", FASTCALL(empty), empty_doc},
    {"load", library_load, METH_O, load_doc},
    {"counters", counters, METH_NOARGS, counters_doc},
    {"function", function_new, METH_VARARGS, NULL},
    {"tens_decode", tens_decode, METH_VARARGS, NULL},
    {"tens_encode", tens_encode, METH_VARARGS, NULL},
    {"tens_encode_parts", tens_encode_parts, METH_VARARGS, NULL},
    {"tens_encode_frames", tens_encode_frames, METH_O, NULL},
    {"tens_decode_frames", tens_decode_frames, METH_VARARGS, NULL},
    {"decthings_decode", decthings_decode, METH_VARARGS, NULL},
    {"decthings_decode_batch", decthings_decode_batch, METH_VARARGS, NULL},
    {"decthings_encode", decthings_encode, METH_VARARGS, NULL},
    {"decthings_check", decthings_check, METH_VARARGS, NULL},
    {"tensorflow_decode", tensorflow_decode, METH_VARARGS, NULL},
    {"tensorflow_encode", tensorflow_encode, METH_VARARGS, NULL},
    {"library_counters", library_counters, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static const char *const name_texts[NAME_COUNT] = {
    [NAME_STREAM] = "stream", [NAME_MAX_VERSION] = "max_version", [NAME_DL_DEVICE] = "dl_device",
    [NAME_COPY] = "copy",     [NAME_DEVICE] = "device",           [NAME_DTYPE] = "dtype",
    [NAME_SHAPE] = "shape",   [NAME_DLPACK] = "__dlpack__",
    [NAME_REQUIRES_GRAD] = "requires_grad", [NAME_IS_CONJ] = "is_conj", [NAME_IS_NEG] = "is_neg",
};

static int execute(PyObject *module) {
  /* What other threads give back goes through PyGILState, which knows the main interpreter alone. */
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "dlbridge cannot be imported in a subinterpreter");
    return -1;
  }
  module_state *state = PyModule_GetState(module);
  for (int i = 0; i < NAME_COUNT; i++) {
    state->names[i] = PyUnicode_InternFromString(name_texts[i]);
    if (state->names[i] == NULL) return -1;
  }
  state->no_args = PyTuple_New(0);
  state->cpu = Py_BuildValue("(ii)", (int)kDLCPU, 0);
  state->version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  state->ask = PyDict_New();
  if (state->no_args == NULL || state->cpu == NULL || state->version == NULL || state->ask == NULL ||
      PyDict_SetItem(state->ask, state->names[NAME_MAX_VERSION], state->version) < 0)
    return -1;
  PyObject *type = PyType_FromModuleAndSpec(module, &tensor_spec, NULL);
  if (type == NULL) return -1;
  state->tensor_type = (PyTypeObject *)type;
  /* PyObject_SetAttr refuses an immutable type, and slots can only make descriptors. This is what it does behind that
   * check; nobody has seen the type yet. */
  PyObject *api = exchange_capsule(), *name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  int failed = api == NULL || name == NULL || PyObject_GenericSetAttr(type, name, api) < 0;
  PyType_Modified(state->tensor_type);
  Py_XDECREF(name);
  Py_XDECREF(api);
  if (failed || PyModule_AddType(module, state->tensor_type) < 0) return -1;
  state->function_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &function_spec, NULL);
  if (state->function_type == NULL || watch_end() < 0) return -1;
  exchange_type(state->tensor_type, 1);
  keep_spares(1);
  return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  module_state *state = PyModule_GetState(module);
  Py_VISIT(state->tensor_type);
  Py_VISIT(state->function_type);
  Py_VISIT(state->ask);
  for (int i = 0; i < KINDS; i++) Py_VISIT(state->kinds[i].type);
  return 0;
}

/* Functions of the module may be called after this, by code that runs while the collector clears other objects. So the
 * state stays as it is until the module ends, which its types do not prevent: the collector clears their references to
 * the module. */
static int clear(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  if (state->tensor_type != NULL) {
    exchange_type(state->tensor_type, 0);
    forget_arguments();
    keep_spares(0);
  }
  return 0;
}

static void free_module(void *module) {
  module_state *state = PyModule_GetState(module);
  clear(module);
  Py_CLEAR(state->tensor_type);
  Py_CLEAR(state->function_type);
  Py_CLEAR(state->ask);
  Py_CLEAR(state->version);
  Py_CLEAR(state->no_args);
  Py_CLEAR(state->cpu);
  for (int i = 0; i < NAME_COUNT; i++) Py_CLEAR(state->names[i]);
  for (int i = 0; i < KINDS; i++) Py_CLEAR(state->kinds[i].type);
}

/* Slots that only later Pythons know are filled when one of them runs: one binary serves all from 3.11
 * on, and its headers do not have these numbers. */
enum { MOD_MULTIPLE_INTERPRETERS = 3, MOD_GIL = 4 };

static PyModuleDef_Slot slots[4] = {{Py_mod_exec, (void *)execute}};

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
  PyModuleDef_Slot *slot = slots + 1;
  void *not_supported = (void *)0, *gil_not_used = (void *)1;
  if (Py_Version >= 0x030C0000) *slot++ = (PyModuleDef_Slot){MOD_MULTIPLE_INTERPRETERS, not_supported};
  if (Py_Version >= 0x030D0000) *slot++ = (PyModuleDef_Slot){MOD_GIL, gil_not_used};
  return PyModuleDef_Init(&definition);
}
