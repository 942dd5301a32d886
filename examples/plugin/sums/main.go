// Libsums is a plugin in Go for programs in C: two functions on their tensors.
package main

import "C" // for the export comments below
import (
	"errors"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export cumulate
func cumulate(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(sums, e, x) }

// sums returns the sums of the numbers up to each, in memory of Go.
func sums(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	x, err := dlpack.Values[float32](in[0])
	if err != nil {
		return nil, err
	}
	if len(x) == 0 {
		return nil, errors.New("cumulate: there are no numbers")
	}
	out := make([]float32, len(x))
	sum := float32(0)
	for i, v := range x {
		sum += v
		out[i] = sum
	}
	return dlpack.FromSlice(out)
}

//export twice
func twice(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(doubled, e, x) }

// doubled doubles the numbers where they are, and returns the tensor that it got.
func doubled(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	return in[0], dlpack.Use(in[0], func(x []float32) error {
		for i := range x {
			x[i] *= 2
		}
		return nil
	})
}

func main() {}
