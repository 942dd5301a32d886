//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// An array is the expected result of a view. Its positions are bits in the memory of the root.
type array struct {
	kind
	viewtest.Model
}

// A kind is a data type, packed or padded.
type kind struct {
	dtype  dlpack.DataType
	padded bool
}

// width returns the number of bits from one element to the next.
func (k kind) width() int64 {
	if k.padded {
		return 8 * int64(k.dtype.ItemSize())
	}
	return int64(k.dtype.BitSize())
}

// kinds has types of all widths, packed and padded, with and without lanes.
var kinds = []kind{
	{dlpack.Int32, false}, {dlpack.Uint8, false}, {dlpack.Uint16, false}, {dlpack.Int64, false}, {dlpack.Float32, false}, {dlpack.Complex128, false},
	{dlpack.MakeDataType(dlpack.CodeUInt, 8, 3), false}, {dlpack.MakeDataType(dlpack.CodeInt, 16, 3), false}, {dlpack.OpaqueHandle64, false},
	{dlpack.Int4, false}, {dlpack.Uint2, false}, {dlpack.Float6E2M3FN, false}, {dlpack.Float4E2M1FNx2, false}, {dlpack.MakeDataType(dlpack.CodeInt, 4, 3), false},
	{dlpack.Int4, true}, {dlpack.Uint2, true}, {dlpack.Float6E2M3FN, true}, {dlpack.Int32, true}, {dlpack.MakeDataType(dlpack.CodeInt, 4, 3), true},
}

// twice reports whether an element appears more than once in the array.
func (a array) twice() bool {
	seen := map[int64]bool{}
	for _, at := range a.Positions {
		seen[at] = true
	}
	return len(seen) < len(a.Positions)
}

// follow reports whether the elements lie row-major without gaps.
func (a array) follow() bool {
	for k, e := range a.Positions {
		if e != a.Positions[0]+int64(k)*a.width() {
			return false
		}
	}
	return true
}

// isNone reports whether only a copy can have these elements. Either no strides of whole elements lead to all of them, or
// the elements are packed and not row-major without gaps from the beginning of a byte.
func (a array) isNone() bool {
	if a.width()%8 != 0 && len(a.Positions) > 0 {
		return a.Positions[0]%8 != 0 || !a.follow()
	}
	return !a.Strided(a.width())
}

// bits returns the bits of the elements, row-major without gaps, with a byte for each bit.
func (a array) bits(memory []byte) (bits []byte) {
	for _, e := range a.Positions {
		for at := e; at < e+a.width(); at++ {
			bits = append(bits, memory[at/8]>>(at%8)&1)
		}
	}
	return bits
}

// flip negates all bits of the elements.
func (a array) flip(memory []byte) {
	for _, e := range a.Positions {
		for at := e; at < e+a.width(); at++ {
			memory[at/8] ^= 1 << (at % 8)
		}
	}
}

// split returns all bits of some bytes, except those after the last element.
func split(data []byte, count int) (bits []byte) {
	for at := range count {
		bits = append(bits, data[at/8]>>(at%8)&1)
	}
	return bits
}

// bitcast returns the view of the elements as another type. Package layout has no such view. If it is impossible, the result is
// empty.
func (a array) bitcast(to kind) viewtest.View {
	v := viewtest.View{Method: "Bitcast", Args: []any{to.dtype}}
	old, width, last := a.width(), to.width(), len(a.Shape)-1
	if old == width {
		v.Want = []viewtest.Model{a.Model}
		return v
	}
	if last < 0 || a.Shape[last]*old%width != 0 {
		return v
	}
	n := a.Shape[last]
	out := viewtest.Model{Shape: slices.Clone(a.Shape)}
	out.Shape[last] = n * old / width
	for row := 0; n > 0 && row < len(a.Positions); row += int(n) {
		for k := int64(1); k < n; k++ {
			if a.Positions[row+int(k)] != a.Positions[row]+k*old {
				return v
			}
		}
		for at := range out.Shape[last] {
			out.Positions = append(out.Positions, a.Positions[row]+at*width)
		}
	}
	v.Want = []viewtest.Model{out}
	return v
}

// viewsOf makes the view of a tensor, or the two views of a split.
func viewsOf(tensor *dlpack.Tensor, v viewtest.View) ([]*dlpack.Tensor, error) {
	results := v.Call(tensor)
	err, _ := results[1].(error)
	if view, ok := results[0].(*dlpack.Tensor); ok {
		return []*dlpack.Tensor{view}, err
	}
	return results[0].([]*dlpack.Tensor), err
}

// numbered returns 0, 1, 2, ..., one number for each element of the shape.
func numbered(shape []int64) (elements []int32) {
	for i := range viewtest.Indices(shape) {
		elements = append(elements, int32(i))
	}
	return elements
}

