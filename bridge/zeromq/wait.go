//go:build cgo

package zeromq

/*
#include "libzmq.h"
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// The events for which a call waits: a message has arrived, or there is room for sending a message.
const pollIn, pollOut C.int = C.ZMQ_POLLIN, C.ZMQ_POLLOUT

// A waiter is a call that waits for a socket.
type waiter struct {
	event  C.int         // pollIn or pollOut
	signal chan struct{} // with room for one signal
}

func newWaiter(event C.int) *waiter { return &waiter{event, make(chan struct{}, 1)} }

func (w *waiter) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // already signalled
	}
}

// waiters are the calls that wait for a socket. libzmq signals a change of a socket through one descriptor, only once,
// and only until some call of libzmq has looked at the socket. It does not signal changes that a call itself makes,
// such as a connection over inproc. Therefore one goroutine waits for the descriptor. This goroutine, and each call
// that has looked at the socket, wakes the waiters for which the socket is ready. Otherwise a waiter would miss a
// change that another call has seen.
type waiters struct {
	calls []*waiter
	file  *os.File // of the descriptor, nil before the first wait and the first Send
}

// otherWaits reports whether a call other than the given one waits for the socket. The caller holds s.mu.
func (s *Socket) otherWaits(but *waiter) bool {
	return slices.ContainsFunc(s.waits.calls, func(w *waiter) bool { return w != but })
}

// wake returns the events for which the socket is ready, and wakes the waiters for them, except the given one. If the
// socket is closed or fails, it wakes all waiters, and they return the error. The caller holds s.mu.
func (s *Socket) wake(but *waiter) (events C.int, err error) {
	if s.ptr == nil {
		events, err = ^0, fmt.Errorf("the socket is %w", ErrClosed)
	} else if s.early { // see receiveEarly; Send finds out itself
		events = pollIn | pollOut
	} else if code := C.zeromq_events(s.ptr, &events); code != 0 {
		events, err = ^0, Errno(code)
	}
	for _, w := range s.waits.calls {
		if w != but && w.event&events != 0 {
			w.wake()
		}
	}
	return events, err
}

// duplicate duplicates a descriptor, and returns the duplicate as a file that Go's poller can wait for.
func duplicate(fd int) (*os.File, error) {
	number, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("zeromq: wait: %w", errno)
	}
	return os.NewFile(number, "libzmq"), nil
}

// watch starts the goroutine that waits for the descriptor, if there is none yet. The caller holds s.mu.
func (s *Socket) watch() error {
	if s.waits.file != nil {
		return nil
	}
	file, err := s.watched()
	if err != nil {
		return err
	}
	connection, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return fmt.Errorf("zeromq: wait: %w", err)
	}
	s.waits.file = file
	background.Go(func() {
		connection.Read(func(fd uintptr) bool { // is called at first, and whenever the descriptor becomes readable
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.singleFrame() { // libzmq reads the descriptors of other sockets itself
				var signals [64]byte
				for n := 1; n > 0; {
					n, _ = syscall.Read(int(fd), signals[:])
				}
			}
			s.lookSoon()                 // a call that waits may end without a look
			if len(s.waits.calls) == 1 { // the call itself looks
				s.waits.calls[0].wake()
			} else if len(s.waits.calls) > 1 {
				s.wake(nil)
			}
			return s.ptr == nil
		})
	})
	return nil
}

// lookAfter is the delay before libzmq is asked about a socket that sends, so that one look serves many messages and
// signals.
const lookAfter = 10 * time.Millisecond

// looks has the sockets about which libzmq will be asked, each once.
var looks struct {
	mu      sync.Mutex
	sockets []*Socket
}

// lookSoon asks libzmq about a socket that sends, after lookAfter. libzmq releases the messages for a disconnected peer
// only in calls that look for messages to receive, and a program that only sends makes no such calls. If a peer
// disconnects later, the descriptor signals it. But another call may have taken the signal without looking, so each
// call looks soon. The caller holds s.mu.
func (s *Socket) lookSoon() {
	if !s.sends || s.looking {
		return
	}
	s.looking = true
	looks.mu.Lock()
	defer looks.mu.Unlock()
	looks.sockets = append(looks.sockets, s)
	if len(looks.sockets) == 1 {
		background.Go(look)
	}
}

func look() {
	time.Sleep(lookAfter)
	looks.mu.Lock()
	sockets := looks.sockets
	looks.sockets = nil
	looks.mu.Unlock()
	for _, s := range sockets {
		s.mu.Lock()
		s.looking = false
		s.wake(nil)
		s.mu.Unlock()
	}
}

// add adds a waiter.
func (s *Socket) add(w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return fmt.Errorf("zeromq: the socket is %w", ErrClosed)
	}
	if err := s.watch(); err != nil {
		return err
	}
	s.waits.calls = append(s.waits.calls, w)
	return nil
}

func (s *Socket) remove(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits.calls = slices.DeleteFunc(s.waits.calls, func(other *waiter) bool { return other == w })
}

// do calls try until it reports done, and waits in between until the socket is ready for the event. It calls try while
// it holds s.mu.
func (s *Socket) do(ctx context.Context, what string, event C.int, try func() (done bool, err error)) error {
	var w *waiter
	var pause time.Duration
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("zeromq: %s: %w", what, err)
		}
		s.mu.Lock()
		done, ready, err := false, false, error(nil)
		if s.ptr == nil {
			err = fmt.Errorf("zeromq: %s: the socket is %w", what, ErrClosed)
		} else {
			if event == pollOut {
				s.sends = true
				s.watch() // if there is no descriptor for it, the next Send tries again
			}
			done, err = try()
			s.lookSoon()
			if s.early || s.otherWaits(w) {
				events, _ := s.wake(w)
				ready = events&event != 0
			}
		}
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
		if w == nil {
			w = newWaiter(event)
			if err := s.add(w); err != nil {
				return err
			}
			defer s.remove(w)
			continue // changes before add have woken nobody
		}
		// wake may have taken a signal for this call. The first time, try is called again immediately, and then with
		// pauses: a ROUTER whose peer is full counts as ready as long as it can send to another peer.
		var again <-chan time.Time
		if ready {
			again = time.After(pause)
			pause = time.Millisecond
		}
		select {
		case <-w.signal:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// Poll waits until one of the sockets has a message to receive, and returns it.
//
// Errors: the error of ctx; [ErrClosed] if one of the sockets is closed; [Errno].
func Poll(ctx context.Context, sockets ...*Socket) (*Socket, error) {
	w := newWaiter(pollIn)
	for _, s := range sockets {
		if err := s.add(w); err != nil {
			return nil, err
		}
		defer s.remove(w)
	}
	for {
		for _, s := range sockets {
			s.mu.Lock()
			s.answerRefused()
			events, err := s.wake(w)
			s.mu.Unlock()
			if err != nil {
				return nil, fmt.Errorf("zeromq: poll: %w", err)
			} else if events&pollIn != 0 {
				return s, nil
			}
		}
		select {
		case <-w.signal:
		case <-ctx.Done():
			return nil, fmt.Errorf("zeromq: poll: %w", ctx.Err())
		}
	}
}
