package aten

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func lend(t testing.TB, data []float32, shape ...int64) *Tensor {
	tensor, err := dlpack.FromSlice(data, shape...)
	require.NoError(t, err)
	x, err := From(tensor)
	require.NoError(t, err)
	require.NoError(t, tensor.Close())
	return x
}

func values(t testing.TB, x *Tensor) []float32 {
	tensor, err := x.DLPack()
	require.NoError(t, err)
	defer tensor.Close()
	data, err := dlpack.Values[float32](tensor)
	require.NoError(t, err)
	return append([]float32(nil), data...)
}

func TestInPlaceUpdateIsVisibleInTheGoSlice(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4}
	x := lend(t, data, 2, 2)
	require.NoError(t, x.AddScalar(0.5))
	assert.Equal(t, []float32{1.5, 2.5, 3.5, 4.5}, data)
	data[3] = -7
	assert.Equal(t, data, values(t, x))
	back, err := x.DLPack()
	require.NoError(t, err)
	assert.Equal(t, uintptr(unsafe.Pointer(&data[0])), back.Data())
	x.Close()
	x.Close()
	theirs, err := dlpack.Values[float32](back)
	require.NoError(t, err)
	theirs[0] = 99
	assert.Equal(t, float32(99), data[0])
	assert.EqualValues(t, 1, dlpack.ReadStats().Exports, "Go's memory is lent until libtorch's export is gone")
	require.NoError(t, back.Close())
	assert.Zero(t, dlpack.ReadStats().Exports)
}

func TestResultsAreReadAfterLibtorchsReferencesAreGone(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x, y := lend(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3), lend(t, []float32{1, 0, 0, 1, 1, 0}, 3, 2)
	product, err := x.MatMul(y)
	require.NoError(t, err)
	soft, err := product.Softmax(1)
	require.NoError(t, err)
	out, err := soft.DLPack()
	require.NoError(t, err)
	for _, x := range []*Tensor{x, y, product, soft} {
		x.Close()
	}
	runtime.GC()
	part := func(a, b float64) float64 { return math.Exp(a) / (math.Exp(a) + math.Exp(b)) }
	want, err := dlpack.FromSlice([]float64{part(4, 2), part(2, 4), part(10, 5), part(5, 10)}, 2, 2) // the product is [[4 2] [10 5]]
	require.NoError(t, err)
	require.NoError(t, out.Require(dlpack.Float32, 2, 2))
	dlpacktest.AllClose(t, want, out, 0, 1e-6)
	require.NoError(t, want.Close())
	require.NoError(t, out.Close())
}

// Libtorch itself accepts most of these, and some of them end the process.
func TestWhatLibtorchWouldMisreadIsRefusedBeforeIt(t *testing.T) {
	rank := int32(-1)
	f32 := func(change func(*dlpacktest.Config)) dlpacktest.Config {
		c := dlpacktest.Config{Major: 1, Minor: 3, Shape: []int64{4}, Strides: []int64{1}}
		change(&c)
		return c
	}
	type config = dlpacktest.Config
	for _, test := range []struct {
		name   string
		config config
		want   error
	}{
		{"major 2", f32(func(c *config) { c.Major = 2 }), dlpack.ErrVersion},
		{"ndim -1", f32(func(c *config) { c.NDim = &rank }), dlpack.ErrLayout},
		{"negative shape", f32(func(c *config) { c.Shape[0] = -4 }), dlpack.ErrLayout},
		{"huge shape", f32(func(c *config) { c.Shape, c.Strides = []int64{1 << 32, 1 << 32}, []int64{1 << 32, 1} }), dlpack.ErrOverflow},
		{"NULL data", f32(func(c *config) { c.NullData = true }), dlpack.ErrNull},
		{"negative stride", f32(func(c *config) { c.Strides[0], c.ByteOffset = -1, 12 }), dlpack.ErrLayout},
		{"read-only", f32(func(c *config) { c.Flags = 1 }), dlpack.ErrReadOnly},
		{"off by a byte", f32(func(c *config) { c.Shift = 1 }), dlpack.ErrUnaligned},
		{"offset of two bytes", f32(func(c *config) { c.ByteOffset = 2 }), dlpack.ErrUnaligned},
		{"float32x4", f32(func(c *config) { c.Code, c.Bits, c.Lanes = 2, 32, 4 }), dlpack.ErrDType},
		{"int4", f32(func(c *config) { c.Code, c.Bits, c.Lanes = 0, 4, 1 }), dlpack.ErrDType},
		{"float8_e4m3", f32(func(c *config) { c.Code, c.Bits, c.Lanes = 8, 8, 1 }), dlpack.ErrDType},
		{"CUDA", f32(func(c *config) { c.DeviceType = 2 }), dlpack.ErrDevice},
		{"page-locked", f32(func(c *config) { c.DeviceType = 3 }), dlpack.ErrDevice},
		{"OpenCL", f32(func(c *config) { c.DeviceType = 4 }), dlpack.ErrDevice},
		{"a device of its own", f32(func(c *config) { c.DeviceType = 12 }), dlpack.ErrDevice},
		{"unknown device", f32(func(c *config) { c.DeviceType = 99 }), dlpack.ErrDevice},
	} {
		t.Run(test.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			p := dlpacktest.Produce(t, test.config)
			in, err := dlpack.Import(p.Managed())
			if err == nil {
				_, err = From(in)
				assert.Zero(t, p.Deletes(), "a refusal takes nothing")
				require.NoError(t, in.Close())
			} else if test.want != dlpack.ErrVersion {
				assert.Zero(t, p.Deletes(), "a refusal takes nothing")
				dlpack.Release(p.Managed())
			}
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, 1, p.Deletes())
		})
	}
}

