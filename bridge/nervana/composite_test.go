package nervana_test

import (
	"errors"
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

// An element identifies an element of a tensor: the source of the tensor and the offset in it.
type element [2]int64

// A selection models a composite: it lists the element for each index, in row-major order.
type selection struct {
	shape    []int64
	elements []element
}

// at returns the element for an index.
func (s selection) at(index []int64) element {
	i := int64(0)
	for d, n := range s.shape {
		i = i*n + index[d]
	}
	return s.elements[i]
}

// pad returns the selection surrounded by element 0 of another tensor.
func (s selection) pad(fill int64, pads [][2]int64) selection {
	padded := selection{shape: slices.Clone(s.shape)}
	for d := range pads {
		padded.shape[d] += pads[d][0] + pads[d][1]
	}
	for _, index := range viewtest.Indices(padded.shape) {
		inside := true
		for d := range index {
			index[d] -= pads[d][0]
			inside = inside && 0 <= index[d] && index[d] < s.shape[d]
		}
		if inside {
			padded.elements = append(padded.elements, s.at(index))
		} else {
			padded.elements = append(padded.elements, element{fill, 0})
		}
	}
	return padded
}

func TestCompositesSelectWhatTheirPartsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const fill = 99
	for range 1000 {
		shape, _ := viewtest.Random(r)
		rank := len(shape)
		var parts []nervana.Composite
		var models []selection
		axis := 0
		if rank > 0 {
			axis = r.IntN(rank)
		}
		for k := range 1 + r.IntN(3) {
			_, strides := viewtest.Random(r)
			l := layout.Layout{Shape: slices.Clone(shape), Strides: make([]int64, rank), Offset: r.Int64N(9)}
			copy(l.Strides, strides)
			if rank > 0 {
				l.Shape[axis] = r.Int64N(4)
			}
			part := must.Do(nervana.Simple(k, l))(t)
			m := selection{shape: l.Shape}
			for _, offset := range viewtest.Offsets(l) {
				m.elements = append(m.elements, element{int64(k), offset})
			}
			if r.IntN(2) == 0 {
				pads := make([][2]int64, rank)
				for d := range pads {
					if pads[d] = [2]int64{r.Int64N(3), r.Int64N(3)}; d != axis {
						pads[d] = [2]int64{1, 1}
					}
				}
				part = must.Do(part.Pad(fill, pads...))(t)
				m = m.pad(fill, pads)
			}
			parts, models = append(parts, part), append(models, m)
		}
		if rank == 0 {
			requireComposite(t, parts[0], models[0])
			must.Fail(nervana.Concat(0, parts...))(t, layout.ErrAxis)
			continue
		}
		joined, err := nervana.Concat(axis-rank, parts...)
		fits := !slices.ContainsFunc(models, func(m selection) bool {
			return !slices.Equal(slices.Delete(slices.Clone(m.shape), axis, axis+1), slices.Delete(slices.Clone(models[0].shape), axis, axis+1))
		})
		if !fits {
			require.ErrorIs(t, err, layout.ErrShape)
			continue
		}
		require.NoError(t, err)
		want := selection{shape: slices.Clone(models[0].shape)}
		want.shape[axis] = 0
		for _, m := range models {
			want.shape[axis] += m.shape[axis]
		}
		for _, index := range viewtest.Indices(want.shape) {
			for _, m := range models {
				if index[axis] < m.shape[axis] {
					want.elements = append(want.elements, m.at(index))
					break
				}
				index[axis] -= m.shape[axis]
			}
		}
		requireComposite(t, joined, want)

		pads := make([][2]int64, rank)
		pads[r.IntN(rank)] = [2]int64{r.Int64N(2), r.Int64N(3)}
		padded := must.Do(joined.Pad(fill+1, pads...))(t)
		requireComposite(t, padded, want.pad(fill+1, pads))
	}
}

// requireComposite checks the element for each index, and that the pieces write each element once, to its place.
func requireComposite(t *testing.T, c nervana.Composite, want selection) {
	t.Helper()
	require.True(t, slices.Equal(want.shape, c.Shape()), "%v %v", want.shape, c.Shape())
	for i, index := range viewtest.Indices(want.shape) {
		source, offset, err := c.OffsetOf(index...)
		require.NoError(t, err)
		require.Equal(t, want.elements[i], element{int64(source), offset})
	}
	dst := must.Do(layout.New(want.shape, nil, nil))(t)
	got := make([]element, len(want.elements))
	written := 0
	require.NoError(t, c.Into(dst, func(dst, src layout.Layout, source int) error {
		from := viewtest.Offsets(src)
		require.NotEmpty(t, from, "pieces without elements are left out")
		for i, to := range viewtest.Offsets(dst) {
			got[to] = element{int64(source), from[i]}
			written++
		}
		return nil
	}))
	require.Equal(t, len(want.elements), written)
	require.True(t, slices.Equal(want.elements, got))
}

