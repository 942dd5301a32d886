// Libdemo is a Go program in the form of a C library: it reads ZIO messages from files and shares their
// tensors with C and Python. It imports package capi, so it also exports the functions of dlbridge.h, and the process has only
// one Go runtime.
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

// demo_open reads a message, with one file for each frame that a socket would deliver. It returns the number of tensors that
// are open, or -1.
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

// demo_export returns an export of tensor i: a DLManagedTensorVersioned, which the caller must release.
//
//export demo_export
func demo_export(i C.int64_t) unsafe.Pointer {
	m, err := tensors[i].Export()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return m
}

// demo_go_address returns the address of element (0, ..., 0) of tensor i as Go sees it.
//
//export demo_go_address
func demo_go_address(i C.int64_t) C.uint64_t { return C.uint64_t(tensors[i].Data()) }

// demo_go_read returns the bits of that element as Go reads them.
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

// demo_close closes the tensors in Go, and returns how many exports are still alive.
//
//export demo_close
func demo_close() C.int64_t {
	for _, t := range tensors {
		t.Close()
	}
	return C.int64_t(dlpack.ReadStats().Exports)
}

func main() {}
