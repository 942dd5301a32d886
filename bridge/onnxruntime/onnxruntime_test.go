package onnxruntime_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/bridge/onnxruntime"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

var models string // the folder of the models

// PYTHON names a Python that has the packages onnx and onnxruntime.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "models")
	if err != nil {
		panic(err)
	}
	models = folder
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	make := exec.Command(python, "testdata/models.py", models)
	make.Stderr = os.Stderr
	library, err := make.Output()
	if err != nil {
		panic(fmt.Sprintf("%s testdata/models.py: %v; PYTHON must name a Python that has onnx and onnxruntime", python, err))
	}
	ort.SetSharedLibraryPath(string(library))
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		panic(err)
	}
	code := dlpacktest.Run(m)
	os.RemoveAll(models)
	os.Exit(code)
}

func open(t testing.TB, name string, inputs, outputs []string) *onnxruntime.Runner {
	r := must.Do(onnxruntime.Open(filepath.Join(models, name+".onnx"), inputs, outputs, nil))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// small returns eight numbers of a type whose doubles have the same type.
func small(t testing.TB, name string) *dlpack.Tensor {
	values := []float32{0, 1, 2, 3, 0, 3, 2, 1}
	switch name {
	case "uint2", "bool":
		values = []float32{0, 1, 0, 0, 1, 0, 1, 1}
	case "int2":
		values = []float32{0, -1, 0, 0, -1, 0, -1, -1}
	case "float8_e8m0fnu":
		values = []float32{1, 2, 4, 8, 8, 4, 2, 1}
	}
	f := must.Own(dlpack.FromSlice(values, 2, 4))(t)
	return must.Do(f.Convert(must.Do(dlpack.ParseDataType(name))(t)))(t)
}

// doubled returns the float32 numbers of a tensor, each added to itself and rounded to the type of the tensor.
func doubled(t testing.TB, x *dlpack.Tensor) []float32 {
	wide := must.Own(x.Convert(dlpack.Float32))(t)
	require.NoError(t, dlpack.Use(wide, func(values []float32) error {
		for i := range values {
			values[i] += values[i]
		}
		return nil
	}))
	back := must.Own(wide.Convert(x.DType()))(t)
	return numbers(t, back)
}

func numbers(t testing.TB, x *dlpack.Tensor) []float32 {
	wide := must.Own(x.Convert(dlpack.Float32))(t)
	return must.Do(dlpack.Values[float32](wide))(t)
}

var types = strings.Fields(`bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16
	float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int4 uint4 int2 uint2`)

// whole reports whether the binding returns dynamic outputs of the type.
func whole(dt dlpack.DataType) bool {
	return dt.BitSize() == 8 || dt.BitSize() >= 16 && dt != dlpack.Float16 && dt != dlpack.BFloat16
}

func TestModelsAddNumbersOfEachType(t *testing.T) {
	for _, name := range types {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			x := small(t, name)
			defer x.Close()
			want := doubled(t, x)

			v := must.Do(onnxruntime.Value(x))(t)
			same := must.Do(onnxruntime.Tensor(v))(t)
			assert.Equal(t, x.DType(), same.DType())
			assert.Equal(t, x.Shape(), same.Shape())
			assert.False(t, same.ReadOnly())
			require.NoError(t, v.Destroy())
			require.NoError(t, v.Destroy())
			assert.Equal(t, numbers(t, x), numbers(t, same), "the tensor outlives the value")
			same.Close()
			_, err := onnxruntime.Tensor(v)
			assert.ErrorIs(t, err, dlpack.ErrClosed)

			r := open(t, "add-"+name, nil, nil)
			outputs := map[string]*dlpack.Tensor{}
			require.NoError(t, r.Run(map[string]*dlpack.Tensor{"x": x}, outputs))
			made := outputs["y"]
			assert.Equal(t, want, numbers(t, made))
			assert.Zero(t, made.Flags()&dlpack.IsCopied)
			assert.NoError(t, made.RequireAlign(dlpack.AllocAlignment))

			given := must.Do(dlpack.New(x.DType(), 2, 4))(t)
			outputs = map[string]*dlpack.Tensor{"y": given}
			require.NoError(t, r.Run(map[string]*dlpack.Tensor{"x": x}, outputs))
			assert.Same(t, given, outputs["y"])
			assert.Equal(t, want, numbers(t, given))

			d := open(t, "dynamic-"+name, nil, nil)
			outputs = map[string]*dlpack.Tensor{}
			if err := d.Run(map[string]*dlpack.Tensor{"x": x}, outputs); whole(x.DType()) {
				require.NoError(t, err)
				assert.Equal(t, want, numbers(t, outputs["y"]))
				assert.NotZero(t, outputs["y"].Flags()&dlpack.IsCopied)
				outputs["y"].Close()
			} else {
				assert.ErrorIs(t, err, dlpack.ErrDType)
				assert.ErrorContains(t, err, "pass a tensor for this output to Run")
				assert.Empty(t, outputs)
			}
			clear(must.Do(made.AppendBytes(nil))(t))
			require.NoError(t, d.Run(map[string]*dlpack.Tensor{"x": x}, map[string]*dlpack.Tensor{"y": made}))
			assert.Equal(t, want, numbers(t, made))
			made.Close()
			given.Close()
		})
	}
}

