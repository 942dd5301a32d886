//go:build cgo

package payload

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
)

// CheckSource returns an error unless t is a row of bytes, which an input in foreign memory must be: an open
// one-dimensional uint8 tensor without gaps.
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

// CheckAlign returns an error unless n is an alignment that an option may ask for: 0, which stands for the alignment that
// the elements need, or a power of two up to [dlpack.NewAlignment].
//
// Errors, without a prefix: [dlpack.ErrUnaligned].
func CheckAlign(n int) error {
	if n < 0 || n > dlpack.NewAlignment || n&(n-1) != 0 {
		return fmt.Errorf("alignment to %d bytes: %w", n, dlpack.ErrUnaligned)
	}
	return nil
}

// View makes a tensor described by s of elements that lie in an input. The tensor aliases the elements if their address is a
// multiple of align, and otherwise refers to a copy that is aligned to copyAlign bytes, which is no less than align.
// source is the tensor that owns the input, and offset the place of the elements in it; source is nil if the input is Go
// memory.
//
// Ownership: the result is the caller's, source stays the caller's. Lifetime: a tensor that aliases the elements keeps their
// memory. Threads: any. On error: as [dlpack.FromBytes] and [dlpack.Tensor.View]; no tensor is made.
func View(elements []byte, s dlpack.Spec, align, copyAlign int, source *dlpack.Tensor, offset int64) (t *dlpack.Tensor, copied bool, err error) {
	copied = len(elements) > 0 && Address(elements)%uintptr(align) != 0
	if source == nil {
		if copied {
			elements = AlignedCopy(elements, copyAlign)
		}
		t, err = dlpack.FromBytes(elements, s)
		return t, copied, err
	}
	s.ByteOffset = offset
	if t, err = source.View(s); err == nil && copied {
		t, err = OwnCopy(t, s)
	}
	return t, copied, err
}

// OwnCopy closes view, which was made by s, and returns a copy in C memory that is aligned to [dlpack.NewAlignment] and
// read-only if s is.
//
// Ownership: view is closed, also on error; the result is the caller's. Lifetime: until its Close. Threads: any. On error:
// as [dlpack.Tensor.Copy].
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

// OwnTensor returns a tensor in C memory, as [OwnCopy] does, whose elements put writes.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any. On error: as [dlpack.Tensor.Copy] and
// put.
func OwnTensor(s dlpack.Spec, put func(data []byte) error) (*dlpack.Tensor, error) {
	var zero [16]byte // one element, which strides of 0 repeat
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
