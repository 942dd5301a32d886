// Command served is a library of Go functions that are served to C.
package main

import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

// second returns its second argument.
//
//export second
func second(x, y, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[1], nil }, capi.Tensors(x, y), e)
}

// fail panics three calls deep.
//
//export fail
func fail(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { outer(); return nil, nil }, capi.Tensors(x), e)
}

//go:noinline
func outer() { inner() }

//go:noinline
func inner() { panic("as asked for") }

var told atomic.Int64

// tell sets a hook that counts the panics, or removes it.
//
//export tell
func tell(on bool) {
	capi.OnPanic(nil)
	if on {
		capi.OnPanic(func(any, []byte) { told.Add(1) })
	}
}

// tellings returns how often the hook was called.
//
//export tellings
func tellings() int64 { return told.Load() }

func main() {}
