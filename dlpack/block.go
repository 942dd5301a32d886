//go:build cgo

package dlpack

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	slabBlocks = 256

	// reapBatch bounds the dead blocks that one export takes care of.
	reapBatch = 32

	maxPools = 64
)

// A slot is what Go keeps for a block in C memory: the pin, and what it pins.
type slot struct {
	pinner runtime.Pinner
	keep   unsafe.Pointer
}

// A pool hands out blocks and takes dead ones back, first in, first out. A block that a deleter has
// pushed on home.dead is reaped by the next export, at a collection, when enough bytes are dead, or
// by [Reap]. Every change to a slot is made under the mutex: the race detector sees no order in what
// happens in C memory alone.
type pool struct {
	mu      sync.Mutex
	home    *home
	index   int    // in pools
	pending *block // taken from home.dead, not yet reaped
	first   *block // free list; the oldest
	last    *block
	free    int
	total   int
	slots   []*[slabBlocks]slot
	kept    int     // blocks in rings
	rings   []*ring // that may have blocks
	_       [8]byte
}

// pools of the small blocks, and one for ranks above rankSmall behind them. nil until the first export.
var pools struct {
	mu  sync.Mutex // while they are made
	all atomic.Pointer[[]pool]
}

func allPools() []pool {
	if all := pools.all.Load(); all != nil {
		return *all
	}
	return nil
}

// startPools makes the pools and what reaps them in the background, with the first export.
func startPools() error {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	if allPools() != nil {
		return nil
	}
	n := 1
	for n < 2*runtime.GOMAXPROCS(0) && n < maxPools {
		n *= 2
	}
	homes := coreHomes(n + 1)
	if homes == 0 {
		return ErrMemory
	}
	all := make([]pool, n+1)
	for i := range all {
		h := (*home)(pointer(homes + uintptr(i)*unsafe.Sizeof(home{})))
		h.pool = int32(i)
		all[i].index = i
		h.rank = rankSmall
		if i == n {
			h.rank = MaxRank
		}
		all[i].home = h
	}
	eachCycle(Reap)
	startWake()
	pools.all.Store(&all) // from here on there are exports
	return nil
}

// ownPool returns the caller's pool, picked by the address of its stack: a goroutine stays with its own, two
// goroutines rarely meet. nil before the first export.
func ownPool(rank uint16) *pool {
	all := pools.all.Load()
	if all == nil {
		return nil
	}
	i := len(*all) - 1
	if rank <= rankSmall {
		var here byte
		stack := uintptr(unsafe.Pointer(&here))
		i = int(stack>>13^stack>>17) & (i - 1) // the number of the others, a power of two, less 1
	}
	return &(*all)[i]
}

