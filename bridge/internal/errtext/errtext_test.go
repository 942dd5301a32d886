package errtext_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
)

func TestTheFirstKindOfAChainCounts(t *testing.T) {
	rank, dtype := errtext.New(errtext.Layout, "rank"), errtext.New(errtext.DType, "type")
	assert.Equal(t, "rank", rank.Error())
	assert.NotErrorIs(t, rank, errtext.New(errtext.Layout, "rank"), "each call makes another error")
	assert.Equal(t, errtext.Layout, errtext.KindOf(fmt.Errorf("a: %w: %w", rank, dtype)))
	assert.Equal(t, errtext.DType, errtext.KindOf(fmt.Errorf("b: %w", errors.Join(errors.New("other"), dtype))))
	assert.Zero(t, errtext.KindOf(errors.New("other")))
	assert.Zero(t, errtext.KindOf(nil))
}
