package layout

import (
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/internal/extent"
)

// room is the rank up to which views are made without allocating.
const room = 8

// numbers are the sizes and the strides of a view that is being made, on the stack of the function that makes
// it.
type numbers [2 * room]int64

// draft makes room for a rank. Two slices stay in registers; a struct of them would go through memory, which
// costs as much as the rest of a view.
func (n *numbers) draft(rank int) (sizes, steps []int64) {
	if rank > room {
		both := make([]int64, 2*rank)
		return both[:rank:rank], both[rank:]
	}
	return n[:rank], n[room:][:rank]
}

// take makes the draft the layout, at an offset which counts only if there are elements.
func (l *Layout) take(op string, sizes, steps []int64, offset int64, fits bool) error {
	empty, err := isEmpty(sizes)
	if err != nil {
		return err
	}
	if !empty {
		if !fits {
			return fmt.Errorf("layout: %s: %w", op, ErrOverflow)
		}
		l.Offset = offset
	}
	l.put(sizes, steps)
	return nil
}

// put makes the draft the layout, at the same offset.
func (l *Layout) put(sizes, steps []int64) {
	if rank := len(sizes); rank <= cap(l.Shape) && rank <= cap(l.Strides) {
		l.Shape, l.Strides = l.Shape[:rank], l.Strides[:rank]
		for d, n := range sizes { // mostly fewer than what a call of copy is worth
			l.Shape[d], l.Strides[d] = n, steps[d]
		}
		return
	}
	l.Shape = append(l.Shape[:0], sizes...)
	l.Strides = append(l.Strides[:0], steps...)
}

// check refuses what is no layout, and tells whether it has no elements.
func (l *Layout) check() (empty bool, err error) {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return false, err
	}
	return isEmpty(l.Shape)
}

// newAxis is the stride for a dimension of size 1 before dimension d: that of a layout without gaps.
func (l *Layout) newAxis(d int) int64 {
	if d >= len(l.Shape) {
		return 1
	}
	return product(max(l.Shape[d], 1), l.Strides[d])
}

// Slice takes part of each dimension, by Python's rules. Dimensions without an index are taken whole.
//
// TensorFlow's Tensor::SubSlice(i) is Slice(At(i)).
//
// Errors: [ErrRank] for more indices than dimensions, [ErrIndex] for an [At] that leads out of its
// dimension, a step of 0 and a second [Ellipsis], [ErrOverflow].
func (l *Layout) Slice(index ...Index) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	rank, taken, axes, more := len(l.Shape), 0, 0, false
	for k := range index {
		switch index[k].kind {
		case kindEllipsis:
			if more {
				return refuse(ErrIndex, "slice: index %d is a second ellipsis", k)
			}
			more = true
		case kindNewAxis:
			axes++
		default:
			taken++
		}
	}
	if taken > rank {
		return fmt.Errorf("layout: slice: %d indices for %d dimensions: %w", taken, rank, ErrRank)
	}

	var buf numbers
	sizes, steps := buf.draft(rank + axes)
	to, d, offset, fits := 0, 0, l.Offset, true
	for k := range index {
		x := &index[k]
		switch x.kind {
		case kindEllipsis:
			for range rank - taken {
				sizes[to], steps[to] = l.Shape[d], l.Strides[d]
				to, d = to+1, d+1
			}
			continue
		case kindNewAxis:
			sizes[to], steps[to] = 1, l.newAxis(d)
			to++
			continue
		}
		n, stride := l.Shape[d], l.Strides[d]
		if x.kind == kindAt {
			i := fromStart(x.start, n)
			if i < 0 || i >= n {
				return errIndex(k, x, d, n)
			}
			offset, fits = forward(offset, fits, i, stride)
			d++
			continue
		}
		if x.kind != 0 || x.skip != 0 { // not the whole dimension
			first, count, ok := x.of(n)
			if !ok {
				return refuse(ErrIndex, "slice: index %d, %v, has a step of 0", k, *x)
			}
			n, empty = count, empty || count == 0
			if first != 0 {
				offset, fits = forward(offset, fits, first, stride)
			}
			if x.skip != 0 {
				if stride, ok = stretch(stride, x.skip+1, count); !ok {
					stride, fits = 0, false
				}
			}
		}
		sizes[to], steps[to] = n, stride
		to, d = to+1, d+1
	}
	for ; d < rank; d++ {
		sizes[to], steps[to] = l.Shape[d], l.Strides[d]
		to++
	}
	if !empty {
		if !fits {
			return fmt.Errorf("layout: slice: %w", ErrOverflow)
		}
		l.Offset = offset
	}
	l.put(sizes[:to], steps[:to])
	return nil
}

