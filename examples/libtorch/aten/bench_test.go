package aten

import (
	"testing"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/examples/libtorch/aten/naive"
)

// BenchmarkImport is the way of a Go slice to libtorch and back: made a tensor of libtorch's, and freed. The ways
// take turns in short batches; each reports its fastest one.
func BenchmarkImport(b *testing.B) {
	data := make([]float32, 1024)
	kept, err := dlpack.FromSlice(data)
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	free := func(x *Tensor, err error) {
		if err != nil {
			b.Fatal(err)
		}
		x.Close()
	}
	ways := []struct {
		name string
		run  func()
	}{
		{"ns/empty_call", dlpacktest.Nothing},
		{"ns/naive", func() { free(take(naive.Export(data))) }},
		{"ns/tensor", func() { free(From(kept)) }},
		{"ns/slice", func() {
			t, err := dlpack.FromSlice(data)
			if err != nil {
				b.Fatal(err)
			}
			free(From(t))
			t.Close()
		}},
		{"ns/libtorch", nil},
	}
	// libtorch's own part: a managed tensor that is there already, and whose deleter does nothing.
	still := dlpacktest.Produce(b, dlpacktest.Config{Major: 1, Minor: 3, Shape: []int64{1024}, Strides: []int64{1}, NullDeleter: true})
	ways[4].run = func() { free(take(still.Managed())) }
	fastest := make([]time.Duration, len(ways))
	const batch = 200
	for b.Loop() {
		for i, way := range ways {
			start := time.Now()
			for range batch {
				way.run()
			}
			if took := time.Since(start); fastest[i] == 0 || took < fastest[i] {
				fastest[i] = took
			}
		}
	}
	for i, way := range ways {
		b.ReportMetric(float64(fastest[i])/batch, way.name)
	}
	b.ReportMetric(float64(fastest[2])/float64(fastest[1]), "tensor/naive")
	b.ReportMetric(float64(fastest[3])/float64(fastest[1]), "slice/naive")
	b.ReportMetric(0, "ns/op")
}
