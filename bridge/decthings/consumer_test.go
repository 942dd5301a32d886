//go:build cgo

package decthings_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }

func Example() {
	pixels, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer pixels.Close()
	data, err := decthings.AppendTensor(nil, pixels) // header and aligned payload
	if err != nil {
		fmt.Println(err)
		return
	}
	names := &elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("hello"), []byte(", world!")}}
	if data, err = decthings.AppendElements(data, names, decthings.Py004); err != nil {
		fmt.Println(err)
		return
	}
	for v, err := range decthings.DecodeAll(data, decthings.In(decthings.Py004)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if v.Tensor != nil {
			x, _ := dlpack.UnsafeValues[float32](v.Tensor)
			fmt.Println(v.Tensor, x)
		} else {
			fmt.Printf("%v %q\n", v.Elements, v.Elements.Values)
		}
		v.Close()
	}
	// Output:
	// float32[2 3] on cpu, read-only
	// [[1 2 3]
	//  [4 5 6]] [1 2 3 4 5 6]
	// string[2] ["hello" ", world!"]
}

func ExampleDecode() {
	data := []byte{byte(decthings.U16), 1, 2, 1, 0, 2, 0}
	v, err := decthings.Decode(data, decthings.Writable())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	x, err := dlpack.Values[uint16](v.Tensor)
	fmt.Println(v.Type, v.Shape(), x, err)
	// Output: u16 [2] [1 2] <nil>
}

func ExampleDecodeFirst() {
	data := []byte{byte(decthings.U8), 0, 42, byte(decthings.U8), 0, 43}
	for len(data) > 0 {
		v, n, err := decthings.DecodeFirst(data)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Tensor, data[:n])
		v.Close()
		data = data[n:]
	}
	// Output:
	// uint8[] on cpu, read-only 42 [7 0 42]
	// uint8[] on cpu, read-only 43 [7 0 43]
}

