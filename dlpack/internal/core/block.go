//go:build cgo

package core

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// Control blocks lie in slabs of pages. A deleter marks its block dead and tells nobody: an export looks at the blocks of
// its pool that were exported longest ago, and takes the dead ones back. A dead block rests until the pool has made
// [quarantine] more exports, so that a second call of its deleter finds it dead.
//
//	                     take                       take looks
//	fresh pages, or free ----> live, in exported -----------------> free, if dead; else to the end of exported
//
// Two looks for each export are enough: among what is exported, dead blocks become no more than live ones.
const (
	slabBytes = 64 << 10
	looks     = 2
	maxShards = 64
)

// A pool hands out blocks for tensors of up to a rank, and takes them back. Everything is changed under the mutex; the
// states of blocks also by deleters.
type pool struct {
	mu       sync.Mutex
	exported queue
	free     freeQueue
	exports  uint64 // how many it has made

	fresh, end uintptr // blocks that were not used yet, of one of the slabs
	slabs      []slab
	spare      int // how many of them have no pages
	trimming   bool

	size uintptr // of a block
	_    [64]byte
}

// A slab has blocks, side by side. Its pages may have been given back: they read as free blocks then, which are in no queue.
type slab struct {
	pages uintptr
	spare bool
	since uint64 // how many exports its pool had made then
}

// A queue of blocks, linked by next.
type queue struct {
	first, last *Block
	n           int
}

func (q *queue) push(b *Block) {
	b.next = 0
	if q.n == 0 {
		q.first = b
	} else {
		q.last.next = b.Address()
	}
	q.last = b
	q.n++
}

// pop takes the first block of a queue that has one.
func (q *queue) pop() *Block {
	b := q.first
	q.first = blockAt(b.next)
	q.n--
	return b
}

// A freeQueue is a queue of free blocks, from which any can be taken: they are also linked backwards, by share.
type freeQueue struct{ queue }

func (q *freeQueue) push(b *Block) {
	if q.n > 0 {
		b.share = q.last.Address()
	}
	q.queue.push(b)
}

func (q *freeQueue) remove(b *Block) {
	if b == q.first {
		q.pop()
		return
	}
	before := blockAt(b.share)
	before.next = b.next
	if b == q.last {
		q.last = before
	} else {
		blockAt(b.next).share = before.Address()
	}
	q.n--
}

// largeRanks are those that the pools for more than [rankSmall] dimensions have room for.
var largeRanks = [...]int{16, 32, 64, 128, MaxRank}

// pools are those for small ranks, of which each shard has one, and behind them one for each of largeRanks. nil until the
// first export.
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

func makePools() []pool {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	if all := allPools(); all != nil {
		return all
	}
	n := shards()
	all := make([]pool, n+len(largeRanks))
	for i := range all {
		rank := rankSmall
		if i >= n {
			rank = largeRanks[i-n]
		}
		all[i].size = blockSize(rank)
	}
	pools.all.Store(&all)
	return all
}

// shards is how many pools for small ranks there are, and how many bins: a power of two.
func shards() int {
	n := 1
	for n < 2*runtime.GOMAXPROCS(0) && n < maxShards {
		n *= 2
	}
	return n
}

// shard picks one of n by the address of the caller's stack: a goroutine stays with its own, two goroutines rarely meet.
func shard(n int) int {
	var here byte
	stack := uintptr(unsafe.Pointer(&here))
	return int(stack>>13^stack>>17) & (n - 1)
}

// lockPool locks a pool for a rank: the caller's own, or another one if that is busy.
func lockPool(rank int) *pool {
	all := allPools()
	if all == nil {
		all = makePools()
	}
	small := len(all) - len(largeRanks)
	if rank > rankSmall {
		p := &all[small]
		for _, most := range largeRanks {
			if rank <= most {
				break
			}
			p = (*pool)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(pool{})))
		}
		p.mu.Lock()
		return p
	}
	own := shard(small)
	for i := range small {
		if p := &all[(own+i)&(small-1)]; p.mu.TryLock() {
			return p
		}
	}
	p := &all[own]
	p.mu.Lock()
	return p
}

// NewBlock makes a block live that holds a share, which it takes over, for a tensor of a rank. It returns nil where there
// is no memory.
func NewBlock(s Share, rank int) *Block {
	p := lockPool(rank)
	b := p.take()
	if b != nil {
		b.share = s.slot.address()
		b.state = stateLive // the consumer's threads know of it no sooner than of the block
	}
	p.mu.Unlock()
	return b
}

