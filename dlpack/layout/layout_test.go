package layout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

const big = math.MaxInt64

// offsets returns the offset of each element, in row-major order of the indices.
func offsets(shape, strides []int64) []int64 {
	return viewtest.Offsets(layout.Layout{Shape: shape, Strides: strides})
}

// eachRandom calls test for many random layouts. They are the same in each run.
func eachRandom(t *testing.T, test func(t *testing.T, shape, strides, offsets []int64)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		shape, strides := viewtest.Random(r)
		test(t, shape, strides, offsets(shape, strides))
		if t.Failed() {
			t.Fatalf("shape %v strides %v", shape, strides)
		}
	}
}

func TestCountMultipliesOrNamesTheAxis(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape []int64
		want  int64
		err   error
		text  string
	}{
		{name: "no dimensions", want: 1},
		{name: "one", shape: []int64{7}, want: 7},
		{name: "three", shape: []int64{2, 3, 4}, want: 24},
		{name: "empty", shape: []int64{2, 0, 4}, want: 0},
		{name: "empty in spite of huge ones", shape: []int64{big, big, 0}, want: 0},
		{name: "the largest", shape: []int64{big, 1, 1}, want: big},
		{name: "negative", shape: []int64{2, -3}, err: layout.ErrNegative, text: "layout: shape[1] is -3, must not be negative"},
		{name: "negative behind an empty one", shape: []int64{0, -1}, err: layout.ErrNegative, text: "layout: shape[1] is -1, must not be negative"},
		{name: "negative behind an overflow", shape: []int64{big, big, -1}, err: layout.ErrNegative, text: "layout: shape[2] is -1, must not be negative"},
		{name: "the smallest", shape: []int64{math.MinInt64}, err: layout.ErrNegative, text: "layout: shape[0] is -9223372036854775808, must not be negative"},
		{name: "wraps to 0", shape: []int64{1 << 32, 1 << 32}, err: layout.ErrOverflow, text: "layout: shape[1] = 4294967296: overflow"},
		{name: "wraps to a positive number", shape: []int64{3, 1 << 62, 4}, err: layout.ErrOverflow, text: "layout: shape[1] = 4611686018427387904: overflow"},
		{name: "one too many", shape: []int64{2, 1 << 62}, err: layout.ErrOverflow, text: "layout: shape[1] = 4611686018427387904: overflow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := layout.Count(c.shape)
			assert.Equal(t, c.want, got)
			if c.err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.err)
			assert.EqualError(t, err, c.text)
		})
	}
}

func TestStridesOfAnyOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		shape   []int64
		order   []int
		strides []int64
		err     error
	}{
		{name: "no dimensions"},
		{name: "row-major", shape: []int64{2, 3, 4}, order: []int{0, 1, 2}, strides: []int64{12, 4, 1}},
		{name: "column-major", shape: []int64{2, 3, 4}, order: []int{2, 1, 0}, strides: []int64{1, 2, 6}},
		{name: "rotated", shape: []int64{2, 3, 4}, order: []int{1, 2, 0}, strides: []int64{1, 8, 2}},
		{name: "size 0 counts as 1", shape: []int64{2, 0, 4}, order: []int{0, 1, 2}, strides: []int64{4, 4, 1}},
		{name: "steps of no elements do not overflow", shape: []int64{0, 1 << 40, 1 << 40}, order: []int{0, 1, 2}, strides: []int64{0, 1 << 40, 1}},
		{name: "too few", shape: []int64{2, 3}, order: []int{0}, err: layout.ErrOrder},
		{name: "too many", shape: []int64{2}, order: []int{0, 1}, err: layout.ErrOrder},
		{name: "twice the same", shape: []int64{2, 3}, order: []int{1, 1}, err: layout.ErrOrder},
		{name: "past the end", shape: []int64{2, 3}, order: []int{0, 2}, err: layout.ErrOrder},
		{name: "below 0", shape: []int64{2, 3}, order: []int{-1, 0}, err: layout.ErrOrder},
		{name: "negative", shape: []int64{2, -3}, order: []int{0, 1}, err: layout.ErrNegative},
		{name: "overflow", shape: []int64{1 << 32, 1 << 32}, order: []int{0, 1}, err: layout.ErrOverflow},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := []int64{42}
			got, err := layout.AppendStrides(dst, c.shape, c.order)
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, append([]int64{42}, c.strides...), got)
		})
	}
}

