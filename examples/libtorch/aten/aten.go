// Package aten calls libtorch on the memory of DLPack tensors, and returns its results as DLPack tensors. No element is
// copied.
//
// run.sh sets the flags with which the compiler and the linker find libtorch. Only aten.cc includes the headers of
// libtorch.
package aten

/*
#cgo CFLAGS: -std=c11
#cgo CXXFLAGS: -std=c++20
#cgo LDFLAGS: -ltorch_cpu -lc10
#cgo noescape at_from_dlpack
#cgo nocallback at_from_dlpack
#cgo noescape at_to_dlpack
#cgo nocallback at_to_dlpack
#include <stdlib.h>
#include "aten.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// ErrTorch is in the chain of every error that libtorch has returned. The text is libtorch's.
var ErrTorch = errors.New("libtorch")

// A Tensor is a reference to a libtorch tensor.
type Tensor struct{ handle *C.at_tensor }

// From returns a libtorch tensor over the memory of t. libtorch checks almost nothing, so From returns an error for
// tensors that libtorch would misread, or that would end the process.
//
// Ownership: the memory is shared, and t can be closed. Lifetime: the memory lives until the last libtorch tensor over it is
// gone. Threads: any; the last reference may end on any thread. On error: nothing has moved:
// [dlpack.ErrReadOnly] (libtorch would write), ErrDevice, ErrDType, ErrLayout (negative strides), ErrUnaligned,
// ErrClosed, or [ErrTorch].
func From(t *dlpack.Tensor) (*Tensor, error) {
	x, err := from(t)
	if err != nil {
		return nil, err
	}
	return &x, nil
}

// from does the work of From. It is separate so that From can be inlined and its Tensor can stay on the caller's stack.
func from(t *dlpack.Tensor) (Tensor, error) {
	if err := check(t); err != nil {
		return Tensor{}, fmt.Errorf("aten: from: %w", err)
	}
	managed, err := t.Export()
	if err != nil {
		return Tensor{}, fmt.Errorf("aten: from: %w", err)
	}
	x, err := take(managed)
	if err != nil {
		dlpack.Release(managed)
	}
	return x, err
}

func check(t *dlpack.Tensor) error {
	if t.ReadOnly() {
		return fmt.Errorf("libtorch does not know of memory that is %w", dlpack.ErrReadOnly)
	}
	if d := t.Device(); d.Type != dlpack.CPU {
		return fmt.Errorf("memory on %v: %w", d, dlpack.ErrDevice)
	}
	align := t.DType().ItemSize()
	switch t.DType() {
	case dlpack.Complex32, dlpack.Complex64, dlpack.Complex128:
		align /= 2
	case dlpack.Bool, dlpack.Int8, dlpack.Int16, dlpack.Int32, dlpack.Int64, dlpack.Uint8, dlpack.Uint16,
		dlpack.Uint32, dlpack.Uint64, dlpack.Float16, dlpack.BFloat16, dlpack.Float32, dlpack.Float64,
		dlpack.Float8E4M3FN, dlpack.Float8E4M3FNUZ, dlpack.Float8E5M2, dlpack.Float8E5M2FNUZ,
		dlpack.Float8E8M0FNU, dlpack.Float4E2M1FNx2:
	default:
		return fmt.Errorf("%v: %w", t.DType(), dlpack.ErrDType)
	}
	for d := range t.Rank() {
		if t.Stride(d) < 0 {
			return fmt.Errorf("strides[%d] = %d: %w", d, t.Stride(d), dlpack.ErrLayout)
		}
	}
	return t.RequireAlign(align)
}

// take passes a `DLManagedTensorVersioned *` to libtorch without checks. On error the caller still owns it.
func take(managed unsafe.Pointer) (Tensor, error) {
	var reason [C.AT_ERROR_SIZE]C.char
	handle := C.at_from_dlpack((*C.struct_DLManagedTensorVersioned)(managed), &reason[0])
	if handle == nil {
		return Tensor{}, refused("from", &reason)
	}
	return Tensor{handle}, nil
}

// DLPack returns a tensor over the memory of x, for Go and any other consumer.
//
// Ownership: the result belongs to the caller and keeps the memory alive; x can be closed. Lifetime: until its Close.
// Threads: any. On error: nothing has moved: [ErrTorch], also for conjugate and negative views and for tensors that require
// a gradient; or an error of [dlpack.Import].
func (x *Tensor) DLPack() (*dlpack.Tensor, error) {
	if x.handle == nil {
		return nil, closed("to dlpack")
	}
	var reason [C.AT_ERROR_SIZE]C.char
	managed := unsafe.Pointer(C.at_to_dlpack(x.handle, &reason[0]))
	if managed == nil {
		return nil, refused("to dlpack", &reason)
	}
	t, err := dlpack.Import(managed)
	if err != nil && !errors.Is(err, dlpack.ErrVersion) {
		dlpack.Release(managed)
	}
	return t, err
}

// Close ends this reference. Later calls have no effect.
func (x *Tensor) Close() {
	if x.handle != nil {
		C.at_tensor_free(x.handle)
		x.handle = nil
	}
}

// MatMul returns the matrix product, in new memory of libtorch.
//
// Ownership: the result belongs to the caller. Lifetime: until its Close. Threads: any. On error: [ErrTorch], or
// [dlpack.ErrClosed].
func (x *Tensor) MatMul(y *Tensor) (*Tensor, error) {
	if x.handle == nil || y.handle == nil {
		return nil, closed("matmul")
	}
	var reason [C.AT_ERROR_SIZE]C.char
	return made("matmul", C.at_matmul(x.handle, y.handle, &reason[0]), &reason)
}

// Softmax returns the softmax along a dimension, in new memory of libtorch.
//
// Ownership, Lifetime, Threads, On error: as [Tensor.MatMul].
func (x *Tensor) Softmax(dim int) (*Tensor, error) {
	if x.handle == nil {
		return nil, closed("softmax")
	}
	var reason [C.AT_ERROR_SIZE]C.char
	return made("softmax", C.at_softmax(x.handle, C.int64_t(dim), &reason[0]), &reason)
}

// AddScalar adds value to each element in place.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody else uses the memory. On error: as
// [Tensor.MatMul].
func (x *Tensor) AddScalar(value float64) error {
	if x.handle == nil {
		return closed("add")
	}
	var reason [C.AT_ERROR_SIZE]C.char
	if C.at_add_scalar(x.handle, C.double(value), &reason[0]) != 0 {
		return refused("add", &reason)
	}
	return nil
}

// A Model is a TorchScript module.
type Model struct{ handle *C.at_model }

// LoadModel reads the file that torch.jit.save has written.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any. On error: [ErrTorch].
func LoadModel(path string) (*Model, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var reason [C.AT_ERROR_SIZE]C.char
	handle := C.at_model_load(name, &reason[0])
	if handle == nil {
		return nil, refused("load model", &reason)
	}
	return &Model{handle}, nil
}

// Run calls the model's forward on one tensor.
//
// Ownership, Lifetime, Threads, On error: as [Tensor.MatMul].
func (m *Model) Run(x *Tensor) (*Tensor, error) {
	if m.handle == nil || x.handle == nil {
		return nil, closed("run model")
	}
	var reason [C.AT_ERROR_SIZE]C.char
	return made("run model", C.at_model_run(m.handle, x.handle, &reason[0]), &reason)
}

// Close frees the model. Later calls have no effect.
func (m *Model) Close() {
	if m.handle != nil {
		C.at_model_free(m.handle)
		m.handle = nil
	}
}

func made(op string, handle *C.at_tensor, reason *[C.AT_ERROR_SIZE]C.char) (*Tensor, error) {
	if handle == nil {
		return nil, refused(op, reason)
	}
	return &Tensor{handle}, nil
}

func refused(op string, reason *[C.AT_ERROR_SIZE]C.char) error {
	// C.GoString would put the buffer of each call on the heap.
	text, _, _ := strings.Cut(string((*[C.AT_ERROR_SIZE]byte)(unsafe.Pointer(reason))[:]), "\x00")
	text, _, _ = strings.Cut(strings.ToValidUTF8(text, ""), "\n")
	return fmt.Errorf("aten: %s: %w: %s", op, ErrTorch, text)
}

func closed(op string) error { return fmt.Errorf("aten: %s: %w", op, dlpack.ErrClosed) }
