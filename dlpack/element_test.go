//go:build cgo

package dlpack_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// real64 returns an element as a float64.
func real64(t *testing.T, value any) float64 {
	switch v := value.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case int8:
		return float64(v)
	case int16:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case uint8:
		return float64(v)
	case uint16:
		return float64(v)
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v
	case complex64:
		return float64(real(v))
	case complex128:
		return real(v)
	}
	require.Fail(t, "no element", "%T", value)
	return 0
}

// For elements with any bits, At returns the result of Convert, and SetAt writes the same bits back without changing the
// neighbours.
func TestElementsOfEveryTypeAreReadAndWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, dt := range numberTypes {
		for _, padded := range []bool{false, true} {
			t.Run(fmt.Sprint(dt, padded), func(t *testing.T) {
				const count = 300
				memory := make([]byte, 16*count+1)
				for i := range memory {
					memory[i] = byte(i*7 + i>>8)
					if dt == dlpack.Bool {
						memory[i] &= 1
					}
					if padded && dt.IsSubByte() {
						memory[i] &= 1<<dt.Bits() - 1
					}
				}
				tensor := must.Own(dlpack.FromBytes(memory[1:], dlpack.Spec{DType: dt, Shape: []int64{count}, Padded: padded}))(t)
				numbers := must.Own(tensor.Convert(dlpack.Float64))(t)
				want := must.Do(dlpack.Values[float64](numbers))(t)
				before := append([]byte{}, memory...)
				for i := range int64(count) {
					value := must.Do(tensor.At(i))(t)
					got := real64(t, value)
					if !math.IsNaN(want[i]) || !math.IsNaN(got) {
						require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got), "element %d", i)
					}
					if got != got || dt.Code() == dlpack.CodeComplex {
						continue // NaNs have several bit patterns, and may be in the imaginary part
					}
					require.NoError(t, tensor.SetAt(value, i))
					require.Equal(t, before, memory, "element %d", i)
					require.NoError(t, tensor.SetAt(boolOr(dt, 1), i))
					value = must.Do(tensor.At(i))(t)
					if dt == dlpack.Int2 {
						require.Equal(t, int8(1), value)
					}
					require.Equal(t, 1.0, real64(t, value))
					for _, next := range []int64{i - 1, i + 1} {
						if next >= 0 && next < count && !math.IsNaN(want[next]) {
							value := must.Do(tensor.At(next))(t)
							require.Equal(t, want[next], real64(t, value), "beside element %d", i)
						}
					}
					copy(memory, before)
				}
			})
		}
	}
}

// boolOr returns a number, or a bool if the elements are bools.
func boolOr(dt dlpack.DataType, number int) any {
	if dt == dlpack.Bool {
		return number != 0
	}
	return number
}

func TestElementsHaveTheSmallestTypeOfGo(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for dt, want := range map[dlpack.DataType]any{
		dlpack.Bool: false, dlpack.Int2: int8(0), dlpack.Int4: int8(0), dlpack.Int8: int8(0), dlpack.Int16: int16(0), dlpack.Int32: int32(0),
		dlpack.Int64: int64(0), dlpack.Uint2: uint8(0), dlpack.Uint4: uint8(0), dlpack.Uint8: uint8(0), dlpack.Uint16: uint16(0),
		dlpack.Uint32: uint32(0), dlpack.Uint64: uint64(0), dlpack.Float16: float32(0), dlpack.BFloat16: float32(0), dlpack.Float32: float32(0),
		dlpack.Float64: float64(0), dlpack.Float8E4M3FN: float32(0), dlpack.Float8E5M2: float32(0), dlpack.Float6E2M3FN: float32(0),
		dlpack.Float4E2M1FN: float32(0), dlpack.Complex32: complex64(0), dlpack.Complex64: complex64(0), dlpack.Complex128: complex128(0),
	} {
		tensor := must.Do(dlpack.New(dt))(t)
		value := must.Do(tensor.At())(t)
		assert.Equal(t, want, value, dt)
		tensor.Close()
	}
	for _, dt := range []dlpack.DataType{dlpack.OpaqueHandle64, dlpack.Float4E2M1FNx2, dlpack.MakeDataType(dlpack.CodeFloat, 32, 4)} {
		tensor := must.Do(dlpack.New(dt, 2))(t)
		_, err := tensor.At(0)
		assert.ErrorIs(t, err, dlpack.ErrDType, dt)
		assert.ErrorIs(t, tensor.SetAt(1, 0), dlpack.ErrDType, dt)
		tensor.Close()
	}
}

