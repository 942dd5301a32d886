//go:build cgo

package dlpack

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/internal/extent"
)

// A Description is what is known of a tensor before it has memory. The zero Description knows nothing, and
// neither does nil; [Description.Refine] adds what becomes known, except to nil, and says what does not go together.
// Once there is enough, [Description.Allocate] makes the tensor, or [Description.Bind] finds it in memory that is
// there. A view of a tensor that has no memory yet is a [Description.View] of its description.
//
// It is the tensor description of the Nervana Graph documentation ("Tensor Descriptions"). A Description is for
// one goroutine at a time while it is refined.
type Description struct {
	DType DataType // 0: not known
	// Padded is part of the data type: each element of fewer than 8 bits has a byte of its own.
	Padded bool
	// Shape is known, or the rank, or not even that.
	Shape  layout.PartialShape
	Access Access
	Role   Role
	// Align is what the address of element (0, ..., 0), in bytes, is a multiple of. 0 is as good as 1.
	Align int64

	// Where the elements lie, for each dimension; nil is not known. Strides follow from the other two, once the
	// shape is known, but may be others in memory that is there.

	Order   []int   // the dimensions from the slowest to the fastest
	Sizes   []int64 // what is allocated, at least the shape
	Strides []int64 // in elements

	base *Description
	view func(l *layout.Layout) error
}

// Access says whether a tensor may be assigned to.
type Access uint8

const (
	AccessUnknown Access = iota
	RTensor              // can be read: what can stand on the right side of an assignment
	LTensor              // can be assigned to
)

func (a Access) String() string {
	if a > LTensor {
		return fmt.Sprintf("access %d", uint8(a))
	}
	return [...]string{"not known", "r-tensor", "l-tensor"}[a]
}

// A Role is what a tensor is for in a computation: the attributes of an AssignableTensorOp of the Nervana Graph
// documentation ("Tensors"). 0 is not known.
type Role uint8

const (
	IsConstant   Role = 1 << iota // immutable, so that it can be inlined
	IsPersistent                  // the value is retained from one computation to the next
	IsTrainable                   // is in the list of variables
	IsInput                       // a value can be passed in at run time
)

// The roles that are in use.
const (
	Constant         = IsConstant | IsPersistent  // specified while the graph is made
	Placeholder      = IsPersistent | IsInput     // an input, typically from the host
	PersistentTensor = IsPersistent               // such as the velocity in SGD
	Variable         = IsPersistent | IsTrainable // a parameter that is updated during training
)

func (r Role) String() string {
	switch r {
	case 0:
		return "not known"
	case Constant:
		return "constant"
	case Placeholder:
		return "placeholder"
	case PersistentTensor:
		return "persistent_tensor"
	case Variable:
		return "variable"
	}
	var names []string
	for bit, name := range []string{"constant", "persistent", "trainable", "input"} {
		if r&(1<<bit) != 0 {
			names = append(names, name)
			r &^= 1 << bit
		}
	}
	if r != 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(r)))
	}
	return strings.Join(names, "+")
}

// Description describes a tensor that there is, of at most [layout.MaxRank] dimensions: of more,
// [Description.Known] refuses it.
func (t *Tensor) Description() *Description {
	if t.isNone() {
		return new(Description)
	}
	shape, _ := layout.NewPartialShape(t.shape()...)
	d := &Description{DType: t.dtype, Padded: t.flags&SubbytePadded != 0, Shape: shape, Access: LTensor, Strides: t.Strides()}
	if t.ReadOnly() {
		d.Access = RTensor
	}
	return d
}

// View describes a view of what d describes, by what [Tensor.Apply] would be given. What becomes known of d
// later is known of the view too; the view can also be refined by itself.
func (d *Description) View(view func(l *layout.Layout) error) *Description {
	if d == nil {
		d = new(Description)
	}
	return &Description{base: d, view: view}
}

// Base is the description that d is a view of, or nil.
func (d *Description) Base() *Description { return d.orUnknown().base }

// MaxViews is how many views may lie between a [Description.View] and the description that is no view.
const MaxViews = 1000

// chain returns d, what it is a view of, and so on: the last is no view.
func (d *Description) chain(op string) ([]*Description, error) {
	chain := []*Description{d}
	for ; d.base != nil; d = d.base {
		if len(chain) > MaxViews {
			return nil, refuse(op, ErrLayout, "more than %d views of each other, or a description that is a view of itself", MaxViews)
		}
		if d.view == nil {
			return nil, refuse(op, ErrNull, "the function of the view is nil")
		}
		chain = append(chain, d.base)
	}
	return chain, nil
}

