//go:build cgo

package dlpack_test

import (
	"errors"
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
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// takeOver imports the managed tensor of a new producer in C.
func takeOver(t *testing.T) (*dlpack.Tensor, *dlpacktest.Producer) {
	t.Helper()
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	tensor := must.Do(dlpack.Import(p.Managed()))(t)
	return tensor, p
}

// collectUntil runs garbage collections until a condition is met.
func collectUntil(t *testing.T, happened func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		runtime.GC()
		return happened()
	}, 20*time.Second, time.Millisecond)
}

// Read-only memory is not exported in the legacy form even while another goroutine closes the tensor.
func TestReadOnlyMemoryIsNotHandedOutAsLegacyWhileItsTensorIsClosed(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for range rounds(fewer(2000), 100_000) {
		tensor := must.Do(dlpack.FromReadOnly([]float32{1}))(t)
		warmed, handedOut := make(chan bool), make(chan int)
		go func() {
			warm(t, tensor) // with blocks of this goroutine
			warmed <- true
			for n := 0; ; {
				m, err := tensor.ExportLegacy()
				if errors.Is(err, dlpack.ErrClosed) {
					handedOut <- n
					return
				}
				if err == nil {
					n++
					dlpack.ReleaseLegacy(m)
				}
			}
		}()
		<-warmed
		tensor.Close()
		require.Zero(t, <-handedOut)
	}
}

// Cleanup guards are reused. A closed tensor that is still reachable must not keep its former guard reachable.
func TestForgottenTensorsAreCaughtWhileClosedOnesAreAtHand(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	repotest.Forgets(t)
	var closed []*dlpack.Tensor
	var forgotten []*dlpacktest.Producer
	before := dlpack.ReadStats().Forgotten
	for range 50 {
		tensor, _ := takeOver(t)
		tensor.Close()
		closed = append(closed, tensor)
		_, p := takeOver(t)
		forgotten = append(forgotten, p)
	}
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten == before+int64(len(forgotten)) })
	for _, p := range forgotten {
		assert.Equal(t, 1, p.Deletes())
	}
	runtime.KeepAlive(closed)
}

// An export of a forgotten tensor belongs to its consumer alone, so its release does not wait for Go.
func TestReleasesOfAForgottenTensorDoNotWaitForACollection(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	repotest.Forgets(t)
	var p *dlpacktest.Producer
	var foreign, own []unsafe.Pointer
	before := dlpack.ReadStats().Forgotten // the first collection may come while the tensors are made
	func() {
		var tensor *dlpack.Tensor
		tensor, p = takeOver(t)
		warm(t, tensor)
		foreign = append(foreign, export(t, tensor), export(t, tensor))
		large := fromSlice(t, make([]float32, 1<<20))
		for range 100 {
			own = append(own, export(t, large))
		}
	}()
	collectUntil(t, func() bool { return dlpack.ReadStats().Forgotten > before })
	assert.Zero(t, p.Deletes(), "two consumers have it")
	dlpacktest.DeleteOnThreads(foreign, 1)
	assert.Equal(t, 1, p.Deletes(), "there and then")
	dlpacktest.DeleteOnThreads(own, 2)
	collectUntil(t, func() bool { return dlpack.Pinned() == 0 })
}

func TestWakeAtCountsFromWhenItIsSet(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	drop := func() {
		tensor := fromSlice(t, []float32{1})
		m := export(t, tensor)
		tensor.Close()
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	}
	drop() // passes the new limit before it is set
	defer dlpack.WakeAt(dlpack.WakeAt(1))
	drop()
	require.Eventually(t, func() bool { return dlpack.Pinned() == 0 }, 20*time.Second, time.Millisecond)
}

// A borrowed DLTensor of the legacy form has the same address as the managed tensor that it is part of.
func TestLedgerKeepsAnImportWhoseTensorWasBorrowedToo(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	withLedger(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}, Legacy: true})
	tensor := must.Do(dlpack.ImportLegacy(p.Managed()))(t)
	borrowed := must.Do(dlpack.Borrow(p.DLTensor(true)))(t)
	borrowed.Close()
	assert.Len(t, dlpack.Live(), 1)
	tensor.Close()
	assert.Empty(t, dlpack.Live())
}

// Any number of tensors share few blocks, however often each is exported.
func TestManyTensorsNeedFewBlocks(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, rank := range []int{1, 9} {
		shape := make([]int64, rank)
		for d := range shape {
			shape[d] = 1
		}
		before := dlpack.Blocks()
		var tensors []*dlpack.Tensor
		for range 500 {
			tensor := fromSlice(t, []float32{1}, shape...)
			tensors = append(tensors, tensor)
			for range 100 {
				dlpack.Release(export(t, tensor))
			}
		}
		assert.Less(t, dlpack.Blocks()-before, 16*dlpack.Quarantine, "a goroutine whose stack moves may come to another cache")
		for _, tensor := range tensors {
			tensor.Close()
		}
		assert.Zero(t, dlpack.Pinned())
	}
}

// A tensor that is exported and imported again many times is a chain of owners. The deleter of each owner ends the next one.
// Only a limited number of these deleters run inside each other, so the stack does not grow with the chain.
func TestLongChainsOfOwnersEndOnAnyThread(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	length := 100_000
	if asan { // AddressSanitizer turns tail calls into calls
		length = 100
	}
	for _, option := range []dlpack.ImportOption{0, dlpack.WithoutGuard} {
		tensor, p := takeOver(t)
		for range length {
			m := export(t, tensor)
			tensor.Close()
			tensor = must.Do(dlpack.Import(m, option))(t)
		}
		m := export(t, tensor)
		tensor.Close()
		assert.Zero(t, p.Deletes())
		dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
		assert.Equal(t, 1, p.Deletes())
	}
}

