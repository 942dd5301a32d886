// Libcount is a Go library that counts how often each byte occurs. The workers of count.py load it.
package main

import "C" // for the export comments below
import (
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export count
func count(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(counts, e, x) }

// counts returns an int64 tensor of 256 elements: how often each byte occurs in a uint8 tensor. The tensor may be read-only, as those
// of Ray's object store are.
func counts(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	x, err := dlpack.UnsafeValues[uint8](in[0])
	if err != nil {
		return nil, err
	}
	result := make([]int64, 256)
	for _, v := range x {
		result[v]++
	}
	return dlpack.FromSlice(result)
}

//export add
func add(x, y, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(sum, e, x, y) }

// sum returns the sum of two int64 tensors.
func sum(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	x, err := dlpack.UnsafeValues[int64](in[0])
	if err != nil {
		return nil, err
	}
	y, err := dlpack.UnsafeValues[int64](in[1])
	if err != nil {
		return nil, err
	}
	result := make([]int64, len(x))
	for i := range x {
		result[i] = x[i] + y[i]
	}
	return dlpack.FromSlice(result)
}

func main() {}