// A session of the binding reads numbers that are written after Value has made the input, and writes into the memory of a tensor.
func TestValuesShareTheMemoryOfTensors(t *testing.T) {
	for _, name := range types {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			from := small(t, name)
			defer from.Close()
			x := must.Own(dlpack.New(from.DType(), 2, 4))(t)
			y := must.Own(dlpack.New(from.DType(), 2, 4))(t)
			in := must.Do(onnxruntime.Value(x))(t)
			defer in.Destroy()
			out := must.Do(onnxruntime.Value(y))(t)
			defer out.Destroy()
			require.NoError(t, from.CopyTo(x))
			s := must.Do(ort.NewDynamicAdvancedSession(filepath.Join(models, "add-"+name+".onnx"), []string{"x"}, []string{"y"}, nil))(t)
			defer s.Destroy()
			require.NoError(t, s.Run([]ort.Value{in}, []ort.Value{out}))
			assert.Equal(t, doubled(t, from), numbers(t, y))
		})
	}
}

func TestModelsReturnFloat4(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromSlice([]float32{1}))(t)
	outputs := map[string]*dlpack.Tensor{}
	require.NoError(t, open(t, "constant-float4_e2m1fn", nil, nil).Run(map[string]*dlpack.Tensor{"x": x}, outputs))
	y := outputs["y"]
	defer y.Close()
	assert.Equal(t, dlpack.Float4E2M1FN, y.DType())
	assert.Equal(t, []float32{0, 0.5, 1, 1.5, -2, -3, 4, 6}, numbers(t, y))
}

// onSlice makes a value of the binding on a slice of eight elements, and returns the address of the slice too.
func onSlice[T ort.TensorData](t testing.TB) (ort.Value, *byte) {
	data := make([]T, 8)
	return must.Do(ort.NewTensor(ort.NewShape(2, 4), data))(t), (*byte)(unsafe.Pointer(&data[0]))
}

// onBytes is onSlice for a CustomDataTensor with elements of the given number of bits.
func onBytes(held ort.TensorElementDataType, bits int) func(t testing.TB) (ort.Value, *byte) {
	return func(t testing.TB) (ort.Value, *byte) {
		data := make([]byte, bits)
		return must.Do(ort.NewCustomDataTensor(ort.NewShape(2, 4), data, held))(t), &data[0]
	}
}