type celsius float32

// checkElements reads and writes the elements of a transposed matrix of a Go type, with At, with SetAt and in the slice.
func checkElements[T dlpack.Element](t *testing.T, values ...T) {
	t.Run(fmt.Sprintf("%T", values[0]), func(t *testing.T) {
		memory := []T{values[0], values[1], values[2], values[2], values[1], values[0]}
		rows := fromSlice(t, memory, 2, 3)
		defer rows.Close()
		assert.Equal(t, dlpack.DataTypeOf[T](), rows.DType())
		tensor := must.Own(rows.Transpose())(t)
		for i := range int64(6) {
			want := memory[i]
			got := must.Do(dlpack.At[T](tensor, i%3, i/3))(t)
			assert.Equal(t, want, got)
			boxed := must.Do(tensor.At(i%3, i/3))(t)
			assert.EqualValues(t, want, boxed)
			for _, next := range values {
				require.NoError(t, dlpack.SetAt(tensor, next, i%3, i/3))
				assert.Equal(t, next, memory[i])
				memory[i] = want
				require.NoError(t, tensor.SetAt(next, i%3, i/3))
				assert.Equal(t, next, memory[i])
			}
		}
	})
}

func TestElementsOfEveryTypeOfGo(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	checkElements(t, false, true, true)
	checkElements[int](t, math.MinInt, -1, math.MaxInt)
	checkElements[int8](t, math.MinInt8, -1, math.MaxInt8)
	checkElements[int16](t, math.MinInt16, -1, math.MaxInt16)
	checkElements[int32](t, math.MinInt32, -1, math.MaxInt32)
	checkElements[int64](t, math.MinInt64, -1, math.MaxInt64)
	checkElements[uint](t, 0, 1, math.MaxUint)
	checkElements[uint8](t, 0, 1, math.MaxUint8)
	checkElements[uint16](t, 0, 1, math.MaxUint16)
	checkElements[uint32](t, 0, 1, math.MaxUint32)
	checkElements[uint64](t, 0, 1, math.MaxUint64)
	checkElements[float32](t, 0.1, -math.MaxFloat32, float32(math.Inf(1)))
	checkElements(t, 0.1, -math.MaxFloat64, math.Inf(1))
	checkElements[complex64](t, 0.1+2i, -1i, 3)
	checkElements(t, 0.1+2i, -1i, 3)
	checkElements[celsius](t, 36.5, -1, 0)
}

