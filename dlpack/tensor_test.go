//go:build cgo

package dlpack_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// touched returns the lowest byte that a spec touches, and one past the highest, counted from the beginning of the
// memory. The numbers cannot overflow. ok is false without elements.
func touched(s dlpack.Spec) (low, high *big.Int, ok bool) {
	low, high = big.NewInt(0), big.NewInt(0)
	count, step := big.NewInt(1), big.NewInt(1)
	for d := len(s.Shape) - 1; d >= 0; d-- {
		if s.Shape[d] == 0 {
			return nil, nil, false
		}
		stride := new(big.Int).Set(step)
		if s.Strides != nil {
			stride.SetInt64(s.Strides[d])
		}
		reach := stride.Mul(stride, big.NewInt(s.Shape[d]-1))
		if reach.Sign() < 0 {
			low.Add(low, reach)
		} else {
			high.Add(high, reach)
		}
		step.Mul(step, big.NewInt(s.Shape[d]))
		count.Mul(count, big.NewInt(s.Shape[d]))
	}
	item := big.NewInt(int64(s.DType.ItemSize()))
	low.Mul(low, item)
	high.Mul(high.Add(high, big.NewInt(1)), item)
	if s.DType.IsSubByte() && !s.Padded { // without gaps, or refused
		low.SetInt64(0)
		high.Mul(count, big.NewInt(int64(s.DType.BitSize())))
		high.Rsh(high.Add(high, big.NewInt(7)), 3)
	}
	offset := big.NewInt(s.ByteOffset)
	return low.Add(low, offset), high.Add(high, offset), true
}

// No view, and no view of a view, reaches outside its memory, whatever its numbers are. Views inside the memory are
// allowed.
func TestNoViewReachesOutsideItsMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	random := rand.New(rand.NewPCG(38, 0))
	types := []dlpack.DataType{dlpack.Uint8, dlpack.Int16, dlpack.Float32, dlpack.Complex128, dlpack.Int4, dlpack.Uint2, dlpack.Float6E2M3FN, dlpack.MakeDataType(dlpack.CodeInt, 4, 3), dlpack.MakeDataType(dlpack.CodeFloat, 32, 3)}
	number := func(least, most int64) int64 {
		switch random.IntN(60) {
		case 0:
			return math.MaxInt64 >> random.IntN(63)
		case 1:
			return math.MinInt64 >> random.IntN(63)
		case 2:
			return math.MinInt64
		}
		return least + random.Int64N(most-least+1)
	}
	spec := func(size int64) (s dlpack.Spec) {
		s.DType, s.Padded = types[random.IntN(len(types))], random.IntN(2) == 0
		rank := random.IntN(4)
		s.ByteOffset = number(-4, size)
		for range rank {
			s.Shape = append(s.Shape, number(0, 4))
		}
		if random.IntN(2) == 0 {
			s.Strides = []int64{}
			for range rank {
				s.Strides = append(s.Strides, number(-6, 6))
			}
		}
		return s
	}
	const size = 200
	memory := make([]byte, 3*size)
	start := uintptr(unsafe.Pointer(&memory[size]))
	made := 0
	for range 30000 {
		base := must.Do(dlpack.FromBytes(memory[size:2*size:2*size], dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{size}}))(t)
		zero := int64(0) // the position of element 0 of the base
		for range 3 {
			s := spec(size)
			view, err := base.View(s)
			low, high, ok := touched(s)
			inside := !ok
			if ok {
				low.Add(low, big.NewInt(zero))
				high.Add(high, big.NewInt(zero))
				inside = low.Sign() >= 0 && high.Cmp(big.NewInt(size)) <= 0
			}
			if err != nil {
				packed := s.DType.IsSubByte() && !s.Padded && s.Strides != nil
				negative := false
				for _, n := range s.Shape {
					negative = negative || n < 0
				}
				require.True(t, !inside || packed || negative || base.NumElements() == 0, "%+v: %v", s, err)
				break
			}
			require.True(t, inside, "%+v from byte %d", s, zero)
			bytes, at, err := view.UnsafeBytes()
			require.NoError(t, err)
			if ok {
				made++
				first := int64(uintptr(unsafe.Pointer(&bytes[0])) - start)
				require.Equal(t, low.Int64(), first)
				require.Equal(t, high.Int64(), first+int64(len(bytes)))
				zero = first + at
			}
			if view.NumBytes() < 1<<16 { // a broadcast can have any size
				must.Do(view.AppendBytes(nil))(t)
			}
			base.Close()
			base = view
			if !ok {
				break // an empty tensor has no position
			}
		}
		base.Close()
	}
	require.Greater(t, made, 3000)
}
