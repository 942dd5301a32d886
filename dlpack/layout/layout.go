// Package layout computes with the shapes and strides of tensors. It computes the positions of the elements of a
// tensor, and how to view the elements differently. It has no access to memory or data types. Package dlpack applies it
// to tensors. It needs no cgo.
//
//	l, err := layout.New([]int64{3, 4}, nil, nil)   // 3 rows and 4 columns, row-major
//	err = l.Slice(layout.All(), layout.All().By(2)) // every second column: shape [3 2] strides [4 2]
//
// A shape counts the elements along each dimension. A stride is the step, in elements, from one index of a dimension to the
// next; it may be negative or 0. An order lists the dimensions from the slowest to the fastest: row-major is 0, 1, ..., n-1.
// In all views, the dimension number -1 means the last dimension.
//
//   - A [Layout] says where the elements of a tensor are. [New] returns a Layout, with or without padding.
//   - A view is another layout of the same elements. [Layout.Slice], [Layout.Transpose], [Layout.Reshape] and the other
//     methods of *Layout make views.
//   - A [PartialShape] is a shape in which sizes may be unknown. It has the same text form as in TensorFlow.
//
// # Views in place
//
// The methods that make views change the layout that they are called on. On error they leave it unchanged. A copy of a
// Layout shares its slices with the original. To keep the original, begin a view with [Layout.Clone], or with
// [Layout.Set] on a layout whose slices may be overwritten. After Set, a view allocates only if its rank exceeds 8 or
// the capacity of Shape and Strides, or if it returns an error. All views return [ErrRank] if shape and strides have
// different lengths, and [ErrNegative] if a size is negative. The comment of each view lists its other errors.
//
// # Sizes of 1 and 0
//
// The stride of a dimension of size 1 has no meaning, because the dimension has no second index. No function depends on
// this stride. Only a function that makes a new dimension sets its stride. Likewise, any strides are valid for a tensor
// without elements. A view without elements keeps the offset of its base, so no view starts outside the memory of its
// base.
//
// # Safety
//
// No function panics, whatever its arguments are: sums and products are checked, and slices of different lengths are
// errors. If memory runs out, the process ends, as with append. The result of [Layout.Split] takes memory in proportion
// to the number of its parts times the rank.
package layout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// The causes of errors, for errors.Is.
var (
	// ErrNegative reports a negative size.
	ErrNegative = errors.New("negative dimension")
	// ErrOverflow reports a number of elements or an offset that does not fit in 63 bits.
	ErrOverflow = errors.New("overflow")
	// ErrRank reports a wrong number of dimensions: shape and strides of different lengths, or too many indices.
	ErrRank = errors.New("wrong number of dimensions")
	// ErrOrder reports an order that does not list each dimension exactly once.
	ErrOrder = errors.New("not a permutation")
	// ErrAxis reports a dimension that does not exist, or that is given twice.
	ErrAxis = errors.New("no such dimension")
	// ErrIndex reports an index outside the shape, or an invalid slice.
	ErrIndex = errors.New("out of bounds")
	// ErrShape reports shapes that do not match, or a size that the operation cannot use.
	ErrShape = errors.New("shapes do not match")
	// ErrCopy reports a view that no strides can express. A copy of the elements can have the shape of the view.
	ErrCopy = errors.New("needs a copy")
	// ErrSyntax reports text that cannot be parsed.
	ErrSyntax = errors.New("syntax error")
)

// A causedError is an error whose text is more specific than the text of its cause.
type causedError struct {
	text  string
	cause error
}

func newError(cause error, format string, args ...any) error {
	return &causedError{"layout: " + fmt.Sprintf(format, args...), cause}
}

func (e *causedError) Error() string { return e.text }
func (e *causedError) Unwrap() error { return e.cause }

// Layout says where the elements of a tensor lie. All numbers count elements.
type Layout struct {
	Shape   []int64
	Strides []int64 // one for each dimension
	Offset  int64   // position of element (0, ..., 0), from the beginning of the memory
}

