package layout_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestRandomViewsAreWhatCountingIndicesGives(t *testing.T) {
	testmode.SkipLong(t)
	r := rand.New(rand.NewPCG(5, 6))
	views, refused := 0, map[error]int{}
	choices := make([]byte, 200)
	for views < 100_000 {
		shape, strides := viewtest.Random(r)
		l := layout.Layout{Shape: shape, Strides: strides, Offset: r.Int64N(50)}
		low, high, err := l.Span()
		require.NoError(t, err)
		m := viewtest.Of(l)
		trace := l.String()
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		c := viewtest.Choices(choices)
		for range 1 + r.IntN(4) {
			v := c.View(m)
			trace += "; " + v.String()
			cause := v.Err
			if slices.ContainsFunc(v.Want, func(want viewtest.Model) bool { return !want.Strided(1) }) {
				cause = layout.ErrCopy
			}
			before := l.Clone()
			all, err := v.Layouts(&l)
			if cause != nil {
				refused[cause]++
				if !errors.Is(err, cause) || !slices.Equal(l.Shape, before.Shape) || !slices.Equal(l.Strides, before.Strides) || l.Offset != before.Offset {
					t.Fatalf("%s: %v: want %v, and the layout as it was; it is %v", trace, err, cause, l)
				}
				continue
			}
			require.NoError(t, err, trace)
			require.Len(t, all, len(v.Want), trace)
			for k, view := range all {
				got, want := viewtest.Of(view), v.Want[k]
				if !slices.Equal(got.Shape, want.Shape) || !slices.Equal(got.Positions, want.Positions) {
					t.Fatalf("%s: got %v, want %v", trace, got, want)
				}
				views++
				lo, hi, err := view.Span()
				if err != nil || lo < hi && (lo < low || hi > high) {
					t.Fatalf("%s: %v: spans %d to %d, its base %d to %d", trace, err, lo, hi, low, high)
				}
			}
			k := r.IntN(len(all))
			if l, m = all[k], v.Want[k]; len(all) > 1 {
				trace += fmt.Sprint(", part ", k)
			}
			if len(m.Positions) > 2000 {
				break
			}
		}
	}
	for _, cause := range []error{layout.ErrCopy, layout.ErrShape, layout.ErrIndex, layout.ErrAxis} {
		assert.Greater(t, refused[cause], 1000, cause)
	}
}

// extreme returns a small number, a number near a power of two or near the limits of int64, or an arbitrary number.
func extreme(r *rand.Rand) int64 {
	x := r.Int64N(200)
	switch r.IntN(5) {
	case 0:
		x = math.MaxInt64 - x
	case 1:
		x = 1<<r.IntN(63) + x%5 - 2
	case 2:
		x = int64(r.Uint64())
	}
	if r.IntN(2) == 0 {
		return -x
	}
	return x
}

// requireWithin checks that a view lies within its base, which spans from low to high. It checks the span of the view and,
// if the view has few elements, the offset of each.
func requireWithin(t *testing.T, view, before layout.Layout, low, high int64) {
	t.Helper()
	lo, hi, err := view.Span()
	require.NoError(t, err, "%v of %v", view, before)
	if lo < hi && (lo < low || hi > high) {
		t.Fatalf("%v of %v reaches from %d to %d, its base from %d to %d", view, before, lo, hi, low, high)
	}
	count, err := view.Count()
	require.NoError(t, err, "%v of %v", view, before)
	if count == 0 || count > 100 {
		return
	}
	for _, at := range viewtest.Offsets(view) {
		if at < low || at >= high {
			t.Fatalf("%v of %v: has an element at %d, its base spans %d to %d", view, before, at, low, high)
		}
	}
}

func TestViewsAtTheEndsOfTheRangeStayInTheirBase(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	number := func() int64 {
		if r.IntN(6) == 0 {
			return extreme(r)
		}
		return r.Int64N(7) - 3
	}
	for views := 0; views < 100_000; {
		l := layout.Layout{Offset: extreme(r)}
		for range 1 + r.IntN(4) {
			l.Shape, l.Strides = append(l.Shape, 1+r.Int64N(4)), append(l.Strides, extreme(r))
		}
		low, high, err := l.Span()
		if err != nil {
			continue
		}
		for range 5 {
			before := l.Clone()
			if fuzzedView(&l, number) != nil {
				continue
			}
			views++
			requireWithin(t, l, before, low, high)
		}
	}
}