func TestSetAtTakesNumbersThatTheElementCanBe(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, test := range []struct {
		dt    dlpack.DataType
		value any
		want  any // the value, or the cause of the error
	}{
		{dlpack.Int8, 127, int8(127)},
		{dlpack.Int8, 128, dlpack.ErrValue},
		{dlpack.Int8, -128, int8(-128)},
		{dlpack.Int8, -129, dlpack.ErrValue},
		{dlpack.Int8, uint64(math.MaxUint64), dlpack.ErrValue},
		{dlpack.Int4, 7, int8(7)},
		{dlpack.Int4, -8, int8(-8)},
		{dlpack.Int4, 8, dlpack.ErrValue},
		{dlpack.Int4, -9, dlpack.ErrValue},
		{dlpack.Uint2, 3, uint8(3)},
		{dlpack.Uint2, uint8(4), dlpack.ErrValue},
		{dlpack.Uint2, -1, dlpack.ErrValue},
		{dlpack.Uint64, uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{dlpack.Uint64, -1, dlpack.ErrValue},
		{dlpack.Int64, uint64(math.MaxInt64), int64(math.MaxInt64)},
		{dlpack.Int64, uint64(math.MaxInt64) + 1, dlpack.ErrValue},
		{dlpack.Int64, int64(math.MinInt64), int64(math.MinInt64)},
		{dlpack.Int32, 1.0, dlpack.ErrDType},
		{dlpack.Int32, true, dlpack.ErrDType},
		{dlpack.Int32, "1", dlpack.ErrDType},
		{dlpack.Int32, nil, dlpack.ErrDType},
		{dlpack.Bool, true, true},
		{dlpack.Bool, 1, dlpack.ErrDType},
		{dlpack.Float32, 1, float32(1)},
		{dlpack.Float32, celsius(36.5), float32(36.5)},
		{dlpack.Float32, 0.1, float32(0.1)},
		{dlpack.Float32, 1i, dlpack.ErrDType},
		{dlpack.Float16, 1e9, float32(math.Inf(1))},
		{dlpack.BFloat16, 1.01, float32(1.0078125)},
		// A float64 that differs in its last bit from the middle between two float32: it must be rounded once, not twice.
		{dlpack.BFloat16, 1 + 1.0/256 + 1.0/(1<<40), float32(1.0078125)},
		{dlpack.Float4E2M1FN, -2.6, float32(-3)},
		{dlpack.Complex64, 2 + 3i, complex64(2 + 3i)},
		{dlpack.Complex64, 2, complex64(2)},
		{dlpack.Complex32, 1.5, complex64(1.5)},
		{dlpack.Complex128, complex64(1i), complex128(1i)},
	} {
		t.Run(fmt.Sprintf("%v %T %v", test.dt, test.value, test.value), func(t *testing.T) {
			tensor := must.Own(dlpack.New(test.dt, 3))(t)
			err := tensor.SetAt(test.value, 1)
			got, atErr := tensor.At(1)
			require.NoError(t, atErr)
			if cause, refused := test.want.(error); refused {
				assert.ErrorIs(t, err, cause)
				assert.Zero(t, got, "as it was")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestElementsAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer tensor.Close()
	readOnly := must.Own(dlpack.FromReadOnly([]float32{1}))(t)
	bools := must.Own(dlpack.FromBytes([]byte{2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{1}}))(t)
	device := must.Own(dlpack.Import(dlpacktest.Produce(t, dlpacktest.Config{DeviceType: int32(dlpack.CUDA), Shape: []int64{1}}).Managed()))(t)
	empty := must.Own(dlpack.New(dlpack.Float32, 2, 0))(t)
	for _, test := range []struct {
		name           string
		tensor         *dlpack.Tensor
		index          []int64
		cause, another error
		message        string
		writesOnly     bool
	}{
		{"beyond the last", tensor, []int64{1, 3}, layout.ErrIndex, dlpack.ErrLayout, "index[1] is 3, but dimension 1 has size 3", false},
		{"before the first", tensor, []int64{-3, 0}, layout.ErrIndex, dlpack.ErrLayout, "index[0] is -3, but dimension 0 has size 2", false},
		{"before the first, from the end", tensor, []int64{-1, -4}, layout.ErrIndex, dlpack.ErrLayout, "index[1] is -4, but dimension 1 has size 3", false},
		{"the lowest", tensor, []int64{math.MinInt64, 0}, layout.ErrIndex, dlpack.ErrLayout, "index[0] is -9223372036854775808, but dimension 0 has size 2", false},
		{"from the end of fewer", tensor, []int64{-1, -1, -1}, layout.ErrRank, dlpack.ErrLayout, "3 indices for 2 dimensions", false},
		{"far", tensor, []int64{0, math.MaxInt64}, layout.ErrIndex, dlpack.ErrLayout, "index[1] is 9223372036854775807, but dimension 1 has size 3", false},
		{"too few", tensor, []int64{1}, layout.ErrRank, dlpack.ErrLayout, "1 index for 2 dimensions", false},
		{"none", tensor, nil, layout.ErrRank, dlpack.ErrLayout, "0 indices for 2 dimensions", false},
		{"too many", tensor, []int64{1, 2, 0}, layout.ErrRank, dlpack.ErrLayout, "3 indices for 2 dimensions", false},
		{"no last element", empty, []int64{1, -1}, layout.ErrIndex, dlpack.ErrLayout, "index[1] is -1, but dimension 1 has size 0", false},
		{"no elements", empty, []int64{1, 0}, layout.ErrIndex, dlpack.ErrLayout, "index[1] is 0, but dimension 1 has size 0", false},
		{"on a device", device, []int64{0}, dlpack.ErrDevice, dlpack.ErrDevice, "memory on cuda:0 cannot be addressed; its producer can copy it to the CPU", false},
		{"read-only", readOnly, []int64{0}, dlpack.ErrReadOnly, dlpack.ErrReadOnly, "the tensor is read-only; Copy makes a writable one", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused := func(op string, err error) {
				assert.ErrorIs(t, err, test.cause)
				assert.ErrorIs(t, err, test.another)
				assert.EqualError(t, err, "dlpack: "+op+": "+test.message)
			}
			refused("set at", test.tensor.SetAt(1, test.index...))
			refused("set at", dlpack.SetAt[float32](test.tensor, 1, test.index...))
			if !test.writesOnly {
				_, err := test.tensor.At(test.index...)
				refused("at", err)
				_, err = dlpack.At[float32](test.tensor, test.index...)
				refused("at", err)
			}
		})
	}
	_, err := bools.At(0)
	assert.ErrorIs(t, err, dlpack.ErrValue)
	_, err = dlpack.At[bool](bools, 0)
	assert.ErrorIs(t, err, dlpack.ErrValue)
	must.Fail(dlpack.At[int32](tensor, 0, 0))(t, dlpack.ErrDType)
	assert.ErrorIs(t, dlpack.SetAt(tensor, 1.0, 0, 0), dlpack.ErrDType)
}

// At and SetAt find elements with any strides, with an offset, and unaligned.
func TestElementsAreFoundWhereverTheyLie(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p, tensor, err := importConfig(t, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{-3, 2}, ByteOffset: 40, Shift: 1})
	require.NoError(t, err)
	defer tensor.Close()
	require.NoError(t, tensor.SetAt(1.5, 1, 2))
	require.NoError(t, dlpack.SetAt[float32](tensor, 2.5, 0, 1))
	at := func(offset int) float32 {
		return math.Float32frombits(*(*uint32)(unsafe.Pointer(&p.Data()[offset])))
	}
	assert.Equal(t, float32(1.5), at(1+40+4*(-3+2*2)))
	assert.Equal(t, float32(2.5), at(1+40+4*2))
	value := must.Do(dlpack.At[float32](tensor, 1, 2))(t)
	assert.Equal(t, float32(1.5), value)
	other := must.Do(tensor.At(0, 1))(t)
	assert.Equal(t, float32(2.5), other)
}

func BenchmarkElements(b *testing.B) {
	for _, dt := range []dlpack.DataType{dlpack.Float32, dlpack.BFloat16, dlpack.Int4} {
		t, err := dlpack.New(dt, 4, 4)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("At "+dt.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t.At(2, 3)
			}
		})
		b.Run("SetAt "+dt.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t.SetAt(2, 2, 3)
			}
		})
		if dt == dlpack.Float32 {
			b.Run("At of float32", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					dlpack.At[float32](t, 2, 3)
				}
			})
		}
		t.Close()
	}
}

