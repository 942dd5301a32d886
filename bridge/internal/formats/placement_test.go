//go:build cgo

package formats_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func TestTensorsAreWrittenAndReadWhereverMemoryLies(t *testing.T) {
	for _, f := range formats.All {
		t.Run(f.Name(), func(t *testing.T) {
			var names []string
			for _, use := range uses(t, f) {
				names = append(names, use.name)
			}
			repotest.CheckFunctionsOfTensors(t, filepath.Join(root, f.Folder), names)
			dlpacktest.CheckPlacements(t, func(t testing.TB, x *dlpack.Tensor) any {
				var outcomes []any
				for _, w := range f.Writers {
					out, err := w.Append(nil, x)
					behind, _ := w.Append([]byte("before"), x)
					outcomes = append(outcomes, out, behind)
					require.Equal(t, "before", string(behind[:6]))
					if err != nil {
						require.ErrorIs(t, err, f.NoDType)
						continue
					}
					size := must.Do(w.Size(x))(t)
					require.Len(t, out, size)
					if x.DType() == dlpack.Float32 { // and back, at any address
						for i := range dlpacktest.Placements {
							readBack(t, f, &dlpacktest.Placements[i], out, x)
						}
					}
				}
				for _, other := range f.Others {
					other.Use(t, x)
				}
				return outcomes
			})
		})
	}
}

func readBack(t testing.TB, f *formats.Format, p *dlpacktest.Placement, message []byte, x *dlpack.Tensor) {
	want := must.Do(x.AppendBytes(nil))(t)
	spec := dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{int64(len(message))}}
	p.Check(t, p.Name, message, spec, func(t testing.TB, data *dlpack.Tensor) any {
		var outcomes []any
		for _, r := range f.Readers {
			for _, align := range []int{0, 1, 256} {
				v := must.Do(r.Read(data, align))(t)
				defer v.Tensor.Close()
				got := must.Do(v.Tensor.AppendBytes(nil))(t)
				require.Equal(t, want, got)
				if len(want) > 0 {
					inside := v.Tensor.Data() >= data.Data() && v.Tensor.Data() < data.Data()+uintptr(len(message))
					assert.Equal(t, inside, !v.Copied)
				}
				outcomes = append(outcomes, v.Copied, v.Tensor.String())
			}
		}
		return outcomes
	})
}
