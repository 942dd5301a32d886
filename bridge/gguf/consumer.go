//go:build cgo

package gguf

import (
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A DecodeOption changes how [View.Tensor] and [View.TensorFrom] make a tensor.
type DecodeOption func(*decoding)

type decoding struct{ align int }

// Align aligns tensors to n bytes, a power of two up to [dlpack.AllocAlignment]. A tensor that is not aligned in memory
// is copied; the copy has the flag [dlpack.IsCopied] and is writable.
func Align(n int) DecodeOption { return func(d *decoding) { d.align = n } }

// Tensor returns a read-only tensor on v.Data. Without [Align] it may have any address. A tensor of a quantised type
// has the bytes of its blocks (see the package documentation).
//
// Ownership: the caller closes the tensor; v.Data is Go memory, or memory that stays valid. Lifetime: the tensor and its exports keep the
// memory of the file alive if it is Go's. Threads: any. On error: [elements.ErrDType] for an unknown type, [elements.ErrNil] for a nil View,
// [dlpack.ErrUnaligned] for an invalid alignment, and those of [dlpack.FromBytes] and [dlpack.Tensor.Align].
func (v *View) Tensor(options ...DecodeOption) (*dlpack.Tensor, error) {
	return v.tensor(options, func(s dlpack.Spec) (*dlpack.Tensor, error) { return dlpack.FromBytes(v.Data, s) })
}

// TensorFrom is [View.Tensor] for a file in memory that is not Go's, or that must be released: file is a
// one-dimensional uint8 tensor of the whole file (see [dlpack.Lend] and [dlpack.Tensor.OnRelease]). The result is a
// view of file. The description does not keep the memory alive: v.Data must not be used after the last tensor of the
// memory is closed.
//
// Ownership: file stays the caller's, who closes the result. Lifetime: the result keeps the memory of the file alive. Threads: any. On
// error: as [View.Tensor], [dlpack.ErrLayout] for a file that is not a one-dimensional uint8 tensor without gaps, and those of
// [dlpack.Tensor.View].
func (v *View) TensorFrom(file *dlpack.Tensor, options ...DecodeOption) (*dlpack.Tensor, error) {
	return v.tensor(options, func(s dlpack.Spec) (*dlpack.Tensor, error) {
		s.ByteOffset = v.Offset
		return payload.FileView(file, s)
	})
}

// tensor returns the tensor that view makes from a description; with [Align] it returns an aligned tensor.
func (v *View) tensor(options []DecodeOption, view func(dlpack.Spec) (*dlpack.Tensor, error)) (*dlpack.Tensor, error) {
	if v == nil {
		return nil, fmt.Errorf("gguf: the View is %w", elements.ErrNil)
	}
	var d decoding
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			option(&d)
		}
	}
	s := dlpack.Spec{DType: v.DType.DataType(), Shape: v.Shape, ReadOnly: true}
	if block, size := v.DType.Block(); block > 1 && len(v.Shape) > 0 {
		s.DType, s.Shape = dlpack.Uint8, append(slices.Clone(v.Shape), size)
		s.Shape[len(v.Shape)-1] /= block
	}
	if s.DType == 0 {
		return nil, fmt.Errorf("gguf: DLPack has no type for %v%s: %w", v.DType, errtext.Shape(v.Shape), elements.ErrDType)
	}
	return payload.FileTensor("gguf", s, d.align, view)
}
