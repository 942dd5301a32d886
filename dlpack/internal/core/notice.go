//go:build cgo

package core

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A notice has the functions to call when nobody holds a memory any more, which is Go's own, or was allocated or handed to
// [Memory.Own]. From the first [Memory.OnRelease] until then, the memory keeps its slot and stays pinned, because detach passes
// over it. So the last share of the slot is given up when the last tensor is closed and the last export released. A deleter
// that gives up the last share wakes Go at once.
type notice struct {
	// slots counts the slots of the memory that have not ended. There are several only if detach has taken a handle out, before
	// the notice was made, while an export took a share by it.
	slots   atomic.Int32
	calls   []func() // changes only while the shard of the memory's slot is locked
	escaped atomic.Bool
	cleanup runtime.Cleanup // for tensors that are dropped without Close; unset for allocated memory, which has a guard
}

// Own is OnRelease for new memory that was passed to [Memory.Collect] and is not Go's: f gives it back.
func (m *Memory) Own(f func()) Status {
	m.marks.Or(foreignOwner)
	return m.OnRelease(f)
}

// OnRelease has f called when nobody holds the memory any more. The kind of the memory is [Collected] or [Allocated]. The caller
// holds a reference to an open tensor. If there is no memory for a slot, OnRelease returns [NoMemory], and f is not called.
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

// lockOwnSlot returns the slot whose handle the memory has, with its shard locked, so that detach cannot take the handle out.
// If the memory has none, it gets one. The result is nil, and nothing is locked, if there is no memory for slots.
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

// watch gives a slot a notice. The slot's shard is locked, and the slot cannot end.
func (s *slot) watch(n *notice) {
	n.slots.Add(1)
	s.pin().owner = unsafe.Pointer(n)
	s.lender = 1 // not atomic: deleters read it only after the last share was given up
}

// watched reports whether a slot, whose kind is Collected or Allocated, has a notice.
func (s *slot) watched() bool { return s.lender != 0 }

// notice returns the notice of a slot that is watched and has not ended.
func (s *slot) notice() *notice {
	sh := s.shard()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return (*notice)(s.pin().owner)
}

// watchOthers gives the notice to older slots of the memory: those from which detach has taken Go's share while an
// export took a share.
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

// watchOthers is Memory.watchOthers for a run of slots. The share that it takes keeps a slot from ending meanwhile. A slot
// without shares is held by nobody, and only waits to be unpinned.
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

// slotEnded is called when the memory was unpinned, or was freed, in one of its slots. The slot's shard is locked.
func (n *notice) slotEnded() {
	if n.slots.Add(-1) == 0 {
		background.Release(n.call)
	}
}

// call calls the functions, the last first, each even if another one panics or calls runtime.Goexit.
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

// loseWatched gives up Go's share of a memory with a notice, whose tensors are all unreachable and were not closed. If a Go
// slice of the memory was handed out, the slice may still be in use, so the share is kept. It runs on a goroutine of the
// runtime, and calls nothing foreign.
func loseWatched(w watchedHandle) {
	if !w.notice.escaped.Load() {
		w.handle.slot().drop()
	}
	forgotten.Add(1)
}
