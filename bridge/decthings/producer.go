//go:build cgo

package decthings

import (
	"fmt"
	"math"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// AppendTensor appends a tensor of numbers or booleans in its binary form, the same in every dialect, in
// any layout and in one pass. Where it takes new memory, it aligns the payload to 64 bytes: a tensor that
// is appended to nil can be decoded there without a copy, as it can by a [Reader].
//
// Ownership: t stays the caller's, and the result is Go's. Lifetime: any. Threads: any, while nobody
// writes to the tensor. On error: [bridge.ErrDType], [bridge.ErrByteOrder], [ErrRank], [dlpack.ErrValue]
// for a boolean other than 0 and 1, [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory]; dst as
// it was.
func AppendTensor(dst []byte, t *dlpack.Tensor) ([]byte, error) {
	what, head, err := headerOf(t)
	if err != nil {
		return dst, err
	}
	if err := payload.CheckRoom(t, cap(dst)-len(dst)-head); err != nil {
		return dst, fmt.Errorf("decthings: %w", err)
	}
	out := append(room(dst, head, int(t.NumBytes())), byte(what), byte(t.Rank()))
	for d := range t.Rank() {
		out = appendVarint(out, uint64(t.Dim(d)))
	}
	start := len(out)
	if out, err = t.AppendBytes(out); err != nil {
		return dst, err
	}
	if what == Boolean {
		if i := payload.NotBool(out[start:]); i >= 0 {
			return dst, fmt.Errorf("decthings: element %d is the boolean %d: %w", i, out[start+i], dlpack.ErrValue)
		}
	}
	return out, nil
}

// SizeTensor is how many bytes [AppendTensor] appends.
//
// Ownership: t stays the caller's. Lifetime: none. Threads: any. On error: [bridge.ErrDType],
// [bridge.ErrByteOrder], [ErrRank], [dlpack.ErrClosed], or [dlpack.ErrMemory] for more than can be.
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
	if !payload.LittleEndian && t.DType().ItemSize() > 1 {
		return 0, 0, fmt.Errorf("decthings: %v: %w", what, bridge.ErrByteOrder)
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
