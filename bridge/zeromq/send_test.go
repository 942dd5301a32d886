//go:build cgo

package zeromq

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestSendLooksAtEachTensorOnce(t *testing.T) {
	Need(t)
	c := must.Do(NewContext())(t)
	defer c.Close()
	pull := must.Do(c.NewSocket(Pull))(t)
	must.Do(pull.Bind("inproc://looks"))(t)
	push := must.Do(c.NewSocket(Push))(t)
	require.NoError(t, push.Connect("inproc://looks"))
	const n = 100
	ts := make([]*dlpack.Tensor, n)
	for i := range ts {
		ts[i] = must.Do(dlpack.New(dlpack.Uint8, sendThreshold))(t)
		defer ts[i].Close()
	}
	looks := countLooks(t)
	require.NoError(t, push.SendTensors(context.Background(), ts))
	assert.Equal(t, n, *looks)
	got := must.Do(pull.Recv(context.Background()))(t)
	defer got.Close()
	assert.Equal(t, ts[n-1].Data(), got.Tensors[n-1].Data())
}

// A waiting Send tries again whenever the socket may be ready; for a ROUTER this is each millisecond.
func TestASendThatWaitsCopiesItsFramesOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	Need(t)
	c := must.Do(NewContext())(t)
	defer c.Close()
	push := must.Do(c.NewSocket(Push))(t)
	x := must.Do(dlpack.New(dlpack.Uint8, sendThreshold))(t)
	defer x.Close()
	data, _, err := x.UnsafeBytes()
	require.NoError(t, err)
	var out outbox
	require.NoError(t, out.fill([][]byte{[]byte("small"), data}, []*dlpack.Tensor{x}))
	try := func(want bool) {
		push.mu.Lock()
		defer push.mu.Unlock()
		done := must.Do(out.try(push))(t)
		require.Equal(t, want, done)
	}
	try(false) // there is no peer
	made := out.progress.made
	require.NotZero(t, made)
	try(false)
	require.Equal(t, made, out.progress.made)
	pull := must.Do(c.NewSocket(Pull))(t)
	must.Do(pull.Bind("inproc://once"))(t)
	require.NoError(t, push.Connect("inproc://once"))
	try(true)
	require.Zero(t, out.progress.made)
	out.release()
	frames := must.Do(pull.RecvFrames(context.Background()))(t)
	require.Equal(t, [][]byte{[]byte("small"), data}, frames)
}

// If only the last frame of a request finds no peer, libzmq treats the next frame as the end of this request.
func TestARequestThatWasCutIsEndedBeforeItIsSentAgain(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	Need(t)
	c := must.Do(NewContext())(t)
	defer c.Close()
	req := must.Do(c.NewSocket(Req))(t)
	req.cut = 1 // as zeromq_send leaves it
	var out outbox
	require.NoError(t, out.fill([][]byte{[]byte("request")}))
	defer out.release()
	try := func(want bool) {
		req.mu.Lock()
		defer req.mu.Unlock()
		done := must.Do(out.try(req))(t)
		require.Equal(t, want, done)
	}
	try(false) // there is no peer, not even for the last frame
	require.EqualValues(t, 1, req.cut)
	router := must.Do(c.NewSocket(Router))(t)
	must.Do(router.Bind("inproc://ended"))(t)
	require.NoError(t, req.Connect("inproc://ended"))
	try(true)
	require.Zero(t, req.cut)
	for _, want := range []string{"", "request"} {
		frames := must.Do(router.RecvFrames(context.Background()))(t)
		require.Len(t, frames, 3)
		require.Equal(t, want, string(frames[2]))
		require.NoError(t, router.SendFrames(context.Background(), frames))
	}
	must.Do(req.RecvFrames(context.Background()))(t)
	require.NoError(t, req.SendFrames(context.Background(), [][]byte{nil}), "it is the turn of the REQ again")
}
