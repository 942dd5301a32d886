//go:build linux && cgo

package shm

/*
#include "discard.h"
#include "handover.h"
#include "offer.h"

static inline const char *handle_set(dlbsegment_handle *out, _GoString_ socket, _GoString_ token) {
  return dlbsegment_handle_set(out, _GoStringPtr(socket), _GoStringLen(socket), _GoStringPtr(token), _GoStringLen(token));
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A Handle lets another process fetch the segment of a tensor. It can be written as text, such as JSON, and sent over
// any transport. The other process must be on the same machine and in the same network namespace. A handle works once.
type Handle struct {
	Socket string `json:"socket"` // the name of an abstract Unix socket, without the leading NUL
	Token  string `json:"token"`  // 32 hexadecimal digits
	Offset uint64 `json:"offset"` // of the tensor in the segment, in bytes: of element (0, ..., 0), or as [Packing] says
	Size   uint64 `json:"size"`   // of the segment, in bytes

	ReadOnly bool `json:"readonly"` // the offer was not Writable
}

// ErrNotOffered reports a handle that no process answers. Either it was used before, or its time is over, or the
// process that made it has ended or is in another network namespace.
var ErrNotOffered = errors.New("not offered")

// notFetched returns the error for an errno of dlbsegment_fetch_begin or dlbsegment_fetch_step.
func notFetched(call string, code syscall.Errno) error {
	text := C.dlbsegment_fetch_text(C.int(code))
	switch {
	case text == nil:
		return os.NewSyscallError(call, code)
	case code == syscall.ENOENT:
		return fmt.Errorf("handle: %s: the segment is %w", C.GoString(text), ErrNotOffered)
	case code == syscall.EACCES:
		code = syscall.EPERM
	}
	return fmt.Errorf("handle: %s: %w", C.GoString(text), code)
}

// Offer lets one other process of the same user fetch the segment of a tensor until timeout is over. Without [Writable]
// it forbids further writable mappings of the segment, as [Send] does; the first hand-over of a segment decides. The
// program must itself send the data type, the shape and the strides of the tensor, for example in the label of a
// message.
//
// Ownership: t stays the caller's, who may close it. Lifetime: the offer holds the segment until it was fetched or its time is over.
// Threads: any. On error: those of [Send]; [dlpack.ErrLayout] for a tensor without elements; [dlpack.ErrValue] for a timeout that is not more than 0.
func Offer(t *dlpack.Tensor, timeout time.Duration, options ...SendOption) (Handle, error) {
	s := settingsOf(options)
	h, err := s.offer(t, timeout)
	if err != nil {
		return Handle{}, fmt.Errorf("shm: offer: %w", err)
	}
	return h, nil
}

// place finds the segment of a tensor before it is offered. The caller closes its descriptor.
func (s sending) place(t *dlpack.Tensor, timeout time.Duration) (p C.dlbsegment_place, err error) {
	if timeout <= 0 {
		return p, fmt.Errorf("timeout is %v; it must be more than 0: %w", timeout, dlpack.ErrValue)
	}
	return find(t, s.writable)
}

// check returns the error that offer would return before anything is offered.
func (s sending) check(t *dlpack.Tensor, timeout time.Duration) error {
	p, err := s.place(t, timeout)
	if err != nil {
		return err
	}
	return syscall.Close(int(p.file))
}

func (s sending) offer(t *dlpack.Tensor, timeout time.Duration) (Handle, error) {
	p, err := s.place(t, timeout)
	if err != nil {
		return Handle{}, err
	}
	var h C.dlbsegment_handle
	milliseconds := timeout.Milliseconds() + 1
	text := make(textOfC, 256)
	status, errno := C.dlbsegment_offer(&h, &p, flag(s.writable), C.int64_t(milliseconds), text.c(), C.size_t(len(text)))
	if status != C.CORE_OK {
		return Handle{}, text.failure(status, -1, errno)
	}
	return Handle{C.GoString(&h.socket[0]), C.GoString(&h.token[0]), uint64(h.offset), uint64(h.size), h.read_only != 0}, nil
}

// Offered returns the number of offers of this process that were not fetched and whose time is not over.
func Offered() int { return int(C.dlbsegment_offer_count(C.UINT64_MAX)) }

// Fetch returns a tensor in the segment of a handle. The handle comes from [Offer], from the function offer of the
// Python module dlbridge.shm, or from dlb_shm_offer in C. This process or another process may have made it. spec
// describes the tensor; its ByteOffset is ignored, because the handle has the offset. The tensor is read-only if
// spec.ReadOnly is true or the offer was not [Writable]. If Fetch fails because spec does not fit h.Size, the handle
// can be used again.
//
// Ownership: the tensor is the caller's. Lifetime: until its Close. Threads: any. On error: the error of ctx;
// [ErrNotOffered]; [syscall.EPERM] if the socket belongs to another user, or the process that made the handle has
// changed its user since; [syscall.ETOOMANYREFS] if that process may not send a descriptor, because its user has too
// many descriptors in transit; the handle can then be used again; those of [Recv].
func Fetch(ctx context.Context, h Handle, spec dlpack.Spec, options ...RecvOption) (*dlpack.Tensor, error) {
	err := checkHandle(h, &spec)
	if err == nil {
		var t *dlpack.Tensor
		if t, err = settingsOf(options).fetchChecked(ctx, h, spec); err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("shm: fetch: %w", err)
}

// checkHandle returns an error for a wrong handle or spec, before the handle is used.
func checkHandle(h Handle, spec *dlpack.Spec) error {
	if err := checkSpec(spec); err != nil {
		return err
	}
	if err := checkFit(spec, h.Offset, h.Size); err != nil {
		return err
	}
	_, err := h.forC()
	return err
}

func (h Handle) forC() (c C.dlbsegment_handle, err error) {
	if wrong := C.handle_set(&c, h.Socket, h.Token); wrong != nil {
		err = fmt.Errorf("handle: %s: %w", C.GoString(wrong), dlpack.ErrValue)
	}
	return c, err
}

func (r receiving) fetchChecked(ctx context.Context, h Handle, spec dlpack.Spec) (*dlpack.Tensor, error) {
	file, err := fetchFile(ctx, h)
	if err != nil {
		return nil, err
	}
	spec.ReadOnly = spec.ReadOnly || h.ReadOnly
	return openFile(file, h.Offset, &spec, r.copied, false)
}

// fetchFile fetches the descriptor that a handle stands for. The caller closes it.
func fetchFile(ctx context.Context, h Handle) (file int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	handle, err := h.forC()
	if err != nil {
		return 0, err
	}
	var conn, descriptor C.int
	code := syscall.Errno(C.dlbsegment_fetch_begin(&conn, &handle))
	for ; code == syscall.EAGAIN; code = syscall.Errno(C.dlbsegment_fetch_begin(&conn, &handle)) {
		select { // too many processes wait there
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	if code != 0 {
		return 0, notFetched("connect", code)
	}
	socket := os.NewFile(uintptr(conn), "socket")
	raw, err := socket.SyscallConn()
	if err != nil {
		socket.Close()
		return 0, err
	}
	defer func() {
		unread := C.int(0)
		raw.Control(func(fd uintptr) { unread = C.dlbsegment_hang_up(C.int(fd)) })
		if unread == 0 {
			socket.Close()
			return
		}
		background.Go(func() { socket.Close() }) // the other process can make this take any time
	}()
	defer watch(ctx, socket.SetReadDeadline)()
	err = raw.Read(func(fd uintptr) bool {
		code = syscall.Errno(C.dlbsegment_fetch_step(C.int(fd), &descriptor))
		return code != syscall.EAGAIN
	})
	if err != nil {
		return 0, cause(ctx, err)
	}
	if code != 0 {
		return 0, notFetched("recvmsg", code)
	}
	return int(descriptor), nil
}
