//go:build cgo && zmq

package zeromq

import "C"

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// waiters are the calls that wait for a socket. libzmq signals a change of a socket by one descriptor, only once, and only until
// some call has looked at the socket. Therefore one goroutine waits for the descriptor and wakes all waiters, and a call that
// has looked wakes the others, because it may have seen what they wait for.
type waiters struct {
	calls []chan struct{} // with room for one signal each
	file  *os.File        // of the descriptor, nil before the first wait
}

// wake wakes all waiters, or all but the given one.
func (w *waiters) wake(but chan struct{}) {
	for _, call := range w.calls {
		if call != but {
			select {
			case call <- struct{}{}:
			default: // it has a signal already
			}
		}
	}
}

// duplicate duplicates a descriptor, and returns the duplicate as a file that Go's poller can wait for.
func duplicate(fd int) (*os.File, error) {
	number, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("zeromq: wait: %w", errno)
	}
	return os.NewFile(number, "libzmq"), nil
}

// add adds a waiter. For the first one it starts the goroutine that waits for the descriptor.
func (s *Socket) add(call chan struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return fmt.Errorf("zeromq: the socket is %w", ErrClosed)
	}
	if s.waits.file == nil {
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
			connection.Read(func(uintptr) bool { // is called at first, and whenever the descriptor becomes readable
				s.mu.Lock()
				defer s.mu.Unlock()
				s.waits.wake(nil)
				return s.ptr == nil
			})
		})
	}
	s.waits.calls = append(s.waits.calls, call)
	return nil
}

func (s *Socket) remove(call chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits.calls = slices.DeleteFunc(s.waits.calls, func(other chan struct{}) bool { return other == call })
}

// do calls try until it is done, and waits in between until the socket has changed. It runs try while it holds s.mu.
func (s *Socket) do(ctx context.Context, what string, try func() (done bool, err error)) error {
	var call chan struct{}
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("zeromq: %s: %w", what, err)
		}
		s.mu.Lock()
		done, err := false, error(nil)
		if s.ptr == nil {
			err = fmt.Errorf("zeromq: %s: the socket is %w", what, ErrClosed)
		} else {
			done, err = try()
			s.waits.wake(call)
		}
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
		if call == nil {
			call = make(chan struct{}, 1)
			if err := s.add(call); err != nil {
				return err
			}
			defer s.remove(call)
			continue // what has changed before add has woken nobody
		}
		select {
		case <-call:
		case <-ctx.Done():
		}
	}
}

// Poll waits until one of the sockets has a message to receive, and returns it.
//
// Errors: that of ctx; [ErrClosed] if one of the sockets is closed; [Errno].
func Poll(ctx context.Context, sockets ...*Socket) (*Socket, error) {
	call := make(chan struct{}, 1)
	for _, s := range sockets {
		if err := s.add(call); err != nil {
			return nil, err
		}
		defer s.remove(call)
	}
	for {
		for _, s := range sockets {
			if ready, err := s.readable(); err != nil {
				return nil, err
			} else if ready {
				return s, nil
			}
		}
		select {
		case <-call:
		case <-ctx.Done():
			return nil, fmt.Errorf("zeromq: poll: %w", ctx.Err())
		}
	}
}
