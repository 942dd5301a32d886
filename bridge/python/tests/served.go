//go:build ignore

// A library of Go functions that fail in every way. conftest.py builds it.
package main

import "C"

import (
	"errors"
	"strings"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

// failure is an error with its own text.
type failure struct {
	text  string
	cause error
}

func (f failure) Error() string { return f.text }
func (f failure) Unwrap() error { return f.cause }

var causes = []error{
	dlpack.ErrDType, dlpack.ErrValue, dlpack.ErrLayout, dlpack.ErrOverflow, dlpack.ErrUnaligned, dlpack.ErrNull,
	dlpack.ErrClosed, dlpack.ErrBorrowed, dlpack.ErrDevice, dlpack.ErrReadOnly, dlpack.ErrVersion, dlpack.ErrMemory, nil,
}

//export fail
func fail(x unsafe.Pointer, cause int32, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) {
		return nil, failure{"é: 100%s of %d", causes[cause]}
	}, capi.Tensors(x), e)
}

//export throw
func throw(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic("oh %s") }, capi.Tensors(x), e)
}

//export throw_nil_pointer
func throw_nil_pointer(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, errors.New(*(*string)(nil)) }, capi.Tensors(x), e)
}

//export throw_deep
func throw_deep(x unsafe.Pointer, levels int32, size int64, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { outer(levels, size); return nil, nil }, capi.Tensors(x), e)
}

//go:noinline
func outer(levels int32, size int64) { inner(levels, size) }

// inner panics in a call that is levels deeper, with a text of size bytes.
//
//go:noinline
func inner(levels int32, size int64) {
	if levels > 0 {
		inner(levels-1, size)
		return
	}
	panic(strings.Repeat("ö", int(size/2)))
}

//export nothing
func nothing(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, nil }, capi.Tensors(x), e)
}

//export same
func same(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[0], nil }, capi.Tensors(x), e)
}

//export both
func both(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[0], errors.New("both") }, capi.Tensors(x), e)
}

//export second
func second(x, y, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[1], nil }, capi.Tensors(x, y), e)
}

//export last_of_nine
func last_of_nine(a, b, c, d, f, g, h, i, j, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[8], nil }, capi.Tensors(a, b, c, d, f, g, h, i, j), e)
}

//export add_scaled
func add_scaled(x unsafe.Pointer, k float64, y, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		return nil, dlpack.Read(in[0], func(from []float32) error {
			return dlpack.Use(in[1], func(to []float32) error {
				for i := range to {
					to[i] += float32(k) * from[i]
				}
				return nil
			})
		})
	}, capi.Tensors(x, y), e)
}

//export forty_pinned_bytes
func forty_pinned_bytes(e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return dlpack.FromSlice(make([]float64, 5)) }, capi.Tensors(), e)
}

func main() {}
