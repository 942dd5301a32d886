//go:build !cgo

package dlpack

import "unsafe"

// needsCgo is the type of the arguments of functions that this build does not have, because it was made without cgo. The
// compiler names it where a program calls one of them. To get these functions, install gcc or clang and set CGO_ENABLED=1.
type needsCgo struct{}

// A Tensor cannot be made in a build without cgo.
type Tensor struct{ _ needsCgo }

// New needs cgo.
func New(needsCgo) (*Tensor, error) { return nil, nil }

// NewFrom needs cgo.
func NewFrom(needsCgo) (*Tensor, error) { return nil, nil }

// FromBytes needs cgo.
func FromBytes(needsCgo) (*Tensor, error) { return nil, nil }

// Import needs cgo.
func Import(needsCgo) (*Tensor, error) { return nil, nil }

// ImportLegacy needs cgo.
func ImportLegacy(needsCgo) (*Tensor, error) { return nil, nil }

// Borrow needs cgo.
func Borrow(needsCgo) (*Tensor, error) { return nil, nil }

// Lend needs cgo.
func Lend(needsCgo) (*Tensor, error) { return nil, nil }

// Concat needs cgo.
func Concat(needsCgo) (*Tensor, error) { return nil, nil }

// Stack needs cgo.
func Stack(needsCgo) (*Tensor, error) { return nil, nil }

// FromSlice needs cgo.
func FromSlice(needsCgo) (*Tensor, error) { return nil, nil }

// FromReadOnly needs cgo.
func FromReadOnly(needsCgo) (*Tensor, error) { return nil, nil }

// Values needs cgo.
func Values[T Element](needsCgo) ([]T, error) { return nil, nil }

// UnsafeValues needs cgo.
func UnsafeValues[T Element](needsCgo) ([]T, error) { return nil, nil }

// Use needs cgo.
func Use(needsCgo) error { return nil }

// ExportSlice needs cgo.
func ExportSlice(needsCgo) (unsafe.Pointer, error) { return nil, nil }
