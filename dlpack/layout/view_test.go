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

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A model models a view: it lists the offset of each element, in row-major order of the indices.
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

// at returns the offset of an element.
func (m model) at(index []int64) int64 {
	i := int64(0)
	for d, n := range m.shape {
		i = i*n + index[d]
	}
	return m.offsets[i]
}

// view returns a model of another shape. from maps an index of the result to an index of m.
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

// strided reports whether the model can be expressed with strides.
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

// python returns the indices that a slice takes of a dimension of size n, by Python's rules.
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

// randomView chooses a random operation on a layout. It returns a text for it, the operation, the model of its result, which is
// computed index by index, and the error that the operation must return.
func randomView(r *rand.Rand, m model) (text string, apply func(l *layout.Layout) error, want model, cause error) {
	rank := len(m.shape)
	axis := func() (given, d int) {
		d = r.IntN(rank)
		if given = d; r.IntN(4) == 0 {
			given -= rank
		}
		return given, d
	}
	op := r.IntN(11)
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
				// The indices after the ellipsis apply to the last dimensions.
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

	case 10: // index
		var given, at []int64
		for d := 0; d < rank && r.IntN(3) > 0 && m.shape[d] > 0; d++ {
			at = append(at, r.Int64N(m.shape[d]))
			given = append(given, at[d]-m.shape[d]*r.Int64N(2))
		}
		want = m.view(m.shape[len(at):], func(index []int64) []int64 { return append(slices.Clone(at), index...) })
		return fmt.Sprint("index ", given), func(l *layout.Layout) error { return l.Index(given...) }, want, nil

	case 1: // narrow
		given, d := axis()
		start := r.Int64N(m.shape[d] + 1)
		size := r.Int64N(m.shape[d] - start + 1)
		shape := slices.Clone(m.shape)
		shape[d] = size
		want = m.view(shape, func(index []int64) []int64 { index[d] += start; return index })
		if start < m.shape[d] && r.Int64N(2) == 0 {
			start -= m.shape[d]
		}
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

// requireWithin checks that a view lies within its base, which spans from low to high: its span and, if it has few elements,
// the offset of each.
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
	for _, at := range modelOf(view).offsets {
		if at < low || at >= high {
			t.Fatalf("%v of %v: has an element at %d, its base spans %d to %d", view, before, at, low, high)
		}
	}
}

