//go:build cgo

package tensorflow_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/bridge/tensorflow/tensorflowtest"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
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
	x, err := tensorflow.DecodeTensor(message)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	if err := x.Require(dlpack.Float32, -1, 3); err != nil {
		fmt.Println(err)
		return
	}
	err = dlpack.Read(x, func(rows []float32) error { // the message's own bytes
		fmt.Println(rows)
		return nil
	})
	fmt.Println(x, err)
	// Output:
	// [1 2 3 4 5 6]
	// float32[2 3] on cpu, read-only
	// [[1 2 3]
	//  [4 5 6]] <nil>
}

func ExampleDecode() {
	for _, message := range []string{
		"\x08\x04\x12\x04\x12\x02\x08\x03\x22\x03abc", // uint8[3]
		"\x08\x07\x12\x04\x12\x02\x08\x02\x42\x02go",  // string[2]; the last value repeats
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
	// uint8[3] on cpu, read-only [97 98 99] false
	// string[2] ["go" "go"]
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
	// tensorflow: byte 10: tensor_content has 3 bytes, but 5 elements of uint8 need 1 each: size differs from what the shape says
	// uint8[3] on cpu [97 98 99] true
}

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// placed copies data so that its byte at index at has an address that is odd in units of align.
func placed(data []byte, at, align, off int) []byte {
	room := make([]byte, len(data)+2*align)
	skip := int(-(address(room) + uintptr(at)) % uintptr(align))
	return append(room[skip+off:skip+off], data...)
}

// Every vector of a DLPack type is decoded as a tensor with its values, and encoded as the same bytes.
func TestVectorsBecomeTensorsAndGoOutAgain(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		kinds := map[string]int{}
		for _, v := range m.Tensors {
			t.Run(v.ID, func(t *testing.T) {
				data := m.File(t, v.File)
				got := must.Do(tensorflow.Decode(data))(t)
				defer got.Close()
				dtype := tensorflow.DType(v.DType)
				assert.Equal(t, dtype, got.DType)
				assert.Equal(t, append([]int64{}, v.Shape...), got.Shape())
				if dtype.DataType() == 0 {
					kinds["elements"]++
					require.Nil(t, got.Tensor)
					assert.Equal(t, dtype.String(), got.Elements.Type)
					require.NoError(t, got.Elements.Validate())
					out := must.Do(tensorflow.AppendElements(nil, got.Elements, tensorflow.Content()))(t)
					assert.Equal(t, v.Writers["AsProtoTensorContent_hex"], hex.EncodeToString(out))
					return
				}
				require.Nil(t, got.Elements)
				assert.Equal(t, dtype.DataType(), got.Tensor.DType())
				assert.Equal(t, !got.Copied, got.Tensor.ReadOnly(), "a copy is the caller's own")
				elems := must.Do(got.Tensor.AppendBytes(nil))(t)
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
				content := must.Do(tensorflow.AppendTensor(nil, got.Tensor))(t)
				assert.Equal(t, v.Writers["AsProtoTensorContent_hex"], hex.EncodeToString(content))
				fields := must.Do(tensorflow.AppendTensor(nil, got.Tensor, tensorflow.Fields()))(t)
				assert.Equal(t, v.Writers["AsProtoField_hex"], hex.EncodeToString(fields))
			})
		}
		assert.Greater(t, kinds["aliased"], 20)
		assert.Greater(t, kinds["copied"], 20)
		assert.Greater(t, kinds["elements"], 20)
	}
}

// Aligned elements are aliased. Other elements are copied once, and Copied reports this. Align changes the required
// alignment.
func TestAlignedContentIsAliasedAndOtherIsCopied(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	floats := must.Own(dlpack.FromSlice([]float32{1, 2, 3, 4}))(t)
	for _, form := range []tensorflow.EncodeOption{tensorflow.Content(), tensorflow.Fields()} {
		message := must.Do(tensorflow.AppendTensor(nil, floats, form))(t)
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
			v := must.Do(tensorflow.Decode(data, append(test.options, tensorflow.Writable())...))(t)
			assert.Equal(t, test.copied, v.Copied)
			assert.Equal(t, v.Copied, v.Tensor.Flags()&dlpack.IsCopied != 0)
			before := data[start]
			into, _, err := v.Tensor.UnsafeBytes()
			require.NoError(t, err)
			into[0] ^= 0xff
			assert.Equal(t, test.copied, data[start] == before, "written on one side, read on the other")
			assert.Equal(t, !test.copied, v.Tensor.Data() == address(data[start:]))
			v.Close()
		}
	}
	must.Fail(tensorflow.Decode([]byte("\x08\x01"), tensorflow.Align(3)))(t, dlpack.ErrUnaligned)
	must.Fail(tensorflow.Decode([]byte("\x08\x01"), tensorflow.Align(2*dlpack.AllocAlignment)))(t, dlpack.ErrUnaligned)
}

