//go:build cgo

package dlpack_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// fromBytes makes a tensor in data. The end of the test closes it.
func fromBytes(t testing.TB, data []byte, s dlpack.Spec) *dlpack.Tensor {
	t.Helper()
	tensor := must.Do(dlpack.FromBytes(data, s))(t)
	t.Cleanup(func() { tensor.Close() })
	return tensor
}

func counted(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i + 1)
	}
	return data
}

func TestCopyToWritesTheDestinationsMemory(t *testing.T) {
	tests := []struct {
		name     string
		src, dst dlpack.Spec
		want     []byte // the result in 16 bytes that were 0xEE
	}{
		{"row-major to row-major", dlpack.Spec{Shape: []int64{2, 3}}, dlpack.Spec{Shape: []int64{2, 3}},
			[]byte{1, 2, 3, 4, 5, 6, 0xEE, 0xEE}},
		{"row-major to column-major", dlpack.Spec{Shape: []int64{2, 3}}, dlpack.Spec{Shape: []int64{2, 3}, Strides: []int64{1, 2}},
			[]byte{1, 4, 2, 5, 3, 6, 0xEE, 0xEE}},
		{"into gaps", dlpack.Spec{Shape: []int64{3}}, dlpack.Spec{Shape: []int64{3}, Strides: []int64{2}, ByteOffset: 1},
			[]byte{0xEE, 1, 0xEE, 2, 0xEE, 3, 0xEE, 0xEE}},
		{"backwards", dlpack.Spec{Shape: []int64{3}}, dlpack.Spec{Shape: []int64{3}, Strides: []int64{-1}, ByteOffset: 2},
			[]byte{3, 2, 1, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE}},
		{"a broadcast source", dlpack.Spec{Shape: []int64{2, 2}, Strides: []int64{0, 1}}, dlpack.Spec{Shape: []int64{2, 2}},
			[]byte{1, 2, 1, 2, 0xEE, 0xEE, 0xEE, 0xEE}},
		{"a scalar", dlpack.Spec{Shape: []int64{}}, dlpack.Spec{Shape: []int64{}, ByteOffset: 3},
			[]byte{0xEE, 0xEE, 0xEE, 1, 0xEE, 0xEE, 0xEE, 0xEE}},
		{"nothing", dlpack.Spec{Shape: []int64{2, 0}}, dlpack.Spec{Shape: []int64{2, 0}},
			[]byte{0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE}},
		{"three packed elements, and not the fourth", dlpack.Spec{DType: dlpack.Int4, Shape: []int64{3}}, dlpack.Spec{DType: dlpack.Int4, Shape: []int64{3}},
			[]byte{1, 0xE2, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.src.DType == 0 {
				test.src.DType, test.dst.DType = dlpack.Uint8, dlpack.Uint8
			}
			memory := bytes.Repeat([]byte{0xEE}, 8)
			src, dst := fromBytes(t, counted(8), test.src), fromBytes(t, memory, test.dst)
			require.NoError(t, src.CopyTo(dst))
			assert.Equal(t, test.want, memory)
		})
	}
}

func TestCopyToRefuses(t *testing.T) {
	memory := counted(64)
	uint8s := func(strides []int64, offset int64, shape ...int64) dlpack.Spec {
		return dlpack.Spec{DType: dlpack.Uint8, Shape: shape, Strides: strides, ByteOffset: offset}
	}
	tests := []struct {
		name     string
		src, dst dlpack.Spec
		err      error
	}{
		{"another data type", uint8s(nil, 0, 4), dlpack.Spec{DType: dlpack.Int8, Shape: []int64{4}, ByteOffset: 32}, dlpack.ErrDType},
		{"another shape", uint8s(nil, 0, 4), uint8s(nil, 32, 2, 2), dlpack.ErrLayout},
		{"a read-only destination", uint8s(nil, 0, 4), dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{4}, ByteOffset: 32, ReadOnly: true}, dlpack.ErrReadOnly},
		{"a broadcast destination", uint8s(nil, 0, 2, 2), uint8s([]int64{0, 1}, 32, 2, 2), dlpack.ErrLayout},
		{"windows as the destination", uint8s(nil, 0, 3, 2), uint8s([]int64{1, 1}, 32, 3, 2), dlpack.ErrLayout},
		{"one element further", uint8s(nil, 0, 4), uint8s(nil, 1, 4), dlpack.ErrLayout},
		{"onto itself backwards", uint8s(nil, 0, 4), uint8s([]int64{-1}, 3, 4), dlpack.ErrLayout},
		{"onto itself transposed", uint8s(nil, 0, 2, 2), uint8s([]int64{1, 2}, 0, 2, 2), dlpack.ErrLayout},
		{"half an element further", dlpack.Spec{DType: dlpack.Int16, Shape: []int64{2}, Strides: []int64{2}}, dlpack.Spec{DType: dlpack.Int16, Shape: []int64{2}, Strides: []int64{2}, ByteOffset: 1}, dlpack.ErrLayout},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			src, dst := fromBytes(t, memory, test.src), fromBytes(t, memory, test.dst)
			assert.ErrorIs(t, src.CopyTo(dst), test.err)
			assert.Equal(t, counted(64), memory)
		})
	}
}

