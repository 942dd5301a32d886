package onnxruntime_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/bridge/onnxruntime"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// A way is one of several ways to do the same.
type way struct {
	name string
	run  func() error
}

// takeTurns runs the ways in turns, in short batches, so that a busy machine slows all of them. Each metric is the median
// of the batches of one way.
func takeTurns(b *testing.B, batch int, ways []way) {
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, w := range ways {
			start := time.Now()
			for range batch {
				if err := w.run(); err != nil {
					b.Fatal(err)
				}
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	for i, w := range ways {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2])/float64(batch), w.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkInput makes and destroys input values in three ways: by the binding on a Go slice, from tensors in Go
// memory, and from tensors in C memory.
func BenchmarkInput(b *testing.B) {
	for _, n := range []int64{16, 1 << 20} {
		data := make([]float32, n)
		inGo := must.Own(dlpack.FromSlice(data))(b)
		inC := must.Own(inGo.Copy())(b)
		destroy := func(v ort.Value, err error) error {
			if err != nil {
				return err
			}
			return v.Destroy()
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			takeTurns(b, 300, []way{
				{"binding", func() error { return destroy(ort.NewTensor(ort.NewShape(n), data)) }},
				{"tensor-in-Go", func() error { return destroy(onnxruntime.Value(inGo)) }},
				{"tensor-in-C", func() error { return destroy(onnxruntime.Value(inC)) }},
			})
		})
	}
}

// BenchmarkOutput runs a model whose output has 64 MiB. The output is copied by the binding, made by Run, or given by
// the caller.
func BenchmarkOutput(b *testing.B) {
	x := must.Own(dlpack.FromSlice([]float32{1}))(b)
	inputs := map[string]*dlpack.Tensor{"x": x}
	v := must.Do(onnxruntime.Value(x))(b)
	defer v.Destroy()
	s := must.Do(ort.NewDynamicAdvancedSession(filepath.Join(models, "large.onnx"), []string{"x"}, []string{"y"}, nil))(b)
	defer s.Destroy()
	r := open(b, "large", nil, nil)
	given := map[string]*dlpack.Tensor{"y": must.Own(dlpack.New(dlpack.Float32, 4096, 4096))(b)}
	takeTurns(b, 1, []way{
		{"binding", func() error {
			out := []ort.Value{nil}
			if err := s.Run([]ort.Value{v}, out); err != nil {
				return err
			}
			return out[0].Destroy()
		}},
		{"made-by-Run", func() error {
			outputs := map[string]*dlpack.Tensor{}
			if err := r.Run(inputs, outputs); err != nil {
				return err
			}
			return outputs["y"].Close()
		}},
		{"given", func() error { return r.Run(inputs, given) }},
	})
}
