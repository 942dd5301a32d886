//go:build cgo

package zeromq

/*
#include "libzmq.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A Type is a type of socket.
type Type int

// The types of sockets. PUSH sends each message to one PULL; PUB sends each message to all SUB that subscribe to it;
// REQ and REP send and receive in turn; ROUTER and DEALER are like REP and REQ, but may send and receive in any order;
// PAIR has one peer. Send and Recv of a REQ or REP return an error if they are called out of order.
//
// CLIENT and SERVER belong to the draft API of libzmq. If libzmq was built without it, [Context.NewSocket] returns
// [ErrDrafts]. A SERVER has many CLIENTs, and distinguishes them by [Message.RoutingID]. Their messages have a single
// frame: see [Message.Pack].
const (
	Pair   Type = C.ZMQ_PAIR
	Pub    Type = C.ZMQ_PUB
	Sub    Type = C.ZMQ_SUB
	Req    Type = C.ZMQ_REQ
	Rep    Type = C.ZMQ_REP
	Dealer Type = C.ZMQ_DEALER
	Router Type = C.ZMQ_ROUTER
	Pull   Type = C.ZMQ_PULL
	Push   Type = C.ZMQ_PUSH
	Server Type = C.ZMQ_SERVER
	Client Type = C.ZMQ_CLIENT
)

// singleFrame reports whether the messages of the socket have a single frame. These sockets also have no own
// descriptor.
func (s *Socket) singleFrame() bool { return s.kind == Client || s.kind == Server }

// A Socket sends and receives messages. Its methods may be called from any goroutine, and at the same time: one
// goroutine may wait for a message while another sends.
type Socket struct {
	context *Context
	kind    Type

	sending chan struct{} // has a value while a message is sent

	mu       sync.Mutex     // guards the fields below, and each call of libzmq with ptr
	ptr      unsafe.Pointer // nil after Close
	inproc   bool           // received memory may be the sender's
	attached bool           // after Bind or Connect
	inbox    C.zeromq_inbox
	early    bool  // the inbox has a message from receiveEarly, for the next call that receives
	cut      C.int // not 0 if the last request of a REQ did not reach its peer (see zeromq_send)
	refused  bool  // a REP owes an answer to a request that Recv has refused
	sends    bool  // after the first Send
	looking  bool  // looks has the socket
	waits    waiters
	poller   unsafe.Pointer // has the descriptor of a CLIENT or SERVER, nil before it is needed
}

// A SocketOption is a setting of a socket.
type SocketOption struct {
	label string // for errors
	name  C.int
	value int64
	text  []byte // instead of value, if it is not nil
}

// SendHighWater sets how many messages may wait for each peer; 0 is no limit. At this number [Socket.Send] waits, but PUB, and ROUTER
// without [Mandatory], drop messages. The default is 1000. The payloads of waiting messages stay in memory.
func SendHighWater(messages int) SocketOption {
	return SocketOption{label: "SendHighWater", name: C.ZMQ_SNDHWM, value: int64(messages)}
}

// ReceiveHighWater sets how many messages of each peer may wait to be received; 0 is no limit. The default is 1000.
func ReceiveHighWater(messages int) SocketOption {
	return SocketOption{label: "ReceiveHighWater", name: C.ZMQ_RCVHWM, value: int64(messages)}
}

// Linger sets how long [Context.Close] waits until the messages of a closed socket have been sent, in whole
// milliseconds. By default, and if d is negative, there is no time limit. If d is 0 or less than a millisecond, the
// messages are dropped. The longest time is 2^31 - 1 milliseconds, 24 days. The package documentation names a fault of
// libzmq when messages are dropped.
func Linger(d time.Duration) SocketOption {
	value := int64(-1)
	if d >= 0 {
		value = d.Milliseconds()
	}
	return SocketOption{label: "Linger", name: C.ZMQ_LINGER, value: value}
}

// MaxFrame disconnects a peer that sends a frame of more than n bytes, before memory is allocated for it. The default is no limit, and a
// negative n is an error.
func MaxFrame(n int64) SocketOption {
	return SocketOption{label: "MaxFrame", name: C.ZMQ_MAXMSGSIZE, value: n}
}

// RoutingID sets the id of the socket for its ROUTER peers: 1 to 255 bytes; the first byte must not be 0.
func RoutingID(id []byte) SocketOption {
	return SocketOption{label: "RoutingID", name: C.ZMQ_ROUTING_ID, text: append([]byte{}, id...)}
}

// Mandatory makes [Socket.Send] of a ROUTER return an error for a message to an unknown peer, and wait for a peer whose
// high-water mark is reached. Without Mandatory both messages are dropped, and Send returns nil.
func Mandatory() SocketOption {
	return SocketOption{label: "Mandatory", name: C.ZMQ_ROUTER_MANDATORY, value: 1}
}

// maxPrefix is the largest size in bytes of a subscription. libzmq recurses through a subscription byte by byte, and a
// long one overflows the stack.
const maxPrefix = 1024

// Subscribe makes a SUB socket receive the messages whose first frame begins with prefix, which has at most 1024 bytes.
// The empty prefix selects all messages, and "ZIO0TENS" all TENS messages of level 0.
func Subscribe(prefix string) SocketOption {
	return SocketOption{label: "Subscribe", name: C.ZMQ_SUBSCRIBE, text: append([]byte{}, prefix...)}
}

// Unsubscribe cancels one [Subscribe] of the same prefix.
func Unsubscribe(prefix string) SocketOption {
	return SocketOption{label: "Unsubscribe", name: C.ZMQ_UNSUBSCRIBE, text: append([]byte{}, prefix...)}
}

// NewSocket makes a socket. Close of the socket or of the context closes it. Errors: [ErrClosed]; [ErrDrafts]; [Errno].
func (c *Context) NewSocket(kind Type, options ...SocketOption) (*Socket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return nil, fmt.Errorf("zeromq: the context is %w", ErrClosed)
	}
	number, err := number(int64(kind))
	if err != nil {
		return nil, failed("socket", err)
	}
	if err := requireDrafts(kind); err != nil {
		return nil, err
	}
	ptr, err := C.zmq_socket(c.ptr, number)
	if ptr == nil {
		return nil, failed("socket", err)
	}
	s := &Socket{context: c, kind: kind, ptr: ptr, sending: make(chan struct{}, 1)}
	if err := s.Set(options...); err != nil {
		C.zmq_close(ptr)
		return nil, err
	}
	c.sockets[s] = struct{}{}
	return s, nil
}

// Set changes settings of the socket. Settings of its connections, such as MaxFrame and RoutingID, must be set before
// Bind or Connect, preferably in [Context.NewSocket]; subscriptions may change at any time. After Bind or Connect, Set
// returns an error for [SendHighWater] and [ReceiveHighWater], because libzmq would write to memory of peers that may
// have disconnected. If a setting fails, the settings before it are changed.
//
// Errors: [ErrClosed]; [Errno].
func (s *Socket) Set(options ...SocketOption) error {
	for _, o := range options {
		if err := s.call("set "+o.label, func() (C.int, error) { return s.set(o) }); err != nil {
			return err
		}
	}
	return nil
}

// set changes one setting. The caller holds s.mu.
func (s *Socket) set(o SocketOption) (rc C.int, err error) {
	switch {
	case (o.name == C.ZMQ_SUBSCRIBE || o.name == C.ZMQ_UNSUBSCRIBE) && len(o.text) > maxPrefix:
		return -1, fmt.Errorf("a prefix of %d bytes is too long; the maximum is %d bytes: %w", len(o.text), maxPrefix, Errno(syscall.EINVAL))
	case o.text != nil:
		rc, err = C.zmq_setsockopt(s.ptr, o.name, unsafe.Pointer(unsafe.SliceData(o.text)), C.size_t(len(o.text)))
	case (o.name == C.ZMQ_SNDHWM || o.name == C.ZMQ_RCVHWM) && s.attached:
		return -1, fmt.Errorf("the socket is bound or connected; give the option to NewSocket: %w", Errno(syscall.EINVAL))
	case o.name == C.ZMQ_ROUTER_MANDATORY && s.kind != Router: // libzmq would accept it for REP, and abort when a client is full
		return -1, Errno(syscall.EINVAL)
	case o.name == C.ZMQ_MAXMSGSIZE:
		if o.value < 0 { // means no limit to libzmq
			return -1, fmt.Errorf("%d is negative: %w", o.value, Errno(syscall.EINVAL))
		}
		value := C.int64_t(o.value)
		rc, err = C.zmq_setsockopt(s.ptr, o.name, unsafe.Pointer(&value), C.sizeof_int64_t)
	default:
		value, err := number(o.value)
		if err != nil {
			return -1, err
		}
		rc, err := C.zmq_setsockopt(s.ptr, o.name, unsafe.Pointer(&value), C.sizeof_int)
		return rc, err
	}
	return rc, err
}

// Bind accepts connections on an endpoint, and returns its address. libzmq replaces wildcards: for "tcp://127.0.0.1:*"
// the address is "tcp://127.0.0.1:" and a free port. A port is a number up to 65535; "*" or 0 stands for a free port. A
// PAIR cannot bind to an inproc endpoint to which a ROUTER or REP has connected.
func (s *Socket) Bind(endpoint string) (string, error) {
	return s.endpoint("bind", endpoint)
}

// Connect connects the socket to an endpoint, to which a peer may bind later. A port is a number from 1 to 65535.
func (s *Socket) Connect(endpoint string) error {
	_, err := s.endpoint("connect", endpoint)
	return err
}

// Unbind ends Bind. endpoint is the address that Bind has returned.
func (s *Socket) Unbind(endpoint string) error {
	_, err := s.endpoint("unbind", endpoint)
	return err
}

// Disconnect ends the connection that [Socket.Connect] made to the same endpoint. libzmq drops the messages of the
// connection that were not received, except one: [Poll] may have reported it, and the next call receives it. A ROUTER
// or REP cannot disconnect from an inproc endpoint before a socket binds to it, but it can be closed.
func (s *Socket) Disconnect(endpoint string) error {
	_, err := s.endpoint("disconnect", endpoint)
	return err
}

// endpoint returns the address of a Bind.
func (s *Socket) endpoint(verb, endpoint string) (address string, err error) {
	if strings.Contains(endpoint, "\x00") { // ends a C string
		return "", failed(fmt.Sprintf("%s %q", verb, endpoint), Errno(syscall.EINVAL))
	}
	if verb == "bind" || verb == "connect" {
		if err := checkPorts(endpoint); err != nil {
			return "", failed(verb+" "+endpoint, err)
		}
	}
	name := C.CString(endpoint)
	defer C.free(unsafe.Pointer(name))
	err = s.call(verb+" "+endpoint, func() (rc C.int, err error) {
		if c := s.context; inproc(endpoint) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := c.before(s, verb, endpoint); err != nil {
				return -1, err
			}
			defer func() {
				if rc == 0 {
					c.after(s, verb, endpoint)
				}
			}()
		}
		switch verb {
		case "bind":
			if rc, err = C.zmq_bind(s.ptr, name); rc == 0 { // another Bind would change the last endpoint
				if address, err = s.lastEndpoint(len(endpoint)); err != nil {
					rc = -1
				}
			}
		case "connect":
			rc, err = C.zmq_connect(s.ptr, name)
		case "unbind":
			s.receiveEarly()
			rc, err = C.zmq_unbind(s.ptr, name)
		case "disconnect":
			s.receiveEarly()
			rc, err = C.zmq_disconnect(s.ptr, name)
		}
		s.inproc = s.inproc || inproc(endpoint)
		s.attached = s.attached || rc == 0
		return rc, err
	})
	return address, err
}

// checkPorts returns an error if an endpoint names a port that does not exist. libzmq would use another port instead,
// such as 4464 for 70000.
func checkPorts(endpoint string) error {
	transport, address, _ := strings.Cut(endpoint, "://")
	switch transport {
	case "tcp":
	case "ws", "wss":
		address, _, _ = strings.Cut(address, "/")
	default:
		return nil
	}
	for address := range strings.SplitSeq(address, ";") { // before the semicolon is the address to connect from
		colon := strings.LastIndexByte(address, ':')
		port := address[colon+1:]
		if _, err := strconv.ParseUint(port, 10, 16); colon >= 0 && port != "*" && err != nil {
			return fmt.Errorf("port %q is not a number up to 65535, nor \"*\" for a free port: %w", port, Errno(syscall.EINVAL))
		}
	}
	return nil
}

// lastEndpoint returns the address of the last Bind. size is the length of the endpoint; wildcards in it become longer.
// The caller holds s.mu.
func (s *Socket) lastEndpoint(size int) (string, error) {
	text := make([]byte, size+1024)
	n := C.size_t(len(text))
	if rc, err := C.zmq_getsockopt(s.ptr, C.ZMQ_LAST_ENDPOINT, unsafe.Pointer(&text[0]), &n); rc != 0 {
		return "", err
	}
	return strings.TrimRight(string(text[:n]), "\x00"), nil
}

// receiveEarly receives a message before a connection ends, for the next call that receives. When SUB, ROUTER and REP
// are asked whether there is a message, they fetch its first frame. If the connection then ended, the other frames
// would be lost. libzmq would use the frames of another peer instead, or abort the process. As long as there is an
// early message, libzmq is not asked and fetches no other. The caller holds s.mu.
func (s *Socket) receiveEarly() {
	if s.early || s.kind != Sub && s.kind != Router && s.kind != Rep {
		return
	}
	switch C.zeromq_receive(s.ptr, &s.inbox, receiveThreshold, 0, -1) {
	case 0:
		s.early = true
	case C.ENOMEM:
		s.refuse()
	}
}

// call runs a function of libzmq that does not wait, on the open socket. After EINTR it runs the function again,
// because Go's signals interrupt calls of libzmq; an interrupted call has changed nothing.
func (s *Socket) call(what string, f func() (C.int, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return fmt.Errorf("zeromq: %s: the socket is %w", what, ErrClosed)
	}
	rc, err := f()
	for rc != 0 && err == syscall.EINTR {
		rc, err = f()
	}
	if s.otherWaits(nil) {
		s.wake(nil)
	}
	s.lookSoon()
	if rc != 0 {
		return failed(what, err)
	}
	return nil
}

// Close closes the socket; waiting calls return [ErrClosed]. It does not wait: libzmq continues to send the remaining
// messages for the time of [Linger]. A second Close does nothing.
func (s *Socket) Close() error {
	s.mu.Lock()
	ptr, file := s.ptr, s.waits.file
	s.ptr = nil
	if ptr != nil {
		s.context.mu.Lock()
		s.context.forget(s)
		delete(s.context.sockets, s)
		if s.poller != nil {
			C.zmq_poller_destroy(&s.poller)
		}
		C.zmq_close(ptr) // under the mutex: a PAIR must not bind to an endpoint of this socket before the socket is closed
		s.context.mu.Unlock()
		if s.early {
			C.zeromq_clear(&s.inbox)
		}
		C.zeromq_trim(&s.inbox, 0)
	}
	s.wake(nil)
	s.mu.Unlock()
	if ptr == nil {
		return nil
	}
	if file != nil {
		file.Close()
	}
	return nil
}

// watched returns a file for a duplicate of the descriptor on which libzmq signals changes of the socket. The caller holds
// s.mu.
func (s *Socket) watched() (*os.File, error) {
	var fd C.int
	if s.singleFrame() {
		if code := C.zeromq_draft_fd(s.ptr, &s.poller, &fd); code != 0 {
			return nil, failed("wait", Errno(code))
		}
		return duplicate(int(fd))
	}
	size := C.size_t(C.sizeof_int)
	if rc, err := C.zmq_getsockopt(s.ptr, C.ZMQ_FD, unsafe.Pointer(&fd), &size); rc != 0 {
		return nil, failed("wait", err)
	}
	return duplicate(int(fd))
}
