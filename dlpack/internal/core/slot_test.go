//go:build cgo

package core

import (
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlacesInTheTable(t *testing.T) {
	for _, c := range []struct{ index, slab, at uint32 }{
		{0, 0, 0}, {1023, 0, 1023}, {1024, 1, 0}, {3071, 1, 2047}, {3072, 2, 0}, {math.MaxUint32 - 1024 - runSlots, 21, 1<<31 - 1 - runSlots},
	} {
		slab, at := place(c.index)
		assert.Equal(t, [2]uint32{c.slab, c.at}, [2]uint32{slab, at}, "index %d", c.index)
		assert.Less(t, slab, uint32(slabs))
	}
	assert.Zero(t, firstSlab%runSlots, "a run lies in one slab")
}

// A handle takes shares only in its own turn.
func TestOldHandlesTakeNothing(t *testing.T) {
	data := make([]byte, 1)
	block, status := ExportOnce(unsafe.Pointer(&data[0]), 1, 1)
	require.Equal(t, OK, status)
	s := slotAt(block.share)
	old := s.handle()
	again, status := old.retain()
	require.Equal(t, OK, status)
	require.Equal(t, s, again)
	block.end(stateLive)
	again.drop()
	_, status = old.retain()
	assert.Equal(t, Closed, status, "no share is left")

	sh := s.shard()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	require.Equal(t, s, sh.slots.beginTurn(Collected, 1), "the slot that was put back last")
	require.NotEqual(t, old, s.handle())
	_, status = old.retain()
	assert.Equal(t, Closed, status, "it is another's turn")
	assert.EqualValues(t, 1, uint32(s.count))
	require.True(t, s.leave())
	sh.slots.put(s)
}

func TestSharesHaveAnEnd(t *testing.T) {
	data := make([]byte, 1)
	block, _ := ExportOnce(unsafe.Pointer(&data[0]), 1, 1)
	s := slotAt(block.share)
	h := s.handle()
	s.count += mostShares - 1
	_, status := h.retain()
	assert.Equal(t, Overflow, status)
	s.count -= mostShares - 1
	block.end(stateLive)
}

// Exports run at the same time as Reap and the Close of their memory, while slots are reused. No share may be taken of
// memory that has ended, and each memory must end once.
func TestSharesMeetCloses(t *testing.T) {
	start := ReadStats()
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		var memories [8]*Memory
		var closed [8]atomic.Bool // as tensors have it
		for i := range memories {
			memories[i] = new(Memory)
			if i%2 == 0 {
				data := make([]byte, 64)
				memories[i].Collect(unsafe.Pointer(&data[0]), 64)
			} else {
				require.Equal(t, OK, memories[i].Allocate(64, true))
			}
		}
		var group sync.WaitGroup
		for g := range 4 {
			group.Go(func() {
				for i := range 400 {
					n := (g + i) % 8
					m := memories[n]
					b, status := m.Export(1)
					if status != OK && m.Acquire() == OK {
						if !closed[n].Load() {
							b, status = m.FirstExport(1)
						}
						m.Release()
					}
					if status != OK {
						continue
					}
					atomic.AddUint32((*uint32)(Pointer(m.Low)), 1)
					b.end(stateLive)
				}
			})
		}
		group.Go(func() {
			for range 10 {
				Reap()
			}
		})
		for i, m := range memories {
			closed[i].Store(true)
			m.Close()
		}
		group.Wait()
	}
	now := ReadStats()
	assert.Equal(t, start.Allocations, now.Allocations)
	assert.Equal(t, start.Exports, now.Exports)
	assert.Equal(t, start.DoubleDeletes, now.DoubleDeletes)
	assert.Zero(t, Pinned())
}

// The number of live objects is never negative while the counters change.
func TestCountersOfWhatIsAlive(t *testing.T) {
	var c counter
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20_000 {
				c.begin()
				func() { // another frame of the stack, and mostly another part
					var frame [16 << 10]byte
					c.end(int64(1 + frame[len(frame)/2]))
				}()
			}
		})
	}
	for range 2000 {
		require.GreaterOrEqual(t, c.live(), int64(0))
	}
	group.Wait()
	require.Zero(t, c.live())
}

func pinned(t *testing.T) *Memory {
	t.Helper()
	data := make([]byte, 64)
	m := new(Memory)
	m.Collect(unsafe.Pointer(&data[0]), 64)
	return m
}

// If two first exports of a memory run at the same time, one makes the slot, and the other takes a share of it.
func TestAMemoryHasOneSlot(t *testing.T) {
	imported := new(Memory)
	imported.Import(ImportedVersioned, 1<<20, 0, 0, true)
	for _, m := range []*Memory{pinned(t), imported} {
		first, status := m.FirstExport(1)
		require.Equal(t, OK, status)
		h := m.loadHandle()
		second, status := m.firstExport(1)
		require.Equal(t, Closed, status)
		require.Nil(t, second)
		require.Equal(t, h, m.loadHandle())
		require.EqualValues(t, 2, uint32(h.slot().count), "Go's, and the block's")

		first.end(stateLive)
		if m == imported { // there is no tensor that could be released
			m.dropGuard()
			liveImports.end(1)
			continue
		}
		m.Close()
	}
}

// Garbage collections unpin exactly the memory that only Go has a share of.
func TestDetachLeavesAloneWhatIsExported(t *testing.T) {
	before := Pinned()
	m := pinned(t)
	block, status := m.FirstExport(1)
	require.Equal(t, OK, status)
	h := m.loadHandle()
	detach()
	assert.Equal(t, before+1, Pinned(), "an export has a share")
	assert.Equal(t, h, m.loadHandle())

	sh := h.slot().shard()
	sh.mu.Lock() // a collection in the background must not detach it before detach does
	block.end(stateLive)
	assert.EqualValues(t, 64, h.slot().bytes, "the memory is pinned for the next export")
	sh.mu.Unlock()
	detach()
	assert.Equal(t, before, Pinned())
	assert.Equal(t, noHandle, m.loadHandle())
	assert.Zero(t, uint32(slotAt(block.share).count))

	again, status := m.FirstExport(1)
	require.Equal(t, OK, status)
	assert.NotEqual(t, h, m.loadHandle())
	m.Close()
	assert.Equal(t, before+1, Pinned())
	again.end(stateLive)
	assert.Equal(t, before, Pinned())
	assert.Zero(t, uint32(slotAt(again.share).count), "each share was taken off once")
}

// Go's share is given up once, by the Close.
func TestDetachLeavesAloneWhatIsClosed(t *testing.T) {
	before := Pinned()
	m := pinned(t)
	block, status := m.FirstExport(1)
	require.Equal(t, OK, status)
	m.Close()
	detach()
	assert.Equal(t, before+1, Pinned(), "the export has the last share")
	block.end(stateLive)
	assert.Equal(t, before, Pinned())
	assert.Zero(t, uint32(slotAt(block.share).count))
}

// Goroutines use different shards. A slot that one goroutine leaves in its shard serves the next goroutine.
func TestShardsShareTheirSlots(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection ends with a Reap, which locks shards meanwhile
	const many = 5000
	data := make([]byte, 1)
	before := table.made
	for range 16 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			var frame [40 << 10]byte // another stack, at another address
			blocks := make([]*Block, many)
			for i := range blocks {
				blocks[i], _ = ExportOnce(unsafe.Pointer(&data[0]), 1, 1)
			}
			for _, b := range blocks {
				b.end(stateLive)
			}
			frame[len(blocks)] = 1
		}()
		<-done
	}
	assert.Less(t, int(table.made-before), 2*many, "but for runs that were taken while other shards were locked")
}