// orUnknown is d, or in the place of nil a description of which nothing is known.
func (d *Description) orUnknown() *Description {
	if d == nil {
		return new(Description)
	}
	return d
}

// Known is all that is known: of a view also what follows from its base. Its shape does so once that of the
// base is known, and its strides once the layout of the base is. A view of a constant, and one that has an element at
// several indices, is an [RTensor].
//
// On error: what [Description.Refine] says of what cannot be, and what the view says of a base it cannot be had
// of; [ErrLayout] for more than [MaxViews] views of each other, or a description that was made a view of itself, and
// [ErrNull] for a view by a nil function.
func (d *Description) Known() (Description, error) {
	const op = "describe"
	d = d.orUnknown()
	if d.base == nil {
		return Description{}.merge(op, d)
	}
	chain, err := d.chain(op)
	if err != nil {
		return Description{}, err
	}
	root := len(chain) - 1
	known, err := Description{}.merge(op, chain[root])
	for k := root - 1; k >= 0 && err == nil; k-- {
		known, err = chain[k].knownBy(op, &known)
	}
	if err != nil {
		return Description{}, err
	}
	return known, nil
}

// knownBy is all that is known of a view, by what is known of its base.
func (d *Description) knownBy(op string, base *Description) (Description, error) {
	known := Description{DType: base.DType, Padded: base.Padded, Access: base.Access}
	if base.Role&IsConstant != 0 {
		known.Access = RTensor
	}
	if base.Shape.IsFullyDefined() {
		isLaid := base.Strides != nil || base.Order != nil || base.Sizes != nil
		l, err := base.layout()
		if err == nil {
			err = d.view(&l)
		}
		if err == nil {
			known.Shape, err = layout.NewPartialShape(l.Shape...)
			if layout.Overlaps(l.Shape, l.Strides) { // as in Tensor.Apply
				known.Access = RTensor
			}
		}
		switch {
		case err == nil && isLaid:
			known.Strides = l.Strides
		case err != nil && (isLaid || !errors.Is(err, layout.ErrCopy)): // or it may yet be laid so that there is the view
			return Description{}, refuseLayout(op, err)
		}
	}
	return known.merge(op, d)
}

// layout is where the elements lie, of a description whose shape is known: row-major unless it says otherwise.
// Element (0, ..., 0) is at 0.
func (d *Description) layout() (layout.Layout, error) {
	shape := d.Shape.Dims()
	if d.Strides != nil {
		return layout.Layout{Shape: shape, Strides: slices.Clone(d.Strides)}, nil
	}
	return layout.New(shape, d.Sizes, d.Order)
}

// Layout is where the elements lie, in elements from the beginning of the memory that d, or what d is finally a
// view of, is allocated. Where nothing is known of the layout it is row-major without gaps.
//
// On error: as [Description.Known], and [ErrUnknown] while a shape is not known.
func (d *Description) Layout() (layout.Layout, error) {
	const op = "describe"
	known, err := d.Known()
	if err != nil {
		return layout.Layout{}, err
	}
	var views []*Description
	if d = d.orUnknown(); d.base != nil {
		if views, err = d.chain(op); err != nil {
			return layout.Layout{}, err
		}
		root := len(views) - 1
		if known, err = views[root].Known(); err != nil {
			return layout.Layout{}, err
		}
		views = views[:root]
	}
	if !known.Shape.IsFullyDefined() {
		return layout.Layout{}, refuse(op, ErrUnknown, "the shape is %v", known.Shape)
	}
	l, err := known.layout()
	if err == nil {
		var lo int64
		lo, _, err = l.Span()
		l.Offset = -lo
	}
	if err != nil {
		return layout.Layout{}, refuseLayout(op, err)
	}
	for _, v := range slices.Backward(views) {
		if err := v.view(&l); err != nil {
			return layout.Layout{}, refuseLayout(op, err)
		}
	}
	return l, nil
}

// Refine adds what is known of o. The data types have to be the same where both are known, the shapes
// compatible, order, sizes, strides, access and role the same; the alignment becomes one that is both.
//
// On error: d is as it was; [ErrConflict] together with what it is about: [ErrDType], [ErrLayout] or
// [ErrReadOnly], or nothing more for roles.
func (d *Description) Refine(o *Description) error {
	const op = "refine"
	if d == nil {
		return refuse(op, ErrNull, "the description is nil")
	}
	known, err := o.Known()
	if err != nil {
		return err
	}
	refined, err := d.merge(op, &known)
	if err != nil {
		return err
	}
	refined.base, refined.view = d.base, d.view
	if _, err := refined.Known(); err != nil { // with what the base says
		return err
	}
	*d = refined
	return nil
}

