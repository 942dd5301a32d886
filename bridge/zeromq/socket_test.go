//go:build cgo

package zeromq_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens"
)

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newContext(t testing.TB, options ...zeromq.ContextOption) *zeromq.Context {
	zeromq.Need(t)
	c := must.Do(zeromq.NewContext(options...))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func newSocket(t testing.TB, c *zeromq.Context, kind zeromq.Type, options ...zeromq.SocketOption) *zeromq.Socket {
	s := must.Do(c.NewSocket(kind, options...))(t)
	return s
}

// endpoints returns an endpoint for each transport.
func endpoints(t testing.TB) map[string]string {
	return map[string]string{
		"inproc": "inproc://" + t.Name(),
		"ipc":    "ipc://" + filepath.Join(t.TempDir(), "s"),
		"tcp":    "tcp://127.0.0.1:*",
	}
}

// pair returns two connected sockets.
func pair(t testing.TB, endpoint string, bound, connected zeromq.Type, options ...zeromq.SocketOption) (a, b *zeromq.Socket) {
	c := newContext(t)
	options = append([]zeromq.SocketOption{zeromq.Linger(0)}, options...)
	a, b = newSocket(t, c, bound, options...), newSocket(t, c, connected, options...)
	address := must.Do(a.Bind(endpoint))(t)
	require.NoError(t, b.Connect(address))
	return a, b
}

// numbers returns a tensor of n different float32.
func numbers(t testing.TB, n int) *dlpack.Tensor {
	x := must.Do(dlpack.New(dlpack.Float32, int64(n)))(t)
	require.NoError(t, dlpack.Use(x, func(data []float32) error {
		for i := range data {
			data[i] = float32(i)
		}
		return nil
	}))
	return x
}

func requireNumbers(t testing.TB, x *dlpack.Tensor, n int) {
	data := must.Do(x.AppendBytes(nil))(t)
	require.Len(t, data, 4*n)
	floats := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), n)
	for i, v := range floats {
		if v != float32(i) {
			require.Equal(t, float32(i), v)
		}
	}
}

// waitFor waits until libzmq's threads have finished.
func waitFor(t testing.TB, what string, done func() bool) {
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

func waitForExports(t testing.TB) {
	waitFor(t, "exports are left", func() bool { return dlpack.ReadStats().Exports == 0 })
}

var sizes = []int{0, 1, 16, 1000, 4095, 4096, 5000, 8191, 8192, 20000, 1 << 20}

func TestTensorsArriveOverEachTransport(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for transport, endpoint := range endpoints(t) {
		t.Run(transport, func(t *testing.T) {
			pull, push := pair(t, endpoint, zeromq.Pull, zeromq.Push)
			for i, n := range sizes {
				x := numbers(t, n)
				m := must.Do(zeromq.Encode([]*dlpack.Tensor{x, x}, bridge.Metadata([]byte(`{"run":7}`))))(t)
				m.Seqno = uint64(i)
				require.NoError(t, push.Send(deadline(t), m))
				m.Close()
				require.NoError(t, x.Close())
				got := must.Do(pull.Recv(deadline(t)))(t)
				assert.Equal(t, uint64(i), got.Seqno)
				assert.Equal(t, [4]byte{'T', 'E', 'N', 'S'}, got.Form)
				label := must.Do(got.DecodeLabel())(t)
				assert.Equal(t, `{"run":7}`, string(label.Metadata))
				require.Len(t, got.Tensors, 2)
				require.Len(t, got.Parts, 2)
				kept := must.Do(got.Tensors[1].Share())(t)
				requireNumbers(t, got.Tensors[0], n)
				assert.True(t, got.Tensors[0].ReadOnly())
				got.Close()
				got.Close()
				requireNumbers(t, kept, n)
				require.NoError(t, kept.Close())
			}
			waitForExports(t)
		})
	}
}

// Over inproc libzmq passes the message itself, so addresses show which parts were copied.
func TestLargePartsAreNotCopied(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "inproc://large", zeromq.Pull, zeromq.Push)
	for n, shared := range map[int]bool{1000: false, 8191: false, 8192: true, 1 << 20: true} {
		x := numbers(t, n)
		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x}))
		got := must.Do(pull.Recv(deadline(t)))(t)
		assert.Equal(t, shared, got.Tensors[0].Data() == x.Data(), "%d elements", n)
		got.Close()

		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x}))
		got = must.Do(pull.Recv(deadline(t), zeromq.Writable()))(t)
		assert.NotEqual(t, x.Data(), got.Tensors[0].Data(), "the sender's memory is not made writable")
		assert.False(t, got.Tensors[0].ReadOnly())
		requireNumbers(t, got.Tensors[0], n)
		got.Close()
		require.NoError(t, x.Close())
	}
}

// The memory of a Go slice, and of a closed tensor, stays until libzmq has sent it.
func TestMemoryIsHeldUntilItIsSent(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	const rounds, n = 20, 1 << 18
	for range rounds {
		slice := make([]float32, n)
		for i := range slice {
			slice[i] = float32(i)
		}
		x := must.Do(dlpack.FromSlice(slice))(t)
		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x}))
		require.NoError(t, x.Close())
		runtime.GC()
	}
	for range rounds {
		got := must.Do(pull.Recv(deadline(t)))(t)
		requireNumbers(t, got.Tensors[0], n)
		got.Close()
	}
	waitForExports(t)
}

// A message with a closed tensor is not sent, because its memory may belong to another tensor by now.
func TestAClosedTensorIsNotSent(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "inproc://closed", zeromq.Pull, zeromq.Push)
	for _, n := range []int{10, 1 << 20} {
		x := numbers(t, n)
		m := must.Do(zeromq.Encode([]*dlpack.Tensor{x}))(t)
		require.NoError(t, x.Close())
		require.ErrorIs(t, push.Send(deadline(t), m), dlpack.ErrClosed)
		_, err := zeromq.Poll(expired(), pull)
		require.ErrorIs(t, err, context.Canceled, "nothing has arrived")
		m.Close()
		require.ErrorIs(t, push.Send(deadline(t), m), zeromq.ErrClosed)
	}
}

