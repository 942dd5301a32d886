//go:build cgo

package tensorflow_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestTensorSlicesAreViewsOfTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, v := range m.Slices.Fill {
			count := must.Do(layout.Count(v.Shape))(t)
			numbers := make([]int32, count)
			for i := range numbers {
				numbers[i] = int32(i)
			}
			base := must.Do(dlpack.FromSlice(numbers, v.Shape...))(t)
			view := must.Do(base.Apply(parseSlice(t, v.Slice).View))(t)
			assert.Equal(t, v.Sizes[:len(v.Shape)], view.Shape())
			want := must.Do(base.At(v.Indices[:len(v.Shape)]...))(t)
			first := must.Do(view.At(make([]int64, len(v.Shape))...))(t)
			assert.Equal(t, want, first)
			view.Close()
			base.Close()
		}
	}
}
