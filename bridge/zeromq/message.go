//go:build cgo

package zeromq

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// ErrClosed reports a socket, a context or a message that was closed.
var ErrClosed = errors.New("closed")

// ErrLimit reports a message that is larger than its receiver allows by [Limit].
var ErrLimit = errors.New("message exceeds the limit")

// A Message is a ZIO message with its tensors, as sockets send and receive it.
type Message struct {
	// Message has the level, the form, the label, the coordinates and the parts. The label and the parts of a message that was
	// received are valid until Close.
	tens.Message
	// Tensors are those that the label describes. Encode sets them to the tensors that it is given.
	Tensors []*dlpack.Tensor
	// Routing has the frames that come before the message: routing ids, and the empty frame behind them. It is nil for most sockets.
	Routing [][]byte
	// RoutingID is the routing id of the CLIENT that the message came from, on a SERVER, and of the one that Send of a SERVER sends it to.
	// It is never 0 for a CLIENT, and 0 on other sockets, which do not use it.
	RoutingID uint32

	owners []*dlpack.Tensor // own the memory of Parts and packed that belongs to the message
	own    bool             // Close closes Tensors
	closed bool
	packed []byte // the packed form, in the memory of the last owner
}

// Encode returns the message of [bridge.Encode]. Its parts alias the memory of the tensors, except those that bridge.Encode
// copies.
//
// Ownership: the tensors stay the caller's. Lifetime: they must stay open until the message has been sent. Threads: any. On error:
// those of bridge.Encode.
func Encode(ts []*dlpack.Tensor, options ...bridge.EncodeOption) (*Message, error) {
	msg, report, err := bridge.Encode(ts, options...)
	if err != nil {
		return nil, err
	}
	m := &Message{Message: *msg, Tensors: ts}
	if !slices.ContainsFunc(report.Copied, func(why string) bool { return why != "" }) {
		return m, nil
	}
	given := ownersOf(ts)
	for _, part := range m.Parts {
		if given.of(part) == nil && len(part) > 0 { // a compact copy
			owner, err := dlpack.FromSlice(part)
			if err != nil {
				m.Close()
				return nil, err
			}
			m.owners = append(m.owners, owner)
		}
	}
	return m, nil
}

// Pack makes Frames return the packed form of the message: one frame, which is a copy of all parts. CLIENT and SERVER sockets send no other
// form. It copies the message as it is now; later changes of its fields have no effect, except those of Routing and RoutingID.
// [Message.Close] gives back the memory of the copy.
//
// Errors: those of [tens.Message.PackedSize]; [dlpack.ErrMemory]; [dlpack.ErrClosed] if a tensor that Encode was given is closed; and
// [ErrClosed] after Close.
func (m *Message) Pack() error {
	if err := m.requireOpen(); err != nil {
		return err
	}
	if err := m.requireTensors(); err != nil {
		return err
	}
	size, err := m.PackedSize()
	if err != nil {
		return err
	}
	memory, err := dlpack.New(dlpack.Uint8, int64(size))
	if err != nil {
		return err
	}
	data, err := dlpack.Values[uint8](memory)
	if err == nil {
		data, err = m.AppendPacked(data[:0])
	}
	if err != nil {
		memory.Close()
		return err
	}
	m.owners, m.packed = append(m.owners, memory), data
	return nil
}

// Frames returns the frames of the message: Routing, and then either prefix, header and parts, or the single frame of Pack. They are
// valid until Close, and as long as the tensors are open.
//
// Errors: those of [tens.Message.Validate]; [dlpack.ErrClosed] if a tensor that Encode was given is closed, without Pack; and [ErrClosed]
// after Close.
func (m *Message) Frames() ([][]byte, error) {
	if err := m.requireOpen(); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.packed != nil {
		return append(slices.Clone(m.Routing), m.packed), nil
	}
	if err := m.requireTensors(); err != nil {
		return nil, err
	}
	if len(m.Routing) == 0 {
		return m.Encode(), nil
	}
	return append(slices.Clone(m.Routing), m.Encode()...), nil
}