// take takes a block, which it has put among those that are exported. The pool is locked.
func (p *pool) take() *Block {
	p.exports++
	p.look(looks)
	var b *Block
	if p.free.n > 0 && p.exports-p.free.first.since > quarantine {
		b = p.free.pop()
		b.since = 0
	} else if b = p.carve(); b == nil {
		return nil
	}
	p.exported.push(b)
	return b
}

// look looks at some of the blocks that were exported longest ago. The pool is locked.
func (p *pool) look(n int) {
	for n = min(n, p.exported.n); n > 0; n-- {
		b := p.exported.pop()
		if atomic.LoadUint64(&b.state) != stateDead {
			p.exported.push(b)
			continue
		}
		strike(KindExport, b.Address())
		b.Managed.Tensor.Data = 0 // in either form: a consumer that goes on reading finds none
		(*ManagedLegacy)(unsafe.Pointer(b)).Tensor.Data = 0
		b.since = p.exports
		p.free.push(b)
	}
}

// carve cuts a fresh block from a slab. The pool is locked.
func (p *pool) carve() *Block {
	if p.end-p.fresh < p.size && !p.grow() {
		return nil
	}
	b := blockAt(p.fresh)
	p.fresh += p.size
	return b
}

// grow gets a slab to carve blocks from. The pool is locked.
func (p *pool) grow() bool {
	var s *slab
	for i := range p.slabs {
		if p.spare > 0 && p.slabs[i].spare && p.exports-p.slabs[i].since > quarantine {
			s = &p.slabs[i]
			p.spare--
			break
		}
	}
	if s == nil {
		pages := mapPages(slabBytes)
		if pages == 0 {
			return false
		}
		p.slabs = append(p.slabs, slab{pages: pages})
		s = &p.slabs[len(p.slabs)-1]
	}
	s.spare = false
	p.fresh, p.end = s.pages, s.pages+slabBytes
	return true
}

// end ends a block in a state, as its deleter does, without leaving Go. It reports false for one that C code made.
func (b *Block) end(state uint64) bool {
	share, home := b.share, b.home
	if home != 0 {
		return false
	}
	if !atomic.CompareAndSwapUint64(&b.state, state, stateDead) {
		doubleDeletes.Add(1)
		return true
	}
	slotAt(share).drop()
	return true
}

var doubleDeletes atomic.Uint64

// lookAtAll looks at all blocks that are exported, some at a time, and returns how many of them live.
func lookAtAll() (live int64) {
	all := allPools()
	for i := range all {
		live += int64(all[i].lookAtAll())
	}
	return live
}

func (p *pool) lookAtAll() int {
	const some = 32
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := p.exported.n; n > 0; n -= some {
		p.look(min(n, some))
		p.mu.Unlock() // exports need not wait for all of it
		p.mu.Lock()
	}
	return p.exported.n
}

// trim gives the pages of slabs back of which all blocks are free, where most of a pool's blocks are.
func trim() {
	all := allPools()
	for i := range all {
		p := &all[i]
		p.mu.Lock()
		worthwhile := len(p.slabs)-p.spare > 2 && !p.trimming
		p.trimming = p.trimming || worthwhile
		p.mu.Unlock()
		if worthwhile {
			background.Go(p.trim)
		}
	}
}

func (p *pool) trim() {
	p.lookAtAll()
	p.mu.Lock()
	perSlab := int(slabBytes / p.size)
	for i := 0; i < len(p.slabs) && p.free.n > p.exported.n+2*perSlab; i++ {
		if s := p.slabs[i]; p.discard(s) { // and nobody finds it before it is a spare one
			p.mu.Unlock()
			clearPages(s.pages, slabBytes)
			p.mu.Lock()
			p.slabs[i].spare, p.slabs[i].since = true, p.exports
			p.spare++
		}
		p.mu.Unlock() // exports need not wait for all of it
		p.mu.Lock()
	}
	p.trimming = false
	p.mu.Unlock()
}

// discard takes all blocks of a slab out of the queue of free ones, if they are all there. The pool is locked.
func (p *pool) discard(s slab) bool {
	end := s.pages + slabBytes
	if s.spare || p.end == end { // blocks are carved from it
		return false
	}
	for at := s.pages; end-at >= p.size; at += p.size {
		if blockAt(at).since == 0 {
			return false
		}
	}
	for at := s.pages; end-at >= p.size; at += p.size {
		p.free.remove(blockAt(at))
	}
	return true
}
