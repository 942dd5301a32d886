//go:build cgo

package dlpack_test

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// An address is a case of addresses.json: the place of float32 elements. The tests of C and Python read the same file.
type address struct {
	Name         string
	Data, Offset string
	Shape        []int64
	Strides      []int64
	Good         bool
}

func addresses(t *testing.T) (cases []address) {
	data := must.Do(os.ReadFile("testdata/addresses.json"))(t)
	require.NoError(t, json.Unmarshal(data, &cases))
	require.NotEmpty(t, cases)
	return cases
}

func (a *address) config(t *testing.T) dlpacktest.Config {
	data := must.Do(strconv.ParseUint(a.Data, 0, 64))(t)
	offset := must.Do(strconv.ParseUint(a.Offset, 0, 64))(t)
	return dlpacktest.Config{Shape: a.Shape, Strides: a.Strides, DataAt: uintptr(data), ByteOffset: offset}
}

// A tensor with data at an address where the host has no memory is refused, and stays its owner's. Otherwise a pointer
// to the first page could be on a stack, and would end the Go program when that stack grows.
func TestDataLiesWhereMemoryCanBe(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	imports := map[string]func(p *dlpacktest.Producer) (*dlpack.Tensor, error){
		"Import":       func(p *dlpacktest.Producer) (*dlpack.Tensor, error) { return dlpack.Import(p.Managed()) },
		"ImportLegacy": func(p *dlpacktest.Producer) (*dlpack.Tensor, error) { return dlpack.ImportLegacy(p.Managed()) },
		"Borrow":       func(p *dlpacktest.Producer) (*dlpack.Tensor, error) { return dlpack.Borrow(p.DLTensor(false)) },
	}
	for _, test := range addresses(t) {
		t.Run(test.Name, func(t *testing.T) {
			config := test.config(t)
			p := dlpacktest.Produce(t, config)
			inC, inGo := dlpack.CheckTensorInC(p.DLTensor(false), 0), dlpack.CheckTensorInGo(p.DLTensor(false), 0)
			assert.Equal(t, inC, inGo)
			for way, taken := range imports {
				t.Run(way, func(t *testing.T) {
					config.Legacy = way == "ImportLegacy"
					p := dlpacktest.Produce(t, config)
					x, err := taken(p)
					if !test.Good {
						require.ErrorIs(t, err, dlpack.ErrOverflow)
						assert.ErrorContains(t, err, "leads outside the address space")
						assert.Zero(t, p.Deletes())
						return
					}
					require.NoError(t, err)
					first, err := x.Index(make([]int64, x.Rank())...)
					if x.NumElements() > 0 {
						require.NoError(t, err)
						assert.Equal(t, config.DataAt+uintptr(config.ByteOffset), first.Data())
						first.Close()
					} else {
						assert.Zero(t, x.Data())
					}
					growStackOf(t, x)
					x.Close()
					if way != "Borrow" {
						assert.Equal(t, 1, p.Deletes())
					}
				})
			}
			t.Run("on a device", func(t *testing.T) { // any value may be an address there
				config.Legacy, config.DeviceType = false, int32(dlpack.CUDA)
				p := dlpacktest.Produce(t, config)
				x := must.Do(dlpack.Import(p.Managed()))(t)
				if x.NumElements() > 0 {
					assert.Equal(t, config.DataAt, x.Data())
				}
				x.Close()
				assert.Equal(t, 1, p.Deletes())
			})
		})
	}
}

// growStackOf grows the stack of a goroutine while slices over a tensor are on it.
func growStackOf(t *testing.T, x *dlpack.Tensor) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		values, _ := dlpack.UnsafeValues[float32](x)
		bytes, _, err := x.UnsafeBytes()
		assert.NoError(t, err)
		growStack(200)
		runtime.KeepAlive(values)
		runtime.KeepAlive(bytes)
	}()
	<-done
}

func TestLentMemoryLiesWhereMemoryCanBe(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, test := range []struct {
		name string
		data uintptr
		size int64
		good bool
	}{
		{"the second page", 4096, 1 << 20, true},
		{"the first page", 4095, 1, false},
		{"the first page, without bytes", 4095, 0, true},
		{"the end of the lower half", 1<<63 - 16, 16, true},
		{"over the end of the lower half", 1<<63 - 16, 17, false},
		{"the upper half", 1<<63 + 16, 16, false},
		{"all there is", 4096, 1<<63 - 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := dlpacktest.Lend(t, 1)
			var x *dlpack.Tensor
			var err error
			withWild(test.data, func(p unsafe.Pointer) { x, err = dlpack.Lend(p, test.size, false, l.Release(), l.Context()) })
			if !test.good {
				require.ErrorIs(t, err, dlpack.ErrOverflow)
				assert.Zero(t, l.Releases())
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.size, x.NumBytes())
			x.Close()
			assert.Equal(t, 1, l.Releases())
		})
	}
}

func TestTensorsLieWhereMemoryCanBe(t *testing.T) {
	for _, address := range []uintptr{8, 4088} {
		for name, taken := range map[string]func(unsafe.Pointer, ...dlpack.ImportOption) (*dlpack.Tensor, error){
			"Import": dlpack.Import, "ImportLegacy": dlpack.ImportLegacy, "Borrow": dlpack.Borrow,
		} {
			var err error
			withWild(address, func(p unsafe.Pointer) { _, err = taken(p) })
			assert.ErrorIs(t, err, dlpack.ErrNull, name)
			assert.ErrorContains(t, err, "lies below address 4096", name)
		}
		var inC, inGo dlpack.Verdict
		withWild(address, func(p unsafe.Pointer) { inC, inGo = dlpack.CheckTensorInC(p, 0), dlpack.CheckTensorInGo(p, 0) })
		assert.Equal(t, inC.Status, inGo.Status)
		assert.Equal(t, dlpack.ErrNull, inC.Status)
	}
}

// withWild calls f with a pointer that Go must not find on a stack. Go does not scan this stack meanwhile.
func withWild(address uintptr, f func(p unsafe.Pointer)) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		growStack(200) // so that the stack need not grow later
		f(*(*unsafe.Pointer)(unsafe.Pointer(&address)))
	}()
	<-done
}

// deep calls f with a stack that is n frames deeper. For some n the stack therefore grows in f.
//
//go:noinline
func deep(n int, f func()) byte {
	var frame [64]byte
	frame[n&63] = 1
	if n == 0 {
		f()
		return frame[0]
	}
	return deep(n-1, f) + frame[n&63]
}

// pointerTo makes a pointer from any address, as C does when it calls Go.
//
//go:noinline
func pointerTo(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// Go ends the process when a stack grows that has a pointer to the first page.
func TestAddressesThatAreRefusedAreNowhereOnTheStack(t *testing.T) {
	for name, use := range map[string]func(at uintptr) error{
		"Import":       func(at uintptr) error { _, err := dlpack.Import(pointerTo(at)); return err },
		"ImportLegacy": func(at uintptr) error { _, err := dlpack.ImportLegacy(pointerTo(at)); return err },
		"Borrow":       func(at uintptr) error { _, err := dlpack.Borrow(pointerTo(at)); return err },
	} {
		for _, at := range []uintptr{1, 5, 8, 4001, 4088} {
			for n := range 400 {
				done := make(chan error)
				go func() {
					var err error
					deep(n, func() { err = use(at) })
					done <- err
				}()
				assert.Error(t, <-done, "%s of %#x", name, at)
			}
		}
	}
}
