//go:build cgo

package nervana_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		require.Len(t, m.Kinds, 4)
		for _, role := range []nervana.Role{nervana.Constant, nervana.Placeholder, nervana.PersistentTensor, nervana.Variable} {
			kind, ok := m.Kinds[role.String()]
			require.True(t, ok, role)
			assert.Equal(t, kind.Constant, role&nervana.IsConstant != 0, role)
			assert.Equal(t, kind.Persistent, role&nervana.IsPersistent != 0, role)
			assert.Equal(t, kind.Trainable, role&nervana.IsTrainable != 0, role)
			assert.Equal(t, kind.Input, role&nervana.IsInput != 0, role)
		}
	})
	assert.Equal(t, "persistent+trainable+input", (nervana.Variable | nervana.IsInput).String())
	assert.Equal(t, "not known", nervana.Role(0).String())
	assert.Equal(t, "constant+0xf0", (nervana.IsConstant | 0xf0).String(), "bits that have no name")
}

func TestDescriptionsAllocateWhatTheDocumentLaysOut(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	vectors.Each(t, "nervana", func(t *testing.T, m manifest) {
		for _, test := range m.Layouts {
			t.Run(test.ID, func(t *testing.T) {
				shape := must.Do(layout.NewPartialShape(test.Shape...))(t)
				d := &nervana.Description{DType: dlpack.Int32, Shape: shape, Sizes: test.Sizes, Order: orderOf(t, test.Order, len(test.Shape))}
				require.NoError(t, d.Complete())
				before := dlpack.ReadStats().ForeignBytes
				tensor := must.Own(d.Allocate())(t)
				require.Equal(t, 4*test.Allocated, dlpack.ReadStats().ForeignBytes-before)
				require.Equal(t, append([]int64{}, test.Shape...), tensor.Shape())
				requireStrides(t, test.Strides, tensor)
				if tensor.NumElements() > 0 {
					assert.GreaterOrEqual(t, tensor.Alignment(), dlpack.AllocAlignment)
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
					if slices.Min(index) < 0 { // in the document they do not count from the end
						continue
					}
					must.Fail(tensor.At(index...))(t, dlpack.ErrLayout)
				}
				bound := must.Do(d.Bind(tensor))(t)
				assert.Equal(t, tensor.Data(), bound.Data())
				bound.Close()
			})
		}
		types := map[int64]dlpack.DataType{1: dlpack.Uint8, 2: dlpack.BFloat16, 4: dlpack.Float32, 8: dlpack.Float64}
		for _, test := range m.Alignment {
			shape := must.Do(layout.NewPartialShape(test.Shape...))(t)
			d := &nervana.Description{DType: types[test.Itemsize], Shape: shape, Order: orderOf(t, test.Order, len(test.Shape))}
			require.NoError(t, d.AlignRows(test.AlignBytes))
			require.Equal(t, test.Sizes, d.Sizes)
			before := dlpack.ReadStats().ForeignBytes
			tensor := must.Do(d.Allocate())(t)
			require.Equal(t, test.AllocatedBytes, dlpack.ReadStats().ForeignBytes-before)
			requireStrides(t, test.Strides, tensor)
			require.NoError(t, tensor.RequireAlign(int(test.AlignBytes)))
			tensor.Close()
		}
	})
}

// Several views share the memory of one buffer; closing the last view frees it.
func TestOneBufferHasManyViews(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	buffer := &nervana.Description{DType: dlpack.Float32, Role: nervana.PersistentTensor}
	var views []*nervana.Description
	for _, shape := range [][]int64{{3, 4}, {2, 6}, {3, 2, 2}} {
		views = append(views, buffer.View(func(l *layout.Layout) error { return l.Reshape(shape...) }))
	}
	column := views[0].View(func(l *layout.Layout) error { return l.Slice(layout.All(), layout.At(1)) })
	assert.Same(t, buffer, views[0].Base())
	assert.Same(t, views[0], column.Base())
	assert.ErrorIs(t, column.Complete(), nervana.ErrUnknown)
	require.NoError(t, buffer.Refine(&nervana.Description{Shape: partial(t, "[12]")}))
	require.NoError(t, column.Complete())
	known := must.Do(column.Known())(t)
	assert.Equal(t, dlpack.Float32, known.DType)
	assert.Equal(t, "[3]", known.Shape.String())
	l := must.Do(column.Layout())(t)
	assert.Equal(t, "shape [3] strides [4] offset 1", l.String())

	before := dlpack.ReadStats().Allocations
	memory := must.Do(buffer.Allocate())(t)
	var tensors []*dlpack.Tensor
	for _, view := range append(views, column) {
		v := must.Do(view.Bind(memory))(t)
		tensors = append(tensors, v)
	}
	memory.Close()
	require.NoError(t, tensors[2].SetAt(7, 1, 0, 1)) // element 5
	for k, index := range [][]int64{{1, 1}, {0, 5}, {1, 0, 1}, {1}} {
		value := must.Do(tensors[k].At(index...))(t)
		assert.Equal(t, float32(7), value)
	}
	for _, v := range tensors {
		assert.Equal(t, before+1, dlpack.ReadStats().Allocations)
		v.Close()
	}
	assert.Equal(t, before, dlpack.ReadStats().Allocations)
}

