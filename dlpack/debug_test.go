//go:build cgo && debug

package dlpack_test

import (
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// read reads the first value, and reports whether that faulted.
func read(values []float32) (value float32, faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	return values[0], false
}

func TestSliceOfClosedMemoryFaults(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, elements := range []int64{1, 100, 1 << 20} {
		tensor := must.Do(dlpack.New(dlpack.Float32, elements))(t)
		values := must.Do(dlpack.Values[float32](tensor))(t)
		values[0] = 7
		m := export(t, tensor)
		tensor.Close()
		value, faulted := read(values)
		assert.False(t, faulted, "an export is alive")
		assert.EqualValues(t, 7, value)
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		_, faulted = read(values)
		assert.True(t, faulted)
	}
	for range 3000 { // the old mappings are removed in the end
		tensor := must.Do(dlpack.New(dlpack.Float32, 1))(t)
		tensor.Close()
	}
}

func TestASecondDeleteIsFoundAfterAThousandExports(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	before := dlpack.ReadStats().DoubleDeletes
	tensor := fromSlice(t, []float32{1})
	defer tensor.Close()
	first, m, last := export(t, tensor), export(t, tensor), export(t, tensor) // the blocks beside m stay live, so that m keeps its page
	dlpack.Release(m)
	for range 1000 {
		dlpack.Release(export(t, tensor))
	}
	dlpack.Release(m)
	dlpack.Release(first)
	dlpack.Release(last)
	assert.Equal(t, before+1, dlpack.ReadStats().DoubleDeletes)
}
