package tens_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

func TestStrides(t *testing.T) {
	for _, test := range []struct {
		name    string
		shape   []int64
		order   []int
		ascend  []bool
		strides []int64
		offset  int64
	}{
		{"rank 0", nil, nil, nil, []int64{}, 0},
		{"rank 0 with empty lists", []int64{}, []int{}, []bool{}, []int64{}, 0},
		{"C order", []int64{3, 2, 4}, nil, nil, []int64{8, 4, 1}, 0},
		{"C order said", []int64{3, 2, 4}, []int{2, 1, 0}, []bool{true, true, true}, []int64{8, 4, 1}, 0},
		{"Fortran order", []int64{3, 2, 4}, []int{0, 1, 2}, nil, []int64{1, 3, 6}, 0},
		{"neither", []int64{3, 2, 4}, []int{1, 2, 0}, nil, []int64{8, 1, 2}, 0},
		{"reversed", []int64{3, 2, 4}, nil, []bool{false, false, false}, []int64{-8, -4, -1}, 23},
		{"ascend goes by dimension", []int64{3, 2, 4}, []int{1, 2, 0}, []bool{true, false, true}, []int64{8, -1, 2}, 1},
		{"no elements", []int64{3, 0, 4}, nil, []bool{false, false, false}, []int64{-4, -4, -1}, 0},
		{"largest", []int64{math.MaxInt64, 1}, nil, []bool{false, true}, []int64{-1, 1}, math.MaxInt64 - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			tensor := tens.Tensor{Shape: test.shape, Word: 1, DType: 'b', Order: test.order, Ascend: test.ascend}
			strides, offset, err := tensor.Strides()
			require.NoError(t, err)
			assert.Equal(t, test.strides, strides)
			assert.Equal(t, test.offset, offset)
			strides, offset, err = tensor.AppendStrides([]int64{7})
			require.NoError(t, err)
			assert.Equal(t, append([]int64{7}, test.strides...), strides)
			assert.Equal(t, test.offset, offset)
		})
	}
}

func TestStridesOverOldMemoryAreRight(t *testing.T) {
	room := []int64{9, 9, 9, 9}
	tensor := tens.Tensor{Shape: []int64{2, 3}, Word: 1, DType: 'b'}
	strides, _, err := tensor.AppendStrides(room[:1])
	require.NoError(t, err)
	assert.Equal(t, []int64{9, 3, 1}, strides)
	assert.Equal(t, []int64{9, 3, 1, 9}, room)
}

func TestTensorsThatSayNoLayoutAreRefused(t *testing.T) {
	wide := make([]int64, 100)
	order := make([]int, 100)
	for d := range wide {
		wide[d], order[d] = 1, 99-d
	}
	many := tens.Tensor{Shape: wide, Word: 1, DType: 'b', Order: order}
	_, _, err := many.Strides()
	require.NoError(t, err)
	order[99] = 99
	_, _, err = many.Strides()
	requireFault(t, tens.ErrOrderInvalid, err)
	assert.EqualError(t, err, "tens: order[99] = 99 repeats a dimension: order invalid")

	for _, test := range []struct {
		name   string
		tensor tens.Tensor
		kind   error
	}{
		{"negative size", tens.Tensor{Shape: []int64{2, -1}, Word: 1}, tens.ErrShapeInvalid},
		{"no word", tens.Tensor{Shape: []int64{2}}, tens.ErrWordInvalid},
		{"product", tens.Tensor{Shape: []int64{1 << 32, 1 << 31}, Word: 1}, tens.ErrSizeOverflow},
		{"product beside 0", tens.Tensor{Shape: []int64{1 << 32, 1 << 31, 0}, Word: 1}, tens.ErrSizeOverflow},
		{"product and word", tens.Tensor{Shape: []int64{1 << 31, 1 << 31}, Word: 2}, tens.ErrSizeOverflow},
		{"order", tens.Tensor{Shape: []int64{2, 2}, Word: 1, Order: []int{0, 2}}, tens.ErrOrderInvalid},
		{"ascend", tens.Tensor{Shape: []int64{2, 2}, Word: 1, Ascend: []bool{true}}, tens.ErrAscendInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			strides, offset, err := test.tensor.AppendStrides([]int64{7})
			requireFault(t, test.kind, err)
			assert.Equal(t, []int64{7}, strides)
			assert.Zero(t, offset)
			if test.tensor.Order == nil && test.tensor.Ascend == nil {
				_, err = test.tensor.NumElements()
				requireFault(t, test.kind, err)
				_, err = test.tensor.NumBytes()
				requireFault(t, test.kind, err)
			}
		})
	}
}

