//go:build cgo

package gorgonia_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func copied(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Copy() }

func contiguous(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	c, _, err := t.Contiguous(dlpack.RowMajor)
	return c, err
}

func converted(to dlpack.DataType) func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
	return func(t *dlpack.Tensor) (*dlpack.Tensor, error) { return t.Convert(to) }
}

// Dense refuses every layout and type for which gorgonia computes wrong results, writes outside of the memory or
// panics. The call that the error names helps.
func TestRefusedIsWhatGorgoniaGetsWrong(t *testing.T) {
	typed := func(dt dlpack.DataType) dlpacktest.Config {
		return dlpacktest.Config{Code: uint8(dt.Code()), Bits: dt.Bits(), Lanes: dt.Lanes(), Shape: []int64{2, 2}, Strides: []int64{2, 1}}
	}
	for _, c := range []struct {
		name  string
		from  dlpacktest.Config
		cause error
		says  string
		fix   func(*dlpack.Tensor) (*dlpack.Tensor, error) // the call that the error names
	}{
		{"a gap between rows", dlpacktest.Config{Shape: []int64{3, 4}, Strides: []int64{6, 1}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"a step between columns", dlpacktest.Config{Shape: []int64{3, 4}, Strides: []int64{8, 2}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"a step in a vector", dlpacktest.Config{Shape: []int64{5}, Strides: []int64{2}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"one column of a matrix", dlpacktest.Config{Shape: []int64{5, 1}, Strides: []int64{3, 1}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"a gap between transposed columns", dlpacktest.Config{Shape: []int64{3, 4}, Strides: []int64{1, 6}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"dimensions in another order", dlpacktest.Config{Shape: []int64{2, 3, 4}, Strides: []int64{3, 1, 6}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"reversed", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{-1}, ByteOffset: 12}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"a broadcast", dlpacktest.Config{Shape: []int64{3, 4}, Strides: []int64{0, 1}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"a sliding window", dlpacktest.Config{Shape: []int64{3, 4}, Strides: []int64{1, 1}}, dlpack.ErrLayout, "Contiguous(RowMajor)", contiguous},
		{"no elements", dlpacktest.Config{Shape: []int64{0, 3}, Strides: []int64{3, 1}}, dlpack.ErrLayout, "no elements", nil},
		{"read-only", dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, Flags: uint64(dlpack.ReadOnly)}, dlpack.ErrReadOnly, "Copy", copied},
		{"not known to be writable", dlpacktest.Config{Legacy: true, Shape: []int64{2}}, dlpack.ErrReadOnly, "AssumeWritable", copied},
		{"lanes", typed(dlpack.MakeDataType(dlpack.CodeFloat, 32, 4)), dlpack.ErrDType, "View", func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
			return t.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 2, 4}})
		}},
		{"bfloat16", typed(dlpack.BFloat16), dlpack.ErrDType, "bfloat16 is not a type of gorgonia; Convert makes it float32", converted(dlpack.Float32)},
		{"float16", typed(dlpack.Float16), dlpack.ErrDType, "float16 is not a type of gorgonia; Convert makes it float32", converted(dlpack.Float32)},
		{"float8", typed(dlpack.Float8E4M3FN), dlpack.ErrDType, "float8_e4m3fn is not a type of gorgonia; Convert makes it float32", converted(dlpack.Float32)},
		{"int4", typed(dlpack.Int4), dlpack.ErrDType, "int4 is not a type of gorgonia; Convert makes it int8", converted(dlpack.Int8)},
		{"complex32", typed(dlpack.Complex32), dlpack.ErrDType, "complex32 is not a type of gorgonia; Convert makes it complex64", converted(dlpack.Complex64)},
		{"a handle", typed(dlpack.OpaqueHandle64), dlpack.ErrDType, "handle64", nil},
		{"two floats of 4 bits", typed(dlpack.Float4E2M1FNx2), dlpack.ErrDType, "View makes its lanes a dimension of float4_e2m1fn", func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
			v, err := t.View(dlpack.Spec{DType: dlpack.Float4E2M1FN, Shape: []int64{2, 2, 2}})
			if err != nil {
				return nil, err
			}
			defer v.Close()
			return v.Convert(dlpack.Float32)
		}},
		{"not aligned", dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, Shift: 2}, dlpack.ErrUnaligned, "is not aligned to 4 bytes; Align copies it", func(t *dlpack.Tensor) (*dlpack.Tensor, error) {
			a, _, err := t.Align(4)
			return a, err
		}},
		{"on another device", dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, DeviceType: int32(dlpack.CUDA)}, dlpack.ErrDevice, "cuda:0", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			p := dlpacktest.Produce(t, c.from)
			take := dlpack.Import
			if c.from.Legacy {
				take = dlpack.ImportLegacy
			}
			for i := range p.Data() { // small numbers of any type
				p.Data()[i] = byte(i % 5)
			}
			x := must.Do(take(p.Managed()))(t)
			d, release, err := gorgonia.Dense(x, gorgonia.AllowTransposed)
			assert.ErrorIs(t, err, c.cause)
			assert.ErrorContains(t, err, "gorgonia: dense: ")
			assert.ErrorContains(t, err, c.says)
			assert.Nil(t, d)
			assert.Nil(t, release)
			if c.fix != nil {
				fixed := must.Do(c.fix(x))(t)
				d, release, err := gorgonia.Dense(fixed)
				require.NoError(t, err)
				_, values := elements(t, d)
				assert.Equal(t, numbers(t, x), values)
				release()
				fixed.Close()
			}
			assert.Equal(t, 0, p.Deletes())
			x.Close()
			assert.Equal(t, 1, p.Deletes(), "a refusal must not keep anything")
		})
	}
}

