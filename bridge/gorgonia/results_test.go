//go:build cgo

package gorgonia_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A result is an entry of testdata/numpy_results.json: NumPy's result of an operation.
type result struct {
	Op     string
	Of     []int64
	DTypes []string
	Want   struct {
		Shape  []int
		Values []value
	}
}

// A value is a number, or the two parts of a complex one.
type value complex128

func (v *value) UnmarshalJSON(text []byte) error {
	var parts [2]float64
	into := any(&parts[0])
	if text[0] == '[' {
		into = &parts
	}
	err := json.Unmarshal(text, into)
	*v = value(complex(parts[0], parts[1]))
	return err
}

func results(t *testing.T) (all []result) {
	text := must.Do(os.ReadFile("testdata/numpy_results.json"))(t)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// operations are the operations of testdata/numpy_results.py. They use the axes that the rank of the operands has.
var operations = map[string]func(a, b *tensor.Dense) (any, error){
	"values":      func(a, b *tensor.Dense) (any, error) { return a, nil },
	"add":         func(a, b *tensor.Dense) (any, error) { return tensor.Add(a, b) },
	"sub":         func(a, b *tensor.Dense) (any, error) { return tensor.Sub(a, b) },
	"mul":         func(a, b *tensor.Dense) (any, error) { return tensor.Mul(a, b) },
	"div":         func(a, b *tensor.Dense) (any, error) { return tensor.Div(a, b) },
	"add 3":       func(a, b *tensor.Dense) (any, error) { return tensor.Add(a, number(a.Dtype(), 3)) },
	"lt":          func(a, b *tensor.Dense) (any, error) { return tensor.Lt(a, b) },
	"gte":         func(a, b *tensor.Dense) (any, error) { return tensor.Gte(a, b) },
	"equal":       func(a, b *tensor.Dense) (any, error) { return tensor.ElEq(a, b) },
	"neg":         func(a, b *tensor.Dense) (any, error) { return tensor.Neg(a) },
	"square":      func(a, b *tensor.Dense) (any, error) { return tensor.Square(a) },
	"sqrt":        func(a, b *tensor.Dense) (any, error) { return tensor.Sqrt(a) },
	"sum":         func(a, b *tensor.Dense) (any, error) { return tensor.Sum(a) },
	"sum 0":       func(a, b *tensor.Dense) (any, error) { return tensor.Sum(a, 0) },
	"sum last":    func(a, b *tensor.Dense) (any, error) { return tensor.Sum(a, a.Dims()-1) },
	"max 0":       func(a, b *tensor.Dense) (any, error) { return a.Max(0) },
	"min last":    func(a, b *tensor.Dense) (any, error) { return a.Min(a.Dims() - 1) },
	"argmax last": func(a, b *tensor.Dense) (any, error) { return tensor.Argmax(a, a.Dims()-1) },
	"transpose":   func(a, b *tensor.Dense) (any, error) { return tensor.Transpose(a) },
	"roll": func(a, b *tensor.Dense) (any, error) {
		axes := make([]int, a.Dims())
		for i := range axes {
			axes[i] = (i + 1) % len(axes)
		}
		return tensor.Transpose(a, axes...)
	},
	"row":     func(a, b *tensor.Dense) (any, error) { return a.Slice(tensor.S(a.Shape()[0] - 1)) },
	"columns": func(a, b *tensor.Dense) (any, error) { return columns(a) },
	"rows added": func(a, b *tensor.Dense) (any, error) {
		return added(a.Slice(tensor.S(a.Shape()[0] - 1)))(b.Slice(tensor.S(b.Shape()[0] - 1)))
	},
	"columns added": func(a, b *tensor.Dense) (any, error) { return added(columns(a))(columns(b)) },
	"rows materialized": func(a, b *tensor.Dense) (any, error) {
		rows, err := a.Slice(tensor.S(0, (a.Shape()[0]+1)/2))
		if err != nil {
			return nil, err
		}
		m := rows.Materialize().(*tensor.Dense)
		err = m.Reshape(m.Shape().TotalSize())
		return m, err
	},
	"row sum": func(a, b *tensor.Dense) (any, error) {
		row, err := a.Slice(tensor.S(0))
		if err != nil {
			return nil, err
		}
		return tensor.Sum(row)
	},
	"repeat 0": func(a, b *tensor.Dense) (any, error) { return tensor.Repeat(a, 0, 2) },
	"concat 0": func(a, b *tensor.Dense) (any, error) { return tensor.Concat(0, a, b) },
	"stack 0":  func(a, b *tensor.Dense) (any, error) { return tensor.Stack(0, a, b) },
	"matmul": func(a, b *tensor.Dense) (any, error) {
		if err := b.T(); err != nil {
			return nil, err
		}
		return tensor.MatMul(a, b)
	},
	"matvec": func(a, b *tensor.Dense) (any, error) {
		ones := tensor.New(tensor.Of(a.Dtype()), tensor.WithShape(a.Shape()[1]))
		if err := ones.Memset(number(a.Dtype(), 1)); err != nil {
			return nil, err
		}
		return tensor.MatVecMul(a, ones)
	},
	"outer":        func(a, b *tensor.Dense) (any, error) { return tensor.Outer(a, b) },
	"inner":        func(a, b *tensor.Dense) (any, error) { return tensor.Inner(a, b) },
	"softmax last": func(a, b *tensor.Dense) (any, error) { return tensor.SoftMax(a, a.Dims()-1) },
	"flat": func(a, b *tensor.Dense) (any, error) {
		err := a.Reshape(a.Shape().TotalSize())
		return a, err
	},
}

func columns(d *tensor.Dense) (tensor.View, error) {
	s := make([]tensor.Slice, d.Dims())
	s[len(s)-1] = tensor.S(0, (d.Shape()[len(s)-1]+1)/2)
	return d.Slice(s...)
}

func added(a tensor.View, err error) func(b tensor.View, err error) (any, error) {
	return func(b tensor.View, err2 error) (any, error) {
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return tensor.Add(a, b)
	}
}

// squeezed drops dimensions of size 1, as gorgonia does when it slices.
func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
}

