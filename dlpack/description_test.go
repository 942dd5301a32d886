//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/internal/vectors"
)

func partial(t testing.TB, text string) layout.PartialShape {
	s, err := layout.ParsePartialShape(text)
	require.NoError(t, err)
	return s
}

func requireStrides(t *testing.T, want []*int64, got *dlpack.Tensor) {
	t.Helper()
	require.Equal(t, len(want), got.Rank())
	for d, stride := range want {
		if stride != nil && got.NumElements() > 0 && got.Dim(d) > 1 {
			require.Equal(t, *stride, got.Stride(d))
		}
	}
}

func TestTheFourKindsHaveTheFlagsOfTheDocument(t *testing.T) {
	vectors.Each(t, vectors.Nervana, func(t *testing.T, m nervana) {
		require.Len(t, m.Kinds, 4)
		for _, role := range []dlpack.Role{dlpack.Constant, dlpack.Placeholder, dlpack.PersistentTensor, dlpack.Variable} {
			kind, ok := m.Kinds[role.String()]
			require.True(t, ok, role)
			assert.Equal(t, kind.Constant, role&dlpack.IsConstant != 0, role)
			assert.Equal(t, kind.Persistent, role&dlpack.IsPersistent != 0, role)
			assert.Equal(t, kind.Trainable, role&dlpack.IsTrainable != 0, role)
			assert.Equal(t, kind.Input, role&dlpack.IsInput != 0, role)
		}
	})
	assert.Equal(t, "persistent+trainable+input", (dlpack.Variable | dlpack.IsInput).String())
	assert.Equal(t, "not known", dlpack.Role(0).String())
	assert.Equal(t, "constant+0xf0", (dlpack.IsConstant | 0xf0).String(), "bits that have no name")
}

func TestDescriptionsAllocateWhatTheDocumentLaysOut(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	vectors.Each(t, vectors.Nervana, func(t *testing.T, m nervana) {
		for _, test := range m.Layouts {
			t.Run(test.ID, func(t *testing.T) {
				shape, err := layout.NewPartialShape(test.Shape...)
				require.NoError(t, err)
				d := &dlpack.Description{DType: dlpack.Int32, Shape: shape, Sizes: test.Sizes, Order: orderOf(t, test.Order, len(test.Shape))}
				require.NoError(t, d.Complete())
				before := dlpack.ReadStats().ForeignBytes
				tensor, err := d.Allocate()
				require.NoError(t, err)
				defer tensor.Close()
				require.Equal(t, 4*test.Allocated, dlpack.ReadStats().ForeignBytes-before)
				require.Equal(t, append([]int64{}, test.Shape...), tensor.Shape())
				requireStrides(t, test.Strides, tensor)
				if tensor.NumElements() > 0 {
					assert.GreaterOrEqual(t, tensor.Alignment(), dlpack.NewAlignment, "G37")
				}
				for i, p := range test.Points {
					require.NoError(t, tensor.SetAt(i+1, p.Index...))
					bytes, at, err := tensor.UnsafeBytes()
					require.NoError(t, err)
					require.Equal(t, byte(i+1), bytes[at+4*p.Linear])
				}
				for _, index := range test.OutOfBounds {
					_, err := tensor.Layout().OffsetOf(index...)
					require.Error(t, err)
					if slices.Min(index) < 0 { // which the document does not count from the end
						continue
					}
					_, err = tensor.At(index...)
					require.ErrorIs(t, err, dlpack.ErrLayout)
				}
				bound, err := d.Bind(tensor)
				require.NoError(t, err)
				assert.Equal(t, tensor.Data(), bound.Data())
				bound.Close()
			})
		}
		types := map[int64]dlpack.DataType{1: dlpack.Uint8, 2: dlpack.BFloat16, 4: dlpack.Float32, 8: dlpack.Float64}
		for _, test := range m.Alignment {
			shape, err := layout.NewPartialShape(test.Shape...)
			require.NoError(t, err)
			d := &dlpack.Description{DType: types[test.Itemsize], Shape: shape, Order: orderOf(t, test.Order, len(test.Shape))}
			require.NoError(t, d.AlignRows(test.AlignBytes))
			require.Equal(t, test.Sizes, d.Sizes)
			before := dlpack.ReadStats().ForeignBytes
			tensor, err := d.Allocate()
			require.NoError(t, err)
			require.Equal(t, test.AllocatedBytes, dlpack.ReadStats().ForeignBytes-before)
			requireStrides(t, test.Strides, tensor)
			require.NoError(t, tensor.RequireAlign(int(test.AlignBytes)))
			tensor.Close()
		}
	})
}

