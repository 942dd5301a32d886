//go:build cgo && linux && !race && !asan

package dlpack_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// The tests measure the memory of the process. They do not run under sanitizers, which keep freed memory.

const floatsPerMiB = 1 << 18

func resident(t *testing.T) int64 {
	statm := must.Do(os.ReadFile("/proc/self/statm"))(t)
	var size, pages int64
	must.Do(fmt.Sscan(string(statm), &size, &pages))(t)
	return pages * int64(os.Getpagesize())
}

// growth runs work n times. It returns the largest growth of the process meanwhile, in bytes, and the part of it that is
// Go's at the end.
func growth(t *testing.T, n int, work func()) (most, own int64) {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.Sys - stats.HeapReleased)
	}
	runtime.LockOSThread() // malloc keeps some freed memory for each thread
	defer runtime.UnlockOSThread()
	work()
	debug.FreeOSMemory() // after a collection
	before, own := resident(t), -heap()
	for i := range n {
		work()
		if i%64 == 0 || i == n-1 {
			most = max(most, resident(t)-before)
		}
	}
	return most, own + heap()
}

// Close gives memory back without the garbage collector. With the collector off, a process that has allocated and
// closed a terabyte grows only by the Go structs of the tensors.
func TestClosedMemoryIsGivenBackWithoutTheCollector(t *testing.T) {
	onePerPage := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{256}, Strides: []int64{1024}}
	closed := func(tensor *dlpack.Tensor, err error) {
		require.NoError(t, err)
		require.NoError(t, tensor.Close())
	}
	tests := []struct {
		name string
		work func()
	}{
		{"imported", func() { closed(dlpack.Import(dlpacktest.Allocate(floatsPerMiB))) }},
		{"imported without net", func() { closed(dlpack.Import(dlpacktest.Allocate(floatsPerMiB), dlpack.WithoutGuard)) }},
		{"new, touched and deleted by a consumer", func() {
			tensor := must.Do(dlpack.New(dlpack.Float32, floatsPerMiB))(t)
			view := must.Do(tensor.View(onePerPage))(t)
			m := export(t, view)
			tensor.Close()
			view.Close()
			dlpacktest.Fill(m, 1)
			dlpack.Release(m)
		}},
		{"new, imported by Go", func() {
			tensor := must.Do(dlpack.New(dlpack.Float32, floatsPerMiB))(t)
			m := export(t, tensor)
			tensor.Close()
			closed(dlpack.Import(m))
		}},
		{"a mapping, owned", func() {
			memory := must.Do(syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
			for i := 0; i < len(memory); i += 1 << 16 {
				memory[i] = 1
			}
			closed(dlpack.Own(memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1 << 20}}, func() { assert.NoError(t, syscall.Munmap(memory)) }))
			background.Wait()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			n := rounds(5_000, 1_000_000)
			most, own := growth(t, n, test.work)
			t.Logf("%d MiB, one at a time: %d MiB larger, %d of them Go's", n, most>>20, own>>20)
			assert.Less(t, most-own, int64(64<<20))
		})
	}
}

// The garbage collector does not see foreign bytes. If the library did not count them, forgotten imports would fill the
// memory.
func TestForgottenImportsDoNotFillTheMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	repotest.Forgets(t)
	before := dlpack.ReadStats().Forgotten
	dlpack.SettleForeignBytes()
	n := rounds(2_000, 10_000)
	most, _ := growth(t, n, func() {
		must.Do(dlpack.Import(dlpacktest.Allocate(floatsPerMiB)))(t)
	})
	t.Logf("%d MiB forgotten: %d MiB larger at most", n, most>>20)
	assert.Less(t, most, int64(n/2)<<20)
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten >= before+int64(n)+1 })
	assert.Equal(t, before+int64(n)+1, dlpack.ReadStats().Forgotten)
}
