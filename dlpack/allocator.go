//go:build cgo

package dlpack

import (
	"fmt"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// An Allocator provides memory for [NewFrom], for example from a pool, and takes it back. Its methods may be called
// from any goroutine, even at the same time.
type Allocator interface {
	// Allocate returns at least size bytes, which nobody else uses until they are passed to Free. They must be aligned for the
	// elements (see NewFrom) and may have any contents. size is above 0.
	Allocate(size int) ([]byte, error)
	// Free takes back a slice that Allocate returned, with the same length and capacity.
	Free([]byte)
}

// NewFrom is [New] with the memory of an allocator: it makes a row-major tensor whose elements are all zero. After the last
// holder has released the memory, Free is called once with it, by the rules of [Tensor.OnRelease]. The call runs on a
// goroutine of this library. OnRelease may be used on the tensor, too. If the memory need not be zeroed, use [FromBytes]
// and OnRelease.
//
// The memory must be aligned to the largest power of two that divides the size of an element. An alignment of 8 bytes is
// always enough. [Tensor.Alignment] returns the alignment of a tensor. JAX and TVM share memory that is aligned to
// [AllocAlignment] bytes, and copy or refuse other memory. For a tensor without elements, neither method of the allocator
// is called.
//
// Ownership: the tensor and its exports own the memory until Free is called. Lifetime: as for [New]. Threads: any. On error:
// the slice that Allocate returned goes to Free before NewFrom returns, unless Allocate returned an error. The errors are
// [ErrDType], [ErrLayout] and [ErrOverflow]; an error that wraps the error of Allocate; [ErrMemory] if the memory is too
// short or cannot be pinned; [ErrUnaligned]; and [ErrNull] if a is nil.
func NewFrom(a Allocator, dtype DataType, shape ...int64) (*Tensor, error) {
	const op = "new from"
	if a == nil {
		return nil, newError(op, ErrNull, "the allocator is nil")
	}
	if err := dtype.Validate(); err != nil {
		return nil, newError(op, ErrDType, "%v", err)
	}
	var e core.Extent
	if err := checkLayout(op, dtype, 0, shape, nil, &e); err != nil {
		return nil, err
	}
	s := Spec{DType: dtype, Shape: shape}
	if e.NumBytes == 0 {
		return FromBytes(nil, s)
	}
	memory, err := a.Allocate(int(e.NumBytes))
	if err != nil {
		return nil, &Error{Op: op, Where: fmt.Sprintf("allocate %d bytes: %v", e.NumBytes, err), Err: err}
	}
	t, err := fromAllocated(op, memory, e.NumBytes, s)
	if err != nil {
		a.Free(memory)
		return nil, err
	}
	if err := t.OnRelease(func() { a.Free(memory) }); err != nil {
		t.Close()
		a.Free(memory)
		return nil, err
	}
	return t, nil
}

// fromAllocated makes a tensor of the first size bytes of memory, and sets them to zero.
func fromAllocated(op string, memory []byte, size int64, s Spec) (*Tensor, error) {
	if int64(len(memory)) < size {
		return nil, newError(op, ErrMemory, "the allocator returned %d bytes instead of %d", len(memory), size)
	}
	item := uintptr(s.DType.ItemSize())
	align := min(item&-item, 8)
	if start := uintptr(unsafe.Pointer(unsafe.SliceData(memory))); start%align != 0 {
		return nil, newError(op, ErrUnaligned, "the allocator returned memory at %#x, which is not aligned to %d bytes", start, align)
	}
	clear(memory[:size])
	return FromBytes(memory[:size], s)
}