// One buffer, many views; the last one frees it.
func TestOneBufferHasManyViews(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	buffer := &dlpack.Description{DType: dlpack.Float32, Role: dlpack.PersistentTensor}
	var views []*dlpack.Description
	for _, shape := range [][]int64{{3, 4}, {2, 6}, {3, 2, 2}} {
		views = append(views, buffer.View(func(l *layout.Layout) error { return l.Reshape(shape...) }))
	}
	column := views[0].View(func(l *layout.Layout) error { return l.Slice(layout.All(), layout.At(1)) })
	assert.Same(t, buffer, views[0].Base())
	assert.Same(t, views[0], column.Base())
	assert.ErrorIs(t, column.Complete(), dlpack.ErrUnknown)
	require.NoError(t, buffer.Refine(&dlpack.Description{Shape: partial(t, "[12]")}))
	require.NoError(t, column.Complete())
	known, err := column.Known()
	require.NoError(t, err)
	assert.Equal(t, dlpack.Float32, known.DType)
	assert.Equal(t, "[3]", known.Shape.String())
	l, err := column.Layout()
	require.NoError(t, err)
	assert.Equal(t, "shape [3] strides [4] offset 1", l.String())

	before := dlpack.ReadStats().Allocations
	memory, err := buffer.Allocate()
	require.NoError(t, err)
	var tensors []*dlpack.Tensor
	for _, view := range append(views, column) {
		v, err := view.Bind(memory)
		require.NoError(t, err)
		tensors = append(tensors, v)
	}
	memory.Close()
	require.NoError(t, tensors[2].SetAt(7, 1, 0, 1)) // element 5
	for k, index := range [][]int64{{1, 1}, {0, 5}, {1, 0, 1}, {1}} {
		value, err := tensors[k].At(index...)
		require.NoError(t, err)
		assert.Equal(t, float32(7), value)
	}
	for _, v := range tensors {
		assert.Equal(t, before+1, dlpack.ReadStats().Allocations)
		v.Close()
	}
	assert.Equal(t, before, dlpack.ReadStats().Allocations)
}

