//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Reap immediately unpins slices whose exports have all been released, including those of open tensors without
// [Tensor.OnRelease]. Correct programs do not need it: the next garbage collection does the same. For closed tensors, so do
// later exports, and deleters that wake Go (see [WakeAt]). Reap does not wait for releases of memory that is not Go's.
func Reap() { core.Reap() }

// WakeAt sets the number of bytes at which deleters wake Go to unpin memory, and returns the previous number. It is 1 MiB at
// first. The bytes that count are those of Go's memory whose tensors are closed and whose last export was released by its
// deleter. The count begins anew with each garbage collection, [Reap] and wake-up. With 1 or less, each such release wakes
// Go, unless it is awake for another one: memory is unpinned promptly, and a release costs a microsecond more.
//
// Memory with [Tensor.OnRelease] wakes Go at once, and memory that is not Go's never waits. The slice of an open tensor stays
// pinned until its tensor is closed, or until the first garbage collection, or [Reap], after the last of its exports was
// released.
func WakeAt(bytes int64) (last int64) { return core.WakeAt(bytes) }
