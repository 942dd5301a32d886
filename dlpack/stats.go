//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Stats has counters of live objects and of mistakes in this process. The format %+v prints them with their names.
type Stats struct {
	Exports       int64 // exported managed tensors whose deleter has not run
	Imports       int64 // imported tensors that Go still holds
	Allocations   int64 // memory of New, Copy, Convert and Lend that Go still holds
	ForeignBytes  int64 // bytes of memory with a cleanup guard, at most 1 GiB of each memory
	PinnedBytes   int64 // pinned bytes of Go's memory; a slice counts once for each FromSlice and ExportSlice
	DoubleDeletes int64 // ignored calls of deleters whose tensor was already released or taken over
	// Forgotten counts imports, allocations and memory with [Tensor.OnRelease] whose tensors were all dropped without Close,
	// after the garbage collector has found them. An import or allocation counts when its release has returned. If it is not
	// released, because [Values] has returned a slice of it, it counts immediately.
	Forgotten int64
}

// ReadStats calls [Reap] and returns the counters. They are read one after another, and other goroutines may change them
// meanwhile.
func ReadStats() Stats { return Stats(core.ReadStats()) }