func TestViewsInPlaceDoNotAllocate(t *testing.T) {
	base := must.Do(layout.New([]int64{4, 1, 6, 8}, []int64{4, 1, 6, 16}, nil))(t)
	view := layout.Layout{Shape: make([]int64, 0, 8), Strides: make([]int64, 0, 8)}
	for _, c := range views {
		t.Run(c.name, func(t *testing.T) {
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				view.Set(base)
				if err := c.apply(&view); err != nil {
					t.Error(err)
				}
			}))
		})
	}
}

type namedView struct {
	name  string
	apply func(l *layout.Layout) error
}

var views = []namedView{
	{"Slice", func(l *layout.Layout) error {
		return l.Slice(layout.At(1), layout.Ellipsis(), layout.Range(1, -1).By(2), layout.NewAxis())
	}},
	{"Index", func(l *layout.Layout) error { return l.Index(1, -1) }},
	{"Narrow", func(l *layout.Layout) error { return l.Narrow(2, 1, 3) }},
	{"Transpose", func(l *layout.Layout) error { return l.Transpose(3, 1, 0, 2) }},
	{"Flip", func(l *layout.Layout) error { return l.Flip(-1) }},
	{"Squeeze", func(l *layout.Layout) error { return l.Squeeze() }},
	{"Expand", func(l *layout.Layout) error { return l.Expand(0, -1) }},
	{"BroadcastTo", func(l *layout.Layout) error { return l.BroadcastTo(2, 4, 3, 6, 8) }},
	{"Diagonal", func(l *layout.Layout) error { return l.Diagonal(1, 0, -1) }},
	{"Windows", func(l *layout.Layout) error { return l.Windows(-1, 3, 2, 1) }},
	{"Reshape", func(l *layout.Layout) error { return l.Reshape(2, -1, 2, 4) }},
	{"FlatInner", func(l *layout.Layout) error { return l.FlatInner(2) }},
	{"Bitcast", func(l *layout.Layout) error { return l.Bitcast(4, 8) }},
}

func BenchmarkView(b *testing.B) {
	base, err := layout.New([]int64{4, 1, 6, 8}, []int64{4, 1, 6, 16}, nil)
	require.NoError(b, err)
	for _, c := range views {
		b.Run(c.name, func(b *testing.B) {
			view := layout.Layout{Shape: make([]int64, 0, 8), Strides: make([]int64, 0, 8)}
			b.ReportAllocs()
			for b.Loop() {
				view.Set(base)
				_ = c.apply(&view)
			}
		})
	}
}

func ExampleLayout_Slice() {
	l, _ := layout.New([]int64{3, 4, 5}, nil, nil)
	// The same as l[1, ..., ::-2] in Python.
	err := l.Slice(layout.At(1), layout.Ellipsis(), layout.All().By(-2))
	fmt.Println(l, err)
	// Output: shape [4 3] strides [5 -2] offset 24 <nil>
}

func ExampleLayout_Reshape() {
	l, _ := layout.New([]int64{2, 6}, nil, nil)
	view := l.Clone()
	fmt.Println(view.Reshape(3, -1), view)

	_ = l.Transpose()
	fmt.Println(l.Reshape(12))
	// Output:
	// <nil> shape [3 4] strides [4 1] offset 0
	// layout: reshape: shape[0] = 12 spans elements of different strides: needs a copy
}

func ExampleLayout_Windows() {
	l, _ := layout.New([]int64{6}, nil, nil)
	err := l.Windows(0, 3, 1, 1)
	fmt.Println(l, err)
	// Output: shape [4 3] strides [1 1] offset 0 <nil>
}

