//go:build ignore

// A library of Go functions that fail in every way. conftest.py builds it.
package main

import "C"

import (
	"errors"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

// failure is an error with a text of its own.
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
	}, e, x)
}

//export throw
func throw(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic("oh %s") }, e, x)
}

//export throw_nil_pointer
func throw_nil_pointer(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, errors.New(*(*string)(nil)) }, e, x)
}

//export nothing
func nothing(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, nil }, e, x)
}

//export same
func same(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[0], nil }, e, x)
}

//export both
func both(x, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[0], errors.New("both") }, e, x)
}

//export second
func second(x, y, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[1], nil }, e, x, y)
}

//export last_of_nine
func last_of_nine(a, b, c, d, f, g, h, i, j, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[8], nil }, e, a, b, c, d, f, g, h, i, j)
}

//export add_scaled
func add_scaled(x unsafe.Pointer, k float64, y, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		from, err := dlpack.UnsafeValues[float32](in[0])
		if err != nil {
			return nil, err
		}
		to, err := dlpack.Values[float32](in[1])
		if err != nil {
			return nil, err
		}
		for i := range to {
			to[i] += float32(k) * from[i]
		}
		return nil, nil
	}, e, x, y)
}

//export forty_pinned_bytes
func forty_pinned_bytes(e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return dlpack.FromSlice(make([]float64, 5)) }, e)
}

func main() {}
