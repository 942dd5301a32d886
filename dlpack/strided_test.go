//go:build cgo

package dlpack_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A visit is an index and the elements that an iterator yields with it.
type visit struct {
	index  []int64
	values []int32
}

// visits returns the elements that At finds, in one visit for each row of x or, if each is true, for each element.
func visits(t *testing.T, x *dlpack.Tensor, each bool) (all []visit) {
	if x.NumElements() == 0 {
		return nil
	}
	outer := x.Rank()
	if !each {
		outer = max(outer-1, 0)
	}
	var walk func(index []int64)
	walk = func(index []int64) {
		if len(index) < outer {
			for i := range x.Dim(len(index)) {
				walk(append(slices.Clone(index), i))
			}
			return
		}
		v := visit{index: index}
		if outer == x.Rank() {
			v.values = []int32{must.Do(dlpack.At[int32](x, index...))(t)}
		} else {
			for i := range x.Dim(-1) {
				v.values = append(v.values, must.Do(dlpack.At[int32](x, append(slices.Clone(index), i)...))(t))
			}
		}
		all = append(all, v)
	}
	walk([]int64{})
	return all
}

// All and a loop over Data visit the elements that At returns, in the same order, for every layout. So does Rows if
// rows have no gaps.
func TestStridedElementsAreThoseOfAt(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := make([]int32, 24)
	for i := range data {
		data[i] = int32(i)
	}
	whole := dlpack.Spec{DType: dlpack.Int32, Shape: []int64{2, 3, 4}}
	for _, test := range []struct {
		name  string
		s     dlpack.Spec
		dense bool
	}{
		{"row-major", whole, true},
		{"transposed", dlpack.Spec{Shape: []int64{4, 3, 2}, Strides: []int64{1, 4, 12}}, false},
		{"flipped", dlpack.Spec{Shape: []int64{2, 3, 4}, Strides: []int64{-12, -4, -1}, ByteOffset: 23 * 4}, false},
		{"rows from the last to the first", dlpack.Spec{Shape: []int64{6, 4}, Strides: []int64{-4, 1}, ByteOffset: 20 * 4}, true},
		{"rows with gaps", dlpack.Spec{Shape: []int64{2, 3, 2}, Strides: []int64{12, 4, 1}, ByteOffset: 4}, true},
		{"every second element", dlpack.Spec{Shape: []int64{6, 2}, Strides: []int64{4, 2}}, false},
		{"one row for all", dlpack.Spec{Shape: []int64{3, 4}, Strides: []int64{0, 1}}, true},
		{"one element for all", dlpack.Spec{Shape: []int64{2, 3}, Strides: []int64{0, 0}}, false},
		{"overlapping", dlpack.Spec{Shape: []int64{3, 3}, Strides: []int64{1, 1}}, true},
		{"one dimension", dlpack.Spec{Shape: []int64{5}, Strides: []int64{1}}, true},
		{"no dimension", dlpack.Spec{Shape: []int64{}, ByteOffset: 8}, true},
		{"dimensions of size 1", dlpack.Spec{Shape: []int64{1, 3, 1}, Strides: []int64{math.MaxInt64, 1, math.MinInt64}}, true},
		{"no elements", dlpack.Spec{Shape: []int64{1 << 40, 0}}, true},
		{"no rows", dlpack.Spec{Shape: []int64{0, 4}, Strides: []int64{1, 6}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := must.Own(dlpack.FromSlice(data, 24))(t)
			test.s.DType = dlpack.Int32
			v := must.Own(x.View(test.s))(t)
			require.NoError(t, dlpack.ReadStrided(v, func(elements dlpack.Strided[int32]) error {
				assert.Equal(t, v.Shape(), elements.Shape)
				assert.Equal(t, v.Strides(), elements.Strides)
				var got []visit
				for index, value := range elements.All() {
					got = append(got, visit{slices.Clone(index), []int32{value}})
				}
				assert.Equal(t, visits(t, v, true), got)
				for _, v := range got {
					at := elements.Start
					for d, i := range v.index {
						at += i * elements.Strides[d]
					}
					assert.Equal(t, v.values[0], elements.Data[at])
				}

				rows, err := elements.Rows()
				if !test.dense {
					assert.ErrorIs(t, err, dlpack.ErrLayout)
					assert.ErrorContains(t, err, "or the faster loop in the documentation of Strided")
					return nil
				}
				require.NoError(t, err)
				got = nil
				for index, row := range rows {
					got = append(got, visit{slices.Clone(index), slices.Clone(row)})
					assert.Equal(t, len(row), cap(row), "append does not write to the next row")
				}
				assert.Equal(t, visits(t, v, false), got)
				return nil
			}))
		})
	}
}