func TestCopyToInsideOneMemory(t *testing.T) {
	memory := counted(8)
	odd := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{4}, Strides: []int64{2}})
	even := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{4}, Strides: []int64{2}, ByteOffset: 1})
	require.NoError(t, odd.CopyTo(even), "columns of one matrix interlock, and have nothing in common")
	assert.Equal(t, []byte{1, 1, 3, 3, 5, 5, 7, 7}, memory)
	require.NoError(t, odd.CopyTo(odd))
	assert.Equal(t, []byte{1, 1, 3, 3, 5, 5, 7, 7}, memory)
}

// A tensor can be filled with one of its own elements.
func TestCopyToFillsWithAnElementOfTheDestination(t *testing.T) {
	memory := counted(8)
	whole := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{8}})
	fill := func(dst *dlpack.Tensor, index int64) {
		one := must.Own(must.Own(whole.Slice(layout.At(index)))(t).BroadcastTo(dst.Shape()...))(t)
		require.NoError(t, one.ConvertTo(dst))
	}
	fill(must.Own(whole.Slice(layout.From(6)))(t), 7)
	assert.Equal(t, []byte{1, 2, 3, 4, 5, 6, 8, 8}, memory)
	fill(fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint16, Shape: []int64{2}}), 1)
	assert.Equal(t, []byte{2, 0, 2, 0, 5, 6, 8, 8}, memory)
	fill(fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint4, Shape: []int64{4}}), 4)
	assert.Equal(t, []byte{0x55, 0x55, 2, 0, 5, 6, 8, 8}, memory)
	small := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint4, Shape: []int64{1}})
	require.NoError(t, small.ConvertTo(fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1}})))
	assert.Equal(t, []byte{5, 0x55, 2, 0, 5, 6, 8, 8}, memory)
	fill(whole, 7)
	assert.Equal(t, bytes.Repeat([]byte{8}, 8), memory)
}

func TestCopyToOfClosedTensorsIsErrClosed(t *testing.T) {
	open := must.Own(dlpack.New(dlpack.Float32, 2))(t)
	shut := must.Do(dlpack.New(dlpack.Float32, 2))(t)
	shut.Close()
	assert.ErrorIs(t, open.CopyTo(shut), dlpack.ErrClosed)
	assert.ErrorIs(t, shut.CopyTo(open), dlpack.ErrClosed)
	_, _, err := shut.Contiguous(dlpack.RowMajor)
	assert.ErrorIs(t, err, dlpack.ErrClosed)
}

func TestContiguousSharesOrCopies(t *testing.T) {
	tests := []struct {
		name    string
		strides []int64
		order   dlpack.Order
		copied  bool
		want    []int64 // strides
	}{
		{"row-major as it is", []int64{3, 1}, dlpack.RowMajor, false, []int64{3, 1}},
		{"row-major to column-major", []int64{3, 1}, dlpack.ColumnMajor, true, []int64{1, 2}},
		{"column-major as it is", []int64{1, 2}, dlpack.ColumnMajor, false, []int64{1, 2}},
		{"column-major to row-major", []int64{1, 2}, dlpack.RowMajor, true, []int64{3, 1}},
		{"gaps to row-major", []int64{4, 1}, dlpack.RowMajor, true, []int64{3, 1}},
		{"a broadcast to column-major", []int64{0, 1}, dlpack.ColumnMajor, true, []int64{1, 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			memory := counted(16)
			src := fromBytes(t, memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2, 3}, Strides: test.strides})
			got, copied, err := src.Contiguous(test.order)
			require.NoError(t, err)
			defer got.Close()
			assert.Equal(t, test.copied, copied)
			assert.Equal(t, test.want, got.Strides())
			assert.Equal(t, test.order == dlpack.RowMajor, got.IsContiguous())
			assert.Equal(t, !copied, got.Data() == src.Data())
			assert.Equal(t, copied, got.Flags()&dlpack.IsCopied != 0)
			want := must.Do(src.AppendBytes(nil))(t)
			have := must.Do(got.AppendBytes(nil))(t)
			assert.Equal(t, want, have)
			if !copied {
				memory[0] = 99
				bytes, _, err := got.UnsafeBytes()
				require.NoError(t, err)
				assert.EqualValues(t, 99, bytes[0])
			}
		})
	}
}

