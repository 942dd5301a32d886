//go:build cgo

package core

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// A Kind is the origin of memory, which determines how the memory is given back. C: CORE_SLOT_…
type Kind uint8

const (
	nothing           Kind = iota // of a guard without a memory
	Collected                     // Go's own, which the collector ends
	Allocated                     // memory of ours, in C
	Lent                          // somebody's, with a release
	ImportedVersioned             // of a managed tensor
	ImportedLegacy
	BorrowedKind // somebody's, who keeps it
)

// A Memory is the storage behind one or more tensors, together with the action that gives it back.
//
// refs is the number of open tensors and running operations in Go, minus one, so that the common case of a single tensor
// needs no atomic addition. After the last one has ended it is -1, or 0 if that was a Close (see [Memory.Close]). All of
// them together have one share of the memory, and each export has one. The shares are counted in a slot; handle names it,
// from the start or from the first export on. Whoever takes the handle out of the memory gives up Go's share, so that it is
// given up once.
type Memory struct {
	refs    atomic.Int32
	kind    Kind
	guarded bool
	marks   atomic.Uint32
	// Low and High are the addresses that views may reach; the byte_offsets, where the host cannot address the memory.
	Low, High uintptr
	// keep points to what must be reachable as long as the memory is: Go's own memory, or the guard.
	keep    unsafe.Pointer
	handle  uint64  // of a slot; atomic but while the memory is made
	managed uintptr // of imports
}

// The marks of a memory, which are never removed.
const (
	escaped  uint32 = 1 << iota // the guard or the notice knows that a Go slice of the memory was handed out
	watched                     // the memory has a notice
	detached                    // detach has taken a handle out, whose slot may still be shared by exports
)

// Kind returns the origin of the memory.
func (m *Memory) Kind() Kind { return m.kind }

// ID returns the number under which the ledger records an allocation.
func (m *Memory) ID() uintptr { return uintptr(m.loadHandle()) }

func (m *Memory) loadHandle() handle { return handle(atomic.LoadUint64(&m.handle)) }

func (m *Memory) swapHandle(from, to handle) bool {
	return atomic.CompareAndSwapUint64(&m.handle, uint64(from), uint64(to))
}

// Collect initializes m as size bytes of Go's own memory.
func (m *Memory) Collect(start unsafe.Pointer, size int64) {
	m.kind, m.keep = Collected, start
	m.Low, m.High = uintptr(start), uintptr(start)+uintptr(size)
}

// Allocate initializes m as new C memory, aligned to [Alignment] bytes.
func (m *Memory) Allocate(size int64, zeroed bool) Status {
	if size > math.MaxInt64-2*Alignment {
		return NoMemory
	}
	memory := allocateMemory(uintptr(size), zeroed)
	if memory == 0 {
		return NoMemory
	}
	s := newSlot(Allocated)
	if s == nil {
		freeMemory(memory)
		return NoMemory
	}
	s.ctx = memory
	data := (memory + Alignment) &^ (Alignment - 1)
	m.hold(Allocated, s, data, size)
	return OK
}

// Lend initializes m as memory that release gives back, a C function `void (*)(void *ctx)` or nil.
func (m *Memory) Lend(data uintptr, size int64, release, ctx unsafe.Pointer) Status {
	s := newSlot(Lent)
	if s == nil {
		return NoMemory
	}
	s.lender, s.ctx = uintptr(release), uintptr(ctx)
	m.hold(Lent, s, data, size)
	return OK
}

func (m *Memory) hold(kind Kind, s *slot, data uintptr, size int64) {
	m.Low, m.High = data, data+uintptr(size)
	h := s.handle()
	m.handle = uint64(h)
	m.setGuard(kind, 0, h, size)
	liveAllocations.begin()
}

// Import initializes m as the memory of a managed tensor. Its shares are counted from the first export on.
func (m *Memory) Import(kind Kind, managed uintptr, low, high uintptr, guarded bool) {
	m.managed, m.Low, m.High = managed, low, high
	if guarded {
		m.setGuard(kind, managed, noHandle, int64(high-low))
	}
	m.kind = kind
	liveImports.begin()
}

// Borrow initializes m as memory that its owner keeps.
func (m *Memory) Borrow(low, high uintptr) {
	m.kind, m.Low, m.High = BorrowedKind, low, high
}

