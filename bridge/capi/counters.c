//go:build !dlbridge_shared

/* The counters of live objects: C counts its own, and Go libraries add theirs. */
#include "capi.h"

static dlbcapi_counting *counting;

void dlbcapi_counters_add(dlbcapi_counting *library) {
  library->next = __atomic_load_n(&counting, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&counting, &library->next, library, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

/* A forked child cannot ask Go, and counts only objects made by C. */
void dlb_counters_read(dlb_counters *out, size_t size) {
  if (out == NULL) return;
  dlb_counters now = {
      .exports = dlbcore_live_exports(),
      .imports = dlbcapi_held(),
      .messages = dlbcapi_objects_live(CAPI_MESSAGE),
      .double_deletes = dlbcore_double_deletes(),
      .elements = dlbcapi_objects_live(CAPI_ELEMENTS),
      .files = dlbcapi_objects_live(CAPI_FILE),
  };
  dlbcapi_counting *library = dlbcore_forked() ? NULL : __atomic_load_n(&counting, __ATOMIC_ACQUIRE);
  for (; library != NULL; library = library->next) library->add(&now);
  memset(out, 0, size);
  memcpy(out, &now, size < sizeof now ? size : sizeof now);
}
