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
		return fmt.Errorf("%v is not a one-dimensional uint8 tensor without gaps: %w", t, dlpack.ErrLayout)
	}
	return nil
}

// Source returns the bytes of t, which must be a row of bytes in memory that the host can read.
//
// Ownership: t stays the caller's. Lifetime: the bytes are valid until t is closed. Threads: any. On error: those of
// [CheckSource] after the name of the format, and [dlpack.ErrDevice].
func Source(format string, t *dlpack.Tensor) ([]byte, error) {
	if err := CheckSource(t); err != nil {
		return nil, fmt.Errorf("%s: %w", format, err)
	}
	data, _, err := t.UnsafeBytes()
	return data, err
}

// AppendTensor appends head bytes for the caller to write, and the elements of t in row-major order. If dst has too little
// capacity, the byte at index is aligned to align bytes in the new memory.
//
// Ownership: t stays the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes to the
// tensor. On error: those of [Room] and [dlpack.ErrValue] for a boolean other than 0 and 1, after the name of the format, and as
// [dlpack.Tensor.AppendBytes]; the result is then not to be used.
func AppendTensor(format string, dst []byte, t *dlpack.Tensor, head, index, align int) ([]byte, error) {
	start, size := len(dst)+head, t.NumBytes()
	if int64(cap(dst)-start) < size {
		if !t.Device().HostReadable() { // before allocating memory for elements that cannot be read
			return nil, fmt.Errorf("%s: memory on %v cannot be read: %w", format, t.Device(), dlpack.ErrDevice)
		}
		var err error
		if dst, err = Room(dst, head+int(min(size, Addressable)), index, align); err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
	}
	out, err := t.AppendBytes(dst[:start])
	if err != nil {
		return nil, err
	}
	if t.DType() == dlpack.Bool {
		if _, where := FindNonBool(out[start:]); where != "" {
			return nil, fmt.Errorf("%s: %s: %w", format, where, dlpack.ErrValue)
		}
	}
	return out, nil
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

// IsMisaligned reports whether there are elements whose address is not a multiple of align.
func IsMisaligned(elements []byte, align int) bool {
	return len(elements) > 0 && Address(elements)%uintptr(align) != 0
}

// View returns the part of source that s describes, or a copy of it as that of [OwnCopy] if copied is set.
//
// Ownership: the result is the caller's, source stays the caller's. Lifetime: a view keeps the memory of source. Threads:
// any. On error: as [dlpack.Tensor.View] and [OwnCopy]; no tensor is made.
func View(source *dlpack.Tensor, s dlpack.Spec, copied bool) (*dlpack.Tensor, error) {
	t, err := source.View(s)
	if err != nil || !copied {
		return t, err
	}
	return OwnCopy(t, s)
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