// root chooses a tensor of random bytes in memory of Go or of a producer.
func root(t *testing.T, c *viewtest.Choices) (tensor *dlpack.Tensor, a array, memory []byte, deletes func() int) {
	a.kind = kinds[0]
	if c.Below(2) == 0 {
		a.kind = kinds[c.Below(len(kinds))]
	}
	for range c.Below(5) {
		a.Shape = append(a.Shape, c.Between(1, 4)-int64(c.Below(20)/19))
	}
	for i := range viewtest.Indices(a.Shape) {
		a.Positions = append(a.Positions, int64(i)*a.width())
	}
	before, size := c.Below(8), (len(a.Positions)*int(a.width())+7)/8
	readOnly, err := c.Below(5) == 0, error(nil)
	if c.Below(2) == 0 {
		memory = make([]byte, before+size+1)
		tensor, err = dlpack.FromBytes(memory, dlpack.Spec{DType: a.dtype, Shape: a.Shape, ByteOffset: int64(before), Padded: a.padded, ReadOnly: readOnly})
	} else {
		config := dlpacktest.Config{
			Code: uint8(a.dtype.Code()), Bits: a.dtype.Bits(), Lanes: a.dtype.Lanes(), Shape: a.Shape, ByteOffset: uint64(before), Bytes: before + size + 1,
		}
		if readOnly {
			config.Flags |= uint64(dlpack.ReadOnly)
		}
		if a.padded {
			config.Flags |= uint64(dlpack.SubbytePadded)
		}
		p := dlpacktest.Produce(t, config)
		deletes, memory = p.Deletes, p.Data()
		tensor, err = dlpack.Import(p.Managed())
	}
	require.NoError(t, err)
	require.Equal(t, readOnly, tensor.ReadOnly())
	random := rand.New(rand.NewPCG(uint64(before), uint64(size)))
	for i := range memory {
		memory[i] = byte(random.Uint32())
	}
	return tensor, a, memory[before:], deletes
}

// checkView compares a view with the expected array, in the memory of its root.
func checkView(t *testing.T, view *dlpack.Tensor, want array, memory []byte, what string) {
	require.Equal(t, append([]int64{}, want.Shape...), view.Shape(), what)
	require.Equal(t, want.dtype, view.DType(), what)
	require.Equal(t, want.padded, view.Flags()&dlpack.SubbytePadded != 0, what)
	require.Equal(t, int64(len(want.Positions)), view.NumElements(), what)
	require.Equal(t, want.follow(), view.IsContiguous(), what)
	data, err := view.AppendBytes(nil)
	require.NoError(t, err, what)
	bits := want.bits(memory)
	require.Len(t, data, (len(bits)+7)/8, what)
	require.True(t, slices.Equal(bits, split(data, len(bits))), what)
	if len(want.Positions) == 0 {
		require.Zero(t, view.Data(), what)
		return
	}
	require.Equal(t, uintptr(unsafe.Pointer(&memory[want.Positions[0]/8])), view.Data(), what)
	touched, _, err := view.UnsafeBytes()
	require.NoError(t, err, what)
	low, high := slices.Min(want.Positions)/8, (slices.Max(want.Positions)+want.width()+7)/8
	require.Equal(t, unsafe.Pointer(&memory[low]), unsafe.Pointer(&touched[0]), what)
	require.Len(t, touched, int(high-low), what)
	l := view.Layout()
	for k, index := range viewtest.Indices(want.Shape) {
		at, err := l.OffsetOf(index...)
		if at = want.Positions[0] + at*want.width(); err != nil || at != want.Positions[k] {
			require.Equal(t, want.Positions[k], at, "%s: index %v: %v", what, index, err)
		}
		checkElement(t, view, want, k, index, memory, what)
	}
}

// checkElement reads an element of an integer type by its index.
func checkElement(t *testing.T, view *dlpack.Tensor, want array, k int, index []int64, memory []byte, what string) {
	n, at := uint(want.dtype.Bits()), want.Positions[k]
	if want.dtype.Lanes() > 1 {
		_, err := view.At(index...)
		require.ErrorIs(t, err, dlpack.ErrDType, what)
		return
	}
	var bits uint64
	for i := range int64(min(n, 64)) {
		bits |= uint64(memory[(at+i)/8]>>((at+i)%8)&1) << i
	}
	signed := int64(bits<<(64-n)) >> (64 - n)
	var value any
	switch want.dtype {
	case dlpack.Int32:
		value = int32(signed)
		got, err := dlpack.At[int32](view, index...)
		if err != nil || got != value {
			require.Equal(t, value, got, "%s: index %v: %v", what, index, err)
		}
	case dlpack.Int64:
		value = signed
	case dlpack.Int4:
		value = int8(signed)
	case dlpack.Uint8, dlpack.Uint2:
		value = uint8(bits)
	case dlpack.Uint16:
		value = uint16(bits)
	default:
		return
	}
	got, err := view.At(index...)
	if err != nil || got != value {
		require.Equal(t, value, got, "%s: index %v: %v", what, index, err)
	}
}

