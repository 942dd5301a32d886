//go:build cgo

package nervana_test

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// sources returns row-major tensors, each with a composite that is a view of it. Element i of tensor k is 1000×k+i.
func sources(t *testing.T, shapes ...[]int64) (tensors []*dlpack.Tensor, composites []nervana.Composite) {
	for k, shape := range shapes {
		numbers := numbered(shape)
		for i := range numbers {
			numbers[i] += int32(1000 * k)
		}
		tensor := fromSlice(t, numbers, shape...)
		t.Cleanup(func() { tensor.Close() })
		c := must.Do(nervana.Simple(k, tensor.Layout()))(t)
		tensors, composites = append(tensors, tensor), append(composites, c)
	}
	return tensors, composites
}

// requireComposed writes a composite to new tensors, one row-major and one column-major, and checks their elements.
func requireComposed(t *testing.T, c nervana.Composite, tensors []*dlpack.Tensor, shape []int64, source []int, linear []*int64) {
	var want []int32
	for i, k := range source {
		at := int32(1000 * k)
		if linear[i] != nil {
			at += int32(*linear[i])
		}
		want = append(want, at)
	}
	dst := must.Do(dlpack.New(dlpack.Int32, shape...))(t)
	defer dst.Close()
	columns, _, err := dst.Contiguous(dlpack.ColumnMajor)
	require.NoError(t, err)
	defer columns.Close()
	for _, dst := range []*dlpack.Tensor{dst, columns} {
		require.NoError(t, nervana.Compose(dst, c, tensors...))
		require.Equal(t, want, elements(t, dst))
	}
}

func TestComplexViewsOfTheDocumentAreWritten(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		require.NotEmpty(t, m.Pad)
		for _, test := range m.Pad {
			tensors, parts := sources(t, test.Shape, []int64{1})
			padded := must.Do(parts[0].Pad(1, test.Pads...))(t)
			requireComposed(t, padded, tensors, test.ResultShape, test.Source, test.Linear)
		}
		require.NotEmpty(t, m.Join)
		for _, test := range m.Join {
			tensors, parts := sources(t, test.Shapes...)
			joined := must.Do(nervana.Concat(test.Axis, parts...))(t)
			requireComposed(t, joined, tensors, test.ResultShape, test.Source, test.Linear)
		}
	})
}

func TestConvolutionsOfTheDocument(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		require.NotEmpty(t, m.Convolution)
		for _, test := range m.Convolution {
			require.Equal(t, "0, 1, 2, ... in row-major order", test.ImageValues)
			image, zero := fromSlice(t, numbered(test.Image), test.Image...), fromSlice(t, []int32{0})
			around := [2]int64{test.Pad, test.Pad}
			c := must.Do(nervana.Simple(0, image.Layout()))(t)
			c = must.Do(c.Pad(1, [2]int64{}, around, around))(t)
			padded := must.Do(dlpack.New(dlpack.Int32, c.Shape()...))(t)
			require.NoError(t, nervana.Compose(padded, c, image, zero))
			windows, err := padded.Apply(func(l *layout.Layout) error {
				return errors.Join(l.Windows(1, test.Kernel[2], test.Step, test.Dilation), l.Windows(2, test.Kernel[3], test.Step, test.Dilation), l.Transpose(1, 2, 0, 3, 4))
			})
			require.NoError(t, err)
			assert.Equal(t, test.ResultShape[len(test.ResultShape)-2:], windows.Shape()[:2])
			size := int(test.Kernel[1] * test.Kernel[2] * test.Kernel[3])
			var result []int64
			for kernel := range slices.Chunk(test.KernelValues, size) {
				for window := range slices.Chunk(elements(t, windows), size) {
					sum := int64(0)
					for i, x := range window {
						sum += int64(x) * kernel[i]
					}
					result = append(result, sum)
				}
			}
			assert.Equal(t, test.Result, result)
			for _, tensor := range []*dlpack.Tensor{image, zero, padded, windows} {
				tensor.Close()
			}
		}
	})
}

