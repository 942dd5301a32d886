//go:build cgo

package tensorflow_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// varints is the largest ratio of the memory of elements to that of their varints: a varint of one byte may be an element of eight
// bytes.
const varints = 8

// readMessage calls every function that decodes a protocol buffer, with each of the limits.
func readMessage(t testing.TB, data []byte, limits ...int64) {
	for _, limit := range limits {
		limited := tensorflow.Limit(limit)
		for _, options := range [][]tensorflow.DecodeOption{{limited}, {limited, tensorflow.Lenient()}} {
			amplification.Require(t, len(data), amplification.Variable, uint64(limit), func() func() {
				if view, err := tensorflow.DecodeView(data, options...); err == nil && view.DType.DataType() == 0 {
					view.AsElements()
				}
				return nil
			})
			decodeBoth(t, data, limit, options)
			decodeBoth(t, data, limit, append(options, tensorflow.Integers(), tensorflow.Align(64)))
		}
	}
	for _, read := range []func(){
		func() { tensorflow.DecodeShape(data) },
		func() { tensorflow.DecodeSlice(data) },
		func() { tensorflow.DecodeDescription(data) },
		func() { tensorflow.DecodeVariant(data) },
	} {
		amplification.Require(t, len(data), amplification.Variable, 0, func() func() { read(); return nil })
	}
}

// decodeBoth decodes a message in Go memory and in C memory.
func decodeBoth(t testing.TB, data []byte, limit int64, options []tensorflow.DecodeOption) {
	row, err := dlpack.FromSlice(data)
	require.NoError(t, err)
	defer row.Close()
	for _, read := range []func() (tensorflow.Value, error){
		func() (tensorflow.Value, error) { return tensorflow.Decode(data, options...) },
		func() (tensorflow.Value, error) { return tensorflow.DecodeFrom(row, options...) },
	} {
		value, err := read()
		bound := uint64(amplification.Variable)
		if err == nil && value.Elements == nil {
			bound = amplification.Fixed
			if size := value.Tensor.DType().ItemSize(); value.Copied && size > 4 && value.DType != tensorflow.Double {
				bound = varints
			}
		}
		require.NoError(t, value.Close())
		amplification.Require(t, len(data), bound, uint64(limit), func() func() {
			value, err := read()
			if errors.Is(err, tensorflow.ErrLimit) {
				return nil
			}
			return func() { value.Close() }
		})
	}
}

func TestMessagesTakeMemoryInProportionToTheirBytes(t *testing.T) {
	testmode.SkipLong(t)
	for name, data := range amplification.TensorProtos() {
		t.Run(name, func(t *testing.T) {
			readMessage(t, data, 1<<16)
			if !testing.Short() {
				decodeBoth(t, data, 64<<20, nil)
			}
		})
	}
}

// The limit counts all memory of the elements, and not only their bytes.
func TestTheLimitCountsWhatIsMadeOfQuantisedNumbers(t *testing.T) {
	const count = 1 << 16
	for dtype, size := range map[tensorflow.DType]int64{
		tensorflow.QInt8: 1, tensorflow.QUInt8: 1, tensorflow.QInt16: 2, tensorflow.QUInt16: 2, tensorflow.QInt32: 4,
	} {
		data := amplification.TensorProto(byte(dtype), count, amplification.Field(7, []byte{1}))
		_, err := tensorflow.DecodeView(data, tensorflow.Limit(count*(24+size)-1))
		assert.ErrorIs(t, err, tensorflow.ErrLimit, "%v", dtype)
		view, err := tensorflow.DecodeView(data, tensorflow.Limit(count*(24+size)))
		require.NoError(t, err)
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
	data := amplification.TensorProto(byte(tensorflow.String), 1000, amplification.Field(8, []byte("first")), amplification.Field(8, []byte("last")))
	value, err := tensorflow.Decode(data)
	require.NoError(t, err)
	for i, got := range value.Elements.Values[1:] {
		require.Equal(t, address(value.Elements.Values[1]), address(got), "%d", i)
	}
	data[bytes.Index(data, []byte("last"))] = 'L'
	assert.Equal(t, "Last", string(value.Elements.Values[999]))
}

// FuzzAmplification: decoding any message takes at most a fixed multiple of its size, and the limit.
func FuzzAmplification(f *testing.F) {
	testmode.SkipLong(f)
	for _, m := range manifests(f) {
		for _, v := range m.Tensors {
			data := m.File(f, v.File)
			f.Add(data, uint16(0), uint16(0), uint16(0))
			for at := 0; at < min(len(data), 64); { // the records that it begins with, each many times
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
	for _, data := range amplification.TensorProtos() {
		if len(data) < 4000 {
			f.Add(data, uint16(0), uint16(0), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at, size, repeated uint16) {
		readMessage(t, amplification.Repeat(data, at, size, repeated), 1<<16)
	})
}

// FuzzAmplificationByType is FuzzAmplification for messages that are composed of a type, a number of elements and a repeated record of
// values, most of which are valid.
func FuzzAmplificationByType(f *testing.F) {
	testmode.SkipLong(f)
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
		record := amplification.Field(num%18+1, value)
		records := bytes.Repeat(record, min(int(repeated), (1<<17)/len(record)))
		readMessage(t, amplification.TensorProto(dtype%40, uint64(count), records), 1<<16)
		values := bytes.Repeat(value, min(int(repeated), (1<<17)/(len(value)+1)))
		readMessage(t, amplification.TensorProto(dtype%40, uint64(count), amplification.Field(num%18+1, values)), 1<<16)
	})
}
