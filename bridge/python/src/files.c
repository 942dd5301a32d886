/* Files of tensors, opened and written by the Go library.
 *
 * An open file is a capsule. Each call holds a reference to the capsule, so that close in another thread cannot free the file in between. */
#include "library.h"

#include <stdlib.h>
#include <string.h>

static const char capsule_name[] = "dlbridge.file";

/* The context of the capsule is the library. */
static void close_file(PyObject *capsule) {
  const library *go = PyCapsule_GetContext(capsule);
  dlb_file *file = PyCapsule_GetPointer(capsule, capsule_name);
  WITHOUT_GIL(go->dlb_file_close(file));
}

/* Returns the file of a capsule, and sets *go to the library; NULL with an exception. */
static dlb_file *file_of(PyObject *capsule, const library **go) {
  dlb_file *file = PyCapsule_GetPointer(capsule, capsule_name);
  if (file != NULL) *go = PyCapsule_GetContext(capsule);
  return file;
}

/* (path, flags, data type or None) -> file */
PyObject *file_open(PyObject *module, PyObject *args) {
  PyObject *path, *dtype;
  unsigned long long flags;
  dlb_file_options options = {0};
  if (!PyArg_ParseTuple(args, "O&KO", PyUnicode_FSConverter, &path, &flags, &dtype)) return NULL;
  options.flags = flags;
  const library *go = get_library(module);
  if (go == NULL || (dtype != Py_None && dtype_parse(PyModule_GetState(module), dtype, &options.as) < 0)) {
    Py_DECREF(path);
    return NULL;
  }
  dlb_file *file;
  dlb_error error;
  WITHOUT_GIL(go->dlb_file_open(&file, PyBytes_AsString(path), &options, &error));
  Py_DECREF(path);
  if (error.code != DLB_OK) return raise_library(&error);
  PyObject *capsule = PyCapsule_New(file, capsule_name, NULL);
  if (capsule == NULL) {
    KEEPING_EXCEPTION(go->dlb_file_close(file));
    return NULL;
  }
  PyCapsule_SetContext(capsule, (void *)(uintptr_t)go);
  PyCapsule_SetDestructor(capsule, close_file);
  return capsule;
}

/* Returns a text of a file as a str. Bytes that are not UTF-8 are decoded by the error handler surrogateescape. */
static PyObject *text_of(dlb_bytes text) {
  return PyUnicode_DecodeUTF8(text.size == 0 ? "" : text.data, (Py_ssize_t)text.size, "surrogateescape");
}

/* file -> the name of its format */
PyObject *file_format(PyObject *Py_UNUSED(module), PyObject *capsule) {
  const library *go;
  const dlb_file *file = file_of(capsule, &go);
  dlb_bytes format;
  dlb_error error;
  if (file == NULL) return NULL;
  return go->dlb_file_format(&format, file, &error) == DLB_OK ? text_of(format) : raise_library(&error);
}

/* A file that is being read. */
typedef struct {
  module_state *state;
  const library *go;
  const dlb_file *file;
} reading;

static PyObject *entry_at(void *ctx, size_t index) {
  reading *r = ctx;
  dlb_file_entry e;
  dlb_error error;
  if (r->go->dlb_file_at(&e, r->file, index, &error) != DLB_OK) return raise_library(&error);
  PyObject *name = text_of(e.name), *type = text_of(e.type), *copied = text_of(e.copied), *problem = text_of(e.problem);
  PyObject *path = PyUnicode_DecodeFSDefaultAndSize(e.path.size == 0 ? "" : e.path.data, (Py_ssize_t)e.path.size);
  PyObject *shape = tuple_of(e.shape, e.ndim);
  PyObject *dtype = e.status == DLB_OK ? dtype_object(r->state, e.dtype) : Py_NewRef(Py_None), *entry = NULL;
  if (name != NULL && type != NULL && copied != NULL && problem != NULL && path != NULL && shape != NULL && dtype != NULL)
    entry = Py_BuildValue("(OOOOKKOOOO)", name, type, dtype, shape, (unsigned long long)e.offset, (unsigned long long)e.size,
                          e.aligned ? Py_True : Py_False, copied, problem, path);
  Py_XDECREF(name);
  Py_XDECREF(type);
  Py_XDECREF(copied);
  Py_XDECREF(problem);
  Py_XDECREF(path);
  Py_XDECREF(shape);
  Py_XDECREF(dtype);
  return entry;
}

/* file -> list of (name, type, data type or None, shape, offset, bytes, aligned, why it is copied, why it is refused, path) */
PyObject *file_entries(PyObject *module, PyObject *capsule) {
  reading r = {.state = PyModule_GetState(module)};
  r.file = file_of(capsule, &r.go);
  return r.file == NULL ? NULL : list_of(r.go->dlb_file_count(r.file), entry_at, &r);
}

