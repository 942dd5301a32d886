//go:build cgo

package core_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A strided is a layout in testdata/views.json.
type strided struct {
	Shape, Strides []int64
	Offset         int64
}

func (s strided) layout() layout.Layout {
	return layout.Layout{Shape: s.Shape, Strides: s.Strides, Offset: s.Offset}.Clone()
}

// A view is an operation on a layout, with the resulting view or error, the same in Go and in C. The arguments of a
// slice are indices in Python's notation.
type view struct {
	Name           string
	Op             string
	Of             strided
	Args           []int64
	Index          []string
	View           *strided
	Error, Message string
}

// A cause of an error of package layout, with its name in the table and the status of the C code.
type cause struct {
	name   string
	err    error
	status core.Status
}

var causes = []cause{
	{"index", layout.ErrIndex, core.BadArgument},
	{"axis", layout.ErrAxis, core.BadArgument},
	{"order", layout.ErrOrder, core.BadArgument},
	{"rank", layout.ErrRank, core.BadArgument},
	{"shape", layout.ErrShape, core.BadLayout},
	{"negative", layout.ErrNegative, core.BadLayout},
	{"overflow", layout.ErrOverflow, core.Overflow},
	{"copy", layout.ErrCopy, core.NeedsCopy},
}

// parse reads an index in Python's notation, for Go and for C.
func parse(t testing.TB, text string) (layout.Index, core.ViewIndex) {
	number := func(text string) int64 {
		return must.Do(strconv.ParseInt(text, 10, 64))(t)
	}
	inC := core.ViewIndex{Step: 1}
	parts := strings.Split(text, ":")
	switch {
	case text == "...":
		inC.Kind = core.Ellipsis
		return layout.Ellipsis(), inC
	case text == "None":
		inC.Kind = core.NewAxis
		return layout.NewAxis(), inC
	case len(parts) == 1:
		inC.Start, inC.Kind = number(text), core.KindAt
		return layout.At(inC.Start), inC
	}
	if parts[0] != "" {
		inC.Start, inC.Kind = number(parts[0]), inC.Kind|core.GivesStart
	}
	if parts[1] != "" {
		inC.Stop, inC.Kind = number(parts[1]), inC.Kind|core.GivesStop
	}
	if len(parts) > 2 {
		inC.Step = number(parts[2])
	}
	inGo := []layout.Index{layout.All(), layout.From(inC.Start), layout.Until(inC.Stop), layout.Range(inC.Start, inC.Stop)}
	return inGo[inC.Kind].By(inC.Step), inC
}

// apply makes the view in Go and in C, and requires that they agree: on the layout or, if there is none, on the cause and text
// of the error.
func (v view) apply(t testing.TB) (layout.Layout, error) {
	base := v.Of.layout()
	l := base.Clone()
	var indices []layout.Index
	var inC []core.ViewIndex
	for _, text := range v.Index {
		x, y := parse(t, text)
		indices, inC = append(indices, x), append(inC, y)
	}
	axes := make([]int, len(v.Args))
	for k, n := range v.Args {
		axes[k] = int(n)
	}
	arg := map[string]any{"slice": indices, "index": v.Args, "reshape": v.Args, "broadcast": v.Args}[v.Op]
	if arg == nil {
		arg = axes
	}
	method := strings.ToUpper(v.Op[:1]) + v.Op[1:]
	if v.Op == "broadcast" {
		method = "BroadcastTo"
	}
	args := []any{arg}
	if v.Op == "bitcast" {
		args = []any{v.Args[0], v.Args[1]}
	}
	_, err := viewtest.View{Method: method, Args: args}.Layouts(&l)

	shape, strides, offset, status, message := core.ViewInC(v.Op, base.Shape, base.Strides, base.Offset, v.Args, inC)
	if err == nil {
		require.Equal(t, core.OK, status, "C: %s: %+v", message, v)
		got := layout.Layout{Shape: shape, Strides: strides, Offset: offset}
		if !slices.Equal(l.Shape, shape) || !slices.Equal(l.Strides, strides) || l.Offset != offset {
			require.Fail(t, "different layouts", "Go: %v, C: %v: %+v", l, got, v)
		}
		return l, nil
	}
	require.Equal(t, statusOf(t, err), status, "Go: %v: %+v", err, v)
	require.Equal(t, textOf(err, v.Op), message, "%+v", v)
	return l, err
}

