//go:build cgo && !asan

package tensorflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

func TestAppendTensorToARoomySliceAllocatesNothing(t *testing.T) {
	tensor, err := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	defer tensor.Close()
	buffer := make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, err = tensorflow.AppendTensor(buffer, tensor)
	}))
	require.NoError(t, err)
}
