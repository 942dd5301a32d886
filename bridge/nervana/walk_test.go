package nervana_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// tuples returns, for each index in row-major order, the offsets in all layouts.
func tuples(layouts []layout.Layout) (all [][]int64) {
	for _, l := range layouts {
		each := viewtest.Offsets(l)
		if all == nil {
			all = make([][]int64, len(each))
		}
		for i, offset := range each {
			all[i] = append(all[i], offset)
		}
	}
	return all
}

// visited returns the tuples that a walk visits, in its order. Offsets does not cover the inner dimensions, so visited
// does.
func visited(w *nervana.Walk, inner int) (all [][]int64) {
	shape := w.Shape()
	shape = shape[max(len(shape)-max(inner, 0), 0):]
	for at := range w.Offsets(inner) {
		first := len(all)
		for k := range at {
			strides := w.Strides(k)
			for i, offset := range viewtest.Offsets(layout.Layout{Shape: shape, Strides: strides[len(strides)-len(shape):]}) {
				if k == 0 {
					all = append(all, nil)
				}
				all[first+i] = append(all[first+i], at[k]+offset)
			}
		}
	}
	return all
}

// sorted sorts the tuples, so that sets of tuples can be compared.
func sorted(all [][]int64) [][]int64 {
	slices.SortFunc(all, slices.Compare)
	return all
}

// randomLayouts returns one or more layouts of the same shape.
func randomLayouts(r *rand.Rand) []layout.Layout {
	shape, strides := viewtest.Random(r)
	all := []layout.Layout{{Shape: shape, Strides: strides, Offset: r.Int64N(100)}}
	for range r.IntN(4) {
		l := layout.Layout{Shape: slices.Clone(shape), Strides: slices.Clone(strides), Offset: r.Int64N(100)}
		if r.IntN(3) == 0 {
			l, _ = layout.New(shape, nil, r.Perm(len(shape)))
		}
		for d := range shape {
			switch r.IntN(12) {
			case 0:
				l.Strides[d] = 0
			case 1:
				l.Strides[d] = -l.Strides[d]
			case 2:
				l.Strides[d] *= 2
			}
		}
		all = append(all, l)
	}
	return all
}

func TestWalkVisitsEachIndexOnceInAllTensors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var w nervana.Walk
	flat := 0
	for range 20_000 {
		layouts := randomLayouts(r)
		want := tuples(layouts)
		w.InOrder = r.IntN(3) == 0
		require.NoError(t, w.Reset(layouts...))
		require.EqualValues(t, len(want), w.Count())
		for inner := range 4 {
			got := visited(&w, inner)
			if !w.InOrder {
				got, want = sorted(got), sorted(want)
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%v, inner %d, in order %v: got %v, want %v", layouts, inner, w.InOrder, got, want)
			}
		}
		if count, steps, ok := w.Flat(); ok {
			flat++
			require.EqualValues(t, len(want), count)
			for i := range count {
				for k, step := range steps {
					at := w.Start()[k] + i*step
					require.True(t, w.InOrder && at == want[i][k] || !w.InOrder && slices.ContainsFunc(want, func(tuple []int64) bool { return tuple[k] == at }))
				}
			}
		}
	}
	assert.Greater(t, flat, 1000)
}

