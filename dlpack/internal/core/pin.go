//go:build cgo

package core

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A pin is Go memory held for C. It belongs to a slot whose memory is Go's own. It changes only while the slot's shard is
// locked. It is not a part of the slot because Go pointers must not lie in C memory.
type pin struct {
	pinner runtime.Pinner
	// owner is nil for ExportOnce. Otherwise it is the *Memory with the slot's handle, for detach, or the *notice if the slot is
	// watched.
	owner unsafe.Pointer
}

func (s *slot) pin() *pin {
	slab, at := place(s.index)
	return &table.pins[slab][at]
}

// pinMemory pins Go's memory. memory may be nil.
func (s *slot) pinMemory(start unsafe.Pointer, size uintptr, memory *Memory) {
	s.bytes = uint64(size)
	p := s.pin()
	p.owner = unsafe.Pointer(memory)
	if size > 0 {
		p.pinner.Pin(start)
	}
}

// detach gives up Go's share of each pinned memory of which nobody else has a share, which unpins it. The next export pins it
// again. Whoever takes the handle out of a memory gives up Go's share, so it is given up once.
func detach() {
	for sh := range lockedShards {
		for _, first := range sh.slots.runs {
			sh.slots.detach(first)
			sh.letOthersIn()
		}
	}
}

// detach is detach for a run of slots.
func (b *bin) detach(first uint32) {
	slab, at := place(first)
	pins := table.pins[slab][at : at+runSlots]
	for i := range pins {
		s := handle(first + uint32(i)).slot()
		if pins[i].owner == nil || s.watched() {
			continue
		}
		m, h := (*Memory)(pins[i].owner), s.handle()
		if uint32(atomic.LoadUint64(&s.count)) != 1 {
			continue
		}
		m.marks.Or(detached) // before an OnRelease can find the memory without a handle
		if m.swapHandle(h, noHandle) && s.leave() {
			b.put(s)
		}
	}
}
