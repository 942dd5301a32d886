// Package layout is the arithmetic of strided tensors: shapes, strides and what they reach. It knows
// no memory and no element type.
//
// A shape counts the elements along each dimension. A stride is the step, in elements, from one index
// of a dimension to the next; it may be negative or 0. An order lists dimensions from the slowest to
// the fastest: row-major is 0, 1, ..., n-1. Where a view takes a dimension, -1 is the last one.
//
//   - A [Layout] is where the elements of a tensor lie. [New] makes one, padded ones too.
//   - Simple views are other layouts of the same elements: [Layout.Slice], [Layout.Transpose],
//     [Layout.Reshape] and the other methods of *Layout.
//   - A [PartialShape] is what is known of a shape: TensorFlow's, with its text.
//
// # Views in place
//
// The methods that make views change the layout they are called on and leave it as it was on error.
// A copied Layout shares its slices with the original, so a view of a layout that is still needed
// begins with [Layout.Clone], or with [Layout.Set] of a layout that has slices of its own to write
// into. That way a view allocates nothing: only a rank that grows past the capacity of Shape and
// Strides, a rank above 8, and an error do. Besides the errors that are listed with them, all views
// refuse what is no layout, with [ErrRank] or [ErrNegative].
//
// # Design notes
//
// A dimension of size 1 is never stepped along, so that its stride says nothing: no function here
// looks at it, and none but those that make a new dimension changes it. Likewise a tensor without
// elements has every layout. A view without elements stays at the offset of its base, so that no
// view, empty ones included, starts outside of the memory of its base.
//
// No function panics, whatever the numbers: sums and products are checked, and slices of different
// lengths are refused. Memory is taken as append takes it, without an error where there is none: what [Layout.Split]
// returns may be as long as the product of what it is given.
//
// A view could have been a new value instead of a change in place. Then each step would allocate, or a
// Layout would hold, and copy, arrays for the largest rank.
package layout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dlbridge/dlbridge/internal/extent"
)

// The causes of errors.
var (
	// ErrNegative: a dimension of negative size.
	ErrNegative = errors.New("negative dimension")
	// ErrOverflow: a number of elements or an offset that does not fit in 63 bits.
	ErrOverflow = errors.New("overflow")
	// ErrRank: as many dimensions as do not fit: shape and strides of different lengths, an index with
	// too many entries.
	ErrRank = errors.New("different ranks")
	// ErrOrder: an order that does not list each dimension once.
	ErrOrder = errors.New("not a permutation")
	// ErrAxis: a dimension that is not there, or is named twice.
	ErrAxis = errors.New("no such dimension")
	// ErrIndex: an index that leads out of the shape, or a slice that is none.
	ErrIndex = errors.New("out of bounds")
	// ErrShape: shapes that do not fit together.
	ErrShape = errors.New("shapes do not fit")
	// ErrCopy: no strides give this view; a copy can be given this shape.
	ErrCopy = errors.New("needs a copy")
	// ErrSyntax: a text that is not in the form of what it is parsed for.
	ErrSyntax = errors.New("syntax")
)

// A refusal is an error that says in its own words what one of the causes above says too generally.
type refusal struct {
	text  string
	cause error
}

