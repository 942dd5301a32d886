//go:build cgo

package zeromq

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestOwnersFindsAFrameInAnyTensorThatHasIt(t *testing.T) {
	memory := make([]byte, 100)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		ts := []*dlpack.Tensor{nil}
		var ranges [][2]int
		for range random.IntN(6) {
			from := random.IntN(len(memory))
			to := from + random.IntN(len(memory)-from)
			x := must.Do(dlpack.FromSlice(memory[from:to]))(t)
			defer x.Close()
			ts, ranges = append(ts, x), append(ranges, [2]int{from, to})
		}
		o := ownersOf(ts)
		for range 50 {
			from := random.IntN(len(memory))
			to := from + random.IntN(len(memory)-from)
			in := func(r [2]int) bool { return from < to && r[0] <= from && to <= r[1] }
			var want bool
			for _, r := range ranges {
				want = want || in(r)
			}
			got := o.of(memory[from:to])
			require.Equal(t, want, got != nil, "%d to %d in %v", from, to, ranges)
			for i, x := range ts[1:] {
				assert.False(t, got == x && !in(ranges[i]))
			}
		}
	}
}

// Send looks at each tensor once, however many parts are copies. Searching all tensors for each part would take
// quadratic time.
func TestEncodeLooksAtEachTensorOnce(t *testing.T) {
	const n = 500
	ts := make([]*dlpack.Tensor, n)
	for i := range ts {
		x, err := dlpack.FromSlice([]int32{int32(i)})
		require.NoError(t, err)
		defer x.Close()
		ts[i] = x
		if i%2 == 0 {
			ts[i], err = x.BroadcastTo(2) // becomes a compact copy
			require.NoError(t, err)
			defer ts[i].Close()
		}
	}
	looks := countLooks(t)
	m := must.Do(Encode(ts))(t)
	defer m.Close()
	assert.Len(t, m.owners, n/2)
	assert.Equal(t, n, *looks)
}

// countLooks counts the calls of memoryOf until the test ends.
func countLooks(t *testing.T) *int {
	looks := new(int)
	before := memoryOf
	memoryOf = func(x *dlpack.Tensor) ([]byte, int64, error) {
		*looks++
		return before(x)
	}
	t.Cleanup(func() { memoryOf = before })
	return looks
}