func TestDescriptionsThatNoTensorHas(t *testing.T) {
	for _, test := range []struct {
		name    string
		d       nervana.Description
		cause   error
		message string
	}{
		{"type", nervana.Description{DType: dlpack.MakeDataType(dlpack.CodeFloat, 128, 1)}, dlpack.ErrDType,
			"nervana: describe: dtype = (code 2, bits 128, lanes 1): float has 16, 32, 64 bits, not 128: unsupported data type"},
		{"alignment", nervana.Description{Align: -8}, dlpack.ErrUnaligned, "nervana: describe: alignment to -8 bytes is negative"},
		{"role", nervana.Description{Role: nervana.Constant | nervana.IsInput}, nervana.ErrConflict, "nervana: describe: a constant is neither trainable nor an input, but the role is constant+persistent+input"},
		{"sizes", nervana.Description{Shape: partial(t, "[?,3]"), Sizes: []int64{7, 2}}, layout.ErrShape,
			"nervana: describe: sizes[1] = 2, but shape[1] = 3: shapes do not match"},
		{"negative sizes", nervana.Description{Sizes: []int64{-1}}, layout.ErrShape, "nervana: describe: sizes[0] = -1, but shape[0] = 0: shapes do not match"},
		{"sizes that overflow", nervana.Description{Sizes: []int64{1 << 40, 1 << 40}}, dlpack.ErrOverflow, "nervana: describe: shape[1] = 1099511627776: overflow"},
		{"order", nervana.Description{Order: []int{0, 2}}, layout.ErrOrder, "nervana: describe: order[1] = 2: not a permutation"},
		{"lists of different ranks", nervana.Description{Order: []int{0, 1}, Sizes: []int64{3}}, nervana.ErrConflict, "nervana: describe: rank 1 of sizes conflicts with shape [?,?]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.d.Known()
			require.ErrorIs(t, err, test.cause)
			assert.EqualError(t, err, test.message)
			assert.Equal(t, test.message, test.d.String())
			assert.Error(t, (&nervana.Description{}).Refine(&test.d))
			assert.Error(t, test.d.Refine(&nervana.Description{}))
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
		d     nervana.Description
		cause error
	}{
		{"no type", nervana.Description{Shape: partial(t, "[2,3]")}, nervana.ErrUnknown},
		{"no shape", nervana.Description{DType: dlpack.Int8}, nervana.ErrUnknown},
		{"a dimension", nervana.Description{DType: dlpack.Int8, Shape: partial(t, "[2,?]")}, nervana.ErrUnknown},
		{"strides alone", nervana.Description{DType: dlpack.Int8, Strides: []int64{3, 1}}, nervana.ErrUnknown},
		{"elements that overlap", nervana.Description{DType: dlpack.Int8, Shape: partial(t, "[2,3]"), Strides: []int64{1, 1}}, dlpack.ErrLayout},
		{"packed elements with gaps", nervana.Description{DType: dlpack.Int4, Shape: partial(t, "[2,3]"), Sizes: []int64{2, 4}}, dlpack.ErrLayout},
		{"too many bytes", nervana.Description{DType: dlpack.Float64, Shape: partial(t, "[1152921504606846976]")}, dlpack.ErrOverflow},
		{"too much to align", nervana.Description{DType: dlpack.Int8, Shape: partial(t, "[9223372036854775807]"), Align: 512}, dlpack.ErrOverflow},
		{"too much memory", nervana.Description{DType: dlpack.Float64, Shape: partial(t, "[576460752303423488]")}, dlpack.ErrMemory},
		{"too many dimensions", nervana.Description{DType: dlpack.Int8, Sizes: slices.Repeat([]int64{1}, 300),
			Shape: partial(t, "[1"+string(slices.Repeat([]byte(",1"), 253))+"]")}, dlpack.ErrLayout},
	} {
		t.Run(test.name, func(t *testing.T) {
			tensor, err := test.d.Allocate()
			require.Nil(t, tensor)
			assert.ErrorIs(t, err, test.cause)
		})
	}
	base := &nervana.Description{DType: dlpack.Int8, Shape: partial(t, "[2,3]")}
	view := base.View(func(l *layout.Layout) error { return l.Flip() })
	require.NoError(t, view.Complete())
	must.Fail(view.Allocate())(t, dlpack.ErrLayout)
	assert.ErrorIs(t, view.AlignRows(8), dlpack.ErrLayout)
	assert.ErrorIs(t, (&nervana.Description{DType: dlpack.Int4, Shape: partial(t, "[2]")}).AlignRows(8), dlpack.ErrDType)
	assert.ErrorIs(t, (&nervana.Description{DType: dlpack.Int8}).AlignRows(8), nervana.ErrUnknown)
	assert.ErrorIs(t, base.AlignRows(0), layout.ErrShape)
}

// Element (0, ..., 0) has the required alignment, even if it is not at the beginning of the memory.
func TestDescriptionsAllocateAligned(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, align := range []int64{0, 1, 2, 48, 64, 256, 1000, 4096, 1 << 16} {
		for _, strides := range [][]int64{nil, {4, 1}, {-4, 1}, {3, -1}, {-7, -2}} {
			d := &nervana.Description{DType: dlpack.Float32, Shape: partial(t, "[2,3]"), Strides: strides, Align: align}
			tensor := must.Do(d.Allocate())(t)
			if align > 0 {
				assert.Zero(t, tensor.Data()%uintptr(align))
			}
			if strides != nil {
				assert.Equal(t, strides, tensor.Strides())
			}
			for i := range int64(6) {
				require.NoError(t, tensor.SetAt(i, i/3, i%3))
			}
			bound := must.Do(d.Bind(tensor))(t)
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
	readOnly := must.Own(dlpack.FromReadOnly(data, 2, 3))(t)
	columns := must.Own(writable.Transpose())(t)
	off := must.Own(dlpack.FromBytes(make([]byte, 300), dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{2, 3}, ByteOffset: 1}))(t)
	closed := fromSlice(t, data)
	closed.Close()
	for _, test := range []struct {
		name     string
		d        nervana.Description
		tensor   *dlpack.Tensor
		readOnly bool
		causes   []error
	}{
		{"anything", nervana.Description{}, writable, false, nil},
		{"anything read-only", nervana.Description{}, readOnly, true, nil},
		{"a batch", nervana.Description{DType: dlpack.Float32, Shape: partial(t, "[?,3]"), Role: nervana.Placeholder}, writable, false, nil},
		{"a read-only batch", nervana.Description{DType: dlpack.Float32, Shape: partial(t, "[?,3]"), Role: nervana.Placeholder}, readOnly, true, nil},
		{"a constant", nervana.Description{Role: nervana.Constant}, writable, true, nil},
		{"an r-tensor", nervana.Description{Access: nervana.RTensor}, writable, true, nil},
		{"an l-tensor", nervana.Description{Access: nervana.LTensor}, writable, false, nil},
		{"columns", nervana.Description{Order: []int{1, 0}}, columns, false, nil},
		{"strides", nervana.Description{Strides: []int64{1, 3}}, columns, false, nil},
		{"sizes", nervana.Description{Sizes: []int64{2, 3}}, writable, false, nil},
		{"aligned to its elements", nervana.Description{Align: 4}, writable, false, nil},

		{"another type", nervana.Description{DType: dlpack.Int32}, writable, false, []error{nervana.ErrConflict, dlpack.ErrDType}},
		{"another shape", nervana.Description{Shape: partial(t, "[?,4]")}, writable, false, []error{nervana.ErrConflict, dlpack.ErrLayout}},
		{"another rank", nervana.Description{Shape: partial(t, "[?]")}, writable, false, []error{nervana.ErrConflict, dlpack.ErrLayout}},
		{"another order", nervana.Description{Order: []int{0, 1}}, columns, false, []error{nervana.ErrConflict, dlpack.ErrLayout}},
		{"other sizes", nervana.Description{Sizes: []int64{2, 4}}, writable, false, []error{nervana.ErrConflict, dlpack.ErrLayout}},
		{"other strides", nervana.Description{Strides: []int64{4, 1}}, writable, false, []error{nervana.ErrConflict, dlpack.ErrLayout}},
		{"read-only memory to assign to", nervana.Description{Access: nervana.LTensor}, readOnly, false, []error{nervana.ErrConflict, dlpack.ErrReadOnly}},
		{"read-only memory of a variable", nervana.Description{Role: nervana.Variable}, readOnly, false, []error{nervana.ErrConflict, dlpack.ErrReadOnly}},
		{"unaligned", nervana.Description{Align: 2}, off, false, []error{dlpack.ErrUnaligned}},
		{"closed", nervana.Description{DType: dlpack.Int8}, closed, false, []error{dlpack.ErrClosed}},
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
			d := nervana.Describe(test.tensor)
			again, err := d.Bind(test.tensor)
			require.NoError(t, err, "a tensor is what it is described as")
			again.Close()
		})
	}
}

