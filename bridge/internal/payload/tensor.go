//go:build cgo

package payload

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
)

// CheckSource refuses what is no row of bytes: a one-dimensional uint8 tensor without gaps.
//
// Errors, without a prefix: [dlpack.ErrClosed], [dlpack.ErrLayout].
func CheckSource(t *dlpack.Tensor) error {
	if err := t.RequireOpen(); err != nil {
		return err
	}
	if t.DType() != dlpack.Uint8 || t.Rank() != 1 || !t.IsContiguous() {
		return fmt.Errorf("%v is no row of bytes: %w", t, dlpack.ErrLayout)
	}
	return nil
}

// OwnCopy puts a copy in C memory, aligned to [dlpack.NewAlignment], in the place of a view that was made by
// s, and as writable as that was.
//
// Ownership: view is closed; the result is the caller's. Lifetime: until its Close. Threads: any. On error:
// as [dlpack.Tensor.Copy]; view is closed, too.
func OwnCopy(view *dlpack.Tensor, s dlpack.Spec) (*dlpack.Tensor, error) {
	defer view.Close()
	c, err := view.Copy()
	if err != nil || !s.ReadOnly {
		return c, err
	}
	defer c.Close()
	s.ByteOffset = 0
	return c.View(s)
}

// OwnTensor makes a tensor in C memory as [OwnCopy] does, of elements that put puts into it.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any. On error: as
// [dlpack.Tensor.Copy] and put.
func OwnTensor(s dlpack.Spec, put func(data []byte) error) (*dlpack.Tensor, error) {
	var zero [16]byte // one element, which is seen as all of them
	view := s
	view.ReadOnly, view.ByteOffset, view.Strides = false, 0, make([]int64, len(s.Shape))
	all, err := dlpack.FromBytes(zero[:s.DType.ItemSize()], view)
	if err != nil {
		return nil, err
	}
	own, err := OwnCopy(all, view)
	if err != nil {
		return nil, err
	}
	data, _, err := own.UnsafeBytes()
	if err == nil {
		err = put(data)
	}
	if err == nil && !s.ReadOnly {
		return own, nil
	}
	defer own.Close()
	if err != nil {
		return nil, err
	}
	return own.View(s)
}
