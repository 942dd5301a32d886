/* What Go adds to the counters. */
#include "_cgo_export.h"

static dlbcapi_counting of_go = {.add = capiAddCounters};

__attribute__((constructor)) static void begin(void) { dlbcapi_counters_add(&of_go); }
