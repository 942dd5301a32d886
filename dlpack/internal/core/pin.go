//go:build cgo

package core

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A pin is what Go keeps for a slot whose memory is Go's own: what pins it, and the memory that has the slot's handle.
// The bin of the slot is locked while a pin changes. It stands beside the slot: Go's pointers must not lie in C memory.
type pin struct {
	pinner runtime.Pinner
	memory *Memory
}

func (s *slot) pin() *pin {
	slab, at := place(s.index)
	return &table.pins[slab][at]
}

func (p *pin) free() {
	p.pinner.Unpin()
	p.memory = nil
}

// newPin pins Go's memory in a slot that it takes, with some shares. memory may be nil.
func newPin(start unsafe.Pointer, size uintptr, memory *Memory, shares uint64) *slot {
	b := lockBin()
	if b == nil {
		return nil
	}
	defer b.mu.Unlock()
	s := b.take(Collected, shares)
	if s == nil {
		return nil
	}
	s.bytes = uint64(size)
	p := s.pin()
	p.memory = memory
	if size > 0 {
		p.pinner.Pin(start)
	}
	return s
}

// detach takes Go's share off the pinned memories that nobody else has a share of, so that they are pinned no longer. Their
// next export pins them again. Whoever takes the handle out of a memory takes Go's share off: nobody else does.
func detach() {
	all := allBins()
	for i := range all {
		b := &all[i]
		b.mu.Lock()
		runs := len(b.runs)
		b.mu.Unlock()
		for r := range runs {
			b.mu.Lock()
			b.detach(b.runs[r])
			b.mu.Unlock()
		}
	}
}

// detach does so for a run of slots. The bin is locked.
func (b *bin) detach(first uint32) {
	slab, at := place(first)
	pins := table.pins[slab][at : at+runSlots]
	for i := range pins {
		m := pins[i].memory
		if m == nil {
			continue
		}
		s := handle(first + uint32(i)).slot()
		h := s.handle()
		if uint32(atomic.LoadUint64(&s.count)) == 1 && m.swapHandle(h, noHandle) && s.leave() {
			b.put(s)
		}
	}
}
