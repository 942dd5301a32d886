//go:build cgo

package zeromq_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// untilItWaits gives a call in another goroutine time to begin waiting. If the time is too short, the test checks less
// and passes.
func untilItWaits() { time.Sleep(20 * time.Millisecond) }

// libzmq does not signal a socket the changes that its own connect and bind make over inproc.
func TestConnectWakesASendThatWaitsForAPeer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for transport, endpoint := range endpoints(t) {
		for name, kind := range map[string]zeromq.Type{"PUSH": zeromq.Push, "DEALER": zeromq.Dealer, "PAIR": zeromq.Pair, "REQ": zeromq.Req} {
			t.Run(transport+" "+name, func(t *testing.T) {
				c := newContext(t)
				bound := newSocket(t, c, map[zeromq.Type]zeromq.Type{zeromq.Push: zeromq.Pull, zeromq.Dealer: zeromq.Dealer,
					zeromq.Pair: zeromq.Pair, zeromq.Req: zeromq.Rep}[kind])
				address := must.Do(bound.Bind(endpoint))(t)
				s := newSocket(t, c, kind)
				var sending sync.WaitGroup
				sending.Go(func() { assert.NoError(t, s.SendFrames(deadline(t), [][]byte{[]byte("x")})) })
				untilItWaits()
				require.NoError(t, s.Connect(address))
				sending.Wait()
				frames := must.Do(bound.RecvFrames(deadline(t)))(t)
				require.Equal(t, [][]byte{[]byte("x")}, frames)
				require.NoError(t, bound.Close())
			})
		}
	}
}

func TestBindWakesCallsThatWaitForAPeer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	a, b := newSocket(t, c, zeromq.Pair), newSocket(t, c, zeromq.Pair)
	require.NoError(t, a.Connect("inproc://later"))
	require.NoError(t, a.SendFrames(deadline(t), [][]byte{[]byte("early")})) // the message waits in libzmq for the peer
	var waiting sync.WaitGroup
	waiting.Go(func() {
		s, err := zeromq.Poll(deadline(t), b)
		assert.NoError(t, err)
		assert.Same(t, b, s)
		frames, err := b.RecvFrames(deadline(t))
		assert.NoError(t, err)
		assert.Equal(t, [][]byte{[]byte("early")}, frames)
	})
	waiting.Go(func() { assert.NoError(t, b.SendFrames(deadline(t), [][]byte{[]byte("answer")})) })
	waiting.Go(func() {
		frames, err := a.RecvFrames(deadline(t))
		assert.NoError(t, err)
		assert.Equal(t, [][]byte{[]byte("answer")}, frames)
	})
	untilItWaits()
	must.Do(b.Bind("inproc://later"))(t)
	waiting.Wait()
}

// The messages of a connection that ends stay with it, and a waiting call then uses the next connection.
func TestASendWaitsForTheNextPeerAfterDisconnect(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	push := newSocket(t, c, zeromq.Push, zeromq.SendHighWater(1), zeromq.Linger(0))
	full := newSocket(t, c, zeromq.Pull, zeromq.ReceiveHighWater(1))
	next := newSocket(t, c, zeromq.Pull)
	for s, endpoint := range map[*zeromq.Socket]string{full: "inproc://full", next: "inproc://next"} {
		must.Do(s.Bind(endpoint))(t)
	}
	require.NoError(t, push.Connect("inproc://full"))
	for range 2 {
		require.NoError(t, push.SendFrames(deadline(t), [][]byte{[]byte("x")}))
	}
	var sending sync.WaitGroup
	sending.Go(func() { assert.NoError(t, push.SendFrames(deadline(t), [][]byte{[]byte("y")})) })
	untilItWaits()
	require.NoError(t, push.Disconnect("inproc://full"))
	require.NoError(t, push.Connect("inproc://next"))
	sending.Wait()
	frames := must.Do(next.RecvFrames(deadline(t)))(t)
	require.Equal(t, [][]byte{[]byte("y")}, frames)
}

