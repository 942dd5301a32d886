//go:build cgo

package zeromq

/*
#include "libzmq.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"maps"
	"strings"
	"syscall"
	"unsafe"
)

// inprocs are the endpoints of inproc in a context. A socket may connect to an endpoint before another one binds to it. libzmq aborts the
// process over connections that wait for a Bind, which this type prevents:
//
//   - At the end of a context libzmq makes a socket for each of them, and aborts if it has no socket left. Therefore a socket for all of
//     them is made with the first one, and end binds it.
//   - libzmq writes to a connection from a ROUTER or REP when it is bound, and aborts if it is ending: because the socket has
//     disconnected it before, or because a PAIR refuses it, which takes one connection.
//
// The mutex of the context guards it.
type inprocs struct {
	bound   map[string]*Socket
	waiting map[string]map[*Socket]bool // endpoints for which connections may wait, with the open ROUTER and REP that have made them
	last    unsafe.Pointer              // the socket for the connections that still wait at the end
}

// inproc reports whether an endpoint is one of inproc.
func inproc(endpoint string) bool { return strings.HasPrefix(endpoint, "inproc://") }

// before returns an error if libzmq must not be called.
func (c *Context) before(s *Socket, verb, endpoint string) error {
	waiting := c.inprocs.waiting[endpoint]
	switch {
	case c.ptr == nil:
		return fmt.Errorf("the context is %w", ErrClosed)
	case verb == "connect" && c.inprocs.bound[endpoint] == nil && c.inprocs.last == nil:
		last, err := C.zmq_socket(c.ptr, C.ZMQ_PULL)
		if last == nil {
			return fmt.Errorf("nothing is bound to it yet, which takes one more socket; MaxSockets allows more: %w", err)
		}
		c.inprocs.last = last
	case verb == "bind" && s.kind == Pair && len(waiting) > 0:
		return fmt.Errorf("a ROUTER or REP has connected to it, which a PAIR cannot take: %w", Errno(syscall.EINVAL))
	case verb != "bind" && verb != "connect" && waiting[s]:
		return fmt.Errorf("nothing is bound to it yet; Close ends the connection: %w", Errno(syscall.EINVAL))
	}
	return nil
}

// after remembers what libzmq has done.
func (c *Context) after(s *Socket, verb, endpoint string) {
	switch bound := c.inprocs.bound[endpoint]; {
	case verb == "bind":
		c.inprocs.bound[endpoint] = s
		delete(c.inprocs.waiting, endpoint)
	case verb == "connect" && bound == nil:
		if c.inprocs.waiting[endpoint] == nil {
			c.inprocs.waiting[endpoint] = map[*Socket]bool{}
		}
		if s.kind == Router || s.kind == Rep {
			c.inprocs.waiting[endpoint][s] = true
		}
	case verb != "connect" && bound == s:
		delete(c.inprocs.bound, endpoint)
	}
}

// forget forgets a socket, before it is closed. libzmq keeps its connections that wait.
func (c *Context) forget(s *Socket) {
	maps.DeleteFunc(c.inprocs.bound, func(_ string, bound *Socket) bool { return bound == s })
	for _, sockets := range c.inprocs.waiting {
		delete(sockets, s)
	}
}

// end ends the connections that wait for a Bind. The context is closed afterwards.
func (c *Context) end() {
	if c.inprocs.last == nil {
		return
	}
	for endpoint := range c.inprocs.waiting {
		name := C.CString(endpoint)
		for { // fails for an endpoint to which a socket is bound, so that no connection waits for it
			if rc, err := C.zmq_bind(c.inprocs.last, name); rc == 0 || err != syscall.EINTR {
				break
			}
		}
		C.free(unsafe.Pointer(name))
	}
	C.zmq_close(c.inprocs.last)
}