// requireOpen returns an error if the message was closed, or another copy of it: its parts lie in memory that was given back.
func (m *Message) requireOpen() error {
	if m.closed || slices.ContainsFunc(m.owners, func(owner *dlpack.Tensor) bool { return owner.RequireOpen() != nil }) {
		return fmt.Errorf("zeromq: the message is %w", ErrClosed)
	}
	return nil
}

// requireTensors returns an error if a tensor is closed in whose memory a part lies. The parts of a message that was received lie in that
// of its owners.
func (m *Message) requireTensors() error {
	if m.own {
		return nil
	}
	for i, t := range m.Tensors {
		if t == nil {
			continue
		}
		if err := t.RequireOpen(); err != nil {
			return fmt.Errorf("zeromq: tensor %d: %w", i, err)
		}
	}
	return nil
}

// Close closes the tensors of a message that was received, and gives back the memory of its parts. Tensors that are needed
// longer must be shared before (see [dlpack.Tensor.Share]). Close does not close the tensors that Encode was given. A
// closed message has no parts and no label, and cannot be sent. A second Close does nothing.
func (m *Message) Close() {
	if m.own {
		for _, t := range m.Tensors {
			t.Close()
		}
		m.Tensors = nil
	}
	for _, owner := range m.owners {
		owner.Close()
	}
	m.Parts, m.Label, m.owners, m.packed, m.closed = nil, nil, nil, nil, true
}

// An Option changes how [Decode] and Socket.Recv make a message.
type Option func(*receiving)

type receiving struct {
	writable, router bool
	limit            int64  // -1: none
	peer             uint32 // the routing id of a CLIENT
	err              error  // of an option
	decode           []bridge.DecodeOption
}

// Writable makes tensors that are not read-only. Memory that others may see is copied: that of an inproc socket, which may
// be the sender's, and that of a message that libzmq shares among several receivers. [Decode] assumes that the frames
// belong to the caller alone.
func Writable() Option { return func(r *receiving) { r.writable = true } }

// Aligned makes tensors whose data is aligned to [dlpack.AllocAlignment] bytes. A tensor that is not aligned in its part is copied,
// and then has the flag [dlpack.IsCopied] (see [bridge.Align]).
func Aligned() Option {
	return func(r *receiving) { r.decode = append(r.decode, bridge.Align(dlpack.AllocAlignment)) }
}

// Join makes one tensor, in new memory, of each tensor that lies in several parts (see [bridge.Join]).
func Join() Option { return func(r *receiving) { r.decode = append(r.decode, bridge.Join()) } }

// Routed makes [Decode] and [Socket.Recv] take the first frame as a routing id, whatever it looks like. Without it the first frame
// may already be the beginning of the message. In both cases the frames before the first one that looks like a prefix are routing,
// or before the last one, if that is a message in the packed form. Recv of a ROUTER socket always works as with Routed.
func Routed() Option { return func(r *receiving) { r.router = true } }

// Limit refuses a message whose frames, with 64 bytes for each, take more than n bytes. [Socket.Recv] drops such a message whole, and
// holds no more than n bytes and one frame of it. The default is no limit, and a negative n is an error.
func Limit(n int64) Option {
	return func(r *receiving) {
		if r.limit = n; n < 0 {
			r.err = fmt.Errorf("zeromq: a limit of %d bytes is negative; without Limit there is none", n)
		}
	}
}

func receivingOf(options []Option) *receiving {
	r := &receiving{limit: -1}
	for _, o := range options {
		if o != nil { // a nil option changes nothing
			o(r)
		}
	}
	if r.writable {
		r.decode = append(r.decode, bridge.Writable())
	}
	return r
}

// frameOverhead is the number of bytes that [Limit] counts for a frame beside its own: the size of a zmq_msg_t.
const frameOverhead = 64

