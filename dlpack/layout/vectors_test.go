package layout_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A stride is nil if any stride is correct.
type stride = *int64

type stridedLayout struct {
	Shape, Sizes []int64
	Strides      []stride
	Offset       *int64
	Allocated    int64
}

func (s stridedLayout) layout(t *testing.T) layout.Layout {
	l := layout.Layout{Shape: slices.Clone(s.Shape), Strides: make([]int64, len(s.Strides))}
	for d, stride := range s.Strides {
		require.NotNil(t, stride)
		l.Strides[d] = *stride
	}
	if s.Offset != nil {
		l.Offset = *s.Offset
	}
	return l
}

// requireStrides compares the strides of all dimensions of more than one element.
func requireStrides(t *testing.T, want []stride, got layout.Layout) {
	t.Helper()
	require.Len(t, got.Strides, len(want))
	count := must.Do(got.Count())(t)
	for d, stride := range want {
		if stride != nil && count > 0 && got.Shape[d] > 1 {
			require.Equal(t, *stride, got.Strides[d], "%v", got)
		}
	}
}

// An order is "row", "column" or a list of dimensions.
type order []int

func (o *order) of(t *testing.T, raw json.RawMessage, rank int) []int {
	var name string
	if json.Unmarshal(raw, &name) != nil {
		require.NoError(t, json.Unmarshal(raw, o))
		return *o
	}
	for d := range rank {
		*o = append(*o, d)
	}
	if name == "column" {
		slices.Reverse(*o)
	} else {
		require.Equal(t, "row", name)
	}
	return *o
}

type nervana struct {
	vectors.Folder
	Layouts []struct {
		ID                  string
		Shape, Sizes        []int64
		Order               json.RawMessage
		Strides             []stride
		Allocated, Elements int64
		Extent              int64
		RowMajor            bool `json:"row_major_contiguous"`
		ColumnMajor         bool `json:"column_major_contiguous"`
		Points              []struct {
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
		Strides        []stride
		AllocatedBytes int64 `json:"allocated_bytes"`
	}
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
		Linear   []int64
		Overlaps bool `json:"overlaps_itself"`
		RowMajor bool `json:"row_major_contiguous"`
		Error    string
	}
	Reshape []struct {
		stridedLayout
		To        []int64
		NoCopy    bool     `json:"no_copy"`
		ToStrides []stride `json:"to_strides"`
	}
	Permute []struct {
		Shape, Sizes, Strides, Index []int64
		Perm                         []int
		PermutedIndex                []int64 `json:"permuted_index"`
		PermutedShape                []int64 `json:"permuted_shape"`
		PermutedSizes                []int64 `json:"permuted_sizes"`
		PermutedStrides              []int64 `json:"permuted_strides"`
		Linear                       int64
	}
}

func TestNervanaLayouts(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Layouts)
		for _, c := range m.Layouts {
			t.Run(c.ID, func(t *testing.T) {
				l := must.Do(layout.New(c.Shape, c.Sizes, new(order).of(t, c.Order, len(c.Shape))))(t)
				requireStrides(t, c.Strides, l)
				allocated := must.Do(layout.Count(c.Sizes))(t)
				assert.Equal(t, c.Allocated, allocated)
				count := must.Do(l.Count())(t)
				assert.Equal(t, c.Elements, count)
				low, high, err := l.Span()
				require.NoError(t, err)
				assert.Zero(t, low)
				assert.Equal(t, c.Extent, high)
				assert.Equal(t, c.RowMajor, l.IsRowMajor())
				assert.Equal(t, c.ColumnMajor, layout.IsColumnMajor(l.Shape, l.Strides))
				for _, p := range c.Points {
					offset := must.Do(l.OffsetOf(p.Index...))(t)
					assert.Equal(t, p.Linear, offset)
				}
				for _, index := range c.OutOfBounds {
					_, err := l.OffsetOf(index...)
					want := layout.ErrIndex
					if len(index) != len(c.Shape) {
						want = layout.ErrRank
					}
					assert.ErrorIs(t, err, want, "%v", index)
				}
			})
		}
	})
}

