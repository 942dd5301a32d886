//go:build cgo

package dlpack_test

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// warm exports a tensor so often that blocks are reused.
func warm(t testing.TB, tensor *dlpack.Tensor) {
	t.Helper()
	for range 200 {
		dlpack.Release(export(t, tensor))
	}
}

func TestExportsOfOneTensorUseABlockAgainAfter64Others(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, elements := range []int{0, 1, 1000} {
		tensor := fromSlice(t, make([]float32, elements))
		last := map[unsafe.Pointer]int{}
		blocks := dlpack.Blocks()
		for i := range 1000 {
			m := export(t, tensor)
			if before, used := last[m]; used {
				require.GreaterOrEqual(t, i-before, 64)
			}
			last[m] = i
			dlpack.Release(m)
		}
		if !dlpack.Debugging {
			assert.Less(t, dlpack.Blocks()-blocks, 4*dlpack.Quarantine, "blocks are used again")
		}
		require.NoError(t, tensor.Close())
	}
}

func TestBlocksThatAreUsedAgainSayWhatTheTensorSays(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	tensor := fromSlice(t, data, 2, 3)
	defer tensor.Close()
	for i := range 300 {
		m := export(t, tensor)
		v := dlpacktest.Read(m)
		require.Equal(t, uintptr(unsafe.Pointer(&data[0])), v.Data)
		require.Equal(t, []int64{2, 3}, v.Shape)
		require.Equal(t, []int64{3, 1}, v.Strides)
		require.Zero(t, v.Flags)
		if i%3 == 0 {
			dlpacktest.Scribble(m) // a consumer may write to all of it
		}
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		legacy := must.Do(tensor.ExportLegacy())(t)
		require.Equal(t, []int64{2, 3}, dlpacktest.ReadLegacy(legacy).Shape)
		dlpacktest.DeleteLegacyOnThreads([]unsafe.Pointer{legacy}, 1)
	}
}

func TestASecondDeleteIsIgnoredForThe64ExportsAfterIt(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1})
	warm(t, tensor)
	dlpack.Trim()
	before := dlpack.ReadStats().DoubleDeletes
	m := export(t, tensor)
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	dlpack.Release(m)
	held := make([]unsafe.Pointer, 60)
	for i := range held {
		held[i] = export(t, tensor)
		require.NotEqual(t, m, held[i])
	}
	dlpack.Release(m)
	dlpacktest.DeleteOnThreads(held, 2)
	tensor.Close()
	dlpack.Release(m)
	assert.Equal(t, before+4, dlpack.ReadStats().DoubleDeletes)
}

func TestTheLastDeleterAfterCloseGivesTheMemoryBack(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	tensor := must.Do(dlpack.Import(p.Managed()))(t)
	warm(t, tensor)
	held := []unsafe.Pointer{export(t, tensor), export(t, tensor)}
	require.NoError(t, tensor.Close())
	assert.Zero(t, p.Deletes(), "two are alive")
	must.Fail(tensor.Export())(t, dlpack.ErrClosed)
	dlpacktest.DeleteOnThreads(held[:1], 1)
	assert.Zero(t, p.Deletes())
	dlpacktest.DeleteOnThreads(held[1:], 1)
	assert.Equal(t, 1, p.Deletes(), "the last deleter gives the memory back, there and then")

	p = dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	tensor = must.Do(dlpack.Import(p.Managed()))(t)
	warm(t, tensor)
	require.NoError(t, tensor.Close())
	assert.Equal(t, 1, p.Deletes(), "nothing is kept for another export once the tensor is closed")
}

func TestForgottenMemoryIsNotKeptByItsFormerExports(t *testing.T) {
	repotest.Forgets(t)
	before := dlpack.ReadStats()
	collected := make(chan bool, 1)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	func() {
		data := new([4096]float32)
		runtime.AddCleanup(data, func(bool) { collected <- true }, true)
		warm(t, fromSlice(t, data[:]))
		tensor := must.Do(dlpack.Import(p.Managed()))(t)
		warm(t, tensor)
	}()
	collectUntil(t, func() bool {
		return len(collected) == 1 && dlpack.ReadStats().Forgotten > before.Forgotten && p.Deletes() > 0
	})
	assert.Equal(t, 1, p.Deletes())
	now := dlpack.ReadStats()
	assert.Equal(t, before.Exports, now.Exports)
	assert.Equal(t, before.Imports, now.Imports)
}

func TestManyExportsOfOneTensor(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2})
	for range 3 {
		var held []unsafe.Pointer
		seen := map[unsafe.Pointer]bool{}
		for range 1000 {
			m := export(t, tensor)
			require.False(t, seen[m], "each is another")
			seen[m] = true
			held = append(held, m)
		}
		assert.EqualValues(t, 1000, dlpack.ReadStats().Exports)
		dlpacktest.DeleteOnThreads(held, 4)
		assert.Zero(t, dlpack.ReadStats().Exports)
		dlpack.Reap()
		assert.Zero(t, dlpack.Pinned())
	}
	tensor.Close()
}

// All of these run at the same time: exports on several goroutines, deleters on Go's and on foreign threads, calls of
// Reap that unpin the tensor, and Close.
func TestExportsOfOneTensorMeetItsClose(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	for round := range 50 {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3}})
		imported := must.Do(dlpack.Import(p.Managed()))(t)
		tensors := []*dlpack.Tensor{imported, fromSlice(t, []float32{1, 2, 3})}
		var all sync.WaitGroup
		for g := range 6 {
			all.Go(func() {
				for i := 0; ; i++ {
					var held []unsafe.Pointer
					for _, tensor := range tensors {
						m, err := tensor.Export()
						if err != nil {
							assert.ErrorIs(t, err, dlpack.ErrClosed)
							for _, m := range held {
								dlpack.Release(m)
							}
							return
						}
						assert.Equal(t, []int64{3}, dlpacktest.Read(m).Shape)
						held = append(held, m)
					}
					if g%2 == 0 && i%50 == 0 {
						dlpacktest.DeleteOnThreads(held, 2)
					} else {
						for _, m := range held {
							dlpack.Release(m)
						}
					}
					if g == 0 && i%20 == 0 {
						dlpack.Reap()
					}
				}
			})
		}
		time.Sleep(time.Duration(round%10) * 200 * time.Microsecond)
		for _, tensor := range tensors {
			tensor.Close()
		}
		all.Wait()
		require.Equal(t, 1, p.Deletes())
	}
}
