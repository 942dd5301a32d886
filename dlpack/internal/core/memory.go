//go:build cgo

package core

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// A Kind is the origin of memory. It determines how the memory is given back. C: CORE_SLOT_…
type Kind uint8

const (
	nothing           Kind = iota // of a guard without a memory
	Collected                     // Go's own memory, which the garbage collector frees, or memory for Memory.Own
	Allocated                     // C memory that this package has allocated
	Lent                          // somebody else's memory, which a C function gives back, if there is one
	ImportedVersioned             // memory of a managed tensor, whose deleter gives it back
	ImportedLegacy
	BorrowedKind // somebody else's memory, which is not given back
)

// A Memory is the storage behind one or more tensors, together with the action that gives it back.
//
// refs is the number of open tensors and running operations in Go, minus one, so that the common case of a single
// tensor needs no atomic addition. After the last tensor or operation has ended, refs is -1, or 0 if a Close ended it
// (see [Memory.Close]).
//
// All tensors together have at most one share of the memory, Go's share, and each export has a share. A slot counts the
// shares. handle names the slot: from the start if the memory was allocated or lent, otherwise from the first export or
// OnRelease on. For Go's own memory, the code that takes the handle out also gives up Go's share, so that it is given
// up once. The next export takes another slot.
type Memory struct {
	refs    atomic.Int32
	kind    Kind
	guarded bool // keep is a guard
	marks   atomic.Uint32
	// Views may reach the addresses from Low up to High, exclusive. If the host cannot address the memory, Low and High
	// are byte_offsets.
	Low, High uintptr
	// keep points to Go's own memory, or to the guard. It keeps them reachable as long as the memory.
	keep    unsafe.Pointer
	handle  uint64  // of a slot, or noHandle; atomic once the memory is initialized
	managed uintptr // address of the managed tensor, for imports
}

// The bits of Memory.marks. A bit that is set is never cleared.
const (
	escaped      uint32 = 1 << iota // the guard or the notice knows that a Go slice of the memory was handed out
	watched                         // the memory has a notice
	detached                        // detach has taken a handle out, whose slot may still be shared by exports
	foreignOwner                    // the memory is not Go's, and the notice gives it back
)

// Kind returns the origin of the memory.
func (m *Memory) Kind() Kind { return m.kind }

// IsGos reports whether the memory is Go's own: the garbage collector keeps it as long as a pointer to it exists.
func (m *Memory) IsGos() bool { return m.kind == Collected && m.marks.Load()&foreignOwner == 0 }

// ID returns the number under which the ledger records an allocation.
func (m *Memory) ID() uintptr { return uintptr(m.loadHandle()) }

func (m *Memory) loadHandle() handle { return handle(atomic.LoadUint64(&m.handle)) }

func (m *Memory) swapHandle(from, to handle) bool {
	return atomic.CompareAndSwapUint64(&m.handle, uint64(from), uint64(to))
}

// Collect initializes m with size bytes of Go's own memory, or of memory for [Memory.Own].
func (m *Memory) Collect(start unsafe.Pointer, size int64) {
	m.kind, m.keep = Collected, start
	m.Low, m.High = uintptr(start), uintptr(start)+uintptr(size)
}

// Allocate initializes m with size bytes of new C memory, aligned to [Alignment] bytes. It returns [NoMemory] if there
// is none.
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

// Lend initializes m with size bytes at data. release, a C function `void (*)(void *ctx)` or nil, gives them back. If
// there is no memory for a slot, Lend returns [NoMemory] and does not call release.
func (m *Memory) Lend(data uintptr, size int64, release, ctx unsafe.Pointer) Status {
	s := newSlot(Lent)
	if s == nil {
		return NoMemory
	}
	s.lender, s.ctx = uintptr(release), uintptr(ctx)
	m.hold(Lent, s, data, size)
	return OK
}

// hold finishes Allocate and Lend.
func (m *Memory) hold(kind Kind, s *slot, data uintptr, size int64) {
	m.Low, m.High = data, data+uintptr(size)
	h := s.handle()
	m.handle = uint64(h)
	m.setGuard(kind, 0, h, size)
	liveAllocations.begin()
}

// Import initializes m as the memory of a managed tensor that the caller has claimed. Its shares are counted from the
// first export on. If guarded is false, the deleter of a forgotten import is never called.
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

// Acquire takes a reference for a tensor or an operation. It returns [Overflow] if there are too many references, and
// [Closed] if it finds that all have ended. It may also succeed after the last Close. So the caller must then check
// that its tensor is open; if it is not, the caller must release the reference without using the memory.
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

// Release gives a reference back. The Release of the last reference gives up Go's share.
func (m *Memory) Release() {
	if m.refs.Add(-1) < 0 {
		m.finish()
	}
}

// Close is Release for a tensor that is already marked as closed. If refs is 0, this is the last reference, and refs
// may stay 0: a caller that still adds a reference checks the mark afterwards, and gives the reference back without
// using the memory.
func (m *Memory) Close() {
	if m.refs.Load() == 0 || m.refs.Add(-1) < 0 {
		m.finish()
	}
}

// finish gives up Go's share. Exports keep theirs.
func (m *Memory) finish() {
	h := m.loadHandle()
	if h != noHandle && m.kind == Collected {
		h = handle(atomic.SwapUint64(&m.handle, uint64(noHandle))) // noHandle if detach has taken it out
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

// giveUp gives up Go's share of a memory. It calls the deleter of an import that was never exported (noHandle).
func giveUp(kind Kind, managed uintptr, h handle) {
	switch kind {
	case Allocated, Lent:
		removeRecord(KindAllocation, uintptr(h))
		liveAllocations.end(1)
	case ImportedVersioned, ImportedLegacy:
		removeRecord(KindImport, managed)
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

// Export returns a live block for a tensor of the given rank. The block holds a share of the memory. If the memory has
// no slot, as before its first export, Export returns [Closed]; the caller must then call [Memory.FirstExport].
func (m *Memory) Export(rank int) (*Block, Status) {
	s, status := m.loadHandle().retain()
	if status != OK {
		return nil, status
	}
	if b := s.newBlock(rank); b != nil {
		return b, OK
	}
	return nil, NoMemory
}

// FirstExport is Export for memory that may have no slot. It returns [Borrowed] for borrowed memory. The caller holds a
// reference.
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

// firstExport gives the memory a slot, and makes the export if its rank is small. It returns [Closed] if the memory now
// has a slot but no block was made.
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
	b := sh.blocks.makeLive(s)
	if b == nil {
		s.leave() // gives up the block's share; Go's is left
		return nil, NoMemory
	}
	return b, OK
}

// ExportOnce pins size bytes of Go's memory for one export of a tensor of the given rank. The block has the only share.
// On error nothing stays pinned.
func ExportOnce(start unsafe.Pointer, size int64, rank int) (*Block, Status) {
	sh, s := lockSlot(Collected, 1)
	if s == nil {
		return nil, NoMemory
	}
	s.pinMemory(start, uintptr(size), nil)
	var b *Block
	if rank <= rankSmall {
		b = sh.blocks.makeLive(s)
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
