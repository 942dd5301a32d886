//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestFormatPrintsElementsAsNumPyDoes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	counted := make([]int32, 2002)
	for i := range counted {
		counted[i] = int32(i)
	}
	long := fromSlice(t, counted)
	small := fromSlice(t, []float32{1, 2.5, -3, 4, 5, 6e9}, 2, 3)
	scalar := must.Own(fromSlice(t, []uint8{7}).Reshape())(t)
	repeated := must.Own(scalar.BroadcastTo(1<<40, 2))(t)
	turned := must.Own(small.Transpose(1, 0))(t)
	deep := must.Own(dlpack.New(dlpack.Int8, 8, 8, 8, 8, 8))(t)
	for want, x := range map[string]*dlpack.Tensor{
		"float32[2 3] on cpu [[1 2.5 -3] [4 5 6e+09]]":                 small,
		"float32[3 2] strides [1 3] on cpu [[1 4] [2.5 5] [-3 6e+09]]": turned,
		"int32[2002] on cpu [0 1 2 ... 1999 2000 2001]":                long,
		"uint8[] on cpu 7":                         scalar,
		"float64[0 3] on cpu []":                   fromSlice(t, []float64{}, 0, 3),
		"float64[1152921504606846976 0] on cpu []": fromSlice(t, []float64{}, 1<<60, 0),
		"complex64[1] on cpu [(1+2i)]":             fromSlice(t, []complex64{1 + 2i}),
		"bool[3] on cpu [true false ?]":            fromBytes(t, []byte{1, 0, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{3}}),
		"int4[4] on cpu [1 2 -1 7]":                fromBytes(t, []byte{0x21, 0x7f}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{4}}),
		"float32x2[1] on cpu":                      fromBytes(t, make([]byte, 8), dlpack.Spec{DType: dlpack.MakeDataType(dlpack.CodeFloat, 32, 2), Shape: []int64{1}}),
		"uint8[1099511627776 2] strides [0 0] on cpu, read-only [[7 7] [7 7] [7 7] ... [7 7] [7 7] [7 7]]": repeated,
	} {
		assert.Equal(t, want, fmt.Sprint(x))
	}
	assert.Equal(t, "float32[2 3] on cpu", fmt.Sprintf("%s", small))
	assert.Equal(t, "%!d(float32[2 3] on cpu)", fmt.Sprintf("%d", small))
	text := fmt.Sprint(deep)
	assert.Equal(t, 1000, strings.Count(text, "0 ")+strings.Count(text, "0]"), "the number of elements")
	assert.Equal(t, strings.Count(text, "["), strings.Count(text, "]"))
}

func TestFormatOfTensorsThatAreNotOpen(t *testing.T) {
	for name, tensor := range notOpen(t) {
		assert.Equal(t, tensor.String(), fmt.Sprint(tensor), name)
	}
}

func TestUseKeepsTheMemoryWhileTheTensorIsClosed(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	for range fewer(1000) {
		m := must.Do(fromSlice(t, []int64{1, 2, 3}).Export())(t)
		x := must.Do(dlpack.Import(m))(t)
		var wait sync.WaitGroup
		began := make(chan struct{})
		wait.Go(func() {
			<-began
			x.Close()
		})
		err := dlpack.Use(x, func(values []int64) error {
			close(began)
			wait.Wait() // x is closed from here on
			assert.Equal(t, []int64{1, 2, 3}, values)
			assert.EqualValues(t, 1, dlpack.ReadStats().Imports)
			return nil
		})
		require.NoError(t, err)
		assert.Zero(t, dlpack.ReadStats().Imports)
	}
}

func TestUseReturnsErrors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4}
	x := fromSlice(t, data, 2, 2)
	failed := errors.New("failed")
	assert.Equal(t, failed, dlpack.Use(x, func([]float32) error { return failed }))
	never := func([]float32) error { panic("called") }
	var none *dlpack.Tensor
	assert.ErrorIs(t, dlpack.Use(none, never), dlpack.ErrClosed)
	assert.ErrorIs(t, dlpack.Use(fromSlice(t, []int8{1}), never), dlpack.ErrDType)
	column := must.Own(x.Slice(layout.All(), layout.Range(0, 1)))(t)
	assert.ErrorIs(t, dlpack.Use(column, never), dlpack.ErrLayout)
	fixed := must.Own(dlpack.FromReadOnly(data))(t)
	assert.ErrorIs(t, dlpack.Use(fixed, never), dlpack.ErrReadOnly)
	assert.PanicsWithValue(t, "called", func() { _ = dlpack.Use(x, never) })
	require.NoError(t, dlpack.Use(x, func(values []float32) error {
		assert.Same(t, unsafe.SliceData(data), unsafe.SliceData(values))
		return nil
	}))
}

func ExampleUse() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	defer t.Close()
	err := dlpack.Use(t, func(x []float32) error {
		for i := range x {
			x[i] *= 2
		}
		return nil
	})
	fmt.Println(t, err)
	// Output: float32[2 2] on cpu [[2 4] [6 8]] <nil>
}
