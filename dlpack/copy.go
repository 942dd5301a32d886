//go:build cgo

package dlpack

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// An Order is the order in memory of elements that lie without gaps.
type Order uint8

const (
	RowMajor    Order = iota // the last dimension fastest, as in C
	ColumnMajor              // the first dimension fastest, as in Fortran
)

// Copy copies the elements, row-major, into new memory, allocated as by [New]. Large copies use as many goroutines as
// GOMAXPROCS allows.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, while nobody writes
// to the source. On error: [ErrClosed], [ErrDevice] or [ErrMemory].
func (t *Tensor) Copy() (*Tensor, error) { return t.copied("copy", RowMajor) }

// Contiguous returns a tensor whose elements lie without gaps in the given order. If the elements of t already lie so,
// the result is another tensor of the same memory. Otherwise it is a copy, and copied is true. Packed elements of fewer
// than 8 bits can only be row-major.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, while nobody writes
// to the source. On error: [ErrClosed], [ErrDevice], [ErrMemory], or [ErrLayout] for packed elements in
// another order and for an invalid order.
func (t *Tensor) Contiguous(order Order) (contiguous *Tensor, copied bool, err error) {
	const op = "contiguous"
	if t.isClosed() {
		return nil, false, t.errClosed(op)
	}
	if order > ColumnMajor {
		return nil, false, newError(op, ErrLayout, "order %d is neither row-major nor column-major", order)
	}
	if t.rowMajor && order == RowMajor || order == ColumnMajor && layout.IsColumnMajor(t.shape(), t.strides()) {
		contiguous, err = t.share(op)
		return contiguous, false, err
	}
	if t.packed() {
		return nil, false, t.newError(op, ErrLayout, "packed elements of %d bits must be row-major without gaps; CopyTo copies them to a padded tensor in another order",
			t.dtype.BitSize())
	}
	contiguous, err = t.copied(op, order)
	return contiguous, err == nil, err
}

// packed reports whether elements share bytes.
func (t *Tensor) packed() bool { return t.dtype.IsSubByte() && t.flags&SubbytePadded == 0 }

// copied copies the elements into new memory in the given order, which must be row-major for packed elements.
func (t *Tensor) copied(op string, order Order) (*Tensor, error) {
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return nil, t.errDevice(op)
	}
	n := t.NumBytes()
	c := newRoot(t.Rank())
	if err := c.allocate(op, n, false); err != nil {
		return nil, err
	}
	c.own(t.dtype, t.flags&SubbytePadded|IsCopied, t.shape())
	if order == ColumnMajor {
		layout.AppendColumnMajor(c.strides()[:0], c.shape()) // the shape is a valid one
		c.rowMajor = layout.IsRowMajor(c.shape(), c.strides())
	}
	if t.data != 0 {
		t.move(core.Pointer(c.data), c.stridesOrNil())
	}
	return c, nil
}

// CopyTo copies the elements into the memory of another tensor with the same shape and data type. The layouts may differ,
// and either side may be packed or padded. [Tensor.ConvertTo] converts to another data type. Large copies use as many
// goroutines as GOMAXPROCS allows.
//
// The elements of dst must not overlap each other. They must not overlap the elements of the source either, unless both are the same
// elements. If the memory overlaps, or may overlap ([Tensor.Disjoint]), copy from a [Tensor.Copy] of the source. Unlike NumPy, CopyTo
// makes no temporary copy, because that would allocate memory that the caller has not asked for. To fill a tensor with one element, copy
// from the [Tensor.BroadcastTo] of that element, which may lie in dst.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else writes to the source, or uses the destination.
// On error: nothing is written. The errors are [ErrClosed], [ErrDevice], [ErrDType], [ErrReadOnly] and [ErrLayout].
func (t *Tensor) CopyTo(dst *Tensor) error {
	return t.copyInto("copy to", dst, checkSameType, nil)
}

