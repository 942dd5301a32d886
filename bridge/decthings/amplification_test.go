//go:build cgo

package decthings_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/internal/amplification"
)

// long is a tensor of one dimension with n times the same bytes as its elements.
func long(kind decthings.Type, n uint32, element string) []byte {
	head := []byte{byte(kind), 1, 254, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	return append(head, strings.Repeat(element, int(n))...)
}

// sectioned is the same with the length of the section before the elements.
func sectioned(kind decthings.Type, n uint32, element string) []byte {
	data := long(kind, n, element)
	size := len(data) - 7
	return append(append(data[:7:7], 254, byte(size>>24), byte(size>>16), byte(size>>8), byte(size)), data[7:]...)
}

// hostileTensors take more memory than others of their size, in one dialect or another.
func hostileTensors() map[string][]byte {
	const n = 100_000
	return map[string][]byte{
		"empty strings":                       long(decthings.String, n, "\x00"),
		"empty binaries":                      long(decthings.Binary, n, "\x00"),
		"empty binaries, in a section":        sectioned(decthings.Binary, n, "\x00"),
		"strings of a byte":                   long(decthings.String, n, "\x01x"),
		"binaries of a byte":                  long(decthings.Binary, n, "\x01x"),
		"images without content":              long(decthings.Image, n, "\x03png"),
		"images of two formats":               long(decthings.Image, n, "\x03png\x03jpg"),
		"images without format":               sectioned(decthings.Image, n, "\x01\x00"),
		"images with and without format":      sectioned(decthings.Image, n, "\x01\x00\x02\x01x"),
		"images in a section":                 sectioned(decthings.Audio, n, "\x03mp3"),
		"more strings than there are":         append(long(decthings.String, n, "\x00"), 0)[:n],
		"a string that is no text at the end": append(long(decthings.String, n, "\x00")[:n+6], 1, 0xff),
		"numbers that are not aligned":        long(decthings.F64, n, "12345678"),
		"booleans":                            long(decthings.Boolean, n, "\x01"),
		"numbers that are said to be there":   append([]byte{byte(decthings.F64), 1, 255}, "\x00\x00\x00\x0f1234"...),
		"as many dimensions as there can be":  append([]byte{byte(decthings.U8), 255}, bytes.Repeat([]byte{1}, 256)...),
		"scalars, one after another":          bytes.Repeat([]byte{byte(decthings.U8), 0, 1}, 1000),
		"many dimensions, one after another":  bytes.Repeat(append([]byte{byte(decthings.U8), 255}, bytes.Repeat([]byte{1}, 256)...), 100),
		"dimensions of nine bytes":            append([]byte{byte(decthings.String), 255}, bytes.Repeat([]byte{255, 0x7f, 0, 0, 0, 0, 0, 0, 1}, 255)...),
	}
}

// readTensor goes through all that reads a tensor.
func readTensor(t testing.TB, data []byte) {
	row, err := dlpack.FromSlice(data)
	require.NoError(t, err)
	defer row.Close()
	for _, dialect := range []decthings.Dialect{decthings.Doc, decthings.Py004, decthings.Rs015} {
		for _, options := range [][]decthings.DecodeOption{{decthings.In(dialect)}, {decthings.In(dialect), decthings.Align(64)}} {
			for _, read := range []func() (decthings.Value, int, error){
				func() (decthings.Value, int, error) { return decthings.Consume(data, options...) },
				func() (decthings.Value, int, error) { return decthings.ConsumeOf(row, options...) },
			} {
				bound := uint64(amplification.Variable)
				value, n, err := read()
				if err != nil {
					n = len(data)
				} else if value.Tensor != nil {
					bound = amplification.Fixed
				}
				require.NoError(t, value.Close())
				amplification.Require(t, n, bound, 0, func() func() {
					value, _, _ := read()
					return func() { value.Close() }
				})
			}
		}
		r := decthings.NewReader(bytes.NewReader(data), dialect)
		amplification.Require(t, len(data), amplification.Fixed, 0, func() func() {
			r.Next()
			return nil
		})
	}
}

func TestTensorsTakeMemoryInProportionToTheirBytes(t *testing.T) {
	for name, data := range hostileTensors() {
		t.Run(name, func(t *testing.T) { readTensor(t, data) })
	}
}

// FuzzAmplification: whatever a tensor says, reading it takes a bounded multiple of its size.
func FuzzAmplification(f *testing.F) {
	for _, m := range vectors(f)[:1] {
		for _, v := range m.Tensors {
			for _, file := range v.Files {
				data := m.read(f, file)
				f.Add(data, uint16(0), uint16(0), uint16(0))
				f.Add(data, uint16(len(data)/2), uint16(len(data)), uint16(100))
			}
		}
		for _, v := range m.Malformed {
			f.Add(m.read(f, v.File), uint16(0), uint16(0), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		readTensor(t, amplification.Repeat(data, at, size, times))
	})
}

// FuzzAmplificationByType: the same of tensors that are made of a type, a number of elements, and an element that is
// repeated, so that most of them are read.
func FuzzAmplificationByType(f *testing.F) {
	for kind := decthings.F32; kind <= decthings.Video; kind++ {
		f.Add(byte(kind), uint32(40_000), "\x00")
		f.Add(byte(kind), uint32(10_000), "\x01x")
		f.Add(byte(kind), uint32(10_000), "\x03pngx")
		f.Add(byte(kind), uint32(1_000), "12345678")
	}
	f.Fuzz(func(t *testing.T, kind byte, n uint32, element string) {
		n %= 1 << 17 / (uint32(len(element)) + 1)
		readTensor(t, long(decthings.Type(kind%17), n, element))
		readTensor(t, sectioned(decthings.Type(kind%17), n, element))
	})
}

// hostileRules are rules that take more memory than others of their size.
func hostileRules() map[string]string {
	const n = 20_000
	list := func(item string) string { return "[" + strings.Repeat(item+",", n) + item + "]" }
	names := "{"
	for i := range n {
		names += fmt.Sprintf(`"%x":0,`, i)
	}
	return map[string]string{
		"types":       `{"shape":[],"allowedTypes":` + list(`"i8"`) + `}`,
		"shape":       `{"shape":` + list("1") + `,"allowedTypes":[]}`,
		"annotations": `{"shape":[],"allowedTypes":[],"annotations":` + list(`""`) + `}`,
		"names":       names + `"shape":[],"allowedTypes":[]}`,
		"arrays":      strings.Repeat("[", n),
		"nulls":       `{"shape":` + list("null") + `,"allowedTypes":[]}`,
	}
}

func TestRulesTakeMemoryInProportionToTheirText(t *testing.T) {
	for name, text := range hostileRules() {
		t.Run(name, func(t *testing.T) {
			amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
				decthings.ParseRules([]byte(text))
				return nil
			})
		})
	}
}

// FuzzRulesAmplification: the same of rules.
func FuzzRulesAmplification(f *testing.F) {
	for _, text := range hostileRules() {
		f.Add([]byte(text[:min(len(text), 4000)]), uint16(0), uint16(0), uint16(0))
	}
	f.Add([]byte(`{"shape":[1],"allowedTypes":["i8"],"annotations":[]}`), uint16(9), uint16(2), uint16(9000))
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		data = amplification.Repeat(data, at, size, times)
		amplification.Require(t, len(data), amplification.Variable, 0, func() func() {
			decthings.ParseRules(data)
			return nil
		})
	})
}
