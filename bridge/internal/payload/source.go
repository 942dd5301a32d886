//go:build cgo

package payload

import (
	"fmt"
	"log/slog"
	"runtime"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// LogValue returns the form of a decoded value in a log line: a group of its type and its tensor, or of its type and
// its elements if it has elements.
func LogValue(dtype any, t *dlpack.Tensor, e *elements.Elements) slog.Value {
	held := slog.Any("tensor", t)
	if e != nil {
		held = slog.Any("elements", e)
	}
	return slog.GroupValue(slog.Any("dtype", dtype), held)
}

// CheckSource returns an error unless t can be the input of a decoder: an open one-dimensional uint8 tensor without
// gaps.
//
// Errors, without a prefix: [dlpack.ErrClosed], [dlpack.ErrLayout].
func CheckSource(t *dlpack.Tensor) error {
	if err := t.RequireOpen(); err != nil {
		return err
	}
	if t.DType() != dlpack.Uint8 || t.Rank() != 1 || !t.IsContiguous() {
		return fmt.Errorf("%s is not a one-dimensional uint8 tensor without gaps; use AsBytes to view its bytes: %w", t, dlpack.ErrLayout)
	}
	return nil
}

// Source returns the bytes of t, which [CheckSource] must accept, in memory that the host can read. The caller calls [EndSource]
// when it no longer uses them.
//
// Ownership: t stays the caller's. Lifetime: the bytes are valid until t is closed. Threads: any. On error: those of
// [CheckSource] after the name of the format, and [dlpack.ErrDevice].
func Source(format string, t *dlpack.Tensor) ([]byte, error) {
	if err := CheckSource(t); err != nil {
		return nil, WithFormat(format, err)
	}
	if err := checkHost(format, t); err != nil {
		return nil, err
	}
	return bytesOf(t), nil
}

// EndSource keeps the source of a decoder reachable until this call. If the decoder returns elements, they may refer to
// the bytes of the source, so the cleanup guard must not free these bytes from now on.
func EndSource(t *dlpack.Tensor, e *elements.Elements) {
	if e != nil {
		_, _, _ = t.UnsafeBytes()
	}
	runtime.KeepAlive(t)
}

// bytesOf returns the elements of t, which must be readable by the host and have no gaps. Unlike
// [dlpack.Tensor.UnsafeBytes] it does not tell the cleanup guard that a slice is in use, so the caller must keep t
// reachable while it uses the slice.
func bytesOf(t *dlpack.Tensor) []byte {
	data := t.Data()
	if data == 0 {
		return []byte{}
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&data)), t.NumBytes())
}

func checkHost(format string, t *dlpack.Tensor) error {
	if t.Device().HostReadable() {
		return nil
	}
	return fmt.Errorf("%s: the host cannot read memory on %v; copy the tensor to the host first: %w", format, t.Device(), dlpack.ErrDevice)
}

// AppendTensor appends head bytes, which the caller writes afterwards, and the elements of t in row-major order. If dst
// has too little capacity, the byte with the given index is aligned to align bytes in the new memory.
//
// Ownership: t stays the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes
// to the tensor. On error: those of [Room] and [dlpack.ErrValue] for a boolean other than 0 and 1, after the name of
// the format, and as [dlpack.Tensor.AppendBytes]; the result is then nil.
func AppendTensor(format string, dst []byte, t *dlpack.Tensor, head, index, align int) ([]byte, error) {
	start, size := len(dst)+head, t.NumBytes()
	if int64(cap(dst)-start) < size {
		err := checkHost(format, t) // before allocating memory for elements that cannot be read
		if err != nil {
			return nil, err
		}
		if dst, err = Room(format, dst, head+int(min(size, Addressable)), index, align); err != nil {
			return nil, err
		}
	}
	out, err := t.AppendBytes(dst[:start])
	if err != nil {
		return nil, err
	}
	if err := checkBools(format, t, out[start:]); err != nil {
		return nil, err
	}
	return out, nil
}

