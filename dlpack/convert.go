//go:build cgo

package dlpack

import "github.com/dlbridge/dlbridge/dlpack/internal/core"

// Convert copies the elements, row-major, into new memory as of [New], as another data type. What becomes
// of the numbers is said at [Tensor.ConvertTo]. Elements of fewer than 8 bits are packed.
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
		return nil, refuse(op, ErrDevice, "memory on %v cannot be read", t.device)
	}
	if err := checkNumbers(op, dtype, t.dtype); err != nil {
		return nil, err
	}
	c, err := New(dtype, t.shape()...)
	if err != nil {
		err.(*Error).Op = op
		return nil, err
	}
	c.flags |= IsCopied
	if t.data != 0 {
		convert(c, t)
	}
	return c, nil
}

// ConvertTo copies the elements into the memory of another tensor with the same shape and as many lanes, as
// its data type, whatever the layouts, packed or padded. Any type of numbers becomes any other:
//
//   - A float becomes the nearest number of another float type, of two as near the one that ends in an
//     even bit. What is too large becomes an infinity; in types without one NaN; and in types with
//     neither (float6, float4) the largest number. NaN stays NaN; in types without one it becomes a zero
//     of the other sign, as ml_dtypes has it.
//   - float8_e8m0fnu knows powers of two alone: the nearest, of two as near the larger one. What is not
//     above 0 becomes NaN.
//   - A float becomes an integer by leaving its fraction off. What is too large or too small becomes the
//     largest or smallest number there is, and NaN becomes 0. Integers of fewer than 8 bits are the lowest
//     bits of an int32, as ml_dtypes has it, and 0 where the float is none of these.
//   - An integer becomes the nearest float, and another integer by leaving off the bits that there is no
//     room for, as in Go, C and NumPy.
//   - Anything but 0 becomes true, NaN too; true becomes 1.
//   - A complex number becomes a real one by leaving off the imaginary part.
//
// Where the data types are the same this is [Tensor.CopyTo]. Of many megabytes, the work is done on as many
// goroutines as GOMAXPROCS allows.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else writes to the source, or uses
// the destination. On error: [ErrClosed], [ErrDevice], [ErrDType] for types that are no numbers or have
// other lanes, [ErrReadOnly], [ErrLayout], and nothing is written.
func (t *Tensor) ConvertTo(dst *Tensor) error {
	const op = "convert to"
	if t.DType() == dst.DType() {
		return t.CopyTo(dst)
	}
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	if err := dst.acquire(op); err != nil {
		return dst.errClosedAs(op, "the destination")
	}
	defer dst.done()
	if err := checkNumbers(op, dst.dtype, t.dtype); err != nil {
		return err
	}
	if err := t.checkInto(op, dst); err != nil {
		return err
	}
	if t.data != 0 {
		convert(dst, t)
	}
	return nil
}

// checkNumbers tells whether numbers of one type can become those of another.
func checkNumbers(op string, to, from DataType) error {
	for _, dt := range []DataType{from, to} {
		if err := dt.Validate(); err != nil {
			return refuse(op, ErrDType, "%v", err)
		}
		if dt.Code() == CodeOpaqueHandle {
			return refuse(op, ErrDType, "%v is no type of numbers", dt)
		}
	}
	if to.Lanes() != from.Lanes() {
		return refuse(op, ErrDType, "%v has other lanes than %v", to, from)
	}
	return nil
}

// convert converts elements of src, of which there are some, to those of dst. Both have numbers.
func convert(dst, src *Tensor) {
	to, from := dst.numbers(), src.numbers()
	core.Convert(&to, &from, dst.shape(), max(dst.NumBytes(), src.NumBytes()))
}

func (t *Tensor) numbers() core.Numbers {
	return core.Numbers{Data: t.data, DType: core.DataType(t.dtype), Bits: t.dtype.BitSize(), Padded: t.flags&SubbytePadded != 0, Strides: t.strides()}
}
