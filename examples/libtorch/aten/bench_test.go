package aten

import (
	"slices"
	"testing"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/examples/libtorch/aten/naive"
)

// BenchmarkImport measures how long it takes to make a libtorch tensor over a Go slice and to free it. The
// implementations run in turn, in short batches. The result of each is the median, over all turns, of its fastest
// batch.
func BenchmarkImport(b *testing.B) {
	data := make([]float32, 1024)
	kept, err := dlpack.FromSlice(data)
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	// libtorch's own share: the managed tensor exists already, and its deleter does nothing.
	still := dlpacktest.Produce(b, dlpacktest.Config{Major: 1, Minor: 3, Shape: []int64{1024}, Strides: []int64{1}, NullDeleter: true})
	ways := []struct {
		name string
		run  func()
	}{
		{"empty_call", repotest.CallC},
		{"naive", func() {
			x := naive.Lend(data)
			if x == nil {
				b.Fatal("refused")
			}
			naive.Close(x)
		}},
		{"slice", func() {
			t, err := dlpack.FromSlice(data)
			if err != nil {
				b.Fatal(err)
			}
			x, err := From(t)
			if err != nil {
				b.Fatal(err)
			}
			x.Close()
			t.Close()
		}},
		{"tensor", func() {
			x, err := From(kept)
			if err != nil {
				b.Fatal(err)
			}
			x.Close()
		}},
		{"part", func() {
			x, err := take(still.Managed())
			if err != nil {
				b.Fatal(err)
			}
			x.Close()
		}},
		{"own_import", func() {
			x := naive.Take(still.Managed())
			if x == nil {
				b.Fatal("refused")
			}
			naive.Close(x)
		}},
	}
	const turns, batch = 20, 200
	times := make([][]float64, len(ways))
	for i := range b.N {
		newTurn := i*turns/b.N > (i-1)*turns/b.N || i == 0
		for w, way := range ways {
			start := time.Now()
			for range batch {
				way.run()
			}
			took := float64(time.Since(start)) / batch
			if newTurn {
				times[w] = append(times[w], took)
			}
			last := &times[w][len(times[w])-1]
			*last = min(*last, took)
		}
	}
	ns := map[string]float64{}
	for w, way := range ways {
		slices.Sort(times[w])
		ns[way.name] = times[w][len(times[w])/2]
		b.ReportMetric(ns[way.name], way.name+"-ns")
	}
	b.ReportMetric(ns["slice"]/ns["naive"], "slice/naive")
	b.ReportMetric(ns["tensor"]/ns["naive"], "tensor/naive")
	b.ReportMetric(0, "ns/op")
}
