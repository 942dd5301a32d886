package layout_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A model is a view the long way: a shape and the offset of each element, in row-major order.
type model struct {
	shape   []int64
	offsets []int64
}

func modelOf(l layout.Layout) model {
	m := model{shape: slices.Clone(l.Shape), offsets: offsets(l.Shape, l.Strides)}
	for i := range m.offsets {
		m.offsets[i] += l.Offset
	}
	return m
}

// at is the offset of an element.
func (m model) at(index []int64) int64 {
	i := int64(0)
	for d, n := range m.shape {
		i = i*n + index[d]
	}
	return m.offsets[i]
}

// view is a model of another shape; from says which index of m an index of it is.
func (m model) view(shape []int64, from func(index []int64) []int64) model {
	v := model{shape: slices.Clone(shape)}
	index := make([]int64, len(shape))
	var fill func(d int)
	fill = func(d int) {
		if d == len(shape) {
			v.offsets = append(v.offsets, m.at(from(slices.Clone(index))))
			return
		}
		for i := range shape[d] {
			index[d] = i
			fill(d + 1)
		}
	}
	fill(0)
	return v
}

// strided tells whether strides give the model, which is a view of one shape only then.
func (m model) strided() bool {
	strides := make([]int64, len(m.shape))
	step := 1
	for d := len(m.shape) - 1; d >= 0; d-- {
		if len(m.offsets) > 0 && m.shape[d] > 1 {
			strides[d] = m.offsets[step] - m.offsets[0]
		}
		step *= int(m.shape[d])
	}
	for i, offset := range offsets(m.shape, strides) {
		if m.offsets[i] != m.offsets[0]+offset {
			return false
		}
	}
	return true
}

// python is what a slice takes of a dimension of size n, counted out.
func python(n, start, stop, step int64, from, to bool) []int64 {
	inside := func(i int64) bool { return 0 <= i && i < n }
	if from && start < 0 {
		start += n
	}
	if to && stop < 0 {
		stop += n
	}
	taken := []int64{}
	if step > 0 {
		if !from {
			start = 0
		}
		for i := max(start, 0); inside(i); i += step {
			if to && i >= stop {
				break
			}
			taken = append(taken, i)
		}
		return taken
	}
	if !from {
		start = n - 1
	}
	for i := min(start, n-1); inside(i); i += step {
		if to && i <= stop {
			break
		}
		taken = append(taken, i)
	}
	return taken
}