func TestWalkMergesWhatOneCounterServes(t *testing.T) {
	for _, c := range []struct {
		name    string
		inOrder bool
		shape   []int64
		strides [][]int64
		want    []int64
		steps   []int64
	}{
		{name: "no dimensions", strides: [][]int64{nil}, want: []int64{}, steps: []int64{1}},
		{name: "one element", shape: []int64{1, 1}, strides: [][]int64{{7, 9}, {1, 1}}, want: []int64{}, steps: []int64{1, 1}},
		{name: "row-major", shape: []int64{2, 3, 4}, strides: [][]int64{{12, 4, 1}}, want: []int64{24}, steps: []int64{1}},
		{name: "column-major", shape: []int64{2, 3, 4}, strides: [][]int64{{1, 2, 6}}, want: []int64{24}, steps: []int64{1}},
		{name: "column-major in order", inOrder: true, shape: []int64{2, 3, 4}, strides: [][]int64{{1, 2, 6}}, want: []int64{2, 3, 4}, steps: []int64{6}},
		{name: "reversed", shape: []int64{2, 3}, strides: [][]int64{{-3, -1}}, want: []int64{6}, steps: []int64{1}},
		{name: "reversed in order", inOrder: true, shape: []int64{2, 3}, strides: [][]int64{{-3, -1}}, want: []int64{6}, steps: []int64{-1}},
		{name: "opposite", shape: []int64{2, 3}, strides: [][]int64{{3, -1}, {-3, 1}}, want: []int64{6}, steps: []int64{1, -1}},
		{name: "transposed", shape: []int64{2, 3, 4}, strides: [][]int64{{12, 4, 1}, {1, 8, 2}}, want: []int64{2, 12}, steps: []int64{1, 2}},
		{name: "broadcast", shape: []int64{5, 2, 3}, strides: [][]int64{{6, 3, 1}, {0, 3, 1}}, want: []int64{5, 6}, steps: []int64{1, 1}},
		{name: "one value", shape: []int64{2, 3}, strides: [][]int64{{3, 1}, {0, 0}}, want: []int64{6}, steps: []int64{1, 0}},
		{name: "around another", shape: []int64{3, 5, 4}, strides: [][]int64{{4, 0, 1}, {4, 5, 1}}, want: []int64{5, 12}, steps: []int64{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := nervana.Walk{InOrder: c.inOrder}
			var layouts []layout.Layout
			for _, strides := range c.strides {
				layouts = append(layouts, layout.Layout{Shape: c.shape, Strides: strides})
			}
			require.NoError(t, w.Reset(layouts...))
			_, steps := w.Run()
			assert.Equal(t, c.want, w.Shape())
			assert.Equal(t, c.steps, steps)
			_, _, flat := w.Flat()
			assert.Equal(t, len(c.want) <= 1, flat)
		})
	}
}

// fewest returns the smallest number of dimensions with which a walk can visit the tuples in their order. It tries all ways to
// write the number of tuples as a product.
func fewest(all [][]int64) int {
	count, best := int64(len(all)), math.MaxInt
	var try func(rest int64, shape []int64)
	try = func(rest int64, shape []int64) {
		if len(shape) >= best {
			return
		}
		if rest == 1 {
			strides := make([]int64, len(shape))
			for k := range all[0] {
				inner := count
				for d, n := range shape {
					inner /= n
					strides[d] = all[inner][k] - all[0][k]
				}
				for i, offset := range viewtest.Offsets(layout.Layout{Shape: shape, Strides: strides}) {
					if all[i][k] != all[0][k]+offset {
						return
					}
				}
			}
			best = len(shape)
			return
		}
		for n := int64(2); n <= rest; n++ {
			if rest%n == 0 {
				try(rest/n, append(slices.Clone(shape), n))
			}
		}
	}
	try(count, nil)
	return best
}

// arrangements calls visit with the tuples of the layouts for each order of the dimensions, with each dimension in both
// directions.
func arrangements(layouts []layout.Layout, visit func(all [][]int64)) {
	rank := layouts[0].Rank()
	var arrange func(order []int)
	arrange = func(order []int) {
		if len(order) < rank {
			for d := range rank {
				if !slices.Contains(order, d) {
					arrange(append(slices.Clone(order), d))
				}
			}
			return
		}
		for turned := range 1 << rank {
			var arranged []layout.Layout
			for _, l := range layouts {
				a := layout.Layout{Offset: l.Offset}
				for k, d := range order {
					n, stride := l.Shape[d], l.Strides[d]
					if turned>>k&1 == 1 {
						a.Offset += (n - 1) * stride
						stride = -stride
					}
					a.Shape, a.Strides = append(a.Shape, n), append(a.Strides, stride)
				}
				arranged = append(arranged, a)
			}
			visit(tuples(arranged))
		}
	}
	arrange(nil)
}

// No walk over the same tensors, in row-major or any other order, has fewer dimensions. So Flat succeeds whenever one
// index suffices for all tensors.
func TestWalkHasTheFewestDimensionsThereAre(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	ranks := map[int]int{}
	for cases := 0; cases < 1500; {
		layouts := randomLayouts(r)
		count := must.Do(layouts[0].Count())(t)
		if count == 0 || layouts[0].Rank() > 3 {
			continue
		}
		cases++
		w := nervana.Walk{InOrder: true}
		require.NoError(t, w.Reset(layouts...))
		require.Len(t, w.Shape(), fewest(tuples(layouts)), "%v in order", layouts)
		_, _, single := w.Flat()
		require.Equal(t, len(w.Shape()) < 2, single)

		best := math.MaxInt
		arrangements(layouts, func(all [][]int64) { best = min(best, fewest(all)) })
		w = nervana.Walk{}
		require.NoError(t, w.Reset(layouts...))
		require.Len(t, w.Shape(), best, "%v", layouts)
		ranks[best]++
	}
	for rank := range 4 {
		assert.Greater(t, ranks[rank], 50, "walks of %d dimensions", rank)
	}
}

