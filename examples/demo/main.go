// Libdemo is the Go part of the demo, built as a C library. demo.py loads it and calls its functions. It imports
// package capi, so it also exports the functions of dlbridge.h, and the process has only one Go runtime.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#include <stdint.h>
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

var (
	numbers = []float32{1, 2, 3, 4}
	tensors []*dlpack.Tensor // all tensors that C and Python can request, by number
)

// add makes the results of f available, and returns the number of the first result.
func add(f func() ([]*dlpack.Tensor, error), e unsafe.Pointer) C.int64_t {
	first := len(tensors)
	capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) {
		ts, err := f()
		if err == nil {
			tensors = append(tensors, ts...)
		}
		return nil, err
	}, capi.Tensors(), e)
	return C.int64_t(first)
}

//export go_numbers
func go_numbers(e unsafe.Pointer) C.int64_t {
	return add(func() ([]*dlpack.Tensor, error) {
		t, err := dlpack.FromSlice(numbers)
		return []*dlpack.Tensor{t}, err
	}, e)
}

//export go_print
func go_print() { fmt.Println("   Go reads    ", numbers) }

//export go_increment
func go_increment() {
	for i := range numbers {
		numbers[i]++
	}
}

//export go_ones
func go_ones(count C.int64_t, e unsafe.Pointer) C.int64_t {
	return add(func() ([]*dlpack.Tensor, error) {
		slice := make([]float32, count)
		for i := range slice {
			slice[i] = 1
		}
		t, err := dlpack.FromSlice(slice)
		return []*dlpack.Tensor{t}, err
	}, e)
}

// go_message reads a message whose frames are files, and adds its tensors.
//
//export go_message
func go_message(path *C.char, e unsafe.Pointer) C.int64_t {
	return add(func() ([]*dlpack.Tensor, error) {
		files, err := filepath.Glob(C.GoString(path) + ".part*.bin")
		if err != nil {
			return nil, err
		}
		var frames [][]byte
		for _, file := range append([]string{C.GoString(path) + ".prefix.bin", C.GoString(path) + ".header.bin"}, files...) {
			frame, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			frames = append(frames, frame)
		}
		msg, err := tens.Decode(frames)
		if err != nil {
			return nil, err
		}
		return bridge.Decode(msg, bridge.Writable())
	}, e)
}

//export go_count
func go_count() C.int64_t { return C.int64_t(len(tensors)) }

// go_tensor shares tensor i with its caller.
//
//export go_tensor
func go_tensor(i C.int64_t, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return tensors[i].Share() }, capi.Tensors(), e)
}

// go_address returns the address of the first element of tensor i in Go.
//
//export go_address
func go_address(i C.int64_t) C.uint64_t { return C.uint64_t(tensors[i].Data()) }

// go_last reads the last element of tensor i in Go.
//
//export go_last
func go_last(i C.int64_t) C.double {
	index := make([]int64, len(tensors[i].Shape()))
	for d := range index {
		index[d] = -1
	}
	element, err := tensors[i].At(index...)
	if err != nil {
		return -1
	}
	return C.double(reflect.ValueOf(element).Convert(reflect.TypeFor[float64]()).Float())
}

// go_write takes over a tensor from its caller and writes 7 to its last element.
//
//export go_write
func go_write(x, e unsafe.Pointer) {
	capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		return nil, dlpack.Use(in[0], func(x []float32) error {
			x[len(x)-1] = 7
			return nil
		})
	}, capi.Tensors(x), e)
}

// go_close closes the tensors in Go, and returns how many of them C and Python still hold.
//
//export go_close
func go_close() C.int64_t {
	for _, t := range tensors {
		t.Close()
	}
	return C.int64_t(dlpack.ReadStats().Exports)
}

func main() {}
