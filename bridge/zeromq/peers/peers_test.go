//go:build cgo

package peers

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pure "github.com/go-zeromq/zmq4"
	pebbe "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }

var sizes = []int{0, 1, 62, 63, 64, 1000, 20000, 1 << 18}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// message returns a message of a vector of n numbers and of its reverse.
func message(t testing.TB, n int) (m *zeromq.Message, closeAll func()) {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	x := must.Do(dlpack.FromSlice(values))(t)
	y := must.Do(x.Flip(0))(t)
	m = must.Do(zeromq.Encode([]*dlpack.Tensor{x, y}, bridge.Metadata([]byte(`{"run":7}`))))(t)
	m.Seqno = uint64(n)
	return m, func() { x.Close(); y.Close(); m.Close() }
}

// endpoints are the endpoints that go-zeromq fully supports; its inproc loses frames of more than 255 bytes.
func endpoints(t testing.TB) map[string]string {
	return map[string]string{"tcp": "tcp://127.0.0.1:*", "ipc": "ipc://" + filepath.Join(t.TempDir(), "s")}
}

func TestGoZeromqReceivesAndSends(t *testing.T) {
	for transport, endpoint := range endpoints(t) {
		t.Run(transport, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			c := must.Do(zeromq.NewContext())(t)
			defer c.Close()
			ours := must.Do(c.NewSocket(zeromq.Pair, zeromq.Linger(0)))(t)
			address := must.Do(ours.Bind(endpoint))(t)
			theirs := pure.NewPair(deadline(t))
			defer theirs.Close()
			require.NoError(t, theirs.Dial(address))
			for _, n := range sizes {
				m, closeAll := message(t, n)
				frames := must.Do(m.Frames())(t)

				require.NoError(t, ours.Send(deadline(t), m))
				received := must.Do(theirs.Recv())(t)
				requireFrames(t, frames, received.Frames)
				decoded := must.Do(zeromq.Decode(received.Frames))(t)
				requireTensors(t, decoded, n)
				decoded.Close()

				require.NoError(t, theirs.SendMulti(pure.NewMsgFrom(frames...)))
				got := must.Do(ours.Recv(deadline(t)))(t)
				requireTensors(t, got, n)
				got.Close()

				require.NoError(t, m.Pack())
				packed := must.Do(m.Frames())(t)
				require.NoError(t, theirs.Send(pure.NewMsg(slices.Clone(packed[0]))))
				got = must.Do(ours.Recv(deadline(t)))(t)
				requireTensors(t, got, n)
				got.Close()
				closeAll()
			}
		})
	}
}

func TestPebbeReceivesAndSends(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c := must.Do(zeromq.NewContext())(t)
	defer c.Close()
	ours := must.Do(c.NewSocket(zeromq.Pair, zeromq.Linger(0)))(t)
	address := must.Do(ours.Bind("tcp://127.0.0.1:*"))(t)
	theirs := must.Do(pebbe.NewSocket(pebbe.PAIR))(t)
	defer theirs.Close()
	require.NoError(t, theirs.Connect(address))
	for _, n := range sizes {
		m, closeAll := message(t, n)
		frames := must.Do(m.Frames())(t)
		require.NoError(t, ours.Send(deadline(t), m))
		received := must.Do(theirs.RecvMessageBytes(0))(t)
		requireFrames(t, frames, received)
		must.Do(theirs.SendMessage(frames))(t)
		got := must.Do(ours.Recv(deadline(t)))(t)
		requireTensors(t, got, n)
		got.Close()
		closeAll()
	}
}

// The packed form is the form of CZMQ's zmsg_encode.
func TestCZMQHasTheSameSinglePartForm(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, n := range sizes {
		m, closeAll := message(t, n)
		frames := must.Do(m.Frames())(t)
		frames = slices.Clone(frames)
		for i := range frames {
			frames[i] = slices.Clone(frames[i])
		}
		require.NoError(t, m.Pack())
		packed := must.Do(m.Frames())(t)
		assert.True(t, slices.Equal(packed[0], encode(frames)))
		decoded, err := decode(packed[0])
		if n > 0 { // CZMQ refuses a message whose last frame is empty
			require.NoError(t, err)
			requireFrames(t, frames, decoded)
		}
		got := must.Do(zeromq.Decode([][]byte{encode(frames)}))(t)
		requireTensors(t, got, n)
		got.Close()
		closeAll()
	}
}

func requireFrames(t testing.TB, want, got [][]byte) {
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, slices.Equal(want[i], got[i]), "frame %d", i)
	}
}

func requireTensors(t testing.TB, m *zeromq.Message, n int) {
	require.EqualValues(t, n, m.Seqno)
	label := must.Do(m.DecodeLabel())(t)
	require.Equal(t, `{"run":7}`, string(label.Metadata))
	require.Len(t, m.Tensors, 2)
	for k, x := range m.Tensors {
		y := must.Do(x.Copy())(t)
		require.NoError(t, dlpack.Use(y, func(values []float32) error {
			require.Len(t, values, n)
			for i, v := range values {
				if k == 1 {
					i = n - 1 - i
				}
				if v != float32(i) {
					require.Equal(t, float32(i), v)
				}
			}
			return nil
		}))
		y.Close()
	}
}
