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

// ErrClosed reports a closed socket, context or message.
var ErrClosed = errors.New("closed")

// ErrLimit reports a message that is larger than the [Limit] of its receiver.
var ErrLimit = errors.New("message exceeds the limit")

// A Message is a ZIO message with its tensors, as sockets send and receive it.
type Message struct {
	// Message has the level, the form, the label, the coordinates and the parts. The label and the parts of a received
	// message are valid until Close.
	tens.Message
	// Tensors are the tensors that the label describes. Encode sets them to its argument.
	Tensors []*dlpack.Tensor
	// Routing has the frames before the message: routing ids, and the empty frame after them. It is nil for most
	// sockets.
	Routing [][]byte
	// RoutingID is only used on a SERVER: the routing id of the CLIENT that has sent the message, or to which Send
	// sends it. It is never 0 for a CLIENT. On other sockets it is 0.
	RoutingID uint32

	owners []*dlpack.Tensor // the tensors that own the memory of Parts and packed
	own    bool             // Close closes Tensors
	closed bool
	packed []byte // the packed form, in the memory of the last owner
}

// Encode returns the message of [bridge.Encode]. Its parts alias the memory of the tensors, except parts that
// bridge.Encode copies.
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

// Pack makes Frames return the packed form of the message: one frame, with a copy of all parts. CLIENT and SERVER
// sockets send only this form. Pack copies the message in its present state; later changes of its fields have no
// effect, except changes of Routing and RoutingID. [Message.Close] releases the memory of the copy.
//
// Errors: those of [tens.Message.PackedSize]; [dlpack.ErrMemory]; [dlpack.ErrClosed] if a tensor passed to Encode is
// closed; and [ErrClosed] after Close.
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

// Frames returns the frames of the message: Routing, and then either prefix, header and parts, or the single frame of
// Pack. The frames are valid until Close, and as long as the tensors are open.
//
// Errors: those of [tens.Message.Validate]; without Pack, [dlpack.ErrClosed] if a tensor passed to Encode is closed;
// and [ErrClosed] after Close.
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

// requireOpen returns an error if the message or a copy of it was closed: the memory of its parts has been released.
func (m *Message) requireOpen() error {
	if m.closed || slices.ContainsFunc(m.owners, func(owner *dlpack.Tensor) bool { return owner.RequireOpen() != nil }) {
		return fmt.Errorf("zeromq: the message is %w", ErrClosed)
	}
	return nil
}

// requireTensors returns an error if a part lies in the memory of a closed tensor. The parts of a received message lie
// in the memory of its owners.
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

// Close closes the tensors of a received message, and releases the memory of its parts. To keep a tensor longer, share
// it before (see [dlpack.Tensor.Share]). Close does not close the tensors passed to Encode. A closed message has no
// parts and no label, and cannot be sent. A second Close does nothing.
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

// Writable makes tensors writable. It copies memory that others may see: memory from an inproc socket, because it may
// be the sender's memory, and memory of a message that libzmq shares among several receivers. [Decode] assumes that the
// frames belong only to the caller.
func Writable() Option { return func(r *receiving) { r.writable = true } }

// Aligned aligns the data of each tensor to [dlpack.AllocAlignment] bytes. It copies a tensor that is not aligned in
// its part. The copy has the flag [dlpack.IsCopied] (see [bridge.Align]).
func Aligned() Option {
	return func(r *receiving) { r.decode = append(r.decode, bridge.Align(dlpack.AllocAlignment)) }
}

// Join copies each tensor that lies in several parts to one tensor in new memory (see [bridge.Join]).
func Join() Option { return func(r *receiving) { r.decode = append(r.decode, bridge.Join()) } }

// Routed makes [Decode] and [Socket.Recv] treat the first frame as a routing id, whatever its content. Without it the
// first frame may already be the beginning of the message. In both cases the routing ends before the first frame that
// looks like a prefix, or before a last frame that is a message in the packed form. Recv of a ROUTER socket always
// works as with Routed.
func Routed() Option { return func(r *receiving) { r.router = true } }

// Limit refuses a message whose frames, plus 64 bytes for each frame, take more than n bytes. [Socket.Recv] drops the
// whole message, and never holds more of it than n bytes and one frame. The default is no limit, and a negative n is an
// error.
func Limit(n int64) Option {
	return func(r *receiving) {
		if r.limit = n; n < 0 {
			r.err = fmt.Errorf("zeromq: a limit of %d bytes is negative; leave out Limit to have no limit", n)
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

// frameOverhead is the number of bytes that [Limit] adds for each frame: the size of a zmq_msg_t.
const frameOverhead = 64

// Decode returns the message of frames in Go memory, in either form. Its tensors alias the frames.
//
// Ownership: the caller closes the message. Lifetime: the tensors and their exports keep the frames alive. Threads:
// any. On error: [ErrLimit], and those of [tens.Decode], [tens.DecodeFrames] and [bridge.Decode]; nothing is held then.
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

// message makes a message from frames. owners is nil, or has the owner of each frame, which is nil for a frame in Go
// memory. The message takes over the owners, even on an error.
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

// isPacked reports whether a frame begins like a message in the packed form.
func isPacked(frame []byte) bool {
	for inner, err := range tens.DecodeAllFrames(frame) {
		return err == nil && isPrefix(inner)
	}
	return false
}

// unpack returns the frames of the packed form, and for each frame the owner of the packed form. The owners are nil if
// the packed form lies in Go memory.
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

// tensors decodes a message with some parts that are not in Go memory.
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