func ExampleDecodeFrom() {
	frame, _ := dlpack.New(dlpack.Uint8, 5) // memory that is not Go's
	defer frame.Close()
	bytes, _ := dlpack.Values[uint8](frame)
	copy(bytes, []byte{byte(decthings.I8), 1, 2, 255, 1})
	v, err := decthings.DecodeFrom(frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	x, _ := dlpack.Values[int8](v.Tensor)
	fmt.Println(x, v.Tensor.Data() == frame.Data()+3)
	// Output: [-1 1] true
}

func ExampleDecodeFirstFrom() {
	frame, _ := dlpack.New(dlpack.Uint8, 5)
	defer frame.Close()
	bytes, _ := dlpack.Values[uint8](frame)
	copy(bytes, []byte{byte(decthings.Boolean), 0, 1, 0, 0})
	v, n, err := decthings.DecodeFirstFrom(frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	fmt.Println(v.Tensor, n)
	// Output: bool[] on cpu true 3
}

func TestVectorsBecomeTensorsAndElements(t *testing.T) {
	eachTensor(t, func(t *testing.T, v *tensorVector, data []byte, d decthings.Dialect) {
		if v.overInt64() {
			_, err := decthings.Decode(data, decthings.In(d))
			require.Error(t, err)
			return
		}
		want := v.view(t)
		for shift := range 9 {
			dlpacktest.CheckLeaks(t)
			frame := append(make([]byte, shift, shift+len(data)), data...)[shift:]
			got := must.Do(decthings.Decode(frame, decthings.In(d)))(t)
			assert.Equal(t, want.Type, got.Type)
			assert.Equal(t, want.Shape, append([]int64{}, got.Shape()...))
			require.Equal(t, want.Elements, got.Elements)
			if want.Elements != nil {
				assert.Nil(t, got.Tensor)
				continue
			}
			assert.Equal(t, want.Type.DataType(), got.Tensor.DType())
			assert.Equal(t, !got.Copied, got.Tensor.ReadOnly())
			elems := must.Do(got.Tensor.AppendBytes(nil))(t)
			assert.True(t, bytes.Equal(want.Data, elems))
			again := must.Do(decthings.AppendTensor(nil, got.Tensor))(t)
			assert.Equal(t, data, again)
			size := must.Do(decthings.SizeTensor(got.Tensor))(t)
			assert.Equal(t, len(data), size)
			require.NoError(t, got.Close())
		}
	})
}

// numbers returns a tensor of float32 whose payload lies the given number of bytes after a multiple of 64.
func numbers(t testing.TB, more int, values ...float32) []byte {
	head := must.Do(decthings.AppendHeader(nil, decthings.F32, []int64{int64(len(values))}))(t)
	room := make([]byte, 64+more+len(head)+4*len(values)+64)
	skip := int(-(address(room)+uintptr(len(head)))%64) + more
	out := append(room[skip:skip], head...)
	for _, x := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func TestAlignedPayloadsAreAliasedAndOthersCopiedOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for more := range 64 {
		data := numbers(t, more, 1, 2, 3)
		payload := data[len(data)-12:]
		v := must.Do(decthings.Decode(data, decthings.Writable()))(t)
		assert.Equal(t, more%4 != 0, v.Copied)
		assert.Equal(t, v.Copied, v.Tensor.Flags()&dlpack.IsCopied != 0)
		assert.Equal(t, v.Copied, v.Tensor.Data() != address(payload))
		require.NoError(t, v.Tensor.RequireAlign(4))
		x := must.Do(dlpack.Values[float32](v.Tensor))(t)
		require.Equal(t, []float32{1, 2, 3}, x)
		x[1] = 42
		assert.Equal(t, !v.Copied, bytes.Equal(payload[4:8], []byte{0, 0, 0x28, 0x42}), "the same memory, or not")
		v.Close()
		for _, align := range []int{0, 1, 2, 8, 64, 256} {
			v := must.Do(decthings.Decode(data, decthings.Align(align)))(t)
			if align == 0 {
				align = 4
			}
			assert.Equal(t, address(payload)%uintptr(align) != 0, v.Copied, "%d", align)
			assert.NoError(t, v.Tensor.RequireAlign(align))
			v.Close()
		}
	}
	for _, align := range []int{-1, 3, 512} {
		must.Fail(decthings.Decode(numbers(t, 0, 1), decthings.Align(align)))(t, dlpack.ErrUnaligned)
	}
}

// The caller may write to a copy, but to a tensor in the input only with Writable.
func TestOnlyTensorsInTheInputAreReadOnly(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, more := range []int{0, 1} {
		data := numbers(t, more, 1)
		v := must.Do(decthings.Decode(data))(t)
		assert.Equal(t, more == 1, v.Copied)
		assert.Equal(t, !v.Copied, v.Tensor.ReadOnly())
		v.Close()
		v = must.Do(decthings.Decode(data, decthings.Writable()))(t)
		assert.False(t, v.Tensor.ReadOnly())
		v.Close()
	}
}

// lent returns a tensor of C memory with a copy of data, shifted by some bytes.
func lent(t *testing.T, data []byte, shift int, readOnly bool) (*dlpack.Tensor, *dlpacktest.Loan) {
	loan := dlpacktest.Lend(t, shift+len(data))
	copy(unsafe.Slice((*byte)(loan.Data()), shift+len(data))[shift:], data)
	frame := must.Do(dlpack.Lend(unsafe.Add(loan.Data(), shift), int64(len(data)), readOnly, loan.Release(), loan.Context()))(t)
	return frame, loan
}

func TestForeignMemoryIsKeptByItsTensorsAlone(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	head := []byte{byte(decthings.F64), 1, 2}
	data := append(head, make([]byte, 16)...)
	for _, readOnly := range []bool{false, true} {
		for shift := range 8 {
			frame, loan := lent(t, data, shift, readOnly)
			v := must.Do(decthings.DecodeFrom(frame))(t)
			address := uintptr(loan.Data()) + uintptr(shift+3)
			assert.Equal(t, address%8 != 0, v.Copied)
			assert.Equal(t, v.Copied, v.Tensor.Flags()&dlpack.IsCopied != 0)
			assert.Equal(t, !v.Copied, v.Tensor.Data() == address)
			assert.Equal(t, readOnly && !v.Copied, v.Tensor.ReadOnly())
			frame.Close()
			assert.Equal(t, v.Copied, loan.Releases() == 1, "a tensor that aliases the frame keeps it, a copy does not")
			exported := must.Do(v.Tensor.Export())(t)
			v.Close()
			dlpack.Release(exported)
			assert.Equal(t, 1, loan.Releases())
		}
	}
}

func TestForeignMemoryIsReadLikeOurs(t *testing.T) {
	eachTensor(t, func(t *testing.T, v *tensorVector, data []byte, d decthings.Dialect) {
		dlpacktest.CheckLeaks(t)
		frame, loan := lent(t, append(slices.Clone(data), "behind"...), 1, false)
		got, n, err := decthings.DecodeFirstFrom(frame, decthings.In(d))
		ours, m, oursErr := decthings.DecodeFirst(data, decthings.In(d))
		require.Equal(t, oursErr, err)
		require.Equal(t, m, n)
		if err == nil {
			must.Fail(decthings.DecodeFrom(frame, decthings.In(d)))(t, decthings.ErrTrailing)
			require.Equal(t, ours.Elements, got.Elements)
			if got.Tensor != nil {
				want := must.Do(decthings.AppendTensor(nil, ours.Tensor))(t)
				again := must.Do(decthings.AppendTensor(nil, got.Tensor))(t)
				require.True(t, bytes.Equal(want, again))
			}
			got.Close()
			ours.Close()
		}
		require.NoError(t, frame.Close())
		require.Equal(t, 1, loan.Releases())
	})
}

func TestOnlyRowsOfBytesAreDecoded(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := must.Own(dlpack.New(dlpack.Uint8, 4, 4))(t)
	step := must.Own(base.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{8}, Strides: []int64{2}}))(t)
	words := must.Own(base.View(dlpack.Spec{DType: dlpack.Uint16, Shape: []int64{8}}))(t)
	for _, none := range []*dlpack.Tensor{base, step, words} {
		must.Fail(decthings.DecodeFrom(none))(t, dlpack.ErrLayout)
	}
	closed := must.Do(dlpack.New(dlpack.Uint8, 4))(t)
	closed.Close()
	must.Fail(decthings.DecodeFrom(closed))(t, dlpack.ErrClosed)
	p := dlpacktest.Produce(t, dlpacktest.Config{Code: 1, Bits: 8, Lanes: 1, DeviceType: 2, Shape: []int64{4}})
	device := must.Own(dlpack.Import(p.Managed()))(t)
	must.Fail(decthings.DecodeFrom(device))(t, dlpack.ErrDevice)
}

