//go:build cgo

package gorgonia

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// The causes of errors that are particular to this package.
var (
	// ErrMasked reports a tensor with a mask.
	ErrMasked = errors.New("masked tensor")
	// ErrSparse reports a sparse tensor (tensor.CS).
	ErrSparse = errors.New("sparse tensor")
)

// FromDense returns a DLPack tensor on the memory of a gorgonia tensor without copying. The gorgonia tensor may be
// contiguous, transposed (T), sliced, column-major or scalar. The result has its shape and strides, without the
// elements in the gaps of a view. tensor.Int becomes int64.
//
// If the Dense lies in memory that [Dense] wrapped, the result is another view of that memory, and keeps it even after
// release. All other memory belongs to gorgonia and Go's garbage collector; it is pinned while a consumer holds an
// export. A tensor on memory of tensor.FromMemory must not have the engine of a wrapped Dense: FromDense would treat it
// as a result in Go memory, and nothing would keep its memory alive.
//
// Ownership: the result shares the memory and is closed separately. Lifetime: until its Close; the Dense may be
// returned to gorgonia before (tensor.ReturnTensor). Threads: any, while nobody changes the Dense. On error:
// [dlpack.ErrClosed] for wrapped memory that was released and is not Go's, [dlpack.ErrDType], [dlpack.ErrDevice] for an
// engine whose memory Go cannot reach, [dlpack.ErrBorrowed] for memory from tensor.FromMemory that nothing would keep
// alive, [dlpack.ErrLayout] for an access pattern that leads outside of the memory, [dlpack.ErrNull] for nil and for
// other types of tensors, [ErrMasked], [ErrSparse]; the error names the call that makes x acceptable.
func FromDense(x tensor.Tensor) (*dlpack.Tensor, error) {
	d, ok := x.(*tensor.Dense)
	if !ok || d == nil {
		if sparse, is := x.(*tensor.CS); is && sparse != nil {
			return nil, fmt.Errorf("gorgonia: from dense: %T cannot be shared; use its method Dense to convert it: %w", x, ErrSparse)
		}
		if x == nil || ok || x == (*tensor.CS)(nil) {
			return nil, fmt.Errorf("gorgonia: from dense: the tensor is nil: %w", dlpack.ErrNull)
		}
		return nil, fmt.Errorf("gorgonia: from dense: %T is not a *tensor.Dense: %w", x, dlpack.ErrNull)
	}
	var s dlpack.Spec
	if err := describe(d, &s); err != nil {
		return nil, fmt.Errorf("gorgonia: from dense: %w", err)
	}
	if e, ok := d.Engine().(*engine); ok {
		if start := address(d.Raw) - e.owner.Data(); start < uintptr(e.owner.NumBytes()) && len(d.Raw) > 0 {
			view := s
			view.ByteOffset = int64(start)
			x, err := e.owner.View(view)
			if err == nil || !e.owner.Collected() || !errors.Is(err, dlpack.ErrClosed) {
				return x, err
			}
			// The owner was Go memory and has been released. Either d keeps that memory reachable, or the collector has
			// freed it and d is a result that was allocated there later. d.Raw is valid in both cases.
		}
		// If not, d is the result of an operation, in memory that gorgonia has allocated. Its engine and its flag
		// ManuallyManaged come from an operand, and say nothing about its own memory.
	} else if d.IsManuallyManaged() {
		return nil, fmt.Errorf("gorgonia: from dense: nothing would keep memory of tensor.FromMemory alive; pass the memory to dlpack.Lend, and a View of the result to Dense: %w", dlpack.ErrBorrowed)
	}
	return dlpack.FromBytes(d.Raw, s)
}

// address returns the address of the first byte of a slice.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// describe sets s to the description of d, relative to the beginning of its memory. s.Shape and s.Strides share memory
// with the shape and strides of d.
func describe(d *tensor.Dense, s *dlpack.Spec) error {
	n := heldAs(d.Dtype())
	switch {
	case n == nil:
		return fmt.Errorf("%v has no type in DLPack: %w", d.Dtype().Type, dlpack.ErrDType)
	case !d.IsNativelyAccessible():
		return fmt.Errorf("the engine %T has memory that Go cannot reach; the engine's method Accessible may return memory that Go can reach: %w", d.Engine(), dlpack.ErrDevice)
	case len(d.Mask()) > 0:
		return fmt.Errorf("DLPack has no masks; SetMask(nil) drops the mask, and Filled before that gives the hidden elements a value: %w", ErrMasked)
	}
	s.DType, s.Shape, s.Strides = n.carried, int64s(d.Shape()), int64s(d.Strides())
	var low, high int64
	var err error
	if len(s.Strides) < len(s.Shape) {
		s.Strides = nil // gorgonia omits strides if the elements lie one after the other
		high, err = layout.Count(s.Shape)
	} else {
		low, high, err = layout.Span(s.Shape, s.Strides)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", err, dlpack.ErrLayout)
	}
	if room := int64(len(d.Raw)) / int64(n.carried.ItemSize()); low < 0 || high > room {
		return fmt.Errorf("strides %v of shape %v need elements %d to %d, but the memory has %d elements; use Clone on the tensor that this one was made of: %w", s.Strides, s.Shape, low, high-1, room, dlpack.ErrLayout)
	}
	return nil
}

// int64s returns the memory of ints as a []int64. The constant does not compile on a platform where an int does not
// have 64 bits.
func int64s(ints []int) []int64 {
	const _ = uint(unsafe.Sizeof(0) - 8)
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(ints))), len(ints))
}
