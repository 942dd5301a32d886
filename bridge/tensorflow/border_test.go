//go:build cgo

package tensorflow_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }

func Example() {
	weights, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer weights.Close()
	message, err := tensorflow.AppendTensor(nil, weights) // the bytes that TensorFlow writes
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := tensorflow.Decode(message, tensorflow.Writable())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	x, err := dlpack.Values[float32](v.Tensor) // the message's own bytes
	fmt.Println(v.DType, v.Tensor, x, v.Copied, err)
	// Output: float float32[2 3] on cpu [1 2 3 4 5 6] false <nil>
}

func ExampleDecode() {
	for _, message := range []string{
		"\x08\x04\x12\x04\x12\x02\x08\x03\x22\x03abc", // uint8[3]
		"\x08\x07\x12\x04\x12\x02\x08\x02\x42\x02go",  // string[2], the last of which repeats
	} {
		v, err := tensorflow.Decode([]byte(message))
		if err != nil {
			fmt.Println(err)
			return
		}
		if v.Elements != nil {
			fmt.Printf("%v %q\n", v.Elements, v.Elements.Values)
		} else {
			fmt.Println(v.Tensor, v.Copied)
		}
		v.Close()
	}
	// Output:
	// uint8[3] on cpu, read-only false
	// string[2] ["go" "go"]
}

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
	again, err := dlpack.ImportLegacy(managed) // what TensorFlow does, and what takes its own capsules
	if err != nil {
		fmt.Println(err)
		return
	}
	defer again.Close()
	fmt.Println(again.Data() == rows.Data(), again.ReadOnly())
	// Output: true true
}

func ExampleDecodeFrom() {
	bytes, _ := dlpack.New(dlpack.Uint8, 13) // memory that is not Go's
	defer bytes.Close()
	into, _ := dlpack.Values[uint8](bytes)
	copy(into, "\x08\x04\x12\x04\x12\x02\x08\x05\x22\x03abc")
	_, err := tensorflow.DecodeFrom(bytes)
	fmt.Println(err)
	into[7] = 3
	v, err := tensorflow.DecodeFrom(bytes)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	fmt.Println(v.Tensor, v.Tensor.Data() == bytes.Data()+10)
	// Output:
	// tensorflow: byte 10: tensor_content has 3 bytes, 5 elements of uint8 take 1 each: size differs from what the shape says
	// uint8[3] on cpu true
}

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// placed copies data so that its byte at index at has an address that is odd in units of align.
func placed(data []byte, at, align, off int) []byte {
	room := make([]byte, len(data)+2*align)
	skip := int(-(address(room) + uintptr(at)) % uintptr(align))
	return append(room[skip+off:skip+off], data...)
}

// Every vector of a type that DLPack has becomes a tensor with its values and goes out as it came.
func TestVectorsBecomeTensorsAndGoOutAgain(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		kinds := map[string]int{}
		for _, v := range m.Tensors {
			t.Run(v.ID, func(t *testing.T) {
				data := m.File(t, v.File)
				got, err := tensorflow.Decode(data)
				require.NoError(t, err)
				defer got.Close()
				dtype := tensorflow.DType(v.DType)
				assert.Equal(t, dtype, got.DType)
				assert.Equal(t, append([]int64{}, v.Shape...), got.Shape())
				if dtype.DataType() == 0 {
					kinds["elements"]++
					require.Nil(t, got.Tensor)
					assert.Equal(t, dtype.String(), got.Elements.Type)
					require.NoError(t, got.Elements.Validate())
					out, err := tensorflow.AppendElements(nil, got.Elements, tensorflow.Content())
					require.NoError(t, err)
					assert.Equal(t, v.Writers["AsProtoTensorContent_hex"], hex.EncodeToString(out))
					return
				}
				require.Nil(t, got.Elements)
				assert.Equal(t, dtype.DataType(), got.Tensor.DType())
				assert.True(t, got.Tensor.ReadOnly())
				elems, err := got.Tensor.AppendBytes(nil)
				require.NoError(t, err)
				assert.Equal(t, *v.DataHex, hex.EncodeToString(masked(dtype, elems)))
				if n := got.Tensor.NumElements(); n > 0 {
					inside := got.Tensor.Data() >= address(data) && got.Tensor.Data() < address(data)+uintptr(len(data))
					assert.Equal(t, inside, !got.Copied, "the same memory exactly where it says so")
					if inside {
						kinds["aliased"]++
					} else {
						kinds["copied"]++
						assert.GreaterOrEqual(t, got.Tensor.Alignment(), 64)
					}
				}
				content, err := tensorflow.AppendTensor(nil, got.Tensor)
				require.NoError(t, err)
				assert.Equal(t, v.Writers["AsProtoTensorContent_hex"], hex.EncodeToString(content))
				fields, err := tensorflow.AppendTensor(nil, got.Tensor, tensorflow.Fields())
				require.NoError(t, err)
				assert.Equal(t, v.Writers["AsProtoField_hex"], hex.EncodeToString(fields))
			})
		}
		assert.Greater(t, kinds["aliased"], 20)
		assert.Greater(t, kinds["copied"], 20)
		assert.Greater(t, kinds["elements"], 20)
	}
}

