//go:build cgo

package dlpack

import (
	"runtime"
	"slices"
	"unsafe"
)

// Copy copies the elements, row-major, into new memory as of [New].
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, while nobody writes
// to the source. On error: [ErrClosed], [ErrDevice] or [ErrMemory].
func (t *Tensor) Copy() (*Tensor, error) {
	const op = "copy"
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return nil, refuse(op, ErrDevice, "memory on %v cannot be read", t.device)
	}
	n := t.NumBytes()
	s := coreShareAlloc(uintptr(n))
	if s == 0 {
		return nil, refuse(op, ErrMemory, "no memory for %d bytes", n)
	}
	c := lent(s, (*share)(pointer(s)).data, n, t.Rank())
	c.describe(t.dtype, t.flags&SubbytePadded|IsCopied, true, t.shape(), nil)
	if t.data == 0 {
		c.data = 0
	} else {
		t.copyTo(pointer(c.data))
	}
	return c, nil
}

// addressable is more than any slice of Go's can have.
const addressable = 1 << 47

// AppendBytes appends the elements, row-major without gaps, to dst.
//
// Ownership: the result is Go's. Lifetime: any. Threads: any, while nobody writes to the tensor. On
// error: [ErrClosed], [ErrDevice] or [ErrMemory], and dst as it was.
func (t *Tensor) AppendBytes(dst []byte) ([]byte, error) {
	const op = "append bytes"
	if err := t.acquire(op); err != nil {
		return dst, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return dst, refuse(op, ErrDevice, "memory on %v cannot be read", t.device)
	}
	n, more := len(dst), t.NumBytes()
	if more > addressable-int64(n) { // a broadcast of a few bytes
		return dst, refuse(op, ErrMemory, "no memory for %d bytes", more)
	}
	dst = slices.Grow(dst, int(more))[:n+int(more)]
	if t.data != 0 {
		t.copyTo(unsafe.Pointer(&dst[n]))
	}
	return dst, nil
}

// copyTo copies the elements, of which there are some, row-major to NumBytes at dst. The caller holds the
// memory.
func (t *Tensor) copyTo(dst unsafe.Pointer) {
	if t.rowMajor {
		n := t.NumBytes()
		copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(pointer(t.data)), n))
		return
	}
	item := int64(t.dtype.ItemSize())
	shape, strides := t.shape(), t.strides()
	steps := make([]int64, 2*len(shape))
	to, from := steps[:len(shape)], steps[len(shape):]
	step := item
	for d := len(shape) - 1; d >= 0; d-- {
		to[d], from[d] = step, strides[d]*item
		step *= shape[d]
	}
	coreCopy(dst, to, pointer(t.data), from, shape, int(item))
}

// RequireAlign returns [ErrUnaligned] unless element (0, ..., 0) lies at a multiple of n bytes, a power
// of two. Without elements everything is aligned.
func (t *Tensor) RequireAlign(n int) error {
	const op = "align"
	if n <= 0 || n&(n-1) != 0 {
		return refuse(op, ErrUnaligned, "%d is not a power of two", n)
	}
	if t.data&uintptr(n-1) != 0 {
		return refuse(op, ErrUnaligned, "data at %#x is not aligned to %d bytes", t.data, n)
	}
	return nil
}

// Align returns a tensor that is aligned to n bytes, a power of two up to [NewAlignment]: another view
// of the same memory where it is, and otherwise a row-major copy, which copied reports.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any. On error:
// [ErrClosed], [ErrDevice], [ErrUnaligned] for an n that cannot be had.
func (t *Tensor) Align(n int) (aligned *Tensor, copied bool, err error) {
	const op = "align"
	if n > NewAlignment {
		return nil, false, refuse(op, ErrUnaligned, "%d bytes are more than %d", n, NewAlignment)
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

// share makes another tensor with the same description and memory.
func (t *Tensor) share(op string) (*Tensor, error) {
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	v := newView(t.Rank(), t.mem)
	v.unstated, v.device, v.data = t.unstated, t.device, t.data
	v.describe(t.dtype, t.flags, t.rowMajor, t.shape(), t.strides())
	runtime.KeepAlive(t)
	return v, nil
}