// A randomView is one random operation on a layout and, index by index, on its model. It returns its
// text and the error that has to come.
func randomView(r *rand.Rand, m model) (text string, apply func(l *layout.Layout) error, want model, cause error) {
	rank := len(m.shape)
	axis := func() (given, d int) {
		d = r.IntN(rank)
		if given = d; r.IntN(4) == 0 {
			given -= rank
		}
		return given, d
	}
	op := r.IntN(10)
	if rank == 0 && (op == 1 || op == 7 || op == 8) || rank < 2 && op == 6 {
		op = 0
	}
	switch op {
	case 0: // slice
		var index []layout.Index
		var shape []int64
		type part struct {
			taken []int64 // nil: a new dimension
			one   bool
		}
		var parts []part
		whole := func(n int64) part { return part{taken: python(n, 0, 0, 1, false, false)} }
		d, ellipsis := 0, rank > 0 && r.IntN(4) == 0
		for d < rank && (r.IntN(6) > 0 || ellipsis) {
			n := m.shape[d]
			switch pick := r.IntN(8); {
			case pick == 0:
				index = append(index, layout.NewAxis())
				parts = append(parts, part{})
				shape = append(shape, 1)
				continue
			case pick == 1 && ellipsis:
				ellipsis = false
				index = append(index, layout.Ellipsis())
				for skip := r.IntN(rank - d + 1); skip > 0; skip-- {
					parts = append(parts, whole(m.shape[d]))
					shape = append(shape, m.shape[d])
					d++
				}
				// What follows the ellipsis has to reach the end.
				for d < rank {
					index = append(index, layout.All())
					parts = append(parts, whole(m.shape[d]))
					shape = append(shape, m.shape[d])
					d++
				}
				continue
			case pick == 2 && n > 0:
				i := r.Int64N(n)
				parts = append(parts, part{taken: []int64{i}, one: true})
				if r.IntN(2) == 0 {
					i -= n
				}
				index = append(index, layout.At(i))
			default:
				start, stop, step := r.Int64N(2*n+5)-n-2, r.Int64N(2*n+5)-n-2, r.Int64N(7)-3
				if step == 0 {
					step = 1
				}
				x, from, to := layout.All(), r.IntN(3) > 0, r.IntN(3) > 0
				switch {
				case from && to:
					x = layout.Range(start, stop)
				case from:
					x = layout.From(start)
				case to:
					x = layout.Until(stop)
				}
				taken := python(n, start, stop, step, from, to)
				index = append(index, x.By(step))
				parts = append(parts, part{taken: taken})
				shape = append(shape, int64(len(taken)))
			}
			d++
		}
		for ; d < rank; d++ {
			parts = append(parts, whole(m.shape[d]))
			shape = append(shape, m.shape[d])
		}
		want = m.view(shape, func(index []int64) []int64 {
			var from []int64
			for _, p := range parts {
				switch {
				case p.one:
					from = append(from, p.taken[0])
				case p.taken == nil:
					index = index[1:]
				default:
					from = append(from, p.taken[index[0]])
					index = index[1:]
				}
			}
			return from
		})
		return fmt.Sprint("slice ", index), func(l *layout.Layout) error { return l.Slice(index...) }, want, nil

	case 1: // narrow
		given, d := axis()
		start := r.Int64N(m.shape[d] + 1)
		size := r.Int64N(m.shape[d] - start + 1)
		shape := slices.Clone(m.shape)
		shape[d] = size
		want = m.view(shape, func(index []int64) []int64 { index[d] += start; return index })
		return fmt.Sprint("narrow ", given, start, size), func(l *layout.Layout) error { return l.Narrow(given, start, size) }, want, nil

	case 2: // transpose
		order := r.Perm(rank)
		given := slices.Clone(order)
		if r.IntN(4) == 0 {
			slices.Reverse(order)
			for k := range order {
				order[k] = rank - 1 - k
			}
			given = nil
		}
		shape := make([]int64, rank)
		for k, d := range order {
			shape[k] = m.shape[d]
		}
		want = m.view(shape, func(index []int64) []int64 {
			from := make([]int64, rank)
			for k, d := range order {
				from[d] = index[k]
			}
			return from
		})
		return fmt.Sprint("transpose ", given), func(l *layout.Layout) error { return l.Transpose(given...) }, want, nil

	case 3: // flip
		var axes []int
		turned := make([]bool, rank)
		for d := range turned {
			if turned[d] = r.IntN(2) == 0; turned[d] {
				axes = append(axes, d)
			}
		}
		if len(axes) == 0 {
			for d := range turned {
				turned[d] = true
			}
		}
		want = m.view(m.shape, func(index []int64) []int64 {
			for d := range index {
				if turned[d] {
					index[d] = m.shape[d] - 1 - index[d]
				}
			}
			return index
		})
		return fmt.Sprint("flip ", axes), func(l *layout.Layout) error { return l.Flip(axes...) }, want, nil

	case 4: // squeeze and expand
		if r.IntN(2) == 0 {
			at := r.IntN(rank + 1)
			want = model{slices.Insert(slices.Clone(m.shape), at, 1), m.offsets}
			return fmt.Sprint("expand ", at), func(l *layout.Layout) error { return l.Expand(at) }, want, nil
		}
		want = model{slices.DeleteFunc(slices.Clone(m.shape), func(n int64) bool { return n == 1 }), m.offsets}
		return "squeeze", func(l *layout.Layout) error { return l.Squeeze() }, want, nil

	case 5: // broadcast
		shape := slices.Clone(m.shape)
		for d, n := range shape {
			if n == 1 && r.IntN(2) == 0 {
				shape[d] = r.Int64N(4)
			}
		}
		missing := 0
		for len(shape) < 5 && r.IntN(3) == 0 {
			shape = slices.Insert(shape, 0, 1+r.Int64N(3))
			missing++
		}
		want = m.view(shape, func(index []int64) []int64 {
			index = index[missing:]
			for d := range index {
				index[d] = min(index[d], m.shape[d]-1)
			}
			return index
		})
		return fmt.Sprint("broadcast ", shape), func(l *layout.Layout) error { return l.Broadcast(shape...) }, want, nil

	case 6: // diagonal
		two := r.Perm(rank)[:2]
		a, b, k := two[0], two[1], r.Int64N(7)-3
		rows, columns := max(-k, 0), max(k, 0) // where it begins
		var shape []int64
		for d, n := range m.shape {
			if d != a && d != b {
				shape = append(shape, n)
			}
		}
		shape = append(shape, max(min(m.shape[a]-rows, m.shape[b]-columns), 0))
		want = m.view(shape, func(index []int64) []int64 {
			i := index[len(index)-1]
			var from []int64
			for d := range m.shape {
				switch d {
				case a:
					from = append(from, rows+i)
				case b:
					from = append(from, columns+i)
				default:
					from = append(from, index[0])
					index = index[1:]
				}
			}
			return from
		})
		return fmt.Sprint("diagonal ", k, a, b), func(l *layout.Layout) error { return l.Diagonal(k, a, b) }, want, nil

	case 7: // windows
		given, d := axis()
		size, step, dilation := 1+r.Int64N(3), 1+r.Int64N(3), 1+r.Int64N(2)
		shape := slices.Clone(m.shape)
		if (size-1)*dilation >= shape[d] {
			cause = layout.ErrShape
		} else {
			shape[d] = 0
			for first := int64(0); first+(size-1)*dilation < m.shape[d]; first += step {
				shape[d]++
			}
			want = m.view(append(shape, size), func(index []int64) []int64 {
				index[d] = index[d]*step + index[rank]*dilation
				return index[:rank]
			})
		}
		return fmt.Sprint("windows ", given, size, step, dilation), func(l *layout.Layout) error { return l.Windows(given, size, step, dilation) }, want, cause

	case 8: // flat
		to := 1 + r.IntN(rank+1)
		shape := slices.Clone(m.shape)
		outer := r.IntN(2) == 0
		for len(shape) > to {
			if outer {
				n := len(shape)
				shape = append(shape[:n-2], shape[n-2]*shape[n-1])
			} else {
				shape = append([]int64{shape[0] * shape[1]}, shape[2:]...)
			}
		}
		for len(shape) < to {
			at := 0
			if outer {
				at = len(shape)
			}
			shape = slices.Insert(shape, at, 1)
		}
		if want = (model{shape, m.offsets}); !want.strided() {
			cause = layout.ErrCopy
		}
		return fmt.Sprint("flat ", to, outer), func(l *layout.Layout) error {
			if outer {
				return l.FlatOuter(to)
			}
			return l.FlatInner(to)
		}, want, cause

	default: // reshape
		count := int64(len(m.offsets))
		var shape []int64
		rest := count
		for rest > 1 && len(shape) < 5 {
			divisors := []int64{1}
			for n := int64(2); n <= rest; n++ {
				if rest%n == 0 {
					divisors = append(divisors, n)
				}
			}
			n := divisors[r.IntN(len(divisors))]
			shape, rest = append(shape, n), rest/n
		}
		shape = append(shape, rest)
		if want = (model{shape, m.offsets}); !want.strided() {
			cause = layout.ErrCopy
		}
		given := slices.Clone(shape)
		if count > 0 && r.IntN(3) == 0 {
			given[r.IntN(len(given))] = -1
		}
		return fmt.Sprint("reshape ", given), func(l *layout.Layout) error { return l.Reshape(given...) }, want, cause
	}
}

