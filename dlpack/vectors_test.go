//go:build cgo

package dlpack_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

type stridedLayout struct {
	Shape     []int64
	Strides   []*int64 // nil: without a meaning
	Offset    *int64
	Allocated int64
}

// nervana has the cases of strided layouts.
type nervana struct {
	vectors.Folder
	Views []struct {
		ID   string
		Base stridedLayout
		Ops  []struct {
			Op    string
			Perm  []int
			Shape []int64
			Axis  int
			Index []json.RawMessage
		}
		View     stridedLayout
		Linear   []int32
		Overlaps bool `json:"overlaps_itself"`
		RowMajor bool `json:"row_major_contiguous"`
		Error    string
	}
	Reshape []struct {
		stridedLayout
		To     []int64
		NoCopy bool `json:"no_copy"`
	}
	Permute []struct {
		Shape, Sizes, Strides, Index []int64
		Perm                         []int
		PermutedIndex                []int64 `json:"permuted_index"`
		PermutedShape                []int64 `json:"permuted_shape"`
		PermutedStrides              []int64 `json:"permuted_strides"`
		Linear                       int32
	}
}

// laid returns a tensor with the given layout. Each element is its own position. Strides without a meaning are 0.
func laid(t *testing.T, l stridedLayout) (tensor *dlpack.Tensor, memory []int32) {
	memory = numbered([]int64{l.Allocated})
	s := dlpack.Spec{DType: dlpack.Int32, Shape: l.Shape, Strides: make([]int64, len(l.Strides))}
	for d, stride := range l.Strides {
		if stride != nil {
			s.Strides[d] = *stride
		}
	}
	if l.Offset != nil {
		s.ByteOffset = 4 * *l.Offset
	}
	return fromBytes(t, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), 4*l.Allocated), s), memory
}

// elements returns the elements of a tensor of int32, row-major.
func elements(t *testing.T, tensor *dlpack.Tensor) (all []int32) {
	for _, index := range viewtest.Indices(tensor.Shape()) {
		value := must.Do(dlpack.At[int32](tensor, index...))(t)
		all = append(all, value)
	}
	return all
}

// pythonIndex decodes one number, or [start, stop, step] with null for each missing number.
func pythonIndex(t *testing.T, raw json.RawMessage) layout.Index {
	var at int64
	if json.Unmarshal(raw, &at) == nil {
		return layout.At(at)
	}
	var three [3]*int64
	require.NoError(t, json.Unmarshal(raw, &three))
	x := layout.All()
	switch start, stop := three[0], three[1]; {
	case start != nil && stop != nil:
		x = layout.Range(*start, *stop)
	case start != nil:
		x = layout.From(*start)
	case stop != nil:
		x = layout.Until(*stop)
	}
	if three[2] != nil {
		x = x.By(*three[2])
	}
	return x
}

func TestViewsOfTheDocumentShareTheMemory(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Views)
		for _, test := range m.Views {
			t.Run(test.ID, func(t *testing.T) {
				dlpacktest.CheckLeaks(t)
				tensor, memory := laid(t, test.Base)
				var err error
				for _, op := range test.Ops {
					require.NoError(t, err, "only the last operation may fail")
					var view *dlpack.Tensor
					switch op.Op {
					case "transpose":
						view, err = tensor.Transpose(op.Perm...)
					case "slice":
						var index []layout.Index
						for _, raw := range op.Index {
							index = append(index, pythonIndex(t, raw))
						}
						view, err = tensor.Slice(index...)
					case "broadcast":
						view, err = tensor.BroadcastTo(op.Shape...)
					case "flip":
						view, err = tensor.Flip(op.Axis)
					case "expand":
						view, err = tensor.Expand(op.Axis)
					case "reshape":
						view, err = tensor.Reshape(op.Shape...)
					default:
						t.Fatalf("operation %q", op.Op)
					}
					if err == nil {
						t.Cleanup(func() { view.Close() })
						tensor = view
					}
				}
				if test.Error != "" {
					require.ErrorIs(t, err, dlpack.ErrLayout)
					require.Equal(t, test.Error == "no view", errors.Is(err, layout.ErrCopy))
					return
				}
				require.NoError(t, err)
				assert.Equal(t, append([]int64{}, test.View.Shape...), tensor.Shape())
				assert.True(t, slices.Equal(test.Linear, elements(t, tensor)))
				assert.Equal(t, test.RowMajor, tensor.IsContiguous())
				assert.Equal(t, test.Overlaps, tensor.ReadOnly())
				if len(test.Linear) > 0 {
					assert.Equal(t, uintptr(unsafe.Pointer(&memory[test.Linear[0]])), tensor.Data())
				}
			})
		}
	})
}

