// Libcount is a Go library that counts how often each byte occurs. The workers of count.py load it.
package main

import "C" // for the export comments below
import (
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export count
func count(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(counts, capi.Tensors(x), e) }

// counts returns an int64 tensor of 256 elements: how often each byte occurs in a uint8 tensor. The tensor may be
// read-only, like tensors of Ray's object store.
func counts(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	result := make([]int64, 256)
	err := dlpack.Read(in[0], func(x []uint8) error {
		for _, v := range x {
			result[v]++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dlpack.FromSlice(result)
}

//export add
func add(x, y, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(sum, capi.Tensors(x, y), e) }

// sum returns the sum of two results of counts.
func sum(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
	result := make([]int64, 256)
	for _, t := range in {
		if err := t.Require(dlpack.Int64, 256); err != nil {
			return nil, err
		}
		err := dlpack.Read(t, func(x []int64) error {
			for i, n := range x {
				result[i] += n
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return dlpack.FromSlice(result)
}

func main() {}
