package elements_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

func TestErrorsNameTheFormatThePlaceAndTheCause(t *testing.T) {
	err := &elements.Error{Format: "bson", Offset: 3, Where: "shape[0]", Err: elements.ErrSize}
	assert.EqualError(t, err, "bson: byte 3: shape[0]: size differs from what the shape says")
	assert.ErrorIs(t, err, elements.ErrSize)
	assert.EqualError(t, &elements.Error{Format: "bson", Where: "here"}, "bson: byte 0: here: <nil>")
}

// errors.Is finds the errors of package dlpack, whichever package returned the error.
func TestErrorsOfFormatsAreAlsoThoseOfDLPack(t *testing.T) {
	assert.ErrorIs(t, elements.ErrDType, dlpack.ErrDType)
	assert.ErrorIs(t, elements.ErrNil, dlpack.ErrNull)
}

func TestAfterCountsFromTheBeginningOfALongerInput(t *testing.T) {
	assert.Equal(t, int64(10), (&elements.Error{Offset: 3}).After(7).Offset)
	assert.Equal(t, int64(math.MaxInt64), (&elements.Error{Offset: 3}).After(math.MaxInt64).Offset, "without overflow")
}

func TestTextWithoutRemedyOfNilAndOthers(t *testing.T) {
	assert.Empty(t, elements.WithoutRemedy(nil))
	assert.Equal(t, "disk; full", elements.WithoutRemedy(errors.New("disk; full")))
}
