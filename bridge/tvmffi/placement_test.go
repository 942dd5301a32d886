//go:build cgo

package tvmffi_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func TestArgumentsDoNotCareWhereMemoryLies(t *testing.T) {
	need(t)
	repotest.CheckFunctionsOfTensors(t, ".", []string{"Keep", "UnsafeConstant"})
	f := serve(t, func(a tvmffi.Args) (any, error) {
		x := a.Tensor(0)
		if err := a.Check(1); err != nil {
			return nil, err
		}
		return x.AppendBytes(nil)
	})
	dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
		var outcomes []any
		for _, arg := range []any{x, tvmffi.UnsafeConstant(x), tvmffi.Keep(x)} {
			got, err := f.Call(arg)
			if _, kept := arg.(tvmffi.Kept); kept && errors.Is(err, dlpack.ErrBorrowed) {
				continue // nothing would keep the memory
			}
			if x.ReadOnly() && errors.Is(err, dlpack.ErrReadOnly) {
				got, err = "refused", nil
			}
			require.NoError(t, err)
			outcomes = append(outcomes, got)
		}
		return outcomes[:2] // all placements have these
	})
}