func TestDescriptionsAreRefinedOrSayWhatConflicts(t *testing.T) {
	describe := func(d dlpack.Description) *dlpack.Description { return &d }
	for _, test := range []struct {
		name   string
		a, b   *dlpack.Description
		want   string // or the message
		causes []error
	}{
		{"nothing", describe(dlpack.Description{}), describe(dlpack.Description{}), "<unknown> <unknown>", nil},
		{"type", describe(dlpack.Description{DType: dlpack.Float32}), describe(dlpack.Description{Shape: partial(t, "[?,3]")}), "float32 [?,3]", nil},
		{"shapes", describe(dlpack.Description{Shape: partial(t, "[2,?]")}), describe(dlpack.Description{Shape: partial(t, "[?,3]")}), "<unknown> [2,3]", nil},
		{"rank of an order", describe(dlpack.Description{Order: []int{1, 0}}), describe(dlpack.Description{}), "<unknown> [?,?] order [1 0]", nil},
		{"order and sizes", describe(dlpack.Description{Order: []int{1, 0}, DType: dlpack.Int8}),
			describe(dlpack.Description{Shape: partial(t, "[3,2]"), Sizes: []int64{4, 2}, Role: dlpack.Variable}), "int8 [3,2] variable order [1 0] sizes [4 2]", nil},
		{"strides with gaps in order", describe(dlpack.Description{Order: []int{0, 1}, Shape: partial(t, "[3,2]")}),
			describe(dlpack.Description{Strides: []int64{-8, 2}}), "<unknown> [3,2] order [0 1] strides [-8 2]", nil},
		{"strides along one element", describe(dlpack.Description{Strides: []int64{5, 1}, Shape: partial(t, "[1,2]")}),
			describe(dlpack.Description{Strides: []int64{2, 1}, Access: dlpack.RTensor}), "<unknown> [1,2] r-tensor strides [5 1]", nil},
		{"strides along no elements", describe(dlpack.Description{Order: []int{0, 1}, Shape: partial(t, "[3,0]")}),
			describe(dlpack.Description{Strides: []int64{1, 3}}), "<unknown> [3,0] order [0 1] strides [1 3]", nil},
		{"alignments", describe(dlpack.Description{Align: 48}), describe(dlpack.Description{Align: 64}), "<unknown> <unknown> aligned to 192 bytes", nil},

		{"types", describe(dlpack.Description{DType: dlpack.Float32}), describe(dlpack.Description{DType: dlpack.Int32}),
			"dlpack: refine: data type float32 and int32", []error{dlpack.ErrDType}},
		{"packed and padded", describe(dlpack.Description{DType: dlpack.Int4}), describe(dlpack.Description{DType: dlpack.Int4, Padded: true}),
			"dlpack: refine: packed and padded elements of int4", []error{dlpack.ErrDType}},
		{"dimensions", describe(dlpack.Description{Shape: partial(t, "[2,?]")}), describe(dlpack.Description{Shape: partial(t, "[3,3]")}),
			"dlpack: refine: shape [2,?] and [3,3]", []error{dlpack.ErrLayout, layout.ErrShape}},
		{"access", describe(dlpack.Description{Access: dlpack.RTensor}), describe(dlpack.Description{Access: dlpack.LTensor}),
			"dlpack: refine: r-tensor and l-tensor", []error{dlpack.ErrReadOnly}},
		{"roles", describe(dlpack.Description{Role: dlpack.Constant}), describe(dlpack.Description{Role: dlpack.Variable}),
			"dlpack: refine: constant and variable", nil},
		{"a constant that is assigned to", describe(dlpack.Description{Role: dlpack.Constant}), describe(dlpack.Description{Access: dlpack.LTensor}),
			"dlpack: refine: constant and l-tensor", []error{dlpack.ErrReadOnly}},
		{"a variable that cannot be", describe(dlpack.Description{Role: dlpack.Variable}), describe(dlpack.Description{Access: dlpack.RTensor}),
			"dlpack: refine: variable and r-tensor", []error{dlpack.ErrReadOnly}},
		{"orders", describe(dlpack.Description{Order: []int{0, 1}}), describe(dlpack.Description{Order: []int{1, 0}}),
			"dlpack: refine: order [0 1] and [1 0]", []error{dlpack.ErrLayout}},
		{"order of another rank", describe(dlpack.Description{Shape: partial(t, "[?]")}), describe(dlpack.Description{Order: []int{1, 0}}),
			"dlpack: refine: shape [?] and [?,?]", []error{dlpack.ErrLayout, layout.ErrShape}},
		{"strides in another order", describe(dlpack.Description{Order: []int{0, 1}, Shape: partial(t, "[3,2]")}),
			describe(dlpack.Description{Strides: []int64{1, 3}}), "dlpack: refine: strides [1 3] and order [0 1]", []error{dlpack.ErrLayout}},
		{"strides of other sizes", describe(dlpack.Description{Sizes: []int64{3, 4}, Shape: partial(t, "[3,2]")}),
			describe(dlpack.Description{Strides: []int64{2, 1}}), "dlpack: refine: strides [2 1], and [4 1] by sizes [3 4]", []error{dlpack.ErrLayout}},
		{"other strides", describe(dlpack.Description{Strides: []int64{4, 1}, Shape: partial(t, "[?,2]")}),
			describe(dlpack.Description{Strides: []int64{2, 1}}), "dlpack: refine: strides [4 1] and [2 1]", []error{dlpack.ErrLayout}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := *test.a
			err := a.Refine(test.b)
			if _, bErr := test.a.Known(); bErr != nil {
				t.Fatal(bErr)
			}
			if err == nil {
				assert.Equal(t, test.want, a.String())
				require.NoError(t, a.Refine(test.b), "again")
				assert.Equal(t, test.want, a.String())
				return
			}
			assert.EqualError(t, err, test.want)
			assert.ErrorIs(t, err, dlpack.ErrConflict)
			for _, cause := range test.causes {
				assert.ErrorIs(t, err, cause)
			}
			assert.Equal(t, test.a.String(), a.String(), "as it was")
		})
	}
}

