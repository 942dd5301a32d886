//go:build cgo

package dlpack

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// Export hands out one share of the tensor's memory as a `DLManagedTensorVersioned *` of version 1.3,
// for a consumer in C, C++ or Python, or in another Go library. Each call makes one of its own; the
// tensor can be closed while they live. Strides are always given, byte_offset is 0 on the host, and
// data is NULL without elements.
//
// Ownership: the result is the consumer's, who calls its deleter once, as [Release] does in Go. The deleter takes the
// address that was handed out, and not that of a copy of the struct. Lifetime: the memory lives at least until then.
// Threads: the deleter may run on any thread, in a forked child, and after the exit of an interpreter: it is C and never
// enters Go. On error: [ErrClosed], [ErrBorrowed], [ErrMemory].
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

// ExportLegacy hands out a `DLManagedTensor *`, the form of before DLPack 1.0, for consumers that take
// no other (JAX, TensorFlow). It cannot say that memory is read-only, so that read-only tensors are
// refused; it can carry on what came without a statement.
//
// Ownership, Lifetime, Threads: as [Tensor.Export] ([ReleaseLegacy]). On error: also [ErrReadOnly],
// and [ErrDType] for padded sub-byte types, which that form cannot say either.
func (t *Tensor) ExportLegacy() (unsafe.Pointer, error) {
	const op = "export legacy"
	if t == nil {
		return nil, t.errClosed(op)
	}
	if t.flags&(ReadOnly|SubbytePadded) != 0 {
		if t.isClosed() {
			return nil, t.errClosed(op)
		}
		if t.flags&ReadOnly != 0 {
			return nil, refuse(op, ErrReadOnly, "the tensor is read-only, and this form cannot say so")
		}
		if t.dtype.BitSize()%8 != 0 {
			return nil, refuse(op, ErrDType, "padded %v: this form cannot say that it is padded", t.dtype)
		}
	}
	return t.export(op, 0, false)
}

// ExportCopy exports a row-major copy in new memory, with IS_COPIED set: the consumer is its only
// owner.
//
// Ownership, Lifetime, Threads: as [Tensor.Export]. On error: as [Tensor.Copy].
func (t *Tensor) ExportCopy() (unsafe.Pointer, error) {
	c, err := t.Copy()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.export("export", c.flags&SubbytePadded|IsCopied, true)
}

// ExportSlice hands out a Go slice once, row-major; without a shape it is one-dimensional. It does what [FromSlice],
// [Tensor.Export] and [Tensor.Close] do together, without a Tensor. It allocates nothing, but a pin where more slices are
// out than ever before.
//
// Ownership: the result is the consumer's, who calls its deleter once ([Release] does, in Go). Lifetime: the slice is
// pinned until then, see [WakeAt]. Threads: the deleter may run on any thread. On error: as [FromSlice] and
// [Tensor.Export]; nothing is pinned.
func ExportSlice[T Element](data []T, shape ...int64) (unsafe.Pointer, error) {
	var zero T
	one := [1]int64{int64(len(data))}
	if len(shape) == 0 {
		shape = one[:]
	}
	return exportMemory(unsafe.Pointer(unsafe.SliceData(data)), int64(len(data)), int64(unsafe.Sizeof(zero)), DataTypeOf[T](), shape)
}

// exportMemory exports n elements of Go's memory, which the shape must have.
func exportMemory(start unsafe.Pointer, n, item int64, dt DataType, shape []int64) (unsafe.Pointer, error) {
	const op = "export slice"
	var e core.Extent
	if len(shape) > MaxRank {
		return nil, refuse(op, ErrLayout, "rank %d is more than %d", len(shape), MaxRank)
	}
	if err := checkLayout(op, dt, 0, shape, nil, &e); err != nil {
		return nil, err
	}
	if e.Count != n {
		return nil, refuse(op, ErrLayout, "shape %v has %d elements, the slice %d", slices.Clone(shape), e.Count, n)
	}
	b, status := core.ExportOnce(start, n*item, len(shape))
	if status != core.OK {
		return nil, refuse(op, ErrMemory, "no memory for an export")
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
	// Field by field: a whole struct would be made on the stack first, and copied in other widths.
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

// firstExport makes a block where none can be made at once: the memory was not exported yet, or not since it was unpinned.
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
		return nil, refuse(op, ErrBorrowed, "nothing would keep the memory of a borrowed tensor; export a copy")
	case core.Overflow:
		return nil, refuse(op, ErrOverflow, "the memory has %d exports that were not released", math.MaxInt32)
	}
	return nil, refuse(op, ErrMemory, "no memory for an export")
}
