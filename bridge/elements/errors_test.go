package elements_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

func TestErrorsNameTheFormatThePlaceAndTheCause(t *testing.T) {
	err := &elements.Error{Format: "bson", Offset: 3, Where: "shape[0]", Err: elements.ErrSize}
	assert.EqualError(t, err, "bson: byte 3: shape[0]: size differs from what the shape says")
	assert.ErrorIs(t, err, elements.ErrSize)
	assert.EqualError(t, &elements.Error{Format: "bson", Where: "here"}, "bson: byte 0: here: <nil>")
}

func TestAfterCountsFromTheBeginningOfALongerInput(t *testing.T) {
	assert.Equal(t, int64(10), (&elements.Error{Offset: 3}).After(7).Offset)
	assert.Equal(t, int64(math.MaxInt64), (&elements.Error{Offset: 3}).After(math.MaxInt64).Offset, "without overflow")
}
