//go:build linux && cgo

package shm

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../../dlpack/internal/core -I${SRCDIR}/../internal/segment
#include "transfer.h"

static inline void end_export(void *managed) {
  DLManagedTensorVersioned *m = managed;
  m->deleter(m);
}

static inline dlbcore_status read_only(dlbsegment_inbox *out, DLManagedTensorVersioned *m, char *text, size_t text_size) {
  return dlbsegment_read_only(out, &m->dl_tensor, m->flags, end_export, m, text, text_size);
}

static inline dlbcore_status find_tensor(dlbsegment_place *place, void *managed, int writable, char *text, size_t text_size) {
  dlbcore_extent extent;
  DLManagedTensorVersioned *m = managed;
  dlbcore_status status = dlbcore_check_tensor(&m->dl_tensor, m->flags, &extent, text, text_size);
  if (status != CORE_OK) return status;
  return dlbsegment_place_of(place, &m->dl_tensor, &extent, m->flags, writable, text, text_size);
}

static inline int is_shared(void *managed) {
  dlbcore_extent extent;
  DLManagedTensorVersioned *m = managed;
  return dlbcore_check_tensor(&m->dl_tensor, m->flags, &extent, NULL, 0) == CORE_OK && dlbsegment_is_shared(&m->dl_tensor, &extent);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unsafe"

	_ "github.com/dlbridge/dlbridge/bridge/internal/segment" // handover.h
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
)

// ErrNotShared reports a tensor whose memory other processes cannot map: it does not lie in a segment.
var ErrNotShared = errors.New("not in a segment")

// New returns a tensor in a new segment. Its elements are 0.
//
// Ownership: the tensor is the caller's. Lifetime: the segment exists until all processes have closed it. Threads: any.
// On error: [dlpack.ErrDType]; those of [layout.Layout.Count] for the shape; [dlpack.ErrOverflow]; [dlpack.ErrMemory],
// also for a segment that is larger than the memory of the machine; or a [syscall.Errno], such as EMFILE if the process
// has too many descriptors, or EFBIG for more bytes than RLIMIT_FSIZE allows.
func New(dtype dlpack.DataType, shape ...int64) (*dlpack.Tensor, error) {
	t, err := create(dlpack.Spec{DType: dtype, Shape: shape})
	if err != nil {
		return nil, fmt.Errorf("shm: new: %w", err)
	}
	return t, nil
}

// Copy returns a row-major copy of a tensor in a new segment, with the flag [dlpack.IsCopied].
//
// Ownership: t stays the caller's, and the copy is the caller's too. Lifetime: as [New]. Threads: any, as long as no goroutine writes
// to t. On error: those of [New] and of [dlpack.Tensor.CopyTo].
func Copy(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	if err := t.RequireOpen(); err != nil {
		return nil, fmt.Errorf("shm: copy: %w", err)
	}
	c, err := create(dlpack.Spec{DType: t.DType(), Shape: t.Shape(), Copied: true})
	if err != nil {
		return nil, fmt.Errorf("shm: copy: %w", err)
	}
	if err := t.CopyTo(c); err != nil {
		c.Close()
		return nil, fmt.Errorf("shm: copy: %w", err)
	}
	return c, nil
}

// create returns a tensor in a new segment, row-major and packed.
func create(spec dlpack.Spec) (*dlpack.Tensor, error) {
	if err := spec.DType.Validate(); err != nil {
		return nil, err
	}
	count, err := layout.Layout{Shape: spec.Shape}.Count()
	if err != nil {
		return nil, err
	}
	size, err := spec.DType.NumBytes(count, false)
	if err != nil {
		return nil, err
	}
	var s *C.segment
	if code := C.dlbsegment_create(&s, C.size_t(max(size, 1))); code != 0 {
		errno := syscall.Errno(code)
		return nil, &causedError{fmt.Sprintf("a segment of %d bytes: %v", size, errno), reason(C.dlbsegment_status(code), errno)}
	}
	bytes, err := lend(s)
	if err != nil {
		return nil, err
	}
	defer bytes.Close()
	return bytes.View(spec)
}

