//go:build cgo

package zeromq

/*
#include "libzmq.h"
#include <stdlib.h>
*/
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"unsafe"
)

// An Errno is an error of libzmq. [errors.Is] compares it with a [syscall.Errno], such as syscall.EADDRINUSE.
type Errno int

// Error returns libzmq's text for the error or, before libzmq is loaded, the system's text.
func (e Errno) Error() string {
	if !loaded.ready.Load() {
		return syscall.Errno(e).Error()
	}
	return C.GoString(C.zmq_strerror(C.int(e)))
}

// Is reports whether target is the [syscall.Errno] with the same number.
func (e Errno) Is(target error) bool {
	errno, ok := target.(syscall.Errno)
	return ok && errno == syscall.Errno(e)
}

// failed returns an error of libzmq. what names the operation; errno is an Errno, or the error that cgo has returned.
func failed(what string, errno error) error {
	if number, ok := errno.(syscall.Errno); ok {
		errno = Errno(number)
	}
	return fmt.Errorf("zeromq: %s: %w", what, errno)
}

// inTurn returns an error of libzmq as failed does, and explains EFSM.
func inTurn(what string, errno Errno) error {
	if errno == C.EFSM {
		return fmt.Errorf("zeromq: %s: REQ and REP send and receive in turns: %w", what, errno)
	}
	return failed(what, errno)
}

// number returns a number as a C int, or an error with EINVAL if it does not fit.
func number(n int64) (C.int, error) {
	if n != int64(C.int(n)) {
		return 0, fmt.Errorf("%d is not between -2^31 and 2^31 - 1: %w", n, Errno(syscall.EINVAL))
	}
	return C.int(n), nil
}

// Version returns the version of libzmq, such as "4.3.5". It loads libzmq if it is not loaded yet. Errors: [ErrLibrary].
func Version() (string, error) {
	if err := Load(""); err != nil {
		return "", err
	}
	var major, minor, patch C.int
	C.zmq_version(&major, &minor, &patch)
	return fmt.Sprintf("%d.%d.%d", major, minor, patch), nil
}

// A Context has the I/O threads of its sockets. Sockets can connect over inproc only within one context. A program usually
// has one.
type Context struct {
	mu      sync.Mutex
	ptr     unsafe.Pointer // nil after Close
	sockets map[*Socket]struct{}
	inprocs inprocs
}

// A ContextOption is a setting of a context.
type ContextOption struct {
	label string // for errors
	name  C.int
	value int
	most  int // larger numbers would make libzmq end the process
}

// Threads sets the number of I/O threads, at most 256; the default is 1. libzmq recommends one thread for each gigabyte
// per second. Each thread takes two descriptors.
func Threads(n int) ContextOption { return ContextOption{"Threads", C.ZMQ_IO_THREADS, n, 256} }

// MaxSockets sets how many sockets the context may have, at most 1048576; the default is 1023. The first Connect over
// inproc to an endpoint that is not bound yet takes one of them.
func MaxSockets(n int) ContextOption {
	return ContextOption{"MaxSockets", C.ZMQ_MAX_SOCKETS, n, 1 << 20}
}

// set changes the setting of a context of libzmq.
func (o ContextOption) set(ptr unsafe.Pointer) error {
	if o.value > o.most {
		return fmt.Errorf("%d is more than %d: %w", o.value, o.most, Errno(syscall.EINVAL))
	}
	value, err := number(int64(o.value))
	if err != nil {
		return err
	}
	if rc, err := C.zmq_ctx_set(ptr, o.name, value); rc != 0 {
		return err
	}
	return nil
}

// NewContext makes a context, which the caller closes. It seeds C's function rand, because libzmq takes the routing ids
// of peers that choose no id from this function (see the package documentation). Errors: [ErrLibrary] if libzmq cannot
// be loaded (see [Load]); [Errno].
func NewContext(options ...ContextOption) (*Context, error) {
	if err := Load(""); err != nil {
		return nil, err
	}
	var seed [4]byte
	rand.Read(seed[:]) // never fails
	C.srand(C.uint(binary.NativeEndian.Uint32(seed[:])))
	ptr, err := C.zmq_ctx_new()
	if ptr == nil {
		return nil, failed("context", err)
	}
	for _, o := range options {
		if err := o.set(ptr); err != nil {
			C.zmq_ctx_term(ptr)
			return nil, failed("context: set "+o.label, err)
		}
	}
	return &Context{ptr: ptr, sockets: map[*Socket]struct{}{},
		inprocs: inprocs{bound: map[string]*Socket{}, waiting: map[string]map[*Socket]bool{}}}, nil
}

// Close closes all sockets of the context, and waits until their messages have been sent or the time of [Linger] has
// passed. By default there is no time limit. A second Close does nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	ptr := c.ptr
	c.ptr = nil
	sockets := slices.Collect(maps.Keys(c.sockets))
	if ptr != nil {
		c.end()
	}
	c.mu.Unlock()
	if ptr == nil {
		return nil
	}
	for _, s := range sockets {
		s.Close()
	}
	for {
		rc, err := C.zmq_ctx_term(ptr)
		if rc == 0 {
			return nil
		}
		if err != syscall.EINTR {
			return failed("close the context", err)
		}
	}
}
