//go:build cgo

package core

// Stats counts what is alive, and what went wrong.
type Stats struct {
	Exports, Imports, Allocations, ForeignBytes, DoubleDeletes, Forgotten int64
}

// ReadStats reaps, and returns the counters.
func ReadStats() Stats {
	Reap()
	return Stats{
		Exports:       lookAtAll() + exportsOfC(),
		Imports:       liveImports.live(),
		Allocations:   liveAllocations.live(),
		ForeignBytes:  foreign.sum(),
		DoubleDeletes: int64(doubleDeletes.Load() + doubleDeletesOfC()),
		Forgotten:     forgotten.Load(),
	}
}
