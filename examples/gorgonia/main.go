// Libsolve is a C library in Go that solves linear equations with gorgonia, in the memory of its caller: NumPy, PyTorch or C.
package main

import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
)

// solve improves x until a x = b, and returns the number of steps, or -1. All three are DLManagedTensorVersioned of float64,
// which solve takes over. a must be symmetric and positive definite.
//
//export solve
func solve(a, b, x unsafe.Pointer) (steps C.longlong) {
	defer func() { // gorgonia sometimes panics, and a panic must not unwind into C
		if p := recover(); p != nil {
			fmt.Fprintln(os.Stderr, p)
			steps = -1
		}
	}()
	var ds [3]*tensor.Dense
	var last error
	for i, managed := range []unsafe.Pointer{a, b, x} {
		d, release, err := take(managed)
		if err != nil {
			last = err
			continue // the others are taken over as well
		}
		defer release() // afterwards NumPy's array is released
		ds[i] = d
	}
	if last != nil {
		panic(last)
	}
	return C.longlong(conjugateGradients(ds[0], ds[1], ds[2]))
}

// take imports a managed tensor and returns a tensor of gorgonia over its memory.
func take(managed unsafe.Pointer) (*tensor.Dense, func(), error) {
	t, err := dlpack.Import(managed)
	if err != nil {
		dlpack.Release(managed)
		return nil, nil, err
	}
	defer t.Close() // the Dense has a share of its own
	return gorgonia.Dense(t)
}

func conjugateGradients(a, b, x *tensor.Dense) (steps int) {
	dot := func(s, t tensor.Tensor) float64 { return must(tensor.Inner(s, t)).(float64) }
	r := must(tensor.Sub(b, must(tensor.MatVecMul(a, x))))
	p := r.Clone().(tensor.Tensor)
	for rr := dot(r, r); rr > 1e-24 && steps < 10*x.Size(); steps++ {
		ap := must(tensor.MatVecMul(a, p))
		alpha := rr / dot(p, ap)
		must(tensor.Mul(p, alpha, tensor.WithIncr(x))) // x += alpha p, in NumPy's memory
		must(tensor.Mul(ap, -alpha, tensor.WithIncr(r)))
		was := rr
		rr = dot(r, r)
		must(tensor.Mul(p, rr/was, tensor.UseUnsafe()))
		must(tensor.Add(p, r, tensor.UseUnsafe()))
	}
	return steps
}

func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

func main() {}
