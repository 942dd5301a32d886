//go:build cgo

package dlpack

import (
	"runtime"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// Values returns the elements as a Go slice of the same memory. The tensor must be on the host, writable, row-major without
// gaps, aligned for T, and of T's data type. The bytes of a bool tensor are checked once, because Go allows only 0 and 1.
//
// Ownership: none, the slice is a view. Lifetime: the tensor must not be closed while the slice is in
// use. The slice alone does not keep foreign memory alive. After the first call, the cleanup guard reports a forgotten
// Close but does not free the memory. Threads: as any slice. On error: [ErrClosed],
// [ErrDType], [ErrDevice], [ErrLayout], [ErrUnaligned], [ErrReadOnly] (see [UnsafeValues]),
// [ErrValue].
func Values[T Element](t *Tensor) ([]T, error) {
	if !t.isClosed() && t.ReadOnly() {
		return nil, t.errReadOnly("values", readOnlyHint)
	}
	return UnsafeValues[T](t)
}

const readOnlyHint = "; UnsafeValues reads it, Copy makes a writable one"

// UnsafeValues is [Values] for memory that may be read-only: the caller must not write to the slice.
func UnsafeValues[T Element](t *Tensor) ([]T, error) { return slice[T](t, false) }

// slice implements UnsafeValues. With bounded, the caller holds a reference to the memory for as long as the slice is in use, so that
// the cleanup guard need not know of it.
func slice[T Element](t *Tensor, bounded bool) ([]T, error) {
	const op = "values"
	var zero T
	if t.isNone() {
		return nil, t.errClosed(op)
	}
	if !bounded && (t.mem.Kind() == core.Collected || !t.mem.HasEscaped()) { // another goroutine may close the tensor
		if err := t.acquire(op); err != nil {
			return nil, err
		}
		defer t.done()
	} else if !bounded && t.isClosed() {
		return nil, t.errClosed(op)
	}
	if dt := DataTypeOf[T](); t.dtype != dt {
		return nil, newError(op, ErrDType, "the tensor has %v, asked for %v; Convert makes a copy of that type", t.dtype, dt)
	}
	if !t.device.HostReadable() {
		return nil, newError(op, ErrDevice, "memory on %v cannot be read; its producer can copy it to the CPU", t.device)
	}
	if !t.rowMajor {
		return nil, newError(op, ErrLayout, "strides %v of shape %v are not row-major without gaps; Contiguous(RowMajor) makes them so",
			t.strides(), t.shape())
	}
	if align := unsafe.Alignof(zero); t.data%align != 0 {
		return nil, newError(op, ErrUnaligned, "data at %#x is not aligned to %d bytes; Align(%d) makes an aligned copy",
			t.data, align, align)
	}
	if t.data == 0 {
		return []T{}, nil
	}
	if t.dtype == Bool && t.status.Load()&boolsChecked == 0 {
		if err := t.checkBools(op); err != nil {
			return nil, err
		}
	}
	if !bounded {
		t.mem.Escape()
	}
	values := unsafe.Slice((*T)(core.Pointer(t.data)), t.NumElements())
	runtime.KeepAlive(t) // until the cleanup guard knows of the slice
	return values, nil
}

// Use calls f with the elements of a tensor as a Go slice of the same memory, and returns the error of f. The memory stays alive
// until f returns, even if another goroutine closes the tensor meanwhile. The tensor must be as [Values] requires. After f has
// returned, no slice is out: the cleanup guard frees the memory of a forgotten tensor, unlike after Values.
//
// Ownership: none, the slice is a view. Lifetime: the slice must not be used after f has returned. Threads: as any slice. On
// error: as [Values], without a call of f; or the error of f.
func Use[T Element](t *Tensor, f func(values []T) error) error {
	const op = "values"
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done() // until then t is reachable, and with it the cleanup guard
	if t.ReadOnly() {
		return t.errReadOnly(op, readOnlyHint)
	}
	values, err := slice[T](t, true)
	if err != nil {
		return err
	}
	return f(values)
}

// checkBools checks that every byte of a bool tensor is 0 or 1.
func (t *Tensor) checkBools(op string) error {
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	for i, b := range unsafe.Slice((*byte)(core.Pointer(t.data)), t.NumElements()) {
		if b > 1 {
			return newError(op, ErrValue, "element %d of a bool tensor is %d", i, b)
		}
	}
	t.status.Or(boolsChecked)
	return nil
}

// UnsafeBytes returns the bytes from the lowest to the highest that the tensor touches, including gaps, for any type and
// layout. Element (0, ..., 0) starts at data[start].
//
// Ownership, Lifetime, Threads: as [UnsafeValues]. On error: [ErrClosed] or [ErrDevice].
func (t *Tensor) UnsafeBytes() (data []byte, start int64, err error) {
	const op = "bytes"
	if err := t.acquire(op); err != nil {
		return nil, 0, err
	}
	defer t.done()
	if !t.device.HostReadable() {
		return nil, 0, newError(op, ErrDevice, "memory on %v cannot be read; its producer can copy it to the CPU", t.device)
	}
	if t.data == 0 {
		return []byte{}, 0, nil
	}
	t.mem.Escape()
	low, high := t.span()
	return unsafe.Slice((*byte)(core.Pointer(t.data-uintptr(-low))), high-low), -low, nil
}

// AsBytes makes a one-dimensional uint8 tensor of the bytes from the lowest to the highest that the tensor touches,
// including gaps. It serves to pass on the memory itself.
//
// Ownership: the view shares the memory. Lifetime: until its Close. Threads: any. On error:
// [ErrClosed], or [ErrLayout] for memory of a device whose byte_offset would become negative.
func (t *Tensor) AsBytes() (*Tensor, error) {
	if t.isNone() {
		return nil, t.errClosed("view")
	}
	low, high := t.span()
	return t.View(Spec{DType: Uint8, Shape: []int64{high - low}, ByteOffset: low})
}
