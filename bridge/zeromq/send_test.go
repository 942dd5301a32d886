//go:build cgo && zmq

package zeromq

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
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
