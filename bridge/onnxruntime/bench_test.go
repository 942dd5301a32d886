package onnxruntime_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/bridge/onnxruntime"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// BenchmarkInput makes and destroys input values in three ways: by the binding on a Go slice, from tensors in Go
// memory, and from tensors in C memory. The ways take turns in short batches, so that a busy machine slows all of them.
// Each metric is the median of the batches of one way.
func BenchmarkInput(b *testing.B) {
	for _, n := range []int64{16, 1 << 20} {
		data := make([]float32, n)
		inGo := must.Own(dlpack.FromSlice(data))(b)
		inC := must.Own(inGo.Copy())(b)
		ways := []struct {
			name string
			make func() (ort.Value, error)
		}{
			{"binding", func() (ort.Value, error) { return ort.NewTensor(ort.NewShape(n), data) }},
			{"tensor-in-Go", func() (ort.Value, error) { return onnxruntime.Value(inGo) }},
			{"tensor-in-C", func() (ort.Value, error) { return onnxruntime.Value(inC) }},
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const batch = 300
			times := make([][]time.Duration, len(ways))
			for b.Loop() {
				for i, way := range ways {
					start := time.Now()
					for range batch {
						v, err := way.make()
						if err != nil {
							b.Fatal(err)
						}
						v.Destroy()
					}
					times[i] = append(times[i], time.Since(start))
				}
			}
			for i, way := range ways {
				slices.Sort(times[i])
				b.ReportMetric(float64(times[i][len(times[i])/2])/batch, way.name+"-ns")
			}
		})
	}
}

// BenchmarkOutput runs a model whose output has 64 MiB.
func BenchmarkOutput(b *testing.B) {
	x := must.Own(dlpack.FromSlice([]float32{1}))(b)
	inputs := map[string]*dlpack.Tensor{"x": x}
	b.Run("binding", func(b *testing.B) {
		s, err := ort.NewDynamicAdvancedSession(filepath.Join(models, "large.onnx"), []string{"x"}, []string{"y"}, nil)
		require.NoError(b, err)
		defer s.Destroy()
		v := must.Do(onnxruntime.Value(x))(b)
		defer v.Destroy()
		for b.Loop() {
			out := []ort.Value{nil}
			if err := s.Run([]ort.Value{v}, out); err != nil {
				b.Fatal(err)
			}
			out[0].Destroy()
		}
	})
	r := open(b, "large", nil, nil)
	b.Run("made by Run", func(b *testing.B) {
		for b.Loop() {
			outputs := map[string]*dlpack.Tensor{}
			if err := r.Run(inputs, outputs); err != nil {
				b.Fatal(err)
			}
			outputs["y"].Close()
		}
	})
	outputs := map[string]*dlpack.Tensor{"y": must.Own(dlpack.New(dlpack.Float32, 4096, 4096))(b)}
	b.Run("given", func(b *testing.B) {
		for b.Loop() {
			if err := r.Run(inputs, outputs); err != nil {
				b.Fatal(err)
			}
		}
	})
}
