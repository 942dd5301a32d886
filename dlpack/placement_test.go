//go:build cgo

package dlpack_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// A frame has pixels beside a pointer that is not pinned, so that cgo refuses a bare pointer to either.
type frame struct {
	name   *string
	pixels [64][64]uint8
}

// largeFrame has pixels for several goroutines to copy.
type largeFrame struct {
	name   *string
	pixels [16 << 20]uint8
}

var (
	globalFrame      frame
	largeGlobalFrame largeFrame
)

// The object around a tensor's memory is none of the kernels' business.
func TestCopiesOfSlicesInsideObjectsWithPointers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // so that large copies have goroutines
	name := new(string)
	inStruct, inLargeStruct := &frame{name: name}, &largeFrame{name: name}
	globalFrame.name, largeGlobalFrame.name = name, name
	for _, place := range []struct {
		name   string
		memory []byte
	}{
		{"a struct", unsafe.Slice(&inStruct.pixels[0][0], 64*64)},
		{"a global", unsafe.Slice(&globalFrame.pixels[0][0], 64*64)},
		{"a large struct", inLargeStruct.pixels[:]},
		{"a large global", largeGlobalFrame.pixels[:]},
	} {
		t.Run(place.name, func(t *testing.T) {
			for i := range place.memory {
				place.memory[i] = byte(i * 7 / 3)
			}
			n := int64(len(place.memory))
			src := fromBytes(t, place.memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{64, n / 64}, Strides: []int64{1, 64}})
			want := make([]byte, n)
			for i := range want {
				want[i] = place.memory[int64(i)%(n/64)*64+int64(i)/(n/64)]
			}
			for _, operation := range []struct {
				name string
				run  func() (*dlpack.Tensor, error)
			}{
				{"Copy", src.Copy},
				{"Contiguous", func() (*dlpack.Tensor, error) {
					c, _, err := src.Contiguous(dlpack.RowMajor)
					return c, err
				}},
				{"Convert", func() (*dlpack.Tensor, error) { return src.Convert(dlpack.Uint8) }},
			} {
				t.Run(operation.name, func(t *testing.T) {
					c, err := operation.run()
					require.NoError(t, err)
					defer c.Close()
					got, err := dlpack.Values[uint8](c)
					require.NoError(t, err)
					require.True(t, string(want) == string(got))
				})
			}
			t.Run("AppendBytes", func(t *testing.T) {
				got, err := src.AppendBytes(nil)
				require.NoError(t, err)
				require.True(t, string(want) == string(got))
			})
			t.Run("AppendBytes into it, CopyTo and ConvertTo", func(t *testing.T) {
				elements := fromBytes(t, want, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{n / 64, 64}, Strides: []int64{1, n / 64}})
				turned := elements.Shape()
				before := string(place.memory)
				clear(place.memory)
				got, err := elements.AppendBytes(place.memory[:0])
				require.NoError(t, err)
				assert.Equal(t, unsafe.SliceData(place.memory), unsafe.SliceData(got), "there was room")
				require.True(t, before == string(place.memory))

				dst := fromBytes(t, place.memory, dlpack.Spec{DType: dlpack.Uint8, Shape: turned})
				clear(place.memory)
				require.NoError(t, elements.CopyTo(dst))
				require.True(t, before == string(place.memory))

				signed := fromBytes(t, place.memory, dlpack.Spec{DType: dlpack.Int8, Shape: turned})
				clear(place.memory)
				require.NoError(t, elements.ConvertTo(signed))
				require.True(t, before == string(place.memory))
			})
		})
	}
}

// Kernels have the address of Go's memory while the stack of whoever called may move: nothing that they get may lie
// there.
func TestMemoryOfTensorsDoesNotLieOnAStack(t *testing.T) {
	done := make(chan struct{})
	go func() { // with a stack of its own, which is small
		defer close(done)
		var elements [64]uint32
		var room [256]byte
		x, err := dlpack.FromSlice(elements[:], 8, 8)
		if !assert.NoError(t, err) {
			return
		}
		defer x.Close()
		columns, err := x.Transpose()
		if !assert.NoError(t, err) {
			return
		}
		defer columns.Close()
		start := uintptr(unsafe.Pointer(&room[0]))
		got, err := columns.AppendBytes(room[:0])
		assert.NoError(t, err)
		growStack(200)
		runtime.GC() // which may shrink it again
		elements[1] = 42
		got, err = columns.AppendBytes(got[:0])
		assert.NoError(t, err)
		assert.Equal(t, start, uintptr(unsafe.Pointer(&room[0])))
		assert.Equal(t, x.Data(), uintptr(unsafe.Pointer(&elements[0])))
		assert.EqualValues(t, 42, room[32])
		assert.Equal(t, unsafe.SliceData(room[:]), unsafe.SliceData(got))
	}()
	<-done
}

// growStack needs about a KiB of stack for each level.
func growStack(depth int) byte {
	var room [1024]byte
	if depth > 0 {
		room[depth] = growStack(depth - 1)
	}
	return room[depth%7]
}
