package layout

import (
	"fmt"
	"math"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// room is the largest rank for which views allocate nothing.
const room = 8

// numbers holds the sizes and strides of a view on the stack of the function that makes the view.
type numbers [2 * room]int64

// draft returns slices for the sizes and strides of a view of the given rank. It returns two slices because these stay in
// registers; a struct of both would go through memory, which takes as long as the rest of the view.
func (n *numbers) draft(rank int) (sizes, steps []int64) {
	if rank > room {
		both := make([]int64, 2*rank)
		return both[:rank:rank], both[rank:]
	}
	return n[:rank], n[room:][:rank]
}

// move sets the shape, the strides and the offset. A view without elements keeps the offset of its base. fits is false if
// the offset or a stride has overflowed; this is an error unless the view is empty.
func (l *Layout) move(op string, sizes, steps []int64, empty bool, offset int64, fits bool) error {
	if empty {
		offset, fits = l.Offset, true
	}
	if !fits {
		return fmt.Errorf("layout: %s: %w", op, ErrOverflow)
	}
	l.Set(Layout{sizes, steps, offset})
	return nil
}

// check reports whether the layout has no elements. It returns an error for an invalid layout.
func (l *Layout) check() (empty bool, err error) {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return false, err
	}
	return isEmpty(l.Shape)
}

// dimension checks the layout like check, and returns the number of dimension d counted from the start.
func (l *Layout) dimension(op string, d int) (at int, empty bool, err error) {
	if empty, err = l.check(); err == nil {
		at, err = dimension(op, d, len(l.Shape))
	}
	return at, empty, err
}

// newAxis returns the stride for a new dimension of size 1 before dimension d of l. It is the size of dimension d, at least 1,
// times its stride; 1 after the last dimension; 0 if the product overflows. No address depends on it, because the only index
// of the new dimension is 0.
func (l *Layout) newAxis(d int) int64 {
	if d >= len(l.Shape) {
		return 1
	}
	return product(max(l.Shape[d], 1), l.Strides[d])
}

// Slice selects a part of each dimension, by Python's rules. Dimensions without an index stay whole.
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
				return newError(ErrIndex, "slice: index %d is a second ellipsis", k)
			}
			more = true
		case kindNewAxis:
			axes++
		default:
			taken++
		}
	}
	if taken > rank {
		return errIndices("slice: ", taken, rank)
	}

	var buf numbers
	sizes, steps := buf.draft(rank + axes)
	sizes, steps = sizes[:0], steps[:0]
	d, offset, fits := 0, l.Offset, true
	for k := range index {
		x := &index[k]
		switch x.kind {
		case kindEllipsis:
			end := d + rank - taken
			sizes, steps = append(sizes, l.Shape[d:end]...), append(steps, l.Strides[d:end]...)
			d = end
			continue
		case kindNewAxis:
			sizes, steps = append(sizes, 1), append(steps, l.newAxis(d))
			continue
		}
		n, stride := l.Shape[d], l.Strides[d]
		if x.kind == kindAt {
			i := fromStart(x.start, n)
			if i < 0 || i >= n {
				return newError(ErrIndex, "slice: index %d is out of bounds for dimension %d of size %d", x.start, d, n)
			}
			offset, fits = forward(offset, fits, i, stride)
			d++
			continue
		}
		if x.kind != 0 || x.skip != 0 { // not the whole dimension
			first, count, ok := x.of(n)
			if !ok {
				return newError(ErrIndex, "slice: index %d, %v, has a step of 0", k, *x)
			}
			n, empty = count, empty || count == 0
			offset, fits = forward(offset, fits, first, stride)
			stride, ok = stretch(stride, x.skip+1, count)
			fits = fits && ok
		}
		sizes, steps = append(sizes, n), append(steps, stride)
		d++
	}
	return l.move("slice", append(sizes, l.Shape[d:]...), append(steps, l.Strides[d:]...), empty, offset, fits)
}

