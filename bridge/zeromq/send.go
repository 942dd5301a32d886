//go:build cgo

package zeromq

/*
#include "libzmq.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
)

// sendThreshold is the smallest size in bytes of a frame that libzmq sends from the memory of its tensor. Over
// tcp, a copy of a smaller frame costs less than a share of its memory, and a copy of a larger frame costs more.
const sendThreshold = 32 << 10

// Send sends a message. It waits while there is no peer or the high-water mark of the socket is reached. PUB, and
// ROUTER without [Mandatory], do not wait: they drop the message for a peer whose mark is reached. Parts of at least 32
// KiB in the memory of the message's tensors are sent without a copy, unless that memory is borrowed.
//
// A socket runs one Send at a time. While a Send waits for a peer of a ROUTER or SERVER, Sends to other peers wait too;
// ctx can have a deadline.
//
// A SERVER sends to the CLIENT with the RoutingID of the message, or with the id in the option [To]. Messages of CLIENT
// and SERVER have one frame: a message without [Message.Pack] or with Routing is an error (EINVAL).
//
// Ownership: the message and its tensors stay the caller's, who may close them after Send has returned. Lifetime:
// libzmq has a share of the memory until it has sent the parts, and nobody may write to the memory before. The counter
// of exports ([dlpack.ReadStats]) falls when libzmq releases a share. The package documentation names cases in which
// libzmq does not release it. Threads: any. On error: the error of ctx; [ErrClosed]; [Errno]; those of
// [Message.Frames], such as [dlpack.ErrClosed] for a closed tensor, and [dlpack.Tensor.Export]. After an error no part
// of the message has been sent.
func (s *Socket) Send(ctx context.Context, m *Message, options ...SendOption) error {
	frames, err := m.Frames()
	if err != nil {
		return err
	}
	var to uint32
	if s.kind == Server {
		to = m.RoutingID
	}
	return s.send(ctx, frames, sendingOf(to, options), m.owners, m.Tensors)
}

// A SendOption changes where [Socket.Send] and [Socket.SendFrames] send a message.
type SendOption func(*sending)

type sending struct {
	to uint32 // the routing id of a CLIENT, or 0
}

func sendingOf(to uint32, options []SendOption) sending {
	o := sending{to}
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			option(&o)
		}
	}
	return o
}

// To makes a SERVER send the message to the CLIENT with this routing id. The id is the RoutingID of a [Message] that
// the CLIENT has sent. Without To, Send uses the RoutingID of the message itself. On other sockets To is an error.
func To(id uint32) SendOption { return func(o *sending) { o.to = id } }

// SendTensors encodes tensors with [Encode] and sends the message. CLIENT and SERVER sockets refuse the message,
// because it has several frames.
//
// Ownership: the tensors stay the caller's, who may close them after SendTensors has returned. Lifetime, Threads: as
// [Socket.Send]. On error: those of [Encode] and [Socket.Send].
func (s *Socket) SendTensors(ctx context.Context, ts []*dlpack.Tensor, options ...bridge.EncodeOption) error {
	m, err := Encode(ts, options...)
	if err != nil {
		return err
	}
	defer m.Close()
	return s.Send(ctx, m)
}

// SendFrames sends copies of frames as one message. It is for messages that are not ZIO messages, such as
// acknowledgements. A SERVER needs the option [To].
//
// Errors: the error of ctx; [ErrClosed]; [Errno]; an error for a message without frames.
func (s *Socket) SendFrames(ctx context.Context, frames [][]byte, options ...SendOption) error {
	return s.send(ctx, frames, sendingOf(0, options))
}

// outbox is a message in the form that zeromq_send takes.
type outbox struct {
	frames   []C.zeromq_frame
	small    []byte             // the frames without an owner
	owners   []*dlpack.Tensor   // the owner of each frame, or nil for a frame in small; nil if all frames are in small
	progress *C.zeromq_progress // in separate memory, to which C may write
}

// send sends frames. Frames in the memory of a tensor of lists are not copied.
func (s *Socket) send(ctx context.Context, frames [][]byte, o sending, lists ...[]*dlpack.Tensor) error {
	switch {
	case len(frames) == 0:
		return errors.New("zeromq: send: a message has at least one frame")
	case len(frames) > 1 && s.singleFrame():
		return fmt.Errorf("zeromq: send: CLIENT and SERVER send messages of one frame, not %d; use Encode, or Message.Pack and Send, without Routing: %w",
			len(frames), Errno(syscall.EINVAL))
	case s.kind == Server && o.to == 0:
		return fmt.Errorf("zeromq: send: a SERVER sends to one CLIENT; set Message.RoutingID, or give the option To: %w", Errno(syscall.EINVAL))
	case s.kind != Server && o.to != 0:
		return fmt.Errorf("zeromq: send: only a SERVER sends to a routing id; Send without the option To: %w", Errno(syscall.EINVAL))
	}
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	case <-ctx.Done():
		return fmt.Errorf("zeromq: send: %w", ctx.Err())
	}
	var out outbox
	defer out.release()
	if err := out.fill(frames, lists...); err != nil {
		return err
	}
	out.frames[0].peer = C.uint32_t(o.to)
	return s.do(ctx, "send", pollOut, func() (done bool, err error) { return out.try(s) })
}

// fill adds the frames of the message. The caller releases the outbox, even after an error.
func (out *outbox) fill(frames [][]byte, lists ...[]*dlpack.Tensor) error {
	out.frames, out.progress = make([]C.zeromq_frame, len(frames)), new(C.zeromq_progress)
	size, large := 0, false
	for _, frame := range frames {
		if len(frame) < sendThreshold {
			size += len(frame)
		} else {
			large = true
		}
	}
	var known owners
	if large {
		known = ownersOf(lists...)
	}
	out.small = make([]byte, 0, size)
	for i, frame := range frames {
		if err := out.add(i, frame, known); err != nil {
			return fmt.Errorf("zeromq: send: frame %d: %w", i, err)
		}
	}
	return nil
}

// try sends the message if the socket is ready. The caller holds s.mu.
func (out *outbox) try(s *Socket) (done bool, err error) {
	if s.early && s.kind == Rep { // libzmq would accept an answer to the request that no call has received
		return false, inTurn("send", C.EFSM)
	}
	small := (*C.char)(unsafe.Pointer(unsafe.SliceData(out.small)))
	var cut *C.int
	if s.kind == Req {
		cut = &s.cut
	}
	code := C.zeromq_send(s.ptr, &out.frames[0], C.size_t(len(out.frames)), small, out.progress, cut, C.bool(!s.early))
	taken := int(out.progress.taken)
	for i := range out.frames[:taken] {
		out.frames[i].owner = 0
	}
	if code == 0 {
		s.refused = false // a REP has answered
		return true, nil
	}
	if id := out.frames[0].peer; id != 0 && syscall.Errno(code) == syscall.EHOSTUNREACH {
		return false, failed(fmt.Sprintf("send: no CLIENT with routing id %d is connected", id), Errno(code))
	}
	if syscall.Errno(code) != syscall.EAGAIN {
		return false, inTurn("send", Errno(code))
	}
	for i := range taken { // libzmq releases these
		if err := out.export(i); err != nil {
			return false, err
		}
	}
	return false, nil
}

// add adds a frame: as an export of the tensor in whose memory it lies, or as a copy.
func (out *outbox) add(i int, frame []byte, known owners) error {
	out.frames[i].size = C.uint64_t(len(frame))
	if len(frame) >= sendThreshold {
		if owner := known.of(frame); owner != nil {
			if out.owners == nil {
				out.owners = make([]*dlpack.Tensor, len(out.frames))
			}
			out.owners[i] = owner
			out.frames[i].at = C.uint64_t(address(frame))
			err := out.export(i)
			if !errors.Is(err, dlpack.ErrBorrowed) { // nobody may keep borrowed memory, so it is copied
				return err
			}
			out.owners[i] = nil
		}
	}
	out.frames[i].at = C.uint64_t(len(out.small))
	out.small = append(out.small, frame...)
	return nil
}

// export exports the owner of frame i, if it has one. libzmq releases the export.
func (out *outbox) export(i int) error {
	if out.owners == nil || out.owners[i] == nil {
		return nil
	}
	managed, err := out.owners[i].Export()
	if err != nil {
		return err
	}
	out.frames[i].owner = C.uintptr_t(uintptr(managed))
	return nil
}

// release releases the exports and memory that libzmq has not taken over.
func (out *outbox) release() {
	if out.progress.made != 0 {
		C.zeromq_unmake(out.progress.made, C.size_t(len(out.frames)))
	}
	for i := range out.frames {
		if out.frames[i].owner != 0 {
			dlpack.Release(pointer(out.frames[i].owner))
		}
	}
}