// A complex element needs only the alignment of its two numbers.
func TestComplexContentIsAliasedWhereItsNumbersAreAligned(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	numbers := must.Own(dlpack.FromSlice([]complex64{1 + 2i, 3 + 4i}))(t)
	message := must.Do(tensorflow.AppendTensor(nil, numbers))(t)
	start := len(message) - 16
	for off, copied := range map[int]bool{0: false, 4: false, 2: true, 8: false} {
		v := must.Do(tensorflow.Decode(placed(message, start, 64, off)))(t)
		assert.Equal(t, copied, v.Copied, "%d bytes behind a multiple of 64", off)
		v.Close()
	}
}

// A large tensor that is not aligned is copied to aligned memory.
func TestLargeCopiesAreAlignedToo(t *testing.T) {
	testmode.SkipLong(t)
	dlpacktest.CheckLeaks(t)
	view := tensorflow.View{DType: tensorflow.Double, Shape: []int64{100, 100}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 20000)}
	message := must.Do(view.Append(nil))(t)
	for _, align := range []int{0, 64, 256} {
		data := placed(message, len(message)-len(view.Data), 256, 3)
		v := must.Do(tensorflow.Decode(data, tensorflow.Align(align)))(t)
		assert.True(t, v.Copied)
		assert.NoError(t, v.Tensor.RequireAlign(max(align, 64)))
		back := must.Do(v.Tensor.AppendBytes(nil))(t)
		assert.Equal(t, view.Data, back)
		v.Close()
	}
}

// Tensors of lent memory are views of it. The release of the last export, on any thread, releases the memory.
func TestLentMessagesAreViewedAndGivenBack(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	floats := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
	aligned := must.Do(tensorflow.AppendTensor(nil, floats, tensorflow.Pad(64)))(t)
	unaligned := must.Do(tensorflow.AppendTensor([]byte{0}, floats, tensorflow.Pad(64)))(t)
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
			lent := must.Do(dlpack.Lend(loan.Data(), int64(len(test.data)), test.readOnly, loan.Release(), loan.Context()))(t)
			v := must.Do(tensorflow.DecodeFrom(lent))(t)
			lent.Close()
			assert.Equal(t, test.copied, v.Copied)
			assert.Equal(t, v.Copied, v.Tensor.Flags()&dlpack.IsCopied != 0)
			assert.Equal(t, test.readOnly && !test.copied, v.Tensor.ReadOnly())
			from := uintptr(loan.Data())
			assert.Equal(t, !test.copied, v.Tensor.Data() > from && v.Tensor.Data() < from+uintptr(len(test.data)))
			m := must.Do(v.Tensor.Export())(t)
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
	two := must.Do(dlpack.New(dlpack.Uint8, 2, 2))(t)
	must.Fail(tensorflow.DecodeFrom(two))(t, dlpack.ErrLayout)
	two.Close()
	_, err := tensorflow.DecodeFrom(two)
	assert.Error(t, err)
}

func TestElementsOfEveryTypeComeBack(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for dtype, size := range map[tensorflow.DType]int{
		tensorflow.QInt8: 1, tensorflow.QUInt8: 1, tensorflow.QInt16: 2, tensorflow.QUInt16: 2, tensorflow.QInt32: 4, tensorflow.String: 1,
	} {
		data := []byte("\xff123")[:size] // a string that is not text
		e := &elements.Elements{Type: dtype.String(), Shape: []int64{}, Values: [][]byte{data}}
		message := must.Do(tensorflow.AppendElements(nil, e))(t)
		v := must.Do(tensorflow.Decode(message))(t)
		assert.Equal(t, e, v.Elements)
		if dtype != tensorflow.String {
			v = must.Do(tensorflow.Decode(message, tensorflow.Integers()))(t)
			got := must.Do(v.Tensor.AppendBytes(nil))(t)
			assert.Equal(t, data, got, "%v", dtype)
			require.NoError(t, v.Close())
		}
	}
}

// Quantised numbers are decoded as elements, or as integers with the option Integers.
func TestQuantisedNumbersCanBeIntegers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	message := unhex(t, "080f1204120208022204"+"01020304") // qint16[2]
	v := must.Do(tensorflow.Decode(message))(t)
	assert.Equal(t, &elements.Elements{Type: "qint16", Shape: []int64{2}, Values: [][]byte{{1, 2}, {3, 4}}}, v.Elements)
	assert.NoError(t, v.Close())
	v = must.Do(tensorflow.Decode(message, tensorflow.Integers(), tensorflow.Align(1)))(t)
	defer v.Close()
	assert.Equal(t, tensorflow.QInt16, v.DType)
	assert.Equal(t, dlpack.Int16, v.Tensor.DType())
	assert.Equal(t, address(message)+10, v.Tensor.Data())
	out := must.Do(tensorflow.AppendTensor(nil, v.Tensor, tensorflow.As(v.DType)))(t)
	assert.Equal(t, message, out)
	must.Fail(tensorflow.AppendTensor(nil, v.Tensor, tensorflow.As(tensorflow.QInt32)))(t, elements.ErrDType)
}