// lend returns the bytes of a mapping as a tensor. It takes over the mapping, even on an error.
func lend(s *C.segment) (*dlpack.Tensor, error) {
	bytes, err := dlpack.Lend(unsafe.Pointer(s.base), int64(s.size), s.read_only != 0, C.dlbsegment_release, unsafe.Pointer(s))
	if err != nil {
		C.dlbsegment_release(unsafe.Pointer(s))
	}
	return bytes, err
}

// ReadOnly returns a read-only tensor on the memory of t, in a second mapping without write permission. A consumer that
// ignores the flag of a read-only tensor, as PyTorch does, then ends the process instead of changing the elements. t
// must lie in a segment, or in a file that was mapped with MAP_SHARED. The call takes about 7 µs. The first access to
// each page of 4 KiB through the new mapping takes a third of a microsecond (BenchmarkReadOnly).
//
// Ownership: t stays the caller's and may be closed before the new tensor, which keeps its memory. Lifetime: a mapping
// that this package has not made must not shrink. Threads: any. On error: [ErrNotShared] for private memory ([Copy]
// makes a copy in a segment); [dlpack.ErrClosed]; [dlpack.ErrDevice]; [dlpack.ErrMemory].
func ReadOnly(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	managed, err := t.Export()
	if err != nil {
		return nil, fmt.Errorf("shm: read-only: %w", err)
	}
	m := (*C.DLManagedTensorVersioned)(managed)
	var in C.dlbsegment_inbox
	text := make(textOfC, 256)
	if status, errno := C.read_only(&in, m, text.c(), C.size_t(len(text))); status != C.CORE_OK {
		return nil, fmt.Errorf("shm: read-only: %w", text.failure(status, -1, errno))
	}
	ts, err := tensors(&in)
	if err != nil {
		return nil, fmt.Errorf("shm: read-only: %w", err)
	}
	return ts[0], nil
}

// IsShared reports whether all elements of a tensor lie in a segment. Any library of the process may have made the
// segment: this package, libdlbridge_tensor, or Python's dlbridge.shm. For memory that is not in a segment of this
// package, IsShared asks the kernel. This takes a system call and a descriptor that the process keeps. Before Linux
// 6.11 it takes some microseconds and no descriptor. For a segment of another library, IsShared searches the
// descriptors of the process. This takes about 2 microseconds for each open descriptor. Without /proc or a free
// descriptor it cannot ask the kernel, and recognises only segments of this package.
//
// The result is false for a tensor without elements, for a broadcast with more bytes than its segment, and for a tensor
// in an object that [Attach] has mapped. Other processes would have to copy this object, because it can become smaller.
func IsShared(t *dlpack.Tensor) bool {
	if t.Collected() {
		return false // no need to ask the kernel
	}
	managed, err := t.Export()
	if err != nil {
		return false
	}
	defer C.end_export(managed)
	return C.is_shared(managed) != 0
}

// find returns the place of a tensor; the caller closes its descriptor. The error for a tensor outside all segments
// wraps ErrNotShared.
func find(t *dlpack.Tensor, writable bool) (p C.dlbsegment_place, err error) {
	managed, err := t.Export()
	if err != nil {
		return p, err
	}
	defer C.end_export(managed)
	text := make(textOfC, 256)
	if status, errno := C.find_tensor(&p, managed, flag(writable), text.c(), C.size_t(len(text))); status != C.CORE_OK {
		return p, text.failure(status, -1, errno)
	}
	return p, nil
}

// Mappings returns the number of mappings of segments in this process, whole or in part, plus the number of copies that
// [CopyUnsealed] and [Attach] have made.
func Mappings() int64 { return int64(C.dlbsegment_count()) }

