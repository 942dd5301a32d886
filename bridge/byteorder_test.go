//go:build cgo

package bridge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// G27: elements are little-endian in the format. On a big-endian machine there is an error; bytes are never swapped silently.
func TestG27BigEndianMachinesRefuseElementsOfMoreThanAByte(t *testing.T) {
	assert.True(t, payload.LittleEndian, "the machines that run this are little-endian")
	payload.LittleEndian = false
	defer func() { payload.LittleEndian = true }()
	for word, refused := range map[int]bool{1: false, 2: true, 4: true, 8: true} {
		msg := &tens.Message{Parts: [][]byte{make([]byte, 8)}}
		require.NoError(t, msg.EncodeLabel(&tens.Label{Tensors: []tens.Tensor{{Shape: []int64{int64(8 / word)}, Word: word, DType: 'i'}}}))
		ts, err := Decode(msg)
		if refused {
			assert.ErrorIs(t, err, elements.ErrByteOrder)
		} else {
			require.NoError(t, err)
			ts[0].Close()
		}
		out, err := dlpack.FromBytes(make([]byte, 8), dlpack.Spec{
			DType: dlpack.MakeDataType(dlpack.CodeInt, uint8(8*word), 1), Shape: []int64{int64(8 / word)},
		})
		require.NoError(t, err)
		_, _, err = Encode([]*dlpack.Tensor{out})
		assert.Equal(t, refused, err != nil)
		out.Close()
	}
}
