//go:build cgo

package dlpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A frame has pixels beside a pointer that is not pinned. cgo would therefore refuse an unsafe.Pointer to the pixels.
type frame struct {
	name   *string
	pixels [64][64]uint8
}

// largeFrame has enough pixels that several goroutines copy them.
type largeFrame struct {
	name   *string
	pixels [16 << 20]uint8
}

var (
	globalFrame      frame
	largeGlobalFrame largeFrame
)

// Copies and conversions must not depend on the Go object around a tensor's memory.
func TestCopiesOfSlicesInsideObjectsWithPointers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // so that large copies have goroutines
	name := new(string)
	inStruct, inLargeStruct := &frame{name: name}, &largeFrame{name: name}
	globalFrame.name, largeGlobalFrame.name = name, name
	for _, place := range []struct {
		name   string
		memory []byte
	}{
		{"a struct", unsafe.Slice(&inStruct.pixels[0][0], 64*64)},
		{"a global", unsafe.Slice(&globalFrame.pixels[0][0], 64*64)},
		{"a large struct", inLargeStruct.pixels[:]},
		{"a large global", largeGlobalFrame.pixels[:]},
	} {
		t.Run(place.name, func(t *testing.T) {
			for i := range place.memory {
				place.memory[i] = byte(i * 7 / 3)
			}
			n := int64(len(place.memory))
			src := fromBytes(t, place.memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{64, n / 64}, Strides: []int64{1, 64}})
			want := make([]byte, n)
			for i := range want {
				want[i] = place.memory[int64(i)%(n/64)*64+int64(i)/(n/64)]
			}
			for _, operation := range []struct {
				name string
				run  func() (*dlpack.Tensor, error)
			}{
				{"Copy", src.Copy},
				{"Contiguous", func() (*dlpack.Tensor, error) {
					c, _, err := src.Contiguous(dlpack.RowMajor)
					return c, err
				}},
				{"Convert", func() (*dlpack.Tensor, error) { return src.Convert(dlpack.Uint8) }},
			} {
				t.Run(operation.name, func(t *testing.T) {
					c := must.Own(operation.run())(t)
					got := must.Do(dlpack.Values[uint8](c))(t)
					require.True(t, string(want) == string(got))
				})
			}
			t.Run("AppendBytes", func(t *testing.T) {
				got := must.Do(src.AppendBytes(nil))(t)
				require.True(t, string(want) == string(got))
			})
			t.Run("AppendBytes into it, CopyTo and ConvertTo", func(t *testing.T) {
				elements := fromBytes(t, want, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{n / 64, 64}, Strides: []int64{1, n / 64}})
				turned := elements.Shape()
				before := string(place.memory)
				clear(place.memory)
				got := must.Do(elements.AppendBytes(place.memory[:0]))(t)
				assert.Equal(t, unsafe.SliceData(place.memory), unsafe.SliceData(got), "there was room")
				require.True(t, before == string(place.memory))

				dst := fromBytes(t, place.memory, dlpack.Spec{DType: dlpack.Uint8, Shape: turned})
				clear(place.memory)
				require.NoError(t, elements.CopyTo(dst))
				require.True(t, before == string(place.memory))

				signed := fromBytes(t, place.memory, dlpack.Spec{DType: dlpack.Int8, Shape: turned})
				clear(place.memory)
				require.NoError(t, elements.ConvertTo(signed))
				require.True(t, before == string(place.memory))
			})
		})
	}
}

// The caller's stack may move while C code has an address in Go's memory, so C code must not get addresses of the stack.
func TestMemoryOfTensorsDoesNotLieOnAStack(t *testing.T) {
	done := make(chan struct{})
	go func() { // with its own stack, which is small
		defer close(done)
		var elements [64]uint32
		var room [256]byte
		x, err := dlpack.FromSlice(elements[:], 8, 8)
		if !assert.NoError(t, err) {
			return
		}
		defer x.Close()
		columns, err := x.Transpose()
		if !assert.NoError(t, err) {
			return
		}
		defer columns.Close()
		start := uintptr(unsafe.Pointer(&room[0]))
		got, err := columns.AppendBytes(room[:0])
		assert.NoError(t, err)
		growStack(200)
		runtime.GC() // may shrink the stack again
		elements[1] = 42
		got, err = columns.AppendBytes(got[:0])
		assert.NoError(t, err)
		assert.Equal(t, start, uintptr(unsafe.Pointer(&room[0])))
		assert.Equal(t, x.Data(), uintptr(unsafe.Pointer(&elements[0])))
		assert.EqualValues(t, 42, room[32])
		assert.Equal(t, unsafe.SliceData(room[:]), unsafe.SliceData(got))
	}()
	<-done
}