func TestG34RandomViewsAreWhatCountingIndicesGives(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	views, refused := 0, 0
	for views < 100_000 {
		shape, strides := random(r)
		l := layout.Layout{Shape: shape, Strides: strides, Offset: r.Int64N(50)}
		low, high, err := l.Span()
		require.NoError(t, err)
		m := modelOf(l)
		trace := l.String()
		for range 1 + r.IntN(4) {
			text, apply, want, cause := randomView(r, m)
			trace += "; " + text
			before := l.Clone()
			err := apply(&l)
			if cause != nil {
				refused++
				if !errors.Is(err, cause) || !slices.Equal(l.Shape, before.Shape) || !slices.Equal(l.Strides, before.Strides) || l.Offset != before.Offset {
					t.Fatalf("%s: %v: want %v, and the layout as it was; it is %v", trace, err, cause, l)
				}
				continue
			}
			got := modelOf(l)
			if err != nil || !slices.Equal(got.shape, want.shape) || !slices.Equal(got.offsets, want.offsets) {
				t.Fatalf("%s: %v: got %v %v, want %v %v", trace, err, got.shape, got.offsets, want.shape, want.offsets)
			}
			m = want
			views++
			lo, hi, err := l.Span()
			if err != nil || lo < hi && (lo < low || hi > high) {
				t.Fatalf("%s: %v: spans %d to %d, its base %d to %d", trace, err, lo, hi, low, high)
			}
			if len(m.offsets) > 2000 {
				break
			}
		}
	}
	assert.Greater(t, refused, 1000)
}

func TestViewsInPlaceDoNotAllocate(t *testing.T) {
	base, err := layout.New([]int64{4, 1, 6, 8}, []int64{4, 1, 6, 16}, nil)
	require.NoError(t, err)
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

var views = []struct {
	name  string
	apply func(l *layout.Layout) error
}{
	{"Slice", func(l *layout.Layout) error {
		return l.Slice(layout.At(1), layout.Ellipsis(), layout.Range(1, -1).By(2), layout.NewAxis())
	}},
	{"Narrow", func(l *layout.Layout) error { return l.Narrow(2, 1, 3) }},
	{"Transpose", func(l *layout.Layout) error { return l.Transpose(3, 1, 0, 2) }},
	{"Flip", func(l *layout.Layout) error { return l.Flip(-1) }},
	{"Squeeze", func(l *layout.Layout) error { return l.Squeeze() }},
	{"Expand", func(l *layout.Layout) error { return l.Expand(0, -1) }},
	{"Broadcast", func(l *layout.Layout) error { return l.Broadcast(2, 4, 3, 6, 8) }},
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
	// As l[1, ..., ::-2] in Python.
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
