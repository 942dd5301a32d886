//go:build cgo

package dlpack

import (
	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// Convert converts the elements to another data type, and writes them row-major to new memory, allocated as by [New].
// [Tensor.ConvertTo] describes the conversion. Elements of fewer than 8 bits are packed.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, while nobody writes
// to the source. On error: [ErrClosed], [ErrDevice], [ErrDType], [ErrOverflow] or [ErrMemory].
func (t *Tensor) Convert(dtype DataType) (*Tensor, error) {
	const op = "convert"
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return nil, t.errDevice(op)
	}
	if err := checkNumbers(op, dtype, t.dtype); err != nil {
		return nil, err
	}
	c, err := newZeroed(op, dtype, t.shape())
	if err != nil {
		return nil, err
	}
	c.flags |= IsCopied
	if t.data != 0 {
		convert(c, t, nil)
	}
	return c, nil
}

// ConvertTo copies the elements into the memory of another tensor with the same shape and the same number of lanes, and
// converts them to its data type. The layouts may differ, and either side may be packed or padded. Every type of numbers
// can be converted to every other:
//
//   - A float becomes the nearest number of the other float type. Of two equally near numbers, the one whose last bit is 0
//     is chosen. A number that is too large becomes an infinity, or NaN in types without infinities, or the largest number
//     in types with neither (float6, float4). NaN stays NaN. In types without NaN it becomes a zero with the opposite
//     sign, as in ml_dtypes.
//   - float8_e8m0fnu has only powers of two. A number becomes the nearest power, or the larger of two equally near ones.
//     A number that is not above 0 becomes NaN.
//   - A float loses its fraction when it becomes an integer. A number that is too large or too small becomes the largest
//     or smallest integer, and NaN becomes 0. Integers of fewer than 8 bits are an exception: the float becomes an int32,
//     or 0 if it does not fit, and the lowest bits of this number are kept, as in ml_dtypes.
//   - An integer becomes the nearest float. When it becomes a smaller integer, the high bits that do not fit are
//     dropped, as in Go, C and NumPy.
//   - Every number except 0 becomes true, and so does NaN. True becomes 1.
//   - A complex number loses its imaginary part when it becomes a real number.
//
// If the data types are the same, this is [Tensor.CopyTo]. Large conversions are divided among at most GOMAXPROCS
// goroutines, unless the elements are packed.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else writes to the source, or uses the destination.
// On error: nothing is written. The errors are [ErrClosed], [ErrDevice], [ErrReadOnly], [ErrLayout], and [ErrDType] for
// types that are not numbers or have different lanes.
func (t *Tensor) ConvertTo(dst *Tensor) error {
	checkTypes := checkNumbers
	if t.DType() == dst.DType() {
		checkTypes = checkSameType // allows types that are not numbers
	}
	return t.copyInto("convert to", dst, checkTypes, nil)
}

// A Scaling tells [Tensor.ConvertScaled] to replace each number x by x*Scale + Shift. Scale and Shift each have one number for all
// elements, or one for each index of dimension Dim. An empty Scale or Shift changes nothing. A negative Dim counts from the end.
type Scaling struct {
	Scale, Shift []float64
	Dim          int
}

// ConvertScaled works like [Tensor.ConvertTo], and also scales and shifts the numbers in the same pass. This call applies
// a mean and a standard deviation for each channel to images of shape [n, height, width, 3]:
//
//	images.ConvertScaled(floats, dlpack.Scaling{
//		Scale: []float64{1 / (255 * std[0]), 1 / (255 * std[1]), 1 / (255 * std[2])},
//		Shift: []float64{-mean[0] / std[0], -mean[1] / std[1], -mean[2] / std[2]},
//		Dim:   -1,
//	})
//
// To change the order of dimensions too, transpose the destination or the source ([Tensor.Transpose]).
//
// The result has the same bits on every machine. It is computed in float32 if the source has bools, integers of at most 16 bits, or
// floats of at most 32 bits, and otherwise in float64. First, x, scale and shift are rounded to this type. The product is rounded
// next, and the sum last. The sum is converted by the rules of ConvertTo. If the sum is NaN, its sign and payload are lost.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else writes to the source, or uses the destination. On error:
// nothing is written. The errors are the errors of ConvertTo; [ErrDType] for complex numbers; and [ErrLayout] for a wrong number of
// scales or shifts, for a dimension that does not exist, or if the destination is the source.
func (t *Tensor) ConvertScaled(dst *Tensor, s Scaling) error {
	return t.copyInto("convert scaled", dst, checkReal, &s)
}

// checkReal checks that numbers of one type can be scaled and converted to another.
func checkReal(op string, to, from DataType) error {
	if err := checkNumbers(op, to, from); err != nil {
		return err
	}
	for _, dt := range []DataType{from, to} {
		if dt.Code() == CodeComplex {
			return newError(op, ErrDType, "%v is complex, but only real numbers can be scaled; Convert or Bitcast makes them real", dt)
		}
	}
	return nil
}

// check checks that the numbers of scales and shifts fit the shape, and makes Dim count from the beginning.
func (s *Scaling) check(op string, shape []int64) error {
	dim := s.Dim
	if dim < 0 {
		dim += len(shape)
	}
	for i, n := range []int{len(s.Scale), len(s.Shift)} {
		name := []string{"scales", "shifts"}[i]
		if n > 1 && (dim < 0 || dim >= len(shape)) {
			return newError(op, ErrLayout, "%d %s for dimension %d, but the tensor has %s", n, name, s.Dim, extent.Dimensions(len(shape)))
		}
		if n > 1 && int64(n) != shape[dim] {
			return newError(op, ErrLayout, "%d %s for dimension %d of size %d, want one for each index or one for all", n, name, s.Dim,
				shape[dim])
		}
	}
	if max(len(s.Scale), len(s.Shift)) <= 1 {
		dim = 0 // Dim does not matter: scale and shift each apply to all elements
	}
	s.Dim = dim
	return nil
}

// checkNumbers checks that numbers of one type can be converted to another.
func checkNumbers(op string, to, from DataType) error {
	for _, dt := range []DataType{from, to} {
		if err := dt.Validate(); err != nil {
			return newError(op, ErrDType, "%v", err)
		}
		if dt.Code() == CodeOpaqueHandle {
			return newError(op, ErrDType, "%v is not a type of numbers", dt)
		}
	}
	if to.Lanes() != from.Lanes() {
		return newError(op, ErrDType, "%v has another number of lanes than %v", to, from)
	}
	return nil
}

// convert writes the elements of src to dst, converted to the data type of dst, and scaled unless s is nil. Both types are numbers, and
// src has at least one element.
func convert(dst, src *Tensor, s *Scaling) {
	to, from := dst.numbers(), src.numbers()
	core.Convert(false, &to, &from, dst.shape(), max(dst.NumBytes(), src.NumBytes()), (*core.Scaling)(s))
}

func (t *Tensor) numbers() core.Numbers {
	return core.Numbers{Data: t.data, DType: core.DataType(t.dtype), Bits: t.dtype.BitSize(), Padded: t.flags&SubbytePadded != 0, Strides: t.strides()}
}