func TestStridesAppendBehindWhatIsThere(t *testing.T) {
	dst := make([]int64, 1, 8)
	got := must.Do(layout.AppendRowMajor(dst, []int64{2, 3}))(t)
	assert.Equal(t, []int64{0, 3, 1}, got)
	assert.Same(t, &dst[0], &got[0], "capacity is used")
	got = must.Do(layout.AppendColumnMajor(got, []int64{2, 3}))(t)
	assert.Equal(t, []int64{0, 3, 1, 1, 2}, got)
}

func TestStridesOfAnOrderCountUpAlongIt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		shape, _ := viewtest.Random(r)
		order := r.Perm(len(shape))
		strides := must.Do(layout.AppendStrides(nil, shape, order))(t)
		got := offsets(shape, strides)
		slices.Sort(got)
		for i, offset := range got {
			require.EqualValues(t, i, offset, "shape %v order %v", shape, order)
		}

		row := must.Do(layout.AppendRowMajor(nil, shape))(t)
		require.True(t, layout.IsRowMajor(shape, row))
		column := must.Do(layout.AppendColumnMajor(nil, shape))(t)
		require.True(t, layout.IsColumnMajor(shape, column))
		require.True(t, slices.IsSorted(offsets(shape, row)))
	}
}

func TestSpanReachesWhatTheStridesReach(t *testing.T) {
	eachRandom(t, func(t *testing.T, shape, strides, offsets []int64) {
		lo, hi, err := layout.Span(shape, strides)
		require.NoError(t, err)
		if len(offsets) == 0 {
			assert.Zero(t, lo)
			assert.Zero(t, hi)
			return
		}
		assert.Equal(t, slices.Min(offsets), lo)
		assert.Equal(t, slices.Max(offsets)+1, hi)
	})
}

func TestSpanRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape, strides []int64
		lo, hi         int64
		err            error
	}{
		{name: "a single element", shape: []int64{1, 1}, strides: []int64{big, math.MinInt64}, lo: 0, hi: 1},
		{name: "no elements", shape: []int64{0, big}, strides: []int64{big, big}},
		{name: "the highest", shape: []int64{2}, strides: []int64{big - 1}, lo: 0, hi: big},
		{name: "one past the highest", shape: []int64{2}, strides: []int64{big}, err: layout.ErrOverflow},
		{name: "the lowest", shape: []int64{2}, strides: []int64{1 - big}, lo: 1 - big, hi: 1},
		{name: "the lowest, too low to flip", shape: []int64{2}, strides: []int64{-big}, err: layout.ErrOverflow},
		{name: "the lowest there is", shape: []int64{2}, strides: []int64{math.MinInt64}, err: layout.ErrOverflow},
		{name: "below the lowest", shape: []int64{2, 2}, strides: []int64{math.MinInt64, -1}, err: layout.ErrOverflow},
		{name: "product", shape: []int64{1 << 40}, strides: []int64{1 << 40}, err: layout.ErrOverflow},
		{name: "negative product", shape: []int64{1 << 40}, strides: []int64{-1 << 40}, err: layout.ErrOverflow},
		{name: "the farthest both ways", shape: []int64{2, 2}, strides: []int64{1 << 62, 2 - 1<<62}, lo: 2 - 1<<62, hi: 1<<62 + 1},
		{name: "too far both ways", shape: []int64{2, 2}, strides: []int64{1 << 62, 1 - 1<<62}, err: layout.ErrOverflow},
		{name: "sum", shape: []int64{2, 2}, strides: []int64{1 << 62, 1 << 62}, err: layout.ErrOverflow},
		{name: "negative dimension", shape: []int64{0, -1}, strides: []int64{1, 1}, err: layout.ErrNegative},
		{name: "strides missing", shape: []int64{2}, err: layout.ErrRank},
		{name: "too many strides", shape: []int64{2}, strides: []int64{1, 1}, err: layout.ErrRank},
	} {
		t.Run(c.name, func(t *testing.T) {
			lo, hi, err := layout.Span(c.shape, c.strides)
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, c.lo, lo)
			assert.Equal(t, c.hi, hi)
		})
	}
}

