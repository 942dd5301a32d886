//go:build cgo

package dlpack

import (
	"errors"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// OnRelease calls f once, after the last holder has released the memory. All tensors of the memory are then closed, all its
// exports (in Go, C or Python) are released, and the slice is no longer pinned. A pool of buffers can then reuse the slice.
// Memory that this package allocated, as for [New] and [Tensor.Copy], has been freed when f is called. OnRelease refuses
// memory that was imported or passed to [Lend], because its producer is notified already. [Own] is for memory that f itself
// must give back.
//
// f belongs to the memory, which may have several such functions. They are called one after the other, the last one first, on a
// goroutine of this library. That goroutine has no profiler labels, is in no testing/synctest bubble, and holds no lock, so f may
// use this package. f may block. But while 64 such functions or releases of forgotten memory are blocked, all others wait. A
// panic in f ends the program.
//
// f is called immediately, usually within microseconds. This holds even if a C thread releases the last export: the deleter
// wakes Go, whatever [WakeAt] says. (There is one exception: the process had no free file descriptor when the library was
// first used. A deleter then cannot wake Go, and f waits for the next [Reap], export or garbage collection.) In a forked
// child, where Go does not run, f is not called.
//
// If all tensors are dropped without Close, f is called after the next garbage collection instead. In two cases f is never called,
// and the memory is leaked. Either f itself refers to a tensor of the memory, or [Values] or a similar function has returned a slice
// of the memory since OnRelease. This slice may still be in use.
//
// Ownership: unchanged. Lifetime: the slice stays pinned until the last holder has released it. Threads: any goroutine. On
// error: f is not called; [ErrClosed], [ErrNull] if f is nil, [ErrMemory], [ErrOverflow], or [errors.ErrUnsupported] for
// memory that was imported, borrowed or lent.
func (t *Tensor) OnRelease(f func()) error {
	const op = "on release"
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	if f == nil {
		return newError(op, ErrNull, "the function is nil")
	}
	if kind := t.mem.Kind(); kind != core.Collected && kind != core.Allocated {
		return newError(op, errors.ErrUnsupported, "the memory belongs to another library; let the function that releases the memory there notify the program")
	}
	if t.mem.OnRelease(f) != core.OK {
		return newError(op, ErrMemory, "no memory to pin the slice")
	}
	return nil
}

// Own makes a tensor in memory that need not be Go's, such as a mapping of a file, memory of malloc, or a buffer of another
// runtime. The tensor is like a tensor of [FromBytes]. After the last holder has released the memory, release is called once,
// to give it back. The rules of [Tensor.OnRelease] apply to release, too. It runs on a goroutine of this library, whichever
// thread released the memory last. It may block and may use this package. A panic in it ends the program. It is not called in
// a forked child. The process may end before release is called. [Lend] takes a C function instead, which needs no goroutine
// and is also called in a forked child.
//
// An adapter for a library with its own buffers is one function. It gets the memory as a slice of bytes, describes it with a
// [Spec], and passes it to Own with the function that gives the buffer back. The example "Adapter" does this for mmap. In the
// other direction, [Tensor.Require] checks that the library accepts the type and the shape. Use [Read] or [Use] if the library
// needs the memory during one call only. If it keeps the memory longer, give it [Tensor.Data] of a [Tensor.Share], and close
// the share when the library has released the buffer. A library that accepts DLPack gets the result of [Tensor.Export]
// instead. A library whose buffers are Go slices needs no adapter: the example "Gonum" uses mat.Dense and blas64.General of
// gonum with [FromSlice] and [Use]. DESIGN.md says what GoMLX lacks.
//
// Ownership: memory moves to the tensor and its exports, until release is called. Lifetime: memory must stay valid until then.
// Slices of it, for example from [Values], must not be used after the last Close. Threads: any. On error: memory stays the
// caller's, and release is not called. The errors are [ErrNull] if release is nil, [ErrMemory], and those of [FromBytes].
func Own(memory []byte, s Spec, release func()) (*Tensor, error) {
	const op = "own"
	if release == nil {
		return nil, newError(op, ErrNull, "the function is nil")
	}
	t, err := fromMemory(op, unsafe.Pointer(unsafe.SliceData(memory)), int64(len(memory)), &s)
	if err != nil {
		return nil, err
	}
	if t.mem.Own(release) != core.OK {
		return nil, newError(op, ErrMemory, "no memory for a share")
	}
	return t, nil
}