func TestViewsRefuseWhatIsNone(t *testing.T) {
	const least = math.MinInt64
	base := func(shape ...int64) layout.Layout {
		return must.Do(layout.New(shape, nil, nil))(t)
	}
	wide := layout.Layout{Shape: []int64{2, 3}, Strides: []int64{least, 1}}
	far := layout.Layout{Shape: []int64{4}, Strides: []int64{1}, Offset: big - 1}
	for _, c := range []struct {
		name  string
		base  layout.Layout
		apply func(l *layout.Layout) error
		err   error
		text  string
	}{
		{"index past the end", base(3), func(l *layout.Layout) error { return l.Slice(layout.At(3)) }, layout.ErrIndex,
			"layout: slice: index 3 is out of bounds for dimension 0 of size 3"},
		{"index before the beginning", base(3), func(l *layout.Layout) error { return l.Slice(layout.At(-4)) }, layout.ErrIndex, ""},
		{"lowest index", base(3), func(l *layout.Layout) error { return l.Slice(layout.At(least)) }, layout.ErrIndex, ""},
		{"first index past the end", base(3, 3), func(l *layout.Layout) error { return l.Index(0, 3) }, layout.ErrIndex,
			"layout: index: index[1] is 3, but dimension 1 has size 3"},
		{"first index before the beginning", base(3), func(l *layout.Layout) error { return l.Index(least) }, layout.ErrIndex, ""},
		{"more first indices than dimensions", base(3), func(l *layout.Layout) error { return l.Index(0, 0) }, layout.ErrRank, ""},
		{"step of 0", base(3), func(l *layout.Layout) error { return l.Slice(layout.Range(0, 2).By(0)) }, layout.ErrIndex,
			"layout: slice: index 0, 0:2:0, has a step of 0"},
		{"step of 0 of an open range", base(4, 3), func(l *layout.Layout) error { return l.Slice(layout.All(), layout.From(1).By(0)) }, layout.ErrIndex,
			"layout: slice: index 1, 1::0, has a step of 0"},
		{"two ellipses", base(3, 3), func(l *layout.Layout) error { return l.Slice(layout.Ellipsis(), layout.Ellipsis()) }, layout.ErrIndex,
			"layout: slice: index 1 is a second ellipsis"},
		{"too many indices", base(3), func(l *layout.Layout) error { return l.Slice(layout.At(0), layout.At(0)) }, layout.ErrRank, ""},
		{"slice too far", far, func(l *layout.Layout) error { return l.Slice(layout.From(2)) }, layout.ErrOverflow, ""},
		{"narrow past the end", base(3), func(l *layout.Layout) error { return l.Narrow(0, 2, 2) }, layout.ErrIndex, ""},
		{"narrow from the end past the end", base(3), func(l *layout.Layout) error { return l.Narrow(0, -1, 2) }, layout.ErrIndex,
			"layout: narrow: 2 to 4 exceeds dimension 0 of size 3"},
		{"narrow before the beginning", base(3), func(l *layout.Layout) error { return l.Narrow(0, -4, 1) }, layout.ErrIndex,
			"layout: narrow: start -4 is out of bounds for dimension 0 of size 3"},
		{"narrow to a negative size", base(3), func(l *layout.Layout) error { return l.Narrow(0, 1, -1) }, layout.ErrIndex,
			"layout: narrow: size is -1, must not be negative"},
		{"narrow wraps", base(3), func(l *layout.Layout) error { return l.Narrow(0, big, big) }, layout.ErrIndex, ""},
		{"narrow too far", far, func(l *layout.Layout) error { return l.Narrow(0, 2, 1) }, layout.ErrOverflow, ""},
		{"narrow of no dimension", base(3), func(l *layout.Layout) error { return l.Narrow(1, 0, 1) }, layout.ErrAxis,
			"layout: narrow: dimension 1 is out of range for 1 dimension: no such dimension"},
		{"narrow of a dimension before the first", base(3), func(l *layout.Layout) error { return l.Narrow(math.MinInt, 0, 1) }, layout.ErrAxis, ""},
		{"order too short", base(3, 3), func(l *layout.Layout) error { return l.Transpose(0) }, layout.ErrOrder, ""},
		{"order names one twice", base(3, 3), func(l *layout.Layout) error { return l.Transpose(1, -1) }, layout.ErrOrder,
			"layout: transpose: order[1] = -1 repeats a dimension"},
		{"order of others", base(3, 3), func(l *layout.Layout) error { return l.Transpose(0, 2) }, layout.ErrOrder, ""},
		{"flip of no dimension", base(3), func(l *layout.Layout) error { return l.Flip(1) }, layout.ErrAxis, ""},
		{"flip twice the same", base(3), func(l *layout.Layout) error { return l.Flip(0, -1) }, layout.ErrAxis,
			"layout: flip: dimension -1 is named twice"},
		{"flip too far", far, func(l *layout.Layout) error { return l.Flip() }, layout.ErrOverflow, ""},
		{"flip of the lowest stride", wide, func(l *layout.Layout) error { return l.Flip(0) }, layout.ErrOverflow, ""},
		{"squeeze of a wide dimension", base(1, 3), func(l *layout.Layout) error { return l.Squeeze(0, 1) }, layout.ErrShape,
			"layout: squeeze: dimension 1 is of size 3, but only size 1 can be removed: shapes do not match"},
		{"squeeze of no dimension", base(1), func(l *layout.Layout) error { return l.Squeeze(-2) }, layout.ErrAxis, ""},
		{"expand past the end", base(3), func(l *layout.Layout) error { return l.Expand(2) }, layout.ErrAxis, ""},
		{"expand twice the same", base(3), func(l *layout.Layout) error { return l.Expand(1, -2) }, layout.ErrAxis,
			"layout: expand: dimension -2 is named twice"},
		{"broadcast to another size", base(3), func(l *layout.Layout) error { return l.BroadcastTo(4) }, layout.ErrShape, ""},
		{"broadcast of no elements", base(0), func(l *layout.Layout) error { return l.BroadcastTo(4) }, layout.ErrShape, ""},
		{"broadcast to fewer dimensions", base(1, 3), func(l *layout.Layout) error { return l.BroadcastTo(3) }, layout.ErrShape, ""},
		{"broadcast to a negative size", base(1), func(l *layout.Layout) error { return l.BroadcastTo(-1) }, layout.ErrNegative, ""},
		{"broadcast to too many", base(1), func(l *layout.Layout) error { return l.BroadcastTo(1<<32, 1<<32) }, layout.ErrOverflow, ""},
		{"diagonal of one dimension", base(3, 3), func(l *layout.Layout) error { return l.Diagonal(0, 1, -1) }, layout.ErrAxis,
			"layout: diagonal: dimension -1 is named twice"},
		{"diagonal of no dimension", base(3, 3), func(l *layout.Layout) error { return l.Diagonal(0, 2, 1) }, layout.ErrAxis,
			"layout: diagonal: dimension 2 is out of range for 2 dimensions: no such dimension"},
		{"diagonal too far", layout.Layout{Shape: []int64{2, 2}, Strides: []int64{big, big}},
			func(l *layout.Layout) error { return l.Diagonal(0, 0, 1) }, layout.ErrOverflow, "layout: diagonal: overflow"},
		{"window of nothing", base(3), func(l *layout.Layout) error { return l.Windows(0, 0, 1, 1) }, layout.ErrShape, ""},
		{"windows without a step", base(3), func(l *layout.Layout) error { return l.Windows(0, 1, 0, 1) }, layout.ErrShape, ""},
		{"windows without dilation", base(3), func(l *layout.Layout) error { return l.Windows(0, 1, 1, 0) }, layout.ErrShape, ""},
		{"window too long", base(3), func(l *layout.Layout) error { return l.Windows(0, 2, 1, 3) }, layout.ErrShape, ""},
		{"window longer than any", base(3), func(l *layout.Layout) error { return l.Windows(0, big, 1, big) }, layout.ErrShape, ""},
		{"windows of no dimension", base(3), func(l *layout.Layout) error { return l.Windows(1, 1, 1, 1) }, layout.ErrAxis, ""},
		{"windows too far", layout.Layout{Shape: []int64{9}, Strides: []int64{1 << 61}},
			func(l *layout.Layout) error { return l.Windows(0, 2, 4, 1) }, layout.ErrOverflow, ""},
		{"windows with too many elements", layout.Layout{Shape: []int64{1 << 40}, Strides: []int64{0}},
			func(l *layout.Layout) error { return l.Windows(0, 1<<39, 1, 1) }, layout.ErrOverflow, ""},
		{"reshape to another count", base(3), func(l *layout.Layout) error { return l.Reshape(2, 2) }, layout.ErrShape,
			"layout: reshape: the shape has 4 elements, but the tensor has 3: shapes do not match"},
		{"reshape with two open sizes", base(3), func(l *layout.Layout) error { return l.Reshape(-1, 3, -1) }, layout.ErrNegative,
			"layout: reshape: shape[0] and shape[2] are -1, but only one size may be -1"},
		{"reshape to a negative size", base(3), func(l *layout.Layout) error { return l.Reshape(-1, -2) }, layout.ErrNegative,
			"layout: shape[1] is -2, must not be negative"},
		{"reshape with no size for the open one", base(3), func(l *layout.Layout) error { return l.Reshape(2, -1) }, layout.ErrShape,
			"layout: reshape: no size fits shape[1] = -1: the other sizes have 2 elements, but the tensor has 3"},
		{"reshape with any size for the open one", base(0), func(l *layout.Layout) error { return l.Reshape(0, -1) }, layout.ErrShape,
			"layout: reshape: shape[1] = -1 could be any size, because another size is 0"},
		{"reshape to too many", base(3), func(l *layout.Layout) error { return l.Reshape(1<<32, 1<<32) }, layout.ErrOverflow, ""},
		{"reshape of too many", layout.Layout{Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{0, 0}},
			func(l *layout.Layout) error { return l.Reshape(-1) }, layout.ErrOverflow, ""},
		{"flat without dimensions", base(3), func(l *layout.Layout) error { return l.FlatInner(0) }, layout.ErrRank,
			"layout: flat: rank 0 is not in 1 to 254"},
		{"flat to too many dimensions", base(3), func(l *layout.Layout) error { return l.FlatOuter(math.MaxInt) }, layout.ErrRank, ""},
		{"flat to as few as there can be", base(3), func(l *layout.Layout) error { return l.FlatInner(math.MinInt) }, layout.ErrRank, ""},
		{"flat from behind the end", base(3), func(l *layout.Layout) error { return l.FlatEnds(1, 2) }, layout.ErrAxis, ""},
		{"flat from before the beginning", base(3), func(l *layout.Layout) error { return l.FlatEnds(-1, 2) }, layout.ErrAxis, ""},
		{"flat with a size that overflows", base(0, 1<<32, 1<<32), func(l *layout.Layout) error { return l.FlatOuter(2) }, layout.ErrOverflow, ""},
		{"flat with gaps", layout.Layout{Shape: []int64{2, 3}, Strides: []int64{4, 1}}, func(l *layout.Layout) error { return l.FlatInner(1) }, layout.ErrCopy, ""},
		{"bitcast of elements of 0 bytes", base(4), func(l *layout.Layout) error { return l.Bitcast(0, 4) }, layout.ErrShape, ""},
		{"bitcast to elements of no bytes", base(4), func(l *layout.Layout) error { return l.Bitcast(4, -4) }, layout.ErrShape, ""},
		{"bitcast of no dimensions", base(), func(l *layout.Layout) error { return l.Bitcast(8, 4) }, layout.ErrRank,
			"layout: bitcast: the element size of a scalar cannot change from 8 to 4; add a dimension of size 1 first"},
		{"bitcast of an odd number", base(3), func(l *layout.Layout) error { return l.Bitcast(4, 8) }, layout.ErrShape,
			"layout: bitcast: 3 elements of size 4 are not a whole number of elements of size 8: shapes do not match"},
		{"bitcast with gaps", layout.Layout{Shape: []int64{4}, Strides: []int64{2}}, func(l *layout.Layout) error { return l.Bitcast(4, 8) }, layout.ErrCopy, ""},
		{"bitcast of rows at odd places", layout.Layout{Shape: []int64{2, 2}, Strides: []int64{3, 1}},
			func(l *layout.Layout) error { return l.Bitcast(4, 8) }, layout.ErrCopy, "layout: bitcast: strides[0] = 3 is not a multiple of 2: needs a copy"},
		{"bitcast from an odd place", layout.Layout{Shape: []int64{2}, Strides: []int64{1}, Offset: 1},
			func(l *layout.Layout) error { return l.Bitcast(4, 8) }, layout.ErrCopy, ""},
		{"bitcast to too many", layout.Layout{Shape: []int64{1 << 61, 2}, Strides: []int64{0, 1}},
			func(l *layout.Layout) error { return l.Bitcast(4, 1) }, layout.ErrOverflow, ""},
		{"bitcast to too wide a dimension", base(1 << 62), func(l *layout.Layout) error { return l.Bitcast(4, 1) }, layout.ErrOverflow, ""},
		{"bitcast to too wide a stride", layout.Layout{Shape: []int64{2, 1}, Strides: []int64{1 << 61, 1}},
			func(l *layout.Layout) error { return l.Bitcast(8, 1) }, layout.ErrOverflow, ""},
		{"bitcast too far", far, func(l *layout.Layout) error { return l.Bitcast(8, 4) }, layout.ErrOverflow, ""},
		{"bitcast beyond the end", layout.Layout{Shape: []int64{2}, Strides: []int64{1}, Offset: 1<<62 - 1},
			func(l *layout.Layout) error { return l.Bitcast(2, 1) }, layout.ErrOverflow, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.base.Clone()
			err := c.apply(&l)
			require.ErrorIs(t, err, c.err)
			if c.text != "" {
				assert.EqualError(t, err, c.text)
			}
			assert.Equal(t, c.base.String(), l.String(), "as it was")
		})
	}
}