// numbers are the elements of a tensor, lane by lane, row-major.
func numbers(t *testing.T, x *dlpack.Tensor) (all []value) {
	dt := x.DType()
	one := dlpack.MakeDataType(dt.Code(), dt.Bits(), 1)
	data := must.Do(x.AppendBytes(nil))(t)
	flat := must.Do(dlpack.FromBytes(data, dlpack.Spec{DType: one, Shape: []int64{x.NumElements() * int64(dt.Lanes())}}))(t)
	defer flat.Close()
	for i := range flat.NumElements() {
		v := must.Do(flat.At(i))(t)
		all = append(all, value(repotest.Number(v)))
	}
	return all
}

func TestDenseRefusesWhatIsNoTensor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	_, _, err := gorgonia.Dense(nil)
	assert.ErrorIs(t, err, dlpack.ErrNull)

	x := must.Do(dlpack.New(dlpack.Float32, 2))(t)
	x.Close()
	_, _, err = gorgonia.Dense(x)
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	assert.EqualError(t, err, "gorgonia: dense: the tensor is closed: closed")
	_, _, err = gorgonia.Dense(new(dlpack.Tensor))
	assert.ErrorIs(t, err, dlpack.ErrClosed)

	b := must.Do(dlpack.FromBytes([]byte{0, 1, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{3}}))(t)
	_, _, err = gorgonia.Dense(b)
	assert.ErrorIs(t, err, dlpack.ErrValue)
	assert.ErrorContains(t, err, "byte 2 of a bool tensor is 2, but must be 0 or 1; Bitcast to uint8, then Convert to bool")
	bytes := must.Do(b.Bitcast(dlpack.Uint8))(t)
	bools := must.Do(bytes.Convert(dlpack.Bool))(t)
	d, release, err := gorgonia.Dense(bools)
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true, true}, d.Data())
	release()
	for _, x := range []*dlpack.Tensor{b, bytes, bools} {
		x.Close()
	}
}

func TestTransposedMemoryIsRefusedUnlessAskedFor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, shape := range [][]int64{{3, 4}, {2, 3, 4}, {2, 1, 3}} {
		x := foreignTensor(t, dlpack.Float64, shape, 'F', func(i int64) complex128 { return complex(float64(i), 0) })
		_, _, err := gorgonia.Dense(x.Tensor)
		assert.ErrorIs(t, err, dlpack.ErrLayout)
		assert.ErrorContains(t, err, "AllowTransposed")
		d := x.wrap(t)
		assert.Equal(t, x.Data(), d.Uintptr())
		assert.Equal(t, x.Stride(0), int64(d.Strides()[0]))
	}
}