func TestTensorsShareTheMemoryOfValues(t *testing.T) {
	made := map[string]func(t testing.TB) (ort.Value, *byte){
		"bool": onSlice[bool], "int8": onSlice[int8], "int16": onSlice[int16], "int32": onSlice[int32], "int64": onSlice[int64],
		"uint8": onSlice[uint8], "uint16": onSlice[uint16], "uint32": onSlice[uint32], "uint64": onSlice[uint64],
		"float32": onSlice[float32], "float64": onSlice[float64],
		"float16":         onBytes(ort.TensorElementDataTypeFloat16, 16),
		"bfloat16":        onBytes(ort.TensorElementDataTypeBFloat16, 16),
		"float8_e4m3fn":   onBytes(ort.TensorElementDataTypeFloat8E4M3FN, 8),
		"float8_e4m3fnuz": onBytes(ort.TensorElementDataTypeFloat8E4M3FNUZ, 8),
		"float8_e5m2":     onBytes(ort.TensorElementDataTypeFloat8E5M2, 8),
		"float8_e5m2fnuz": onBytes(ort.TensorElementDataTypeFloat8E5M2FNUZ, 8),
		"float8_e8m0fnu":  onBytes(ort.TensorElementDataTypeFloat8E8M0, 8),
		"float4_e2m1fn":   onBytes(ort.TensorElementDataTypeFloat4E2M1, 4),
		"int4":            onBytes(ort.TensorElementDataTypeInt4, 4),
		"uint4":           onBytes(ort.TensorElementDataTypeUint4, 4),
		"int2":            onBytes(ort.TensorElementDataTypeInt2, 2),
		"uint2":           onBytes(ort.TensorElementDataTypeUint2, 2),
	}
	for _, name := range append([]string{"float4_e2m1fn"}, types...) {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			v, address := made[name](t)
			x := must.Own(onnxruntime.Tensor(v))(t)
			assert.Equal(t, name, x.DType().String())
			assert.Equal(t, []int64{2, 4}, x.Shape())
			assert.Equal(t, uintptr(unsafe.Pointer(address)), x.Data())
			again := must.Do(onnxruntime.Value(x))(t)
			require.NoError(t, again.Destroy())
			require.NoError(t, v.Destroy())
		})
	}
}

func TestValuesOfTheBindingBecomeTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4}
	v := must.Do(ort.NewTensor(ort.NewShape(2, 2), data))(t)
	x := must.Do(onnxruntime.Tensor(v))(t)
	require.NoError(t, v.Destroy())
	data[0] = 7
	assert.Equal(t, []float32{7, 2, 3, 4}, must.Do(dlpack.Values[float32](x))(t))
	x.Close()

	scalar := must.Do(ort.NewScalar[float32](1))(t)
	text := must.Do(ort.NewStringTensor(ort.NewShape(1)))(t)
	for _, v := range []ort.Value{scalar, text} {
		_, err := onnxruntime.Tensor(v)
		assert.ErrorIs(t, err, dlpack.ErrDType)
		v.Destroy()
	}
	_, err := onnxruntime.Tensor(v)
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	_, err = onnxruntime.Tensor(nil)
	assert.ErrorIs(t, err, dlpack.ErrNull)
}

func TestValueRefuses(t *testing.T) {
	of := func(c dlpacktest.Config) func(t testing.TB) *dlpack.Tensor {
		return func(t testing.TB) *dlpack.Tensor {
			x := must.Own(dlpack.Import(dlpacktest.Produce(t, c).Managed()))(t)
			return x
		}
	}
	typed := func(dt dlpack.DataType, shape ...int64) func(t testing.TB) *dlpack.Tensor {
		return func(t testing.TB) *dlpack.Tensor { return must.Own(dlpack.New(dt, shape...))(t) }
	}
	for _, c := range []struct {
		name  string
		from  func(t testing.TB) *dlpack.Tensor
		cause error
		says  string
	}{
		{"no tensor", func(testing.TB) *dlpack.Tensor { return nil }, dlpack.ErrNull, "nil"},
		{"closed", func(t testing.TB) *dlpack.Tensor { x := typed(dlpack.Float32, 2)(t); x.Close(); return x }, dlpack.ErrClosed, "closed"},
		{"no dimensions", typed(dlpack.Float32), dlpack.ErrLayout, "Reshape(1)"},
		{"no elements of a type without a Go type", typed(dlpack.Float16, 0, 3), dlpack.ErrLayout, "no elements, but the binding accepts no empty tensor of float16; use Convert"},
		{"complex", typed(dlpack.Complex64, 2), dlpack.ErrDType, "View makes it a dimension of two float32"},
		{"lanes", typed(dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), 2), dlpack.ErrDType, "View makes its lanes a dimension of float32"},
		{"float6", typed(dlpack.Float6E2M3FN, 4), dlpack.ErrDType, "Convert makes it float32"},
		{"a gap", of(dlpacktest.Config{Shape: []int64{3, 4}, Strides: []int64{6, 1}}), dlpack.ErrLayout, "Contiguous(RowMajor)"},
		{"reversed", of(dlpacktest.Config{Shape: []int64{4}, Strides: []int64{-1}, ByteOffset: 12}), dlpack.ErrLayout, "Contiguous(RowMajor)"},
		{"not aligned", of(dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, Shift: 2}), dlpack.ErrUnaligned, "Align"},
		{"read-only", of(dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, Flags: uint64(dlpack.ReadOnly)}), dlpack.ErrReadOnly, "AsInput"},
		{"not known to be writable", func(t testing.TB) *dlpack.Tensor {
			return must.Own(dlpack.ImportLegacy(dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, Legacy: true}).Managed()))(t)
		}, dlpack.ErrReadOnly, "is not known to be writable; import it with AssumeWritable"},
		{"on another device", of(dlpacktest.Config{Shape: []int64{2}, Strides: []int64{1}, DeviceType: int32(dlpack.CUDA)}), dlpack.ErrDevice, "cuda:0"},
		{"a bool of 2", func(t testing.TB) *dlpack.Tensor {
			return must.Own(dlpack.FromBytes([]byte{1, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{2}}))(t)
		}, dlpack.ErrValue, "byte 1"},
		{"padded", func(t testing.TB) *dlpack.Tensor {
			return must.Own(dlpack.FromBytes(make([]byte, 4), dlpack.Spec{DType: dlpack.Int4, Shape: []int64{4}, Padded: true}))(t)
		}, dlpack.ErrLayout, "packs them; use CopyTo into a tensor of New"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			v, err := onnxruntime.Value(c.from(t))
			assert.ErrorIs(t, err, c.cause)
			assert.ErrorContains(t, err, "onnxruntime: value: ")
			assert.ErrorContains(t, err, c.says)
			assert.Nil(t, v)
		})
	}
}