// Each message has at most one value for more elements than fit in memory.
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
			message := tensorflowtest.TensorProto(test.dtype, 1<<test.bits, test.field)
			options := append(test.options, tensorflow.Limit(1<<62))
			must.Fail(tensorflow.DecodeView(message, options...))(t, dlpack.ErrMemory)
			must.Fail(tensorflow.Decode(message, options...))(t, dlpack.ErrMemory)
		})
	}
}

func TestTheZeroValueHasNothingAndCanBeClosed(t *testing.T) {
	var v tensorflow.Value
	assert.Nil(t, v.Shape())
	assert.NoError(t, v.Close())
}

// In logs and in JSON, values are descriptions, and types are names.
func TestLogLines(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	write := func(v any) string {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("", "x", v)
		return out.String()
	}
	numbers := must.Do(tensorflow.Decode([]byte("\x08\x04\x12\x04\x12\x02\x08\x03\x22\x03abc")))(t)
	defer numbers.Close()
	strings := must.Do(tensorflow.Decode([]byte("\x08\x07\x12\x04\x12\x02\x08\x01\x42\x02go")))(t)
	assert.Contains(t, write(numbers), `"x":{"dtype":"uint8","tensor":"uint8[3] on cpu, read-only"}`)
	assert.Contains(t, write(&strings), `"x":{"dtype":"string","elements":"string[1]"}`)
	assert.Contains(t, write(strings.Elements), `"x":"string[1]"`)
	assert.Contains(t, write(tensorflow.DType(99)), `"x":"dtype 99"`)
	text := must.Do(json.Marshal([]tensorflow.DType{tensorflow.String, numbers.DType}))(t)
	assert.Equal(t, `["string","uint8"]`, string(text))
	var back []tensorflow.DType
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, []tensorflow.DType{tensorflow.String, numbers.DType}, back)
	assert.ErrorIs(t, json.Unmarshal([]byte(`["float99"]`), &back), elements.ErrDType)
	must.Fail(json.Marshal(tensorflow.DType(0)))(t, elements.ErrDType)
}

func TestDecodeTensorRefusesWhatIsNone(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(tensorflow.DecodeTensor([]byte("\x08\x04\x12\x04\x12\x02\x08\x03\x22\x03abc")))(t)
	assert.Equal(t, "uint8[3] on cpu, read-only", x.String())
	must.Fail(tensorflow.DecodeTensor(nil))(t, tensorflow.ErrWire)
	_, err := tensorflow.DecodeTensor([]byte("\x08\x07\x12\x04\x12\x02\x08\x01\x42\x02go"))
	assert.ErrorIs(t, err, elements.ErrDType)
	assert.ErrorIs(t, err, dlpack.ErrDType)
	assert.EqualError(t, err, "tensorflow: the message holds string[1], whose type DLPack lacks; Decode returns its Elements: data type not representable")
	quantised := []byte("\x08\x0c\x12\x04\x12\x02\x08\x03\x22\x03\x00\x80\xff")
	_, err = tensorflow.DecodeTensor(quantised)
	assert.ErrorIs(t, err, elements.ErrDType)
	assert.ErrorContains(t, err, "holds quint8[3], whose type DLPack lacks; Decode returns its Elements, and the option Integers makes a tensor")
	x = must.Own(tensorflow.DecodeTensor(quantised, tensorflow.Integers()))(t)
	assert.Equal(t, dlpack.Uint8, x.DType())
}

// This test reads a message as the package documentation says, so that nothing is copied.
func TestMessagesThatEndAtAMultipleOf8BytesAreNotCopied(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	copied := 0
	for _, dtype := range []dlpack.DataType{dlpack.Uint8, dlpack.Float16, dlpack.Float32, dlpack.Int64, dlpack.Complex128} {
		for _, shape := range [][]int64{{}, {1}, {3}, {5, 7}, {128}, {200, 3}, {1, 224, 224, 3}, {1 << 20}} {
			sent := must.Do(tensorflow.AppendTensor(nil, must.Own(dlpack.New(dtype, shape...))(t)))(t)
			size := len(sent)
			buffer := make([]byte, (size+7)&^7)
			message := buffer[-size&7:]
			must.Do(io.ReadFull(bytes.NewReader(sent), message))(t)
			x := must.Own(tensorflow.DecodeTensor(message))(t)
			assert.Zero(t, x.Flags()&dlpack.IsCopied, x)
			if must.Own(tensorflow.DecodeTensor(bytes.Clone(sent)))(t).Flags()&dlpack.IsCopied != 0 {
				copied++
			}
		}
	}
	assert.NotZero(t, copied, "without that, some are")
}
