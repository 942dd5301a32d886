//go:build cgo

package dlpack_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// A watchedMemory makes tensors of 16 float32 elements. A function is called after the last holder has released their
// memory.
type watchedMemory struct {
	name   string
	pinned int64 // number of bytes that count as pinned
	make   func(t testing.TB, released func()) *dlpack.Tensor
}

// Each function of the package that notifies Go of a release, with each kind of memory that it accepts.
var watchedMemories = []watchedMemory{
	{"a slice", 64, func(t testing.TB, released func()) *dlpack.Tensor {
		tensor := fromSlice(t, make([]float32, 16))
		require.NoError(t, tensor.OnRelease(released))
		return tensor
	}},
	{"memory of New", 0, func(t testing.TB, released func()) *dlpack.Tensor {
		tensor := must.Do(dlpack.New(dlpack.Float32, 16))(t)
		require.NoError(t, tensor.OnRelease(released))
		return tensor
	}},
	{"a mapping", 4096, func(t testing.TB, released func()) *dlpack.Tensor {
		memory := must.Do(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
		return owned(t, memory, func() {
			assert.NoError(t, syscall.Munmap(memory)) // fails at a second call
			released()
		})
	}},
	{"memory of malloc, from another library", 64, func(t testing.TB, released func()) *dlpack.Tensor {
		other := must.Do(dlpack.Import(dlpacktest.Allocate(16)))(t)
		memory, _, err := other.UnsafeBytes()
		require.NoError(t, err)
		return owned(t, memory, func() {
			other.Close() // frees the memory
			released()
		})
	}},
	{"Go's memory, as if it were not", 64, func(t testing.TB, released func()) *dlpack.Tensor {
		return owned(t, make([]byte, 64), released)
	}},
}

func owned(t testing.TB, memory []byte, release func()) *dlpack.Tensor {
	return must.Do(dlpack.Own(memory, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{16}}, release))(t)
}

// forEachMemory runs a test with each of watchedMemories.
func forEachMemory(t *testing.T, test func(t *testing.T, o watchedMemory)) {
	for _, o := range watchedMemories {
		t.Run(o.name, func(t *testing.T) { test(t, o) })
	}
}

// notified makes a tensor, and a counter of the calls after the release of its memory.
func (o *watchedMemory) notified(t testing.TB) (*dlpack.Tensor, *atomic.Int32) {
	t.Helper()
	calls := new(atomic.Int32)
	return o.make(t, func() { calls.Add(1) }), calls
}

// waitFor waits until f was called, without a collection, an export or a Reap.
func waitFor(t testing.TB, calls *atomic.Int32) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); calls.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Microsecond)
	}
	require.EqualValues(t, 1, calls.Load())
}