func TestRowMajorIsWhatCountsUp(t *testing.T) {
	eachRandom(t, func(t *testing.T, shape, strides, offsets []int64) {
		counts := true
		for i, offset := range offsets {
			counts = counts && offset == int64(i)
		}
		assert.Equal(t, counts, layout.IsRowMajor(shape, strides))

		slices.Reverse(shape)
		slices.Reverse(strides)
		assert.Equal(t, counts, layout.IsColumnMajor(shape, strides))
	})
}

func TestNoElementsAreContiguousWithAnyStrides(t *testing.T) {
	for _, shape := range [][]int64{{0}, {0, 3}, {3, 0}, {big, big, 0}} {
		strides := make([]int64, len(shape))
		for d := range strides {
			strides[d] = int64(17 - 40*d)
		}
		assert.True(t, layout.IsRowMajor(shape, strides))
		assert.True(t, layout.IsColumnMajor(shape, strides))
		assert.False(t, layout.Overlaps(shape, strides))
		_, reversed, ok := layout.Packed(shape, strides)
		assert.True(t, ok)
		assert.NotContains(t, reversed, true)
	}
}

func TestDimensionsOfSizeOneDoNotCount(t *testing.T) {
	for _, odd := range []int64{0, 1, -7, 99, big, math.MinInt64} {
		shape, strides := []int64{1, 1, 2}, []int64{odd, odd, 1}
		assert.True(t, layout.IsRowMajor(shape, strides))
		assert.True(t, layout.IsColumnMajor(shape, strides))
		assert.False(t, layout.Overlaps(shape, strides))
		order, reversed, ok := layout.Packed(shape, strides)
		require.True(t, ok)
		assert.Equal(t, []int{0, 1, 2}, order)
		assert.Equal(t, []bool{false, false, false}, reversed)
		assert.Equal(t, []int64{odd, odd, 1}, strides, "passed through")
	}
}

func TestNothingInvalidIsContiguous(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape, strides []int64
	}{
		{"negative", []int64{-1}, []int64{1}},
		{"negative and empty", []int64{0, -1}, []int64{1, 1}},
		{"strides missing", []int64{2}, nil},
		{"too many strides", nil, []int64{1}},
		{"count overflows", []int64{1 << 32, 1 << 32, 2}, []int64{0, 2, 1}},
		{"count overflows last", []int64{1 << 32, 1 << 32}, []int64{1 << 32, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.False(t, layout.IsRowMajor(c.shape, c.strides))
			slices.Reverse(c.shape)
			slices.Reverse(c.strides)
			assert.False(t, layout.IsColumnMajor(c.shape, c.strides))
			_, _, ok := layout.Packed(c.shape, c.strides)
			assert.False(t, ok)
			assert.True(t, layout.Overlaps(c.shape, c.strides))
		})
	}
}

func TestPackedFindsOrderAndReversal(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape, strides []int64
		order          []int
		reversed       []bool
		ok             bool
	}{
		{"no dimensions", nil, nil, []int{}, []bool{}, true},
		{"row-major", []int64{2, 3, 4}, []int64{12, 4, 1}, []int{0, 1, 2}, []bool{false, false, false}, true},
		{"column-major", []int64{2, 3, 4}, []int64{1, 2, 6}, []int{2, 1, 0}, []bool{false, false, false}, true},
		{"rotated", []int64{2, 3, 4}, []int64{1, 8, 2}, []int{1, 2, 0}, []bool{false, false, false}, true},
		{"reversed", []int64{2, 3}, []int64{3, -1}, []int{0, 1}, []bool{false, true}, true},
		{"transposed and reversed", []int64{2, 3}, []int64{-1, -2}, []int{1, 0}, []bool{true, true}, true},
		{"row-major around size 1", []int64{2, 1, 3}, []int64{3, -5, 1}, []int{0, 1, 2}, []bool{false, false, false}, true},
		{"column-major around size 1", []int64{2, 1, 3}, []int64{1, -5, 2}, []int{2, 1, 0}, []bool{false, false, false}, true},
		{"rotated around size 1", []int64{2, 3, 1, 4}, []int64{1, 8, 9, 2}, []int{2, 1, 3, 0}, []bool{false, false, false, false}, true},
		{"gap", []int64{2, 3}, []int64{4, 1}, nil, nil, false},
		{"gap within", []int64{3}, []int64{2}, nil, nil, false},
		{"shared", []int64{2, 3}, []int64{0, 1}, nil, nil, false},
		{"shared rows", []int64{2, 2}, []int64{1, 1}, nil, nil, false},
		{"lowest stride", []int64{2}, []int64{math.MinInt64}, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			order, reversed, ok := layout.Packed(c.shape, c.strides)
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.order, order)
			assert.Equal(t, c.reversed, reversed)
		})
	}
}

