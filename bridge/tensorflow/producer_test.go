//go:build cgo

package tensorflow_test

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func ExamplePad() {
	t, _ := dlpack.FromSlice([]float64{1, 2, 3})
	defer t.Close()
	file, err := tensorflow.AppendTensor(nil, t, tensorflow.Pad(64))
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err = tensorflow.AppendTensor(file, t, tensorflow.Pad(64))
	fmt.Println(len(file), err) // two messages: the elements begin at 64 and at 128
	// Output: 152 <nil>
}

func ExampleAppendTensor() {
	t, _ := dlpack.FromSlice([]int16{7, 7, 7, 7})
	defer t.Close()
	for _, options := range [][]tensorflow.EncodeOption{
		nil,
		{tensorflow.Fields()},
		{tensorflow.Compress(2, 2)},
	} {
		message, err := tensorflow.AppendTensor(nil, t, options...)
		fmt.Printf("%x %v\n", message, err)
	}
	// Output:
	// 080512041202080422080700070007000700 <nil>
	// 08051204120208043a0407070707 <nil>
	// 08051204120208043a0107 <nil>
}

func ExampleExport() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3})
	defer t.Close()
	rows, _ := t.Copy() // in memory that TensorFlow can compute on
	defer rows.Close()
	managed, err := tensorflow.Export(rows)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := dlpack.ImportLegacy(managed) // as TensorFlow does; it also accepts TensorFlow's capsules
	if err != nil {
		fmt.Println(err)
		return
	}
	defer again.Close()
	fmt.Println(again.Data() == rows.Data(), again.ReadOnly())
	// Output: true true
}

func TestElementsOfVariableSizeAreWrittenAsTheirOwnTypeOnly(t *testing.T) {
	for _, of := range []tensorflow.DType{tensorflow.String, tensorflow.Resource, tensorflow.Variant} {
		elems := &elements.Elements{Type: of.String(), Shape: []int64{1}, Values: [][]byte{nil}}
		want := must.Do(tensorflow.AppendElements(nil, elems))(t)
		for _, as := range []tensorflow.DType{tensorflow.String, tensorflow.Resource, tensorflow.Variant, tensorflow.Int32, tensorflow.QInt8, 99} {
			dst := []byte("dst")
			out, err := tensorflow.AppendElements(dst, elems, tensorflow.As(as))
			size, sizeErr := tensorflow.SizeElements(elems, tensorflow.As(as))
			if as == of {
				require.NoError(t, err)
				require.NoError(t, sizeErr)
				assert.Equal(t, append(dst, want...), out)
				assert.Equal(t, len(want), size)
				continue
			}
			assert.ErrorIs(t, err, elements.ErrDType, "%v as %v", of, as)
			assert.ErrorIs(t, sizeErr, elements.ErrDType, "%v as %v", of, as)
			assert.Equal(t, dst, out)
		}
	}
}

// A tensor of any layout is encoded in row-major order.
func TestStridedTensorsAreWrittenRowMajor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := must.Own(dlpack.FromSlice([]int32{1, 2, 3, 4, 5, 6}))(t)
	for _, test := range []struct {
		name           string
		shape, strides []int64
		offset         int64
		want           []int32
	}{
		{"transposed", []int64{3, 2}, []int64{1, 3}, 0, []int32{1, 4, 2, 5, 3, 6}},
		{"reversed", []int64{6}, []int64{-1}, 20, []int32{6, 5, 4, 3, 2, 1}},
		{"broadcast", []int64{2, 2}, []int64{0, 5}, 0, []int32{1, 6, 1, 6}},
		{"empty", []int64{0, 3}, []int64{7, 9}, 0, []int32{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			view := must.Own(base.View(dlpack.Spec{DType: dlpack.Int32, Shape: test.shape, Strides: test.strides, ByteOffset: test.offset}))(t)
			for name, form := range forms {
				message, err := tensorflow.AppendTensor(nil, view, form...)
				require.NoError(t, err, name)
				size, err := tensorflow.SizeTensor(view, form...)
				require.NoError(t, err, name)
				assert.Equal(t, len(message), size, name)
				v, err := tensorflow.Decode(message)
				require.NoError(t, err, name)
				got, err := dlpack.UnsafeValues[int32](v.Tensor)
				require.NoError(t, err, name)
				assert.Equal(t, test.want, got, name)
				v.Close()
			}
		})
	}
}

