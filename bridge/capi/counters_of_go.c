/* What Go adds to the counters. */
#include "_cgo_export.h"

static capi_counting of_go = {.add = capiAddCounters};

__attribute__((constructor)) static void begin(void) { capi_counters_add(&of_go); }
