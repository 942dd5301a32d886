//go:build cgo

package tensorflow

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// G27: elements are little-endian in the format. On a big-endian machine there is an error; bytes are never swapped silently.
func TestG27BigEndianMachinesRefuseElementsOfMoreThanAByte(t *testing.T) {
	assert.True(t, payload.LittleEndian, "the machines that run this are little-endian")
	payload.LittleEndian = false
	defer func() { payload.LittleEndian = true }()
	for _, dtype := range []DType{UInt8, Bool, Float8E5M2, Int4, Int16, Float, Complex128} {
		refused := dtype.Storage().ItemSize() > 1
		view := View{DType: dtype, Shape: []int64{1}, Data: make([]byte, dtype.Storage().ItemSize())}
		message, err := view.Append(nil)
		require.NoError(t, err)
		v, err := Decode(message)
		if refused {
			assert.ErrorIs(t, err, elements.ErrByteOrder)
		} else {
			require.NoError(t, err)
			v.Close()
		}
		in, err := dlpack.FromBytes(view.Data, dlpack.Spec{DType: dtype.DataType(), Shape: []int64{1}, Padded: true})
		require.NoError(t, err)
		_, err = AppendTensor(nil, in)
		assert.Equal(t, refused, err != nil)
		in.Close()
	}
}