// If no view can have a shape, a copy can.
func TestReshapesOfTheDocument(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Reshape)
		for _, test := range m.Reshape {
			test.Allocated = *test.Offset + 1 // the manifest lacks it
			for d, stride := range test.Strides {
				test.Allocated += max(*stride, 0) * (test.Shape[d] - 1)
			}
			tensor, _ := laid(t, test.stridedLayout)
			view, err := tensor.Reshape(test.To...)
			if !test.NoCopy {
				require.ErrorIs(t, err, layout.ErrCopy)
				require.ErrorContains(t, err, "Contiguous makes one")
				packed, copied, err := tensor.Contiguous(dlpack.RowMajor)
				require.NoError(t, err)
				assert.True(t, copied)
				view = must.Do(packed.Reshape(test.To...))(t)
				packed.Close()
			} else {
				require.NoError(t, err)
				assert.Equal(t, tensor.Data(), view.Data())
			}
			assert.True(t, slices.Equal(test.To, view.Shape()))
			assert.Equal(t, elements(t, tensor), elements(t, view))
			view.Close()
		}
	})
}

func TestPermutedIndicesFindTheSameElement(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Permute)
		for _, test := range m.Permute {
			allocated := must.Do(layout.Count(test.Sizes))(t)
			base := stridedLayout{Shape: test.Shape, Allocated: allocated}
			for d := range test.Strides {
				base.Strides = append(base.Strides, &test.Strides[d])
			}
			tensor, _ := laid(t, base)
			view := must.Do(tensor.Transpose(test.Perm...))(t)
			assert.Equal(t, test.PermutedShape, view.Shape())
			assert.Equal(t, test.PermutedStrides, view.Strides())
			for tensor, index := range map[*dlpack.Tensor][]int64{tensor: test.Index, view: test.PermutedIndex} {
				value := must.Do(dlpack.At[int32](tensor, index...))(t)
				assert.Equal(t, test.Linear, value)
			}
			view.Close()
		}
	})
}

