package must_test

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// noted is a test that records its failure and does not end the goroutine.
type noted struct {
	testing.TB
	failed bool
}

func (n *noted) Errorf(string, ...any) {}
func (n *noted) FailNow()              { n.failed = true }

func TestACallThatFailsEndsTheTest(t *testing.T) {
	assert.Equal(t, 7, must.Do(strconv.Atoi("7"))(t))
	n := noted{TB: t}
	must.Do(0, errors.New("failed"))(&n)
	assert.True(t, n.failed)
}

func TestACallThatSucceedsMustNotFail(t *testing.T) {
	must.Fail(os.Open(""))(t, os.ErrNotExist)
	for _, err := range []error{nil, os.ErrClosed} {
		n := noted{TB: t}
		must.Fail(0, err)(&n, os.ErrNotExist)
		assert.True(t, n.failed)
	}
}

func TestWhatATestOwnsIsClosedAtItsEnd(t *testing.T) {
	var file *os.File
	t.Run("it owns a file", func(t *testing.T) {
		file = must.Own(os.Open(os.DevNull))(t)
	})
	assert.ErrorIs(t, file.Close(), os.ErrClosed)
}
