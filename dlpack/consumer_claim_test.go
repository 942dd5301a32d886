//go:build cgo

package dlpack_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// A managed tensor has one owner. After it was taken over or released, it cannot be taken over again.
func TestExportsAreTakenOverOnce(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	for _, legacy := range []bool{false, true} {
		take, give, size := dlpack.Import, dlpack.Release, uintptr(80)
		exported := func(tensor *dlpack.Tensor) unsafe.Pointer { return export(t, tensor) }
		if legacy {
			take, give, size = dlpack.ImportLegacy, dlpack.ReleaseLegacy, 64
			exported = func(tensor *dlpack.Tensor) unsafe.Pointer {
				return must.Do(tensor.ExportLegacy())(t)
			}
		}
		tensor := must.Do(dlpack.New(dlpack.Float32, 8))(t)
		dlpack.Trim()
		before := dlpack.ReadStats().DoubleDeletes

		m := exported(tensor)
		first := must.Do(take(m))(t)
		_, err := take(m)
		require.ErrorIs(t, err, dlpack.ErrClosed)
		assert.ErrorContains(t, err, "was taken over before")
		give(m) // by the former holder, who no longer owns it
		assert.EqualValues(t, 1, dlpack.ReadStats().Exports)
		require.NoError(t, first.Close())
		assert.Zero(t, dlpack.ReadStats().Exports)
		_, err = take(m)
		require.ErrorIs(t, err, dlpack.ErrClosed)
		assert.ErrorContains(t, err, "was released")

		m = exported(tensor)
		words := make([]uint64, size/8)
		copy(words, unsafe.Slice((*uint64)(m), len(words)))
		_, err = take(unsafe.Pointer(&words[0]))
		require.ErrorIs(t, err, dlpack.ErrClosed)
		assert.ErrorContains(t, err, "is a copy")
		give(unsafe.Pointer(&words[0])) // does nothing for a copy
		assert.EqualValues(t, 1, dlpack.ReadStats().Exports)
		give(m)

		again := must.Do(take(exported(tensor)))(t)
		m = exported(again) // an export of imported memory, which a share counts
		require.NoError(t, again.Close())
		assert.EqualValues(t, 2, dlpack.ReadStats().Exports)
		give(m)
		assert.Zero(t, dlpack.ReadStats().Exports)
		require.NoError(t, tensor.Close())
		assert.Equal(t, before+1, dlpack.ReadStats().DoubleDeletes)
	}
}

// Several goroutines export an import for the first time. Each may find that the memory has no slot, but it gets only one.
func TestFirstExportsOfOneImportMeet(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	for range 3000 {
		tensor, p := takeOver(t)
		var ready atomic.Int32
		var exports [2]unsafe.Pointer
		var group sync.WaitGroup
		for g := range exports {
			group.Go(func() {
				for ready.Add(1); ready.Load() < 2; { // both at the same time
					runtime.Gosched()
				}
				exports[g], _ = tensor.Export()
			})
		}
		group.Wait()
		require.NoError(t, tensor.Close())
		dlpack.Release(exports[0])
		require.Zero(t, p.Deletes(), "the other export has the memory")
		dlpack.Release(exports[1])
		require.Equal(t, 1, p.Deletes())
	}
}
