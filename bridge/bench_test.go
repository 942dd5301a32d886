//go:build cgo

package bridge_test

import (
	"testing"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/tens"
)

func BenchmarkBareCgoCall(b *testing.B) {
	for b.Loop() {
		repotest.CallC()
	}
}

// three tensors of the given number of floats each
func three(b *testing.B, n int) []*dlpack.Tensor {
	var ts []*dlpack.Tensor
	for range 3 {
		t, err := dlpack.FromSlice(make([]float32, n))
		if err != nil {
			b.Fatal(err)
		}
		ts = append(ts, t)
	}
	return ts
}

func BenchmarkDecodeThree1KiB(b *testing.B)  { benchmarkDecode(b, 256) }
func BenchmarkDecodeThree64MiB(b *testing.B) { benchmarkDecode(b, 16<<20) }

func benchmarkDecode(b *testing.B, n int) {
	msg, _, err := bridge.Encode(three(b, n))
	if err != nil {
		b.Fatal(err)
	}
	frames := msg.Encode()
	b.ReportAllocs()
	for b.Loop() {
		msg, err := tens.Decode(frames)
		if err != nil {
			b.Fatal(err)
		}
		ts, err := bridge.Decode(msg)
		if err != nil {
			b.Fatal(err)
		}
		for _, t := range ts {
			t.Close()
		}
	}
}

func BenchmarkEncodeThree1KiB(b *testing.B)  { benchmarkEncode(b, 256) }
func BenchmarkEncodeThree64MiB(b *testing.B) { benchmarkEncode(b, 16<<20) }

func benchmarkEncode(b *testing.B, n int) {
	ts := three(b, n)
	b.ReportAllocs()
	for b.Loop() {
		msg, _, err := bridge.Encode(ts)
		if err != nil {
			b.Fatal(err)
		}
		if len(msg.Encode()) != 5 {
			b.Fatal("frames")
		}
	}
}