func TestPackedIsWhatFillsItsSpanOnce(t *testing.T) {
	found := 0
	eachRandom(t, func(t *testing.T, shape, strides, offsets []int64) {
		order, reversed, ok := layout.Packed(shape, strides)
		sorted := slices.Clone(offsets)
		slices.Sort(sorted)
		fills := true
		for i, offset := range sorted {
			fills = fills && offset == sorted[0]+int64(i)
		}
		require.Equal(t, fills, ok)
		if !ok {
			return
		}
		found++
		// Order and reversal determine the strides of all dimensions of more than one element.
		rebuilt := must.Do(layout.AppendStrides(nil, shape, order))(t)
		for d, n := range shape {
			if len(offsets) == 0 || n == 1 {
				assert.False(t, reversed[d])
				continue
			}
			if reversed[d] {
				rebuilt[d] = -rebuilt[d]
			}
			assert.Equal(t, strides[d], rebuilt[d])
		}
	})
	assert.Greater(t, found, 1000)
}

func TestOverlapsWhereTwoIndicesMeet(t *testing.T) {
	found := 0
	eachRandom(t, func(t *testing.T, shape, strides, offsets []int64) {
		sorted := slices.Clone(offsets)
		slices.Sort(sorted)
		meet := len(slices.Compact(sorted)) < len(offsets)
		assert.Equal(t, meet, layout.Overlaps(shape, strides))
		if meet {
			found++
		}
	})
	assert.Greater(t, found, 500)
}

func TestOverlapsOfTellingLayouts(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape, strides []int64
		want           bool
	}{
		{"no dimensions", nil, nil, false},
		{"broadcast", []int64{2, 3}, []int64{0, 1}, true},
		{"broadcast to nothing", []int64{0, 3}, []int64{0, 1}, false},
		{"sliding window", []int64{8, 3}, []int64{1, 1}, true},
		{"windows side by side", []int64{8, 3}, []int64{3, 1}, false},
		{"interlocked, apart", []int64{2, 3}, []int64{3, 2}, false},
		{"interlocked, meeting", []int64{3, 4}, []int64{3, 2}, true},
		{"opposite directions", []int64{3, 3}, []int64{3, -1}, false},
		{"huge and apart", []int64{1 << 31, 1 << 31}, []int64{1 << 31, 1}, false},
		{"huge and meeting at the end", []int64{1<<31 + 1, 1<<31 + 1}, []int64{1 << 31, 1}, true},
		{"wider than an offset", []int64{2, 2}, []int64{1 << 62, -1 << 62}, true},
		{"lowest stride", []int64{2}, []int64{math.MinInt64}, true},
		{"given up", []int64{1 << 20, 1 << 20, 2}, []int64{1<<21 + 2, 1<<21 - 2, 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, layout.Overlaps(c.shape, c.strides))
		})
	}
}

func TestLayoutCountsFromItsOffset(t *testing.T) {
	l := layout.Layout{Shape: []int64{2, 3}, Strides: []int64{3, -1}, Offset: 2}
	assert.Equal(t, 2, l.Rank())
	count := must.Do(l.Count())(t)
	assert.EqualValues(t, 6, count)
	lo, hi, err := l.Span()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 6}, []int64{lo, hi})
	assert.False(t, l.IsRowMajor())
	assert.Equal(t, "shape [2 3] strides [3 -1] offset 2", l.String())

	l.Offset = big
	_, _, err = l.Span()
	require.ErrorIs(t, err, layout.ErrOverflow)
	assert.EqualError(t, err, "layout: offset = 9223372036854775807: overflow")

	l.Shape[0] = 0
	lo, hi, err = l.Span()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 0}, []int64{lo, hi})
}