// copyInto copies the elements into dst, converts them if the data types differ, and scales them unless s is nil. checkTypes refuses the
// pairs of types that the caller does not allow.
func (t *Tensor) copyInto(op string, dst *Tensor, checkTypes func(op string, to, from DataType) error, s *Scaling) error {
	if err := t.acquireInto(op, dst, checkTypes); err != nil {
		return err
	}
	defer t.done()
	defer dst.done()
	if s != nil {
		if err := s.check(op, t.shape()); err != nil {
			return err
		}
	}
	switch {
	case t.data == 0 || s == nil && same(t, dst):
	case t.repeatsOne() && !disjoint(t, dst):
		element := unsafe.Slice((*byte)(core.Pointer(t.data)), t.dtype.ItemSize()) // in dst, so it is read first
		return dst.fill(op, bytes.Clone(element), t.dtype, checkTypes, s)
	case s != nil && same(t, dst):
		return newError(op, ErrLayout, "the destination is the source; scale a Copy of it")
	case s != nil || t.dtype != dst.dtype || t.packed() != dst.packed():
		convert(dst, t, s) // elements that can be packed are numbers
	case t.packed():
		t.moveBits(dst)
	default:
		t.move(core.Pointer(dst.data), dst.stridesOrNil())
	}
	return nil
}

func checkSameType(op string, to, from DataType) error {
	if to != from {
		return newError(op, ErrDType, "the destination has %v, but the source has %v; ConvertTo converts the elements", to, from)
	}
	return nil
}

// acquireInto acquires a tensor and a destination, and checks that the elements can be written there. checkTypes refuses the pairs of
// types that the caller does not allow. After an error neither is acquired.
func (t *Tensor) acquireInto(op string, dst *Tensor, checkTypes func(op string, to, from DataType) error) error {
	if err := t.acquireAs(op, "the source"); err != nil {
		return err
	}
	if err := dst.acquireAs(op, "the destination"); err != nil {
		t.done()
		return err
	}
	err := checkTypes(op, dst.dtype, t.dtype)
	if err == nil {
		err = t.checkInto(op, dst)
	}
	if err != nil {
		dst.done()
		t.done()
	}
	return err
}

// checkInto checks that the elements of t can be written to dst. Both tensors are acquired.
func (t *Tensor) checkInto(op string, dst *Tensor) error {
	for _, side := range []*Tensor{t, dst} {
		if !side.device.HostReadable() {
			return side.errDevice(op)
		}
	}
	if dst.ReadOnly() {
		return dst.errReadOnly(op, "")
	}
	if !slices.Equal(t.shape(), dst.shape()) {
		return newError(op, ErrLayout, "the destination has shape %v, but the source has %v", dst.shape(), t.shape())
	}
	if t.data == 0 {
		return nil
	}
	if !dst.rowMajor && layout.Overlaps(dst.shape(), dst.strides()) {
		return dst.newError(op, ErrLayout, "elements of the destination overlap: strides %v of shape %v", dst.strides(), dst.shape())
	}
	if !same(t, dst) && !disjoint(t, dst) && !t.repeatsOne() {
		return newError(op, ErrLayout, "source and destination may have memory in common; copy the source with Copy first")
	}
	return nil
}

// repeatsOne reports whether all indices lead to one element.
func (t *Tensor) repeatsOne() bool {
	for d, n := range t.shape() {
		if n != 1 && t.strides()[d] != 0 {
			return false
		}
	}
	return true
}

// same reports whether two tensors of one shape have the same data type and refer to the same elements.
func same(a, b *Tensor) bool {
	return a.data == b.data && a.dtype == b.dtype && a.packed() == b.packed() && sameStrides(a, b)
}

// Disjoint reports whether t and o are known to have no byte in common. It returns false if it cannot decide: for nil, and for
// memory that the host cannot address. It also returns false if the strides or data types differ and the elements interlock, unless
// they lie in different columns of one matrix.
func (t *Tensor) Disjoint(o *Tensor) bool {
	t, o = t.orZero(), o.orZero()
	return t.device.HostReadable() && o.device.HostReadable() && (t.data == 0 || o.data == 0 || disjoint(t, o))
}

