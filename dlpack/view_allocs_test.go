//go:build cgo && !race && !asan

package dlpack_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// This test does not run under the race detector, where a sync.Pool drops items at random, nor under AddressSanitizer,
// where more values escape to the heap.
func TestAViewIsOneAllocation(t *testing.T) {
	tensor := must.Own(dlpack.New(dlpack.Float32, 3, 4, 5))(t)
	largest := must.Own(dlpack.New(dlpack.Float32, 3, 4, 5, 1, 2, 3, 4))(t)
	one := func(name string, tensor *dlpack.Tensor, make func(t *dlpack.Tensor) (*dlpack.Tensor, error)) {
		allocations := testing.AllocsPerRun(200, func() {
			v, err := make(tensor)
			require.NoError(t, err)
			v.Close()
		})
		assert.LessOrEqual(t, allocations, 1.0, name)
	}
	for _, view := range views {
		one(view.name, tensor, view.make)
	}
	for _, view := range []struct {
		name string
		make func(t *dlpack.Tensor) (*dlpack.Tensor, error)
	}{
		{"slice", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Slice(layout.NewAxis(), layout.From(1)) }},
		{"transpose", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Transpose(6, 5, 4, 3, 2, 1, 0) }},
		{"reshape", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Reshape(3, 2, 2, 5, 2, 3, 2, 2) }},
		{"flat outer", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.FlatOuter(8) }},
		{"expand", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Expand(-1) }},
		{"broadcast", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.BroadcastTo(2, 3, 4, 5, 1, 2, 3, 4) }},
		{"windows", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Windows(0, 2, 1, 1) }},
		{"apply", func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
			return t.Apply(func(l *layout.Layout) error { return l.Expand(0) })
		}},
	} {
		one(view.name+" of rank 8", largest, view.make)
	}
	assert.Zero(t, testing.AllocsPerRun(200, func() {
		_, err := dlpack.At[float32](tensor, 2, 3, 4)
		require.NoError(t, err)
		require.NoError(t, dlpack.SetAt[float32](tensor, 1, 2, 3, 4))
	}))
}

// A description with too many dimensions is refused before memory is allocated for them.
func TestShapesThatAreTooLongCostNothing(t *testing.T) {
	tensor := must.Own(dlpack.FromSlice(make([]float32, 1)))(t)
	long := make([]int64, 1<<20)
	for i := range long {
		long[i] = 1
	}
	for name, make := range map[string]func() (*dlpack.Tensor, error){
		"view":       func() (*dlpack.Tensor, error) { return tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: long}) },
		"new":        func() (*dlpack.Tensor, error) { return dlpack.New(dlpack.Float32, long...) },
		"from slice": func() (*dlpack.Tensor, error) { return dlpack.FromSlice([]float32{1}, long...) },
		"from bytes": func() (*dlpack.Tensor, error) {
			return dlpack.FromBytes(nil, dlpack.Spec{DType: dlpack.Float32, Shape: long})
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := make()
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, dlpack.ErrLayout, name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	x := must.Own(dlpack.FromSlice(make([]float32, 16), 4, 4))(t)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		require.NoError(t, dlpack.Read(x, func(v []float32) error { return nil }))
		require.NoError(t, dlpack.Use(x, func(v []float32) error { return nil }))
	}))
}
