//go:build cgo && !race && !asan

package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Not under the race detector, where a sync.Pool forgets things at random, nor under AddressSanitizer, where
// more values escape to the heap.
func TestAViewIsOneAllocation(t *testing.T) {
	tensor, err := dlpack.New(dlpack.Float32, 3, 4, 5)
	require.NoError(t, err)
	defer tensor.Close()
	for _, view := range views {
		allocations := testing.AllocsPerRun(200, func() {
			v, err := view.make(tensor)
			require.NoError(t, err)
			v.Close()
		})
		assert.LessOrEqual(t, allocations, 1.0, view.name)
	}
	assert.Zero(t, testing.AllocsPerRun(200, func() {
		_, err := dlpack.At[float32](tensor, 2, 3, 4)
		require.NoError(t, err)
		require.NoError(t, dlpack.SetAt[float32](tensor, 1, 2, 3, 4))
	}))
}
