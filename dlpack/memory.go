//go:build cgo

package dlpack

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A memory is what tensors are views of: some bytes, and what has to happen when nobody needs them.
// refs counts the tensors of Go beyond the first, and is -1 when there is none. Consumers of exports are
// counted apart: each block of Go's memory holds its own pin, each block of other memory a share of the C
// word in [share].
type memory struct {
	refs atomic.Int64
	end  *ending // nil for Go's own memory, which the collector ends

	keep      unsafe.Pointer // Go's own memory: keeps it reachable
	low, high uintptr        // the addresses that views may reach

	net    runtime.Cleanup
	hasNet bool
}

type origin uint8

const (
	allocated origin = iota // by New, or lent with a release: a share from the start
	importedVersioned
	importedLegacy
	borrowed
)

// An ending says how memory that is not Go's is given back, once. It is apart from memory so that the
// safety net can hold it while memory is unreachable.
type ending struct {
	origin  origin
	managed uintptr // of imports
	share   atomic.Uintptr
	mu      sync.Mutex // while share is made for an import
	escaped atomic.Bool
	bytes   int64 // what the safety net is accountable for
}

// acquire takes a reference unless the last one is gone.
func (m *memory) acquire() bool {
	for {
		n := m.refs.Load()
		if n < 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *memory) release() {
	if m.refs.Add(-1) >= 0 {
		return
	}
	if m.end == nil {
		m.keep = nil
		return
	}
	if m.hasNet {
		m.net.Stop()
	}
	m.end.run()
	runtime.KeepAlive(m)
}

// catch hangs the safety net on a memory that was just made.
func (m *memory) catch() {
	m.hasNet = true
	m.net = runtime.AddCleanup(m, forget, m.end)
	foreign.add(m.end.bytes)
}

// forget is the safety net: all tensors of a memory are unreachable and none was closed. Where a
// bare slice was handed out it may be in use still, so that nothing is freed.
func forget(e *ending) {
	forgotten.Add(1)
	if !e.escaped.Load() {
		e.run()
		foreign.settle()
	}
}

func (e *ending) run() {
	if e.bytes != 0 {
		foreign.add(-e.bytes)
	}
	share := e.share.Load()
	switch e.origin {
	case allocated:
		liveAllocations.Add(-1)
	case importedVersioned, importedLegacy:
		liveImports.Add(-1)
		if share == 0 {
			e.runDeleter()
			return
		}
	case borrowed:
		return
	}
	dropShares(share, 1)
}

func (e *ending) runDeleter() {
	if e.origin == importedVersioned {
		Release(pointer(e.managed))
	} else {
		ReleaseLegacy(pointer(e.managed))
	}
}

// takeShare adds one to the C word; the caller holds a reference. An import gets its word with its
// first export.
func (e *ending) takeShare() (uintptr, error) {
	s := e.share.Load()
	if s == 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s = e.share.Load(); s == 0 {
			if e.origin == importedVersioned {
				s = coreShareVersioned(e.managed)
			} else {
				s = coreShareLegacy(e.managed)
			}
			if s == 0 {
				return 0, ErrMemory
			}
			e.share.Store(s)
		}
	}
	atomic.AddInt64(&(*share)(pointer(s)).count, 1)
	return s, nil
}

func dropShares(s uintptr, n int64) {
	if atomic.AddInt64(&(*share)(pointer(s)).count, -n) == 0 {
		coreReleaseShare(s)
	}
}

var liveAllocations, liveImports, forgotten atomic.Int64

// foreign accounts for bytes that the collector does not see. Forgotten imports of many megabytes
// would not bring about a single collection, and so would never be released.
var foreign accounts

// A collection is due when the bytes pass a limit. Each that is due doubles the limit, so that memory in
// use, or closed in time, brings about few; collections and what they find lower it again.
type accounts struct {
	bytes atomic.Int64
	limit atomic.Int64
	once  sync.Once
	due   chan struct{}
}

// foreignFloor is how many foreign bytes may lie about before a collection looks for forgotten ones.
const foreignFloor = 64 << 20

func (a *accounts) add(n int64) {
	now := a.bytes.Add(n)
	if n < 0 || now <= max(a.limit.Load(), foreignFloor) {
		return
	}
	a.limit.Store(2 * now)
	a.once.Do(a.start)
	select {
	case a.due <- struct{}{}:
	default:
	}
}

func (a *accounts) start() {
	a.due = make(chan struct{}, 1)
	eachCycle(a.settle)
	go func() {
		for range a.due {
			runtime.GC()
		}
	}()
}

// settle lowers the limit, not all at once, towards twice what a collection left.
func (a *accounts) settle() {
	limit := a.limit.Load()
	a.limit.Store(max(2*a.bytes.Load(), limit-limit/8))
}