// The stride of a dimension of size 1 is never used.
func TestStridesOfSingleElementsDoNotMatter(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{1, 3, 1}, Strides: []int64{-7, 1, 1000}})
	x := must.Do(dlpack.Import(p.Managed()))(t)
	defer x.Close()
	d, release, err := gorgonia.Dense(x)
	require.NoError(t, err)
	defer release()
	assert.Equal(t, tensor.Shape{1, 3, 1}, d.Shape())
	assert.True(t, d.DataOrder().IsContiguous())
}

// After this, gorgonia's pool has one list twice, because UT put it there, and gives it to two owners.
func TestDenseHasListsOfItsOwn(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer runtime.GC() // empties the pool
	defer runtime.GC()
	axes := []int{1, 0}
	var ds []*tensor.Dense
	for range 2 {
		d := tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(2, 3))
		require.NoError(t, d.T(axes...))
		ds = append(ds, d)
	}
	for _, d := range ds {
		d.UT()
	}
	x := must.Do(dlpack.New(dlpack.Float64, 2, 3))(t)
	defer x.Close()
	d, release, err := gorgonia.Dense(x)
	require.NoError(t, err)
	defer release()
	assert.Equal(t, tensor.Shape{2, 3}, d.Shape())
	assert.Equal(t, []int{3, 1}, d.Strides())
}

func TestDenseHonoursByteOffset(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	folded := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3}, Strides: []int64{1}, Shift: 8})
	unfolded := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3}, Strides: []int64{1}, ByteOffset: 8})
	for _, p := range []*dlpacktest.Producer{folded, unfolded} {
		copy(p.Data(), []byte{8: 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40}) // 1, 2, 3
		x := must.Do(dlpack.Import(p.Managed()))(t)
		d, release, err := gorgonia.Dense(x)
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 2, 3}, d.Data())
		sum := must.Do(d.Sum())(t)
		assert.Equal(t, float32(6), sum.Data())
		release()
		x.Close()
	}
}

// Writes in place reach the producer's memory, at its address, and no memory around it.
func TestComputationInPlaceLandsInForeignMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	other := func() *tensor.Dense {
		return tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(tensor.Range(tensor.Float32, 0, 12)))
	}
	result := func(r tensor.Tensor, err error) (tensor.Tensor, error) { return r, err }
	for _, c := range []struct {
		name  string
		do    func(d *tensor.Dense) (tensor.Tensor, error)
		want  func(was, other float64) float64
		plain bool // not of transposed memory, where gorgonia moves the elements
	}{
		{"Add UseUnsafe", func(d *tensor.Dense) (tensor.Tensor, error) { return d.Add(other(), tensor.UseUnsafe()) },
			func(was, other float64) float64 { return was + other }, false},
		{"Mul WithReuse", func(d *tensor.Dense) (tensor.Tensor, error) { return other().Mul(other(), tensor.WithReuse(d)) },
			func(was, other float64) float64 { return other * other }, false},
		{"Mul WithIncr", func(d *tensor.Dense) (tensor.Tensor, error) { return other().Mul(other(), tensor.WithIncr(d)) },
			func(was, other float64) float64 { return was + other*other }, false},
		{"MulScalar UseUnsafe", func(d *tensor.Dense) (tensor.Tensor, error) {
			return d.MulScalar(float32(3), true, tensor.UseUnsafe())
		}, func(was, other float64) float64 { return 3 * was }, false},
		{"Square WithReuse", func(d *tensor.Dense) (tensor.Tensor, error) {
			return tensor.Square(other(), tensor.WithReuse(d))
		}, func(was, other float64) float64 { return other * other }, false},
		{"Apply UseUnsafe", func(d *tensor.Dense) (tensor.Tensor, error) {
			return d.Apply(func(x float32) float32 { return x + 1 }, tensor.UseUnsafe())
		}, func(was, other float64) float64 { return was + 1 }, false},
		{"Memset", func(d *tensor.Dense) (tensor.Tensor, error) { return d, d.Memset(float32(7)) },
			func(was, other float64) float64 { return 7 }, false},
		{"Zero", func(d *tensor.Dense) (tensor.Tensor, error) { d.Zero(); return d, nil },
			func(was, other float64) float64 { return 0 }, false},
		{"SetAt", func(d *tensor.Dense) (tensor.Tensor, error) {
			for i := range 12 {
				if err := d.SetAt(float32(2*i), i/4, i%4); err != nil {
					return nil, err
				}
			}
			return d, nil
		}, func(was, other float64) float64 { return 2 * other }, false},
		{"rows, by a view", func(d *tensor.Dense) (tensor.Tensor, error) {
			for i := range 3 {
				row, err := d.Slice(tensor.S(i))
				if err == nil {
					_, err = tensor.Mul(row, float32(2), tensor.UseUnsafe())
				}
				if err != nil {
					return nil, err
				}
			}
			return d, nil
		}, func(was, other float64) float64 { return 2 * was }, false},
		{"MatMul WithReuse", func(d *tensor.Dense) (tensor.Tensor, error) {
			return tensor.MatMul(tensor.New(tensor.Of(tensor.Float32), tensor.AsDenseDiag([]float32{1, 1, 1})), other(), tensor.WithReuse(d))
		}, func(was, other float64) float64 { return other }, true},
		{"CopyTo", func(d *tensor.Dense) (tensor.Tensor, error) { return d, other().CopyTo(d) },
			func(was, other float64) float64 { return other }, true},
	} {
		for _, transposed := range []bool{false, true} {
			if transposed && c.plain {
				continue
			}
			name := c.name
			if transposed {
				name += ", transposed"
			}
			t.Run(name, func(t *testing.T) {
				was := func(i int64) float64 { return float64(i*7%12 + 1) }
				f := foreignTensor(t, dlpack.Float32, []int64{3, 4}, order(transposed), func(i int64) complex128 { return complex(was(i), 0) })
				d := f.wrap(t)
				got := must.Do(result(c.do(d)))(t)
				assert.Equal(t, f.Data(), got.Uintptr(), "the result is elsewhere")
				now := must.Own(f.Copy())(t)
				values := must.Do(dlpack.Values[float32](now))(t)
				for i, v := range values {
					assert.Equal(t, float32(c.want(was(int64(i)), float64(i))), v, "element %d", i)
				}
				f.guarded(t)
			})
		}
	}
}

