// Libdemo is a Go program in the form of a C library: it reads ZIO messages from files and shares their
// tensors with C and Python. It imports package capi, so that it is a dlbridge library as well, and the
// one Go runtime of the process.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#include <stdint.h>
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge"
	_ "github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

var tensors []*dlpack.Tensor

// demo_open reads a message, a file for each frame as a socket would deliver them, and returns the number
// of tensors so far, or -1.
//
//export demo_open
func demo_open(folder, name *C.char) C.int64_t {
	var frames [][]byte
	for _, frame := range []string{"prefix", "header", "part0", "part1", "part2"} {
		data, err := os.ReadFile(filepath.Join(C.GoString(folder), C.GoString(name)+"."+frame+".bin"))
		if err == nil {
			frames = append(frames, data)
		}
	}
	msg, err := tens.Decode(frames)
	if err == nil {
		var ts []*dlpack.Tensor
		if ts, err = bridge.Decode(msg, bridge.Writable()); err == nil {
			tensors = append(tensors, ts...)
			return C.int64_t(len(tensors))
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return -1
}

// demo_export hands out a share of tensor i: a DLManagedTensorVersioned.
//
//export demo_export
func demo_export(i C.int64_t) unsafe.Pointer {
	m, err := tensors[i].Export()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return m
}

// demo_go_address is where Go sees element (0, ..., 0) of tensor i.
//
//export demo_go_address
func demo_go_address(i C.int64_t) C.uint64_t { return C.uint64_t(tensors[i].Data()) }

// demo_go_read is what Go reads there: the bits of one element.
//
//export demo_go_read
func demo_go_read(i C.int64_t) C.uint64_t {
	var element [8]byte
	data, start, err := tensors[i].UnsafeBytes()
	if err != nil {
		return 0
	}
	copy(element[:tensors[i].DType().ItemSize()], data[start:])
	return C.uint64_t(binary.LittleEndian.Uint64(element[:]))
}

// demo_close ends Go's hold on the tensors, and returns how many exports are still alive.
//
//export demo_close
func demo_close() C.int64_t {
	for _, t := range tensors {
		t.Close()
	}
	return C.int64_t(dlpack.ReadStats().Exports)
}

func main() {}