func TestSizesUpToTheLastBit(t *testing.T) {
	tensor := tens.Tensor{Shape: []int64{7, 7, 73, 127, 337, 92737, 649657}, Word: 1} // 2^63 - 1
	n := must.Do(tensor.NumBytes())(t)
	assert.Equal(t, int64(math.MaxInt64), n)
	tensor = tens.Tensor{Shape: []int64{1<<62 - 1}, Word: 2}
	n = must.Do(tensor.NumBytes())(t)
	assert.Equal(t, int64(math.MaxInt64-1), n)
	n = must.Do(tensor.NumElements())(t)
	assert.Equal(t, int64(1<<62-1), n)
}

func TestStridesIntoRoomAllocateNothing(t *testing.T) {
	tensor := tens.Tensor{Shape: []int64{3, 2, 4}, Word: 4, DType: 'f', Order: []int{1, 2, 0}, Ascend: []bool{true, false, true}}
	var room [3]int64
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, _, err := tensor.AppendStrides(room[:0]); err != nil {
			panic(err)
		}
	}))
}

func TestNamesAreTheTextNameOfTheMetadata(t *testing.T) {
	for metadata, name := range map[string]string{
		"":                                  "",
		"{}":                                "",
		`{"name":"w"}`:                      "w",
		` { "unit":"m", "name" : "w" } `:    "w",
		`{"n\u0061me":"\u00e9\n\"x"}`:       "é\n\"x",
		`{"inner":{"name":"x"}}`:            "",
		`{"inner":{"name":"x"},"name":"w"}`: "w",
		`{"Name":"w"}`:                      "",
		`{"name":""}`:                       "",
		`{"name":7}`:                        "",
		`{"name":null}`:                     "",
		`{"name":{"name":"x"}}`:             "",
		`["name"]`:                          "",
		`{"name":"w`:                        "", // not possible in a decoded label
		`{"name"`:                           "",
		`{`:                                 "",
	} {
		tensor := tens.Tensor{Metadata: []byte(metadata)}
		assert.Equal(t, name, tensor.Name(), metadata)
	}
	assert.Empty(t, (*tens.Tensor)(nil).Name())
	assert.Empty(t, (&tens.Tensor{}).Name())
}

func TestNamesAreWrittenIntoTheMetadata(t *testing.T) {
	for _, test := range []struct{ metadata, name, want string }{
		{"", "w", `{"name":"w"}`},
		{"{}", "w", `{"name":"w"}`},
		{` { } `, "w", `{"name":"w"}`},
		{`{"unit":"m"}`, "w", `{"name":"w","unit":"m"}`},
		{`{"unit":"m"}`, "é\n\"x", `{"name":"é\n\"x","unit":"m"}`},
		{`{"unit":"m","name":"\u0077"}`, "w", `{"unit":"m","name":"\u0077"}`}, // it already has this name
	} {
		before := []byte(test.metadata)
		tensor := tens.Tensor{Shape: []int64{1}, Word: 1, DType: 'u', Metadata: before}
		if test.metadata == "" {
			tensor.Metadata = nil
		}
		require.NoError(t, tensor.SetName(test.name), test.metadata)
		assert.Equal(t, test.metadata, string(before), "the caller's bytes stay")
		text := must.Do((&tens.Label{Tensors: []tens.Tensor{tensor}}).Append(nil))(t)
		label := must.Do(tens.DecodeLabel(text))(t)
		assert.Equal(t, test.want, string(label.Tensors[0].Metadata))
		assert.Equal(t, test.name, label.Tensors[0].Name())
	}
}

