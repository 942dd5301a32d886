//go:build cgo

package dlpack

import (
	"sync/atomic"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

const (
	// ringBlocks is how many exports of a tensor it takes until one uses the same block again.
	ringBlocks = quarantine

	// ringAfter is how often a tensor is exported before it gets a ring: most are exported once.
	ringAfter = 3

	// keptBlocks is how many blocks the rings of a pool keep at most. Slabs are never given back.
	keptBlocks = 1 << 14
)

// A ring keeps blocks that were exported on one tensor ready for its next exports, with the share or the
// pin that they hold: such an export, and the deleter after it, are one atomic instruction each. The
// state of a block says which ring it belongs to, so that nobody who comes late takes it for another's, and
// in which turn it was exported last, so that nobody takes it too soon.
//
//	      Export         deleter
//	idle --------> live --------> idle     of the ring
//	 |              |
//	 | retire       | retire
//	 v              v     deleter
//	dead           live --------> dead     of none
//
// All blocks of a ring are retired when its tensor is closed, at each collection, and by [Reap]: a tensor that
// was forgotten keeps nothing, neither idle blocks nor those that are alive, once their deleters are called. A
// live block is let go as well when its turn has come round before its deleter was called.
type ring struct {
	number uint64 // the bits of its blocks' states that say so
	pool   *pool
	listed bool // in pool.rings
	turn   uint64
	blocks [ringBlocks]atomic.Uintptr // or 0; changed under the pool's mutex
}

// rings has a place for the ring of each pool.
type rings []atomic.Pointer[ring]

// What the state of a ring's block has from turnUnit on, and from ringUnit on.
const (
	turnUnit  = states + 1
	ringUnit  = turnUnit << 22
	turnsMask = ringUnit - turnUnit
)

var ringNumber atomic.Uint64

func newRing(p *pool) *ring { return &ring{number: ringNumber.Add(1) * ringUnit, pool: p} }

// next moves on to the next turn. Goroutines that share a pool may come to the same one, or set it back: it is a
// hint and no more, since an atomic count would take as long as the rest of an export, and the race
// detector need not hear of it.
//
//go:norace
func (r *ring) next() uint64 {
	r.turn++
	return r.turn
}

// now is the turn that next has just moved to, as far as can be said.
//
//go:norace
func (r *ring) now() uint64 { return r.turn }

// place is where a turn finds its block.
func (r *ring) place(turn uint64) *atomic.Uintptr { return &r.blocks[turn%ringBlocks] }

// live is the state of a block that is exported in a turn.
func (r *ring) live(turn uint64) uint64 {
	return r.number | turn*turnUnit&turnsMask | stateLive
}

// rested reports whether a state is that of an idle block of the ring, and whole turns of it lie between.
func (r *ring) rested(state, turn uint64) bool {
	since := (turn*turnUnit - state&turnsMask) & turnsMask
	return state&^turnsMask == r.number|stateIdle && since >= ringBlocks*turnUnit && since <= turnsMask/2
}

// ready returns a block of the tensor's and the pool's that was idle and is live now; nil where the next one
// is not.
func (t *Tensor) ready(p *pool) *block {
	all := t.rings.Load()
	if all == nil || ledger.on.Load() {
		return nil
	}
	r := (*all)[p.index].Load()
	if r == nil {
		return nil
	}
	turn := r.next()
	b := (*block)(pointer(r.place(turn).Load()))
	if b == nil {
		return nil
	}
	state := atomic.LoadUint64(&b.state)
	if !r.rested(state, turn) || !atomic.CompareAndSwapUint64(&b.state, state, r.live(turn)) {
		return nil
	}
	return b
}

// isRare counts an export of a tensor without a ring, as [ring.next] counts: of two at a time, one may be missed.
//
//go:norace
func (t *Tensor) isRare() bool {
	t.exports++
	return t.exports <= ringAfter
}

// enlist puts a new block of the tensor's, whose pool is locked, where ready has just looked, and returns
// the state that makes it live. A tensor of few exports has no ring; then, and where a block has become
// idle since, or every export is to be known apart, the block belongs to none.
func (t *Tensor) enlist(p *pool, b *block) (state uint64) {
	if ledger.on.Load() || debugging || p.kept >= keptBlocks {
		return stateLive
	}
	all := t.rings.Load()
	if all == nil {
		if t.isRare() {
			return stateLive
		}
		made := make(rings, len(allPools()))
		t.rings.CompareAndSwap(nil, &made)
		all = t.rings.Load()
	}
	own := &(*all)[p.index]
	r := own.Load()
	if r == nil {
		r = newRing(p)
		own.Store(r)
	}
	turn := r.now()
	place := r.place(turn)
	if last := (*block)(pointer(place.Load())); last == nil {
		p.kept++
	} else if state := atomic.LoadUint64(&last.state); state&states == stateIdle ||
		!atomic.CompareAndSwapUint64(&last.state, state, state&states) {
		return stateLive
	}
	place.Store(address(b))
	if !r.listed {
		r.listed = true
		p.rings = append(p.rings, r)
	}
	return r.live(turn)
}

// retire lets all blocks of a ring go: it buries the idle ones, and live ones are left to their deleters. The pool
// is locked. Where that gave up the last share of a memory it is returned, for [pool.unlock].
func (r *ring) retire() (ended uintptr) {
	p := r.pool
	var held uintptr
	var count int64
	r.listed = false
	for i := range r.blocks {
		b := (*block)(pointer(r.blocks[i].Load()))
		for b != nil {
			state := atomic.LoadUint64(&b.state)
			then := state & states // live, or taken over
			if then == stateIdle {
				then = stateDead
			}
			if !atomic.CompareAndSwapUint64(&b.state, state, then) {
				continue // exported or deleted meanwhile
			}
			if then == stateDead {
				if b.share != 0 {
					held = b.share
					count++
				}
				p.bury(b)
			}
			r.blocks[i].Store(0)
			p.kept--
			b = nil
		}
	}
	// The shares, which are of one memory, are given up under the lock, so that a Close that finds none left in the
	// ring is the last one.
	if count > 0 && giveUp(held, count) {
		return held
	}
	return 0
}

// unlock unlocks the pool, and then ends a share, if there is one: that of a memory that was forgotten, since of any
// other Go holds a share. It may run a foreign deleter, for which neither a collection nor whoever reaps may wait.
func (p *pool) unlock(ended uintptr) {
	p.mu.Unlock()
	if ended != 0 {
		background.Release(func() { coreEndShare(ended) })
	}
}

// retire ends the rings of a tensor that is closed.
func (t *Tensor) retire() {
	all := t.rings.Load()
	if all == nil {
		return
	}
	for i := range *all {
		if r := (*all)[i].Load(); r != nil {
			r.pool.mu.Lock()
			r.pool.unlock(r.retire())
		}
	}
}

// retireRings lets the blocks of all rings go. A ring is listed until it is retired, so that whoever reaps at the
// same time finds nothing left once it returns.
func retireRings() {
	all := allPools()
	for i := range all {
		p := &all[i]
		p.mu.Lock()
		rings := len(p.rings)
		p.mu.Unlock()
		for ; rings > 0; rings-- { // those that are listed meanwhile wait for the next time
			p.mu.Lock()
			p.unlock(p.retireFirst())
		}
	}
}

// retireFirst retires the ring that was listed first, if any is. The pool is locked.
func (p *pool) retireFirst() (ended uintptr) {
	if len(p.rings) == 0 {
		return 0
	}
	r := p.rings[0]
	p.rings[0] = nil
	if p.rings = p.rings[1:]; len(p.rings) == 0 {
		p.rings = nil
	}
	return r.retire()
}