// growStack needs about a KiB of stack for each level.
func growStack(depth int) byte {
	var room [1024]byte
	if depth > 0 {
		room[depth] = growStack(depth - 1)
	}
	return room[depth%7]
}

// An operation uses a tensor as a program may. Its outcome must be the same wherever the elements lie. The outcome has the
// results, and the contents of other memory that it wrote to, but no addresses.
type operation struct {
	name string // of the function; a case may follow after a comma
	run  func(t testing.TB, x *dlpack.Tensor) any
}

// elementOperations are the operations that touch elements.
var elementOperations = []operation{
	{"Tensor.Copy", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Copy() })},
	{"Tensor.Contiguous", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return first(x.Contiguous(dlpack.RowMajor)) })},
	{"Tensor.Contiguous, column-major", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return first(x.Contiguous(dlpack.ColumnMajor)) })},
	{"Tensor.Align", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return first(x.Align(256)) })},
	{"Tensor.Convert", func(t testing.TB, x *dlpack.Tensor) any {
		var outcomes []any
		for _, dt := range convertible {
			to := dlpack.MakeDataType(dt.Code(), dt.Bits(), x.DType().Lanes())
			outcomes = append(outcomes, made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Convert(to) })(t, x))
		}
		return outcomes
	}},
	{"Tensor.ConvertTo", func(t testing.TB, x *dlpack.Tensor) any {
		dst := like(t, x, dlpack.MakeDataType(dlpack.CodeFloat, 64, x.DType().Lanes()))
		err := x.ConvertTo(dst)
		return []any{cause(err), elementsOf(dst)}
	}},
	{"Tensor.ConvertTo, the destination", func(t testing.TB, x *dlpack.Tensor) any {
		return cause(like(t, x, dlpack.MakeDataType(dlpack.CodeInt, 16, x.DType().Lanes())).ConvertTo(x))
	}},
	{"Tensor.ConvertScaled", func(t testing.TB, x *dlpack.Tensor) any {
		dst := like(t, x, dlpack.MakeDataType(dlpack.CodeFloat, 32, x.DType().Lanes()))
		var outcomes []any
		for dim := range max(1, x.Rank()) {
			s := dlpack.Scaling{Shift: []float64{1}, Dim: dim}
			if dim < x.Rank() {
				for i := range x.Shape()[dim] {
					s.Scale = append(s.Scale, float64(i)/255)
				}
			}
			outcomes = append(outcomes, cause(x.ConvertScaled(dst, s)), elementsOf(dst))
		}
		return outcomes
	}},
	{"Tensor.ConvertScaled, the destination", func(t testing.TB, x *dlpack.Tensor) any {
		return cause(like(t, x, dlpack.MakeDataType(dlpack.CodeInt, 16, x.DType().Lanes())).ConvertScaled(x, dlpack.Scaling{Scale: []float64{2}}))
	}},
	{"Tensor.CopyTo", func(t testing.TB, x *dlpack.Tensor) any {
		dst := like(t, x, x.DType())
		return []any{cause(x.CopyTo(dst)), elementsOf(dst)}
	}},
	{"Tensor.CopyTo, the destination", func(t testing.TB, x *dlpack.Tensor) any { return cause(like(t, x, x.DType()).CopyTo(x)) }},
	{"Tensor.AppendBytes", func(t testing.TB, x *dlpack.Tensor) any {
		fresh := must.Do(x.AppendBytes(nil))(t)
		more := must.Do(x.AppendBytes([]byte("abc")))(t)
		return []any{fresh, more}
	}},
	{"Tensor.At", func(t testing.TB, x *dlpack.Tensor) any {
		var values []any
		for _, index := range corners(x) {
			value, err := x.At(index...)
			values = append(values, value, cause(err))
		}
		return fmt.Sprint(values...) // as text, so that NaN equals NaN
	}},
	{"Tensor.SetAt", func(t testing.TB, x *dlpack.Tensor) any {
		var causes []any
		for i, index := range corners(x) {
			causes = append(causes, cause(x.SetAt(i&1, index...)))
		}
		return causes
	}},
	{"At", func(t testing.TB, x *dlpack.Tensor) any {
		var values []any
		for _, index := range corners(x) {
			small, smallErr := dlpack.At[uint8](x, index...)
			large, largeErr := dlpack.At[complex128](x, index...)
			values = append(values, small, cause(smallErr), large, cause(largeErr))
		}
		return fmt.Sprint(values...)
	}},
	{"SetAt", func(t testing.TB, x *dlpack.Tensor) any {
		var causes []any
		for _, index := range corners(x) {
			causes = append(causes, cause(dlpack.SetAt[uint8](x, 7, index...)), cause(dlpack.SetAt[complex128](x, 7, index...)))
		}
		return causes
	}},
	{"Tensor.ExportCopy", func(t testing.TB, x *dlpack.Tensor) any {
		managed := must.Do(x.ExportCopy())(t)
		c := must.Do(dlpack.Import(managed))(t)
		defer c.Close()
		return []any{c.String(), elementsOf(c)}
	}},
	{"Tensor.Export", func(t testing.TB, x *dlpack.Tensor) any {
		managed, err := x.Export()
		if errors.Is(err, dlpack.ErrBorrowed) {
			return nil
		}
		require.NoError(t, err)
		y := must.Do(dlpack.Import(managed))(t)
		defer y.Close()
		assert.Equal(t, x.Data(), y.Data())
		return nil
	}},
	{"Values", func(t testing.TB, x *dlpack.Tensor) any {
		values, err := dlpack.Values[uint8](x)
		wide, wideErr := dlpack.Values[complex128](x)
		return []any{slices.Clone(values), cause(err), fmt.Sprint(wide), cause(wideErr)}
	}},
	{"Use", func(t testing.TB, x *dlpack.Tensor) any {
		var seen []uint8
		err := dlpack.Use(x, func(values []uint8) error { seen = slices.Clone(values); return nil })
		return []any{seen, cause(err)}
	}},
	{"Read", func(t testing.TB, x *dlpack.Tensor) any {
		var seen []uint8
		err := dlpack.Read(x, func(values []uint8) error { seen = slices.Clone(values); return nil })
		return []any{seen, cause(err)}
	}},
	{"ReadStrided", func(t testing.TB, x *dlpack.Tensor) any {
		var seen []any
		err := dlpack.ReadStrided(x, func(elements dlpack.Strided[uint8]) error {
			for index, value := range elements.All() {
				seen = append(seen, fmt.Sprint(index, value))
			}
			rows, err := elements.Rows()
			if err != nil {
				return err
			}
			for index, row := range rows {
				seen = append(seen, fmt.Sprint(index, row))
			}
			return nil
		})
		return []any{seen, cause(err)}
	}},
	{"UseStrided", func(t testing.TB, x *dlpack.Tensor) any {
		err := dlpack.UseStrided(x, func(elements dlpack.Strided[uint8]) error {
			if len(elements.Data) > 0 {
				elements.Data[elements.Start]++
			}
			return nil
		})
		return []any{elementsOf(x), cause(err)}
	}},
	{"Tensor.Format", func(t testing.TB, x *dlpack.Tensor) any { return fmt.Sprintf("%v", x) }},
	{"Tensor.Fill", func(t testing.TB, x *dlpack.Tensor) any { return cause(x.Fill(1)) }},
	{"Equal", func(t testing.TB, x *dlpack.Tensor) any {
		c := must.Own(x.Copy())(t)
		same, err := dlpack.Equal(x, c)
		return []any{same, cause(err)}
	}},
	{"EqualNaN", func(t testing.TB, x *dlpack.Tensor) any {
		c := must.Own(x.Copy())(t)
		same, err := dlpack.EqualNaN(c, x)
		return []any{same, cause(err)}
	}},
	{"Concat", joinedBytes(dlpack.Concat)},
	{"Stack", joinedBytes(dlpack.Stack)},
	{"MayShareMemory", func(t testing.TB, x *dlpack.Tensor) any { return dlpack.MayShareMemory(x, x) }},
	{"UnsafeValues", func(t testing.TB, x *dlpack.Tensor) any {
		values, err := dlpack.UnsafeValues[uint8](x)
		return []any{slices.Clone(values), cause(err)}
	}},
	{"Tensor.UnsafeBytes", func(t testing.TB, x *dlpack.Tensor) any {
		memory, start, err := x.UnsafeBytes()
		require.NoError(t, err)
		return []any{slices.Clone(memory), start}
	}},
}