func TestContiguousRefusesPackedElementsInColumns(t *testing.T) {
	packed := fromBytes(t, counted(8), dlpack.Spec{DType: dlpack.Int4, Shape: []int64{3, 5}})
	_, _, err := packed.Contiguous(dlpack.ColumnMajor)
	assert.ErrorIs(t, err, dlpack.ErrLayout)
	same, copied, err := packed.Contiguous(dlpack.RowMajor)
	require.NoError(t, err)
	defer same.Close()
	assert.False(t, copied)
}

// Copies of any size between any two layouts of one memory keep every element, in both directions.
func TestLargeCopiesKeepEveryElement(t *testing.T) {
	testmode.SkipLong(t)
	const n = 2200
	src := make([]int32, n*n)
	r := rand.New(rand.NewPCG(3, 3))
	for i := range src {
		src[i] = int32(r.Uint32())
	}
	a := must.Own(dlpack.FromSlice(src, n, n))(t)
	columns, copied, err := a.Contiguous(dlpack.ColumnMajor)
	require.NoError(t, err)
	require.True(t, copied)
	defer columns.Close()
	raw := unsafe.Slice((*int32)(*(*unsafe.Pointer)(unsafe.Pointer(new(columns.Data())))), n*n)
	for i := range n {
		for j := range n {
			if raw[j*n+i] != src[i*n+j] {
				require.Failf(t, "another element", "%d, %d", i, j)
			}
		}
	}
	back := must.Own(columns.Copy())(t)
	values := must.Do(dlpack.Values[int32](back))(t)
	for i := range values {
		if values[i] != src[i] {
			require.Failf(t, "another element", "%d", i)
		}
	}
}

// Every function that returns a copy sets IsCopied; no function that shares memory does.
func TestOnlyCopiesHaveTheFlag(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer base.Close()
	copied := must.Own(base.Copy())(t)
	nibbles := must.Own(dlpack.New(dlpack.MakeDataType(dlpack.CodeInt, 4, 1), 2, 3))(t)
	first := func(x *dlpack.Tensor, _ bool, err error) (*dlpack.Tensor, error) { return x, err }
	imported := func(m unsafe.Pointer, err error) (*dlpack.Tensor, error) {
		require.NoError(t, err)
		return dlpack.Import(m)
	}
	for name, test := range map[string]struct {
		made func() (*dlpack.Tensor, error)
		want dlpack.Flags
	}{
		"Copy":                      {base.Copy, dlpack.IsCopied},
		"Convert":                   {func() (*dlpack.Tensor, error) { return base.Convert(dlpack.Int8) }, dlpack.IsCopied},
		"Convert to the same type":  {func() (*dlpack.Tensor, error) { return base.Convert(dlpack.Float32) }, dlpack.IsCopied},
		"Contiguous, copied":        {func() (*dlpack.Tensor, error) { return first(base.Contiguous(dlpack.ColumnMajor)) }, dlpack.IsCopied},
		"Contiguous":                {func() (*dlpack.Tensor, error) { return first(base.Contiguous(dlpack.RowMajor)) }, 0},
		"Contiguous of a copy":      {func() (*dlpack.Tensor, error) { return first(copied.Contiguous(dlpack.RowMajor)) }, 0},
		"Align of a copy":           {func() (*dlpack.Tensor, error) { return first(copied.Align(64)) }, 0},
		"Concat":                    {func() (*dlpack.Tensor, error) { return dlpack.Concat(0, base, copied) }, dlpack.IsCopied},
		"Concat of one":             {func() (*dlpack.Tensor, error) { return dlpack.Concat(1, base) }, dlpack.IsCopied},
		"Concat of packed elements": {func() (*dlpack.Tensor, error) { return dlpack.Concat(0, nibbles, nibbles) }, dlpack.IsCopied | dlpack.SubbytePadded},
		"Stack":                     {func() (*dlpack.Tensor, error) { return dlpack.Stack(0, base, copied) }, dlpack.IsCopied},
		"ExportCopy":                {func() (*dlpack.Tensor, error) { return imported(base.ExportCopy()) }, dlpack.IsCopied},
		"Export of a copy":          {func() (*dlpack.Tensor, error) { return imported(copied.Export()) }, 0},
		"Share of a copy":           {copied.Share, 0},
		"Slice of a copy":           {func() (*dlpack.Tensor, error) { return copied.Slice() }, 0},
		"AsBytes of a copy":         {copied.AsBytes, 0},
		"a view of a copy": {func() (*dlpack.Tensor, error) {
			return copied.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{6}})
		}, 0},
		"New": {func() (*dlpack.Tensor, error) { return dlpack.New(dlpack.Float32, 2) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := must.Own(test.made())(t)
			assert.Equal(t, test.want, x.Flags())
			if x.Flags()&dlpack.IsCopied != 0 {
				assert.False(t, dlpack.MayShareMemory(x, base) || dlpack.MayShareMemory(x, copied))
			}
		})
	}
}