// tensors returns the tensors of an inbox. It takes over the inbox, even on an error.
func tensors(in *C.dlbsegment_inbox) (ts []*dlpack.Tensor, err error) {
	defer C.dlbsegment_inbox_free(in)
	mappings := unsafe.Slice(in.mappings, in.mapping_count)
	memory := make([]*dlpack.Tensor, len(mappings))
	for i := range memory {
		bytes, lendErr := lend(mappings[i]) // lend all of them, because each call takes over its mapping
		memory[i], err = bytes, errors.Join(err, lendErr)
		defer bytes.Close()
	}
	if err != nil {
		return nil, err
	}
	for i, t := range unsafe.Slice(in.tensors, in.tensor_count) {
		rank := t.view.ndim
		spec := dlpack.Spec{
			DType:    dlpack.MakeDataType(dlpack.TypeCode(t.view.dtype.code), uint8(t.view.dtype.bits), uint16(t.view.dtype.lanes)),
			Shape:    unsafe.Slice((*int64)(t.view.shape), rank),
			Strides:  unsafe.Slice((*int64)(t.view.strides), rank),
			ReadOnly: t.flags&C.DLPACK_FLAG_BITMASK_READ_ONLY != 0,
			Padded:   t.flags&C.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0,
			Copied:   t.flags&C.DLPACK_FLAG_BITMASK_IS_COPIED != 0,
		}
		var x *dlpack.Tensor
		if t.mapping < 0 {
			x, err = empty(spec)
		} else {
			spec.ByteOffset = int64(uintptr(t.view.data) - uintptr(unsafe.Pointer(mappings[t.mapping].base)))
			x, err = memory[t.mapping].View(spec)
		}
		if err != nil {
			for _, x := range ts {
				x.Close()
			}
			return nil, fmt.Errorf("tensor %d: %w", i, err)
		}
		ts = append(ts, x)
	}
	return ts, nil
}

// empty returns a tensor without elements.
func empty(spec dlpack.Spec) (*dlpack.Tensor, error) {
	x, err := dlpack.New(spec.DType, spec.Shape...)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	return x.View(spec)
}

func flag(set bool) C.int {
	if set {
		return 1
	}
	return 0
}

// textOfC has room for the text of an error.
type textOfC []byte

func (t textOfC) c() *C.char { return (*C.char)(unsafe.Pointer(&t[0])) }

// A causedError is an error of the C functions: errors.Is finds its cause.
type causedError struct {
	text  string
	cause error
}

func (f *causedError) Error() string { return f.text }
func (f *causedError) Unwrap() error { return f.cause }

var causes = map[C.dlbcore_status]error{
	C.CORE_ERR_NULL: dlpack.ErrNull, C.CORE_ERR_DTYPE: dlpack.ErrDType, C.CORE_ERR_DEVICE: dlpack.ErrDevice, C.CORE_ERR_LAYOUT: dlpack.ErrLayout,
	C.CORE_ERR_OVERFLOW: dlpack.ErrOverflow, C.CORE_ERR_READONLY: dlpack.ErrReadOnly, C.CORE_ERR_MEMORY: dlpack.ErrMemory,
	C.CORE_NEEDS_COPY: ErrNotShared, C.CORE_ERR_CLOSED: io.ErrUnexpectedEOF,
}

// reason returns the error that errors.Is finds for a status of C. errno is the cause of CORE_ERR_SYSTEM, and unused otherwise.
func reason(status C.dlbcore_status, errno error) error {
	if status == C.CORE_ERR_SYSTEM {
		return errno
	}
	if cause, ok := causes[status]; ok {
		return cause
	}
	return dlpack.ErrValue
}

// failure returns an error with this text. It is about the tensor with the given index, or about all tensors if the
// index is -1.
func (t textOfC) failure(status C.dlbcore_status, tensor C.int64_t, errno error) error {
	text := strings.Replace(C.GoString(t.c()), "copy_unsealed", "CopyUnsealed", 1)
	if status == C.CORE_NEEDS_COPY {
		text += "; shm.Copy makes a copy that is"
	}
	if tensor >= 0 {
		text = fmt.Sprintf("tensor %d: %s", tensor, text)
	}
	return &causedError{text, reason(status, errno)}
}

// newError returns the error with this text for an errno of transfer.h.
func (t textOfC) newError(code syscall.Errno) error {
	if code == syscall.EPIPE {
		return &causedError{C.GoString(t.c()), code}
	}
	return t.failure(C.dlbsegment_status(C.int(code)), -1, code)
}