// New returns the layout of a tensor in new memory. sizes[d] is the number of elements to allocate along dimension d, and
// determines the strides. It must be at least shape[d]. If sizes is nil, New uses the shape. order lists the dimensions
// from the slowest to the fastest; nil means row-major. The memory must have as many elements as the product of the sizes.
// New allocates once.
//
// Source: "Dense L-Tensor Implementation" of the Nervana Graph documentation.
//
// Errors: those of [Count] for shape and sizes, [ErrOrder], [ErrRank], and [ErrShape] if sizes[d] is less than shape[d].
func New(shape, sizes []int64, order []int) (Layout, error) {
	if sizes == nil {
		sizes = shape
	}
	if len(sizes) != len(shape) {
		return Layout{}, fmt.Errorf("layout: %s for %s: %w", extent.Number(len(sizes), "size", "sizes"), extent.Dimensions(len(shape)), ErrRank)
	}
	if _, err := isEmpty(shape); err != nil {
		return Layout{}, err
	}
	for d, n := range shape {
		if sizes[d] < n {
			return Layout{}, fmt.Errorf("layout: sizes[%d] = %d, but shape[%d] = %d: %w", d, sizes[d], d, n, ErrShape)
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

// AppendAligned appends sizes for [New]. With them, every row starts at a multiple of align bytes if the first row does.
// The sizes are the shape, with the fastest dimension of the order rounded up. A nil order means row-major. An element has
// itemsize bytes.
//
// Errors: those of [Count], [ErrOrder] if the fastest dimension in order is invalid, and [ErrShape] if itemsize or align is
// not positive.
func AppendAligned(dst, shape []int64, order []int, itemsize, align int64) ([]int64, error) {
	if itemsize <= 0 || align <= 0 {
		return dst, fmt.Errorf("layout: cannot align elements of %d bytes to %d bytes: %w", itemsize, align, ErrShape)
	}
	if _, err := Count(shape); err != nil {
		return dst, err
	}
	if order != nil && len(order) != len(shape) {
		return dst, fmt.Errorf("layout: order has %s, but the shape has %s: %w", extent.Number(len(order), "entry", "entries"), extent.Dimensions(len(shape)), ErrOrder)
	}
	if len(shape) == 0 {
		return dst, nil
	}
	fastest := len(shape) - 1
	if order != nil {
		fastest = order[len(order)-1]
	}
	if fastest < 0 || fastest >= len(shape) {
		return dst, fmt.Errorf("layout: order[%d] = %d: %w", len(order)-1, fastest, ErrOrder)
	}
	whole := append(dst, shape...)
	unit := align / gcd(itemsize, align) // elements
	n := shape[fastest]
	size, fits := extent.Add(n, (unit-n%unit)%unit)
	if !fits {
		return dst, fmt.Errorf("layout: shape[%d] = %d: %w", fastest, n, ErrOverflow)
	}
	whole[len(dst)+fastest] = size
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

// Clone returns a copy of l with its own slices. It allocates once.
func (l Layout) Clone() Layout {
	both := make([]int64, 0, len(l.Shape)+len(l.Strides))
	both = append(append(both, l.Shape...), l.Strides...)
	rank := len(l.Shape)
	return Layout{Shape: both[:rank:rank], Strides: both[rank:], Offset: l.Offset}
}

// Set makes l a copy of from. It reuses the slices of l if their capacity is sufficient.
func (l *Layout) Set(from Layout) {
	l.Shape = append(l.Shape[:0], from.Shape...)
	l.Strides = append(l.Strides[:0], from.Strides...)
	l.Offset = from.Offset
}

// OffsetOf returns the offset of the element with the given index, in elements from the beginning of the memory. It is the
// index translation of the Nervana Graph documentation. Unlike in views, a negative index does not count from the end.
//
// Errors: [ErrRank] unless there is one index for each dimension, [ErrIndex] for an index outside the shape, [ErrOverflow].
func (l Layout) OffsetOf(index ...int64) (int64, error) {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return 0, err
	}
	if len(index) != len(l.Shape) {
		return 0, errIndices("", len(index), len(l.Shape))
	}
	offset, fits := l.Offset, true
	for d, i := range index {
		if i < 0 || i >= l.Shape[d] {
			return 0, errIndex("", d, i, l.Shape[d])
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

// forward returns offset + steps×stride, and whether it fits in 63 bits. The second result is false if fits was false, so
// that calls can be chained.
func forward(offset int64, fits bool, steps, stride int64) (int64, bool) {
	way, fits1 := extent.Mul(steps, stride)
	sum, fits2 := extent.Add(offset, way)
	return sum, fits && fits1 && fits2
}

// Rank returns the number of dimensions.
func (l Layout) Rank() int { return len(l.Shape) }

// Count returns the number of elements. Errors: those of the function [Count].
func (l Layout) Count() (int64, error) { return Count(l.Shape) }

// Span returns the lowest offset in use and the offset after the highest, counted from the beginning of the memory. If lo
// is negative, elements lie before the memory. Without elements both are 0. Errors: those of the function [Span].
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

// IsRowMajor is the function [IsRowMajor] for shape and strides. The offset does not matter.
func (l Layout) IsRowMajor() bool { return IsRowMajor(l.Shape, l.Strides) }

// String returns the layout in the form "shape [2 3] strides [3 1] offset 0".
func (l Layout) String() string {
	return fmt.Sprintf("shape %v strides %v offset %d", l.Shape, l.Strides, l.Offset)
}

// Count returns the number of elements. It is the product of the sizes, and 1 if there are no dimensions.
//
// Errors: [ErrNegative] for a negative size, even if another size is 0; [ErrOverflow] unless a size is 0.
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
	return newError(ErrNegative, "shape[%d] is %d, must not be negative", d, n)
}

// errIndices returns an error for a number of indices that differs from the rank. Its text begins with op.
func errIndices(op string, indices, rank int) error {
	return newError(ErrRank, "%s%s for %s", op, extent.Number(indices, "index", "indices"), extent.Dimensions(rank))
}

// errIndex returns an error for an index outside dimension d, which has size n. Its text begins with op.
func errIndex(op string, d int, index, n int64) error {
	return newError(ErrIndex, "%sindex[%d] is %d, but dimension %d has size %d", op, d, index, d, n)
}

// isEmpty reports whether any size of a shape is 0. For a negative size it returns [ErrNegative].
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

// AppendRowMajor appends the strides, in elements, of a row-major tensor without gaps. A size of 0 counts as 1. Errors: those
// of [Count].
func AppendRowMajor(dst, shape []int64) ([]int64, error) {
	if _, err := Count(shape); err != nil {
		return dst, err
	}
	whole := slices.Grow(dst, len(shape))[:len(dst)+len(shape)]
	extent.SetRowMajor(whole[len(dst):], shape)
	return whole, nil
}

// Add returns a + b, and reports whether the sum fits in an int64.
func Add(a, b int64) (sum int64, fits bool) { return extent.Add(a, b) }

// Mul returns a * b, and reports whether the product fits in an int64.
func Mul(a, b int64) (product int64, fits bool) { return extent.Mul(a, b) }

// AppendColumnMajor appends the strides of elements without gaps whose first dimension is the fastest. A size of 0 counts
// as 1. Errors: those of [Count].
func AppendColumnMajor(dst, shape []int64) ([]int64, error) {
	return appendStrides(dst, shape, func(k int) int { return len(shape) - 1 - k })
}

// AppendStrides appends the strides of elements without gaps. order lists the dimensions from the slowest to the fastest. A
// size of 0 counts as 1. Errors: those of [Count], and [ErrOrder].
func AppendStrides(dst, shape []int64, order []int) ([]int64, error) {
	if len(order) != len(shape) {
		return dst, fmt.Errorf("layout: order has %s, but the shape has %s: %w", extent.Number(len(order), "entry", "entries"), extent.Dimensions(len(shape)), ErrOrder)
	}
	return appendStrides(dst, shape, func(k int) int { return order[k] })
}

// appendStrides is [AppendStrides] for the order with dimension at(k) at place k.
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
			next = 0 // possible only without elements, where no stride has a meaning
		}
		step = next
	}
	return whole, nil
}

// Span returns the lowest offset to which the strides lead from element (0, ..., 0), and the offset after the highest. The
// lowest offset is 0 or negative. Without elements both are 0.
//
// Errors: [ErrRank], [ErrNegative], and [ErrOverflow], also if hi-lo does not fit in 63 bits: otherwise offsets from
// another corner, as after [Layout.Flip], could overflow.
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
		return 0, 0, fmt.Errorf("layout: strides[%d] = %d with shape[%d] = %d: %w", axis, strides[axis], axis, shape[axis], ErrOverflow)
	}
	hi, ok := extent.Add(high, 1)
	if !ok || lo < hi-math.MaxInt64 {
		return 0, 0, fmt.Errorf("layout: offsets %d to %d are farther apart than 63 bits can count: %w", lo, high, ErrOverflow)
	}
	return lo, hi, nil
}