func TestViewsRefuseWhatIsNoLayout(t *testing.T) {
	for _, c := range []struct {
		name string
		base layout.Layout
		err  error
	}{
		{"strides missing", layout.Layout{Shape: []int64{1, 1}}, layout.ErrRank},
		{"too many strides", layout.Layout{Strides: []int64{1}}, layout.ErrRank},
		{"negative", layout.Layout{Shape: []int64{-1, 1}, Strides: []int64{1, 1}}, layout.ErrNegative},
	} {
		for _, v := range slices.Concat(views, []namedView{
			{"FlatOuter", func(l *layout.Layout) error { return l.FlatOuter(1) }},
			{"Split", func(l *layout.Layout) error { _, err := l.Split(0, 1); return err }},
			{"OffsetOf", func(l *layout.Layout) error { _, err := l.OffsetOf(make([]int64, len(l.Shape))...); return err }},
		}) {
			t.Run(c.name+" "+v.name, func(t *testing.T) {
				l := c.base.Clone()
				err := v.apply(&l)
				require.Error(t, err)
				if v.name != "OffsetOf" {
					assert.ErrorIs(t, err, c.err)
				}
			})
		}
	}
}

func TestViewsOfManyDimensions(t *testing.T) {
	shape := make([]int64, 20)
	for d := range shape {
		shape[d] = 1 + int64(d)%2
	}
	l := must.Do(layout.New(shape, nil, nil))(t)
	base := l.Clone()
	require.NoError(t, l.Transpose())
	order := make([]int, 20)
	for k := range order {
		order[k] = 19 - k
	}
	require.NoError(t, l.Transpose(order...))
	assert.Equal(t, base, l)
	require.NoError(t, l.Squeeze())
	require.NoError(t, l.Expand(0, 2, 4, 6, 8, 10, 12, 14, 16, 18))
	assert.Equal(t, base.Shape, l.Shape)
	require.NoError(t, l.Flip())
	assert.EqualValues(t, 1<<10-1, l.Offset)
	require.NoError(t, l.Reshape(32, 32))
	assert.Equal(t, "shape [32 32] strides [-32 -1] offset 1023", l.String())
}

