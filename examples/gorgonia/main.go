// Libsolve is a C library in Go that solves linear equations with gorgonia, in the memory of its caller: NumPy, PyTorch or C.
package main

import "C"

import (
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
)

// solve improves x until a x = b, and returns the number of steps. It takes over all three, each a
// DLManagedTensorVersioned of float64: a has the shape [n n], b and x have [n]. a must be symmetric and positive
// definite. e is a dlb_error.
//
//export solve
func solve(a, b, x, e unsafe.Pointer) (steps C.longlong) {
	capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		n := in[2].Dim(0)
		shapes := [3][]int64{{n, n}, {n}, {n}}
		var ds [3]*tensor.Dense
		for i, t := range in {
			if err := t.Require(dlpack.Float64, shapes[i]...); err != nil {
				return nil, err
			}
			d, release, err := gorgonia.Dense(t)
			if err != nil {
				return nil, err
			}
			defer release() // afterwards NumPy's array is released
			ds[i] = d
		}
		steps = C.longlong(conjugateGradients(ds[0], ds[1], ds[2]))
		return nil, nil
	}, capi.Tensors(a, b, x), e)
	return steps
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

// must panics if gorgonia returns an error. Serve turns the panic into an error.
func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

func main() {}
