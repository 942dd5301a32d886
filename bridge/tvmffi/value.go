//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// pointer makes a pointer of an address outside Go's heap.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func chars(text string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(text))) }

// cell returns the address behind the header of an object.
func cell(object uintptr) unsafe.Pointer { return pointer(object + C.sizeof_ffi_object) }

// bytesOf and textOf are copies of what may be longer than a C int.
func bytesOf(b *C.ffi_bytes) []byte { return append([]byte{}, view(b)...) }
func textOf(b *C.ffi_bytes) string  { return string(view(b)) }

// view returns nil if there are no bytes: data may then be an invalid address, and Go ends the process if it finds one on a
// stack.
func view(b *C.ffi_bytes) []byte {
	if b.size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(b.data)), b.size)
}

// raised makes an error of what a call has raised, whose object it gives back.
func raised(function string, r C.ffi_result) error {
	e := errorOf(r)
	e.Function = function
	return e
}

func errorOf(r C.ffi_result) *Error {
	object := uintptr(r.value)
	if object == 0 {
		return &Error{Kind: RuntimeError, Message: "it failed, and does not say why"}
	}
	c := (*C.ffi_error)(cell(object))
	e := &Error{Kind: textOf(&c.kind), Message: textOf(&c.message), Backtrace: textOf(&c.backtrace)}
	giveBack(object)
	return e
}

// value makes a Go value of what a call returned, whose object it takes over or gives back.
func value(r C.ffi_result) (any, error) {
	object := uintptr(r.value)
	if r._type >= C.FFI_OBJECT && object == 0 {
		return nil, refuse("result", dlpack.ErrNull, "an object of type %d at 0", r._type)
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
		return string(small(&r)), nil
	case C.FFI_SMALL_BYTES:
		return small(&r), nil
	case C.FFI_STRING, C.FFI_BYTES:
		defer giveBack(object)
		b := (*C.ffi_bytes)(cell(object))
		if err := dlpack.RequireMemory(int64(b.size)); err != nil {
			return nil, at("result", err)
		}
		if r._type == C.FFI_STRING {
			return textOf(b), nil
		}
		return bytesOf(b), nil
	case C.FFI_TENSOR:
		t, err := tensorOf(object)
		giveBack(object)
		if err != nil {
			return nil, at("result", err)
		}
		return t, nil
	case C.FFI_FUNCTION:
		return newFunction("function", object, nil), nil
	case C.FFI_MODULE:
		m := &Module{path: "module"}
		m.hold(object)
		return m, nil
	case C.FFI_ERROR:
		return errorOf(r), nil
	}
	if r._type < C.FFI_OBJECT {
		return nil, refuse("result", ErrArgument, "a value of type %d is only borrowed", r._type)
	}
	return newObject(int32(r._type), object), nil
}

func small(r *C.ffi_result) []byte {
	bytes := (*[8]byte)(unsafe.Pointer(&r.value))
	return append([]byte{}, bytes[:min(r.size, 7)]...)
}

// tensorOf makes a tensor that keeps a tensor object of TVM-FFI's.
func tensorOf(object uintptr) (*dlpack.Tensor, error) {
	r := C.ffi_managed(C.uintptr_t(object))
	if r.status != 0 {
		return nil, raised("", r)
	}
	m := pointer(uintptr(r.value))
	t, err := dlpack.Import(m)
	if err != nil && !errors.Is(err, dlpack.ErrVersion) { // then it has been released
		dlpack.Release(m)
	}
	return t, err
}
