//go:build cgo

package dlpack

import (
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// View makes another tensor of the same memory with another type, shape or strides. ByteOffset counts from this tensor's element
// (0, ..., 0). The view must lie inside the memory that the producer described. For memory that the host cannot address, the view
// has the same data field and another byte_offset. The view is writable if this tensor is, even if several indices lead to one
// element. [Tensor.BroadcastTo] and [Tensor.Windows] return a read-only view in this case, because one write would change several
// elements.
//
// Ownership: the view shares the memory and is closed separately. Lifetime: until its Close. Threads: any. On error:
// [ErrClosed], [ErrDType], [ErrLayout] or [ErrOverflow].
func (t *Tensor) View(s Spec) (*Tensor, error) { return t.view("view", s) }

// view is View for the operation op.
func (t *Tensor) view(op string, s Spec) (*Tensor, error) {
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	v := newView(t.device.dimsPairs(min(len(s.Shape), MaxRank)), t.mem) // with the reference taken above; place refuses more
	if err := v.place(op, v.initView(t), s.flags()|t.flags&ReadOnly, &s); err != nil {
		t.done()
		return nil, err
	}
	v.recordView()
	runtime.KeepAlive(t)
	return v, nil
}

// Share makes another Tensor of the same memory with the same description, but without the flag [IsCopied]. It keeps the memory
// alive after t is closed.
//
// Ownership: the result shares the memory and is closed separately. Lifetime: until its Close. Threads: any. On error:
// [ErrClosed] or [ErrOverflow].
func (t *Tensor) Share() (*Tensor, error) { return t.share("share") }

// share is Share for the operation op.
func (t *Tensor) share(op string) (*Tensor, error) {
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	v := newView(t.device.dimsPairs(t.Rank()), t.mem)
	v.initView(t)
	v.data = t.data
	v.describe(t.dtype, t.flags&^IsCopied, t.rowMajor, t.shape(), t.strides())
	if !t.device.HostReadable() {
		*v.addressWord() = *t.addressWord()
	}
	v.recordView()
	runtime.KeepAlive(t)
	return v, nil
}

// initView prepares v as a view of the memory that t refers to, and returns where t's element (0, ..., 0) starts: an
// address on the host, and a byte_offset elsewhere.
func (v *Tensor) initView(t *Tensor) (start uintptr) {
	v.device, v.writabilityUnknown = t.device, t.writabilityUnknown
	if t.device.HostReadable() {
		return t.data
	}
	v.data = t.data
	return uintptr(*t.addressWord())
}

// Layout returns shape and strides, with offset 0 for element (0, ..., 0). The slices are copies.
func (t *Tensor) Layout() layout.Layout {
	if t.isNone() {
		return layout.Layout{}
	}
	return layout.Layout{Shape: t.shape(), Strides: t.strides()}.Clone()
}

// Apply makes a view with one or more methods of [layout.Layout], without a tensor for each step:
//
//	v, err := t.Apply(func(l *layout.Layout) error {
//		return errors.Join(l.Transpose(1, 0), l.Slice(layout.From(1)))
//	})
//
// The layout counts in elements, from element (0, ..., 0) of t, and is valid only until view returns. The result must lie
// inside the memory that the producer described. It is read-only if t is, or if two indices lead to one element, as in a
// broadcast. A view of packed elements of fewer than 8 bits must be row-major without gaps, and must begin at the
// beginning of a byte.
//
// Index, Slice and the other methods below each apply one method of [layout.Layout]. The comment of that method describes the
// view. All of them except Split allocate once if the rank is at most 8.
//
// Ownership: the view shares the memory and is closed separately. Lifetime: until its Close. Threads: any. On error:
// [ErrClosed]; [ErrNull] for a nil function; [ErrOverflow] or [ErrLayout] together with the error of view, such as
// [layout.ErrIndex], [layout.ErrAxis], or [layout.ErrCopy] if only a copy can have the layout.
func (t *Tensor) Apply(view func(l *layout.Layout) error) (*Tensor, error) {
	const op = "apply"
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if view == nil {
		return nil, newError(op, ErrNull, "the function of the view is nil")
	}
	l := t.draft()
	return readOnlyIfOverlapping(t.derive(op, l, view(&l.Layout)))
}

// A draft is the layout of a view that is being made, with room for up to 8 dimensions. The methods of [layout.Layout]
// make it escape to the heap. Drafts are therefore reused: allocating one would cost as much as the rest of the view.
type draft struct {
	layout.Layout
	dtype          DataType // of the view
	shape, strides [8]int64
}

var drafts = sync.Pool{New: func() any { return new(draft) }}

// draft returns t's layout, to be changed and passed to derive.
func (t *Tensor) draft() *draft {
	t = t.orZero()
	d := drafts.Get().(*draft)
	d.dtype = t.dtype
	d.Shape, d.Strides, d.Offset = append(d.shape[:0], t.shape()...), append(d.strides[:0], t.strides()...), 0
	return d
}

// derive makes a view of t from a draft, which must not be used afterwards. op is the operation that the user called. err is the result
// of changing the layout. derive returns err, or [ErrClosed] if the tensor is closed.
func (t *Tensor) derive(op string, l *draft, err error) (*Tensor, error) {
	defer drafts.Put(l)
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if err != nil {
		return nil, t.newLayoutError(op, err)
	}
	if len(l.Shape) != len(l.Strides) {
		return nil, newError(op, ErrLayout, "%s for %s", extent.Number(len(l.Strides), "stride", "strides"), extent.Dimensions(len(l.Shape)))
	}
	width := t.width(l.dtype)
	bits, ok := extent.Mul(l.Offset, width)
	if !ok {
		return nil, newError(op, ErrOverflow, "the byte offset of element %d of %d bits overflows", l.Offset, width)
	}
	if bits%8 != 0 {
		return nil, newError(op, ErrLayout, "element %d of %d bits begins inside a byte", l.Offset, width)
	}
	flags := t.flags & (ReadOnly | SubbytePadded)
	var e core.Extent
	if err := checkLayout(op, l.dtype, flags, l.Shape, l.Strides, &e); err != nil {
		return nil, err
	}
	v := newView(t.device.dimsPairs(len(l.Shape)), t.mem)
	v.describe(l.dtype, flags, e.RowMajor, l.Shape, l.Strides)
	if err := v.setStart(op, v.initView(t), bits/8, &e); err != nil {
		return nil, err
	}
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	v.recordView()
	runtime.KeepAlive(t)
	return v, nil
}

// readOnlyIfOverlapping makes v read-only if two of its indices lead to the same element. It returns err unchanged.
func readOnlyIfOverlapping(v *Tensor, err error) (*Tensor, error) {
	if err == nil && !v.rowMajor && layout.Overlaps(v.shape(), v.strides()) {
		v.flags |= ReadOnly
	}
	return v, err
}

// newLayoutError makes an error of this package about t from an error of package layout. errors.Is finds both causes. The text does not
// repeat the name of the operation in package layout.
func (t *Tensor) newLayoutError(op string, err error) error {
	cause, where := ErrLayout, strings.TrimPrefix(err.Error(), "layout: ")
	if name, text, ok := strings.Cut(where, ": "); ok && strings.HasPrefix(op, name) {
		where = text
	}
	if errors.Is(err, layout.ErrOverflow) {
		cause = ErrOverflow
	}
	if errors.Is(err, layout.ErrCopy) {
		where += "; Contiguous makes one"
	}
	return &Error{Op: op, Where: where, Err: errors.Join(cause, err), about: t}
}

// Index selects the elements with the given first indices, and removes the dimensions of these indices: see
// [layout.Layout.Index]. TensorFlow calls it Tensor::SubSlice.
func (t *Tensor) Index(index ...int64) (*Tensor, error) {
	l := t.draft()
	return t.derive("index", l, l.Index(index...))
}

// Slice selects a part of each dimension, by Python's rules: see [layout.Layout.Slice].
func (t *Tensor) Slice(index ...layout.Index) (*Tensor, error) {
	l := t.draft()
	return t.derive("slice", l, l.Slice(index...))
}

// Narrow selects size indices of dimension d, beginning with start. A negative start counts from the end: see
// [layout.Layout.Narrow].
func (t *Tensor) Narrow(d int, start, size int64) (*Tensor, error) {
	l := t.draft()
	return t.derive("narrow", l, l.Narrow(d, start, size))
}

// Split divides dimension d into views of these sizes. The sizes must add up to the size of the dimension. Up to rank 8,
// Split allocates four times, and once more for each view. Each view takes up to 256 bytes, and 36 more for each
// dimension.
//
// On error: also [ErrMemory].
func (t *Tensor) Split(d int, sizes ...int64) ([]*Tensor, error) {
	const op = "split"
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if err := RequireMemory(int64(len(sizes)) * int64(256+36*t.Rank())); err != nil {
		return nil, err
	}
	parts, err := t.Layout().Split(d, sizes...)
	if err != nil {
		return nil, t.newLayoutError(op, err)
	}
	views := make([]*Tensor, 0, len(parts))
	for _, part := range parts {
		v, err := t.part(op, part)
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

// Transpose reorders the dimensions: see [layout.Layout.Transpose].
func (t *Tensor) Transpose(order ...int) (*Tensor, error) {
	l := t.draft()
	return t.derive("transpose", l, l.Transpose(order...))
}

// Reshape returns the elements in another shape, in the same row-major order of their indices: see
// [layout.Layout.Reshape]. It never copies; [Tensor.Contiguous] makes a copy that can be reshaped.
func (t *Tensor) Reshape(shape ...int64) (*Tensor, error) {
	l := t.draft()
	return t.derive("reshape", l, l.Reshape(shape...))
}

// FlatInner merges the slowest dimensions until rank dimensions are left: see [layout.Layout.FlatInner].
func (t *Tensor) FlatInner(rank int) (*Tensor, error) {
	l := t.draft()
	return t.derive("flat inner", l, l.FlatInner(rank))
}

// FlatOuter merges the fastest dimensions until rank dimensions are left: see [layout.Layout.FlatOuter].
func (t *Tensor) FlatOuter(rank int) (*Tensor, error) {
	l := t.draft()
	return t.derive("flat outer", l, l.FlatOuter(rank))
}

// FlatEnds keeps rank dimensions, beginning with dimension begin. It merges the dimensions before them into the first,
// and the dimensions after them into the last: see [layout.Layout.FlatEnds].
func (t *Tensor) FlatEnds(begin, rank int) (*Tensor, error) {
	l := t.draft()
	return t.derive("flat ends", l, l.FlatEnds(begin, rank))
}

// Squeeze removes the given dimensions, which must have size 1. Without axes it removes all dimensions of size 1: see
// [layout.Layout.Squeeze].
func (t *Tensor) Squeeze(axes ...int) (*Tensor, error) {
	l := t.draft()
	return t.derive("squeeze", l, l.Squeeze(axes...))
}

// Expand inserts dimensions of size 1 at the given positions of the view: see [layout.Layout.Expand].
func (t *Tensor) Expand(axes ...int) (*Tensor, error) {
	l := t.draft()
	return t.derive("expand", l, l.Expand(axes...))
}

// BroadcastTo repeats elements until the view has this shape: see [layout.Layout.BroadcastTo]. The view is read-only if elements
// are repeated.
func (t *Tensor) BroadcastTo(shape ...int64) (*Tensor, error) {
	l := t.draft()
	return readOnlyIfOverlapping(t.derive("broadcast to", l, l.BroadcastTo(shape...)))
}

// Flip reverses these dimensions, or all dimensions without axes: see [layout.Layout.Flip].
func (t *Tensor) Flip(axes ...int) (*Tensor, error) {
	l := t.draft()
	return t.derive("flip", l, l.Flip(axes...))
}

// Diagonal selects the elements whose index along dimension b exceeds their index along dimension a by k: see
// [layout.Layout.Diagonal].
func (t *Tensor) Diagonal(k int64, a, b int) (*Tensor, error) {
	l := t.draft()
	return t.derive("diagonal", l, l.Diagonal(k, a, b))
}

// Windows makes sliding windows along dimension d: see [layout.Layout.Windows]. The view is read-only if the windows overlap.
func (t *Tensor) Windows(d int, size, step, dilation int64) (*Tensor, error) {
	l := t.draft()
	return readOnlyIfOverlapping(t.derive("windows", l, l.Windows(d, size, step, dilation)))
}

// Bitcast reads the same bytes as elements of another type. If the types have different sizes, the size of the last
// dimension changes, and its elements must lie without gaps: see [layout.Layout.Bitcast]. Padded elements stay padded.
//
// On error: also [ErrDType].
func (t *Tensor) Bitcast(dtype DataType) (*Tensor, error) {
	const op = "bitcast"
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if err := dtype.Validate(); err != nil {
		return nil, newError(op, ErrDType, "%v", err)
	}
	l := t.draft()
	l.dtype = dtype
	return t.derive(op, l, l.Bitcast(t.width(t.dtype), t.width(dtype)))
}

// width returns the distance in bits from one element of a type to the next, packed or padded as in t.
func (t *Tensor) width(dtype DataType) int64 {
	if t.flags&SubbytePadded != 0 {
		return 8 * int64(dtype.ItemSize())
	}
	return int64(dtype.BitSize())
}

// part returns the view of t with this layout, for the operation op.
func (t *Tensor) part(op string, l layout.Layout) (*Tensor, error) {
	d := t.draft()
	d.Set(l)
	return readOnlyIfOverlapping(t.derive(op, d, nil))
}
