// Command exporter is a shared library whose Go code hands out tensors, for the Python paths.
package main

// #include <stdint.h>
import "C"

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

func main() {}

var ofNew, ofSlice = must(dlpack.New(dlpack.Float32, 1024)), must(dlpack.FromSlice(make([]float32, 1024)))

// export_new writes the addresses of n exports of memory of C's to out.
//
//export export_new
func export_new(out *C.uintptr_t, n C.int64_t) { export(ofNew, out, n) }

// export_slice does the same with a Go slice.
//
//export export_slice
func export_slice(out *C.uintptr_t, n C.int64_t) { export(ofSlice, out, n) }

func export(t *dlpack.Tensor, out *C.uintptr_t, n C.int64_t) {
	for i := range unsafe.Slice(out, n) {
		unsafe.Slice(out, n)[i] = C.uintptr_t(uintptr(must(t.Export())))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
