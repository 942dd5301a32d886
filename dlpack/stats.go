//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Stats has counters of live objects and of mistakes in this process.
type Stats struct {
	Exports       int64 // managed tensors handed out whose deleter has not run
	Imports       int64 // imported tensors that Go still holds
	Allocations   int64 // memory of New and Lend that Go still holds
	ForeignBytes  int64 // bytes of memory with a cleanup guard, at most 1 GiB of each memory
	PinnedBytes   int64 // bytes of Go's memory that are pinned: each tensor's slice, and each of ExportSlice
	DoubleDeletes int64 // ignored deleter calls, of tensors that were released or taken over before
	// Forgotten counts imports, allocations and memory with [Tensor.OnRelease], all of whose tensors were dropped without Close,
	// that the collector has found and whose releases have returned.
	Forgotten int64
}

// ReadStats calls [Reap] and returns the counters. If other goroutines are at work, they are not of one moment.
func ReadStats() Stats { return Stats(core.ReadStats()) }
