//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Stats has counters of live objects and of mistakes in this process.
type Stats struct {
	Exports       int64 // managed tensors handed out whose deleter has not run
	Imports       int64 // imported tensors that Go still holds
	Allocations   int64 // memory of New and Lend that Go still holds
	ForeignBytes  int64 // bytes of memory with a cleanup guard, at most 1 GiB of each memory
	DoubleDeletes int64 // ignored deleter calls, of tensors that were released or taken over before
	Forgotten     int64 // imports and allocations, all of whose tensors were dropped without Close, that cleanup guards have caught and whose releases have returned
}

// ReadStats calls [Reap] and returns the counters. If other goroutines are at work, they are not of one moment.
func ReadStats() Stats { return Stats(core.ReadStats()) }
