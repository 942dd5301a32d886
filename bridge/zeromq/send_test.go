//go:build cgo && zmq

package zeromq

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestSendLooksAtEachTensorOnce(t *testing.T) {
	c, err := NewContext()
	require.NoError(t, err)
	defer c.Close()
	pull, err := c.NewSocket(Pull)
	require.NoError(t, err)
	_, err = pull.Bind("inproc://looks")
	require.NoError(t, err)
	push, err := c.NewSocket(Push)
	require.NoError(t, err)
	require.NoError(t, push.Connect("inproc://looks"))
	const n = 100
	ts := make([]*dlpack.Tensor, n)
	for i := range ts {
		ts[i], err = dlpack.New(dlpack.Uint8, sendThreshold)
		require.NoError(t, err)
		defer ts[i].Close()
	}
	looks := countLooks(t)
	require.NoError(t, push.SendTensors(context.Background(), ts))
	assert.Equal(t, n, *looks)
	got, err := pull.Recv(context.Background())
	require.NoError(t, err)
	defer got.Close()
	assert.Equal(t, ts[n-1].Data(), got.Tensors[n-1].Data())
}

// A Send that waits tries again whenever the socket may be ready, which for a ROUTER is each millisecond.
func TestASendThatWaitsCopiesItsFramesOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c, err := NewContext()
	require.NoError(t, err)
	defer c.Close()
	push, err := c.NewSocket(Push)
	require.NoError(t, err)
	x, err := dlpack.New(dlpack.Uint8, sendThreshold)
	require.NoError(t, err)
	defer x.Close()
	data, _, err := x.UnsafeBytes()
	require.NoError(t, err)
	var out outbox
	require.NoError(t, out.fill([][]byte{[]byte("small"), data}, []*dlpack.Tensor{x}))
	try := func(want bool) {
		push.mu.Lock()
		defer push.mu.Unlock()
		done, err := out.try(push)
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	try(false) // there is no peer
	made := out.progress.made
	require.NotZero(t, made)
	try(false)
	require.Equal(t, made, out.progress.made)
	pull, err := c.NewSocket(Pull)
	require.NoError(t, err)
	_, err = pull.Bind("inproc://once")
	require.NoError(t, err)
	require.NoError(t, push.Connect("inproc://once"))
	try(true)
	require.Zero(t, out.progress.made)
	out.release()
	frames, err := pull.RecvFrames(context.Background())
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("small"), data}, frames)
}

// The last frame of a request may be the one that finds no peer. libzmq then takes the next frame for the end of this request.
func TestARequestThatWasCutIsEndedBeforeItIsSentAgain(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	c, err := NewContext()
	require.NoError(t, err)
	defer c.Close()
	req, err := c.NewSocket(Req)
	require.NoError(t, err)
	req.cut = 1 // as zeromq_send leaves it
	var out outbox
	require.NoError(t, out.fill([][]byte{[]byte("request")}))
	defer out.release()
	try := func(want bool) {
		req.mu.Lock()
		defer req.mu.Unlock()
		done, err := out.try(req)
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	try(false) // there is no peer, not even for the end
	require.EqualValues(t, 1, req.cut)
	router, err := c.NewSocket(Router)
	require.NoError(t, err)
	_, err = router.Bind("inproc://ended")
	require.NoError(t, err)
	require.NoError(t, req.Connect("inproc://ended"))
	try(true)
	require.Zero(t, req.cut)
	for _, want := range []string{"", "request"} {
		frames, err := router.RecvFrames(context.Background())
		require.NoError(t, err)
		require.Len(t, frames, 3)
		require.Equal(t, want, string(frames[2]))
		require.NoError(t, router.SendFrames(context.Background(), frames))
	}
	_, err = req.RecvFrames(context.Background())
	require.NoError(t, err)
	require.NoError(t, req.SendFrames(context.Background(), [][]byte{nil}), "it is the turn of the REQ again")
}