// Close gives the memory back even if Reap on another goroutine has just unpinned it.
func TestCloseGivesBackThereAndThenWhileOthersReap(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	stop := make(chan struct{})
	var reapers sync.WaitGroup
	for range 4 {
		reapers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					dlpack.Reap()
				}
			}
		})
	}
	defer reapers.Wait()
	defer close(stop)
	for range rounds(2000, 50_000) {
		tensor, p := takeOver(t)
		for range 8 {
			dlpack.Release(export(t, tensor))
		}
		tensor.Close()
		require.Equal(t, 1, p.Deletes())
	}
}

// As with append, the destination of AppendBytes may be part of the memory that it reads.
func TestAppendBytesReadsBeforeItWrites(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []uint8{0, 1, 2, 3, 4, 5}
	tensor := fromSlice(t, data, 2, 3)
	defer tensor.Close()
	turned := must.Own(tensor.Transpose())(t)
	got := must.Do(turned.AppendBytes(data[:0]))(t)
	assert.Equal(t, []uint8{0, 3, 1, 4, 2, 5}, got)
	assert.Equal(t, []uint8{0, 1, 2, 3, 4, 5}, data)
}

func TestContiguousRefusesWhatIsNoOrder(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []int32{1, 2})
	defer tensor.Close()
	_, _, err := tensor.Contiguous(2)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	assert.EqualError(t, err, "dlpack: contiguous: order 2 is neither row-major nor column-major")
}

// The strides of padded elements of several lanes may be negative; the lanes of an element always lie forwards.
func TestLanesOfElementsThatLieBackwards(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	int4x3 := dlpack.MakeDataType(dlpack.CodeInt, 4, 3)
	padded := fromBytes(t, []byte{0x21, 0x03, 0x54, 0x06, 0x87, 0x09}, dlpack.Spec{DType: int4x3, Shape: []int64{3}, Padded: true})
	defer padded.Close()
	backwards := must.Own(padded.Flip())(t)
	memory := make([]byte, 5)
	packed := fromBytes(t, memory, dlpack.Spec{DType: int4x3, Shape: []int64{3}})
	defer packed.Close()
	require.NoError(t, backwards.CopyTo(packed))
	assert.Equal(t, []byte{0x87, 0x49, 0x65, 0x21, 0x03}, memory)

	again := make([]byte, 6)
	dst := fromBytes(t, again, dlpack.Spec{DType: int4x3, Shape: []int64{3}, Strides: []int64{-1}, ByteOffset: 4, Padded: true})
	defer dst.Close()
	require.NoError(t, packed.CopyTo(dst))
	assert.Equal(t, []byte{0x21, 0x03, 0x54, 0x06, 0x87, 0x09}, again)
}

func TestFromSliceSaysHowManyElementsThereAre(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, test := range []struct {
		name    string
		shape   []int64
		cause   error
		message string
	}{
		{"too few", []int64{3}, dlpack.ErrLayout, "dlpack: from slice: the shape [3] has 3 elements, but the slice has 4"},
		{"too many", []int64{2, 3}, dlpack.ErrLayout, "dlpack: from slice: the shape [2 3] has 6 elements, but the slice has 4"},
		{"no shape", []int64{0, -1}, dlpack.ErrLayout, "dlpack: from slice: shape[1] is -1, must not be negative"},
		{"more than can be counted", []int64{1 << 62, 4}, dlpack.ErrOverflow, "dlpack: from slice: shape has more than 2^63-1 elements from axis 1 on"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := dlpack.FromSlice(make([]float32, 4), test.shape...)
			require.ErrorIs(t, err, test.cause)
			assert.EqualError(t, err, test.message)
		})
	}
	must.Fail(dlpack.FromSlice(make([]float32, 4), -4))(t, layout.ErrNegative)
	must.Fail(dlpack.New(dlpack.Float32, 2, -4))(t, layout.ErrNegative)
}

// After Reap, no slot that was returned before is in the queue, even if another goroutine has begun to handle it.
func TestExportsAreCountedExactlyWhileOthersReap(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	var tensors []*dlpack.Tensor
	for range 50 {
		tensors = append(tensors, fromSlice(t, []float32{1}))
	}
	done := make(chan bool)
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				dlpack.Reap()
			}
		}
	})
	for range rounds(20, 1000) {
		for _, tensor := range tensors {
			warm(t, tensor)
		}
		if !assert.Zero(t, dlpack.ReadStats().Exports) {
			break
		}
	}
	close(done)
	others.Wait()
	for _, tensor := range tensors {
		tensor.Close()
	}
}

func TestRecordsAreTheCallers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	withLedger(t)
	must.Own(dlpack.New(dlpack.Float32, 4, 5))(t)
	live := dlpack.Live()
	live[0].Shape[0] = 99
	clear(live[0].Stack)
	again := dlpack.Live()
	assert.Equal(t, []int64{4, 5}, again[0].Shape)
	assert.Contains(t, again[0].Caller().Function, "TestRecordsAreTheCallers")
}