// A property that becomes known for a base is immediately known for its views.
func TestViewsOfDescriptionsFollowTheirBase(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	base := &nervana.Description{DType: dlpack.Float32, Role: nervana.Placeholder}
	rows := base.View(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Narrow(0, 1, 2)) })
	flat := rows.View(func(l *layout.Layout) error { return l.Reshape(-1) })
	is := func(d *nervana.Description, want string) {
		t.Helper()
		assert.Equal(t, want, d.String())
	}
	is(rows, "float32 <unknown>, a view")
	require.NoError(t, rows.Refine(&nervana.Description{Shape: partial(t, "[2,?]")}))
	is(rows, "float32 [2,?], a view")
	require.NoError(t, base.Refine(&nervana.Description{Shape: partial(t, "[?,3]")}))
	is(rows, "float32 [2,?], a view")
	require.NoError(t, base.Refine(&nervana.Description{Shape: partial(t, "[5,?]")}))
	is(base, "float32 [5,3] placeholder")
	is(rows, "float32 [2,5], a view")
	is(flat, "float32 [10], a view")
	require.NoError(t, base.Refine(&nervana.Description{Order: []int{1, 0}}))
	is(rows, "float32 [2,5] strides [5 1], a view")
	is(flat, "float32 [10] strides [1], a view")
	l := must.Do(flat.Layout())(t)
	assert.Equal(t, int64(5), l.Offset)

	memory := must.Own(base.Allocate())(t)
	bound := must.Own(flat.Bind(memory))(t)
	require.NoError(t, memory.SetAt(3, 4, 2))
	value := must.Do(bound.At(9))(t)
	assert.Equal(t, float32(3), value)

	err := rows.Refine(&nervana.Description{Shape: partial(t, "[2,6]")})
	assert.ErrorIs(t, err, nervana.ErrConflict)
	err = rows.Refine(&nervana.Description{DType: dlpack.Int8})
	assert.ErrorIs(t, err, dlpack.ErrDType)
	is(rows, "float32 [2,5] strides [5 1], a view")

	// If the base has another order, no strides can express this view.
	other := &nervana.Description{DType: dlpack.Float32, Shape: partial(t, "[5,3]"), Order: []int{0, 1}}
	none := other.View(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Reshape(-1)) })
	must.Fail(none.Known())(t, layout.ErrCopy)
	assert.ErrorIs(t, none.Complete(), layout.ErrCopy)
	must.Fail(none.Layout())(t, layout.ErrCopy)
	row := must.Own(other.Allocate())(t)
	must.Fail(none.Bind(row))(t, layout.ErrCopy)
	require.NoError(t, none.Base().Complete())
	maybe := (&nervana.Description{Shape: partial(t, "[5,3]")}).View(func(l *layout.Layout) error { return errors.Join(l.Transpose(), l.Reshape(-1)) })
	is(maybe, "<unknown> <unknown>, a view")

	narrow := other.View(func(l *layout.Layout) error { return l.Narrow(0, 4, 2) })
	must.Fail(narrow.Known())(t, layout.ErrIndex)
	strict := other.View(func(l *layout.Layout) error { return l.Narrow(0, 1, 2) })
	require.NoError(t, strict.Refine(&nervana.Description{Align: 4096}))
	must.Fail(strict.Bind(row))(t, dlpack.ErrUnaligned)
}

