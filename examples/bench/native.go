package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -I${SRCDIR}/../../include -I${SRCDIR}/../../dlpack/internal/core
#cgo LDFLAGS: -lpthread -ldl
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

func nanoseconds(n C.int64_t) time.Duration { return time.Duration(n) }

var added int64

//export goNothing
func goNothing() {}

// yardsticks returns the baselines: the smallest cost of a crossing in each direction, of an atomic addition, and of plain C.
func yardsticks() []path {
	return []path{
		{name: "cgo_call", run: func(n int) {
			for range n {
				C.nothing()
			}
		}},
		{name: "atomic_add", run: func(n int) {
			for range n {
				atomic.AddInt64(&added, 1)
			}
		}},
		{name: "callback_on_go_thread", clocked: func(n int) time.Duration {
			return nanoseconds(C.call_back_here(C.int64_t(n)))
		}},
		{name: "callback_on_foreign_thread", clocked: func(n int) time.Duration {
			return nanoseconds(C.call_back_there(C.int64_t(n)))
		}},
		{name: "c_fill_free", clocked: func(n int) time.Duration {
			return nanoseconds(C.produce_and_delete(C.int64_t(n)))
		}},
		{name: "c_life", clocked: func(n int) time.Duration {
			return nanoseconds(C.make_export_release_close(C.int64_t(n)))
		}},
	}
}

// manageds is a list of `DLManagedTensorVersioned *`.
type manageds []unsafe.Pointer

func (m manageds) produce() { C.produce(&m[0], C.int64_t(len(m))) }
func (m manageds) deleteHere() time.Duration {
	return nanoseconds(C.delete_here(&m[0], C.int64_t(len(m))))
}
func (m manageds) deleteThere() time.Duration {
	return nanoseconds(C.delete_there(&m[0], C.int64_t(len(m))))
}
func deleteOnNewThread(m unsafe.Pointer) time.Duration { return nanoseconds(C.delete_on_new_thread(m)) }

// unpinning returns how long Go memory stays pinned after a foreign thread has called the deleter of m. The calling goroutine
// sleeps meanwhile.
func unpinning(m unsafe.Pointer) time.Duration {
	l := (*C.unpinning)(C.calloc(1, C.sizeof_unpinning))
	defer C.free(unsafe.Pointer(l))
	l.managed = m
	C.start_unpinning(l)
	took := (*int64)(unsafe.Pointer(&l.nanoseconds))
	for atomic.LoadInt64(took) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	return time.Duration(*took)
}

// arrows is C memory for the `ArrowArray`s of one batch.
type arrows struct{ first *C.struct_ArrowArray }

func newArrows(n int) arrows {
	return arrows{(*C.struct_ArrowArray)(C.calloc(C.size_t(n), C.sizeof_struct_ArrowArray))}
}
func (a arrows) at(i int) uintptr {
	return uintptr(unsafe.Pointer(a.first)) + uintptr(i)*C.sizeof_struct_ArrowArray
}
func (a arrows) produce(n int) { C.produce_arrow(a.first, C.int64_t(n)) }
func (a arrows) release(n int) time.Duration {
	return nanoseconds(C.release_arrow(a.first, C.int64_t(n)))
}

// loops returns the paths of a shared library. Each name is a function of the type `int64_t name(int64_t n)`.
func loops(library string, names ...string) ([]path, error) {
	file := C.CString(library)
	defer C.free(unsafe.Pointer(file))
	handle := C.open_library(file)
	if handle == nil {
		return nil, fmt.Errorf("%s cannot be loaded", library)
	}
	var paths []path
	for _, name := range names {
		text := C.CString(name)
		defer C.free(unsafe.Pointer(text))
		function := C.find_loop(handle, text)
		if function == nil {
			return nil, fmt.Errorf("%s has no %s", library, name)
		}
		paths = append(paths, path{name: name, clocked: func(n int) time.Duration {
			return nanoseconds(C.run_loop(function, C.int64_t(n)))
		}})
	}
	return paths, nil
}