// G69: aligned elements are aliased, others copied once, and the value says which; alignment can be asked
// for, and done without.
func TestG69AlignedContentIsAliasedAndOtherIsCopied(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	floats, err := dlpack.FromSlice([]float32{1, 2, 3, 4})
	require.NoError(t, err)
	defer floats.Close()
	for _, form := range []tensorflow.EncodeOption{tensorflow.Content(), tensorflow.Fields()} {
		message, err := tensorflow.AppendTensor(nil, floats, form)
		require.NoError(t, err)
		start := len(message) - 16
		tests := []struct {
			off     int
			options []tensorflow.DecodeOption
			copied  bool
		}{
			{0, nil, false},
			{4, nil, false},
			{1, nil, true},
			{2, nil, true},
			{2, []tensorflow.DecodeOption{tensorflow.Align(1)}, false},
			{4, []tensorflow.DecodeOption{tensorflow.Align(64)}, true},
			{0, []tensorflow.DecodeOption{tensorflow.Align(64)}, false},
		}
		for _, test := range tests {
			data := placed(message, start, 64, test.off)
			v, err := tensorflow.Decode(data, append(test.options, tensorflow.Writable())...)
			require.NoError(t, err)
			assert.Equal(t, test.copied, v.Copied)
			before := data[start]
			into, _, err := v.Tensor.UnsafeBytes()
			require.NoError(t, err)
			into[0] ^= 0xff
			assert.Equal(t, test.copied, data[start] == before, "written on one side, read on the other")
			assert.Equal(t, !test.copied, v.Tensor.Data() == address(data[start:]))
			v.Close()
		}
	}
	_, err = tensorflow.Decode([]byte("\x08\x01"), tensorflow.Align(3))
	assert.ErrorIs(t, err, dlpack.ErrUnaligned)
	_, err = tensorflow.Decode([]byte("\x08\x01"), tensorflow.Align(2*dlpack.NewAlignment))
	assert.ErrorIs(t, err, dlpack.ErrUnaligned)
}

// The two numbers of a complex element are aligned each for itself.
func TestComplexContentIsAliasedWhereItsNumbersAreAligned(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	numbers, err := dlpack.FromSlice([]complex64{1 + 2i, 3 + 4i})
	require.NoError(t, err)
	defer numbers.Close()
	message, err := tensorflow.AppendTensor(nil, numbers)
	require.NoError(t, err)
	start := len(message) - 16
	for off, copied := range map[int]bool{0: false, 4: false, 2: true, 8: false} {
		v, err := tensorflow.Decode(placed(message, start, 64, off))
		require.NoError(t, err)
		assert.Equal(t, copied, v.Copied, "%d bytes behind a multiple of 64", off)
		v.Close()
	}
}

// Many bytes that are not aligned are copied into memory that is.
func TestLargeCopiesAreAlignedToo(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	view := tensorflow.View{DType: tensorflow.Double, Shape: []int64{100, 100}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 20000)}
	message, err := view.Append(nil)
	require.NoError(t, err)
	for _, align := range []int{0, 64, 256} {
		data := placed(message, len(message)-len(view.Data), 256, 3)
		v, err := tensorflow.Decode(data, tensorflow.Align(align))
		require.NoError(t, err)
		assert.True(t, v.Copied)
		assert.NoError(t, v.Tensor.RequireAlign(max(align, 64)))
		back, err := v.Tensor.AppendBytes(nil)
		require.NoError(t, err)
		assert.Equal(t, view.Data, back)
		v.Close()
	}
}

