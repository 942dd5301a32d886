//go:build cgo

package dlpack

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	slabBlocks = 256

	// reapBatch bounds the dead blocks that one export takes care of.
	reapBatch = 32

	// wakeBytes is how much dead payload wakes a Go program that does nothing else.
	wakeBytes = 1 << 20

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
	pending *block // taken from home.dead, not yet reaped
	first   *block // free list; the oldest
	last    *block
	free    int
	total   int
	slots   []*[slabBlocks]slot
	_       [40]byte
}

// pools of the small blocks, and one for ranks above rankSmall behind them.
var pools struct {
	once sync.Once
	all  []pool
	mask uintptr
	err  error
}

var errNoMemory = errors.New("out of memory")

// startPools makes the pools and what reaps them in the background, with the first export.
func startPools() {
	n := 1
	for n < 2*runtime.GOMAXPROCS(0) && n < maxPools {
		n *= 2
	}
	homes := coreHomes(n + 1)
	if homes == 0 {
		pools.err = errNoMemory
		return
	}
	all := make([]pool, n+1)
	for i := range all {
		h := (*home)(pointer(homes + uintptr(i)*unsafe.Sizeof(home{})))
		h.pool = int32(i)
		h.rank = rankSmall
		if i == n {
			h.rank = MaxRank
		}
		all[i].home = h
	}
	pools.all, pools.mask = all, uintptr(n-1)
	reapEachCycle()
	startWake()
}

// poolFor picks a pool by the stack of the caller: a goroutine stays with its own, two goroutines
// rarely meet.
func poolFor(rank int) (*pool, error) {
	pools.once.Do(startPools)
	if pools.err != nil {
		return nil, pools.err
	}
	if rank > rankSmall {
		return &pools.all[len(pools.all)-1], nil
	}
	var here byte
	stack := uintptr(unsafe.Pointer(&here))
	return &pools.all[(stack>>13^stack>>17)&pools.mask], nil
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
		return errNoMemory
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
		p.last.next = uintptr(unsafe.Pointer(b))
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

// bury ends what a dead block held of Go's and puts it on the free list. The data pointers of both
// forms are cleared before the unpin, the deleters stay: a second call must find one.
func (p *pool) bury(b *block) {
	b.managed.tensor.data = 0
	(*managedLegacy)(unsafe.Pointer(b)).tensor.data = 0
	if b.share == 0 {
		s := p.slot(b)
		if s.keep != nil {
			s.pinner.Unpin()
			s.keep = nil
		}
	}
	atomic.StoreUint32(&b.state, stateFree)
	p.append(b)
}

// deleteBlock is the deleter, called by Go for an export of this library: no crossing.
func deleteBlock(b *block) {
	h := (*home)(pointer(b.home))
	if h.pool < 0 { // made by C code
		coreReleaseVersioned(uintptr(unsafe.Pointer(b)))
		return
	}
	if !atomic.CompareAndSwapUint32(&b.state, stateLive, stateDead) {
		doubleDeletes.Add(1)
		return
	}
	share := b.share
	p := &pools.all[h.pool]
	p.mu.Lock()
	p.bury(b)
	p.mu.Unlock()
	if share != 0 {
		dropShare(share)
	}
}

var doubleDeletes atomic.Uint64

// Reap unpins at once what consumers have released since the last time. It is never needed for
// correctness: the next export, the next collection, or enough released bytes do the same.
func Reap() {
	for i := range pools.all {
		p := &pools.all[i]
		p.mu.Lock()
		p.reap(p.total)
		p.reap(p.total)
		p.mu.Unlock()
	}
}

// reapAll is [Reap] with the count of dead bytes set back first: what dies from here on counts anew.
func reapAll() {
	atomic.StoreInt64(coreDeadBytes(), 0)
	Reap()
}

// reapEachCycle reaps once after each collection.
func reapEachCycle() {
	runtime.AddCleanup(new([4]uint64), func(struct{}) {
		reapAll()
		reapEachCycle()
	}, struct{}{})
}

// liveBlocks counts exports that no consumer has released.
func liveBlocks() (n int64) {
	for i := range pools.all {
		p := &pools.all[i]
		p.mu.Lock()
		p.reap(p.total)
		p.reap(p.total)
		n += int64(p.total - p.free)
		p.mu.Unlock()
	}
	return n
}

// reapOnWake reaps whenever the file can be read. It ends with the process.
func reapOnWake(file *os.File) {
	var buffer [64]byte
	for {
		if _, err := file.Read(buffer[:]); err != nil {
			return
		}
		reapAll()
	}
}