// operand returns number i of tensor a or b, as in testdata/numpy_results.py.
func operand(name string, i int64, dt dlpack.DataType) complex128 {
	b := float64(i*5%3%2 + 1)
	a := b + float64(i*7%5%3)
	z := complex(a, 0)
	if name == "b" {
		z, a, b = complex(b, 0), b, a
	}
	switch {
	case dt == dlpack.Bool && name == "a":
		return complex(one(a > 2), 0)
	case dt == dlpack.Bool:
		return complex(one(a > 1), 0)
	case dt.Code() == dlpack.CodeComplex:
		return complex(a, b)
	}
	return z
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// set assigns z to a number of any type.
func set(to reflect.Value, z complex128) {
	switch {
	case to.CanInt():
		to.SetInt(int64(real(z)))
	case to.CanUint():
		to.SetUint(uint64(real(z)))
	case to.CanFloat():
		to.SetFloat(real(z))
	case to.CanComplex():
		to.SetComplex(z)
	default:
		to.SetBool(z != 0)
	}
}

func number(dt tensor.Dtype, z complex128) any {
	x := reflect.New(dt.Type).Elem()
	set(x, z)
	return x.Interface()
}

// elements reads a tensor, or a number, one by one, row-major.
func elements(t testing.TB, x any) (shape []int, all []value) {
	d, ok := x.(tensor.Tensor)
	if !ok {
		return []int{}, []value{value(repotest.Number(x))}
	}
	if d.IsScalar() {
		return []int{}, []value{value(repotest.Number(d.ScalarValue()))}
	}
	at := make([]int, d.Dims())
	for {
		v := must.Do(d.At(at...))(t)
		all = append(all, value(repotest.Number(v)))
		axis := len(at) - 1
		for ; axis >= 0; axis-- {
			if at[axis]++; at[axis] < d.Shape()[axis] {
				break
			}
			at[axis] = 0
		}
		if axis < 0 {
			return slices.Clone([]int(d.Shape())), all
		}
	}
}

// tensorOf returns a tensor of values that elements has read.
func tensorOf(t testing.TB, shape []int, values []value) *dlpack.Tensor {
	sizes := make([]int64, len(shape))
	for d, n := range shape {
		sizes[d] = int64(n)
	}
	flat := must.Own(dlpack.FromSlice(values))(t)
	return must.Own(flat.Reshape(sizes...))(t)
}

// A foreign is a tensor in C memory with guards before and after it.
type foreign struct {
	*dlpack.Tensor
	producer *dlpacktest.Producer
	before   []byte // a copy of the original memory
}

const guard = 64

// foreignTensor returns a tensor with the given order: row-major ('C'); column-major ('F'); or row-major after a
// byte_offset, where the strides of dimensions of size 1 lead out of the memory ('O').
func foreignTensor(t testing.TB, dt dlpack.DataType, shape []int64, order byte, element func(i int64) complex128) *foreign {
	strides, err := layout.AppendRowMajor(nil, shape)
	if order == 'F' {
		strides, err = layout.AppendColumnMajor(nil, shape)
	}
	require.NoError(t, err)
	shift, offset := guard, 0
	if order == 'O' {
		shift, offset = 0, guard
		for d, n := range shape {
			if n == 1 {
				strides[d] = -1000 * int64(d+1)
			}
		}
	}
	count := must.Do(layout.Count(shape))(t)
	size := int(count) * dt.ItemSize()
	p := dlpacktest.Produce(t, dlpacktest.Config{
		Code: uint8(dt.Code()), Bits: dt.Bits(), Lanes: dt.Lanes(), Shape: shape, Strides: strides, Shift: shift, ByteOffset: uint64(offset), Bytes: size + 2*guard,
	})
	for i := range p.Data() {
		p.Data()[i] = 0xa5
	}
	goType := goTypes[dt]
	for i := range count {
		rest, at := i, int64(0)
		for d := len(shape) - 1; d >= 0; d-- {
			at += rest % shape[d] * strides[d]
			rest /= shape[d]
		}
		place := unsafe.Pointer(&p.Data()[guard+int(at)*dt.ItemSize()])
		set(reflect.NewAt(goType, place).Elem(), element(i))
	}
	x := must.Do(dlpack.Import(p.Managed()))(t)
	return &foreign{x, p, slices.Clone(p.Data())}
}

// wrap makes a Dense on the memory. At the end of the test it checks that the deleter runs once, at the release.
func (f *foreign) wrap(t testing.TB) *tensor.Dense {
	d, release, err := gorgonia.Dense(f.Tensor, gorgonia.AllowTransposed)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
		assert.Equal(t, 0, f.producer.Deletes())
		release()
		release()
		assert.Equal(t, 1, f.producer.Deletes())
	})
	return d
}