// FuzzCopyTo copies between two views of one memory. The result equals a copy element by element, or the copy is
// refused and nothing is written.
func FuzzCopyTo(f *testing.F) {
	view := func(v ...int16) (data []byte) {
		for _, n := range v {
			data = binary.LittleEndian.AppendUint16(data, uint16(n))
		}
		return data
	}
	f.Add(uint8(0), view(3, 4, 0, 4, 1, 200, 1, 3))
	f.Add(uint8(2), view(5, 4, 100, -4, 1, 300, 1, 5))
	f.Add(uint8(1), view(8, 2, 0, 2, 1, 0, 1, 8))
	f.Add(uint8(3), view(2, 2, 64, 0, 0, 128, 1, 2))
	types := []dlpack.DataType{dlpack.Uint8, dlpack.Int16, dlpack.Float32, dlpack.Complex128, dlpack.MakeDataType(dlpack.CodeUInt, 8, 3)}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		next := func() int64 {
			var b [2]byte
			data = data[copy(b[:], data):]
			return int64(int16(binary.LittleEndian.Uint16(b[:])))
		}
		dt := types[int(kind)%len(types)]
		shape := []int64{next() % 64, next() % 64}
		memory := counted(4096)
		before := counted(4096)
		var views [2]*dlpack.Tensor
		var offsets [2]int64
		for i := range views {
			offsets[i] = next()
			s := dlpack.Spec{DType: dt, Shape: shape, ByteOffset: offsets[i], Strides: []int64{next(), next()}}
			v, err := dlpack.FromBytes(memory, s)
			if err != nil {
				return
			}
			defer v.Close()
			views[i] = v
		}
		src, dst := views[0], views[1]
		if err := src.CopyTo(dst); err != nil {
			require.ErrorIs(t, err, dlpack.ErrLayout)
			require.Equal(t, before, memory)
			return
		}
		item := int64(dt.ItemSize())
		want := counted(4096)
		for i := range shape[0] {
			for j := range shape[1] {
				from := offsets[0] + (i*src.Stride(0)+j*src.Stride(1))*item
				to := offsets[1] + (i*dst.Stride(0)+j*dst.Stride(1))*item
				copy(want[to:to+item], before[from:])
			}
		}
		require.Equal(t, want, memory)
	})
}

func ExampleTensor_CopyTo() {
	rows, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer rows.Close()
	memory := make([]float32, 6)
	whole, _ := dlpack.FromSlice(memory)
	defer whole.Close()
	columns, _ := whole.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}, Strides: []int64{1, 2}})
	defer columns.Close()

	fmt.Println(rows.CopyTo(columns), memory)
	// Output: <nil> [1 4 2 5 3 6]
}

// To fill a tensor with one element, copy from the BroadcastTo of that element.
func ExampleTensor_CopyTo_fill() {
	memory := make([]float32, 6)
	t, _ := dlpack.FromSlice(memory, 2, 3)
	defer t.Close()
	one, _ := dlpack.FromSlice([]float32{7})
	defer one.Close()
	all, _ := one.BroadcastTo(t.Shape()...)
	defer all.Close()

	fmt.Println(all.CopyTo(t), memory)
	// Output: <nil> [7 7 7 7 7 7]
}

func ExampleTensor_Contiguous() {
	rows, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer rows.Close()
	columns, copied, _ := rows.Contiguous(dlpack.ColumnMajor)
	defer columns.Close()

	fmt.Println(columns, copied)
	// Output:
	// float32[2 3] strides [1 2] on cpu
	// [[1 2 3]
	//  [4 5 6]] true
}
