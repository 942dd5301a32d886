//go:build cgo

package npy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func ExampleDecode() {
	x, _ := dlpack.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3)
	defer x.Close()
	data, err := npy.AppendTensor(nil, x) // in a file, numpy.load reads it
	if err != nil {
		fmt.Println(err)
		return
	}
	y, err := npy.Decode(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer y.Close()
	fmt.Println(len(data), y)
	// Output:
	// 140 int16[2 3] on cpu, read-only
	// [[1 2 3]
	//  [4 5 6]]
}

// strided returns a tensor of 16 MiB that is neither row-major nor column-major.
func strided(t *testing.T) *dlpack.Tensor {
	numbers := make([]uint16, 1<<23)
	for i := range numbers {
		numbers[i] = uint16(i * 7)
	}
	x := must.Own(dlpack.FromSlice(numbers, 1, 4, 1024, 2048))(t)
	return must.Own(x.Flip(1, 3))(t)
}

func TestStridedTensorsAreWrittenWithoutASecondCopy(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := strided(t)
	want := must.Do(npy.AppendTensor(nil, x))(t)
	var out bytes.Buffer
	out.Grow(len(want))
	var before, after runtime.MemStats
	allocated := dlpack.ReadStats().Allocations
	runtime.ReadMemStats(&before)
	require.NoError(t, npy.WriteTensor(&out, x))
	runtime.ReadMemStats(&after)
	assert.True(t, bytes.Equal(want, out.Bytes()))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3<<20))
	assert.Equal(t, allocated, dlpack.ReadStats().Allocations)
}

func TestRowsThatLieInOrderAreWrittenFromTheirMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.New(dlpack.Uint8, 4, 1<<21))(t)
	y := must.Own(x.Flip(0))(t)
	var places []uintptr
	w := writer(func(data []byte) { places = append(places, address(data)) })
	require.NoError(t, npy.WriteTensor(w, y))
	require.Len(t, places, 5)
	for i, place := range places[1:] {
		assert.Equal(t, y.Data()-uintptr(i)<<21, place)
	}
}

type writer func(data []byte)

func (w writer) Write(data []byte) (int, error) {
	w(data)
	return len(data), nil
}

func TestWriteTensorPassesOnErrors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x, broken := strided(t), errors.New("broken")
	for _, n := range []int{0, 1, 127, 128, 1000, 5 << 20, 1<<24 + 127} {
		require.ErrorIs(t, npy.WriteTensor(&repotest.FailingWriter{N: n, Err: broken}, x), broken)
		require.ErrorIs(t, npy.WriteTensor(&repotest.FailingWriter{N: n, Err: nil}, x), io.ErrShortWrite)
	}
	require.ErrorIs(t, npy.WriteTensor(nil, x), elements.ErrNil)
	require.ErrorIs(t, npy.WriteTensor(io.Discard, nil), dlpack.ErrClosed)
	neither := must.Own(dlpack.FromBytes([]byte{1, 0, 2, 0}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{2}, Strides: []int64{2}}))(t)
	require.ErrorIs(t, npy.WriteTensor(&repotest.FailingWriter{N: 0, Err: broken}, neither), dlpack.ErrValue, "before anything is written")
}

func TestTensorsThatNumPyLacksAreNotWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	packed := must.Own(dlpack.New(dlpack.Int4, 4))(t)
	lanes := must.Own(dlpack.New(dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), 4))(t)
	deep := must.Own(dlpack.New(dlpack.Int8, ones(65)...))(t)
	before := []byte("before")
	for _, test := range []struct {
		x    *dlpack.Tensor
		want error
	}{{packed, elements.ErrDType}, {lanes, elements.ErrDType}, {deep, npy.ErrRank}, {nil, dlpack.ErrClosed}} {
		out, err := npy.AppendTensor(before, test.x)
		require.ErrorIs(t, err, test.want)
		assert.Equal(t, before, out)
		must.Fail(npy.SizeTensor(test.x))(t, test.want)
		require.ErrorIs(t, npy.WriteTensor(io.Discard, test.x), test.want)
	}
}

func TestAppendedFilesAreAligned(t *testing.T) {
	x := must.Own(dlpack.FromSlice([]float64{1, 2, 3}))(t)
	data := must.Do(npy.AppendTensor([]byte("before"), x))(t)
	y := must.Own(npy.Decode(data[6:], npy.Align(64)))(t)
	assert.Zero(t, y.Flags()&dlpack.IsCopied)
	assert.Equal(t, "before", string(data[:6]))
}
