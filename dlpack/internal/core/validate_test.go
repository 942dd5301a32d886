//go:build cgo

package core

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// The fast path gives the same result as arithmetic with numbers of any size, even at its limits.
func TestOrdinaryExtentsDoNotOverflow(t *testing.T) {
	testmode.SkipLong(t)
	random := rand.New(rand.NewPCG(1, 2))
	near := func(limits ...int64) int64 { return limits[random.IntN(len(limits))] + random.Int64N(5) - 2 }
	taken, strided := 0, 0
	for range 200_000 {
		width := []int{8, 64, 248}[random.IntN(3)] * []int{1, 1, 65535}[random.IntN(3)]
		var shape, strides []int64
		last := int64(1)
		for range random.IntN(5) {
			n := near(3, 3, 3, 1<<10, 1<<20)
			shape, strides = append([]int64{n}, shape...), append([]int64{last}, strides...)
			if random.IntN(3) == 0 {
				strides[0] = near(0, 7, -7, 1<<20, 1<<39, -1<<39, 1<<40, -1<<40, 1<<62, -1<<62)
			}
			last = strides[0] * n
		}
		if random.IntN(4) == 0 {
			strides = nil
		}
		var e Extent
		if !fastExtent(width, shape, strides, &e) {
			continue
		}
		taken++
		count, low, high, item := big.NewInt(1), big.NewInt(0), big.NewInt(0), big.NewInt(int64(width/8))
		rowMajor := true
		for d := len(shape) - 1; d >= 0; d-- {
			require.Positive(t, shape[d])
			step := new(big.Int).Set(count)
			if strides != nil && shape[d] > 1 {
				step.SetInt64(strides[d])
			}
			rowMajor = rowMajor && step.Cmp(count) == 0
			reach := new(big.Int).Mul(step, big.NewInt(shape[d]-1))
			if reach.Sign() < 0 {
				low.Add(low, reach)
			} else {
				high.Add(high, reach)
			}
			count.Mul(count, big.NewInt(shape[d]))
		}
		high.Add(high, big.NewInt(1))
		if !rowMajor {
			strided++
		}
		require.Equal(t, []string{count.String(), low.Mul(low, item).String(), high.Mul(high, item).String(), count.Mul(count, item).String()},
			[]string{big.NewInt(e.Count).String(), big.NewInt(e.Low).String(), big.NewInt(e.High).String(), big.NewInt(e.NumBytes).String()},
			"%d bits of shape %v and strides %v", width, shape, strides)
		require.Equal(t, rowMajor, e.RowMajor)
	}
	assert.Greater(t, taken, 10_000)
	assert.Greater(t, strided, 5_000)
}
