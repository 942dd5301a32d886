//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Stats counts what is alive, and what went wrong, in this process.
type Stats struct {
	Exports       int64 // managed tensors handed out whose deleter has not run
	Imports       int64 // managed tensors taken over that Go still holds
	Allocations   int64 // memory of New and Lend that Go still holds
	ForeignBytes  int64 // bytes that the safety net is accountable for, at most 1 GiB of each memory
	DoubleDeletes int64 // deleter calls that came too late, and were ignored
	Forgotten     int64 // imports and allocations, all of whose tensors were dropped without Close, that the net has seen to, once their releases have returned
}

// ReadStats reaps, and returns the counters. While other goroutines work they are of different moments.
func ReadStats() Stats { return Stats(core.ReadStats()) }
