//go:build cgo

package tensorflow_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/bridge/tensorflow/tensorflowtest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// The limit counts all memory of the elements, and not only their bytes.
func TestTheLimitCountsWhatIsMadeOfQuantisedNumbers(t *testing.T) {
	const count = 1 << 16
	for dtype, size := range map[tensorflow.DType]int64{
		tensorflow.QInt8: 1, tensorflow.QUInt8: 1, tensorflow.QInt16: 2, tensorflow.QUInt16: 2, tensorflow.QInt32: 4,
	} {
		data := tensorflowtest.TensorProto(byte(dtype), count, tensorflowtest.Field(7, []byte{1}))
		_, err := tensorflow.DecodeView(data, tensorflow.Limit(count*(24+size)-1))
		assert.ErrorIs(t, err, tensorflow.ErrLimit, "%v", dtype)
		view := must.Do(tensorflow.DecodeView(data, tensorflow.Limit(count*(24+size))))(t)
		assert.Len(t, view.AsElements().Values, count)

		_, err = tensorflow.Decode(data, tensorflow.Limit(count*size-1), tensorflow.Integers())
		assert.ErrorIs(t, err, tensorflow.ErrLimit, "%v", dtype)
		value, err := tensorflow.Decode(data, tensorflow.Limit(count*size), tensorflow.Integers())
		require.NoError(t, err, "integers have no elements beside their bytes")
		require.NoError(t, value.Close())
	}
}

// Values that repeat the last one alias the same bytes of the message.
func TestRepeatedStringsShareTheirBytes(t *testing.T) {
	data := tensorflowtest.TensorProto(byte(tensorflow.String), 1000, tensorflowtest.Field(8, []byte("first")), tensorflowtest.Field(8, []byte("last")))
	value := must.Do(tensorflow.Decode(data))(t)
	for i, got := range value.Elements.Values[1:] {
		require.Equal(t, address(value.Elements.Values[1]), address(got), "%d", i)
	}
	data[bytes.Index(data, []byte("last"))] = 'L'
	assert.Equal(t, "Last", string(value.Elements.Values[999]))
}

// FuzzAmplification: decoding any message takes at most a fixed multiple of its size, plus the limit.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	for _, m := range manifests(f) {
		for _, v := range m.Tensors {
			data := m.File(f, v.File)
			f.Add(data, uint16(0), uint16(0), uint16(0))
			for at := 0; at < min(len(data), 64); { // each of the first records, repeated many times
				_, _, n := protowire.ConsumeField(data[at:])
				if n < 0 {
					break
				}
				f.Add(data, uint16(at), uint16(n), uint16(3000))
				at += n
			}
		}
		for _, v := range m.Malformed {
			f.Add(m.File(f, v.File), uint16(0), uint16(0), uint16(0))
		}
	}
	for _, data := range tensorflowtest.TensorProtos() {
		if len(data) < 4000 {
			f.Add(data, uint16(0), uint16(0), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at, size, repeated uint16) {
		formats.TensorFlow.Measure(t, amplification.Repeat(data, at, size, repeated), false)
	})
}

// FuzzAmplificationByType is FuzzAmplification for messages made of a type, a number of elements and a repeated record
// of values. Most of them are valid.
func FuzzAmplificationByType(f *testing.F) {
	testmode.SkipMemory(f)
	for dtype := tensorflow.Float; dtype <= tensorflow.Float4E2M1FN; dtype++ {
		f.Add(byte(dtype), uint32(1000), byte(4), []byte("1"), uint16(1000))
		if testing.Short() {
			continue
		}
		f.Add(byte(dtype), uint32(1<<20), byte(7), []byte("\x01"), uint16(1))
		f.Add(byte(dtype), uint32(3<<20), byte(8), []byte(""), uint16(1))
		f.Add(byte(dtype), uint32(1<<16), byte(15), []byte(""), uint16(40000))
	}
	f.Fuzz(func(t *testing.T, dtype byte, count uint32, num byte, value []byte, repeated uint16) {
		record := tensorflowtest.Field(num%18+1, value)
		records := bytes.Repeat(record, min(int(repeated), (1<<17)/len(record)))
		formats.TensorFlow.Measure(t, tensorflowtest.TensorProto(dtype%40, uint64(count), records), false)
		values := bytes.Repeat(value, min(int(repeated), (1<<17)/(len(value)+1)))
		formats.TensorFlow.Measure(t, tensorflowtest.TensorProto(dtype%40, uint64(count), tensorflowtest.Field(num%18+1, values)), false)
	})
}