// checkCopies copies a view to new memory, in both orders, and copies other elements into the view.
func checkCopies(t *testing.T, view *dlpack.Tensor, want array, memory []byte, what string) {
	copied, err := view.Copy()
	require.NoError(t, err, what)
	defer copied.Close()
	values, _, err := copied.UnsafeBytes()
	require.NoError(t, err, what)
	bits := want.bits(memory)
	require.True(t, slices.Equal(bits, split(values, len(bits))), what)
	if len(bits) > 0 {
		require.NotEqual(t, view.Data(), copied.Data(), what)
	}
	columns, _, err := view.Contiguous(dlpack.ColumnMajor)
	if want.width()%8 != 0 && err != nil {
		require.ErrorIs(t, err, dlpack.ErrLayout, what)
	} else {
		require.NoError(t, err, what)
		defer columns.Close()
		require.True(t, layout.IsColumnMajor(columns.Shape(), columns.Strides()), what)
		back, err := columns.AppendBytes(nil)
		require.NoError(t, err, what)
		require.True(t, slices.Equal(bits, split(back, len(bits))), what)
	}
	if view.ReadOnly() {
		require.ErrorIs(t, copied.CopyTo(view), dlpack.ErrReadOnly, what)
		return
	}
	now := slices.Clone(memory)
	for range 2 { // and back again
		for i := range values {
			values[i] = ^values[i]
		}
		want.flip(now)
		require.NoError(t, copied.CopyTo(view), what)
		require.True(t, slices.Equal(now, memory), "%s: other memory than the view's", what)
	}
}

// runViews makes views of views, and compares each with the expected array.
func runViews(t *testing.T, choices []byte) (made, refused int) {
	c := (*viewtest.Choices)(&choices)
	tensor, a, memory, deletes := root(t, c)
	open := []*dlpack.Tensor{tensor}
	// A single Apply makes all views since the last bitcast, from the view before them.
	base, all := tensor, []func(l *layout.Layout) error{}
	readOnly := tensor.ReadOnly()
	what := fmt.Sprint(tensor)
	for range 1 + c.Below(5) {
		v, to := c.View(a.Model), a.kind
		bitcast := c.Below(15) == 14
		if bitcast {
			to.dtype = kinds[c.Below(len(kinds))].dtype
			v = a.bitcast(to)
		}
		var want []array
		for _, m := range v.Want {
			want = append(want, array{to, m})
		}
		views, err := viewsOf(tensor, v)
		what = fmt.Sprint(what, ", ", v)
		if err != nil {
			refused++
			require.ErrorIs(t, err, dlpack.ErrLayout, what)
			if v.Err != nil {
				require.ErrorIs(t, err, v.Err, what)
			}
			if want != nil {
				require.True(t, slices.ContainsFunc(want, array.isNone), what)
				if to.width()%8 == 0 {
					require.ErrorIs(t, err, layout.ErrCopy, what)
					require.ErrorContains(t, err, "Contiguous", what)
				}
			}
			continue
		}
		made++
		open = append(open, views...)
		require.Len(t, views, len(want), what)
		for k, view := range views {
			require.Equal(t, readOnly || want[k].twice(), view.ReadOnly(), what)
			checkView(t, view, want[k], memory, what)
		}
		k := c.Below(len(views))
		tensor, a = views[k], want[k]
		readOnly = tensor.ReadOnly()
		if len(views) > 1 {
			what = fmt.Sprint(what, ", part ", k)
		}
		if bitcast {
			base, all = tensor, nil
			continue
		}
		all = append(all, func(l *layout.Layout) error {
			parts, err := v.Layouts(l)
			if err == nil {
				*l = parts[k]
			}
			return err
		})
	}

	once, err := base.Apply(func(l *layout.Layout) error {
		for _, view := range all {
			if err := view(l); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err, what)
	open = append(open, once)
	checkView(t, once, a, memory, what+", at once")
	require.Equal(t, base.ReadOnly() || a.twice(), once.ReadOnly())

	checkCopies(t, tensor, a, memory, what)
	if len(a.Positions) > 0 && a.dtype == dlpack.Int32 {
		k := c.Below(len(a.Positions))
		index := viewtest.Indices(a.Shape)[k]
		err := dlpack.SetAt[int32](tensor, -1, index...)
		if readOnly {
			require.ErrorIs(t, err, dlpack.ErrReadOnly, what)
		} else {
			require.NoError(t, err, what)
			require.Equal(t, []byte{255, 255, 255, 255}, memory[a.Positions[k]/8:][:4], what)
		}
	}
	for len(open) > 0 {
		if deletes != nil {
			require.Zero(t, deletes(), what)
		}
		k := c.Below(len(open))
		open[k].Close()
		open = slices.Delete(open, k, k+1)
	}
	if deletes != nil {
		require.Equal(t, 1, deletes(), what)
	}
	return made, refused
}

// Random chains of views, in memory of Go and of producers, are compared with the expected elements, index by index.
func TestViewsAreWhatTheirIndicesSay(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	random := rand.New(rand.NewPCG(34, 5))
	choices := make([]byte, 200)
	made, refused := 0, 0
	for range fewer(100) {
		t.Run("", func(t *testing.T) { // the end of the subtest frees its C memory
			for range 1000 {
				for i := range choices {
					choices[i] = byte(random.Uint32())
				}
				m, r := runViews(t, slices.Clone(choices))
				made, refused = made+m, refused+r
			}
		})
	}
	assert.Greater(t, made, fewer(200_000))
	assert.Greater(t, refused, fewer(10_000))
}

// FuzzTensorViews is the same test, with choices from the fuzzer.
func FuzzTensorViews(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(choicesOf(seed, 200))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		dlpacktest.CheckLeaks(t)
		runViews(t, choices)
	})
}