// Tests every type on which gorgonia computes, in both orders.
func TestEveryTypeIsComputedInPlace(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for dt := range goTypes {
		if dt == dlpack.Bool {
			continue
		}
		for _, transposed := range []bool{false, true} {
			t.Run(fmt.Sprint(dt, transposed), func(t *testing.T) {
				shape := []int64{2, 3, 2}
				a := foreignTensor(t, dt, shape, order(transposed), func(i int64) complex128 { return operand("a", i, dt) })
				b := foreignTensor(t, dt, shape, 'C', func(i int64) complex128 { return operand("b", i, dt) })
				da, db := a.wrap(t), b.wrap(t)
				for _, do := range []func() (tensor.Tensor, error){
					func() (tensor.Tensor, error) { return tensor.Add(da, db, tensor.UseUnsafe()) },
					func() (tensor.Tensor, error) { return tensor.Mul(da, db, tensor.WithReuse(da)) },
					func() (tensor.Tensor, error) { return tensor.Sub(db, db, tensor.WithIncr(da)) },
				} {
					got := must.Do(do())(t)
					assert.Equal(t, a.Data(), got.Uintptr(), "the result is elsewhere")
				}
				var want []value
				for i := range int64(12) {
					want = append(want, value((operand("a", i, dt)+operand("b", i, dt))*operand("b", i, dt)))
				}
				assert.Equal(t, want, numbers(t, a.Tensor))
				a.guarded(t)
				b.untouched(t)
			})
		}
	}
}

// order returns the letter of an order: row-major or transposed.
func order(transposed bool) byte {
	if transposed {
		return 'F'
	}
	return 'C'
}

