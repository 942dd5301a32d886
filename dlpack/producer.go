//go:build cgo

package dlpack

import (
	"sync/atomic"
	"unsafe"
)

// Export hands out one share of the tensor's memory as a `DLManagedTensorVersioned *` of version 1.3,
// for a consumer in C, C++ or Python, or in another Go library. Each call makes one of its own; the
// tensor can be closed while they live. Strides are always given, byte_offset is 0 on the host, and
// data is NULL without elements.
//
// Ownership: the result is the consumer's, who calls its deleter once ([Release] does, in Go).
// Lifetime: the memory lives at least until then. Threads: the deleter may run on any thread, in a
// forked child, and after the exit of an interpreter: it is C and never enters Go. On error:
// [ErrClosed], [ErrBorrowed], [ErrMemory].
func (t *Tensor) Export() (unsafe.Pointer, error) {
	flags := t.flags & (ReadOnly | SubbytePadded)
	if t.unstated {
		flags |= ReadOnly
	}
	return t.export("export", flags, deleteVersioned)
}

// ExportLegacy hands out a `DLManagedTensor *`, the form of before DLPack 1.0, for consumers that take
// no other (JAX, TensorFlow). It cannot say that memory is read-only, so that read-only tensors are
// refused; it can carry on what came without a statement.
//
// Ownership, Lifetime, Threads: as [Tensor.Export] ([ReleaseLegacy]). On error: also [ErrReadOnly],
// and [ErrDType] for padded sub-byte types, which that form cannot say either.
func (t *Tensor) ExportLegacy() (unsafe.Pointer, error) {
	return t.export("export legacy", 0, deleteLegacy)
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
	return c.export("export", c.flags&SubbytePadded|IsCopied, deleteVersioned)
}

func (t *Tensor) export(op string, flags Flags, deleter uintptr) (unsafe.Pointer, error) {
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	b, err := t.fill(op, flags, deleter)
	t.done()
	return unsafe.Pointer(b), err
}

// fill makes a block live. The caller holds the memory.
func (t *Tensor) fill(op string, flags Flags, deleter uintptr) (*block, error) {
	if deleter == deleteLegacy {
		if t.flags&ReadOnly != 0 {
			return nil, refuse(op, ErrReadOnly, "the tensor is read-only, and this form cannot say so")
		}
		if t.flags&SubbytePadded != 0 && t.dtype.BitSize()%8 != 0 {
			return nil, refuse(op, ErrDType, "padded %v: this form cannot say that it is padded", t.dtype)
		}
	}
	var share uintptr
	if end := t.mem.end; end != nil {
		if end.origin == borrowed {
			return nil, refuse(op, ErrBorrowed, "nothing would keep the memory of a borrowed tensor; export a copy")
		}
		var err error
		if share, err = end.takeShare(); err != nil {
			return nil, refuse(op, err, "no memory for a share")
		}
	}
	p, err := poolFor(len(t.shape))
	var b *block
	if err == nil {
		p.mu.Lock()
		b, err = p.take()
		if err == nil && share == 0 && t.count > 0 {
			s := p.slot(b)
			s.keep = t.mem.keep
			s.pinner.Pin(s.keep)
		}
	}
	if err != nil {
		if p != nil {
			p.mu.Unlock()
		}
		if share != 0 {
			dropShare(share)
		}
		return nil, refuse(op, err, "no memory for a block")
	}
	b.share = share
	b.payload = 0
	if share == 0 && t.count > 0 {
		b.payload = uint64(t.mem.high - t.mem.low) // a view pins all of it
	}
	dims := unsafe.Slice((*int64)(pointer(b.dims)), 2*len(t.shape))
	copy(dims, t.shape)
	copy(dims[len(t.shape):], t.strides)

	var d *dlTensor
	if deleter == deleteVersioned {
		m := &b.managed
		m.version, m.flags = Current, flags
		m.ctx, m.deleter = uintptr(unsafe.Pointer(b)), deleter
		d = &m.tensor
	} else {
		m := (*managedLegacy)(unsafe.Pointer(b))
		m.ctx, m.deleter = uintptr(unsafe.Pointer(b)), deleter
		d = &m.tensor
	}
	*d = dlTensor{
		data:       t.data,
		device:     t.device,
		ndim:       int32(len(t.shape)),
		dtype:      t.dtype,
		shape:      b.dims,
		strides:    b.dims + uintptr(len(t.shape))*8,
		byteOffset: t.offset,
	}
	atomic.StoreUint32(&b.state, stateLive)
	p.mu.Unlock()
	return b, nil
}
