package layout

import (
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// room is the largest rank for which views allocate nothing.
const room = 8

// numbers holds the sizes and strides of the view that a function is making, on the stack of that function.
type numbers [2 * room]int64

// draft returns slices for the sizes and strides of a view of the given rank. They are two results because two slices stay
// in registers; a struct of them would go through memory, which takes as long as the rest of a view.
func (n *numbers) draft(rank int) (sizes, steps []int64) {
	if rank > room {
		both := make([]int64, 2*rank)
		return both[:rank:rank], both[rank:]
	}
	return n[:rank], n[room:][:rank]
}

// move sets the offset. A view without elements keeps the offset of its base. If fits is false, the offset or a stride has
// overflowed, which is an error unless the view is empty.
func (l *Layout) move(op string, empty bool, offset int64, fits bool) error {
	if empty {
		return nil
	}
	if !fits {
		return fmt.Errorf("layout: %s: %w", op, ErrOverflow)
	}
	l.Offset = offset
	return nil
}

// put sets shape and strides to those of a draft, and leaves the offset as it is.
func (l *Layout) put(sizes, steps []int64) {
	if rank := len(sizes); rank <= cap(l.Shape) && rank <= cap(l.Strides) {
		l.Shape, l.Strides = l.Shape[:rank], l.Strides[:rank]
		for d, n := range sizes { // faster than copy for the usual few dimensions
			l.Shape[d], l.Strides[d] = n, steps[d]
		}
		return
	}
	l.Shape = append(l.Shape[:0], sizes...)
	l.Strides = append(l.Strides[:0], steps...)
}

// check reports whether the layout has no elements. It returns an error for an invalid layout.
func (l *Layout) check() (empty bool, err error) {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return false, err
	}
	return isEmpty(l.Shape)
}

// newAxis returns the stride for a new dimension of size 1 before dimension d: the stride it would have without gaps.
func (l *Layout) newAxis(d int) int64 {
	if d >= len(l.Shape) {
		return 1
	}
	return product(max(l.Shape[d], 1), l.Strides[d])
}

// Slice takes a part of each dimension, by Python's rules. Dimensions without an index are taken whole.
//
// TensorFlow's Tensor::SubSlice(i) is Slice(At(i)).
//
// Errors: [ErrRank] for more indices than dimensions; [ErrIndex] for an [At] outside its dimension, a step of 0 and a second
// [Ellipsis]; [ErrOverflow].
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
	if err := l.move("slice", empty, offset, fits); err != nil {
		return err
	}
	l.put(sizes[:to], steps[:to])
	return nil
}

func errIndex(k int, x *Index, d int, n int64) error {
	return fmt.Errorf("layout: slice: index %d, %v, of dimension %d of size %d: %w", k, *x, d, n, ErrIndex)
}

// Index takes the elements with the given first indices and removes these dimensions. Negative indices count from the end. It
// is [Layout.Slice] with an [At] for each index.
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
	if err := l.move("index", empty, offset, fits); err != nil {
		return err
	}
	kept := l.Shape[len(index):]
	for d, n := range kept {
		l.Shape[d], l.Strides[d] = n, l.Strides[len(index)+d]
	}
	l.Shape, l.Strides = l.Shape[:len(kept)], l.Strides[:len(kept)]
	return nil
}

// Narrow takes size indices of dimension d, from start on. A negative start counts from the end. Unlike a slice, Narrow does
// not leave out indices outside the dimension. TensorFlow's Tensor::Slice(start, limit) is Narrow(0, start, limit-start).
//
// Errors: [ErrAxis]; [ErrIndex] for indices outside the dimension and for a negative size; [ErrOverflow].
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

// Split returns new layouts that divide dimension d into parts of the given sizes. It allocates twice, and 16 bytes for each
// dimension of each part. [Layout.Narrow] makes a single part in place.
//
// Errors: [ErrAxis]; [ErrNegative]; [ErrShape] unless the sizes sum to the size of the dimension; [ErrOverflow], also if the
// parts would need more memory than can be addressed.
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
	const addressable = 1 << 43 // pairs of a size and a stride
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

// Transpose puts the dimensions into another order: dimension k becomes what dimension order[k] was. Without an order it
// reverses the dimensions.
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

// dimension returns the number of dimension d counted from the start. A negative d counts from the end.
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

// errMark returns the error for a dimension d that does not exist or is named twice.
func errMark(op string, d, rank int) error {
	if _, err := dimension(op, d, rank); err != nil {
		return err
	}
	return refuse(ErrAxis, "%s: dimension %d is named twice", op, d)
}

// marks has an element for each dimension, which says whether the dimension has been named.
type marks []bool

// flags is the memory of marks on the stack, as [numbers] is for sizes and strides.
type flags [room]bool

func (f *flags) marks(rank int) marks {
	if rank > room {
		return make(marks, rank)
	}
	return f[:rank]
}

// mark marks dimension d as named, and returns its number counted from the start. ok is false if the dimension does not exist
// or is named already.
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

// markAll marks several dimensions as named.
func (m marks) markAll(op string, axes []int) error {
	for _, d := range axes {
		if _, ok := m.mark(d); !ok {
			return errMark(op, d, len(m))
		}
	}
	return nil
}

// Flip reverses the given dimensions, or all dimensions if none is given.
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

// Squeeze removes the given dimensions, which must be of size 1, or all dimensions of size 1 if none is given.
//
// Errors: [ErrAxis], and [ErrShape] for a given dimension of another size.
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

// Expand inserts dimensions of size 1. axes are their numbers in the resulting view.
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

// Broadcast repeats elements, by giving dimensions a stride of 0, until the layout has the given shape. Dimensions are matched
// from the last one on; those of size 1 are repeated, and missing ones are added. The shape may have more elements than the
// memory. Repeated elements must not be written through the view (see [Overlaps]).
//
// Errors: [ErrShape], and those of [Count] for the shape.
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

// Diagonal takes the elements whose index along dimension b exceeds the index along dimension a by k. It removes these two
// dimensions; the diagonal becomes the last dimension.
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
	if err := l.move("diagonal", empty || size == 0, offset, fits && ok); err != nil {
		return err
	}
	l.put(sizes, steps)
	return nil
}

// Windows makes sliding windows along dimension d. A window has size elements, dilation apart; each window begins step
// elements after the previous one. Dimension d then counts the windows, and a new last dimension the elements of a window.
//
// Errors: [ErrAxis]; [ErrShape] if size, step or dilation is not positive, or the dimension is shorter than a window;
// [ErrOverflow] if the number of elements of all windows does not fit in 63 bits.
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