func TestDescriptionsThatNoTensorHas(t *testing.T) {
	for _, test := range []struct {
		name    string
		d       dlpack.Description
		cause   error
		message string
	}{
		{"type", dlpack.Description{DType: dlpack.MakeDataType(dlpack.CodeFloat, 128, 1)}, dlpack.ErrDType,
			"dlpack: describe: dtype = (code 2, bits 128, lanes 1): unsupported data type"},
		{"alignment", dlpack.Description{Align: -8}, dlpack.ErrUnaligned, "dlpack: describe: alignment to -8 bytes"},
		{"role", dlpack.Description{Role: dlpack.Constant | dlpack.IsInput}, dlpack.ErrConflict, "dlpack: describe: constant+persistent+input"},
		{"sizes", dlpack.Description{Shape: partial(t, "[?,3]"), Sizes: []int64{7, 2}}, layout.ErrShape,
			"dlpack: describe: sizes[1] = 2 for shape[1] = 3: shapes do not fit"},
		{"negative sizes", dlpack.Description{Sizes: []int64{-1}}, layout.ErrShape, "dlpack: describe: sizes[0] = -1 for shape[0] = 0: shapes do not fit"},
		{"sizes that overflow", dlpack.Description{Sizes: []int64{1 << 40, 1 << 40}}, dlpack.ErrOverflow, "dlpack: describe: shape[1] = 1099511627776: overflow"},
		{"order", dlpack.Description{Order: []int{0, 2}}, layout.ErrOrder, "dlpack: describe: order[1] = 2: not a permutation"},
		{"lists of different ranks", dlpack.Description{Order: []int{0, 1}, Sizes: []int64{3}}, dlpack.ErrConflict, "dlpack: describe: sizes of 1 for shape [?,?]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.d.Known()
			require.ErrorIs(t, err, test.cause)
			assert.EqualError(t, err, test.message)
			assert.Equal(t, test.message, test.d.String())
			assert.Error(t, (&dlpack.Description{}).Refine(&test.d))
			assert.Error(t, test.d.Refine(&dlpack.Description{}))
			assert.Error(t, test.d.Complete())
			_, err = test.d.Allocate()
			assert.Error(t, err)
			_, err = test.d.Layout()
			assert.Error(t, err)
			_, err = test.d.View(func(*layout.Layout) error { return nil }).Known()
			assert.Error(t, err)
		})
	}
}