func TestReceivedMemoryOutlivesItsSocketAndContext(t *testing.T) {
	zeromq.Need(t)
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	pull, push := newSocket(t, c, zeromq.Pull), newSocket(t, c, zeromq.Push)
	address := must.Do(pull.Bind("tcp://127.0.0.1:*"))(t)
	require.NoError(t, push.Connect(address))
	x := numbers(t, 1<<18)
	require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x}))
	require.NoError(t, x.Close())
	got := must.Do(pull.Recv(deadline(t)))(t)
	kept := must.Do(got.Tensors[0].Share())(t)
	got.Close()
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	requireNumbers(t, kept, 1<<18)
	require.NoError(t, kept.Close())
}

func TestLayoutsAndCompactCopies(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	x := numbers(t, 512*512)
	defer x.Close()
	square := must.Do(x.Reshape(512, 512))(t)
	defer square.Close()
	transposed := must.Do(square.Transpose())(t)
	defer transposed.Close()
	gaps := must.Do(square.Slice(layout.All(), layout.All().By(2)))(t)
	defer gaps.Close()
	for _, sent := range []*dlpack.Tensor{square, transposed, gaps} {
		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{sent}))
		got := must.Do(pull.Recv(deadline(t), zeromq.Aligned()))(t)
		assert.Zero(t, uintptr(got.Tensors[0].Data())%dlpack.AllocAlignment)
		assert.True(t, must.Do(dlpack.Equal(sent, got.Tensors[0]))(t))
		got.Close()
	}
	waitForExports(t)
}

func TestTensorsInSeveralParts(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "inproc://spread", zeromq.Pull, zeromq.Push)
	const n = 1 << 18
	x := numbers(t, n)
	defer x.Close()
	for range 2 {
		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x}, bridge.Spread(300_000)))
	}
	got := must.Do(pull.Recv(deadline(t)))(t)
	require.Len(t, got.Tensors, 4)
	assert.Equal(t, x.Data(), got.Tensors[0].Data(), "a piece is not copied")
	got.Close()
	got = must.Do(pull.Recv(deadline(t), zeromq.Join()))(t)
	require.Len(t, got.Tensors, 1)
	requireNumbers(t, got.Tensors[0], n)
	got.Close()
}

func TestPackedMessages(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	for _, n := range sizes {
		x := numbers(t, n)
		m := must.Do(zeromq.Encode([]*dlpack.Tensor{x, x}))(t)
		require.NoError(t, m.Pack())
		require.NoError(t, x.Close())
		require.NoError(t, push.Send(deadline(t), m))
		m.Close()
		got := must.Do(pull.Recv(deadline(t)))(t)
		require.Len(t, got.Tensors, 2)
		for _, x := range got.Tensors {
			requireNumbers(t, x, n)
		}
		got.Close()
	}
	waitForExports(t)
}

func TestEachPatternCarriesTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := numbers(t, 20000)
	defer x.Close()
	answer := func(t *testing.T, from, to *zeromq.Socket) { // one message in each direction
		require.NoError(t, from.SendTensors(deadline(t), []*dlpack.Tensor{x}))
		got := must.Do(to.Recv(deadline(t)))(t)
		requireNumbers(t, got.Tensors[0], 20000)
		require.NoError(t, to.Send(deadline(t), got))
		got.Close()
		back := must.Do(from.Recv(deadline(t)))(t)
		requireNumbers(t, back.Tensors[0], 20000)
		back.Close()
	}
	for name, kinds := range map[string][2]zeromq.Type{
		"REQ and REP":       {zeromq.Rep, zeromq.Req},
		"PAIR":              {zeromq.Pair, zeromq.Pair},
		"DEALER and ROUTER": {zeromq.Router, zeromq.Dealer},
		"REQ and ROUTER":    {zeromq.Router, zeromq.Req},
		"DEALER and DEALER": {zeromq.Dealer, zeromq.Dealer},
	} {
		t.Run(name, func(t *testing.T) {
			bound, connected := pair(t, "tcp://127.0.0.1:*", kinds[0], kinds[1])
			for range 3 {
				answer(t, connected, bound)
			}
		})
	}
	t.Run("PUB and SUB", func(t *testing.T) {
		pub, sub := pair(t, "tcp://127.0.0.1:*", zeromq.Pub, zeromq.Sub)
		require.NoError(t, sub.Set(zeromq.Subscribe("ZIO0TENS")))
		all := deadline(t)
		ctx, cancel := context.WithCancel(all)
		var publishing sync.WaitGroup
		publishing.Go(func() { // the subscription takes some time to arrive
			for ctx.Err() == nil {
				assert.NoError(t, pub.SendFrames(all, [][]byte{[]byte("ZIO0TEXT")}))
				assert.NoError(t, pub.SendTensors(all, []*dlpack.Tensor{x}))
				time.Sleep(time.Millisecond)
			}
		})
		got, err := sub.Recv(deadline(t))
		cancel()
		publishing.Wait()
		require.NoError(t, err)
		requireNumbers(t, got.Tensors[0], 20000)
		got.Close()
	})
	waitForExports(t)
}

// A message that libzmq shares among several receivers is not made writable.
func TestSubscribersDoNotWriteToASharedMessage(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	pub := newSocket(t, c, zeromq.Pub, zeromq.Linger(0))
	must.Do(pub.Bind("inproc://shared"))(t)
	var subs []*zeromq.Socket
	for range 2 {
		sub := newSocket(t, c, zeromq.Sub, zeromq.Subscribe(""))
		require.NoError(t, sub.Connect("inproc://shared"))
		subs = append(subs, sub)
	}
	x := numbers(t, 1<<16)
	defer x.Close()
	subscribed(t, pub, subs...)
	require.NoError(t, pub.SendTensors(deadline(t), []*dlpack.Tensor{x}))
	var all []*zeromq.Message
	for _, sub := range subs {
		got := must.Do(sub.Recv(deadline(t), zeromq.Writable()))(t)
		assert.False(t, got.Tensors[0].ReadOnly())
		all = append(all, got)
	}
	assert.NotEqual(t, all[0].Tensors[0].Data(), all[1].Tensors[0].Data())
	for _, m := range all {
		assert.NotEqual(t, x.Data(), m.Tensors[0].Data())
		m.Close()
	}
}