func conflict(op string, cause error, format string, args ...any) error {
	return &Error{Op: op, Where: fmt.Sprintf(format, args...), Err: errors.Join(ErrConflict, cause)}
}

// merge is what is known from both together, without their bases.
func (d Description) merge(op string, o *Description) (Description, error) {
	d.base, d.view = nil, nil
	switch {
	case d.DType == 0:
		d.DType, d.Padded = o.DType, o.Padded
	case o.DType != 0 && d.DType != o.DType:
		return d, conflict(op, ErrDType, "data type %v and %v", d.DType, o.DType)
	case o.DType != 0 && d.DType.IsSubByte() && d.Padded != o.Padded:
		return d, conflict(op, ErrDType, "packed and padded elements of %v", d.DType)
	}
	shape, err := d.Shape.Merge(o.Shape)
	if err != nil {
		return d, conflict(op, errors.Join(ErrLayout, err), "shape %v and %v", d.Shape, o.Shape)
	}
	d.Shape = shape
	if d.Access == AccessUnknown {
		d.Access = o.Access
	} else if o.Access != AccessUnknown && d.Access != o.Access {
		return d, conflict(op, ErrReadOnly, "%v and %v", d.Access, o.Access)
	}
	if d.Role == 0 {
		d.Role = o.Role
	} else if o.Role != 0 && d.Role != o.Role {
		return d, conflict(op, nil, "%v and %v", d.Role, o.Role)
	}
	if d.Align, err = common(op, d.Align, o.Align); err != nil {
		return d, err
	}
	if d.Order, err = either(op, "order", d.Order, o.Order, slices.Equal); err != nil {
		return d, err
	}
	if d.Sizes, err = either(op, "sizes", d.Sizes, o.Sizes, slices.Equal); err != nil {
		return d, err
	}
	if d.Strides, err = either(op, "strides", d.Strides, o.Strides, func(a, b []int64) bool {
		return sameSteps(d.Shape.Dims(), a, b)
	}); err != nil {
		return d, err
	}
	return d, d.check(op)
}

// either is what is known of one of two lists, or of both alike: a copy.
func either[T any](op, what string, a, b []T, same func(a, b []T) bool) ([]T, error) {
	if a == nil {
		return slices.Clone(b), nil
	}
	if b != nil && !same(a, b) {
		return nil, conflict(op, ErrLayout, "%s %v and %v", what, a, b)
	}
	return a, nil
}

// common is the smallest alignment that is both.
func common(op string, a, b int64) (int64, error) {
	if a < 0 || b < 0 {
		return 0, refuse(op, ErrUnaligned, "alignment to %d bytes", min(a, b))
	}
	if a == 0 || b == 0 {
		return max(a, b), nil
	}
	gcd, rest := a, b
	for rest != 0 {
		gcd, rest = rest, gcd%rest
	}
	lcm, ok := extent.Mul(a, b/gcd)
	if !ok {
		return 0, refuse(op, ErrOverflow, "alignment to %d and to %d bytes", a, b)
	}
	return lcm, nil
}

// sameSteps compares strides where there is something to step to.
func sameSteps(shape, a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for d := range a {
		if a[d] != b[d] && (len(shape) != len(a) || shape[d] != 1) {
			return slices.Contains(shape, 0)
		}
	}
	return true
}

