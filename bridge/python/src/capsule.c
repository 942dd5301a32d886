/* Capsules that own an export of this package until a consumer takes it. */
#include "extension.h"

const char capsule_names[2][24] = {"dltensor", "dltensor_versioned"};
const char capsule_used_names[2][24] = {"used_dltensor", "used_dltensor_versioned"};

/* A capsule remembers the number of its export. If somebody has taken the tensor over by its address without renaming
 * the capsule, then the capsule must end neither that tensor nor a later one in the same block. */
static void *number_of(const dlbcore_block *block) { return (void *)(uintptr_t)block->since; }

static int owns(PyObject *capsule, const dlbcore_block *block) {
  return number_of(block) == PyCapsule_GetContext(capsule) && dlbcore_block_state(block) != CORE_TAKEN;
}

/* The destructor of every capsule. It runs wherever a capsule dies, at interpreter exit and under a pending exception
 * too. A capsule that was consumed has another name. */
static void capsule_end(PyObject *capsule) {
  int versioned = PyCapsule_IsValid(capsule, capsule_names[1]);
  if (!versioned && !PyCapsule_IsValid(capsule, capsule_names[0])) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  void *managed = PyCapsule_GetPointer(capsule, capsule_names[versioned]);
  if (owns(capsule, managed)) {
    if (versioned) dlbcore_delete_versioned(managed);
    else dlbcore_delete_legacy(managed);
  }
  PyErr_Restore(type, value, traceback);
}

PyObject *capsule_new(void *managed, int versioned) {
  PyObject *capsule = PyCapsule_New(managed, capsule_names[versioned], capsule_end);
  if (capsule != NULL) PyCapsule_SetContext(capsule, number_of(managed));
  else if (versioned) dlbcore_release_versioned(managed);
  else dlbcore_release_legacy(managed);
  return capsule;
}