func TestStridedIterationsEndEarly(t *testing.T) {
	x := must.Own(dlpack.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3))(t)
	require.NoError(t, dlpack.ReadStrided(x, func(elements dlpack.Strided[int32]) error {
		count := 0
		for _, value := range elements.All() {
			count++
			if value == 4 {
				break
			}
		}
		assert.Equal(t, 4, count)
		for _, row := range must.Do(elements.Rows())(t) {
			assert.Equal(t, []int32{1, 2, 3}, row)
			break
		}
		return nil
	}))
}

func TestUseStridedWritesWhereTheElementsLie(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	x := must.Own(dlpack.FromSlice(data, 2, 3))(t)
	columns := must.Own(x.Transpose())(t)
	require.NoError(t, dlpack.UseStrided(columns, func(elements dlpack.Strided[float32]) error {
		elements.Data[elements.Start+2*elements.Strides[0]+1*elements.Strides[1]] = 60
		return nil
	}))
	part := must.Own(x.Slice(layout.All(), layout.Until(2)))(t)
	require.NoError(t, dlpack.UseStrided(part, func(elements dlpack.Strided[float32]) error {
		for _, row := range must.Do(elements.Rows())(t) {
			clear(row)
		}
		return nil
	}))
	assert.Equal(t, []float32{0, 0, 3, 0, 0, 60}, data)
}

// The pixels of an image have several channels. When the last two dimensions are joined, its rows are rows of the
// tensor.
func TestRowsOfAnImage(t *testing.T) {
	pixels := make([]uint8, 4*5*3)
	image := must.Own(dlpack.FromSlice(pixels, 4, 5, 3))(t)
	part := must.Own(image.Slice(layout.From(1).By(2), layout.Range(1, 4)))(t)
	lines := must.Own(part.FlatOuter(2))(t)
	require.NoError(t, dlpack.UseStrided(lines, func(elements dlpack.Strided[uint8]) error {
		for index, row := range must.Do(elements.Rows())(t) {
			require.Len(t, row, 9)
			row[0] = uint8(index[0]) + 1
		}
		return nil
	}))
	assert.Equal(t, [2]uint8{1, 2}, [2]uint8{pixels[15+3], pixels[45+3]})
}

// Bytes between elements need not be bools, and are not checked.
func TestStridedBoolsAreChecked(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	records := []byte{7, 1, 9, 7, 0, 9, 7, 1, 9}
	s := dlpack.Spec{DType: dlpack.Bool, Shape: []int64{3}, Strides: []int64{3}, ByteOffset: 1}
	x := must.Own(dlpack.FromBytes(records, s))(t)
	read := func(x *dlpack.Tensor) (values []bool, err error) {
		err = dlpack.ReadStrided(x, func(elements dlpack.Strided[bool]) error {
			for _, value := range elements.All() {
				values = append(values, value)
				if len(values) == 4 {
					break
				}
			}
			return nil
		})
		return values, err
	}
	assert.Equal(t, []bool{true, false, true}, must.Do(read(x))(t))
	flipped := must.Own(x.Flip())(t)
	assert.Equal(t, []bool{true, false, true}, must.Do(read(flipped))(t))
	records[4] = 2
	y := must.Own(dlpack.FromBytes(records, s))(t)
	_, err := read(y)
	assert.ErrorIs(t, err, dlpack.ErrValue)
	assert.ErrorContains(t, err, "byte 3 of a bool tensor is 2")

	many := must.Own(dlpack.FromBytes(records, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{1 << 40}, Strides: []int64{0}, ByteOffset: 1}))(t)
	assert.Equal(t, []bool{true, true, true, true}, must.Do(read(many))(t), "at once, however many elements share a byte")
	records[4] = 0
	z := must.Own(dlpack.FromBytes(records, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{4, 3}, Strides: []int64{0, 3}, ByteOffset: 1}))(t)
	assert.Equal(t, []bool{true, false, true, true}, must.Do(read(z))(t), "however often they are repeated")
}

