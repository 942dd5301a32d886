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
	if t == nil {
		return nil, t.errClosed("export")
	}
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
	return t.export(op, 0, deleteLegacy)
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
	p := ownPool(t.rank)
	if p == nil {
		if err := startPools(); err != nil {
			return nil, refuse(op, err, "no memory for blocks")
		}
		p = ownPool(t.rank)
	}
	b := t.ready(p)
	if b == nil {
		var err error
		if b, err = t.newBlock(op, p); err != nil {
			return nil, err
		}
		t.record(key{KindExport, address(b)})
	}
	t.fill(b, flags, deleter)
	return unsafe.Pointer(b), nil
}

// newBlock makes a block of the pool's live that holds a share of the memory, or its pin.
func (t *Tensor) newBlock(op string, p *pool) (*block, error) {
	var share uintptr
	var keep unsafe.Pointer
	if t.isNone() {
		return nil, t.errClosed(op)
	}
	if t.mem.origin == collected { // and who has the pointer needs no reference
		keep = atomic.LoadPointer(&t.mem.keep)
		if t.isClosed() { // or keep was still there
			return nil, t.errClosed(op)
		}
	} else {
		if err := t.acquire(op); err != nil {
			return nil, err
		}
		defer t.done()
		if t.mem.origin == borrowed {
			return nil, refuse(op, ErrBorrowed, "nothing would keep the memory of a borrowed tensor; export a copy")
		}
		var err error
		if share, err = t.mem.takeShare(); err != nil {
			return nil, refuse(op, err, "no memory for a share")
		}
	}
	b, state, err := t.takeBlock(p, share, keep)
	if err != nil {
		if share != 0 {
			dropShares(share, 1)
		}
		return nil, refuse(op, err, "no memory for a block")
	}
	if state != stateLive && t.isClosed() { // and the Close did not see the ring
		t.retire()
	}
	return b, nil
}

// takeBlock takes a block from the pool, for a share or for memory of Go's to keep.
func (t *Tensor) takeBlock(p *pool, share uintptr, keep unsafe.Pointer) (*block, uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.take()
	if err != nil {
		return nil, 0, err
	}
	b.share = share
	b.payload = 0
	if share == 0 && t.data != 0 {
		s := p.slot(b)
		s.keep = keep
		s.pinner.Pin(s.keep)
		b.payload = uint64(t.mem.high - t.mem.low) // a view pins all of it
	}
	state := t.enlist(p, b)
	atomic.StoreUint64(&b.state, state)
	return b, state, nil
}

// fill writes the description. Consumers may have written to the last one.
func (t *Tensor) fill(b *block, flags Flags, deleter uintptr) {
	rank := uintptr(t.rank)
	from, to := unsafe.Pointer(t.dims), unsafe.Pointer(&b.dims[0])
	for i := uintptr(0); i < 16*rank; i += 8 {
		*(*int64)(unsafe.Add(to, i)) = *(*int64)(unsafe.Add(from, i))
	}
	d := &b.managed.tensor
	if deleter == deleteVersioned {
		m := &b.managed
		m.version, m.flags = Current, flags
		m.ctx, m.deleter = address(b), deleter
	} else {
		m := (*managedLegacy)(unsafe.Pointer(b))
		m.ctx, m.deleter = address(b), deleter
		d = &m.tensor
	}
	// Field by field: a whole struct would be made on the stack first, and copied in other widths.
	d.data = t.data
	d.device = t.device
	d.ndim = int32(rank)
	d.dtype = t.dtype
	d.shape = uintptr(to)
	d.strides = d.shape + rank*8
	d.byteOffset = t.ByteOffset()
}
