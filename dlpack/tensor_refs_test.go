//go:build cgo

package dlpack

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

func TestAnOpenTensorWithTooManyViewsIsNotCalledClosed(t *testing.T) {
	tensor := must.Do(FromSlice([]uint8{1}))(t)
	core.SetReferences(tensor.mem, math.MaxInt32) // as after this many views without Close
	_, err := tensor.View(Spec{DType: Uint8})
	assert.ErrorIs(t, err, ErrOverflow)
	assert.ErrorContains(t, err, "2147483647 tensors that were not closed")
	other := must.Own(FromSlice([]uint8{1}))(t)
	_, err = Equal(other, tensor)
	assert.ErrorIs(t, err, ErrOverflow)
	assert.ErrorContains(t, err, "the second tensor")
	assert.ErrorIs(t, other.CopyTo(tensor), ErrOverflow)
	core.SetReferences(tensor.mem, 0)
	require.NoError(t, tensor.Close())
	must.Fail(tensor.View(Spec{DType: Uint8}))(t, ErrClosed)
}
