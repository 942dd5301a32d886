//go:build cgo

package dlpack

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// Export returns the tensor as a `DLManagedTensorVersioned *` of version 1.3, for a consumer in C, C++ or Python, or in
// another Go library. Each call returns a new managed tensor, which may outlive t. The field strides is set even if the
// tensor is row-major. byte_offset is 0 on the host. data is NULL if there are no elements.
//
// Ownership: the consumer owns the result and calls its deleter once; in Go, [Release] does so. The deleter must be called
// with the address that Export returned, not with the address of a copy of the struct. Lifetime: the memory lives at least
// until then. Threads: the deleter is a C function that may run on any thread, in a forked child, and after an interpreter
// has ended. It enters Go only if it releases the memory last, and then calls a producer's deleter, or a release of [Lend],
// that enters Go. On error: [ErrClosed], [ErrBorrowed], [ErrMemory] or [ErrOverflow].
func (t *Tensor) Export() (unsafe.Pointer, error) {
	if t == nil {
		return nil, t.errClosed("export")
	}
	flags := t.flags & (ReadOnly | SubbytePadded)
	if t.writabilityUnknown {
		flags |= ReadOnly
	}
	return t.export("export", flags, true)
}

// ExportLegacy returns the tensor as a `DLManagedTensor *`, the form from before DLPack 1.0, for consumers that accept only this
// form (TensorFlow, ONNX Runtime). This form cannot state that memory is read-only, so read-only tensors are refused. Tensors
// whose writability is unknown are exported.
//
// Ownership, Lifetime, Threads: as [Tensor.Export], with [ReleaseLegacy] instead of Release. On error: also
// [ErrReadOnly], and [ErrDType] for padded sub-byte types, because this form cannot state the padding.
func (t *Tensor) ExportLegacy() (unsafe.Pointer, error) {
	const op = "export legacy"
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	if t.flags&ReadOnly != 0 {
		return nil, t.newError(op, ErrReadOnly, "the tensor is read-only, but the legacy form cannot state this; Copy makes a writable one")
	}
	if t.flags&SubbytePadded != 0 && t.dtype.BitSize()%8 != 0 {
		return nil, t.newError(op, ErrDType, "the elements of %v are padded, but the legacy form cannot state the padding; Export can", t.dtype)
	}
	return t.export(op, 0, false)
}

// ExportCopy exports a row-major copy in new memory with the flag IS_COPIED. The consumer is its only owner.
//
// Ownership, Lifetime, Threads: as [Tensor.Export], but nobody may write to t meanwhile. On error: as [Tensor.Copy].
func (t *Tensor) ExportCopy() (unsafe.Pointer, error) {
	c, err := t.Copy()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.export("export", c.flags&SubbytePadded|IsCopied, true)
}

// ExportSlice exports a Go slice once, as a row-major tensor. Without a shape the tensor is one-dimensional. ExportSlice
// has the effect of [FromSlice], [Tensor.Export] and [Tensor.Close] together. It allocates a pin if more slices are
// exported at the same time than ever before, and otherwise nothing.
//
// Ownership: the consumer owns the result and calls its deleter once; in Go, [Release] does so. Lifetime: the slice is
// pinned until then; see [WakeAt]. Threads: the deleter may run on any thread. On error: as [FromSlice] and
// [Tensor.Export]; nothing is pinned.
func ExportSlice[T Element](data []T, shape ...int64) (unsafe.Pointer, error) {
	var zero T
	one := [1]int64{int64(len(data))}
	if len(shape) == 0 {
		shape = one[:]
	}
	return exportMemory(unsafe.Pointer(unsafe.SliceData(data)), int64(len(data)), int64(unsafe.Sizeof(zero)), DataTypeOf[T](), shape)
}

// exportMemory exports n elements of item bytes each, which begin at start in Go's memory. It returns [ErrLayout] unless the
// shape has n elements.
func exportMemory(start unsafe.Pointer, n, item int64, dt DataType, shape []int64) (unsafe.Pointer, error) {
	const op = "export slice"
	var e core.Extent
	if err := checkLayout(op, dt, 0, shape, nil, &e); err != nil {
		return nil, err
	}
	if e.Count != n {
		return nil, newError(op, ErrLayout, "the shape %v has %s, but the slice has %d", slices.Clone(shape), extent.Elements(e.Count), n)
	}
	b, status := core.ExportOnce(start, n*item, len(shape))
	if status != core.OK {
		return nil, newError(op, ErrMemory, "no memory for an export")
	}
	d := b.DescribeRowMajor(shape)
	d.Data = 0
	if n > 0 {
		d.Data = uintptr(start)
	}
	d.Device = core.Device{Type: int32(CPU)}
	d.DType = core.DataType(dt)
	d.ByteOffset = 0
	if core.Recording() {
		core.Enter(core.KindExport, b.Address(), described{dt, slices.Clone(shape), n * item})
	}
	return unsafe.Pointer(b), nil
}

// export is [Tensor.Export] with the given flags, in the versioned or the legacy form. It does not check the flags.
func (t *Tensor) export(op string, flags Flags, versioned bool) (unsafe.Pointer, error) {
	if t.isClosed() {
		return nil, t.errClosed(op)
	}
	b, status := t.mem.Export(int(t.rank))
	if status != core.OK {
		var err error
		if b, err = t.firstExport(op); err != nil {
			return nil, err
		}
	}
	// The fields are set one by one. The compiler would build a whole struct on the stack and copy it with loads whose widths
	// differ from those of the stores, so that the processor would have to wait.
	d := b.Describe(versioned, uint64(flags), int(t.rank), t.dims)
	d.Data = t.data
	d.Device = core.Device{Type: int32(t.device.Type), ID: t.device.ID}
	d.DType = core.DataType(t.dtype)
	d.ByteOffset = t.ByteOffset()
	if core.Recording() {
		t.record(core.KindExport, b.Address())
	}
	runtime.KeepAlive(t)
	return unsafe.Pointer(b), nil
}

// firstExport exports memory that has not been exported before, or not since it was unpinned.
func (t *Tensor) firstExport(op string) (*core.Block, error) {
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	defer t.done()
	b, status := t.mem.FirstExport(int(t.rank))
	switch status {
	case core.OK:
		return b, nil
	case core.Borrowed:
		return nil, t.newError(op, ErrBorrowed, "nothing would keep the memory of a borrowed tensor alive; ExportCopy exports a copy")
	case core.Overflow:
		return nil, newError(op, ErrOverflow, "the memory has %d exports that were not released", math.MaxInt32)
	}
	return nil, newError(op, ErrMemory, "no memory for an export")
}
