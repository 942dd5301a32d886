//go:build cgo

package dlpack_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// A call into C that does nothing, for comparison with the other benchmarks.
func BenchmarkBareCgoCall(b *testing.B) {
	for b.Loop() {
		repotest.CallC()
	}
}

func BenchmarkExportReleaseOfNew1KiB(b *testing.B) { benchmarkNew(b, 256) }
func BenchmarkExportReleaseOfNew1GiB(b *testing.B) { benchmarkNew(b, 1<<28) }

func benchmarkNew(b *testing.B, n int64) {
	t, err := dlpack.New(dlpack.Float32, n)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	benchmarkExport(b, t)
}

func BenchmarkExportReleaseOfSlice(b *testing.B) {
	t, err := dlpack.FromSlice(make([]float32, 1024))
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	benchmarkExport(b, t)
}

func benchmarkExport(b *testing.B, t *dlpack.Tensor) {
	b.ReportAllocs()
	for b.Loop() {
		m, err := t.Export()
		if err != nil {
			b.Fatal(err)
		}
		dlpack.Release(m)
	}
}

func BenchmarkImportClose(b *testing.B) {
	benchmarkImport(b)
}

func BenchmarkImportCloseWithoutNet(b *testing.B) {
	benchmarkImport(b, dlpack.WithoutGuard)
}

// The producer's deleter only counts, so that one managed tensor serves all rounds.
func benchmarkImport(b *testing.B, options ...dlpack.ImportOption) {
	m := dlpacktest.Produce(b, dlpacktest.Config{Shape: []int64{1024}}).Managed()
	b.ReportAllocs()
	for b.Loop() {
		t, err := dlpack.Import(m, options...)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := dlpack.Values[float32](t); err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}

func BenchmarkNewClose(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t, err := dlpack.New(dlpack.Float32, 1024)
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}

// A slice that is exported once: described, exported, closed and released.
func BenchmarkLendSliceOnce(b *testing.B) {
	data := make([]float32, 1024)
	b.ReportAllocs()
	for b.Loop() {
		t, err := dlpack.FromSlice(data, 32, 32)
		if err != nil {
			b.Fatal(err)
		}
		m, err := t.Export()
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
		dlpack.Release(m)
	}
}

// Own is compared with FromBytes and OnRelease. The two take turns in short batches, so that a busy machine slows both.
// Each metric is the median of the batches of one way.
func BenchmarkOwnRelease(b *testing.B) {
	memory := make([]byte, 1024)
	spec := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{256}}
	ways := []struct {
		name string
		make func(release func()) (*dlpack.Tensor, error)
	}{
		{"FromBytes", func(release func()) (*dlpack.Tensor, error) {
			t, err := dlpack.FromBytes(memory, spec)
			if err == nil {
				err = t.OnRelease(release)
			}
			return t, err
		}},
		{"Own", func(release func()) (*dlpack.Tensor, error) { return dlpack.Own(memory, spec, release) }},
	}
	const batch = 300
	times := make([][]time.Duration, len(ways))
	released := make(chan bool)
	for b.Loop() {
		for i, way := range ways {
			start := time.Now()
			for range batch {
				t, err := way.make(func() { released <- true })
				if err != nil {
					b.Fatal(err)
				}
				t.Close()
				<-released
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	for i, way := range ways {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2])/batch, way.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}
