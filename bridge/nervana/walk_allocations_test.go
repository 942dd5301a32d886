//go:build !asan

package nervana_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// AddressSanitizer keeps the compiler from inlining, so that some variables are allocated.
func TestWalkDoesNotAllocate(t *testing.T) {
	dst := must.Do(layout.New([]int64{4, 5, 6, 7}, nil, nil))(t)
	src := must.Do(layout.New([]int64{4, 5, 6, 7}, nil, []int{1, 3, 0, 2}))(t)
	w := new(nervana.Walk)
	sum := int64(0)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if err := w.Reset(dst, src); err != nil {
			t.Error(err)
		}
		for at := range w.Offsets(1) {
			sum += at[1]
		}
	}))
	assert.Positive(t, sum)
}
