//go:build cgo

package drafts

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	pebbe "github.com/pebbe/zmq4/draft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newSocket(t testing.TB, c *zeromq.Context, kind zeromq.Type) *zeromq.Socket {
	return must.Do(c.NewSocket(kind, zeromq.Linger(0), zeromq.SendHighWater(2), zeromq.ReceiveHighWater(2)))(t)
}

// message returns a message of n numbers, all of them value, in the packed form.
func message(t testing.TB, n int, value float64) (m *zeromq.Message, closeAll func()) {
	x := must.Do(dlpack.FromSlice(make([]float64, n)))(t)
	require.NoError(t, dlpack.Use(x, func(data []float64) error {
		for i := range data {
			data[i] = value
		}
		return nil
	}))
	m = must.Do(zeromq.Encode([]*dlpack.Tensor{x}))(t)
	require.NoError(t, m.Pack())
	return m, func() { m.Close(); x.Close() }
}

func requireNumbers(t testing.TB, m *zeromq.Message, n int, value float64) {
	require.Len(t, m.Tensors, 1)
	y := must.Do(m.Tensors[0].Copy())(t)
	defer y.Close()
	require.NoError(t, dlpack.Use(y, func(data []float64) error {
		require.Len(t, data, n)
		for _, v := range data {
			if v != value {
				require.Equal(t, value, v)
			}
		}
		return nil
	}))
}

var sizes = []int{0, 1, 1000, 5000, 1 << 17}

func TestAServerAnswersTheClientThatHasAsked(t *testing.T) {
	for transport, endpoint := range map[string]string{
		"inproc": "inproc://server", "ipc": "ipc://" + filepath.Join(t.TempDir(), "s"), "tcp": "tcp://127.0.0.1:*",
	} {
		for _, first := range []string{"bind", "connect"} {
			if first == "connect" && transport == "tcp" {
				continue // the port does not exist yet
			}
			t.Run(transport+" "+first, func(t *testing.T) {
				dlpacktest.CheckLeaks(t)
				c := must.Do(zeromq.NewContext())(t)
				defer c.Close()
				server, address := newSocket(t, c, zeromq.Server), endpoint
				if first == "bind" {
					address = must.Do(server.Bind(endpoint))(t)
				}
				clients := []*zeromq.Socket{newSocket(t, c, zeromq.Client), newSocket(t, c, zeromq.Client)}
				for _, client := range clients {
					require.NoError(t, client.Connect(address))
				}
				if first == "connect" {
					must.Do(server.Bind(endpoint))(t)
				}
				for _, n := range sizes {
					received := map[uint32]*zeromq.Message{}
					for i, client := range clients {
						m, closeAll := message(t, n, float64(i))
						require.NoError(t, client.Send(deadline(t), m))
						closeAll()
						asked := must.Do(server.Recv(deadline(t)))(t)
						requireNumbers(t, asked, n, float64(i))
						require.Empty(t, asked.Routing)
						received[asked.RoutingID] = asked
					}
					require.Len(t, received, len(clients), "each client has an id of its own")
					require.NotContains(t, received, uint32(0))
					for id, asked := range received {
						require.NoError(t, asked.Pack())
						require.NoError(t, server.Send(deadline(t), asked)) // back to its sender
						asked.Close()
						require.NoError(t, server.SendFrames(deadline(t), [][]byte{[]byte("done")}, zeromq.To(id)))
					}
					for i, client := range clients {
						answer := must.Do(client.Recv(deadline(t)))(t)
						requireNumbers(t, answer, n, float64(i))
						require.Zero(t, answer.RoutingID)
						answer.Close()
						require.Equal(t, [][]byte{[]byte("done")}, must.Do(client.RecvFrames(deadline(t)))(t))
					}
				}
			})
		}
	}
}