// views has one view of each kind, of a float32 tensor of shape 3×4×5.
var views = []struct {
	name string
	make func(t *dlpack.Tensor) (*dlpack.Tensor, error)
}{
	{"index", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Index(1, -1) }},
	{"slice", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Slice(layout.At(1), layout.From(1)) }},
	{"slice by steps", func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
		return t.Slice(layout.Ellipsis(), layout.NewAxis(), layout.All().By(-2))
	}},
	{"narrow", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Narrow(0, 1, 2) }},
	{"transpose", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Transpose(2, 0, 1) }},
	{"reshape", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Reshape(2, -1) }},
	{"flat inner", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.FlatInner(2) }},
	{"flat outer", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.FlatOuter(4) }},
	{"flat inner outer", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.FlatEnds(1, 1) }},
	{"squeeze", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Squeeze() }},
	{"expand", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Expand(0) }},
	{"broadcast", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.BroadcastTo(2, 3, 4, 5) }},
	{"flip", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Flip(1) }},
	{"diagonal", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Diagonal(0, 0, 1) }},
	{"windows", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Windows(2, 3, 1, 1) }},
	{"bitcast", func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Bitcast(dlpack.Uint16) }},
	{"apply", func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
		return t.Apply(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Flip(0), l.Expand(1)) })
	}},
}

func TestViewsOfClosedTensorsAnswerErrClosed(t *testing.T) {
	tensor := must.Do(dlpack.New(dlpack.Float32, 3, 4, 5))(t)
	tensor.Close()
	for _, view := range views {
		_, err := view.make(tensor)
		assert.ErrorIs(t, err, dlpack.ErrClosed, view.name)
	}
	_, err := tensor.Transpose(7)
	assert.ErrorIs(t, err, dlpack.ErrClosed, "whatever else there is to say")
	must.Fail(tensor.Split(0, 1, 2))(t, dlpack.ErrClosed)
	must.Fail(tensor.Split(0, 1))(t, dlpack.ErrClosed)
	must.Fail(tensor.At(0, 0, 0))(t, dlpack.ErrClosed)
	assert.ErrorIs(t, tensor.SetAt(1, 0, 0, 0), dlpack.ErrClosed)
	must.Fail(dlpack.At[float32](tensor, 0, 0, 0))(t, dlpack.ErrClosed)
	assert.ErrorIs(t, dlpack.SetAt[float32](tensor, 1, 0, 0, 0), dlpack.ErrClosed)
}

