package tens_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

// spreadTensors are tensors in parts of 4 and 8 bytes.
var spreadTensors = []string{
	`{"shape":[3,2],"word":2,"dtype":"i","part":0,"parts":2}`,
	`{"parts":2,"shape":[2,3],"word":2,"dtype":"i","order":[0,1],"ascend":[true,false]}`,
	`{"shape":[1,6,1],"word":2,"dtype":"i","part":0,"parts":2,"ascend":[true,false,true]}`,
	`{"shape":[6],"word":2,"dtype":"V","dlpack":[4,16,1],"part":0,"parts":2}`,
	`{"shape":[24],"word":1,"dtype":"V","dlpack":[0,4,1],"part":0,"parts":2}`,
}

func TestTensorsInSeveralParts(t *testing.T) {
	for i, tensor := range spreadTensors {
		t.Run(tensor, func(t *testing.T) {
			m := message(tensorLabel(tensor), 4, 8)
			l := must.Do(m.DecodeLabel())(t)
			x := &l.Tensors[0]
			assert.Equal(t, 2, x.Parts)
			dim, ok := x.Slowest()
			assert.True(t, ok)
			assert.Equal(t, []int{0, 1, 1, 0, 0}[i], dim)
			require.NoError(t, m.EncodeLabel(l))
			assert.Contains(t, string(m.Label), `"part":0,"parts":2,"shape"`)
			again := must.Do(m.DecodeLabel())(t)
			assert.Equal(t, l, again)

			// For a reader that does not know the attribute, the first part is too small. For packed elements, package bridge
			// detects this.
			x.Parts = 0
			size := must.Do(x.NumBytes())(t)
			assert.Less(t, int64(len(m.Parts[x.Part])), size)
			if i < 4 {
				requireFault(t, tens.ErrSize, m.EncodeLabel(l))
			}
		})
	}
}

