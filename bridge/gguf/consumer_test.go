//go:build cgo

package gguf_test

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/gguf"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// multiple is the bound of the package documentation: a file takes at most this many times the memory of its header.
const multiple = 12

func TestMain(m *testing.M) { dlpacktest.Main(m) }

func Example() {
	data := example() // or os.ReadFile, or a mapping
	f, err := gguf.DecodeFile(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	architecture, _ := f.Value("general.architecture")
	fmt.Println(architecture)
	v, err := f.Find("q")
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := v.Tensor()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(v.DType, v.Shape, t.DType(), t.Shape())
	// Output:
	// llama
	// Q4_0 [2 64] uint8 [2 2 18]
}

func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// memories has two kinds of memory for a file: Go memory, and memory with an owner.
var memories = map[string]func(t *testing.T, data []byte) (parsed []byte, tensor func(*gguf.View, ...gguf.DecodeOption) (*dlpack.Tensor, error)){
	"Go": func(_ *testing.T, data []byte) ([]byte, func(*gguf.View, ...gguf.DecodeOption) (*dlpack.Tensor, error)) {
		return data, (*gguf.View).Tensor
	},
	"C": func(t *testing.T, data []byte) ([]byte, func(*gguf.View, ...gguf.DecodeOption) (*dlpack.Tensor, error)) {
		file := must.Do(dlpack.New(dlpack.Uint8, int64(len(data))))(t)
		t.Cleanup(func() { file.Close() })
		bytes := must.Do(dlpack.Values[uint8](file))(t)
		copy(bytes, data)
		return bytes, func(v *gguf.View, options ...gguf.DecodeOption) (*dlpack.Tensor, error) {
			return v.TensorFrom(file, options...)
		}
	},
}

func TestTensorsLieInTheFile(t *testing.T) {
	for memory, of := range memories {
		t.Run(memory, func(t *testing.T) {
			data, tensor := of(t, example())
			f := must.Do(gguf.DecodeFile(data))(t)
			for i, want := range []struct {
				dtype dlpack.DataType
				shape []int64
			}{{dlpack.Float32, []int64{2, 3}}, {dlpack.Uint8, []int64{2, 2, 18}}, {dlpack.Int8, []int64{0}}} {
				v := &f.Tensors[i]
				x := must.Own(tensor(v))(t)
				assert.Equal(t, want.dtype, x.DType())
				assert.Equal(t, want.shape, x.Shape())
				assert.True(t, x.ReadOnly())
				assert.Equal(t, int64(len(v.Data)), x.NumBytes())
				if len(v.Data) > 0 {
					assert.Equal(t, addressOf(data)+uintptr(v.Offset), x.Data()+uintptr(x.ByteOffset()))
				}
				assert.Equal(t, v.Data, append([]byte{}, must.Do(x.AppendBytes(nil))(t)...))
			}
		})
	}
}

func TestTensorsThatAreNotAlignedSaySo(t *testing.T) {
	header := head(2, 1, text("general.alignment"), ofUint32, uint32(1),
		text("x"), uint32(1), uint64(2), uint32(gguf.F64), uint64(1), text("y"), uint32(1), uint64(3), uint32(gguf.I8), uint64(17))
	header = append(header, make([]byte, -len(header)&63)...)
	file := append(header, make([]byte, 20)...)
	for memory, of := range memories {
		t.Run(memory, func(t *testing.T) {
			aligned := make([]byte, len(file)+64)
			aligned = aligned[-addressOf(aligned)&63:][:len(file)]
			copy(aligned, file)
			data, tensor := of(t, aligned)
			f := must.Do(gguf.DecodeFile(data))(t)
			v := must.Do(f.Find("x"))(t)
			copy(v.Data, "\x00\x00\x00\x00\x00\x00\xf0\x3f")
			x := must.Own(tensor(v))(t)
			assert.Equal(t, x.Alignment(), v.Alignment())
			assert.Less(t, v.Alignment(), 8)
			assert.False(t, x.Flags()&dlpack.IsCopied != 0)
			c := must.Own(tensor(v, nil, gguf.Align(64)))(t)
			assert.True(t, c.Flags()&dlpack.IsCopied != 0)
			assert.Equal(t, []float64{1, 0}, must.Do(dlpack.Values[float64](c))(t))
			same := must.Own(tensor(v, gguf.Align(1)))(t)
			assert.Equal(t, x.Data(), same.Data())
			_, err := tensor(v, gguf.Align(3))
			assert.ErrorIs(t, err, dlpack.ErrUnaligned)
		})
	}
}

func TestTensorsOutliveTheirFile(t *testing.T) {
	data := example()
	loan := dlpacktest.Lend(t, len(data))
	file := must.Do(dlpack.Lend(loan.Data(), int64(len(data)), true, loan.Release(), loan.Context()))(t)
	lent := unsafe.Slice((*byte)(loan.Data()), len(data))
	copy(lent, data)
	f := must.Do(gguf.DecodeFile(lent))(t)
	v := must.Do(f.Find("w"))(t)
	x := must.Do(v.TensorFrom(file))(t)
	require.NoError(t, file.Close())
	assert.Zero(t, loan.Releases())
	assert.Equal(t, data[v.Offset:][:24], must.Do(x.AppendBytes(nil))(t))
	_, err := v.TensorFrom(file)
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	require.NoError(t, x.Close())
	assert.Equal(t, 1, loan.Releases())
}

func TestTensorFromRefusesWhatIsNoFile(t *testing.T) {
	v := must.Do(must.Do(gguf.DecodeFile(example()))(t).Find("w"))(t)
	short := must.Own(dlpack.New(dlpack.Uint8, v.Offset+23))(t)
	must.Fail(v.TensorFrom(short))(t, dlpack.ErrLayout)
	floats := must.Own(dlpack.New(dlpack.Float32, 1000))(t)
	_, err := v.TensorFrom(floats)
	assert.ErrorIs(t, err, dlpack.ErrLayout)
	assert.True(t, strings.HasPrefix(err.Error(), "gguf: "), "%v", err)
}

func TestTensorRefusesDescriptionsThatDecodeFileDoesNotMake(t *testing.T) {
	must.Fail((*gguf.View)(nil).Tensor())(t, elements.ErrNil)
	must.Fail((&gguf.View{DType: 4, Shape: []int64{4}, Data: make([]byte, 4)}).Tensor())(t, elements.ErrDType)
	must.Fail((&gguf.View{DType: gguf.Q8_0}).Tensor())(t, elements.ErrDType)
	must.Fail((&gguf.View{DType: gguf.F32, Shape: []int64{2}, Data: make([]byte, 7)}).Tensor())(t, dlpack.ErrLayout)
}

// FuzzAmplification: parsing any file takes at most a fixed multiple of its size.
func FuzzAmplification(f *testing.F) {
	testmode.SkipMemory(f)
	f.Add(example(), uint16(0), uint16(0), uint16(0))
	many := func(n int, parts ...any) []byte { // a file with one part repeated
		var all []byte
		for i := range n {
			all = append(all, raw(append([]any{text(fmt.Sprintf("%x", i))}, parts...)...)...)
		}
		return all
	}
	f.Add(append(head(0, 3000), many(3000, ofUint8, "\x07")...), uint16(0), uint16(0), uint16(0))
	f.Add(append(head(0, 3000), many(3000, uint32(2), "\x00\x07")...), uint16(0), uint16(0), uint16(0))
	f.Add(append(head(0, 3000), many(3000, ofArray, array{ofUint8, 0})...), uint16(0), uint16(0), uint16(0))
	f.Add(append(head(3000, 0), many(3000, uint32(4), make([]uint64, 4), uint32(0), uint64(0))...), uint16(0), uint16(0), uint16(0))
	f.Add(padded(append(head(3000, 0), many(3000, uint32(0), uint32(gguf.I8), uint64(0))...), 32, 32), uint16(0), uint16(0), uint16(0))
	f.Add(head(0, 1, text("k"), ofArray, array{ofString, 5000}, make([]byte, 40000)), uint16(0), uint16(0), uint16(0))
	f.Add(head(0, 1, text("k"), ofArray, array{ofArray, 5000}, make([]byte, 60000)), uint16(0), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, at, size, times uint16) {
		data = amplification.Repeat(data, at, size, times)
		amplification.Require(t, len(data), multiple, 0, func() func() { _, _ = gguf.DecodeFile(data); return nil })
	})
}
