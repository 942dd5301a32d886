//go:build cgo

package core

import (
	"math"
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

// A handle takes shares in its own turn only.
func TestOldHandlesTakeNothing(t *testing.T) {
	data := make([]byte, 1)
	share, status := PinOnce(unsafe.Pointer(&data[0]), 1)
	require.Equal(t, OK, status)
	s := share.slot
	old := s.handle()
	again, status := old.take()
	require.Equal(t, OK, status)
	require.Equal(t, s, again)
	share.Drop()
	again.drop()
	_, status = old.take()
	assert.Equal(t, Closed, status, "no share is left")

	b := s.bin()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Equal(t, s, b.take(Collected, 1), "the slot that was put back last")
	require.NotEqual(t, old, s.handle())
	_, status = old.take()
	assert.Equal(t, Closed, status, "it is another's turn")
	assert.EqualValues(t, 1, uint32(s.count))
	require.True(t, s.leave())
	b.put(s)
}

func TestSharesHaveAnEnd(t *testing.T) {
	data := make([]byte, 1)
	share, _ := PinOnce(unsafe.Pointer(&data[0]), 1)
	s := share.slot
	h := s.handle()
	s.count += mostShares - 1
	_, status := h.take()
	assert.Equal(t, Overflow, status)
	s.count -= mostShares - 1
	share.Drop()
}

// Exports race the Close of their memory and reaps, while slots are used again and again: no share is taken of a memory
// that has ended, and each ends once.
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
					share, status := m.Share()
					if status != OK && m.Acquire() == OK {
						if !closed[n].Load() {
							share, status = m.FirstShare()
						}
						m.Release()
					}
					if status != OK {
						continue
					}
					b := NewBlock(share, 1)
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

func pinned(t *testing.T) *Memory {
	t.Helper()
	data := make([]byte, 64)
	m := new(Memory)
	m.Collect(unsafe.Pointer(&data[0]), 64)
	return m
}

// Collections unpin what nobody else has a share of, and nothing else.
func TestDetachLeavesAloneWhatIsExported(t *testing.T) {
	before := Pinned()
	m := pinned(t)
	share, status := m.FirstShare()
	require.Equal(t, OK, status)
	h := m.loadHandle()
	detach()
	assert.Equal(t, before+1, Pinned(), "an export has a share")
	assert.Equal(t, h, m.loadHandle())

	share.Drop()
	assert.Equal(t, before+1, Pinned(), "the memory is pinned for the next export")
	detach()
	assert.Equal(t, before, Pinned())
	assert.Equal(t, noHandle, m.loadHandle())
	assert.Zero(t, uint32(share.slot.count))

	again, status := m.FirstShare()
	require.Equal(t, OK, status)
	assert.NotEqual(t, h, m.loadHandle())
	m.Close()
	assert.Equal(t, before+1, Pinned())
	again.Drop()
	assert.Equal(t, before, Pinned())
	assert.Zero(t, uint32(again.slot.count), "each share was taken off once")
}

// Go's share is taken off once, by the Close.
func TestDetachLeavesAloneWhatIsClosed(t *testing.T) {
	before := Pinned()
	m := pinned(t)
	share, status := m.FirstShare()
	require.Equal(t, OK, status)
	m.Close()
	detach()
	assert.Equal(t, before+1, Pinned(), "the export has the last share")
	share.Drop()
	assert.Equal(t, before, Pinned())
	assert.Zero(t, uint32(share.slot.count))
}

// Goroutines come to different bins. Slots that one has left in its bin serve the next one.
func TestBinsShareTheirSlots(t *testing.T) {
	const many = 5000
	data := make([]byte, 1)
	before := table.made
	for range 16 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			var frame [40 << 10]byte // another stack, at another address
			shares := make([]Share, many)
			for i := range shares {
				shares[i], _ = PinOnce(unsafe.Pointer(&data[0]), 1)
			}
			for i := range shares {
				shares[i].Drop()
			}
			frame[len(shares)] = 1
		}()
		<-done
	}
	assert.LessOrEqual(t, int(table.made-before), many+len(allBins())*runSlots)
}