func TestOnlyWhatIsKnownIsAllocated(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, test := range []struct {
		name  string
		d     dlpack.Description
		cause error
	}{
		{"no type", dlpack.Description{Shape: partial(t, "[2,3]")}, dlpack.ErrUnknown},
		{"no shape", dlpack.Description{DType: dlpack.Int8}, dlpack.ErrUnknown},
		{"a dimension", dlpack.Description{DType: dlpack.Int8, Shape: partial(t, "[2,?]")}, dlpack.ErrUnknown},
		{"strides alone", dlpack.Description{DType: dlpack.Int8, Strides: []int64{3, 1}}, dlpack.ErrUnknown},
		{"elements that overlap", dlpack.Description{DType: dlpack.Int8, Shape: partial(t, "[2,3]"), Strides: []int64{1, 1}}, dlpack.ErrLayout},
		{"packed elements with gaps", dlpack.Description{DType: dlpack.Int4, Shape: partial(t, "[2,3]"), Sizes: []int64{2, 4}}, dlpack.ErrLayout},
		{"too many bytes", dlpack.Description{DType: dlpack.Float64, Shape: partial(t, "[1152921504606846976]")}, dlpack.ErrOverflow},
		{"too much to align", dlpack.Description{DType: dlpack.Int8, Shape: partial(t, "[9223372036854775807]"), Align: 512}, dlpack.ErrOverflow},
		{"too much memory", dlpack.Description{DType: dlpack.Float64, Shape: partial(t, "[576460752303423488]")}, dlpack.ErrMemory},
		{"too many dimensions", dlpack.Description{DType: dlpack.Int8, Sizes: slices.Repeat([]int64{1}, 300),
			Shape: partial(t, "[1"+string(slices.Repeat([]byte(",1"), 253))+"]")}, dlpack.ErrLayout},
	} {
		t.Run(test.name, func(t *testing.T) {
			tensor, err := test.d.Allocate()
			require.Nil(t, tensor)
			assert.ErrorIs(t, err, test.cause)
		})
	}
	base := &dlpack.Description{DType: dlpack.Int8, Shape: partial(t, "[2,3]")}
	view := base.View(func(l *layout.Layout) error { return l.Flip() })
	require.NoError(t, view.Complete())
	_, err := view.Allocate()
	assert.ErrorIs(t, err, dlpack.ErrLayout)
	assert.ErrorIs(t, view.AlignRows(8), dlpack.ErrLayout)
	assert.ErrorIs(t, (&dlpack.Description{DType: dlpack.Int4, Shape: partial(t, "[2]")}).AlignRows(8), dlpack.ErrDType)
	assert.ErrorIs(t, (&dlpack.Description{DType: dlpack.Int8}).AlignRows(8), dlpack.ErrUnknown)
	assert.ErrorIs(t, base.AlignRows(0), layout.ErrShape)
}

// G37: any alignment, of element (0, ..., 0) wherever it lies.
func TestG37DescriptionsAllocateAligned(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, align := range []int64{0, 1, 2, 48, 64, 256, 1000, 4096, 1 << 16} {
		for _, strides := range [][]int64{nil, {4, 1}, {-4, 1}, {3, -1}, {-7, -2}} {
			d := &dlpack.Description{DType: dlpack.Float32, Shape: partial(t, "[2,3]"), Strides: strides, Align: align}
			tensor, err := d.Allocate()
			require.NoError(t, err)
			if align > 0 {
				assert.Zero(t, tensor.Data()%uintptr(align))
			}
			if strides != nil {
				assert.Equal(t, strides, tensor.Strides())
			}
			for i := range int64(6) {
				require.NoError(t, tensor.SetAt(i, i/3, i%3))
			}
			bound, err := d.Bind(tensor)
			require.NoError(t, err)
			bound.Close()
			tensor.Close()
		}
	}
}

