//go:build cgo

package decthings

import (
	"fmt"
	"math"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// AppendTensor appends a tensor of numbers or booleans in its binary form, the same in every dialect, in
// any layout and in one pass. Where dst has not room enough, it takes new memory and aligns the payload to 64 bytes: a
// tensor that is appended to nil can be decoded there without a copy, as it can by a [Reader]. dst may be a part of what
// is read, as for [dlpack.Tensor.AppendBytes]; the result then has new memory of any alignment.
//
// Ownership: t stays the caller's, and the result is Go's. Lifetime: any. Threads: any, while nobody
// writes to the tensor. On error: [elements.ErrDType], [elements.ErrByteOrder], [ErrRank], [dlpack.ErrValue]
// for a boolean other than 0 and 1, [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory]; dst as
// it was.
func AppendTensor(dst []byte, t *dlpack.Tensor) ([]byte, error) {
	what, head, err := headerOf(t)
	if err != nil {
		return dst, err
	}
	n, start := len(dst), len(dst)+head
	out, size := dst, t.NumBytes()
	if int64(cap(dst)-start) < size {
		if !t.Device().HostReadable() { // before memory is taken for what cannot be read
			return dst, fmt.Errorf("decthings: memory on %v cannot be read: %w", t.Device(), dlpack.ErrDevice)
		}
		if out, err = room(dst, head, size); err != nil {
			return dst, err
		}
	}
	if out, err = t.AppendBytes(out[:start]); err != nil {
		return dst, err
	}
	header := append(out[:n], byte(what), byte(t.Rank())) // behind the elements, which may have been there
	for d := range t.Rank() {
		header = appendVarint(header, uint64(t.Dim(d)))
	}
	if what == Boolean {
		if _, where := payload.FindNonBool(out[start:]); where != "" {
			return dst, fmt.Errorf("decthings: %s: %w", where, dlpack.ErrValue)
		}
	}
	return out, nil
}

// SizeTensor is how many bytes [AppendTensor] appends.
//
// Ownership: t stays the caller's. Lifetime: none. Threads: any. On error: [elements.ErrDType],
// [elements.ErrByteOrder], [ErrRank], [dlpack.ErrClosed], or [dlpack.ErrMemory] for more than can be.
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
