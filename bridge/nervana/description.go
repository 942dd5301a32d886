package nervana

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Description holds the known properties of a tensor before it has memory. In the zero Description nothing is known.
// A nil Description is read like the zero Description. [Description.Refine] adds properties, or returns an error if
// they contradict known ones. Once enough is known, [Description.Allocate] makes the tensor, and [Description.Bind]
// checks that an existing tensor agrees with the description. [Description.View] describes a view of a tensor that has
// no memory yet.
//
// It is the tensor description of the Nervana Graph documentation ("Tensor Descriptions"). Only one goroutine at a time
// may use a Description while it is being refined.
type Description struct {
	DType dlpack.DataType // 0 means not known
	// Padded is part of the data type. It reports that each element that does not fill whole bytes, such as int4, has
	// its own bytes and is not packed.
	Padded bool
	// Shape may be fully or partly known, or only its rank may be known.
	Shape  layout.PartialShape
	Access Access
	Role   Role
	// Align is a number of bytes; the address of element (0, ..., 0) must be a multiple of it. 0 means the same as 1.
	Align int64

	// The next three fields describe the layout, with one entry for each dimension. nil means not known. Sizes, in the
	// given Order, determines the strides once the shape is known. Order alone determines the strides of an allocated
	// tensor, but an existing tensor may also have gaps or negative strides.

	Order   []int   // the dimensions, from the slowest to the fastest
	Sizes   []int64 // the allocated size of each dimension, which is at least its size in the shape
	Strides []int64 // in elements

	base *Description
	view func(l *layout.Layout) error
}

// View returns the description of a view of the tensor that d describes. view makes the view from the layout of that
// tensor, like the function passed to [dlpack.Tensor.Apply]. The result inherits data type and access, and also shape
// and layout as changed by view. It also inherits properties that are added to d later. It does not inherit role and
// alignment. Properties added to the result do not change d.
func (d *Description) View(view func(l *layout.Layout) error) *Description {
	if d == nil {
		d = new(Description)
	}
	return &Description{base: d, view: view}
}

// Base returns the description that d is a view of, or nil.
func (d *Description) Base() *Description { return d.orUnknown().base }

// maxViews is the largest number of views in a chain from a view to the description that is not a view.
const maxViews = 1000

// root follows the chain of views from d, and returns the description at its end: d itself if it is not a view.
func (d *Description) root(op string) (*Description, error) {
	for views := 0; d.base != nil; views++ {
		if views == maxViews {
			return nil, newError(op, dlpack.ErrLayout, "the chain of views has more than %d views, or a description is a view of itself", maxViews)
		}
		if d.view == nil {
			return nil, newError(op, dlpack.ErrNull, "the function of the view is nil")
		}
		d = d.base
	}
	return d, nil
}

// orUnknown returns d, or an empty description if d is nil.
func (d *Description) orUnknown() *Description {
	if d == nil {
		return new(Description)
	}
	return d
}

// Known returns everything that is known about d. For a view this includes properties that follow from its base. The
// strides are known once the layout of the base is known. The shape is known once the shape of the base is known and,
// if the view depends on the layout of the base, this layout is known too. A view has the read-only access [RTensor] if
// its base is a constant, or if several indices reach the same element.
//
// Errors: an error of [Description.Refine] if d contradicts itself; the error of the view's function if this function
// cannot make the view of the base; [dlpack.ErrLayout] for a chain of more than 1000 views and for a description that is a view of itself; and
// [dlpack.ErrNull] for a view whose function is nil.
func (d *Description) Known() (Description, error) {
	const op = "describe"
	d = d.orUnknown()
	if _, err := d.root(op); err != nil {
		return Description{}, err
	}
	return d.known(op)
}

// known is [Description.Known] for a description that has a root.
func (d *Description) known(op string) (Description, error) {
	if d.base == nil {
		return Description{}.merge(op, d)
	}
	base, err := d.base.known(op)
	if err != nil {
		return Description{}, err
	}
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
		case err != nil && (isLaid || !errors.Is(err, layout.ErrCopy)):
			// While the layout of the base is not known, ErrCopy is not an error: the base may get a layout that allows
			// the view.
			return Description{}, wrap(op, err)
		}
	}
	return known.merge(op, d)
}