func TestCompositesRefuse(t *testing.T) {
	line := rowMajor(t, 0, []int64{3})
	cause := errors.New("full")
	for _, c := range []struct {
		name string
		err  error
		do   func() error
	}{
		{"what is no layout", layout.ErrRank, func() error { _, err := nervana.Simple(0, layout.Layout{Shape: []int64{1}}); return err }},
		{"more elements than can be counted", layout.ErrOverflow, func() error {
			_, err := nervana.Simple(0, layout.Layout{Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{0, 0}})
			return err
		}},
		{"pads for other dimensions", layout.ErrRank, func() error { _, err := line.Pad(1); return err }},
		{"negative pads", layout.ErrNegative, func() error { _, err := line.Pad(1, [2]int64{1, -1}); return err }},
		{"pads that overflow", layout.ErrOverflow, func() error { _, err := line.Pad(1, [2]int64{math.MaxInt64, math.MaxInt64}); return err }},
		{"a padded size that overflows", layout.ErrOverflow, func() error { _, err := line.Pad(1, [2]int64{math.MaxInt64 - 2, 0}); return err }},
		{"a padded count that overflows", layout.ErrOverflow, func() error {
			_, err := rowMajor(t, 0, []int64{1, 1}).Pad(1, [2]int64{1 << 32, 0}, [2]int64{1 << 32, 0})
			return err
		}},
		{"nothing to join", layout.ErrShape, func() error { _, err := nervana.Concat(0); return err }},
		{"no such dimension", layout.ErrAxis, func() error { _, err := nervana.Concat(1, line); return err }},
		{"parts of different rank", layout.ErrShape, func() error { _, err := nervana.Concat(0, line, rowMajor(t, 1, []int64{3, 1})); return err }},
		{"parts of different size", layout.ErrShape, func() error {
			_, err := nervana.Concat(1, rowMajor(t, 0, []int64{3, 1}), rowMajor(t, 1, []int64{2, 1}))
			return err
		}},
		{"a joined size that overflows", layout.ErrOverflow, func() error {
			long := must.Do(nervana.Simple(0, layout.Layout{Shape: []int64{math.MaxInt64}, Strides: []int64{0}}))(t)
			_, err := nervana.Concat(0, long, line)
			return err
		}},
		{"a joined count that overflows", layout.ErrOverflow, func() error {
			wide := must.Do(nervana.Simple(0, layout.Layout{Shape: []int64{1, math.MaxInt64}, Strides: []int64{0, 0}}))(t)
			_, err := nervana.Concat(0, wide, wide)
			return err
		}},
		{"an index of another rank", layout.ErrRank, func() error { _, _, err := line.OffsetOf(0, 0); return err }},
		{"an index past the end", layout.ErrIndex, func() error { _, _, err := line.OffsetOf(3); return err }},
		{"the lowest index", layout.ErrIndex, func() error { _, _, err := line.OffsetOf(-math.MaxInt64 - 1); return err }},
		{"a destination of another shape", layout.ErrShape, func() error { return line.Into(layout.Layout{}, nil) }},
		{"a destination that is no layout", layout.ErrRank, func() error { return line.Into(layout.Layout{Shape: []int64{3}}, nil) }},
		{"a copy that fails", cause, func() error {
			dst := must.Do(layout.New([]int64{3}, nil, nil))(t)
			return line.Into(dst, func(_, _ layout.Layout, _ int) error { return cause })
		}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.ErrorIs(t, c.do(), c.err) })
	}
}

func TestCompositesAreNotChangedByWhatIsMadeOfThem(t *testing.T) {
	c := rowMajor(t, 0, []int64{2, 2})
	require.NoError(t, c.Into(layout.Layout{Shape: []int64{2, 2}, Strides: []int64{2, 1}}, func(dst, src layout.Layout, _ int) error {
		return errors.Join(dst.Transpose(), src.Flip())
	}))
	must.Do(c.Pad(1, [2]int64{1, 0}, [2]int64{}))(t)
	must.Do(nervana.Concat(0, c, c))(t)
	requireComposite(t, c, selection{[]int64{2, 2}, []element{{0, 0}, {0, 1}, {0, 2}, {0, 3}}})
}

func ExampleComposite() {
	l, _ := layout.New([]int64{3}, nil, nil)
	c, _ := nervana.Simple(0, l)
	padded, _ := c.Pad(1, [2]int64{1, 2}) // tensor 1 has the element for the padding

	memory := [][]int{{7, 8, 9}, {0}}
	result := make([]int, 6)
	dst, _ := layout.New(padded.Shape(), nil, nil)
	err := padded.Into(dst, func(dst, src layout.Layout, source int) error {
		for i := range dst.Shape[0] {
			to, _ := dst.OffsetOf(i)
			from, _ := src.OffsetOf(i)
			result[to] = memory[source][from]
		}
		return nil
	})
	fmt.Println(result, err)
	// Output: [0 7 8 9 0 0] <nil>
}

func TestTheZeroCompositeIsRefused(t *testing.T) {
	var zero nervana.Composite
	err := zero.Into(layout.Layout{Shape: []int64{}, Strides: []int64{}}, func(layout.Layout, layout.Layout, int) error {
		t.Error("there is nothing to copy")
		return nil
	})
	assert.ErrorIs(t, err, layout.ErrShape)
	_, _, err = zero.OffsetOf()
	assert.ErrorIs(t, err, layout.ErrIndex)
}

func ExampleConcat() {
	left, _ := nervana.Simple(0, rows())
	right, _ := nervana.Simple(1, rows())
	c, err := nervana.Concat(1, left, right)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Shape())
	fmt.Println(c.OffsetOf(2, 5))
	// Output:
	// [3 8]
	// 1 9 <nil>
}

// rows returns the layout of 3 rows of 4 elements.
func rows() layout.Layout {
	l, _ := layout.New([]int64{3, 4}, nil, nil)
	return l
}