// Long chains of views, and descriptions that are views of themselves, are errors. They must not use a stack that grows with
// the chain.
func TestDescriptionsAreViewsOfAFewOthers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2, 3})
	defer tensor.Close()
	flip := func(l *layout.Layout) error { return l.Flip(0) }
	shape := must.Do(layout.NewPartialShape(3))(t)
	views := func(n int) *nervana.Description {
		d := &nervana.Description{DType: dlpack.Float32, Shape: shape}
		for range n {
			d = d.View(flip)
		}
		return d
	}
	must.Fail(tensor.Apply(nil))(t, dlpack.ErrNull)
	itself := views(0)
	*itself = *itself.View(flip)
	for _, c := range []struct {
		name string
		d    *nervana.Description
		err  error
	}{
		{"the longest", views(1000), nil},
		{"longer", views(1000 + 1), dlpack.ErrLayout},
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
			require.ErrorIs(t, c.d.Refine(&nervana.Description{Role: nervana.IsInput}), c.err)
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
	shape := must.Do(layout.NewPartialShape(2))(t)
	broadcast := func(l *layout.Layout) error { return l.BroadcastTo(3, 2) }
	flip := func(l *layout.Layout) error { return l.Flip(0) }
	for _, tt := range []struct {
		name string
		base nervana.Description
		view func(l *layout.Layout) error
		want nervana.Access
	}{
		{"an element is seen three times", nervana.Description{Access: nervana.LTensor}, broadcast, nervana.RTensor},
		{"of what is not assigned to", nervana.Description{Access: nervana.RTensor}, flip, nervana.RTensor},
		{"of a constant", nervana.Description{Role: nervana.Constant}, flip, nervana.RTensor},
		{"of what is assigned to", nervana.Description{Access: nervana.LTensor}, flip, nervana.LTensor},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.base.DType, tt.base.Shape = dlpack.Float32, shape
			view := tt.base.View(tt.view)
			known := must.Do(view.Known())(t)
			assert.Equal(t, tt.want, known.Access)
			err := view.Refine(&nervana.Description{Access: nervana.LTensor})
			if tt.want == nervana.RTensor {
				assert.ErrorIs(t, err, dlpack.ErrReadOnly)
			} else {
				assert.NoError(t, err)
			}

			memory := must.Own(dlpack.New(dlpack.Float32, 2))(t)
			bound := must.Own(view.Bind(memory))(t)
			assert.Equal(t, tt.want == nervana.RTensor, bound.ReadOnly())
		})
	}
}

