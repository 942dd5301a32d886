//go:build cgo

package zeromq

/*
#include "libzmq.h"
*/
import "C"

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

const (
	// receiveThreshold is the smallest size in bytes of a received frame that stays in libzmq's memory.
	receiveThreshold = 16 << 10
	// inboxKeep is the largest size in bytes of each buffer that a socket keeps for the next message.
	inboxKeep = 1 << 20
)

// Recv waits for a message and returns it with its tensors. Parts of at least 16 KiB stay in libzmq's memory, and smaller ones are
// copied.
//
// Ownership: the caller closes the message. Lifetime: tensors and their exports keep the memory of their part alive,
// even after the socket and the context are closed. Threads: any. On error: the error of ctx; [ErrClosed]; [Errno]; and
// the errors of [Decode] for an invalid message. Recv drops an invalid message completely, so the next Recv returns the next
// message. A REP may first answer it with [Socket.Send]; otherwise the next Recv or [Poll] sends an empty frame, which
// makes the client's Recv fail.
func (s *Socket) Recv(ctx context.Context, options ...Option) (*Message, error) {
	r := receivingOf(options)
	if r.err != nil {
		return nil, r.err
	}
	r.router = r.router || s.kind == Router
	frames, owners, err := s.receive(ctx, r)
	if err != nil {
		return nil, err
	}
	m, err := r.message(frames, owners)
	if err != nil {
		s.mu.Lock()
		s.refuse()
		s.mu.Unlock()
	}
	return m, err
}

// RecvFrames waits for a message and returns copies of its frames. It is for messages that are not ZIO messages, such
// as acknowledgements. It does not return the routing id of a CLIENT. A SERVER that needs the id for its answer calls
// [Socket.Recv] instead.
//
// Errors: the error of ctx; [ErrClosed]; [Errno].
func (s *Socket) RecvFrames(ctx context.Context) ([][]byte, error) {
	frames, owners, err := s.receive(ctx, receivingOf(nil))
	for i, owner := range owners {
		if owner != nil {
			frames[i] = slices.Clone(frames[i])
			owner.Close()
		}
	}
	return frames, err
}

// receive waits for a message and returns its frames and their owners.
func (s *Socket) receive(ctx context.Context, r *receiving) (frames [][]byte, owners []*dlpack.Tensor, err error) {
	err = s.do(ctx, "receive", pollIn, func() (done bool, err error) {
		frames, owners, err = s.tryReceive(r)
		return frames != nil, err
	})
	return frames, owners, err
}

// refuse records that a REP has received a request that the program does not get. The caller holds s.mu.
func (s *Socket) refuse() { s.refused = s.kind == Rep }

// answerRefused answers a refused request unless the program has answered it, because a REP must answer before it can
// receive. The caller holds s.mu.
func (s *Socket) answerRefused() {
	if s.refused && s.ptr != nil {
		C.zeromq_send_empty(s.ptr)
	}
	s.refused = false
}

// tryReceive returns the frames of one message and their owners, and no frames if none has arrived.
func (s *Socket) tryReceive(r *receiving) ([][]byte, []*dlpack.Tensor, error) {
	s.answerRefused()
	var code C.int
	switch {
	case s.cut != 0:
		code = C.EFSM
	case s.early:
		code = s.deliverEarly(r)
	default:
		code = C.zeromq_receive(s.ptr, &s.inbox, receiveThreshold, frameOverhead, C.int64_t(r.limit))
	}
	switch {
	case code == C.ZEROMQ_LIMIT:
		s.refuse()
		return nil, nil, fmt.Errorf("zeromq: receive: limit of %d bytes: %w", r.limit, ErrLimit)
	case syscall.Errno(code) == syscall.EAGAIN:
		return nil, nil, nil
	case syscall.Errno(code) == syscall.ENOMEM:
		s.refuse()
		return nil, nil, failed("receive", Errno(code))
	case code != 0:
		return nil, nil, inTurn("receive", Errno(code))
	}
	frames, owners, err := s.unload(r)
	if err != nil {
		s.refuse()
	}
	return frames, owners, err
}

// deliverEarly leaves the early message in the inbox unless it is larger than the limit. It returns the same results as
// zeromq_receive.
func (s *Socket) deliverEarly(r *receiving) C.int {
	s.early = false
	size := int64(0)
	for _, frame := range unsafe.Slice(s.inbox.frames, s.inbox.count) {
		size += int64(frame.size) + frameOverhead
	}
	if r.limit >= 0 && size > r.limit {
		C.zeromq_clear(&s.inbox)
		return C.ZEROMQ_LIMIT
	}
	return 0
}

// unload returns the frames in the inbox, and the owners of the frames in libzmq's memory.
func (s *Socket) unload(r *receiving) (frames [][]byte, owners []*dlpack.Tensor, err error) {
	inbox := unsafe.Slice(s.inbox.frames, s.inbox.count)
	if s.kind == Server {
		r.peer = uint32(inbox[0].peer)
	}
	small := slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(s.inbox.small)), s.inbox.used))
	frames = make([][]byte, len(inbox))
	for i := range inbox {
		at, size := inbox[i].at, int(inbox[i].size)
		if inbox[i].owner == 0 {
			frames[i] = small[at : int(at)+size : int(at)+size]
			continue
		}
		if owners == nil {
			owners = make([]*dlpack.Tensor, len(inbox))
		}
		if err != nil {
			C.zeromq_free(pointer(inbox[i].owner))
		} else if owners[i], err = s.adopt(&inbox[i], r); err == nil {
			frames[i], _, err = owners[i].UnsafeBytes()
		}
	}
	C.zeromq_trim(&s.inbox, inboxKeep)
	if err == nil {
		return frames, owners, nil
	}
	for _, owner := range owners {
		owner.Close()
	}
	return nil, nil, fmt.Errorf("zeromq: receive: %w", err)
}

// adopt makes a tensor that owns a message of libzmq. If the tensor must be writable and others may see the memory of
// the message, it makes a copy instead, and frees the message. It also frees the message on an error.
func (s *Socket) adopt(frame *C.zeromq_frame, r *receiving) (*dlpack.Tensor, error) {
	exclusive := !s.inproc && s.inbox.shared == 0
	t, err := dlpack.Lend(pointer(C.uintptr_t(frame.at)), int64(frame.size), !r.writable || !exclusive,
		C.zeromq_free_function(), pointer(frame.owner))
	if err != nil {
		C.zeromq_free(pointer(frame.owner))
		return nil, err
	}
	if !r.writable || exclusive {
		return t, nil
	}
	defer t.Close()
	return t.Copy()
}

// pointer returns an address in C memory as a pointer.
func pointer(address C.uintptr_t) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