// layout returns the layout of a description whose shape is known, with element (0, ..., 0) at offset 0. It is row-major
// unless the description says otherwise.
func (d *Description) layout() (layout.Layout, error) {
	shape := d.Shape.Dims()
	if d.Strides != nil {
		return layout.Layout{Shape: shape, Strides: slices.Clone(d.Strides)}, nil
	}
	return layout.New(shape, d.Sizes, d.Order)
}

// Layout returns the layout that the elements will have. Offsets count elements from the beginning of the memory of d.
// The memory of a view is the memory of the description at the end of its chain of views. If nothing is known about the
// layout, it is row-major without gaps.
//
// Errors: those of [Description.Known], and [ErrUnknown] while the shape is not known.
func (d *Description) Layout() (layout.Layout, error) {
	const op = "describe"
	d = d.orUnknown()
	root, err := d.root(op)
	if err != nil {
		return layout.Layout{}, err
	}
	known, err := root.known(op)
	if err == nil && d != root {
		_, err = d.known(op)
	}
	if err != nil {
		return layout.Layout{}, err
	}
	l, err := d.place(op, &known)
	if err != nil {
		return layout.Layout{}, wrap(op, err)
	}
	return l, nil
}

// place is [Description.Layout] for a description that has a root. known is all that is known about the root.
func (d *Description) place(op string, known *Description) (l layout.Layout, err error) {
	if d.base != nil {
		if l, err = d.base.place(op, known); err == nil {
			err = d.view(&l)
		}
		return l, err
	}
	if !known.Shape.IsFullyDefined() {
		return l, newError(op, ErrUnknown, "the shape %v is not fully known; set Shape", known.Shape)
	}
	if l, err = known.layout(); err != nil {
		return l, err
	}
	lo, _, err := l.Span()
	l.Offset = -lo
	return l, err
}