func TestNervanaAlignment(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Alignment)
		for _, c := range m.Alignment {
			order := new(order).of(t, c.Order, len(c.Shape))
			sizes := must.Do(layout.AppendAligned(nil, c.Shape, order, c.Itemsize, c.AlignBytes))(t)
			assert.Equal(t, c.Sizes, sizes)
			l := must.Do(layout.New(c.Shape, sizes, order))(t)
			requireStrides(t, c.Strides, l)
			allocated := must.Do(layout.Count(sizes))(t)
			assert.Equal(t, c.AllocatedBytes, allocated*c.Itemsize)
		}
	})
}

// pythonIndex reads an index: a number, or [start, stop, step], each of which may be null.
func pythonIndex(t *testing.T, raw json.RawMessage) layout.Index {
	var at int64
	if json.Unmarshal(raw, &at) == nil {
		return layout.At(at)
	}
	var three []*int64
	require.NoError(t, json.Unmarshal(raw, &three))
	require.Len(t, three, 3)
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

func TestNervanaViews(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Views)
		for _, c := range m.Views {
			t.Run(c.ID, func(t *testing.T) {
				l := c.Base.layout(t)
				var err error
				for _, op := range c.Ops {
					require.NoError(t, err, "only the last operation may fail")
					switch op.Op {
					case "transpose":
						err = l.Transpose(op.Perm...)
					case "slice":
						var index []layout.Index
						for _, raw := range op.Index {
							index = append(index, pythonIndex(t, raw))
						}
						err = l.Slice(index...)
					case "broadcast":
						err = l.BroadcastTo(op.Shape...)
					case "flip":
						err = l.Flip(op.Axis)
					case "expand":
						err = l.Expand(op.Axis)
					case "reshape":
						err = l.Reshape(op.Shape...)
					default:
						t.Fatalf("operation %q", op.Op)
					}
				}
				switch c.Error {
				case "no view":
					require.ErrorIs(t, err, layout.ErrCopy)
					return
				case "invalid":
					require.Error(t, err)
					require.NotErrorIs(t, err, layout.ErrCopy)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.View.Shape, l.Shape)
				requireStrides(t, c.View.Strides, l)
				if c.View.Offset != nil {
					assert.Equal(t, *c.View.Offset, l.Offset)
				}
				assert.True(t, slices.Equal(c.Linear, viewtest.Offsets(l)))
				assert.Equal(t, c.Overlaps, layout.Overlaps(l.Shape, l.Strides))
				assert.Equal(t, c.RowMajor, l.IsRowMajor())
				low, high, err := l.Span()
				require.NoError(t, err)
				assert.True(t, 0 <= low && high <= c.Base.Allocated)
			})
		}
	})
}

func TestNervanaReshape(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Reshape)
		for _, c := range m.Reshape {
			l := c.layout(t)
			err := l.Reshape(c.To...)
			if !c.NoCopy {
				require.ErrorIs(t, err, layout.ErrCopy)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.To, l.Shape)
			requireStrides(t, c.ToStrides, l)
			assert.Equal(t, *c.Offset, l.Offset)
		}
	})
}

func TestNervanaPermute(t *testing.T) {
	vectors.Each(t, "nervana", func(t *testing.T, m nervana) {
		require.NotEmpty(t, m.Permute)
		for _, c := range m.Permute {
			l := layout.Layout{Shape: slices.Clone(c.Shape), Strides: slices.Clone(c.Strides)}
			offset := must.Do(l.OffsetOf(c.Index...))(t)
			assert.Equal(t, c.Linear, offset)
			require.NoError(t, l.Transpose(c.Perm...))
			assert.Equal(t, c.PermutedShape, l.Shape)
			assert.Equal(t, c.PermutedStrides, l.Strides)
			offset = must.Do(l.OffsetOf(c.PermutedIndex...))(t)
			assert.Equal(t, c.Linear, offset)

			sizes := layout.Layout{Shape: slices.Clone(c.Sizes), Strides: slices.Clone(c.Strides)}
			require.NoError(t, sizes.Transpose(c.Perm...))
			assert.Equal(t, c.PermutedSizes, sizes.Shape)
		}
	})
}

// A partial shape is nil if the rank is unknown.
type partial *[]int64

func partialShape(t *testing.T, p partial) layout.PartialShape {
	t.Helper()
	if p == nil {
		return layout.PartialShape{}
	}
	return must.Do(layout.NewPartialShape(*p...))(t)
}