func TestInvalidPartsAreRefused(t *testing.T) {
	tensor := func(shape, parts string) string {
		return `{"shape":` + shape + `,"word":2,"dtype":"i","part":0,"parts":` + parts + `}`
	}
	for _, test := range []struct {
		tensor string
		kind   error
		sizes  []int
	}{
		{tensor("[6]", "1"), tens.ErrPartsInvalid, []int{12}},
		{tensor("[6]", "0"), tens.ErrPartsInvalid, []int{12}},
		{tensor("[6]", "-2"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "2.0"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "2e0"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "1.0"), tens.ErrPartsInvalid, []int{12}},
		{tensor("[6]", `"2"`), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "null"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "[2]"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "99999999999999999999"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[6]", "7"), tens.ErrPartsInvalid, []int{2, 2, 2, 2, 2, 1, 1}},
		{tensor("[6]", "9223372036854775807"), tens.ErrPartsInvalid, []int{4, 8}},
		{tensor("[4611686018427387903]", "4611686018427387903"), tens.ErrPartMissing, []int{4, 8}},
		{`{"shape":[6],"word":2,"dtype":"i","part":9223372036854775807,"parts":2}`, tens.ErrPartMissing, []int{4, 8}},
		{`{"shape":[6],"word":2,"dtype":"i","part":1,"parts":2}`, tens.ErrPartMissing, []int{4, 8}},
		{`{"shape":[6],"word":2,"dtype":"i","part":2,"parts":2}`, tens.ErrPartMissing, []int{4, 8}},
		{tensor("[]", "2"), tens.ErrPartsInvalid, []int{1, 1}},
		{tensor("[1,1]", "2"), tens.ErrPartsInvalid, []int{1, 1}},
		{tensor("[0]", "2"), tens.ErrPartsInvalid, []int{0, 0}},
		{tensor("[4,0]", "2"), tens.ErrPartsInvalid, []int{0, 0}},
		{tensor("[2,9]", "3"), tens.ErrPartsInvalid, []int{12, 12, 12}},
		{tensor("[6]", "2"), tens.ErrSize, []int{3, 9}},
		{tensor("[6]", "2"), tens.ErrSize, []int{12, 0}},
		{tensor("[6]", "2"), tens.ErrSize, []int{0, 12}},
		{tensor("[6]", "2"), tens.ErrSize, []int{4, 6}},
		{tensor("[6]", "2"), tens.ErrSize, []int{4, 10}},
		{tensor("[3,2]", "2"), tens.ErrSize, []int{6, 6}},
		{`{"shape":[3,2],"word":2,"dtype":"i","part":0,"parts":2,"order":[0,1]}`, tens.ErrSize, []int{4, 8}},
		{`{"shape":[6],"word":2,"dtype":"V","dlpack":[4,16,1],"part":0,"parts":2}`, tens.ErrSize, []int{12, 0}},
		{`{"shape":[6],"word":2,"dtype":"V","dlpack":[4,16,1],"part":0,"parts":2}`, tens.ErrSize, []int{6, 8}},
		{`{"shape":[6],"word":2,"dtype":"V","dlpack":[4,16,1],"part":0,"parts":2}`, tens.ErrSize, []int{2, 4}},
	} {
		t.Run(fmt.Sprint(test.tensor, test.sizes), func(t *testing.T) {
			l, err := message(tensorLabel(test.tensor), test.sizes...).DecodeLabel()
			assert.Nil(t, l)
			fault := requireFault(t, test.kind, err)
			assert.Equal(t, 0, fault.Tensor)
			assert.Contains(t, []string{"part", "parts"}, fault.Attribute)
		})
	}
	for _, test := range []struct {
		tensor tens.Tensor
		kind   error
	}{
		{tens.Tensor{Shape: []int64{6}, Parts: -1}, tens.ErrPartsInvalid},
		{tens.Tensor{Shape: []int64{6}, Parts: 7}, tens.ErrPartsInvalid},
		{tens.Tensor{Shape: []int64{math.MaxInt}, Part: 1, Parts: math.MaxInt}, tens.ErrPartMissing},
		{tens.Tensor{Shape: []int64{0}, Parts: 2}, tens.ErrPartsInvalid},
	} {
		test.tensor.Word, test.tensor.DType = 1, 'u'
		l := &tens.Label{Tensors: []tens.Tensor{test.tensor}}
		_, err := l.Append(nil)
		requireFault(t, test.kind, err)
		require.Error(t, message(nil, 3, 3).EncodeLabel(l))
	}
	_, err := message(tensorLabel(`{"shape":[6],"word":2,"dtype":"i","parts":2,"parts":2}`), 4, 8).DecodeLabel()
	requireFault(t, tens.ErrDuplicateName, err)
	_, ok := (*tens.Tensor)(nil).Slowest()
	assert.False(t, ok)
}

// Tensors may share all of their parts, or some of them.
func TestTensorsInSeveralPartsShareThem(t *testing.T) {
	tensors := `{"shape":[6],"word":2,"dtype":"i","part":0,"parts":2},{"shape":[5],"word":2,"dtype":"u","part":1,"parts":2},` +
		`{"shape":[2,4],"word":1,"dtype":"u","part":1},{"shape":[7],"word":2,"dtype":"i","part":0,"parts":3}`
	must.Do(message(tensorLabel(tensors), 4, 8, 2).DecodeLabel())(t)

	const count = 1000
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = 1
	}
	all := fmt.Sprintf(`{"shape":[%d],"word":1,"dtype":"u","part":0,"parts":%d},`, count, count)
	must.Do(message(tensorLabel(strings.TrimSuffix(strings.Repeat(all, 5), ",")), sizes...).DecodeLabel())(t)
	_, err := message(tensorLabel(strings.TrimSuffix(strings.Repeat(all, 6), ",")), sizes...).DecodeLabel()
	fault := requireFault(t, tens.ErrPartsInvalid, err)
	assert.Equal(t, 5, fault.Tensor)
}
