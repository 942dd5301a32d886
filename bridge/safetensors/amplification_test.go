//go:build cgo

package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// hostile returns headers and indexes that take much memory for their size.
func hostile() map[string]string {
	const n = 20_000
	list := func(item string) string { return "[" + strings.Repeat(item+",", n) + item + "]" }
	object := func(value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%x":%s,`, i, value)
		}
		return "{" + b.String() + `"":` + value + "}"
	}
	const offsets = `,"data_offsets":[0,0]}`
	return map[string]string{
		"tensors":             object(`{"dtype":"U8","shape":[0]` + offsets),
		"tensors with shapes": object(`{"dtype":"U8","shape":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]` + offsets),
		"no tensors":          object("0"),
		"metadata":            `{"__metadata__":` + object(`""`) + "}",
		"escapes in metadata": `{"__metadata__":` + object(`"\n"`) + "}",
		"shape":               `{"a":{"dtype":"U8","shape":` + list("0") + offsets + "}",
		"offsets":             `{"a":{"data_offsets":` + list("0") + "}}",
		"unknown members":     `{"a":` + object("0") + "}",
		"nested":              `{"a":{"x":` + strings.Repeat("[", n),
		"weights":             `{"weight_map":` + object(`"a"`) + "}",
		"files":               `{"weight_map":` + strings.ReplaceAll(object(`"a"`), `,"8`, `b","8`) + "}",
	}
}

// measure decodes a text as a header and as an index.
func measure(t testing.TB, text []byte) {
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
		safetensors.DecodeFile(file)
		return nil
	})
	amplification.Require(t, len(text), amplification.Variable, 0, func() func() {
		safetensors.DecodeIndex(text)
		return nil
	})
}

func TestHeadersTakeMemoryInProportionToTheirText(t *testing.T) {
	testmode.SkipMemory(t)
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) { measure(t, []byte(text)) })
	}
}

// FuzzAmplification: decoding any header or index takes at most a fixed multiple of its size.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	for _, text := range hostile() {
		f.Add([]byte(text[:min(len(text), 4000)]), uint16(0), uint16(0), uint16(0))
	}
	f.Add([]byte(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`), uint16(31), uint16(2), uint16(9000))
	f.Fuzz(func(t *testing.T, text []byte, at, size, times uint16) {
		measure(t, amplification.Repeat(text, at, size, times))
	})
}
