//go:build cgo

package tensorflow_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/internal/amplification"
)

// varints is how many times the memory of a field of varints its elements may take: one of one byte may be an
// element of eight.
const varints = 8

// message is a TensorProto of one dimension, with fields as they are given.
func message(dtype tensorflow.DType, count int64, fields ...[]byte) []byte {
	shape := protowire.AppendVarint([]byte{1 << 3}, uint64(count))
	dim := protowire.AppendBytes([]byte{2<<3 | 2}, shape)
	out := protowire.AppendBytes([]byte{1 << 3, byte(dtype), 2<<3 | 2}, dim)
	return append(out, bytes.Join(fields, nil)...)
}

func field(num byte, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(num), protowire.BytesType), value)
}

func times(n int, piece string) []byte { return []byte(strings.Repeat(piece, n)) }

// hostileMessages take more memory than others of their size.
func hostileMessages() map[string][]byte {
	const n = 100_000
	all := map[string][]byte{
		"14 bytes, quantised":                message(tensorflow.QInt8, 64<<20, field(7, []byte{1})),
		"14 bytes, quantised, 32 bits":       message(tensorflow.QInt32, 16<<20),
		"14 bytes, int64":                    message(tensorflow.Int64, 8<<20, field(10, []byte{1})),
		"one string for 2.7 million":         message(tensorflow.String, 2_700_000, field(8, times(1<<16, "x"))),
		"more strings than are allowed":      message(tensorflow.String, 2_800_000, field(8, nil)),
		"no variant for 2.7 million":         message(tensorflow.Variant, 2_700_000),
		"a resource for 2.7 million":         message(tensorflow.Resource, 2_700_000, field(14, []byte("r"))),
		"empty strings":                      message(tensorflow.String, n, times(n, "\x42\x00")),
		"empty strings in content":           message(tensorflow.String, n, field(4, make([]byte, n))),
		"strings of a byte in content":       message(tensorflow.String, n, field(4, append(times(n, "\x01"), times(n, "x")...))),
		"quantised in content":               message(tensorflow.QInt8, n, field(4, times(n, "x"))),
		"quantised varints":                  message(tensorflow.QInt32, n, field(7, times(n, "\x01"))),
		"quantised varints, one by one":      message(tensorflow.QInt32, n, times(n, "\x38\x01")),
		"int64 varints":                      message(tensorflow.Int64, n, field(10, times(n, "\x01"))),
		"int64 varints, one by one":          message(tensorflow.Int64, n, times(n, "\x50\x01")),
		"int64 varints in two fields":        message(tensorflow.Int64, 2*n, field(10, times(n, "\x01")), field(10, times(n, "\x01"))),
		"int32 varints in two fields":        message(tensorflow.Int32, 2*n, field(7, times(n, "\x01")), field(7, times(n, "\x01"))),
		"floats one by one":                  message(tensorflow.Float, n, times(n, "\x2d1234")),
		"floats one by one, one left out":    message(tensorflow.Float, n+1, times(n, "\x2d1234")),
		"floats in fields of two":            message(tensorflow.Float, 2*n, times(n, "\x2a\x0812345678")),
		"doubles one by one":                 message(tensorflow.Double, n, times(n, "\x3112345678")),
		"content in the wrong place":         append([]byte{0}, message(tensorflow.Double, n, field(4, times(n, "12345678")))...),
		"content that is not aligned":        message(tensorflow.Double, n, field(4, times(n, "12345678"))),
		"a field that is empty many times":   message(tensorflow.Float, 1, times(n, "\x2a\x00"), field(5, []byte("1234"))),
		"unknown fields":                     message(tensorflow.Float, 1, times(n, "\xa0\x06\x01"), field(5, []byte("1234"))),
		"groups":                             message(tensorflow.Float, 1, times(n, "\xa3\x06\xa4\x06"), field(5, []byte("1234"))),
		"content many times":                 message(tensorflow.Float, 1, times(n, "\x22\x041234")),
		"shapes many times":                  message(tensorflow.Float, 1, times(n, "\x12\x00"), field(5, []byte("1234"))),
		"dimensions":                         message(tensorflow.Float, 1, times(252, "\x12\x04\x12\x02\x08\x01"), field(5, []byte("1234"))),
		"more dimensions than are allowed":   message(tensorflow.Float, 1, field(2, times(n, "\x12\x02\x08\x01"))),
		"values of other types":              message(tensorflow.Float, 1, times(n, "\x42\x00"), field(5, []byte("1234"))),
		"too many values":                    message(tensorflow.QInt8, 1, field(7, times(n, "\x01"))),
		"too many strings":                   message(tensorflow.String, 1, times(n, "\x42\x00")),
		"variants":                           message(tensorflow.Variant, 1, field(15, field(3, field(3, times(n, "\x1a\x00"))))),
		"tensors of a variant":               times(n, "\x1a\x00"),
		"a name of a variant, many times":    times(1000, "\x0a\x64"+strings.Repeat("x", 100)),
		"a name of an allocator, many times": field(4, times(1000, "\x1a\x64"+strings.Repeat("x", 100))),
		"extents of a slice":                 times(n, "\x0a\x00"),
		"dimensions of a shape":              times(n, "\x12\x00"),
	}
	return all
}

