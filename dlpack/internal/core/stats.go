//go:build cgo

package core

// Stats counts live objects and mistakes. The type of the same name in package dlpack explains the fields.
type Stats struct {
	Exports, Imports, Allocations, ForeignBytes, PinnedBytes, DoubleDeletes, Forgotten int64
}

// ReadStats reaps, and returns the counters.
func ReadStats() Stats {
	Reap()
	_, pinned := countPinned()
	return Stats{
		Exports:       lookAtAll() + exportsOfC(),
		Imports:       liveImports.live(),
		Allocations:   liveAllocations.live(),
		ForeignBytes:  foreign.sum(),
		PinnedBytes:   pinned,
		DoubleDeletes: int64(doubleDeletes.Load() + doubleDeletesOfC()),
		Forgotten:     forgotten.Load(),
	}
}

// countPinned counts the pins in use, and their bytes. It reads all slots, so that pinning memory needs no counter.
func countPinned() (pins int, bytes int64) {
	for sh := range lockedShards {
		for _, first := range sh.slots.runs {
			for at := range uint32(runSlots) {
				s := handle(first + at).slot()
				if Kind(s.kind) == Collected && s.bytes > 0 {
					pins++
					bytes += int64(s.bytes)
				}
			}
		}
	}
	return pins, bytes
}