// In a message elements of less than a byte take a byte each; packed elements are unpacked.
func TestPackedElementsAreUnpacked(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tests := []struct {
		dtype  dlpack.DataType
		padded bool
		data   []byte
		want   []byte
	}{
		{dlpack.Int4, false, []byte{0x2f, 0x81, 0x0c}, []byte{15, 2, 1, 8, 12}},
		{dlpack.Int4, true, []byte{15, 2, 1, 8, 12}, []byte{15, 2, 1, 8, 12}},
		{dlpack.Uint2, false, []byte{0b_11_10_01_00, 0b_01}, []byte{0, 1, 2, 3, 1}},
		{dlpack.Float4E2M1FN, false, []byte{0x21, 0x43, 0x05}, []byte{1, 2, 3, 4, 5}},
	}
	for _, test := range tests {
		in := must.Do(dlpack.FromBytes(test.data, dlpack.Spec{DType: test.dtype, Shape: []int64{5}, Padded: test.padded}))(t)
		message := must.Do(tensorflow.AppendTensor(nil, in))(t)
		in.Close()
		assert.Equal(t, test.want, message[len(message)-5:])
		v := must.Do(tensorflow.Decode(message))(t)
		assert.Equal(t, test.dtype, v.Tensor.DType())
		assert.NotZero(t, v.Tensor.Flags()&dlpack.SubbytePadded)
		assert.Equal(t, address(message)+uintptr(len(message))-5, v.Tensor.Data())
		v.Close()
	}
}

func TestAppendTensorReadsAllBeforeItWritesOverIt(t *testing.T) {
	for offset := range 30 {
		buffer := make([]byte, 80)
		for i := range buffer {
			buffer[i] = byte(i)
		}
		apart := must.Do(dlpack.FromSlice(bytes.Clone(buffer[offset : offset+30])))(t)
		defer apart.Close()
		want := must.Do(tensorflow.AppendTensor(nil, apart))(t)
		tensor := must.Do(dlpack.FromSlice(buffer[offset : offset+30]))(t)
		defer tensor.Close()
		out := must.Do(tensorflow.AppendTensor(buffer[:0], tensor))(t)
		assert.Equal(t, want, out, "at %d", offset)
	}
}

func TestAppendTensorRefusesWhatTensorFlowDoesNotHave(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	dst := []byte("before")
	for _, dt := range []dlpack.DataType{dlpack.Complex32, dlpack.Float8E3M4, dlpack.Float6E2M3FN, dlpack.Float4E2M1FNx2,
		dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), dlpack.OpaqueHandle64} {
		in := must.Do(dlpack.FromBytes(make([]byte, 64), dlpack.Spec{DType: dt, Shape: []int64{2}}))(t)
		out, err := tensorflow.AppendTensor(dst, in)
		assert.ErrorIs(t, err, elements.ErrDType, dt)
		_, err = tensorflow.SizeTensor(in)
		assert.ErrorIs(t, err, elements.ErrDType, dt)
		assert.Equal(t, "before", string(out))
		in.Close()
	}
	flags := must.Do(dlpack.FromBytes([]byte{1, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{2}}))(t)
	for _, form := range forms {
		out, err := tensorflow.AppendTensor(dst, flags, form...)
		assert.ErrorIs(t, err, dlpack.ErrValue)
		assert.Equal(t, "before", string(out))
	}
	flags.Close()
	for _, form := range forms {
		must.Fail(tensorflow.AppendTensor(dst, flags, form...))(t, dlpack.ErrClosed)
	}
	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: 2, Shape: []int64{2}})
	device := must.Own(dlpack.Import(p.Managed()))(t)
	must.Fail(tensorflow.AppendTensor(dst, device))(t, dlpack.ErrDevice)
	must.Fail(tensorflow.Export(device))(t, tensorflow.ErrExport)
}