func TestACallWaitsAsLongAsItsContext(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "inproc://waits", zeromq.Pull, zeromq.Push, zeromq.SendHighWater(1), zeromq.ReceiveHighWater(1))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := pull.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	must.Fail(zeromq.Poll(ctx, pull))(t, context.DeadlineExceeded)

	x := numbers(t, 1<<16)
	sent := 0
	for ; ; sent++ { // until the high-water mark
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		err = push.SendTensors(ctx, []*dlpack.Tensor{x})
		cancel()
		if err != nil {
			break
		}
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.LessOrEqual(t, sent, 3)
	assert.EqualValues(t, sent, dlpack.ReadStats().Exports, "what was not sent is released")
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	require.ErrorIs(t, push.SendTensors(ctx, []*dlpack.Tensor{x}), context.Canceled)

	var waiting sync.WaitGroup
	waiting.Go(func() { assert.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x})) })
	for range sent + 1 {
		s := must.Do(zeromq.Poll(deadline(t), pull))(t)
		require.Same(t, pull, s)
		got := must.Do(pull.Recv(deadline(t)))(t)
		got.Close()
	}
	waiting.Wait()
	require.NoError(t, x.Close())
	waitForExports(t)
}

func TestOneSocketSendsAndReceivesAtTheSameTime(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	a, b := pair(t, "tcp://127.0.0.1:*", zeromq.Pair, zeromq.Pair, zeromq.SendHighWater(4), zeromq.ReceiveHighWater(4))
	const rounds = 300
	x := numbers(t, 5000)
	defer x.Close()
	var all sync.WaitGroup
	for _, s := range []*zeromq.Socket{a, b} {
		for range 2 { // two goroutines for each direction
			all.Go(func() {
				for range rounds {
					if !assert.NoError(t, s.SendTensors(deadline(t), []*dlpack.Tensor{x, x})) {
						return
					}
				}
			})
			all.Go(func() {
				for range rounds {
					got, err := s.Recv(deadline(t))
					if !assert.NoError(t, err) {
						return
					}
					assert.Len(t, got.Tensors, 2)
					got.Close()
				}
			})
		}
	}
	all.Wait()
	waitForExports(t)
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	zeromq.Need(t)
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	var waiting sync.WaitGroup
	for range 4 {
		pull := newSocket(t, c, zeromq.Pull)
		waiting.Go(func() {
			must.Fail(pull.Recv(context.Background()))(t, zeromq.ErrClosed)
			must.Fail(zeromq.Poll(context.Background(), pull))(t, zeromq.ErrClosed)
			assert.ErrorIs(t, pull.Connect("tcp://127.0.0.1:1"), zeromq.ErrClosed)
		})
		push := newSocket(t, c, zeromq.Push) // without a peer
		waiting.Go(func() {
			assert.ErrorIs(t, push.SendFrames(context.Background(), [][]byte{nil}), zeromq.ErrClosed)
		})
	}
	time.Sleep(5 * time.Millisecond)
	require.NoError(t, c.Close())
	waiting.Wait()
	must.Fail(c.NewSocket(zeromq.Pull))(t, zeromq.ErrClosed)
}

func TestClosingWithMessagesInFlightLeaksNothing(t *testing.T) {
	zeromq.Need(t)
	dlpacktest.CheckLeaks(t)
	for transport, endpoint := range endpoints(t) {
		t.Run(transport, func(t *testing.T) {
			for round := range 10 {
				c := must.Do(zeromq.NewContext())(t)
				pull, push := newSocket(t, c, zeromq.Pull), newSocket(t, c, zeromq.Push, zeromq.Linger(0))
				address := must.Do(pull.Bind(fmt.Sprint(endpoint, map[bool]string{true: "", false: fmt.Sprint(round)}[transport == "tcp"])))(t)
				require.NoError(t, push.Connect(address))
				x := numbers(t, 1<<17)
				for range 20 {
					require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{x}))
				}
				got := must.Do(pull.Recv(deadline(t)))(t)
				require.NoError(t, x.Close())
				require.NoError(t, c.Close())
				requireNumbers(t, got.Tensors[0], 1<<17)
				got.Close()
				waitForExports(t)
			}
		})
	}
}

func TestErrorsSayWhatFailed(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	_, err := pull.Bind("nonsense")
	require.ErrorIs(t, err, syscall.EINVAL)
	require.EqualError(t, err, "zeromq: bind nonsense: Invalid argument")
	var number zeromq.Errno
	require.True(t, errors.As(push.Connect("none://x"), &number))
	require.ErrorIs(t, pull.SendFrames(deadline(t), [][]byte{nil}), syscall.ENOTSUP)
	_, err = push.Recv(deadline(t))
	require.EqualError(t, err, "zeromq: receive: Operation not supported")
	require.Error(t, push.SendFrames(deadline(t), nil))
	require.Error(t, push.Send(deadline(t), &zeromq.Message{Message: tens.Message{Level: 9}}))
	must.Fail(newContext(t).NewSocket(99))(t, syscall.EINVAL)
}

