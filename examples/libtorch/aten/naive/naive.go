// Package naive passes Go slices to libtorch as most programs would. It pins the slice, keeps the owner in a
// cgo.Handle, allocates the struct with malloc, uses a Go function as the deleter, and calls libtorch's own import.
// Benchmarks compare package aten with it.
package naive

/*
#cgo CFLAGS: -std=c11 -I${SRCDIR}/../../../../include
#cgo CXXFLAGS: -std=c++20
#cgo LDFLAGS: -ltorch_cpu -lc10
#include <stdlib.h>
#include <dlpack/dlpack.h>
#include "naive.h"

typedef struct {
  DLManagedTensorVersioned managed;
  int64_t shape, strides;
} naive_block;

extern void naiveDelete(DLManagedTensorVersioned *managed);
static void *naive_deleter(void) { return naiveDelete; }
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"unsafe"

	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
)

var deleter = (*[0]byte)(C.naive_deleter())

type owner struct {
	data   []float32
	pinner runtime.Pinner
}

// A Tensor is a reference to a libtorch tensor, or nil if libtorch returned an error.
type Tensor unsafe.Pointer

// Lend makes a libtorch tensor over a slice that is not empty.
func Lend(data []float32) Tensor { return Take(export(data)) }

// Take makes a libtorch tensor from a `DLManagedTensorVersioned *`, with libtorch's own import.
func Take(managed unsafe.Pointer) Tensor {
	return Tensor(C.naive_take((*C.DLManagedTensorVersioned)(managed)))
}

// Close ends the reference.
func Close(x Tensor) { C.naive_free(unsafe.Pointer(x)) }

// export makes a `DLManagedTensorVersioned *` from a slice.
func export(data []float32) unsafe.Pointer {
	o := &owner{data: data}
	o.pinner.Pin(&data[0])
	block := (*C.naive_block)(C.malloc(C.sizeof_naive_block))
	clear(unsafe.Slice((*uint64)(unsafe.Pointer(block)), unsafe.Sizeof(*block)/8)) // before pointers are written
	block.shape, block.strides = C.int64_t(len(data)), 1
	m := &block.managed
	m.version = C.DLPackVersion{major: C.DLPACK_MAJOR_VERSION, minor: C.DLPACK_MINOR_VERSION}
	*(*uintptr)(unsafe.Pointer(&m.manager_ctx)) = uintptr(cgo.NewHandle(o))
	m.deleter = deleter
	m.dl_tensor.data = unsafe.Pointer(&data[0])
	m.dl_tensor.device.device_type = C.kDLCPU
	m.dl_tensor.ndim = 1
	m.dl_tensor.dtype = C.DLDataType{code: C.kDLFloat, bits: 32, lanes: 1}
	m.dl_tensor.shape = &block.shape
	m.dl_tensor.strides = &block.strides
	return unsafe.Pointer(block)
}

//export naiveDelete
func naiveDelete(m *C.DLManagedTensorVersioned) {
	handle := cgo.Handle(uintptr(m.manager_ctx))
	handle.Value().(*owner).pinner.Unpin()
	handle.Delete()
	C.free(unsafe.Pointer(m))
}
