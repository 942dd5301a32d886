//go:build cgo

package dlpack

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// View makes another tensor over the same memory: another type, shape or strides. ByteOffset counts
// from this tensor's element (0, ..., 0). The view must lie inside the memory, that is, inside what
// the producer described. Of memory that the host cannot address, it has another byte_offset.
//
// Ownership: the view shares the memory and is closed by itself. Lifetime: until its Close. Threads:
// any. On error: [ErrClosed], [ErrDType], [ErrLayout] or [ErrOverflow].
func (t *Tensor) View(s Spec) (*Tensor, error) {
	const op = "view"
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	v := newView(t.device.words(min(len(s.Shape), MaxRank)), t.mem) // with the reference taken above; place refuses more
	if err := v.place(op, v.lay(t), s.flags()|t.flags&ReadOnly, &s); err != nil {
		t.done()
		return nil, err
	}
	runtime.KeepAlive(t)
	return v, nil
}

// lay begins a view of what t is a view of, and tells where t starts.
func (v *Tensor) lay(t *Tensor) (start uintptr) {
	v.device, v.unstated = t.device, t.unstated
	if t.device.HostReadable() {
		return t.data
	}
	v.data = t.data
	return uintptr(*t.away())
}

// Layout is where the elements lie, counted in elements from element (0, ..., 0). The slices are the
// caller's.
func (t *Tensor) Layout() layout.Layout {
	if t.isNone() {
		return layout.Layout{}
	}
	return layout.Layout{Shape: t.shape(), Strides: t.strides()}.Clone()
}

// Apply makes a view by any of the methods of [layout.Layout] that make views, or by several of them, one
// after another, without a tensor for each step:
//
//	v, err := t.Apply(func(l *layout.Layout) error {
//		return errors.Join(l.Transpose(1, 0), l.Slice(layout.From(1)))
//	})
//
// The layout counts in elements, from element (0, ..., 0) of t, and is only valid until view returns. The
// result has to lie inside the memory, that is, inside what the producer described. It is read-only if t is,
// and where an element is seen twice, as in what was broadcast. Packed elements of fewer than 8 bits can
// only be viewed row-major without gaps, from the beginning of a byte on.
//
// The other methods that make views are this one with one view each, and are described there. They all cost
// one allocation up to rank 8.
//
// Ownership: the view shares the memory and is closed by itself. Lifetime: until its Close. Threads:
// any. On error: [ErrClosed], or [ErrOverflow] or [ErrLayout] together with the cause that view gave:
// [layout.ErrIndex], [layout.ErrAxis], and [layout.ErrCopy] where only a copy has such a layout. [ErrNull] for a
// nil function.
func (t *Tensor) Apply(view func(l *layout.Layout) error) (*Tensor, error) {
	if t.isClosed() {
		return nil, t.errClosed("view")
	}
	if view == nil {
		return nil, refuse("view", ErrNull, "the function of the view is nil")
	}
	d := drafts.Get().(*draft)
	half := len(d.dims) / 2
	d.Shape, d.Strides = append(d.dims[:0:half], t.shape()...), append(d.dims[half:half], t.strides()...)
	d.Offset = 0
	err := view(&d.Layout)
	v := t.viewOf(len(d.Shape))
	v, err = once(t.derive(v, &d.Layout, err))
	drafts.Put(d)
	return v, err
}

// A draft is a layout for code that is not known: it brings the layout to the heap, and may keep it, so that
// its numbers are not those of a tensor.
type draft struct {
	layout.Layout
	dims [2 * 8]int64
}

var drafts = sync.Pool{New: func() any { return new(draft) }}

// viewOf begins a view: it allocates the tensor, with room for that many dimensions at least, and those of t, as far
// as there can be so many. v.rank is for how many, until there is the view.
func (t *Tensor) viewOf(rank int) *Tensor {
	t = t.orZero() // of which derive knows that there is no view
	room := 4
	if rank = max(min(rank, MaxRank), t.Rank()); rank > room {
		room = max(rank, 8)
	}
	v := newView(t.device.words(room), t.mem)
	v.rank = uint16(room)
	return v
}