// libzmq takes a C int. A larger number must not become another number, or 0, which means no limit.
func TestNumbersThatDoNotFitAreRefused(t *testing.T) {
	zeromq.Need(t)
	dlpacktest.CheckLeaks(t)
	for _, n := range []int{1 << 31, 1 << 32, 1<<32 + 1, math.MaxInt64, math.MinInt64, -1<<32 + 1} {
		for name, option := range map[string]zeromq.ContextOption{"Threads": zeromq.Threads(n), "MaxSockets": zeromq.MaxSockets(n)} {
			_, err := zeromq.NewContext(option)
			require.ErrorIs(t, err, syscall.EINVAL)
			want := "is more than " + map[string]string{"Threads": "256", "MaxSockets": "1048576"}[name]
			if n < 0 {
				want = "is not between -2^31 and 2^31 - 1"
			}
			require.ErrorContains(t, err, fmt.Sprintf("zeromq: context: set %s: %d %s", name, n, want))
		}
		c := newContext(t)
		for name, option := range map[string]zeromq.SocketOption{"SendHighWater": zeromq.SendHighWater(n), "ReceiveHighWater": zeromq.ReceiveHighWater(n)} {
			_, err := c.NewSocket(zeromq.Push, option)
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, fmt.Sprintf("zeromq: set %s: %d is not between", name, n))
		}
		must.Fail(c.NewSocket(zeromq.Push+zeromq.Type(n)))(t, syscall.EINVAL)
		if n > 0 {
			newSocket(t, c, zeromq.Push, zeromq.MaxFrame(int64(n)))
			must.Fail(c.NewSocket(zeromq.Push, zeromq.Linger(time.Duration(min(n, math.MaxInt64/1_000_000))*time.Millisecond)))(t, syscall.EINVAL)
		}
		newSocket(t, c, zeromq.Push, zeromq.Linger(-time.Hour))
	}
}

// libzmq adds the two numbers as int, allocates an array of this length, and ends the process if it cannot start a
// thread.
func TestNumbersThatEndTheProcessAreRefused(t *testing.T) {
	zeromq.Need(t)
	dlpacktest.CheckLeaks(t)
	const threads, sockets = 256, 1 << 20
	newSocket(t, newContext(t, zeromq.Threads(threads), zeromq.MaxSockets(sockets)), zeromq.Pull)
	for _, n := range []int{1, 1 << 24, math.MaxInt32 - 2, math.MaxInt32 - 1, math.MaxInt32} {
		for _, option := range []zeromq.ContextOption{zeromq.Threads(max(n, threads+1)), zeromq.MaxSockets(max(n, sockets+1))} {
			c, err := zeromq.NewContext(option)
			if err == nil {
				c.NewSocket(zeromq.Pull)
			}
			require.ErrorIs(t, err, syscall.EINVAL)
		}
	}
}

// libzmq would use another port.
func TestPortsThatDoNotExistAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	s := newSocket(t, c, zeromq.Pull, zeromq.Linger(0))
	for _, port := range []string{"-1", "65536", "65537", "70000", "4294967297", "99999999999999999999", "12ab", "0x50", " 5", "+5", "", "1]"} {
		for _, endpoint := range []string{"tcp://127.0.0.1:" + port, "tcp://127.0.0.1:" + port + ";127.0.0.1:1", "ws://127.0.0.1:" + port + "/a:1"} {
			want := fmt.Sprintf(`%s: port %q is not a number up to 65535, nor "*" for a free port: Invalid argument`, endpoint, port)
			_, err := s.Bind(endpoint)
			require.EqualError(t, err, "zeromq: bind "+want)
			require.ErrorIs(t, err, syscall.EINVAL)
			require.EqualError(t, s.Connect(endpoint), "zeromq: connect "+want)
		}
	}
	for _, endpoint := range []string{"tcp://127.0.0.1:1", "tcp://127.0.0.1:65535", "tcp://[::1]:5", "tcp://127.0.0.1:*;127.0.0.1:5",
		"inproc://a:0", "ipc:///tmp/a:0"} {
		require.NoError(t, s.Connect(endpoint))
	}
	for _, free := range []string{"*", "0"} {
		address, err := s.Bind("tcp://127.0.0.1:" + free)
		require.NoError(t, err)
		require.Regexp(t, `^tcp://127\.0\.0\.1:[1-9][0-9]*$`, address)
	}
}

// The stack overflows when libzmq removes a subscription of a million bytes.
func TestLongSubscriptionsAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	sub := newSocket(t, newContext(t), zeromq.Sub)
	longest := strings.Repeat("x", 1024)
	require.NoError(t, sub.Set(zeromq.Subscribe(longest), zeromq.Unsubscribe(longest)))
	for name, option := range map[string]zeromq.SocketOption{"Subscribe": zeromq.Subscribe(longest + "x"),
		"Unsubscribe": zeromq.Unsubscribe(longest + "x")} {
		err := sub.Set(option)
		require.ErrorIs(t, err, syscall.EINVAL)
		require.EqualError(t, err, "zeromq: set "+name+": a prefix of 1025 bytes is too long; the maximum is 1024 bytes: Invalid argument")
	}
}

// otherVariable is set in the environment of a test that runs as the other process of another test.
const otherVariable = "DLBRIDGE_TEST_OTHER"

// TestPrintRoutingID is the other process of TestRoutingIDsAreNotThoseOfAnotherProcess: it prints the id that a ROUTER gives its first peer.
func TestPrintRoutingID(t *testing.T) {
	if os.Getenv(otherVariable) == "" {
		return
	}
	router, dealer := pair(t, "inproc://id", zeromq.Router, zeromq.Dealer)
	require.NoError(t, dealer.SendFrames(deadline(t), [][]byte{nil}))
	frames := must.Do(router.RecvFrames(deadline(t)))(t)
	fmt.Printf("id %x\n", frames[0])
}

// libzmq numbers the peers from rand() on, which it does not seed. A peer that knows the next number can end the
// process of the ROUTER.
func TestRoutingIDsAreNotThoseOfAnotherProcess(t *testing.T) {
	zeromq.Need(t)
	seen := map[string]bool{}
	for range 2 {
		other := exec.Command(os.Args[0], "-test.run=^TestPrintRoutingID$")
		other.Env = append(os.Environ(), otherVariable+"=x")
		out := must.Do(other.Output())(t)
		id, _, found := strings.Cut(string(out), "\n")
		require.True(t, found && strings.HasPrefix(id, "id 00"), "%s", out)
		require.False(t, seen[id], "%s twice", id)
		seen[id] = true
	}
}

