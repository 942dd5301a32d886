//go:build cgo

package decthings_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func ExampleAppendTensor() {
	t, _ := dlpack.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3)
	defer t.Close()
	columns, _ := t.View(dlpack.Spec{DType: dlpack.Int16, Shape: []int64{3, 2}, Strides: []int64{1, 3}})
	defer columns.Close()
	data, err := decthings.AppendTensor(nil, columns)
	size, _ := decthings.SizeTensor(columns)
	fmt.Println(data, size, err)
	// Output: [4 2 3 2 1 0 4 0 2 0 5 0 3 0 6 0] 16 <nil>
}

func TestAnyLayoutIsWrittenRowMajor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := must.Own(dlpack.FromSlice([]uint8{1, 2, 3, 4, 5, 6, 7, 8}))(t)
	tests := []struct {
		name           string
		shape, strides []int64
		offset         int64
		want           []byte
	}{
		{"scalar", nil, nil, 7, []byte{7, 0, 8}},
		{"row", []int64{8}, nil, 0, []byte{7, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"columns", []int64{2, 4}, []int64{1, 2}, 0, []byte{7, 2, 2, 4, 1, 3, 5, 7, 2, 4, 6, 8}},
		{"backwards", []int64{4}, []int64{-2}, 7, []byte{7, 1, 4, 8, 6, 4, 2}},
		{"broadcast", []int64{3, 2}, []int64{0, 1}, 2, []byte{7, 2, 3, 2, 3, 4, 3, 4, 3, 4}},
		{"none", []int64{0, 300}, nil, 0, []byte{7, 2, 0, 253, 1, 44}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			view := must.Own(base.View(dlpack.Spec{DType: dlpack.Uint8, Shape: test.shape, Strides: test.strides, ByteOffset: test.offset}))(t)
			data := must.Do(decthings.AppendTensor([]byte("before"), view))(t)
			assert.Equal(t, append([]byte("before"), test.want...), data)
			size := must.Do(decthings.SizeTensor(view))(t)
			assert.Equal(t, len(test.want), size)
		})
	}
}

func TestWhatIsAppendedToNilIsDecodedWithoutACopy(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for rank := range 9 {
		shape := append(slices.Repeat([]int64{1}, rank), 3)
		base := must.Do(dlpack.FromSlice([]float64{1, 2, 3}, shape...))(t)
		data := must.Do(decthings.AppendTensor(nil, base))(t)
		v := must.Do(decthings.Decode(data, decthings.Align(64)))(t)
		assert.False(t, v.Copied)
		assert.True(t, within(data, data[len(data)-24:]))
		assert.Equal(t, address(data)+uintptr(len(data)-24), v.Tensor.Data())
		v.Close()
		base.Close()
	}
}

func TestAppendTensorUsesTheMemoryThatIsThere(t *testing.T) {
	base := must.Own(dlpack.FromSlice([]uint8{1, 2}))(t)
	dst := make([]byte, 1, 6)
	out := must.Do(decthings.AppendTensor(dst, base))(t)
	assert.Equal(t, []byte{0, 7, 1, 2, 1, 2}, out)
	assert.Same(t, &dst[0], &out[0])
}

func TestAppendTensorReadsAllBeforeItWritesOverIt(t *testing.T) {
	for offset := range 20 {
		buffer := make([]byte, 64)
		for i := range buffer {
			buffer[i] = byte(i)
		}
		elems := bytes.Clone(buffer[offset : offset+30])
		tensor := must.Do(dlpack.FromSlice(buffer[offset : offset+30]))(t)
		defer tensor.Close()
		out := must.Do(decthings.AppendTensor(buffer[:0], tensor))(t)
		assert.Equal(t, append([]byte{byte(decthings.U8), 1, 30}, elems...), out, "at %d", offset)
	}
}

func TestAppendTensorFindsBooleansOtherThan0And1Anywhere(t *testing.T) {
	for i := range 10 {
		data := bytes.Repeat([]byte{1}, 10)
		data[i] = 2
		flags := must.Do(dlpack.FromBytes(data, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{10}}))(t)
		_, err := decthings.AppendTensor(nil, flags)
		assert.ErrorIs(t, err, dlpack.ErrValue)
		assert.ErrorContains(t, err, fmt.Sprintf("element %d of a bool tensor is 2", i))
		flags.Close()
	}
}

func TestAppendTensorRefusesWhatDecthingsCannotSay(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	memory := must.Own(dlpack.New(dlpack.Uint8, 64))(t)
	refused := func(tensor *dlpack.Tensor, want error) {
		before := make([]byte, 1, 1024)
		out, err := decthings.AppendTensor(before, tensor)
		assert.ErrorIs(t, err, want)
		assert.Equal(t, before, out)
	}
	for _, dt := range []dlpack.DataType{
		dlpack.Float16, dlpack.BFloat16, dlpack.Complex64, dlpack.Int4, dlpack.Float8E4M3,
		dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), dlpack.OpaqueHandle64,
	} {
		view := must.Do(memory.View(dlpack.Spec{DType: dt, Shape: []int64{2}}))(t)
		refused(view, elements.ErrDType)
		must.Fail(decthings.SizeTensor(view))(t, elements.ErrDType)
		view.Close()
	}
	deep := must.Do(memory.View(dlpack.Spec{DType: dlpack.Uint8, Shape: slices.Repeat([]int64{1}, 256)}))(t)
	refused(deep, decthings.ErrRank)
	deep.Close()

	broad := must.Do(memory.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1 << 48}, Strides: []int64{0}}))(t)
	refused(broad, dlpack.ErrMemory)
	must.Fail(decthings.SizeTensor(broad))(t, dlpack.ErrMemory)
	broad.Close()

	wrong := must.Do(dlpack.FromBytes([]byte{0, 1, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{3}}))(t)
	refused(wrong, dlpack.ErrValue)
	wrong.Close()
	refused(wrong, dlpack.ErrClosed)

	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: 2, Shape: []int64{2}})
	device := must.Own(dlpack.Import(p.Managed()))(t)
	refused(device, dlpack.ErrDevice)
}

// A tensor passes from TENS through DLPack to Decthings with one call for each step, and keeps its elements.
func TestFormatsAreConvertedThroughTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := numbers(t, 0, 1, 2, 3)
	v := must.Do(decthings.Decode(data))(t)
	defer v.Close()
	msg, report, err := bridge.Encode([]*dlpack.Tensor{v.Tensor})
	require.NoError(t, err)
	assert.Equal(t, []string{""}, report.Copied)
	assert.Equal(t, address(data[len(data)-12:]), address(msg.Parts[0]), "the payload part is the payload of the tensor")
	ts := must.Do(bridge.Decode(msg))(t)
	defer ts[0].Close()
	again := must.Do(decthings.AppendTensor(nil, ts[0]))(t)
	assert.True(t, bytes.Equal(data, again))
}