// Index selects the elements with the given first indices and removes these dimensions. Negative indices count from the end.
// It is [Layout.Slice] with an [At] for each index.
//
// Errors: [ErrRank] for more indices than dimensions, [ErrIndex], [ErrOverflow].
func (l *Layout) Index(index ...int64) error {
	empty, err := l.check()
	if err != nil {
		return err
	}
	if len(index) > len(l.Shape) {
		return errIndices("index: ", len(index), len(l.Shape))
	}
	offset, fits := l.Offset, true
	for d, i := range index {
		n := l.Shape[d]
		i = fromStart(i, n)
		if i < 0 || i >= n {
			return errIndex("index: ", d, index[d], n)
		}
		offset, fits = forward(offset, fits, i, l.Strides[d])
	}
	return l.move("index", l.Shape[len(index):], l.Strides[len(index):], empty, offset, fits)
}

// Narrow selects size indices of dimension d, beginning with start. A negative start counts from the end. Unlike Slice,
// Narrow returns an error for indices outside the dimension. TensorFlow's Tensor::Slice(start, limit) is Narrow(0, start,
// limit-start).
//
// Errors: [ErrAxis]; [ErrIndex] for indices outside the dimension and for a negative size; [ErrOverflow].
func (l *Layout) Narrow(d int, start, size int64) error {
	d, empty, err := l.dimension("narrow", d)
	if err != nil {
		return err
	}
	n := l.Shape[d]
	if size < 0 {
		return newError(ErrIndex, "narrow: size is %d, must not be negative", size)
	}
	first := fromStart(start, n)
	if first < 0 || first > n {
		return newError(ErrIndex, "narrow: start %d is out of bounds for dimension %d of size %d", start, d, n)
	}
	if size > n-first {
		return newError(ErrIndex, "narrow: %d to %d exceeds dimension %d of size %d", first, uint64(first)+uint64(size), d, n)
	}
	offset, fits := forward(l.Offset, true, first, l.Strides[d])
	if empty || size == 0 {
		offset, fits = l.Offset, true
	}
	if !fits {
		return fmt.Errorf("layout: narrow: %d strides of %d: %w", first, l.Strides[d], ErrOverflow)
	}
	l.Shape[d], l.Offset = size, offset
	return nil
}

// Split returns new layouts, which divide dimension d into parts of the given sizes. It allocates twice: the result, and 16
// bytes for each dimension of each part. [Layout.Narrow] makes a single part in place.
//
// Errors: [ErrAxis]; [ErrNegative]; [ErrShape] unless the sizes add up to the size of the dimension; [ErrOverflow], also if
// the parts would need more memory than a process can address.
func (l Layout) Split(d int, sizes ...int64) ([]Layout, error) {
	d, _, err := l.dimension("split", d)
	if err != nil {
		return nil, err
	}
	sum, fits := int64(0), true
	for k, size := range sizes {
		if size < 0 {
			return nil, newError(ErrNegative, "split: sizes[%d] is %d, must not be negative", k, size)
		}
		if sum, fits = extent.Add(sum, size); !fits {
			return nil, newError(ErrShape, "split: the sizes add up to more than 2^63-1, but dimension %d has size %d", d, l.Shape[d])
		}
	}
	if sum != l.Shape[d] {
		return nil, newError(ErrShape, "split: the sizes add up to %d, but dimension %d has size %d", sum, d, l.Shape[d])
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

// Transpose puts the dimensions into another order: dimension order[k] becomes dimension k. Without an order it reverses
// the dimensions.
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
		return fmt.Errorf("layout: transpose: order has %s, but the tensor has %s: %w", extent.Number(len(order), "entry", "entries"), extent.Dimensions(rank), ErrOrder)
	}
	var buf numbers
	sizes, steps := buf.draft(rank)
	var set flags
	named := set.of(rank)
	for k, d := range order {
		from, ok := inRange(d, rank)
		if !ok {
			return newError(ErrOrder, "transpose: order[%d] is %d, but the tensor has %s", k, d, extent.Dimensions(rank))
		}
		if named[from] {
			return newError(ErrOrder, "transpose: order[%d] = %d repeats a dimension", k, d)
		}
		named[from] = true
		sizes[k], steps[k] = l.Shape[from], l.Strides[from]
	}
	l.Set(Layout{sizes, steps, l.Offset})
	return nil
}

