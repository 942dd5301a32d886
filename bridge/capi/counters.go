package capi

/*
#include "capi.h"
*/
import "C"

import (
	"github.com/dlbridge/dlbridge/dlpack"
)

// capiAddCounters adds the counters of this Go library to *out. The C core has already written its exports and double
// deletes there. Go's counters include these, so they are subtracted, and count only once.
//
//export capiAddCounters
func capiAddCounters(out *C.dlb_counters) {
	guard(nil, nil, 0, func() error {
		exports, doubleDeletes := C.dlbcore_live_exports(), C.dlbcore_double_deletes()
		s := dlpack.ReadStats()
		out.exports += C.int64_t(s.Exports) - exports
		out.imports += C.int64_t(s.Imports)
		out.double_deletes += C.uint64_t(s.DoubleDeletes) - doubleDeletes
		out.pinned_bytes += C.int64_t(s.PinnedBytes)
		return nil
	})
}
