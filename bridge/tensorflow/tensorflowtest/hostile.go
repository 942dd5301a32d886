// Package tensorflowtest is for tests. It has named TensorProto messages that need much memory for their size.
package tensorflowtest

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// The data types of TensorFlow that TensorProtos uses.
const (
	float, double, int32Type, stringType, int64Type, qint8, qint32, resource, variant = 1, 2, 3, 7, 9, 11, 13, 20, 21
)

// TensorProto returns a TensorProto message with one dimension of size count, and with further fields.
func TensorProto(dtype byte, count uint64, fields ...[]byte) []byte {
	shape := binary.AppendUvarint([]byte{1 << 3}, count)
	dim := append([]byte{2<<3 | 2, byte(len(shape))}, shape...)
	return append(append([]byte{1 << 3, dtype, 2<<3 | 2, byte(len(dim))}, dim...), bytes.Join(fields, nil)...)
}

// Field returns a length-delimited field of a protocol buffer message.
func Field(number byte, value []byte) []byte {
	tag := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(tag, uint64(len(value))), value...)
}

func times(n int, piece string) []byte { return []byte(strings.Repeat(piece, n)) }

// TensorProtos returns TensorProto messages by name, one for each way of storing elements that could make a decoder allocate far
// more than the message has bytes. Some of them are refused.
func TensorProtos() map[string][]byte {
	const n = 100_000
	return map[string][]byte{
		"14 bytes, quantised":                TensorProto(qint8, 64<<20, Field(7, []byte{1})),
		"14 bytes, quantised, 32 bits":       TensorProto(qint32, 16<<20),
		"14 bytes, int64":                    TensorProto(int64Type, 8<<20, Field(10, []byte{1})),
		"one string for 2.7 million":         TensorProto(stringType, 2_700_000, Field(8, times(1<<16, "x"))),
		"more strings than are allowed":      TensorProto(stringType, 2_800_000, Field(8, nil)),
		"no variant for 2.7 million":         TensorProto(variant, 2_700_000),
		"a resource for 2.7 million":         TensorProto(resource, 2_700_000, Field(14, []byte("r"))),
		"empty strings":                      TensorProto(stringType, n, times(n, "\x42\x00")),
		"empty strings in content":           TensorProto(stringType, n, Field(4, make([]byte, n))),
		"strings of a byte in content":       TensorProto(stringType, n, Field(4, append(times(n, "\x01"), times(n, "x")...))),
		"quantised in content":               TensorProto(qint8, n, Field(4, times(n, "x"))),
		"quantised varints":                  TensorProto(qint32, n, Field(7, times(n, "\x01"))),
		"quantised varints, one by one":      TensorProto(qint32, n, times(n, "\x38\x01")),
		"int64 varints":                      TensorProto(int64Type, n, Field(10, times(n, "\x01"))),
		"int64 varints, one by one":          TensorProto(int64Type, n, times(n, "\x50\x01")),
		"int64 varints in two fields":        TensorProto(int64Type, 2*n, Field(10, times(n, "\x01")), Field(10, times(n, "\x01"))),
		"int32 varints in two fields":        TensorProto(int32Type, 2*n, Field(7, times(n, "\x01")), Field(7, times(n, "\x01"))),
		"floats one by one":                  TensorProto(float, n, times(n, "\x2d1234")),
		"floats one by one, one left out":    TensorProto(float, n+1, times(n, "\x2d1234")),
		"floats in fields of two":            TensorProto(float, 2*n, times(n, "\x2a\x0812345678")),
		"doubles one by one":                 TensorProto(double, n, times(n, "\x3112345678")),
		"content in the wrong place":         append([]byte{0}, TensorProto(double, n, Field(4, times(n, "12345678")))...),
		"content that is not aligned":        TensorProto(double, n, Field(4, times(n, "12345678"))),
		"a field that is empty many times":   TensorProto(float, 1, times(n, "\x2a\x00"), Field(5, []byte("1234"))),
		"unknown fields":                     TensorProto(float, 1, times(n, "\xa0\x06\x01"), Field(5, []byte("1234"))),
		"groups":                             TensorProto(float, 1, times(n, "\xa3\x06\xa4\x06"), Field(5, []byte("1234"))),
		"content many times":                 TensorProto(float, 1, times(n, "\x22\x041234")),
		"shapes many times":                  TensorProto(float, 1, times(n, "\x12\x00"), Field(5, []byte("1234"))),
		"dimensions":                         TensorProto(float, 1, times(252, "\x12\x04\x12\x02\x08\x01"), Field(5, []byte("1234"))),
		"more dimensions than are allowed":   TensorProto(float, 1, Field(2, times(n, "\x12\x02\x08\x01"))),
		"values of other types":              TensorProto(float, 1, times(n, "\x42\x00"), Field(5, []byte("1234"))),
		"too many values":                    TensorProto(qint8, 1, Field(7, times(n, "\x01"))),
		"too many strings":                   TensorProto(stringType, 1, times(n, "\x42\x00")),
		"variants":                           TensorProto(variant, 1, Field(15, Field(3, Field(3, times(n, "\x1a\x00"))))),
		"tensors of a variant":               times(n, "\x1a\x00"),
		"a name of a variant, many times":    times(1000, "\x0a\x64"+strings.Repeat("x", 100)),
		"a name of an allocator, many times": Field(4, times(1000, "\x1a\x64"+strings.Repeat("x", 100))),
		"extents of a slice":                 times(n, "\x0a\x00"),
		"dimensions of a shape":              times(n, "\x12\x00"),
	}
}