func statusOf(t testing.TB, err error) core.Status {
	for _, cause := range causes {
		if errors.Is(err, cause.err) {
			return cause.status
		}
	}
	require.Fail(t, "no cause", "%v", err)
	return core.OK
}

// textOf returns the text of an error of package layout without the names of package and operation, which differ in C.
func textOf(err error, op string) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "layout: "), op+": ")
}

func TestViewsInGoAndCAreThoseOfTheTable(t *testing.T) {
	text := must.Do(os.ReadFile("testdata/views.json"))(t)
	var table []view
	require.NoError(t, json.Unmarshal(text, &table))
	seen := map[string]bool{}
	for _, v := range table {
		name := v.Op + " " + v.Name
		require.False(t, seen[name], "%s: twice", name)
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			l, err := v.apply(t)
			if v.View != nil {
				require.NoError(t, err)
				assert.Equal(t, v.View.layout(), l)
				return
			}
			require.Error(t, err)
			at := slices.IndexFunc(causes, func(c cause) bool { return c.name == v.Error })
			require.GreaterOrEqual(t, at, 0, v.Error)
			assert.ErrorIs(t, err, causes[at].err)
			assert.Equal(t, v.Message, textOf(err, v.Op))
		})
	}
	for _, op := range []string{"slice", "index", "transpose", "reshape", "broadcast", "flip", "squeeze", "expand", "bitcast"} {
		assert.True(t, slices.ContainsFunc(table, func(v view) bool { return v.Op == op && v.View != nil }), op)
		assert.True(t, slices.ContainsFunc(table, func(v view) bool { return v.Op == op && v.Error != "" }), op)
	}
}

// The generator of the tests of package layout chooses the views.
func TestRandomViewsAreTheSameInGoAndC(t *testing.T) {
	testmode.SkipLong(t)
	r := rand.New(rand.NewPCG(17, 1))
	choices := make([]byte, 200)
	views, overlaps := map[string]int{}, 0
	for range 100_000 {
		shape, strides := viewtest.Random(r)
		l := layout.Layout{Shape: shape, Strides: strides, Offset: r.Int64N(50)}
		inGo := layout.Overlaps(shape, strides)
		require.Equal(t, inGo, core.OverlapsInC(shape, strides), "%v", l)
		if inGo {
			overlaps++
		}
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		c := viewtest.Choices(choices)
		for range 1 + r.IntN(4) {
			chosen := c.View(viewtest.Of(l))
			v := view{Op: strings.ToLower(strings.TrimSuffix(chosen.Method, "To")), Of: strided{l.Shape, l.Strides, l.Offset}}
			switch arg := chosen.Args[0].(type) {
			case []layout.Index:
				for _, x := range arg {
					v.Index = append(v.Index, x.String())
				}
			case []int64:
				v.Args = arg
			case []int:
				for _, d := range arg {
					v.Args = append(v.Args, int64(d))
				}
			default:
				continue // a view that C lacks
			}
			next, err := v.apply(t)
			if err == nil {
				l = next
				views[v.Op]++
			}
			if count, _ := l.Count(); count > 2000 {
				break
			}
		}
	}
	assert.Greater(t, overlaps, 1000)
	for _, op := range []string{"slice", "index", "transpose", "reshape", "broadcast", "flip", "squeeze", "expand"} {
		assert.Greater(t, views[op], 1000, op)
	}
}

