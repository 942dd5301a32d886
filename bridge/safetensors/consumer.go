//go:build cgo

package safetensors

import (
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Tensor returns a tensor on v.Data, which may have any address. It is read-only without [Writable]. With [Align] it is
// a copy if v.Data is not aligned.
//
// Ownership: the caller closes the tensor; v.Data is Go memory, or memory that stays valid. Lifetime: the tensor and its exports keep the
// memory of the file alive if it is Go's. Threads: any. On error: [elements.ErrDType] for an invalid type, [elements.ErrNil] for a nil
// View, [dlpack.ErrUnaligned] for an invalid alignment, and those of [dlpack.FromBytes] and [dlpack.Tensor.Align].
func (v *View) Tensor(options ...Option) (*dlpack.Tensor, error) {
	o := optionsOf(options)
	return v.tensor(o, func(s dlpack.Spec) (*dlpack.Tensor, error) {
		s.ReadOnly = !o.writable
		return dlpack.FromBytes(v.Data, s)
	})
}

// TensorFrom is [View.Tensor] for a file in memory that is not Go's, or that must be released: file is a
// one-dimensional uint8 tensor of the whole file (see [dlpack.Lend] and [dlpack.Tensor.OnRelease]). The result is a
// view of file, and read-only if file is.
//
// Ownership: file stays the caller's, who closes the result. Lifetime: the result keeps the memory of the file alive. Threads: any. On
// error: as [View.Tensor], [dlpack.ErrLayout] for a file that is not a one-dimensional uint8 tensor without gaps, and those of
// [dlpack.Tensor.View].
func (v *View) TensorFrom(file *dlpack.Tensor, options ...Option) (*dlpack.Tensor, error) {
	return v.tensor(optionsOf(options), func(s dlpack.Spec) (*dlpack.Tensor, error) {
		s.ByteOffset = v.Offset
		return payload.FileView(file, s)
	})
}

// tensor returns the tensor that view makes from a description, or an aligned copy.
func (v *View) tensor(o options, view func(s dlpack.Spec) (*dlpack.Tensor, error)) (*dlpack.Tensor, error) {
	if v == nil {
		return nil, fmt.Errorf("safetensors: the View is %w", elements.ErrNil)
	}
	if !v.DType.valid() {
		return nil, fmt.Errorf("safetensors: %v is not a type of safetensors: %w", v.DType, elements.ErrDType)
	}
	return payload.FileTensor("safetensors", dlpack.Spec{DType: v.DType.DataType(), Shape: v.Shape}, o.align, view)
}
