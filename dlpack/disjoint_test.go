//go:build cgo

package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestDisjointKnowsWhatHasNoByteInCommon(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	matrix := fromSlice(t, make([]int32, 24), 4, 6)
	defer matrix.Close()
	view := func(index ...layout.Index) *dlpack.Tensor {
		v := must.Do(matrix.Slice(index...))(t)
		t.Cleanup(func() { v.Close() })
		return v
	}
	even, odd := view(layout.All(), layout.All().By(2)), view(layout.All(), layout.From(1).By(2))
	bytes := must.Own(odd.Bitcast(dlpack.Float32))(t)
	pairs := must.Own(view(layout.All(), layout.Range(2, 4)).Bitcast(dlpack.Int64))(t)
	device := must.Own(dlpack.Import(dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}, DeviceType: int32(dlpack.CUDA)}).Managed()))(t)
	for _, test := range []struct {
		name string
		a, b *dlpack.Tensor
		want bool
	}{
		{"itself", matrix, matrix, false},
		{"rows apart", view(layout.Until(2)), view(layout.From(2)), true},
		{"rows in common", view(layout.Until(3)), view(layout.From(2)), false},
		{"interlocking columns", even, odd, true},
		{"the same columns", even, view(layout.All(), layout.From(2).By(2)), false},
		{"interlocking columns of another type", even, bytes, true},
		{"a column and another, from the last element to the first", view(layout.All(), layout.At(0)), view(layout.All().By(-1), layout.At(1)), true},
		{"a column and itself, from the last element to the first", view(layout.All(), layout.At(1)), view(layout.All().By(-1), layout.At(1)), false},
		{"columns and wider elements", view(layout.All(), layout.At(1)), pairs, true},
		{"a column of wider elements", view(layout.All(), layout.At(2)), pairs, false},
		{"rows and columns that interlock, which is not decided", view(layout.All().By(2), layout.Until(3)), view(layout.From(1).By(2), layout.From(1).By(2)), false},
		{"a matrix and a vector within it", matrix, view(layout.At(1)), false},
		{"a matrix and a vector after it", view(layout.Until(2)), view(layout.At(3)), true},
		{"no elements", matrix, view(layout.Until(0)), true},
		{"nil, which has no memory", matrix, nil, false},
		{"memory of a device, which is not decided", matrix, device, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, test.a.Disjoint(test.b))
			if test.b != nil {
				assert.Equal(t, test.want, test.b.Disjoint(test.a))
			}
		})
	}
}