// tensorflow has the results of TensorFlow's views of tensors with the elements 0, 1, 2, ...
type tensorflow struct {
	vectors.Folder
	Views struct {
		Slice []struct {
			DType        int
			Shape        []int64
			Start, Limit int64
			viewResult
		}
		Subslice []struct {
			DType int
			Shape []int64
			Index int64
			viewResult
		}
		Reshape []struct {
			Shape, To []int64
			OK        bool
			Shares    bool `json:"shares_buffer"`
		}
		Flat []struct {
			Shape      []int64
			NDims      int
			Begin      *int
			Inner      []int64 `json:"flat_inner_dims"`
			Outer      []int64 `json:"flat_outer_dims"`
			InnerOuter []int64 `json:"flat_inner_outer_dims"`
		}
		Bitcast []struct {
			DType   int
			Shape   []int64
			ToDType int     `json:"to_dtype"`
			ToShape []int64 `json:"to_shape"`
			OK      bool
		}
		Split []struct {
			DType        int
			Shape, Sizes []int64
			Parts        []struct {
				Shape []int64
				Data  string `json:"data_hex"`
			}
			Error string
		}
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

type viewResult struct {
	ResultShape []int64 `json:"result_shape"`
	OffsetBytes int64   `json:"offset_bytes"`
	Aligned     bool    `json:"aligned_64"`
	Shares      bool    `json:"shares_buffer"`
	Data        *string `json:"data_hex"`
}

// tensorflowTypes maps TensorFlow's numbers of the data types in these cases to data types.
var tensorflowTypes = map[int]dlpack.DataType{1: dlpack.Float32, 2: dlpack.Float64, 3: dlpack.Int32, 4: dlpack.Uint8, 9: dlpack.Int64}

// counting returns a tensor with the elements 0, 1, 2, ..., aligned as TensorFlow's tensors are.
func counting(t *testing.T, dtype int, shape []int64) *dlpack.Tensor {
	dt, ok := tensorflowTypes[dtype]
	require.True(t, ok, "data type %d", dtype)
	tensor := must.Do(dlpack.New(dt, shape...))(t)
	t.Cleanup(func() { tensor.Close() })
	for i, index := range viewtest.Indices(shape) {
		require.NoError(t, tensor.SetAt(i, index...))
	}
	return tensor
}

func requireBytes(t *testing.T, want string, tensor *dlpack.Tensor) {
	t.Helper()
	data := must.Do(tensor.AppendBytes(nil))(t)
	require.Equal(t, want, hex.EncodeToString(data))
}

func TestViewsOfTensorFlowShareTheMemory(t *testing.T) {
	made := func(view *dlpack.Tensor, err error) *dlpack.Tensor {
		require.NoError(t, err)
		t.Cleanup(func() { view.Close() })
		return view
	}
	requireView := func(t *testing.T, base, view *dlpack.Tensor, want viewResult) {
		assert.Equal(t, append([]int64{}, want.ResultShape...), view.Shape())
		assert.True(t, view.IsContiguous())
		if want.Data != nil {
			requireBytes(t, *want.Data, view)
		}
		if view.NumElements() == 0 {
			return
		}
		require.True(t, want.Shares)
		assert.Equal(t, base.Data()+uintptr(want.OffsetBytes), view.Data())
		assert.Equal(t, want.Aligned, view.RequireAlign(64) == nil)
	}
	vectors.Each(t, "tensorflow", func(t *testing.T, m tensorflow) {
		require.NotEmpty(t, m.Views.Slice)
		for _, test := range m.Views.Slice {
			base := counting(t, test.DType, test.Shape)
			requireView(t, base, made(base.Narrow(0, test.Start, test.Limit-test.Start)), test.viewResult)
			requireView(t, base, made(base.Slice(layout.Range(test.Start, test.Limit))), test.viewResult)
		}
		require.NotEmpty(t, m.Views.Subslice)
		for _, test := range m.Views.Subslice {
			base := counting(t, test.DType, test.Shape)
			requireView(t, base, made(base.Index(test.Index)), test.viewResult)
		}
		require.NotEmpty(t, m.Views.Reshape)
		for _, test := range m.Views.Reshape {
			base := counting(t, 3, test.Shape)
			view, err := base.Reshape(test.To...)
			if !test.OK {
				require.ErrorIs(t, err, layout.ErrShape)
				continue
			}
			assert.Equal(t, test.Shares, base.Data() == made(view, err).Data())
			assert.Equal(t, elements(t, base), elements(t, view))
		}
		require.NotEmpty(t, m.Views.Flat)
		for _, test := range m.Views.Flat {
			base := counting(t, 3, test.Shape)
			flat := []*dlpack.Tensor{made(base.FlatInner(test.NDims)), made(base.FlatOuter(test.NDims))}
			shapes := [][]int64{test.Inner, test.Outer}
			if test.Begin != nil {
				flat, shapes = append(flat, made(base.FlatEnds(*test.Begin, test.NDims))), append(shapes, test.InnerOuter)
			}
			for k, view := range flat {
				assert.Equal(t, shapes[k], view.Shape())
				assert.Equal(t, base.Data(), view.Data())
				assert.Equal(t, elements(t, base), elements(t, view))
			}
		}
		require.NotEmpty(t, m.Views.Bitcast)
		for _, test := range m.Views.Bitcast {
			base := counting(t, test.DType, test.Shape)
			view, err := base.Bitcast(tensorflowTypes[test.ToDType])
			if !test.OK {
				require.ErrorIs(t, err, layout.ErrShape)
				continue
			}
			assert.Equal(t, test.ToShape, made(view, err).Shape())
			assert.Equal(t, base.Data(), view.Data())
			data := must.Do(base.AppendBytes(nil))(t)
			requireBytes(t, hex.EncodeToString(data), view)
		}
		require.NotEmpty(t, m.Views.Split)
		for _, test := range m.Views.Split {
			base := counting(t, test.DType, test.Shape)
			parts, err := base.Split(0, test.Sizes...)
			if test.Error != "" {
				require.ErrorIs(t, err, layout.ErrShape)
				continue
			}
			require.NoError(t, err)
			require.Len(t, parts, len(test.Parts))
			next := base.Data()
			for k, part := range parts {
				assert.Equal(t, test.Parts[k].Shape, made(part, nil).Shape())
				assert.Equal(t, next, part.Data())
				next += uintptr(part.NumBytes())
				requireBytes(t, test.Parts[k].Data, part)
			}
		}
	})
}
