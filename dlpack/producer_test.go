//go:build cgo

package dlpack_test

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

func fromSlice[T dlpack.Element](t testing.TB, data []T, shape ...int64) *dlpack.Tensor {
	t.Helper()
	return must.Do(dlpack.FromSlice(data, shape...))(t)
}

func export(t testing.TB, tensor *dlpack.Tensor) unsafe.Pointer {
	t.Helper()
	return must.Do(tensor.Export())(t)
}

func TestExportSharesTheSlice(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	tensor := fromSlice(t, data, 2, 3)
	m := export(t, tensor)
	v := dlpacktest.Read(m)
	assert.Equal(t, uintptr(unsafe.Pointer(&data[0])), v.Data)
	assert.Equal(t, []int64{2, 3}, v.Shape)
	assert.Equal(t, []int64{3, 1}, v.Strides)
	assert.Equal(t, [2]uint32{1, 3}, [2]uint32{v.Major, v.Minor})
	assert.Zero(t, v.Flags)
	data[5] = 60
	assert.Equal(t, 75.0, dlpacktest.Sum(m), "C reads what Go wrote")
	dlpacktest.Fill(m, 2)
	assert.Equal(t, []float32{2, 2, 2, 2, 2, 2}, data, "Go reads what C wrote")
	require.NoError(t, tensor.Close())
	assert.Equal(t, 12.0, dlpacktest.Sum(m), "the export outlives Close")
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
}

func TestLegacyExportSharesTheSlice(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []int64{1, 2, 3}
	tensor := fromSlice(t, data)
	defer tensor.Close()
	m := must.Do(tensor.ExportLegacy())(t)
	v := dlpacktest.ReadLegacy(m)
	assert.Equal(t, uintptr(unsafe.Pointer(&data[0])), v.Data)
	assert.Equal(t, []int64{3}, v.Shape)
	assert.False(t, v.NullDeleter)
	again := must.Do(dlpack.ImportLegacy(m, dlpack.AssumeWritable))(t)
	values := must.Do(dlpack.Values[int64](again))(t)
	assert.Same(t, &data[0], &values[0])
	again.Close()
	m = must.Do(tensor.ExportLegacy())(t)
	dlpacktest.DeleteLegacyOnThreads([]unsafe.Pointer{m}, 1)
}

func TestNewIsAlignedAndZeroed(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, n := range []int64{1, 3, 64, 1000, 1 << 20} {
		tensor := must.Do(dlpack.New(dlpack.Float32, n))(t)
		assert.GreaterOrEqual(t, tensor.Alignment(), dlpack.AllocAlignment)
		values := must.Do(dlpack.Values[float32](tensor))(t)
		for _, v := range values {
			require.Zero(t, v)
		}
		m := export(t, tensor)
		assert.Equal(t, tensor.Data(), dlpacktest.Read(m).Data)
		tensor.Close()
		dlpacktest.Fill(m, 1)
		assert.Equal(t, float64(n), dlpacktest.Sum(m), "the memory lives while a consumer holds it")
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	must.Fail(dlpack.New(dlpack.Float32, -1))(t, dlpack.ErrLayout)
	must.Fail(dlpack.New(dlpack.Float32, 1<<32, 1<<32))(t, dlpack.ErrOverflow)
	must.Fail(dlpack.New(dlpack.DataType(0), 1))(t, dlpack.ErrDType)
	must.Fail(dlpack.New(dlpack.Float32, make([]int64, dlpack.MaxRank+1)...))(t, dlpack.ErrLayout)
	must.Fail(dlpack.New(dlpack.Float32, 1<<60))(t, dlpack.ErrMemory)
}

func TestFromSliceRefusesAnotherNumberOfElements(t *testing.T) {
	must.Fail(dlpack.FromSlice([]float32{1, 2, 3}, 2, 2))(t, dlpack.ErrLayout)
	_, err := dlpack.FromSlice([]float32{1, 2, 3}, 2)
	assert.ErrorIs(t, err, dlpack.ErrLayout)
	assert.ErrorContains(t, err, "the shape [2] has 2 elements, but the slice has 3")
}

func TestViewStaysInsideItsMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer tensor.Close()
	tests := []struct {
		name string
		spec dlpack.Spec
		ok   bool
	}{
		{"all", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}}, true},
		{"transposed", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{3, 2}, Strides: []int64{1, 3}}, true},
		{"reversed", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}, Strides: []int64{-1}, ByteOffset: 20}, true},
		{"bytes", dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{24}}, true},
		{"empty beyond the end", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{0}, ByteOffset: 1 << 40}, true},
		{"one too many", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{7}}, false},
		{"one byte late", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}, ByteOffset: 1}, false},
		{"before the beginning", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1}, ByteOffset: -4}, false},
		{"reversed from the beginning", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}, Strides: []int64{-1}}, false},
		{"offset that overflows", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}, ByteOffset: 1<<63 - 1}, false},
		{"strides of another rank", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}, Strides: []int64{1, 1}}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			view, err := tensor.View(test.spec)
			if !test.ok {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			view.Close()
		})
	}
}

