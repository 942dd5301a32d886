// Package layout is the arithmetic of strided tensors: shapes, strides and what they reach. It knows
// no memory and no element type.
//
// A shape counts the elements along each dimension. A stride is the step, in elements, from one index
// of a dimension to the next; it may be negative or 0. An order lists dimensions from the slowest to
// the fastest: row-major is 0, 1, ..., n-1.
//
// # Design notes
//
// A dimension of size 1 is never stepped along, so that its stride says nothing: no function here
// looks at it, and none changes it. Likewise a tensor without elements has every layout.
//
// No function panics, whatever the numbers: sums and products are checked, and slices of different
// lengths are refused.
package layout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// The causes of errors.
var (
	// ErrNegative: a dimension of negative size.
	ErrNegative = errors.New("negative dimension")
	// ErrOverflow: a number of elements or an offset that does not fit in 63 bits.
	ErrOverflow = errors.New("overflow")
	// ErrRank: shape and strides of different lengths.
	ErrRank = errors.New("different ranks")
	// ErrOrder: an order that does not list each dimension once.
	ErrOrder = errors.New("not a permutation")
)

// Layout is where the elements of a tensor lie, counted in elements from the beginning of its memory.
type Layout struct {
	Shape   []int64
	Strides []int64 // as many as dimensions
	Offset  int64   // of element (0, ..., 0)
}

// Rank is the number of dimensions.
func (l Layout) Rank() int { return len(l.Shape) }

// Count is the number of elements. Errors: as [Count].
func (l Layout) Count() (int64, error) { return Count(l.Shape) }

// Span is [Span] from the beginning of the memory: lo below 0 reaches before it. Errors: as [Span].
func (l Layout) Span() (lo, hi int64, err error) {
	lo, hi, err = Span(l.Shape, l.Strides)
	if err != nil || lo == hi {
		return lo, hi, err
	}
	lo, fits := add(lo, l.Offset)
	hi, fits2 := add(hi, l.Offset)
	if !fits || !fits2 {
		return 0, 0, fmt.Errorf("layout: offset = %d: %w", l.Offset, ErrOverflow)
	}
	return lo, hi, nil
}

// IsRowMajor is [IsRowMajor] of shape and strides, wherever they start.
func (l Layout) IsRowMajor() bool { return IsRowMajor(l.Shape, l.Strides) }

// String prints the layout as "shape [2 3] strides [3 1] offset 0".
func (l Layout) String() string {
	return fmt.Sprintf("shape %v strides %v offset %d", l.Shape, l.Strides, l.Offset)
}

// Count is the number of elements: the product of the shape, 1 of no dimensions.
//
// Errors: [ErrNegative] whatever the other dimensions are, [ErrOverflow] unless one of them is 0.
func Count(shape []int64) (int64, error) {
	empty, err := isEmpty(shape)
	if empty || err != nil {
		return 0, err
	}
	count := int64(1)
	for d, n := range shape {
		var fits bool
		if count, fits = mul(count, n); !fits {
			return 0, fmt.Errorf("layout: shape[%d] = %d: %w", d, n, ErrOverflow)
		}
	}
	return count, nil
}

func isEmpty(shape []int64) (bool, error) {
	empty := false
	for d, n := range shape {
		if n < 0 {
			return false, fmt.Errorf("layout: shape[%d] = %d: %w", d, n, ErrNegative)
		}
		empty = empty || n == 0
	}
	return empty, nil
}

// AppendRowMajor appends the strides of a shape without gaps whose last dimension is the fastest.
// Dimensions of size 0 count as 1, as in NumPy. Errors: as [Count].
func AppendRowMajor(dst, shape []int64) ([]int64, error) {
	return appendStrides(dst, shape, func(k int) int { return k })
}

// AppendColumnMajor appends the strides of a shape without gaps whose first dimension is the fastest.
// Dimensions of size 0 count as 1. Errors: as [Count].
func AppendColumnMajor(dst, shape []int64) ([]int64, error) {
	return appendStrides(dst, shape, func(k int) int { return len(shape) - 1 - k })
}