func TestAllReadsAStreamAndSaysWhereItBreaks(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, s := range m.Streams {
			data, d := m.File(t, s.File), dialect(t, s.Dialect)
			var again []byte
			for v, err := range decthings.DecodeAll(data, decthings.In(d)) {
				require.NoError(t, err)
				if v.Tensor != nil {
					again, err = decthings.AppendTensor(again, v.Tensor)
				} else {
					again, err = decthings.AppendElements(again, v.Elements, d)
				}
				require.NoError(t, err)
				require.NoError(t, v.Close())
			}
			assert.True(t, bytes.Equal(data, again))
		}
	}
	data := append(bytes.Repeat([]byte{7, 0, 1}, 5), 7, 1)
	count := 0
	var last error
	for v, err := range decthings.DecodeAll(data) {
		require.NoError(t, last)
		count, last = count+1, err
		v.Close()
	}
	assert.Equal(t, 6, count)
	var fault *elements.Error
	require.ErrorAs(t, last, &fault)
	assert.Equal(t, int64(17), fault.Offset)
	assert.ErrorIs(t, last, decthings.ErrTruncated)
	for v, err := range decthings.DecodeAll(data) {
		require.NoError(t, err)
		v.Close()
		break
	}
	for _, err := range decthings.DecodeAll(nil, decthings.In(9)) {
		assert.ErrorIs(t, err, decthings.ErrDialect)
	}
}

func TestDecodeRefusesTrailingBytesAndOtherFaults(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, v := range m.Malformed {
			for _, name := range v.Dialects {
				_, err := decthings.Decode(m.File(t, v.File), decthings.In(dialect(t, name)))
				_, wire := decthings.DecodeView(m.File(t, v.File), dialect(t, name))
				assert.Equal(t, wire, err)
			}
		}
	}
	must.Fail(decthings.Decode([]byte{7, 0, 1}, decthings.In(9)))(t, decthings.ErrDialect)
}