// readMessage goes through all that reads a protocol buffer, with each of the limits.
func readMessage(t testing.TB, data []byte, limits ...int64) {
	for _, limit := range limits {
		limited := tensorflow.Limit(limit)
		for _, options := range [][]tensorflow.DecodeOption{{limited}, {limited, tensorflow.Lenient()}} {
			amplification.Require(t, len(data), amplification.Variable, uint64(limit), func() func() {
				if view, err := tensorflow.Parse(data, options...); err == nil && view.DType.DataType() == 0 {
					view.AsElements()
				}
				return nil
			})
			decodeBoth(t, data, limit, options)
			decodeBoth(t, data, limit, append(options, tensorflow.Integers(), tensorflow.Align(64)))
		}
	}
	for _, read := range []func(){
		func() { tensorflow.ParseShape(data) },
		func() { tensorflow.ParseSlice(data) },
		func() { tensorflow.ParseDescription(data) },
		func() { tensorflow.ParseVariant(data) },
	} {
		amplification.Require(t, len(data), amplification.Variable, 0, func() func() { read(); return nil })
	}
}

// decode reads a message in Go's memory and in C's.
func decodeBoth(t testing.TB, data []byte, limit int64, options []tensorflow.DecodeOption) {
	row, err := dlpack.FromSlice(data)
	require.NoError(t, err)
	defer row.Close()
	for _, read := range []func() (tensorflow.Value, error){
		func() (tensorflow.Value, error) { return tensorflow.Decode(data, options...) },
		func() (tensorflow.Value, error) { return tensorflow.DecodeOf(row, options...) },
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
	for name, data := range hostileMessages() {
		t.Run(name, func(t *testing.T) { readMessage(t, data, 1<<16, tensorflow.DefaultLimit) })
	}
}

// The limit counts what is made of elements, and not only their own bytes.
func TestTheLimitCountsWhatIsMadeOfQuantisedNumbers(t *testing.T) {
	const count = 1 << 16
	for dtype, size := range map[tensorflow.DType]int64{
		tensorflow.QInt8: 1, tensorflow.QUInt8: 1, tensorflow.QInt16: 2, tensorflow.QUInt16: 2, tensorflow.QInt32: 4,
	} {
		data := message(dtype, count, field(7, []byte{1}))
		_, err := tensorflow.Parse(data, tensorflow.Limit(count*(24+size)-1))
		assert.ErrorIs(t, err, tensorflow.ErrLimit, "%v", dtype)
		view, err := tensorflow.Parse(data, tensorflow.Limit(count*(24+size)))
		require.NoError(t, err)
		assert.Len(t, view.AsElements().Values, count)

		_, err = tensorflow.Decode(data, tensorflow.Limit(count*size-1), tensorflow.Integers())
		assert.ErrorIs(t, err, tensorflow.ErrLimit, "%v", dtype)
		value, err := tensorflow.Decode(data, tensorflow.Limit(count*size), tensorflow.Integers())
		require.NoError(t, err, "integers have no elements beside their bytes")
		require.NoError(t, value.Close())
	}
}

// Values that repeat the last one are the same bytes of the message.
func TestRepeatedStringsShareTheirBytes(t *testing.T) {
	data := message(tensorflow.String, 1000, field(8, []byte("first")), field(8, []byte("last")))
	value, err := tensorflow.Decode(data)
	require.NoError(t, err)
	for i, got := range value.Elements.Values[1:] {
		require.Equal(t, address(value.Elements.Values[1]), address(got), "%d", i)
	}
	data[bytes.Index(data, []byte("last"))] = 'L'
	assert.Equal(t, "Last", string(value.Elements.Values[999]))
}

// FuzzAmplification: whatever a message says, reading it takes a bounded multiple of its size and the limit.
func FuzzAmplification(f *testing.F) {
	m := vectors(f)
	for _, v := range m.Tensors {
		data := m.read(f, v.File)
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
		f.Add(m.read(f, v.File), uint16(0), uint16(0), uint16(0))
	}
	for _, data := range hostileMessages() {
		if len(data) < 4000 {
			f.Add(data, uint16(0), uint16(0), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at, size, repeated uint16) {
		readMessage(t, amplification.Repeat(data, at, size, repeated), 1<<16)
	})
}

// FuzzAmplificationByType: the same of messages that are made of a type, a number of elements, and a record of
// values that is repeated, so that most of them are read.
func FuzzAmplificationByType(f *testing.F) {
	for dtype := tensorflow.Float; dtype <= tensorflow.Float4E2M1FN; dtype++ {
		f.Add(byte(dtype), uint32(1000), byte(4), []byte("1"), uint16(1000))
		f.Add(byte(dtype), uint32(1<<20), byte(7), []byte("\x01"), uint16(1))
		f.Add(byte(dtype), uint32(3<<20), byte(8), []byte(""), uint16(1))
		f.Add(byte(dtype), uint32(1<<16), byte(15), []byte(""), uint16(40000))
	}
	f.Fuzz(func(t *testing.T, dtype byte, count uint32, num byte, value []byte, repeated uint16) {
		record := field(num%18+1, value)
		records := bytes.Repeat(record, min(int(repeated), (1<<17)/len(record)))
		readMessage(t, message(tensorflow.DType(dtype%40), int64(count), records), 1<<16)
		values := bytes.Repeat(value, min(int(repeated), (1<<17)/(len(value)+1)))
		readMessage(t, message(tensorflow.DType(dtype%40), int64(count), field(num%18+1, values)), 1<<16)
	})
}