// To libzmq every negative number means no limit.
func TestNegativeLimitsAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	_, err := c.NewSocket(zeromq.Pull, zeromq.MaxFrame(-5))
	require.ErrorIs(t, err, syscall.EINVAL)
	require.EqualError(t, err, "zeromq: set MaxFrame: -5 is negative: Invalid argument")
	pull, push := pair(t, "inproc://negative", zeromq.Pull, zeromq.Push)
	require.NoError(t, push.SendFrames(deadline(t), encoded(t)))
	_, err = pull.Recv(deadline(t), zeromq.Limit(-1))
	require.EqualError(t, err, "zeromq: a limit of -1 bytes is negative; leave out Limit to have no limit")
	got, err := pull.Recv(deadline(t))
	require.NoError(t, err, "the message was not touched")
	got.Close()
}

// libzmq would write to the memory of all peers, even of disconnected peers.
func TestHighWaterMarksAreSetBeforeThereIsAPeer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	bound, connected := pair(t, "inproc://marks", zeromq.Pull, zeromq.Push)
	for _, s := range []*zeromq.Socket{bound, connected} {
		for name, option := range map[string]zeromq.SocketOption{"SendHighWater": zeromq.SendHighWater(1), "ReceiveHighWater": zeromq.ReceiveHighWater(1)} {
			err := s.Set(option)
			require.ErrorIs(t, err, syscall.EINVAL)
			require.EqualError(t, err, "zeromq: set "+name+": the socket is bound or connected; give the option to NewSocket: Invalid argument")
		}
		require.NoError(t, s.Set(zeromq.Linger(time.Second)))
	}
	s := newSocket(t, newContext(t), zeromq.Push)
	require.Error(t, s.Connect("none://x"))
	require.NoError(t, s.Set(zeromq.SendHighWater(1)), "there is no peer yet")
}

func TestErrorsOfOptionsNameThem(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	for want, option := range map[string]zeromq.SocketOption{
		"SendHighWater": zeromq.SendHighWater(-1), "ReceiveHighWater": zeromq.ReceiveHighWater(-1), "RoutingID": zeromq.RoutingID(nil),
		"Mandatory": zeromq.Mandatory(), "Subscribe": zeromq.Subscribe(""), "Unsubscribe": zeromq.Unsubscribe(""),
	} {
		_, err := c.NewSocket(zeromq.Rep, option)
		require.EqualError(t, err, "zeromq: set "+want+": Invalid argument")
	}
}

func TestBindReturnsItsOwnAddress(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	for round := range 100 {
		s := newSocket(t, c, zeromq.Pull)
		var binding sync.WaitGroup
		for i := range 4 {
			binding.Go(func() {
				name := fmt.Sprint("inproc://own", round, " ", i)
				address, err := s.Bind(name)
				assert.NoError(t, err)
				assert.Equal(t, name, address)
			})
		}
		binding.Wait()
		require.NoError(t, s.Close())
	}
	long := "inproc://" + strings.Repeat("x", 5000)
	address := must.Do(newSocket(t, c, zeromq.Pull).Bind(long))(t)
	require.Equal(t, long, address)
}

// A C string ends with the first NUL: libzmq would use the endpoint before it.
func TestEndpointsWithANULAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	s := newSocket(t, newContext(t), zeromq.Pair)
	_, err := s.Bind("inproc://a\x00b")
	require.ErrorIs(t, err, syscall.EINVAL)
	require.EqualError(t, err, `zeromq: bind "inproc://a\x00b": Invalid argument`)
	require.ErrorIs(t, s.Connect("inproc://a\x00b"), syscall.EINVAL)
	require.ErrorIs(t, s.Unbind("inproc://a\x00b"), syscall.EINVAL)
	require.ErrorIs(t, s.Disconnect("inproc://a\x00b"), syscall.EINVAL)
}

func TestALimitDropsTheMessageWhole(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	x, small := numbers(t, 1<<20), numbers(t, 10)
	defer x.Close()
	defer small.Close()
	for range 2 {
		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{small, x, x}))
		require.NoError(t, push.SendTensors(deadline(t), []*dlpack.Tensor{small}))
		must.Fail(pull.Recv(deadline(t), zeromq.Limit(5<<20)))(t, zeromq.ErrLimit)
		got := must.Do(pull.Recv(deadline(t), zeromq.Limit(5<<20)))(t)
		requireNumbers(t, got.Tensors[0], 10)
		got.Close()
	}
	require.NoError(t, push.SendFrames(deadline(t), make([][]byte, 1000)))
	must.Fail(pull.Recv(deadline(t), zeromq.Limit(1000*64-1)))(t, zeromq.ErrLimit)
	waitForExports(t)
}

var hostile = flag.Int("hostile", 20000, "number of messages of TestHostileMessagesAreDroppedWhole")

// Each hostile message returns an error, and the message after it is received.
func TestHostileMessagesAreDroppedWhole(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	x := numbers(t, 5000)
	defer x.Close()
	valid := must.Do(zeromq.Encode([]*dlpack.Tensor{x, x}))(t)
	frames := must.Do(valid.Frames())(t)
	random := rand.New(rand.NewPCG(1, 2))
	rounds := *hostile
	if testing.Short() {
		rounds = min(rounds, 2000)
	}
	refused := 0
	for range rounds {
		broken := make([][]byte, 0, len(frames))
		for _, frame := range frames {
			frame = slices.Clone(frame)
			for range random.IntN(4) {
				frame[random.IntN(min(len(frame), 200))] = byte(random.Uint32())
			}
			if random.IntN(4) == 0 {
				frame = frame[:random.IntN(len(frame)+1)]
			}
			if random.IntN(8) != 0 {
				broken = append(broken, frame)
			}
		}
		if len(broken) == 0 {
			continue
		}
		require.NoError(t, push.SendFrames(deadline(t), broken))
		require.NoError(t, push.SendFrames(deadline(t), [][]byte{[]byte("ZIO0TEXT"), make([]byte, 24)}))
		if got, err := pull.Recv(deadline(t)); err == nil {
			got.Close()
		} else {
			refused++
		}
		got := must.Do(pull.Recv(deadline(t)))(t)
		require.Equal(t, "TEXT", string(got.Form[:]))
		got.Close()
	}
	assert.Greater(t, refused, rounds/2)
}