func TestReadOnlyMemoryIsAnInput(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.FromReadOnly([]float32{1, 2, 3}))(t)
	v := must.Do(onnxruntime.Value(x, onnxruntime.AsInput))(t)
	same := must.Do(onnxruntime.Tensor(v))(t)
	assert.True(t, same.ReadOnly())
	same.Close()
	v.Destroy()
	r := open(t, "two", []string{"a", "b"}, []string{"difference"})
	outputs := map[string]*dlpack.Tensor{}
	require.NoError(t, r.Run(map[string]*dlpack.Tensor{"a": x, "b": x}, outputs))
	assert.Equal(t, []float32{0, 0, 0}, numbers(t, outputs["difference"]))
	assert.Len(t, outputs, 1)
	outputs["difference"].Close()
	err := r.Run(map[string]*dlpack.Tensor{"a": x, "b": x}, map[string]*dlpack.Tensor{"difference": x})
	assert.ErrorIs(t, err, dlpack.ErrReadOnly)
}

func TestTensorsWithoutElementsRun(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(dlpack.New(dlpack.Float32, 0, 3))(t)
	y := must.Own(dlpack.New(dlpack.Float32, 0, 3))(t)
	r := open(t, "dynamic-float32", nil, nil)
	require.NoError(t, r.Run(map[string]*dlpack.Tensor{"x": x}, map[string]*dlpack.Tensor{"y": y}))
	outputs := map[string]*dlpack.Tensor{}
	require.NoError(t, r.Run(map[string]*dlpack.Tensor{"x": x}, outputs))
	assert.Equal(t, []int64{0, 3}, outputs["y"].Shape())
	outputs["y"].Close()
}

