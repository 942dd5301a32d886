/* The counters of live objects. */
#include "_cgo_export.h"

/* A forked child cannot ask Go, and counts only the objects that C has made. */
void dlb_counters_read(dlb_counters *out, size_t size) {
  if (out == NULL) return;
  dlb_counters now = {0};
  if (core_forked()) {
    now.exports = core_live_exports();
    now.double_deletes = core_double_deletes();
  } else {
    capiReadCounters(&now);
  }
  now.imports += capi_held();
  now.messages = capi_objects_live(CAPI_MESSAGE);
  now.elements = capi_objects_live(CAPI_ELEMENTS);
  memset(out, 0, size);
  memcpy(out, &now, size < sizeof now ? size : sizeof now);
}