// Sizes, strides, offsets and arguments at the ends of the range of int64.
func TestViewsAtTheEndsOfTheRangeAreTheSameInGoAndC(t *testing.T) {
	testmode.SkipLong(t)
	r := rand.New(rand.NewPCG(17, 2))
	extreme := func() int64 {
		switch r.IntN(8) {
		case 0:
			return math.MaxInt64 - r.Int64N(3)
		case 1:
			return math.MinInt64 + r.Int64N(3)
		case 2:
			return 1<<r.IntN(63) + r.Int64N(5) - 2
		case 3:
			return int64(r.Uint64())
		}
		return r.Int64N(7) - 3
	}
	ops := []string{"slice", "index", "transpose", "reshape", "broadcast", "flip", "squeeze", "expand"}
	made, refused := 0, map[core.Status]int{}
	for range 200_000 {
		v := view{Op: ops[r.IntN(len(ops))], Of: strided{Offset: extreme()}}
		for range r.IntN(4) {
			size := 1 + r.Int64N(4)
			if r.IntN(4) == 0 {
				size = extreme()
			}
			v.Of.Shape, v.Of.Strides = append(v.Of.Shape, size), append(v.Of.Strides, extreme())
		}
		for range r.IntN(5) {
			switch n := extreme(); v.Op {
			case "slice":
				x := []layout.Index{
					layout.At(n), layout.From(n), layout.Until(n), layout.Range(n, extreme()), layout.All(), layout.Ellipsis(), layout.NewAxis(),
				}[r.IntN(7)]
				v.Index = append(v.Index, x.By(extreme()).String())
			case "index", "reshape", "broadcast":
				v.Args = append(v.Args, n)
			default:
				v.Args = append(v.Args, int64(int32(n))) // C has 32 bits for an axis
			}
		}
		if _, err := v.apply(t); err != nil {
			refused[statusOf(t, err)]++
		} else {
			made++
		}
	}
	assert.Greater(t, made, 10_000)
	for _, status := range []core.Status{core.BadArgument, core.BadLayout, core.Overflow, core.NeedsCopy} {
		assert.Greater(t, refused[status], 100, status)
	}
}

// Only C limits the rank of a layout. In Go the limit is that of a tensor.
func TestViewsInCHaveARankOf256AtMost(t *testing.T) {
	ones := slices.Repeat([]int64{1}, 256)
	axes := []int64{0, 1, 2, 3}
	newAxes := slices.Repeat([]core.ViewIndex{{Step: 1, Kind: core.NewAxis}}, 256)
	indices := slices.Repeat([]core.ViewIndex{{Step: 1, Kind: core.KindAt}}, 256)
	all := core.ViewIndex{Step: 1, Kind: core.Ellipsis}

	shape, _, _, status, _ := core.ViewInC("expand", ones[:252], ones[:252], 0, axes, nil)
	assert.Equal(t, core.OK, status)
	assert.Len(t, shape, 256)
	shape, _, _, status, _ = core.ViewInC("slice", ones, ones, 0, nil, append(slices.Concat(indices, newAxes), all))
	assert.Equal(t, core.OK, status)
	assert.Len(t, shape, 256)

	const tooHigh = "ndim = 257 is not in 0..256"
	for _, c := range []struct {
		op      string
		rank    int
		numbers []int64
		indices []core.ViewIndex
		status  core.Status
		message string
	}{
		{"expand", 253, axes, nil, core.BadLayout, tooHigh},
		{"reshape", 1, slices.Repeat([]int64{1}, 257), nil, core.BadLayout, tooHigh},
		{"broadcast", 1, slices.Repeat([]int64{1}, 257), nil, core.BadLayout, tooHigh},
		{"slice", 1, nil, newAxes, core.BadLayout, tooHigh},
		{"slice", 1, nil, slices.Repeat(newAxes, 3)[:514], core.BadArgument, "514 indices are more than 256 dimensions can have"},
		{"slice", 1, nil, []core.ViewIndex{{Step: 1, Kind: 5}}, core.BadArgument, "index 0 has the unknown kind 0x5"},
	} {
		_, _, _, status, message := core.ViewInC(c.op, ones[:c.rank], ones[:c.rank], 0, c.numbers, c.indices)
		assert.Equal(t, c.status, status, c.op)
		assert.Equal(t, c.message, message, c.op)
	}
}
