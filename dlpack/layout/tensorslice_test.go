package layout_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestTensorSlicesRefuse(t *testing.T) {
	whole, box := parseSlice(t, "-"), parseSlice(t, "2,3:-")
	for _, c := range []struct {
		name string
		err  error
		do   func() error
	}{
		{"an end that overflows", layout.ErrOverflow, func() error { _, err := layout.ParseTensorSlice("1,9223372036854775807"); return err }},
		{"a length of -1", layout.ErrIndex, func() error { _, err := layout.ParseTensorSlice("0,-1"); return err }},
		{"three numbers", layout.ErrSyntax, func() error { _, err := layout.ParseTensorSlice("1,2,3"); return err }},
		{"a space for a number", layout.ErrSyntax, func() error { _, err := layout.ParseTensorSlice("1, "); return err }},
		{"whole from somewhere", layout.ErrIndex, func() error {
			_, err := layout.NewTensorSlice(layout.Extent{Start: 1, Length: layout.Full})
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
			l, err := layout.New([]int64{4, 5}, nil, nil)
			require.NoError(t, err)
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
	// All slices of a shape of 4 times 3.
	extents := func(n int64) []layout.Extent {
		all := []layout.Extent{{Start: 0, Length: layout.Full}}
		for start := range n {
			for length := int64(1); start+length <= n; length++ {
				all = append(all, layout.Extent{Start: start, Length: length})
			}
		}
		return all
	}
	shape := []int64{4, 3}
	var all []layout.TensorSlice
	for _, row := range extents(shape[0]) {
		for _, column := range extents(shape[1]) {
			s, err := layout.NewTensorSlice(row, column)
			require.NoError(t, err)
			all = append(all, s)
		}
	}
	taken := func(s layout.TensorSlice) []int64 {
		l, err := layout.New(shape, nil, nil)
		require.NoError(t, err)
		require.NoError(t, s.View(&l))
		sliced, err := s.AppendShape(nil, shape)
		require.NoError(t, err)
		require.Equal(t, sliced, l.Shape)
		return modelOf(l).offsets
	}
	for _, a := range all {
		again, err := layout.ParseTensorSlice(a.String())
		require.NoError(t, err)
		require.True(t, a.Equal(again))
		for _, b := range all {
			first, second := taken(a), taken(b)
			both := slices.DeleteFunc(slices.Clone(first), func(i int64) bool { return !slices.Contains(second, i) })
			if s, ok := a.Intersect(b); ok {
				require.Equal(t, both, taken(s), "%v %v", a, b)
			} else {
				require.Empty(t, both, "%v %v", a, b)
			}
			cover, err := a.Cover(b)
			require.NoError(t, err)
			within := taken(cover)
			require.Subset(t, within, first)
			require.Subset(t, within, second)

			relative, err := a.Relative(b)
			if err != nil {
				continue
			}
			l, err := layout.New(shape, nil, nil)
			require.NoError(t, err)
			require.NoError(t, a.View(&l))
			require.NoError(t, relative.View(&l))
			require.Equal(t, second, modelOf(l).offsets, "%v in %v", b, a)
		}
	}
}

func FuzzTensorSlice(f *testing.F) {
	for _, text := range []string{"-", "0,3", "-:5,1:-", "4,5:", "1 ,2", ":,1,,2,::-", "9223372036854775806,1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := layout.ParseTensorSlice(text)
		if err != nil {
			return
		}
		again, err := layout.ParseTensorSlice(s.String())
		require.NoError(t, err)
		require.True(t, s.Equal(again))
		_, err = layout.NewTensorSlice(s.Extents()...)
		require.NoError(t, err)
		both, ok := s.Intersect(again)
		require.True(t, ok && both.Equal(s))
	})
}

func ExampleTensorSlice() {
	s, _ := layout.ParseTensorSlice("-:0,10")
	shape, err := s.AppendShape(nil, []int64{4, 20})
	fmt.Println(s, shape, err)
	// Output: -:0,10 [4 10] <nil>
}