// A maybe is a shape or "error".
type maybe struct {
	shape   partial
	refused bool
}

func (m *maybe) UnmarshalJSON(text []byte) error {
	if m.refused = string(text) == `"error"`; m.refused {
		return nil
	}
	return json.Unmarshal(text, (**[]int64)(&m.shape))
}

type shapeResult struct {
	IsValid      bool `json:"is_valid"`
	Shape        partial
	Elements     int64
	Text         string
	FullyDefined bool `json:"fully_defined"`
	Error        string
}

type tensorflow struct {
	vectors.Folder
	DTypes []struct {
		Enum  int
		Bytes int64 `json:"bytes_per_element"`
	}
	ShapeProtos []struct {
		ID, File           string
		Hex                *string
		TensorShape        shapeResult
		PartialTensorShape shapeResult
	} `json:"shape_protos"`
	PartialShapes struct {
		Single []struct {
			Shape         partial
			Rank          int
			Elements      int64
			FullyDefined  bool    `json:"fully_defined"`
			AsTensorShape partial `json:"as_tensor_shape"`
			Text          string
		}
		Pairs []struct {
			A, B                  partial
			Compatible, Identical bool
			Merged                maybe
			Concatenated, Relaxed partial
			SubtypeOf             bool `json:"a_subtype_of_b"`
		}
		Edits []struct {
			Shape              partial
			Op                 string
			Args               []int64
			PartialTensorShape shapeResult
			TensorShape        shapeResult
		}
		StartsEnds []struct {
			Shape, Other partial
			Starts, Ends bool
		} `json:"starts_ends"`
	} `json:"partial_shapes"`
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
	Data        string  `json:"data_hex"`
}

func (m *tensorflow) bytes(t *testing.T, dtype int) int64 {
	for _, dt := range m.DTypes {
		if dt.Enum == dtype {
			return dt.Bytes
		}
	}
	t.Fatalf("no data type %d", dtype)
	return 0
}

// number returns the first element of data, which has the given TensorFlow data type.
func number(t *testing.T, dtype int, data []byte) int64 {
	switch dtype {
	case 1:
		return int64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case 3:
		return int64(binary.LittleEndian.Uint32(data))
	case 9:
		return int64(binary.LittleEndian.Uint64(data))
	}
	t.Fatalf("no values of data type %d", dtype)
	return 0
}

// requireCounts checks that each element in the hexadecimal text equals its offset.
func (m *tensorflow) requireCounts(t *testing.T, dtype int, text string, offsets []int64) {
	t.Helper()
	data := must.Do(hex.DecodeString(text))(t)
	size := m.bytes(t, dtype)
	require.Len(t, data, len(offsets)*int(size))
	for i, offset := range offsets {
		require.Equal(t, number(t, dtype, data[int64(i)*size:]), offset)
	}
}

func (m *tensorflow) requireView(t *testing.T, dtype int, l layout.Layout, want viewResult) {
	t.Helper()
	require.Equal(t, want.ResultShape, l.Shape)
	assert.True(t, l.IsRowMajor())
	offset := l.Offset * m.bytes(t, dtype)
	assert.Equal(t, want.OffsetBytes, offset)
	assert.Equal(t, want.Aligned, offset%64 == 0)
	if want.Data != "" {
		m.requireCounts(t, dtype, want.Data, viewtest.Offsets(l))
	}
}

// A message is the unread rest of a protocol buffer. Its fields are varints and nested messages.
type message []byte

func (m *message) varint(t *testing.T) uint64 {
	n, size := binary.Uvarint(*m)
	require.Positive(t, size)
	*m = (*m)[size:]
	return n
}

func (m *message) next(t *testing.T) (field int, number uint64, within message) {
	tag := m.varint(t)
	number = m.varint(t)
	if tag&7 == 2 {
		within, *m = (*m)[:number], (*m)[number:]
	} else {
		require.Zero(t, tag&7)
	}
	return int(tag >> 3), number, within
}