// viewOperations are the operations that make views, or only read the description.
var viewOperations = []operation{
	{"Tensor.View", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) {
		return x.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2}})
	})},
	{"Tensor.AsBytes", made((*dlpack.Tensor).AsBytes)},
	{"Tensor.Apply", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) {
		return x.Apply(func(l *layout.Layout) error { return l.Flip() })
	})},
	{"Tensor.Index", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Index(0) })},
	{"Tensor.Slice", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Slice(layout.From(1)) })},
	{"Tensor.Narrow", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Narrow(0, 1, 1) })},
	{"Tensor.Split", func(t testing.TB, x *dlpack.Tensor) any {
		parts := must.Do(x.Split(0, 1, x.Dim(0)-1))(t)
		var outcomes []any
		for _, part := range parts {
			outcomes = append(outcomes, part.String(), part.Data()-x.Data(), elementsOf(part))
			part.Close()
		}
		return outcomes
	}},
	{"Tensor.Transpose", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Transpose() })},
	{"Tensor.Reshape", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Reshape(x.NumElements()) })},
	{"Tensor.FlatInner", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.FlatInner(1) })},
	{"Tensor.FlatOuter", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.FlatOuter(1) })},
	{"Tensor.FlatEnds", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.FlatEnds(0, 1) })},
	{"Tensor.Squeeze", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Squeeze() })},
	{"Tensor.Expand", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Expand(0) })},
	{"Tensor.BroadcastTo", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) {
		return x.BroadcastTo(append([]int64{3}, x.Shape()...)...)
	})},
	{"Tensor.Flip", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Flip() })},
	{"Tensor.Diagonal", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Diagonal(0, 0, 1) })},
	{"Tensor.Windows", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Windows(0, 2, 1, 1) })},
	{"Tensor.Bitcast", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Bitcast(dlpack.Uint8) })},
	{"Tensor.ExportLegacy", func(t testing.TB, x *dlpack.Tensor) any {
		managed, err := x.ExportLegacy()
		if errors.Is(err, dlpack.ErrBorrowed) || errors.Is(err, dlpack.ErrReadOnly) && x.ReadOnly() {
			return nil
		}
		require.NoError(t, err)
		y := must.Do(dlpack.ImportLegacy(managed))(t)
		defer y.Close()
		assert.Equal(t, x.Data(), y.Data())
		return nil
	}},
	{"Tensor.Require", func(t testing.TB, x *dlpack.Tensor) any { return fmt.Sprint(x.Require(dlpack.Float32, 4, 4)) }},
	{"Error.IsAbout", func(t testing.TB, x *dlpack.Tensor) any {
		var e *dlpack.Error
		require.ErrorAs(t, x.Require(dlpack.Int8), &e)
		return e.IsAbout(x)
	}},
	{"Tensor.RequireAlign", func(t testing.TB, x *dlpack.Tensor) any { return cause(x.RequireAlign(64)) }},
	{"Tensor.Alignment", func(t testing.TB, x *dlpack.Tensor) any { return min(x.Alignment(), 256) }},
	{"Tensor.Disjoint", described(func(x *dlpack.Tensor) any { return x.Disjoint(x) })},
	{"Tensor.Share", made(func(x *dlpack.Tensor) (*dlpack.Tensor, error) { return x.Share() })},
	{"Tensor.Layout", described(func(x *dlpack.Tensor) any { return x.Layout() })},
	{"Tensor.DType", described(func(x *dlpack.Tensor) any { return x.DType() })},
	{"Tensor.Device", described(func(x *dlpack.Tensor) any { return x.Device() })},
	{"Tensor.Flags", described(func(x *dlpack.Tensor) any { return x.Flags() })},
	{"Tensor.ReadOnly", described(func(x *dlpack.Tensor) any { return x.ReadOnly() })},
	{"Tensor.RequireOpen", described(func(x *dlpack.Tensor) any { return x.RequireOpen() })},
	{"Tensor.Rank", described(func(x *dlpack.Tensor) any { return x.Rank() })},
	{"Tensor.Shape", described(func(x *dlpack.Tensor) any { return x.Shape() })},
	{"Tensor.Strides", described(func(x *dlpack.Tensor) any { return x.Strides() })},
	{"Tensor.Dim", described(func(x *dlpack.Tensor) any { return x.Dim(0) })},
	{"Tensor.Stride", described(func(x *dlpack.Tensor) any { return x.Stride(0) })},
	{"Tensor.NumElements", described(func(x *dlpack.Tensor) any { return x.NumElements() })},
	{"Tensor.NumBytes", described(func(x *dlpack.Tensor) any { return x.NumBytes() })},
	{"Tensor.IsContiguous", described(func(x *dlpack.Tensor) any { return x.IsContiguous() })},
	{"Tensor.ByteOffset", described(func(x *dlpack.Tensor) any { return x.ByteOffset() })},
	{"Tensor.Data", described(func(x *dlpack.Tensor) any { return x.Data() & 255 })},
	{"Tensor.LogValue", described(func(x *dlpack.Tensor) any { return x.LogValue().String() })},
	{"Tensor.MarshalText", described(func(x *dlpack.Tensor) any { text, err := x.MarshalText(); return []any{string(text), err} })},
	{"Tensor.String", described(func(x *dlpack.Tensor) any { return x.String() })},
	{"Tensor.Close", func(t testing.TB, x *dlpack.Tensor) any { return []any{cause(x.Close()), x.String()} }},
}

