//go:build cgo

package dlpack

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"
)

func refuse(op string, cause error, format string, args ...any) error {
	return &Error{Op: op, Where: fmt.Sprintf(format, args...), Err: cause}
}

// An extent is what a valid description comes to. C: core_extent
type extent struct {
	count     int64 // elements
	nbytes    int64 // of count elements without gaps
	low, high int64 // bytes touched, from element (0, ..., 0): the lowest (<= 0), one past the highest
	rowMajor  bool  // without gaps, the last index fastest
}

// checkTensor checks all of a foreign description that can be checked without touching its memory.
// It makes slices of shape and strides only once their length is known to be sane; they are C
// memory. strides is nil for row-major. C: core_validate, which must agree.
func checkTensor(op string, t *dlTensor, flags Flags, e *extent) (shape, strides []int64, err error) {
	if t.ndim < 0 || t.ndim > MaxRank {
		return nil, nil, refuse(op, ErrLayout, "ndim = %d is not in 0..%d", t.ndim, MaxRank)
	}
	if err := t.dtype.Validate(); err != nil {
		return nil, nil, refuse(op, ErrDType, "dtype = (code %d, bits %d, lanes %d) is not one that can be carried",
			t.dtype.Code(), t.dtype.Bits(), t.dtype.Lanes())
	}
	if t.ndim > 0 {
		if t.shape == 0 {
			return nil, nil, refuse(op, ErrNull, "shape is NULL with ndim = %d", t.ndim)
		}
		if t.shape%8 != 0 || t.strides%8 != 0 {
			return nil, nil, refuse(op, ErrUnaligned, "shape at %#x or strides at %#x is not aligned", t.shape, t.strides)
		}
		if t.shape < lowest || t.strides-1 < lowest-1 { // only strides may be NULL
			return nil, nil, refuse(op, ErrNull, "shape at %#x or strides at %#x lies below address %d", t.shape, t.strides, lowest)
		}
		shape = unsafe.Slice((*int64)(pointer(t.shape)), t.ndim)
		if t.strides != 0 {
			strides = unsafe.Slice((*int64)(pointer(t.strides)), t.ndim)
		}
	}
	if err := checkLayout(op, t.dtype, flags, shape, strides, e); err != nil {
		return nil, nil, err
	}
	if e.count > 0 && t.data == 0 {
		return nil, nil, refuse(op, ErrNull, "data is NULL with %d elements", e.count)
	}
	if e.count > 0 && t.device.HostReadable() {
		start, carry := bits.Add64(uint64(t.data), t.byteOffset, 0)
		if carry != 0 || !inAddressSpace(start, e.low, e.high) {
			return nil, nil, refuse(op, ErrOverflow, "data = %#x with byte_offset = %d leads outside the address space", t.data, t.byteOffset)
		}
	}
	return shape, strides, nil
}

// inAddressSpace reports whether the bytes from low (<= 0) to high (>= 0) around an address lie where memory can lie.
// C: core_in_address_space
func inAddressSpace(start uint64, low, high int64) bool {
	return start >= lowest+uint64(-low) && start <= highest-uint64(high)
}

// ordinary sets the extent of what nearly all tensors are: some elements of whole bytes, in sizes and strides of
// which nothing can overflow. It reports false for all others, right or wrong.
func ordinary(dt DataType, shape, strides []int64, e *extent) bool {
	const many = 1 << 40 // elements, of less than 2^22 bytes
	count, d := int64(1), len(shape)-1
	for ; d >= 0; d-- { // while there are no gaps
		n := shape[d]
		if uint64(n-1) >= 1<<20 || count >= many {
			return false
		}
		if strides != nil && strides[d] != count && n != 1 {
			break
		}
		count *= n
	}
	low, high, rowMajor := int64(0), count-1, d < 0
	for ; d >= 0; d-- {
		n, step := shape[d], strides[d]
		if uint64(n-1) >= 1<<20 || count >= many || high-low >= many {
			return false
		}
		if n == 1 {
			continue
		}
		if uint64(step+many) >= 2*many {
			return false
		}
		count *= n
		if step < 0 {
			low += (n - 1) * step
		} else {
			high += (n - 1) * step
		}
	}
	width := dt.BitSize()
	if width%8 != 0 || count >= many || high-low >= many {
		return false
	}
	item := int64(width / 8)
	e.count, e.nbytes, e.low, e.high, e.rowMajor = count, count*item, low*item, (high+1)*item, rowMajor
	return true
}

// checkLayout checks shape and strides (nil for row-major) of elements of a valid type. The extent is handed
// in: to copy one as a result takes longer than all of the checks.
func checkLayout(op string, dt DataType, flags Flags, shape, strides []int64, e *extent) error {
	if ordinary(dt, shape, strides, e) {
		return nil
	}
	*e = extent{count: 1, rowMajor: true}
	empty := false
	for d, n := range shape {
		if n < 0 {
			return refuse(op, ErrLayout, "shape[%d] = %d", d, n)
		}
		empty = empty || n == 0
	}
	var ok bool
	for d, n := range shape {
		if empty {
			e.count = 0
			break
		}
		if e.count, ok = mul(e.count, n); !ok {
			return refuse(op, ErrOverflow, "shape has more than 2^63-1 elements from axis %d on", d)
		}
	}

	width := int64(dt.BitSize())
	item := (width + 7) / 8
	packed := width%8 != 0 && flags&SubbytePadded == 0
	if packed {
		total, ok := mul(e.count, width)
		if !ok || total > math.MaxInt64-7 {
			return refuse(op, ErrOverflow, "%d elements of %d bits overflow", e.count, width)
		}
		e.nbytes = (total + 7) / 8
	} else if e.nbytes, ok = mul(e.count, item); !ok {
		return refuse(op, ErrOverflow, "%d elements of %d bytes overflow", e.count, item)
	}
	if empty {
		return nil
	}

	var low, step int64 = 0, 1
	high := e.count - 1
	if strides != nil {
		high = 0
		for d := len(shape) - 1; d >= 0; d-- {
			if shape[d] == 1 {
				continue
			}
			reach, ok := mul(shape[d]-1, strides[d])
			if ok && reach < 0 {
				low, ok = add(low, reach)
			} else if ok {
				high, ok = add(high, reach)
			}
			if !ok {
				return refuse(op, ErrOverflow, "strides[%d] = %d over shape[%d] = %d overflows", d, strides[d], d, shape[d])
			}
			if strides[d] != step {
				e.rowMajor = false
			}
			step *= shape[d]
		}
	}
	if packed {
		if !e.rowMajor {
			return refuse(op, ErrLayout, "packed elements of %d bits must be row-major without gaps", width)
		}
		e.high = e.nbytes
		return nil
	}
	var fits [3]bool
	e.low, fits[0] = mul(low, item)
	high, fits[1] = add(high, 1)
	e.high, fits[2] = mul(high, item)
	if fits != [3]bool{true, true, true} || e.high > math.MaxInt64+e.low { // low is not positive
		return refuse(op, ErrOverflow, "strides reach over more than 2^63-1 bytes")
	}
	return nil
}

func add(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

func mul(a, b int64) (int64, bool) {
	product := a * b
	if (a|b)>>31 == 0 { // both are small and not negative
		return product, true
	}
	if a == 0 || b == 0 {
		return 0, true
	}
	negative := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > 1<<63 || lo == 1<<63 && !negative {
		return product, false
	}
	return product, true
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}
