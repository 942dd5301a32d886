//go:build cgo

package nervana_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// cause returns the cause of an error, without the address that its text may contain.
func cause(err error) string {
	if errors.Is(err, dlpack.ErrReadOnly) {
		return dlpack.ErrReadOnly.Error()
	}
	return fmt.Sprint(err)
}

func TestTensorsAreComposedAndBoundWhereverMemoryLies(t *testing.T) {
	repotest.CheckFunctionsOfTensors(t, ".", []string{"Compose", "Describe", "Description.Bind"})
	dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
		described := nervana.Describe(x)
		bound := must.Do(described.Bind(x))(t)
		defer bound.Close()
		require.Equal(t, x.Data(), bound.Data())

		whole := must.Do(nervana.Simple(0, x.Layout()))(t)
		dst := must.Do(dlpack.New(x.DType(), x.Shape()...))(t)
		defer dst.Close()
		require.NoError(t, nervana.Compose(dst, whole, bound))
		composed := must.Do(dst.AppendBytes(nil))(t)
		want := must.Do(x.AppendBytes(nil))(t)
		require.Equal(t, want, composed)

		back := must.Do(nervana.Simple(0, dst.Layout()))(t)
		written := cause(nervana.Compose(x, back, dst))
		return []any{described.String(), bound.String(), composed, written}
	})
}
