//go:build cgo

package gorgonia

import (
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A number is an element type that DLPack and gorgonia have in common.
type number struct {
	carried dlpack.DataType
	held    tensor.Dtype
	of      tensor.ConsOpt
}

func numberOf[T dlpack.Element](held tensor.Dtype) number {
	return number{dlpack.DataTypeOf[T](), held, tensor.Of(held)}
}

// numbers lists the types on which gorgonia computes, and bool, which it only stores and compares. If two of them have the same
// data type in DLPack, a Dense gets the first: int64 becomes Int64.
var numbers = [...]number{
	numberOf[float32](tensor.Float32),
	numberOf[float64](tensor.Float64),
	numberOf[int8](tensor.Int8),
	numberOf[int16](tensor.Int16),
	numberOf[int32](tensor.Int32),
	numberOf[int64](tensor.Int64),
	numberOf[int](tensor.Int),
	numberOf[uint8](tensor.Uint8),
	numberOf[uint16](tensor.Uint16),
	numberOf[uint32](tensor.Uint32),
	numberOf[uint64](tensor.Uint64),
	numberOf[uint](tensor.Uint),
	numberOf[complex64](tensor.Complex64),
	numberOf[complex128](tensor.Complex128),
	numberOf[bool](tensor.Bool),
}

// carriedAs finds what gorgonia holds numbers of a DLPack type as, or nil.
func carriedAs(dt dlpack.DataType) *number {
	for i := range numbers {
		if numbers[i].carried == dt {
			return &numbers[i]
		}
	}
	return nil
}

// heldAs finds what numbers of gorgonia's are carried as, or nil. A named type is none of its own: it may
// stand for anything.
func heldAs(dt tensor.Dtype) *number {
	for i := range numbers {
		if numbers[i].held == dt {
			return &numbers[i]
		}
	}
	return nil
}