func TestViewsAreRefusedWithTheCauseOfPackageLayout(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := must.Own(dlpack.New(dlpack.Float32, 3, 4))(t)
	other := errors.New("other")
	for _, test := range []struct {
		name    string
		view    func() (*dlpack.Tensor, error)
		cause   error
		detail  error
		message string
	}{
		{"axis", func() (*dlpack.Tensor, error) { return tensor.Flip(2) }, dlpack.ErrLayout, layout.ErrAxis,
			"dlpack: flip: dimension 2 is out of range for 2 dimensions: no such dimension"},
		{"order", func() (*dlpack.Tensor, error) { return tensor.Transpose(0, 0) }, dlpack.ErrLayout, layout.ErrOrder,
			"dlpack: transpose: order[1] = 0 repeats a dimension"},
		{"sizes", func() (*dlpack.Tensor, error) { _, err := tensor.Split(0, 1, 1); return nil, err }, dlpack.ErrLayout, layout.ErrShape,
			"dlpack: split: the sizes add up to 2, but dimension 0 has size 3"},
		{"sizes that overflow", func() (*dlpack.Tensor, error) { _, err := tensor.Split(0, 1<<62, 1<<62); return nil, err }, dlpack.ErrLayout,
			layout.ErrShape, "dlpack: split: the sizes add up to more than 2^63-1, but dimension 0 has size 3"},
		{"part", func() (*dlpack.Tensor, error) { return tensor.Narrow(0, 1, 1<<63-1) }, dlpack.ErrLayout, layout.ErrIndex,
			"dlpack: narrow: 1 to 9223372036854775808 exceeds dimension 0 of size 3"},
		{"rank of a flat view", func() (*dlpack.Tensor, error) { return tensor.FlatInner(0) }, dlpack.ErrLayout, layout.ErrRank,
			"dlpack: flat inner: rank 0 is not in 1 to 254"},
		{"slice", func() (*dlpack.Tensor, error) { return tensor.Slice(layout.All(), layout.At(-5)) }, dlpack.ErrLayout, layout.ErrIndex,
			"dlpack: slice: index -5 is out of bounds for dimension 1 of size 4"},
		{"index", func() (*dlpack.Tensor, error) { return tensor.Index(0, 4) }, dlpack.ErrLayout, layout.ErrIndex,
			"dlpack: index: index[1] is 4, but dimension 1 has size 4"},
		{"shape", func() (*dlpack.Tensor, error) { return tensor.Reshape(5) }, dlpack.ErrLayout, layout.ErrShape,
			"dlpack: reshape: the shape has 5 elements, but the tensor has 12: shapes do not match"},
		{"copy", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Reshape(12)) })
		}, dlpack.ErrLayout, layout.ErrCopy,
			"dlpack: apply: reshape: shape[0] = 12 spans elements of different strides: needs a copy; Contiguous makes one"},
		{"overflow", func() (*dlpack.Tensor, error) { return tensor.BroadcastTo(1<<62, 3, 4) }, dlpack.ErrOverflow, layout.ErrOverflow,
			"dlpack: broadcast to: shape[1] = 3: overflow"},
		{"bytes that overflow", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { l.Offset = 1 << 60; return nil })
		}, dlpack.ErrOverflow, dlpack.ErrOverflow, "dlpack: apply: the byte offset of element 1152921504606846976 of 32 bits overflows"},
		{"outside", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { l.Offset = 1; return nil })
		}, dlpack.ErrLayout, dlpack.ErrLayout, "dlpack: apply: bytes 4 to 52 are outside the memory, which has bytes 0 to 48"},
		{"before", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { l.Strides[1] = -1; return nil })
		}, dlpack.ErrLayout, dlpack.ErrLayout, "dlpack: apply: bytes -12 to 36 are outside the memory, which has bytes 0 to 48"},
		{"strides", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { l.Strides = nil; return nil })
		}, dlpack.ErrLayout, dlpack.ErrLayout, "dlpack: apply: 0 strides for 2 dimensions"},
		{"shape of one's own", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { l.Shape = []int64{-1, 4}; return nil })
		}, dlpack.ErrLayout, dlpack.ErrLayout, "dlpack: apply: shape[0] is -1, must not be negative"},
		{"rank", func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { return l.Expand(make([]int, 1)...) })
		}, nil, nil, ""},
		{"other", func() (*dlpack.Tensor, error) { return tensor.Apply(func(*layout.Layout) error { return other }) },
			dlpack.ErrLayout, other, "dlpack: apply: other"},
		{"type", func() (*dlpack.Tensor, error) { return tensor.Bitcast(0) }, dlpack.ErrDType, dlpack.ErrDType,
			"dlpack: bitcast: dtype = (code 0, bits 0, lanes 0): int has 2, 4, 8, 16, 32, 64 bits, not 0: unsupported data type"},
	} {
		t.Run(test.name, func(t *testing.T) {
			view, err := test.view()
			if test.cause == nil {
				require.NoError(t, err)
				view.Close()
				return
			}
			require.Nil(t, view)
			assert.ErrorIs(t, err, test.cause)
			assert.ErrorIs(t, err, test.detail)
			assert.EqualError(t, err, test.message)
		})
	}
}

// The layout that Apply passes to its function does not share slices with the view.
func TestTheLayoutOfApplyIsNoPartOfTheView(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, make([]float32, 12))
	defer tensor.Close()
	var kept *layout.Layout
	shape, strides := []int64{3}, []int64{4}
	view, err := tensor.Apply(func(l *layout.Layout) error {
		kept, l.Shape, l.Strides = l, shape, strides
		return nil
	})
	require.NoError(t, err)
	defer view.Close()
	same, err := tensor.Apply(func(l *layout.Layout) error {
		kept.Shape, kept.Strides = l.Shape, l.Strides
		return nil
	})
	require.NoError(t, err)
	defer same.Close()
	shape[0], strides[0] = 1000, 1000
	clear(kept.Shape)
	assert.Equal(t, []int64{3}, view.Shape())
	assert.Equal(t, []int64{4}, view.Strides())
	assert.Equal(t, []int64{12}, same.Shape())

	l := tensor.Layout()
	l.Shape[0] = 7
	assert.Equal(t, []int64{12}, tensor.Shape())
	assert.Zero(t, l.Offset)
}

