//go:build cgo

package dlpack

import (
	"runtime"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// Read calls f with the elements of a tensor as a Go slice of the same memory, and returns the error of f. f must not write to the slice;
// [Use] is for writing. The tensor may be read-only. It must be on the host, row-major without gaps, aligned for T, and of T's data type;
// [ReadStrided] reads other layouts. The bytes of a bool tensor are checked once, because Go allows only 0 and 1.
//
// The memory stays alive until f returns, even if another goroutine closes the tensor meanwhile. No slice outlives the
// call, so the cleanup guard can still free the memory of a forgotten tensor. After a call of [Values] it cannot.
//
// Ownership: none, the slice is a view. Lifetime: the slice must not be used after f has returned. Threads: any, while nobody writes
// to the tensor. On error: the error of f. If f was not called: [ErrClosed], [ErrDType], [ErrDevice], [ErrLayout], [ErrUnaligned],
// [ErrNull] for a nil f, or [ErrValue] for a bool that is not 0 or 1.
func Read[T Element](t *Tensor, f func(values []T) error) error {
	return during("read", t, false, slice[T], f)
}

// Use is [Read] for writing: f may write to the slice. The tensor must be writable.
//
// Ownership, Lifetime: as [Read]. Threads: as any slice. On error: as Read, and [ErrReadOnly].
func Use[T Element](t *Tensor, f func(values []T) error) error {
	return during("use", t, true, slice[T], f)
}

// during calls f with the elements of t in the form that see returns, and keeps their memory alive until f returns.
func during[V any](op string, t *Tensor, write bool, see func(op string, t *Tensor, write bool) (V, error), f func(V) error) error {
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done() // keeps t and the cleanup guard reachable until f returns
	if f == nil {
		return newError(op, ErrNull, "the function is nil")
	}
	v, err := see(op, t, write)
	if err != nil {
		return err
	}
	return f(v)
}

// Values returns the elements as a Go slice of the same memory, which may be written to. The tensor must be as for [Use]. Values is for
// slices that must outlive a call; otherwise Use or [Read] is safer.
//
// Ownership: none, the slice is a view. Lifetime: the tensor must not be closed while the slice is in
// use. The slice alone does not keep foreign memory alive. After the first call, the cleanup guard reports a forgotten
// Close but does not free the memory. Threads: as any slice. On error: as [Use].
func Values[T Element](t *Tensor) ([]T, error) { return handOut[T]("values", t, true) }

// UnsafeValues is [Values] for memory that may be read-only: the caller must not write to the slice. Use it for a slice of
// read-only memory that must outlive a call, for example in a field of a struct; otherwise [Read] is safer.
//
// Ownership, Lifetime: as [Values]. Threads: any, while nobody writes to the tensor. On error: as [Read].
func UnsafeValues[T Element](t *Tensor) ([]T, error) { return handOut[T]("unsafe values", t, false) }

// handOut returns a slice that the caller may keep for as long as the tensor is open.
func handOut[T Element](op string, t *Tensor, write bool) ([]T, error) {
	if t.isNone() {
		return nil, t.errClosed(op)
	}
	if t.mem.Kind() == core.Collected || !t.mem.HasEscaped() || t.boolsUnchecked() { // another goroutine may close the tensor
		if err := t.acquire(op); err != nil {
			return nil, err
		}
		defer t.done()
	} else if t.isClosed() {
		return nil, t.errClosed(op)
	}
	values, err := slice[T](op, t, write)
	if err == nil && len(values) > 0 {
		t.mem.Escape()
	}
	runtime.KeepAlive(t) // until the cleanup guard is told of the slice
	return values, err
}

// slice returns the elements of a tensor as a slice. The caller keeps the memory alive.
func slice[T Element](op string, t *Tensor, write bool) ([]T, error) {
	if err := checkElements[T](op, t, write); err != nil {
		return nil, err
	}
	if !t.rowMajor {
		return nil, t.newError(op, ErrLayout, "strides %v of shape %v are not row-major without gaps; Contiguous(RowMajor) makes them so",
			t.strides(), t.shape())
	}
	if t.data == 0 {
		return []T{}, nil
	}
	return unsafe.Slice((*T)(core.Pointer(t.data)), t.NumElements()), nil
}

// checkElements returns an error unless the elements of a tensor can be accessed in memory as values of T. If write is true, the tensor
// must be writable. The caller keeps the memory alive.
func checkElements[T Element](op string, t *Tensor, write bool) error {
	var zero T
	if write && t.ReadOnly() {
		return t.errReadOnly(op, "; Read reads it, Copy makes a writable one")
	}
	if dt := DataTypeOf[T](); t.dtype != dt {
		return t.errDType(op, dt)
	}
	if !t.device.HostReadable() {
		return t.errDevice(op)
	}
	if align := unsafe.Alignof(zero); t.data%align != 0 {
		return t.errUnaligned(op, t.data, int(align))
	}
	if t.boolsUnchecked() {
		return t.checkBools(op)
	}
	return nil
}

// boolsUnchecked reports whether checkBools must still be called.
func (t *Tensor) boolsUnchecked() bool {
	return t.dtype == Bool && t.data != 0 && t.status.Load()&boolsChecked == 0
}

// checkBools checks that every byte of a bool tensor is 0 or 1. The tensor must have elements. The caller keeps the
// memory alive.
func (t *Tensor) checkBools(op string) error {
	low, high := t.span()
	x := Strided[byte]{unsafe.Slice((*byte)(core.Pointer(t.data+uintptr(low))), high-low), -low, t.Shape(), t.strides()}
	elements := int64(1)
	for d, stride := range x.Strides {
		if stride == 0 {
			x.Shape[d] = 1
		}
		elements *= x.Shape[d]
	}
	if n := int64(len(x.Data)); elements >= n { // no gaps, or overlapping elements, which may be many more than the bytes
		x.Start, x.Shape, x.Strides = 0, []int64{n}, []int64{1}
	}
	c := x.first()
	for more := c.n > 0; more; more = c.next() {
		at := c.at
		for range c.n {
			if b := x.Data[at]; b > 1 {
				return t.newError(op, ErrValue, "byte %d of a bool tensor is %d, but must be 0 or 1; Bitcast to uint8, then Convert to bool, turns it into true", at, b)
			}
			at += c.stride
		}
	}
	t.status.Or(boolsChecked)
	return nil
}

// UnsafeBytes returns the range of bytes that the tensor touches, including gaps, for any type and layout. Element (0,
// ..., 0) starts at data[start].
//
// Ownership, Lifetime, Threads: as [UnsafeValues]. On error: [ErrClosed] or [ErrDevice].
func (t *Tensor) UnsafeBytes() (data []byte, start int64, err error) {
	const op = "unsafe bytes"
	if err := t.acquire(op); err != nil {
		return nil, 0, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return nil, 0, t.errDevice(op)
	}
	if t.data == 0 {
		return []byte{}, 0, nil
	}
	t.mem.Escape()
	low, high := t.span()
	return unsafe.Slice((*byte)(core.Pointer(t.data-uintptr(-low))), high-low), -low, nil
}

// AsBytes makes a one-dimensional uint8 tensor of the range of bytes that the tensor touches, including gaps. It is for
// passing on the memory itself.
//
// Ownership: the view shares the memory. Lifetime: until its Close. Threads: any. On error:
// [ErrClosed], or [ErrLayout] for memory of a device whose byte_offset would become negative.
func (t *Tensor) AsBytes() (*Tensor, error) {
	const op = "as bytes"
	if t.isNone() {
		return nil, t.errClosed(op)
	}
	low, high := t.span()
	return t.view(op, Spec{DType: Uint8, Shape: []int64{high - low}, ByteOffset: low})
}