// A REP must answer before it can receive, even if the request was refused.
func TestARefusedRequestDoesNotStopAServer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	rep := newSocket(t, c, zeromq.Rep, zeromq.Linger(0))
	must.Do(rep.Bind("inproc://server"))(t)
	client := func() *zeromq.Socket {
		req := newSocket(t, c, zeromq.Req, zeromq.Linger(0))
		require.NoError(t, req.Connect("inproc://server"))
		return req
	}
	bad, good := client(), client()
	x := numbers(t, 1<<16)
	defer x.Close()
	for name, refuse := range map[string]func() error{
		"not a message": func() error {
			require.NoError(t, bad.SendFrames(deadline(t), [][]byte{[]byte("garbage")}))
			_, err := rep.Recv(deadline(t))
			return err
		},
		"too large": func() error {
			require.NoError(t, bad.SendTensors(deadline(t), []*dlpack.Tensor{x}))
			_, err := rep.Recv(deadline(t), zeromq.Limit(1000))
			return err
		},
	} {
		for next, answer := range map[string]func(){
			"Recv": func() {},
			"Poll": func() {
				must.Do(zeromq.Poll(deadline(t), rep))(t)
			},
			"Send": func() { require.NoError(t, rep.SendFrames(deadline(t), [][]byte{[]byte("refused")})) },
		} {
			t.Run(name+", then "+next, func(t *testing.T) {
				require.Error(t, refuse())
				require.NoError(t, good.SendTensors(deadline(t), []*dlpack.Tensor{x}))
				answer()
				got := must.Do(rep.Recv(deadline(t)))(t)
				requireNumbers(t, got.Tensors[0], 1<<16)
				got.Close()
				_, err := rep.RecvFrames(deadline(t))
				require.ErrorContains(t, err, "in turns", "a request that was not refused is not answered")
				require.NoError(t, rep.SendFrames(deadline(t), [][]byte{[]byte("done")}))
				frames := must.Do(good.RecvFrames(deadline(t)))(t)
				require.Equal(t, "done", string(frames[0]))
				if next == "Send" {
					frames := must.Do(bad.RecvFrames(deadline(t)))(t)
					require.Equal(t, [][]byte{[]byte("refused")}, frames)
				} else {
					_, err = bad.Recv(deadline(t))
					require.Error(t, err, "an empty frame is not a message")
				}
			})
		}
	}
}

// All invalid vectors, and frames of random bytes, are refused, and the message after each is received.
func TestInvalidVectorsAndRandomBytesAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	send := func(name string, frames [][]byte, verdict string) {
		require.NoError(t, push.SendFrames(deadline(t), frames))
		require.NoError(t, push.SendFrames(deadline(t), [][]byte{[]byte("ZIO0TEXT"), make([]byte, 24)}))
		got, err := pull.Recv(deadline(t))
		if err == nil {
			require.NotEqual(t, "reject", verdict, name)
			got.Close()
		}
		got, err = pull.Recv(deadline(t))
		require.NoError(t, err, name)
		require.Equal(t, "TEXT", string(got.Form[:]), name)
		got.Close()
	}
	vectors := 0
	for _, v := range readVectors(t, "invalid") {
		frames := v.frames
		if len(frames) == 0 {
			frames = [][]byte{v.single}
		}
		send(v.ID, frames, v.Verdict)
		vectors++
	}
	assert.Greater(t, vectors, 20)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		frames := make([][]byte, 1+random.IntN(4))
		for k := range frames {
			frames[k] = make([]byte, random.IntN(300))
			for at := range frames[k] {
				frames[k][at] = byte(random.Uint32())
			}
		}
		send(fmt.Sprint("random message ", i), frames, "reject")
	}
}

// The vectors were written by ZIO's own implementation.
func TestVectorsArriveAsTheyAre(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pull, push := pair(t, "tcp://127.0.0.1:*", zeromq.Pull, zeromq.Push)
	for _, v := range readVectors(t, "message", "tens", "layout") {
		if v.frames == nil || v.Verdict != "accept" {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			decoded := must.Do(tens.Decode(v.frames))(t)
			m := &zeromq.Message{Message: *decoded}
			require.NoError(t, push.Send(deadline(t), m))
			frames := must.Do(pull.RecvFrames(deadline(t)))(t)
			assert.Equal(t, v.frames, frames)

			require.NoError(t, m.Pack())
			require.NoError(t, push.Send(deadline(t), m))
			m.Close()
			frames = must.Do(pull.RecvFrames(deadline(t)))(t)
			require.Len(t, frames, 1)
			assert.Equal(t, v.Encoded.SHA256, fmt.Sprintf("%x", sha256.Sum256(frames[0])))

			for _, sent := range [][][]byte{v.frames, frames} {
				require.NoError(t, push.SendFrames(deadline(t), sent))
				got, err := pull.Recv(deadline(t))
				if err != nil { // a message of the form TENS whose label does not describe tensors
					_, refused := decoded.DecodeLabel()
					require.Equal(t, refused, err)
					continue
				}
				back := must.Do(got.Frames())(t)
				require.Len(t, back, len(v.frames))
				for i := range back {
					assert.True(t, slices.Equal(v.frames[i], back[i]))
				}
				got.Close()
			}
		})
	}
}

// connected returns a receiving socket, and n connected peers with their addresses.
func connected(t testing.TB, kind zeromq.Type, n int) (s *zeromq.Socket, peers []*zeromq.Socket, addresses []string) {
	c := newContext(t)
	from := map[zeromq.Type]zeromq.Type{zeromq.Sub: zeromq.Pub, zeromq.Router: zeromq.Dealer, zeromq.Rep: zeromq.Req, zeromq.Pull: zeromq.Push,
		zeromq.Dealer: zeromq.Dealer}[kind]
	s = newSocket(t, c, kind, zeromq.Linger(0))
	if kind == zeromq.Sub {
		require.NoError(t, s.Set(zeromq.Subscribe("")))
	}
	for i := range n {
		peers = append(peers, newSocket(t, c, from, zeromq.Linger(0), zeromq.RoutingID([]byte{'A' + byte(i)})))
		address := must.Do(peers[i].Bind("tcp://127.0.0.1:*"))(t)
		require.NoError(t, s.Connect(address))
		addresses = append(addresses, address)
		if kind == zeromq.Sub {
			subscribed(t, peers[i], s)
		}
	}
	return s, peers, addresses
}

