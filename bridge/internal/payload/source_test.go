//go:build cgo

package payload_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A program that forgets to close what it decoded, and the memory it was decoded from, gets the memory back: a decoder reads its source
// only while it runs. Elements may refer to the source, whose memory is then left alone.
func TestG55ForgottenSourcesAndTheirTensorsAreReleased(t *testing.T) {
	x, err := dlpack.FromSlice([]int64{1, 2, 3})
	require.NoError(t, err)
	defer x.Close()
	ofDecthings, err := decthings.AppendTensor(nil, x)
	require.NoError(t, err)
	ofTensorflow, err := tensorflow.AppendTensor(nil, x, nil)
	require.NoError(t, err)
	packed := []byte{0x08, 0x09, 0x12, 0x04, 0x12, 0x02, 0x08, 0x02, 0x52, 0x02, 0x05, 0x06} // dtype 9, shape [2], int64_val 5, 6
	text, err := decthings.AppendElements(nil, &elements.Elements{Type: "string", Shape: []int64{1}, Values: [][]byte{[]byte("text")}}, decthings.Doc)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		message []byte
		decode  func(source *dlpack.Tensor) error
		lost    int64 // memories
		freed   int64 // of them
	}{
		"decthings": {ofDecthings, func(source *dlpack.Tensor) error {
			_, err := decthings.DecodeFrom(source, decthings.Align(1))
			return err
		}, 1, 1},
		"decthings, a copy": {ofDecthings, func(source *dlpack.Tensor) error {
			_, err := decthings.DecodeFrom(source, decthings.Align(64))
			return err
		}, 2, 2},
		"decthings, text": {text, func(source *dlpack.Tensor) error { _, err := decthings.DecodeFrom(source); return err }, 1, 0},
		"tensorflow": {ofTensorflow, func(source *dlpack.Tensor) error {
			_, err := tensorflow.DecodeFrom(source, tensorflow.Align(1))
			return err
		}, 1, 1},
		"tensorflow, put together": {packed, func(source *dlpack.Tensor) error { _, err := tensorflow.DecodeFrom(source); return err }, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			before := dlpack.ReadStats()
			func() {
				source, err := dlpack.New(dlpack.Uint8, int64(len(test.message)))
				require.NoError(t, err)
				require.NoError(t, dlpack.Use(source, func(to []byte) error { copy(to, test.message); return nil }))
				require.NoError(t, test.decode(source))
			}()
			require.Eventually(t, func() bool {
				runtime.GC()
				return dlpack.ReadStats().Forgotten >= before.Forgotten+test.lost
			}, 20*time.Second, time.Millisecond)
			assert.Equal(t, before.Allocations+test.lost-test.freed, dlpack.ReadStats().Allocations)
		})
	}
}