// Libtorch calls the deleter in some of these cases, unless the guard in aten.cc prevents it.
func TestAfterARefusalOfLibtorchsTheCallerOwnsTheTensor(t *testing.T) {
	for _, test := range []struct {
		name   string
		config dlpacktest.Config
		says   string
	}{
		{"OpenCL", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, DeviceType: 4}, "INTERNAL ASSERT"},
		{"unknown device", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, DeviceType: 99}, "device_type"},
		{"negative stride", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{-1}, ByteOffset: 12}, "strides"},
		{"negative stride, no offset", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{-1}}, "strides"},
		{"negative shape, NULL strides", dlpacktest.Config{Shape: []int64{-4}}, "negative dimension"},
		{"negative shape", dlpacktest.Config{Shape: []int64{-4}, Strides: []int64{1}}, "negative dimension"},
		{"huge shape", dlpacktest.Config{Shape: []int64{1 << 62, 4}, Strides: []int64{4, 1}}, "overflow"},
		{"offset of two bytes", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, ByteOffset: 2}, "byte offset"},
		{"float8_e4m3", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, Code: 8, Bits: 8, Lanes: 1}, "code 8"},
		{"int4", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, Code: 0, Bits: 4, Lanes: 1}, "bits 4"},
		{"lanes", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, Code: 2, Bits: 32, Lanes: 4}, "lanes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			test.config.Major, test.config.Minor = 1, 3
			p := dlpacktest.Produce(t, test.config)
			for range 2 { // the caller still owns it, and may try again
				_, err := take(p.Managed())
				require.ErrorIs(t, err, ErrTorch)
				assert.ErrorContains(t, err, test.says)
				assert.Zero(t, p.Deletes())
			}
			dlpack.Release(p.Managed())
			assert.Equal(t, 1, p.Deletes())
		})
	}
}

// C++ smart pointers do not call a deleter that is NULL.
func TestDeleterRunsOnceForEmptyAndPlainTensors(t *testing.T) {
	for _, test := range []struct {
		name   string
		config dlpacktest.Config
	}{
		{"plain", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}}},
		{"NULL strides", dlpacktest.Config{Shape: []int64{2, 2}}},
		{"offset", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, ByteOffset: 8}},
		{"broadcast", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{0}}},
		{"rank 0", dlpacktest.Config{NullShape: true}},
		{"(0)", dlpacktest.Config{Shape: []int64{0}, Strides: []int64{1}}},
		{"(0, 3)", dlpacktest.Config{Shape: []int64{0, 3}, Strides: []int64{3, 1}}},
		{"(3, 0) at NULL", dlpacktest.Config{Shape: []int64{3, 0}, Strides: []int64{1, 1}, NullData: true}},
		{"newer minor and unknown flags", dlpacktest.Config{Minor: 99, Flags: 1 << 40, Shape: []int64{4}, Strides: []int64{1}}},
		{"NULL deleter", dlpacktest.Config{Shape: []int64{4}, Strides: []int64{1}, NullDeleter: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			test.config.Major = 1
			p := dlpacktest.Produce(t, test.config)
			once := 1
			if test.config.NullDeleter {
				once = 0
			}
			in, err := dlpack.Import(p.Managed())
			require.NoError(t, err)
			x, err := From(in)
			require.NoError(t, err)
			require.NoError(t, in.Close())
			back, err := x.DLPack()
			require.NoError(t, err)
			assert.Equal(t, in.Data(), back.Data())
			assert.Equal(t, in.Shape(), back.Shape())
			x.Close()
			assert.Zero(t, p.Deletes(), "libtorch's export keeps the memory")
			require.NoError(t, back.Close())
			assert.Equal(t, once, p.Deletes())
		})
	}
}

