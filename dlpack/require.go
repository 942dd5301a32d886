//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/extent"

// Require returns an error unless the tensor has the given data type and shape. The error says what differs. A size of -1 stands
// for any size; without sizes, the tensor must have no dimensions. For example, a function on rows of 4 numbers begins with
//
//	if err := t.Require(dlpack.Float32, -1, 4); err != nil {
//		return nil, err
//	}
//
// A closed tensor can be checked.
//
// Errors: [ErrDType], [ErrLayout]; [ErrClosed] for nil and the zero Tensor.
func (t *Tensor) Require(dtype DataType, shape ...int64) error {
	const op = "require"
	if t.isNone() {
		return t.errClosed(op)
	}
	if t.dtype != dtype {
		return t.errDType(op, dtype)
	}
	if len(shape) != int(t.rank) {
		return t.newError(op, ErrLayout, "the shape %v has %s, want %d", t.shape(), extent.Dimensions(t.Rank()), len(shape))
	}
	for d, size := range t.shape() {
		if shape[d] != size && shape[d] != -1 {
			return t.newError(op, ErrLayout, "dimension %d of the shape %v has size %d, want %d", d, t.shape(), size, shape[d])
		}
	}
	return nil
}

// errDType returns an error for a tensor whose data type is not the requested one.
func (t *Tensor) errDType(op string, asked DataType) error {
	return t.newError(op, ErrDType, "the tensor has %v, want %v; Convert makes a copy of that type", t.dtype, asked)
}
