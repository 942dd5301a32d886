//go:build cgo

package bridge_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/internal/amplification"
	"github.com/dlbridge/dlbridge/tens"
)

// labelOf is a label of one tensor many times.
func labelOf(n int, tensor string) []byte {
	return []byte(`{"TENS":{"tensors":[` + strings.Repeat(tensor+",", n-1) + tensor + `]}}`)
}

// hostileLabels describe tensors of a part of one byte that take more memory than others of their size.
func hostileLabels() map[string][]byte {
	ones := func(n int) string { return strings.Repeat("1,", n-1) + "1" }
	return map[string][]byte{
		"many tensors on one part":         labelOf(20_000, `{"part":0,"shape":[],"word":1,"dtype":"b"}`),
		"many tensors with a dimension":    labelOf(20_000, `{"part":0,"shape":[1],"word":1,"dtype":"b"}`),
		"many tensors of another type":     labelOf(10_000, `{"part":0,"shape":[],"word":1,"dtype":"V","dlpack":[0,8,1]}`),
		"many tensors of high rank":        labelOf(500, `{"part":0,"shape":[`+ones(256)+`],"word":1,"dtype":"b"}`),
		"many tensors of a middle rank":    labelOf(2000, `{"part":0,"shape":[`+ones(9)+`],"word":1,"dtype":"b"}`),
		"a tensor of too high a rank":      labelOf(1, `{"part":0,"shape":[`+ones(100_000)+`],"word":1,"dtype":"b"}`),
		"many tensors, the last one wrong": append(bytes.TrimSuffix(labelOf(20_000, `{"part":0,"shape":[],"word":1,"dtype":"b"}`), []byte("]}}")), `,{"part":0,"shape":[],"word":1,"dtype":"V","dlpack":[]}]}}`...),
	}
}

// readTensors makes tensors of a label and a part of one byte, in Go's memory and in another's.
func readTensors(t testing.TB, label []byte) {
	frames := [][]byte{append([]byte("ZIO0TENS"), label...), make([]byte, tens.HeaderSize), {1}}
	closer := func(ts []*dlpack.Tensor) func() {
		return func() {
			for _, x := range ts {
				x.Close()
			}
		}
	}
	amplification.Require(t, len(label), amplification.Variable, 0, func() func() {
		msg, err := tens.Parse(frames)
		if err != nil {
			return nil
		}
		ts, _ := bridge.Tensors(msg)
		return closer(ts)
	})
	part, err := dlpack.FromSlice(frames[2])
	require.NoError(t, err)
	defer part.Close()
	amplification.Require(t, len(label), amplification.Variable, 0, func() func() {
		msg, err := tens.Parse(frames)
		if err != nil {
			return nil
		}
		what, err := msg.TENS()
		if err != nil {
			return nil
		}
		ts, _ := bridge.TensorsOf(what, []*dlpack.Tensor{part})
		return closer(ts)
	})
}

func TestTensorsTakeMemoryInProportionToTheirLabel(t *testing.T) {
	for name, label := range hostileLabels() {
		t.Run(name, func(t *testing.T) { readTensors(t, label) })
	}
}

// FuzzAmplification: whatever a label says, tensors take a bounded multiple of its size.
func FuzzAmplification(f *testing.F) {
	for _, v := range vectors(f, "tens", "layout") {
		if frames := v.read(f); len(frames) > 0 && len(frames[0]) > 8 {
			label := frames[0][8:]
			at := max(bytes.Index(label, []byte(`,{`)), 0)
			f.Add(label, uint16(at), uint16(60), uint16(1000))
		}
	}
	tensors := labelOf(2, `{"part":0,"shape":[],"word":1,"dtype":"b"}`)
	f.Add(tensors, uint16(bytes.Index(tensors, []byte(`,{`))), uint16(43), uint16(2000))
	f.Fuzz(func(t *testing.T, label []byte, at, size, times uint16) {
		readTensors(t, amplification.Repeat(label, at, size, times))
	})
}
