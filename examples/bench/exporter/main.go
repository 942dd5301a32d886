// Command exporter is a shared library for the Python paths of the benchmark. Its Go code exports tensors, and it is
// also a TVM-FFI module.
package main

// #include <stdint.h>
import "C"

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

func main() {}

var ofNew, ofSlice = must(dlpack.New(dlpack.Float32, 1024)), must(dlpack.FromSlice(make([]float32, 1024)))

// export_new exports a tensor of dlpack.New n times and writes the addresses of the managed tensors to out.
//
//export export_new
func export_new(out *C.uintptr_t, n C.int64_t) { export(ofNew, out, n) }

// export_slice does the same with a tensor of a Go slice.
//
//export export_slice
func export_slice(out *C.uintptr_t, n C.int64_t) { export(ofSlice, out, n) }

func export(t *dlpack.Tensor, out *C.uintptr_t, n C.int64_t) {
	for i := range unsafe.Slice(out, n) {
		unsafe.Slice(out, n)[i] = C.uintptr_t(uintptr(must(t.Export())))
	}
}

// floats is the Go slice of 16 MiB that reaches Python.
var floats = make([]float32, 4<<20)

// share returns a tensor of floats, for dlbridge.wrap.
//
//export share
func share(e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return dlpack.FromSlice(floats) }, capi.Tensors(), e)
}

// fill copies floats into memory of Python.
//
//export fill
func fill(out *C.float) { copy(unsafe.Slice((*float32)(unsafe.Pointer(out)), len(floats)), floats) }

// __tvm_ffi_nothing is an empty function; a call costs one callback into Go.
//
//export __tvm_ffi_nothing
func __tvm_ffi_nothing(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 { return 0 }

//export __tvm_ffi_scale
func __tvm_ffi_scale(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(scale, args, n, result)
}

func scale(a tvmffi.Args) (any, error) {
	x, y, k := tvmffi.Slice[float32](a, 0), tvmffi.Slice[float32](a, 1), float32(a.Float(2))
	if err := a.Check(3); err != nil {
		return nil, err
	}
	if len(x) != len(y) {
		return nil, tvmffi.Errorf(tvmffi.ValueError, "%d elements instead of %d", len(x), len(y))
	}
	for i := range y {
		y[i] = k * x[i]
	}
	return nil, nil
}

// twice doubles the elements of a tensor, for dlbridge.wrap.
//
//export twice
func twice(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(double, capi.Tensors(x), e) }

func double(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	return nil, dlpack.Use(in[0], func(x []float32) error {
		for i := range x {
			x[i] *= 2
		}
		return nil
	})
}

// __tvm_ffi_twice does the same for TVM-FFI.
//
//export __tvm_ffi_twice
func __tvm_ffi_twice(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(func(a tvmffi.Args) (any, error) {
		x := tvmffi.Slice[float32](a, 0)
		if err := a.Check(1); err != nil {
			return nil, err
		}
		for i := range x {
			x[i] *= 2
		}
		return nil, nil
	}, args, n, result)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
