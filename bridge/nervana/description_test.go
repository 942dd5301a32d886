package nervana_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func partial(t testing.TB, text string) layout.PartialShape {
	return must.Do(layout.ParsePartialShape(text))(t)
}

func TestDescriptionsAreRefinedOrSayWhatConflicts(t *testing.T) {
	describe := func(d nervana.Description) *nervana.Description { return &d }
	for _, test := range []struct {
		name   string
		a, b   *nervana.Description
		want   string // or the message
		causes []error
	}{
		{"nothing", describe(nervana.Description{}), describe(nervana.Description{}), "<unknown> <unknown>", nil},
		{"type", describe(nervana.Description{DType: dlpack.Float32}), describe(nervana.Description{Shape: partial(t, "[?,3]")}), "float32 [?,3]", nil},
		{"shapes", describe(nervana.Description{Shape: partial(t, "[2,?]")}), describe(nervana.Description{Shape: partial(t, "[?,3]")}), "<unknown> [2,3]", nil},
		{"rank of an order", describe(nervana.Description{Order: []int{1, 0}}), describe(nervana.Description{}), "<unknown> [?,?] order [1 0]", nil},
		{"order and sizes", describe(nervana.Description{Order: []int{1, 0}, DType: dlpack.Int8}),
			describe(nervana.Description{Shape: partial(t, "[3,2]"), Sizes: []int64{4, 2}, Role: nervana.Variable}), "int8 [3,2] variable order [1 0] sizes [4 2]", nil},
		{"strides with gaps in order", describe(nervana.Description{Order: []int{0, 1}, Shape: partial(t, "[3,2]")}),
			describe(nervana.Description{Strides: []int64{-8, 2}}), "<unknown> [3,2] order [0 1] strides [-8 2]", nil},
		{"strides along one element", describe(nervana.Description{Strides: []int64{5, 1}, Shape: partial(t, "[1,2]")}),
			describe(nervana.Description{Strides: []int64{2, 1}, Access: nervana.RTensor}), "<unknown> [1,2] r-tensor strides [5 1]", nil},
		{"strides along no elements", describe(nervana.Description{Order: []int{0, 1}, Shape: partial(t, "[3,0]")}),
			describe(nervana.Description{Strides: []int64{1, 3}}), "<unknown> [3,0] order [0 1] strides [1 3]", nil},
		{"padded elements", describe(nervana.Description{DType: dlpack.Int4, Padded: true}), describe(nervana.Description{Shape: partial(t, "[3]")}),
			"padded int4 [3]", nil},
		{"padding of whole bytes", describe(nervana.Description{DType: dlpack.Int8, Padded: true}), describe(nervana.Description{DType: dlpack.Int8}),
			"int8 <unknown>", nil},
		{"alignments", describe(nervana.Description{Align: 48}), describe(nervana.Description{Align: 64}), "<unknown> <unknown> aligned to 192 bytes", nil},

		{"types", describe(nervana.Description{DType: dlpack.Float32}), describe(nervana.Description{DType: dlpack.Int32}),
			"nervana: refine: data type float32 conflicts with int32", []error{dlpack.ErrDType}},
		{"packed and padded", describe(nervana.Description{DType: dlpack.Int4}), describe(nervana.Description{DType: dlpack.Int4, Padded: true}),
			"nervana: refine: packed elements of int4 conflict with padded ones", []error{dlpack.ErrDType}},
		{"dimensions", describe(nervana.Description{Shape: partial(t, "[2,?]")}), describe(nervana.Description{Shape: partial(t, "[3,3]")}),
			"nervana: refine: shape [2,?] conflicts with [3,3]", []error{dlpack.ErrLayout, layout.ErrShape}},
		{"access", describe(nervana.Description{Access: nervana.RTensor}), describe(nervana.Description{Access: nervana.LTensor}),
			"nervana: refine: r-tensor conflicts with l-tensor", []error{dlpack.ErrReadOnly}},
		{"roles", describe(nervana.Description{Role: nervana.Constant}), describe(nervana.Description{Role: nervana.Variable}),
			"nervana: refine: constant conflicts with variable", nil},
		{"a constant that is assigned to", describe(nervana.Description{Role: nervana.Constant}), describe(nervana.Description{Access: nervana.LTensor}),
			"nervana: refine: constant conflicts with l-tensor", []error{dlpack.ErrReadOnly}},
		{"a variable that cannot be", describe(nervana.Description{Role: nervana.Variable}), describe(nervana.Description{Access: nervana.RTensor}),
			"nervana: refine: variable conflicts with r-tensor", []error{dlpack.ErrReadOnly}},
		{"orders", describe(nervana.Description{Order: []int{0, 1}}), describe(nervana.Description{Order: []int{1, 0}}),
			"nervana: refine: order [0 1] and [1 0] conflict", []error{dlpack.ErrLayout}},
		{"order of another rank", describe(nervana.Description{Shape: partial(t, "[?]")}), describe(nervana.Description{Order: []int{1, 0}}),
			"nervana: refine: shape [?] conflicts with [?,?]", []error{dlpack.ErrLayout, layout.ErrShape}},
		{"strides in another order", describe(nervana.Description{Order: []int{0, 1}, Shape: partial(t, "[3,2]")}),
			describe(nervana.Description{Strides: []int64{1, 3}}), "nervana: refine: strides [1 3] conflict with order [0 1]", []error{dlpack.ErrLayout}},
		{"strides of other sizes", describe(nervana.Description{Sizes: []int64{3, 4}, Shape: partial(t, "[3,2]")}),
			describe(nervana.Description{Strides: []int64{2, 1}}), "nervana: refine: strides [2 1] conflict with the strides [4 1] of the sizes [3 4]", []error{dlpack.ErrLayout}},
		{"other strides", describe(nervana.Description{Strides: []int64{4, 1}, Shape: partial(t, "[?,2]")}),
			describe(nervana.Description{Strides: []int64{2, 1}}), "nervana: refine: strides [4 1] and [2 1] conflict", []error{dlpack.ErrLayout}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := *test.a
			err := a.Refine(test.b)
			if _, bErr := test.a.Known(); bErr != nil {
				t.Fatal(bErr)
			}
			if err == nil {
				assert.Equal(t, test.want, a.String())
				require.NoError(t, a.Refine(test.b), "again")
				assert.Equal(t, test.want, a.String())
				return
			}
			assert.EqualError(t, err, test.want)
			assert.ErrorIs(t, err, nervana.ErrConflict)
			for _, cause := range test.causes {
				assert.ErrorIs(t, err, cause)
			}
			assert.Equal(t, test.a.String(), a.String(), "as it was")
		})
	}
}

