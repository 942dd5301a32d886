package nervana_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// manifest is the part of the Nervana vectors that this package reads. Package layout reads the rest.
type manifest struct {
	vectors.Folder
	Kinds   map[string]struct{ Constant, Persistent, Trainable, Input bool }
	Layouts []struct {
		ID           string
		Shape, Sizes []int64
		Order        json.RawMessage
		Strides      []*int64 // nil where any stride is valid
		Allocated    int64
		Points       []struct {
			Index  []int64
			Linear int64
		}
		OutOfBounds [][]int64 `json:"out_of_bounds"`
	}
	Alignment []struct {
		Shape, Sizes   []int64
		Itemsize       int64
		AlignBytes     int64 `json:"align_bytes"`
		Order          json.RawMessage
		Strides        []*int64
		AllocatedBytes int64 `json:"allocated_bytes"`
	}
	Flatten []struct {
		ID          string
		Shape       []int64
		Strides     [][]int64
		Elements    int64
		SingleIndex *struct {
			Count int64
			Steps []int64
		} `json:"single_index"`
		Reduced *struct {
			Shape   []int64
			Strides [][]int64
		}
		Flattenable bool `json:"document_flattenable"`
	}
	Pad []struct {
		Shape       []int64
		Pads        [][2]int64
		ResultShape []int64 `json:"result_shape"`
		Source      []int
		Linear      []*int64
	}
	Join []struct {
		Shapes      [][]int64
		Axis        int
		ResultShape []int64 `json:"result_shape"`
		Source      []int
		Linear      []*int64
	}
	Convolution []struct {
		Image, Kernel       []int64
		ImageValues         string `json:"image_values"`
		Step, Pad, Dilation int64
		KernelValues        []int64 `json:"kernel_values"`
		PaddedShape         []int64 `json:"padded_shape"`
		Windows             struct {
			Shape, Strides []int64
			Offset         int64
		}
		LinearHead  []int64 `json:"windows_linear_head"`
		ResultShape []int64 `json:"result_shape"`
		Result      []int64
	}
}

func TestNervanaFlatten(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		require.NotEmpty(t, m.Flatten)
		for _, c := range m.Flatten {
			t.Run(c.ID, func(t *testing.T) {
				var layouts []layout.Layout
				for _, strides := range c.Strides {
					layouts = append(layouts, layout.Layout{Shape: c.Shape, Strides: strides})
				}
				var w nervana.Walk
				require.NoError(t, w.Reset(layouts...))
				assert.Equal(t, c.Elements, w.Count())
				count, steps, flat := w.Flat()
				require.Equal(t, c.SingleIndex != nil, flat)
				if flat {
					assert.Equal(t, c.SingleIndex.Count, count)
					assert.Equal(t, c.SingleIndex.Steps, steps)
				}
				assert.Equal(t, c.Flattenable, flat && !slices.ContainsFunc(steps, func(step int64) bool { return step != 1 }))
				if c.Reduced == nil {
					require.Zero(t, c.Elements)
					return
				}
				// The dimensions may come in another order.
				dimensions := func(shape []int64, strides func(k int) []int64) (all [][]int64) {
					for d, n := range shape {
						dimension := []int64{n}
						for k := range layouts {
							dimension = append(dimension, strides(k)[d])
						}
						all = append(all, dimension)
					}
					return all
				}
				assert.ElementsMatch(t, dimensions(c.Reduced.Shape, func(k int) []int64 { return c.Reduced.Strides[k] }), dimensions(w.Shape(), w.Strides))
			})
		}
	})
}