// The faster a dimension of the walk is, the smaller is the sum of its steps over all tensors. If no two dimensions
// interlock, memory is visited from the lowest to the highest address.
func TestWalkGoesThroughMemoryForwards(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	forwards := 0
	for range 20_000 {
		layouts := randomLayouts(r)
		var w nervana.Walk
		require.NoError(t, w.Reset(layouts...))
		last := int64(math.MaxInt64)
		for d := range w.Shape() {
			step := int64(0)
			for k := range layouts {
				step += max(w.Strides(k)[d], -w.Strides(k)[d])
			}
			require.LessOrEqual(t, step, last, "%v", layouts)
			last = step
		}

		require.NoError(t, w.Reset(layouts[0]))
		reach, nested := int64(0), true
		for d, n := range slices.Backward(w.Shape()) {
			step := max(w.Strides(0)[d], -w.Strides(0)[d])
			nested = nested && step > reach
			reach += (n - 1) * step
		}
		if !nested {
			continue
		}
		forwards++
		all := visited(&w, 0)
		require.True(t, slices.IsSortedFunc(all, slices.Compare), "%v: %v", layouts[0], all)
		if len(all) > 0 {
			lo, hi, err := layouts[0].Span()
			require.NoError(t, err)
			require.Equal(t, [2]int64{lo, hi - 1}, [2]int64{all[0][0], all[len(all)-1][0]})
		}
	}
	assert.Greater(t, forwards, 5000)
}

func TestWalkRefusesWhatHasNoCommonIndices(t *testing.T) {
	for _, c := range []struct {
		name    string
		layouts []layout.Layout
		err     error
	}{
		{"other shape", []layout.Layout{{Shape: []int64{2}, Strides: []int64{1}}, {Shape: []int64{3}, Strides: []int64{1}}}, layout.ErrShape},
		{"other rank", []layout.Layout{{Shape: []int64{2}, Strides: []int64{1}}, {}}, layout.ErrShape},
		{"strides missing", []layout.Layout{{Shape: []int64{2}}}, layout.ErrRank},
		{"negative", []layout.Layout{{Shape: []int64{-2}, Strides: []int64{1}}}, layout.ErrNegative},
		{"too many", []layout.Layout{{Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{0, 0}}}, layout.ErrOverflow},
		{"too far", []layout.Layout{{Shape: []int64{2}, Strides: []int64{1}, Offset: math.MaxInt64}}, layout.ErrOverflow},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w nervana.Walk
			require.NoError(t, w.Reset(layout.Layout{}))
			require.ErrorIs(t, w.Reset(c.layouts...), c.err)
			assert.Zero(t, w.Count())
			assert.Empty(t, visited(&w, 0))
		})
	}
}

func TestWalkOverNothingVisitsNothing(t *testing.T) {
	var w nervana.Walk
	for _, layouts := range [][]layout.Layout{nil, {{Shape: []int64{3, 0}, Strides: []int64{math.MaxInt64, math.MinInt64}}}} {
		for range w.Offsets(1) {
			t.Fatal("nothing is there")
		}
		count, steps := w.Run()
		assert.Zero(t, count)
		assert.Nil(t, steps)
		_, _, flat := w.Flat()
		assert.False(t, flat)
		assert.Nil(t, w.Strides(0))
		assert.Nil(t, w.Strides(-1))
		require.NoError(t, w.Part(1, 3))
		require.NoError(t, w.Reset(layouts...))
	}
}

func TestWalkStopsWhereTheLoopDoes(t *testing.T) {
	l := must.Do(layout.New([]int64{4, 4}, []int64{4, 5}, nil))(t)
	var w nervana.Walk
	require.NoError(t, w.Reset(l))
	var seen []int64
	for at := range w.Offsets(1) {
		if seen = append(seen, at[0]); len(seen) == 2 {
			break
		}
	}
	assert.Equal(t, []int64{0, 5}, seen)
	assert.Len(t, visited(&w, 1), 16, "from the beginning again")
}

func TestWalkPartsAreTheWholeOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var w nervana.Walk
	for range 3000 {
		layouts := randomLayouts(r)
		of := 1 + r.IntN(7)
		var got [][]int64
		for i := range of {
			require.NoError(t, w.Reset(layouts...))
			require.NoError(t, w.Part(i, of))
			part := visited(&w, 1)
			require.EqualValues(t, len(part), w.Count())
			got = append(got, part...)
		}
		require.True(t, slices.EqualFunc(sorted(tuples(layouts)), sorted(got), slices.Equal), "%v in %d parts", layouts, of)
	}
	require.ErrorIs(t, w.Part(0, 0), layout.ErrIndex)
	require.ErrorIs(t, w.Part(3, 3), layout.ErrIndex)
	require.ErrorIs(t, w.Part(-1, 3), layout.ErrIndex)
}

