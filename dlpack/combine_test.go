//go:build cgo

package dlpack_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// layoutsOf returns tensors of the given type and shape with different layouts.
func layoutsOf(t *testing.T, dt dlpack.DataType, shape ...int64) map[string]*dlpack.Tensor {
	n := int64(len(shape))
	wide, reversed := make([]int64, n), make([]int64, n)
	order := make([]int, n)
	for d := range shape {
		wide[d], reversed[d], order[d] = 2*shape[d]+1, shape[n-1-int64(d)], int(n)-1-d
	}
	padded := func(shape []int64) *dlpack.Tensor {
		return fromBytes(t, make([]byte, 1<<12), dlpack.Spec{DType: dt, Shape: shape, Padded: dt.IsSubByte()})
	}
	plain, turned, gaps := padded(shape), must.Own(padded(reversed).Transpose(order...))(t), padded(wide)
	cut := make([]layout.Index, n)
	for d := range shape {
		cut[d] = layout.Range(1, 2*shape[d]+1).By(2)
	}
	return map[string]*dlpack.Tensor{
		"new": must.Own(dlpack.New(dt, shape...))(t), "row-major": plain, "transposed": turned, "with gaps": must.Own(gaps.Slice(cut...))(t),
		"flipped": must.Own(plain.Flip())(t),
	}
}

// eachIndex calls f with each index of a shape, in row-major order.
func eachIndex(shape []int64, f func(index []int64)) {
	index := make([]int64, len(shape))
	var walk func(d int)
	walk = func(d int) {
		if d == len(shape) {
			f(index)
			return
		}
		for index[d] = 0; index[d] < shape[d]; index[d]++ {
			walk(d + 1)
		}
	}
	walk(0)
}

