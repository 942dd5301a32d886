//go:build cgo

package decthings_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/decthings/decthingstest"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// A header may announce more bytes than have arrived. A Reader allocates memory only for bytes that have arrived.
func TestReaderTakesMemoryInProportionToWhatHasCome(t *testing.T) {
	testmode.SkipMemory(t)
	for _, come := range []int{0, 1 << 10, 1 << 14, 1 << 16, 1<<20 + 1} {
		for _, said := range []int{131065, 2*come + 30_000, 3*come - 10, 1 << 31} {
			data := append(binary.BigEndian.AppendUint32([]byte{7, 1, 254}, uint32(said)), make([]byte, come)...)
			amplification.Require(t, len(data), 5, 0, func() func() {
				decthings.NewReader(bytes.NewReader(data), decthings.Doc).Next()
				return nil
			})
		}
	}
}

// FuzzAmplification: decoding any tensor takes at most a fixed multiple of its size.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	for _, m := range manifests(f)[:1] {
		for _, v := range m.Tensors {
			for _, file := range v.Files {
				data := m.File(f, file)
				f.Add(data, uint16(0), uint16(0), uint16(0))
				f.Add(data, uint16(len(data)/2), uint16(len(data)), uint16(100))
			}
		}
		for _, v := range m.Malformed {
			f.Add(m.File(f, v.File), uint16(0), uint16(0), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		formats.Decthings.Measure(t, amplification.Repeat(data, at, size, times), false)
	})
}

// FuzzAmplificationByType is FuzzAmplification for tensors made of a type, a number of elements and a repeated element.
// Most of them are valid.
func FuzzAmplificationByType(f *testing.F) {
	testmode.SkipMemory(f)
	for kind := decthings.F32; kind <= decthings.Video; kind++ {
		f.Add(byte(kind), uint32(40_000), "\x00")
		f.Add(byte(kind), uint32(10_000), "\x01x")
		f.Add(byte(kind), uint32(10_000), "\x03pngx")
		f.Add(byte(kind), uint32(1_000), "12345678")
	}
	f.Fuzz(func(t *testing.T, kind byte, n uint32, element string) {
		n %= 1 << 17 / (uint32(len(element)) + 1)
		formats.Decthings.Measure(t, decthingstest.Long(kind%17, n, element), false)
		formats.Decthings.Measure(t, decthingstest.Sectioned(kind%17, n, element), false)
	})
}

// hostileRules returns rules that take much memory for their size.
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
		"no types":    `{"shape":[],"allowedTypes":` + list("0") + `}`,
		"no sizes":    `{"shape":` + list(`""`) + `,"allowedTypes":[]}`,
		"escapes":     `{"shape":[],"allowedTypes":[],"annotations":` + list(`"\n"`) + `}`,
		"nulls":       `{"shape":` + list("null") + `,"allowedTypes":[]}`,
	}
}

func TestRulesTakeMemoryInProportionToTheirText(t *testing.T) {
	testmode.SkipMemory(t)
	for name, text := range hostileRules() {
		t.Run(name, func(t *testing.T) {
			amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
				decthings.DecodeRules([]byte(text))
				return nil
			})
		})
	}
}

// FuzzRulesAmplification is FuzzAmplification for rules.
func FuzzRulesAmplification(f *testing.F) {
	for _, text := range hostileRules() {
		f.Add([]byte(text[:min(len(text), 4000)]), uint16(0), uint16(0), uint16(0))
	}
	f.Add([]byte(`{"shape":[1],"allowedTypes":["i8"],"annotations":[]}`), uint16(9), uint16(2), uint16(9000))
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		data = amplification.Repeat(data, at, size, times)
		amplification.Require(t, len(data), amplification.Variable, 0, func() func() {
			decthings.DecodeRules(data)
			return nil
		})
	})
}
