/* Capsules that own an export of this package until a consumer takes it. */
#include "extension.h"

const char capsule_versioned[] = "dltensor_versioned";
const char capsule_versioned_used[] = "used_dltensor_versioned";
const char capsule_legacy[] = "dltensor";
const char capsule_legacy_used[] = "used_dltensor";

/* A capsule remembers the number of its export. If somebody has taken the tensor over by its address without renaming
 * the capsule, then the capsule must end neither that tensor nor a later one in the same block. */
static void *number_of(const core_block *block) { return (void *)(uintptr_t)block->since; }

static int owns(PyObject *capsule, const core_block *block) {
  return number_of(block) == PyCapsule_GetContext(capsule) && core_block_state(block) != CORE_TAKEN;
}

/* The destructor of every capsule. It runs wherever a capsule dies, at interpreter exit and under a pending exception
 * too. A capsule that was consumed has another name. */
static void capsule_end(PyObject *capsule) {
  int versioned = PyCapsule_IsValid(capsule, capsule_versioned);
  if (!versioned && !PyCapsule_IsValid(capsule, capsule_legacy)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  void *managed = PyCapsule_GetPointer(capsule, versioned ? capsule_versioned : capsule_legacy);
  if (owns(capsule, managed)) {
    if (versioned) core_delete_versioned(managed);
    else core_delete_legacy(managed);
  }
  PyErr_Restore(type, value, traceback);
}

PyObject *capsule_new(void *managed, int versioned) {
  if (managed == NULL) return PyErr_NoMemory();
  PyObject *capsule = PyCapsule_New(managed, versioned ? capsule_versioned : capsule_legacy, capsule_end);
  if (capsule != NULL) PyCapsule_SetContext(capsule, number_of(managed));
  else if (versioned) core_release_versioned(managed);
  else core_release_legacy(managed);
  return capsule;
}