// Each export has its own block, and after all releases nothing is alive.
func TestManyExportsLeaveNothing(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, make([]float32, 256))
	defer tensor.Close()
	for range 1000 {
		batch := make([]unsafe.Pointer, 1000)
		for i := range batch {
			batch[i] = export(t, tensor)
		}
		dlpacktest.DeleteOnThreads(batch, 1)
	}
}

func TestSixtyFourThreadsDeleteAtOnce(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	before := dlpack.ReadStats()
	slice := fromSlice(t, make([]float32, 256))
	own := must.Do(dlpack.New(dlpack.Float32, 256))(t)
	var batch []unsafe.Pointer
	for range 64 * 50 {
		batch = append(batch, export(t, slice), export(t, own))
	}
	slice.Close()
	own.Close()
	assert.Equal(t, before.Exports+int64(len(batch)), dlpack.ReadStats().Exports)
	dlpacktest.DeleteOnThreads(batch, 64)
	assert.Equal(t, before, dlpack.ReadStats())
}

// For every kind of memory, the deleter needs no lock that a goroutine can hold.
func TestDeleterRunsWhileEveryLockIsHeld(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	imported := must.Do(dlpack.Import(p.Managed()))(t)
	own := must.Do(dlpack.New(dlpack.Float32, 256))(t)
	open := fromSlice(t, make([]float32, 256))
	defer open.Close()
	var batch, legacy []unsafe.Pointer
	for _, tensor := range []*dlpack.Tensor{imported, own, fromSlice(t, make([]float32, 1<<20)), open} {
		for range 10 {
			batch = append(batch, export(t, tensor))
			m := must.Do(tensor.ExportLegacy())(t)
			legacy = append(legacy, m)
		}
		if tensor != open {
			tensor.Close()
		}
	}
	batch = append(batch, dlpacktest.ExportInC(false))

	unlock := dlpack.LockEverything()
	done := make(chan struct{})
	go func() {
		dlpacktest.DeleteOnThreads(batch, 4)
		dlpacktest.DeleteLegacyOnThreads(legacy, 4)
		close(done)
	}()
	select {
	case <-done:
		assert.Equal(t, 1, p.Deletes(), "its last share was the consumers'")
	case <-time.After(20 * time.Second):
		t.Error("the deleter waits for a lock of Go's")
	}
	unlock()
}

func TestDeleterTrustsNoPublicField(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	own := must.Do(dlpack.New(dlpack.Float32, 16))(t)
	for _, tensor := range []*dlpack.Tensor{fromSlice(t, make([]float32, 16)), own} {
		m := export(t, tensor)
		tensor.Close()
		dlpacktest.Scribble(m)
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	}
}

func TestExportsAreIndependent(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	tensor := must.Do(dlpack.Import(p.Managed()))(t)
	a, b, c := export(t, tensor), export(t, tensor), export(t, tensor)
	tensor.Close()
	dlpacktest.Fill(b, 1)
	dlpack.Release(a)
	assert.Equal(t, 4.0, dlpacktest.Sum(c))
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{c}, 1)
	assert.Zero(t, p.Deletes())
	assert.Equal(t, 4.0, dlpacktest.Sum(b))
	dlpack.Release(b)
	assert.Equal(t, 1, p.Deletes())
}

// PyTorch and TensorFlow call a deleter twice on some errors.
func TestSecondDeleterCallIsIgnored(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	dlpack.Trim()
	before := dlpack.ReadStats().DoubleDeletes
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	tensor := must.Do(dlpack.Import(p.Managed()))(t)
	a, b := export(t, tensor), export(t, tensor)
	tensor.Close()
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{a}, 1)
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{a}, 1)
	dlpack.Reap()
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{a}, 1)
	dlpack.Release(a)
	assert.Zero(t, p.Deletes(), "b still holds the import")
	assert.Equal(t, before+3, dlpack.ReadStats().DoubleDeletes)
	dlpack.Release(b)
	assert.Equal(t, 1, p.Deletes())
}