// Libtorch accepts memory of a device that does not exist; the first operator returns an error.
func TestDeleterRunsOnceForATensorOnADeviceThatIsNotThere(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Major: 1, Minor: 3, Shape: []int64{4}, Strides: []int64{1}, DeviceType: 2})
	x, err := take(p.Managed())
	require.NoError(t, err)
	err = x.AddScalar(1)
	require.ErrorIs(t, err, ErrTorch)
	assert.ErrorContains(t, err, "cuda")
	_, err = x.Softmax(0)
	require.ErrorIs(t, err, ErrTorch)
	back, err := x.DLPack()
	require.NoError(t, err)
	assert.Equal(t, dlpack.CUDA, back.Device().Type)
	x.Close()
	assert.Zero(t, p.Deletes())
	require.NoError(t, back.Close())
	assert.Equal(t, 1, p.Deletes())
}

func TestDataTypesComeBackAsTheyWent(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, dtype := range []dlpack.DataType{
		dlpack.Bool, dlpack.Int8, dlpack.Int16, dlpack.Int32, dlpack.Int64, dlpack.Uint8, dlpack.Uint16, dlpack.Uint32,
		dlpack.Uint64, dlpack.Float16, dlpack.BFloat16, dlpack.Float32, dlpack.Float64, dlpack.Complex32,
		dlpack.Complex64, dlpack.Complex128, dlpack.Float8E4M3FN, dlpack.Float8E4M3FNUZ, dlpack.Float8E5M2,
		dlpack.Float8E5M2FNUZ, dlpack.Float8E8M0FNU, dlpack.Float4E2M1FNx2,
	} {
		in, err := dlpack.New(dtype, 2, 3)
		require.NoError(t, err)
		x, err := From(in)
		require.NoError(t, err, "%v", dtype)
		back, err := x.DLPack()
		require.NoError(t, err, "%v", dtype)
		assert.Equal(t, dtype, back.DType())
		assert.Equal(t, in.Data(), back.Data())
		x.Close()
		require.NoError(t, in.Close())
		require.NoError(t, back.Close())
	}
	complex128s, err := dlpack.FromSlice(make([]complex128, 4)) // aligned to 8 bytes, as in Go
	require.NoError(t, err)
	x, err := From(complex128s)
	require.NoError(t, err)
	x.Close()
}

func TestTransposedMemoryIsComputedOnWhereItLies(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6}
	in, err := dlpack.FromSlice(data, 2, 3)
	require.NoError(t, err)
	turned, err := in.Transpose(1, 0)
	require.NoError(t, err)
	x, err := From(turned)
	require.NoError(t, err)
	y := lend(t, []float32{1, 10}, 2, 1)
	product, err := x.MatMul(y)
	require.NoError(t, err)
	assert.Equal(t, []float32{41, 52, 63}, values(t, product))
	for _, x := range []*Tensor{x, y, product} {
		x.Close()
	}
	require.NoError(t, in.Close())
	require.NoError(t, turned.Close())
}