func TestChecksDoNotAllocate(t *testing.T) {
	shape, strides := []int64{64, 3, 224, 224}, []int64{150528, 50176, 224, 1}
	dst := make([]int64, 0, 4)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = layout.Count(shape)
		_, _, _ = layout.Span(shape, strides)
		_ = layout.IsRowMajor(shape, strides)
		_ = layout.IsColumnMajor(shape, strides)
		_ = layout.Overlaps(shape, strides)
		_, _ = layout.AppendRowMajor(dst, shape)
	}))
}

func FuzzLayout(f *testing.F) {
	f.Add(int64(2), int64(3), int64(4), int64(12), int64(4), int64(1))
	f.Add(int64(1<<32), int64(1<<32), int64(1), int64(0), int64(-1), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, n0, n1, n2, s0, s1, s2 int64) {
		shape, strides := []int64{n0, n1, n2}, []int64{s0, s1, s2}
		count, countErr := layout.Count(shape)
		lo, hi, spanErr := layout.Span(shape, strides)
		order, _, packed := layout.Packed(shape, strides)
		if layout.IsRowMajor(shape, strides) || layout.IsColumnMajor(shape, strides) {
			require.True(t, packed)
		}
		if packed {
			require.NoError(t, countErr)
			require.NoError(t, spanErr)
			require.Equal(t, count, hi-lo)
			require.False(t, layout.Overlaps(shape, strides))
			must.Do(layout.AppendStrides(nil, shape, order))(t)
		}
		if spanErr == nil && countErr == nil && hi-lo < count {
			require.True(t, layout.Overlaps(shape, strides), "more elements than places")
		}
	})
}

func BenchmarkLayout(b *testing.B) {
	shape, strides := []int64{64, 3, 224, 224}, []int64{150528, 50176, 224, 1}
	b.Run("Count", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = layout.Count(shape)
		}
	})
	b.Run("Span", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = layout.Span(shape, strides)
		}
	})
	b.Run("IsRowMajor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = layout.IsRowMajor(shape, strides)
		}
	})
	b.Run("Overlaps", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = layout.Overlaps(shape[1:], strides[:3])
		}
	})
}

func ExampleAppendRowMajor() {
	strides, err := layout.AppendRowMajor(nil, []int64{2, 3, 4})
	fmt.Println(strides, err)
	// Output: [12 4 1] <nil>
}

func ExampleSpan() {
	// A matrix has three rows of four elements. The rows are reversed, so row 0 is the last one in memory.
	fmt.Println(layout.Span([]int64{3, 4}, []int64{-4, 1}))
	// Output: -8 4 <nil>
}

func ExamplePacked() {
	order, reversed, ok := layout.Packed([]int64{2, 3}, []int64{1, -2})
	fmt.Println(order, reversed, ok)
	// Output: [1 0] [false true] true
}

func TestNewCountsStridesFromTheSizes(t *testing.T) {
	l := must.Do(layout.New([]int64{2, 5}, []int64{2, 6}, nil))(t)
	assert.Equal(t, "shape [2 5] strides [6 1] offset 0", l.String())

	for _, c := range []struct {
		name         string
		shape, sizes []int64
		order        []int
		err          error
	}{
		{"negative", []int64{-1}, nil, nil, layout.ErrNegative},
		{"sizes for other dimensions", []int64{2}, []int64{2, 2}, nil, layout.ErrRank},
		{"a size below the shape", []int64{2, 3}, []int64{4, 2}, nil, layout.ErrShape},
		{"sizes that overflow", []int64{1, 1}, []int64{1 << 32, 1 << 32}, nil, layout.ErrOverflow},
		{"no permutation", []int64{2, 3}, nil, []int{0, 0}, layout.ErrOrder},
		{"no order", []int64{2, 3}, nil, []int{}, layout.ErrOrder},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Fail(layout.New(c.shape, c.sizes, c.order))(t, c.err)
		})
	}
}