func TestViewsWithoutElementsStayWhereTheyAre(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape []int64
		apply func(l *layout.Layout) error
	}{
		{"an empty range", []int64{4, 3}, func(l *layout.Layout) error { return l.Slice(layout.From(4)) }},
		{"an index beside an empty dimension", []int64{4, 0}, func(l *layout.Layout) error { return l.Slice(layout.At(3)) }},
		{"an empty part", []int64{4, 3}, func(l *layout.Layout) error { return l.Narrow(0, 4, 0) }},
		{"a part beside an empty dimension", []int64{4, 0}, func(l *layout.Layout) error { return l.Narrow(0, 3, 1) }},
		{"flip", []int64{4, 0}, func(l *layout.Layout) error { return l.Flip() }},
		{"a diagonal beside the corner", []int64{4, 3}, func(l *layout.Layout) error { return l.Diagonal(3, 0, 1) }},
		{"a diagonal far below", []int64{4, 3}, func(l *layout.Layout) error { return l.Diagonal(math.MinInt64, 0, 1) }},
		{"strides that overflow", []int64{4, 0}, func(l *layout.Layout) error {
			l.Strides[0] = math.MaxInt64
			return errors.Join(l.Slice(layout.From(1).By(2)), l.Windows(0, 2, 1, 1), l.Diagonal(0, 0, 2))
		}},
		{"bitcast", []int64{4, 0}, func(l *layout.Layout) error {
			l.Strides[0], l.Strides[1] = 3, 5
			return l.Bitcast(4, 8)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := must.Do(layout.New(c.shape, nil, nil))(t)
			require.NoError(t, c.apply(&l))
			count := must.Do(l.Count())(t)
			assert.Zero(t, count)
			assert.Zero(t, l.Offset)
		})
	}
}

