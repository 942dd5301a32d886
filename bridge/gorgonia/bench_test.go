//go:build cgo

package gorgonia_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
)

// BenchmarkDense wraps memory of three sizes. "By hand" calls gorgonia with the same options: the lower bound.
func BenchmarkDense(b *testing.B) {
	for _, side := range []int{2, 64, 2048} {
		t, err := dlpack.New(dlpack.Float32, int64(side), int64(side))
		require.NoError(b, err)
		defer t.Close()
		memory, err := dlpack.Values[float32](t)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("by hand/%d", side), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(side, side), tensor.WithEngine(tensor.StdEng{}),
					tensor.FromMemory(uintptr(unsafe.Pointer(&memory[0])), uintptr(4*len(memory))))
			}
		})
		b.Run(fmt.Sprintf("wrapped/%d", side), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, release, err := gorgonia.Dense(t)
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
		})
	}
}

// BenchmarkFromDense describes tensors for export.
func BenchmarkFromDense(b *testing.B) {
	for _, side := range []int{2, 64, 2048} {
		d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(side, side))
		require.NoError(b, d.T())
		b.Run(fmt.Sprintf("%d", side), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := gorgonia.FromDense(d)
				if err != nil {
					b.Fatal(err)
				}
				t.Close()
			}
		})
	}
}