// gorgonia gets everything wrong that the comment of AllowTransposed lists. If a new version gets an operation right,
// shorten the list.
func TestTransposedTensorsGoWrongWhereItIsDocumented(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	like := func(d *tensor.Dense) *tensor.Dense {
		return tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(d.Shape()...))
	}
	identity := func() *tensor.Dense {
		return tensor.New(tensor.Of(tensor.Float64), tensor.AsDenseDiag([]float64{1, 1, 1}))
	}
	for _, c := range []struct {
		name string
		do   func(d *tensor.Dense) (any, error)
		bad  string
	}{
		{"Repeat", func(d *tensor.Dense) (any, error) { return tensor.Repeat(d, 0, 2) }, "result"},
		{"SoftMax", func(d *tensor.Dense) (any, error) { return tensor.SoftMax(d, 0) }, "result"},
		{"LogSoftMax", func(d *tensor.Dense) (any, error) { return tensor.LogSoftMax(d, 0) }, "result"},
		{"Diag", func(d *tensor.Dense) (any, error) { return tensor.Diag(d) }, "result"},
		{"Eq", func(d *tensor.Dense) (any, error) { return d.Eq(d.Materialize()), nil }, "result"},
		{"CopyTo", func(d *tensor.Dense) (any, error) { to := like(d); return to, d.CopyTo(to) }, "result"},
		{"WriteNpy", func(d *tensor.Dense) (any, error) {
			var file bytes.Buffer
			if err := d.WriteNpy(&file); err != nil {
				return nil, err
			}
			read := new(tensor.Dense)
			return read, read.ReadNpy(&file)
		}, "result"},
		{"Data", func(d *tensor.Dense) (any, error) {
			return tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(d.Data())), nil
		}, "result"},
		{"Argmax", func(d *tensor.Dense) (any, error) { return d.Argmax(tensor.AllAxes) }, "result"},
		{"Argmin", func(d *tensor.Dense) (any, error) { return d.Argmin(tensor.AllAxes) }, "result"},
		{"MatMul with SafeT", func(d *tensor.Dense) (any, error) {
			s, err := d.SafeT()
			if err != nil {
				return nil, err
			}
			return tensor.MatMul(s, identity())
		}, "result"},
		{"Reshape", func(d *tensor.Dense) (any, error) { return d, d.Reshape(3, 4) }, "memory"},
		{"Transpose", func(d *tensor.Dense) (any, error) { return d, d.Transpose() }, "memory"},
		{"MatMul WithReuse", func(d *tensor.Dense) (any, error) {
			return tensor.MatMul(identity(), d.Clone().(*tensor.Dense), tensor.WithReuse(d))
		}, "memory"},
		{"Add WithReuse of the second operand", func(d *tensor.Dense) (any, error) { return tensor.Add(like(d), d, tensor.WithReuse(d)) }, "result and memory"},
		{"Apply WithReuse", func(d *tensor.Dense) (any, error) {
			return d.Apply(func(x float64) float64 { return -x }, tensor.WithReuse(d))
		}, "result"},
		{"ByIndices", func(d *tensor.Dense) (any, error) {
			return tensor.ByIndices(d, tensor.New(tensor.WithBacking([]int{1, 0})), 0)
		}, "panic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(transposed bool) (shape []int, values []value, memory []byte) {
				f := foreignTensor(t, dlpack.Float64, []int64{3, 4}, order(transposed), func(i int64) complex128 { return complex(float64((i*7+5)%12), 0) })
				got := must.Do(c.do(f.wrap(t)))(t)
				f.guarded(t)
				shape, values = elements(t, got)
				memory = must.Do(f.AppendBytes(nil))(t)
				return shape, values, memory
			}
			shape, values, memory := run(false)
			if c.bad == "panic" {
				assert.Panics(t, func() { run(true) })
				return
			}
			shapeT, valuesT, memoryT := run(true)
			assert.Equal(t, shape, shapeT)
			assert.Equal(t, strings.Contains(c.bad, "result"), !assert.ObjectsAreEqual(values, valuesT), "the result")
			assert.Equal(t, strings.Contains(c.bad, "memory"), !bytes.Equal(memory, memoryT), "the elements as the producer sees them")
		})
	}
	for name, multiply := range map[string]func(d *tensor.Dense) (any, error){
		"TensorMul": func(d *tensor.Dense) (any, error) { return d.TensorMul(d, []int{0}, []int{0}) },
		"Contract":  func(d *tensor.Dense) (any, error) { return tensor.Contract(d, d, []int{1}, []int{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			run := func(transposed bool) []value {
				f := foreignTensor(t, dlpack.Float64, []int64{2, 3, 4}, order(transposed), func(i int64) complex128 { return complex(float64(i), 0) })
				got := must.Do(multiply(f.wrap(t)))(t)
				f.untouched(t)
				_, values := elements(t, got)
				return values
			}
			assert.NotEqual(t, run(false), run(true))
		})
	}
	for name, turn := range map[string]func(d *tensor.Dense) (*tensor.Dense, error){
		"a second T":     func(d *tensor.Dense) (*tensor.Dense, error) { return d, d.T(1, 0, 2) },
		"RollAxis":       func(d *tensor.Dense) (*tensor.Dense, error) { return d.RollAxis(2, 0, false) },
		"RollAxis, back": func(d *tensor.Dense) (*tensor.Dense, error) { return d.RollAxis(0, 3, false) },
	} {
		t.Run(name, func(t *testing.T) {
			run := func(transposed bool) (f *foreign, values []value) {
				f = foreignTensor(t, dlpack.Float64, []int64{2, 3, 4}, order(transposed), func(i int64) complex128 { return complex(float64(i), 0) })
				_, values = elements(t, must.Do(turn(f.wrap(t)))(t))
				f.guarded(t)
				return f, values
			}
			plain, want := run(false)
			plain.untouched(t)
			f, got := run(true)
			assert.NotEqual(t, want, got)
			assert.NotEqual(t, f.before, f.producer.Data())
		})
	}
}

