//go:build cgo

package zeromq_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// At the end libzmq makes a socket for each of these connections, and ends the process if there are not enough sockets.
func TestCloseEndsMoreConnectionsThanThereAreSockets(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, closed := range []bool{false, true} {
		c := newContext(t, zeromq.MaxSockets(3))
		push := newSocket(t, c, zeromq.Push)
		for i := range 10 {
			require.NoError(t, push.Connect(fmt.Sprint("inproc://nobody", i)))
		}
		pull := newSocket(t, c, zeromq.Pull)
		must.Do(pull.Bind("inproc://nobody3"))(t)
		if closed {
			require.NoError(t, push.Close())
			require.NoError(t, pull.Close())
		}
		require.NoError(t, c.Close())
	}
	c := newContext(t, zeromq.MaxSockets(1))
	push := newSocket(t, c, zeromq.Push)
	err := push.Connect("inproc://nobody")
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, "zeromq: connect inproc://nobody: no socket is bound to the endpoint yet, so the connection needs one more socket; use MaxSockets to allow more: ")
	must.Do(push.Bind("inproc://own"))(t)
	require.NoError(t, push.Connect("inproc://own"))
}

// Without the check, libzmq would end the process in the Bind.
func TestABindThatLibzmqCannotDoIsPrevented(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for name, kind := range map[string]zeromq.Type{"ROUTER": zeromq.Router, "REP": zeromq.Rep} {
		t.Run(name, func(t *testing.T) {
			c := newContext(t)
			waiting := []*zeromq.Socket{newSocket(t, c, kind), newSocket(t, c, kind)}
			for _, s := range waiting {
				require.NoError(t, s.Connect("inproc://later"))
			}
			err := waiting[0].Disconnect("inproc://later")
			require.ErrorIs(t, err, syscall.EINVAL)
			require.EqualError(t, err, "zeromq: disconnect inproc://later: no socket is bound to the endpoint yet; use Close to end the connection: Invalid argument")
			require.ErrorIs(t, waiting[0].Unbind("inproc://later"), syscall.EINVAL)
			pair := newSocket(t, c, zeromq.Pair)
			_, err = pair.Bind("inproc://later")
			require.ErrorIs(t, err, syscall.EINVAL)
			require.EqualError(t, err, "zeromq: bind inproc://later: a ROUTER or REP has connected to the endpoint, but a PAIR accepts neither: Invalid argument")
			require.NoError(t, waiting[0].Close())
			dealer := newSocket(t, c, zeromq.Dealer)
			must.Do(dealer.Bind("inproc://later"))(t)
			require.NoError(t, waiting[1].Disconnect("inproc://later"))
		})
	}
}

// No order of these calls ends the process.
func TestConnectionsOverInprocInAnyOrder(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	kinds := []zeromq.Type{zeromq.Pair, zeromq.Pub, zeromq.Sub, zeromq.Req, zeromq.Rep, zeromq.Dealer, zeromq.Router, zeromq.Pull, zeromq.Push}
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		c := newContext(t, zeromq.MaxSockets(5))
		var sockets []*zeromq.Socket
		for range random.IntN(40) {
			if s, err := c.NewSocket(kinds[random.IntN(len(kinds))], zeromq.Linger(0)); err == nil {
				sockets = append(sockets, s)
			}
			s, endpoint := sockets[random.IntN(len(sockets))], fmt.Sprint("inproc://", random.IntN(3))
			switch random.IntN(8) {
			case 0, 1, 2:
				s.Connect(endpoint)
			case 3, 4:
				s.Bind(endpoint)
			case 5:
				s.Disconnect(endpoint)
			case 6:
				s.Unbind(endpoint)
			case 7:
				s.Close()
				time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
			}
		}
		require.NoError(t, c.Close())
	}
}