// withoutOutcome lists functions whose results depend on the placement. [dlpacktest.Placement.Check] checks Collected.
// OnRelease refuses the memory of other libraries; onrelease_test.go tests it.
var withoutOutcome = []string{"Tensor.Collected", "Tensor.OnRelease"}

var convertible = []dlpack.DataType{
	dlpack.Bool, dlpack.Int8, dlpack.Uint16, dlpack.Int64, dlpack.Float16, dlpack.BFloat16, dlpack.Float32, dlpack.Float64,
	dlpack.Complex64, dlpack.Complex128, dlpack.Float8E4M3FN, dlpack.Int4, dlpack.Float6E2M3FN,
}

// joinedBytes returns a function that joins a tensor with itself and returns the bytes of the result.
func joinedBytes(join func(axis int, tensors ...*dlpack.Tensor) (*dlpack.Tensor, error)) func(t testing.TB, x *dlpack.Tensor) any {
	return func(t testing.TB, x *dlpack.Tensor) any {
		y, err := join(0, x, x)
		if err != nil {
			return cause(err)
		}
		defer y.Close()
		return must.Do(y.AppendBytes(nil))(t)
	}
}

func first(x *dlpack.Tensor, _ bool, err error) (*dlpack.Tensor, error) { return x, err }

func described(f func(x *dlpack.Tensor) any) func(testing.TB, *dlpack.Tensor) any {
	return func(_ testing.TB, x *dlpack.Tensor) any { return f(x) }
}