// requireSelects checks the source and the offset of each element, in row-major order, both with OffsetOf and with Into.
func requireSelects(t *testing.T, c nervana.Composite, shape []int64, sources []int, linear []*int64) {
	t.Helper()
	require.Equal(t, shape, c.Shape())
	want := func(i int) [2]int64 {
		at := [2]int64{int64(sources[i]), 0}
		if linear[i] != nil {
			at[1] = *linear[i]
		}
		return at
	}
	dst := must.Do(layout.New(shape, nil, nil))(t)
	for i, index := range viewtest.Indices(shape) {
		source, offset, err := c.OffsetOf(index...)
		require.NoError(t, err)
		require.Equal(t, want(i), [2]int64{int64(source), offset}, "index %v", index)
	}
	got := map[int64][2]int64{}
	require.NoError(t, c.Into(dst, func(dst, src layout.Layout, source int) error {
		from := viewtest.Offsets(src)
		for i, to := range viewtest.Offsets(dst) {
			assert.NotContains(t, got, to)
			got[to] = [2]int64{int64(source), from[i]}
		}
		return nil
	}))
	require.Len(t, got, len(sources))
	for i := range sources {
		require.Equal(t, want(i), got[int64(i)])
	}
}

func product(shape []int64) int64 {
	count := int64(1)
	for _, n := range shape {
		count *= n
	}
	return count
}

func rowMajor(t *testing.T, source int, shape []int64) nervana.Composite {
	t.Helper()
	l := must.Do(layout.New(shape, nil, nil))(t)
	return must.Do(nervana.Simple(source, l))(t)
}

func TestNervanaComplexViews(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		require.NotEmpty(t, m.Pad)
		for _, c := range m.Pad {
			padded := must.Do(rowMajor(t, 0, c.Shape).Pad(1, c.Pads...))(t)
			requireSelects(t, padded, c.ResultShape, c.Source, c.Linear)
		}
		require.NotEmpty(t, m.Join)
		for _, c := range m.Join {
			var parts []nervana.Composite
			for k, shape := range c.Shapes {
				parts = append(parts, rowMajor(t, k, shape))
			}
			joined := must.Do(nervana.Concat(c.Axis, parts...))(t)
			requireSelects(t, joined, c.ResultShape, c.Source, c.Linear)
		}
	})
}

func TestNervanaConvolution(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		require.NotEmpty(t, m.Convolution)
		for _, c := range m.Convolution {
			// image has the elements of the padded image.
			around := [2]int64{c.Pad, c.Pad}
			padded := must.Do(rowMajor(t, 0, c.Image).Pad(1, [2]int64{}, around, around))(t)
			require.Equal(t, c.PaddedShape, padded.Shape())
			l := must.Do(layout.New(c.PaddedShape, nil, nil))(t)
			image := make([]int64, product(c.PaddedShape))
			require.NoError(t, padded.Into(l, func(dst, src layout.Layout, source int) error {
				from := viewtest.Offsets(src)
				for i, to := range viewtest.Offsets(dst) {
					if image[to] = 0; source == 0 {
						image[to] = from[i] // the value of an element is its position
					}
				}
				return nil
			}))

			require.NoError(t, l.Windows(1, c.Kernel[2], c.Step, c.Dilation))
			require.NoError(t, l.Windows(2, c.Kernel[3], c.Step, c.Dilation))
			require.Equal(t, c.Windows.Shape, l.Shape)
			require.Equal(t, c.Windows.Strides, l.Strides)
			require.Equal(t, c.Windows.Offset, l.Offset)
			head := viewtest.Offsets(l)[:len(c.LinearHead)]
			require.True(t, slices.Equal(c.LinearHead, head))

			// Each element of the result is the sum of a window times the kernel.
			require.NoError(t, l.Transpose(1, 2, 0, 3, 4))
			windows := viewtest.Offsets(l)
			size := int(product(c.Kernel[1:]))
			var result []int64
			for kernel := range slices.Chunk(c.KernelValues, size) {
				for window := range slices.Chunk(windows, size) {
					sum := int64(0)
					for i, at := range window {
						sum += image[at] * kernel[i]
					}
					result = append(result, sum)
				}
			}
			require.Equal(t, product(c.ResultShape), int64(len(result)))
			assert.Equal(t, c.Result, result)
		}
	})
}