func TestG34ViewsAtTheEndsOfTheRangeStayInTheirBase(t *testing.T) {
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

func TestViewsRefuseWhatIsNone(t *testing.T) {
	const least = math.MinInt64
	base := func(shape ...int64) layout.Layout {
		l, err := layout.New(shape, nil, nil)
		require.NoError(t, err)
		return l
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
			"layout: slice: index 0, 3, of dimension 0 of size 3: out of bounds"},
		{"index before the beginning", base(3), func(l *layout.Layout) error { return l.Slice(layout.At(-4)) }, layout.ErrIndex, ""},
		{"lowest index", base(3), func(l *layout.Layout) error { return l.Slice(layout.At(least)) }, layout.ErrIndex, ""},
		{"first index past the end", base(3, 3), func(l *layout.Layout) error { return l.Index(0, 3) }, layout.ErrIndex,
			"layout: index: index[1] = 3 of 3: out of bounds"},
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
			"layout: narrow: 2 from -1 on of dimension 0 of size 3: out of bounds"},
		{"narrow before the beginning", base(3), func(l *layout.Layout) error { return l.Narrow(0, -4, 1) }, layout.ErrIndex,
			"layout: narrow: 1 from -4 on of dimension 0 of size 3: out of bounds"},
		{"narrow to a negative size", base(3), func(l *layout.Layout) error { return l.Narrow(0, 1, -1) }, layout.ErrIndex,
			"layout: narrow: size = -1 is negative"},
		{"narrow wraps", base(3), func(l *layout.Layout) error { return l.Narrow(0, big, big) }, layout.ErrIndex, ""},
		{"narrow too far", far, func(l *layout.Layout) error { return l.Narrow(0, 2, 1) }, layout.ErrOverflow, ""},
		{"narrow of no dimension", base(3), func(l *layout.Layout) error { return l.Narrow(1, 0, 1) }, layout.ErrAxis,
			"layout: narrow: dimension 1 of 1: no such dimension"},
		{"narrow of a dimension before the first", base(3), func(l *layout.Layout) error { return l.Narrow(math.MinInt, 0, 1) }, layout.ErrAxis, ""},
		{"order too short", base(3, 3), func(l *layout.Layout) error { return l.Transpose(0) }, layout.ErrOrder, ""},
		{"order names one twice", base(3, 3), func(l *layout.Layout) error { return l.Transpose(1, -1) }, layout.ErrOrder,
			"layout: transpose: order[1] = -1 names a dimension again"},
		{"order of others", base(3, 3), func(l *layout.Layout) error { return l.Transpose(0, 2) }, layout.ErrOrder, ""},
		{"flip of no dimension", base(3), func(l *layout.Layout) error { return l.Flip(1) }, layout.ErrAxis, ""},
		{"flip twice the same", base(3), func(l *layout.Layout) error { return l.Flip(0, -1) }, layout.ErrAxis,
			"layout: flip: dimension -1 is named twice"},
		{"flip too far", far, func(l *layout.Layout) error { return l.Flip() }, layout.ErrOverflow, ""},
		{"flip of the lowest stride", wide, func(l *layout.Layout) error { return l.Flip(0) }, layout.ErrOverflow, ""},
		{"squeeze of a wide dimension", base(1, 3), func(l *layout.Layout) error { return l.Squeeze(0, 1) }, layout.ErrShape,
			"layout: squeeze: dimension 1 is of size 3: shapes do not fit"},
		{"squeeze of no dimension", base(1), func(l *layout.Layout) error { return l.Squeeze(-2) }, layout.ErrAxis, ""},
		{"expand past the end", base(3), func(l *layout.Layout) error { return l.Expand(2) }, layout.ErrAxis, ""},
		{"expand twice the same", base(3), func(l *layout.Layout) error { return l.Expand(1, -2) }, layout.ErrAxis,
			"layout: expand: dimension -2 is named twice"},
		{"broadcast to another size", base(3), func(l *layout.Layout) error { return l.Broadcast(4) }, layout.ErrShape, ""},
		{"broadcast of no elements", base(0), func(l *layout.Layout) error { return l.Broadcast(4) }, layout.ErrShape, ""},
		{"broadcast to fewer dimensions", base(1, 3), func(l *layout.Layout) error { return l.Broadcast(3) }, layout.ErrShape, ""},
		{"broadcast to a negative size", base(1), func(l *layout.Layout) error { return l.Broadcast(-1) }, layout.ErrNegative, ""},
		{"broadcast to too many", base(1), func(l *layout.Layout) error { return l.Broadcast(1<<32, 1<<32) }, layout.ErrOverflow, ""},
		{"diagonal of one dimension", base(3, 3), func(l *layout.Layout) error { return l.Diagonal(0, 1, -1) }, layout.ErrAxis,
			"layout: diagonal: dimension -1 is named twice"},
		{"diagonal of no dimension", base(3, 3), func(l *layout.Layout) error { return l.Diagonal(0, 2, 1) }, layout.ErrAxis,
			"layout: diagonal: dimension 2 of 2: no such dimension"},
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
			"layout: reshape: the shape has 4 elements, the tensor 3: shapes do not fit"},
		{"reshape with two open sizes", base(3), func(l *layout.Layout) error { return l.Reshape(-1, 3, -1) }, layout.ErrNegative,
			"layout: reshape: shape[0] and shape[2] are -1, which only one size may be"},
		{"reshape to a negative size", base(3), func(l *layout.Layout) error { return l.Reshape(-1, -2) }, layout.ErrNegative,
			"layout: shape[1] = -2: negative dimension"},
		{"reshape with no size for the open one", base(3), func(l *layout.Layout) error { return l.Reshape(2, -1) }, layout.ErrShape,
			"layout: reshape: no size for shape[1] = -1: the others have 2 elements, the tensor 3"},
		{"reshape with any size for the open one", base(0), func(l *layout.Layout) error { return l.Reshape(0, -1) }, layout.ErrShape,
			"layout: reshape: shape[1] = -1 could be any size, since another is 0"},
		{"reshape to too many", base(3), func(l *layout.Layout) error { return l.Reshape(1<<32, 1<<32) }, layout.ErrOverflow, ""},
		{"reshape of too many", layout.Layout{Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{0, 0}},
			func(l *layout.Layout) error { return l.Reshape(-1) }, layout.ErrOverflow, ""},
		{"flat without dimensions", base(3), func(l *layout.Layout) error { return l.FlatInner(0) }, layout.ErrRank,
			"layout: flat: rank 0 is not in 1 to 254"},
		{"flat to too many dimensions", base(3), func(l *layout.Layout) error { return l.FlatOuter(math.MaxInt) }, layout.ErrRank, ""},
		{"flat to as few as there can be", base(3), func(l *layout.Layout) error { return l.FlatInner(math.MinInt) }, layout.ErrRank, ""},
		{"flat from behind the end", base(3), func(l *layout.Layout) error { return l.FlatInnerOuter(1, 2) }, layout.ErrAxis, ""},
		{"flat from before the beginning", base(3), func(l *layout.Layout) error { return l.FlatInnerOuter(-1, 2) }, layout.ErrAxis, ""},
		{"flat with a size that overflows", base(0, 1<<32, 1<<32), func(l *layout.Layout) error { return l.FlatOuter(2) }, layout.ErrOverflow, ""},
		{"flat with gaps", layout.Layout{Shape: []int64{2, 3}, Strides: []int64{4, 1}}, func(l *layout.Layout) error { return l.FlatInner(1) }, layout.ErrCopy, ""},
		{"bitcast of elements of 0 bytes", base(4), func(l *layout.Layout) error { return l.Bitcast(0, 4) }, layout.ErrShape, ""},
		{"bitcast to elements of no bytes", base(4), func(l *layout.Layout) error { return l.Bitcast(4, -4) }, layout.ErrShape, ""},
		{"bitcast of no dimensions", base(), func(l *layout.Layout) error { return l.Bitcast(8, 4) }, layout.ErrRank,
			"layout: bitcast: a scalar has no dimension that could change its size from 8 to 4; Expand makes one"},
		{"bitcast of an odd number", base(3), func(l *layout.Layout) error { return l.Bitcast(4, 8) }, layout.ErrShape,
			"layout: bitcast: 3 elements of 4 are not a whole number of elements of 8: shapes do not fit"},
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
	l, err := layout.New(shape, nil, nil)
	require.NoError(t, err)
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
			l, err := layout.New(c.shape, nil, nil)
			require.NoError(t, err)
			require.NoError(t, c.apply(&l))
			count, err := l.Count()
			require.NoError(t, err)
			assert.Zero(t, count)
			assert.Zero(t, l.Offset)
		})
	}
}

