//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// pointer converts an address outside Go's heap to a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// chars returns the address of a text, which does not end with a NUL. The caller keeps the text alive.
func chars(text string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(text))) }

// cell returns the address of the content of an object, which follows its header.
func cell(object uintptr) unsafe.Pointer { return pointer(object + C.sizeof_ffi_object) }

// textOf returns a copy of a text, whose length may exceed a C int.
func textOf(b *C.ffi_bytes) string { return string(view(b)) }

// view returns the bytes without copying them, and nil if there are none: data may then be an invalid address, and Go
// ends the process if it finds such an address on a stack.
func view(b *C.ffi_bytes) []byte {
	if b.size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(b.data)), b.size)
}

// raised returns the error that a call has raised, and releases its object.
func raised(function string, r C.ffi_result) error {
	e := errorOf(r)
	e.Function = function
	return e
}

func errorOf(r C.ffi_result) *Error {
	object := uintptr(r.value)
	if object == 0 {
		return &Error{Kind: RuntimeError, Message: "the function failed without an error object"}
	}
	c := (*C.ffi_error)(cell(object))
	e := &Error{Kind: textOf(&c.kind), Message: textOf(&c.message), Backtrace: textOf(&c.backtrace)}
	giveBack(object)
	return e
}

// resultOf converts the result of a call to a Go value, as value does. Its errors say that they are about the result.
func resultOf(r C.ffi_result) (any, error) {
	v, err := value(r)
	if err != nil {
		return nil, at("result", err)
	}
	return v, nil
}

// value converts a value of TVM-FFI to a Go value. The Go value takes over an object in it, or value releases the
// object, even on an error.
func value(r C.ffi_result) (any, error) {
	object := uintptr(r.value)
	if r._type >= C.FFI_OBJECT && object == 0 {
		return nil, newError(dlpack.ErrNull, "an object of type %d has the address 0", r._type)
	}
	switch r._type {
	case C.FFI_NONE:
		return nil, nil
	case C.FFI_INT:
		return int64(r.value), nil
	case C.FFI_BOOL:
		return r.value != 0, nil
	case C.FFI_FLOAT:
		return *(*float64)(unsafe.Pointer(&r.value)), nil
	case C.FFI_POINTER:
		return object, nil
	case C.FFI_DTYPE:
		return dlpack.DataType(r.value), nil
	case C.FFI_DEVICE:
		return *(*dlpack.Device)(unsafe.Pointer(&r.value)), nil
	case C.FFI_SMALL_STRING:
		return string(small(uint64(r.value), r.size)), nil
	case C.FFI_SMALL_BYTES:
		return small(uint64(r.value), r.size), nil
	case C.FFI_STRING, C.FFI_BYTES:
		defer giveBack(object)
		b := (*C.ffi_bytes)(cell(object))
		if err := dlpack.RequireMemory(int64(b.size)); err != nil {
			return nil, err
		}
		if r._type == C.FFI_STRING {
			return textOf(b), nil
		}
		return append([]byte{}, view(b)...), nil
	case C.FFI_TENSOR:
		t, err := tensorOf(object)
		giveBack(object)
		if err != nil {
			return nil, err
		}
		return t, nil
	case C.FFI_FUNCTION:
		return newFunction("function", object, nil), nil
	case C.FFI_MODULE:
		m := &Module{path: "module"}
		m.hold(C.FFI_MODULE, object)
		return m, nil
	case C.FFI_ERROR:
		return errorOf(r), nil
	}
	switch {
	case r._type >= C.FFI_DLTENSOR && r._type <= C.FFI_MOVED:
		return nil, newError(ErrArgument, "a value of type %d is valid only as an argument", r._type)
	case r._type < C.FFI_OBJECT:
		return nil, newError(ErrArgument, "Go cannot represent %s", typeName(r._type))
	}
	o := new(Object)
	o.hold(int32(r._type), object)
	return o, nil
}

// small returns a copy of the bytes of a small string, which lie in the value itself.
func small(value uint64, size C.uint32_t) []byte {
	bytes := (*[8]byte)(unsafe.Pointer(&value))
	return append([]byte{}, bytes[:min(size, C.FFI_SMALL_MAX)]...)
}

// tensorOf returns a tensor that holds a share of a tensor object of TVM-FFI.
func tensorOf(object uintptr) (*dlpack.Tensor, error) {
	r := C.ffi_managed(C.uintptr_t(object))
	if r.status != 0 {
		return nil, raised("", r)
	}
	m := pointer(uintptr(r.value))
	t, err := dlpack.Import(m)
	if err != nil && !errors.Is(err, dlpack.ErrVersion) { // for ErrVersion, Import has released it
		dlpack.Release(m)
	}
	return t, err
}