func TestAlignedRoundsTheFastestDimensionUp(t *testing.T) {
	for _, c := range []struct {
		name            string
		shape           []int64
		order           []int
		itemsize, align int64
		want            []int64
		err             error
	}{
		{name: "no dimensions", itemsize: 4, align: 64, want: []int64{}},
		{name: "elements larger than the alignment", shape: []int64{3}, itemsize: 16, align: 8, want: []int64{3}},
		{name: "elements of no power of two", shape: []int64{5}, itemsize: 12, align: 16, want: []int64{8}},
		{name: "no elements", shape: []int64{3, 0}, itemsize: 4, align: 64, want: []int64{3, 0}},
		{name: "any order", shape: []int64{3, 5, 2}, order: []int{0, 2, 1}, itemsize: 4, align: 32, want: []int64{3, 8, 2}},
		{name: "negative", shape: []int64{-3}, itemsize: 4, align: 8, err: layout.ErrNegative},
		{name: "no size", shape: []int64{3}, itemsize: 0, align: 8, err: layout.ErrShape},
		{name: "no alignment", shape: []int64{3}, itemsize: 4, align: -8, err: layout.ErrShape},
		{name: "order of other dimensions", shape: []int64{3}, order: []int{0, 1}, itemsize: 4, align: 8, err: layout.ErrOrder},
		{name: "order that leads out", shape: []int64{3}, order: []int{1}, itemsize: 4, align: 8, err: layout.ErrOrder},
		{name: "order that leads out before", shape: []int64{3}, order: []int{-1}, itemsize: 4, align: 8, err: layout.ErrOrder},
		{name: "size that overflows", shape: []int64{big}, itemsize: 1, align: 64, err: layout.ErrOverflow},
		{name: "count that overflows", shape: []int64{1 << 60, 7}, itemsize: 1, align: 64, err: layout.ErrOverflow},
	} {
		t.Run(c.name, func(t *testing.T) {
			sizes, err := layout.AppendAligned([]int64{7}, c.shape, c.order, c.itemsize, c.align)
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, append([]int64{7}, c.want...), sizes)
		})
	}
}

func TestOffsetOfCatchesOverflow(t *testing.T) {
	l := layout.Layout{Shape: []int64{3, 2}, Strides: []int64{1 << 62, -1}, Offset: big}
	offset := must.Do(l.OffsetOf(0, 1))(t)
	assert.EqualValues(t, big-1, offset)
	must.Fail(l.OffsetOf(2, 0))(t, layout.ErrOverflow)
	must.Fail(layout.Layout{Shape: []int64{1}}.OffsetOf(0))(t, layout.ErrRank)
}

func TestCloneAndSetShareNothing(t *testing.T) {
	base := must.Do(layout.New([]int64{2, 3}, nil, nil))(t)
	clone := base.Clone()
	require.NoError(t, clone.Transpose())
	require.NoError(t, clone.Expand(0, 1))
	assert.Equal(t, "shape [2 3] strides [3 1] offset 0", base.String())

	view := layout.Layout{Shape: make([]int64, 0, 4), Strides: make([]int64, 4)}
	first := &view.Strides[0]
	view.Set(base)
	assert.Same(t, first, &view.Strides[0], "its own slices are used")
	require.NoError(t, view.Flip())
	assert.Equal(t, "shape [2 3] strides [3 1] offset 0", base.String())
	assert.Equal(t, "shape [2 3] strides [-3 -1] offset 5", view.String())
}

func ExampleNew() {
	shape := []int64{2, 3}
	sizes, _ := layout.AppendAligned(nil, shape, nil, 4, 16) // float32; rows are aligned to 16 bytes
	l, err := layout.New(shape, sizes, nil)
	fmt.Println(sizes, l, err)
	// Output: [2 4] shape [2 3] strides [4 1] offset 0 <nil>
}

func TestOverlapsDoesNotSortWithoutEnd(t *testing.T) {
	const rank = 1 << 16
	shape, strides := make([]int64, rank), make([]int64, rank)
	for d := range shape {
		shape[d], strides[d] = 2, int64(d+1)
	}
	assert.True(t, layout.Overlaps(shape, strides))
	for d := range shape {
		shape[d], strides[d] = 1, 0
	}
	for d := range 62 {
		shape[d], strides[d] = 2, 1<<d
	}
	assert.False(t, layout.Overlaps(shape, strides))
	strides[61] = 1<<61 - 1
	assert.True(t, layout.Overlaps(shape, strides))
}
