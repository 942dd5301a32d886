//go:build cgo

package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestBindFindsAViewThatIsNotAssignedToReadOnly(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, tt := range []struct {
		name     string
		view     dlpack.Description
		readOnly bool
	}{
		{"not known", dlpack.Description{}, false},
		{"r-tensor", dlpack.Description{Access: dlpack.RTensor}, true},
		{"constant", dlpack.Description{Role: dlpack.Constant}, true},
		{"l-tensor", dlpack.Description{Access: dlpack.LTensor}, false},
		{"variable", dlpack.Description{Role: dlpack.Variable}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shape, err := layout.NewPartialShape(2, 3)
			require.NoError(t, err)
			base := &dlpack.Description{DType: dlpack.Float32, Shape: shape}
			view := base.View(func(l *layout.Layout) error { return l.Transpose(1, 0) })
			require.NoError(t, view.Refine(&tt.view))
			memory := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)

			bound, err := view.Bind(memory)
			require.NoError(t, err)
			defer bound.Close()
			assert.Equal(t, tt.readOnly, bound.ReadOnly())
			whole, err := base.Bind(memory)
			require.NoError(t, err)
			defer whole.Close()
			assert.False(t, whole.ReadOnly(), "nothing of it is known of the base")
		})
	}
}
