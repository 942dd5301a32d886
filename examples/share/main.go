package main

import "C" // for the export comment below
import (
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export predict
func predict(x, w unsafe.Pointer, bias float32, e unsafe.Pointer) unsafe.Pointer {
	f := func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return linear(in[0], in[1], bias) }
	return capi.Serve(f, capi.Tensors(x, w), e)
}

// linear returns x·w + bias in new memory. It only reads the matrix x and the vector w.
func linear(x, w *dlpack.Tensor, bias float32) (*dlpack.Tensor, error) {
	if err := x.Require(dlpack.Float32, -1, -1); err != nil { // -1 stands for any size
		return nil, err
	}
	if err := w.Require(dlpack.Float32, x.Shape()[1]); err != nil {
		return nil, err
	}
	y := slices.Repeat([]float32{bias}, int(x.Shape()[0]))
	err := dlpack.Read(x, func(x []float32) error {
		return dlpack.Read(w, func(w []float32) error {
			for i := range x {
				y[i/len(w)] += x[i] * w[i%len(w)]
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return dlpack.FromSlice(y)
}

func main() {}
