//go:build cgo

package core

import (
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// Control blocks lie in slabs of pages. A deleter marks its block dead and leaves it where it is. Each export looks at
// the blocks at the front of its cache's exported queue, and moves the dead ones to the free queue. There a block rests
// until the cache has made [quarantine] more exports. Until then, a second call of its deleter finds it dead.
//
//	                     take                       take looks
//	fresh pages, or free ----> live, in exported -----------------> free, if dead; else to the end of exported
//
// With two looks for each export, dead blocks do not pile up in the exported queue: while they outnumber the live ones,
// their number falls (DESIGN.md of package dlpack shows why).
const (
	slabBytes = 64 << 10
	looks     = 2
)

// A blockCache hands out blocks for tensors of up to a rank, and takes them back. It changes only while its shard is locked,
// except for the states of blocks, which deleters change.
type blockCache struct {
	exported queue
	free     freeQueue
	exports  uint64 // that the cache has made

	fresh, end uintptr // the part of a slab whose blocks were not used yet
	slabs      []slab
	spare      []int // indices of the slabs whose pages were given back, the earliest first
	trimming   bool

	size uintptr // of a block, in bytes
}

// A slab holds consecutive blocks. If its pages were given back, they read as free blocks, which are in no queue.
type slab struct {
	pages uintptr
	spare bool
	since uint64 // exports of its cache when the pages were given back
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

// pop takes the first block of a queue that is not empty.
func (q *queue) pop() *Block {
	b := q.first
	q.first = blockAt(b.next)
	q.n--
	return b
}

// A freeQueue is a queue of free blocks. The blocks are also linked backwards, by share, so that any block can be
// removed.
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

// makeLive returns a live block, which is in the exported queue. The block takes over the caller's share of the slot.
// If there is no memory, makeLive returns nil, and the caller keeps the share.
func (c *blockCache) makeLive(s *slot) *Block {
	c.exports++
	c.look(looks)
	var b *Block
	if c.free.n > 0 && c.exports-c.free.first.since > quarantine {
		b = c.free.pop()
		b.since = 0
	} else if b = c.carve(); b == nil {
		return nil
	}
	b.share = s.address()
	b.state = stateLive // not atomic: the consumer gets the block only later
	c.exported.push(b)
	return b
}

// look takes at most n blocks from the front of the exported queue. It moves dead blocks to the free queue, and the
// others to the end of the exported queue.
func (c *blockCache) look(n int) {
	for n = min(n, c.exported.n); n > 0; n-- {
		b := c.exported.pop()
		if atomic.LoadUint64(&b.state) != stateDead {
			c.exported.push(b)
			continue
		}
		removeRecord(KindExport, b.Address())
		b.Managed.Tensor.Data = 0 // in both forms, so that a consumer that wrongly goes on reading finds NULL
		(*ManagedLegacy)(unsafe.Pointer(b)).Tensor.Data = 0
		b.since = c.exports
		c.free.push(b)
	}
}

// carve takes the next block from the current slab, or from another slab if no block is left there. It returns nil if
// there is no memory.
func (c *blockCache) carve() *Block {
	if c.end-c.fresh < c.size && !c.grow() {
		return nil
	}
	b := blockAt(c.fresh)
	c.fresh += c.size
	return b
}

// grow gets a slab to carve blocks from: a slab whose pages were given back long enough ago, or a new slab. It reports
// false if there is no memory.
func (c *blockCache) grow() bool {
	var s *slab
	if len(c.spare) > 0 && c.exports-c.slabs[c.spare[0]].since > quarantine {
		s = &c.slabs[c.spare[0]]
		c.spare = c.spare[1:]
	} else {
		pages := mapPages(slabBytes)
		if pages == 0 {
			return false
		}
		c.slabs = append(c.slabs, slab{pages: pages})
		s = &c.slabs[len(c.slabs)-1]
	}
	s.spare = false
	c.fresh, c.end = s.pages, s.pages+slabBytes
	return true
}

// end ends a block in the given state, as its deleter does, but without leaving Go. In any other state it counts an
// ignored call. It does nothing and reports false if the block has a return queue: only C code adds to that.
func (b *Block) end(state uint64) bool {
	share, returns := b.share, b.returns
	if returns != 0 {
		return false
	}
	if !atomic.CompareAndSwapUint64(&b.state, state, stateDead) {
		doubleDeletes.Add(1)
		reportRepeat(b, atomic.LoadUint64(&b.state))
		return true
	}
	slotAt(share).drop()
	return true
}

var doubleDeletes atomic.Uint64

// lookAtAll looks at all exported blocks of all caches, frees the dead ones, and returns the number of the others.
func lookAtAll() (live int64) {
	all := allShards()
	for i := range all {
		live += int64(all[i].lookAtAll())
	}
	return live
}

func (sh *shard) lookAtAll() int {
	const some = 32
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for n := sh.blocks.exported.n; n > 0; n -= some {
		sh.blocks.look(min(n, some))
		sh.yield()
	}
	return sh.blocks.exported.n
}

// trim gives pages back to the system, in the background, for each cache that has more than two slabs with pages.
func trim() {
	for sh := range lockedShards {
		if c := &sh.blocks; len(c.slabs)-len(c.spare) > 2 && !c.trimming {
			c.trimming = true
			background.Go(sh.trim)
		}
	}
}

// trim gives back the pages of slabs whose blocks are all free, as long as free blocks outnumber exported blocks by
// more than two slabs.
func (sh *shard) trim() {
	sh.lookAtAll()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c := &sh.blocks
	perSlab := int(slabBytes / c.size)
	for i := 0; i < len(c.slabs) && c.free.n > c.exported.n+2*perSlab; i++ {
		if s := c.slabs[i]; c.discard(s) { // from here on nobody finds it until it is in c.spare
			sh.mu.Unlock()
			clearPages(s.pages, slabBytes)
			sh.mu.Lock()
			c.slabs[i].spare, c.slabs[i].since = true, c.exports
			c.spare = append(c.spare, i)
		}
		sh.yield()
	}
	c.trimming = false
}

// discard removes all blocks of a slab from the free queue, if they are all in it, and reports whether it has.
func (c *blockCache) discard(s slab) bool {
	end := s.pages + slabBytes
	if s.spare || c.end == end { // it has no pages, or blocks are still carved from it
		return false
	}
	for at := s.pages; end-at >= c.size; at += c.size {
		if blockAt(at).since == 0 {
			return false
		}
	}
	for at := s.pages; end-at >= c.size; at += c.size {
		c.free.remove(blockAt(at))
	}
	return true
}