func TestViewsOfManyDimensions(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 1, 2, 1, 1, 3, 1, 1)
	defer tensor.Close()
	for _, make := range []func() (*dlpack.Tensor, error){
		func() (*dlpack.Tensor, error) { return tensor.Expand(0, 1, 2, 3, 4) },
		func() (*dlpack.Tensor, error) {
			return tensor.Apply(func(l *layout.Layout) error { return l.Expand(0, 1, 2, 3, 4) })
		},
		func() (*dlpack.Tensor, error) {
			return tensor.BroadcastTo(1, 1, 1, 1, 1, 1, 2, 1, 1, 3, 1, 1)
		},
	} {
		wide := must.Do(make())(t)
		assert.Equal(t, 12, wide.Rank())
		again := must.Do(wide.Apply(func(l *layout.Layout) error { return errors.Join(l.Squeeze(), l.Transpose()) }))(t)
		assert.Equal(t, []int64{3, 2}, again.Shape())
		value := must.Do(again.At(2, 1))(t)
		assert.Equal(t, float32(6), value)
		wide.Close()
		again.Close()
	}
	parts := must.Do(tensor.Split(4, 1, 2))(t)
	assert.Equal(t, []int64{1, 2, 1, 1, 2, 1, 1}, parts[1].Shape())
	for _, part := range parts {
		part.Close()
	}
	_, err := tensor.Apply(func(l *layout.Layout) error {
		l.Shape, l.Strides = slices.Repeat([]int64{1}, dlpack.MaxRank+1), slices.Repeat([]int64{1}, dlpack.MaxRank+1)
		return nil
	})
	assert.ErrorIs(t, err, dlpack.ErrLayout)
}

// Bitcasts work as in TensorFlow.
func TestBitcastChecksSizeAndStride(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, -2, 3, 0.5, 5, 6}, 3, 2)
	defer tensor.Close()
	cast := func(from *dlpack.Tensor, dt dlpack.DataType) *dlpack.Tensor {
		v := must.Do(from.Bitcast(dt))(t)
		t.Cleanup(func() { v.Close() })
		return v
	}
	same := cast(tensor, dlpack.Uint32)
	assert.Equal(t, "uint32[3 2] on cpu", same.String())
	assert.Equal(t, tensor.Data(), same.Data())
	bits := must.Do(same.At(0, 1))(t)
	assert.Equal(t, uint32(0xc0000000), bits)
	assert.Equal(t, "uint8[3 8] on cpu", cast(tensor, dlpack.Uint8).String())
	assert.Equal(t, "float64[3 1] on cpu", cast(tensor, dlpack.Float64).String())
	assert.Equal(t, "float32[3 2] on cpu", cast(cast(tensor, dlpack.Float64), dlpack.Float32).String())
	assert.Equal(t, "bool[3 8] on cpu", cast(tensor, dlpack.Bool).String())
	assert.Equal(t, "int4[3 16] on cpu", cast(tensor, dlpack.Int4).String())
	assert.Equal(t, "float32[3 2] on cpu", cast(cast(tensor, dlpack.Int4), dlpack.Float32).String())
	assert.Equal(t, "float32x2[3 1] on cpu", cast(tensor, dlpack.MakeDataType(dlpack.CodeFloat, 32, 2)).String())
	_, err := dlpack.Values[bool](cast(tensor, dlpack.Bool))
	assert.ErrorIs(t, err, dlpack.ErrValue, "bits that are no bool")

	for _, test := range []struct {
		name  string
		base  func(l *layout.Layout) error
		dt    dlpack.DataType
		cause error
	}{
		{"no whole number", func(l *layout.Layout) error { return l.Narrow(1, 0, 1) }, dlpack.Float64, layout.ErrShape},
		{"a stride", func(l *layout.Layout) error { return l.Transpose() }, dlpack.Uint16, layout.ErrCopy},
		{"between elements", func(l *layout.Layout) error { return errors.Join(l.Reshape(6), l.Slice(layout.Range(1, 5))) }, dlpack.Float64, nil},
		{"steps between elements", func(l *layout.Layout) error { l.Strides[0], l.Shape[0] = 1, 2; return nil }, dlpack.Float64, layout.ErrCopy},
		{"no dimensions", func(l *layout.Layout) error { return l.Slice(layout.At(0), layout.At(0)) }, dlpack.Float64, layout.ErrRank},
		{"gaps for packed elements", func(l *layout.Layout) error { return l.Narrow(1, 0, 1) }, dlpack.Int4, dlpack.ErrLayout},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := must.Own(tensor.Apply(test.base))(t)
			view, err := base.Bitcast(test.dt)
			if test.cause == nil { // it may start at an unaligned element
				require.NoError(t, err)
				assert.Equal(t, tensor.Data()+4, view.Data())
				view.Close()
				return
			}
			assert.ErrorIs(t, err, test.cause)
			assert.ErrorIs(t, err, dlpack.ErrLayout)
		})
	}
}

