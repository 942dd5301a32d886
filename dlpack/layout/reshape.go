package layout

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// Reshape changes the shape. The elements keep the row-major order of their indices. One size may be -1; Reshape then
// computes it from the number of elements and the other sizes.
//
// Errors: [ErrShape] for a shape with another number of elements, and for a -1 beside a size of 0, because the -1 could be
// any size; [ErrNegative] for a second -1; [ErrCopy] if no strides can express the shape; those of [Count].
func (l *Layout) Reshape(shape ...int64) error {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return err
	}
	count, err := l.Count()
	if err != nil {
		return err
	}
	var buf numbers
	sizes, steps := buf.draft(len(shape))
	copy(sizes, shape)
	if err := complete(sizes, count); err != nil {
		return err
	}
	return l.respread(sizes, steps, count)
}

// respread gives the layout the shape sizes. Their product is count, the number of elements of the layout. respread stores
// the new strides in steps.
func (l *Layout) respread(sizes, steps []int64, count int64) error {
	// From the fastest dimension on, the elements form stretches with one stride each. A new dimension must lie within
	// one stretch, because it has only one stride.
	d := len(l.Shape) - 1
	left, stride := int64(1), int64(1)
	for k := len(sizes) - 1; k >= 0; k-- {
		size := sizes[k]
		if count != 0 && size > 1 && left == 1 {
			left, stride, d = l.stretchAt(d)
		}
		steps[k] = stride
		if left == size {
			left = 1
		} else if count != 0 && size != 1 {
			if left%size != 0 {
				return fmt.Errorf("layout: reshape: shape[%d] = %d spans elements of different strides: %w", k, size, ErrCopy)
			}
			left /= size
		}
		stride = product(stride, max(size, 1))
	}
	l.Set(Layout{sizes, steps, l.Offset})
	return nil
}

// stretchAt returns the number of elements and the stride of the stretch that begins with dimension d. The stretch extends
// to slower dimensions as long as they continue it; next is the first dimension that does not.
func (l *Layout) stretchAt(d int) (count, stride int64, next int) {
	for ; d >= 0 && l.Shape[d] == 1; d-- {
	}
	if d < 0 {
		return 1, 1, d
	}
	count, stride = l.Shape[d], l.Strides[d]
	for d--; d >= 0; d-- {
		if l.Shape[d] == 1 {
			continue
		}
		if step, fits := extent.Mul(stride, count); !fits || step != l.Strides[d] {
			break
		}
		count *= l.Shape[d]
	}
	return count, stride, d
}

// complete replaces a size of -1 so that the shape has count elements. It returns an error if the shape cannot have them.
func complete(shape []int64, count int64) error {
	open := -1
	for d, n := range shape {
		if n != -1 {
			continue
		}
		if open >= 0 {
			return newError(ErrNegative, "reshape: shape[%d] and shape[%d] are -1, but only one size may be -1", open, d)
		}
		open = d
		shape[d] = 1
	}
	known, err := Count(shape)
	switch {
	case err != nil:
		return err
	case open < 0 && known == count:
		return nil
	case open < 0:
		return fmt.Errorf("layout: reshape: the shape has %s, but the tensor has %d: %w", extent.Elements(known), count, ErrShape)
	case known != 0 && count%known == 0:
		shape[open] = count / known
		return nil
	case known == 0 && count == 0:
		return newError(ErrShape, "reshape: shape[%d] = -1 could be any size, because another size is 0", open)
	}
	return newError(ErrShape, "reshape: no size fits shape[%d] = -1: the other sizes have %s, but the tensor has %d", open, extent.Elements(known), count)
}

// FlatInner merges the slowest dimensions so that rank dimensions are left: with rank 2, [3 4 5] becomes [12 5]. If the layout
// has fewer dimensions, it inserts dimensions of size 1 before them. TensorFlow calls it Tensor::flat_inner_dims.
//
// Errors: those of [Layout.FlatEnds].
func (l *Layout) FlatInner(rank int) error { return l.flat(len(l.Shape)-rank, rank) }

// FlatOuter merges the fastest dimensions so that rank dimensions are left: with rank 2, [3 4 5] becomes [3 20]. If the layout
// has fewer dimensions, it appends dimensions of size 1. TensorFlow calls it Tensor::flat_outer_dims.
//
// Errors: those of [Layout.FlatEnds].
func (l *Layout) FlatOuter(rank int) error { return l.flat(0, rank) }

// FlatEnds keeps rank dimensions, beginning with dimension begin. It merges all earlier dimensions into the first of
// these, and all later dimensions into the last. A negative begin does not count from the end. TensorFlow calls it
// Tensor::flat_inner_outer_dims.
//
// Errors: [ErrRank] for a rank below 1 or above [MaxPartialRank], [ErrAxis] if begin is not a dimension, [ErrCopy],
// [ErrOverflow].
func (l *Layout) FlatEnds(begin, rank int) error {
	if begin < 0 || begin >= len(l.Shape) {
		return errAxis("flat", begin, len(l.Shape))
	}
	return l.flat(begin, rank)
}

