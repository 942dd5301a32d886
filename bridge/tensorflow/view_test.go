package tensorflow_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func ExampleDecodeView() {
	message, _ := hex.DecodeString("08051204120208033a03e8710b") // int16[3], two values
	view, err := tensorflow.DecodeView(message)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(view.DType, view.Shape, view.Data, view.Aliases)
	// Output: int16 [3] [232 56 11 0 11 0] false
}

func ExampleAppendElements() {
	words := &elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("hello"), []byte("tensor")}}
	message, err := tensorflow.AppendElements(nil, words)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", message)
	// Output: "\b\a\x12\x04\x12\x02\b\x02B\x05helloB\x06tensor"
}

func ExampleAppendHeader() {
	elems := []byte{1, 2, 3, 4, 5, 6}
	header, err := tensorflow.AppendHeader(nil, tensorflow.UInt8, []int64{2, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	message := bytes.Join([][]byte{header, elems}, nil) // or written one after the other
	view, err := tensorflow.DecodeView(message)
	fmt.Println(view.Shape, view.Data, err)
	// Output: [2 3] [1 2 3 4 5 6] <nil>
}

func ExampleDecodeShape() {
	shape, err := tensorflow.DecodeShape([]byte("\x12\x02\x08\x04\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	fmt.Println(shape, err)
	fmt.Printf("%x\n", tensorflow.AppendShape(nil, layout.PartialShape{}))
	// Output:
	// [4,?] <nil>
	// 1801
}

func ExampleDecodeSlice() {
	slice, err := tensorflow.DecodeSlice([]byte("\x0a\x00\x0a\x04\x08\x02\x10\x03"))
	fmt.Println(slice, err)
	// Output: -:2,3 <nil>
}

func ExampleDecodeDescription() {
	d, err := tensorflow.DecodeDescription([]byte("\x08\x01\x12\x06\x12\x02\x08\x03\x12\x00\x22\x05\x1a\x03cpu"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.DType, d.Shape, d.Allocation.AllocatorName)
	// Output: float [3,0] cpu
}

func ExampleDecodeVariant() {
	list := tensorflow.VariantData{TypeName: "tensorflow::TensorList", Tensors: [][]byte{[]byte("\x08\x01\x2a\x04\x00\x00\x80\x3f")}}
	message, _ := list.Append(nil)
	back, err := tensorflow.DecodeVariant(message)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := tensorflow.DecodeView(back.Tensors[0])
	fmt.Println(back.TypeName, first.DType, first.Data, err)
	// Output: tensorflow::TensorList float [0 0 128 63] <nil>
}

func TestShapeVectorsAreReadAndWritten(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.ShapeProtos {
			t.Run(v.ID, func(t *testing.T) {
				data := m.File(t, v.File)
				shape, err := tensorflow.DecodeShape(data)
				want := v.PartialTensorShape
				if !want.IsValid {
					var where *elements.Error
					assert.ErrorAs(t, err, &where)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, want.Shape, shape.Dims())
				assert.Equal(t, want.Text, shape.String())
				assert.Equal(t, want.Proto, hex.EncodeToString(tensorflow.AppendShape(nil, shape)))
			})
		}
	}
}

func TestSliceVectorsAreReadAndWritten(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Slices.Proto {
			t.Run(v.ID, func(t *testing.T) {
				slice, err := tensorflow.DecodeSlice(unhex(t, v.Hex))
				want := v.BuildTensorSlice
				if want.Error != "" {
					var where *elements.Error
					assert.ErrorAs(t, err, &where)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, want.Text, slice.String())
				requireExtents(t, want.Starts, want.Lengths, want.Ends, want.Full, slice)
				assert.Equal(t, want.Proto, hex.EncodeToString(tensorflow.AppendSlice(nil, slice)))
			})
		}
		for _, v := range m.Slices.Parse {
			if v.Error == "" {
				slice := must.Do(tensorflow.ParseTensorSlice(v.Input))(t)
				data := tensorflow.AppendSlice(nil, slice)
				assert.Equal(t, v.Proto, hex.EncodeToString(data), v.Input)
				back := must.Do(tensorflow.DecodeSlice(data))(t)
				assert.True(t, slice.Equal(back), v.Input)
			}
		}
		_, err := tensorflow.DecodeSlice([]byte("\x0a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
		assert.ErrorIs(t, err, layout.ErrIndex, "a length of -1 is not an absent one")
	}
}

// TensorFlow writes the same bytes.
func TestDescriptionsAreReadAndWritten(t *testing.T) {
	shape := must.Do(layout.NewPartialShape(3, 0))(t)
	scalar := must.Do(layout.NewPartialShape())(t)
	tests := []struct {
		name, hex string
		want      tensorflow.Description
	}{
		{"with its allocation", "080112061202080312002215080c1080021a03637075200728013080defbedea1b", tensorflow.Description{
			DType: tensorflow.Float, Shape: shape, Allocation: &tensorflow.Allocation{
				RequestedBytes: 12, AllocatedBytes: 256, AllocatorName: "cpu", AllocationID: 7, HasSingleReference: true, Ptr: 0xdeadbeef00,
			}}},
		{"unknown rank", "080912021801", tensorflow.Description{DType: tensorflow.Int64}},
		{"scalar", "08011200", tensorflow.Description{DType: tensorflow.Float, Shape: scalar}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := must.Do(tensorflow.DecodeDescription(unhex(t, test.hex)))(t)
			assert.True(t, test.want.Shape.Equal(got.Shape), got.Shape)
			assert.Equal(t, test.want.DType, got.DType)
			assert.Equal(t, test.want.Allocation, got.Allocation)
			out := must.Do(got.Append(nil))(t)
			assert.Equal(t, test.hex, hex.EncodeToString(out))
		})
	}
	d := must.Do(tensorflow.DecodeDescription(nil))(t)
	assert.True(t, scalar.Equal(d.Shape), "no shape is that of a scalar")
	for _, bad := range []string{"08", "12041800", "120418011200", "22031a01ff", "220108", "120d120b08f9ffffffffffffffff01"} {
		_, err := tensorflow.DecodeDescription(unhex(t, bad))
		var where *elements.Error
		assert.ErrorAs(t, err, &where, bad)
	}
	must.Fail((&tensorflow.Description{Allocation: &tensorflow.Allocation{AllocatorName: "\xff"}}).Append(nil))(t, tensorflow.ErrText)
}

func TestDecodeViewPassesOverWhatItDoesNotKnow(t *testing.T) {
	message := unhex(t, "08011204120208012a040000803f")
	deep := func(n int) []byte {
		return []byte(strings.Repeat("\xa3\x06", n) + strings.Repeat("\xa4\x06", n)) // field 100
	}
	tests := []struct {
		name  string
		extra []byte
		want  error
	}{
		{"group", deep(1), nil},
		{"groups nested 100 deep", deep(100), nil},
		{"groups nested 101 deep", deep(101), tensorflow.ErrWire},
		{"groups nested very deep", deep(1 << 20), tensorflow.ErrWire},
		{"end of another group", []byte("\xa3\x06\xac\x06"), tensorflow.ErrWire},
		{"end without a beginning", []byte("\xa4\x06"), tensorflow.ErrWire},
		{"beginning without an end", []byte("\xa3\x06\x08\x01"), tensorflow.ErrWire},
		{"known field of another wire type", []byte("\x0d\x02\x00\x00\x00"), nil},
		{"type as bytes", []byte("\x0a\x01\x02"), nil},
		{"values of another type", []byte("\x3a\x02\x01\x02\x42\x01x\x92\x01\x01x"), nil},
		{"values of another type that are none", []byte("\x3a\x02\x01\x82"), tensorflow.ErrWire},
		{"largest field number", protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, 0), 1), nil},
		{"larger field number", []byte("\x80\x80\x80\x80\x10\x01"), tensorflow.ErrWire},
		{"tag of more than 64 bits", bytes.Repeat([]byte{0xff}, 11), tensorflow.ErrWire},
		{"tag in five bytes", []byte("\xb2\x86\x80\x80\x00\x00"), nil},
		{"tag in six bytes", []byte("\xb2\x86\x80\x80\x80\x00\x00"), tensorflow.ErrWire},
		{"length in five bytes", []byte("\xb2\x06\x81\x80\x80\x80\x00x"), nil},
		{"length in six bytes", []byte("\xb2\x06\x81\x80\x80\x80\x80\x00x"), tensorflow.ErrWire},
		{"length of more than an int", []byte("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), tensorflow.ErrWire},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, data := range [][]byte{append(bytes.Clone(message), test.extra...), append(bytes.Clone(test.extra), message...)} {
				view, err := tensorflow.DecodeView(data)
				if test.want != nil {
					assert.ErrorIs(t, err, test.want)
					continue
				}
				require.NoError(t, err)
				assert.Equal(t, []byte{0, 0, 0x80, 0x3f}, view.Data)
			}
		})
	}
}

// A few bytes can stand for any number of elements. They take memory only up to a limit.
func TestIntegersOfFewBitsHaveTheRangeOfTheirType(t *testing.T) {
	tests := []struct {
		dtype     tensorflow.DType
		low, high int64
	}{
		{tensorflow.Int8, -128, 127}, {tensorflow.UInt8, 0, 255}, {tensorflow.Int16, -1 << 15, 1<<15 - 1}, {tensorflow.UInt16, 0, 1<<16 - 1},
		{tensorflow.QInt8, -128, 127}, {tensorflow.QUInt8, 0, 255},
	}
	for _, test := range tests {
		for n, want := range map[int64]error{test.low: nil, test.high: nil, test.low - 1: dlpack.ErrValue, test.high + 1: dlpack.ErrValue} {
			message := append([]byte{0x08, byte(test.dtype)}, "\x12\x04\x12\x02\x08\x01\x38"...) // shape [1], int_val
			_, err := tensorflow.DecodeView(protowire.AppendVarint(message, uint64(n)))
			assert.ErrorIs(t, err, want, "%v %d", test.dtype, n)
		}
	}
}

func TestRepeatedValuesHaveALimit(t *testing.T) {
	say := func(dtype tensorflow.DType, count int64, values string) []byte {
		header := must.Do(tensorflow.AppendHeader(nil, dtype, []int64{count}))(t)
		head, _, _ := bytes.Cut(header, []byte{0x22}) // without tensor_content
		return append(head, values...)
	}
	for _, values := range []string{"", "\x3a\x01\x07"} {
		for count, want := range map[int64]error{16 << 20: nil, 16<<20 + 1: tensorflow.ErrLimit, 1 << 28: tensorflow.ErrLimit} {
			view, err := tensorflow.DecodeView(say(tensorflow.Int32, count, values))
			assert.ErrorIs(t, err, want)
			assert.Equal(t, want == nil, int64(len(view.Data)) == 4*count)
		}
	}
	data := say(tensorflow.Int32, 1000, "\x3a\x01\x07")
	must.Fail(tensorflow.DecodeView(data, tensorflow.Limit(3999)))(t, tensorflow.ErrLimit)
	view := must.Do(tensorflow.DecodeView(data, tensorflow.Limit(4000)))(t)
	assert.Equal(t, bytes.Repeat([]byte{7, 0, 0, 0}, 1000), view.Data)
	must.Fail(tensorflow.DecodeView(data, tensorflow.Limit(-1)))(t, tensorflow.ErrLimit)

	strings := []byte("\x08\x07\x12\x06\x12\x04\x08\x80\x80\x40\x42\x02go")
	must.Fail(tensorflow.DecodeView(strings, tensorflow.Limit(1<<20*24-1)))(t, tensorflow.ErrLimit)
	view = must.Do(tensorflow.DecodeView(strings, tensorflow.Limit(1<<20*24)))(t)
	assert.Len(t, view.Elements.Values, 1<<20)
	assert.Equal(t, "go", string(view.Elements.Values[1<<20-1]))

	full := say(tensorflow.Int32, 3, "\x3a\x03\x01\x02\x03")
	_, err := tensorflow.DecodeView(full, tensorflow.Limit(0))
	assert.NoError(t, err, "no limit applies where each element has its value")
}

// Padding aligns the elements in the message, and readers of protocol buffers ignore it.
func TestPadAlignsElementsAndChangesNothingElse(t *testing.T) {
	md := descriptor(t, "Tensor")
	for rank := range 40 { // headers of many sizes
		shape := make([]int64, rank)
		for i := range shape {
			shape[i] = 1
		}
		view := tensorflow.View{DType: tensorflow.Float, Shape: shape, Data: []byte{1, 2, 3, 4}}
		for _, n := range []int{1, 2, 4, 64, 4096} {
			for _, form := range []tensorflow.EncodeOption{tensorflow.Content(), tensorflow.Fields()} {
				for _, before := range []int{0, 1, 77} {
					plain := must.Do(view.Append(nil, form))(t)
					dst := make([]byte, before)
					out := must.Do(view.Append(dst, form, tensorflow.Pad(n)))(t)
					message := out[before:]
					assert.Zero(t, (len(out)-4)%n, "from the beginning of the buffer")
					assert.LessOrEqual(t, len(message), len(plain)+n+1)
					back := must.Do(tensorflow.DecodeView(message))(t)
					assert.Equal(t, view.Data, back.Data)
					assert.Zero(t, uintptr(unsafe.Pointer(&back.Data[0]))%64&uintptr(n-1), "and in memory that was taken")
					a := must.Do(peerRead(md, plain))(t)
					b := must.Do(peerRead(md, message))(t)
					assert.Equal(t, a.String(), b.String())
					assert.Empty(t, b.GetUnknown())
				}
			}
		}
	}
	view := tensorflow.View{DType: tensorflow.UInt8, Shape: []int64{1}, Data: []byte{1}}
	for _, n := range []int{-1, 3, 8192} {
		must.Fail(view.Append(nil, tensorflow.Pad(n)))(t, elements.ErrSize)
	}
	header := must.Do(tensorflow.AppendHeader(nil, tensorflow.UInt8, []int64{1}, tensorflow.Pad(64)))(t)
	assert.Len(t, header, 64)
}

// New memory is placed so that the elements are aligned, without padding in the message.
func TestElementsAreAlignedInNewMemory(t *testing.T) {
	for rank := range 20 {
		shape := make([]int64, rank)
		for i := range shape {
			shape[i] = 1
		}
		view := tensorflow.View{DType: tensorflow.Double, Shape: shape, Data: make([]byte, 8)}
		out := must.Do(view.Append(nil))(t)
		back := must.Do(tensorflow.DecodeView(out))(t)
		assert.True(t, back.Aliases)
		assert.Zero(t, uintptr(unsafe.Pointer(&back.Data[0]))%64)
	}
}

// Negative zeros are kept. TensorFlow leaves them out and loses their sign.
func TestCompressKeepsTheSignOfZeros(t *testing.T) {
	for _, zero := range []float64{0, math.Copysign(0, -1)} {
		view := tensorflow.View{DType: tensorflow.Double, Shape: []int64{100}}
		for range 100 {
			view.Data = binary.LittleEndian.AppendUint64(view.Data, math.Float64bits(zero))
		}
		for _, form := range []tensorflow.EncodeOption{tensorflow.Content(), tensorflow.Fields()} {
			out := must.Do(view.Append(nil, form, tensorflow.Compress(64, 2)))(t)
			assert.Less(t, len(out), 20)
			back := must.Do(tensorflow.DecodeView(out))(t)
			assert.Equal(t, view.Data, back.Data)
		}
	}
	view := tensorflow.View{DType: tensorflow.UInt8, Shape: []int64{1}, Data: []byte{1}}
	for _, ratio := range []float64{0, -1, math.NaN()} {
		must.Fail(view.Append(nil, tensorflow.Compress(0, ratio)))(t, dlpack.ErrValue)
	}
}

func TestQuantisedNumbersAreElementsOfTheirSize(t *testing.T) {
	seen := 0
	for _, m := range manifests(t) {
		for _, v := range m.Tensors {
			dtype := tensorflow.DType(v.DType)
			if v.DataHex == nil || dtype.DataType() != 0 {
				continue
			}
			seen++
			view := must.Do(tensorflow.DecodeView(m.File(t, v.File)))(t)
			e := view.AsElements()
			require.NoError(t, e.Validate())
			assert.Equal(t, dtype.String(), e.Type)
			assert.Equal(t, *v.DataHex, hex.EncodeToString(bytes.Join(e.Values, nil)))
			out := must.Do(tensorflow.AppendElements(nil, e))(t)
			assert.Equal(t, v.Writers["AsProtoTensorContent_hex"], hex.EncodeToString(out), v.ID)
		}
	}
	assert.GreaterOrEqual(t, seen, 10)
	must.Fail(tensorflow.AppendElements(nil, &elements.Elements{Type: "qint16", Shape: []int64{1}, Values: [][]byte{{1}}}))(t, elements.ErrSize)
}

// Resources and variants are decoded as elements like strings, in both forms.
func TestVariantsTravelInBothForms(t *testing.T) {
	// A list of one tensor, as tf.io.serialize_tensor writes it
	data := unhex(t, "081512002236350a1674656e736f72666c6f773a3a54656e736f724c697374"+
		"1207000103120208021a1208011204120208022a080000803f00000040")
	view := must.Do(tensorflow.DecodeView(data))(t)
	require.Len(t, view.Elements.Values, 1)
	assert.Equal(t, "variant", view.Elements.Type)
	list := must.Do(tensorflow.DecodeVariant(view.Elements.Values[0]))(t)
	assert.Equal(t, "tensorflow::TensorList", list.TypeName)
	require.Len(t, list.Tensors, 1)
	first := must.Do(tensorflow.DecodeView(list.Tensors[0]))(t)
	assert.Equal(t, []int64{2}, first.Shape)
	again := must.Do(list.Append(nil))(t)
	assert.Equal(t, view.Elements.Values[0], again)
	out := must.Do(view.Append(nil, tensorflow.Content()))(t)
	assert.Equal(t, data, out)
	fields := must.Do(tensorflow.AppendElements(nil, view.Elements))(t)
	back := must.Do(tensorflow.DecodeView(fields))(t)
	assert.Equal(t, view.Elements, back.Elements)

	for _, bad := range []string{"0a01ff", "0a05", "1aff"} {
		_, err := tensorflow.DecodeVariant(unhex(t, bad))
		assert.Error(t, err, bad)
	}
	must.Fail((&tensorflow.VariantData{TypeName: "\xff"}).Append(nil))(t, tensorflow.ErrText)
}

// Tensors of variants may share their memory.
func TestVariantsThatNoMemoryHasRoomForAreRefused(t *testing.T) {
	tensor := make([]byte, 1<<30) // none of it is touched
	for _, n := range []int{2, 1<<17 - 1<<10, 1 << 18} {
		v := tensorflow.VariantData{Tensors: slices.Repeat([][]byte{tensor}, n)}
		out, err := v.Append([]byte("before"))
		assert.ErrorIs(t, err, dlpack.ErrOverflow)
		assert.Equal(t, "before", string(out))
	}
	out := must.Do((&tensorflow.VariantData{}).Append(nil))(t)
	assert.Empty(t, out)
}

func TestAppendRefusesWhatTensorFlowDoesNotHave(t *testing.T) {
	tests := []struct {
		name string
		view tensorflow.View
		want error
	}{
		{"no type", tensorflow.View{}, elements.ErrDType},
		{"unknown type", tensorflow.View{DType: 99}, elements.ErrDType},
		{"too few bytes", tensorflow.View{DType: tensorflow.Int32, Shape: []int64{2}, Data: make([]byte, 4)}, elements.ErrSize},
		{"negative dimension", tensorflow.View{DType: tensorflow.Int32, Shape: []int64{-1}}, layout.ErrNegative},
		{"overflow", tensorflow.View{DType: tensorflow.Int32, Shape: []int64{1 << 40, 1 << 40, 0}}, layout.ErrOverflow},
		{"too large", tensorflow.View{DType: tensorflow.Int32, Shape: []int64{1 << 62}}, dlpack.ErrOverflow},
		{"rank", tensorflow.View{DType: tensorflow.Int32, Shape: make([]int64, 255)}, tensorflow.ErrRank},
		{"bool", tensorflow.View{DType: tensorflow.Bool, Shape: []int64{1}, Data: []byte{2}}, dlpack.ErrValue},
		{"strings without elements", tensorflow.View{DType: tensorflow.String}, elements.ErrDType},
		{"elements of another type", tensorflow.View{DType: tensorflow.String, Elements: &elements.Elements{Type: "image", Values: [][]byte{{}}}}, elements.ErrDType},
		{"too few elements", tensorflow.View{DType: tensorflow.String, Elements: &elements.Elements{Type: "string"}}, elements.ErrElements},
		{"elements with formats", tensorflow.View{DType: tensorflow.String, Elements: &elements.Elements{Type: "string", Values: [][]byte{{}}, Formats: []string{""}}}, elements.ErrDType},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dst := []byte("before")
			out, err := test.view.Append(dst)
			assert.ErrorIs(t, err, test.want)
			assert.Equal(t, "before", string(out))
		})
	}
	_, err := tensorflow.AppendElements(nil, &elements.Elements{Type: "float", Values: [][]byte{make([]byte, 4)}})
	assert.ErrorIs(t, err, elements.ErrDType, "numbers are tensors")
	must.Fail(tensorflow.AppendElements(nil, &elements.Elements{Type: "image", Values: [][]byte{{}}}))(t, elements.ErrDType)
	must.Fail(tensorflow.AppendHeader(nil, tensorflow.String, nil))(t, elements.ErrDType)
	must.Fail(tensorflow.DTypeOf(dlpack.Float6E2M3FN))(t, elements.ErrDType)
	qint := tensorflow.View{DType: tensorflow.Int8, Shape: []int64{1}, Data: []byte{1}}
	out := must.Do(qint.Append(nil, tensorflow.As(tensorflow.QInt8)))(t)
	back := must.Do(tensorflow.DecodeView(out))(t)
	assert.Equal(t, tensorflow.QInt8, back.DType)
	must.Fail(qint.Append(nil, tensorflow.As(tensorflow.QUInt8)))(t, elements.ErrDType)
}