// Refine adds the known properties of o to d. Data type, order, sizes, strides, access and role must be the same where
// both are known, and the shapes must be compatible. The alignment becomes the smallest common multiple of both.
//
// Errors: [ErrConflict] together with its subject: [dlpack.ErrDType], [dlpack.ErrLayout] or [dlpack.ErrReadOnly]; for
// roles, ErrConflict alone. [dlpack.ErrDType], [dlpack.ErrLayout], [dlpack.ErrUnaligned] or [dlpack.ErrOverflow] alone
// if no tensor can have the described properties. Those of [Description.Known] for o and for the result.
// [dlpack.ErrNull] if d is nil. d is then unchanged.
func (d *Description) Refine(o *Description) error {
	const op = "refine"
	if d == nil {
		return newError(op, dlpack.ErrNull, "the description is nil")
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
	if _, err := refined.Known(); err != nil { // the result may contradict the base
		return err
	}
	*d = refined
	return nil
}

// merge returns the properties known from d and o together, without their bases.
func (d Description) merge(op string, o *Description) (Description, error) {
	d.base, d.view = nil, nil
	typed := d.DType != 0 && o.DType != 0
	shape, err := d.Shape.Merge(o.Shape)
	switch {
	case typed && d.DType != o.DType:
		return d, conflict(op, dlpack.ErrDType, "data type %v conflicts with %v", d.DType, o.DType)
	case typed && d.DType.IsSubByte() && d.Padded != o.Padded:
		return d, conflict(op, dlpack.ErrDType, "packed elements of %v conflict with padded ones", d.DType)
	case err != nil:
		return d, conflict(op, errors.Join(dlpack.ErrLayout, err), "shape %v conflicts with %v", d.Shape, o.Shape)
	case d.Access != AccessUnknown && o.Access != AccessUnknown && d.Access != o.Access:
		return d, conflict(op, dlpack.ErrReadOnly, "%v conflicts with %v", d.Access, o.Access)
	case d.Role != 0 && o.Role != 0 && d.Role != o.Role:
		return d, conflict(op, nil, "%v conflicts with %v", d.Role, o.Role)
	case d.DType == 0:
		d.DType, d.Padded = o.DType, o.Padded
	}
	d.Shape, d.Access, d.Role = shape, cmp.Or(d.Access, o.Access), cmp.Or(d.Role, o.Role)
	if d.Align, err = commonMultiple(op, d.Align, o.Align); err != nil {
		return d, err
	}
	if d.Order, err = either(op, "order", d.Order, o.Order, slices.Equal); err != nil {
		return d, err
	}
	if d.Sizes, err = either(op, "sizes", d.Sizes, o.Sizes, slices.Equal); err != nil {
		return d, err
	}
	if d.Strides, err = either(op, "strides", d.Strides, o.Strides, func(a, b []int64) bool {
		return sameStrides(d.Shape.Dims(), a, b)
	}); err != nil {
		return d, err
	}
	return d, d.check(op)
}

// either returns a, or a copy of b if a is nil. If neither is nil, they must be the same.
func either[T any](op, name string, a, b []T, same func(a, b []T) bool) ([]T, error) {
	if a == nil {
		return slices.Clone(b), nil
	}
	if b != nil && !same(a, b) {
		return nil, conflict(op, dlpack.ErrLayout, "%s %v and %v conflict", name, a, b)
	}
	return a, nil
}

// commonMultiple returns the smallest alignment that is a multiple of both alignments. 0 stands for any alignment.
func commonMultiple(op string, a, b int64) (int64, error) {
	if a < 0 || b < 0 {
		return 0, newError(op, dlpack.ErrUnaligned, "alignment to %d bytes is negative", min(a, b))
	}
	if a == 0 || b == 0 {
		return max(a, b), nil
	}
	gcd, rest := a, b
	for rest != 0 {
		gcd, rest = rest, gcd%rest
	}
	lcm, ok := layout.Mul(a, b/gcd)
	if !ok {
		return 0, newError(op, dlpack.ErrOverflow, "the common multiple of alignments to %d and to %d bytes does not fit in 64 bits", a, b)
	}
	return lcm, nil
}

// sameStrides reports whether a and b place the elements of the shape in the same way: they are equal in all dimensions
// of more than one element, or there are no elements.
func sameStrides(shape, a, b []int64) bool {
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

// check returns an error unless a tensor with this description can exist. It sets an unknown rank from the lengths of
// Order, Sizes and Strides.
func (d *Description) check(op string) error {
	if d.DType != 0 {
		if err := d.DType.Validate(); err != nil {
			return newError(op, dlpack.ErrDType, "%v", err)
		}
	}
	switch {
	case d.Role&IsConstant != 0 && d.Role&(IsTrainable|IsInput) != 0:
		return conflict(op, nil, "a constant is neither trainable nor an input, but the role is %v", d.Role)
	case d.Role&IsConstant != 0 && d.Access == LTensor, d.Role&IsTrainable != 0 && d.Access == RTensor:
		return conflict(op, dlpack.ErrReadOnly, "%v conflicts with %v", d.Role, d.Access)
	}
	for _, list := range []struct {
		name  string
		known bool
		rank  int
	}{
		{"order", d.Order != nil, len(d.Order)}, {"sizes", d.Sizes != nil, len(d.Sizes)}, {"strides", d.Strides != nil, len(d.Strides)},
	} {
		if rank, known := d.Shape.Rank(); !list.known || known && rank == list.rank {
			continue
		}
		shape, err := layout.NewPartialShape(slices.Repeat([]int64{layout.Unknown}, list.rank)...)
		if err == nil {
			shape, err = d.Shape.Merge(shape)
		}
		if err != nil {
			return conflict(op, errors.Join(dlpack.ErrLayout, err), "rank %d of %s conflicts with shape %v", list.rank, list.name, d.Shape)
		}
		d.Shape = shape
	}
	if d.Order == nil && d.Sizes == nil {
		return nil
	}
	shape := d.Shape.Dims()
	for k, n := range shape {
		shape[k] = max(n, 0) // an unknown dimension fits every allocated size
	}
	laid, err := layout.New(shape, d.Sizes, d.Order)
	if err != nil {
		return wrap(op, err)
	}
	if d.Strides == nil || !d.Shape.IsFullyDefined() || slices.Contains(shape, 0) { // without elements any strides are valid
		return nil
	}
	if d.Sizes != nil && !sameStrides(shape, laid.Strides, d.Strides) {
		return conflict(op, dlpack.ErrLayout, "strides %v conflict with the strides %v of the sizes %v", d.Strides, laid.Strides, d.Sizes)
	}
	last := int64(math.MinInt64)
	for _, k := range d.Order {
		if step := min(d.Strides[k], -d.Strides[k]); shape[k] > 1 { // -|stride|: |stride| may not fit in an int64
			if step < last {
				return conflict(op, dlpack.ErrLayout, "strides %v conflict with order %v", d.Strides, d.Order)
			}
			last = step
		}
	}
	return nil
}

// AlignRows sets Sizes and Align so that every row begins at a multiple of align bytes. It rounds up the allocated size
// of the fastest dimension. A row is a run along the last dimension of Order, or along the last dimension of the shape
// if the order is not known.
//
// Errors: [ErrUnknown] while data type or shape are not known, [ErrConflict] if other sizes are known, [dlpack.ErrDType]
// for packed elements, [dlpack.ErrLayout] for a view, [dlpack.ErrNull] if d is nil, and [dlpack.ErrLayout] or
// [dlpack.ErrOverflow] together with the errors of [layout.AppendAligned].
func (d *Description) AlignRows(align int64) error {
	const op = "align rows"
	if d == nil {
		return newError(op, dlpack.ErrNull, "the description is nil")
	}
	if d.base != nil {
		return newError(op, dlpack.ErrLayout, "a view has the memory of its base; align the rows of the base")
	}
	known, err := d.complete()
	if err != nil {
		return err
	}
	if known.DType.IsSubByte() && !known.Padded {
		return newError(op, dlpack.ErrDType, "packed elements of %v cannot have gaps; Padded allows them", known.DType)
	}
	sizes, err := layout.AppendAligned(nil, known.Shape.Dims(), known.Order, int64(known.DType.ItemSize()), align)
	if err != nil {
		return wrap(op, err)
	}
	return d.Refine(&Description{Sizes: sizes, Align: align})
}

// Complete returns nil if the data type and the shape are known, so that the tensor can be allocated. For a view, they
// must be known for the description at the end of its chain of views. Everything else has a default.
//
// Errors: [ErrUnknown], which names the unknown property, and those of [Description.Known].
func (d *Description) Complete() error {
	root, err := d.orUnknown().root("describe")
	if err == nil {
		_, err = root.complete()
	}
	if err == nil {
		_, err = d.Known()
	}
	return err
}

// complete is [Description.Known], with an error if the data type or the shape is not known.
func (d *Description) complete() (Description, error) {
	const op = "describe"
	known, err := d.Known()
	if err == nil && known.DType == 0 {
		err = newError(op, ErrUnknown, "the data type is not known; set DType")
	}
	if err == nil && !known.Shape.IsFullyDefined() {
		err = newError(op, ErrUnknown, "the shape %v is not fully known; set Shape", known.Shape)
	}
	return known, err
}

// String returns the known properties, such as "float32 [3,?] variable" or "padded int4 [3]", or the text of the error
// of [Description.Known].
func (d *Description) String() string {
	known, err := d.Known()
	if err != nil {
		return err.Error()
	}
	text := "<unknown>"
	if known.DType != 0 {
		text = known.DType.String()
	}
	if known.Padded && known.DType.IsSubByte() {
		text = "padded " + text
	}
	text += " " + known.Shape.String()
	for _, field := range []struct {
		known  bool
		format string
		value  any
	}{
		{known.Role != 0, " %v", known.Role},
		{known.Access != AccessUnknown, " %v", known.Access},
		{known.Order != nil, " order %v", known.Order},
		{known.Sizes != nil, " sizes %v", known.Sizes},
		{known.Strides != nil, " strides %v", known.Strides},
		{known.Align > 1, " aligned to %d bytes", known.Align},
	} {
		if field.known {
			text += fmt.Sprintf(field.format, field.value)
		}
	}
	if d.Base() != nil {
		text += ", a view"
	}
	return text
}
