//go:build cgo

package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/internal/scalar"
)

// factor returns a number to multiply by or to add: an ordinary one, a rare one, or any bits.
func factor(r *rand.Rand) float64 {
	rare := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 255, 1e-30, 1e30, 1e-45, 1e300, 1e-310, math.Inf(1), math.Inf(-1), math.NaN()}
	switch r.IntN(8) {
	case 0:
		return rare[r.IntN(len(rare))]
	case 1:
		return math.Float64frombits(r.Uint64())
	default:
		return math.Ldexp(r.NormFloat64(), r.IntN(40)-20) // more digits than a float32 has
	}
}

func factors(r *rand.Rand, n int64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = factor(r)
	}
	return all
}

// factorAt returns the factor of an index: the factor at the index, the only factor, or `otherwise` if there is none.
func factorAt(factors []float64, otherwise float64, index int64) float64 {
	switch len(factors) {
	case 0:
		return otherwise
	case 1:
		return factors[0]
	}
	return factors[index]
}

// repeated returns the factors of n numbers. `each` consecutive numbers have the same factor.
func repeated(factors []float64, otherwise float64, each, n int64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = factorAt(factors, otherwise, int64(i)/each%max(1, int64(len(factors))))
	}
	return all
}

func isReal(t scalar.Type) bool { return t.Code != 5 }

// For every number, the result has the same bits as that of the plain code of package scalar, with factors that repeat
// after any count of numbers, with AVX2 and without, in every floating-point mode of the program.
func TestScaledNumbersBecomeWhatTheyBecomeOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 36))
	hard := hardFloats(r)
	periods := []int64{1, 1, 2, 3, 3, 4, 5, 6, 12, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 383, 384, 385, 768, 769, 2000}
	for _, from := range numberTypes {
		some := hard[:0:0]
		for i := r.IntN(20); i < len(hard); i += 20 {
			some = append(some, hard[i])
		}
		src := samples(r, from, some, 1000)
		for _, to := range numberTypes {
			if !isReal(from) || !isReal(to) {
				continue
			}
			t.Run(fmt.Sprintf("%d:%d to %d:%d", from.Code, from.Bits, to.Code, to.Bits), func(t *testing.T) {
				period := periods[r.IntN(len(periods))]
				rows := int64(len(src)/sizeOf(from)) / period
				if rows == 0 {
					period, rows = 1, int64(len(src)/sizeOf(from))
				}
				n := rows * period
				src := src[:n*int64(sizeOf(from))]
				s := &Scaling{Scale: factors(r, period), Shift: factors(r, period), Dim: 1}
				want := scalar.ConvertScaled(to, from, src, repeated(s.Scale, 1, 1, n), repeated(s.Shift, 0, 1, n))
				for _, plain := range []bool{false, true} {
					got := make([]byte, len(want))
					steps := []int64{period, 1}
					Convert(plain, numbersOf(got, to, steps...), numbersOf(src, from, steps...), []int64{rows, period}, 0, s)
					requireSame(t, to, from, src, want, got)
				}
				scale, shift := factor(r), factor(r)
				want = scalar.ConvertScaled(to, from, src, repeated(nil, scale, 1, n), repeated(nil, shift, 1, n))
				flushed := make([]byte, len(want))
				ConvertScaledFlushing(flushed, dtypeOf(to, 1), src, dtypeOf(from, 1), n, scale, shift)
				requireSame(t, to, from, src, want, flushed)
			})
		}
	}
}

// The product is rounded before the shift is added: (1 + 2^-12)^2 - 1 would have one more bit from a fused instruction.
func TestProductsAreRoundedBeforeTheShift(t *testing.T) {
	requireRoundedProduct[float32](t, numberType(2, 32), 1+0x1p-12, 0x1p-11)
	requireRoundedProduct[float64](t, numberType(2, 64), 1+0x1p-27, 0x1p-26)
}

func requireRoundedProduct[T float32 | float64](t *testing.T, of scalar.Type, x, want T) {
	for _, plain := range []bool{false, true} {
		src, dst := slices.Repeat([]T{x}, 100), make([]T, 100)
		Convert(plain, numbersOf(dst, of, 1), numbersOf(src, of, 1), []int64{100}, 0, &Scaling{Scale: []float64{float64(x)}, Shift: []float64{-1}})
		require.Equal(t, slices.Repeat([]T{want}, 100), dst)
		runtime.KeepAlive(src)
	}
}

// More factors than are kept at a time, and large results, which bypass the caches, along each dimension.
func TestManyFactorsAndLargeResults(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 36))
	from, to := numberType(1, 8), numberType(2, 64)
	for _, shape := range [][]int64{{70_001}, {3, 66_000}, {40, 70, 35}, {1_400_001, 3}, {3, 1_400_001}} {
		for dim, size := range shape {
			if size > 1_000_000 {
				continue
			}
			n, inner := int64(1), int64(1)
			for d, m := range shape {
				n *= m
				if d > dim {
					inner *= m
				}
			}
			steps := make([]int64, len(shape))
			SetRowMajorInC(steps, shape)
			s := &Scaling{Scale: factors(r, size), Dim: dim}
			if r.IntN(2) == 0 {
				s.Shift = []float64{0.5}
			}
			src := make([]byte, n)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			want := scalar.ConvertScaled(to, from, src, repeated(s.Scale, 1, inner, n), repeated(s.Shift, math.Copysign(0, -1), 1, n))
			memory := make([]byte, n*8+64)
			got := memory[8*r.IntN(8):][:n*8]
			Convert(false, numbersOf(got, to, steps...), numbersOf(src, from, steps...), shape, n*8, s)
			requireSame(t, to, from, src, want, got)
		}
	}
}
