//go:build cgo

package core

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A pin is Go memory held for C. It belongs to a slot whose memory is Go's own, and changes only while the slot's shard
// is locked. It is not a part of the slot, because Go pointers must not lie in C memory.
type pin struct {
	pinner runtime.Pinner
	// owner is nil for ExportOnce and in a free slot. Otherwise it is the pinned *Memory or, if the slot is watched,
	// the *notice. The slot of allocated memory has a pin without a pinner, for its notice.
	owner unsafe.Pointer
}

func (s *slot) pin() *pin {
	slab, at := place(s.index)
	return &table.pins[slab][at]
}

// pinMemory pins size bytes of Go's memory for a new slot, whose shard is locked. memory is nil for ExportOnce.
func (s *slot) pinMemory(start unsafe.Pointer, size uintptr, memory *Memory) {
	s.bytes = uint64(size)
	p := s.pin()
	p.owner = unsafe.Pointer(memory)
	if size > 0 {
		p.pinner.Pin(start)
	}
}

// detach unpins each memory that has only Go's share and no notice, by giving up that share. The next export pins it
// again. The code that takes the handle out of a memory also gives up Go's share, so it is given up once.
func detach() {
	for sh := range lockedShards {
		for _, first := range sh.slots.runs {
			sh.slots.detach(first)
			sh.yield()
		}
	}
}

// detach is the function detach for one run of slots. first is the index of the first slot.
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
