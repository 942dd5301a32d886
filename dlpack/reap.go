//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Reap immediately unpins slices whose exports have all been released, including slices of open tensors without
// [Tensor.OnRelease]. Correct programs do not need it, because the next garbage collection does the same. Later exports,
// and deleters that wake Go (see [WakeAt]), also unpin slices of closed tensors. Reap does not wait for releases of memory
// that is not Go's.
func Reap() { core.Reap() }

// WakeAt sets the number of bytes at which deleters wake Go to unpin memory, and returns the previous number. The default is
// 1 MiB. Bytes count if they are Go's own memory, the tensors are closed, and the deleter of the last export has run. Each
// garbage collection, [Reap] and wake-up resets the count. With a number of 1 or less, each release of an export of Go's
// memory wakes Go, unless Go is already awake for another release. Memory is then unpinned promptly, and a release costs a
// microsecond more.
//
// The release of memory with [Tensor.OnRelease] wakes Go immediately, and memory that is not Go's never waits. The slice of
// an open tensor stays pinned until the tensor is closed, or until the first garbage collection or [Reap] after the release
// of its last export.
func WakeAt(bytes int64) (last int64) { return core.WakeAt(bytes) }
