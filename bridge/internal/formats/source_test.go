//go:build cgo

package formats_test

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// If a program forgets to close a decoded tensor and the source, the memory is still released: a decoder reads its
// source only while it runs. If elements refer to the source, its memory is not released.
func TestForgottenSourcesAndTheirTensorsAreReleased(t *testing.T) {
	x := must.Do(dlpack.FromSlice([]int64{1, 2, 3}))(t)
	defer x.Close()
	for _, f := range formats.All {
		messages := maps.Clone(f.Samples)
		if messages == nil {
			messages = map[string][]byte{}
		}
		messages["numbers"] = must.Do(f.Encode(formats.Named{Tensor: x}))(t)
		if f.NoElements != nil {
			messages["text"] = must.Do(f.Encode(formats.Named{Elements: &elements.Elements{Type: "string", Shape: []int64{1}, Values: [][]byte{[]byte("text")}}}))(t)
		}
		for name, message := range messages {
			for _, r := range f.Readers {
				for _, align := range []int{0, 1, 64} {
					t.Run(fmt.Sprintf("%s.%s/%s, aligned to %d", f.Name(), r.Name, name, align), func(t *testing.T) {
						forget(t, message, r, align)
					})
				}
			}
		}
	}
}

// forget decodes a message and closes nothing, and waits until its memory is released.
func forget(t *testing.T, message []byte, r formats.Reader, align int) {
	before := dlpack.ReadStats()
	lost, freed := int64(1), int64(1) // numbers of memories, and of released memories
	func() {
		source := must.Do(dlpack.New(dlpack.Uint8, int64(len(message))))(t)
		require.NoError(t, dlpack.Use(source, func(to []byte) error { copy(to, message); return nil }))
		v := must.Do(r.Read(source, align))(t)
		if v.Elements != nil {
			freed = 0
		} else if v.Copied {
			lost, freed = 2, 2
		}
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return dlpack.ReadStats().Forgotten >= before.Forgotten+lost
	}, 20*time.Second, time.Millisecond)
	assert.Equal(t, before.Allocations+lost-freed, dlpack.ReadStats().Allocations)
}
