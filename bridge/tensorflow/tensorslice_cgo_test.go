//go:build cgo

package tensorflow_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestTensorSlicesAreViewsOfTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, v := range m.Slices.Fill {
			count, err := layout.Count(v.Shape)
			require.NoError(t, err)
			numbers := make([]int32, count)
			for i := range numbers {
				numbers[i] = int32(i)
			}
			base, err := dlpack.FromSlice(numbers, v.Shape...)
			require.NoError(t, err)
			view, err := base.Apply(parseSlice(t, v.Slice).View)
			require.NoError(t, err)
			assert.Equal(t, v.Sizes[:len(v.Shape)], view.Shape())
			want, err := base.At(v.Indices[:len(v.Shape)]...)
			require.NoError(t, err)
			first, err := view.At(make([]int64, len(v.Shape))...)
			require.NoError(t, err)
			assert.Equal(t, want, first)
			view.Close()
			base.Close()
		}
	}
}
