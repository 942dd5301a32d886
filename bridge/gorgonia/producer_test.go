//go:build cgo

package gorgonia_test

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func full(shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(tensor.Range(tensor.Float32, 0, tensor.Shape(shape).TotalSize())))
}

func transposed(d *tensor.Dense, axes ...int) *tensor.Dense {
	if err := d.T(axes...); err != nil {
		panic(err)
	}
	return d
}

func sliced(d *tensor.Dense, s ...tensor.Slice) *tensor.Dense {
	v, err := d.Slice(s...)
	if err != nil {
		panic(err)
	}
	return v.(*tensor.Dense)
}

// column is a column-major (3, 4) matrix.
func column() *tensor.Dense {
	return tensor.New(tensor.WithShape(3, 4), tensor.AsFortran(tensor.Range(tensor.Float32, 0, 12)))
}

// layouts are the layouts that gorgonia itself makes.
var layouts = []struct {
	name    string
	make    func(d *tensor.Dense) *tensor.Dense // of a (4, 6) matrix
	strides []int64
}{
	{"contiguous", func(d *tensor.Dense) *tensor.Dense { return d }, []int64{6, 1}},
	{"lazily transposed", func(d *tensor.Dense) *tensor.Dense { return transposed(d) }, []int64{1, 6}},
	{"transposed in memory", func(d *tensor.Dense) *tensor.Dense {
		if err := transposed(d).Transpose(); err != nil {
			panic(err)
		}
		return d
	}, []int64{4, 1}},
	{"reshaped", func(d *tensor.Dense) *tensor.Dense {
		if err := d.Reshape(2, 3, 4); err != nil {
			panic(err)
		}
		return d
	}, []int64{12, 4, 1}},
	{"permuted", func(d *tensor.Dense) *tensor.Dense {
		if err := d.Reshape(2, 3, 4); err != nil {
			panic(err)
		}
		return transposed(d, 2, 0, 1)
	}, []int64{1, 12, 4}},
	{"rows", func(d *tensor.Dense) *tensor.Dense { return sliced(d, tensor.S(1, 3)) }, []int64{6, 1}},
	{"a row", func(d *tensor.Dense) *tensor.Dense { return sliced(d, tensor.S(2)) }, []int64{1}},
	{"columns", func(d *tensor.Dense) *tensor.Dense { return sliced(d, nil, tensor.S(1, 3)) }, []int64{6, 1}},
	{"a column", func(d *tensor.Dense) *tensor.Dense { return sliced(d, nil, tensor.S(5)) }, []int64{6}},
	{"every second column", func(d *tensor.Dense) *tensor.Dense { return sliced(d, nil, tensor.S(0, 6, 2)) }, []int64{6, 2}},
	{"slices of slices", func(d *tensor.Dense) *tensor.Dense {
		return sliced(sliced(d, tensor.S(1, 4), tensor.S(1, 5)), tensor.S(1, 3), tensor.S(1, 3))
	}, []int64{6, 1}},
	{"a slice of a transpose", func(d *tensor.Dense) *tensor.Dense { return sliced(transposed(d), tensor.S(1, 4)) }, []int64{1, 6}},
	{"one element", func(d *tensor.Dense) *tensor.Dense { return sliced(d, tensor.S(2), tensor.S(3)) }, []int64{}},
	{"a shallow clone", func(d *tensor.Dense) *tensor.Dense { return d.ShallowClone() }, []int64{6, 1}},
}

// agree checks three things: x has the elements that gorgonia's At finds, at the same address; reading its strides as
// NumPy does finds the same elements; and a write through x is visible in d.
func agree(t *testing.T, d *tensor.Dense, x *dlpack.Tensor) {
	t.Helper()
	m := must.Do(x.Export())(t)
	view := dlpacktest.Read(m)
	assert.Equal(t, uint32(1), view.Major)
	imported := must.Do(dlpack.Import(m))(t)
	defer imported.Close()
	assert.Equal(t, d.Uintptr(), view.Data)
	shape, want := elements(t, d)
	dlpacktest.AllClose(t, tensorOf(t, shape, want), imported, 0, 0)

	if imported.Rank() > 0 {
		dlpacktest.Fill(m, -1)
		_, now := elements(t, d)
		for i := range now {
			assert.Equal(t, value(-1), now[i], "a write is not seen in element %d", i)
		}
	}
}