func errIndex(k int, x *Index, d int, n int64) error {
	return fmt.Errorf("layout: slice: index %d, %v, of dimension %d of size %d: %w", k, *x, d, n, ErrIndex)
}

// Index takes the elements with these first indices; negative ones count from the end. It is [Layout.Slice] with
// an [At] for each.
//
// Errors: [ErrRank] for more indices than dimensions, [ErrIndex], [ErrOverflow].
func (l *Layout) Index(index ...int64) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	if len(index) > len(l.Shape) {
		return fmt.Errorf("layout: index: %d indices for %d dimensions: %w", len(index), len(l.Shape), ErrRank)
	}
	offset, fits := l.Offset, true
	for d, i := range index {
		n := l.Shape[d]
		i = fromStart(i, n)
		if i < 0 || i >= n {
			return fmt.Errorf("layout: index: index[%d] = %d of %d: %w", d, index[d], n, ErrIndex)
		}
		offset, fits = forward(offset, fits, i, l.Strides[d])
	}
	if !empty {
		if !fits {
			return fmt.Errorf("layout: index: %w", ErrOverflow)
		}
		l.Offset = offset
	}
	kept := l.Shape[len(index):]
	for d, n := range kept {
		l.Shape[d], l.Strides[d] = n, l.Strides[len(index)+d]
	}
	l.Shape, l.Strides = l.Shape[:len(kept)], l.Strides[:len(kept)]
	return nil
}

// Narrow takes size indices of dimension d, from start on, and nothing outside of it; a negative start counts from
// the end. TensorFlow's Tensor::Slice(start, limit) is Narrow(0, start, limit-start).
//
// Errors: [ErrAxis], [ErrIndex] where the dimension does not have them all and for a negative size, and
// [ErrOverflow].
func (l *Layout) Narrow(d int, start, size int64) error {
	if _, err := l.check(); err != nil {
		return err
	}
	d, err := dimension("narrow", d, len(l.Shape))
	if err != nil {
		return err
	}
	before := l.Shape[d]
	if size < 0 {
		return refuse(ErrIndex, "narrow: size = %d is negative", size)
	}
	first := start
	if start = fromStart(start, before); start < 0 || start > before || size > before-start {
		return fmt.Errorf("layout: narrow: %d from %d on of dimension %d of size %d: %w", size, first, d, before, ErrIndex)
	}
	l.Shape[d] = size
	if empty, _ := isEmpty(l.Shape); empty || start == 0 {
		return nil
	}
	offset, fits := forward(l.Offset, true, start, l.Strides[d])
	if !fits {
		l.Shape[d] = before
		return fmt.Errorf("layout: narrow: %d strides of %d: %w", start, l.Strides[d], ErrOverflow)
	}
	l.Offset = offset
	return nil
}

// Split cuts dimension d into layouts of these sizes. They are new, in two allocations, and take 16 bytes for each
// dimension of each; [Layout.Narrow] makes one of them in place.
//
// Errors: [ErrAxis], [ErrNegative], [ErrShape] unless the sizes sum to that of the dimension, and [ErrOverflow], also of
// more dimensions in all than can be addressed.
func (l Layout) Split(d int, sizes ...int64) ([]Layout, error) {
	if _, err := l.check(); err != nil {
		return nil, err
	}
	d, err := dimension("split", d, len(l.Shape))
	if err != nil {
		return nil, err
	}
	rest := l.Shape[d]
	for k, size := range sizes {
		if size < 0 {
			return nil, fmt.Errorf("layout: split: size %d is %d: %w", k, size, ErrNegative)
		}
		if size > rest {
			return nil, fmt.Errorf("layout: split: size %d is %d, %d are left of dimension %d: %w", k, size, rest, d, ErrShape)
		}
		rest -= size
	}
	if rest != 0 {
		return nil, fmt.Errorf("layout: split: %d are left of dimension %d: %w", rest, d, ErrShape)
	}
	const addressable = 1 << 43 // sizes and strides
	rank := len(l.Shape)
	if len(sizes) > addressable/rank {
		return nil, fmt.Errorf("layout: split: %d layouts of %d dimensions: %w", len(sizes), rank, ErrOverflow)
	}
	parts, numbers := make([]Layout, len(sizes)), make([]int64, 2*rank*len(sizes))
	start := int64(0)
	for k, size := range sizes {
		shape, strides := numbers[:0:rank], numbers[rank:rank:2*rank]
		numbers = numbers[2*rank:]
		parts[k] = Layout{Shape: shape, Strides: strides}
		parts[k].Set(l)
		if err := parts[k].Narrow(d, start, size); err != nil {
			return nil, err
		}
		start += size
	}
	return parts, nil
}