// Ranks from 0 to the largest.
func TestNilMessagesAreRefused(t *testing.T) {
	dst := []byte("kept")
	for name, append := range map[string]func() ([]byte, error){
		"View":        func() ([]byte, error) { return (*tensorflow.View)(nil).Append(dst) },
		"Description": func() ([]byte, error) { return (*tensorflow.Description)(nil).Append(dst) },
		"VariantData": func() ([]byte, error) { return (*tensorflow.VariantData)(nil).Append(dst) },
	} {
		out, err := append()
		assert.ErrorIs(t, err, elements.ErrNil, name)
		assert.ErrorContains(t, err, name)
		assert.Equal(t, []byte("kept"), out, name)
	}
	assert.Nil(t, (*tensorflow.View)(nil).AsElements())
}

func TestEveryRankTravels(t *testing.T) {
	for rank := range layout.MaxPartialRank + 1 {
		shape := make([]int64, rank)
		for i := range shape {
			shape[i] = 1
		}
		view := tensorflow.View{DType: tensorflow.UInt16, Shape: shape, Data: []byte{1, 2}}
		out := must.Do(view.Append(nil))(t)
		back := must.Do(tensorflow.DecodeView(out))(t)
		assert.Equal(t, shape, back.Shape)
	}
	must.Fail(tensorflow.DecodeView([]byte("\x08\x01\x12\xfe\x03"+strings.Repeat("\x12\x00", 255))))(t, tensorflow.ErrRank)
}

func TestErrorsSayThatBytesAreNoTensorProto(t *testing.T) {
	for text, data := range map[string]string{
		"tensorflow: byte 0: not a TensorProto: empty message: malformed protocol buffer":                            "",
		"tensorflow: byte 2: not a TensorProto: field 13 ends a group that has not begun: malformed protocol buffer": "\x08\x01\x6c",
	} {
		_, err := tensorflow.DecodeView([]byte(data))
		assert.EqualError(t, err, text)
	}
}

// errors.Is finds the errors of package dlpack, whichever package returned the error.
func TestErrRankIsAlsoErrLayoutOfDLPack(t *testing.T) {
	assert.ErrorIs(t, tensorflow.ErrRank, dlpack.ErrLayout)
}