func TestFromDenseDescribesEveryLayout(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, c := range layouts {
		t.Run(c.name, func(t *testing.T) {
			d := c.make(full(4, 6))
			x := must.Own(gorgonia.FromDense(d))(t)
			assert.Equal(t, c.strides, x.Strides())
			agree(t, d, x)
		})
		t.Run(c.name+", foreign", func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			f := foreignTensor(t, dlpack.Float32, []int64{4, 6}, 'C', func(i int64) complex128 { return complex(float64(i), 0) })
			d := c.make(f.wrap(t))
			x := must.Own(gorgonia.FromDense(d))(t)
			assert.Equal(t, c.strides, x.Strides())
			agree(t, d, x)
			f.guarded(t)
		})
	}
	for _, c := range []struct {
		name    string
		d       *tensor.Dense
		strides []int64
	}{
		{"column-major", column(), []int64{1, 3}},
		{"rows of a column-major", sliced(column(), tensor.S(1, 3)), []int64{1, 3}},
		{"columns of a column-major", sliced(column(), nil, tensor.S(1, 3)), []int64{1, 3}},
		{"a row of a column-major", sliced(column(), tensor.S(1)), []int64{3}},
		{"a column-major, lazily transposed", transposed(column()), []int64{3, 1}},
		{"column-major column", tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3, 1), tensor.AsFortran(nil)), []int64{1, 1}},
		{"column-major row", tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1, 3), tensor.AsFortran(nil)), []int64{3, 1}},
		{"column-major single", tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1, 1), tensor.AsFortran(nil)), []int64{1, 1}},
		{"scalar", tensor.New(tensor.FromScalar(float32(3))), []int64{}},
		{"vector", full(5), []int64{1}},
		{"nine dimensions", full(1, 2, 1, 2, 1, 2, 1, 2, 1), []int64{16, 8, 8, 4, 4, 2, 2, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := must.Do(gorgonia.FromDense(c.d))(t)
			defer x.Close()
			assert.Equal(t, c.strides, x.Strides())
			m := must.Do(x.Export())(t)
			defer dlpack.Release(m)
			assert.Equal(t, c.d.Uintptr(), dlpacktest.Read(m).Data)
			shape, want := elements(t, c.d)
			dlpacktest.AllClose(t, tensorOf(t, shape, want), x, 0, 0)
		})
	}
}

// gorgonia panics in most operations on this tensor; describing the tensor does not.
func TestFromDenseOfNoElementsHasNoAddress(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Do(gorgonia.FromDense(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(0, 3))))(t)
	defer x.Close()
	assert.Equal(t, []int64{0, 3}, x.Shape())
	m := must.Do(x.Export())(t)
	defer dlpack.Release(m)
	assert.Zero(t, dlpacktest.Read(m).Data)
}

func TestEveryNumberOfGorgoniasHasItsType(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for dt, want := range map[tensor.Dtype]dlpack.DataType{
		tensor.Bool: dlpack.Bool, tensor.Int: dlpack.DataTypeOf[int](), tensor.Uint: dlpack.DataTypeOf[uint](),
		tensor.Int8: dlpack.Int8, tensor.Int16: dlpack.Int16, tensor.Int32: dlpack.Int32, tensor.Int64: dlpack.Int64,
		tensor.Uint8: dlpack.Uint8, tensor.Uint16: dlpack.Uint16, tensor.Uint32: dlpack.Uint32, tensor.Uint64: dlpack.Uint64,
		tensor.Float32: dlpack.Float32, tensor.Float64: dlpack.Float64,
		tensor.Complex64: dlpack.Complex64, tensor.Complex128: dlpack.Complex128,
	} {
		x := must.Do(gorgonia.FromDense(tensor.New(tensor.Of(dt), tensor.WithShape(2))))(t)
		assert.Equal(t, want, x.DType())
		d, release, err := gorgonia.Dense(x)
		require.NoError(t, err)
		switch dt { // an int64 may be converted back to either type
		case tensor.Int:
			dt = tensor.Int64
		case tensor.Uint:
			dt = tensor.Uint64
		}
		assert.Equal(t, dt, d.Dtype())
		release()
		x.Close()
	}
}

type (
	bfloat16 uint16
	onDevice struct{ tensor.StdEng }
)

func (onDevice) AllocAccessible() bool { return false }