// Each way to hold memory delays the function of OnRelease. Each way to release it last leads to one call, promptly and
// without help.
func TestOnReleaseComesAfterTheLastHolder(t *testing.T) {
	deleteInC := func(m ...unsafe.Pointer) { dlpacktest.DeleteOnThreads(m, 1) }
	for _, c := range []struct {
		name string
		hold func(t *testing.T, tensor *dlpack.Tensor) (giveUp func())
	}{
		{"the tensor alone", func(t *testing.T, tensor *dlpack.Tensor) func() {
			return func() { tensor.Close() }
		}},
		{"another tensor", func(t *testing.T, tensor *dlpack.Tensor) func() {
			shared := must.Do(tensor.Share())(t)
			tensor.Close()
			return func() { shared.Close() }
		}},
		{"an export, released in Go", func(t *testing.T, tensor *dlpack.Tensor) func() {
			m := export(t, tensor)
			tensor.Close()
			return func() { dlpack.Release(m) }
		}},
		{"an export, released in C", func(t *testing.T, tensor *dlpack.Tensor) func() {
			m := export(t, tensor)
			tensor.Close()
			return func() { deleteInC(m) }
		}},
		{"several exports, released in C", func(t *testing.T, tensor *dlpack.Tensor) func() {
			first, second := export(t, tensor), export(t, tensor)
			tensor.Close()
			deleteInC(first)
			return func() { deleteInC(second) }
		}},
		{"the tensor, after its export", func(t *testing.T, tensor *dlpack.Tensor) func() {
			deleteInC(export(t, tensor))
			return func() { tensor.Close() }
		}},
		{"an import of an export", func(t *testing.T, tensor *dlpack.Tensor) func() {
			imported := must.Do(dlpack.Import(export(t, tensor)))(t)
			tensor.Close()
			return func() { imported.Close() }
		}},
		{"an export of an import, released in C", func(t *testing.T, tensor *dlpack.Tensor) func() {
			imported := must.Do(dlpack.Import(export(t, tensor)))(t)
			m := export(t, imported)
			imported.Close()
			tensor.Close()
			return func() { deleteInC(m) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachMemory(t, func(t *testing.T, o watchedMemory) {
				dlpacktest.CheckLeaks(t)
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // only the last release causes the call
				pinned := dlpack.ReadStats().PinnedBytes
				tensor, calls := o.notified(t)
				assert.Equal(t, pinned+o.pinned, dlpack.ReadStats().PinnedBytes)
				giveUp := c.hold(t, tensor)
				assert.Equal(t, pinned+o.pinned, dlpack.ReadStats().PinnedBytes)
				background.Wait()
				require.Zero(t, calls.Load())
				giveUp()
				waitFor(t, calls)
				assert.Equal(t, pinned, dlpack.ReadStats().PinnedBytes)
			})
		})
	}
}

// OnRelease may follow exports, even those that have been unpinned meanwhile.
func TestOnReleaseAfterExports(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, reaped := range []bool{false, true} {
		tensor := fromSlice(t, make([]float32, 16))
		dlpack.Release(export(t, tensor))
		if reaped {
			dlpack.Reap()
		}
		m := export(t, tensor)
		var calls atomic.Int32
		require.NoError(t, tensor.OnRelease(func() { calls.Add(1) }))
		tensor.Close()
		background.Wait()
		require.Zero(t, calls.Load())
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		waitFor(t, &calls)
	}
}

// A memory may have several functions, from several tensors. The last one is called first.
func TestOnReleaseCallsTheLastFunctionFirst(t *testing.T) {
	forEachMemory(t, func(t *testing.T, o watchedMemory) {
		var order []int
		tensor := o.make(t, func() { order = append(order, 1) })
		view := must.Do(tensor.Narrow(0, 0, 4))(t)
		require.NoError(t, view.OnRelease(func() { order = append(order, 2); runtime.Goexit() }))
		require.NoError(t, tensor.OnRelease(func() { order = append(order, 3) }))
		tensor.Close()
		background.Wait()
		require.Empty(t, order)
		view.Close()
		dlpack.Reap()
		background.Wait()
		assert.Equal(t, []int{3, 2, 1}, order)
	})
}

func TestOnReleaseRefuses(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	never := func() { t.Error("called") }
	loan := dlpacktest.Lend(t, 16)
	lent := must.Do(dlpack.Lend(loan.Data(), 16, false, loan.Release(), loan.Context()))(t)
	producer := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	borrowed := must.Do(dlpack.Borrow(producer.DLTensor(false)))(t)
	imported := must.Do(dlpack.Import(producer.Managed()))(t)
	for _, tensor := range []*dlpack.Tensor{lent, borrowed, imported} {
		assert.ErrorIs(t, tensor.OnRelease(never), errors.ErrUnsupported)
		tensor.Close()
		assert.ErrorIs(t, tensor.OnRelease(never), dlpack.ErrClosed)
	}
	forEachMemory(t, func(t *testing.T, o watchedMemory) {
		tensor, calls := o.notified(t)
		assert.ErrorIs(t, tensor.OnRelease(nil), dlpack.ErrNull)
		tensor.Close()
		assert.ErrorIs(t, tensor.OnRelease(never), dlpack.ErrClosed)
		waitFor(t, calls)
	})
	background.Wait()
}

// Own takes nothing over if it returns an error.
func TestOwnRefuses(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	never := func() { t.Error("called") }
	memory := make([]byte, 64)
	for _, c := range []struct {
		name    string
		memory  []byte
		spec    dlpack.Spec
		release func()
		want    error
	}{
		{"no release", memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{64}}, nil, dlpack.ErrNull},
		{"no memory", nil, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{64}}, never, dlpack.ErrLayout},
		{"more elements than memory", memory, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{17}}, never, dlpack.ErrLayout},
		{"a type that is none", memory, dlpack.Spec{Shape: []int64{64}}, never, dlpack.ErrDType},
		{"a negative size", memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{-1}}, never, dlpack.ErrLayout},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Fail(dlpack.Own(c.memory, c.spec, c.release))(t, c.want)
			background.Wait()
		})
	}
}

// A slice does not keep memory of Own alive, so Collected must return false.
func TestOwnedMemoryIsNotCollected(t *testing.T) {
	for i, want := range []bool{true, false, false, false, false} {
		tensor, calls := watchedMemories[i].notified(t)
		view := must.Do(tensor.Narrow(0, 0, 4))(t)
		assert.Equal(t, want, tensor.Collected(), watchedMemories[i].name)
		assert.Equal(t, want, view.Collected(), watchedMemories[i].name)
		tensor.Close()
		view.Close()
		waitFor(t, calls)
	}
}

