//go:build cgo

package core

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// An Extent is the size and the reach of a valid description. C: dlbcore_extent
type Extent struct {
	Count     int64 // elements
	NumBytes  int64 // of Count elements without gaps
	Low, High int64 // bytes touched, from element (0, ..., 0): the lowest (<= 0), one past the highest
	RowMajor  bool  // without gaps, the last index fastest
}

// A Fault is what is wrong with a description, and where.
type Fault struct {
	Status Status
	Text   string
}

func newFault(status Status, format string, args ...any) *Fault {
	return &Fault{status, fmt.Sprintf(format, args...)}
}

// CheckAddress checks where the struct of a tensor lies. It is small enough to be inlined.
func CheckAddress(at uintptr) *Fault {
	if at%8 == 0 && at >= Lowest {
		return nil
	}
	return badAddress(at)
}

// badAddress returns the fault in the address of a struct.
func badAddress(at uintptr) *Fault {
	if at == 0 {
		return newFault(Null, "tensor is NULL")
	}
	if at%8 != 0 {
		return newFault(Unaligned, "tensor at %#x is not aligned", at)
	}
	return newFault(Null, "tensor at %#x lies below address %d", at, Lowest)
}

// CheckTensor checks a foreign description as far as possible without touching the memory that it describes, and sets
// *e. The caller must have checked the address of t, NDim and the data type, whose elements have width bits. The slices
// in the result lie in the producer's memory; strides is nil for row-major. After a fault *e is undefined. C:
// dlbcore_check_tensor, which must agree
func CheckTensor(t *DLTensor, width int, padded, hostReadable bool, e *Extent) (shape, strides []int64, f *Fault) {
	if t.NDim > 0 {
		if t.Shape == 0 {
			return nil, nil, newFault(Null, "shape is NULL, but ndim is %d", t.NDim)
		}
		if t.Shape%8 != 0 || t.Strides%8 != 0 {
			return nil, nil, newFault(Unaligned, "shape at %#x or strides at %#x is not aligned", t.Shape, t.Strides)
		}
		if t.Shape < Lowest || t.Strides-1 < Lowest-1 { // only strides may be NULL
			return nil, nil, newFault(Null, "shape at %#x or strides at %#x lies below address %d", t.Shape, t.Strides, Lowest)
		}
		shape = unsafe.Slice((*int64)(Pointer(t.Shape)), t.NDim)
		if t.Strides != 0 {
			strides = unsafe.Slice((*int64)(Pointer(t.Strides)), t.NDim)
		}
	}
	if f := CheckLayout(width, padded, shape, strides, e); f != nil {
		return nil, nil, f
	}
	if e.Count > 0 && t.Data == 0 {
		return nil, nil, newFault(Null, "data is NULL, but the tensor has %s", extent.Elements(e.Count))
	}
	if e.Count > 0 && hostReadable {
		start, carry := bits.Add64(uint64(t.Data), t.ByteOffset, 0)
		if carry != 0 || !InAddressSpace(start, e.Low, e.High) {
			return nil, nil, newFault(Overflow, "data = %#x with byte_offset = %d leads outside the address space", t.Data, t.ByteOffset)
		}
	}
	return shape, strides, nil
}

// InAddressSpace reports whether memory can lie at the bytes from low (<= 0) to high (>= 0) around an address. C:
// dlbcore_in_address_space
func InAddressSpace(start uint64, low, high int64) bool {
	return start >= Lowest+uint64(-low) && start <= Highest-uint64(high)
}

// fastExtent is the fast path of CheckLayout, for nearly all layouts. It sets the extent of layouts with at least one
// element, elements of whole bytes, and sizes and strides so small that nothing can overflow. It reports false for all
// others, valid or not.
func fastExtent(width int, shape, strides []int64, e *Extent) bool {
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
	if width%8 != 0 || count >= many || high-low >= many {
		return false
	}
	item := int64(width / 8)
	e.Count, e.NumBytes, e.Low, e.High, e.RowMajor = count, count*item, low*item, (high+1)*item, rowMajor
	return true
}

// CheckLayout checks shape and strides (nil for row-major) of elements with itemBits bits, and sets *e. It does not
// check the rank. e is a parameter because returning an Extent, which copies it, would take longer than all checks.
// After a fault *e is undefined.
func CheckLayout(itemBits int, padded bool, shape, strides []int64, e *Extent) *Fault {
	if fastExtent(itemBits, shape, strides, e) {
		return nil
	}
	count, axis := extent.Count(shape)
	if axis >= 0 && shape[axis] < 0 {
		return newFault(BadLayout, "shape[%d] is %d, must not be negative", axis, shape[axis])
	}
	if axis >= 0 {
		return newFault(Overflow, "shape has more than 2^63-1 elements from axis %d on", axis)
	}
	*e = Extent{Count: count, RowMajor: count == 0 || strides == nil || extent.IsRowMajor(shape, strides)}

	width := int64(itemBits)
	item := (width + 7) / 8
	packed := width%8 != 0 && !padded
	var ok bool
	if packed {
		total, ok := extent.Mul(e.Count, width)
		if !ok || total > math.MaxInt64-7 {
			return newFault(Overflow, "%d elements of %d bits overflow", e.Count, width)
		}
		e.NumBytes = (total + 7) / 8
	} else if e.NumBytes, ok = extent.Mul(e.Count, item); !ok {
		return newFault(Overflow, "%d elements of %d bytes overflow", e.Count, item)
	}
	if count == 0 {
		return nil
	}

	low, high := int64(0), count-1
	if strides != nil {
		if low, high, axis = extent.Reach(shape, strides); axis >= 0 {
			return newFault(Overflow, "strides[%d] = %d with shape[%d] = %d overflows", axis, strides[axis], axis, shape[axis])
		}
	}
	if packed {
		if !e.RowMajor {
			return newFault(BadLayout, "packed elements of %d bits must be row-major without gaps", width)
		}
		e.High = e.NumBytes
		return nil
	}
	var fits [3]bool
	e.Low, fits[0] = extent.Mul(low, item)
	high, fits[1] = extent.Add(high, 1)
	e.High, fits[2] = extent.Mul(high, item)
	if fits != [3]bool{true, true, true} || e.High > math.MaxInt64+e.Low { // e.Low <= 0, so the sum cannot overflow
		return newFault(Overflow, "the strides span more than 2^63-1 bytes")
	}
	return nil
}