// subscribed waits until the subscriptions of subs have arrived at pub. No message is left. It does not wait for a time without messages,
// because on a busy machine a message may arrive later.
func subscribed(t testing.TB, pub *zeromq.Socket, subs ...*zeromq.Socket) {
	for _, sub := range subs {
		waitFor(t, "no subscription", func() bool {
			require.NoError(t, pub.SendFrames(deadline(t), [][]byte{[]byte("hello")}))
			return received(sub)
		})
	}
	require.NoError(t, pub.SendFrames(deadline(t), [][]byte{[]byte("last")}))
	for _, sub := range subs {
		for string(must.Do(sub.RecvFrames(deadline(t)))(t)[0]) != "last" {
		}
	}
}

// received receives a message, and reports whether there was one.
func received(s *zeromq.Socket) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := s.RecvFrames(ctx)
	return err == nil
}

// When libzmq is asked whether there is a message, SUB, ROUTER and REP fetch its first frame.
func TestAMessageThatPollHasSeenIsReceivedAfterDisconnect(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	large := make([]byte, 1<<16) // stays in libzmq's memory
	for name, kind := range map[string]zeromq.Type{"SUB": zeromq.Sub, "ROUTER": zeromq.Router, "REP": zeromq.Rep} {
		t.Run(name, func(t *testing.T) {
			s, peers, addresses := connected(t, kind, 2)
			message := func(name string) [][]byte { return [][]byte{[]byte(name), []byte("2"), large} }
			require.NoError(t, peers[0].SendFrames(deadline(t), message("A1")))
			must.Do(zeromq.Poll(deadline(t), s))(t)
			require.NoError(t, s.Disconnect(addresses[0]))
			ready := must.Do(zeromq.Poll(deadline(t), s))(t)
			assert.Same(t, s, ready)
			require.NoError(t, peers[1].SendFrames(deadline(t), message("B1")))
			for _, name := range []string{"A", "B"} {
				frames := must.Do(s.RecvFrames(deadline(t)))(t)
				want := message(name + "1")
				if kind == zeromq.Router {
					want = slices.Concat([][]byte{[]byte(name)}, want)
				}
				require.Equal(t, want, frames)
				if kind == zeromq.Rep {
					require.NoError(t, s.SendFrames(deadline(t), [][]byte{nil}))
				}
			}

			require.NoError(t, s.Connect(addresses[0]))
			if kind != zeromq.Rep {
				return // the others are received and limited in the same way
			}
			must.Do(peers[1].RecvFrames(deadline(t)))(t)
			require.NoError(t, peers[1].SendFrames(deadline(t), message("B1")))
			must.Do(zeromq.Poll(deadline(t), s))(t)
			require.NoError(t, s.Disconnect(addresses[1]))
			must.Fail(s.Recv(deadline(t), zeromq.Limit(1000)))(t, zeromq.ErrLimit)
		})
	}
}

// Each Disconnect used to read one more message into memory, even if there was nothing to disconnect.
func TestDisconnectHoldsOneMessage(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for name, kind := range map[string]zeromq.Type{"SUB": zeromq.Sub, "ROUTER": zeromq.Router} {
		t.Run(name, func(t *testing.T) {
			s, peers, addresses := connected(t, kind, 1)
			const messages = 20
			for range messages {
				require.NoError(t, peers[0].SendFrames(deadline(t), [][]byte{[]byte("1"), []byte("2")}))
			}
			for range messages {
				must.Do(zeromq.Poll(deadline(t), s))(t)
				require.ErrorIs(t, s.Disconnect("tcp://127.0.0.1:1"), syscall.ENOENT)
				require.ErrorIs(t, s.Unbind("tcp://127.0.0.1:1"), syscall.ENOENT)
			}
			require.NoError(t, s.Disconnect(addresses[0]))
			must.Do(s.RecvFrames(deadline(t)))(t)
			require.False(t, received(s))
		})
	}
}