// untouched checks that the memory and its guards are unchanged.
func (f *foreign) untouched(t testing.TB) {
	assert.Equal(t, f.before, f.producer.Data(), "the memory was written to")
}

// guarded checks that the guards are unchanged.
func (f *foreign) guarded(t testing.TB) {
	now, n := f.producer.Data(), len(f.before)
	assert.Equal(t, f.before[:guard], now[:guard], "it was written before the memory")
	assert.Equal(t, f.before[n-guard:], now[n-guard:], "it was written behind the memory")
}

var goTypes = map[dlpack.DataType]reflect.Type{
	dlpack.Bool: tensor.Bool.Type,
	dlpack.Int8: tensor.Int8.Type, dlpack.Int16: tensor.Int16.Type, dlpack.Int32: tensor.Int32.Type, dlpack.Int64: tensor.Int64.Type,
	dlpack.Uint8: tensor.Uint8.Type, dlpack.Uint16: tensor.Uint16.Type, dlpack.Uint32: tensor.Uint32.Type, dlpack.Uint64: tensor.Uint64.Type,
	dlpack.Float32: tensor.Float32.Type, dlpack.Float64: tensor.Float64.Type,
	dlpack.Complex64: tensor.Complex64.Type, dlpack.Complex128: tensor.Complex128.Type,
}

// wrongTransposed lists the operations here that gorgonia gets wrong on transposed tensors: see AllowTransposed and
// TestTransposedTensorsGoWrongWhereItIsDocumented.
var wrongTransposed = []string{"repeat 0", "softmax last", "flat"}

// Both operands lie in C memory between guards, in every order that Dense accepts.
func TestResultsOnForeignMemoryAreNumPys(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, r := range results(t) {
		for _, name := range r.DTypes {
			dt := must.Do(dlpack.ParseDataType(name))(t)
			orders := []string{"CC", "OO", "CF", "FC", "FF"}
			switch {
			case len(r.Of) < 2:
				orders = orders[:2]
			case slices.Contains(wrongTransposed, r.Op):
				orders = orders[:3]
			}
			for _, order := range orders {
				t.Run(fmt.Sprintf("%s of %v %s in %s", r.Op, r.Of, name, order), func(t *testing.T) {
					a := foreignTensor(t, dt, r.Of, order[0], func(i int64) complex128 { return operand("a", i, dt) })
					b := foreignTensor(t, dt, r.Of, order[1], func(i int64) complex128 { return operand("b", i, dt) })
					da, db := a.wrap(t), b.wrap(t)
					got := must.Do(operations[r.Op](da, db))(t)
					shape, values := elements(t, got)
					dlpacktest.AllClose(t, tensorOf(t, squeezed(r.Want.Shape), r.Want.Values), tensorOf(t, squeezed(shape), values), 0, 1e-6)
					a.untouched(t)
					b.untouched(t)
				})
			}
		}
	}
}
