// Libsums is a plugin in Go for C programs: it has two functions on their tensors.
package main

import "C" // for the export comments below
import (
	"errors"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export cumulate
func cumulate(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(sums, capi.Tensors(x), e) }

// sums returns the running sums of the numbers, in Go memory.
func sums(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	var out []float32
	err := dlpack.Read(in[0], func(x []float32) error {
		if len(x) == 0 {
			return errors.New("there are no numbers")
		}
		sum := float32(0)
		out = make([]float32, len(x))
		for i, v := range x {
			sum += v
			out[i] = sum
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dlpack.FromSlice(out)
}

//export twice
func twice(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(doubled, capi.Tensors(x), e) }

// doubled doubles the numbers in place, and returns its argument.
func doubled(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	return in[0], dlpack.Use(in[0], func(x []float32) error {
		for i := range x {
			x[i] *= 2
		}
		return nil
	})
}

func main() {}
