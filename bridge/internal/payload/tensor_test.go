//go:build cgo

package payload_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// Go's allocator would end the process before the elements are found to be out of reach.
func TestElementsThatNoMemoryHasRoomForAreNotWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const size = 1<<47 - 1<<30 // of which there is less to be had, though it could be addressed
	one, err := dlpack.FromSlice([]uint8{1})
	require.NoError(t, err)
	defer one.Close()
	wide, err := one.Broadcast(size)
	require.NoError(t, err)
	defer wide.Close()
	closed, err := one.Broadcast(size)
	require.NoError(t, err)
	closed.Close()
	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: int32(dlpack.CUDA), Shape: []int64{size}, Code: uint8(dlpack.CodeUInt), Bits: 8, Lanes: 1})
	device, err := dlpack.Import(p.Managed())
	require.NoError(t, err)
	defer device.Close()

	for _, tt := range []struct {
		name   string
		tensor *dlpack.Tensor
		want   error
	}{
		{"a byte that is seen often", wide, dlpack.ErrMemory},
		{"memory of a device", device, dlpack.ErrDevice},
		{"a closed tensor", closed, dlpack.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := []byte{1, 2}
			out, err := decthings.AppendTensor(before, tt.tensor)
			assert.ErrorIs(t, err, tt.want)
			assert.ErrorContains(t, err, "decthings: ")
			assert.Equal(t, before, out)
			out, err = tensorflow.AppendTensor(before, tt.tensor)
			assert.ErrorIs(t, err, tt.want)
			assert.ErrorContains(t, err, "tensorflow: ")
			assert.Equal(t, before, out)
			out, err = tensorflow.AppendTensor(before, tt.tensor, tensorflow.Fields())
			assert.ErrorIs(t, err, tt.want)
			assert.Equal(t, before, out)
		})
	}
}