// disjoint is [Tensor.Disjoint] for tensors with elements in memory that the host can address.
func disjoint(a, b *Tensor) bool {
	lowA, highA := a.span()
	lowB, highB := b.span()
	if a.data+uintptr(highA) <= b.data+uintptr(lowB) || b.data+uintptr(highB) <= a.data+uintptr(lowA) {
		return true
	}
	if a.packed() || b.packed() {
		return false
	}
	if inColumns(a, b) {
		return true
	}
	item, between := int64(a.dtype.ItemSize()), int64(b.data-a.data)
	if a.rank != b.rank || a.dtype != b.dtype || !sameStrides(a, b) || between%item != 0 {
		return false
	}
	// a and b are the halves of a tensor with a further dimension of size 2. They are disjoint if its elements do not overlap.
	shape, strides := []int64{2}, []int64{between / item}
	for d, n := range a.shape() {
		stride := a.strides()[d]
		if n == 1 {
			stride = b.strides()[d]
		}
		shape, strides = append(shape, max(n, b.shape()[d])), append(strides, stride)
	}
	return !layout.Overlaps(shape, strides)
}

// inColumns reports whether the elements of two tensors lie in different columns of one matrix. The distance of its rows is the greatest
// common divisor of all steps.
func inColumns(a, b *Tensor) bool {
	row := uintptr(0)
	for _, t := range []*Tensor{a, b} {
		for d, n := range t.shape() {
			if n != 1 {
				row = commonDivisor(row, uintptr(max(t.strides()[d], -t.strides()[d]))*uintptr(t.dtype.ItemSize()))
			}
		}
	}
	if row == 0 {
		return false
	}
	between := (b.data%row + row - a.data%row) % row
	return between >= uintptr(a.dtype.ItemSize()) && between+uintptr(b.dtype.ItemSize()) <= row
}

