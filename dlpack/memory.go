//go:build cgo

package dlpack

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A memory is what tensors are views of: some bytes, and what has to happen when nobody needs them.
// refs counts the open tensors of Go, and the operations at work on them, beyond the first. Once the last is gone
// it is -1, or still 0: see close. Consumers of exports are counted apart: each block of Go's memory holds its own
// pin, each block of other memory a share of the C word in [share].
type memory struct {
	refs    atomic.Int32
	origin  origin
	guarded bool
	// The addresses that views may reach; the byte_offsets, where the host cannot address the memory.
	low, high uintptr
	// keep is what has to be reachable as long as the memory is: Go's own memory, or the guard.
	keep unsafe.Pointer
	ending
}

type origin uint8

const (
	nothing   origin = iota // of a guard without a memory
	collected               // Go's own, which the collector ends
	allocated               // by New, or lent with a release: a share from the start
	importedVersioned
	importedLegacy
	borrowed
)

// An ending says how memory that is not Go's is given back, once.
type ending struct {
	managed uintptr        // of imports
	share   atomic.Uintptr // 0 for an import that was not exported yet
}

// end is the ending of a memory that is not Go's.
func (m *memory) end() *ending {
	if m.guarded {
		return &(*guard)(m.keep).fate.ending
	}
	return &m.ending
}

// A guard is the safety net of one memory after another: when it is unreachable, so is the memory, and
// nobody has closed it. To hang up a net for each memory anew would cost more than the rest of an import.
type guard struct {
	fate *fate
}

// A fate is what the cleanup of a guard holds, while the guard is unreachable.
type fate struct {
	ending
	bytes   int64 // what the safety net is accountable for, up to foreignMost
	origin  origin
	escaped atomic.Bool // a bare slice over the memory is out
}

var guards = sync.Pool{New: func() any {
	g := &guard{fate: new(fate)}
	runtime.AddCleanup(g, forget, g.fate)
	return g
}}

// catch hangs the safety net on a memory that is being made.
func (m *memory) catch(from origin, bytes int64) {
	g := guards.Get().(*guard)
	m.origin, m.guarded, m.keep = from, true, unsafe.Pointer(g)
	bytes = min(bytes, foreignMost)
	g.fate.origin, g.fate.bytes = from, bytes
	foreign.add(bytes)
}

// escape notes that a bare slice over the memory is out. No reference is held: a Close elsewhere may take the
// guard away before, or give it to another memory meanwhile, which then is not freed if it is forgotten.
//
//go:norace
func (m *memory) escape() {
	if !m.guarded {
		return
	}
	if g := (*guard)(m.keep); g != nil && !g.fate.escaped.Load() {
		g.fate.escaped.Store(true)
	}
}

// acquire takes a reference, unless refs says that the last one is gone, or there are 2^31. That alone does not
// keep the memory: see [Tensor.acquire].
func (m *memory) acquire() bool {
	for {
		n := m.refs.Load()
		if n < 0 || n == math.MaxInt32 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back.
func (m *memory) release() {
	if m.refs.Add(-1) < 0 {
		m.finish()
	}
}

// close is release for a tensor that says of itself that it is closed. Whoever acquires a reference
// looks at that once it is counted; so with none counted, nobody is at work or will be.
func (m *memory) close() {
	if m.refs.Load() == 0 || m.refs.Add(-1) < 0 {
		m.finish()
	}
}

func (m *memory) finish() {
	if m.origin == collected {
		atomic.StorePointer(&m.keep, nil)
		return
	}
	end := m.end()
	managed, share := end.managed, end.share.Load()
	if m.guarded { // and reachable until here, so that forget has not run
		g := (*guard)(m.keep)
		m.keep = nil // a closed tensor must not keep the guard of another memory
		foreign.add(-g.fate.bytes)
		g.fate.clear()
		guards.Put(g)
	}
	giveBack(m.origin, managed, share)
}

func (f *fate) clear() {
	f.origin = nothing
	if f.share.Load() != 0 {
		f.share.Store(0)
	}
	if f.escaped.Load() {
		f.escaped.Store(false)
	}
}

// forget is the safety net: all tensors of a memory are unreachable and none was closed. Where a
// bare slice was handed out it may be in use still, so that nothing is freed. It is counted once all is done.
//
// It runs on a goroutine of the runtime, which all cleanups of the process share, and must therefore not call the
// memory's deleter, which may block.
func forget(f *fate) {
	if f.origin == nothing {
		return
	}
	lose(keyOf(f.origin, f.managed, f.share.Load()))
	if f.escaped.Load() {
		forgotten.Add(1)
		return
	}
	from, bytes, managed, share := f.origin, f.bytes, f.managed, f.share.Load()
	f.origin = nothing
	background.Release(func() {
		foreign.add(-bytes)
		giveBack(from, managed, share)
		foreign.settle()
		forgotten.Add(1)
	})
}

// keyOf is how the ledger knows a memory.
func keyOf(from origin, managed, share uintptr) key {
	if from == allocated {
		return key{KindAllocation, share}
	}
	return key{KindImport, managed}
}

func giveBack(from origin, managed, share uintptr) {
	if from == borrowed {
		return
	}
	strike(keyOf(from, managed, share))
	switch from {
	case allocated:
		liveAllocations.Add(-1)
	case importedVersioned, importedLegacy:
		liveImports.Add(-1)
		if share == 0 {
			runDeleter(from, managed)
			return
		}
	}
	dropShares(share, 1)
}

func runDeleter(from origin, managed uintptr) {
	if from == importedVersioned {
		Release(pointer(managed))
	} else {
		ReleaseLegacy(pointer(managed))
	}
}

// shares is held while an import gets its word.
var shares sync.Mutex

// takeShare adds one to the C word; the caller holds a reference. An import gets its word with its
// first export.
func (m *memory) takeShare() (uintptr, error) {
	e := m.end()
	s := e.share.Load()
	if s == 0 {
		shares.Lock()
		defer shares.Unlock()
		if s = e.share.Load(); s == 0 {
			if m.origin == importedVersioned {
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
	if giveUp(s, n) {
		coreEndShare(s)
	}
}

// giveUp takes shares off, and tells whether they were the last ones.
func giveUp(s uintptr, n int64) (last bool) {
	return atomic.AddInt64(&(*share)(pointer(s)).count, -n) == 0
}

var liveAllocations, liveImports, forgotten atomic.Int64

// foreign accounts for bytes that the collector does not see. Forgotten imports of many megabytes
// would not bring about a single collection, and so would never be released.
var foreign = accounts{due: make(chan struct{}, 1)}

// A collection is due when the bytes pass a limit. Each that is due doubles the limit, so that memory in
// use, or closed in time, brings about few; collections and what they find lower it again.
type accounts struct {
	bytes atomic.Int64
	limit atomic.Int64
	once  sync.Once
	mu    sync.Mutex // held while the limit is lowered, so that the last to do so has the last word
	due   chan struct{}
}

// foreignMost is as many bytes as one memory counts. A producer may describe memory that nobody has: without a bound,
// two descriptions would let the sum overflow, or the limit rise so high that no collection is started any more.
const foreignMost = 1 << 30

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
	eachCycle(a.settle)
	background.Go(func() {
		for range a.due {
			runtime.GC()
		}
	})
}

// settle lowers the limit, not all at once, towards twice what a collection left.
func (a *accounts) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := a.limit.Load()
	a.limit.Store(max(2*a.bytes.Load(), limit-limit/8))
}
