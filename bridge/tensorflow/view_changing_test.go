package tensorflow_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// A changer is an elements.Sink that changes the message after its values were checked and before they are read, as
// another thread may.
type changer struct{ change func() }

func (c changer) Memory(size int) ([]byte, error) {
	c.change()
	return make([]byte, size), nil
}

func (c changer) Begin(string, []int64, int, bool) error {
	c.change()
	return nil
}

func (changer) Take([][]byte, []string) {}

func TestMessagesThatChangeWhileTheyAreReadAreRefused(t *testing.T) {
	varints := message(tensorflow.Int32, 2)
	varints = protowire.AppendBytes(protowire.AppendTag(varints, 7, protowire.BytesType), []byte{0x81, 0x01, 0x82, 0x01})
	texts := message(tensorflow.String, 2)
	texts = protowire.AppendBytes(protowire.AppendTag(texts, 4, protowire.BytesType), []byte{1, 2, 'a', 'b', 'c'})
	for _, tt := range []struct {
		name string
		data []byte
		from int // counted from the end
		to   []byte
		want error
	}{
		{"a varint has no end", varints, 2, []byte{0x82, 0x82}, tensorflow.ErrWire},
		{"a length has no end", texts, 5, bytes.Repeat([]byte{0x80}, 5), elements.ErrSize},
		{"a length is too long", texts, 4, []byte{3}, elements.ErrSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := bytes.Clone(tt.data)
			must.Do(tensorflow.DecodeViewTo(changer{func() {}}, data))(t)
			_, err := tensorflow.DecodeViewTo(changer{func() { copy(data[len(data)-tt.from:], tt.to) }}, data)
			var fault *elements.Error
			require.ErrorAs(t, err, &fault)
			assert.ErrorIs(t, err, tt.want)
			assert.LessOrEqual(t, fault.Offset, int64(len(data)))
		})
	}
}

// message returns the beginning of the TensorProto of a vector.
func message(dtype tensorflow.DType, count uint64) []byte {
	dim := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), count)
	shape := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), dim)
	data := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(dtype))
	return protowire.AppendBytes(protowire.AppendTag(data, 2, protowire.BytesType), shape)
}