// take returns a free block. The pool is locked.
func (p *pool) take() (*block, error) {
	p.reap(reapBatch)
	if p.free <= quarantine {
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
	b := p.first
	p.first = (*block)(pointer(b.next))
	p.free--
	return b, nil
}

func (p *pool) grow() error {
	n := slabBlocks
	b := (*block)(pointer(coreSlab(p.home, n, p.total)))
	if b == nil {
		return ErrMemory
	}
	p.slots = append(p.slots, new([slabBlocks]slot))
	p.total += n
	for b != nil {
		next := (*block)(pointer(b.next))
		p.append(b)
		b = next
	}
	return nil
}

func (p *pool) append(b *block) {
	b.next = 0
	if p.free == 0 {
		p.first = b
	} else {
		p.last.next = address(b)
	}
	p.last = b
	p.free++
}

func (p *pool) slot(b *block) *slot {
	return &p.slots[b.slot/slabBlocks][b.slot%slabBlocks]
}

// reap buries at most limit dead blocks. The pool is locked.
func (p *pool) reap(limit int) {
	if p.pending == nil {
		if atomic.LoadUintptr(&p.home.dead) == 0 {
			return
		}
		p.pending = (*block)(pointer(atomic.SwapUintptr(&p.home.dead, 0)))
	}
	for b := p.pending; b != nil && limit > 0; limit-- {
		p.pending = (*block)(pointer(b.next))
		p.bury(b)
		b = p.pending
	}
}

// drain buries all dead blocks: those that an export has left over, then those pushed since. The pool is
// locked.
func (p *pool) drain() {
	p.reap(p.total)
	p.reap(p.total)
}

// bury ends what a dead block held of Go's and puts it on the free list. The data pointers of both
// forms are cleared before the unpin, the deleters stay: a second call must find one.
func (p *pool) bury(b *block) {
	strike(key{KindExport, address(b)})
	b.managed.tensor.data = 0
	(*managedLegacy)(unsafe.Pointer(b)).tensor.data = 0
	if b.share == 0 {
		s := p.slot(b)
		if s.keep != nil {
			s.pinner.Unpin()
			s.keep = nil
		}
	}
	atomic.StoreUint64(&b.state, stateFree)
	p.append(b)
}

// deleteBlock is the deleter, called by Go for a block that Go made: no crossing. It reports false for
// one that C code made.
func deleteBlock(b *block) bool {
	state := atomic.LoadUint64(&b.state)
	for state&states == stateLive && state != stateLive { // a ring's, which may let it go
		if atomic.CompareAndSwapUint64(&b.state, state, state|stateIdle) {
			return true
		}
		state = atomic.LoadUint64(&b.state)
	}
	h := (*home)(pointer(b.home))
	if h.pool < 0 {
		return false
	}
	if !atomic.CompareAndSwapUint64(&b.state, stateLive, stateDead) {
		doubleDeletes.Add(1)
		return true
	}
	share := b.share
	p := &allPools()[h.pool]
	p.mu.Lock()
	p.bury(b)
	p.mu.Unlock()
	if share != 0 {
		dropShares(share, 1)
	}
	return true
}

var doubleDeletes atomic.Uint64

// Reap unpins at once what consumers have released since the last time. It is never needed for
// correctness: the next export, the next collection, or enough released bytes do the same. It waits for no release of
// memory that is not Go's.
func Reap() {
	retireRings()
	drainAll()
}

// WakeAt sets how many bytes of Go's memory consumers may have released before their deleters wake Go to
// unpin them, in a program that does nothing else: 1 MiB from the start. With 1, each release wakes Go,
// unless it is awake for another: memory is unpinned promptly, and a release costs a microsecond more. It
// returns the last value. Memory that is not Go's never waits.
func WakeAt(bytes int64) (last int64) {
	last = coreWakeAt(max(bytes, 1))
	drainAll() // what is dead already will not pass the new threshold
	return last
}

// drainAll reaps what is dead. The count of dead bytes is set back first: what dies from here on counts
// anew.
func drainAll() {
	all := allPools()
	if all == nil {
		return
	}
	atomic.SwapInt64(coreDeadBytes(), 0) // sees the pushes of all that were counted
	for i := range all {
		p := &all[i]
		p.mu.Lock()
		p.drain()
		p.mu.Unlock()
	}
}

// eachCycle calls f once after each collection, on a goroutine of the runtime: f must not call foreign code.
func eachCycle(f func()) {
	runtime.AddCleanup(new([4]uint64), func(struct{}) {
		f()
		eachCycle(f)
	}, struct{}{})
}

// liveBlocks counts exports that no consumer has released.
func liveBlocks() (n int64) {
	Reap()
	all := allPools()
	for i := range all {
		p := &all[i]
		p.mu.Lock()
		n += int64(p.total - p.free)
		p.mu.Unlock()
	}
	return n
}

// pollerCanStart reports whether there are descriptors for Go's poller, which is started by the first file that needs
// it. It takes two on Linux and at most three elsewhere, and ends the process when it gets none.
func pollerCanStart(fd int) bool {
	syscall.ForkLock.RLock() // no child of this process inherits the copies
	defer syscall.ForkLock.RUnlock()
	for range 3 {
		other, err := syscall.Dup(fd)
		if err != nil {
			return false
		}
		defer syscall.Close(other)
	}
	return true
}

// wakeFile stays open, so that deleters never write to another file that got its number. A program must not close it.
var wakeFile *os.File

// reapOnWake reaps whenever wakeFile can be read, as long as the process lives.
func reapOnWake() {
	var buffer [64]byte
	for {
		if _, err := wakeFile.Read(buffer[:]); err != nil {
			coreWakeBy(-1)
			return
		}
		drainAll()
	}
}
