// Command peer is a second Go library with its own runtime. It makes tensors, accepts tensors and passes tensors on:
// see two_runtimes.c.
package main

// #include <stdint.h>
import "C"

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

func main() {}

// peer_start keeps the collector running as long as the process lives.
//
//export peer_start
func peer_start() {
	debug.SetGCPercent(1)
	go func() {
		for {
			runtime.GC()
		}
	}()
}

// peer_make makes a tensor of n float32 of one value: kind 0 of Go's memory, 1 of C's.
//
//export peer_make
func peer_make(kind C.int, value C.float, n C.int64_t) unsafe.Pointer {
	data := make([]float32, n)
	tensor, err := dlpack.FromSlice(data)
	if kind == 1 {
		if tensor, err = dlpack.New(dlpack.Float32, int64(n)); err == nil {
			data, err = dlpack.Values[float32](tensor)
		}
	}
	if err != nil {
		return nil
	}
	defer tensor.Close()
	for i := range data {
		data[i] = float32(value)
	}
	m, err := tensor.Export()
	if err != nil {
		return nil
	}
	return m
}

// peer_pass takes a tensor over and hands it on: as another view where half is not 0.
//
//export peer_pass
func peer_pass(managed unsafe.Pointer, half C.int) unsafe.Pointer {
	tensor, err := dlpack.Import(managed)
	if err != nil {
		return nil
	}
	defer tensor.Close()
	if half != 0 {
		view, err := tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{tensor.NumElements() / 2}})
		if err != nil {
			return nil
		}
		defer view.Close()
		tensor = view
	}
	m, err := tensor.Export()
	if err != nil {
		return nil
	}
	return m
}

// peer_take takes a tensor over, and returns how many of its elements have the value, or -1.
//
//export peer_take
func peer_take(managed unsafe.Pointer, value C.float) C.int64_t {
	tensor, err := dlpack.Import(managed)
	if err != nil {
		return -1
	}
	defer tensor.Close()
	values, err := dlpack.Values[float32](tensor)
	if err != nil {
		return -1
	}
	n := 0
	for _, v := range values {
		if v == float32(value) {
			n++
		}
	}
	return C.int64_t(n)
}

// peer_live counts what is alive.
//
//export peer_live
func peer_live() C.int64_t {
	s := dlpack.ReadStats()
	return C.int64_t(s.Exports + s.Imports + s.Allocations)
}