// Tensors of memory that is lent are views of it, and end its loan with their last export, on any thread.
func TestLentMessagesAreViewedAndGivenBack(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	floats, err := dlpack.FromSlice([]float32{1, 2, 3})
	require.NoError(t, err)
	defer floats.Close()
	aligned, err := tensorflow.AppendTensor(nil, floats, tensorflow.Pad(64))
	require.NoError(t, err)
	unaligned, err := tensorflow.AppendTensor([]byte{0}, floats, tensorflow.Pad(64))
	require.NoError(t, err)
	tests := []struct {
		name     string
		data     []byte
		copied   bool
		readOnly bool
	}{
		{"aligned", aligned, false, false},
		{"aligned, read-only", aligned, false, true},
		{"not aligned", append(unaligned[1:], 0x18, 0), true, false},
		{"not aligned, read-only", append(unaligned[1:], 0x18, 0), true, true},
		{"repeated", []byte("\x08\x01\x12\x04\x12\x02\x08\x03\x2d\x00\x00\x80\x3f"), true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			loan := dlpacktest.Lend(t, len(test.data))
			copy(unsafe.Slice((*byte)(loan.Data()), len(test.data)), test.data)
			lent, err := dlpack.Lend(loan.Data(), int64(len(test.data)), test.readOnly, loan.Release(), loan.Context())
			require.NoError(t, err)
			v, err := tensorflow.DecodeFrom(lent)
			require.NoError(t, err)
			lent.Close()
			assert.Equal(t, test.copied, v.Copied)
			assert.Equal(t, test.readOnly, v.Tensor.ReadOnly())
			from := uintptr(loan.Data())
			assert.Equal(t, !test.copied, v.Tensor.Data() > from && v.Tensor.Data() < from+uintptr(len(test.data)))
			m, err := v.Tensor.Export()
			require.NoError(t, err)
			v.Close()
			if test.copied {
				assert.Equal(t, 1, loan.Releases(), "nothing keeps what was copied")
			} else {
				assert.Zero(t, loan.Releases())
			}
			assert.Equal(t, map[bool]float64{false: 6, true: 3}[test.name == "repeated"], dlpacktest.Sum(m))
			dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
			assert.Equal(t, 1, loan.Releases())
		})
	}
	two, err := dlpack.New(dlpack.Uint8, 2, 2)
	require.NoError(t, err)
	_, err = tensorflow.DecodeFrom(two)
	assert.ErrorIs(t, err, dlpack.ErrLayout)
	two.Close()
	_, err = tensorflow.DecodeFrom(two)
	assert.Error(t, err)
}

// Quantised numbers are elements, or integers where that is asked for.
func TestQuantisedNumbersCanBeIntegers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	message := unhex(t, "080f1204120208022204"+"01020304") // qint16[2]
	v, err := tensorflow.Decode(message)
	require.NoError(t, err)
	assert.Equal(t, &elements.Elements{Type: "qint16", Shape: []int64{2}, Values: [][]byte{{1, 2}, {3, 4}}}, v.Elements)
	assert.NoError(t, v.Close())
	v, err = tensorflow.Decode(message, tensorflow.Integers(), tensorflow.Align(1))
	require.NoError(t, err)
	defer v.Close()
	assert.Equal(t, tensorflow.QInt16, v.DType)
	assert.Equal(t, dlpack.Int16, v.Tensor.DType())
	assert.Equal(t, address(message)+10, v.Tensor.Data())
	out, err := tensorflow.AppendTensor(nil, v.Tensor, tensorflow.As(v.DType))
	require.NoError(t, err)
	assert.Equal(t, message, out)
	_, err = tensorflow.AppendTensor(nil, v.Tensor, tensorflow.As(tensorflow.QInt32))
	assert.ErrorIs(t, err, elements.ErrDType)
}

// Each message says one value, or none, for more elements than there is memory for.
func TestValuesThatRepeatBeyondAllMemoryAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		dtype   byte
		bits    int
		field   []byte
		options []tensorflow.DecodeOption
	}{
		"more bytes than a slice can have":   {4, 56, []byte{7 << 3, 1}, nil},
		"more bytes than there are":          {4, 46, []byte{7 << 3, 1}, nil},
		"more strings than there can be":     {7, 56, []byte{8<<3 | 2, 0}, nil},
		"more strings than there are":        {7, 43, []byte{8<<3 | 2, 0}, nil},
		"more quantised numbers":             {11, 45, []byte{7 << 3, 1}, nil},
		"more quantised numbers as integers": {11, 46, []byte{7 << 3, 1}, []tensorflow.DecodeOption{tensorflow.Integers()}},
	} {
		t.Run(name, func(t *testing.T) {
			message := amplification.TensorProto(test.dtype, 1<<test.bits, test.field)
			options := append(test.options, tensorflow.Limit(1<<62))
			_, err := tensorflow.DecodeView(message, options...)
			assert.ErrorIs(t, err, dlpack.ErrMemory)
			_, err = tensorflow.Decode(message, options...)
			assert.ErrorIs(t, err, dlpack.ErrMemory)
		})
	}
}