// The result would have more sizes and strides than a slice can hold.
func TestSplitRefusesMoreThanCanBeAddressed(t *testing.T) {
	zeros := make([]int64, 1<<22)
	must.Fail(layout.Layout{Shape: zeros, Strides: zeros}.Split(0, zeros...))(t, layout.ErrOverflow)
}

func TestSplitIsWhatNarrowGives(t *testing.T) {
	l := must.Do(layout.New([]int64{4, 7}, nil, []int{1, 0}))(t)
	parts := must.Do(l.Split(-1, 3, 0, 4))(t)
	require.Len(t, parts, 3)
	assert.Equal(t, "shape [4 3] strides [1 4] offset 0", parts[0].String())
	assert.Equal(t, []int64{4, 0}, parts[1].Shape)
	assert.Equal(t, "shape [4 4] strides [1 4] offset 12", parts[2].String())

	// Each part has its own slices.
	require.NoError(t, parts[0].Expand(0))
	parts[0].Shape[1] = 99
	assert.Equal(t, []int64{4, 4}, parts[2].Shape)
	assert.Equal(t, []int64{4, 7}, l.Shape)

	for _, c := range []struct {
		name  string
		d     int
		sizes []int64
		err   error
	}{
		{"too few", 1, []int64{3, 3}, layout.ErrShape},
		{"too many", 1, []int64{3, 5}, layout.ErrShape},
		{"wraps", 1, []int64{big, big, 9}, layout.ErrShape},
		{"negative", 1, []int64{8, -1}, layout.ErrNegative},
		{"negative first", 1, []int64{-1, 8}, layout.ErrNegative},
		{"no dimension", 2, []int64{7}, layout.ErrAxis},
	} {
		_, err := l.Split(c.d, c.sizes...)
		assert.ErrorIs(t, err, c.err, c.name)
	}
}

