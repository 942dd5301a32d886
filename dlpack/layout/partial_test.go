package layout_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestPartialShapesAreParsedAsTheyArePrinted(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		err              error
	}{
		{"unknown rank", "<unknown>", "<unknown>", nil},
		{"no dimensions", "[]", "[]", nil},
		{"spaces", "[ 4 , ? ]", "[4,?]", nil},
		{"only a space", "[ ]", "[]", nil},
		{"the largest", "[9223372036854775807]", "[9223372036854775807]", nil},
		{"more than the largest", "[9223372036854775808]", "", layout.ErrSyntax},
		{"negative", "[-1]", "", layout.ErrSyntax},
		{"with a sign", "[+1]", "", layout.ErrSyntax},
		{"too many elements", "[4294967296,4294967296]", "", layout.ErrOverflow},
		{"too many elements but for one", "[4294967296,4294967296,?]", "[4294967296,4294967296,?]", nil},
		{"not opened", "4]", "", layout.ErrSyntax},
		{"not closed", "[4", "", layout.ErrSyntax},
		{"one bracket", "[", "", layout.ErrSyntax},
		{"nothing between commas", "[4,,5]", "", layout.ErrSyntax},
		{"nothing", "", "", layout.ErrSyntax},
		{"most dimensions", "[" + strings.Repeat("1,", 253) + "1]", "[" + strings.Repeat("1,", 253) + "1]", nil},
		{"too many dimensions", "[" + strings.Repeat("1,", 254) + "1]", "", layout.ErrRank},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := layout.ParsePartialShape(c.text)
			require.ErrorIs(t, err, c.err)
			if c.err == nil {
				assert.Equal(t, c.want, s.String())
			}
		})
	}
	_, err := layout.ParsePartialShape("[4,x]")
	assert.EqualError(t, err, `layout: partial shape: size 1 is "x": syntax error`)
}

func TestPartialShapesTellWhatIsKnown(t *testing.T) {
	var unknown layout.PartialShape
	_, ok := unknown.Rank()
	assert.False(t, ok)
	assert.Nil(t, unknown.Dims())
	assert.EqualValues(t, layout.Unknown, unknown.Dim(0))
	stays := must.Do(unknown.Replace(5, 3, 7))(t)
	assert.True(t, stays.Equal(unknown))
	assert.False(t, unknown.HasPrefix(unknown))
	assert.False(t, unknown.HasSuffix(unknown))

	dims := []int64{4, layout.Unknown}
	s := must.Do(layout.NewPartialShape(dims...))(t)
	dims[0] = 5
	assert.Equal(t, []int64{4, layout.Unknown}, s.Dims())
	s.Dims()[0] = 6
	assert.EqualValues(t, 4, s.Dim(0))
	assert.EqualValues(t, layout.Unknown, s.Dim(1))
	assert.EqualValues(t, layout.Unknown, s.Dim(2))
	assert.EqualValues(t, layout.Unknown, s.Dim(-1))
	must.Fail(s.Replace(1, 3))(t, layout.ErrAxis)
	must.Fail(s.Replace(-1, 0))(t, layout.ErrAxis)
	must.Fail(s.Replace(1, 0))(t, layout.ErrAxis)
	must.Fail(s.Replace(0, 0, make([]int64, layout.MaxPartialRank-1)...))(t, layout.ErrRank)
	must.Fail(layout.NewPartialShape(math.MinInt64))(t, layout.ErrNegative)

	scalar := must.Do(layout.NewPartialShape())(t)
	assert.Equal(t, []int64{}, scalar.Dims())
	assert.False(t, scalar.Equal(unknown))

	// Each shape is small enough, but the merged shape is not.
	a := must.Do(layout.NewPartialShape(1<<32, layout.Unknown))(t)
	b := must.Do(layout.NewPartialShape(layout.Unknown, 1<<32))(t)
	assert.True(t, a.CompatibleWith(b))
	must.Fail(a.Merge(b))(t, layout.ErrOverflow)
}

func FuzzPartialShape(f *testing.F) {
	f.Add("[4,?]", "<unknown>")
	f.Add("[]", "[ 1 ,? , 0]")
	f.Add("[?,6]", "[4,?]")
	f.Fuzz(func(t *testing.T, x, y string) {
		a, err := layout.ParsePartialShape(x)
		if err != nil {
			return
		}
		again := must.Do(layout.ParsePartialShape(a.String()))(t)
		require.True(t, a.Equal(again))
		b, err := layout.ParsePartialShape(y)
		if err != nil {
			return
		}
		require.Equal(t, a.CompatibleWith(b), b.CompatibleWith(a))
		require.True(t, a.Refines(a.Relax(b)))
		require.True(t, b.Refines(a.Relax(b)))
		if merged, err := a.Merge(b); err == nil {
			require.True(t, a.CompatibleWith(b))
			require.True(t, merged.Refines(a) && merged.Refines(b))
			other := must.Do(b.Merge(a))(t)
			require.True(t, merged.Equal(other))
		}
	})
}

func ExamplePartialShape_Merge() {
	a, _ := layout.ParsePartialShape("[?,6]")
	b, _ := layout.ParsePartialShape("[4,?]")
	merged, err := a.Merge(b)
	fmt.Println(merged, merged.IsFullyDefined(), err)
	// Output: [4,6] true <nil>
}
