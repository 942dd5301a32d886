//go:build cgo

package dlpack

import "sync/atomic"

const (
	// ringBlocks is how many exports lie between two of the same block at least, as in the free list.
	ringBlocks = quarantine

	// ringAfter is how often a tensor is exported before it gets a ring: most are exported once.
	ringAfter = 3
)

// A ring keeps blocks that were exported on one tensor ready for its next exports, with the share or the
// pin that they hold: such an export, and the deleter after it, are one atomic instruction each. The
// state of a block says which ring it belongs to, so that nobody who comes late takes it for another's.
//
//	      Export         deleter
//	idle --------> live --------> idle     of the ring
//	 |              |
//	 | retire       | detach
//	 v              v     deleter
//	dead           live --------> dead     of none
//
// Idle blocks are retired when their tensor is closed, at each collection (memory that was forgotten
// must not stay pinned), and by [Reap]. A live block is detached when its tensor is closed, and when its
// turn has come round before its deleter was called.
type ring struct {
	live, idle uint64 // the states of its blocks
	pool       *pool
	listed     bool // in pool.rings
	turn       uint
	blocks     [ringBlocks]atomic.Uintptr // or 0; changed under the pool's mutex
}

// rings has a place for the ring of each pool.
type rings []atomic.Pointer[ring]

var ringNumber atomic.Uint64

func newRing(p *pool) *ring {
	number := ringNumber.Add(1) * (states + 1)
	return &ring{live: number | stateLive, idle: number | stateIdle, pool: p}
}

// next moves on to the next place. Goroutines that share a pool may come to the same one: the turn is a hint
// and no more, since an atomic count would take as long as the rest of an export, and the race
// detector need not hear of it.
//
//go:norace
func (r *ring) next() *atomic.Uintptr {
	r.turn++
	return &r.blocks[r.turn%ringBlocks]
}

// here is where next has just moved to, as far as can be said.
//
//go:norace
func (r *ring) here() *atomic.Uintptr { return &r.blocks[r.turn%ringBlocks] }

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
	b := (*block)(pointer(r.next().Load()))
	if b == nil || !atomic.CompareAndSwapUint64(&b.state, r.idle, r.live) {
		return nil
	}
	return b
}

// enlist puts a new block of the tensor's, whose pool is locked, where ready has just looked, and returns
// the state that makes it live. A tensor of few exports has no ring; then, and where a block has become
// idle since, or every export is to be known apart, the block belongs to none.
func (t *Tensor) enlist(p *pool, b *block) (state uint64) {
	if ledger.on.Load() || debugging {
		return stateLive
	}
	all := t.rings.Load()
	if all == nil {
		if t.status.Add(exportedOnce) <= ringAfter*exportedOnce {
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
	place := r.here()
	if last := (*block)(pointer(place.Load())); last != nil && !atomic.CompareAndSwapUint64(&last.state, r.live, stateLive) {
		return stateLive
	}
	place.Store(address(b))
	if !r.listed {
		r.listed = true
		p.rings = append(p.rings, r)
	}
	return r.live
}

// A retirement is what the idle blocks of a ring held of a share.
type retirement struct {
	share uintptr
	count int64
}

func (r retirement) drop() {
	if r.count > 0 {
		dropShares(r.share, r.count)
	}
}

// retire buries the idle blocks, and detaches the live ones if all are to go. The pool is locked; what the
// blocks held is dropped by the caller after it, since that may run a foreign deleter.
func (r *ring) retire(all bool) (held retirement, left bool) {
	for i := range r.blocks {
		b := (*block)(pointer(r.blocks[i].Load()))
		for b != nil {
			if atomic.CompareAndSwapUint64(&b.state, r.idle, stateDead) {
				if b.share != 0 {
					held.share = b.share
					held.count++
				}
				r.pool.bury(b)
			} else if !all {
				left = true
				break
			} else if !atomic.CompareAndSwapUint64(&b.state, r.live, stateLive) {
				continue // has become idle
			}
			r.blocks[i].Store(0)
			b = nil
		}
	}
	return held, left
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
			held, _ := r.retire(true)
			r.pool.mu.Unlock()
			held.drop()
		}
	}
}

// retireIdle ends what is idle in the rings of all tensors.
func retireIdle() {
	all := allPools()
	for i := range all {
		p := &all[i]
		var held []retirement
		p.mu.Lock()
		rings := p.rings
		p.rings = p.rings[:0]
		for _, r := range rings {
			h, left := r.retire(false)
			if h.count > 0 {
				held = append(held, h)
			}
			if r.listed = left; left {
				p.rings = append(p.rings, r)
			}
		}
		clear(rings[len(p.rings):])
		p.mu.Unlock()
		for _, h := range held {
			h.drop()
		}
	}
}