func TestBitcastReadsTheSameBytes(t *testing.T) {
	// bytes returns the offsets of the bytes of all elements, in row-major order.
	bytes := func(l layout.Layout, size int64) (all []int64) {
		for _, offset := range viewtest.Offsets(l) {
			for i := range size {
				all = append(all, offset*size+i)
			}
		}
		return all
	}
	r := rand.New(rand.NewPCG(11, 12))
	cast := 0
	for range 20_000 {
		shape, strides := viewtest.Random(r)
		l := layout.Layout{Shape: shape, Strides: strides, Offset: 2 * r.Int64N(20)}
		sizes := []int64{1, 2, 3, 4, 8, 16}
		from, to := sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))]
		want := bytes(l, from)
		before := l.String()
		if err := l.Bitcast(from, to); err != nil {
			continue
		}
		cast++
		if !slices.Equal(want, bytes(l, to)) {
			t.Fatalf("%s from %d to %d: %v", before, from, to, l)
		}
	}
	assert.Greater(t, cast, 5000)
}

func TestIndexPrintsAsInPython(t *testing.T) {
	for want, x := range map[string]layout.Index{
		":": {}, "-1": layout.At(-1), "...": layout.Ellipsis(), "None": layout.NewAxis(), "1:": layout.From(1),
		":-2": layout.Until(-2), "1:7:2": layout.Range(1, 7).By(2), "::-1": layout.All().By(-1),
		":: -9223372036854775808": layout.All().By(math.MinInt64),
	} {
		assert.Equal(t, strings.ReplaceAll(want, " ", ""), x.String())
	}
	assert.Equal(t, layout.Index{}, layout.All().By(1))
}

