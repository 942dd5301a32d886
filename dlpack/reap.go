//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Reap immediately unpins slices whose exports have all been released, including those of open tensors. Correct programs
// do not need it: the next garbage collection does the same, and for closed tensors so do the next export and enough
// released bytes. Reap does not wait for releases of memory that is not Go's.
func Reap() { core.Reap() }

// WakeAt sets the number of released bytes at which a deleter wakes Go to unpin them, and returns the last value. It counts
// Go's memory of closed tensors in a program that does nothing else, and is 1 MiB from the start. With 1, each such
// release wakes Go, unless it is awake for another one: memory is unpinned promptly, and a release costs a microsecond
// more. Memory with [Tensor.OnRelease] wakes Go at once, and memory that is not Go's never waits. The slice of an open
// tensor stays pinned until its tensor is closed, or until the first garbage collection, or [Reap], after the last of its
// exports was released.
func WakeAt(bytes int64) (last int64) { return core.WakeAt(bytes) }
