//go:build cgo

package npy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }

// unaligned returns a file with the elements 1, 2 and 3 after an odd number of bytes. Its memory begins at a multiple
// of 64.
func unaligned(t *testing.T) *dlpack.Tensor {
	data := file(dict("'<i4'", "(3,)"), 0)
	data = file(dict("'<i4'", "(3,)")+strings.Repeat(" ", 64-(len(data)+63)%64), 12)
	for i := range 3 {
		data[len(data)-12+4*i] = byte(i + 1)
	}
	return inC(t, data)
}

func TestUnalignedArraysAliasTheFileUnlessTheyAreToBeAligned(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	source := unaligned(t)
	for _, test := range []struct {
		name    string
		options []npy.DecodeOption
		copied  bool
		align   int
	}{
		{"as it is", nil, false, 1},
		{"a nil option", []npy.DecodeOption{nil}, false, 1},
		{"aligned to 1", []npy.DecodeOption{npy.Align(1)}, false, 1},
		{"aligned to its elements", []npy.DecodeOption{npy.Align(0)}, true, 4},
		{"aligned to 64", []npy.DecodeOption{npy.Align(64)}, true, 64},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := must.Own(npy.DecodeFrom(source, test.options...))(t)
			assert.Equal(t, test.copied, x.Flags()&dlpack.IsCopied != 0)
			assert.Equal(t, test.copied, !dlpack.MayShareMemory(source, x))
			assert.GreaterOrEqual(t, x.Alignment(), test.align)
			assert.Equal(t, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}, must.Do(x.AppendBytes(nil))(t))
			assert.False(t, x.ReadOnly())
		})
	}
	for _, n := range []int{-1, 3, 2 * dlpack.AllocAlignment} {
		must.Fail(npy.DecodeFrom(source, npy.Align(n)))(t, dlpack.ErrUnaligned)
	}
}

func TestTensorsAreReadOnlyUnlessTheyMayBeWrittenTo(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
	data := must.Do(npy.AppendTensor(nil, x))(t)
	assert.True(t, must.Own(npy.Decode(data))(t).ReadOnly())
	y := must.Own(npy.Decode(data, npy.Writable()))(t)
	require.NoError(t, dlpack.SetAt(y, float32(5), 1))
	assert.Equal(t, float32(5), must.Do(dlpack.At[float32](must.Own(npy.Decode(data))(t), 1))(t))

	source := must.Own(dlpack.FromReadOnly(data))(t)
	assert.True(t, must.Own(npy.DecodeFrom(source, npy.Writable()))(t).ReadOnly())
	must.Fail(npy.DecodeFrom(x))(t, dlpack.ErrLayout)
	must.Fail(npy.DecodeFrom(nil))(t, dlpack.ErrClosed)
	must.Fail(npy.DecodeFrom(source, npy.As(dlpack.BFloat16)))(t, dlpack.ErrDType)
	must.Fail(npy.Decode(data[:100]))(t, elements.ErrTruncated)
	must.Fail(npy.DecodeFrom(must.Own(source.Narrow(0, 0, 100))(t)))(t, elements.ErrTruncated)
}

// A mapping ends when its last tensor is closed.
func TestTensorsKeepTheFileThatTheyLieIn(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
	data := must.Do(npy.AppendTensor(nil, x))(t)
	unmapped := make(chan struct{})
	source := must.Do(dlpack.FromReadOnly(data))(t)
	require.NoError(t, source.OnRelease(func() { close(unmapped) }))
	y := must.Do(npy.DecodeFrom(source))(t)
	source.Close()
	select {
	case <-unmapped:
		t.Fatal("the tensor lies in it")
	case <-time.After(10 * time.Millisecond):
	}
	assert.Equal(t, float32(2), must.Do(dlpack.At[float32](y, 1))(t))
	y.Close()
	<-unmapped
}