// The expected elements of padded and joined tensors are computed with arrays.
func TestCompositesAreWrittenToTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	random := rand.New(rand.NewPCG(3, 5))
	for range 300 {
		shape := []int64{1 + random.Int64N(3), 1 + random.Int64N(3)}
		axis, far := random.IntN(2), random.Int64N(3)
		other := slices.Clone(shape)
		other[axis] = random.Int64N(3)
		a, b := numbered(shape), numbered(other)
		for k := range b {
			b[k] += 100
		}
		one := must.Do(fromSlice(t, slices.Clone(a), shape...).Flip())(t)
		slices.Reverse(a)
		two := fromSlice(t, slices.Clone(b), other...)
		fill := fromSlice(t, []int32{-1})
		first := must.Do(nervana.Simple(0, one.Layout()))(t)
		second := must.Do(nervana.Simple(1, two.Layout()))(t)
		both := must.Do(nervana.Concat(axis, first, second))(t)
		padded := must.Do(both.Pad(2, [2]int64{far, 1}, [2]int64{0, far}))(t)

		joined := slices.Clone(shape)
		joined[axis] += other[axis]
		to := []int64{joined[0] + far + 1, joined[1] + far}
		require.Equal(t, to, padded.Shape())
		var want []int32
		for _, index := range viewtest.Indices(to) {
			at := []int64{index[0] - far, index[1]}
			switch {
			case at[0] < 0 || at[0] >= joined[0] || at[1] >= joined[1]:
				want = append(want, -1)
			case at[axis] < shape[axis]:
				want = append(want, a[at[0]*shape[1]+at[1]])
			default:
				at[axis] -= shape[axis]
				want = append(want, b[at[0]*other[1]+at[1]])
			}
		}
		memory := make([]int32, to[0]*to[1])
		dst := fromSlice(t, memory, to[1], to[0])
		turned := must.Do(dst.Transpose())(t)
		require.NoError(t, nervana.Compose(turned, padded, one, two, fill))
		for k, index := range viewtest.Indices(to) {
			require.Equal(t, want[k], memory[index[1]*to[0]+index[0]])
		}

		assert.ErrorIs(t, nervana.Compose(turned, padded, one, two), dlpack.ErrLayout)
		assert.ErrorIs(t, nervana.Compose(one, padded, one, two, fill), layout.ErrShape)
		bytes := must.Do(dlpack.New(dlpack.Uint8, 1))(t)
		assert.ErrorIs(t, nervana.Compose(turned, padded, one, two, bytes), dlpack.ErrDType)
		seen := must.Do(fill.BroadcastTo(to...))(t)
		assert.ErrorIs(t, nervana.Compose(seen, padded, one, two, fill), dlpack.ErrReadOnly)
		for _, tensor := range []*dlpack.Tensor{one, two, fill, dst, turned, bytes, seen} {
			tensor.Close()
		}
		assert.ErrorIs(t, nervana.Compose(turned, padded, one, two, fill), dlpack.ErrClosed)
	}
}

// Pieces are written one after another. A piece that reads memory of the destination could read elements that another
// piece has written.
func TestComposeRefusesToReadWhatItWrites(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	tensor := fromSlice(t, data, 2, 4)
	defer tensor.Close()
	fill := fromSlice(t, []int32{-1})
	defer fill.Close()
	part := func(source int, index ...layout.Index) nervana.Composite {
		l := tensor.Layout()
		require.NoError(t, l.Slice(index...))
		return must.Do(nervana.Simple(source, l))(t)
	}
	swapped := must.Do(nervana.Concat(1, part(0, layout.All(), layout.From(2)), part(0, layout.All(), layout.Until(2))))(t)
	err := nervana.Compose(tensor, swapped, tensor)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	assert.EqualError(t, err, "nervana: compose: source 0 lies in the memory of the destination; Copy makes a source apart from it")
	assert.Equal(t, []int32{0, 1, 2, 3, 4, 5, 6, 7}, data)
	require.ErrorIs(t, nervana.Compose(tensor, swapped, nil), dlpack.ErrLayout)

	// Padding a part of the destination in place is allowed: its elements keep their places.
	padded := must.Do(part(0, layout.All(), layout.Range(1, 3)).Pad(1, [2]int64{}, [2]int64{1, 1}))(t)
	require.NoError(t, nervana.Compose(tensor, padded, tensor, fill))
	assert.Equal(t, []int32{-1, 1, 2, -1, -1, 5, 6, -1}, data)

	// Odd columns can be written to even columns, because the two have no byte in common.
	even := must.Own(tensor.Slice(layout.All(), layout.All().By(2)))(t)
	joined := must.Do(nervana.Concat(1, part(0, layout.All(), layout.Range(3, 4)), part(0, layout.All(), layout.Range(1, 2))))(t)
	require.NoError(t, nervana.Compose(even, joined, tensor))
	assert.Equal(t, []int32{-1, 1, 1, -1, -1, 5, 5, -1}, data)

	none := must.Do(nervana.Simple(0, layout.Layout{Shape: []int64{0}, Strides: []int64{1}}))(t)
	empty := must.Do(dlpack.New(dlpack.Int32, 0))(t)
	require.NoError(t, nervana.Compose(empty, none))
	empty.Close()
	assert.ErrorIs(t, nervana.Compose(empty, none), dlpack.ErrClosed)
}

