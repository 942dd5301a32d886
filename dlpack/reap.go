//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Reap unpins at once what no consumer holds any more: slices whose exports have all been released, of open tensors too.
// It is never needed for correctness: the next collection does the same, and for the memory of closed tensors the next
// export, or enough released bytes. It waits for no release of memory that is not Go's.
func Reap() { core.Reap() }

// WakeAt sets how many bytes of Go's memory, of tensors that were closed, consumers may have released before their
// deleters wake Go to unpin them, in a program that does nothing else: 1 MiB from the start. With 1, each such release
// wakes Go, unless it is awake for another: memory is unpinned promptly, and a release costs a microsecond more. It
// returns the last value. Memory that is not Go's never waits. The slice of an open tensor stays pinned until its tensor
// is closed, or until the first collection, or [Reap], after the last of its exports was released.
func WakeAt(bytes int64) (last int64) { return core.WakeAt(bytes) }