// made returns the outcome of an operation that makes a tensor.
func made(f func(x *dlpack.Tensor) (*dlpack.Tensor, error)) func(testing.TB, *dlpack.Tensor) any {
	return func(_ testing.TB, x *dlpack.Tensor) any {
		y, err := f(x)
		if err != nil {
			return cause(err)
		}
		defer y.Close()
		offset := y.Data() - x.Data()
		if y.Flags()&dlpack.IsCopied != 0 {
			offset = 0
		}
		return []any{y.String(), y.Flags(), offset, elementsOf(y)}
	}
}

// cause returns the text of an error, without addresses.
func cause(err error) string {
	if ours := (*dlpack.Error)(nil); errors.As(err, &ours) {
		return ours.Op + ": " + ours.Err.Error()
	}
	return fmt.Sprint(err)
}

func elementsOf(x *dlpack.Tensor) []byte {
	data, err := x.AppendBytes(nil)
	if err != nil {
		panic(err)
	}
	return data
}

// like returns a tensor of the same shape with other elements, in separate memory.
func like(t testing.TB, x *dlpack.Tensor, dt dlpack.DataType) *dlpack.Tensor {
	y := must.Do(dlpack.New(dt, x.Shape()...))(t)
	t.Cleanup(func() { y.Close() })
	memory, _, err := y.UnsafeBytes()
	require.NoError(t, err)
	copy(memory, pattern(len(memory)))
	return y
}