// AppendStrides appends the strides of a shape without gaps whose dimensions are ordered from the
// slowest to the fastest. Dimensions of size 0 count as 1. Errors: as [Count], and [ErrOrder].
func AppendStrides(dst, shape []int64, order []int) ([]int64, error) {
	if len(order) != len(shape) {
		return dst, fmt.Errorf("layout: order %v of %d dimensions: %w", order, len(shape), ErrOrder)
	}
	return appendStrides(dst, shape, func(k int) int { return order[k] })
}

// appendStrides is told which dimension has which place in the order.
func appendStrides(dst, shape []int64, at func(k int) int) ([]int64, error) {
	if _, err := Count(shape); err != nil {
		return dst, err
	}
	const unset = -1
	whole := slices.Grow(dst, len(shape))[:len(dst)+len(shape)]
	strides := whole[len(dst):]
	for d := range strides {
		strides[d] = unset
	}
	step := int64(1)
	for k := len(shape) - 1; k >= 0; k-- {
		d := at(k)
		if d < 0 || d >= len(shape) || strides[d] != unset {
			return dst, fmt.Errorf("layout: order[%d] = %d: %w", k, d, ErrOrder)
		}
		strides[d] = step
		next, fits := mul(step, max(shape[d], 1))
		if !fits {
			next = 0 // only where there are no elements to step to
		}
		step = next
	}
	return whole, nil
}

// Span is what the strides reach from element (0, ..., 0): the lowest offset, which is 0 or less, and
// one past the highest; 0 and 0 where there are no elements.
//
// Errors: [ErrRank], [ErrNegative], [ErrOverflow].
func Span(shape, strides []int64) (lo, hi int64, err error) {
	if err := sameRank(shape, strides); err != nil {
		return 0, 0, err
	}
	empty, err := isEmpty(shape)
	if empty || err != nil {
		return 0, 0, err
	}
	hi = 1
	for d, n := range shape {
		if n == 1 {
			continue
		}
		reach, fits := mul(n-1, strides[d])
		if fits && reach < 0 {
			lo, fits = add(lo, reach)
		} else if fits {
			hi, fits = add(hi, reach)
		}
		if !fits {
			return 0, 0, fmt.Errorf("layout: strides[%d] = %d over shape[%d] = %d: %w", d, strides[d], d, n, ErrOverflow)
		}
	}
	return lo, hi, nil
}

func sameRank(shape, strides []int64) error {
	if len(shape) != len(strides) {
		return fmt.Errorf("layout: %d strides for %d dimensions: %w", len(strides), len(shape), ErrRank)
	}
	return nil
}

// IsRowMajor tells whether the elements lie without gaps, the last dimension fastest. What is no
// layout is not row-major.
func IsRowMajor(shape, strides []int64) bool {
	return isPacked(shape, strides, len(shape)-1, -1)
}

// IsColumnMajor tells whether the elements lie without gaps, the first dimension fastest. What is no
// layout is not column-major.
func IsColumnMajor(shape, strides []int64) bool {
	return isPacked(shape, strides, 0, 1)
}

// isPacked is told the fastest dimension and the way to the slower ones.
func isPacked(shape, strides []int64, d, slower int) bool {
	if len(shape) != len(strides) {
		return false
	}
	empty, packed := false, true
	step, fits := int64(1), true
	for range shape {
		n := shape[d]
		if n < 0 {
			return false
		}
		empty = empty || n == 0
		if n > 1 {
			packed = packed && fits && strides[d] == step
			step, fits = mul(step, n)
		}
		d += slower
	}
	return empty || packed && fits
}