func TestCopiesSaySoAndLeaveTheSourceAlone(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	base := fromSlice(t, data, 2, 3)
	defer base.Close()
	tensor := must.Own(base.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{3, 2}, Strides: []int64{1, 3}}))(t)
	m := must.Do(tensor.ExportCopy())(t)
	v := dlpacktest.Read(m)
	assert.Equal(t, uint64(dlpack.IsCopied), v.Flags)
	assert.NotEqual(t, uintptr(unsafe.Pointer(&data[0])), v.Data)
	assert.Equal(t, []int64{2, 1}, v.Strides)
	c := must.Own(dlpack.Import(m))(t)
	values := must.Do(dlpack.Values[float32](c))(t)
	assert.Equal(t, []float32{1, 4, 2, 5, 3, 6}, values)
	values[0] = 9
	assert.Equal(t, float32(1), data[0])
	plain := export(t, tensor)
	assert.Zero(t, dlpacktest.Read(plain).Flags)
	dlpack.Release(plain)
}

func TestPackedAndPaddedSubByteSizes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	int4 := dlpack.MakeDataType(dlpack.CodeInt, 4, 1)
	data := []byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0x0e, 0xaa, 1, 2, 3, 4, 5, 6}
	packed := must.Own(dlpack.FromBytes(data, dlpack.Spec{DType: int4, Shape: []int64{3, 5}}))(t)
	assert.Equal(t, int64(8), packed.NumBytes())
	bytes := must.Do(packed.AppendBytes(nil))(t)
	assert.Equal(t, data[:8], bytes)
	padded := must.Own(dlpack.FromBytes(data, dlpack.Spec{DType: int4, Shape: []int64{3, 5}, Padded: true}))(t)
	assert.Equal(t, int64(15), padded.NumBytes())
	m := export(t, padded)
	assert.Equal(t, uint64(dlpack.SubbytePadded), dlpacktest.Read(m).Flags)
	dlpack.Release(m)
	_, err := padded.ExportLegacy()
	assert.ErrorIs(t, err, dlpack.ErrDType, "that form cannot say padded")
	must.Fail(dlpack.FromBytes(data, dlpack.Spec{DType: int4, Shape: []int64{3, 5}, Strides: []int64{1, 3}}))(t, dlpack.ErrLayout)
	must.Fail(dlpack.FromBytes(data[:14], dlpack.Spec{DType: int4, Shape: []int64{3, 5}, Padded: true}))(t, dlpack.ErrLayout)
}

func TestHighRanksAreCarried(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, n := range []int{7, 8, 9, 64, dlpack.MaxRank} {
		shape := make([]int64, n)
		for i := range shape {
			shape[i] = 1
		}
		shape[n-1] = 3
		tensor := fromSlice(t, []float32{1, 2, 3}, shape...)
		m := export(t, tensor)
		assert.Equal(t, shape, dlpacktest.Read(m).Shape)
		again := must.Do(dlpack.Import(m))(t)
		assert.Equal(t, shape, again.Shape())
		again.Close()
		tensor.Close()
	}
}

// Pinned memory does not move and is not collected while only C refers to it.
func TestOnlyTheConsumerHoldsTheSlice(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	var batch []unsafe.Pointer
	for i := range 200 {
		data := make([]float32, 300)
		for j := range data {
			data[j] = float32(i)
		}
		tensor := fromSlice(t, data)
		batch = append(batch, export(t, tensor))
		tensor.Close()
	}
	for range 20 {
		runtime.GC()
		churn := make([][]float32, 100)
		for i := range churn {
			churn[i] = make([]float32, 300)
			churn[i][i] = -1
		}
		runtime.KeepAlive(churn)
	}
	for i, m := range batch {
		require.Equal(t, float64(300*i), dlpacktest.Sum(m))
	}
	dlpacktest.DeleteOnThreads(batch, 4)
}

// A broadcast of one byte can be larger than the memory of the machine.
func TestCopiesOfMoreThanThereCanBeAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := must.Own(dlpack.FromBytes([]byte{7}, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1 << 62}, Strides: []int64{0}}))(t)
	must.Fail(tensor.Copy())(t, dlpack.ErrMemory)
	must.Fail(tensor.ExportCopy())(t, dlpack.ErrMemory)
	dst, err := tensor.AppendBytes([]byte{1})
	assert.ErrorIs(t, err, dlpack.ErrMemory)
	assert.Equal(t, []byte{1}, dst)
}

// While Close runs, each export either holds the memory or is refused.
func TestExportRacesClose(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	for range 2000 {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}, Bytes: 16})
		tensor := must.Do(dlpack.Import(p.Managed()))(t)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				m, err := tensor.Export()
				if err != nil {
					assert.ErrorIs(t, err, dlpack.ErrClosed)
					return
				}
				assert.Zero(t, p.Deletes())
				dlpack.Release(m)
			})
		}
		group.Go(func() { tensor.Close() })
		group.Wait()
		require.Equal(t, 1, p.Deletes())
	}
}

func TestLentMemoryIsGivenBackOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	loan := dlpacktest.Lend(t, 64)
	tensor := must.Do(dlpack.Lend(loan.Data(), 64, false, loan.Release(), loan.Context()))(t)
	view := must.Do(tensor.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{16}}))(t)
	tensor.Close()
	m := export(t, view)
	view.Close()
	assert.Zero(t, loan.Releases())
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	assert.Equal(t, 1, loan.Releases())
	must.Fail(dlpack.Lend(nil, 64, false, nil, nil))(t, dlpack.ErrNull)
	must.Fail(dlpack.Lend(nil, -1, false, nil, nil))(t, dlpack.ErrLayout)
	empty := must.Do(dlpack.Lend(nil, 0, true, nil, nil))(t)
	empty.Close()
}

func TestAlignCopiesOnlyWhatIsNotAligned(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	own := must.Own(dlpack.New(dlpack.Uint8, 256))(t)
	same, copied, err := own.Align(64)
	require.NoError(t, err)
	assert.False(t, copied)
	assert.Equal(t, own.Data(), same.Data())
	same.Close()
	odd := must.Own(own.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{8}, ByteOffset: 1}))(t)
	assert.Equal(t, 1, odd.Alignment())
	assert.ErrorIs(t, odd.RequireAlign(2), dlpack.ErrUnaligned)
	moved, copied, err := odd.Align(64)
	require.NoError(t, err)
	assert.True(t, copied)
	assert.NotZero(t, moved.Flags()&dlpack.IsCopied)
	assert.NoError(t, moved.RequireAlign(64))
	moved.Close()
	_, _, err = own.Align(512)
	assert.ErrorIs(t, err, dlpack.ErrUnaligned)
	_, _, err = own.Align(3)
	assert.ErrorIs(t, err, dlpack.ErrUnaligned)
}

// The time of an export or import does not depend on the size, because neither touches the elements.
func TestNothingIsAllocatedForAnExport(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, tensor := range []*dlpack.Tensor{fromSlice(t, make([]float32, 1024)), fromSlice(t, make([]float32, 1<<22))} {
		dlpack.Release(must.Do(tensor.Export())(t)) // the first export of a process calls C more often
		// The count includes calls of other goroutines, such as those that release tensors of other tests. So the test takes the
		// least of ten counts.
		fewest := int64(math.MaxInt64)
		for range 10 {
			before := runtime.NumCgoCall()
			allocations := testing.AllocsPerRun(2000, func() {
				m, _ := tensor.Export()
				dlpack.Release(m)
			})
			fewest = min(fewest, runtime.NumCgoCall()-before)
			if !asan {
				assert.Zero(t, allocations)
			}
		}
		assert.LessOrEqual(t, fewest, int64(4+2*min(2000, dlpack.Quarantine)/256), "slabs are the only calls into C")
		tensor.Close()
	}
}

// In a chain of owners, each owner holds the next one. The stack of the release does not grow with the chain.
func TestChainsOfOwnersAreReleasedOnASmallStack(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	links := map[string]func(*dlpacktest.Loan, *dlpack.Tensor) (*dlpack.Tensor, error){
		"imports of exports": func(_ *dlpacktest.Loan, tensor *dlpack.Tensor) (*dlpack.Tensor, error) {
			return dlpack.Import(export(t, tensor))
		},
		"loans of exports": func(loan *dlpacktest.Loan, tensor *dlpack.Tensor) (*dlpack.Tensor, error) {
			return dlpack.Lend(loan.Data(), 64, false, dlpacktest.Releaser(), export(t, tensor))
		},
	}
	ends := map[string]func(*dlpack.Tensor){
		"closed":         func(tensor *dlpack.Tensor) { tensor.Close() },
		"released in Go": func(tensor *dlpack.Tensor) { m := export(t, tensor); tensor.Close(); dlpack.Release(m) },
		"released on a thread of C": func(tensor *dlpack.Tensor) {
			m := export(t, tensor)
			tensor.Close()
			dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		},
	}
	for link, next := range links {
		for how, end := range ends {
			t.Run(link+", "+how, func(t *testing.T) {
				loan := dlpacktest.Lend(t, 64)
				tensor := must.Do(dlpack.Lend(loan.Data(), 64, false, loan.Release(), loan.Context()))(t)
				for range fewer(200_000) {
					owner := tensor
					tensor = must.Do(next(loan, owner))(t)
					owner.Close()
				}
				assert.Zero(t, loan.Releases())
				end(tensor)
				assert.Equal(t, 1, loan.Releases())
			})
		}
	}
}