// While only libtorch holds the slices, they are neither collected nor moved. After it has released them, even on
// threads started by C, they are collected.
func TestOnlyLibtorchHoldsTheMemoryOverTwentyCollections(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const count, size = 2000, 64
	var mu sync.Mutex
	collected := 0
	var held []*Tensor
	for i := range count {
		data := make([]float32, size)
		for k := range data {
			data[k] = float32(i)
		}
		runtime.AddCleanup(&data[0], func(int) { mu.Lock(); collected++; mu.Unlock() }, i)
		held = append(held, lend(t, data))
	}
	churn := make([][]float32, 64)
	for i := range 20 {
		for k := range 512 {
			churn[k%len(churn)] = make([]float32, size)
			churn[k%len(churn)][0] = float32(-i)
		}
		runtime.GC()
	}
	mu.Lock()
	assert.Zero(t, collected)
	mu.Unlock()
	assert.EqualValues(t, count, dlpack.ReadStats().Exports)
	var foreign []unsafe.Pointer
	for i, x := range held {
		for _, v := range values(t, x) {
			require.Equal(t, float32(i), v)
		}
		if i%2 == 0 {
			again, err := x.DLPack()
			require.NoError(t, err)
			managed, err := again.Export()
			require.NoError(t, err)
			require.NoError(t, again.Close())
			foreign = append(foreign, managed)
		}
		x.Close()
	}
	dlpacktest.DeleteOnThreads(foreign, 8)
	assert.Zero(t, dlpack.ReadStats().Exports)
	for range 20 {
		if mu.Lock(); collected == count {
			mu.Unlock()
			break
		}
		mu.Unlock()
		runtime.GC()
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, count, collected)
}

func TestManyGoroutinesLendOneSlice(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3}
	shared, err := dlpack.FromSlice(data)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				x, err := From(shared)
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, []float32{1, 2, 3}, values(t, x))
				_, err = take(dlpacktest.Produce(t, dlpacktest.Config{Major: 1, Shape: []int64{1}, DeviceType: 4}).Managed())
				assert.ErrorIs(t, err, ErrTorch)
				x.Close()
			}
		})
	}
	all.Wait()
	require.NoError(t, shared.Close())
}

func TestErrorsSayWhatLibtorchSays(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := lend(t, make([]float32, 6), 2, 3)
	_, err := x.MatMul(x)
	require.ErrorIs(t, err, ErrTorch)
	assert.ErrorContains(t, err, "aten: matmul: libtorch: ")
	assert.ErrorContains(t, err, "2x3")
	_, err = x.Softmax(5)
	assert.ErrorContains(t, err, "aten: softmax: libtorch: Dimension out of range")
	whole, err := dlpack.New(dlpack.Bool, 2)
	require.NoError(t, err)
	flags, err := From(whole)
	require.NoError(t, err)
	assert.ErrorContains(t, flags.AddScalar(0.5), "aten: add: libtorch: result type Float can't be cast")
	_, err = LoadModel("no such file\xff")
	assert.ErrorIs(t, err, ErrTorch)
	x.Close()
	flags.Close()
	require.NoError(t, whole.Close())
	_, err = From(whole)
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	for _, err := range []error{
		x.AddScalar(1),
		second(x.MatMul(flags)),
		second(x.Softmax(0)),
		second(x.DLPack()),
		second((&Model{}).Run(x)),
	} {
		assert.ErrorIs(t, err, dlpack.ErrClosed)
	}
}

func second[T any](_ T, err error) error { return err }

// at::toDLPackVersioned would export these tensors with wrong numbers.
func TestResultsThatDLPackCannotCarryAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	folder := t.TempDir()
	write := exec.Command(os.Getenv("PYTHON"), "testdata/models.py", folder)
	write.Stderr = os.Stderr
	require.NoError(t, write.Run())
	x := lend(t, []float32{1, 2})
	defer x.Close()
	for name, says := range map[string]string{
		"Conjugate": "conjugate or negative", "Negative": "conjugate or negative", "Weight": "requires gradient", "Sparse": "storage",
	} {
		model, err := LoadModel(filepath.Join(folder, name+".pt"))
		require.NoError(t, err, name)
		y, err := model.Run(x)
		require.NoError(t, err, name)
		model.Close()
		model.Close()
		_, err = y.DLPack()
		require.ErrorIs(t, err, ErrTorch, name)
		assert.ErrorContains(t, err, says, name)
		y.Close()
	}
	model, err := LoadModel(filepath.Join(folder, "Pair.pt"))
	require.NoError(t, err)
	_, err = model.Run(x)
	require.ErrorIs(t, err, ErrTorch)
	assert.ErrorContains(t, err, "Tensor")
	model.Close()
}