// Refining a by b has the same result as refining b by a: the same properties or a conflict. Refining again changes
// nothing.
func TestRefinementIsTheSameEitherWay(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 2))
	pick := func(n int) bool { return random.IntN(n) == 0 }
	shapes := []string{"<unknown>", "[?,?]", "[2,?]", "[?,3]", "[2,3]", "[1,3]", "[0,3]", "[?]"}
	lists := [][]int64{{3, 1}, {1, 2}, {2, 3}, {4, 3}, {4, 1}}
	describe := func() nervana.Description {
		d := nervana.Description{Shape: partial(t, shapes[random.IntN(len(shapes))])}
		if pick(2) {
			d.DType, d.Padded = []dlpack.DataType{dlpack.Int4, dlpack.Float32}[random.IntN(2)], pick(2)
		}
		if pick(3) {
			d.Role = nervana.Role(random.IntN(16))
		}
		if pick(3) {
			d.Access = nervana.Access(random.IntN(3))
		}
		d.Align = []int64{0, 0, 4, 6}[random.IntN(4)]
		if pick(4) {
			d.Order = []int{0, 1}
			random.Shuffle(2, func(i, j int) { d.Order[i], d.Order[j] = d.Order[j], d.Order[i] })
		}
		if pick(4) {
			d.Sizes = lists[random.IntN(len(lists))]
		}
		if pick(4) {
			d.Strides = lists[random.IntN(len(lists))]
		}
		return d
	}
	refined, conflicts := 0, 0
	for range 20000 {
		a, b := describe(), describe()
		if _, err := a.Known(); err != nil {
			continue
		}
		if _, err := b.Known(); err != nil {
			continue
		}
		ab, ba := a, b
		errA, errB := ab.Refine(&b), ba.Refine(&a)
		require.Equal(t, errA == nil, errB == nil, "%v, %v: %v, %v", &a, &b, errA, errB)
		if errA != nil {
			conflicts++
			require.Equal(t, a, ab)
			continue
		}
		refined++
		again := ab
		require.NoError(t, again.Refine(&b))
		require.Equal(t, ab, again)
		ab.Strides, ba.Strides = nil, nil // along one element, or none, either of the two is valid
		require.Equal(t, ab.String(), ba.String())
	}
	assert.Greater(t, refined, 1000)
	assert.Greater(t, conflicts, 1000)
}