/* (file, index, whether to copy) -> Tensor */
PyObject *file_tensor(PyObject *module, PyObject *args) {
  PyObject *capsule;
  Py_ssize_t index;
  int copy;
  const library *go;
  if (!PyArg_ParseTuple(args, "Onp", &capsule, &index, &copy)) return NULL;
  dlb_file *file = file_of(capsule, &go);
  if (file == NULL) return NULL;
  DLManagedTensorVersioned *managed;
  dlb_error error;
  WITHOUT_GIL((copy ? go->dlb_file_copy : go->dlb_file_tensor_at)(&managed, file, (size_t)index, &error));
  if (error.code != DLB_OK) return raise_library(&error);
  return (PyObject *)take_over(((module_state *)PyModule_GetState(module))->tensor_type, managed, "File");
}

/* file -> its metadata as a JSON object, in bytes */
PyObject *file_metadata(PyObject *Py_UNUSED(module), PyObject *capsule) {
  const library *go;
  const dlb_file *file = file_of(capsule, &go);
  dlb_bytes text;
  dlb_error error;
  if (file == NULL) return NULL;
  WITHOUT_GIL(go->dlb_file_metadata(&text, file, &error));
  return error.code == DLB_OK ? PyBytes_FromStringAndSize(text.data, (Py_ssize_t)text.size) : raise_library(&error);
}

/* (file, whether to sync instead of verify) -> None */
PyObject *file_check(PyObject *Py_UNUSED(module), PyObject *args) {
  PyObject *capsule;
  int sync;
  const library *go;
  if (!PyArg_ParseTuple(args, "Op", &capsule, &sync)) return NULL;
  dlb_file *file = file_of(capsule, &go);
  if (file == NULL) return NULL;
  dlb_error error;
  WITHOUT_GIL((sync ? go->dlb_file_sync : go->dlb_file_verify)(file, &error));
  if (error.code != DLB_OK) return raise_library(&error);
  Py_RETURN_NONE;
}

/* The function for progress, or None, and the exception that has stopped the writing. */
typedef struct {
  PyObject *function, *type, *value, *traceback;
} watching;

/* Runs on the thread of file_write, which does not have the GIL. */
static int32_t tell(void *ctx, uint64_t written, uint64_t total) {
  watching *w = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  int failed = PyErr_CheckSignals() < 0; /* for Ctrl-C */
  if (!failed && w->function != Py_None) {
    PyObject *result = PyObject_CallFunction(w->function, "KK", (unsigned long long)written, (unsigned long long)total);
    failed = result == NULL;
    Py_XDECREF(result);
  }
  if (failed) PyErr_Fetch(&w->type, &w->value, &w->traceback);
  PyGILState_Release(gil);
  return failed;
}

static void end_tensors(dlb_file_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) dlbcore_release_versioned(tensors[i].tensor);
  free(tensors);
}

/* Exports all producers of a tuple, with their names, which are borrowed; NULL with an exception. */
static dlb_file_tensor *export_all(module_state *state, PyObject *names, PyObject *producers, size_t count) {
  dlb_file_tensor *tensors = calloc(count + 1, sizeof *tensors);
  if (tensors == NULL) return (dlb_file_tensor *)PyErr_NoMemory();
  for (size_t i = 0; i < count; i++) {
    Py_ssize_t size;
    tensors[i].name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, (Py_ssize_t)i), &size);
    if (tensors[i].name != NULL && strlen(tensors[i].name) != (size_t)size)
      PyErr_SetString(PyExc_ValueError, "dlbridge: the name has a null character");
    else if (tensors[i].name != NULL)
      tensors[i].tensor = export_producer(state, PyTuple_GetItem(producers, (Py_ssize_t)i), NULL);
    if (tensors[i].tensor == NULL) {
      note_index("tensors", i);
      KEEPING_EXCEPTION(end_tensors(tensors, i));
      return NULL;
    }
  }
  return tensors;
}

/* (path, format, names, tensors, metadata or None, alignment, function for progress or None) -> None */
PyObject *file_write(PyObject *module, PyObject *args) {
  PyObject *path, *names, *producers, *metadata;
  watching watch = {0};
  dlb_file_fields fields = {.progress = tell, .ctx = &watch};
  unsigned long long align;
  if (!PyArg_ParseTuple(args, "O&sO!O!OKO", PyUnicode_FSConverter, &path, &fields.format, &PyTuple_Type, &names, &PyTuple_Type, &producers,
                        &metadata, &align, &watch.function))
    return NULL;
  fields.align = align;
  size_t count = (size_t)PyTuple_Size(producers);
  const library *go = get_library(module);
  dlb_file_tensor *tensors = NULL;
  if (go != NULL && parse_bytes(metadata, &fields.metadata) == 0)
    tensors = export_all(PyModule_GetState(module), names, producers, count);
  dlb_error error;
  if (tensors != NULL) {
    WITHOUT_GIL(go->dlb_file_write(PyBytes_AsString(path), tensors, count, &fields, &error));
    end_tensors(tensors, count);
  }
  Py_DECREF(path);
  if (tensors == NULL) return NULL;
  if (watch.type != NULL) {
    PyErr_Restore(watch.type, watch.value, watch.traceback);
    return NULL;
  }
  if (error.code != DLB_OK) return raise_library(&error);
  Py_RETURN_NONE;
}