// Each call on a socket may take a signal that other calls wait for, and must pass it on. The calls are a Poll that
// waits forever, Polls and Recvs with deadlines, changes of settings, and several goroutines that send and receive.
func TestCallsOnOneSocketLoseNoSignal(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	disturbances := map[string]func(ctx context.Context, s *zeromq.Socket){
		"a Poll": func(ctx context.Context, s *zeromq.Socket) { zeromq.Poll(ctx, s) },
		"Polls and settings": func(ctx context.Context, s *zeromq.Socket) {
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, 50*time.Microsecond)
				zeromq.Poll(short, s, s)
				cancel()
				s.Set(zeromq.Linger(0))
			}
		},
		"connections": func(ctx context.Context, s *zeromq.Socket) {
			for ctx.Err() == nil {
				s.Connect("ftp://") // fails, after libzmq has looked at the socket
				time.Sleep(10 * time.Microsecond)
			}
		},
	}
	for transport, endpoint := range endpoints(t) {
		for name, disturb := range disturbances {
			for _, goroutines := range []int{1, 3} {
				t.Run(fmt.Sprint(transport, " ", name, " ", goroutines), func(t *testing.T) {
					a, b := pair(t, endpoint, zeromq.Dealer, zeromq.Dealer, zeromq.SendHighWater(1), zeromq.ReceiveHighWater(1))
					ctx, cancel := context.WithCancel(deadline(t))
					var calls, background sync.WaitGroup
					const messages = 600
					payload := make([]byte, 10_000)
					send := func(s *zeromq.Socket) {
						for range messages / goroutines {
							if !assert.NoError(t, s.SendFrames(ctx, [][]byte{payload})) {
								return
							}
						}
					}
					receive := func(s *zeromq.Socket) {
						for i := range messages / goroutines {
							if _, err := s.RecvFrames(ctx); !assert.NoError(t, err) {
								return
							}
							if i%4 == 0 {
								time.Sleep(50 * time.Microsecond) // the sender waits
							}
						}
					}
					for range goroutines {
						calls.Go(func() { send(a) })
						calls.Go(func() { receive(b) })
						if goroutines > 1 { // both ways
							calls.Go(func() { send(b) })
							calls.Go(func() { receive(a) })
						}
					}
					background.Go(func() { disturb(ctx, a) })
					if goroutines > 1 {
						background.Go(func() { disturb(ctx, b) })
					}
					calls.Wait()
					cancel()
					background.Wait()
				})
			}
		}
	}
}

// A ROUTER whose peer is full counts as ready while it can send to another peer.
func TestARouterWaitsForThePeerThatIsFull(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	router := newSocket(t, c, zeromq.Router, zeromq.Mandatory(), zeromq.SendHighWater(1), zeromq.Linger(0))
	address := must.Do(router.Bind("inproc://router"))(t)
	peers := map[string]*zeromq.Socket{}
	for _, id := range []string{"full", "free"} {
		peers[id] = newSocket(t, c, zeromq.Dealer, zeromq.RoutingID([]byte(id)), zeromq.ReceiveHighWater(1))
		require.NoError(t, peers[id].Connect(address))
		require.NoError(t, peers[id].SendFrames(deadline(t), [][]byte{[]byte("hello")}))
		must.Do(router.RecvFrames(deadline(t)))(t)
	}
	ctx, cancel := context.WithCancel(deadline(t))
	var receiving, sending sync.WaitGroup
	receiving.Go(func() {
		_, err := router.RecvFrames(ctx) // waits at the same time as Send
		assert.ErrorIs(t, err, context.Canceled)
	})
	const messages = 500
	sending.Go(func() {
		for i := range messages {
			assert.NoError(t, router.SendFrames(ctx, [][]byte{[]byte("full"), fmt.Append(nil, i)}))
		}
	})
	untilItWaits()
	for i := range messages {
		frames := must.Do(peers["full"].RecvFrames(ctx))(t)
		require.Equal(t, fmt.Sprint(i), string(frames[0]))
	}
	sending.Wait()
	cancel()
	receiving.Wait()
}

// gone makes a peer connect to a bound socket. The socket sends it more messages than fit into the connection, and then
// the peer disconnects.
func gone(t *testing.T, bound *zeromq.Socket, address string, kind zeromq.Type, id string, send func() error) {
	c := newContext(t)
	peer := newSocket(t, c, kind, zeromq.Linger(0), zeromq.ReceiveHighWater(1), zeromq.RoutingID([]byte(id)))
	if kind == zeromq.Sub {
		require.NoError(t, peer.Set(zeromq.Subscribe("")))
	}
	require.NoError(t, peer.Connect(address))
	waitFor(t, "no connection", func() bool {
		if err := bound.SendFrames(deadline(t), [][]byte{[]byte(id), nil}); err != nil {
			require.ErrorIs(t, err, syscall.EHOSTUNREACH)
			return false
		}
		return received(peer)
	})
	for range 30 {
		require.NoError(t, send())
	}
	waitFor(t, "a look", func() bool { return zeromq.Looks() == 0 }) // the peer disconnects later
	require.NoError(t, c.Close())
}