// gorgonia gets everything wrong that the comment of Dense lists for memory of any order. If a new version gets an
// operation right, change the list.
func TestComputationGoesWrongWhereItIsDocumented(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	wrap := func(t *testing.T) (*foreign, *tensor.Dense) {
		f := foreignTensor(t, dlpack.Float64, []int64{3, 3}, 'C', func(i int64) complex128 { return complex(float64((i*7+5)%12), 0) })
		return f, f.wrap(t)
	}
	rows := func() *tensor.Dense { return tensor.New(tensor.WithBacking([]int{1, 0, 2})) }
	type operation = func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error)
	softMaxes := map[string]operation{
		"SoftMax": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			return tensor.SoftMax(d, 1, options...)
		},
		"LogSoftMax": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			return tensor.LogSoftMax(d, 1, options...)
		},
		"SoftMaxB": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			return tensor.SoftMaxB(d, d, 1, options...)
		},
		"LogSoftMaxB": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			return tensor.LogSoftMaxB(d, d, 1, options...)
		},
	}
	byIndices := func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.ByIndices(d, rows(), 0, options...)
	}
	products := map[string]operation{
		"MatMul": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			return tensor.MatMul(d, d, options...)
		},
		"MatVecMul": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			row, err := d.Slice(tensor.S(0))
			if err != nil {
				return nil, err
			}
			return tensor.MatVecMul(d, row, options...)
		},
		"Outer": func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
			row, err := d.Slice(tensor.S(0))
			if err != nil {
				return nil, err
			}
			return tensor.Outer(row, row, options...)
		},
	}

	fresh := maps.Clone(softMaxes)
	fresh["ByIndices"] = byIndices
	for name, do := range fresh {
		t.Run(name+" returns new memory", func(t *testing.T) {
			_, d := wrap(t)
			f, to := wrap(t)
			for _, option := range []tensor.FuncOpt{tensor.WithReuse(to), tensor.WithIncr(to)} {
				assert.NotEqual(t, f.Data(), must.Do(do(d, option))(t).Uintptr())
			}
			f.untouched(t)
			require.NoError(t, must.Do(do(d))(t).(*tensor.Dense).CopyTo(to), "the way out")
			_, want := elements(t, must.Do(do(d))(t))
			assert.Equal(t, want, numbers(t, f.Tensor))
		})
	}
	for name, do := range products {
		t.Run(name+" UseUnsafe returns new memory", func(t *testing.T) {
			f, d := wrap(t)
			assert.NotEqual(t, f.Data(), must.Do(do(d, tensor.UseUnsafe()))(t).Uintptr())
			f.untouched(t)
		})
	}

	panics := maps.Clone(softMaxes)
	panics["MaxBetween"] = func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.MaxBetween(d, 2.0, options...)
	}
	panics["MinBetween"] = func(d *tensor.Dense, options ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.MinBetween(d, d, options...)
	}
	for name, do := range panics {
		t.Run(name+" UseUnsafe panics", func(t *testing.T) {
			_, d := wrap(t)
			must.Do(do(d))(t)
			assert.Panics(t, func() { do(d, tensor.UseUnsafe()) })
		})
	}

	for name, wrong := range map[string]struct {
		do      operation
		options func(d *tensor.Dense) tensor.FuncOpt
	}{
		"ByIndices UseUnsafe":               {byIndices, func(*tensor.Dense) tensor.FuncOpt { return tensor.UseUnsafe() }},
		"MatMul WithReuse of an operand":    {products["MatMul"], func(d *tensor.Dense) tensor.FuncOpt { return tensor.WithReuse(d) }},
		"Outer WithReuse of an operand":     {products["Outer"], func(d *tensor.Dense) tensor.FuncOpt { return tensor.WithReuse(d) }},
		"MatVecMul WithReuse of an operand": {products["MatVecMul"], func(d *tensor.Dense) tensor.FuncOpt { return tensor.WithReuse(must.Do(d.Slice(tensor.S(0)))(t)) }},
	} {
		t.Run(name+" reads what it has written", func(t *testing.T) {
			f, d := wrap(t)
			_, want := elements(t, must.Do(wrong.do(d))(t))
			f.untouched(t)
			_, got := elements(t, must.Do(wrong.do(d, wrong.options(d)))(t))
			f.guarded(t)
			assert.NotEqual(t, want, got)
		})
	}

	for name, do := range map[string]operation{"SoftMax": softMaxes["SoftMax"], "LogSoftMax": softMaxes["LogSoftMax"]} {
		t.Run(name+" of rows far from the first element", func(t *testing.T) {
			for _, row := range [][]float64{{-1000, -1000}, {1000, 0}} {
				alone := tensor.New(tensor.WithShape(1, 2), tensor.WithBacking(slices.Clone(row)))
				below := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(append([]float64{0, 0}, row...)))
				want, got := must.Do(do(alone))(t).Data().([]float64), must.Do(do(below))(t).Data().([]float64)[2:]
				assert.False(t, math.IsNaN(want[0]) || math.IsInf(want[0], 0), "%v", want)
				assert.True(t, math.IsNaN(got[0]) || math.IsInf(got[0], 0), "%v", got)
			}
		})
	}
}

