//go:build cgo

package gorgonia

import (
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A number is an element type that DLPack and gorgonia have in common.
type number struct {
	carried dlpack.DataType // the type in DLPack
	held    tensor.Dtype    // the type in gorgonia
	of      tensor.ConsOpt  // makes tensor.New use held
}

func numberOf[T dlpack.Element](held tensor.Dtype) number {
	return number{dlpack.DataTypeOf[T](), held, tensor.Of(held)}
}

// numbers lists the types on which gorgonia computes, and bool, which gorgonia only stores and compares. If two entries
// have the same DLPack type, a Dense gets the first: an int64 becomes tensor.Int64, not tensor.Int.
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

// carriedAs returns the first number with the given DLPack type, or nil if there is none.
func carriedAs(dt dlpack.DataType) *number {
	for i := range numbers {
		if numbers[i].carried == dt {
			return &numbers[i]
		}
	}
	return nil
}

// heldAs returns the number with the given type of gorgonia, or nil if there is none. There is none for a Go type that
// a program has defined on a type in numbers, because its values may have another meaning.
func heldAs(dt tensor.Dtype) *number {
	for i := range numbers {
		if numbers[i].held == dt {
			return &numbers[i]
		}
	}
	return nil
}
