//go:build cgo

package tensorflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestTensorsAreWrittenAndReadWhereverMemoryLies(t *testing.T) {
	dlpacktest.CheckFunctionsOfTensors(t, ".", []string{"AppendTensor", "SizeTensor", "DecodeFrom", "Export"})
	dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
		outcomes := []any{}
		for _, options := range [][]tensorflow.EncodeOption{nil, {tensorflow.Fields()}, {tensorflow.Content()}, {tensorflow.Pad(64)}} {
			size, err := tensorflow.SizeTensor(x, options...)
			require.NoError(t, err)
			out, err := tensorflow.AppendTensor(nil, x, options...)
			require.NoError(t, err)
			require.Len(t, out, size)
			if x.DType() == dlpack.Float32 { // and back, wherever the bytes lie
				for i := range dlpacktest.Placements {
					readBack(t, &dlpacktest.Placements[i], out, x)
				}
			}
			outcomes = append(outcomes, out)
		}
		if managed, err := tensorflow.Export(x); err == nil {
			y, err := dlpack.ImportLegacy(managed)
			require.NoError(t, err)
			require.Equal(t, x.Data(), y.Data())
			y.Close()
		}
		return outcomes
	})
}

func readBack(t testing.TB, p *dlpacktest.Placement, message []byte, x *dlpack.Tensor) {
	want, err := x.AppendBytes(nil)
	require.NoError(t, err)
	p.Check(t, p.Name, message, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{int64(len(message))}}, func(t testing.TB, data *dlpack.Tensor) any {
		v, err := tensorflow.DecodeFrom(data)
		require.NoError(t, err)
		defer v.Close()
		got, err := v.Tensor.AppendBytes(nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
		return []any{v.Copied, v.Tensor.String()}
	})
}