// Acquire takes a reference for a tensor or an operation. It returns [Closed] if there is none left. The reference alone does
// not keep the memory alive: the caller must then check that its tensor is open.
func (m *Memory) Acquire() Status {
	for {
		n := m.refs.Load()
		if n < 0 {
			return Closed
		}
		if n == math.MaxInt32 {
			return Overflow
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return OK
		}
	}
}

// Release gives a reference back.
func (m *Memory) Release() {
	if m.refs.Add(-1) < 0 {
		m.finish()
	}
}

// Close is Release for a tensor that was marked closed before. If refs is 0, this is the last reference, and refs may stay as it
// is: whoever still adds a reference checks the mark after that, and gives the reference back without using the memory.
func (m *Memory) Close() {
	if m.refs.Load() == 0 || m.refs.Add(-1) < 0 {
		m.finish()
	}
}

// finish gives up Go's share. Exports keep theirs.
func (m *Memory) finish() {
	h := m.loadHandle()
	if h != noHandle && m.kind == Collected {
		h = handle(atomic.SwapUint64(&m.handle, uint64(noHandle))) // or detach has taken it out
	}
	if m.guarded {
		m.dropGuard()
	}
	if m.marks.Load()&watched != 0 {
		h.slot().notice().cleanup.Stop()
	}
	m.keep = nil // and m is reachable until here, so that no cleanup has run
	giveUp(m.kind, m.managed, h)
}

// giveUp gives up Go's share of a memory.
func giveUp(kind Kind, managed uintptr, h handle) {
	switch kind {
	case Allocated, Lent:
		strike(KindAllocation, uintptr(h))
		liveAllocations.end(1)
	case ImportedVersioned, ImportedLegacy:
		strike(KindImport, managed)
		liveImports.end(1)
		if h == noHandle {
			ReleaseClaimed(kind == ImportedVersioned, managed)
			return
		}
	}
	if h != noHandle {
		h.slot().drop()
	}
}

// Export returns a live block for a tensor of a rank, which holds a share of the memory. If the memory has no slot, as
// before its first export, it returns [Closed], and the caller must call [Memory.FirstExport].
func (m *Memory) Export(rank int) (*Block, Status) {
	s, status := m.loadHandle().take()
	if status != OK {
		return nil, status
	}
	if b := s.newBlock(rank); b != nil {
		return b, OK
	}
	return nil, NoMemory
}

// FirstExport is Export for memory that may have no slot. The caller holds a reference.
func (m *Memory) FirstExport(rank int) (*Block, Status) {
	if m.kind == BorrowedKind {
		return nil, Borrowed
	}
	for {
		if b, status := m.Export(rank); status != Closed {
			return b, status
		}
		// No slot, or its handle was taken out meanwhile.
		if b, status := m.firstExport(rank); status != Closed {
			return b, status
		}
	}
}

// firstExport gives the memory a slot. It returns [Closed] if the memory has one now but no block was made.
func (m *Memory) firstExport(rank int) (*Block, Status) {
	shares := uint64(1) // one for all of Go's tensors
	if rank <= rankSmall {
		shares = 2 // and one for the block, which is made below
	}
	sh, s := lockSlot(m.kind, shares)
	if s == nil {
		return nil, NoMemory
	}
	defer sh.mu.Unlock()
	if m.kind == Collected {
		s.pinMemory(m.keep, m.High-m.Low, m)
	} else {
		s.ctx = m.managed
	}
	h := s.handle()
	if !m.swapHandle(noHandle, h) {
		sh.slots.undo(s)
		return nil, Closed
	}
	if m.guarded {
		(*guard)(m.keep).state.handle = h
	}
	if rank > rankSmall {
		return nil, Closed
	}
	b := sh.blocks.take(s)
	if b == nil {
		s.leave() // Go's is left
		return nil, NoMemory
	}
	return b, OK
}

// ExportOnce pins size bytes of Go's memory for one export of a tensor of a rank.
func ExportOnce(start unsafe.Pointer, size int64, rank int) (*Block, Status) {
	sh, s := lockSlot(Collected, 1)
	if s == nil {
		return nil, NoMemory
	}
	s.pinMemory(start, uintptr(size), nil)
	var b *Block
	if rank <= rankSmall {
		b = sh.blocks.take(s)
	}
	sh.mu.Unlock()
	if b == nil {
		b = s.newBlock(rank)
	}
	if b == nil {
		return nil, NoMemory
	}
	return b, OK
}