func TestWalkOverManyTensorsOfManyDimensions(t *testing.T) {
	shape, order := make([]int64, 12), make([]int, 12)
	for d := range shape {
		shape[d], order[d] = 2, (5*d+3)%12
	}
	var layouts []layout.Layout
	for k := range 5 {
		l := must.Do(layout.New(shape, nil, append(slices.Clone(order[k:]), order[:k]...)))(t)
		layouts = append(layouts, l)
	}
	var w nervana.Walk
	require.NoError(t, w.Reset(layouts[0]))
	require.NoError(t, w.Reset(layouts...))
	assert.Equal(t, sorted(tuples(layouts)), sorted(visited(&w, 2)))
}

func TestWalkAtTheEndsOfTheRange(t *testing.T) {
	// The sum of three such strides does not fit in the weight of a dimension.
	l := layout.Layout{Shape: []int64{2, 2}, Strides: []int64{2 - math.MaxInt64, 1}, Offset: math.MaxInt64 - 2}
	var w nervana.Walk
	require.NoError(t, w.Reset(l, l, l))
	assert.Equal(t, [][]int64{{0, 0, 0}, {1, 1, 1}, {math.MaxInt64 - 2, math.MaxInt64 - 2, math.MaxInt64 - 2}, {math.MaxInt64 - 1, math.MaxInt64 - 1, math.MaxInt64 - 1}}, visited(&w, 1))

	l.Strides[0]--
	require.ErrorIs(t, w.Reset(l), layout.ErrOverflow)
}

func BenchmarkWalk(b *testing.B) {
	dst, err := layout.New([]int64{16, 16, 16, 16}, nil, nil)
	require.NoError(b, err)
	src, err := layout.New([]int64{16, 16, 16, 16}, nil, []int{3, 1, 2, 0})
	require.NoError(b, err)
	w := new(nervana.Walk)
	b.Run("Reset", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = w.Reset(dst, src)
		}
	})
	b.Run("step", func(b *testing.B) {
		require.NoError(b, w.Reset(dst, src))
		b.ReportAllocs()
		sum := int64(0)
		for b.Loop() {
			for at := range w.Offsets(0) {
				sum += at[1]
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(16*16*16*16), "ns/step")
	})
}

func ExampleWalk() {
	// One matrix is row-major, the other column-major.
	dst, _ := layout.New([]int64{2, 3}, nil, nil)
	src, _ := layout.New([]int64{2, 3}, nil, []int{1, 0})
	var w nervana.Walk
	if err := w.Reset(dst, src); err != nil {
		fmt.Println(err)
		return
	}
	n, steps := w.Run()
	for at := range w.Offsets(1) {
		fmt.Println(n, "elements from", at, "in steps of", steps)
	}
	// Output:
	// 3 elements from [0 0] in steps of [1 2]
	// 3 elements from [3 1] in steps of [1 2]
}

// If there are more parts than elements along any dimension, some parts have no elements. All methods must agree on that.
func TestAPartWithoutElementsIsAWalkWithoutElements(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   layout.Layout
	}{
		{"a line", layout.Layout{Shape: []int64{2}, Strides: []int64{1}, Offset: 5}},
		{"one element", layout.Layout{Offset: 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := nervana.Walk{InOrder: true}
			require.NoError(t, w.Reset(tt.of))
			require.NoError(t, w.Part(2, 3))
			assert.Zero(t, w.Count())
			assert.Nil(t, w.Shape())
			assert.Nil(t, w.Start())
			assert.Nil(t, w.Strides(0))
			count, steps := w.Run()
			assert.Zero(t, count)
			assert.Nil(t, steps)
			_, _, flat := w.Flat()
			assert.False(t, flat)
			for range w.Offsets(0) {
				t.Error("an offset")
			}
			require.NoError(t, w.Part(0, 2), "nothing can be divided further")
			assert.True(t, w.InOrder)
		})
	}
}

func ExampleWalk_Flat() {
	// Two column-major matrices: one index is enough for both.
	l, _ := layout.New([]int64{3, 4}, nil, []int{1, 0})
	var w nervana.Walk
	if err := w.Reset(l, l); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Flat())
	// Output: 12 [1 1] true
}
