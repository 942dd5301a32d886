//go:build cgo

package core

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A notice has the functions to call after the last holder of a memory has released it. The memory is Go's own, or was
// allocated or handed to [Memory.Own]. From the first [Memory.OnRelease] until then, the memory keeps its slot and
// stays pinned, because detach skips it. So the last share of the slot is given up when the last tensor is closed and
// the last export released. A deleter that gives up the last share wakes Go immediately.
type notice struct {
	// slots counts the slots of the memory that have not ended. There are several only if detach took a handle out
	// before the notice was made, while an export took a share with this handle.
	slots   atomic.Int32
	calls   []func() // changes only while the shard of the memory's slot is locked
	escaped atomic.Bool
	cleanup runtime.Cleanup // for tensors that are dropped without Close; unset for allocated memory, which has a guard
}

// Own is OnRelease for new memory that was passed to [Memory.Collect] and is not Go's; f gives it back.
func (m *Memory) Own(f func()) Status {
	m.marks.Or(foreignOwner)
	return m.OnRelease(f)
}

// OnRelease calls f after the last holder has released the memory, whose kind must be [Collected] or [Allocated]. The
// caller holds a reference to an open tensor. If there is no memory for a slot, OnRelease returns [NoMemory], and f is
// not called.
func (m *Memory) OnRelease(f func()) Status {
	sh, s := m.lockOwnSlot()
	if s == nil {
		return NoMemory
	}
	if !s.watched() {
		s.watch(new(notice))
	}
	n := (*notice)(s.pin().owner)
	first := n.calls == nil
	n.calls = append(n.calls, f)
	m.marks.Or(watched)
	sh.mu.Unlock()
	if first && m.kind == Collected { // a second OnRelease may return before this is done, but this caller's reference keeps the memory alive
		m.watchOthers(n)
		n.cleanup = runtime.AddCleanup(m, loseWatched, watchedHandle{n, s.handle()})
	}
	return OK
}

// lockOwnSlot returns the slot of the memory's handle with its shard locked, so that detach cannot take the handle out.
// A memory without a slot gets one. If there is no memory for slots, the result is nil, and nothing is locked.
func (m *Memory) lockOwnSlot() (*shard, *slot) {
	for {
		if h := m.loadHandle(); h != noHandle {
			s := h.slot()
			sh := s.shard()
			sh.mu.Lock()
			if m.loadHandle() == h {
				return sh, s
			}
			sh.mu.Unlock()
			continue
		}
		sh, s := lockSlot(Collected, 1)
		if s == nil {
			return nil, nil
		}
		s.pinMemory(m.keep, m.High-m.Low, m)
		if m.swapHandle(noHandle, s.handle()) {
			return sh, s
		}
		sh.slots.undo(s)
		sh.mu.Unlock()
	}
}

// watch gives a slot a notice. The slot's shard must be locked, and the slot must not be able to end.
func (s *slot) watch(n *notice) {
	n.slots.Add(1)
	s.pin().owner = unsafe.Pointer(n)
	s.lender = 1 // not atomic: deleters read it only after the last share was given up
}

// watched reports whether a slot of the kind Collected or Allocated has a notice.
func (s *slot) watched() bool { return s.lender != 0 }

// notice returns the notice of a slot that is watched and has not ended.
func (s *slot) notice() *notice {
	sh := s.shard()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return (*notice)(s.pin().owner)
}

// watchOthers gives the notice to older slots of the memory, from which detach took Go's share while an export took a
// share.
func (m *Memory) watchOthers(n *notice) {
	if m.marks.Load()&detached == 0 {
		return
	}
	for sh := range lockedShards {
		for _, first := range sh.slots.runs {
			sh.slots.watchOthers(m, n, first)
			sh.yield()
		}
	}
}

// watchOthers is Memory.watchOthers for a run of slots. It takes a share so that a slot does not end meanwhile. A slot
// without shares has no holder, and only waits to be unpinned.
func (b *bin) watchOthers(m *Memory, n *notice, first uint32) {
	slab, at := place(first)
	pins := table.pins[slab][at : at+runSlots]
	for i := range pins {
		if pins[i].owner != unsafe.Pointer(m) {
			continue
		}
		s, status := handle(first + uint32(i)).slot().handle().retain()
		if status != OK {
			continue
		}
		s.watch(n)
		if s.leave() {
			b.put(s)
		}
	}
}

// slotEnded is called after the memory was unpinned, or freed, in one of its slots. The slot's shard is locked.
func (n *notice) slotEnded() {
	if n.slots.Add(-1) == 0 {
		background.Release(n.call)
	}
}

// call calls all functions, last first, even if one of them panics or calls runtime.Goexit.
func (n *notice) call() {
	for _, f := range n.calls {
		defer f()
	}
}

// watchedHandle is the argument of the cleanup of a memory with a notice.
type watchedHandle struct {
	notice *notice
	handle handle
}

// loseWatched gives up Go's share of a memory with a notice, after all its tensors became unreachable without Close. If
// a Go slice of the memory was handed out, the slice may still be in use, so the share is kept. It runs on a goroutine
// of the runtime, and calls no foreign code.
func loseWatched(w watchedHandle) {
	if !w.notice.escaped.Load() {
		w.handle.slot().drop()
	}
	forgotten.Add(1)
}
