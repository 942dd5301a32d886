package main

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

// tvmffiCalls returns the paths that call a function of a TVM-FFI library with three vectors.
func tvmffiCalls(library string) []path {
	add := must(must(tvmffi.LoadModule(library)).Function("add"))
	var slices [3][]float32
	var tensors [3]*dlpack.Tensor
	for i := range slices {
		slices[i] = aligned(16)
		tensors[i] = newTensor(16)
	}
	x, y, z := slices[0], slices[1], slices[2]
	prepared := must(add.Prepare(x, y, z))
	a, b, c := tensors[0], tensors[1], tensors[2]
	return []path{
		{name: "tvmffi_prepared", counted: true, run: func(n int) {
			for range n {
				must(prepared.Call())
			}
		}},
		{name: "tvmffi_call_slices", counted: true, run: func(n int) {
			for range n {
				must(add.Call(x, y, z))
			}
		}},
		{name: "tvmffi_call_tensors", counted: true, run: func(n int) {
			for range n {
				must(add.Call(a, b, c))
			}
		}},
	}
}

// aligned returns n float32 with the alignment that kernels require.
func aligned(n int) []float32 {
	data := make([]float32, n+tvmffi.DefaultAlignment/4)
	for uintptr(unsafe.Pointer(&data[0]))%tvmffi.DefaultAlignment != 0 {
		data = data[1:]
	}
	return data[:n]
}
