//go:build cgo

package dlpack_test

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// When deleters have released enough memory, it is unpinned, whatever the program does meanwhile. The benchmarks
// measure the time.
func TestDeadPayloadIsUnpinnedWithoutHelp(t *testing.T) {
	const floats = 1 << 19 // 2 MiB
	everywhere := func(busy func()) (done func()) {
		var stopped atomic.Bool
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for !stopped.Load() {
					busy()
				}
			})
		}
		return func() { stopped.Store(true); all.Wait() }
	}
	programs := []struct {
		name string
		run  func() (done func())
	}{
		{"idle", func() func() { return func() {} }},
		{"computing", func() func() { return everywhere(func() {}) }},
		{"allocating", func() func() { return everywhere(func() { runtime.KeepAlive(make([]byte, 1<<16)) }) }},
		{"without collector", func() func() {
			percent := debug.SetGCPercent(-1)
			return func() { debug.SetGCPercent(percent) }
		}},
	}
	exports := []struct {
		name string
		dead func(t *testing.T) // leaves dead payload and nothing else
	}{
		{"one of each", func(t *testing.T) {
			var batch []unsafe.Pointer
			for range 4 {
				tensor := fromSlice(t, make([]float32, floats))
				batch = append(batch, export(t, tensor))
				tensor.Close()
			}
			dlpacktest.DeleteOnThreads(batch, 2)
		}},
		{"many of one", func(t *testing.T) {
			var batch []unsafe.Pointer
			tensor := fromSlice(t, make([]float32, floats))
			for range 200 {
				batch = append(batch, export(t, tensor))
			}
			dlpacktest.DeleteOnThreads(batch[:100], 2)
			for range 50 {
				batch = append(batch, export(t, tensor))
			}
			tensor.Close()
			dlpacktest.DeleteOnThreads(batch[100:], 2)
		}},
		{"closed last", func(t *testing.T) {
			var batch []unsafe.Pointer
			tensor := fromSlice(t, make([]float32, floats))
			for range 200 {
				batch = append(batch, export(t, tensor))
			}
			dlpacktest.DeleteOnThreads(batch, 2)
			tensor.Close()
		}},
		{"a small view of large memory", func(t *testing.T) {
			tensor := fromSlice(t, make([]float32, floats))
			view, err := tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}})
			assert.NoError(t, err)
			m := export(t, view)
			view.Close()
			tensor.Close()
			dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		}},
	}
	for _, program := range programs {
		for _, e := range exports {
			t.Run(program.name+", "+e.name, func(t *testing.T) {
				dlpacktest.CheckLeaks(t) // reaps
				defer program.run()()
				e.dead(t)
				for deadline := time.Now().Add(30 * time.Second); dlpack.Pinned() > 0 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				assert.Zero(t, dlpack.Pinned(), "nobody exported, collected or reaped")
			})
		}
	}
}