func TestTensorFlowShapeProtos(t *testing.T) {
	vectors.Each(t, "tensorflow", func(t *testing.T, m tensorflow) {
		require.NotEmpty(t, m.ShapeProtos)
		for _, c := range m.ShapeProtos {
			t.Run(c.ID, func(t *testing.T) {
				var proto message
				if c.Hex == nil {
					proto = m.File(t, c.File)
				} else {
					proto = must.Do(hex.DecodeString(*c.Hex))(t)
				}
				dims, ranked := []int64{}, true
				for len(proto) > 0 {
					field, number, dim := proto.next(t)
					switch field {
					case 2:
						size := int64(0)
						for len(dim) > 0 {
							field, number, _ := dim.next(t)
							require.Equal(t, 1, field)
							size = int64(number)
						}
						dims = append(dims, size)
					case 3:
						ranked = number == 0
					}
				}

				// TensorShape ignores unknown_rank.
				s, err := layout.NewPartialShape(dims...)
				require.Equal(t, c.TensorShape.IsValid, err == nil && s.IsFullyDefined(), "%v %v", s, err)
				if c.TensorShape.IsValid {
					requireShape(t, c.TensorShape, s)
				}
				if !ranked && len(dims) > 0 {
					require.False(t, c.PartialTensorShape.IsValid, "a PartialShape cannot be this")
					return
				}
				if !ranked {
					s, err = layout.PartialShape{}, nil
				}
				require.Equal(t, c.PartialTensorShape.IsValid, err == nil, "%v", err)
				if c.PartialTensorShape.IsValid {
					requireShape(t, c.PartialTensorShape, s)
					assert.Equal(t, c.PartialTensorShape.FullyDefined, s.IsFullyDefined())
				}
			})
		}
	})
}

func requireShape(t *testing.T, want shapeResult, got layout.PartialShape) {
	t.Helper()
	require.True(t, partialShape(t, want.Shape).Equal(got), "%v", got)
	count, ok := got.Count()
	if !ok {
		count = -1
	}
	assert.Equal(t, want.Elements, count)
	if want.Text != "" {
		assert.Equal(t, want.Text, got.String())
	}
	again := must.Do(layout.ParsePartialShape(got.String()))(t)
	assert.True(t, again.Equal(got))
}

func TestTensorFlowPartialShapes(t *testing.T) {
	vectors.Each(t, "tensorflow", func(t *testing.T, m tensorflow) {
		require.NotEmpty(t, m.PartialShapes.Single)
		for _, c := range m.PartialShapes.Single {
			s := partialShape(t, c.Shape)
			requireShape(t, shapeResult{Shape: c.Shape, Elements: c.Elements, Text: c.Text}, s)
			rank, ok := s.Rank()
			assert.Equal(t, c.Rank >= 0, ok)
			assert.Equal(t, max(c.Rank, 0), rank)
			assert.Equal(t, c.FullyDefined, s.IsFullyDefined())
			assert.Equal(t, c.AsTensorShape != nil, s.IsFullyDefined())
		}
		require.NotEmpty(t, m.PartialShapes.Pairs)
		for _, c := range m.PartialShapes.Pairs {
			a, b := partialShape(t, c.A), partialShape(t, c.B)
			assert.Equal(t, c.Compatible, a.CompatibleWith(b), "%v %v", a, b)
			assert.Equal(t, c.Identical, a.Equal(b), "%v %v", a, b)
			assert.Equal(t, c.SubtypeOf, a.Refines(b), "%v %v", a, b)
			merged, err := a.Merge(b)
			if c.Merged.refused {
				assert.ErrorIs(t, err, layout.ErrShape)
			} else {
				require.NoError(t, err)
				assert.True(t, partialShape(t, c.Merged.shape).Equal(merged), "%v %v: %v", a, b, merged)
			}
			concatenated := must.Do(a.Concat(b))(t)
			assert.True(t, partialShape(t, c.Concatenated).Equal(concatenated), "%v %v: %v", a, b, concatenated)
			assert.True(t, partialShape(t, c.Relaxed).Equal(a.Relax(b)), "%v %v: %v", a, b, a.Relax(b))
		}
		require.NotEmpty(t, m.PartialShapes.Edits)
		for _, c := range m.PartialShapes.Edits {
			s := partialShape(t, c.Shape)
			rank, _ := s.Rank()
			i, j, dims := 0, 0, []int64(nil)
			switch c.Op {
			case "add":
				i, j, dims = rank, rank, c.Args
			case "set":
				i, j, dims = int(c.Args[0]), int(c.Args[0])+1, c.Args[1:]
			case "insert":
				i, j, dims = int(c.Args[0]), int(c.Args[0]), c.Args[1:]
			case "remove":
				i, j = int(c.Args[0]), int(c.Args[0])+1
			case "remove_range":
				i, j = int(c.Args[0]), int(c.Args[1])
			case "remove_last":
				i, j = rank-int(c.Args[0]), rank
			default:
				t.Fatalf("edit %q", c.Op)
			}
			got, err := s.Replace(i, j, dims...)
			require.Equal(t, c.PartialTensorShape.Error != "", err != nil, "%v", err)
			if err == nil {
				requireShape(t, c.PartialTensorShape, got)
			} else {
				require.ErrorIs(t, err, layout.ErrOverflow)
			}
			assert.Equal(t, c.TensorShape.Error == "", err == nil && got.IsFullyDefined())
		}
		require.NotEmpty(t, m.PartialShapes.StartsEnds)
		for _, c := range m.PartialShapes.StartsEnds {
			s, other := partialShape(t, c.Shape), partialShape(t, c.Other)
			assert.Equal(t, c.Starts, s.HasPrefix(other))
			assert.Equal(t, c.Ends, s.HasSuffix(other))
		}
	})
}

