//go:build cgo

package core

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (sh *shard) export() *Block {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.blocks.makeLive(new(slot))
}

// die marks the block dead, as its deleter does.
func (b *Block) die() { atomic.StoreUint64(&b.state, stateDead) }

func newBlockCache(rank int) (*shard, *blockCache) {
	sh := &shard{blocks: blockCache{size: blockSize(rank)}}
	return sh, &sh.blocks
}

// Each dead block rests while its cache makes 64 more exports, in whatever order blocks die. In addition to resting
// blocks, there are at most two and a half times as many blocks as were ever alive at the same time.
func TestBlocksRestAndAreFew(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		sh, c := newBlockCache(rankSmall)
		died := map[*Block]uint64{}
		var live []*Block
		most := 0
		limit := 1 + random.IntN(3000)
		for range 60_000 {
			if random.IntN(1000) == 0 {
				limit = 1 + random.IntN(3000)
			}
			for len(live) >= limit || len(live) > 0 && random.IntN(3) == 0 {
				i := random.IntN(len(live)) // some live long
				if random.IntN(2) == 0 {
					i = len(live) - 1
				}
				b := live[i]
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				b.die()
				died[b] = c.exports
				if random.IntN(10) == 0 {
					sh.lookAtAll() // as counters do
				}
			}
			b := sh.export()
			if at, used := died[b]; used {
				require.GreaterOrEqual(t, c.exports-1-at, uint64(quarantine), "further exports before this one")
			}
			live = append(live, b)
			most = max(most, len(live))
		}
		assert.LessOrEqual(t, c.exported.n+c.free.n, most*5/2+4*quarantine, "seed %d, %d live", seed, most)
		require.Equal(t, len(live), sh.lookAtAll())
	}
}

// With only one look for each export, dead blocks behind long-lived ones would be found later and later.
func TestDeadBlocksDoNotPileUpBehindLiveOnes(t *testing.T) {
	sh, c := newBlockCache(rankSmall)
	const live = 500
	for range live {
		sh.export()
	}
	for range 100_000 {
		sh.export().die()
	}
	assert.LessOrEqual(t, c.exported.n+c.free.n, 2*live+2*quarantine)
}

// After a peak, slabs whose blocks are all free have no pages.
func TestPagesAreGivenBackAfterAPeak(t *testing.T) {
	for _, rank := range []int{rankSmall, 16, MaxRank} {
		sh, c := newBlockCache(rank)
		const peak = 5000
		var blocks []*Block
		for range peak {
			blocks = append(blocks, sh.export())
		}
		slabs := len(c.slabs)
		for i, b := range blocks {
			if i != peak/2 {
				b.die()
			}
		}
		sh.trim()
		perSlab := int(slabBytes / c.size)
		assert.LessOrEqual(t, slabs-len(c.spare), 1+1+1+2, "the one that is live has a slab, and another is kept for what comes")
		assert.LessOrEqual(t, c.free.n, 1+3*perSlab)
		assert.Equal(t, 1, c.exported.n)

		before := doubleDeletes.Load()
		for i, b := range blocks {
			if i != peak/2 {
				require.True(t, b.end(stateLive), "a block without pages is a free one")
			}
		}
		assert.EqualValues(t, before+peak-1, doubleDeletes.Load())

		died := map[*Block]bool{}
		for _, b := range blocks {
			died[b] = true
		}
		seen := map[*Block]bool{blocks[peak/2]: true}
		for i := range peak {
			b := sh.export()
			require.False(t, i < quarantine && died[b], "blocks rest, also where their pages were given back")
			require.False(t, seen[b])
			seen[b] = true
		}
		assert.LessOrEqual(t, len(c.slabs), slabs+4+quarantine/perSlab, "the slabs are used again")
	}
}

// Pages are given back while other goroutines export and delete blocks.
func TestTrimMeetsExports(t *testing.T) {
	sh, _ := newBlockCache(rankSmall)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				sh.trim()
			}
		}
	}()
	for range 50 {
		var blocks []*Block
		for range 2000 {
			b := sh.export()
			b.share = 0
			b.Dims[0] = 7
			blocks = append(blocks, b)
		}
		for _, b := range blocks {
			require.EqualValues(t, 7, b.Dims[0], "nobody clears the pages of a live block")
			b.Dims[0] = 0
			b.die()
		}
	}
	close(stop)
	<-done
	assert.Zero(t, sh.lookAtAll())
}

func TestLargeRanksHaveBlockCachesOfTheirSize(t *testing.T) {
	makeShards()
	for rank, size := range map[int]uintptr{9: 384, 16: 384, 17: 640, 64: 1152, 128: 2176, 256: 4224} {
		sh := lockLarge(rank)
		assert.Equal(t, size, sh.blocks.size, "rank %d", rank)
		sh.mu.Unlock()
	}
}
