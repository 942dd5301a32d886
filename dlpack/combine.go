//go:build cgo

package dlpack

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// Concat joins tensors along an existing axis, in new memory, like NumPy's concatenate. All must have the same data type, and
// the same shape except along the axis. They may have any layout. A negative axis counts from the end. The result has the
// flag [IsCopied]. Its elements of fewer than 8 bits are padded.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, while nobody writes to the sources. On error:
// [ErrClosed], [ErrDType], [ErrDevice], [ErrLayout], [ErrOverflow] or [ErrMemory].
func Concat(axis int, tensors ...*Tensor) (*Tensor, error) { return join("concat", axis, tensors) }

// Stack joins tensors of the same shape along a new axis, in new memory, like NumPy's stack: dimension axis of the result has
// one index for each tensor. Data types and layouts are as for [Concat]. A negative axis counts from the end of the result.
//
// Ownership, Lifetime, Threads, On error: as [Concat].
func Stack(axis int, tensors ...*Tensor) (*Tensor, error) {
	const op = "stack"
	if len(tensors) == 0 {
		return nil, newError(op, ErrLayout, "there are no tensors")
	}
	at := axis
	if at < 0 {
		at += tensors[0].Rank() + 1
	}
	views := make([]*Tensor, 0, len(tensors))
	defer func() {
		for _, v := range views {
			v.Close()
		}
	}()
	for i, t := range tensors {
		if t.isClosed() {
			return nil, t.errClosedAs(op, fmt.Sprintf("tensor %d", i))
		}
		if !slices.Equal(t.shape(), tensors[0].shape()) {
			return nil, newError(op, ErrLayout, "tensor %d has shape %v, but tensor 0 has %v", i, t.shape(), tensors[0].shape())
		}
		if at < 0 || at > t.Rank() {
			return nil, newError(op, ErrLayout, "axis %d is out of range for a result with %s", axis, extent.Dimensions(t.Rank()+1))
		}
		v, err := t.Expand(at)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return join(op, at, views)
}

// join is [Concat] for the operation op, which errors name.
func join(op string, axis int, tensors []*Tensor) (*Tensor, error) {
	if len(tensors) == 0 {
		return nil, newError(op, ErrLayout, "there are no tensors")
	}
	first := tensors[0]
	at := axis
	if at < 0 {
		at += first.Rank()
	}
	var shape []int64
	for i, t := range tensors {
		if t.isClosed() {
			return nil, t.errClosedAs(op, fmt.Sprintf("tensor %d", i))
		}
		if t.dtype != first.dtype {
			return nil, newError(op, ErrDType, "tensor %d has %v, but tensor 0 has %v; Convert makes them alike", i, t.dtype, first.dtype)
		}
		if at < 0 || at >= t.Rank() {
			return nil, newError(op, ErrLayout, "axis %d is out of range for the shape %v", axis, t.shape())
		}
		if i == 0 {
			shape = t.Shape()
			continue
		}
		rest := t.Shape()
		rest[at] = first.Dim(at)
		if !slices.Equal(rest, first.shape()) {
			return nil, newError(op, ErrLayout, "tensor %d has shape %v, but tensor 0 has %v; only axis %d may differ",
				i, t.shape(), first.shape(), at)
		}
		if shape[at] += t.Dim(at); shape[at] < 0 {
			return nil, newError(op, ErrOverflow, "the sizes along axis %d add up to more than 63 bits", at)
		}
	}
	result, err := newNumbers(op, first.dtype, shape)
	if err != nil {
		return nil, err
	}
	result.flags |= IsCopied
	if err := result.fillWith(op, at, tensors); err != nil {
		result.Close()
		return nil, err
	}
	return result, nil
}

// newNumbers returns a tensor in new memory. Sub-byte elements are padded, so that views may begin at any element.
func newNumbers(op string, dtype DataType, shape []int64) (*Tensor, error) {
	if !dtype.IsSubByte() {
		return newZeroed(op, dtype, shape)
	}
	t, err := newZeroed(op, Uint8, append(slices.Clone(shape), int64(dtype.ItemSize())))
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.View(Spec{DType: dtype, Shape: shape, Padded: true})
}

// fillWith copies tensors into t, one after another along an axis.
func (t *Tensor) fillWith(op string, axis int, tensors []*Tensor) error {
	start := int64(0)
	for _, from := range tensors {
		size := from.Dim(axis)
		part, err := t.Narrow(axis, start, size)
		if err != nil {
			return err
		}
		err = from.copyInto(op, part, checkSameType, nil)
		part.Close()
		if err != nil {
			return err
		}
		start += size
	}
	return nil
}

// Fill sets every element to a value. It works for every layout, and for every data type of single numbers. The value
// is as for [Tensor.SetAt].
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else uses the elements. On error: [ErrClosed], [ErrReadOnly],
// [ErrDevice], [ErrLayout] for elements that overlap, and [ErrDType] and [ErrValue] as [Tensor.SetAt]; nothing is written.
func (t *Tensor) Fill(value any) error {
	const op = "fill"
	if t.isClosed() {
		return t.errClosed(op)
	}
	s := scalars.Get().(*scalar)
	defer scalars.Put(s)
	if err := s.set(op, t.dtype, reflect.ValueOf(value)); err != nil {
		return err
	}
	return t.fill(op, s.bytes[:], t.dtype, checkSameType, nil)
}

// fill copies one element to every element, as copyInto does. The element has data type from and takes whole bytes.
func (t *Tensor) fill(op string, element []byte, from DataType, checkTypes func(op string, to, from DataType) error, s *Scaling) error {
	one, err := FromBytes(element, Spec{DType: from, Padded: from.IsSubByte()})
	if err != nil {
		return err
	}
	defer one.Close()
	all, err := one.BroadcastTo(t.shape()...)
	if err != nil {
		return err
	}
	defer all.Close()
	return all.copyInto(op, t, checkTypes, s)
}

// MayShareMemory reports whether two tensors may have a byte in common, according to their devices and addresses. The result may
// also be true for tensors without a common byte, if their strides or data types differ and their elements interlock. It is true
// for any two tensors on one device whose memory the host cannot address. Tensors without elements, and nil, share nothing.
func MayShareMemory(a, b *Tensor) bool {
	a, b = a.orZero(), b.orZero()
	if a.NumElements() == 0 || b.NumElements() == 0 || a.isNone() || b.isNone() {
		return false
	}
	if !a.device.HostReadable() || !b.device.HostReadable() {
		return a.device == b.device
	}
	return !a.Disjoint(b)
}