func sameRank(shape, strides []int64) error {
	if len(shape) != len(strides) {
		return newError(ErrRank, "%s for %s", extent.Number(len(strides), "stride", "strides"), extent.Dimensions(len(shape)))
	}
	return nil
}

// IsRowMajor reports whether the elements lie without gaps in row-major order: the last dimension is the fastest, the first
// one the slowest. It returns true for a layout without elements, and false for an invalid layout.
func IsRowMajor(shape, strides []int64) bool {
	if len(shape) != len(strides) {
		return false
	}
	count, axis := extent.Count(shape)
	return axis < 0 && (count == 0 || extent.IsRowMajor(shape, strides))
}

// IsColumnMajor reports whether the elements lie without gaps in column-major order: the first dimension is the fastest, the
// last one the slowest. It returns true for a layout without elements, and false for an invalid layout.
func IsColumnMajor(shape, strides []int64) bool {
	if len(shape) != len(strides) {
		return false
	}
	count, axis := extent.Count(shape)
	if axis >= 0 || count == 0 {
		return axis < 0
	}
	step := int64(1)
	for d, n := range shape {
		if n != 1 && strides[d] != step {
			return false
		}
		step *= n
	}
	return true
}

// Packed reports whether the elements lie without gaps and overlaps. The dimensions may be in any order, and any of them
// may be reversed. order lists the dimensions from the slowest to the fastest; reversed[d] is true if the stride of
// dimension d is negative. Both are new slices. A layout without elements is packed; an invalid layout is not.
//
// With dimensions of size 1, several orders may be possible. Packed then returns 0, 1, ..., n-1 if this order is
// possible, otherwise n-1, ..., 1, 0 if this order is possible, and otherwise an order in which the dimensions of size
// 1 come first.
func Packed(shape, strides []int64) (order []int, reversed []bool, ok bool) {
	if len(shape) != len(strides) {
		return nil, nil, false
	}
	empty, err := isEmpty(shape)
	if err != nil {
		return nil, nil, false
	}
	order, reversed = make([]int, len(shape)), make([]bool, len(shape))
	for d, stride := range strides {
		order[d], reversed[d] = d, stride < 0 && shape[d] > 1 && !empty
	}
	if empty || packedIn(order, shape, strides) {
		return order, reversed, true
	}
	slices.Reverse(order)
	if packedIn(order, shape, strides) {
		return order, reversed, true
	}
	slices.SortFunc(order, func(a, b int) int {
		if shape[a] == 1 || shape[b] == 1 {
			return cmp.Or(cmp.Compare(min(shape[a], 2), min(shape[b], 2)), cmp.Compare(a, b))
		}
		return cmp.Compare(extent.Magnitude(strides[b]), extent.Magnitude(strides[a]))
	})
	if packedIn(order, shape, strides) {
		return order, reversed, true
	}
	return nil, nil, false
}