// The section dlpack of the vectors: Export returns only tensors that TensorFlow can compute on.
func TestExportHandsTensorFlowOnlyWhatItTakes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, v := range m.DTypes {
			dt := tensorflow.DType(v.Enum).DataType()
			if dt == 0 {
				continue
			}
			in := must.Do(dlpack.New(dt, 2, 3))(t)
			managed, err := tensorflow.Export(in)
			if v.DLPack == nil {
				assert.ErrorIs(t, err, tensorflow.ErrExport, dt)
				in.Close()
				continue
			}
			require.NoError(t, err, dt)
			got := dlpacktest.ReadLegacy(managed)
			assert.Zero(t, got.ByteOffset)
			assert.Equal(t, []int64{3, 1}, got.Strides)
			assert.Equal(t, in.Data(), uintptr(got.Data))
			in.Close()
			dlpacktest.DeleteLegacyOnThreads([]unsafe.Pointer{managed}, 1)
		}

		base := must.Do(dlpack.New(dlpack.Float32, 64))(t)
		defer base.Close()
		tests := []struct {
			name string
			spec dlpack.Spec
			want error
		}{
			{"from an aligned element on", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{4}, ByteOffset: 64}, nil},
			{"from another element on", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{4}, ByteOffset: 16}, tensorflow.ErrExport},
			{"no elements, anywhere", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{0}, ByteOffset: 16}, nil},
			{"column-major", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 2}, Strides: []int64{1, 2}}, tensorflow.ErrExport},
			{"gaps", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}, Strides: []int64{2}}, tensorflow.ErrExport},
			{"lanes", dlpack.Spec{DType: dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), Shape: []int64{2}}, tensorflow.ErrExport},
			{"rank 254", dlpack.Spec{DType: dlpack.Float32, Shape: ones(254)}, nil},
			{"rank 255", dlpack.Spec{DType: dlpack.Float32, Shape: ones(255)}, tensorflow.ErrExport},
			{"read-only", dlpack.Spec{DType: dlpack.Float32, Shape: []int64{4}, ReadOnly: true}, dlpack.ErrReadOnly},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				view := must.Own(base.View(test.spec))(t)
				managed, err := tensorflow.Export(view)
				assert.ErrorIs(t, err, test.want)
				if err == nil {
					dlpack.ReleaseLegacy(managed)
					return
				}
				if test.spec.DType != dlpack.Float32 || view.Rank() > 254 {
					return
				}
				again := must.Own(view.Copy())(t)
				managed, err = tensorflow.Export(again)
				require.NoError(t, err, "a copy is what TensorFlow takes")
				dlpack.ReleaseLegacy(managed)
			})
		}
	}
}

func ones(rank int) []int64 {
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = 1
	}
	return shape
}

func TestWriteTensorTakesTheOptionsOfAppendTensor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	matrix := must.Own(dlpack.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3))(t)
	turned := must.Own(matrix.Transpose())(t)
	packed := must.Own(dlpack.FromBytes([]byte{0x21, 0x43}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{4}}))(t)
	for _, x := range []*dlpack.Tensor{matrix, turned, packed} {
		for _, option := range []tensorflow.EncodeOption{tensorflow.Pad(64), tensorflow.Fields(), tensorflow.Compress(1, 1)} {
			var out bytes.Buffer
			require.NoError(t, tensorflow.WriteTensor(&out, x, option))
			require.Equal(t, must.Do(tensorflow.AppendTensor(nil, x, option))(t), out.Bytes(), "%v", x)
		}
	}
}