// draft begins a view whose layout is made of that of t, in the room for its dimensions. l is no result: that would
// be copied on the stack, right behind the stores that made it, which the processor has to wait for.
func (t *Tensor) draft(l *layout.Layout) *Tensor { return t.draftOf(l, t.Rank()) }

// draftOf is draft with room for that many dimensions.
func (t *Tensor) draftOf(l *layout.Layout, rank int) *Tensor {
	v := t.viewOf(rank)
	t = t.orZero()
	n, room := t.Rank(), int(v.rank)
	dims := unsafe.Slice(v.dims, 2*room)
	for d, size := range t.shape() { // mostly fewer than what a call of copy is worth
		dims[d] = size
	}
	for d, step := range t.strides() {
		dims[room+d] = step
	}
	l.Shape, l.Strides = dims[:n:room], dims[room:][:n]
	return v
}

// derive ends a view: v is new, and becomes a tensor on the memory of t with the layout, unless err says that
// there is none.
func (t *Tensor) derive(v *Tensor, l *layout.Layout, err error) (*Tensor, error) {
	return t.deriveAs(v, l, err, t.orZero().dtype)
}

// deriveAs is derive with a type, which is what the layout counts.
func (t *Tensor) deriveAs(v *Tensor, l *layout.Layout, err error, dtype DataType) (*Tensor, error) {
	const op = "view"
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if err != nil {
		return nil, refuseLayout(op, err)
	}
	n := len(l.Shape)
	if n > MaxRank || n != len(l.Strides) {
		return nil, refuse(op, ErrLayout, "%d dimensions with %d strides", n, len(l.Strides))
	}
	width := t.width(dtype)
	bits, ok := core.Mul(l.Offset, width)
	if !ok {
		return nil, refuse(op, ErrOverflow, "element %d of %d bits overflows", l.Offset, width)
	}
	if bits%8 != 0 {
		return nil, refuse(op, ErrLayout, "element %d of %d bits lies inside a byte", l.Offset, width)
	}
	if n > int(v.rank) {
		v.dims = &make([]int64, 2*t.device.words(n))[0]
	}
	dims := unsafe.Slice(v.dims, 2*n)
	shape, strides := dims[:n], dims[n:]
	for d, size := range l.Shape { // the strides are elsewhere or behind: there are not more dimensions than room
		shape[d], strides[d] = size, l.Strides[d]
	}
	v.dtype, v.rank, v.flags = dtype, uint16(n), t.flags&(ReadOnly|SubbytePadded)
	var e core.Extent
	if err := checkLayout(op, dtype, v.flags, shape, strides, &e); err != nil {
		return nil, err
	}
	v.rowMajor = e.RowMajor
	if err := v.start(op, v.lay(t), bits/8, &e); err != nil {
		return nil, err
	}
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	runtime.KeepAlive(t)
	return v, nil
}

// once makes a view read-only in which an element is seen twice.
func once(v *Tensor, err error) (*Tensor, error) {
	if err == nil && !v.rowMajor && layout.Overlaps(v.shape(), v.strides()) {
		v.flags |= ReadOnly
	}
	return v, err
}

// refuseLayout gives what package layout refuses one of the causes of this package too.
func refuseLayout(op string, err error) error {
	cause, where := ErrLayout, strings.TrimPrefix(err.Error(), "layout: ")
	if errors.Is(err, layout.ErrOverflow) {
		cause = ErrOverflow
	}
	if errors.Is(err, layout.ErrCopy) {
		where += ": Contiguous makes one"
	}
	return &Error{Op: op, Where: where, Err: errors.Join(cause, err)}
}