// A forked child, where Go does not run, gives up its own share and calls no function. The share of the parent is not
// touched.
func TestOnReleaseIsNotCalledInAForkedChild(t *testing.T) {
	forEachMemory(t, func(t *testing.T, o watchedMemory) {
		dlpacktest.CheckLeaks(t)
		tensor, calls := o.notified(t)
		m := export(t, tensor)
		tensor.Close()
		require.Zero(t, dlpacktest.DeleteInChild(m), "the status of the child")
		dlpack.Reap()
		background.Wait()
		require.Zero(t, calls.Load())
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		waitFor(t, calls)
	})
}

func TestOnReleaseOfMemoryWithoutElements(t *testing.T) {
	tensor := fromSlice(t, []float32{})
	var calls atomic.Int32
	require.NoError(t, tensor.OnRelease(func() { calls.Add(1) }))
	m := export(t, tensor)
	tensor.Close()
	background.Wait()
	require.Zero(t, calls.Load())
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	waitFor(t, &calls)
}

// forgets drops a tensor with OnRelease, after an optional use of it.
func forgets(t *testing.T, o watchedMemory, use func(tensor *dlpack.Tensor)) *atomic.Int32 {
	tensor, calls := o.notified(t)
	use(tensor)
	return calls
}

func TestOnReleaseOfForgottenTensors(t *testing.T) {
	forEachMemory(t, func(t *testing.T, o watchedMemory) {
		dlpacktest.CheckLeaks(t)
		repotest.Forgets(t)
		forgotten := dlpack.ReadStats().Forgotten
		for i, use := range []func(tensor *dlpack.Tensor){
			func(*dlpack.Tensor) {},
			func(tensor *dlpack.Tensor) { dlpack.Release(export(t, tensor)) },
			func(tensor *dlpack.Tensor) {
				must.Do(tensor.Share())(t)
			},
		} {
			calls := forgets(t, o, use)
			collectUntil(t, func() bool { return calls.Load() == 1 })
			collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten == forgotten+int64(i)+1 })
		}
		var m unsafe.Pointer
		calls := forgets(t, o, func(tensor *dlpack.Tensor) { m = export(t, tensor) })
		collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten == forgotten+4 })
		background.Wait()
		assert.Zero(t, calls.Load(), "the export holds the memory")
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		waitFor(t, calls)
		for range 3 {
			runtime.GC()
		}
		background.Wait()
		assert.EqualValues(t, 1, calls.Load())
	})
}

// A slice that Values has returned may be in use after the tensor was forgotten.
func TestOnReleaseNeverComesWhileASliceMayBeInUse(t *testing.T) {
	repotest.Forgets(t)
	inChild(t, neverComesWhileASliceMayBeInUse) // this test leaves memory pinned
}

func neverComesWhileASliceMayBeInUse(t *testing.T) {
	for _, o := range watchedMemories {
		if o.pinned == 0 {
			continue // allocated memory has a cleanup guard, which other tests cover
		}
		before := dlpack.ReadStats()
		for i, use := range []func(tensor *dlpack.Tensor){
			func(tensor *dlpack.Tensor) {
				must.Do(dlpack.Values[float32](tensor))(t)
			},
			func(tensor *dlpack.Tensor) {
				_, _, err := tensor.UnsafeBytes()
				require.NoError(t, err)
			},
		} {
			calls := forgets(t, o, use)
			collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten == before.Forgotten+int64(i)+1 })
			background.Wait()
			assert.Zero(t, calls.Load(), o.name)
		}
		after := dlpack.ReadStats()
		assert.Equal(t, before.PinnedBytes+2*o.pinned, after.PinnedBytes)
		repotest.Forgive(after.Imports-before.Imports, 2*o.pinned)

		tensor, calls := o.notified(t)
		must.Do(dlpack.Values[float32](tensor))(t)
		tensor.Close()
		waitFor(t, calls)
	}
}

// Close, OnRelease, exports and deleters of C run at the same time. A slice is in the pool only while nobody holds it.
func TestOnReleaseOfAPoolThatManyUse(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	pool := make(chan []float32, 8)
	for range cap(pool) {
		pool <- make([]float32, 256)
	}
	var all sync.WaitGroup
	var held, released atomic.Int64
	n := rounds(fewer(500), 5000)
	const users = 4
	for range users {
		all.Go(func() {
			for range n {
				buffer := <-pool
				if !assert.Zero(t, buffer[0], "somebody holds it") {
					return
				}
				held.Add(1)
				tensor, err := dlpack.FromSlice(buffer)
				assert.NoError(t, err)
				buffer[0] = 1
				first, err := tensor.Export()
				assert.NoError(t, err)
				var both sync.WaitGroup
				both.Go(func() { dlpacktest.DeleteOnThreads([]unsafe.Pointer{first}, 1) })
				assert.NoError(t, tensor.OnRelease(func() {
					buffer[0] = 0
					released.Add(1)
					pool <- buffer
				}))
				second, err := tensor.Export()
				assert.NoError(t, err)
				both.Go(func() { tensor.Close() })
				both.Go(func() { dlpack.Release(second) })
				both.Wait()
			}
		})
	}
	all.Wait()
	for range cap(pool) {
		select {
		case <-pool:
		case <-time.After(20 * time.Second):
			t.Fatal("a slice was not released")
		}
	}
	assert.EqualValues(t, users*n, held.Load())
	assert.Equal(t, held.Load(), released.Load())
}

