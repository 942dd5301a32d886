package tens

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func TestFramesThatHaveChangedSinceTheyWereCountedAreRefused(t *testing.T) {
	data := []byte{1, 'a', 0, 2, 'b', 'c', 0}
	frames := must.Do(listFrames(data, 4))(t)
	assert.Equal(t, [][]byte{{'a'}, {}, {'b', 'c'}, {}}, frames)
	for _, test := range []struct {
		name   string
		at     int
		size   byte
		offset int
	}{
		{"the last one is longer", 6, 5, 6},
		{"one is longer than the rest", 3, 200, 3},
		{"one has the long size", 6, longSize, 6},
		{"there are more", 0, 0, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := append([]byte{}, data...)
			changed[test.at] = test.size
			if test.name == "there are more" {
				changed = make([]byte, 7)
				test.offset = len(changed)
			}
			_, err := listFrames(changed, 4)
			var fault *Error
			require.ErrorAs(t, err, &fault)
			assert.ErrorIs(t, err, ErrTruncated)
			assert.Equal(t, test.offset, fault.Offset)
		})
	}
}