// Views of packed elements must begin with a whole byte and keep the order. Padded elements have the same views as
// elements of whole bytes.
func TestViewsOfElementsBelowAByte(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, padded := range []bool{false, true} {
		tensor := must.Do(dlpack.FromBytes(make([]byte, 24), dlpack.Spec{DType: dlpack.Int4, Shape: []int64{4, 6}, Padded: padded}))(t)
		for _, test := range []struct {
			name   string
			view   func(l *layout.Layout) error
			packed bool // possible with packed elements
		}{
			{"reshape", func(l *layout.Layout) error { return l.Reshape(3, 8) }, true},
			{"rows", func(l *layout.Layout) error { return l.Narrow(0, 1, 2) }, true},
			{"one element at the beginning of a byte", func(l *layout.Layout) error { return l.Slice(layout.At(1), layout.At(2)) }, true},
			{"one element inside a byte", func(l *layout.Layout) error { return l.Slice(layout.At(1), layout.At(3)) }, false},
			{"part of a row", func(l *layout.Layout) error { return l.Slice(layout.At(1), layout.Range(2, 5)) }, true},
			{"part of a row from inside a byte", func(l *layout.Layout) error { return l.Slice(layout.At(1), layout.From(1)) }, false},
			{"columns", func(l *layout.Layout) error { return l.Narrow(1, 0, 2) }, false},
			{"transpose", func(l *layout.Layout) error { return l.Transpose() }, false},
			{"flip", func(l *layout.Layout) error { return l.Flip(1) }, false},
			{"broadcast", func(l *layout.Layout) error { return l.BroadcastTo(2, 4, 6) }, false},
			{"no elements", func(l *layout.Layout) error { return l.Slice(layout.Range(1, 1), layout.From(1)) }, true},
		} {
			view, err := tensor.Apply(test.view)
			if !padded && !test.packed {
				assert.ErrorIs(t, err, dlpack.ErrLayout, test.name)
				continue
			}
			require.NoError(t, err, test.name)
			assert.Equal(t, tensor.Flags(), view.Flags()&^dlpack.ReadOnly, test.name)
			view.Close()
		}
		tensor.Close()
	}
}

// A view in which an element appears twice is read-only, as in NumPy.
func TestWhatIsSeenTwiceIsReadOnly(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2, 3, 4})
	defer tensor.Close()
	view := must.Own(tensor.BroadcastTo(3, 4))(t)
	assert.ErrorIs(t, view.SetAt(7, 0, 0), dlpack.ErrReadOnly)
	m := export(t, view)
	assert.Equal(t, dlpack.ReadOnly, dlpack.Flags(dlpacktest.Read(m).Flags))
	dlpack.Release(m)
	row := must.Own(view.Index(1))(t)
	assert.True(t, row.ReadOnly(), "read-only is carried")
	apart := must.Own(tensor.Windows(0, 2, 2, 1))(t)
	assert.False(t, apart.ReadOnly())
}

// Views keep the memory alive while the collector runs, whichever view is closed last.
func TestViewsKeepTheMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	for range 50 {
		base := must.Do(dlpack.FromSlice(slices.Repeat([]float32{7}, 1<<12), 64, 64))(t)
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4, 8}})
		foreign := must.Do(dlpack.Import(p.Managed()))(t)
		for _, tensor := range []*dlpack.Tensor{base, foreign} {
			view := must.Do(tensor.Slice(layout.From(1), layout.All().By(-1)))(t)
			last := must.Do(view.Transpose())(t)
			require.NoError(t, dlpack.SetAt[float32](last, 9, 2, 1))
			tensor.Close()
			view.Close()
			runtime.GC()
			value := must.Do(dlpack.At[float32](last, 2, 1))(t)
			require.Equal(t, float32(9), value)
			require.Zero(t, p.Deletes())
			last.Close()
		}
		require.Equal(t, 1, p.Deletes())
	}
}

func TestViewsAreMadeWhileOthersClose(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	for range 200 {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4, 8}})
		tensor := must.Do(dlpack.Import(p.Managed()))(t)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for range 20 {
					view, err := tensor.Transpose()
					if err != nil {
						assert.ErrorIs(t, err, dlpack.ErrClosed)
						return
					}
					view.Close()
				}
			})
		}
		wait.Go(func() { tensor.Close() })
		wait.Wait()
		require.Equal(t, 1, p.Deletes())
	}
}

