//go:build linux && cgo

package shm

/*
#include "transfer.h"

static inline void end_export(void *managed) {
  DLManagedTensorVersioned *m = managed;
  m->deleter(m);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A SendOption changes what Send does.
type SendOption func(*sending)

type sending struct{ writable bool }

// Writable lets the receiver also write to the segments. All processes that map them write to the same memory.
func Writable() SendOption { return func(s *sending) { s.writable = true } }

// settingsOf returns the settings that options make. A nil option changes nothing.
func settingsOf[Option ~func(*T), T any](options []Option) (settings T) {
	for _, option := range options {
		if option != nil {
			option(&settings)
		}
	}
	return settings
}

// Send sends tensors in segments to another process, which calls Recv. The elements are not copied, so the time does
// not depend on their number. conn is a connected Unix socket of the type "unix", a stream. A tensor may be any view,
// except a broadcast of more bytes than its segment. The receiver gets the descriptor of each segment, and with it
// access to the whole segment. Recv maps at least the part with the tensors of the message. Without [Writable] the
// receiver cannot write, and all later writable mappings of the segments are forbidden. The first hand-over of a
// segment decides for all later ones (see the package documentation).
//
// Ownership: the tensors stay the caller's, who may close them after Send has returned: descriptors in transit keep the
// segments. Lifetime: a segment exists until all processes have closed it. Threads: any, one at a time for a
// connection; a Recv may run at the same time as a Send.
//
// On error: the error of ctx; [ErrNotShared]; [dlpack.ErrReadOnly] for a tensor whose segment was handed over before
// with the other option, and with [Writable] for a read-only tensor. After these errors nothing was sent, and the call
// has decided nothing. But if the tensors are in several segments, and another goroutine or process decides for one of
// these during the call, Send may already have decided for others. Further errors: [dlpack.ErrClosed];
// [dlpack.ErrDevice]; [dlpack.ErrLayout] for a broadcast of more bytes than its segment; [dlpack.ErrOverflow] for
// tensors in more than 253 segments, or more tensors than a message of 1 MiB can describe; [dlpack.ErrMemory];
// [dlpack.ErrNull] for a conn that is nil; [dlpack.ErrValue] for a conn that is not a stream; the errors of the socket;
// EMFILE if the process has no descriptor left. After an error of ctx or of the socket, part of the message may have
// been sent: close conn. If ctx ends during the call, conn has no write deadline afterwards, even if the program had
// set one.
func Send(ctx context.Context, conn *net.UnixConn, ts []*dlpack.Tensor, options ...SendOption) error {
	if err := settingsOf(options).send(ctx, conn, ts); err != nil {
		return fmt.Errorf("shm: send: %w", err)
	}
	return nil
}

func (s sending) send(ctx context.Context, conn *net.UnixConn, ts []*dlpack.Tensor) error {
	if err := stream(conn); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	managed := make([]unsafe.Pointer, 0, len(ts))
	defer func() {
		for _, m := range managed {
			C.end_export(m)
		}
	}()
	for i, t := range ts {
		m, err := t.Export()
		if err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		managed = append(managed, m)
	}
	var out C.dlbsegment_outbox
	var failed C.int64_t
	text := make(textOfC, 256)
	status, errno := C.dlbsegment_pack(&out, (**C.DLManagedTensorVersioned)(unsafe.Pointer(unsafe.SliceData(managed))), C.size_t(len(ts)),
		flag(s.writable), &failed, text.c(), C.size_t(len(text)))
	if status != C.CORE_OK {
		return text.failure(status, failed, errno)
	}
	defer C.dlbsegment_outbox_end(&out)
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	defer watch(ctx, conn.SetWriteDeadline)()
	var sent C.size_t
	var code syscall.Errno
	err = raw.Write(func(fd uintptr) bool {
		code = syscall.Errno(C.dlbsegment_send_step(C.int(fd), &out, &sent, text.c(), C.size_t(len(text))))
		return code != syscall.EAGAIN
	})
	if err == nil && code != 0 {
		err = text.newError(code)
	}
	return cause(ctx, err)
}

// A RecvOption changes what Recv does.
type RecvOption func(*receiving)

type receiving struct{ copied uint64 }

// CopyUnsealed lets Recv copy the elements of tensors in files that can become smaller, up to the given number of bytes
// in one call. Without it, Recv returns [dlpack.ErrValue] for such tensors.
func CopyUnsealed(bytes int64) RecvOption {
	return func(r *receiving) { r.copied = uint64(max(bytes, 0)) }
}

// Recv receives the tensors of one Send. They are read-only unless the sender used [Writable]. A peer can send 253
// descriptors with one byte. They stay open until the message has arrived or ctx ends, so give Recv a ctx with a
// deadline if the peer is not trusted.
//
// Ownership: the tensors are the caller's, who closes them. Lifetime: a mapping ends with the last of its tensors.
// Threads: any, one at a time for a connection; a Send may run at the same time as a Recv.
//
// On error: io.EOF if the other side has closed the connection, and [io.ErrUnexpectedEOF] in the middle of a message;
// the error of ctx; [dlpack.ErrValue], [dlpack.ErrLayout], [dlpack.ErrOverflow] and [dlpack.ErrReadOnly] for a message
// that Send would not write, with ErrValue as soon as the first bytes are wrong; [dlpack.ErrMemory] if the process may
// not map so much; those of the socket; EMFILE if the process has no descriptor left. After an error nothing is mapped
// and no descriptor is open; close conn, because part of the message may be unread. If ctx ends during the call, conn
// has no read deadline afterwards, even if the program had set one.
func Recv(ctx context.Context, conn *net.UnixConn, options ...RecvOption) ([]*dlpack.Tensor, error) {
	ts, err := settingsOf(options).recv(ctx, conn)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("shm: recv: %w", err)
	}
	return ts, err
}

func (r receiving) recv(ctx context.Context, conn *net.UnixConn) ([]*dlpack.Tensor, error) {
	if err := stream(conn); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var arrival C.dlbsegment_arrival
	defer C.dlbsegment_arrival_end(&arrival)
	text := make(textOfC, 256)
	var code syscall.Errno
	stop := watch(ctx, conn.SetReadDeadline)
	err = raw.Read(func(fd uintptr) bool {
		code = syscall.Errno(C.dlbsegment_receive_step(C.int(fd), &arrival, text.c(), C.size_t(len(text))))
		return code != syscall.EAGAIN
	})
	stop()
	switch {
	case err != nil:
		return nil, cause(ctx, err)
	case code == syscall.ECONNRESET && arrival.done == 0:
		return nil, io.EOF
	case code != 0:
		return nil, text.newError(code)
	}
	var in C.dlbsegment_inbox
	var failed C.int64_t
	status, errno := C.dlbsegment_arrival_unpack(&in, &arrival, C.uint64_t(r.copied), &failed, text.c(), C.size_t(len(text)))
	if status != C.CORE_OK {
		return nil, text.failure(status, failed, errno)
	}
	return tensors(&in)
}

// stream returns an error unless conn is a stream. Recv reads a message in parts, and a socket of another type would
// drop the rest of it.
func stream(conn *net.UnixConn) error {
	if conn == nil {
		return fmt.Errorf("conn: %w", dlpack.ErrNull)
	}
	if network := conn.LocalAddr().Network(); network != "unix" {
		return fmt.Errorf("conn: a socket of type %q is not a stream; use the type \"unix\": %w", network, dlpack.ErrValue)
	}
	return nil
}

// watch ends an operation on a connection when ctx ends: it calls set, which sets the deadline of the operation. stop
// ends the watch.
func watch(ctx context.Context, set func(time.Time) error) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		set(time.Unix(1, 0))
		close(done)
	})
	return func() {
		if !stopped() {
			<-done
			set(time.Time{})
		}
	}
}

// cause returns the error of ctx for an operation that it has ended.
func cause(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
