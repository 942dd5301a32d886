//go:build cgo

package decthings

import (
	"fmt"
	"math"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// AppendTensor appends the binary form of a tensor of numbers or booleans in any layout. The form is the same in every
// dialect. If dst has too little capacity, AppendTensor allocates memory in which the payload is aligned to 64 bytes, so that a
// tensor that was appended to nil can be decoded without a copy. dst may overlap the memory of t, as for
// [dlpack.Tensor.AppendBytes]; the result then has new memory of any alignment.
//
// Ownership: t stays the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes to the
// tensor. On error: [elements.ErrDType], [elements.ErrByteOrder], [ErrRank], [dlpack.ErrValue]
// for a boolean other than 0 and 1, [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory]; dst is
// then returned unchanged.
func AppendTensor(dst []byte, t *dlpack.Tensor) ([]byte, error) {
	what, head, err := headerOf(t)
	if err != nil {
		return dst, err
	}
	n := len(dst)
	out, err := payload.AppendTensor("decthings", dst, t, head, n+head, alignment)
	if err != nil {
		return dst, err
	}
	header := append(out[:n], byte(what), byte(t.Rank())) // after the elements, which may have overlapped the header
	for d := range t.Rank() {
		header = appendVarint(header, uint64(t.Dim(d)))
	}
	return out, nil
}

// SizeTensor returns how many bytes [AppendTensor] appends.
//
// Ownership: t stays the caller's. Lifetime: none. Threads: any. On error: [elements.ErrDType],
// [elements.ErrByteOrder], [ErrRank], [dlpack.ErrClosed], or [dlpack.ErrMemory] for more bytes than a slice can have.
func SizeTensor(t *dlpack.Tensor) (int, error) {
	_, head, err := headerOf(t)
	if err != nil {
		return 0, err
	}
	n := t.NumBytes()
	if n > payload.Addressable {
		return 0, fmt.Errorf("decthings: %v has %d bytes: %w", t, n, dlpack.ErrMemory)
	}
	return head + int(n), nil
}

func headerOf(t *dlpack.Tensor) (what Type, size int, err error) {
	if err := t.RequireOpen(); err != nil {
		return 0, 0, fmt.Errorf("decthings: %w", err)
	}
	if what, err = TypeOf(t.DType()); err != nil {
		return 0, 0, err
	}
	if err := payload.CheckByteOrder(t.DType().ItemSize()); err != nil {
		return 0, 0, fmt.Errorf("decthings: %v: %w", what, err)
	}
	if t.Rank() > math.MaxUint8 {
		return 0, 0, fmt.Errorf("decthings: rank %d: %w", t.Rank(), ErrRank)
	}
	size = 2
	for d := range t.Rank() {
		size += sizeVarint(uint64(t.Dim(d)))
	}
	return what, size, nil
}