// Views of memory that the host cannot address have another byte_offset, but the same data, which may be a handle.
func TestViewsOnDevicesHaveAByteOffset(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	offsetOf := func(tensor *dlpack.Tensor) uint64 {
		m := export(t, tensor)
		defer dlpack.Release(m)
		v := dlpacktest.Read(m)
		assert.Equal(t, tensor.ByteOffset(), v.ByteOffset)
		assert.Equal(t, tensor.Shape(), append([]int64{}, v.Shape...))
		assert.Equal(t, tensor.Strides(), append([]int64{}, v.Strides...))
		if tensor.NumElements() > 0 {
			assert.NotZero(t, v.Data)
		} else {
			assert.Zero(t, v.Data)
		}
		return v.ByteOffset
	}
	for _, shape := range [][]int64{{24}, {4, 6}, {2, 2, 6}, {2, 2, 3, 2}, {2, 2, 3, 2, 1}, {1, 2, 2, 1, 3, 2, 1}} {
		p, tensor, err := importConfig(t, dlpacktest.Config{DeviceType: int32(dlpack.Metal), DeviceID: 7, Shape: shape, ByteOffset: 64})
		require.NoError(t, err)
		made := func(v *dlpack.Tensor, err error) *dlpack.Tensor {
			require.NoError(t, err)
			t.Cleanup(func() { v.Close() })
			if v.NumElements() > 0 {
				assert.Equal(t, tensor.Data(), v.Data())
			}
			assert.Equal(t, tensor.Device(), v.Device())
			return v
		}
		flat := made(tensor.Reshape(-1))
		assert.Equal(t, uint64(64), offsetOf(flat))
		part := made(flat.Slice(layout.From(5)))
		assert.Equal(t, uint64(64+4*5), offsetOf(part))
		back := made(part.Flip())
		assert.Equal(t, uint64(64+4*23), offsetOf(back))
		assert.Equal(t, uint64(64+4*20), offsetOf(made(back.Index(3))))
		wide := made(back.Expand(0, 1, 2, 3, 4))
		assert.Equal(t, uint64(64+4*23), offsetOf(wide))
		assert.Equal(t, uint64(64), offsetOf(made(part.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{96}, ByteOffset: -20}))))
		assert.Equal(t, uint64(64+4*5), offsetOf(made(back.AsBytes())))
		none := made(part.Slice(layout.Until(0)))
		offsetOf(none)
		must.Fail(none.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{1}}))(t, dlpack.ErrLayout)
		again, copied, err := part.Contiguous(dlpack.RowMajor)
		assert.False(t, copied)
		assert.Equal(t, uint64(64+4*5), offsetOf(made(again, err)))
		for _, outside := range []dlpack.Spec{
			{DType: dlpack.Uint8, Shape: []int64{97}, ByteOffset: -20},
			{DType: dlpack.Uint8, Shape: []int64{96}, ByteOffset: -21},
			{DType: dlpack.Uint8, Shape: []int64{1}, ByteOffset: math.MaxInt64},
			{DType: dlpack.Uint8, Shape: []int64{1}, ByteOffset: math.MinInt64},
		} {
			must.Fail(part.View(outside))(t, dlpack.ErrLayout)
		}
		must.Fail(part.At(0))(t, dlpack.ErrDevice)
		tensor.Close()
		assert.Zero(t, p.Deletes())
	}

	// Elements before the beginning of the memory have no byte_offset.
	_, tensor, err := importConfig(t, dlpacktest.Config{DeviceType: int32(dlpack.CUDA), Shape: []int64{3}, Strides: []int64{-1}})
	require.NoError(t, err)
	defer tensor.Close()
	must.Fail(tensor.Flip())(t, dlpack.ErrLayout)
	first := must.Own(tensor.Index(0))(t)
	assert.Zero(t, offsetOf(first))
}

func BenchmarkViews(b *testing.B) {
	t, err := dlpack.New(dlpack.Float32, 3, 4, 5)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	for _, view := range views {
		b.Run(view.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := view.make(t)
				if err != nil {
					b.Fatal(err)
				}
				v.Close()
			}
		})
	}
}

func TestShareKeepsTheMemoryAndTheDescription(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Do(dlpack.New(dlpack.Float32, 2, 3))(t)
	v := must.Do(x.Transpose())(t)
	shared := must.Do(v.Share())(t)
	assert.Equal(t, v.Data(), shared.Data())
	assert.Equal(t, v.Layout(), shared.Layout())
	assert.Equal(t, v.DType(), shared.DType())
	require.NoError(t, dlpack.SetAt[float32](x, 7, 1, 2))
	x.Close()
	v.Close()
	got := must.Do(dlpack.At[float32](shared, 2, 1))(t)
	assert.EqualValues(t, 7, got)
	shared.Close()
	must.Fail(shared.Share())(t, dlpack.ErrClosed)
	must.Fail((*dlpack.Tensor)(nil).Share())(t, dlpack.ErrClosed)
}

func TestSpecSetsFlags(t *testing.T) {
	memory := must.Own(dlpack.New(dlpack.Uint8, 4))(t)
	for _, test := range []struct {
		spec dlpack.Spec
		want dlpack.Flags
	}{
		{dlpack.Spec{}, 0},
		{dlpack.Spec{ReadOnly: true}, dlpack.ReadOnly},
		{dlpack.Spec{Copied: true}, dlpack.IsCopied},
		{dlpack.Spec{Copied: true, ReadOnly: true}, dlpack.IsCopied | dlpack.ReadOnly},
	} {
		test.spec.DType, test.spec.Shape = dlpack.Uint8, []int64{4}
		v := must.Do(memory.View(test.spec))(t)
		assert.Equal(t, test.want, v.Flags())
		share := must.Do(v.Share())(t)
		assert.Equal(t, test.want&^dlpack.IsCopied, share.Flags())
		require.NoError(t, share.Close())
		require.NoError(t, v.Close())
	}
}