// While Close runs, OnRelease either returns an error or leads to a call.
func TestOnReleaseMeetsClose(t *testing.T) {
	testmode.MeetsThreads(t)
	for range rounds(fewer(500), 5000) {
		tensor := fromSlice(t, []float32{1})
		var calls atomic.Int32
		var both sync.WaitGroup
		var accepted atomic.Int32
		for range 2 {
			both.Go(func() {
				if tensor.OnRelease(func() { calls.Add(1) }) == nil {
					accepted.Add(1)
				}
			})
		}
		both.Go(func() { tensor.Close() })
		both.Wait()
		background.Wait()
		require.Equal(t, accepted.Load(), calls.Load())
	}
}

// Functions that block do not delay Close, exports or each other.
func TestOnReleaseMayBlock(t *testing.T) {
	first, second := fromSlice(t, []float32{1}), fromSlice(t, []float32{2})
	gate := make(chan bool)
	var calls atomic.Int32
	require.NoError(t, first.OnRelease(func() { <-gate }))
	require.NoError(t, second.OnRelease(func() { calls.Add(1) }))
	first.Close()
	third := fromSlice(t, []float32{3})
	warm(t, third)
	third.Close()
	second.Close()
	waitFor(t, &calls)
	close(gate)
	background.Wait()
}

// The function of OnRelease runs on a goroutine of the library: outside the bubble and without the labels of the goroutine that
// closes the tensor.
func TestOnReleaseRunsOnAGoroutineOfTheLibrary(t *testing.T) {
	done := make(chan string)
	var stacks []byte
	call := func() {
		stacks = make([]byte, 1<<16)
		stacks = stacks[:runtime.Stack(stacks, false)]
		done <- "called"
	}
	pprof.Do(context.Background(), pprof.Labels("of", "a caller"), func(context.Context) {
		synctest.Test(t, func(t *testing.T) {
			tensor := fromSlice(t, []float32{1})
			require.NoError(t, tensor.OnRelease(call))
			tensor.Close()
		})
	})
	require.Equal(t, "called", <-done)
	assert.NotContains(t, string(stacks), "bubble")
	assert.Contains(t, string(stacks), "dlpack/background")
	background.Wait()
}

// A panic in the function ends the program, as in every goroutine.
func TestOnReleaseThatPanicsEndsTheProgram(t *testing.T) {
	const child = "DLPACK_TEST_PANIC"
	if os.Getenv(child) != "" {
		tensor := fromSlice(t, []float32{1})
		require.NoError(t, tensor.OnRelease(func() { panic("in OnRelease") }))
		tensor.Close()
		time.Sleep(time.Minute)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), child+"=1")
	output, err := command.CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(output), "panic: in OnRelease")
}

// PinnedBytes is exactly the number of bytes of the pinned slices.
func TestPinnedBytes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	start := dlpack.ReadStats().PinnedBytes
	pinned := func() int64 { return dlpack.ReadStats().PinnedBytes - start }
	tensor := fromSlice(t, make([]float32, 1000))
	assert.Zero(t, pinned(), "nothing is exported")
	view := must.Do(tensor.Narrow(0, 0, 1))(t)
	first, second := export(t, view), export(t, tensor)
	assert.EqualValues(t, 4000, pinned(), "once for all exports, and the whole slice")
	once := must.Do(dlpack.ExportSlice(make([]byte, 77)))(t)
	assert.EqualValues(t, 4077, pinned())
	dlpack.Release(first)
	view.Close()
	assert.EqualValues(t, 4077, pinned())
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{once}, 1)
	assert.EqualValues(t, 4000, pinned())
	dlpack.Release(second)
	assert.Zero(t, pinned(), "ReadStats reaps")
	tensor.Close()
	made := must.Do(dlpack.New(dlpack.Float32, 10))(t)
	m := export(t, made)
	assert.Zero(t, pinned(), "C memory is not pinned")
	dlpack.Release(m)
	made.Close()
}