func TestOpenAndRunSayWhatDiffers(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	path := func(name string) string { return filepath.Join(models, name+".onnx") }
	for _, c := range []struct {
		model           string
		inputs, outputs []string
		cause           error
		says            string
	}{
		{"two", []string{"c"}, nil, dlpack.ErrNull, `the model has no input "c"; it has a, b`},
		{"two", nil, []string{"sum", "sum"}, dlpack.ErrNull, `output "sum" is named twice`},
		{"two", nil, []string{}, dlpack.ErrNull, "no outputs"},
		{"strings", nil, nil, dlpack.ErrDType, "not a tensor of numbers"},
	} {
		_, err := onnxruntime.Open(path(c.model), c.inputs, c.outputs, nil)
		assert.ErrorIs(t, err, c.cause)
		assert.ErrorContains(t, err, "onnxruntime: open: ")
		assert.ErrorContains(t, err, c.says)
	}
	_, err := onnxruntime.Open(path("none"), nil, nil, nil)
	assert.ErrorContains(t, err, "onnxruntime: open: ")
	_, err = onnxruntime.OpenBytes([]byte("no model"), nil, nil, nil)
	assert.ErrorContains(t, err, "onnxruntime: open: ")
	_, err = onnxruntime.OpenBytes(nil, nil, nil, nil)
	assert.ErrorContains(t, err, "onnxruntime: open: ")

	x := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
	long := must.Own(dlpack.FromSlice([]float32{1, 2, 3, 4}))(t)
	wide := must.Own(dlpack.FromSlice([]float64{1, 2, 3}))(t)
	type tensors = map[string]*dlpack.Tensor
	r := must.Own(onnxruntime.OpenBytes(must.Do(os.ReadFile(path("two")))(t), nil, nil, nil))(t)
	for _, c := range []struct {
		inputs, outputs tensors
		cause           error
		says            string
	}{
		{tensors{"a": x}, tensors{}, dlpack.ErrNull, `input "b" is missing`},
		{tensors{"a": x, "b": x, "c": x}, tensors{}, dlpack.ErrNull, `no input "c"; it has a, b`},
		{tensors{"a": x, "b": x}, tensors{"total": x}, dlpack.ErrNull, `no output "total"; it has sum, difference`},
		{tensors{"a": x, "b": x}, nil, dlpack.ErrNull, "empty map"},
		{tensors{"a": x, "b": wide}, tensors{}, dlpack.ErrDType, `input "b"`},
		{tensors{"a": x, "b": long}, tensors{}, dlpack.ErrLayout, `input "b"`},
		{tensors{"a": x, "b": x}, tensors{"difference": long}, dlpack.ErrLayout, `output "difference"`},
	} {
		had := len(c.outputs)
		err := r.Run(c.inputs, c.outputs)
		assert.ErrorIs(t, err, c.cause)
		assert.ErrorContains(t, err, "onnxruntime: run: ")
		assert.ErrorContains(t, err, c.says)
		assert.Len(t, c.outputs, had)
	}
	d := open(t, "dynamic-float32", nil, nil)
	square := must.Own(x.Reshape(1, 3))(t)
	other := must.Own(dlpack.New(dlpack.Float32, 3, 1))(t)
	assert.ErrorContains(t, d.Run(tensors{"x": square}, tensors{"y": other}), "has shape {3,1} but the computed output shape for this run is {1,3}")
	s := open(t, "scalar", nil, nil)
	err = s.Run(tensors{"x": x}, tensors{})
	assert.ErrorIs(t, err, ort.ZeroShapeLengthError)
	assert.ErrorContains(t, err, "onnxruntime: run: an output has no dimensions, so the binding cannot return it; pass a tensor of shape [1] for this output to Run")
	one := must.Own(dlpack.New(dlpack.Float32, 1))(t)
	require.NoError(t, s.Run(tensors{"x": x}, tensors{"y": one}))
	assert.Equal(t, []float32{6}, numbers(t, one))
	r.Close()
	assert.ErrorIs(t, r.Run(tensors{"a": x, "b": x}, tensors{}), dlpack.ErrClosed)
	assert.ErrorIs(t, (&onnxruntime.Runner{}).Run(nil, nil), dlpack.ErrClosed)
}

// owned returns a tensor of three numbers in a mapping, which is unmapped before released is called.
func owned(t *testing.T, released func()) *dlpack.Tensor {
	memory := must.Do(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	x := must.Do(dlpack.Own(memory, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{3}}, func() {
		assert.NoError(t, syscall.Munmap(memory))
		released()
	}))(t)
	require.NoError(t, dlpack.Use(x, func(values []float32) error { copy(values, []float32{1, 2, 3}); return nil }))
	return x
}

// permutations calls f with each order of the numbers from 0 to n-1.
func permutations(n int, f func(order []int)) {
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == n {
			f(order)
		}
		for i := range n {
			if !slices.Contains(order, i) {
				extend(append(slices.Clone(order), i))
			}
		}
	}
	extend(nil)
}