// inRange returns the number of dimension d counted from the start, and whether there is such a dimension. A negative d
// counts from the end.
func inRange(d, rank int) (at int, ok bool) {
	at = int(fromStart(int64(d), int64(rank)))
	return at, at >= 0 && at < rank
}

// dimension is [inRange] with an error for a dimension that does not exist.
func dimension(op string, d, rank int) (int, error) {
	at, ok := inRange(d, rank)
	if !ok {
		return 0, errAxis(op, d, rank)
	}
	return at, nil
}

func errAxis(op string, d, rank int) error {
	return fmt.Errorf("layout: %s: dimension %d is out of range for %s: %w", op, d, extent.Dimensions(rank), ErrAxis)
}

// flags holds a flag for each dimension on the stack of the function that makes a view, like [numbers].
type flags [room]bool

func (f *flags) of(rank int) []bool {
	if rank > room {
		return make([]bool, rank)
	}
	return f[:rank]
}

// name checks the layout like check, and returns flags that are set for the given dimensions of a view of the given rank.
func (l *Layout) name(op string, set *flags, rank int, axes []int) (named []bool, empty bool, err error) {
	if empty, err = l.check(); err != nil {
		return nil, false, err
	}
	named = set.of(rank)
	for _, d := range axes {
		at, err := dimension(op, d, rank)
		if err != nil {
			return nil, false, err
		}
		if named[at] {
			return nil, false, newError(ErrAxis, "%s: dimension %d is named twice", op, d)
		}
		named[at] = true
	}
	return named, empty, nil
}

// Flip reverses the given dimensions, or all dimensions if none is given.
//
// Errors: [ErrAxis], [ErrOverflow].
func (l *Layout) Flip(axes ...int) error {
	var set flags
	named, empty, err := l.name("flip", &set, len(l.Shape), axes)
	if err != nil || empty {
		return err
	}
	var buf numbers
	_, steps := buf.draft(len(l.Shape))
	offset, fits := l.Offset, true
	for d, n := range l.Shape {
		steps[d] = l.Strides[d]
		if (len(axes) == 0 || named[d]) && n > 1 {
			offset, fits = forward(offset, fits, n-1, steps[d])
			fits = fits && steps[d] != math.MinInt64 // its negative does not fit
			steps[d] = -steps[d]
		}
	}
	return l.move("flip", l.Shape, steps, empty, offset, fits)
}

// Squeeze removes the given dimensions, which must be of size 1, or all dimensions of size 1 if none is given.
//
// Errors: [ErrAxis], and [ErrShape] for a given dimension of another size.
func (l *Layout) Squeeze(axes ...int) error {
	var set flags
	named, _, err := l.name("squeeze", &set, len(l.Shape), axes)
	if err != nil {
		return err
	}
	var buf numbers
	sizes, steps := buf.draft(len(l.Shape))
	kept := 0
	for d, n := range l.Shape {
		if named[d] && n != 1 {
			return fmt.Errorf("layout: squeeze: dimension %d is of size %d, but only size 1 can be removed: %w", d, n, ErrShape)
		}
		if n != 1 || len(axes) != 0 && !named[d] {
			sizes[kept], steps[kept] = n, l.Strides[d]
			kept++
		}
	}
	l.Set(Layout{sizes[:kept], steps[:kept], l.Offset})
	return nil
}

