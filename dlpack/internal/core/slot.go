//go:build cgo

package core

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A handle names a slot in one of its turns. Slots count shares and lie in a table in C memory. A slot is reused for
// other memory, and never freed. Each use is a turn. The upper half of the word with the count of shares is the number
// of the turn; the upper half of a handle is the same number, above the index of the slot. A handle can take a share
// only in its turn, and only while there are other shares. So an old handle does no harm, unless the slot has gone
// through all 2^32 turns meanwhile.
type handle uint64

const (
	noHandle handle = 0

	turnUnit = 1 << 32 // a slot's count is turn*turnUnit + shares

	mostShares = math.MaxInt32
)

const (
	firstSlab = 1024 // slots of the first slab of the table; each later slab has twice as many as the one before
	slabs     = 22
	runSlots  = 64 // slots that a bin gets at a time
)

// table holds all slots.
var table struct {
	slots [slabs]atomic.Uintptr // addresses of the slabs
	pins  [slabs][]pin          // of the slots at the same places; made before a slab's address is stored

	mu   sync.Mutex
	made uint32 // number of slots that bins were given
}

// place returns the slab of a slot and the position in it.
func place(index uint32) (slab, at uint32) {
	n := uint64(index) + firstSlab
	slab = uint32(bits.Len64(n)) - uint32(bits.Len64(firstSlab))
	return slab, uint32(n - firstSlab<<slab)
}

func (h handle) slot() *slot {
	slab, at := place(uint32(h))
	return slotAt(table.slots[slab].Load() + uintptr(at)*unsafe.Sizeof(slot{}))
}

// handle returns the handle of the slot's current turn.
func (s *slot) handle() handle {
	return handle(atomic.LoadUint64(&s.count)&^(turnUnit-1)) | handle(s.index)
}

// retain takes a share. It returns [Closed] if the turn of the handle has ended or no share is left, and [Overflow] if
// there are too many shares.
func (h handle) retain() (s *slot, status Status) {
	if h == noHandle {
		return nil, Closed
	}
	s = h.slot()
	for {
		count := atomic.LoadUint64(&s.count)
		switch shares := uint32(count); {
		case handle(count)>>32 != h>>32 || shares == 0:
			return nil, Closed
		case shares == mostShares:
			return nil, Overflow
		}
		if atomic.CompareAndSwapUint64(&s.count, count, count+1) {
			return s, OK
		}
	}
}

// leave gives up a share, and reports whether it was the last one.
func (s *slot) leave() bool {
	return uint32(atomic.AddUint64(&s.count, ^uint64(0))) == 0
}

// drop gives up a share, and ends the memory if it was the last one.
func (s *slot) drop() {
	if s.leave() {
		s.end()
	}
}

// end ends the memory after its last share was given up. It unpins Go's memory under the mutex of the slot's shard, and
// leaves all other memory to C code. s may also be a share made by C code, which has only the fields of a
// dlbcore_share, and is not a slot.
func (s *slot) end() {
	if s.release != releaseSlot || Kind(s.kind) != Collected {
		endShare(s.address())
		return
	}
	sh := s.shard()
	sh.mu.Lock()
	sh.slots.put(s)
	sh.mu.Unlock()
}

// A bin holds free slots. When C code gives up the last share of a slot, it puts the slot in the return queue of its
// bin. There the slot waits for the next caller that takes a slot, or for [Reap], because only Go can unpin Go's
// memory. The bin changes only while its shard is locked, except for the return queue.
type bin struct {
	dead    *returnQueue // the return queue, in C memory
	pending uintptr      // slots that were taken from dead and are not free yet, linked by link
	free    uintptr      // free slots, linked by link
	runs    []uint32     // index of the first slot of each of its runs
}

// shard returns the shard to which the slot belongs.
func (s *slot) shard() *shard {
	return &allShards()[(s.returns-shards.returnQueues)/unsafe.Sizeof(returnQueue{})]
}

// lockSlot takes a slot in a new turn, for a memory of the given kind, with the given number of shares, and leaves its
// shard locked. If there is no memory for slots, it returns nil, and leaves nothing locked.
func lockSlot(kind Kind, shares uint64) (*shard, *slot) {
	sh := lockSlots()
	if sh == nil {
		return nil, nil
	}
	s := sh.slots.beginTurn(kind, shares)
	if s == nil {
		sh.mu.Unlock()
		return nil, nil
	}
	return sh, s
}

// newSlot takes a slot with one share. It returns nil if there is no memory for slots.
func newSlot(kind Kind) *slot {
	sh, s := lockSlot(kind, 1)
	if s != nil {
		sh.mu.Unlock()
	}
	return s
}

// hasSlot reports whether a slot is free or has been returned.
func (b *bin) hasSlot() bool {
	return b.free != 0 || b.pending != 0 || atomic.LoadUintptr(&b.dead.top) != 0
}

// beginTurn returns a formerly free slot in a new turn, for a memory of the given kind, with the given number of
// shares. It returns nil if there is no memory.
func (b *bin) beginTurn(kind Kind, shares uint64) *slot {
	b.reap(looks)
	if b.free == 0 && !b.grow() {
		return nil
	}
	s := slotAt(b.free)
	b.free = s.link
	s.link = 0
	s.kind = uint32(kind)
	turn := s.count>>32 + 1
	if turn > math.MaxUint32 {
		turn = 1
	}
	s.count = turn<<32 | shares // nobody else changes it before the memory has the handle
	return s
}

// grow gets a run of slots from the table. It reports false if there is no memory, or the table is full.
func (b *bin) grow() bool {
	table.mu.Lock()
	defer table.mu.Unlock()
	if table.made > math.MaxUint32-firstSlab-runSlots {
		return false
	}
	first := table.made
	slab, at := place(first)
	if at == 0 {
		n := uint32(firstSlab) << slab
		made := allocateLasting(uintptr(n) * unsafe.Sizeof(slot{}))
		if made == 0 {
			return false
		}
		table.pins[slab] = make([]pin, n)
		table.slots[slab].Store(made)
	}
	table.made += runSlots
	b.runs = append(b.runs, first)
	for i := uint32(runSlots); i > 0; i-- {
		s := handle(first + i - 1).slot()
		s.index, s.release = first+i-1, releaseSlot
		s.returns = uintptr(unsafe.Pointer(b.dead))
		s.link = b.free
		b.free = s.address()
	}
	return true
}

// reap frees at most limit slots that were returned.
func (b *bin) reap(limit int) {
	for ; limit > 0; limit-- {
		if b.pending == 0 {
			if atomic.LoadUintptr(&b.dead.top) == 0 {
				return
			}
			b.pending = atomic.SwapUintptr(&b.dead.top, 0)
		}
		s := slotAt(b.pending)
		b.pending = s.link
		b.put(s)
	}
}

// undo gives back a slot that was just taken, before any other code has seen it.
func (b *bin) undo(s *slot) {
	s.count &^= turnUnit - 1
	b.put(s)
}

// put adds a slot without shares to the free slots. It unpins the slot's memory if that is Go's, and informs the
// notice, if there is one.
func (b *bin) put(s *slot) {
	if k := Kind(s.kind); k == Collected || k == Allocated && s.watched() {
		p := s.pin()
		p.pinner.Unpin()
		if s.watched() {
			(*notice)(p.owner).slotEnded()
		}
		p.owner = nil
	}
	s.lender, s.ctx, s.bytes = 0, 0, 0
	s.link = b.free
	b.free = s.address()
}
