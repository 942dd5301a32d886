//go:build linux && cgo

package shm

/*
#include "message.h"
*/
import "C"

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A Handle says where another process fetches the segment of a tensor. It can be written as text, such as JSON, and travel by any
// transport on the same machine. It works once.
type Handle struct {
	Socket string `json:"socket"` // the name of an abstract Unix socket, without the leading NUL
	Token  string `json:"token"`  // 32 hexadecimal digits
	Offset uint64 `json:"offset"` // of the tensor in the segment, in bytes: of element (0, ..., 0), or as [Packing] says
	Size   uint64 `json:"size"`   // of the segment, in bytes

	ReadOnly bool `json:"readonly"` // the offer was not Writable
}

const (
	socketPrefix = "dlbridge-shm-"
	tokenSize    = 16
	answerTime   = time.Second // in which a process that has connected must name its token
)

// ErrNotOffered reports a handle that nobody answers: it was used before, or its time is over, or the process that made it has ended.
var ErrNotOffered = errors.New("not offered")

// An offer is a descriptor that waits to be fetched.
type offer struct {
	file  int
	timer *time.Timer
}

// offers are those of this process, and the socket that gives them out.
var offers struct {
	mu       sync.Mutex
	listener *net.UnixListener
	waiting  map[[tokenSize]byte]offer
}

// Offer lets one other process of the same user fetch the segment of a tensor, until timeout is over. Without [Writable] it
// forbids further writable mappings of the segment, as [Send] does. The data type, the shape and the strides of the tensor
// travel by other means, such as the label of a message.
//
// Ownership: t stays the caller's, who may close it: the offer holds the segment until it was fetched or its time is over. Errors: those of
// [Send].
func Offer(t *dlpack.Tensor, timeout time.Duration, options ...SendOption) (Handle, error) {
	var s sending
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	h, err := s.offer(t, timeout)
	if err != nil {
		return Handle{}, fmt.Errorf("shm: offer: %w", err)
	}
	return h, nil
}

func (s sending) offer(t *dlpack.Tensor, timeout time.Duration) (Handle, error) {
	p, err := find(t, s.writable)
	if err != nil {
		return Handle{}, err
	}
	keep := false
	defer func() {
		if !keep {
			syscall.Close(int(p.file))
		}
	}()
	if !s.writable {
		if code := C.segment_seal(p.file); code != 0 {
			return Handle{}, fmt.Errorf("the segment cannot be made read-only: %w", syscall.Errno(code))
		}
	}
	var status syscall.Stat_t
	if err := syscall.Fstat(int(p.file), &status); err != nil {
		return Handle{}, os.NewSyscallError("fstat", err)
	}
	var token [tokenSize]byte
	rand.Read(token[:])
	offers.mu.Lock()
	defer offers.mu.Unlock()
	if err := listen(); err != nil {
		return Handle{}, err
	}
	keep = true
	offers.waiting[token] = offer{int(p.file), time.AfterFunc(timeout, func() {
		if file, ok := withdraw(token); ok {
			syscall.Close(file)
		}
	})}
	name := strings.TrimPrefix(offers.listener.Addr().String(), "@")
	return Handle{name, hex.EncodeToString(token[:]), uint64(p.offset), uint64(status.Size), !s.writable}, nil
}

// Offered returns the number of offers of this process that were not fetched and whose time is not over.
func Offered() int {
	offers.mu.Lock()
	defer offers.mu.Unlock()
	return len(offers.waiting)
}

// withdraw ends an offer, and returns its descriptor, which the caller closes. ok is false if there is no such offer.
func withdraw(token [tokenSize]byte) (file int, ok bool) {
	offers.mu.Lock()
	defer offers.mu.Unlock()
	o, ok := offers.waiting[token]
	if ok {
		o.timer.Stop()
		delete(offers.waiting, token)
	}
	return o.file, ok
}

