package main

import "C" // for the export comments below
import (
	"fmt"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

var numbers = []float32{1, 2, 3, 4}

//export share
func share(e unsafe.Pointer) unsafe.Pointer { return capi.Serve(slice, capi.Tensors(), e) }

func slice(...*dlpack.Tensor) (*dlpack.Tensor, error) { return dlpack.FromSlice(numbers, 2, 2) }

//export show
func show() { fmt.Println("Go reads", numbers) }

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

func main() {}
