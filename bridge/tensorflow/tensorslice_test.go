package tensorflow_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestTensorSlicesRefuse(t *testing.T) {
	whole, box := parseSlice(t, "-"), parseSlice(t, "2,3:-")
	for _, c := range []struct {
		name string
		err  error
		do   func() error
	}{
		{"an end that overflows", layout.ErrOverflow, func() error { _, err := tensorflow.ParseTensorSlice("1,9223372036854775807"); return err }},
		{"a length of -1", layout.ErrIndex, func() error { _, err := tensorflow.ParseTensorSlice("0,-1"); return err }},
		{"three numbers", layout.ErrSyntax, func() error { _, err := tensorflow.ParseTensorSlice("1,2,3"); return err }},
		{"a space for a number", layout.ErrSyntax, func() error { _, err := tensorflow.ParseTensorSlice("1, "); return err }},
		{"whole from somewhere", layout.ErrIndex, func() error {
			_, err := tensorflow.NewTensorSlice(tensorflow.Extent{Start: 1, Length: tensorflow.Full})
			return err
		}},
		{"a lower rank", layout.ErrRank, func() error { _, err := box.Extend(1); return err }},
		{"a rank above all", layout.ErrRank, func() error { _, err := box.Extend(math.MaxInt); return err }},
		{"to cover another rank", layout.ErrRank, func() error { _, err := box.Cover(whole); return err }},
		{"another rank within", layout.ErrRank, func() error { _, err := box.Relative(whole); return err }},
		{"one that begins before", layout.ErrIndex, func() error { _, err := box.Relative(parseSlice(t, "1,2:-")); return err }},
		{"one that ends behind", layout.ErrIndex, func() error { _, err := box.Relative(parseSlice(t, "4,2:-")); return err }},
		{"a whole dimension within a part", layout.ErrIndex, func() error { _, err := box.Relative(parseSlice(t, "-:-")); return err }},
		{"a shape of another rank", layout.ErrRank, func() error { _, err := box.AppendShape(nil, []int64{9}); return err }},
		{"a shape that is too small", layout.ErrIndex, func() error { _, err := box.AppendShape(nil, []int64{4, 9}); return err }},
		{"a shape that is none", layout.ErrNegative, func() error { _, err := box.AppendShape(nil, []int64{9, -9}); return err }},
		{"too little to fill", layout.ErrRank, func() error { return box.Fill(make([]int64, 1), make([]int64, 1), []int64{5, 5}) }},
		{"different slices to fill", layout.ErrRank, func() error { return box.Fill(make([]int64, 2), make([]int64, 3), []int64{5, 5}) }},
		{"a shape too small to fill from", layout.ErrIndex, func() error { return box.Fill(make([]int64, 2), make([]int64, 2), []int64{4, 5}) }},
		{"a view that is too small", layout.ErrIndex, func() error {
			l := must.Do(layout.New([]int64{4, 5}, nil, nil))(t)
			return box.View(&l)
		}},
		{"a view too far", layout.ErrOverflow, func() error {
			return box.View(&layout.Layout{Shape: []int64{5, 5}, Strides: []int64{1 << 62, 1}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.ErrorIs(t, c.do(), c.err) })
	}
	dst, err := box.AppendShape([]int64{7}, []int64{4, 9})
	require.Error(t, err)
	assert.Equal(t, []int64{7}, dst)
}

func TestTensorSlicesAreSetsOfIndices(t *testing.T) {
	// all has every slice of a shape of 4×3.
	extents := func(n int64) []tensorflow.Extent {
		all := []tensorflow.Extent{{Start: 0, Length: tensorflow.Full}}
		for start := range n {
			for length := int64(1); start+length <= n; length++ {
				all = append(all, tensorflow.Extent{Start: start, Length: length})
			}
		}
		return all
	}
	shape := []int64{4, 3}
	var all []tensorflow.TensorSlice
	for _, row := range extents(shape[0]) {
		for _, column := range extents(shape[1]) {
			s := must.Do(tensorflow.NewTensorSlice(row, column))(t)
			all = append(all, s)
		}
	}
	taken := func(s tensorflow.TensorSlice) []int64 {
		l := must.Do(layout.New(shape, nil, nil))(t)
		require.NoError(t, s.View(&l))
		sliced := must.Do(s.AppendShape(nil, shape))(t)
		require.Equal(t, sliced, l.Shape)
		return viewtest.Offsets(l)
	}
	for _, a := range all {
		again := must.Do(tensorflow.ParseTensorSlice(a.String()))(t)
		require.True(t, a.Equal(again))
		for _, b := range all {
			first, second := taken(a), taken(b)
			both := slices.DeleteFunc(slices.Clone(first), func(i int64) bool { return !slices.Contains(second, i) })
			if s, ok := a.Intersect(b); ok {
				require.Equal(t, both, taken(s), "%v %v", a, b)
			} else {
				require.Empty(t, both, "%v %v", a, b)
			}
			cover := must.Do(a.Cover(b))(t)
			within := taken(cover)
			require.Subset(t, within, first)
			require.Subset(t, within, second)

			relative, err := a.Relative(b)
			if err != nil {
				continue
			}
			l := must.Do(layout.New(shape, nil, nil))(t)
			require.NoError(t, a.View(&l))
			require.NoError(t, relative.View(&l))
			require.Equal(t, second, viewtest.Offsets(l), "%v in %v", b, a)
		}
	}
}

func FuzzTensorSlice(f *testing.F) {
	for _, text := range []string{"-", "0,3", "-:5,1:-", "4,5:", "1 ,2", ":,1,,2,::-", "9223372036854775806,1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := tensorflow.ParseTensorSlice(text)
		if err != nil {
			return
		}
		again := must.Do(tensorflow.ParseTensorSlice(s.String()))(t)
		require.True(t, s.Equal(again))
		must.Do(tensorflow.NewTensorSlice(s.Extents()...))(t)
		both, ok := s.Intersect(again)
		require.True(t, ok && both.Equal(s))
	})
}

func ExampleTensorSlice() {
	s, _ := tensorflow.ParseTensorSlice("-:0,10")
	shape, err := s.AppendShape(nil, []int64{4, 20})
	fmt.Println(s, shape, err)
	// Output: -:0,10 [4 10] <nil>
}

func parseSlice(t *testing.T, text string) tensorflow.TensorSlice {
	t.Helper()
	return must.Do(tensorflow.ParseTensorSlice(text))(t)
}

func requireExtents(t *testing.T, starts, lengths, ends []int64, full bool, s tensorflow.TensorSlice) {
	t.Helper()
	require.Equal(t, len(starts), s.Rank())
	for d, e := range s.Extents() {
		assert.Equal(t, tensorflow.Extent{Start: starts[d], Length: lengths[d]}, e)
		assert.Equal(t, ends[d], e.End())
	}
	assert.Equal(t, full, s.IsFull())
}

func TestTensorSlicesAreTensorFlows(t *testing.T) {
	for _, m := range manifests(t) {
		for _, c := range m.Slices.Parse {
			s, err := tensorflow.ParseTensorSlice(c.Input)
			require.Equal(t, c.Error != "", err != nil, "%q: %v", c.Input, err)
			if err == nil {
				assert.Equal(t, c.Text, s.String())
				requireExtents(t, c.Starts, c.Lengths, c.Ends, c.Full, s)
			}
		}
		for _, c := range m.Slices.Intersect {
			both, ok := parseSlice(t, c.A).Intersect(parseSlice(t, c.B))
			require.Equal(t, c.Overlaps, ok)
			if ok {
				assert.Equal(t, *c.Result, both.String())
			}
		}
		for _, c := range m.Slices.Shape {
			if c.Error == "" {
				// c.Shape is the result for a tensor of shape 5×6.
				shape := must.Do(parseSlice(t, c.Slice).AppendShape(nil, []int64{5, 6}))(t)
				assert.Equal(t, c.Shape, shape)
				continue
			}
			_, err := parseSlice(t, c.Slice).AppendShape(nil, c.Shape)
			assert.Error(t, err, "%s", c.Slice)
		}
		for _, c := range m.Slices.Relative {
			relative := must.Do(parseSlice(t, c.Base).Relative(parseSlice(t, c.Sub)))(t)
			assert.Equal(t, c.Relative, relative.String())
		}
		for _, c := range m.Slices.Cover {
			cover := must.Do(parseSlice(t, c.A).Cover(parseSlice(t, c.B)))(t)
			assert.Equal(t, c.Result, cover.String())
		}
		for _, c := range m.Slices.Equal {
			assert.Equal(t, c.Equal, parseSlice(t, c.A).Equal(parseSlice(t, c.B)))
		}
		for _, c := range m.Slices.Extend {
			extended := must.Do(parseSlice(t, c.Slice).Extend(c.Rank))(t)
			assert.Equal(t, c.Result, extended.String())
		}
		for _, c := range m.Slices.Fill {
			starts, sizes := make([]int64, c.NDims), make([]int64, c.NDims)
			require.NoError(t, parseSlice(t, c.Slice).Fill(starts, sizes, c.Shape))
			assert.Equal(t, c.Indices, starts)
			assert.Equal(t, c.Sizes, sizes)
		}
	}
}

func ExampleParseTensorSlice() {
	s, err := tensorflow.ParseTensorSlice("-:0,10")
	fmt.Println(s, s.Rank(), err)
	// Output: -:0,10 2 <nil>
}

func ExampleTensorSlice_Intersect() {
	a, _ := tensorflow.ParseTensorSlice("-:0,10")
	b, _ := tensorflow.ParseTensorSlice("2,3:8,4")
	fmt.Println(a.Intersect(b))
	// Output: 2,3:8,2 true
}

func ExampleTensorSlice_Relative() {
	a, _ := tensorflow.ParseTensorSlice("2,3:8,4")
	b, _ := tensorflow.ParseTensorSlice("3,1:9,2")
	fmt.Println(a.Relative(b))
	// Output: 1,1:1,2 <nil>
}

func ExampleTensorSlice_AppendShape() {
	s, _ := tensorflow.ParseTensorSlice("-:0,10")
	fmt.Println(s.AppendShape(nil, []int64{4, 16}))
	// Output: [4 10] <nil>
}

func ExampleTensorSlice_View() {
	s, _ := tensorflow.ParseTensorSlice("-:1,2")
	l, _ := layout.New([]int64{3, 4}, nil, nil)
	fmt.Println(s.View(&l), l)
	// Output: <nil> shape [3 2] strides [4 1] offset 1
}

func ExampleNewTensorSlice() {
	upper, err := tensorflow.NewTensorSlice(tensorflow.Extent{Start: 0, Length: 4}, tensorflow.Extent{Length: tensorflow.Full})
	if err != nil {
		fmt.Println(err)
		return
	}
	lower, _ := tensorflow.NewTensorSlice(tensorflow.Extent{Start: 6, Length: 2}, tensorflow.Extent{Length: tensorflow.Full})
	both, err := upper.Cover(lower)
	fmt.Println(upper, lower, both, err)
	// Output: 0,4:- 6,2:- 0,8:- <nil>
}