// Read and ReadStrided accept read-only memory. All four functions keep the memory alive during the call, refuse tensors that they
// cannot show, and return the error of f.
func TestFunctionsOnElements(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	failure := errors.New("of the caller")
	for _, test := range []struct {
		name  string
		write bool
		any   bool // accepts any layout
		use   func(x *dlpack.Tensor, f func(first *float32) error) error
		nil   func(x *dlpack.Tensor) error
	}{
		{"read", false, false, func(x *dlpack.Tensor, f func(*float32) error) error {
			return dlpack.Read(x, func(v []float32) error { return f(&v[0]) })
		}, func(x *dlpack.Tensor) error { return dlpack.Read[float32](x, nil) }},
		{"use", true, false, func(x *dlpack.Tensor, f func(*float32) error) error {
			return dlpack.Use(x, func(v []float32) error { return f(&v[0]) })
		}, func(x *dlpack.Tensor) error { return dlpack.Use[float32](x, nil) }},
		{"read strided", false, true, func(x *dlpack.Tensor, f func(*float32) error) error {
			return dlpack.ReadStrided(x, func(v dlpack.Strided[float32]) error { return f(&v.Data[v.Start]) })
		}, func(x *dlpack.Tensor) error { return dlpack.ReadStrided[float32](x, nil) }},
		{"use strided", true, true, func(x *dlpack.Tensor, f func(*float32) error) error {
			return dlpack.UseStrided(x, func(v dlpack.Strided[float32]) error { return f(&v.Data[v.Start]) })
		}, func(x *dlpack.Tensor) error { return dlpack.UseStrided[float32](x, nil) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			called := func(*float32) error { assert.Fail(t, "called"); return nil }
			refused := func(cause error, text string, c dlpacktest.Config) {
				_, x, err := importConfig(t, c)
				require.NoError(t, err)
				defer x.Close()
				err = test.use(x, called)
				assert.ErrorIs(t, err, cause)
				assert.ErrorContains(t, err, "dlpack: "+test.name+": "+text)
			}
			p, x, err := importConfig(t, dlpacktest.Config{Shape: []int64{4}})
			require.NoError(t, err)
			assert.ErrorIs(t, test.nil(x), dlpack.ErrNull)
			assert.Equal(t, failure, test.use(x, func(first *float32) error {
				done := make(chan error)
				go func() { done <- x.Close() }()
				require.NoError(t, <-done)
				assert.Zero(t, p.Deletes(), "another goroutine has closed the tensor, and the memory is there")
				*first++
				return failure
			}))
			assert.Equal(t, 1, p.Deletes())
			assert.ErrorIs(t, test.use(x, called), dlpack.ErrClosed)
			assert.ErrorIs(t, test.use(nil, called), dlpack.ErrClosed)

			refused(dlpack.ErrDType, "the tensor has int32, want float32", dlpacktest.Config{Shape: []int64{4}, Code: 0, Bits: 32, Lanes: 1})
			refused(dlpack.ErrDevice, "memory on cuda:0 cannot be read", dlpacktest.Config{Shape: []int64{4}, DeviceType: 2})
			refused(dlpack.ErrUnaligned, "data at 0x", dlpacktest.Config{Shape: []int64{3}, ByteOffset: 1, Bytes: 16})
			strided := dlpacktest.Config{Shape: []int64{2}, Strides: []int64{2}}
			if test.any {
				_, x, err := importConfig(t, strided)
				require.NoError(t, err)
				defer x.Close()
				assert.NoError(t, test.use(x, func(*float32) error { return nil }))
			} else {
				refused(dlpack.ErrLayout, "strides [2] of shape [2]", strided)
			}
			overlapping := dlpacktest.Config{Shape: []int64{2, 2}, Strides: []int64{1, 1}}
			if test.write && test.any {
				refused(dlpack.ErrLayout, "elements overlap: strides [1 1] of shape [2 2]", overlapping)
			} else if test.any {
				_, x, err := importConfig(t, overlapping)
				require.NoError(t, err)
				defer x.Close()
				assert.NoError(t, test.use(x, func(*float32) error { return nil }))
			}
			readOnly := dlpacktest.Config{Shape: []int64{4}, Flags: uint64(dlpack.ReadOnly)}
			if test.write {
				refused(dlpack.ErrReadOnly, "the tensor is read-only; Read reads it, Copy makes a writable one", readOnly)
				refused(dlpack.ErrReadOnly, "the tensor was imported in a form", dlpacktest.Config{Shape: []int64{4}, Legacy: true})
			} else {
				for _, c := range []dlpacktest.Config{readOnly, {Shape: []int64{4}, Legacy: true}} {
					_, x, err := importConfig(t, c)
					require.NoError(t, err)
					defer x.Close()
					assert.NoError(t, test.use(x, func(*float32) error { return nil }))
				}
			}
		})
	}
}