// A session, a value, a tensor of the value, the tensor below and an output end in each order. The remaining ones stay
// unchanged. The memory is released once, after its last owner, by a function that uses both libraries.
func TestOwnersAndSessionsEndInEachOrder(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	want := [][]float32{{1, 2, 3}, {1, 2, 3}, {2, 4, 6}}
	permutations(5, func(order []int) {
		var released atomic.Int32
		x := owned(t, func() {
			y, err := dlpack.FromSlice([]float32{1})
			assert.NoError(t, err)
			v, err := onnxruntime.Value(y)
			assert.NoError(t, err)
			assert.NoError(t, v.Destroy())
			y.Close()
			released.Add(1)
		})
		v := must.Do(onnxruntime.Value(x))(t)
		y := must.Do(onnxruntime.Tensor(v))(t)
		r := open(t, "two", nil, []string{"sum"})
		outputs := map[string]*dlpack.Tensor{}
		require.NoError(t, r.Run(map[string]*dlpack.Tensor{"a": x, "b": y}, outputs))
		sum := outputs["sum"]
		ended := make([]bool, 5)
		for _, i := range order {
			require.NoError(t, []func() error{x.Close, y.Close, sum.Close, v.Destroy, r.Close}[i]())
			ended[i] = true
			if !ended[0] || !ended[1] || !ended[3] {
				require.Zero(t, released.Load(), order)
			}
			for j, c := range []*dlpack.Tensor{x, y, sum} {
				if !ended[j] {
					require.Equal(t, want[j], numbers(t, c), order)
				}
			}
		}
		dlpack.Reap()
		background.Wait()
		require.EqualValues(t, 1, released.Load(), order)
	})
}

// A function of Own that blocks delays no run, no Destroy and no Close.
func TestReleaseMayBlock(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	gate, released := make(chan bool), make(chan bool)
	x := owned(t, func() { <-gate; close(released) })
	r := open(t, "two", nil, nil)
	outputs := map[string]*dlpack.Tensor{}
	require.NoError(t, r.Run(map[string]*dlpack.Tensor{"a": x, "b": x}, outputs))
	v := must.Do(onnxruntime.Value(x))(t)
	x.Close()
	require.NoError(t, v.Destroy())
	require.NoError(t, r.Run(map[string]*dlpack.Tensor{"a": outputs["sum"], "b": outputs["sum"]}, outputs))
	outputs["sum"].Close()
	outputs["difference"].Close()
	require.NoError(t, r.Close())
	close(gate)
	<-released
}

// With DLBRIDGE_STRESS there are a million runs, so leaked values would fill the memory.
func TestRunsLeaveNoMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	n := 20_000
	if os.Getenv("DLBRIDGE_STRESS") != "" {
		n = 1_000_000
	}
	resident := func() (size int64) {
		debug.FreeOSMemory()
		var all, pages int64
		must.Do(fmt.Sscan(string(must.Do(os.ReadFile("/proc/self/statm"))(t)), &all, &pages))(t)
		return pages * int64(os.Getpagesize())
	}
	r := open(t, "dynamic-float32", nil, nil)
	data := make([]float32, 4096)
	run := func(i int) {
		x, err := dlpack.FromSlice(data, 1, 4096)
		require.NoError(t, err)
		v, err := onnxruntime.Value(x)
		require.NoError(t, err)
		y, err := onnxruntime.Tensor(v)
		require.NoError(t, err)
		x.Close()
		v.Destroy()
		outputs := map[string]*dlpack.Tensor{}
		if i%4 != 0 {
			outputs["y"], err = dlpack.New(dlpack.Float32, 1, 4096)
			require.NoError(t, err)
		}
		require.NoError(t, r.Run(map[string]*dlpack.Tensor{"x": y}, outputs))
		y.Close()
		outputs["y"].Close()
	}
	for i := range 1000 {
		run(i)
	}
	before := resident()
	for i := range n {
		run(i)
	}
	grown := resident() - before
	t.Logf("%d runs: %d KiB larger", n, grown>>10)
	assert.Less(t, grown, int64(32<<20))
}

// Owners release in every order, while other goroutines run the model and the collector runs.
func TestOwnersEndInEachOrder(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	r := open(t, "two", nil, nil)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 300 {
				data := make([]float32, 3)
				x, err := dlpack.FromSlice(data)
				if err == nil && i%2 == 1 {
					x.Close()
					x, err = dlpack.New(dlpack.Float32, 3)
				}
				if !assert.NoError(t, err) {
					return
				}
				v, err := onnxruntime.Value(x)
				assert.NoError(t, err)
				y, err := onnxruntime.Tensor(v)
				assert.NoError(t, err)
				outputs := map[string]*dlpack.Tensor{}
				assert.NoError(t, r.Run(map[string]*dlpack.Tensor{"a": x, "b": y}, outputs))
				ends := []func() error{v.Destroy, x.Close, y.Close, outputs["sum"].Close, outputs["difference"].Close}
				for j := range ends {
					ends[(i+j)%len(ends)]()
				}
				if i%50 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
	r.Close()
}