// The result would have more sizes and strides than a slice can hold.
func TestSplitRefusesMoreThanCanBeAddressed(t *testing.T) {
	zeros := make([]int64, 1<<22)
	_, err := layout.Layout{Shape: zeros, Strides: zeros}.Split(0, zeros...)
	assert.ErrorIs(t, err, layout.ErrOverflow)
}

func TestSplitIsWhatNarrowGives(t *testing.T) {
	l, err := layout.New([]int64{4, 7}, nil, []int{1, 0})
	require.NoError(t, err)
	parts, err := l.Split(-1, 3, 0, 4)
	require.NoError(t, err)
	require.Len(t, parts, 3)
	assert.Equal(t, "shape [4 3] strides [1 4] offset 0", parts[0].String())
	assert.Equal(t, []int64{4, 0}, parts[1].Shape)
	assert.Equal(t, "shape [4 4] strides [1 4] offset 12", parts[2].String())

	// Each part has slices of its own.
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
		{"negative", 1, []int64{8, -1}, layout.ErrShape},
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
		for _, offset := range modelOf(l).offsets {
			for i := range size {
				all = append(all, offset*size+i)
			}
		}
		return all
	}
	r := rand.New(rand.NewPCG(11, 12))
	cast := 0
	for range 20_000 {
		shape, strides := random(r)
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

// FuzzViews applies operations with arbitrary numbers to layouts with arbitrary numbers. Nothing may panic, an operation that
// fails must leave the layout unchanged, and a view must lie within its base.
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
		return l.Broadcast(next(), next(), next())
	case 9:
		return l.Diagonal(next(), int(next()), int(next()))
	case 10:
		return l.Windows(int(next()), next(), next(), next())
	case 11:
		return l.Reshape(next(), next(), next())
	case 12:
		return l.FlatInner(int(next()))
	case 13:
		return l.FlatInnerOuter(int(next()), int(next()))
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
