//go:build linux || darwin

package dlpack_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
)

func TestRequireMemoryTellsWhatCannotBeHad(t *testing.T) {
	for _, n := range []int64{math.MinInt64, -1, 0, 1, 1 << 20, 64<<20 - 1} {
		assert.NoError(t, dlpack.RequireMemory(n), "%d bytes", n)
	}
	for _, n := range []int64{1<<47 - 1<<30, 1 << 47, 1 << 62, math.MaxInt64} {
		err := dlpack.RequireMemory(n)
		assert.ErrorIs(t, err, dlpack.ErrMemory, "%d bytes", n)
		assert.ErrorContains(t, err, "no memory for ")
	}
}
