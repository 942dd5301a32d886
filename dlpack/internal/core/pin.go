//go:build cgo

package core

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A pin is Go memory held for C. It belongs to a slot whose memory is Go's own, and has the pinner and the [Memory] with the
// slot's handle. It changes only while the slot's shard is locked. It is not a part of the slot because Go pointers must not
// lie in C memory.
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

// pinMemory pins Go's memory. memory may be nil.
func (s *slot) pinMemory(start unsafe.Pointer, size uintptr, memory *Memory) {
	s.bytes = uint64(size)
	p := s.pin()
	p.memory = memory
	if size > 0 {
		p.pinner.Pin(start)
	}
}

// detach gives up Go's share of each pinned memory of which nobody else has a share, which unpins it. The next export pins it
// again. Whoever takes the handle out of a memory gives up Go's share, so it is given up once.
func detach() {
	all := allShards()
	for i := range all {
		sh := &all[i]
		sh.mu.Lock()
		runs := sh.slots.runs
		sh.mu.Unlock()
		for _, first := range runs {
			sh.mu.Lock()
			sh.slots.detach(first)
			sh.mu.Unlock()
		}
	}
}

// detach is detach for a run of slots.
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
