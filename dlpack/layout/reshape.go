package layout

import (
	"fmt"

	"github.com/dlbridge/dlbridge/internal/extent"
)

// Reshape gives the elements, in row-major order of their indices, another shape. One size may be -1:
// it is what the others leave.
//
// Errors: [ErrShape] where the shape has another number of elements, or any size would do for the one that is -1;
// [ErrNegative] for a second -1; [ErrCopy] where no strides give this shape; as [Count].
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

// respread gives the elements, of which there are count, a shape of as many.
func (l *Layout) respread(sizes, steps []int64, count int64) error {
	// From the fastest dimension on, the elements come in stretches of one stride, and each new
	// dimension has to lie within one.
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
	l.put(sizes, steps)
	return nil
}

// stretchAt merges dimension d with the slower ones for as long as the elements keep their stride. It
// returns how many elements there are, their stride, and the next dimension.
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

// complete puts in a size of -1 what the others leave of count elements.
func complete(shape []int64, count int64) error {
	open := -1
	for d, n := range shape {
		if n != -1 {
			continue
		}
		if open >= 0 {
			return refuse(ErrNegative, "reshape: shape[%d] and shape[%d] are -1, which only one size may be", open, d)
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
		return fmt.Errorf("layout: reshape: %d elements to a shape of %d: %w", count, known, ErrShape)
	case known != 0 && count%known == 0:
		shape[open] = count / known
		return nil
	case known == 0 && count == 0:
		return refuse(ErrShape, "reshape: shape[%d] = -1 could be any size, since another is 0", open)
	}
	return refuse(ErrShape, "reshape: no size for shape[%d] = -1: the others have %d elements, the tensor %d", open, known, count)
}

// FlatInner merges the slowest dimensions until rank are left: [3 4 5] to 2 is [12 5]. Where there are
// fewer, dimensions of size 1 come before them. It is TensorFlow's Tensor::flat_inner_dims.
//
// Errors: as [Layout.FlatInnerOuter].
func (l *Layout) FlatInner(rank int) error { return l.flat(len(l.Shape)-rank, rank) }

// FlatOuter merges the fastest dimensions until rank are left: [3 4 5] to 2 is [3 20]. Where there
// are fewer, dimensions of size 1 come behind them. It is TensorFlow's Tensor::flat_outer_dims.
//
// Errors: as [Layout.FlatInnerOuter].
func (l *Layout) FlatOuter(rank int) error { return l.flat(0, rank) }

// FlatInnerOuter makes rank dimensions, of which the first is dimension begin: it is merged with all
// before, and the last one with all behind. It is TensorFlow's Tensor::flat_inner_outer_dims; begin is not
// counted from the end.
//
// Errors: [ErrRank] for a rank that is not in 1 to [MaxRank], [ErrAxis] for a begin that is not
// a dimension, [ErrCopy], [ErrOverflow].
func (l *Layout) FlatInnerOuter(begin, rank int) error {
	if begin < 0 || begin >= len(l.Shape) {
		return errAxis("flat", begin, len(l.Shape))
	}
	return l.flat(begin, rank)
}

// flat takes a begin below 0 to be one of the dimensions that are missing in front.
func (l *Layout) flat(begin, rank int) error {
	if _, err := l.check(); err != nil {
		return err
	}
	if rank < 1 || rank > MaxRank {
		return refuse(ErrRank, "flat: rank %d is not in 1 to %d", rank, MaxRank)
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

// Bitcast reads the same memory as elements of another size: from and to are the sizes, in one unit,
// and the layout counts in elements of the one before and of the other after. The last dimension
// changes its size, so that its elements must lie without gaps.
//
// TensorFlow's Tensor::BitcastFrom is Reshape(-1), Bitcast and Reshape; its operator tf.bitcast is
// Expand(-1) and Bitcast to smaller elements, and Bitcast and Squeeze(-1) to larger ones.
//
// Errors: [ErrRank] without dimensions, unless the sizes are equal; [ErrShape] where the last
// dimension is no whole number of new elements or a size is not positive; [ErrCopy] where elements
// lie with gaps or between those of the new size; [ErrOverflow].
func (l *Layout) Bitcast(from, to int64) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	if from < 1 || to < 1 {
		return fmt.Errorf("layout: bitcast: elements of %d and %d: %w", from, to, ErrShape)
	}
	unit := gcd(from, to)
	factor, part := from/unit, to/unit // factor new elements lie where part old ones were
	if factor == part {
		return nil
	}
	last := len(l.Shape) - 1
	if last < 0 {
		return refuse(ErrRank, "bitcast: a scalar has no dimension that could change its size from %d to %d; Expand makes one", from, to)
	}
	parts, whole := over(l.Shape[last], part)
	if !whole {
		return fmt.Errorf("layout: bitcast: %d elements of %d are no whole number of %d: %w", l.Shape[last], from, to, ErrShape)
	}
	if l.Shape[last] > 1 && l.Strides[last] != 1 && !empty {
		return fmt.Errorf("layout: bitcast: stride %d: %w", l.Strides[last], ErrCopy)
	}
	var buf numbers
	sizes, steps := buf.draft(last + 1)
	for d, n := range l.Shape[:last] {
		stride, whole := over(l.Strides[d], part)
		if !whole && n > 1 && !empty {
			return fmt.Errorf("layout: bitcast: strides[%d] = %d is no multiple of %d: %w", d, l.Strides[d], part, ErrCopy)
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
		return fmt.Errorf("layout: bitcast: offset %d is between elements of %d: %w", l.Offset, to, ErrCopy)
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
	l.Offset = offset
	l.put(sizes, steps)
	return nil
}

// over is n / part, and whether that is all of it. Mostly part is 1, and a division takes longer than the rest
// of a dimension.
func over(n, part int64) (quotient int64, whole bool) {
	if part == 1 {
		return n, true
	}
	return n / part, n%part == 0
}
