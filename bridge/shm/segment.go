//go:build linux && cgo

package shm

/*
#include "segment.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// ErrNotShared reports a tensor whose memory other processes cannot map: it does not lie in a segment.
var ErrNotShared = errors.New("not in a segment")

// New returns a tensor in a new segment. Its elements are 0.
//
// Ownership: the tensor holds the segment. Errors: [dlpack.ErrLayout] for a shape with negative sizes; [dlpack.ErrOverflow];
// [dlpack.ErrMemory]; a [syscall.Errno], such as EMFILE if the process has too many descriptors.
func New(dtype dlpack.DataType, shape ...int64) (*dlpack.Tensor, error) {
	t, err := create(dtype, shape)
	if err != nil {
		return nil, fmt.Errorf("shm: new: %w", err)
	}
	return t, nil
}

// Copy returns a row-major copy of a tensor in a new segment.
//
// Ownership: t stays the caller's; the copy holds the segment. Errors: those of [New] and of [dlpack.Tensor.CopyTo].
func Copy(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	if err := t.RequireOpen(); err != nil {
		return nil, fmt.Errorf("shm: copy: %w", err)
	}
	c, err := create(t.DType(), t.Shape())
	if err != nil {
		return nil, fmt.Errorf("shm: copy: %w", err)
	}
	if err := t.CopyTo(c); err != nil {
		c.Close()
		return nil, fmt.Errorf("shm: copy: %w", err)
	}
	return c, nil
}

// IsShared reports whether all elements of a tensor lie in a segment.
func IsShared(t *dlpack.Tensor) bool {
	p, err := find(t)
	if err == nil {
		p.close()
	}
	return err == nil
}

// ReadOnly returns a read-only tensor on the same memory, of which this process gets a second mapping without write permission. A consumer
// that ignores the flag of a read-only tensor, as PyTorch does, then ends the process instead of changing the elements. t must lie in a
// segment, or in a file that was mapped with MAP_SHARED. It takes about 7 µs, and the first access to each page of 4 KiB by the new
// mapping a third of a microsecond (BenchmarkReadOnly).
//
// Ownership: t stays the caller's and may be closed before the new tensor. Lifetime: a mapping that this package has not made must not
// shrink. Errors: [ErrNotShared] for private memory, of which [dlpack.Tensor.Copy] makes a copy that cannot be enforced, and [Copy]
// one in a segment; [dlpack.ErrClosed]; a [syscall.Errno].
func ReadOnly(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	t, err := t.Share() // also if somebody closes t meanwhile
	if err != nil {
		return nil, fmt.Errorf("shm: read-only: %w", err)
	}
	defer t.Close()
	before, behind, err := extent(t)
	if err != nil {
		return nil, fmt.Errorf("shm: read-only: %w", err)
	}
	if before+behind == 0 {
		return t.View(dlpack.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Strides(), ReadOnly: true})
	}
	first := t.Data() - uintptr(before)
	var s *C.segment
	code := C.segment_alias(&s, C.uintptr_t(first), C.size_t(before+behind))
	if syscall.Errno(code) == syscall.EINVAL {
		return nil, fmt.Errorf("shm: read-only: the memory is not in one shared mapping, and so %w; shm.Copy makes a copy that is", ErrNotShared)
	}
	if code != 0 {
		return nil, fmt.Errorf("shm: read-only: %d bytes cannot be mapped again: %w", before+behind, failure(code))
	}
	offset := int64(first%uintptr(os.Getpagesize())) + before
	return view(s, dlpack.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Strides(), ByteOffset: offset, ReadOnly: true,
		Padded: t.Flags()&dlpack.SubbytePadded != 0})
}

// Mappings returns the number of segments, and parts of segments, that are mapped in this process.
func Mappings() int64 { return int64(C.segment_count()) }

func create(dtype dlpack.DataType, shape []int64) (*dlpack.Tensor, error) {
	if err := dtype.Validate(); err != nil {
		return nil, err
	}
	count, err := layout.Layout{Shape: shape}.Count()
	if err != nil {
		return nil, err
	}
	size, err := dtype.NumBytes(count, false)
	if err != nil {
		return nil, err
	}
	var s *C.segment
	if code := C.segment_create(&s, C.size_t(max(size, 1))); code != 0 {
		return nil, fmt.Errorf("a segment of %d bytes: %w", size, failure(code))
	}
	return view(s, dlpack.Spec{DType: dtype, Shape: shape})
}

// failure returns the error for an errno.
func failure(code C.int) error {
	errno := syscall.Errno(code)
	if errno == syscall.ENOMEM {
		return fmt.Errorf("%w (%w)", dlpack.ErrMemory, errno)
	}
	return errno
}

// lend returns the bytes of a mapping, which it takes over.
func lend(s *C.segment) (*dlpack.Tensor, error) {
	bytes, err := dlpack.Lend(unsafe.Pointer(s.base), int64(s.size), s.read_only != 0, C.segment_release, unsafe.Pointer(s))
	if err != nil {
		C.segment_release(unsafe.Pointer(s))
	}
	return bytes, err
}

// view returns a tensor on a mapping, which it takes over.
func view(s *C.segment, spec dlpack.Spec) (*dlpack.Tensor, error) {
	bytes, err := lend(s)
	if err != nil {
		return nil, err
	}
	defer bytes.Close()
	return bytes.View(spec)
}

// A place is where a tensor lies in a segment.
type place struct {
	file     int    // a descriptor of the segment, to be closed
	offset   uint64 // of element (0, ..., 0)
	readOnly bool   // the mapping of this process
	size     uint64 // of that mapping
}

func (p place) close() { syscall.Close(p.file) }

// span returns how far the bytes of a tensor lie before and behind element (0, ..., 0).
func span(dtype dlpack.DataType, l layout.Layout, padded bool) (before, behind int64, err error) {
	low, high, err := l.Span()
	if err != nil {
		return 0, 0, err
	}
	if before, err = dtype.NumBytes(-low, padded); err != nil {
		return 0, 0, err
	}
	behind, err = dtype.NumBytes(high, padded)
	return before, behind, err
}

// extent returns how far the memory of a tensor reaches before and behind element (0, ..., 0).
func extent(t *dlpack.Tensor) (before, behind int64, err error) {
	if t.Device().Type != dlpack.CPU {
		return 0, 0, fmt.Errorf("the memory is on device %v, which processes cannot share: %w", t.Device(), dlpack.ErrDevice)
	}
	return span(t.DType(), t.Layout(), t.Flags()&dlpack.SubbytePadded != 0)
}

// find returns the place of a tensor. The error for one that is in no segment wraps ErrNotShared.
func find(t *dlpack.Tensor) (place, error) {
	t, err := t.Share() // also if somebody closes t meanwhile
	if err != nil {
		return place{}, err
	}
	defer t.Close()
	before, behind, err := extent(t)
	if err != nil {
		return place{}, err
	}
	var found C.segment_place
	code := C.segment_find(C.uintptr_t(t.Data()-uintptr(before)), C.size_t(before+behind), &found)
	if syscall.Errno(code) == syscall.ENOENT {
		return place{}, fmt.Errorf("the tensor is %w; shm.Copy makes one that is", ErrNotShared)
	}
	if code != 0 {
		return place{}, os.NewSyscallError("dup", syscall.Errno(code))
	}
	return place{int(found.fd), uint64(found.offset) + uint64(before), found.read_only != 0, uint64(found.size)}, nil
}
