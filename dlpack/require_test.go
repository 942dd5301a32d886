//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestRequireNamesWhatDiffers(t *testing.T) {
	x := must.Own(dlpack.New(dlpack.Float32, 2, 4))(t)
	row := must.Own(x.Index(0))(t)
	scalar := must.Own(x.Index(0, 0))(t)
	for _, test := range []struct {
		x     *dlpack.Tensor
		dtype dlpack.DataType
		shape []int64
		cause error
		text  string
	}{
		{x, dlpack.Float32, []int64{2, 4}, nil, ""},
		{x, dlpack.Float32, []int64{-1, 4}, nil, ""},
		{x, dlpack.Float32, []int64{-1, -1}, nil, ""},
		{scalar, dlpack.Float32, nil, nil, ""},
		{x, dlpack.Float64, []int64{2, 4}, dlpack.ErrDType, "the tensor has float32, want float64; Convert makes a copy of that type"},
		{x, dlpack.Float32, []int64{2, 3}, dlpack.ErrLayout, "dimension 1 of the shape [2 4] has size 4, want 3"},
		{x, dlpack.Float32, []int64{-2, 4}, dlpack.ErrLayout, "dimension 0 of the shape [2 4] has size 2, want -2"},
		{x, dlpack.Float32, []int64{-1}, dlpack.ErrLayout, "the shape [2 4] has 2 dimensions, want 1"},
		{x, dlpack.Float32, nil, dlpack.ErrLayout, "the shape [2 4] has 2 dimensions, want 0"},
		{row, dlpack.Float32, []int64{2, 4}, dlpack.ErrLayout, "the shape [4] has 1 dimension, want 2"},
		{scalar, dlpack.Float32, []int64{1}, dlpack.ErrLayout, "the shape [] has 0 dimensions, want 1"},
	} {
		t.Run(fmt.Sprint(test.x.Shape(), test.dtype, test.shape), func(t *testing.T) {
			err := test.x.Require(test.dtype, test.shape...)
			if test.cause == nil {
				require.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, test.cause)
			assert.EqualError(t, err, "dlpack: require: "+test.text)
		})
	}
	closed := must.Do(dlpack.New(dlpack.Int8))(t)
	require.NoError(t, closed.Close())
	assert.NoError(t, closed.Require(dlpack.Int8), "a closed tensor can be checked")
}

func TestErrorsSayWhichTensorTheyAreAbout(t *testing.T) {
	x, y := fromSlice(t, []float32{1, 2}), fromSlice(t, []float32{1, 2})
	readOnly, numbers := must.Own(y.BroadcastTo(2, 2))(t), fromSlice(t, []int32{1, 2})
	failed := func(_ *dlpack.Tensor, err error) error { return err }
	for name, test := range map[string]struct {
		about *dlpack.Tensor
		err   error
	}{
		"type":                  {y, y.Require(dlpack.Int8, 2)},
		"shape":                 {y, y.Require(dlpack.Float32, 3)},
		"view":                  {y, failed(y.Flip(4))},
		"read-only":             {readOnly, dlpack.Use(readOnly, func([]float32) error { return nil })},
		"read-only destination": {readOnly, readOnly.CopyTo(readOnly)},
		"two":                   {nil, x.CopyTo(numbers)},
		"none":                  {nil, failed(dlpack.New(dlpack.Float32, -1))},
	} {
		e, ok := errors.AsType[*dlpack.Error](test.err)
		require.True(t, ok, name)
		for _, tensor := range []*dlpack.Tensor{x, y, readOnly, nil} {
			assert.Equal(t, tensor != nil && tensor == test.about, e.IsAbout(tensor), name)
		}
	}
}
