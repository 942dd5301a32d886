//go:build cgo

package dlpack_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func ExampleEqual() {
	a, _ := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	defer a.Close()
	b, _ := a.Transpose()
	defer b.Close()
	fmt.Println(dlpack.Equal(a, a))
	fmt.Println(dlpack.Equal(a, b))
	// Output:
	// true <nil>
	// false <nil>
}

func TestEqualComparesTypeShapeAndValues(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	nan := math.NaN()
	floats := func(shape []int64, values ...float64) *dlpack.Tensor {
		return must.Own(dlpack.FromSlice(values, shape...))(t)
	}
	two := []int64{2}
	packed := must.Own(dlpack.FromBytes([]byte{0x21, 0xf3}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{3}}))(t)
	padded := must.Own(dlpack.FromBytes([]byte{1, 2, 3}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{3}, Padded: true}))(t)
	column := must.Own(floats([]int64{2, 2}, 1, 7, 2, 7).Narrow(1, 0, 1))(t)
	twos := slices.Repeat([]int64{2}, 62) // the largest number of dimensions of size 2 that a tensor can have
	many := func(value byte) *dlpack.Tensor {
		return must.Own(must.Own(dlpack.FromSlice([]byte{value}))(t).BroadcastTo(twos...))(t)
	}
	for _, c := range []struct {
		name        string
		a, b        *dlpack.Tensor
		equal, nans bool
	}{
		{"the same values", floats(two, 1, 2), floats(two, 1, 2), true, true},
		{"another value", floats(two, 1, 2), floats(two, 1, 3), false, false},
		{"another shape", floats(two, 1, 2), floats([]int64{2, 1}, 1, 2), false, false},
		{"another type", floats(two, 1, 2), must.Own(dlpack.FromSlice([]int64{1, 2}))(t), false, false},
		{"another layout", column, floats([]int64{2, 1}, 1, 2), true, true},
		{"packed and padded", packed, padded, true, true},
		{"zeros", floats(two, 0, 1), floats(two, math.Copysign(0, -1), 1), true, true},
		{"NaN", floats(two, nan, 1), floats(two, nan, 1), false, true},
		{"NaN and a number", floats(two, nan, 1), floats(two, 1, 1), false, false},
		{"large integers", must.Own(dlpack.FromSlice([]int64{math.MaxInt64}))(t), must.Own(dlpack.FromSlice([]int64{math.MaxInt64 - 1}))(t), false, false},
		{"many dimensions", many(1), many(2), false, false},
		{"no elements", floats([]int64{0, 2}), floats([]int64{0, 2}), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.equal, must.Do(dlpack.Equal(c.a, c.b))(t))
			assert.Equal(t, c.equal, must.Do(dlpack.Equal(c.b, c.a))(t))
			assert.Equal(t, c.nans, must.Do(dlpack.EqualNaN(c.a, c.b))(t))
		})
	}
}

func TestEqualRefusesWhatHasNoValues(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]float32{1}))(t)
	closed := must.Do(dlpack.FromSlice([]float32{1}))(t)
	require.NoError(t, closed.Close())
	_, err := dlpack.Equal(x, closed)
	require.ErrorIs(t, err, dlpack.ErrClosed)
	assert.ErrorContains(t, err, "the second tensor")
	_, err = dlpack.Equal(nil, x)
	require.ErrorIs(t, err, dlpack.ErrClosed)
	handles := must.Own(dlpack.New(dlpack.MakeDataType(dlpack.CodeOpaqueHandle, 64, 1), 1))(t)
	_, err = dlpack.Equal(x, handles)
	require.ErrorIs(t, err, dlpack.ErrDType)
}