// corners returns the indices of the first and the last element.
func corners(x *dlpack.Tensor) (indices [][]int64) {
	if x.NumElements() == 0 {
		return nil
	}
	last := x.Shape()
	for d := range last {
		last[d]--
	}
	return [][]int64{make([]int64, x.Rank()), last}
}

// pattern returns bytes with a long period that form no NaN in any type.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7+i/251) & 0x3f
	}
	return data
}

// A form is a shape with strides. Each form makes a copy take another path through the C code.
type form struct {
	name           string
	shape, strides []int64
}

var forms = []form{
	{"row-major", []int64{7, 13}, nil},
	{"transposed", []int64{67, 35}, []int64{1, 67}},
	{"transposed, of tiles", []int64{130, 144}, []int64{1, 130}},
	{"transposed, with gaps", []int64{70, 33}, []int64{1, 75}},
	{"every second", []int64{131}, []int64{2}},
	{"every third", []int64{131}, []int64{3}},
	{"every fourth", []int64{131}, []int64{4}},
	{"every fifth", []int64{37}, []int64{5}},
	{"flipped", []int64{131}, []int64{-1}},
	{"every second, flipped", []int64{67}, []int64{-2}},
	{"every third, flipped", []int64{67}, []int64{-3}},
	{"every fourth, flipped", []int64{67}, []int64{-4}},
	{"three channels apart", []int64{3, 97}, []int64{1, 3}},
	{"four channels apart", []int64{4, 65}, []int64{1, 4}},
	{"two channels in turn", []int64{97, 2}, []int64{1, 97}},
	{"three channels in turn", []int64{97, 3}, []int64{1, 97}},
	{"four channels in turn", []int64{65, 4}, []int64{1, 65}},
	{"a broadcast", []int64{5, 9}, []int64{0, 1}},
	{"windows", []int64{30, 4}, []int64{1, 1}},
	{"rows with gaps", []int64{5, 6}, []int64{9, 1}},
	{"rows with gaps, both flipped", []int64{5, 6}, []int64{-9, -1}},
	{"three dimensions in another order", []int64{5, 6, 7}, []int64{1, 35, 5}},
	{"a scalar", []int64{}, nil},
	{"one element", []int64{1, 1}, []int64{99, -99}},
	{"no elements", []int64{3, 0}, nil},
}

// edges returns forms of all sizes at which the C code changes from many elements at a time to fewer, or to one. If the
// code goes one group too far, it accesses a page beside guarded memory.
func edges() (forms []form) {
	for _, n := range []int64{1, 2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129} {
		for _, step := range []int64{1, 2, 3, 4, 5, -1, -2, -3, -4} {
			forms = append(forms, form{fmt.Sprintf("%d, %d apart", n, step), []int64{n}, []int64{step}})
		}
		for channels := int64(2); channels <= 4; channels++ {
			forms = append(forms,
				form{fmt.Sprintf("%d of %d channels", n, channels), []int64{channels, n}, []int64{1, channels}},
				form{fmt.Sprintf("%d channels of %d in turn", channels, n), []int64{n, channels}, []int64{1, n}})
		}
		for _, m := range []int64{16, 64, 65, 128} {
			forms = append(forms, form{fmt.Sprintf("%d by %d, transposed", m, n), []int64{m, n}, []int64{1, m}})
		}
	}
	return forms
}