func TestTensorFlowViews(t *testing.T) {
	rowMajor := func(t *testing.T, shape []int64) layout.Layout {
		return must.Do(layout.New(shape, nil, nil))(t)
	}
	vectors.Each(t, "tensorflow", func(t *testing.T, m tensorflow) {
		require.NotEmpty(t, m.Views.Slice)
		for _, c := range m.Views.Slice {
			l := rowMajor(t, c.Shape)
			require.NoError(t, l.Narrow(0, c.Start, c.Limit-c.Start))
			m.requireView(t, c.DType, l, c.viewResult)
		}
		require.NotEmpty(t, m.Views.Subslice)
		for _, c := range m.Views.Subslice {
			l := rowMajor(t, c.Shape)
			require.NoError(t, l.Slice(layout.At(c.Index)))
			m.requireView(t, c.DType, l, c.viewResult)
		}
		require.NotEmpty(t, m.Views.Reshape)
		for _, c := range m.Views.Reshape {
			l := rowMajor(t, c.Shape)
			if err := l.Reshape(c.To...); !c.OK {
				require.ErrorIs(t, err, layout.ErrShape)
				continue
			}
			assert.True(t, slices.Equal(c.To, l.Shape))
			assert.True(t, l.IsRowMajor())
		}
		require.NotEmpty(t, m.Views.Flat)
		for _, c := range m.Views.Flat {
			inner, outer := rowMajor(t, c.Shape), rowMajor(t, c.Shape)
			require.NoError(t, inner.FlatInner(c.NDims))
			assert.Equal(t, c.Inner, inner.Shape)
			require.NoError(t, outer.FlatOuter(c.NDims))
			assert.Equal(t, c.Outer, outer.Shape)
			if c.Begin != nil {
				both := rowMajor(t, c.Shape)
				require.NoError(t, both.FlatEnds(*c.Begin, c.NDims))
				assert.Equal(t, c.InnerOuter, both.Shape)
			}
		}
		require.NotEmpty(t, m.Views.Bitcast)
		for _, c := range m.Views.Bitcast {
			l := rowMajor(t, c.Shape)
			err := l.Reshape(-1)
			if err == nil {
				err = l.Bitcast(m.bytes(t, c.DType), m.bytes(t, c.ToDType))
			}
			if err == nil {
				err = l.Reshape(c.ToShape...)
			}
			if !c.OK {
				require.ErrorIs(t, err, layout.ErrShape)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, c.ToShape, l.Shape)
		}
		require.NotEmpty(t, m.Views.Split)
		for _, c := range m.Views.Split {
			parts, err := rowMajor(t, c.Shape).Split(0, c.Sizes...)
			if c.Error != "" {
				require.ErrorIs(t, err, layout.ErrShape)
				continue
			}
			require.NoError(t, err)
			require.Len(t, parts, len(c.Parts))
			for k, part := range parts {
				assert.Equal(t, c.Parts[k].Shape, part.Shape)
				m.requireCounts(t, c.DType, c.Parts[k].Data, viewtest.Offsets(part))
			}
		}
	})
}
