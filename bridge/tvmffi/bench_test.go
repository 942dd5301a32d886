//go:build cgo

package tvmffi_test

import (
	"math"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// BenchmarkBareCgoCall is the baseline of the other benchmarks: a call into C and back that does nothing.
func BenchmarkBareCgoCall(b *testing.B) {
	for b.Loop() {
		repotest.CallC()
	}
}

func BenchmarkCallWithoutArguments(b *testing.B) { benchmarkCall(b, function(b, "nop")) }

// vectors are three slices of 16 elements, aligned.
func vectors(t testing.TB) (x, y, z []float32) {
	for _, v := range []*[]float32{&x, &y, &z} {
		m := make([]float32, 32)
		for uintptr(unsafe.Pointer(&m[0]))%64 != 0 {
			m = m[1:]
		}
		*v = m[:16]
	}
	return x, y, z
}

func benchmarkCall(b *testing.B, f *tvmffi.Function, args ...any) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Call(args...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallWithThreeSlices(b *testing.B) {
	f := function(b, "vadd")
	x, y, z := vectors(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Call(x, y, z); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallWithThreeMatrices(b *testing.B) {
	f := function(b, "matmul")
	x, y, z := vectors(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Call(tvmffi.Shape(x[:4], 2, 2), tvmffi.Shape(y[:4], 2, 2), tvmffi.Shape(z[:4], 2, 2)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallWithThreeTensors(b *testing.B) {
	f := function(b, "vadd")
	var ts [3]*dlpack.Tensor
	for i := range ts {
		t, err := dlpack.New(dlpack.Float32, 16)
		require.NoError(b, err)
		defer t.Close()
		ts[i] = t
	}
	benchmarkCall(b, f, ts[0], ts[1], ts[2])
}

func BenchmarkPreparedCallWithThreeSlices(b *testing.B) {
	x, y, z := vectors(b)
	p, err := function(b, "vadd").Prepare(x, y, z)
	require.NoError(b, err)
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Call(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCallOfGoWithThreeSlices calls a Go function through TVM-FFI.
func BenchmarkCallOfGoWithThreeSlices(b *testing.B) {
	need(b)
	f, err := tvmffi.NewFunction(func(a tvmffi.Args) (any, error) {
		x, y, z := tvmffi.Slice[float32](a, 0), tvmffi.Slice[float32](a, 1), tvmffi.Slice[float32](a, 2)
		if err := a.Check(3); err != nil {
			return nil, err
		}
		for i := range z {
			z[i] = x[i] + y[i]
		}
		return nil, nil
	})
	require.NoError(b, err)
	defer f.Close()
	x, y, z := vectors(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Call(x, y, z); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServeWithTwoTensorsAndAFloat measures the cost of a served function in addition to the callback into Go, by
// comparison with the same code by hand and without C.
func BenchmarkServeWithTwoTensorsAndAFloat(b *testing.B) {
	x, y, _ := vectors(b)
	dims := [2]int64{16, 1}
	tensors := [2]*dlTensor{}
	for i, data := range [][]float32{x, y} {
		tensors[i] = &dlTensor{data: unsafe.Pointer(&data[0]), device: dlpack.Device{Type: dlpack.CPU}, ndim: 1, dtype: dlpack.Float32,
			shape: &dims[0], strides: &dims[1]}
	}
	args := &[3]ffiAny{
		{constant("FFI_DLTENSOR"), 0, uintptr(unsafe.Pointer(tensors[0]))},
		{constant("FFI_DLTENSOR"), 0, uintptr(unsafe.Pointer(tensors[1]))},
		{constant("FFI_FLOAT"), 0, uintptr(math.Float64bits(2))},
	}
	result := new(ffiAny)
	h := func(a tvmffi.Args) (any, error) {
		x, y, k := tvmffi.Slice[float32](a, 0), tvmffi.Slice[float32](a, 1), float32(a.Float(2))
		if err := a.Check(3); err != nil {
			return nil, err
		}
		if len(x) != len(y) {
			return nil, tvmffi.Errorf(tvmffi.ValueError, "scale: %d elements, and room for %d", len(x), len(y))
		}
		for i := range y {
			y[i] = k * x[i]
		}
		return nil, nil
	}
	need(b)
	b.ReportAllocs()
	for b.Loop() {
		if tvmffi.Serve(h, unsafe.Pointer(args), 3, unsafe.Pointer(result)) != 0 {
			b.Fatal("it failed")
		}
	}
	runtime.KeepAlive(tensors)
}

func BenchmarkServeNothing(b *testing.B) {
	need(b)
	result := new([2]uint64)
	for b.Loop() {
		tvmffi.Serve(func(a tvmffi.Args) (any, error) { return nil, nil }, nil, 0, unsafe.Pointer(result))
	}
}