// commonDivisor returns the greatest common divisor. If one number is 0, it is the other number.
func commonDivisor(a, b uintptr) uintptr {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sameStrides reports whether two tensors of one rank have the same strides, except in dimensions of size 1.
func sameStrides(a, b *Tensor) bool {
	for d, n := range a.shape() {
		if n != 1 && b.shape()[d] != 1 && a.strides()[d] != b.strides()[d] {
			return false
		}
	}
	return true
}

// move copies the elements to dst with the given strides; nil strides are row-major. t has at least one element, and the
// caller has acquired it.
func (t *Tensor) move(dst unsafe.Pointer, strides []int64) {
	n := t.NumBytes()
	if t.rowMajor && strides == nil {
		core.CopyBytes(dst, core.Pointer(t.data), n)
		return
	}
	var room [2 * 4]int64 // enough for most tensors
	item := int64(t.dtype.ItemSize())
	from := appendSteps(room[:0:4], t.strides(), item)
	to := room[4:4]
	if strides == nil {
		to, _ = layout.AppendRowMajor(to, t.shape()) // the shape is a valid one
		strides = to
	}
	to = appendSteps(to[:0], strides, item)
	core.CopyElements(dst, to, core.Pointer(t.data), from, t.shape(), item, n)
}

// stridesOrNil returns the strides in the form that [Tensor.move] expects: nil for row-major.
func (t *Tensor) stridesOrNil() []int64 {
	if t.rowMajor {
		return nil
	}
	return t.strides()
}

// appendSteps appends strides to dst and converts them from elements of item bytes to bytes.
func appendSteps(dst, strides []int64, item int64) []int64 {
	for _, step := range strides {
		dst = append(dst, step*item) // overflows only if no element is there
	}
	return dst
}

// moveBits copies packed elements to dst. It does not change the bits of dst after the last element.
func (t *Tensor) moveBits(dst *Tensor) {
	bits := t.NumElements() * int64(t.dtype.BitSize())
	core.CopyBytes(core.Pointer(dst.data), core.Pointer(t.data), bits/8)
	if rest := bits % 8; rest != 0 {
		last := (*byte)(core.Pointer(dst.data + uintptr(bits/8)))
		ours := byte(1)<<rest - 1
		*last = *last&^ours | *(*byte)(core.Pointer(t.data + uintptr(bits/8)))&ours
	}
}

// grow makes room for more bytes, as [slices.Grow] does, but returns an error if there is no memory for them.
func grow(dst []byte, more int64) ([]byte, error) {
	size := int64(len(dst)) + min(more, addressable)
	if size <= int64(cap(dst)) || RequireMemory(size+size/4) == nil { // slices.Grow allocates at most a quarter more
		return slices.Grow(dst, int(more)), nil
	}
	if err := RequireMemory(size); err != nil {
		return dst, err
	}
	return append(make([]byte, 0, size), dst...), nil
}

// reaches reports whether data overlaps the range of bytes that the tensor touches.
func (t *Tensor) reaches(data []byte) bool {
	low, high := t.span()
	start := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	return start < t.data+uintptr(high) && t.data+uintptr(low) < start+uintptr(len(data))
}

// AppendBytes appends the elements, row-major without gaps, to dst. dst may overlap the tensor's memory.
//
// Ownership: the result is Go's. Lifetime: any. Threads: any, while nobody writes to the tensor. On error: [ErrClosed],
// [ErrDevice] or [ErrMemory]; dst is returned unchanged.
func (t *Tensor) AppendBytes(dst []byte) ([]byte, error) {
	const op = "append bytes"
	if err := t.acquire(op); err != nil {
		return dst, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return dst, t.errDevice(op)
	}
	n, more, old := len(dst), t.NumBytes(), dst
	if room := min(cap(dst)-n, int(more)); t.data != 0 && t.reaches(dst[n:n+room]) { // the tensor must not be overwritten while it is read
		dst = slices.Clip(dst)
	}
	dst, err := grow(dst, more)
	if err != nil {
		return old, newError(op, ErrMemory, "no memory for %d bytes", more)
	}
	dst = dst[:n+int(more)]
	if t.data != 0 {
		t.move(unsafe.Pointer(&dst[n]), nil)
	}
	return dst, nil
}

// RequireAlign returns [ErrUnaligned] unless the address of element (0, ..., 0) is a multiple of n bytes and n is a power of
// two. A tensor without elements has any alignment. A closed tensor can be checked; for nil the error is [ErrClosed].
func (t *Tensor) RequireAlign(n int) error {
	const op = "align"
	if t.isNone() {
		return t.errClosed(op)
	}
	if n <= 0 || n&(n-1) != 0 {
		return newError(op, ErrUnaligned, "%d is not a power of two", n)
	}
	if at := t.first(); at&uintptr(n-1) != 0 {
		return t.errUnaligned(op, at, n)
	}
	return nil
}

// errUnaligned returns an error for elements at an address that is not a multiple of n bytes.
func (t *Tensor) errUnaligned(op string, at uintptr, n int) error {
	return t.newError(op, ErrUnaligned, "data at %#x is not aligned to %d bytes; Align makes an aligned copy, zeromq.Aligned() receives aligned tensors", at, n)
}

// Align returns a tensor that is aligned to n bytes, a power of two up to [AllocAlignment]. If t is aligned, the result is
// another tensor of the same memory. Otherwise it is a row-major copy, and copied is true.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, while nobody writes to the source. On
// error: [ErrClosed], [ErrDevice], [ErrMemory], or [ErrUnaligned] for an n that is not a power of two or is too large.
func (t *Tensor) Align(n int) (aligned *Tensor, copied bool, err error) {
	const op = "align"
	if t.isClosed() {
		return nil, false, t.errClosed(op)
	}
	if n > AllocAlignment {
		return nil, false, newError(op, ErrUnaligned, "the alignment is %d bytes, but must be at most %d", n, AllocAlignment)
	}
	if t.RequireAlign(n) == nil {
		aligned, err = t.share(op)
		return aligned, false, err
	}
	if n <= 0 || n&(n-1) != 0 {
		return nil, false, t.RequireAlign(n)
	}
	aligned, err = t.Copy()
	return aligned, err == nil, err
}