func TestElementsOfVariableSizeAreWrittenAsTheirOwnTypeOnly(t *testing.T) {
	for _, of := range []tensorflow.DType{tensorflow.String, tensorflow.Resource, tensorflow.Variant} {
		elems := &elements.Elements{Type: of.String(), Shape: []int64{1}, Values: [][]byte{nil}}
		want, err := tensorflow.AppendElements(nil, elems)
		require.NoError(t, err)
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

// G34: any layout goes out row-major.
func TestG34StridedTensorsAreWrittenRowMajor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base, err := dlpack.FromSlice([]int32{1, 2, 3, 4, 5, 6})
	require.NoError(t, err)
	defer base.Close()
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
			view, err := base.View(dlpack.Spec{DType: dlpack.Int32, Shape: test.shape, Strides: test.strides, ByteOffset: test.offset})
			require.NoError(t, err)
			defer view.Close()
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

// G20: elements below a byte have bytes of their own in a message; packed ones are given them.
func TestG20PackedElementsAreUnpacked(t *testing.T) {
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
		in, err := dlpack.FromBytes(test.data, dlpack.Spec{DType: test.dtype, Shape: []int64{5}, Padded: test.padded})
		require.NoError(t, err)
		message, err := tensorflow.AppendTensor(nil, in)
		require.NoError(t, err)
		in.Close()
		assert.Equal(t, test.want, message[len(message)-5:])
		v, err := tensorflow.Decode(message)
		require.NoError(t, err)
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
		apart, err := dlpack.FromSlice(bytes.Clone(buffer[offset : offset+30]))
		require.NoError(t, err)
		defer apart.Close()
		want, err := tensorflow.AppendTensor(nil, apart)
		require.NoError(t, err)
		tensor, err := dlpack.FromSlice(buffer[offset : offset+30])
		require.NoError(t, err)
		defer tensor.Close()
		out, err := tensorflow.AppendTensor(buffer[:0], tensor)
		require.NoError(t, err)
		assert.Equal(t, want, out, "at %d", offset)
	}
}

func TestAppendTensorRefusesWhatTensorFlowDoesNotHave(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	dst := []byte("before")
	for _, dt := range []dlpack.DataType{dlpack.Complex32, dlpack.Float8E3M4, dlpack.Float6E2M3FN, dlpack.Float4E2M1FNx2,
		dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), dlpack.OpaqueHandle64} {
		in, err := dlpack.FromBytes(make([]byte, 64), dlpack.Spec{DType: dt, Shape: []int64{2}})
		require.NoError(t, err)
		out, err := tensorflow.AppendTensor(dst, in)
		assert.ErrorIs(t, err, elements.ErrDType, dt)
		_, err = tensorflow.SizeTensor(in)
		assert.ErrorIs(t, err, elements.ErrDType, dt)
		assert.Equal(t, "before", string(out))
		in.Close()
	}
	flags, err := dlpack.FromBytes([]byte{1, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{2}})
	require.NoError(t, err)
	for _, form := range forms {
		out, err := tensorflow.AppendTensor(dst, flags, form...)
		assert.ErrorIs(t, err, dlpack.ErrValue)
		assert.Equal(t, "before", string(out))
	}
	flags.Close()
	for _, form := range forms {
		_, err = tensorflow.AppendTensor(dst, flags, form...)
		assert.ErrorIs(t, err, dlpack.ErrClosed)
	}
	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: 2, Shape: []int64{2}})
	device, err := dlpack.Import(p.Managed())
	require.NoError(t, err)
	defer device.Close()
	_, err = tensorflow.AppendTensor(dst, device)
	assert.ErrorIs(t, err, dlpack.ErrDevice)
	_, err = tensorflow.Export(device)
	assert.ErrorIs(t, err, tensorflow.ErrExport)
}

// G37, and the section dlpack of the vectors: TensorFlow is handed what it can compute on, or nothing.
func TestG37ExportHandsTensorFlowOnlyWhatItTakes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, v := range m.DTypes {
			dt := tensorflow.DType(v.Enum).DataType()
			if dt == 0 {
				continue
			}
			in, err := dlpack.New(dt, 2, 3)
			require.NoError(t, err)
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

		base, err := dlpack.New(dlpack.Float32, 64)
		require.NoError(t, err)
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
				view, err := base.View(test.spec)
				require.NoError(t, err)
				defer view.Close()
				managed, err := tensorflow.Export(view)
				assert.ErrorIs(t, err, test.want)
				if err == nil {
					dlpack.ReleaseLegacy(managed)
					return
				}
				if test.spec.DType != dlpack.Float32 || view.Rank() > 254 {
					return
				}
				again, err := view.Copy()
				require.NoError(t, err)
				defer again.Close()
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

func TestTheZeroValueHasNothingAndCanBeClosed(t *testing.T) {
	var v tensorflow.Value
	assert.Nil(t, v.Shape())
	assert.NoError(t, v.Close())
}
