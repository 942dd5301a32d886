//go:build cgo && !asan

package tvmffi_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// A handler may end its goroutine, as t.FailNow does. Calls from Go then release their resources.
//
// The C frames in between never return. AddressSanitizer would keep the guards of their variables on the stack and
// report later uses of that stack, so this file is not part of its tests.
func TestHandlersMayEndTheirGoroutine(t *testing.T) {
	need(t)
	for name, call := range map[string]func(f *tvmffi.Function, args ...any){
		"a call": func(f *tvmffi.Function, args ...any) { f.Call(args...) },
		"a prepared call": func(f *tvmffi.Function, args ...any) {
			p, err := f.Prepare(args...)
			assert.NoError(t, err)
			defer p.Close()
			p.Call()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			var lent *dlpack.Tensor
			producer := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
			x := must.Do(dlpack.Import(producer.Managed()))(t)
			kept := must.Do(dlpack.New(dlpack.Float32, 16))(t)
			f := serve(t, func(a tvmffi.Args) (any, error) {
				lent = a.Tensor(0)
				runtime.Goexit()
				return nil, nil
			})
			var wait sync.WaitGroup
			wait.Go(func() {
				call(f, x, tvmffi.Keep(kept), floats(16, 0))
				assert.Fail(t, "the call returned")
			})
			wait.Wait()
			must.Fail(lent.Copy())(t, dlpack.ErrClosed)
			require.NoError(t, x.Close())
			require.NoError(t, kept.Close())
			assert.Equal(t, 1, producer.Deletes())
			stats := dlpack.ReadStats()
			assert.Zero(t, stats.Exports, "exports that were taken for the call")
			assert.Zero(t, stats.Allocations)
			assert.Zero(t, stats.Imports)
			require.NoError(t, f.Close())
		})
	}
}

// The end of a goroutine is not a panic.
func TestOnPanicIsNotCalledForTheEndOfAGoroutine(t *testing.T) {
	tvmffi.OnPanic(func(value any, _ []byte) { t.Errorf("called with %v", value) })
	defer tvmffi.OnPanic(nil)
	leaves := serve(t, func(tvmffi.Args) (any, error) { runtime.Goexit(); return nil, nil })
	var all sync.WaitGroup
	all.Go(func() { leaves.Call() })
	all.Wait()
}