// FuzzViews applies operations with arbitrary numbers to layouts with arbitrary numbers. No operation may panic, an operation
// that fails must leave the layout unchanged, and a view must lie within its base.
func FuzzViews(f *testing.F) {
	f.Add(int64(2), int64(3), int64(3), int64(1), int64(0), []byte{0, 1, 2, 3, 1, 7, 0, 0, 3, 1, 8, 2})
	f.Add(int64(1<<32), int64(1<<31), int64(-1<<31), int64(1), int64(math.MaxInt64), []byte{9, 9, 9, 2, 0x81, 5, 200, 7})
	f.Add(int64(0), int64(9), int64(math.MinInt64), int64(math.MaxInt64), int64(7), []byte{0, 0, 0x91, 3, 7, 8, 6, 1})
	f.Add(int64(2), int64(2), int64(math.MinInt64+173), int64(math.MinInt64+93), int64(math.MaxInt64-14), []byte{13, 9})
	f.Add(int64(2), int64(2), int64(math.MinInt64+173), int64(math.MaxInt64-92), int64(78), []byte{13, 9})
	f.Fuzz(func(t *testing.T, n0, n1, s0, s1, offset int64, program []byte) {
		l := layout.Layout{Shape: []int64{n0, n1}, Strides: []int64{s0, s1}, Offset: offset}
		low, high, spanErr := l.Span()
		_, countErr := l.Count()
		// A byte encodes a small number, a number near the limits of int64, or a power of two.
		next := func() int64 {
			if len(program) == 0 {
				return 1
			}
			b := program[0]
			program = program[1:]
			switch small := int64(b&31) - 8; b >> 5 {
			case 4:
				return math.MaxInt64 - (small + 8)
			case 5:
				return math.MinInt64 + (small + 8)
			case 6:
				return 1 << (2*(small+8) + 1)
			default:
				return small
			}
		}
		for steps := 0; len(program) > 0 && steps < 8; steps++ {
			before := l.Clone()
			err := fuzzedView(&l, next)
			if err != nil {
				require.Equal(t, before, l.Clone())
				continue
			}
			if spanErr != nil || countErr != nil {
				continue
			}
			requireWithin(t, l, before, low, high)
		}
	})
}

func fuzzedView(l *layout.Layout, next func() int64) error {
	switch next() & 15 {
	case 0:
		return l.Slice(layout.Range(next(), next()).By(next()), layout.At(next()))
	case 1:
		return l.Slice(layout.Ellipsis(), layout.From(next()).By(next()), layout.NewAxis())
	case 2:
		return l.Slice(layout.Until(next()).By(next()))
	case 3:
		return l.Narrow(int(next()), next(), next())
	case 4:
		return l.Transpose(int(next()), int(next()))
	case 5:
		return l.Flip(int(next()))
	case 6:
		return l.Squeeze()
	case 7:
		return l.Expand(int(next()))
	case 8:
		return l.BroadcastTo(next(), next(), next())
	case 9:
		return l.Diagonal(next(), int(next()), int(next()))
	case 10:
		return l.Windows(int(next()), next(), next(), next())
	case 11:
		return l.Reshape(next(), next(), next())
	case 12:
		return l.FlatInner(int(next()))
	case 13:
		return l.FlatEnds(int(next()), int(next()))
	case 14:
		parts, err := l.Split(int(next()), next(), next())
		if err == nil {
			*l = parts[1]
		}
		return err
	default:
		return l.Slice(layout.Range(next(), next()).By(next()), layout.From(next()), layout.Until(next()))
	}
}
