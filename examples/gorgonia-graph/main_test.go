package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/dlpack"
)

// nothingLeft fails the test if tensors are alive when it ends that were not when it began.
func nothingLeft(t *testing.T) {
	before := dlpack.ReadStats()
	t.Cleanup(func() { assert.Equal(t, before.Allocations, dlpack.ReadStats().Allocations) })
}

func TestReadmeShowsWhatIsPrinted(t *testing.T) {
	nothingLeft(t)
	var printed bytes.Buffer
	require.NoError(t, story(&printed))
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Contains(t, strings.ReplaceAll(string(readme), "\r", ""), "```\n"+printed.String()+"```\n")
}

// Inputs are swapped and written to, without a copy and without a new graph.
func TestForwardPassReadsForeignMemory(t *testing.T) {
	nothingLeft(t)
	const rows, inner, columns = 5, 4, 3
	random := func(n int) (values []float64) {
		for range n {
			values = append(values, float64(rand.IntN(20)-10))
		}
		return values
	}
	fill := func(shape ...int64) (*dlpack.Tensor, []float64) {
		n := int64(1)
		for _, size := range shape {
			n *= size
		}
		x, theirs, err := memory(shape, random(int(n))...)
		require.NoError(t, err)
		t.Cleanup(func() { x.Close() })
		return x, theirs
	}
	w, inW := fill(inner, columns)
	b, inB := fill(columns)
	var m model
	defer m.close()
	require.NoError(t, m.build(rows, w, b))
	nodes := len(m.x.Graph().AllNodes())
	for turn := range 50 {
		x, inX := fill(rows, inner)
		require.NoError(t, m.let(x))
		assert.Equal(t, x.Data(), m.x.Value().(*tensor.Dense).Uintptr())
		for range 3 {
			copy(inX, random(len(inX)))
			copy(inW, random(len(inW)))
			if turn%10 == 0 {
				runtime.GC()
			}
			y, err := m.run()
			require.NoError(t, err)
			values, err := dlpack.Values[float64](y)
			require.NoError(t, err)
			require.Len(t, values, rows*columns)
			for i, got := range values {
				want := inB[i%columns]
				for k := range inner {
					want += inX[i/columns*inner+k] * inW[k*columns+i%columns]
				}
				assert.Equal(t, want, got, "y[%d][%d]", i/columns, i%columns)
			}
			require.NoError(t, y.Close())
		}
	}
	for _, n := range m.x.Graph().AllNodes() {
		if n.Name() == "w" {
			assert.Equal(t, w.Data(), n.Value().(*tensor.Dense).Uintptr())
		}
	}
	assert.Len(t, m.x.Graph().AllNodes(), nodes, "the graph was built anew")
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	nothingLeft(t)
	w, _, err := memory([]int64{3, 2})
	require.NoError(t, err)
	b, _, err := memory([]int64{2})
	require.NoError(t, err)
	var m, other model
	require.NoError(t, m.build(2, w, b))
	assert.ErrorContains(t, m.let(w), "shape")
	gap, err := w.View(dlpack.Spec{DType: dlpack.Float64, Shape: []int64{2, 1}, Strides: []int64{2, 1}})
	require.NoError(t, err)
	assert.ErrorIs(t, m.let(gap), dlpack.ErrLayout)
	assert.ErrorIs(t, other.build(2, w, gap), dlpack.ErrLayout)
	for _, x := range []*dlpack.Tensor{w, b, gap} {
		require.NoError(t, x.Close())
	}
	m.close()
	other.close()
}