func TestDescriptionsBindWhatTheyDescribe(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	writable := fromSlice(t, data, 2, 3)
	defer writable.Close()
	readOnly, err := dlpack.FromReadOnly(data, 2, 3)
	require.NoError(t, err)
	defer readOnly.Close()
	columns, err := writable.Transpose()
	require.NoError(t, err)
	defer columns.Close()
	off, err := dlpack.FromBytes(make([]byte, 300), dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2, 3}, ByteOffset: 1})
	require.NoError(t, err)
	defer off.Close()
	closed := fromSlice(t, data)
	closed.Close()
	for _, test := range []struct {
		name     string
		d        dlpack.Description
		tensor   *dlpack.Tensor
		readOnly bool
		causes   []error
	}{
		{"anything", dlpack.Description{}, writable, false, nil},
		{"anything read-only", dlpack.Description{}, readOnly, true, nil},
		{"a batch", dlpack.Description{DType: dlpack.Float32, Shape: partial(t, "[?,3]"), Role: dlpack.Placeholder}, writable, false, nil},
		{"a read-only batch", dlpack.Description{DType: dlpack.Float32, Shape: partial(t, "[?,3]"), Role: dlpack.Placeholder}, readOnly, true, nil},
		{"a constant", dlpack.Description{Role: dlpack.Constant}, writable, true, nil},
		{"an r-tensor", dlpack.Description{Access: dlpack.RTensor}, writable, true, nil},
		{"an l-tensor", dlpack.Description{Access: dlpack.LTensor}, writable, false, nil},
		{"columns", dlpack.Description{Order: []int{1, 0}}, columns, false, nil},
		{"strides", dlpack.Description{Strides: []int64{1, 3}}, columns, false, nil},
		{"sizes", dlpack.Description{Sizes: []int64{2, 3}}, writable, false, nil},
		{"aligned to its elements", dlpack.Description{Align: 4}, writable, false, nil},

		{"another type", dlpack.Description{DType: dlpack.Int32}, writable, false, []error{dlpack.ErrConflict, dlpack.ErrDType}},
		{"another shape", dlpack.Description{Shape: partial(t, "[?,4]")}, writable, false, []error{dlpack.ErrConflict, dlpack.ErrLayout}},
		{"another rank", dlpack.Description{Shape: partial(t, "[?]")}, writable, false, []error{dlpack.ErrConflict, dlpack.ErrLayout}},
		{"another order", dlpack.Description{Order: []int{0, 1}}, columns, false, []error{dlpack.ErrConflict, dlpack.ErrLayout}},
		{"other sizes", dlpack.Description{Sizes: []int64{2, 4}}, writable, false, []error{dlpack.ErrConflict, dlpack.ErrLayout}},
		{"other strides", dlpack.Description{Strides: []int64{4, 1}}, writable, false, []error{dlpack.ErrConflict, dlpack.ErrLayout}},
		{"read-only memory to assign to", dlpack.Description{Access: dlpack.LTensor}, readOnly, false, []error{dlpack.ErrConflict, dlpack.ErrReadOnly}},
		{"read-only memory of a variable", dlpack.Description{Role: dlpack.Variable}, readOnly, false, []error{dlpack.ErrConflict, dlpack.ErrReadOnly}},
		{"unaligned", dlpack.Description{Align: 2}, off, false, []error{dlpack.ErrUnaligned}},
		{"closed", dlpack.Description{DType: dlpack.Int8}, closed, false, []error{dlpack.ErrClosed}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bound, err := test.d.Bind(test.tensor)
			if test.causes != nil {
				require.Nil(t, bound)
				for _, cause := range test.causes {
					assert.ErrorIs(t, err, cause)
				}
				return
			}
			require.NoError(t, err)
			defer bound.Close()
			assert.Equal(t, test.tensor.Data(), bound.Data())
			assert.Equal(t, test.tensor.Shape(), bound.Shape())
			assert.Equal(t, test.tensor.Strides(), bound.Strides())
			assert.Equal(t, test.readOnly, bound.ReadOnly())
			d := test.tensor.Description()
			again, err := d.Bind(test.tensor)
			require.NoError(t, err, "a tensor is what it is described as")
			again.Close()
		})
	}
}