func TestBindFindsAViewThatIsNotAssignedToReadOnly(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, tt := range []struct {
		name     string
		view     nervana.Description
		readOnly bool
	}{
		{"not known", nervana.Description{}, false},
		{"r-tensor", nervana.Description{Access: nervana.RTensor}, true},
		{"constant", nervana.Description{Role: nervana.Constant}, true},
		{"l-tensor", nervana.Description{Access: nervana.LTensor}, false},
		{"variable", nervana.Description{Role: nervana.Variable}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shape := must.Do(layout.NewPartialShape(2, 3))(t)
			base := &nervana.Description{DType: dlpack.Float32, Shape: shape}
			view := base.View(func(l *layout.Layout) error { return l.Transpose(1, 0) })
			require.NoError(t, view.Refine(&tt.view))
			memory := fromSlice(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)

			bound := must.Own(view.Bind(memory))(t)
			assert.Equal(t, tt.readOnly, bound.ReadOnly())
			whole := must.Own(base.Bind(memory))(t)
			assert.False(t, whole.ReadOnly(), "nothing of it is known of the base")
		})
	}
}

// A nil Description is like the zero Description, except that it cannot be refined.
func TestDescriptionsOfNothing(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1, 2})
	defer tensor.Close()
	for name, d := range map[string]*nervana.Description{"nil": nil, "zero": new(nervana.Description)} {
		t.Run(name, func(t *testing.T) {
			known := must.Do(d.Known())(t)
			assert.Zero(t, known)
			assert.Nil(t, d.Base())
			assert.Equal(t, "<unknown> <unknown>", d.String())
			require.ErrorIs(t, d.Complete(), nervana.ErrUnknown)
			must.Fail(d.Layout())(t, nervana.ErrUnknown)
			must.Fail(d.Allocate())(t, nervana.ErrUnknown)
			bound := must.Do(d.Bind(tensor))(t)
			assert.Equal(t, []int64{2}, bound.Shape())
			require.NoError(t, bound.Close())
			view := d.View(func(l *layout.Layout) error { return l.Flip() })
			require.ErrorIs(t, view.Complete(), nervana.ErrUnknown)
			if d == nil {
				require.ErrorIs(t, d.Refine(&nervana.Description{DType: dlpack.Int8}), dlpack.ErrNull)
				require.ErrorIs(t, d.AlignRows(8), dlpack.ErrNull)
				return
			}
			require.NoError(t, d.Refine(nil))
			require.ErrorIs(t, d.AlignRows(8), nervana.ErrUnknown)
		})
	}
}