// check tells whether there can be such a tensor. The rank is what any of the lists says.
func (d *Description) check(op string) error {
	if d.DType != 0 {
		if err := d.DType.Validate(); err != nil {
			return refuse(op, ErrDType, "%v", err)
		}
	}
	switch {
	case d.Role&IsConstant != 0 && d.Role&(IsTrainable|IsInput) != 0:
		return conflict(op, nil, "%v", d.Role)
	case d.Role&IsConstant != 0 && d.Access == LTensor, d.Role&IsTrainable != 0 && d.Access == RTensor:
		return conflict(op, ErrReadOnly, "%v and %v", d.Role, d.Access)
	}
	for _, list := range []struct {
		name  string
		known bool
		rank  int
	}{
		{"order", d.Order != nil, len(d.Order)}, {"sizes", d.Sizes != nil, len(d.Sizes)}, {"strides", d.Strides != nil, len(d.Strides)},
	} {
		if !list.known {
			continue
		}
		shape, err := layout.NewPartialShape(slices.Repeat([]int64{layout.Unknown}, list.rank)...)
		if err == nil {
			shape, err = d.Shape.Merge(shape)
		}
		if err != nil {
			return conflict(op, errors.Join(ErrLayout, err), "%s of %d for shape %v", list.name, list.rank, d.Shape)
		}
		d.Shape = shape
	}
	if d.Order == nil && d.Sizes == nil {
		return nil
	}
	shape := d.Shape.Dims()
	for k, n := range shape {
		shape[k] = max(n, 0) // what is not known is small enough
	}
	laid, err := layout.New(shape, d.Sizes, d.Order)
	if err != nil {
		return refuseLayout(op, err)
	}
	if d.Strides == nil || !d.Shape.IsFullyDefined() || slices.Contains(shape, 0) { // what has no elements lies in any way
		return nil
	}
	if d.Sizes != nil && !sameSteps(shape, laid.Strides, d.Strides) {
		return conflict(op, ErrLayout, "strides %v, and %v by sizes %v", d.Strides, laid.Strides, d.Sizes)
	}
	last := uint64(math.MaxUint64)
	for _, k := range d.Order {
		if step := extent.Magnitude(d.Strides[k]); shape[k] > 1 {
			if step > last {
				return conflict(op, ErrLayout, "strides %v and order %v", d.Strides, d.Order)
			}
			last = step
		}
	}
	return nil
}

// AlignRows sets the sizes so that each row begins at a multiple of align bytes, and the first one is aligned so:
// the fastest dimension is rounded up. Rows are those of the order, or row-major.
//
// On error: [ErrUnknown] while data type and shape are not known, [ErrConflict] where the sizes were others,
// [ErrDType] for packed elements, and [ErrLayout] or [ErrOverflow] with what [layout.AppendAligned] says.
func (d *Description) AlignRows(align int64) error {
	const op = "align rows"
	if d == nil {
		return refuse(op, ErrNull, "the description is nil")
	}
	if d.base != nil {
		return refuse(op, ErrLayout, "a view has the memory of its base")
	}
	known, err := d.complete()
	if err != nil {
		return err
	}
	if known.DType.IsSubByte() && !known.Padded {
		return refuse(op, ErrDType, "packed %v has no gaps", known.DType)
	}
	sizes, err := layout.AppendAligned(nil, known.Shape.Dims(), known.Order, int64(known.DType.ItemSize()), align)
	if err != nil {
		return refuseLayout(op, err)
	}
	return d.Refine(&Description{Sizes: sizes, Align: align})
}

// Complete tells whether enough is known to allocate the tensor, or, of a view, what it is finally a view of:
// data type and shape. The rest has defaults.
//
// On error: [ErrUnknown] with what is not known yet, and as [Description.Known].
func (d *Description) Complete() error {
	chain, err := d.orUnknown().chain("describe")
	if err != nil {
		return err
	}
	if _, err := chain[len(chain)-1].complete(); err != nil {
		return err
	}
	_, err = d.Known()
	return err
}

// complete is what is known, which is enough to allocate.
func (d *Description) complete() (Description, error) {
	const op = "describe"
	known, err := d.Known()
	if err == nil && known.DType == 0 {
		err = refuse(op, ErrUnknown, "the data type is not known")
	}
	if err == nil && !known.Shape.IsFullyDefined() {
		err = refuse(op, ErrUnknown, "the shape is %v", known.Shape)
	}
	return known, err
}

