//go:build cgo

package dlpack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// Every valid data type keeps its code, bits and lanes from Go to C and back. The two encodings of float4 stay
// different.
func TestEveryTypeKeepsItsNumbers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	seen := 0
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{1, 2, 4} {
				dt := dlpack.MakeDataType(dlpack.TypeCode(code), uint8(bits), lanes)
				if dt.Validate() != nil {
					continue
				}
				seen++
				tensor := must.Do(dlpack.New(dt, 2, 3))(t)
				m := export(t, tensor)
				v := dlpacktest.Read(m)
				assert.Equal(t, [3]int{code, bits, int(lanes)}, [3]int{int(v.Code), int(v.Bits), int(v.Lanes)})
				again := must.Do(dlpack.Import(m))(t)
				assert.Equal(t, dt, again.DType())
				assert.Equal(t, tensor.NumBytes(), again.NumBytes())
				again.Close()
				tensor.Close()
			}
		}
	}
	assert.Greater(t, seen, 90)
}

func TestComplexNumbersAreCodeFiveWithTheBitsOfBothParts(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, tensor := range []*dlpack.Tensor{fromSlice(t, []complex64{1i}), fromSlice(t, []complex128{1i})} {
		m := export(t, tensor)
		v := dlpacktest.Read(m)
		assert.Equal(t, uint8(5), v.Code)
		assert.Equal(t, uint8(8*tensor.NumBytes()), v.Bits)
		dlpack.Release(m)
		tensor.Close()
	}
}

func TestLongDoublesAreRefusedOnBothSides(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	longDouble := dlpack.MakeDataType(dlpack.CodeFloat, 128, 1)
	must.Fail(dlpack.New(longDouble, 2))(t, dlpack.ErrDType)
	must.Fail(dlpack.FromBytes(make([]byte, 32), dlpack.Spec{DType: longDouble, Shape: []int64{2}}))(t, dlpack.ErrDType)
	_, _, err := importConfig(t, dlpacktest.Config{Code: 2, Bits: 128, Lanes: 1, Shape: []int64{2}})
	assert.ErrorIs(t, err, dlpack.ErrDType)
}

// A tensor with gaps has no flat slice. Copies have its elements in the order of their indices.
func TestStridesAreNeverIgnored(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]int16, 4000)
	for i := range data {
		data[i] = int16(i)
	}
	base := fromSlice(t, data)
	defer base.Close()
	refused := 0
	for range 10000 {
		rank := random.IntN(5)
		spec := dlpack.Spec{DType: dlpack.Int16, Strides: []int64{}}
		start := int64(2000)
		for range rank {
			spec.Shape = append(spec.Shape, random.Int64N(5))
			spec.Strides = append(spec.Strides, random.Int64N(161)-80)
		}
		if random.IntN(4) == 0 { // some without gaps
			step := int64(1)
			for d := rank - 1; d >= 0; d-- {
				spec.Strides[d] = step
				step *= spec.Shape[d]
			}
		}
		spec.ByteOffset = 2 * start
		view := must.Do(base.View(spec))(t)

		var want []byte
		index := make([]int64, rank)
		for n := view.NumElements(); n > 0; n-- {
			at := start
			for d := range index {
				at += index[d] * spec.Strides[d]
			}
			want = append(want, byte(at), byte(at>>8))
			for d := rank - 1; d >= 0; d-- {
				if index[d]++; index[d] < spec.Shape[d] {
					break
				}
				index[d] = 0
			}
		}
		got := must.Do(view.AppendBytes([]byte{}))(t)
		require.Equal(t, append([]byte{}, want...), got, "%v", spec)

		values, err := dlpack.Values[int16](view)
		if err != nil {
			require.ErrorIs(t, err, dlpack.ErrLayout)
			refused++
		} else {
			for i, v := range values {
				require.Equal(t, int16(want[2*i])|int16(want[2*i+1])<<8, v)
			}
		}
		view.Close()
	}
	assert.Greater(t, refused, 1000)
	assert.Less(t, refused, 9000)
}

func TestOverlappingElementsAreNotHandedOutToWrite(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := fromSlice(t, []float32{1, 2, 3})
	defer base.Close()
	for _, strides := range [][]int64{{0, 1}, {1, 1}} {
		view := must.Do(base.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 2}, Strides: strides}))(t)
		must.Fail(dlpack.Values[float32](view))(t, dlpack.ErrLayout)
		view.Close()
	}
}

// Uint16 is not read as bfloat16, nor bfloat16 as uint16, unless a View asks for it.
func TestBitsAreReinterpretedOnlyByAView(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := must.Own(dlpack.New(dlpack.BFloat16, 4))(t)
	must.Fail(dlpack.Values[uint16](tensor))(t, dlpack.ErrDType)
	bits := must.Own(tensor.View(dlpack.Spec{DType: dlpack.Uint16, Shape: []int64{4}}))(t)
	values := must.Do(dlpack.Values[uint16](bits))(t)
	assert.Len(t, values, 4)
	_, err := tensor.View(dlpack.Spec{DType: dlpack.Uint32, Shape: []int64{4}})
	assert.ErrorIs(t, err, dlpack.ErrLayout, "twice the size")
}