// orderOf reads "row", "column" or a list of dimensions.
func orderOf(t *testing.T, raw json.RawMessage, rank int) (order []int) {
	var name string
	if json.Unmarshal(raw, &name) != nil {
		require.NoError(t, json.Unmarshal(raw, &order))
		return order
	}
	order = []int{}
	for d := range rank {
		order = append(order, d)
	}
	if name == "column" {
		slices.Reverse(order)
	} else {
		require.Equal(t, "row", name)
	}
	return order
}

func fromSlice[T dlpack.Element](t testing.TB, data []T, shape ...int64) *dlpack.Tensor {
	t.Helper()
	return must.Do(dlpack.FromSlice(data, shape...))(t)
}

// elements returns the elements of a tensor of int32, in row-major order.
func elements(t *testing.T, tensor *dlpack.Tensor) (all []int32) {
	for _, index := range viewtest.Indices(tensor.Shape()) {
		value := must.Do(dlpack.At[int32](tensor, index...))(t)
		all = append(all, value)
	}
	return all
}

// numbered returns as many numbers as the shape has elements: 0, 1, 2 and so on.
func numbered(shape []int64) (numbers []int32) {
	for i := range product(shape) {
		numbers = append(numbers, int32(i))
	}
	return numbers
}

// notOpen returns tensors without memory: nil, the zero Tensor and a closed tensor.
func notOpen(t *testing.T) map[string]*dlpack.Tensor {
	closed := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	require.NoError(t, closed.Close())
	return map[string]*dlpack.Tensor{"nil": nil, "zero": new(dlpack.Tensor), "closed": closed}
}

func TestBindRefusesTensorsThatAreNotOpen(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	open := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	defer open.Close()
	same := nervana.Describe(open)
	view := same.View(func(l *layout.Layout) error { return l.Index(0) })
	for name, tensor := range notOpen(t) {
		for of, d := range map[string]*nervana.Description{"a tensor": same, "a view": view} {
			t.Run(name+" as "+of, func(t *testing.T) {
				_, err := d.Bind(tensor)
				require.ErrorIs(t, err, dlpack.ErrClosed)
				assert.ErrorContains(t, err, "nervana: bind: the tensor is")
			})
		}
		known := must.Do(nervana.Describe(tensor).Known())(t)
		assert.Equal(t, name == "closed", known.DType == dlpack.Float32, "a closed tensor still has a description")
	}
}

// The alignment is the alignment of element (0, ..., 0), whose address is data plus byte_offset in every kind of
// memory.
func TestBindChecksTheAlignmentOfDeviceMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}, DeviceType: int32(dlpack.CUDA), ByteOffset: 4})
	tensor := must.Own(dlpack.Import(p.Managed()))(t)
	require.Zero(t, tensor.Data()%256, "the data itself is aligned")
	d := nervana.Describe(tensor)
	d.Align = 4
	bound := must.Do(d.Bind(tensor))(t)
	assert.Equal(t, tensor.ByteOffset(), bound.ByteOffset())
	bound.Close()
	d.Role = nervana.Constant
	d.Access = nervana.AccessUnknown
	bound = must.Do(d.Bind(tensor))(t)
	assert.True(t, bound.ReadOnly())
	assert.Equal(t, tensor.ByteOffset(), bound.ByteOffset())
	bound.Close()
	d.Align = 64
	must.Fail(d.Bind(tensor))(t, dlpack.ErrUnaligned)
}
