//go:build cgo

package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// A tensor of a few bytes may have more elements than the machine can allocate. Without the check, Go's allocator would
// end the process.
func TestElementsThatNoMemoryHasRoomForAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	one := fromSlice(t, []uint8{1})
	defer one.Close()
	for _, n := range []int64{1<<63 - 1, 1<<62 - 1, 1 << 47, 1<<47 - 1<<30} { // the last number can be addressed
		wide := must.Do(one.BroadcastTo(n))(t)
		defer wide.Close()
		before := []byte{1, 2}
		out, err := wide.AppendBytes(before)
		assert.ErrorIs(t, err, dlpack.ErrMemory)
		assert.Equal(t, before, out)
		must.Fail(wide.Copy())(t, dlpack.ErrMemory)
		_, err = wide.Convert(dlpack.Float32)
		assert.Error(t, err)
	}
}