// checkBools returns an error if t has booleans and not all of them are 0 or 1. data has the elements of t.
func checkBools(format string, t *dlpack.Tensor, data []byte) error {
	if t.DType() == dlpack.Bool {
		if _, where := FindNonBool(data); where != "" {
			return fmt.Errorf("%s: %s: %w", format, where, dlpack.ErrValue)
		}
	}
	return nil
}

// CheckAlign returns an error unless n is a valid alignment for an option: a power of two up to
// [dlpack.AllocAlignment], or 0, which stands for the alignment that the elements need.
//
// Errors, without a prefix: [dlpack.ErrUnaligned].
func CheckAlign(n int) error {
	if n < 0 || n > dlpack.AllocAlignment || n&(n-1) != 0 {
		return fmt.Errorf("the alignment is %d, but must be a power of two up to %d: %w", n, dlpack.AllocAlignment, dlpack.ErrUnaligned)
	}
	return nil
}

// IsMisaligned reports whether elements is not empty and its address is not a multiple of align.
func IsMisaligned(elements []byte, align int) bool {
	return len(elements) > 0 && Address(elements)%uintptr(align) != 0
}

// Place returns the tensor that s describes. elements is a part of data, which is the memory of source, or Go memory if
// source is nil. If s.Copied is set, the result is a copy: in C memory, as [OwnTensor] makes it, if there is a source,
// and otherwise in Go memory aligned to align bytes.
//
// Ownership: the result is the caller's, source stays the caller's. Lifetime: a view keeps the memory of source alive.
// Threads: any. On error: as [dlpack.Tensor.View], [dlpack.Tensor.Copy] and [dlpack.FromBytes]; no tensor is made.
func Place(source *dlpack.Tensor, data, elements []byte, s dlpack.Spec, align int) (*dlpack.Tensor, error) {
	if source == nil {
		if s.Copied {
			elements = AlignedCopy(elements, align)
		}
		return dlpack.FromBytes(elements, s)
	}
	s.ByteOffset = int64(Address(elements) - Address(data))
	t, err := source.View(s)
	if err != nil || !s.Copied {
		return t, err
	}
	return ownCopy(t, s, func([]byte) error { return nil })
}

// FileView makes a tensor in a file. It is a view of file, the one-dimensional uint8 tensor of the whole file.
func FileView(file *dlpack.Tensor, s dlpack.Spec) (*dlpack.Tensor, error) {
	if err := CheckSource(file); err != nil {
		return nil, err
	}
	return file.View(s)
}

// FileTensor returns the tensor that view makes from a description. If align is not 0, it returns a tensor aligned to
// align bytes.
func FileTensor(format string, s dlpack.Spec, align int, view func(dlpack.Spec) (*dlpack.Tensor, error)) (*dlpack.Tensor, error) {
	t, err := view(s)
	if err == nil && align != 0 {
		defer t.Close()
		t, _, err = t.Align(align)
	}
	if err != nil {
		return nil, WithFormat(format, err)
	}
	return t, nil
}

// OwnTensor returns a tensor of the type and shape of s in new C memory. put writes the elements. The tensor is aligned
// to [dlpack.AllocAlignment], and read-only if s is.
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
	return ownCopy(all, s, put)
}

// ownCopy closes view, which has the type and shape of s, and returns a copy of it in C memory, read-only if s is. put
// may first write to the elements of the copy.
func ownCopy(view *dlpack.Tensor, s dlpack.Spec, put func(data []byte) error) (*dlpack.Tensor, error) {
	defer view.Close()
	c, err := view.Copy()
	if err != nil {
		return nil, err
	}
	err = put(bytesOf(c))
	if err == nil && !s.ReadOnly && s.Copied {
		return c, nil
	}
	defer c.Close() // the view has the flags of s
	if err != nil {
		return nil, err
	}
	s.ByteOffset = 0
	return c.View(s)
}
