//go:build cgo && unix && (amd64 || arm64)

package tensorflow_test

import (
	"math"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// huge returns n bytes of address space that no process can read or write, so that a test needs no memory for them.
func huge(t *testing.T, n int) []byte {
	data := must.Do(syscall.Mmap(-1, 0, n, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE))(t)
	t.Cleanup(func() { assert.NoError(t, syscall.Munmap(data)) })
	return data
}

// broadcast returns a tensor of n elements that all share the memory of one element.
func broadcast(t *testing.T, dt dlpack.DataType, n int64) *dlpack.Tensor {
	one := must.Do(dlpack.New(dt))(t)
	defer one.Close()
	all := must.Do(one.BroadcastTo(n))(t)
	t.Cleanup(func() { assert.NoError(t, all.Close()) })
	return all
}

// requireTooLarge checks that err is the error for a message too large for readers of protocol buffers, and that
// nothing was appended.
func requireTooLarge(t *testing.T, out []byte, err error) {
	t.Helper()
	require.ErrorIs(t, err, dlpack.ErrOverflow)
	assert.ErrorContains(t, err, "2147483647")
	assert.Equal(t, "kept", string(out))
}

// Readers of protocol buffers accept 2^31 - 1 bytes. Larger messages are refused before memory is allocated, and before an
// element is read.
func TestMessagesThatNoReaderAcceptsAreNotWritten(t *testing.T) {
	const n = 1 << 31
	kept := func() []byte { return []byte("kept") }
	for _, options := range [][]tensorflow.EncodeOption{nil, {tensorflow.Pad(64)}, {tensorflow.Fields()}} {
		for _, dt := range []dlpack.DataType{dlpack.Uint8, dlpack.Float64} {
			x := broadcast(t, dt, n/int64(dt.ItemSize()))
			out, err := tensorflow.AppendTensor(kept(), x, options...)
			requireTooLarge(t, out, err)
			_, err = tensorflow.SizeTensor(x, options...)
			requireTooLarge(t, kept(), err)
		}
	}

	data := huge(t, n)
	numbers := tensorflow.View{DType: tensorflow.Float, Shape: []int64{n / 4}, Data: data}
	out, err := numbers.Append(kept())
	requireTooLarge(t, out, err)
	out, err = tensorflow.AppendHeader(kept(), tensorflow.Float, numbers.Shape)
	requireTooLarge(t, out, err)

	for _, values := range [][][]byte{{data}, {data[:n/2], data[n/2:]}} {
		for _, options := range [][]tensorflow.EncodeOption{nil, {tensorflow.Content()}} {
			strings := &elements.Elements{Type: "string", Shape: []int64{int64(len(values))}, Values: values}
			out, err = tensorflow.AppendElements(kept(), strings, options...)
			requireTooLarge(t, out, err)
			_, err = tensorflow.SizeElements(strings, options...)
			requireTooLarge(t, kept(), err)
		}
		out, err = (&tensorflow.VariantData{Tensors: values}).Append(kept())
		requireTooLarge(t, out, err)
	}
	named := tensorflow.Description{Shape: layout.PartialShape{}, Allocation: &tensorflow.Allocation{AllocatorName: unsafe.String(&data[0], n)}}
	out, err = named.Append(kept())
	requireTooLarge(t, out, err)
}

func TestTheLargestMessageIsStillWritten(t *testing.T) {
	assert.Equal(t, math.MaxInt32, tensorflow.MaxSize)
	size := func(n int64) (int, error) {
		return tensorflow.SizeTensor(broadcast(t, dlpack.Uint8, n))
	}
	most := int64(math.MaxInt32) - 18 // type 2, shape 4 and 6 for its size, tag and length of the content 6 bytes
	got := must.Do(size(most))(t)
	assert.Equal(t, math.MaxInt32, got)
	must.Fail(size(most+1))(t, dlpack.ErrOverflow)

	// The C++ code of protocol buffers accepts 16 bytes less in one field. This matters if the other fields are small.
	data := huge(t, math.MaxInt32)
	for n, allowed := range map[int]bool{math.MaxInt32 - 16: true, math.MaxInt32 - 15: false} {
		_, err := tensorflow.SizeElements(&elements.Elements{Type: "string", Shape: []int64{}, Values: [][]byte{data[:n]}})
		assert.Equal(t, allowed, err == nil, "%d bytes: %v", n, err)
	}
}