// Transpose puts the dimensions into another order: dimension k becomes what order[k] was. Without an
// order it turns them round.
//
// Errors: [ErrOrder].
func (l *Layout) Transpose(order ...int) error {
	if _, err := l.check(); err != nil {
		return err
	}
	rank := len(l.Shape)
	if len(order) == 0 {
		slices.Reverse(l.Shape)
		slices.Reverse(l.Strides)
		return nil
	}
	if len(order) != rank {
		return fmt.Errorf("layout: transpose: order of %d for %d dimensions: %w", len(order), rank, ErrOrder)
	}
	var buf numbers
	sizes, steps := buf.draft(rank)
	var set flags
	named := set.marks(rank)
	for k, d := range order {
		from, ok := named.mark(d)
		if !ok {
			if _, err := dimension("transpose", d, rank); err != nil {
				return refuse(ErrOrder, "transpose: order[%d] = %d is no dimension of %d", k, d, rank)
			}
			return refuse(ErrOrder, "transpose: order[%d] = %d names a dimension again", k, d)
		}
		sizes[k], steps[k] = l.Shape[from], l.Strides[from]
	}
	l.put(sizes, steps)
	return nil
}

// dimension is the place of dimension d in a rank, where negative numbers count from the end.
func dimension(op string, d, rank int) (int, error) {
	at := d
	if at < 0 {
		at += rank
	}
	if at < 0 || at >= rank {
		return 0, errAxis(op, d, rank)
	}
	return at, nil
}

func errAxis(op string, d, rank int) error {
	return fmt.Errorf("layout: %s: dimension %d of %d: %w", op, d, rank, ErrAxis)
}

// errMark is for a dimension that is not there, or was named before.
func errMark(op string, d, rank int) error {
	if _, err := dimension(op, d, rank); err != nil {
		return err
	}
	return refuse(ErrAxis, "%s: dimension %d is named twice", op, d)
}

// marks tells of each dimension whether it was named.
type marks []bool

// flags is where marks begin, like [numbers].
type flags [room]bool

func (f *flags) marks(rank int) marks {
	if rank > room {
		return make(marks, rank)
	}
	return f[:rank]
}

// mark names dimension d; ok is false where it is not there or was named before.
func (m marks) mark(d int) (at int, ok bool) {
	if d < 0 {
		d += len(m)
	}
	if d < 0 || d >= len(m) || m[d] {
		return 0, false
	}
	m[d] = true
	return d, true
}

// markAll names these dimensions.
func (m marks) markAll(op string, axes []int) error {
	for _, d := range axes {
		if _, ok := m.mark(d); !ok {
			return errMark(op, d, len(m))
		}
	}
	return nil
}

// Flip reverses these dimensions, or all where none is named.
//
// Errors: [ErrAxis], [ErrOverflow].
func (l *Layout) Flip(axes ...int) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	var set flags
	named := set.marks(len(l.Shape))
	if err := named.markAll("flip", axes); err != nil || empty {
		return err
	}
	offset, fits := l.Offset, true
	for d, n := range l.Shape {
		if (len(axes) == 0 || named[d]) && n > 1 {
			offset, fits = forward(offset, fits, n-1, l.Strides[d])
			if _, ok := extent.Mul(l.Strides[d], -1); !ok {
				fits = false
			}
		}
	}
	if !fits {
		return fmt.Errorf("layout: flip: %w", ErrOverflow)
	}
	l.Offset = offset
	for d, n := range l.Shape {
		if (len(axes) == 0 || named[d]) && n > 1 {
			l.Strides[d] = -l.Strides[d]
		}
	}
	return nil
}

// Squeeze takes away these dimensions of size 1, or all of them where none is named.
//
// Errors: [ErrAxis], and [ErrShape] where a named one is of another size.
func (l *Layout) Squeeze(axes ...int) error {
	if _, err := l.check(); err != nil {
		return err
	}
	var set flags
	named := set.marks(len(l.Shape))
	if err := named.markAll("squeeze", axes); err != nil {
		return err
	}
	for d, n := range l.Shape {
		if named[d] && n != 1 {
			return fmt.Errorf("layout: squeeze: dimension %d is of size %d: %w", d, n, ErrShape)
		}
	}
	kept := 0
	for d, n := range l.Shape {
		if named[d] || len(axes) == 0 && n == 1 {
			continue
		}
		l.Shape[kept], l.Strides[kept] = n, l.Strides[d]
		kept++
	}
	l.Shape, l.Strides = l.Shape[:kept], l.Strides[:kept]
	return nil
}

// Expand makes dimensions of size 1, at these places of the view.
//
// Errors: [ErrAxis].
func (l *Layout) Expand(axes ...int) error {
	if _, err := l.check(); err != nil {
		return err
	}
	rank := len(l.Shape) + len(axes)
	var set flags
	named := set.marks(rank)
	if err := named.markAll("expand", axes); err != nil {
		return err
	}
	var buf numbers
	sizes, steps := buf.draft(rank)
	d := 0
	for k, isNew := range named {
		if isNew {
			sizes[k], steps[k] = 1, l.newAxis(d)
			continue
		}
		sizes[k], steps[k] = l.Shape[d], l.Strides[d]
		d++
	}
	l.put(sizes, steps)
	return nil
}

