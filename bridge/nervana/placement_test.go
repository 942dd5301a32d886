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
)

// cause returns the cause of an error, without the address that its text may contain.
func cause(err error) string {
	if errors.Is(err, dlpack.ErrReadOnly) {
		return dlpack.ErrReadOnly.Error()
	}
	return fmt.Sprint(err)
}

func TestTensorsAreComposedAndBoundWhereverMemoryLies(t *testing.T) {
	dlpacktest.CheckFunctionsOfTensors(t, ".", []string{"Compose", "Describe", "Description.Bind"})
	dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
		described := nervana.Describe(x)
		bound, err := described.Bind(x)
		require.NoError(t, err)
		defer bound.Close()
		require.Equal(t, x.Data(), bound.Data())

		whole, err := nervana.Simple(0, x.Layout())
		require.NoError(t, err)
		dst, err := dlpack.New(x.DType(), x.Shape()...)
		require.NoError(t, err)
		defer dst.Close()
		require.NoError(t, nervana.Compose(dst, whole, bound))
		composed, err := dst.AppendBytes(nil)
		require.NoError(t, err)
		want, err := x.AppendBytes(nil)
		require.NoError(t, err)
		require.Equal(t, want, composed)

		back, err := nervana.Simple(0, dst.Layout())
		require.NoError(t, err)
		written := cause(nervana.Compose(x, back, dst))
		return []any{described.String(), bound.String(), composed, written}
	})
}