// Expand inserts dimensions of size 1. axes are the numbers of these dimensions in the view.
//
// Errors: [ErrAxis].
func (l *Layout) Expand(axes ...int) error {
	rank := len(l.Shape) + len(axes)
	var set flags
	named, _, err := l.name("expand", &set, rank, axes)
	if err != nil {
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
	l.Set(Layout{sizes, steps, l.Offset})
	return nil
}

// BroadcastTo repeats elements until the layout has the given shape; repeated dimensions have a stride of 0. It matches
// dimensions from the last one to the first. It repeats dimensions of size 1, and adds missing dimensions. The shape may have
// more elements than the memory. Repeated elements must not be written through the view (see [Overlaps]).
//
// Errors: [ErrShape], and those of [Count] for the shape.
func (l *Layout) BroadcastTo(shape ...int64) error {
	if _, err := l.check(); err != nil {
		return err
	}
	if _, err := Count(shape); err != nil {
		return err
	}
	missing := len(shape) - len(l.Shape)
	if missing < 0 {
		return fmt.Errorf("layout: broadcast: the tensor has %s, but the new shape has %d: %w", extent.Dimensions(len(l.Shape)), len(shape), ErrShape)
	}
	var buf numbers
	sizes, steps := buf.draft(len(shape))
	copy(sizes, shape)
	for d, n := range l.Shape {
		switch size := sizes[missing+d]; {
		case n == size:
			steps[missing+d] = l.Strides[d]
		case n != 1:
			return fmt.Errorf("layout: broadcast: dimension %d of size %d cannot be repeated to size %d; only size 1 can be repeated: %w", d, n, size, ErrShape)
		}
	}
	l.Set(Layout{sizes, steps, l.Offset})
	return nil
}

// Diagonal selects the elements whose index along dimension b exceeds their index along dimension a by k. It removes these
// two dimensions; the diagonal becomes the last dimension.
//
// Errors: [ErrAxis], [ErrOverflow].
func (l *Layout) Diagonal(k int64, a, b int) error {
	rank := len(l.Shape)
	var set flags
	named, empty, err := l.name("diagonal", &set, rank, []int{a, b})
	if err != nil {
		return err
	}
	first, _ := inRange(a, rank)
	second, _ := inRange(b, rank)
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
	return l.move("diagonal", sizes, steps, empty || size == 0, offset, fits && ok)
}

// Windows makes sliding windows along dimension d. A window has size elements, at a distance of dilation. Each window
// begins step elements after the previous one. In the view, dimension d counts the windows, and a new last dimension
// counts the elements of a window.
//
// Errors: [ErrAxis]; [ErrShape] if size, step or dilation is not positive, or the dimension is shorter than a window;
// [ErrOverflow] if the number of elements of all windows does not fit in 63 bits.
func (l *Layout) Windows(d int, size, step, dilation int64) error {
	d, empty, err := l.dimension("windows", d)
	if err != nil {
		return err
	}
	if size < 1 || step < 1 || dilation < 1 {
		return fmt.Errorf("layout: windows: size %d, step %d and dilation %d must be positive: %w", size, step, dilation, ErrShape)
	}
	n := l.Shape[d]
	reach, fits := extent.Mul(size-1, dilation)
	if !fits || reach >= n {
		return fmt.Errorf("layout: windows: a window of %d elements, %d apart, does not fit in dimension %d of size %d: %w", size, dilation, d, n, ErrShape)
	}
	count := (n-1-reach)/step + 1
	between, fits1 := stretch(l.Strides[d], step, count)
	within, fits2 := stretch(l.Strides[d], dilation, size)
	if !empty && (!fits1 || !fits2) {
		return fmt.Errorf("layout: windows: %w", ErrOverflow)
	}
	var buf numbers
	sizes, steps := buf.draft(len(l.Shape) + 1)
	copy(sizes, l.Shape)
	copy(steps, l.Strides)
	sizes[d], steps[d] = count, between
	sizes[len(l.Shape)], steps[len(l.Shape)] = size, within
	if _, err := Count(sizes); err != nil {
		return err
	}
	l.Set(Layout{sizes, steps, l.Offset})
	return nil
}
