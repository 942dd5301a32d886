//go:build cgo

package decthings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestTensorsAreWrittenAndReadWhereverMemoryLies(t *testing.T) {
	dlpacktest.CheckFunctionsOfTensors(t, ".", []string{"AppendTensor", "SizeTensor", "DecodeFrom", "DecodeFirstFrom"})
	dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
		size, sizeErr := decthings.SizeTensor(x)
		out, err := decthings.AppendTensor([]byte("before"), x)
		if err == nil {
			require.NoError(t, sizeErr)
			require.Len(t, out, len("before")+size)
			if x.DType() == dlpack.Float32 { // and back, wherever the bytes lie
				for i := range dlpacktest.Placements {
					readBack(t, &dlpacktest.Placements[i], out[len("before"):], x)
				}
			}
		}
		return []any{out, err != nil}
	})
}

func readBack(t testing.TB, p *dlpacktest.Placement, message []byte, x *dlpack.Tensor) {
	want, err := x.AppendBytes(nil)
	require.NoError(t, err)
	p.Check(t, p.Name, message, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{int64(len(message))}}, func(t testing.TB, data *dlpack.Tensor) any {
		v, err := decthings.DecodeFrom(data)
		require.NoError(t, err)
		defer v.Close()
		got, err := v.Tensor.AppendBytes(nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
		consumed, n, err := decthings.DecodeFirstFrom(data)
		require.NoError(t, err)
		defer consumed.Close()
		require.Equal(t, len(message), n)
		return []any{v.Copied, v.Tensor.String(), consumed.Copied}
	})
}
