//go:build cgo

package decthings

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// G27: elements are little-endian in the format. On a big-endian machine there is an error; bytes are never swapped silently.
func TestG27BigEndianMachinesRefuseNumbersOfMoreThanAByte(t *testing.T) {
	assert.True(t, payload.LittleEndian, "the machines that run this are little-endian")
	payload.LittleEndian = false
	defer func() { payload.LittleEndian = true }()
	for what := F32; what.valid(); what++ {
		size := what.DataType().ItemSize()
		if what.DataType() == 0 {
			v, err := Decode([]byte{byte(what), 1, 0})
			require.NoError(t, err)
			assert.Empty(t, v.Elements.Values)
			continue
		}
		data := append([]byte{byte(what), 0}, make([]byte, size)...)
		v, err := Decode(data)
		out, fromErr := dlpack.FromBytes(data[2:], dlpack.Spec{DType: what.DataType()})
		require.NoError(t, fromErr)
		again, appendErr := AppendTensor(nil, out)
		if size > 1 {
			assert.ErrorIs(t, err, elements.ErrByteOrder)
			assert.ErrorIs(t, appendErr, elements.ErrByteOrder)
		} else {
			require.NoError(t, err)
			require.NoError(t, appendErr)
			assert.Equal(t, data, again)
			v.Close()
		}
		out.Close()
	}
}
