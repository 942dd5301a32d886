//go:build cgo

package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The address of element (0, ..., 0) is data plus byte_offset, wherever the memory lies.
func TestAlignmentOfDeviceMemoryCountsItsByteOffset(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{
		Shape: []int64{4}, DeviceType: int32(dlpack.CUDA), ByteOffset: 4,
	})
	tensor := must.Own(dlpack.Import(p.Managed()))(t)
	require.Zero(t, tensor.Data()%256, "the data itself is aligned")
	assert.Equal(t, 4, tensor.Alignment())
	assert.NoError(t, tensor.RequireAlign(4))
	err := tensor.RequireAlign(8)
	assert.ErrorIs(t, err, dlpack.ErrUnaligned)
	assert.ErrorContains(t, err, "; Align makes an aligned copy, zeromq.Aligned() receives aligned tensors")
	aligned, copied, err := tensor.Align(4)
	require.NoError(t, err)
	defer aligned.Close()
	assert.False(t, copied)
	_, _, err = tensor.Align(8)
	assert.ErrorIs(t, err, dlpack.ErrDevice, "it cannot be copied")
}