func refuse(cause error, format string, args ...any) error {
	return &refusal{"layout: " + fmt.Sprintf(format, args...), cause}
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

// Layout is where the elements of a tensor lie, counted in elements from the beginning of its memory.
type Layout struct {
	Shape   []int64
	Strides []int64 // as many as dimensions
	Offset  int64   // of element (0, ..., 0)
}

// New is the layout of a tensor that has memory of its own: sizes are what is allocated along each
// dimension, at least the shape, and the strides follow from them; nil sizes are the shape. The order
// lists the dimensions from the slowest to the fastest; nil is row-major. The product of the sizes
// has to be allocated. Allocates once.
//
// Source: "Dense L-Tensor Implementation" of the Nervana Graph documentation.
//
// Errors: as [Count] of shape and of sizes, [ErrOrder], [ErrRank], and [ErrShape] where a size is
// below the shape.
func New(shape, sizes []int64, order []int) (Layout, error) {
	if sizes == nil {
		sizes = shape
	}
	if len(sizes) != len(shape) {
		return Layout{}, fmt.Errorf("layout: %d sizes for %d dimensions: %w", len(sizes), len(shape), ErrRank)
	}
	if _, err := isEmpty(shape); err != nil {
		return Layout{}, err
	}
	for d, n := range shape {
		if sizes[d] < n {
			return Layout{}, fmt.Errorf("layout: sizes[%d] = %d for shape[%d] = %d: %w", d, sizes[d], d, n, ErrShape)
		}
	}
	rank := len(shape)
	both := make([]int64, rank, 2*rank)
	copy(both, shape)
	var err error
	if order == nil {
		both, err = AppendRowMajor(both, sizes)
	} else {
		both, err = AppendStrides(both, sizes, order)
	}
	if err != nil {
		return Layout{}, err
	}
	return Layout{Shape: both[:rank:rank], Strides: both[rank:]}, nil
}

// AppendAligned appends the sizes for [New] that make each row start on a multiple of align bytes
// when the first one does: the fastest dimension of the order, nil being row-major, is rounded up.
// Elements are of itemsize bytes.
//
// Errors: as [Count], [ErrOrder] where the order has no such fastest dimension, and [ErrShape] where
// itemsize or align is not positive.
func AppendAligned(dst, shape []int64, order []int, itemsize, align int64) ([]int64, error) {
	if itemsize <= 0 || align <= 0 {
		return dst, fmt.Errorf("layout: elements of %d bytes on multiples of %d bytes: %w", itemsize, align, ErrShape)
	}
	if _, err := Count(shape); err != nil {
		return dst, err
	}
	fastest := len(shape) - 1
	if order != nil {
		if len(order) != len(shape) {
			return dst, fmt.Errorf("layout: order of %d for %d dimensions: %w", len(order), len(shape), ErrOrder)
		}
		if len(order) > 0 {
			fastest = order[len(order)-1]
		}
	}
	if fastest >= len(shape) || fastest < 0 && len(shape) > 0 {
		return dst, fmt.Errorf("layout: order[%d] = %d: %w", len(order)-1, fastest, ErrOrder)
	}
	whole := append(dst, shape...)
	if len(shape) == 0 {
		return whole, nil
	}
	unit := align / gcd(itemsize, align) // elements
	size := &whole[len(dst)+fastest]
	if *size%unit != 0 {
		up, fits := extent.Add(*size, unit-*size%unit)
		if !fits {
			return dst, fmt.Errorf("layout: shape[%d] = %d: %w", fastest, *size, ErrOverflow)
		}
		*size = up
	}
	if _, err := Count(whole[len(dst):]); err != nil {
		return dst, err
	}
	return whole, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Clone is the same layout with slices of its own. Allocates once.
func (l Layout) Clone() Layout {
	both := make([]int64, 0, len(l.Shape)+len(l.Strides))
	both = append(append(both, l.Shape...), l.Strides...)
	rank := len(l.Shape)
	return Layout{Shape: both[:rank:rank], Strides: both[rank:], Offset: l.Offset}
}

// Set makes l what from is, in the slices of l as far as they have room.
func (l *Layout) Set(from Layout) {
	l.Shape = append(l.Shape[:0], from.Shape...)
	l.Strides = append(l.Strides[:0], from.Strides...)
	l.Offset = from.Offset
}

// OffsetOf is where the element with this index lies, in elements from the beginning of the memory. It is the
// index translation of the Nervana Graph documentation: unlike the views, it counts no index from the end.
//
// Errors: [ErrRank] unless there is an index for each dimension, [ErrIndex] for one that is not in
// the shape, [ErrOverflow].
func (l Layout) OffsetOf(index ...int64) (int64, error) {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return 0, err
	}
	if len(index) != len(l.Shape) {
		return 0, fmt.Errorf("layout: index with %d entries for %d dimensions: %w", len(index), len(l.Shape), ErrRank)
	}
	offset, fits := l.Offset, true
	for d, i := range index {
		if i < 0 || i >= l.Shape[d] {
			return 0, fmt.Errorf("layout: index[%d] = %d of %d: %w", d, i, l.Shape[d], ErrIndex)
		}
		if i != 0 {
			offset, fits = forward(offset, fits, i, l.Strides[d])
		}
	}
	if !fits {
		return 0, fmt.Errorf("layout: offset = %d: %w", l.Offset, ErrOverflow)
	}
	return offset, nil
}

// forward is offset + steps×stride; fits stays false once it was.
func forward(offset int64, fits bool, steps, stride int64) (int64, bool) {
	way, fits1 := extent.Mul(steps, stride)
	sum, fits2 := extent.Add(offset, way)
	return sum, fits && fits1 && fits2
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
	lo, fits := extent.Add(lo, l.Offset)
	hi, fits2 := extent.Add(hi, l.Offset)
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
	count, axis := extent.Count(shape)
	switch {
	case axis >= 0 && shape[axis] < 0:
		return 0, errNegative(axis, shape[axis])
	case axis >= 0:
		return 0, fmt.Errorf("layout: shape[%d] = %d: %w", axis, shape[axis], ErrOverflow)
	}
	return count, nil
}

func errNegative(d int, n int64) error {
	return fmt.Errorf("layout: shape[%d] = %d: %w", d, n, ErrNegative)
}

func isEmpty(shape []int64) (bool, error) {
	empty := false
	for d, n := range shape {
		if n < 0 {
			return false, errNegative(d, n)
		}
		empty = empty || n == 0
	}
	return empty, nil
}

// AppendRowMajor appends the strides of a shape without gaps whose last dimension is the fastest.
// Dimensions of size 0 count as 1, as in NumPy. Errors: as [Count].
func AppendRowMajor(dst, shape []int64) ([]int64, error) {
	if _, err := Count(shape); err != nil {
		return dst, err
	}
	whole := slices.Grow(dst, len(shape))[:len(dst)+len(shape)]
	extent.SetRowMajor(whole[len(dst):], shape)
	return whole, nil
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
		return dst, fmt.Errorf("layout: order of %d dimensions, of %d: %w", len(order), len(shape), ErrOrder)
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
		next, fits := extent.Mul(step, max(shape[d], 1))
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
// Errors: [ErrRank], [ErrNegative], and [ErrOverflow], also where the two are farther apart than a stride
// can be: from another corner, as after [Layout.Flip], they would be out of reach.
func Span(shape, strides []int64) (lo, hi int64, err error) {
	if err := sameRank(shape, strides); err != nil {
		return 0, 0, err
	}
	empty, err := isEmpty(shape)
	if empty || err != nil {
		return 0, 0, err
	}
	lo, high, axis := extent.Reach(shape, strides)
	if axis >= 0 {
		return 0, 0, fmt.Errorf("layout: strides[%d] = %d over shape[%d] = %d: %w", axis, strides[axis], axis, shape[axis], ErrOverflow)
	}
	hi, ok := extent.Add(high, 1)
	if !ok || lo < hi-math.MaxInt64 {
		return 0, 0, fmt.Errorf("layout: from %d to %d is farther than a stride leads: %w", lo, high, ErrOverflow)
	}
	return lo, hi, nil
}

func sameRank(shape, strides []int64) error {
	if len(shape) != len(strides) {
		return errStrides(shape, strides)
	}
	return nil
}

// errStrides is apart so that sameRank is inlined.
func errStrides(shape, strides []int64) error {
	return fmt.Errorf("layout: %d strides for %d dimensions: %w", len(strides), len(shape), ErrRank)
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
			step, fits = extent.Mul(step, n)
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
		return cmp.Compare(extent.Magnitude(strides[b]), extent.Magnitude(strides[a]))
	})
	step, fits := int64(1), true
	wide := order
	for len(wide) > 0 && shape[wide[0]] == 1 {
		wide = wide[1:]
	}
	for _, d := range slices.Backward(wide) {
		if !fits || extent.Magnitude(strides[d]) != uint64(step) {
			return nil, nil, false
		}
		reversed[d] = strides[d] < 0
		step, fits = extent.Mul(step, shape[d])
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
	if len(shape) != len(strides) {
		return true
	}
	if empty, err := isEmpty(shape); empty || err != nil {
		return err != nil
	}
	// Whether two indices meet depends on their difference alone, and its sign is free. The widest step first.
	var most [8]axis
	axes := most[:0]
	for d, n := range shape {
		if n <= 1 {
			continue
		}
		if len(axes) == 62 { // with one more there are 2^63 indices, and fewer elements that strides can lead to
			return true
		}
		a := axis{step: int64(extent.Magnitude(strides[d])), most: n - 1}
		axes = append(axes, a)
		k := len(axes) - 1
		for ; k > 0 && axes[k-1].step < a.step; k-- {
			axes[k] = axes[k-1]
		}
		axes[k] = a
		if a.step == 0 || k > 0 && axes[k-1].step == a.step {
			return true
		}
	}
	if _, _, err := Span(shape, strides); err != nil {
		return true
	}
	reach, apart := int64(0), true
	for k := len(axes) - 1; k >= 0; k-- {
		axes[k].beyond = reach
		apart = apart && axes[k].step > reach
		reach += axes[k].step * axes[k].most
	}
	if apart {
		return false
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
