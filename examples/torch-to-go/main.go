package main

import "C" // for the export comment below
import (
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export sort
func sort(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(sorted, capi.Tensors(x), e) }

func sorted(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	return in[0], dlpack.Use(in[0], func(x []float32) error { slices.Sort(x); return nil })
}

func main() {}
