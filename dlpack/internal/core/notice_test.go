//go:build cgo

package core

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// An export that takes a share while detach takes the handle out keeps the old slot. The memory may then get another
// slot, and OnRelease waits for both.
func TestOnReleaseWaitsForSlotsThatWereDetached(t *testing.T) {
	for _, oldFirst := range []bool{true, false} {
		before := Pinned()
		m := pinned(t)
		old, status := m.FirstExport(1)
		require.Equal(t, OK, status)
		h := m.loadHandle()
		m.marks.Or(detached) // what detach does, had it seen a count of 1 before that export took its share
		require.True(t, m.swapHandle(h, noHandle))
		require.False(t, h.slot().leave())

		second, status := m.FirstExport(1)
		require.Equal(t, OK, status)
		require.Equal(t, before+2, Pinned())
		calls := 0
		require.Equal(t, OK, m.OnRelease(func() { calls++ }))
		m.Close()
		first, last := old, second
		if !oldFirst {
			first, last = second, old
		}
		first.end(stateLive)
		background.Wait()
		assert.Zero(t, calls)
		last.end(stateLive)
		background.Wait()
		assert.Equal(t, 1, calls)
		assert.Equal(t, before, Pinned())
	}
}

// Memory with OnRelease keeps its slot, and so its pin, until it is released.
func TestOnReleaseKeepsThePin(t *testing.T) {
	before := Pinned()
	m := pinned(t)
	calls := 0
	require.Equal(t, OK, m.OnRelease(func() { calls++ }))
	h := m.loadHandle()
	assert.Equal(t, before+1, Pinned())
	block, status := m.FirstExport(1)
	require.Equal(t, OK, status)
	block.end(stateLive)
	Reap()
	assert.Equal(t, h, m.loadHandle())
	assert.Equal(t, before+1, Pinned())
	background.Wait()
	assert.Zero(t, calls)
	m.Close()
	assert.Equal(t, before, Pinned())
	background.Wait()
	assert.Equal(t, 1, calls)
}
