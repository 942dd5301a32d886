package main

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"time"
	"unsafe"
)

// The naive design allocates the managed tensor with malloc, refers to its owner through a cgo.Handle, and has a
// deleter written in Go.

type naiveOwner struct {
	data   []float32
	pinner runtime.Pinner
}

type naiveManaged struct {
	managed C.DLManagedTensorVersioned
	dims    [2]C.int64_t
}

func naiveExport(data []float32) unsafe.Pointer {
	owner := &naiveOwner{data: data}
	owner.pinner.Pin(&data[0])
	p := C.malloc(C.size_t(unsafe.Sizeof(naiveManaged{})))
	dims := &(*naiveManaged)(p).dims
	dims[0], dims[1] = C.int64_t(len(data)), 1
	m := &(*naiveManaged)(p).managed
	m.version = C.DLPackVersion{major: C.DLPACK_MAJOR_VERSION, minor: C.DLPACK_MINOR_VERSION}
	*(*uintptr)(unsafe.Pointer(&m.manager_ctx)) = uintptr(cgo.NewHandle(owner))
	m.deleter = (*[0]byte)(C.naive_deleter())
	m.flags = 0
	// This writes an integer. A pointer write could run the write barrier, which would read the old, uninitialized
	// value.
	*(*uintptr)(unsafe.Pointer(&m.dl_tensor.data)) = uintptr(unsafe.Pointer(&data[0]))
	m.dl_tensor.device = C.DLDevice{device_type: C.kDLCPU}
	m.dl_tensor.ndim = 1
	m.dl_tensor.dtype = C.DLDataType{code: C.kDLFloat, bits: 32, lanes: 1}
	*(*uintptr)(unsafe.Pointer(&m.dl_tensor.shape)) = uintptr(unsafe.Pointer(&dims[0]))
	*(*uintptr)(unsafe.Pointer(&m.dl_tensor.strides)) = uintptr(unsafe.Pointer(&dims[1]))
	m.dl_tensor.byte_offset = 0
	return p
}

//export naiveDelete
func naiveDelete(m *C.DLManagedTensorVersioned) {
	handle := cgo.Handle(uintptr(m.manager_ctx))
	handle.Value().(*naiveOwner).pinner.Unpin()
	handle.Delete()
	C.free(unsafe.Pointer(m))
}

func naive() []path {
	data := make([]float32, 1024)
	list := make(manageds, batch)
	export := func(int) {
		for i := range list {
			list[i] = naiveExport(data)
		}
	}
	return []path{
		{name: "naive_export", rounds: batch, run: export, after: func(int) { list.deleteHere() }},
		{name: "naive_delete_on_go_thread", rounds: batch, before: export,
			clocked: func(int) time.Duration { return list.deleteHere() }},
		{name: "naive_delete_on_foreign_thread", rounds: batch, before: export,
			clocked: func(int) time.Duration { return list.deleteThere() }},
	}
}
