//go:build cgo

package dlpack_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// forgetsAfterExports exports a tensor often, and drops it without Close.
func forgetsAfterExports(t *testing.T, tensor *dlpack.Tensor, err error) {
	require.NoError(t, err)
	warm(t, tensor)
}

// otherCleanupsRun checks that a cleanup of the program runs after a garbage collection.
func otherCleanupsRun(t *testing.T) {
	t.Helper()
	ran := make(chan bool, 1)
	runtime.AddCleanup(new([64]int), func(bool) { ran <- true }, true)
	collectUntil(t, func() bool { return len(ran) == 1 })
}

// A blocked release does not stop the cleanups of the program, other functions of the library, or the releases of other
// forgotten memory.
func TestReleasesThatBlockStopNothingElse(t *testing.T) {
	memory := []struct {
		name   string
		forget func(t *testing.T) (dlpacktest.Gate, func() int)
	}{
		{"a forgotten import", func(t *testing.T) (dlpacktest.Gate, func() int) {
			p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
			must.Do(dlpack.Import(p.Managed()))(t)
			return p.Block(t), p.Deletes
		}},
		{"a forgotten loan", func(t *testing.T) (dlpacktest.Gate, func() int) {
			loan := dlpacktest.Lend(t, 16)
			must.Do(dlpack.Lend(loan.Data(), 16, false, loan.Release(), loan.Context()))(t)
			return loan.Block(t), loan.Releases
		}},
		{"an import whose last shares are those of ready blocks", func(t *testing.T) (dlpacktest.Gate, func() int) {
			p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
			tensor, err := dlpack.Import(p.Managed())
			forgetsAfterExports(t, tensor, err)
			return p.Block(t), p.Deletes
		}},
		{"a loan whose last shares are those of ready blocks", func(t *testing.T) (dlpacktest.Gate, func() int) {
			loan := dlpacktest.Lend(t, 16)
			tensor, err := dlpack.Lend(loan.Data(), 16, false, loan.Release(), loan.Context())
			forgetsAfterExports(t, tensor, err)
			return loan.Block(t), loan.Releases
		}},
	}
	for _, processors := range []int{1, 2} {
		for _, m := range memory {
			t.Run(m.name+", GOMAXPROCS="+string(rune('0'+processors)), func(t *testing.T) {
				dlpacktest.CheckLeaks(t)
				repotest.Forgets(t)
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
				before := dlpack.ReadStats()
				gate, releases := m.forget(t)
				collectUntil(t, func() bool { return gate.Waiting() == 1 })

				for range 3 {
					otherCleanupsRun(t)
				}
				another := fromSlice(t, []float32{1, 2})
				warm(t, another)
				require.NoError(t, another.Close())
				dlpack.Reap()
				assert.Equal(t, before.Exports, dlpack.ReadStats().Exports)
				forgotten := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
				func() {
					must.Do(dlpack.Import(forgotten.Managed()))(t)
				}()
				collectUntil(t, func() bool { return forgotten.Deletes() == 1 })
				require.Equal(t, 1, gate.Waiting())
				assert.Zero(t, releases())

				gate.Open()
				assert.Equal(t, 1, releases())
				collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten == before.Forgotten+2 })
				now := dlpack.ReadStats()
				assert.Equal(t, before.Imports, now.Imports)
				assert.Equal(t, before.Allocations, now.Allocations)
				assert.Equal(t, before.Exports, now.Exports)
				assert.Equal(t, before.ForeignBytes, now.ForeignBytes)
				assert.Equal(t, 1, releases())
				assert.Equal(t, 1, forgotten.Deletes())
			})
		}
	}
}

// inChild runs a function in a new process, in which nothing has used the library before.
func inChild(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	const child = "DLPACK_TEST_CHILD"
	if os.Getenv(child) != "" {
		run(t)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	command.Env = append(os.Environ(), child+"=1")
	output, err := command.CombinedOutput()
	assert.NoError(t, err, "%s", output)
}

// usesTheLibrary does everything that makes the library start goroutines: the first export, enough foreign bytes to start a
// garbage collection, and the release of forgotten memory.
func usesTheLibrary(t *testing.T, p *dlpacktest.Producer) {
	tensor := fromSlice(t, []float32{1})
	dlpack.Release(export(t, tensor))
	require.NoError(t, tensor.Close())
	large := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{100 << 20}, Bytes: 16})
	imported := must.Do(dlpack.Import(large.Managed()))(t)
	require.NoError(t, imported.Close())
	func() {
		tensor, err := dlpack.Import(p.Managed())
		forgetsAfterExports(t, tensor, err)
	}()
}

// A bubble of testing/synctest ends when all its goroutines have ended, and its channels must not be used outside. The
// library's goroutines must therefore start outside the bubble.
func TestTheLibraryStartsNoGoroutineInABubble(t *testing.T) {
	repotest.Forgets(t)
	inChild(t, func(t *testing.T) {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
		synctest.Test(t, func(t *testing.T) {
			usesTheLibrary(t, p)
			for range 1000 { // until a Reap in the bubble, or a collection, has handed the release over
				runtime.GC()
				if dlpack.Reap(); p.Deletes() == 1 {
					break
				}
			}
		})
		collectUntil(t, func() bool { return p.Deletes() == 1 })
		imported := must.Do(dlpack.Import(dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{1 << 30}, Bytes: 16}).Managed()))(t)
		require.NoError(t, imported.Close())
	})
}

// A goroutine inherits the profiler labels of the goroutine that starts it. The library's goroutines must not have a caller's
// labels.
func TestTheLibraryStartsNoGoroutineWithLabels(t *testing.T) {
	repotest.Forgets(t)
	inChild(t, func(t *testing.T) {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
		gate := p.Block(t)
		pprof.Do(context.Background(), pprof.Labels("of", "a caller"), func(context.Context) {
			usesTheLibrary(t, p)
			for deadline := time.Now().Add(20 * time.Second); gate.Waiting() == 0 && time.Now().Before(deadline); {
				runtime.GC()
				dlpack.Reap()
			}
		})
		require.Equal(t, 1, gate.Waiting())
		var goroutines bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&goroutines, 1))
		assert.Contains(t, goroutines.String(), "dlpack")
		assert.NotContains(t, goroutines.String(), "a caller")
	})
}