// As long as a socket holds a message, libzmq must not fetch the first frame of another message, because its connection
// may then end.
func TestARouterThatHoldsAMessageSendsAndFetchesNoOther(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	router := newSocket(t, c, zeromq.Router, zeromq.Mandatory(), zeromq.SendHighWater(1), zeromq.Linger(0))
	peers := map[string]*zeromq.Socket{}
	for _, id := range []string{"A", "B"} {
		peers[id] = newSocket(t, c, zeromq.Dealer, zeromq.RoutingID([]byte(id)), zeromq.ReceiveHighWater(1), zeromq.Linger(0))
		must.Do(peers[id].Bind("inproc://holds" + id))(t)
		require.NoError(t, router.Connect("inproc://holds"+id))
	}
	message := [][]byte{[]byte("1"), []byte("2")}
	require.NoError(t, peers["A"].SendFrames(deadline(t), message))
	_, err := zeromq.Poll(deadline(t), router)
	require.NoError(t, err)
	require.ErrorIs(t, router.Disconnect("inproc://none"), syscall.ENOENT)
	require.NoError(t, peers["B"].SendFrames(deadline(t), message))
	sent := 0
	for ; err == nil; sent++ { // until A is full
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		err = router.SendFrames(ctx, [][]byte{[]byte("A"), nil})
		cancel()
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	const more = 300
	var sending sync.WaitGroup
	sending.Go(func() {
		for range more {
			assert.NoError(t, router.SendFrames(deadline(t), [][]byte{[]byte("A"), nil}))
		}
	})
	untilItWaits()
	for range sent - 1 + more { // the last one did not fit
		must.Do(peers["A"].RecvFrames(deadline(t)))(t)
	}
	sending.Wait()
	require.NoError(t, router.Disconnect("inproc://holdsB"))
	frames := must.Do(router.RecvFrames(deadline(t)))(t)
	require.Equal(t, slices.Concat([][]byte{[]byte("A")}, message), frames)
	require.False(t, received(router))
}

// libzmq would accept the answer, because Disconnect has received the request, and the next request would be an error.
func TestAREPDoesNotAnswerARequestThatNobodyHasReceived(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	rep, clients, _ := connected(t, zeromq.Rep, 1)
	require.NoError(t, clients[0].SendFrames(deadline(t), [][]byte{[]byte("request")}))
	must.Do(zeromq.Poll(deadline(t), rep))(t)
	for range 2 {
		require.ErrorIs(t, rep.Disconnect("tcp://127.0.0.1:1"), syscall.ENOENT)
		require.ErrorContains(t, rep.SendFrames(deadline(t), [][]byte{[]byte("early")}), "zeromq: send: REQ and REP send and receive in turns: ")
		must.Do(zeromq.Poll(deadline(t), rep))(t)
	}
	frames := must.Do(rep.RecvFrames(deadline(t)))(t)
	require.Equal(t, [][]byte{[]byte("request")}, frames)
	require.NoError(t, rep.SendFrames(deadline(t), [][]byte{[]byte("answer")}))
	frames = must.Do(clients[0].RecvFrames(deadline(t)))(t)
	require.Equal(t, [][]byte{[]byte("answer")}, frames)
}

// Close frees a message that Disconnect has received and that no call has taken.
func TestCloseFreesAMessageThatNobodyHasReceived(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	s, peers, addresses := connected(t, zeromq.Router, 1)
	x := numbers(t, 1<<16)
	require.NoError(t, peers[0].SendTensors(deadline(t), []*dlpack.Tensor{x}))
	require.NoError(t, x.Close())
	must.Do(zeromq.Poll(deadline(t), s))(t)
	require.NoError(t, s.Disconnect(addresses[0]))
	require.NoError(t, s.Close())
}

// A SUB changes its publisher while another goroutine receives.
func TestDisconnectTearsNoMessage(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	s, peers, addresses := connected(t, zeromq.Sub, 2)
	require.NoError(t, s.Disconnect(addresses[1]))
	ctx, cancel := context.WithCancel(deadline(t))
	var all sync.WaitGroup
	for i, peer := range peers {
		all.Go(func() {
			for ctx.Err() == nil {
				frame := fmt.Append(nil, i)
				assert.NoError(t, peer.SendFrames(context.Background(), [][]byte{frame, frame, frame}))
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	all.Go(func() {
		for {
			frames, err := s.RecvFrames(ctx)
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
				return
			}
			if !assert.Len(t, frames, 3) || !assert.Equal(t, frames[0], frames[1]) || !assert.Equal(t, frames[1], frames[2]) {
				return
			}
		}
	})
	for i := range 200 {
		require.NoError(t, s.Connect(addresses[(i+1)%2]))
		require.NoError(t, s.Disconnect(addresses[i%2]))
		time.Sleep(2 * time.Millisecond)
	}
	cancel()
	all.Wait()
}

// A receiver does not wait forever for the rest of a message, whatever libzmq has lost.
func TestATornMessageIsDropped(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	s, peers, addresses := connected(t, zeromq.Router, 1)
	zeromq.FetchesNothing(s)
	require.NoError(t, peers[0].SendFrames(deadline(t), [][]byte{[]byte("1"), []byte("2")}))
	must.Do(zeromq.Poll(deadline(t), s))(t)
	require.NoError(t, s.Disconnect(addresses[0]))
	time.Sleep(200 * time.Millisecond) // libzmq takes the connection away
	zeromq.Poll(expired(), s)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	frames, err := s.RecvFrames(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Nil(t, frames)
}

// expired returns a context that has ended.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A request that is cut because its peer disconnects is sent again to the next peer.
func TestARequestIsSentAgainWhenItsPeerGoesInTheMiddle(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := newContext(t)
	request := make([][]byte, 30000)
	for i := range request {
		request[i] = []byte{byte(i)}
	}
	for i := range 40 {
		name := fmt.Sprint("inproc://cut", i)
		req := newSocket(t, c, zeromq.Req, zeromq.Linger(0))
		must.Do(req.Bind(name))(t)
		first := newSocket(t, c, zeromq.Rep, zeromq.Linger(0))
		require.NoError(t, first.Connect(name))
		var going sync.WaitGroup
		going.Go(func() {
			time.Sleep(time.Duration(i) * 200 * time.Microsecond)
			assert.NoError(t, first.Close())
		})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		err := req.SendFrames(ctx, request)
		cancel()
		going.Wait()
		if err == nil { // libzmq accepted the request before the peer disconnected
			require.NoError(t, req.Close())
			continue
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = req.RecvFrames(deadline(t))
		require.ErrorContains(t, err, "zeromq: receive: REQ and REP send and receive in turns: ")
		var sending sync.WaitGroup
		sending.Go(func() { assert.NoError(t, req.SendFrames(deadline(t), request)) })
		untilItWaits()
		next := newSocket(t, c, zeromq.Rep, zeromq.Linger(0))
		require.NoError(t, next.Connect(name))
		for range 2 {
			frames := must.Do(next.RecvFrames(deadline(t)))(t)
			require.Equal(t, request, frames)
			sending.Wait()
			require.ErrorContains(t, req.SendFrames(deadline(t), request), "zeromq: send: REQ and REP send and receive in turns: ")
			require.NoError(t, next.SendFrames(deadline(t), [][]byte{[]byte("answer")}))
			frames = must.Do(req.RecvFrames(deadline(t)))(t)
			require.Equal(t, [][]byte{[]byte("answer")}, frames)
			require.NoError(t, req.SendFrames(deadline(t), request))
		}
		require.NoError(t, req.Close())
		require.NoError(t, next.Close())
	}
}