// libzmq releases the messages for a disconnected peer only in a call that looks for messages to receive.
func TestMemoryForAPeerThatHasGoneIsReleasedWithoutACall(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for name, kinds := range map[string][2]zeromq.Type{
		"ROUTER": {zeromq.Router, zeromq.Dealer}, "DEALER": {zeromq.Dealer, zeromq.Dealer}, "PUSH": {zeromq.Push, zeromq.Pull},
		"PUB": {zeromq.Pub, zeromq.Sub},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSocket(t, newContext(t), kinds[0], zeromq.Linger(0))
			if kinds[0] == zeromq.Router {
				require.NoError(t, s.Set(zeromq.Mandatory()))
			}
			address := must.Do(s.Bind("tcp://127.0.0.1:*"))(t)
			x := numbers(t, 1<<18)
			defer x.Close()
			m := must.Do(zeromq.Encode([]*dlpack.Tensor{x}))(t)
			defer m.Close()
			for i := range 3 {
				copies := [][]byte{fmt.Append(nil, "copies", i), make([]byte, 1<<20)}
				gone(t, s, address, kinds[1], string(copies[0]), func() error { return s.SendFrames(deadline(t), copies) })
				m.Routing = [][]byte{fmt.Append(nil, "tensors", i)}
				gone(t, s, address, kinds[1], string(m.Routing[0]), func() error { return s.Send(deadline(t), m) })
				waitForExports(t)
			}
		})
	}
}

// Without a descriptor only the signal of a disconnecting peer is missed.
func TestASendThatDoesNotWaitNeedsNoDescriptor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pub := newSocket(t, newContext(t), zeromq.Pub)
	must.Do(pub.Bind("inproc://descriptors"))(t)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
	err := pub.SendFrames(deadline(t), [][]byte{nil})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.NoError(t, err)
}

// A look requests no further look, and keeps no socket alive.
func TestLooksEndWithTheLastSend(t *testing.T) {
	zeromq.Need(t)
	dlpacktest.CheckLeaks(t)
	var context weak.Pointer[zeromq.Context]
	var socket weak.Pointer[zeromq.Socket]
	func() {
		c := must.Do(zeromq.NewContext())(t)
		s := newSocket(t, c, zeromq.Pub)
		context, socket = weak.Make(c), weak.Make(s)
		must.Do(s.Bind("inproc://looks"))(t)
		waitFor(t, "looks of other tests", func() bool { return zeromq.Looks() == 0 })
		waitFor(t, "no look is requested", func() bool { // on a busy machine it may have ended already
			require.NoError(t, s.SendFrames(deadline(t), [][]byte{nil}))
			return zeromq.Looks() == 1
		})
		waitFor(t, "no look", func() bool { return zeromq.Looks() == 0 })
		time.Sleep(50 * time.Millisecond)
		require.Zero(t, zeromq.Looks())
		require.NoError(t, s.SendFrames(deadline(t), [][]byte{nil}))
		require.NoError(t, c.Close())
	}()
	waitFor(t, "the socket is kept", func() bool {
		runtime.GC()
		return context.Value() == nil && socket.Value() == nil
	})
}

// Two calls that wait for one socket used to wake each other endlessly.
func TestCallsThatWaitLeaveEachOtherAlone(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull := newSocket(t, newContext(t), zeromq.Pull)
	must.Do(pull.Bind("inproc://idle"))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var waiting sync.WaitGroup
	tries := new(atomic.Int64)
	for range 3 {
		waiting.Go(func() { assert.ErrorIs(t, zeromq.CountTries(pull, ctx, tries), context.DeadlineExceeded) })
	}
	waiting.Wait()
	assert.LessOrEqual(t, tries.Load(), int64(20))
}

// libzmq ends a call with EINTR when the thread gets a signal, and Go sends signals to its own threads.
func TestSignalsInterruptNoCall(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull := newSocket(t, newContext(t), zeromq.Pull)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, done := syscall.Gettid(), make(chan struct{})
	var signalling sync.WaitGroup
	signalling.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				assert.NoError(t, tgkill(thread))
			}
		}
	})
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	for range 5000 {
		must.Fail(zeromq.Poll(expired, pull))(t, context.Canceled)
		must.Do(pull.Bind("inproc://interrupted"))(t)
		require.NoError(t, pull.Unbind("inproc://interrupted"))
	}
	close(done)
	signalling.Wait()
}

func tgkill(thread int) error {
	_, _, errno := syscall.Syscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(thread), uintptr(syscall.SIGURG))
	if errno != 0 {
		return errno
	}
	return nil
}
