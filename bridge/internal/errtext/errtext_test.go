package errtext_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
)

func TestAnErrorIsAlsoItsCause(t *testing.T) {
	cause := errors.New("cause")
	rank := errtext.New(cause, "rank")
	assert.Equal(t, "rank", rank.Error())
	assert.NotErrorIs(t, rank, errtext.New(cause, "rank"), "each call makes another error")
	assert.ErrorIs(t, fmt.Errorf("a: %w", rank), rank)
	assert.ErrorIs(t, fmt.Errorf("a: %w", rank), cause)
	assert.NotErrorIs(t, cause, rank)
}
