// Libkernels is a module of TVM-FFI written in Go. Python loads it with tvm_ffi.load_module, and calls its functions with
// tensors of NumPy, PyTorch or JAX.
package main

import "C"

import (
	"math"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export __tvm_ffi_axpy
func __tvm_ffi_axpy(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(axpy, args, n, result)
}

// axpy adds k x to y, in place.
func axpy(a tvmffi.Args) (any, error) {
	k, x, y := float32(a.Float(0)), tvmffi.Slice[float32](a, 1), tvmffi.Slice[float32](a, 2)
	if err := a.Check(3); err != nil {
		return nil, err
	}
	if len(x) != len(y) {
		return nil, tvmffi.Errorf(tvmffi.ValueError, "axpy: x has %d elements, y has %d", len(x), len(y))
	}
	for i := range y {
		y[i] += k * x[i]
	}
	return nil, nil
}

//export __tvm_ffi_softmax
func __tvm_ffi_softmax(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(softmax, args, n, result)
}

// softmax returns a new matrix with the softmax of each row of a matrix.
func softmax(a tvmffi.Args) (any, error) {
	x, shape := tvmffi.Slice[float32](a, 0), a.Shape(0)
	if err := a.Check(1); err != nil {
		return nil, err
	}
	if len(shape) != 2 {
		return nil, tvmffi.Errorf(tvmffi.ValueError, "softmax: shape %v is not the shape of a matrix", shape)
	}
	t, err := dlpack.New(dlpack.Float32, shape...)
	if err != nil {
		return nil, err
	}
	err = dlpack.Use(t, func(y []float32) error {
		for width := int(shape[1]); len(x) > 0; x, y = x[width:], y[width:] {
			sum, top := float32(0), float32(math.Inf(-1))
			for _, v := range x[:width] {
				top = max(top, v)
			}
			for i, v := range x[:width] {
				y[i] = float32(math.Exp(float64(v - top)))
				sum += y[i]
			}
			for i := range y[:width] {
				y[i] /= sum
			}
		}
		return nil
	})
	return t, err // the tensor becomes the caller's
}

func main() {}
