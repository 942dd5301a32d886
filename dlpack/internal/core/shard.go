//go:build cgo

package core

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A shard has slots and a block cache for tensors of small ranks under one mutex, because a first export needs both.
// Goroutines on different processors rarely use the same shard. The last shards of the list are for larger ranks, one
// shard for each of largeRanks; their slots are not used.
type shard struct {
	mu     sync.Mutex
	slots  bin
	blocks blockCache
	_      [64]byte
}

const maxShards = 64

// largeRanks are the largest ranks of the blocks of the last shards.
var largeRanks = [...]int{16, 32, 64, 128, MaxRank}

// shards holds all shards, which are made when a slot is first needed.
var shards struct {
	mu           sync.Mutex // while they are made
	all          atomic.Pointer[[]shard]
	returnQueues uintptr // address of an array in C memory: one queue for each shard
}

func allShards() []shard {
	if all := shards.all.Load(); all != nil {
		return *all
	}
	return nil
}

// lockedShards yields each shard, locked. The caller may unlock the shard for a moment.
func lockedShards(yield func(sh *shard) bool) {
	all := allShards()
	for i := range all {
		all[i].mu.Lock()
		more := yield(&all[i])
		all[i].mu.Unlock()
		if !more {
			return
		}
	}
}

// yield unlocks a shard for a moment, so that exports need not wait for long work on it.
func (sh *shard) yield() {
	sh.mu.Unlock()
	sh.mu.Lock()
}

// makeShards makes the shards, unless another goroutine has made them. It returns nil if there is no memory.
func makeShards() []shard {
	shards.mu.Lock()
	defer shards.mu.Unlock()
	if all := allShards(); all != nil {
		return all
	}
	small := 1 // a power of two
	for small < 2*runtime.GOMAXPROCS(0) && small < maxShards {
		small *= 2
	}
	all := make([]shard, small+len(largeRanks))
	queues := allocateLasting(uintptr(len(all)) * unsafe.Sizeof(returnQueue{}))
	if queues == 0 {
		return nil
	}
	for i := range all {
		all[i].slots.dead = (*returnQueue)(Pointer(queues + uintptr(i)*unsafe.Sizeof(returnQueue{})))
		rank := rankSmall
		if i >= small {
			rank = largeRanks[i-small]
		}
		all[i].blocks.size = blockSize(rank)
	}
	shards.returnQueues = queues
	startReaping()
	shards.all.Store(&all)
	return all
}

// lockShard locks a shard for small ranks: the caller's, or another shard if that is busy. It returns nil if there is
// no memory for shards.
func lockShard() *shard {
	all := allShards()
	if all == nil {
		if all = makeShards(); all == nil {
			return nil
		}
	}
	own, mask := shardOfThisThread(), uint(len(all)-len(largeRanks)-1)
	for i := range mask + 1 {
		if sh := &all[(own+i)&mask]; sh.mu.TryLock() {
			return sh
		}
	}
	sh := &all[own&mask]
	sh.mu.Lock()
	return sh
}

// shardOfThisThread returns a hash of the address of the caller's stack. It is usually the same for all calls by one
// goroutine and different for other goroutines, so that goroutines use different shards and different parts of
// counters.
func shardOfThisThread() uint {
	var local byte
	stack := uintptr(unsafe.Pointer(&local))
	return uint(stack>>13 ^ stack>>17)
}

// lockLarge locks the shard whose blocks are for a rank above [rankSmall]. The shards must have been made.
func lockLarge(rank int) *shard {
	all := allShards()
	large := all[len(all)-len(largeRanks):]
	i := 0
	for largeRanks[i] < rank {
		i++
	}
	large[i].mu.Lock()
	return &large[i]
}

// lockSlots is lockShard for a caller that needs a slot: if the shard has no free slot, it prefers a shard that has one
// and is not busy.
func lockSlots() *shard {
	sh := lockShard()
	if sh == nil || sh.slots.hasSlot() {
		return sh
	}
	all := allShards()
	for i := range all[:len(all)-len(largeRanks)] { // otherwise goroutines that move between shards would make slots in each
		if other := &all[i]; other != sh && other.mu.TryLock() {
			if other.slots.hasSlot() {
				sh.mu.Unlock()
				return other
			}
			other.mu.Unlock()
		}
	}
	return sh
}

// newBlock returns a live block for a tensor of a rank. The block takes over the caller's share of the slot. If there is no
// memory, newBlock gives up the share and returns nil.
func (s *slot) newBlock(rank int) *Block {
	var sh *shard
	if rank <= rankSmall {
		sh = lockShard()
	} else {
		sh = lockLarge(rank)
	}
	b := sh.blocks.makeLive(s)
	sh.mu.Unlock()
	if b == nil {
		s.drop()
	}
	return b
}
