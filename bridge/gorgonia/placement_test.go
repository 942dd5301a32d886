//go:build cgo

package gorgonia_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func TestDensesDoNotCareWhereMemoryLies(t *testing.T) {
	repotest.CheckFunctionsOfTensors(t, ".", []string{"Dense"})
	dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
		d, release, err := gorgonia.Dense(x, gorgonia.AllowTransposed)
		if err != nil {
			return "refused"
		}
		defer release()
		back := must.Do(gorgonia.FromDense(d))(t)
		defer back.Close()
		require.Equal(t, x.Data(), back.Data())
		out := must.Do(back.AppendBytes(nil))(t)
		sum := "none"
		if x.DType() == dlpack.Float32 && x.Rank() > 0 {
			s := must.Do(tensor.Sum(d))(t)
			twice, err := tensor.Mul(d, float32(2), tensor.UseUnsafe()) // in place
			require.NoError(t, err)
			sum = fmt.Sprint(s.Data(), twice.Data())
		}
		return []any{out, d.Shape(), sum}
	})
}