func TestNamesThatCannotBeWrittenAreRefused(t *testing.T) {
	for _, test := range []struct {
		metadata, name string
		kind           error
		text           string
	}{
		{"", "", tens.ErrNameInvalid, "tens: the name is empty: name invalid"},
		{"", "a\xff", tens.ErrNameInvalid, `tens: name "a\xff" is not UTF-8: name invalid`},
		{`{"name":"x"}`, "w", tens.ErrNameInvalid, `tens: name "w", but the metadata have the name "\"x\"": name invalid`},
		{`{"name":7}`, "w", tens.ErrNameInvalid, `tens: name "w", but the metadata have the name "7": name invalid`},
		{`{"name":""}`, "w", tens.ErrNameInvalid, `tens: name "w", but the metadata have the name "\"\"": name invalid`},
		{`[1]`, "w", tens.ErrMetadataInvalid, `tens: "[1]" instead of an object: metadata invalid`},
	} {
		tensor := tens.Tensor{Metadata: []byte(test.metadata)}
		err := tensor.SetName(test.name)
		assert.ErrorIs(t, err, tens.ErrInvalid)
		assert.Equal(t, "metadata", requireFault(t, test.kind, err).Attribute)
		assert.EqualError(t, err, test.text)
	}
	assert.ErrorIs(t, (*tens.Tensor)(nil).SetName("w"), tens.ErrNil)

	// Other faults of the metadata are found when the label is encoded.
	for _, metadata := range []string{`{"unit":}`, `{"unit":"m"} x`, `{"unit":"m"`, `{`, `{"a":1,"a":2}`} {
		tensor := tens.Tensor{Shape: []int64{1}, Word: 1, DType: 'u', Metadata: []byte(metadata)}
		require.NoError(t, tensor.SetName("w"))
		_, err := (&tens.Label{Tensors: []tens.Tensor{tensor}}).Append(nil)
		assert.ErrorIs(t, err, tens.ErrInvalid, metadata)
	}
}

func TestTensorsAreFoundByTheirNames(t *testing.T) {
	named := func(names ...string) *tens.Label {
		l := &tens.Label{Tensors: make([]tens.Tensor, len(names))}
		for i, name := range names {
			if name != "" {
				require.NoError(t, l.Tensors[i].SetName(name))
			}
		}
		return l
	}
	l := named("", "w", "b", "twice", "b\n", "twice")
	for i, name := range map[int]string{1: "w", 2: "b", 4: "b\n"} {
		assert.Equal(t, i, must.Do(l.Find(name))(t))
	}
	_, err := l.Find("x")
	assert.ErrorIs(t, err, tens.ErrNoName)
	assert.EqualError(t, err, `tens: "x", but the names are "w", "b", "twice", "b\n", "twice": no tensor has this name`)
	_, err = l.Find("twice")
	requireFault(t, tens.ErrNameAmbiguous, err)
	assert.ErrorIs(t, err, tens.ErrInvalid)
	assert.EqualError(t, err, `tens: "twice" of tensor 3 and tensor 5: several tensors have this name`)
	_, err = l.Find("")
	assert.ErrorIs(t, err, tens.ErrNoName)
	_, err = named("", "").Find("w")
	assert.EqualError(t, err, `tens: "w", but no tensor has a name: no tensor has this name`)
	_, err = named("1", "2", "3", "4", "5", "6", "7", "8", "9").Find("w")
	assert.EqualError(t, err, `tens: "w", but the names are "1", "2", "3", "4", "5", "6", "7", "8", …: no tensor has this name`)
	_, err = (*tens.Label)(nil).Find("w")
	assert.ErrorIs(t, err, tens.ErrNil)
}
