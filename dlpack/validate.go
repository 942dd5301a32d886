//go:build cgo

package dlpack

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// MaxRank is the largest number of dimensions of a [Tensor]: 256. [ErrLayout] reports a larger number.
const MaxRank = core.MaxRank

// AllocAlignment is the alignment, in bytes, of the memory that [New] allocates: 256.
const AllocAlignment = core.Alignment

func newError(op string, cause error, format string, args ...any) error {
	return &Error{Op: op, Where: fmt.Sprintf(format, args...), Err: cause}
}

// newError makes an error about t.
func (t *Tensor) newError(op string, cause error, format string, args ...any) error {
	return &Error{Op: op, Where: fmt.Sprintf(format, args...), Err: cause, about: t}
}

// IsAbout reports whether the error is about t itself, not about several tensors or another tensor of the same memory. With IsAbout, a
// function with several tensors can report which of them was wrong.
func (e *Error) IsAbout(t *Tensor) bool { return t != nil && e.about == t }

// causes maps the statuses of package core to errors.
var causes = [...]error{
	core.Null:       ErrNull,
	core.BadVersion: ErrVersion,
	core.BadDType:   ErrDType,
	core.BadDevice:  ErrDevice,
	core.BadLayout:  ErrLayout,
	core.Overflow:   ErrOverflow,
	core.ReadOnly:   ErrReadOnly,
	core.Unaligned:  ErrUnaligned,
	core.NoMemory:   ErrMemory,
	core.Closed:     ErrClosed,
	core.Borrowed:   ErrBorrowed,
}

// newFaultError makes an error from a fault that package core found.
func newFaultError(op string, f *core.Fault) error {
	return &Error{Op: op, Where: f.Text, Err: causes[f.Status]}
}

// deviceOf returns the device of a foreign tensor.
func deviceOf(t *core.DLTensor) Device { return Device{DeviceType(t.Device.Type), t.Device.ID} }

// checkTensor checks a foreign description as far as possible without access to the elements, and sets e. The slices that
// it returns lie in the producer's memory; strides is nil for row-major. C: dlbcore_check_tensor
func checkTensor(op string, t *core.DLTensor, flags Flags, e *core.Extent) (shape, strides []int64, err error) {
	if t.NDim < 0 || t.NDim > MaxRank {
		return nil, nil, newError(op, ErrLayout, "ndim = %d is not in 0..%d", t.NDim, MaxRank)
	}
	dt := DataType(t.DType)
	if err := dt.Validate(); err != nil {
		return nil, nil, newError(op, ErrDType, "%s", dt.refusal())
	}
	shape, strides, f := core.CheckTensor(t, dt.BitSize(), flags&SubbytePadded != 0, deviceOf(t).HostReadable(), e)
	if f != nil {
		return nil, nil, newFaultError(op, f)
	}
	return shape, strides, nil
}

// checkLayout checks shape and strides, and sets e. The type must be valid. Nil strides are row-major. The error for a
// negative size also wraps [layout.ErrNegative].
func checkLayout(op string, dt DataType, flags Flags, shape, strides []int64, e *core.Extent) error {
	if len(shape) > MaxRank {
		return newError(op, ErrLayout, "rank %d is more than %d", len(shape), MaxRank)
	}
	if f := core.CheckLayout(dt.BitSize(), flags&SubbytePadded != 0, shape, strides, e); f != nil {
		if slices.ContainsFunc(shape, func(n int64) bool { return n < 0 }) {
			return newError(op, errors.Join(ErrLayout, layout.ErrNegative), "%s", f.Text)
		}
		return newFaultError(op, f)
	}
	return nil
}
