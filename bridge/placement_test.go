//go:build cgo

package bridge_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/tens"
)

func TestMessagesDoNotCareWhereMemoryLies(t *testing.T) {
	dlpacktest.CheckFunctionsOfTensors(t, ".", []string{"Encode", "DecodeParts"})
	t.Run("Message", func(t *testing.T) {
		dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
			msg, report, err := bridge.Encode([]*dlpack.Tensor{x})
			require.NoError(t, err)
			return []any{slices.Clone(msg.Parts[0]), msg.Label, report.Copied[0]}
		})
	})
	elements := []byte{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}
	label := &tens.Label{Tensors: []tens.Tensor{{}}}
	var err error
	label.Tensors[0], err = bridge.EncodeTensor(dlpack.Int16, false, []int64{2, 3}, []int64{1, 2})
	require.NoError(t, err)
	for i := range dlpacktest.Placements {
		p := &dlpacktest.Placements[i]
		t.Run("DecodeParts, "+p.Name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			p.Check(t, "a part", elements, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{int64(len(elements))}}, func(t testing.TB, part *dlpack.Tensor) any {
				ts, err := bridge.DecodeParts(label, []*dlpack.Tensor{part})
				require.NoError(t, err)
				defer ts[0].Close()
				assert.Equal(t, part.Data(), ts[0].Data())
				aligned, err := bridge.DecodeParts(label, []*dlpack.Tensor{part}, bridge.Align(256))
				require.NoError(t, err)
				defer aligned[0].Close()
				got, err := ts[0].AppendBytes(nil)
				require.NoError(t, err)
				copied, err := aligned[0].AppendBytes(nil)
				require.NoError(t, err)
				assert.Equal(t, got, copied)
				return []any{got, ts[0].String()}
			})
		})
	}
}
