//go:build cgo

package dlpack_test

import (
	"errors"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// An arena is an allocator that checks its use. It returns memory full of ones, and the same slice must come back once.
type arena struct {
	t     testing.TB
	short int // number of missing bytes
	skew  int // offset from an aligned address, in bytes
	err   error

	mu    sync.Mutex
	out   map[*byte][]byte
	sizes []int
	freed int
}

func (a *arena) Allocate(size int) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sizes = append(a.sizes, size)
	if a.err != nil {
		return nil, a.err
	}
	words := make([]uint64, size/8+4)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))[a.skew:][:size-a.short]
	for i := range b {
		b[i] = 0xff
	}
	if a.out == nil {
		a.out = map[*byte][]byte{}
	}
	a.out[unsafe.SliceData(b)] = b
	return b, nil
}

func (a *arena) Free(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, ok := a.out[unsafe.SliceData(b)]
	assert.True(a.t, ok, "memory of the allocator, freed once")
	assert.Equal(a.t, len(was), len(b))
	assert.Equal(a.t, cap(was), cap(b))
	delete(a.out, unsafe.SliceData(b))
	a.freed++
}

func (a *arena) counts() (out, freed int) {
	background.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.out), a.freed
}

func TestNewFromUsesTheMemoryOfTheAllocator(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	a := &arena{t: t}
	tensor := must.Do(dlpack.NewFrom(a, dlpack.Float32, 2, 3))(t)
	assert.Equal(t, []int{24}, a.sizes)
	assert.Equal(t, []int64{2, 3}, tensor.Shape())
	assert.True(t, tensor.IsContiguous())
	assert.False(t, tensor.ReadOnly())
	values := must.Do(dlpack.Values[float32](tensor))(t)
	assert.Contains(t, a.out, (*byte)(unsafe.Pointer(&values[0])))
	assert.Equal(t, make([]float32, 6), values, "zero, whatever the allocator returned")

	calls := 0
	require.NoError(t, tensor.OnRelease(func() {
		calls++
		assert.Len(t, a.out, 1, "called before Free")
	}))
	m := export(t, tensor)
	tensor.Close()
	out, freed := a.counts()
	assert.Equal(t, []int{1, 0}, []int{out, freed})
	values[5] = 5
	assert.EqualValues(t, 5, dlpacktest.Sum(m))
	dlpack.Release(m)
	out, freed = a.counts()
	assert.Equal(t, []int{0, 1}, []int{out, freed})
	assert.Equal(t, 1, calls)
}

func TestNewFromGivesForgottenMemoryBack(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	repotest.Forgets(t)
	a := &arena{t: t}
	func() {
		must.Do(dlpack.NewFrom(a, dlpack.Int64, 1000))(t)
	}()
	collectUntil(t, func() bool { out, _ := a.counts(); return out == 0 })
}

func TestNewFromWithoutElementsTakesNoMemory(t *testing.T) {
	a := &arena{t: t}
	tensor := must.Do(dlpack.NewFrom(a, dlpack.Float32, 3, 0))(t)
	assert.Equal(t, []int64{3, 0}, tensor.Shape())
	dlpack.Release(export(t, tensor))
	tensor.Close()
	assert.Empty(t, a.sizes)
}

// After an error the memory is back with the allocator. The error names its cause.
func TestNewFromRefuses(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	full := errors.New("the pool is empty")
	const asked, freed = 1, 1
	for _, c := range []struct {
		name         string
		a            *arena
		dtype        dlpack.DataType
		shape        []int64
		cause        error
		text         string
		asked, freed int
	}{
		{"a data type", &arena{}, dlpack.DataType(0xff), []int64{1}, dlpack.ErrDType, "", 0, 0},
		{"a negative size", &arena{}, dlpack.Float32, []int64{-1}, dlpack.ErrLayout, "shape[0] is -1, must not be negative", 0, 0},
		{"too many elements", &arena{}, dlpack.Float32, []int64{1 << 62}, dlpack.ErrOverflow, "", 0, 0},
		{"an error of the allocator", &arena{err: full}, dlpack.Float32, []int64{4}, full,
			"new from: allocate 16 bytes: the pool is empty", asked, 0},
		{"too little memory", &arena{short: 1}, dlpack.Float32, []int64{4}, dlpack.ErrMemory,
			"the allocator returned 15 bytes instead of 16", asked, freed},
		{"no memory", &arena{short: 16}, dlpack.Float32, []int64{4}, dlpack.ErrMemory,
			"the allocator returned 0 bytes instead of 16", asked, freed},
		{"unaligned floats", &arena{skew: 2}, dlpack.Float32, []int64{4}, dlpack.ErrUnaligned, "not aligned to 4 bytes", asked, freed},
		{"unaligned complex numbers", &arena{skew: 4}, dlpack.Complex128, []int64{1}, dlpack.ErrUnaligned, "not aligned to 8 bytes", asked, freed},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.t = t
			pinned := dlpack.ReadStats().PinnedBytes
			tensor, err := dlpack.NewFrom(c.a, c.dtype, c.shape...)
			assert.Nil(t, tensor)
			require.ErrorIs(t, err, c.cause)
			assert.Contains(t, err.Error(), c.text)
			out, freed := c.a.counts()
			assert.Zero(t, out)
			assert.Equal(t, c.freed, freed)
			assert.Len(t, c.a.sizes, c.asked)
			assert.Equal(t, pinned, dlpack.ReadStats().PinnedBytes)
		})
	}
	must.Fail(dlpack.NewFrom(nil, dlpack.Float32, 1))(t, dlpack.ErrNull)
}

func TestNewFromTakesTheAlignmentThatElementsNeed(t *testing.T) {
	a := &arena{t: t, skew: 2}
	for _, dtype := range []dlpack.DataType{dlpack.Uint8, dlpack.Bool, dlpack.Float16, dlpack.BFloat16} {
		tensor := must.Do(dlpack.NewFrom(a, dtype, 3))(t)
		tensor.Close()
	}
	out, freed := a.counts()
	assert.Equal(t, []int{0, 4}, []int{out, freed})
}
