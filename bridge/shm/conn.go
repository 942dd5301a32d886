//go:build linux && cgo

package shm

/*
#include "segment.h"
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

	"github.com/dlbridge/dlbridge/dlpack"
)

// A SendOption changes what Send does.
type SendOption func(*sending)

type sending struct{ writable bool }

// Writable lets the receiver write to the segments, too. All processes that map them write to the same memory.
func Writable() SendOption { return func(s *sending) { s.writable = true } }

// Send sends tensors, which lie in segments, to another process, which calls Recv. Their elements are not copied, and the time does not
// depend on their number. conn is a connected Unix socket of the type "unix", a stream. A tensor may be any view; the receiver gets
// the whole segment it lies in, and one mapping for all tensors in it.
//
// Ownership: the tensors stay the caller's, who may close them when Send has returned: the descriptors that are under way keep the
// segments. Lifetime: a segment exists until all processes have closed it.
//
// Errors: that of ctx; [ErrNotShared]; [dlpack.ErrReadOnly] for a tensor that cannot be sent with [Writable]; [dlpack.ErrClosed];
// [dlpack.ErrOverflow] for tensors in more than 253 segments; those of the socket. After an error of ctx or of the socket, a part of the
// message may be under way: close conn.
func Send(ctx context.Context, conn *net.UnixConn, ts []*dlpack.Tensor, options ...SendOption) error {
	var s sending
	for _, option := range options {
		option(&s)
	}
	if err := s.send(ctx, conn, ts); err != nil {
		return fmt.Errorf("shm: send: %w", err)
	}
	return nil
}

// An identity is that of the file behind a descriptor.
type identity struct{ device, inode uint64 }

func (s sending) send(ctx context.Context, conn *net.UnixConn, ts []*dlpack.Tensor) error {
	if err := stream(conn); err != nil {
		return err
	}
	var files []int
	defer func() { closeAll(files) }()
	numbers := map[identity]uint32{}
	records := make([]record, len(ts))
	for i, t := range ts {
		if t.RequireOpen() == nil && t.NumElements() == 0 {
			records[i] = record{noSegment, dlpack.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Strides()}}
			continue
		}
		p, err := find(t)
		if err == nil && s.writable && (t.ReadOnly() || p.readOnly) {
			p.close()
			err = fmt.Errorf("Writable: the tensor is %w", dlpack.ErrReadOnly)
		}
		if err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		var status syscall.Stat_t
		if err := syscall.Fstat(p.file, &status); err != nil {
			p.close()
			return os.NewSyscallError("fstat", err)
		}
		id := identity{uint64(status.Dev), status.Ino}
		number, ok := numbers[id]
		if ok {
			p.close()
		} else {
			number = uint32(len(files))
			numbers[id] = number
			files = append(files, p.file)
		}
		if t.NumBytes() > int64(p.size) {
			p.close()
			return fmt.Errorf("tensor %d is a broadcast of %d bytes; send the tensor that it was made of: %w", i, t.NumBytes(), dlpack.ErrLayout)
		}
		l := t.Layout()
		records[i] = record{number, dlpack.Spec{DType: t.DType(), Shape: l.Shape, Strides: l.Strides, ByteOffset: int64(p.offset),
			ReadOnly: !s.writable, Padded: t.Flags()&dlpack.SubbytePadded != 0}}
	}
	if len(files) > maxSegments {
		return fmt.Errorf("the tensors lie in %d segments, and one message carries %d; send them by several calls: %w", len(files), maxSegments,
			dlpack.ErrOverflow)
	}
	data, err := appendMessage(nil, records, len(files))
	if err != nil {
		return err
	}
	if !s.writable {
		for _, file := range files {
			if code := C.segment_seal(C.int(file)); code != 0 {
				return fmt.Errorf("the segment cannot be made read-only: %w", failure(code))
			}
		}
	}
	defer watch(ctx, conn.SetWriteDeadline)()
	n, _, err := conn.WriteMsgUnix(data, syscall.UnixRights(files...), nil)
	if err == nil && n < len(data) { // the descriptors have gone with the first byte
		_, err = conn.Write(data[n:])
	}
	return cause(ctx, err)
}

// A RecvOption changes what Recv does.
type RecvOption func(*receiving)

type receiving struct{ copied int64 }

// CopyUnsealed lets Recv copy the elements of tensors that lie in files that can become smaller, up to that number of bytes in one call.
// Without it, such tensors are refused.
func CopyUnsealed(bytes int64) RecvOption { return func(r *receiving) { r.copied = bytes } }

// Recv receives the tensors of one Send. They are read-only unless the sender has said [Writable].
//
// Ownership: the tensors are the caller's, who closes them. The mapping of a segment ends with the last of its tensors.
//
// Errors: io.EOF if the other side has closed the connection; that of ctx; [dlpack.ErrValue], [dlpack.ErrLayout], [dlpack.ErrOverflow] and
// [dlpack.ErrReadOnly] for a message that is not as Send writes it; those of the socket. After an error nothing is mapped and no
// descriptor is open; close conn, because a part of the message may be unread.
func Recv(ctx context.Context, conn *net.UnixConn, options ...RecvOption) ([]*dlpack.Tensor, error) {
	var r receiving
	for _, option := range options {
		option(&r)
	}
	ts, err := r.recv(ctx, conn)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("shm: recv: %w", err)
	}
	return ts, err
}

func (r receiving) recv(ctx context.Context, conn *net.UnixConn) (ts []*dlpack.Tensor, err error) {
	if err := stream(conn); err != nil {
		return nil, err
	}
	stop := watch(ctx, conn.SetReadDeadline)
	records, files, err := readMessage(conn)
	stop()
	if err != nil {
		closeAll(files)
		return nil, cause(ctx, err)
	}
	return r.tensors(records, files)
}

// tensors returns the tensors of records in the segments of descriptors, which it takes over.
func (r receiving) tensors(records []record, files []int) (ts []*dlpack.Tensor, err error) {
	defer func() { closeAll(files) }()
	segments := make([]opened, len(files))
	defer func() {
		for _, s := range segments {
			s.bytes.Close()
		}
		if err != nil {
			for _, t := range ts {
				t.Close()
			}
			ts = nil
		}
	}()
	for i := range segments {
		err := r.open(&segments[i], files[i], uint32(i), records)
		if segments[i].mapped {
			files[i] = -1 // it is the mapping's
		}
		if err != nil {
			return nil, err
		}
	}
	for i, record := range records {
		if record.segment == noSegment {
			t, err := dlpack.New(record.spec.DType, record.spec.Shape...)
			if err != nil {
				return ts, fmt.Errorf("tensor %d: %w", i, err)
			}
			ts = append(ts, t)
			continue
		}
		s := segments[record.segment]
		record.spec.ByteOffset -= int64(s.start)
		record.spec.Copied = !s.mapped
		t, err := s.bytes.View(record.spec)
		if err != nil {
			return ts, fmt.Errorf("tensor %d: %w", i, err)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// An opened segment is what its tensors need of it.
type opened struct {
	bytes  *dlpack.Tensor
	start  uint64 // the offset of the first byte
	mapped bool   // and not copied
}

// open maps the part of a segment that its tensors need, or copies it.
func (r *receiving) open(s *opened, file int, number uint32, records []record) error {
	var size C.uint64_t
	var fixed, writable C.int
	if code := C.segment_check(C.int(file), &size, &fixed, &writable); code != 0 {
		return fmt.Errorf("segment %d: the descriptor is not one of a file: %w", number, dlpack.ErrValue)
	}
	low, high, readOnly, used := uint64(size), uint64(0), true, false
	for i, record := range records {
		if record.segment != number {
			continue
		}
		from, to, err := record.within(uint64(size))
		if err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		low, high, used = min(low, from), max(high, to), true
		readOnly = readOnly && record.spec.ReadOnly
	}
	if !used {
		return fmt.Errorf("segment %d: no tensor lies in it: %w", number, dlpack.ErrValue)
	}
	if !readOnly && writable == 0 {
		return fmt.Errorf("segment %d: a tensor is said to be writable, and the segment is %w", number, dlpack.ErrReadOnly)
	}
	s.start = low - low%uint64(os.Getpagesize())
	extent := max(high-s.start, 1)
	if fixed == 0 {
		return r.copy(s, file, number, int64(extent))
	}
	var mapping *C.segment
	flag := C.int(0)
	if readOnly {
		flag = 1
	}
	if code := C.segment_map(&mapping, C.int(file), C.uint64_t(s.start), C.size_t(extent), flag); code != 0 {
		return fmt.Errorf("segment %d: %d bytes cannot be mapped: %w", number, extent, failure(code))
	}
	s.mapped = true
	bytes, err := lend(mapping)
	s.bytes = bytes
	return err
}

// copy reads the part of a file that its tensors need.
func (r *receiving) copy(s *opened, file int, number uint32, size int64) error {
	if size > r.copied {
		return fmt.Errorf("segment %d: another process can make it smaller at any time, so that its %d bytes must be copied; "+
			"CopyUnsealed allows %d: %w", number, size, r.copied, dlpack.ErrValue)
	}
	r.copied -= size
	t, err := dlpack.New(dlpack.Uint8, size)
	if err != nil {
		return err
	}
	err = dlpack.Use(t, func(data []uint8) error {
		for at := 0; at < len(data); {
			n, err := syscall.Pread(file, data[at:], int64(s.start)+int64(at))
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return os.NewSyscallError("pread", err)
			}
			if n == 0 {
				return fmt.Errorf("segment %d: it became smaller while it was read: %w", number, dlpack.ErrValue)
			}
			at += n
		}
		return nil
	})
	if err != nil {
		t.Close()
		return err
	}
	s.bytes = t
	return nil
}

// readMessage reads the descriptions of one message, and its descriptors, which are returned after an error, too.
func readMessage(conn *net.UnixConn) (records []record, files []int, err error) {
	header := make([]byte, firstSize)
	control := make([]byte, syscall.CmsgSpace(4*maxSegments))
	n, size, flags, _, err := conn.ReadMsgUnix(header, control)
	files, parseErr := descriptors(control[:size])
	switch {
	case n == 0 && (err == nil || errors.Is(err, io.EOF)):
		return nil, files, io.EOF
	case err != nil:
		return nil, files, err
	case parseErr != nil:
		return nil, files, parseErr
	case flags&syscall.MSG_CTRUNC != 0:
		return nil, files, fmt.Errorf("header: its descriptors are more than %d, or more than this process can have: %w", maxSegments, syscall.EMFILE)
	}
	if _, err := io.ReadFull(conn, header[n:]); err != nil {
		return nil, files, unexpected(err)
	}
	left, tensors, segments, err := readHeader(header)
	if err != nil {
		return nil, files, err
	}
	if segments != len(files) {
		return nil, files, fmt.Errorf("header: %d descriptors came with it, not %d: %w", len(files), segments, dlpack.ErrValue)
	}
	rest := header[headerSize:]
	if left > len(rest) {
		rest = append(rest, make([]byte, left-len(rest))...)
		if _, err := io.ReadFull(conn, rest[firstSize-headerSize:]); err != nil {
			return nil, files, unexpected(err)
		}
	}
	records, err = readRecords(rest, tensors, segments)
	return records, files, err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// descriptors returns those of control messages, also if an error is found among them.
func descriptors(control []byte) (files []int, err error) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	for i := range messages {
		if messages[i].Header.Level != syscall.SOL_SOCKET || messages[i].Header.Type != syscall.SCM_RIGHTS {
			continue
		}
		more, parseErr := syscall.ParseUnixRights(&messages[i])
		files, err = append(files, more...), errors.Join(err, parseErr)
	}
	return files, err
}

func closeAll(files []int) {
	for _, file := range files {
		if file >= 0 {
			syscall.Close(file)
		}
	}
}

// stream checks the type of a socket. Others would cut a message where it is read in parts.
func stream(conn *net.UnixConn) error {
	if conn == nil {
		return fmt.Errorf("conn: %w", dlpack.ErrNull)
	}
	if network := conn.LocalAddr().Network(); network != "unix" {
		return fmt.Errorf("conn: a socket of type %q is not a stream; use the type \"unix\": %w", network, dlpack.ErrValue)
	}
	return nil
}

// watch ends an operation on a connection when ctx ends. The function that it returns ends the watch.
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
