//go:build cgo

package dlpack

import (
	"errors"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// OnRelease has f called once, when nobody holds the memory of the tensor any more: all tensors of the memory are closed, all
// of its exports, in Go, C or Python, are released, and the slice is no longer pinned. A pool of buffers can then use the
// slice again. The memory must be Go's own, as for [FromSlice], [FromBytes] or [NewFrom]. Other memory goes back to its
// producer by itself.
//
// f belongs to the memory, which may have several such functions. They are called one after the other, the last first, on a
// goroutine of this library. That goroutine has no profiler labels, is in no testing/synctest bubble, and holds no lock, so f may
// use this package. f may block, but while 64 such functions or releases of forgotten memory are blocked, the others wait. A
// panic in f ends the program.
//
// f is called at once, usually within microseconds, also if a thread of C releases the last export: its deleter wakes Go,
// whatever [WakeAt] says. (If the process had no file descriptors left when the library was first used, a deleter cannot wake
// Go, and f waits for the next [Reap], export or garbage collection.) In a forked child, which has no Go, f is not called.
//
// If all tensors are dropped without Close, f is called after the next garbage collection instead. But then f is never
// called if it refers to a tensor of the memory itself, or if a slice of the memory has got out since OnRelease, as by [Values] (see
// the package documentation), because such a slice may still be in use. In both cases the memory is leaked.
//
// Ownership: unchanged. Lifetime: from now on the slice stays pinned until nobody holds it. Threads: any goroutine. On error:
// f is not called; [ErrClosed], [ErrNull] if f is nil, [ErrMemory], [ErrOverflow], or [errors.ErrUnsupported] for memory that
// is not Go's.
func (t *Tensor) OnRelease(f func()) error {
	const op = "on release"
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	if f == nil {
		return newError(op, ErrNull, "the function is nil")
	}
	if !t.Collected() {
		return newError(op, errors.ErrUnsupported, "the memory is not Go's; FromSlice, FromBytes and NewFrom make tensors of memory that is")
	}
	if t.mem.OnRelease(f) != core.OK {
		return newError(op, ErrMemory, "no memory to pin the slice")
	}
	return nil
}
