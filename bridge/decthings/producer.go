//go:build cgo

package decthings

import (
	"fmt"
	"io"
	"math"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// AppendTensor appends the binary form of a tensor of numbers or booleans in any layout. The form is the same in every
// dialect. If dst has too little capacity, AppendTensor allocates memory in which the payload is aligned to 64 bytes.
// So a tensor that was appended to nil can be decoded without a copy. If dst overlaps the memory of t, the result has
// new memory of any alignment, as for [dlpack.Tensor.AppendBytes].
//
// Ownership: t stays the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes to the
// tensor. On error: [elements.ErrDType], [ErrRank], [dlpack.ErrValue]
// for a boolean other than 0 and 1, [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory]; dst is
// then returned unchanged.
func AppendTensor(dst []byte, t *dlpack.Tensor) ([]byte, error) {
	var few [8]int64
	what, shape, err := headerOf(t, few[:0])
	if err != nil {
		return dst, err
	}
	n, head := len(dst), sizeDims(shape)
	out, err := payload.AppendTensor("decthings", dst, t, head, n+head, alignment)
	if err != nil {
		return dst, err
	}
	appendHeader(out[:n], what, shape) // after the elements, because the header may overlap their source
	return out, nil
}

// WriteTensor writes to w the bytes that [AppendTensor] appends. It writes a row-major tensor directly from the memory
// of t. It copies the elements of other tensors first, in pieces of at most 1 MiB. [SizeTensor] returns the number of
// bytes beforehand, for the header Content-Length.
//
// Ownership: t stays the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to the
// tensor. On error: WriteTensor returns the errors of [AppendTensor] before it writes, the errors of w, and
// [elements.ErrNil] if w is nil.
func WriteTensor(w io.Writer, t *dlpack.Tensor) error {
	what, shape, err := headerOf(t, nil)
	if err != nil {
		return err
	}
	return payload.WriteTensor("decthings", w, t, appendHeader(nil, what, shape))
}

// SizeTensor returns how many bytes [AppendTensor] appends.
//
// Ownership: t stays the caller's. Lifetime: none. Threads: any. On error: [elements.ErrDType],
// [ErrRank], [dlpack.ErrClosed], or [dlpack.ErrMemory] for more bytes than a slice can have.
func SizeTensor(t *dlpack.Tensor) (int, error) {
	_, shape, err := headerOf(t, nil)
	if err != nil {
		return 0, err
	}
	n := t.NumBytes()
	if n > payload.Addressable {
		return 0, fmt.Errorf("decthings: %s has %d bytes: %w", t, n, dlpack.ErrMemory)
	}
	return sizeDims(shape) + int(n), nil
}

// headerOf returns the type of a tensor and its shape. It appends the shape to dims.
func headerOf(t *dlpack.Tensor, dims []int64) (what Type, shape []int64, err error) {
	if err := t.RequireOpen(); err != nil {
		return 0, nil, payload.WithFormat("decthings", err)
	}
	if what, err = TypeOf(t.DType()); err != nil {
		return 0, nil, err
	}
	if t.Rank() > math.MaxUint8 {
		return 0, nil, fmt.Errorf("decthings: rank = %d: %w", t.Rank(), ErrRank)
	}
	for d := range t.Rank() {
		dims = append(dims, t.Dim(d))
	}
	return what, dims, nil
}