func TestFromDenseRefuses(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	with := func(shape tensor.Shape, strides []int) *tensor.Dense {
		d := full(2, 3)
		*d.Info() = tensor.MakeAP(shape, strides, tensor.NonContiguous, 0)
		return d
	}
	masked := full(2, 2)
	masked.SetMask([]bool{true, false, false, false})
	inaccessible := full(2, 2)
	tensor.WithEngine(onDevice{})(inaccessible)
	outside := make([]float32, 4)
	unowned := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4), tensor.FromMemory(uintptr(unsafe.Pointer(&outside[0])), 16))
	for _, c := range []struct {
		name  string
		x     tensor.Tensor
		cause error
		says  string // the call that the error names, if there is one
	}{
		{"nothing", nil, dlpack.ErrNull, "the tensor is nil"},
		{"no tensor", (*tensor.Dense)(nil), dlpack.ErrNull, "the tensor is nil"},
		{"no sparse tensor", (*tensor.CS)(nil), dlpack.ErrNull, "the tensor is nil"},
		{"sparse", tensor.CSCFromCoord(tensor.Shape{2, 2}, []int{0, 1}, []int{0, 1}, []float32{1, 2}), gorgonia.ErrSparse, "Dense"},
		{"masked", masked, gorgonia.ErrMasked, "SetMask(nil)"},
		{"on a device", inaccessible, dlpack.ErrDevice, "onDevice"},
		{"strings", tensor.New(tensor.Of(tensor.String), tensor.WithShape(2)), dlpack.ErrDType, "string"},
		{"addresses", tensor.New(tensor.Of(tensor.Uintptr), tensor.WithShape(2)), dlpack.ErrDType, "uintptr"},
		{"pointers", tensor.New(tensor.Of(tensor.UnsafePointer), tensor.WithShape(2)), dlpack.ErrDType, "unsafe.Pointer"},
		{"a type of the program's", tensor.New(tensor.Of(tensor.Dtype{Type: reflect.TypeFor[bfloat16]()}), tensor.WithShape(2)), dlpack.ErrDType, "bfloat16"},
		{"negative strides", with(tensor.Shape{3}, []int{-1}), dlpack.ErrLayout, "strides [-1] of shape [3]"},
		{"too long", with(tensor.Shape{4}, []int{2}), dlpack.ErrLayout, "elements 0 to 6, but the memory has 6"},
		{"too long for any memory", with(tensor.Shape{1 << 62, 1 << 62}, []int{1, 1 << 62}), dlpack.ErrLayout, "overflow"},
		{"negative size", with(tensor.Shape{-1}, []int{1}), dlpack.ErrLayout, "-1"},
		{"no strides, too long", with(tensor.Shape{7, 1}, []int{1}), dlpack.ErrLayout, "elements 0 to 6, but the memory has 6"},
		{"more strides than dimensions", with(tensor.Shape{2}, []int{1, 1}), dlpack.ErrLayout, "2 strides for 1 dimension"},
		{"memory that nothing keeps", unowned, dlpack.ErrBorrowed, "Lend"},
		{"a view of it", sliced(unowned, tensor.S(1, 3)), dlpack.ErrBorrowed, "Lend"},
		{"a tensor that was given back", new(tensor.Dense), dlpack.ErrDType, "<nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, err := gorgonia.FromDense(c.x)
			assert.ErrorIs(t, err, c.cause)
			assert.ErrorContains(t, err, "gorgonia: from dense: ")
			assert.ErrorContains(t, err, c.says)
			assert.Nil(t, x)
		})
	}
}

// The call that an error of FromDense names makes the tensor acceptable.
func TestWhatIsRefusedCanBeMaterialized(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	mask := []bool{false, true, false, false, false, true}
	masked := func() *tensor.Dense {
		d := full(2, 3)
		d.SetMask(mask)
		return d
	}
	loan := dlpacktest.Lend(t, 24)
	copy(unsafe.Slice((*float32)(loan.Data()), 6), []float32{0, 1, 2, 3, 4, 5})
	for _, c := range []struct {
		name string
		x    tensor.Tensor
		fix  func(x tensor.Tensor) (tensor.Tensor, error)
		want []float32
	}{
		{"without its mask", masked(), func(x tensor.Tensor) (tensor.Tensor, error) {
			x.(*tensor.Dense).SetMask(nil)
			return x, nil
		}, []float32{0, 1, 2, 3, 4, 5}},
		{"filled, without its mask", masked(), func(x tensor.Tensor) (tensor.Tensor, error) {
			filled, err := x.(*tensor.Dense).Filled(float32(-1))
			if err == nil {
				filled.(*tensor.Dense).SetMask(nil)
			}
			return filled.(tensor.Tensor), err
		}, []float32{0, -1, 2, 3, 4, -1}},
		{"sparse", tensor.CSRFromCoord(tensor.Shape{2, 3}, []int{0, 1}, []int{1, 2}, []float32{7, 8}),
			func(x tensor.Tensor) (tensor.Tensor, error) { return x.(*tensor.CS).Dense(), nil }, []float32{0, 7, 0, 0, 0, 8}},
		{"memory that nothing keeps", tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(2, 3), tensor.FromMemory(uintptr(loan.Data()), 24)),
			func(tensor.Tensor) (tensor.Tensor, error) {
				lent := must.Do(dlpack.Lend(loan.Data(), 24, false, loan.Release(), loan.Context()))(t)
				defer lent.Close()
				view := must.Do(lent.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}}))(t)
				defer view.Close()
				d, release, err := gorgonia.Dense(view)
				t.Cleanup(release)
				return d, err
			}, []float32{0, 1, 2, 3, 4, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gorgonia.FromDense(c.x)
			require.Error(t, err)
			fixed := must.Do(c.fix(c.x))(t)
			x := must.Own(gorgonia.FromDense(fixed))(t)
			values := must.Do(dlpack.Values[float32](x))(t)
			assert.Equal(t, c.want, values)
		})
	}
}

