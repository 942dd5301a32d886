//go:build cgo

package nervana

import (
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// Describe returns the description of an existing tensor, which may be closed. A nil tensor and the zero Tensor have an
// empty description. The tensor must have at most [layout.MaxPartialRank] dimensions; otherwise [Description.Known]
// returns an error for the result.
func Describe(t *dlpack.Tensor) *Description {
	l := t.Layout()
	if l.Shape == nil { // nil or the zero Tensor
		return new(Description)
	}
	shape, _ := layout.NewPartialShape(l.Shape...)
	d := &Description{DType: t.DType(), Padded: t.Flags()&dlpack.SubbytePadded != 0, Shape: shape, Access: LTensor, Strides: l.Strides}
	if t.ReadOnly() {
		d.Access = RTensor
	}
	return d
}

// Allocate makes a tensor in zeroed memory, as [dlpack.New] does, with the layout and alignment of d. The tensor has no
// values yet, so it is writable, whatever the access and role of d. [Description.Bind] then returns a view of it with
// the access of d.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any. On error: those of
// [Description.Complete]; [dlpack.ErrLayout] for a view, which has the memory of its base, and for strides that make
// elements overlap; [dlpack.ErrOverflow]; [dlpack.ErrMemory].
func (d *Description) Allocate() (*dlpack.Tensor, error) {
	const op = "allocate"
	d = d.orUnknown()
	if d.base != nil {
		return nil, newError(op, dlpack.ErrLayout, "a view has the memory of its base; allocate the base and bind the view to it")
	}
	known, err := d.complete()
	if err != nil {
		return nil, err
	}
	l, err := d.Layout()
	if err != nil {
		return nil, err
	}
	if layout.Overlaps(l.Shape, l.Strides) {
		return nil, newError(op, dlpack.ErrLayout, "elements overlap: strides %v of shape %v; only memory that exists can be bound to such a description", l.Strides, l.Shape)
	}
	_, elements, err := l.Span()
	if err == nil && known.Sizes != nil {
		elements, err = layout.Count(known.Sizes)
	}
	if err != nil {
		return nil, wrap(op, err)
	}
	size, err := known.DType.NumBytes(elements, known.Padded)
	if err != nil {
		return nil, newError(op, dlpack.ErrOverflow, "%v", err)
	}
	s := dlpack.Spec{
		DType: known.DType, Shape: l.Shape, Strides: l.Strides, Padded: known.Padded,
		ByteOffset: l.Offset * int64(known.DType.ItemSize()), // does not overflow: it is less than size
	}
	align, spare := max(known.Align, 1), int64(0)
	if dlpack.AllocAlignment%align != 0 || s.ByteOffset%align != 0 {
		spare = align - 1 // room to move element (0, ..., 0) to an aligned address
	}
	room, ok := layout.Add(size, spare)
	if !ok {
		return nil, newError(op, dlpack.ErrOverflow, "%d bytes aligned to %d", size, align)
	}
	memory, err := dlpack.New(dlpack.Uint8, room)
	if err != nil {
		return nil, wrap(op, err)
	}
	defer memory.Close()
	if beyond := int64((memory.Data() + uintptr(s.ByteOffset)) % uintptr(align)); beyond > 0 {
		s.ByteOffset += align - beyond
	}
	t, err := memory.View(s)
	return t, wrap(op, err)
}

// Bind returns a view of t after checking that t has the data type, shape, layout and alignment of d. If d is a view, t
// must agree with the description at the end of its chain of views, and Bind returns the view of t. The result is
// read-only if t is, if d is an [RTensor], or if d is constant. Bind does not change d, so a placeholder can be bound
// to one tensor after another.
//
// Ownership: the result shares the memory and is closed separately. Lifetime: until its Close. Threads: any. On error:
// [dlpack.ErrClosed]; [ErrConflict] together with [dlpack.ErrDType], [dlpack.ErrLayout], or [dlpack.ErrReadOnly] for
// read-only memory of an [LTensor] or a variable; [dlpack.ErrUnaligned]; for views also those of [dlpack.Tensor.Apply].
func (d *Description) Bind(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	const op = "bind"
	d = d.orUnknown()
	if _, err := d.root(op); err != nil {
		return nil, err
	}
	if err := t.RequireOpen(); err != nil {
		return nil, wrap(op, err)
	}
	bound, err := d.bind(t)
	return bound, wrap(op, err)
}

// bind is [Description.Bind] for a description that has a root.
func (d *Description) bind(t *dlpack.Tensor) (v *dlpack.Tensor, err error) {
	if d.base == nil {
		v, err = t.Slice()
	} else if t, err = d.base.bind(t); err == nil {
		defer t.Close()
		v, err = t.Apply(d.view)
	}
	if err != nil {
		return nil, err
	}
	if err := d.fits(v); err != nil {
		v.Close()
		return nil, err
	}
	return d.protect(v)
}

// protect returns v if it is read-only already or if d does not forbid assignments. Otherwise it closes v and returns a
// read-only view of its memory.
func (d *Description) protect(v *dlpack.Tensor) (*dlpack.Tensor, error) {
	if v.ReadOnly() || d.Access != RTensor && d.Role&IsConstant == 0 {
		return v, nil
	}
	defer v.Close()
	return v.View(dlpack.Spec{
		DType: v.DType(), Shape: v.Shape(), Strides: v.Strides(), ReadOnly: true, Padded: v.Flags()&dlpack.SubbytePadded != 0,
	})
}

// fits returns an error unless t agrees with the fields of d. It ignores the base of d.
func (d *Description) fits(t *dlpack.Tensor) error {
	const op = "bind"
	there := Describe(t)
	if there.Access == LTensor {
		there.Access = d.Access // a writable tensor also fits a read-only description
	}
	if _, err := d.merge(op, there); err != nil {
		return err
	}
	if t.Data() == 0 || d.Align <= 1 { // without elements any alignment is valid
		return nil
	}
	if at := t.Data() + uintptr(t.ByteOffset()); at%uintptr(d.Align) != 0 {
		return newError(op, dlpack.ErrUnaligned, "data at %#x is not aligned to %d bytes; Align makes an aligned copy", at, d.Align)
	}
	return nil
}