// Allocate makes a tensor in zeroed memory as of [New], with the layout and alignment that d wants. It can be
// assigned to whatever d says, since it has no values yet; [Description.Bind] then finds in it what d describes.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any. On error: as
// [Description.Complete]; [ErrLayout] for a view, whose memory is that of its base, and for strides by which
// elements overlap; [ErrOverflow], [ErrMemory].
func (d *Description) Allocate() (*Tensor, error) {
	const op = "allocate"
	d = d.orUnknown()
	if d.base != nil {
		return nil, refuse(op, ErrLayout, "a view has the memory of its base")
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
		return nil, refuse(op, ErrLayout, "elements overlap: strides %v of shape %v", l.Strides, l.Shape)
	}
	_, elements, err := l.Span()
	if err == nil && known.Sizes != nil {
		elements, err = layout.Count(known.Sizes)
	}
	if err != nil {
		return nil, refuseLayout(op, err)
	}
	size, err := known.DType.NumBytes(elements, known.Padded)
	if err != nil {
		return nil, refuse(op, ErrOverflow, "%v", err)
	}
	s := Spec{
		DType: known.DType, Shape: l.Shape, Strides: l.Strides, Padded: known.Padded,
		ByteOffset: l.Offset * int64(known.DType.ItemSize()), // which is less than the size
	}
	align, spare := max(known.Align, 1), int64(0)
	if NewAlignment%align != 0 || s.ByteOffset%align != 0 {
		spare = align - 1 // to find an address in
	}
	room, ok := extent.Add(size, spare)
	if !ok {
		return nil, refuse(op, ErrOverflow, "%d bytes aligned to %d", size, align)
	}
	memory, err := New(Uint8, room)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	if beyond := int64((memory.data + uintptr(s.ByteOffset)) % uintptr(align)); beyond > 0 {
		s.ByteOffset += align - beyond
	}
	return memory.View(s)
}

// Bind finds what d describes in a tensor: a view of it whose data type, shape, layout and alignment have been
// checked. A view is found in a tensor for what it is finally a view of. The result is read-only if the tensor
// is, for an [RTensor] and for constants. Nothing of it is added to d, so that a placeholder can be bound again.
//
// Ownership: the result shares the memory and is closed by itself. Lifetime: until its Close. Threads: any.
// On error: [ErrClosed]; [ErrConflict] together with [ErrDType], [ErrLayout], or [ErrReadOnly] for read-only
// memory of what is assigned to; [ErrUnaligned]; and as [Tensor.Apply] for views.
func (d *Description) Bind(t *Tensor) (*Tensor, error) {
	const op = "bind"
	chain, err := d.orUnknown().chain(op)
	if err != nil {
		return nil, err
	}
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	root := len(chain) - 1
	if err := chain[root].fits(t); err != nil {
		return nil, err
	}
	bound, err := chain[root].protect(t.share(op))
	for k := root - 1; k >= 0 && err == nil; k-- {
		bound, err = chain[k].bindView(bound)
	}
	return bound, err
}

// bindView finds a view in what was found for its base, which it closes.
func (d *Description) bindView(base *Tensor) (*Tensor, error) {
	defer base.Close()
	v, err := base.Apply(d.view)
	if err != nil {
		return nil, err
	}
	if err := d.fits(v); err != nil {
		v.Close()
		return nil, err
	}
	return d.protect(v, nil)
}

// protect makes a view that was found read-only, if d is not assigned to.
func (d *Description) protect(v *Tensor, err error) (*Tensor, error) {
	if err == nil && (d.Access == RTensor || d.Role&IsConstant != 0) {
		v.flags |= ReadOnly
	}
	return v, err
}

// fits tells whether a tensor is what a description says, but for its base.
func (d *Description) fits(t *Tensor) error {
	const op = "bind"
	there := t.Description()
	if there.Access == LTensor {
		there.Access = d.Access // what can be assigned to can also be left alone
	}
	if _, err := d.merge(op, there); err != nil {
		return err
	}
	if at := t.first(); d.Align > 1 && at%uintptr(d.Align) != 0 {
		return refuse(op, ErrUnaligned, "data at %#x is not aligned to %d bytes", at, d.Align)
	}
	return nil
}

// String prints what is known, as `float32 [3,?] variable`.
func (d *Description) String() string {
	known, err := d.Known()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	if known.DType == 0 {
		b.WriteString("<unknown>")
	} else {
		fmt.Fprint(&b, known.DType)
	}
	fmt.Fprintf(&b, " %v", known.Shape)
	if known.Role != 0 {
		fmt.Fprintf(&b, " %v", known.Role)
	}
	if known.Access != AccessUnknown {
		fmt.Fprintf(&b, " %v", known.Access)
	}
	if known.Order != nil {
		fmt.Fprintf(&b, " order %v", known.Order)
	}
	if known.Sizes != nil {
		fmt.Fprintf(&b, " sizes %v", known.Sizes)
	}
	if known.Strides != nil {
		fmt.Fprintf(&b, " strides %v", known.Strides)
	}
	if known.Align > 1 {
		fmt.Fprintf(&b, " aligned to %d bytes", known.Align)
	}
	if d.Base() != nil {
		b.WriteString(", a view")
	}
	return b.String()
}
