package layout_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// There are more parts than elements along any dimension: some parts have none, and say so in every way.
func TestAPartWithoutElementsIsAWalkWithoutElements(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   layout.Layout
	}{
		{"a line", layout.Layout{Shape: []int64{2}, Strides: []int64{1}, Offset: 5}},
		{"one element", layout.Layout{Offset: 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := layout.Walk{InOrder: true}
			require.NoError(t, w.Reset(tt.of))
			require.NoError(t, w.Part(2, 3))
			assert.Zero(t, w.Count())
			assert.Nil(t, w.Shape())
			assert.Nil(t, w.Start())
			assert.Nil(t, w.Strides(0))
			count, steps := w.Run()
			assert.Zero(t, count)
			assert.Nil(t, steps)
			_, _, flat := w.Flat()
			assert.False(t, flat)
			for range w.Offsets(0) {
				t.Error("an offset")
			}
			require.NoError(t, w.Part(0, 2), "nothing can be divided further")
			assert.True(t, w.InOrder)
		})
	}
}