// packedIn is [Packed] for a given order of the dimensions.
func packedIn(order []int, shape, strides []int64) bool {
	step, fits := int64(1), true
	for _, d := range slices.Backward(order) {
		if shape[d] == 1 {
			continue
		}
		if !fits || extent.Magnitude(strides[d]) != uint64(step) {
			return false
		}
		step, fits = extent.Mul(step, shape[d])
	}
	return fits
}

// Overlaps reports whether two indices reach the same element; such a tensor must not be written to. It also returns true
// for an invalid layout, and if the strides interlock in so many ways that it ends its search.
func Overlaps(shape, strides []int64) bool {
	if len(shape) != len(strides) {
		return true
	}
	if lo, hi, err := Span(shape, strides); err != nil || lo == hi {
		return err != nil
	}
	// Whether two indices meet depends only on their difference, and not on its sign. The widest step comes first.
	var most [8]axis
	axes := most[:0]
	for d, n := range shape {
		if n <= 1 {
			continue
		}
		if strides[d] == 0 {
			return true
		}
		axes = append(axes, axis{step: int64(extent.Magnitude(strides[d])), most: n - 1})
	}
	slices.SortFunc(axes, func(a, b axis) int { return cmp.Compare(b.step, a.step) })
	reach, apart := int64(0), true
	for k := len(axes) - 1; k >= 0; k-- {
		axes[k].beyond = reach
		apart = apart && axes[k].step > reach
		reach += axes[k].step * axes[k].most
	}
	budget := 1 << 14
	return !apart && meet(axes, 0, false, &budget)
}

// An axis is a dimension of more than one element. step is the magnitude of its stride. most is the largest difference of
// two indices. beyond is the distance that all narrower axes cover together.
type axis struct{ step, most, beyond int64 }

// meet reports whether there are differences along the axes, not all 0, whose steps add up to -rest. moved is true if the
// difference along a wider axis is not 0. meet begins with the axis of the widest step, and tries only differences that the
// remaining axes can compensate. When the budget is used up, it returns true.
func meet(axes []axis, rest int64, moved bool, budget *int) bool {
	if len(axes) == 0 {
		return moved && rest == 0
	}
	a := axes[0]
	first := max(-floorDiv(rest+a.beyond, a.step), -a.most)
	last := min(floorDiv(a.beyond-rest, a.step), a.most)
	if !moved {
		first = 0 // the opposite differences need not be tried
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