// If the elements of a destination overlap, there may be no overlap within any single piece.
func TestComposeRefusesADestinationThatOverlaps(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	source := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	defer source.Close()
	memory := fromSlice(t, make([]float32, 4))
	defer memory.Close()
	dst := must.Own(memory.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 2}, Strides: []int64{1, 1}}))(t)
	rows := must.Do(source.Split(0, 1, 1))(t)
	defer rows[0].Close()
	defer rows[1].Close()
	var pieces []nervana.Composite
	for i, row := range rows {
		piece := must.Do(nervana.Simple(i, row.Layout()))(t)
		pieces = append(pieces, piece)
	}
	whole := must.Do(nervana.Concat(0, pieces...))(t)
	err := nervana.Compose(dst, whole, rows...)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	assert.ErrorContains(t, err, "elements of the destination overlap: strides [1 1] of shape [2 2]")
	values := must.Do(dlpack.Values[float32](memory))(t)
	assert.Equal(t, make([]float32, 4), values)
}

func TestComposeNamesTheTensorThatIsNotOpen(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	open := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	defer open.Close()
	whole := must.Do(nervana.Simple(1, open.Layout()))(t)
	tensors := notOpen(t)
	assert.EqualError(t, nervana.Compose(tensors["closed"], whole, open, open), "nervana: compose: destination: the tensor is closed")
	assert.EqualError(t, nervana.Compose(open, whole, open, tensors["closed"]), "nervana: compose: source 1: the tensor is closed")
	assert.EqualError(t, nervana.Compose(open, whole, open, tensors["zero"]), "nervana: compose: source 1: the tensor is the zero Tensor")
	assert.EqualError(t, nervana.Compose(open, whole, open, nil), "nervana: compose: source 1 of 2 is missing or nil")
	assert.EqualError(t, nervana.Compose(open, whole, open), "nervana: compose: source 1 of 1 is missing or nil")
}

// concatenations are results of TensorFlow's tensor::Concat for tensors whose elements count up.
type concatenations struct {
	vectors.Folder
	Views struct {
		Concat []struct {
			Tensors []struct {
				DType int
				Shape []int64
			}
			Shape []int64
			Data  string `json:"data_hex"`
			Error string
		}
	}
}

// counting returns a tensor whose elements count up.
func counting(t *testing.T, dtype dlpack.DataType, shape []int64) *dlpack.Tensor {
	require.NotZero(t, dtype)
	tensor := must.Do(dlpack.New(dtype, shape...))(t)
	t.Cleanup(func() { tensor.Close() })
	for i, index := range viewtest.Indices(shape) {
		require.NoError(t, tensor.SetAt(i, index...))
	}
	return tensor
}

// TestTensorFlowConcatenations compares with the results of TensorFlow.
func TestTensorFlowConcatenations(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	vectors.Each(t, "tensorflow", func(t *testing.T, m concatenations) {
		types := map[int]dlpack.DataType{1: dlpack.Float32, 3: dlpack.Int32, 9: dlpack.Int64}
		require.NotEmpty(t, m.Views.Concat)
		for _, test := range m.Views.Concat {
			var tensors []*dlpack.Tensor
			var parts []nervana.Composite
			for k, tensor := range test.Tensors {
				tensors = append(tensors, counting(t, types[tensor.DType], tensor.Shape))
				part := must.Do(nervana.Simple(k, tensors[k].Layout()))(t)
				parts = append(parts, part)
			}
			joined, err := nervana.Concat(0, parts...)
			require.NoError(t, err)
			dst := must.Do(dlpack.New(tensors[0].DType(), joined.Shape()...))(t)
			defer dst.Close()
			if err = nervana.Compose(dst, joined, tensors...); test.Error != "" {
				require.ErrorIs(t, err, dlpack.ErrDType)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, test.Shape, dst.Shape())
			data := must.Do(dst.AppendBytes(nil))(t)
			assert.Equal(t, test.Data, hex.EncodeToString(data))
		}
	})
}