func elementAt(t *testing.T, x *dlpack.Tensor, index []int64) any {
	value, err := x.At(index...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// enumerate sets each element to a different number.
func enumerate(t *testing.T, x *dlpack.Tensor, first int) {
	eachIndex(x.Shape(), func(index []int64) {
		if err := x.SetAt(first%7, index...); err != nil {
			t.Fatal(err)
		}
		first++
	})
}

var joined = []dlpack.DataType{dlpack.Uint8, dlpack.Int4, dlpack.BFloat16, dlpack.Float32, dlpack.Complex128}

func TestConcatJoinsTensorsOfAnyLayout(t *testing.T) {
	for _, dt := range joined {
		for axis := range 2 {
			shapes := [][]int64{{2, 4}, {2, 4}}
			shapes[1][axis] = 2
			for nameA, a := range layoutsOf(t, dt, shapes[0]...) {
				for nameB, b := range layoutsOf(t, dt, shapes[1]...) {
					enumerate(t, a, 1)
					enumerate(t, b, 4)
					for _, ax := range []int{axis, axis - 2} {
						c := must.Own(dlpack.Concat(ax, a, b, a))(t)
						want := []int64{2, 4}
						want[axis] = 2*shapes[0][axis] + shapes[1][axis]
						require.Equal(t, want, c.Shape())
						eachIndex(want, func(index []int64) {
							from, at := a, append([]int64(nil), index...)
							if at[axis] >= shapes[0][axis] {
								if at[axis] -= shapes[0][axis]; at[axis] < shapes[1][axis] {
									from = b
								} else {
									at[axis] -= shapes[1][axis]
								}
							}
							if want, got := elementAt(t, from, at), elementAt(t, c, index); want != got {
								t.Fatalf("%v, %s and %s, axis %d, at %v: %v, want %v", dt, nameA, nameB, ax, index, got, want)
							}
						})
					}
				}
			}
		}
	}
}

func TestStackAddsADimension(t *testing.T) {
	for _, dt := range joined {
		a, b := fromBytes(t, make([]byte, 1024), dlpack.Spec{DType: dt, Shape: []int64{2, 4}}), must.Own(dlpack.New(dt, 2, 4))(t)
		enumerate(t, a, 1)
		enumerate(t, b, 3)
		for _, axis := range []int{0, 1, 2, -1, -2, -3} {
			c := must.Own(dlpack.Stack(axis, a, b))(t)
			at := (axis + 3) % 3
			require.EqualValues(t, 2, c.Dim(at))
			for i, from := range []*dlpack.Tensor{a, b} {
				part := must.Own(c.Narrow(at, int64(i), 1))(t)
				require.Equal(t, rawOf(t, must.Own(part.Copy())(t)), rawOf(t, must.Own(dlpack.Concat(0, from))(t)), "%v, axis %d", dt, axis)
			}
		}
	}
}

func rawOf(t *testing.T, x *dlpack.Tensor) []byte {
	return must.Do(x.AppendBytes(nil))(t)
}

func TestJoinsThatAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	a, b := fromSlice(t, make([]float32, 6), 2, 3), fromSlice(t, make([]float32, 6), 3, 2)
	c, scalar, none := fromSlice(t, make([]int32, 6), 2, 3), fromSlice(t, []float32{1}, []int64{}...), (*dlpack.Tensor)(nil)
	zero := must.Own(scalar.Reshape())(t)
	half := must.Own(fromSlice(t, []float32{1}, 1).BroadcastTo(1 << 60))(t)
	defer half.Close()
	for _, s := range []struct {
		make  func(axis int, tensors ...*dlpack.Tensor) (*dlpack.Tensor, error)
		axis  int
		in    []*dlpack.Tensor
		cause error
		text  string
	}{
		{dlpack.Concat, 0, nil, dlpack.ErrLayout, "dlpack: concat: there are no tensors"},
		{dlpack.Concat, 0, []*dlpack.Tensor{a, b}, dlpack.ErrLayout, "dlpack: concat: tensor 1 has shape [3 2], but tensor 0 has [2 3]; only axis 0 may differ"},
		{dlpack.Concat, 0, []*dlpack.Tensor{a, c}, dlpack.ErrDType, "dlpack: concat: tensor 1 has int32, but tensor 0 has float32; Convert makes them alike"},
		{dlpack.Concat, 2, []*dlpack.Tensor{a}, dlpack.ErrLayout, "dlpack: concat: axis 2 is out of range for the shape [2 3]"},
		{dlpack.Concat, -3, []*dlpack.Tensor{a}, dlpack.ErrLayout, "dlpack: concat: axis -3 is out of range for the shape [2 3]"},
		{dlpack.Concat, 0, []*dlpack.Tensor{zero}, dlpack.ErrLayout, "dlpack: concat: axis 0 is out of range for the shape []"},
		{dlpack.Concat, 0, []*dlpack.Tensor{a, none}, dlpack.ErrClosed, "dlpack: concat: tensor 1 is nil"},
		{dlpack.Concat, 0, []*dlpack.Tensor{half, half}, dlpack.ErrOverflow, "dlpack: concat: 2305843009213693952 elements of 4 bytes overflow"},
		{dlpack.Stack, 0, []*dlpack.Tensor{half, half}, dlpack.ErrOverflow, "dlpack: stack: 2305843009213693952 elements of 4 bytes overflow"},
		{dlpack.Stack, 0, nil, dlpack.ErrLayout, "dlpack: stack: there are no tensors"},
		{dlpack.Stack, 3, []*dlpack.Tensor{a}, dlpack.ErrLayout, "dlpack: stack: axis 3 is out of range for a result with 3 dimensions"},
		{dlpack.Stack, -4, []*dlpack.Tensor{a}, dlpack.ErrLayout, "dlpack: stack: axis -4 is out of range for a result with 3 dimensions"},
		{dlpack.Stack, 0, []*dlpack.Tensor{a, b}, dlpack.ErrLayout, "dlpack: stack: tensor 1 has shape [3 2], but tensor 0 has [2 3]"},
		{dlpack.Stack, 0, []*dlpack.Tensor{a, c}, dlpack.ErrDType, "dlpack: stack: tensor 1 has int32, but tensor 0 has float32; Convert makes them alike"},
		{dlpack.Stack, 0, []*dlpack.Tensor{none}, dlpack.ErrClosed, "dlpack: stack: tensor 0 is nil"},
	} {
		_, err := s.make(s.axis, s.in...)
		assert.ErrorIs(t, err, s.cause)
		assert.EqualError(t, err, s.text)
	}
	huge := must.Own(a.BroadcastTo(1<<40, 2, 3))(t)
	_, err := dlpack.Concat(0, huge, huge)
	assert.ErrorIs(t, err, dlpack.ErrMemory)
	assert.ErrorContains(t, err, "dlpack: concat: no memory for ")
}

func TestFillSetsEveryElementAndNothingElse(t *testing.T) {
	for _, dt := range joined {
		for name, x := range layoutsOf(t, dt, 3, 4) {
			require.NoError(t, x.Fill(3), "%v %s", dt, name)
			eachIndex(x.Shape(), func(index []int64) {
				require.Equal(t, "3", fmt.Sprint(real128(elementAt(t, x, index))), "%v %s at %v", dt, name, index)
			})
		}
	}
	data := make([]float32, 12)
	whole := fromSlice(t, data, 3, 4)
	part := must.Own(whole.Slice(layout.All(), layout.Range(1, 3)))(t)
	require.NoError(t, part.Fill(7.5))
	assert.Equal(t, []float32{0, 7.5, 7.5, 0, 0, 7.5, 7.5, 0, 0, 7.5, 7.5, 0}, data)
	require.NoError(t, fromSlice(t, []bool{false}).Fill(true))
	require.NoError(t, must.Own(dlpack.New(dlpack.Float32, 0, 3))(t).Fill(1))
}

// real128 returns the real part of a number.
func real128(value any) any {
	switch v := value.(type) {
	case complex128:
		return real(v)
	case complex64:
		return real(v)
	}
	return value
}

func TestFillRefuses(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := fromSlice(t, make([]int8, 4), 2, 2)
	assert.ErrorIs(t, x.Fill(300), dlpack.ErrValue)
	assert.EqualError(t, x.Fill("a"), "dlpack: fill: a string cannot be an element of int8")
	assert.ErrorIs(t, x.Fill(nil), dlpack.ErrDType)
	repeated := must.Own(x.BroadcastTo(3, 2, 2))(t)
	assert.ErrorIs(t, repeated.Fill(1), dlpack.ErrReadOnly)
	lanes := fromBytes(t, make([]byte, 16), dlpack.Spec{DType: dlpack.MakeDataType(dlpack.CodeFloat, 32, 2), Shape: []int64{2}})
	assert.ErrorIs(t, lanes.Fill(1), dlpack.ErrDType)
	var none *dlpack.Tensor
	assert.ErrorIs(t, none.Fill(1), dlpack.ErrClosed)
}

func TestMayShareMemory(t *testing.T) {
	data := make([]float32, 12)
	x, other := fromSlice(t, data, 3, 4), fromSlice(t, make([]float32, 12), 3, 4)
	top, bottom := must.Own(x.Slice(layout.Range(0, 2)))(t), must.Own(x.Slice(layout.From(2)))(t)
	even, odd := must.Own(x.Slice(layout.All(), layout.All().By(2)))(t), must.Own(x.Slice(layout.All(), layout.From(1).By(2)))(t)
	empty := must.Own(x.Slice(layout.Range(0, 0)))(t)
	for _, s := range []struct {
		a, b *dlpack.Tensor
		want bool
	}{
		{x, x, true}, {x, top, true}, {top, bottom, false}, {x, other, false}, {even, odd, false}, {even, x, true},
		{empty, x, false}, {nil, x, false}, {x, nil, false}, {nil, nil, false}, {new(dlpack.Tensor), x, false},
	} {
		assert.Equal(t, s.want, dlpack.MayShareMemory(s.a, s.b), "%v and %v", s.a, s.b)
		assert.Equal(t, s.want, dlpack.MayShareMemory(s.b, s.a))
	}
}

// Two random views of one tensor share memory if they have an element in common. If MayShareMemory returns false, they have
// none.
func TestMayShareMemoryIsNeverFalselyFalse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := fromSlice(t, make([]byte, 64), 8, 8)
	view := func() *dlpack.Tensor {
		var cut [2]layout.Index
		for d := range cut {
			from := random.Int64N(8)
			cut[d] = layout.Range(from, from+1+random.Int64N(8-from)).By(1 + random.Int64N(3))
		}
		return must.Own(x.Slice(cut[:]...))(t)
	}
	said := map[bool]int{}
	for range 2000 {
		a, b := view(), view()
		require.NoError(t, x.Fill(0))
		require.NoError(t, a.Fill(1))
		touched := false
		eachIndex(b.Shape(), func(index []int64) {
			touched = touched || elementAt(t, b, index) == uint8(1)
		})
		shares := dlpack.MayShareMemory(a, b)
		if touched {
			require.True(t, shares)
		}
		said[shares]++
	}
	assert.Greater(t, said[false], 100)
	assert.Greater(t, said[true], 100)
}