// collect runs the collector until due cleanups have run, and also the releases that they cause.
func collect() {
	for range 3 {
		var ran atomic.Bool
		runtime.AddCleanup(new([64]int), func(ran *atomic.Bool) { ran.Store(true) }, &ran)
		for !ran.Load() {
			runtime.GC()
		}
	}
	background.Wait()
}

// Everything made from a Dense keeps the owner alive, whatever else is dropped.
func TestViewsAndResultsKeepTheOwner(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(d *tensor.Dense) (tensor.Tensor, error)
		want any
	}{
		{"the Dense", func(d *tensor.Dense) (tensor.Tensor, error) { return d, nil }, []float32{0, 1, 2, 3, 4, 5}},
		{"a slice", func(d *tensor.Dense) (tensor.Tensor, error) { return d.Slice(tensor.S(1)) }, []float32{3, 4, 5}},
		{"a shallow clone", func(d *tensor.Dense) (tensor.Tensor, error) { return d.ShallowClone(), nil }, []float32{0, 1, 2, 3, 4, 5}},
		{"a slice of a slice", func(d *tensor.Dense) (tensor.Tensor, error) {
			row, err := d.Slice(tensor.S(1))
			if err != nil {
				return nil, err
			}
			return row.Slice(tensor.S(1, 3))
		}, []float32{4, 5}},
		{"a result", func(d *tensor.Dense) (tensor.Tensor, error) { return d.Add(d) }, []float32{0, 2, 4, 6, 8, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{3, 1}})
			derived, release := func() (tensor.Tensor, func()) { // none of these variables stays reachable
				x := must.Do(dlpack.Import(p.Managed()))(t)
				defer x.Close()
				values := must.Do(dlpack.Values[float32](x))(t)
				copy(values, []float32{0, 1, 2, 3, 4, 5})
				d, release, err := gorgonia.Dense(x)
				require.NoError(t, err)
				derived := must.Do(c.make(d))(t)
				return derived, release
			}()
			collect()
			assert.Equal(t, 0, p.Deletes())
			assert.Equal(t, c.want, derived.Data())
			release()
			assert.Equal(t, 1, p.Deletes())
			release()
			assert.Equal(t, 1, p.Deletes(), "release ran twice")
		})
	}
}