// What is known of a base is known of its views, as soon as it is.
func TestViewsOfDescriptionsFollowTheirBase(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := &dlpack.Description{DType: dlpack.Float32, Role: dlpack.Placeholder}
	rows := base.View(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Narrow(0, 1, 2)) })
	flat := rows.View(func(l *layout.Layout) error { return l.Reshape(-1) })
	is := func(d *dlpack.Description, want string) {
		t.Helper()
		assert.Equal(t, want, d.String())
	}
	is(rows, "float32 <unknown>, a view")
	require.NoError(t, rows.Refine(&dlpack.Description{Shape: partial(t, "[2,?]")}))
	is(rows, "float32 [2,?], a view")
	require.NoError(t, base.Refine(&dlpack.Description{Shape: partial(t, "[?,3]")}))
	is(rows, "float32 [2,?], a view")
	require.NoError(t, base.Refine(&dlpack.Description{Shape: partial(t, "[5,?]")}))
	is(base, "float32 [5,3] placeholder")
	is(rows, "float32 [2,5], a view")
	is(flat, "float32 [10], a view")
	require.NoError(t, base.Refine(&dlpack.Description{Order: []int{1, 0}}))
	is(rows, "float32 [2,5] strides [5 1], a view")
	is(flat, "float32 [10] strides [1], a view")
	l, err := flat.Layout()
	require.NoError(t, err)
	assert.Equal(t, int64(5), l.Offset)

	memory, err := base.Allocate()
	require.NoError(t, err)
	defer memory.Close()
	bound, err := flat.Bind(memory)
	require.NoError(t, err)
	defer bound.Close()
	require.NoError(t, memory.SetAt(3, 4, 2))
	value, err := bound.At(9)
	require.NoError(t, err)
	assert.Equal(t, float32(3), value)

	err = rows.Refine(&dlpack.Description{Shape: partial(t, "[2,6]")})
	assert.ErrorIs(t, err, dlpack.ErrConflict)
	err = rows.Refine(&dlpack.Description{DType: dlpack.Int8})
	assert.ErrorIs(t, err, dlpack.ErrDType)
	is(rows, "float32 [2,5] strides [5 1], a view")

	// In another order there is no such view of this memory.
	other := &dlpack.Description{DType: dlpack.Float32, Shape: partial(t, "[5,3]"), Order: []int{0, 1}}
	none := other.View(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Reshape(-1)) })
	_, err = none.Known()
	assert.ErrorIs(t, err, layout.ErrCopy)
	assert.ErrorIs(t, none.Complete(), layout.ErrCopy)
	_, err = none.Layout()
	assert.ErrorIs(t, err, layout.ErrCopy)
	row, err := other.Allocate()
	require.NoError(t, err)
	defer row.Close()
	_, err = none.Bind(row)
	assert.ErrorIs(t, err, layout.ErrCopy)
	require.NoError(t, none.Base().Complete())
	maybe := (&dlpack.Description{Shape: partial(t, "[5,3]")}).View(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Reshape(-1)) })
	is(maybe, "<unknown> <unknown>, a view")

	narrow := other.View(func(l *layout.Layout) error { return l.Narrow(0, 4, 2) })
	_, err = narrow.Known()
	assert.ErrorIs(t, err, layout.ErrIndex)
	strict := other.View(func(l *layout.Layout) error { return l.Narrow(0, 1, 2) })
	require.NoError(t, strict.Refine(&dlpack.Description{Align: 4096}))
	_, err = strict.Bind(row)
	assert.ErrorIs(t, err, dlpack.ErrUnaligned)
}

// Whichever is refined by the other, the same is known, or both conflict; to know it twice adds nothing.
func TestRefinementIsTheSameEitherWay(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 2))
	pick := func(n int) bool { return random.IntN(n) == 0 }
	shapes := []string{"<unknown>", "[?,?]", "[2,?]", "[?,3]", "[2,3]", "[1,3]", "[0,3]", "[?]"}
	lists := [][]int64{{3, 1}, {1, 2}, {2, 3}, {4, 3}, {4, 1}}
	describe := func() dlpack.Description {
		d := dlpack.Description{Shape: partial(t, shapes[random.IntN(len(shapes))])}
		if pick(2) {
			d.DType, d.Padded = []dlpack.DataType{dlpack.Int4, dlpack.Float32}[random.IntN(2)], pick(2)
		}
		if pick(3) {
			d.Role = dlpack.Role(random.IntN(16))
		}
		if pick(3) {
			d.Access = dlpack.Access(random.IntN(3))
		}
		d.Align = []int64{0, 0, 4, 6}[random.IntN(4)]
		if pick(4) {
			d.Order = []int{0, 1}
			random.Shuffle(2, func(i, j int) { d.Order[i], d.Order[j] = d.Order[j], d.Order[i] })
		}
		if pick(4) {
			d.Sizes = lists[random.IntN(len(lists))]
		}
		if pick(4) {
			d.Strides = lists[random.IntN(len(lists))]
		}
		return d
	}
	refined, conflicts := 0, 0
	for range 20000 {
		a, b := describe(), describe()
		if _, err := a.Known(); err != nil {
			continue
		}
		if _, err := b.Known(); err != nil {
			continue
		}
		ab, ba := a, b
		errA, errB := ab.Refine(&b), ba.Refine(&a)
		require.Equal(t, errA == nil, errB == nil, "%v, %v: %v, %v", &a, &b, errA, errB)
		if errA != nil {
			conflicts++
			require.Equal(t, a, ab)
			continue
		}
		refined++
		again := ab
		require.NoError(t, again.Refine(&b))
		require.Equal(t, ab, again)
		ab.Strides, ba.Strides = nil, nil // along one element, or none, either of two will do
		require.Equal(t, ab.String(), ba.String())
	}
	assert.Greater(t, refined, 1000)
	assert.Greater(t, conflicts, 1000)
}

