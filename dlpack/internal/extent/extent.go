// Package extent has the rules of shapes and strides that packages dlpack/layout and dlpack/internal/core share: how many elements a
// shape has, how far strides lead, which strides are row-major, and how errors count. They are in a package of their own because
// package layout must not use C, and package core does.
//
// The functions return the axis at fault, and each caller reports it in its own words. The same rules in C are in
// dlpack/internal/core/validate.c. testdata/extents.json beside that file has the test cases of both.
package extent

import "math/bits"

// Count returns the number of elements of a shape: the product of its sizes, and 1 for no dimensions. axis is the first
// axis with a negative size. If no size is negative or 0, it is the first axis at which the product exceeds 63 bits. In
// both cases count has no meaning. Otherwise axis is -1.
func Count(shape []int64) (count int64, axis int) {
	count, axis = 1, -1
	empty := false
	for d, n := range shape {
		if n < 0 {
			return 0, d
		}
		empty = empty || n == 0
		var ok bool
		if count, ok = Mul(count, n); !ok && axis < 0 {
			axis = d
		}
	}
	if empty {
		return 0, -1
	}
	return count, axis
}

// Reach returns the lowest (<= 0) and the highest (>= 0) offset to which strides lead from element (0, ..., 0), in
// elements. The shape has no size below 1. If an offset exceeds 63 bits, axis is the axis at fault, and both offsets
// are 0; otherwise axis is -1.
func Reach(shape, strides []int64) (low, high int64, axis int) {
	for d := len(shape) - 1; d >= 0; d-- {
		if shape[d] == 1 {
			continue
		}
		reach, ok := Mul(shape[d]-1, strides[d])
		if ok && reach < 0 {
			low, ok = Add(low, reach)
		} else if ok {
			high, ok = Add(high, reach)
		}
		if !ok {
			return 0, 0, d
		}
	}
	return low, high, -1
}

// IsRowMajor reports whether strides are those of elements without gaps, the last index fastest. The strides of
// dimensions of size 1 do not matter. The shape has no size below 1, and its product fits in 63 bits.
func IsRowMajor(shape, strides []int64) bool {
	step := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		if shape[d] != 1 && strides[d] != step {
			return false
		}
		step *= shape[d]
	}
	return true
}

// SetRowMajor sets strides to those of elements without gaps, the last index fastest. A size of 0 counts as 1. Only the
// strides of a shape without elements can exceed 63 bits. They are truncated, because nobody uses them.
func SetRowMajor(strides, shape []int64) {
	step := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = step
		if shape[d] > 1 {
			step *= shape[d]
		}
	}
}

// Add returns the sum, and reports whether it fits in an int64.
func Add(a, b int64) (sum int64, fits bool) {
	sum = a + b
	return sum, (sum >= a) == (b >= 0)
}

// Mul returns the product, and reports whether it fits in an int64.
func Mul(a, b int64) (product int64, fits bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// The product of the two as signed numbers: subtract what their sign bits added.
	hi -= uint64(a>>63&b + b>>63&a)
	return int64(lo), int64(hi) == int64(lo)>>63
}

// Magnitude returns the absolute value, as a uint64: the absolute value of the lowest int64 does not fit in an int64.
func Magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}