// A slice that Data returned may be in use when nothing else is reachable.
func TestAForgottenReleaseIsCountedAndFreesNothing(t *testing.T) {
	repotest.Forgets(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3}, Strides: []int64{1}})
	before := dlpack.ReadStats().Forgotten
	data := func() []float32 {
		x := must.Do(dlpack.Import(p.Managed()))(t)
		defer x.Close()
		d, _, err := gorgonia.Dense(x)
		require.NoError(t, err)
		require.NoError(t, d.Memset(float32(7)))
		return d.Data().([]float32)
	}()
	repotest.Forgive(1, 0)
	require.Eventually(t, func() bool {
		collect()
		return dlpack.ReadStats().Forgotten > before
	}, 20*time.Second, time.Millisecond)
	assert.Equal(t, before+1, dlpack.ReadStats().Forgotten)
	assert.Equal(t, 0, p.Deletes())
	assert.Equal(t, []float32{7, 7, 7}, data)
}

// Go's own memory stays valid without a release.
func TestDenseKeepsGoMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	d, release := func() (*tensor.Dense, func()) {
		data := make([]float64, 1<<16)
		for i := range data {
			data[i] = float64(i)
		}
		x := must.Do(dlpack.FromSlice(data, 256, 256))(t)
		defer x.Close()
		d, release, err := gorgonia.Dense(x)
		require.NoError(t, err)
		assert.Equal(t, x.Data(), d.Uintptr())
		return d, release
	}()
	collect()
	sum := must.Do(d.Sum())(t)
	assert.Equal(t, float64(1<<16)*(1<<16-1)/2, sum.Data())
	release()
	collect()
	last := must.Do(d.At(255, 255))(t)
	assert.Equal(t, float64(1<<16-1), last)
}

// gorgonia recycles tensors; a recycled tensor no longer has our engine or owner.
func TestAReturnedTensorForgetsTheOwner(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3}, Strides: []int64{1}})
	x := must.Own(dlpack.Import(p.Managed()))(t)
	d, release, err := gorgonia.Dense(x)
	require.NoError(t, err)
	tensor.ReturnTensor(d)
	other := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3))
	require.NoError(t, other.Memset(float32(9)))
	release()
	assert.Equal(t, make([]byte, 12), p.Data()[:12])
	assert.Equal(t, []float32{9, 9, 9}, other.Data())
}

// Many goroutines wrap, compute, view and release concurrently, while the collector runs all the time.
func TestDenseUnderGCStress(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	var all sync.WaitGroup
	for worker := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := range 200 {
				value := float32(worker*1000 + round)
				x, err := dlpack.New(dlpack.Float32, 8, 16)
				if !assert.NoError(t, err) {
					return
				}
				d, release, err := gorgonia.Dense(x)
				x.Close()
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, d.Memset(value))
				row, err := d.Slice(tensor.S(7))
				assert.NoError(t, err)
				shared, err := gorgonia.FromDense(row.(*tensor.Dense))
				assert.NoError(t, err)
				sum, err := tensor.Sum(d, 0)
				assert.NoError(t, err)
				d, row = nil, nil
				release()
				values, err := dlpack.Values[float32](shared)
				assert.NoError(t, err)
				for i, v := range values {
					if v != value {
						assert.Equal(t, value, v, "element %d", i)
					}
				}
				assert.Len(t, values, 16)
				last, err := sum.At(15)
				assert.NoError(t, err)
				assert.Equal(t, 8*value, last)
				shared.Close()
			}
		}()
	}
	all.Wait()
}

// The cost of wrapping does not depend on the size.
func TestDenseAllocatesTheSameForEverySize(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	var allocations []float64
	for _, n := range []int64{1, 1 << 20} {
		x := must.Do(dlpack.New(dlpack.Float32, n, 4))(t)
		allocations = append(allocations, testing.AllocsPerRun(100, func() {
			_, release, err := gorgonia.Dense(x)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}))
		x.Close()
	}
	assert.InDelta(t, allocations[0], allocations[1], 1) // a pool of gorgonia's may be empty
}