// libzmq signals these sockets through another descriptor. No wait may miss a signal, on either side, with full or
// empty queues.
func TestCallsOnClientAndServerWait(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	defer c.Close()
	server, client := newSocket(t, c, zeromq.Server), newSocket(t, c, zeromq.Client)
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	must.Fail(server.Recv(short))(t, context.DeadlineExceeded)
	require.NoError(t, client.Connect(must.Do(server.Bind("tcp://127.0.0.1:*"))(t)))

	const messages, n = 50, 1 << 15 // more than the queues and TCP hold
	sent := make(chan error, 2)
	go func() { // the client sends until its queue is full
		for i := range messages {
			m, closeAll := message(t, n, float64(i))
			err := client.Send(deadline(t), m)
			if closeAll(); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	time.Sleep(20 * time.Millisecond) // now the queue is full
	var id uint32
	for i := range messages {
		got := must.Do(server.Recv(deadline(t)))(t)
		requireNumbers(t, got, n, float64(i))
		id = got.RoutingID
		got.Close()
	}
	require.NoError(t, <-sent)

	go func() { // the server waits for the queue of one client
		for i := range messages {
			m, closeAll := message(t, n, float64(i))
			err := server.Send(deadline(t), m, zeromq.To(id))
			if closeAll(); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	time.Sleep(20 * time.Millisecond)
	for i := range messages {
		ready := must.Do(zeromq.Poll(deadline(t), server, client))(t)
		require.Same(t, client, ready)
		got := must.Do(client.Recv(deadline(t)))(t)
		requireNumbers(t, got, n, float64(i))
		got.Close()
	}
	require.NoError(t, <-sent)

	go func() { sent <- client.SendFrames(deadline(t), [][]byte{[]byte("late")}) }()
	require.Same(t, server, must.Do(zeromq.Poll(deadline(t), client, server))(t))
	require.NoError(t, <-sent)
}

func TestCloseEndsCallsOnAServer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	defer c.Close()
	for range 20 {
		server := newSocket(t, c, zeromq.Server)
		must.Do(server.Bind("tcp://127.0.0.1:*"))(t)
		ended := make(chan error)
		go func() {
			_, err := server.Recv(context.Background())
			ended <- err
		}()
		time.Sleep(time.Millisecond)
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, zeromq.ErrClosed)
	}
}

func TestWhatClientAndServerCannotSendIsRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	defer c.Close()
	server, client := newSocket(t, c, zeromq.Server), newSocket(t, c, zeromq.Client)
	require.NoError(t, client.Connect(must.Do(server.Bind("inproc://refused"))(t)))
	x := must.Do(dlpack.New(dlpack.Float64, 3))(t)
	defer x.Close()
	frames := must.Do(zeromq.Encode([]*dlpack.Tensor{x}))(t)
	defer frames.Close()
	one := [][]byte{[]byte("one")}
	const several = "zeromq: send: CLIENT and SERVER send messages of one frame, not 3; use Encode, or Message.Pack and Send, without Routing: " +
		"Invalid argument"
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"client, several frames": {client.Send(deadline(t), frames), several},
		"server, several frames": {server.Send(deadline(t), frames, zeromq.To(1)), several},
		"client, tensors":        {client.SendTensors(deadline(t), frames.Tensors), several},
		"server, to nobody": {server.SendFrames(deadline(t), one),
			"zeromq: send: a SERVER sends to one CLIENT; set Message.RoutingID, or give the option To: Invalid argument"},
		"server, to a stranger": {server.SendFrames(deadline(t), one, zeromq.To(1)),
			"zeromq: send: no CLIENT with routing id 1 is connected: Host unreachable"},
		"client, with a routing id": {client.SendFrames(deadline(t), one, zeromq.To(1)),
			"zeromq: send: only a SERVER sends to a routing id; Send without the option To: Invalid argument"},
	} {
		assert.EqualError(t, row.err, row.want, name)
	}
	require.ErrorIs(t, client.Send(deadline(t), frames), syscall.EINVAL)
	require.NoError(t, client.SendFrames(deadline(t), one), "nothing of the others was sent")
	_, err := server.Recv(deadline(t))
	require.Error(t, err, "one frame that is no message")
	require.NoError(t, client.SendFrames(deadline(t), one))
	require.Equal(t, one, must.Do(server.RecvFrames(deadline(t)))(t), "the next message arrives")
}

// pebbe/zmq4 binds libzmq independently.
func TestPebbeReceivesAndSendsOnClientAndServer(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	defer c.Close()
	ours := newSocket(t, c, zeromq.Server)
	address := must.Do(ours.Bind("tcp://127.0.0.1:*"))(t)
	theirs := must.Do(pebbe.NewSocket(pebbe.CLIENT))(t)
	defer theirs.Close()
	require.NoError(t, theirs.Connect(address))
	server := must.Do(pebbe.NewSocket(pebbe.SERVER))(t)
	defer server.Close()
	require.NoError(t, server.Bind("tcp://127.0.0.1:*"))
	client := newSocket(t, c, zeromq.Client)
	require.NoError(t, client.Connect(must.Do(server.GetLastEndpoint())(t)))
	for _, n := range sizes {
		m, closeAll := message(t, n, 7)
		frames := must.Do(m.Frames())(t)
		require.Len(t, frames, 1)

		must.Do(theirs.SendBytes(frames[0], 0))(t)
		asked := must.Do(ours.Recv(deadline(t)))(t)
		requireNumbers(t, asked, n, 7)
		m.RoutingID = asked.RoutingID
		asked.Close()
		require.NoError(t, ours.Send(deadline(t), m))
		require.Equal(t, frames[0], must.Do(theirs.RecvBytes(0))(t), fmt.Sprint(n))

		require.NoError(t, client.Send(deadline(t), m), "a CLIENT ignores RoutingID")
		data, options, err := server.RecvBytesWithOpts(0, pebbe.OptRoutingId(0))
		require.NoError(t, err)
		require.Equal(t, frames[0], data)
		must.Do(server.SendBytes(data, 0, options[0]))(t)
		answer := must.Do(client.Recv(deadline(t)))(t)
		requireNumbers(t, answer, n, 7)
		answer.Close()
		closeAll()
	}
}
