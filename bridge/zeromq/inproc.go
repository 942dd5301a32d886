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

// inprocs has the inproc endpoints of a context. A socket may connect to an endpoint before another socket binds to it.
// Connections that wait for a Bind can make libzmq abort the process. This type prevents two cases:
//
//   - At the end of a context libzmq makes a socket for each waiting connection, and aborts if it has no socket
//     left. Therefore the first connection makes a socket for all of them, and end binds it.
//   - libzmq writes to a connection from a ROUTER or REP when it is bound, and aborts if the connection is ending.
//     It ends if its socket has disconnected it before, or if a PAIR, which accepts only one connection, refuses it.
//
// The mutex of the context guards it.
type inprocs struct {
	bound   map[string]*Socket
	waiting map[string]map[*Socket]bool // endpoints with connections that may wait, and the open ROUTER and REP that have made them
	last    unsafe.Pointer              // the socket for the connections that still wait at the end
}

// inproc reports whether an endpoint is an inproc endpoint.
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
			return fmt.Errorf("no socket is bound to the endpoint yet, so the connection needs one more socket; use MaxSockets to allow more: %w", err)
		}
		c.inprocs.last = last
	case verb == "bind" && s.kind == Pair && len(waiting) > 0:
		return fmt.Errorf("a ROUTER or REP has connected to the endpoint, but a PAIR accepts neither: %w", Errno(syscall.EINVAL))
	case verb != "bind" && verb != "connect" && waiting[s]:
		return fmt.Errorf("no socket is bound to the endpoint yet; use Close to end the connection: %w", Errno(syscall.EINVAL))
	}
	return nil
}

// after records the effect of a call of libzmq.
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

// forget removes a socket before it is closed. libzmq keeps its waiting connections.
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
		for { // fails for an endpoint that is already bound; no connection waits for it
			if rc, err := C.zmq_bind(c.inprocs.last, name); rc == 0 || err != syscall.EINTR {
				break
			}
		}
		C.free(unsafe.Pointer(name))
	}
	C.zmq_close(c.inprocs.last)
}