// edged lists the operations that are tested with the forms of edges.
var edged = []string{"Tensor.Copy", "Tensor.Convert", "Tensor.ConvertTo", "Tensor.ConvertTo, the destination", "Tensor.ConvertScaled", "Tensor.ConvertScaled, the destination", "Tensor.CopyTo", "Tensor.CopyTo, the destination"}

// placed returns the bytes that a tensor touches, and their description.
func (f *form) placed(t *testing.T, dt dlpack.DataType, padded bool) ([]byte, dlpack.Spec) {
	item := int64(dt.ItemSize())
	s := dlpack.Spec{DType: dt, Shape: f.shape, Strides: f.strides, Padded: padded}
	if dt.IsSubByte() && !padded {
		count := must.Do(layout.Count(f.shape))(t)
		s.Strides = nil
		return pattern(int((count*int64(dt.BitSize()) + 7) / 8)), s
	}
	if f.strides == nil {
		count := must.Do(layout.Count(f.shape))(t)
		return pattern(int(count * item)), s
	}
	low, high, err := layout.Span(f.shape, f.strides)
	require.NoError(t, err)
	s.ByteOffset = -low * item
	return pattern(int((high - low) * item)), s
}

// Every operation gives the same outcome wherever the elements lie, and touches no other byte: access to the pages around
// guarded memory would crash.
func TestOperationsDoNotCareWhereMemoryLies(t *testing.T) {
	wide := []dlpack.DataType{
		dlpack.Uint8, dlpack.Bool, dlpack.Int16, dlpack.Float16, dlpack.Float32, dlpack.Float64, dlpack.Complex128,
		dlpack.MakeDataType(dlpack.CodeUInt, 8, 3), dlpack.MakeDataType(dlpack.CodeInt, 16, 3), dlpack.MakeDataType(dlpack.CodeInt, 8, 5),
		dlpack.MakeDataType(dlpack.CodeFloat, 32, 3), dlpack.MakeDataType(dlpack.CodeFloat, 64, 4), dlpack.MakeDataType(dlpack.CodeFloat, 64, 9),
		dlpack.Int4, dlpack.Float6E2M3FN,
	}
	edgeTypes := []dlpack.DataType{dlpack.Uint8, dlpack.Float16, dlpack.BFloat16, dlpack.Float32, dlpack.Float64, dlpack.Complex128}
	plain := []dlpack.DataType{dlpack.Uint8, dlpack.Float32, dlpack.Int4}
	if testing.Short() { // one type of each kind
		plain = plain[1:2]
		edgeTypes = edgeTypes[3:4]
		wide = []dlpack.DataType{dlpack.Float32, dlpack.MakeDataType(dlpack.CodeInt, 16, 3), dlpack.Int4}
	}
	for i := range dlpacktest.Placements {
		place := &dlpacktest.Placements[i]
		t.Run(place.Name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			dtypes := plain
			if place.Guarded {
				dtypes = wide
			}
			if place.Guarded {
				for _, op := range elementOperations {
					if !slices.Contains(edged, op.name) {
						continue
					}
					t.Run("the edges of "+op.name, func(t *testing.T) {
						for _, dt := range edgeTypes {
							for _, f := range edges() {
								data, s := f.placed(t, dt, false)
								place.Check(t, fmt.Sprint(dt, ", ", f.name), data, s, op.run)
							}
						}
					})
				}
			}
			for _, op := range elementOperations {
				t.Run(op.name, func(t *testing.T) {
					for _, dt := range dtypes {
						for _, f := range forms {
							data, s := f.placed(t, dt, false)
							place.Check(t, fmt.Sprint(dt, ", ", f.name), data, s, op.run)
							if dt.IsSubByte() {
								data, s := f.placed(t, dt, true)
								place.Check(t, fmt.Sprint("padded ", dt, ", ", f.name), data, s, op.run)
							}
						}
					}
				})
			}
			for _, op := range viewOperations {
				t.Run(op.name, func(t *testing.T) {
					for _, f := range []form{{"square", []int64{4, 4}, []int64{4, 1}}, {"flipped", []int64{4, 4}, []int64{-4, -1}}, {"columns", []int64{3, 3}, []int64{1, 3}}} {
						data, s := f.placed(t, dlpack.Float32, false)
						place.Check(t, f.name, data, s, op.run)
					}
				})
			}
		})
	}
}