// Index takes the elements with these first indices: a view with as many dimensions less: see
// [layout.Layout.Index]. It is TensorFlow's Tensor::SubSlice.
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Index(index ...int64) (*Tensor, error) {
	var l layout.Layout
	v := t.draft(&l)
	return t.derive(v, &l, l.Index(index...))
}

// Slice takes part of each dimension, by Python's rules: see [layout.Layout.Slice].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Slice(index ...layout.Index) (*Tensor, error) {
	rank := t.Rank()
	for k := range index {
		if index[k] == layout.NewAxis() {
			rank++
		}
	}
	var l layout.Layout
	v := t.draftOf(&l, rank)
	return t.derive(v, &l, l.Slice(index...))
}

// Narrow takes size indices of dimension d, from start on, which may count from the end: see [layout.Layout.Narrow].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Narrow(d int, start, size int64) (*Tensor, error) {
	var l layout.Layout
	v := t.draft(&l)
	return t.derive(v, &l, l.Narrow(d, start, size))
}

// Split cuts dimension d into views of these sizes, which sum to that of the dimension. It allocates for
// each of them, and thrice: up to 256 bytes, and 36 for each dimension.
//
// Ownership: each view shares the memory and is closed by itself. Lifetime, Threads, On error: as
// [Tensor.Apply], and [ErrMemory].
func (t *Tensor) Split(d int, sizes ...int64) ([]*Tensor, error) {
	const op = "view"
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if err := RequireMemory(int64(len(sizes)) * int64(256+36*t.Rank())); err != nil {
		return nil, err
	}
	parts, err := t.Layout().Split(d, sizes...)
	if err != nil {
		return nil, refuseLayout(op, err)
	}
	views := make([]*Tensor, 0, len(parts))
	for _, part := range parts {
		v, err := t.part(part)
		if err != nil {
			for _, v := range views {
				v.Close()
			}
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// Transpose puts the dimensions into another order: see [layout.Layout.Transpose].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Transpose(order ...int) (*Tensor, error) {
	var l layout.Layout
	v := t.draft(&l)
	return t.derive(v, &l, l.Transpose(order...))
}

// Reshape gives the elements, in row-major order of their indices, another shape: see
// [layout.Layout.Reshape]. It never copies; what needs a copy can be had of [Tensor.Contiguous].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Reshape(shape ...int64) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, len(shape))
	return t.derive(v, &l, l.Reshape(shape...))
}

// FlatInner merges the slowest dimensions until rank are left: see [layout.Layout.FlatInner].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) FlatInner(rank int) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, rank)
	return t.derive(v, &l, l.FlatInner(rank))
}

// FlatOuter merges the fastest dimensions until rank are left: see [layout.Layout.FlatOuter].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) FlatOuter(rank int) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, rank)
	return t.derive(v, &l, l.FlatOuter(rank))
}

// FlatInnerOuter makes rank dimensions, of which the first is dimension begin: see
// [layout.Layout.FlatInnerOuter].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) FlatInnerOuter(begin, rank int) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, rank)
	return t.derive(v, &l, l.FlatInnerOuter(begin, rank))
}

// Squeeze takes away these dimensions of size 1, or all of them: see [layout.Layout.Squeeze].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Squeeze(axes ...int) (*Tensor, error) {
	var l layout.Layout
	v := t.draft(&l)
	return t.derive(v, &l, l.Squeeze(axes...))
}

// Expand makes dimensions of size 1, at these places of the view: see [layout.Layout.Expand].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Expand(axes ...int) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, t.Rank()+len(axes))
	return t.derive(v, &l, l.Expand(axes...))
}

// Broadcast repeats elements until the view has this shape: see [layout.Layout.Broadcast]. It is read-only
// where elements are repeated.
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Broadcast(shape ...int64) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, len(shape))
	return once(t.derive(v, &l, l.Broadcast(shape...)))
}

// Flip reverses these dimensions, or all: see [layout.Layout.Flip].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Flip(axes ...int) (*Tensor, error) {
	var l layout.Layout
	v := t.draft(&l)
	return t.derive(v, &l, l.Flip(axes...))
}

