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
	counted := make([]int32, 1001)
	for i := range counted {
		counted[i] = int32(i)
	}
	small := fromSlice(t, []float32{1, 2.5, -3, 4, 5, 6e9}, 2, 3)
	scalar := must.Own(fromSlice(t, []uint8{7}).Reshape())(t)
	repeated := must.Own(scalar.BroadcastTo(1<<40, 2))(t)
	turned := must.Own(small.Transpose(1, 0))(t)
	deep := must.Own(dlpack.New(dlpack.Int8, 8, 8, 8, 8, 8))(t)
	for want, x := range map[string]*dlpack.Tensor{
		"float32[2 3] on cpu\n[[    1   2.5    -3]\n [    4     5 6e+09]]":                   small,
		"float32[3 2] strides [1 3] on cpu\n[[    1     4]\n [  2.5     5]\n [   -3 6e+09]]": turned,
		"int8[2 1 2 1] on cpu\n[[[[1]\n   [2]]]\n\n\n [[[3]\n   [4]]]]":                      fromSlice(t, []int8{1, 2, 3, 4}, 2, 1, 2, 1),
		"int32[1001] on cpu [0 1 2 ... 998 999 1000]":                                        fromSlice(t, counted[:1001]),
		"uint8[] on cpu 7":                         scalar,
		"float64[0 3] on cpu []":                   fromSlice(t, []float64{}, 0, 3),
		"float64[1152921504606846976 0] on cpu []": fromSlice(t, []float64{}, 1<<60, 0),
		"complex64[1] on cpu [(1+2i)]":             fromSlice(t, []complex64{1 + 2i}),
		"bool[3] on cpu [true false ?]":            fromBytes(t, []byte{1, 0, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{3}}),
		"int4[4] on cpu [1 2 -1 7]":                fromBytes(t, []byte{0x21, 0x7f}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{4}}),
		"float32x2[1] on cpu":                      fromBytes(t, make([]byte, 8), dlpack.Spec{DType: dlpack.MakeDataType(dlpack.CodeFloat, 32, 2), Shape: []int64{1}}),
		"uint8[1099511627776 2] strides [0 0] on cpu, read-only\n[[7 7]\n [7 7]\n [7 7]\n ...\n [7 7]\n [7 7]\n [7 7]]": repeated,
	} {
		assert.Equal(t, want, fmt.Sprint(x))
	}
	assert.Equal(t, fmt.Sprint("int32[1000] on cpu ", counted[:1000]), fmt.Sprint(fromSlice(t, counted[:1000])), "not shortened")
	assert.Equal(t, "float32[2 3] on cpu", fmt.Sprintf("%s", small))
	assert.Equal(t, "%!d(float32[2 3] on cpu)", fmt.Sprintf("%d", small))
	text := fmt.Sprint(deep)
	assert.Equal(t, 1000, strings.Count(text, "0 ")+strings.Count(text, "0]"), "the number of elements")
	assert.Equal(t, strings.Count(text, "["), strings.Count(text, "]"))
	assert.Contains(t, text, "[0 0 0 ... 0 0 0]\n    ...\n    [", "rows of a matrix are left out")
	assert.Contains(t, text, "]]\n\n   ...\n\n   [[", "matrices are left out")
	assert.True(t, strings.HasSuffix(text, "\n\n\n\n ...]"), "the rest is left out")
}

func TestFormatTakesAPrecision(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	floats := fromSlice(t, []float32{1, 2.125, -30, 0.004}, 2, 2)
	half := must.Own(floats.Convert(dlpack.Float16))(t)
	for _, test := range []struct {
		tensor       *dlpack.Tensor
		format, want string
	}{
		{floats, "%.2f", "[[  1.00   2.12]\n [-30.00   0.00]]"},
		{floats, "%.2v", "[[    1   2.1]\n [  -30 0.004]]"},
		{floats, "%.1e", "[[ 1.0e+00  2.1e+00]\n [-3.0e+01  4.0e-03]]"},
		{floats, "%8.1f", "[[     1.0      2.1]\n [   -30.0      0.0]]"},
		{floats, "%-8.1f", "[[1.0      2.1     ]\n [-30.0    0.0     ]]"},
		{floats, "%+.0f", "[[ +1  +2]\n [-30  +0]]"},
		{floats, "%+v", ""},
		{floats, "%+.2v", ""},
		{floats, "%#v", "[[    1 2.125]\n [  -30 0.004]]"},
		{half, "%.1f", "[[  1.0   2.1]\n [-30.0   0.0]]"},
		{fromSlice(t, []float64{1, 2}), "%.3f", "[1.000 2.000]"},
		{fromSlice(t, []complex64{1 - 2i}), "%.1f", "[(1.0-2.0i)]"},
		{fromSlice(t, []uint8{9, 10}), "%.2f", "[9 10]"},
		{fromSlice(t, []uint8{9, 10}), "%#v", "[9 10]"},
		{fromSlice(t, []int8{-9, 10}, 2, 1), "%5.2f", "[[-9]\n [10]]"},
		{fromSlice(t, []bool{true, false}), "%g", "[true false]"},
		{fromSlice(t, []bool{true, false}), "%t", "[true false]"},
		{fromSlice(t, []int8{-9, 10}), "%d", "[-9 10]"},
		{fromSlice(t, []int16{-9, 1000}, 2, 1), "%5d", "[[   -9]\n [ 1000]]"},
		{fromSlice(t, []uint8{9, 171}), "%x", "[9 ab]"},
		{fromSlice(t, []uint8{9, 171}), "%#04X", "[0X0009 0X00AB]"},
		{fromSlice(t, []int32{-8}), "%o", "[-10]"},
		{fromSlice(t, []int32{-8}), "%O", "[-0o10]"},
		{fromSlice(t, []uint64{1 << 63}), "%b", "[1" + strings.Repeat("0", 63) + "]"},
		{fromBytes(t, []byte{0x2f}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{2}}), "%d", "[-1 2]"},
		{fromBytes(t, []byte{0x21}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{2}}), "%.2f", "[1 2]"},
	} {
		text := fmt.Sprintf(test.format, test.tensor)
		assert.Equal(t, test.want, strings.TrimLeft(strings.TrimPrefix(text, test.tensor.String()), " \n"), test.format)
	}
	assert.Equal(t, "float32[2 2] on cpu", fmt.Sprintf("%.2s", floats))
	assert.Equal(t, "%!x(bool[1] on cpu)", fmt.Sprintf("%x", fromSlice(t, []bool{true})))
	assert.Equal(t, "%!t(int8[1] on cpu)", fmt.Sprintf("%t", fromSlice(t, []int8{1})))
}

func ExampleTensor_Format() {
	t, err := dlpack.FromSlice([]float32{1, 2.5, -3, 4, 5, 6}, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(t)
	fmt.Printf("%.2f\n", t)
	fmt.Printf("%s\n", t)
	// Output:
	// float32[2 3] on cpu
	// [[  1 2.5  -3]
	//  [  4   5   6]]
	// float32[2 3] on cpu
	// [[ 1.00  2.50 -3.00]
	//  [ 4.00  5.00  6.00]]
	// float32[2 3] on cpu
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
			wait.Wait() // x is now closed
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
	// Output:
	// float32[2 2] on cpu
	// [[2 4]
	//  [6 8]] <nil>
}
