/* The counters of live objects: what C counts, and what Go libraries add. */
#include "capi.h"

static capi_counting *counting;

void capi_counters_add(capi_counting *library) {
  library->next = __atomic_load_n(&counting, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&counting, &library->next, library, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

/* A forked child cannot ask Go, and counts only the objects that C has made. */
void dlb_counters_read(dlb_counters *out, size_t size) {
  if (out == NULL) return;
  dlb_counters now = {
      .exports = core_live_exports(),
      .imports = capi_held(),
      .messages = capi_objects_live(CAPI_MESSAGE),
      .double_deletes = core_double_deletes(),
      .elements = capi_objects_live(CAPI_ELEMENTS),
  };
  capi_counting *library = core_forked() ? NULL : __atomic_load_n(&counting, __ATOMIC_ACQUIRE);
  for (; library != NULL; library = library->next) library->add(&now);
  memset(out, 0, size);
  memcpy(out, &now, size < sizeof now ? size : sizeof now);
}