// Packed tells whether the elements lie without gaps and each in a place of its own, in any order of
// the dimensions and with any of them reversed. order lists the dimensions from the slowest to the
// fastest; reversed tells, for each dimension, whether its stride is negative. Both are new.
//
// Where sizes of 1 leave a choice, the order is 0, 1, ..., n-1 if that is one, else n-1, ..., 1, 0 if
// that is one, else the dimensions of size 1 come first.
func Packed(shape, strides []int64) (order []int, reversed []bool, ok bool) {
	if len(shape) != len(strides) {
		return nil, nil, false
	}
	empty, err := isEmpty(shape)
	if err != nil {
		return nil, nil, false
	}
	order = make([]int, len(shape))
	for d := range order {
		order[d] = d
	}
	reversed = make([]bool, len(shape))
	if empty {
		return order, reversed, true
	}

	slices.SortStableFunc(order, func(a, b int) int {
		if shape[a] == 1 || shape[b] == 1 {
			return cmp.Compare(min(shape[a], 2), min(shape[b], 2))
		}
		return cmp.Compare(magnitude(strides[b]), magnitude(strides[a]))
	})
	step, fits := int64(1), true
	wide := order
	for len(wide) > 0 && shape[wide[0]] == 1 {
		wide = wide[1:]
	}
	for _, d := range slices.Backward(wide) {
		if !fits || magnitude(strides[d]) != uint64(step) {
			return nil, nil, false
		}
		reversed[d] = strides[d] < 0
		step, fits = mul(step, shape[d])
	}
	if !fits {
		return nil, nil, false
	}

	rising := slices.IsSorted(wide)
	if rising || slices.IsSortedFunc(wide, func(a, b int) int { return cmp.Compare(b, a) }) {
		slices.Sort(order)
		if !rising {
			slices.Reverse(order)
		}
	}
	return order, reversed, true
}

// Overlaps tells whether two indices reach the same element, so that the tensor must not be written
// through. It is exact but for strides that interlock in so many ways that the search for such a pair
// is given up; then, and of what is no layout, it says true.
func Overlaps(shape, strides []int64) bool {
	if IsRowMajor(shape, strides) {
		return false
	}
	lo, hi, err := Span(shape, strides)
	if err != nil {
		return true
	}
	if lo == hi {
		return false
	}
	if lo < hi-math.MaxInt64 {
		return true // farther apart than an offset can be
	}
	var axes []axis
	for d, n := range shape {
		if n > 1 {
			// Whether two indices meet depends on their difference alone, and its sign is free.
			axes = append(axes, axis{step: int64(magnitude(strides[d])), most: n - 1})
		}
	}
	slices.SortFunc(axes, func(a, b axis) int { return cmp.Compare(b.step, a.step) })
	if axes[len(axes)-1].step == 0 {
		return true
	}
	reach := int64(0)
	for k := len(axes) - 1; k >= 0; k-- {
		axes[k].beyond = reach
		reach += axes[k].step * axes[k].most
	}
	budget := 1 << 14
	return meet(axes, 0, false, &budget)
}

// An axis is a dimension as a step and the most steps that two indices can differ by; beyond is how
// far the axes behind it reach together.
type axis struct{ step, most, beyond int64 }

// meet tells whether some differences along the axes, not all 0, sum to -rest. It walks the axes from
// the widest step on, and tries only differences that the axes behind can make up for.
func meet(axes []axis, rest int64, moved bool, budget *int) bool {
	if len(axes) == 0 {
		return moved && rest == 0
	}
	a := axes[0]
	first := max(ceilDiv(-rest-a.beyond, a.step), -a.most)
	last := min(floorDiv(-rest+a.beyond, a.step), a.most)
	if !moved {
		first = 0 // of two opposite differences one is enough
	}
	for n := first; n <= last; n++ {
		if *budget--; *budget < 0 {
			return true
		}
		if meet(axes[1:], rest+n*a.step, moved || n != 0, budget) {
			return true
		}
	}
	return false
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

func add(a, b int64) (sum int64, fits bool) {
	sum = a + b
	return sum, (sum >= a) == (b >= 0)
}

func mul(a, b int64) (product int64, fits bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// The product of the two as signed numbers: take off what their sign bits counted for.
	hi -= uint64(a>>63&b) + uint64(b>>63&a)
	return int64(lo), int64(hi) == int64(lo)>>63
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}
