//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Convert converts the elements to another data type, and writes them row-major to new memory, which is allocated as by [New].
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
		return nil, newError(op, ErrDevice, "memory on %v cannot be read; its producer can copy it to the CPU", t.device)
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
		convert(c, t)
	}
	return c, nil
}

// ConvertTo copies the elements into the memory of another tensor with the same shape and the same number of lanes, and
// converts them to its data type. The layouts may differ, and either side may be packed or padded. Any type of numbers can
// become any other:
//
//   - A float becomes the nearest number of the other float type; of two equally near numbers, the one whose last bit is
//     0. A number that is too large becomes an infinity, or NaN in types without infinities, or the largest number in
//     types with neither (float6, float4). NaN stays NaN; in types without NaN it becomes a zero with the opposite sign of
//     the NaN, as in ml_dtypes.
//   - float8_e8m0fnu has powers of two only. A number becomes the nearest one, and of two equally near ones the larger. A
//     number that is not above 0 becomes NaN.
//   - A float becomes an integer without its fraction. A number that is too large or too small becomes the largest or
//     smallest integer, and NaN becomes 0. Integers of fewer than 8 bits are an exception: the float becomes an int32, or
//     0 if it does not fit, of which the lowest bits are kept, as in ml_dtypes.
//   - An integer becomes the nearest float. It becomes another integer by dropping the high bits that do not fit, as in
//     Go, C and NumPy.
//   - Every number but 0 becomes true, including NaN; true becomes 1.
//   - A complex number becomes a real one by dropping the imaginary part.
//
// If the data types are the same, this is [Tensor.CopyTo]. Large conversions, except those of packed elements, are divided
// among at most GOMAXPROCS goroutines.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else writes to the source, or uses
// the destination. On error: [ErrClosed], [ErrDevice], [ErrDType] for types that are not numbers or have
// different lanes, [ErrReadOnly], [ErrLayout], and nothing is written.
func (t *Tensor) ConvertTo(dst *Tensor) error {
	if t.DType() == dst.DType() {
		return t.CopyTo(dst)
	}
	return t.copyInto("convert to", dst, checkNumbers)
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
		return newError(op, ErrDType, "%v has other lanes than %v", to, from)
	}
	return nil
}

// convert writes the elements of src to dst, converted to the data type of dst. Both types are numbers, and src has at least
// one element.
func convert(dst, src *Tensor) {
	to, from := dst.numbers(), src.numbers()
	core.Convert(&to, &from, dst.shape(), max(dst.NumBytes(), src.NumBytes()))
}

func (t *Tensor) numbers() core.Numbers {
	return core.Numbers{Data: t.data, DType: core.DataType(t.dtype), Bits: t.dtype.BitSize(), Padded: t.flags&SubbytePadded != 0, Strides: t.strides()}
}