// Several goroutines make large copies, which bypass the caches.
func TestLargeCopiesDoNotCareWhereMemoryLies(t *testing.T) {
	testmode.SkipLong(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	const rows, columns = 4100, 8201 // 33 MB; each row is aligned differently from the one before
	data := pattern(rows * columns)
	for n, f := range []form{{"row-major", []int64{rows, columns}, nil}, {"transposed", []int64{columns, rows}, []int64{1, columns}}} {
		heap := fromBytes(t, data, dlpack.Spec{DType: dlpack.Uint8, Shape: f.shape, Strides: f.strides})
		want := elementsOf(heap)
		count := 0
		for i := range dlpacktest.Placements {
			place := &dlpacktest.Placements[i]
			if place.Name == "a slice that began on the stack" || place.Name == "an array in an interface" {
				continue // this kind of memory has no such size; the size is that of a heap object
			}
			if testing.Short() && i%2 != n { // every place in one of the two layouts
				continue
			}
			count++
			t.Run(f.name+", "+place.Name, func(t *testing.T) {
				x := place.Tensor(t, data, dlpack.Spec{DType: dlpack.Uint8, Shape: f.shape, Strides: f.strides})
				room := make([]byte, 0, len(want))
				got := must.Do(x.AppendBytes(room))(t)
				require.True(t, bytes.Equal(want, got))

				clear(got)
				dst := fromBytes(t, got, dlpack.Spec{DType: dlpack.Uint8, Shape: f.shape})
				require.NoError(t, x.CopyTo(dst))
				require.True(t, bytes.Equal(want, got))

				clear(got)
				signed := must.Own(dst.Bitcast(dlpack.Int8))(t)
				require.NoError(t, x.ConvertTo(signed))
				require.True(t, bytes.Equal(want, got))

				if place.ReadOnly {
					require.ErrorIs(t, dst.CopyTo(x), dlpack.ErrReadOnly)
					return
				}
				memory, _, err := x.UnsafeBytes()
				require.NoError(t, err)
				clear(memory)
				require.NoError(t, dst.CopyTo(x))
				require.True(t, bytes.Equal(data, memory))
				if f.strides != nil {
					return
				}
				clear(memory)
				must.Do(heap.AppendBytes(memory[:0:len(memory)]))(t)
				require.True(t, bytes.Equal(data, memory))
			})
		}
		if !testing.Short() {
			assert.Greater(t, count, 10)
		}
		assert.Greater(t, count, 4)
	}
}

// AppendBytes appends to the caller's slice, wherever it lies.
func TestAppendBytesDoesNotCareWhereItsDestinationLies(t *testing.T) {
	for i := range dlpacktest.Placements {
		place := &dlpacktest.Placements[i]
		if place.ReadOnly {
			continue
		}
		t.Run(place.Name, func(t *testing.T) {
			for _, f := range forms {
				data, s := f.placed(t, dlpack.Float32, false)
				x := fromBytes(t, data, s)
				want := elementsOf(x)
				room := place.Bytes(t, make([]byte, 3+len(want)))
				got := must.Do(x.AppendBytes(room[:3:len(room)]))(t)
				require.Equal(t, unsafe.SliceData(room), unsafe.SliceData(got))
				require.True(t, bytes.Equal(want, room[3:]), f.name)
			}
		})
	}
}

// Every function that takes a tensor must be in one of the tables above.
func TestTableOfOperationsIsComplete(t *testing.T) {
	known := slices.Clone(withoutOutcome)
	for _, op := range slices.Concat(elementOperations, viewOperations) {
		known = append(known, op.name)
	}
	repotest.CheckFunctionsOfTensors(t, ".", known)
}
