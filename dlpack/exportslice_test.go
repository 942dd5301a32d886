//go:build cgo

package dlpack_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestExportSliceSaysWhatTheSliceIs(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []int16{1, 2, 3, 4, 5, 6}
	for _, c := range []struct{ shape, want, strides []int64 }{
		{nil, []int64{6}, []int64{1}},
		{[]int64{2, 3}, []int64{2, 3}, []int64{3, 1}},
		{[]int64{1, 6, 1}, []int64{1, 6, 1}, []int64{6, 1, 1}},
		{[]int64{1, 1, 1, 1, 1, 1, 1, 1, 2, 3}, []int64{1, 1, 1, 1, 1, 1, 1, 1, 2, 3}, []int64{6, 6, 6, 6, 6, 6, 6, 6, 3, 1}},
	} {
		m := must.Do(dlpack.ExportSlice(data, c.shape...))(t)
		v := dlpacktest.Read(m)
		assert.Equal(t, uintptr(unsafe.Pointer(&data[0])), v.Data)
		assert.Equal(t, c.want, v.Shape)
		assert.Equal(t, c.strides, v.Strides)
		assert.Zero(t, v.Flags)
		taken := must.Do(dlpack.Import(m))(t)
		assert.Equal(t, dlpack.Int16, taken.DType())
		values := must.Do(dlpack.Values[int16](taken))(t)
		assert.Equal(t, data, values)
		assert.Equal(t, 1, dlpack.Pinned())
		require.NoError(t, taken.Close())
		assert.Zero(t, dlpack.Pinned(), "released in Go: unpinned there and then")
	}
	m := must.Do(dlpack.ExportSlice([]float32{}, 3, 0))(t)
	assert.Zero(t, dlpacktest.Read(m).Data)
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
}

func TestExportSliceKeepsTheSlice(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	ended := make(chan bool, 1)
	m := func() unsafe.Pointer {
		data := new([1 << 12]float64)
		data[7] = 7
		runtime.AddCleanup(data, func(bool) { ended <- true }, true)
		return must.Do(dlpack.ExportSlice(data[:]))(t)
	}()
	runtime.GC()
	runtime.GC()
	assert.Empty(t, ended)
	view, err := dlpack.Borrow(unsafe.Add(m, 32)) // the DLTensor inside it
	require.NoError(t, err)
	value := must.Do(dlpack.At[float64](view, 7))(t)
	assert.EqualValues(t, 7, value)
	require.NoError(t, view.Close())
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1) // the second call is counted
	collectUntil(t, func() bool { return len(ended) == 1 })
}

func TestExportSliceRefusesWhatTheSliceIsNot(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3}
	for _, c := range []struct {
		shape []int64
		cause error
		text  string
	}{
		{[]int64{2}, dlpack.ErrLayout, "the shape [2] has 2 elements, but the slice has 3"},
		{[]int64{-3}, dlpack.ErrLayout, "shape[0] is -3, must not be negative"},
		{[]int64{1 << 62, 4}, dlpack.ErrOverflow, "2^63-1"},
		{make([]int64, 257), dlpack.ErrLayout, "rank 257 is more than 256"},
	} {
		_, err := dlpack.ExportSlice(data, c.shape...)
		assert.ErrorIs(t, err, c.cause)
		assert.ErrorContains(t, err, "dlpack: export slice: ")
		assert.ErrorContains(t, err, c.text)
	}
	assert.Zero(t, dlpack.Pinned())
}

func TestExportSliceIsInTheLedger(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	withLedger(t)
	m := must.Do(dlpack.ExportSlice([]float32{1, 2}, 2, 1))(t)
	live := dlpack.Live()
	require.Len(t, live, 1)
	assert.Equal(t, dlpack.KindExport, live[0].Kind)
	assert.Equal(t, []int64{2, 1}, live[0].Shape)
	assert.EqualValues(t, 8, live[0].Bytes)
	assert.Contains(t, live[0].Caller().Function, "TestExportSliceIsInTheLedger")
	dlpack.Release(m)
	assert.Empty(t, dlpack.Live())
}

func TestExportSliceAllocatesNothing(t *testing.T) {
	data := make([]float32, 256)
	round := func() {
		m, err := dlpack.ExportSlice(data, 16, 16)
		if err != nil {
			panic(err)
		}
		dlpack.Release(m)
	}
	for range 1000 {
		round()
	}
	if !asan { // AddressSanitizer allocates for each frame with a local array
		assert.Zero(t, testing.AllocsPerRun(1000, round))
	}
}