// Diagonal takes the elements whose index along dimension b is k more than that along dimension a: see
// [layout.Layout.Diagonal].
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Diagonal(k int64, a, b int) (*Tensor, error) {
	var l layout.Layout
	v := t.draft(&l)
	return t.derive(v, &l, l.Diagonal(k, a, b))
}

// Windows makes sliding windows along dimension d: see [layout.Layout.Windows]. It is read-only where they
// overlap.
//
// Ownership, Lifetime, Threads, On error: as [Tensor.Apply].
func (t *Tensor) Windows(d int, size, step, dilation int64) (*Tensor, error) {
	var l layout.Layout
	v := t.draftOf(&l, t.Rank()+1)
	return once(t.derive(v, &l, l.Windows(d, size, step, dilation)))
}

// Bitcast reads the same bytes as elements of another type. Where its size is another the last dimension
// changes its size, and must lie without gaps: see [layout.Layout.Bitcast]. Padded elements stay padded.
//
// Ownership, Lifetime, Threads: as [Tensor.Apply]. On error: also [ErrDType].
func (t *Tensor) Bitcast(dtype DataType) (*Tensor, error) {
	if t.isClosed() {
		return nil, t.errClosed("view")
	}
	if err := dtype.Validate(); err != nil {
		return nil, refuse("view", ErrDType, "%v", err)
	}
	var l layout.Layout
	v := t.draft(&l)
	return t.deriveAs(v, &l, l.Bitcast(t.width(t.dtype), t.width(dtype)), dtype)
}

// width is how many bits from one element of a type to the next, packed or padded as in t.
func (t *Tensor) width(dtype DataType) int64 {
	if t.flags&SubbytePadded != 0 {
		return 8 * int64(dtype.ItemSize())
	}
	return int64(dtype.BitSize())
}

// Compose writes to t what a composite takes of its sources, sources[k] being source k: padded or joined tensors.
// The layouts of the composite are those of the sources ([Tensor.Layout]), of t's data type. What is taken must not
// lie in t, unless it stays where it is. What of t is written, and what not, is not said when there is an error.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else writes to the sources, or uses t. On
// error: as [Tensor.Apply] and [Tensor.CopyTo], and [ErrLayout] for another shape, for a source that is not there,
// and for one that lies in t.
func (t *Tensor) Compose(c layout.Composite, sources ...*Tensor) error {
	const op = "compose"
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	if t.data != 0 && !t.rowMajor && !t.ReadOnly() && layout.Overlaps(t.shape(), t.strides()) {
		return refuse(op, ErrLayout, "elements of the destination overlap: strides %v of shape %v", t.strides(), t.shape())
	}
	err := c.Into(t.Layout(), func(dst, src layout.Layout, source int) error {
		if source < 0 || source >= len(sources) || sources[source] == nil {
			return refuse(op, ErrLayout, "source %d of %d is not there", source, len(sources))
		}
		if sources[source].isClosed() {
			return sources[source].errClosedAs(op, fmt.Sprintf("source %d", source))
		}
		to, err := t.part(dst)
		if err != nil {
			return err
		}
		defer to.Close()
		from, err := sources[source].part(src)
		if err != nil {
			return err
		}
		defer from.Close()
		// Another piece may be written where this one is read.
		if t.device.HostReadable() && from.device.HostReadable() && !same(from, to) && !disjoint(from, t) {
			return refuse(op, ErrLayout, "source %d lies in the memory of the destination", source)
		}
		return from.CopyTo(to)
	})
	if ours := (*Error)(nil); err != nil && !errors.As(err, &ours) {
		return refuseLayout(op, err)
	}
	return err
}

// part is the view with this layout.
func (t *Tensor) part(l layout.Layout) (*Tensor, error) {
	v := t.viewOf(len(l.Shape))
	return once(t.derive(v, &l, nil))
}