// The description keeps the owner of the import alive, not the Dense and not gorgonia's flag.
func TestFromDenseKeepsTheImportsOwner(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{3, 1}})
	x := must.Do(dlpack.Import(p.Managed()))(t)
	d, release, err := gorgonia.Dense(x)
	require.NoError(t, err)
	require.NoError(t, x.Close())
	require.NoError(t, d.Memset(float32(2)))
	row := must.Do(gorgonia.FromDense(sliced(d, tensor.S(1))))(t)
	assert.Equal(t, uintptr(unsafe.Pointer(&p.Data()[12])), row.Data())

	double, err := d.Add(d) // in Go memory
	require.NoError(t, err)
	result := must.Do(gorgonia.FromDense(double))(t)
	clone := must.Do(gorgonia.FromDense(d.Clone().(*tensor.Dense)))(t)

	m := must.Do(row.Export())(t)
	release()
	require.NoError(t, row.Close())
	assert.Equal(t, 0, p.Deletes())
	assert.Equal(t, 6., dlpacktest.Sum(m))
	must.Fail(gorgonia.FromDense(d))(t, dlpack.ErrClosed)
	dlpack.Release(m)
	assert.Equal(t, 1, p.Deletes())

	for want, x := range map[float32]*dlpack.Tensor{4: result, 2: clone} {
		values := must.Do(dlpack.Values[float32](x))(t)
		assert.Equal(t, []float32{want, want, want, want, want, want}, values)
		require.NoError(t, x.Close())
	}
}

// Results outlive the release. The collector may have freed the memory of an operand, and a result may be allocated
// there.
func TestResultsAreDescribedWhereverTheyLie(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float64{1, 2, 3}
	x := must.Do(dlpack.FromSlice(data))(t)
	d, release, err := gorgonia.Dense(x)
	require.NoError(t, err)
	require.NoError(t, x.Close())
	release()
	later := tensor.New(tensor.WithShape(2), tensor.WithBacking(data[1:]), tensor.WithEngine(d.Engine()))
	result := must.Own(gorgonia.FromDense(later))(t)
	assert.Equal(t, uintptr(unsafe.Pointer(&data[1])), result.Data())
	values := must.Do(dlpack.Values[float64](result))(t)
	assert.Equal(t, []float64{2, 3}, values)
}

// The data pointer itself is pinned: gorgonia may recycle the Dense, and the collector may run.
func TestFromDenseKeepsGorgoniasMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	d := full(256, 256)
	x := must.Do(gorgonia.FromDense(sliced(d, tensor.S(255))))(t)
	m := must.Do(x.Export())(t)
	x.Close()
	tensor.ReturnTensor(d)
	d = nil
	for range 5 {
		collect()
		_ = full(256, 256) // would reuse the memory if it were free
	}
	assert.Equal(t, float64(255*256*256+255*128), dlpacktest.Sum(m))
	dlpack.Release(m)
}

func TestDescribingAllocatesNothing(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer dlpack.SetLedger(dlpack.SetLedger(false)) // its records are allocated
	for _, c := range layouts {
		t.Run(c.name, func(t *testing.T) {
			f := foreignTensor(t, dlpack.Float32, []int64{4, 6}, 'C', func(i int64) complex128 { return 0 })
			for _, d := range []*tensor.Dense{c.make(full(4, 6)), c.make(f.wrap(t))} {
				assert.Zero(t, testing.AllocsPerRun(100, func() {
					if _, err := gorgonia.Describe(d); err != nil {
						t.Fatal(err)
					}
				}))
				assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
					x, err := gorgonia.FromDense(d)
					if err != nil {
						t.Fatal(err)
					}
					x.Close()
				}), 1., "the tensor itself")
			}
		})
	}
}
