package capi

/*
#include "capi.h"
*/
import "C"

import (
	"github.com/dlbridge/dlbridge/dlpack"
)

// C: dlb_counters_read
//
//export capiReadCounters
func capiReadCounters(out *C.dlb_counters) {
	guard(nil, 0, func() error {
		s := dlpack.ReadStats()
		out.exports = C.int64_t(s.Exports)
		out.imports = C.int64_t(s.Imports)
		out.double_deletes = C.uint64_t(s.DoubleDeletes)
		return nil
	})
}