// A description that was made a view of itself, and chains of views of any length: errors, and no stack that
// grows with the chain.
func TestDescriptionsAreViewsOfAFewOthers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2, 3})
	defer tensor.Close()
	flip := func(l *layout.Layout) error { return l.Flip(0) }
	shape, err := layout.NewPartialShape(3)
	require.NoError(t, err)
	views := func(n int) *dlpack.Description {
		d := &dlpack.Description{DType: dlpack.Float32, Shape: shape}
		for range n {
			d = d.View(flip)
		}
		return d
	}
	_, err = tensor.Apply(nil)
	require.ErrorIs(t, err, dlpack.ErrNull)
	itself := views(0)
	*itself = *itself.View(flip)
	for _, c := range []struct {
		name string
		d    *dlpack.Description
		err  error
	}{
		{"the longest", views(dlpack.MaxViews), nil},
		{"longer", views(dlpack.MaxViews + 1), dlpack.ErrLayout},
		{"much longer", views(1_000_000), dlpack.ErrLayout},
		{"itself", itself, dlpack.ErrLayout},
		{"a view of itself", itself.View(flip), dlpack.ErrLayout},
		{"no function", views(0).View(nil), dlpack.ErrNull},
		{"a view of one by no function", views(0).View(nil).View(flip), dlpack.ErrNull},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.d.Known()
			require.ErrorIs(t, err, c.err)
			known := fmt.Sprint(err)
			l, err := c.d.Layout()
			require.ErrorIs(t, err, c.err)
			bound, err := c.d.Bind(tensor)
			require.ErrorIs(t, err, c.err)
			require.ErrorIs(t, c.d.Complete(), c.err)
			require.ErrorIs(t, c.d.Refine(&dlpack.Description{Role: dlpack.IsInput}), c.err)
			if c.err == nil {
				assert.Equal(t, []int64{1}, l.Strides, "flipped an even number of times")
				assert.Equal(t, tensor.Data(), bound.Data())
				require.NoError(t, bound.Close())
				return
			}
			assert.Nil(t, bound)
			assert.Equal(t, known, c.d.String())
			_, err = c.d.Allocate()
			require.ErrorIs(t, err, dlpack.ErrLayout, "a view has no memory of its own")
		})
	}
}

func TestViewsThatCannotBeAssignedToSaySo(t *testing.T) {
	shape, err := layout.NewPartialShape(2)
	require.NoError(t, err)
	broadcast := func(l *layout.Layout) error { return l.Broadcast(3, 2) }
	flip := func(l *layout.Layout) error { return l.Flip(0) }
	for _, tt := range []struct {
		name string
		base dlpack.Description
		view func(l *layout.Layout) error
		want dlpack.Access
	}{
		{"an element is seen three times", dlpack.Description{Access: dlpack.LTensor}, broadcast, dlpack.RTensor},
		{"of what is not assigned to", dlpack.Description{Access: dlpack.RTensor}, flip, dlpack.RTensor},
		{"of a constant", dlpack.Description{Role: dlpack.Constant}, flip, dlpack.RTensor},
		{"of what is assigned to", dlpack.Description{Access: dlpack.LTensor}, flip, dlpack.LTensor},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.base.DType, tt.base.Shape = dlpack.Float32, shape
			view := tt.base.View(tt.view)
			known, err := view.Known()
			require.NoError(t, err)
			assert.Equal(t, tt.want, known.Access)
			err = view.Refine(&dlpack.Description{Access: dlpack.LTensor})
			if tt.want == dlpack.RTensor {
				assert.ErrorIs(t, err, dlpack.ErrReadOnly)
			} else {
				assert.NoError(t, err)
			}

			memory, err := dlpack.New(dlpack.Float32, 2)
			require.NoError(t, err)
			defer memory.Close()
			bound, err := view.Bind(memory)
			require.NoError(t, err)
			defer bound.Close()
			assert.Equal(t, tt.want == dlpack.RTensor, bound.ReadOnly())
		})
	}
}