// Decode returns the message of frames in Go memory, in either form, with its tensors, which alias the frames.
//
// Ownership: the caller closes the message. Lifetime: the tensors, and everything exported from them, keep the frames alive.
// Threads: any. On error: [ErrLimit], and those of [tens.Decode], [tens.DecodeFrames] and [bridge.Decode]; nothing is held then.
func Decode(frames [][]byte, options ...Option) (*Message, error) {
	r := receivingOf(options)
	if r.err != nil {
		return nil, r.err
	}
	if r.limit >= 0 {
		left := r.limit
		for _, frame := range frames {
			if left -= int64(len(frame)) + frameOverhead; left < 0 {
				return nil, fmt.Errorf("zeromq: limit of %d bytes: %w", r.limit, ErrLimit)
			}
		}
	}
	return r.message(frames, nil)
}

// message makes a message of frames. owners is nil, or has the owner of each frame, nil for one in Go memory; the message takes them
// over, also on an error.
func (r *receiving) message(frames [][]byte, owners []*dlpack.Tensor) (m *Message, err error) {
	m = &Message{own: true, RoutingID: r.peer}
	for _, owner := range owners {
		if owner != nil {
			m.owners = append(m.owners, owner)
		}
	}
	defer func() {
		if err != nil {
			m.Close()
			m = nil
		}
	}()
	n := r.routing(frames)
	if n > 0 {
		m.Routing = make([][]byte, n)
		for i, frame := range frames[:n] {
			m.Routing[i] = slices.Clone(frame)
		}
		frames = frames[n:]
	}
	if owners != nil {
		owners = owners[n:]
	}
	if len(frames) == 1 {
		if frames, owners, err = unpack(frames[0], owners); err != nil {
			return m, err
		}
	}
	msg, err := tens.Decode(frames)
	if err != nil {
		return m, err
	}
	m.Message = *msg
	if !slices.ContainsFunc(owners, func(t *dlpack.Tensor) bool { return t != nil }) {
		m.Tensors, err = bridge.Decode(msg, r.decode...)
		return m, err
	}
	m.Tensors, err = r.tensors(msg, frames[2:], owners[2:])
	return m, err
}

// routing returns the number of frames before the message.
func (r *receiving) routing(frames [][]byte) int {
	first := 0
	if r.router {
		first = 1
	}
	for i := first; i < len(frames); i++ {
		if isPrefix(frames[i]) {
			return i
		}
	}
	if n := len(frames) - 1; n > 0 && isPacked(frames[n]) {
		return n // the packed form is the last frame
	}
	return min(first, len(frames))
}

func isPrefix(frame []byte) bool {
	_, _, _, err := tens.DecodePrefix(frame)
	return err == nil
}

// isPacked reports whether a frame begins as a message in the packed form does.
func isPacked(frame []byte) bool {
	for inner, err := range tens.DecodeAllFrames(frame) {
		return err == nil && isPrefix(inner)
	}
	return false
}

// unpack returns the frames in the packed form, and the owner of each, which is that of the packed form. The
// owners are nil if it lies in Go memory.
func unpack(frame []byte, owners []*dlpack.Tensor) ([][]byte, []*dlpack.Tensor, error) {
	frames, err := tens.DecodeFrames(frame)
	if err != nil || owners == nil || owners[0] == nil {
		return frames, nil, err
	}
	all := make([]*dlpack.Tensor, len(frames))
	for i := range all {
		all[i] = owners[0]
	}
	return frames, all, nil
}

// tensors decodes a message of which some parts are not in Go memory.
func (r *receiving) tensors(msg *tens.Message, frames [][]byte, owners []*dlpack.Tensor) ([]*dlpack.Tensor, error) {
	label, err := msg.DecodeLabel()
	if err != nil {
		return nil, err
	}
	parts := make([]*dlpack.Tensor, len(frames))
	defer func() {
		for _, part := range parts {
			part.Close()
		}
	}()
	for i, frame := range frames {
		what := dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{int64(len(frame))}, ReadOnly: !r.writable}
		if owners[i] == nil {
			parts[i], err = dlpack.FromBytes(frame, what)
		} else {
			what.ByteOffset = offset(frame, owners[i])
			parts[i], err = owners[i].View(what)
		}
		if err != nil {
			return nil, fmt.Errorf("zeromq: part %d: %w", i, err)
		}
	}
	return bridge.DecodeParts(label, parts, r.decode...)
}
