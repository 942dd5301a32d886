//go:build linux && cgo

package shm

/*
#include "handover.h"

#include <stdlib.h>

static inline dlbcore_status fits_one(DLDataType dtype, int32_t ndim, int64_t *shape, int64_t *strides, uint64_t offset, uint64_t flags,
                                   uint64_t size, char *text, size_t text_size) {
  const DLTensor view = {.ndim = ndim, .dtype = dtype, .shape = shape, .strides = strides, .byte_offset = offset};
  return dlbsegment_fits(&view, flags, size, text, text_size);
}

static inline dlbcore_status open_one(dlbsegment_inbox *out, DLDataType dtype, int32_t ndim, int64_t *shape, int64_t *strides, uint64_t offset,
                                   uint64_t flags, int file, uint64_t copied, int trusted, char *text, size_t text_size) {
  const DLTensor view = {.ndim = ndim, .dtype = dtype, .shape = shape, .strides = strides, .byte_offset = offset};
  return dlbsegment_open(out, &view, flags, file, copied, trusted, text, text_size);
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Directory is the folder in which Linux keeps the objects of shm_open, such as the objects of
// multiprocessing.shared_memory in Python.
const Directory = "/dev/shm"

// An AttachOption changes what Attach does.
type AttachOption func(*attaching)

type attaching struct{ trusted bool }

// TrustPeer maps the object instead of copying it. If another process makes the object smaller, an access to the lost
// part ends this process (SIGBUS).
func TrustPeer() AttachOption { return func(a *attaching) { a.trusted = true } }

// Attach returns a tensor in the POSIX shared memory object of the given name, which another program has made. It
// copies the elements, because the object can become smaller at any time. With [TrustPeer] the tensor lies in the
// object itself, and is writable unless spec.ReadOnly is set. Attach looks for the name only in the folder dir, such as
// [Directory]; it does not follow links. spec describes the tensor, which begins at byte spec.ByteOffset of the object.
//
// Attach neither removes nor registers the object. The program that has made it may remove the name as soon as Attach
// has returned.
//
// Ownership: the tensor is the caller's. Lifetime: until its Close; removing the name changes nothing. Threads: any. On
// error: [dlpack.ErrValue] for a name that is empty or contains a slash, for a file that is not regular, and for a
// negative offset; those of package os, such as [os.ErrNotExist]; [dlpack.ErrOverflow] for an object that is too small
// for the tensor; [dlpack.ErrLayout], also for a tensor without elements.
func Attach(dir, name string, spec dlpack.Spec, options ...AttachOption) (*dlpack.Tensor, error) {
	t, err := settingsOf(options).attach(dir, name, spec)
	if err != nil {
		return nil, fmt.Errorf("shm: attach: %w", err)
	}
	return t, nil
}

func (a attaching) attach(dir, name string, spec dlpack.Spec) (*dlpack.Tensor, error) {
	if err := checkSpec(&spec); err != nil {
		return nil, err
	}
	if spec.ByteOffset < 0 {
		return nil, fmt.Errorf("spec.ByteOffset is %d: %w", spec.ByteOffset, dlpack.ErrValue)
	}
	file, err := openNamed(dir, name, a.trusted && !spec.ReadOnly)
	if err != nil {
		return nil, err
	}
	return openFile(file, uint64(spec.ByteOffset), &spec, math.MaxUint64, a.trusted)
}

// openNamed returns a descriptor of a file in a folder, which the caller closes.
func openNamed(dir, name string, writable bool) (file int, err error) {
	dirInC, nameInC := C.CString(filepath.Clean(dir)), C.CString(name)
	defer C.free(unsafe.Pointer(dirInC))
	defer C.free(unsafe.Pointer(nameInC))
	var fd C.int
	code := syscall.EINVAL
	if !strings.Contains(dir+name, "\x00") { // ends a C string
		code = syscall.Errno(C.dlbsegment_open_named(&fd, dirInC, nameInC, flag(writable)))
	}
	switch code {
	case 0:
		return int(fd), nil
	case syscall.EINVAL:
		return 0, fmt.Errorf("%q is not the name of a file in %s; pass the name of a file, without a slash: %w", name, dir, dlpack.ErrValue)
	default:
		return 0, &os.PathError{Op: "open", Path: filepath.Join(dir, name), Err: code}
	}
}

// checkSpec returns an error for a spec that must not be passed to C: it has too many dimensions, or not one stride for
// each dimension.
func checkSpec(spec *dlpack.Spec) error {
	if spec.Strides != nil && len(spec.Strides) != len(spec.Shape) {
		return fmt.Errorf("strides has %d entries, but shape has %d: %w", len(spec.Strides), len(spec.Shape), dlpack.ErrLayout)
	}
	if len(spec.Shape) > dlpack.MaxRank {
		return fmt.Errorf("%d dimensions, but at most %d are allowed: %w", len(spec.Shape), dlpack.MaxRank, dlpack.ErrLayout)
	}
	return nil
}

// A description has the fields of a Spec that C needs.
type description struct {
	dtype          C.DLDataType
	rank           C.int32_t
	shape, strides *C.int64_t
	flags          C.uint64_t
}

func describe(spec *dlpack.Spec) (d description) {
	d.dtype = C.DLDataType{code: C.uint8_t(spec.DType.Code()), bits: C.uint8_t(spec.DType.Bits()), lanes: C.uint16_t(spec.DType.Lanes())}
	d.rank = C.int32_t(len(spec.Shape))
	d.shape = (*C.int64_t)(unsafe.SliceData(spec.Shape))
	d.strides = (*C.int64_t)(unsafe.SliceData(spec.Strides))
	if spec.ReadOnly {
		d.flags |= C.DLPACK_FLAG_BITMASK_READ_ONLY
	}
	if spec.Padded {
		d.flags |= C.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
	}
	return d
}

// checkFit returns an error unless a tensor that begins at this offset lies in a segment of `size` bytes.
func checkFit(spec *dlpack.Spec, offset, size uint64) error {
	d := describe(spec)
	text := make(textOfC, 256)
	code := C.fits_one(d.dtype, d.rank, d.shape, d.strides, C.uint64_t(offset), d.flags, C.uint64_t(size), text.c(), C.size_t(len(text)))
	if code != C.CORE_OK {
		return text.failure(code, -1, nil)
	}
	return nil
}

// openFile returns a tensor that begins at this offset of a file, in bytes. It takes over the descriptor, even on an
// error. If the file can become smaller and is not trusted, openFile copies the elements, or returns an error if the
// copy takes more than `copied` bytes.
func openFile(file int, offset uint64, spec *dlpack.Spec, copied uint64, trusted bool) (*dlpack.Tensor, error) {
	d := describe(spec)
	var in C.dlbsegment_inbox
	text := make(textOfC, 256)
	status, errno := C.open_one(&in, d.dtype, d.rank, d.shape, d.strides, C.uint64_t(offset), d.flags, C.int(file), C.uint64_t(copied),
		flag(trusted), text.c(), C.size_t(len(text)))
	if status != C.CORE_OK {
		return nil, text.failure(status, -1, errno)
	}
	ts, err := tensors(&in)
	if err != nil {
		return nil, err
	}
	return ts[0], nil
}