// listen opens the socket, once in the life of a process. The caller holds offers.mu.
func listen() error {
	if offers.listener != nil {
		return nil
	}
	var name [tokenSize]byte
	rand.Read(name[:])
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + socketPrefix + hex.EncodeToString(name[:]), Net: "unix"})
	if err != nil {
		return err
	}
	offers.listener, offers.waiting = listener, map[[tokenSize]byte]offer{}
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				time.Sleep(10 * time.Millisecond) // the process has no descriptor left; try again later
				continue
			}
			go give(conn)
		}
	}()
	return nil
}

// give answers one process: with the descriptor whose token it names, or by closing the connection.
func give(conn *net.UnixConn) {
	defer conn.Close()
	if !ofThisUser(conn) {
		return
	}
	conn.SetDeadline(time.Now().Add(answerTime))
	var token [tokenSize]byte
	if _, err := io.ReadFull(conn, token[:]); err != nil {
		return
	}
	if file, ok := withdraw(token); ok {
		conn.WriteMsgUnix([]byte{1}, syscall.UnixRights(file), nil)
		syscall.Close(file)
	}
}

// ofThisUser reports whether the process at the other end has the user id of this process: the names of abstract sockets
// have no owners.
func ofThisUser(conn *net.UnixConn) (same bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		same = err == nil && int(peer.Uid) == os.Geteuid()
	})
	return same
}

// Fetch returns a tensor in the segment of a handle that another process, or this one, has made by [Offer]. spec describes
// the tensor, except its offset, which is that of the handle. The tensor is read-only if spec.ReadOnly is true, or the
// offer was not [Writable].
//
// Ownership: the tensor is the caller's. Errors: that of ctx; [ErrNotOffered]; those of [Recv].
func Fetch(ctx context.Context, h Handle, spec dlpack.Spec, options ...RecvOption) (*dlpack.Tensor, error) {
	var r receiving
	for _, option := range options {
		if option != nil {
			option(&r)
		}
	}
	t, err := r.fetch(ctx, h, spec)
	if err != nil {
		return nil, fmt.Errorf("shm: fetch: %w", err)
	}
	return t, nil
}

func (r receiving) fetch(ctx context.Context, h Handle, spec dlpack.Spec) (*dlpack.Tensor, error) {
	token, err := hex.DecodeString(h.Token)
	if err != nil || len(token) != tokenSize {
		return nil, fmt.Errorf("handle: the token %q is not of 32 hexadecimal digits: %w", h.Token, dlpack.ErrValue)
	}
	if rest, ok := strings.CutPrefix(h.Socket, socketPrefix); !ok || len(rest) != 2*tokenSize || strings.Trim(rest, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("handle: the socket %q is not one of Offer: %w", h.Socket, dlpack.ErrValue)
	}
	if err := checkSpec(&spec); err != nil {
		return nil, err
	}
	file, err := take(ctx, h.Socket, token)
	if err != nil {
		return nil, err
	}
	spec.ReadOnly = spec.ReadOnly || h.ReadOnly
	return openFile(file, h.Offset, &spec, r.copied, false)
}

// take fetches the descriptor that was offered with a token. The caller closes it.
func take(ctx context.Context, socket string, token []byte) (file int, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", "@"+socket)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return 0, fmt.Errorf("handle: its process has ended: the segment is %w", ErrNotOffered)
	}
	if err != nil {
		return 0, err
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	if !ofThisUser(conn) {
		return 0, fmt.Errorf("handle: its socket is that of another user: %w", syscall.EPERM)
	}
	defer watch(ctx, conn.SetDeadline)()
	if _, err := conn.Write(token); err != nil && !errors.Is(err, syscall.EPIPE) {
		return 0, cause(ctx, err)
	}
	one, control := make([]byte, 1), make([]byte, syscall.CmsgSpace(4*C.SEGMENT_FILES))
	_, size, _, _, err := conn.ReadMsgUnix(one, control)
	files, parseErr := descriptors(control[:size])
	if len(files) == 1 && err == nil && parseErr == nil {
		return files[0], nil
	}
	closeAll(files)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return 0, fmt.Errorf("handle: it was used before, or its time is over: the segment is %w", ErrNotOffered)
	}
	return 0, cause(ctx, err)
}
