//go:build cgo

package gorgonia_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// story is what the README shows, with the errors that it leaves out.
func story(t *dlpack.Tensor, other *tensor.Dense) (*dlpack.Tensor, error) {
	d, release, err := gorgonia.Dense(t) // t's memory: NumPy's, a message's, C's
	if err != nil {
		return nil, err
	}
	_, err = tensor.Add(d, other, tensor.UseUnsafe()) // the producer sees the sum
	if err != nil {
		release()
		return nil, err
	}
	x, err := gorgonia.FromDense(d) // any layout gorgonia makes, for any consumer
	release()                       // Go's hold ends; x has one of its own
	return x, err
}

func TestG87StoryOfTheReadmeIsTrue(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	f := foreignTensor(t, dlpack.Float32, []int64{2, 3}, 'C', func(i int64) complex128 { return complex(float64(10*i), 0) })
	x, err := story(f.Tensor, full(2, 3))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.Equal(t, f.Data(), x.Data())
	assert.Equal(t, 0, f.producer.Deletes())
	values, err := dlpack.Values[float32](x)
	require.NoError(t, err)
	assert.Equal(t, []float32{0, 11, 22, 33, 44, 55}, values)
	require.NoError(t, x.Close())
	assert.Equal(t, 1, f.producer.Deletes())

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	here, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(readme), "```go\nd, release, err := gorgonia.Dense(t)")
	require.True(t, found)
	block, _, _ = strings.Cut("d, release, err := gorgonia.Dense(t)"+block, "```")
	code := strings.Join(strings.Fields(string(here)), " ")
	for line := range strings.Lines(block) {
		assert.Contains(t, code, strings.Join(strings.Fields(line), " "))
	}
}
