//go:build cgo

package dlpack_test

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// rounds returns the number of rounds of a stress test: full if DLBRIDGE_STRESS is set, which takes minutes.
func rounds(some, full int) int {
	if os.Getenv("DLBRIDGE_STRESS") != "" {
		return full
	}
	return some
}

// fewer returns n, or a twentieth of n with -short: make test runs fewer rounds of the long tests, make race runs all.
func fewer(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// Four foreign threads read and delete Go's exports of memory of every kind, while other goroutines import
// and close tensors and run the garbage collector.
func TestForeignThreadsDeleteWhileGoIsBusy(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	const batch = 500
	tensors := rounds(fewer(100_000), 1_000_000)

	type exported struct {
		managed []unsafe.Pointer
		sums    []float64
	}
	out := make(chan exported, 4)
	var deleters, busy sync.WaitGroup
	for range 2 { // each with two threads
		deleters.Go(func() {
			for e := range out {
				for i, m := range e.managed {
					if i%4 == 0 {
						assert.Equal(t, e.sums[i], dlpacktest.Sum(m))
					}
				}
				dlpacktest.DeleteOnThreads(e.managed, 2)
			}
		})
	}
	stop := make(chan struct{})
	during := func(work func()) {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					work()
				}
			}
		})
	}
	during(func() {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	})
	var imports atomic.Int64
	during(func() {
		tensor, err := dlpack.Import(dlpacktest.Allocate(256))
		if assert.NoError(t, err) {
			view, err := tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{16, 16}})
			assert.NoError(t, err)
			tensor.Close()
			values, err := dlpack.Values[float32](view)
			assert.NoError(t, err)
			assert.Zero(t, values[0])
			view.Close()
		}
		if imports.Add(1)%64 == 0 {
			dlpack.Reap()
		}
	})

	var shared []*dlpack.Tensor // exported again and again
	own := must.Do(dlpack.New(dlpack.Float32, 4))(t)
	foreign := must.Do(dlpack.Import(dlpacktest.Allocate(4)))(t)
	shared = append(shared, own, foreign, fromSlice(t, make([]float32, 4)))
	for done := 0; done < tensors; done += batch {
		var e exported
		for i := range batch {
			value := float32(done + i)
			var tensor *dlpack.Tensor
			switch i % 5 {
			case 0:
				tensor = fromSlice(t, []float32{value, 0, 0, value})
				e.sums = append(e.sums, float64(2*value))
			case 1:
				tensor = must.Do(dlpack.New(dlpack.Float32, 4))(t)
				e.sums = append(e.sums, 0)
			default:
				tensor = shared[i%5-2]
				e.sums = append(e.sums, 0)
			}
			e.managed = append(e.managed, export(t, tensor))
			if i%5 < 2 {
				tensor.Close()
			}
		}
		out <- e
	}
	close(out)
	deleters.Wait()
	close(stop)
	busy.Wait()
	for _, tensor := range shared {
		tensor.Close()
	}
	t.Logf("%d tensors deleted, %d imported meanwhile", tensors, imports.Load())
}