func ExampleConcat() {
	a, _ := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	b, _ := dlpack.FromSlice([]float32{5, 6}, 2, 1)
	defer a.Close()
	defer b.Close()
	c, _ := dlpack.Concat(1, a, b)
	defer c.Close()
	fmt.Println(c)
	// Output:
	// float32[2 3] on cpu
	// [[1 2 5]
	//  [3 4 6]]
}

func ExampleStack() {
	a, _ := dlpack.FromSlice([]int32{1, 2, 3})
	b, _ := dlpack.FromSlice([]int32{4, 5, 6})
	defer a.Close()
	defer b.Close()
	c, _ := dlpack.Stack(-1, a, b)
	defer c.Close()
	fmt.Println(c)
	// Output:
	// int32[3 2] on cpu
	// [[1 4]
	//  [2 5]
	//  [3 6]]
}

func ExampleTensor_Fill() {
	t, _ := dlpack.New(dlpack.BFloat16, 2, 2)
	defer t.Close()
	err := t.Fill(0.5)
	fmt.Println(t, err)
	// Output:
	// bfloat16[2 2] on cpu
	// [[0.5 0.5]
	//  [0.5 0.5]] <nil>
}

func ExampleMayShareMemory() {
	t, _ := dlpack.New(dlpack.Float32, 4)
	defer t.Close()
	head, _ := t.Narrow(0, 0, 2)
	tail, _ := t.Narrow(0, 2, 2)
	defer head.Close()
	defer tail.Close()
	fmt.Println(dlpack.MayShareMemory(t, head), dlpack.MayShareMemory(head, tail))
	// Output: true false
}