// Broadcast repeats elements until the layout has this shape: dimensions are matched from the last
// one on, those of size 1 are repeated and missing ones are made. What is repeated must not be
// written through the view (see [Overlaps]).
//
// Errors: [ErrShape], and as [Count] of the shape.
func (l *Layout) Broadcast(shape ...int64) error {
	if _, err := l.check(); err != nil {
		return err
	}
	if _, err := Count(shape); err != nil {
		return err
	}
	missing := len(shape) - len(l.Shape)
	if missing < 0 {
		return fmt.Errorf("layout: broadcast: %d dimensions to %d: %w", len(l.Shape), len(shape), ErrShape)
	}
	var buf numbers
	sizes, steps := buf.draft(len(shape))
	for d, n := range shape {
		switch {
		case d < missing:
			sizes[d], steps[d] = n, 0
		case n == l.Shape[d-missing]:
			sizes[d], steps[d] = n, l.Strides[d-missing]
		case l.Shape[d-missing] == 1:
			sizes[d], steps[d] = n, 0
		default:
			return fmt.Errorf("layout: broadcast: dimension %d of size %d to %d: %w", d-missing, l.Shape[d-missing], n, ErrShape)
		}
	}
	l.put(sizes, steps)
	return nil
}

// Diagonal takes the elements whose index along dimension b is k more than that along dimension a.
// The two dimensions go, that of the diagonal is the last.
//
// Errors: [ErrAxis], [ErrOverflow].
func (l *Layout) Diagonal(k int64, a, b int) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	rank := len(l.Shape)
	var set flags
	named := set.marks(rank)
	first, ok := named.mark(a)
	if !ok {
		return errMark("diagonal", a, rank)
	}
	second, ok := named.mark(b)
	if !ok {
		return errMark("diagonal", b, rank)
	}
	var buf numbers
	sizes, steps := buf.draft(rank - 1)
	kept := 0
	for d, n := range l.Shape {
		if !named[d] {
			sizes[kept], steps[kept] = n, l.Strides[d]
			kept++
		}
	}
	offset, fits := l.Offset, true
	rows, columns := l.Shape[first], l.Shape[second]
	if k < 0 {
		rows += k
		offset, fits = forward(offset, fits, product(k, -1), l.Strides[first])
	} else {
		columns -= k
		offset, fits = forward(offset, fits, k, l.Strides[second])
	}
	size := max(min(rows, columns), 0)
	stride, ok := extent.Add(l.Strides[first], l.Strides[second])
	if size <= 1 || empty && !ok {
		stride, ok = 1, true
	}
	sizes[kept], steps[kept] = size, stride
	return l.take("diagonal", sizes, steps, offset, fits && ok)
}

// Windows makes sliding windows along dimension d: it then counts the windows, and a new last
// dimension the elements of each. Windows are of size elements that lie dilation apart, and begin
// step after one another.
//
// Errors: [ErrAxis], [ErrShape] where size, step or dilation is not positive or the dimension is
// shorter than a window, [ErrOverflow] where there are more elements in all windows than can be counted.
func (l *Layout) Windows(d int, size, step, dilation int64) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	d, err = dimension("windows", d, len(l.Shape))
	if err != nil {
		return err
	}
	if size < 1 || step < 1 || dilation < 1 {
		return fmt.Errorf("layout: windows: size %d, step %d, dilation %d: %w", size, step, dilation, ErrShape)
	}
	n := l.Shape[d]
	reach, fits := extent.Mul(size-1, dilation)
	if !fits || reach >= n {
		return fmt.Errorf("layout: windows: %d elements, %d apart, in dimension %d of size %d: %w", size, dilation, d, n, ErrShape)
	}
	count := (n-1-reach)/step + 1
	between, fits1 := stretch(l.Strides[d], step, count)
	within, fits2 := stretch(l.Strides[d], dilation, size)
	if !fits1 || !fits2 {
		if !empty {
			return fmt.Errorf("layout: windows: %w", ErrOverflow)
		}
		between, within = 0, 0
	}
	var buf numbers
	sizes, steps := buf.draft(len(l.Shape) + 1)
	for k, n := range l.Shape {
		sizes[k], steps[k] = n, l.Strides[k]
	}
	sizes[d], steps[d] = count, between
	sizes[len(l.Shape)], steps[len(l.Shape)] = size, within
	if _, err := Count(sizes); err != nil {
		return err
	}
	l.put(sizes, steps)
	return nil
}