// A negative index of an element counts from the end, as in Index and Slice.
func TestElementsAreFoundFromTheEnd(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	tensor := fromSlice(t, data, 2, 3)
	defer tensor.Close()
	wide := fromSlice(t, data, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3)
	defer wide.Close()
	for i := range int64(2) {
		for j := range int64(3) {
			for _, index := range [][]int64{{i, j}, {i - 2, j}, {i, j - 3}, {i - 2, j - 3}} {
				given := slices.Clone(index)
				want := data[3*i+j]
				got := must.Do(tensor.At(index...))(t)
				assert.Equal(t, want, got)
				got = must.Do(dlpack.At[float32](wide, append([]int64{-1, 0, -1, 0, -1, 0, -1, 0}, index...)...))(t)
				assert.Equal(t, want, got)
				view := must.Do(tensor.Index(index...))(t)
				assert.Equal(t, uintptr(unsafe.Pointer(&data[3*i+j])), view.Data())
				view.Close()
				require.NoError(t, tensor.SetAt(want+10, index...))
				assert.Equal(t, want+10, data[3*i+j])
				require.NoError(t, dlpack.SetAt(tensor, want, index...))
				assert.Equal(t, want, data[3*i+j])
				assert.Equal(t, given, index, "the index is the caller's")
			}
		}
	}
	row := must.Own(tensor.Narrow(-1, -2, 2))(t)
	assert.Equal(t, uintptr(unsafe.Pointer(&data[1])), row.Data())
	assert.Equal(t, []int64{3, 2, 0, 0}, []int64{tensor.Dim(-1), tensor.Dim(-2), tensor.Dim(2), tensor.Dim(-3)})
	assert.Equal(t, []int64{1, 3, 0, 0}, []int64{tensor.Stride(-1), tensor.Stride(-2), tensor.Stride(2), tensor.Stride(math.MinInt)})
}