// FuzzDecode: a decoded tensor is encoded as the same bytes, at any alignment.
func FuzzDecode(f *testing.F) {
	for _, m := range manifests(f)[:1] {
		for _, v := range m.Tensors {
			for name, file := range v.Files {
				f.Add(m.File(f, file), byte(dialect(f, name)), byte(len(file)%8))
			}
		}
		for _, v := range m.Streams {
			f.Add(m.File(f, v.File), byte(dialect(f, v.Dialect)), byte(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, d, shift byte) {
		dialect := decthings.Dialect(d % 3)
		frame := append(make([]byte, shift), data...)[shift:]
		var again []byte
		for v, err := range decthings.DecodeAll(frame, decthings.In(dialect)) {
			if err != nil {
				var fault *elements.Error
				require.ErrorAs(t, err, &fault)
				require.True(t, fault.Offset >= int64(len(again)) && fault.Offset <= int64(len(data)))
				break
			}
			require.Equal(t, v.Tensor == nil, v.Elements != nil)
			if v.Tensor != nil {
				require.NoError(t, v.Tensor.RequireAlign(v.Tensor.DType().ItemSize()))
				again, err = decthings.AppendTensor(again, v.Tensor)
			} else {
				again, err = decthings.AppendElements(again, v.Elements, dialect)
			}
			require.NoError(t, err)
			require.NoError(t, v.Close())
		}
		require.True(t, bytes.HasPrefix(data, again))
	})
}

func ExampleAlign() {
	data := make([]byte, 64)
	copy(data, "\x01\x01\x02\x00\x00\x80\x3f\x00\x00\x00\x40") // the payload begins at byte 3
	for _, align := range []int{0, 1} {                        // the alignment of float32, and any alignment
		v, _, err := decthings.DecodeFirst(data, decthings.Align(align))
		if err != nil {
			fmt.Println(err)
			return
		}
		x, err := v.Tensor.At(1)
		fmt.Println(v.Type, v.Copied, x, err)
		v.Close()
	}
	// Output:
	// f32 true 2 <nil>
	// f32 false 2 <nil>
}

func ExampleDecodeAll() {
	data := []byte("\x07\x01\x03abc\x07\x00\x2a\x07\x01\x04ab")
	for v, err := range decthings.DecodeAll(data) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Type, v.Shape())
		v.Close()
	}
	// Output:
	// u8 [3]
	// u8 []
	// decthings: byte 12: u8[4] needs 4 elements of 1 bytes, but only 2 bytes are left: cut short
}

// In logs and in JSON, values are descriptions, and types are names.
func TestLogLines(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	write := func(v any) string {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("", "x", v)
		return out.String()
	}
	numbers := must.Do(decthings.Decode([]byte("\x07\x01\x03abc")))(t)
	defer numbers.Close()
	strings := must.Do(decthings.Decode([]byte("\x0b\x01\x01\x02go")))(t)
	assert.Contains(t, write(numbers), `"x":{"dtype":"u8","tensor":"uint8[3] on cpu, read-only"}`)
	assert.Contains(t, write(&strings), `"x":{"dtype":"string","elements":"string[1]"}`)
	assert.Contains(t, write(strings.Elements), `"x":"string[1]"`)
	assert.Contains(t, write(decthings.Type(99)), `"x":"type 99"`)
	text := must.Do(json.Marshal([]decthings.Type{decthings.String, numbers.Type}))(t)
	assert.Equal(t, `["string","u8"]`, string(text))
	var back []decthings.Type
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, []decthings.Type{decthings.String, numbers.Type}, back)
	assert.ErrorIs(t, json.Unmarshal([]byte(`["float99"]`), &back), decthings.ErrType)
	must.Fail(json.Marshal(decthings.Type(0)))(t, decthings.ErrType)
}

func TestDecodeTensorRefusesWhatIsNone(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(decthings.DecodeTensor([]byte("\x07\x01\x03abc")))(t)
	assert.Equal(t, "uint8[3] on cpu, read-only", x.String())
	must.Fail(decthings.DecodeTensor(nil))(t, decthings.ErrTruncated)
	_, err := decthings.DecodeTensor([]byte("\x0b\x01\x01\x02go"))
	assert.ErrorIs(t, err, elements.ErrDType)
	assert.ErrorIs(t, err, dlpack.ErrDType)
	assert.EqualError(t, err, "decthings: the buffer holds string[1], whose type DLPack lacks; Decode returns its Elements: data type not representable")
}
