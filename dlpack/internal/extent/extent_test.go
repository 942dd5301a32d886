package extent_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

func TestSumsAndProductsAreRightOrReported(t *testing.T) {
	numbers := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1 << 32, -1 << 31, -3, -1, 0, 1, 2, 3, 1<<31 - 1, 1 << 31, 1 << 32, 3037000499, 3037000500, 1 << 62, math.MaxInt64}
	for _, a := range numbers {
		for _, b := range numbers {
			sum, ok := extent.Add(a, b)
			want := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
			assert.Equal(t, want.IsInt64(), ok, "%d + %d", a, b)
			if ok {
				assert.Equal(t, want.Int64(), sum, "%d + %d", a, b)
			}
			product, ok := extent.Mul(a, b)
			want.Mul(big.NewInt(a), big.NewInt(b))
			assert.Equal(t, want.IsInt64(), ok, "%d * %d", a, b)
			if ok {
				assert.Equal(t, want.Int64(), product, "%d * %d", a, b)
			}
		}
		assert.Equal(t, new(big.Int).Abs(big.NewInt(a)).Uint64(), extent.Magnitude(a))
	}
}