// flat is [Layout.FlatEnds]. If begin is negative, -begin dimensions of size 1 are inserted before the first one.
func (l *Layout) flat(begin, rank int) error {
	if _, err := l.check(); err != nil {
		return err
	}
	if rank < 1 || rank > MaxPartialRank {
		return newError(ErrRank, "flat: rank %d is not in 1 to %d", rank, MaxPartialRank)
	}
	var buf numbers
	sizes, steps := buf.draft(rank)
	for k := range sizes {
		sizes[k] = 1
	}
	for d, n := range l.Shape {
		size := &sizes[min(max(d-begin, 0), rank-1)]
		var fits bool
		if *size, fits = extent.Mul(*size, n); !fits {
			return fmt.Errorf("layout: flat: shape[%d] = %d: %w", d, n, ErrOverflow)
		}
	}
	count, err := Count(sizes)
	if err != nil {
		return err
	}
	return l.respread(sizes, steps, count)
}

// Bitcast views the same memory as elements of another size. from is the old size of an element, to the new size, in the same
// unit, such as bits. The size of the last dimension changes; its elements must lie without gaps.
//
// TensorFlow's Tensor::BitcastFrom is Reshape(-1), Bitcast and Reshape. Its operator tf.bitcast is Expand(-1) and Bitcast for
// smaller elements, and Bitcast and Squeeze(-1) for larger ones.
//
// Errors: [ErrRank] without dimensions, unless from and to are equal; [ErrShape] if the last dimension does not hold a whole
// number of new elements, or if from or to is not positive; [ErrCopy] if the elements of the last dimension have gaps, or if
// a row or the layout does not start at a new element; [ErrOverflow].
func (l *Layout) Bitcast(from, to int64) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	if from < 1 || to < 1 {
		return fmt.Errorf("layout: bitcast: element sizes %d and %d must be positive: %w", from, to, ErrShape)
	}
	unit := gcd(from, to)
	factor, part := from/unit, to/unit // factor new elements take the place of part old elements
	if factor == part {
		return nil
	}
	last := len(l.Shape) - 1
	if last < 0 {
		return newError(ErrRank, "bitcast: the element size of a scalar cannot change from %d to %d; add a dimension of size 1 first", from, to)
	}
	parts, whole := over(l.Shape[last], part)
	if !whole {
		n, are := l.Shape[last], "are"
		if n == 1 {
			are = "is"
		}
		return fmt.Errorf("layout: bitcast: %s of size %d %s not a whole number of elements of size %d: %w", extent.Elements(n), from, are, to, ErrShape)
	}
	if l.Shape[last] > 1 && l.Strides[last] != 1 && !empty {
		return fmt.Errorf("layout: bitcast: the last dimension has stride %d instead of 1: %w", l.Strides[last], ErrCopy)
	}
	var buf numbers
	sizes, steps := buf.draft(last + 1)
	for d, n := range l.Shape[:last] {
		stride, whole := over(l.Strides[d], part)
		if !whole && n > 1 && !empty {
			return fmt.Errorf("layout: bitcast: strides[%d] = %d is not a multiple of %d: %w", d, l.Strides[d], part, ErrCopy)
		}
		stride, fits := extent.Mul(stride, factor)
		if !fits && n > 1 && !empty {
			return fmt.Errorf("layout: bitcast: strides[%d] = %d: %w", d, l.Strides[d], ErrOverflow)
		}
		sizes[d], steps[d] = n, stride
	}
	size, fits := extent.Mul(parts, factor)
	if !fits {
		return fmt.Errorf("layout: bitcast: shape[%d] = %d: %w", last, l.Shape[last], ErrOverflow)
	}
	sizes[last], steps[last] = size, 1
	offset, whole := over(l.Offset, part)
	if !whole && !empty {
		return fmt.Errorf("layout: bitcast: offset %d is not at the start of an element of size %d: %w", l.Offset, to, ErrCopy)
	}
	if offset, fits = extent.Mul(offset, factor); !fits {
		return fmt.Errorf("layout: bitcast: offset = %d: %w", l.Offset, ErrOverflow)
	}
	lo, hi, err := Span(sizes, steps)
	if err != nil {
		return err
	}
	_, fitsLow := extent.Add(lo, offset)
	_, fitsHigh := extent.Add(hi, offset)
	if !empty && (!fitsLow || !fitsHigh) {
		return fmt.Errorf("layout: bitcast: offset = %d: %w", l.Offset, ErrOverflow)
	}
	if _, err := Count(sizes); err != nil {
		return err
	}
	l.Set(Layout{sizes, steps, offset})
	return nil
}

// over returns n/part, and whether part divides n. It tests for 1, the most frequent part, because a division takes longer
// than all other work for a dimension.
func over(n, part int64) (quotient int64, whole bool) {
	if part == 1 {
		return n, true
	}
	return n / part, n%part == 0
}
