//go:build cgo

package tvmffi_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// floats returns n float32 in a Go slice, shift bytes after a multiple of 64.
func floats(n int, shift uintptr) []float32 {
	m := make([]float32, n+32)
	for uintptr(unsafe.Pointer(&m[0]))%64 != shift {
		m = m[1:]
	}
	return m[:n:n]
}

func newTensor(t testing.TB, dtype dlpack.DataType, shape ...int64) *dlpack.Tensor {
	t.Helper()
	x := must.Do(dlpack.New(dtype, shape...))(t)
	t.Cleanup(func() { x.Close() })
	return x
}

func TestCallReadsAndWritesSlicesInPlace(t *testing.T) {
	f := function(t, "vadd")
	x, y, z := floats(100, 0), floats(100, 0), floats(100, 0)
	for i := range x {
		x[i], y[i] = float32(i), 1000
	}
	result := must.Do(f.Call(x, y, z))(t)
	assert.Nil(t, result)
	assert.Equal(t, float32(1099), z[99])

	at := must.Do(tvmffi.As[int64](function(t, "address").Call(z)))(t)
	assert.Equal(t, uintptr(unsafe.Pointer(&z[0])), uintptr(at), "no copy")
}

func TestCallReadsAndWritesTensorsInPlace(t *testing.T) {
	f := function(t, "vadd")
	dlpacktest.CheckLeaks(t)
	x, y, z := newTensor(t, dlpack.Float32, 100), newTensor(t, dlpack.Float32, 100), newTensor(t, dlpack.Float32, 100)
	xs := must.Do(dlpack.Values[float32](x))(t)
	xs[99] = 7
	must.Do(f.Call(x, y, z))(t)
	zs := must.Do(dlpack.Values[float32](z))(t)
	assert.Equal(t, float32(7), zs[99])
	at := must.Do(tvmffi.As[int64](function(t, "address").Call(z)))(t)
	assert.Equal(t, z.Data(), uintptr(at), "no copy")
}

func TestCallDescribesShapes(t *testing.T) {
	f := function(t, "matmul")
	a, b, c := floats(6, 0), floats(12, 0), floats(8, 0)
	copy(a, []float32{1, 2, 3, 4, 5, 6})
	for i := range b {
		b[i] = float32(i % 4)
	}
	must.Do(f.Call(tvmffi.Shape(a, 2, 3), tvmffi.Shape(b, 3, 4), tvmffi.Shape(c, 2, 4)))(t)
	assert.Equal(t, []float32{0, 6, 12, 18, 0, 15, 30, 45}, c)
}

func TestCallDescribesEveryType(t *testing.T) {
	describe := function(t, "describe", tvmffi.Alignment(1))
	read := func(arg any, count int) (found []int64) {
		for i := range count {
			n := must.Do(tvmffi.As[int64](describe.Call(arg, i)))(t)
			found = append(found, n)
		}
		return found
	}
	for _, row := range []struct {
		arg        any
		code, bits int64
	}{
		{[]float32{0}, 2, 32}, {[]float64{0}, 2, 64}, {[]int{0}, 0, 64}, {[]int8{0}, 0, 8}, {[]int16{0}, 0, 16}, {[]int32{0}, 0, 32},
		{[]int64{0}, 0, 64}, {[]uint{0}, 1, 64}, {[]uint8{0}, 1, 8}, {[]uint16{0}, 1, 16}, {[]uint32{0}, 1, 32}, {[]uint64{0}, 1, 64},
		{[]bool{false}, 6, 8}, {[]complex64{0}, 5, 64}, {[]complex128{0}, 5, 128},
	} {
		t.Run(fmt.Sprintf("%T", row.arg), func(t *testing.T) {
			assert.Equal(t, []int64{1, 1, 0, row.code, row.bits, 1, 0, 1, 1}, read(row.arg, 9))
		})
	}
	t.Run("shaped", func(t *testing.T) {
		x := make([]int16, 24)
		assert.Equal(t, []int64{3, 1, 0, 0, 16, 1, 0, 2, 3, 4, 12, 4, 1}, read(tvmffi.Shape(x, 2, 3, 4), 13))
		assert.Equal(t, []int64{5, 1, 0, 0, 16, 1, 0, 2, 1, 3, 1, 4, 12, 12, 4, 4, 1}, read(tvmffi.Shape(x, 2, 1, 3, 1, 4), 17))
		assert.Equal(t, []int64{0, 1, 0, 0, 16, 1, 0}, read(tvmffi.Shape(x[:1]), 7))
		assert.Equal(t, []int64{2, 1, 0, 0, 16, 1, 0, 3, 0, 1, 1}, read(tvmffi.Shape(x[:0], 3, 0), 11))
	})
	t.Run("a view with gaps", func(t *testing.T) {
		x := newTensor(t, dlpack.Float32, 4, 6)
		v := must.Own(x.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}, Strides: []int64{12, -2}, ByteOffset: 16}))(t)
		assert.Equal(t, []int64{2, 1, 0, 2, 32, 1, 0, 2, 3, 12, -2}, read(v, 11))
	})
	t.Run("a borrowed tensor of a device", func(t *testing.T) {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2, 3}, Strides: []int64{4, 1}, DeviceType: 2, DeviceID: 3, ByteOffset: 8, Code: 4, Bits: 16, Lanes: 1})
		b := must.Own(dlpack.Borrow(p.DLTensor(false), dlpack.AssumeWritable))(t)
		assert.Equal(t, []int64{2, 2, 3, 4, 16, 1, 8, 2, 3, 4, 1}, read(b, 11))
		at := must.Do(tvmffi.As[int64](function(t, "address").Call(b)))(t)
		assert.Equal(t, b.Data(), uintptr(at))
	})
}

func TestShapeMustFitTheSlice(t *testing.T) {
	f := function(t, "nop")
	x := floats(6, 0)
	for _, shape := range [][]int64{{5}, {2, 4}, {-2, -3}, {math.MaxInt64, 2}, {0}, {}, {1, 1, 1, 1, 7}} {
		_, err := f.Call(x, tvmffi.Shape(x, shape...))
		assert.ErrorIs(t, err, dlpack.ErrLayout, "%v", shape)
		assert.ErrorContains(t, err, "tvmffi: nop: argument 1: ")
	}
	for _, shape := range [][]int64{{0}, {0, 1 << 62, 1 << 62}, {1 << 62, 0, 1 << 62}, {1 << 62, 1 << 62, 0}} {
		_, err := f.Call(tvmffi.Shape(x[:0], shape...))
		assert.NoError(t, err, "%v", shape)
	}
	must.Fail(f.Call(tvmffi.Shape(x[:0], 0, -1)))(t, dlpack.ErrLayout)
}

// A function that returns its argument returns every kind of value unchanged.
func TestValuesMakeTheRoundTrip(t *testing.T) {
	echo := function(t, "echo")
	long := strings.Repeat("long, and with a \x00 in it; ", 1000)
	for _, row := range []struct {
		name      string
		arg, want any
	}{
		{"nil", nil, nil},
		{"true", true, true},
		{"false", false, false},
		{"int", -7, int64(-7)},
		{"int8", int8(-8), int64(-8)},
		{"int16", int16(-16), int64(-16)},
		{"int32", int32(-32), int64(-32)},
		{"int64", int64(math.MinInt64), int64(math.MinInt64)},
		{"uint8", uint8(255), int64(255)},
		{"uint16", uint16(65535), int64(65535)},
		{"uint32", uint32(1 << 31), int64(1 << 31)},
		{"uint", uint(9), int64(9)},
		{"uint64", uint64(math.MaxInt64), int64(math.MaxInt64)},
		{"float32", float32(0.5), 0.5},
		{"float64", math.Inf(-1), math.Inf(-1)},
		{"empty string", "", ""},
		{"short string", "a\x00b", "a\x00b"},
		{"string of seven", "7654321", "7654321"},
		{"string of eight", "87654321", "87654321"},
		{"long string", long, long},
		{"no bytes", tvmffi.Bytes(nil), []byte{}},
		{"short bytes", tvmffi.Bytes{0, 1, 255}, []byte{0, 1, 255}},
		{"long bytes", tvmffi.Bytes(long), []byte(long)},
		{"data type", dlpack.BFloat16, dlpack.BFloat16},
		{"data type with lanes", dlpack.Float4E2M1FNx2, dlpack.Float4E2M1FNx2},
		{"device", dlpack.Device{Type: dlpack.CUDA, ID: 3}, dlpack.Device{Type: dlpack.CUDA, ID: 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := must.Do(echo.Call(row.arg))(t)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestObjectsMakeTheRoundTrip(t *testing.T) {
	m, echo := module(t), function(t, "echo")
	got := must.Own(tvmffi.As[*tvmffi.Function](echo.Call(function(t, "bits"))))(t)
	n := must.Do(tvmffi.As[int64](got.Call(42)))(t)
	assert.EqualValues(t, 42, n)

	again := must.Own(tvmffi.As[*tvmffi.Module](echo.Call(m)))(t)
	f := must.Do(again.Function("nop"))(t)
	f.Close()

	array := must.Own(tvmffi.Global("ffi.Array"))(t)
	item := must.Own(tvmffi.Global("ffi.ArrayGetItem"))(t)
	list := must.Own(tvmffi.As[*tvmffi.Object](array.Call(1, "two is a longer string", 3.0)))(t)
	assert.EqualValues(t, constant("FFI_ARRAY"), list.TypeIndex())
	two := must.Do(tvmffi.As[string](item.Call(list, 1)))(t)
	assert.Equal(t, "two is a longer string", two)
}

func TestErrorsComeBackWithKindAndText(t *testing.T) {
	// TVM-FFI keeps the error that was raised last for each thread. The first call takes the error that other tests
	// have left there.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := function(t, "fail").Call()
	var e *tvmffi.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, tvmffi.KeyError, e.Kind)
	assert.Equal(t, "as asked for", e.Message)
	assert.Equal(t, "fail", e.Function)
	assert.Equal(t, "tvmffi: fail: KeyError: as asked for", err.Error())

	_, err = function(t, "fail_silently").Call()
	require.ErrorAs(t, err, &e)
	assert.Equal(t, tvmffi.RuntimeError, e.Kind)
}

// A few arguments lie on the stack, and more arguments on the heap.
func TestCallsWithManyArguments(t *testing.T) {
	module(t)
	f := must.Own(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) { return a.Int(a.Len() - 1), nil }))(t)
	for _, count := range []int{1, 32, 33, 255} {
		args := make([]any, count)
		for i := range args {
			args[i] = i
		}
		last := must.Do(f.Call(args...))(t)
		assert.EqualValues(t, count-1, last)
	}
}

// Each goroutine gets its own error, even if goroutines move between threads.
func TestErrorsBelongToTheirCall(t *testing.T) {
	m := module(t)
	var functions [8]*tvmffi.Function
	for i := range functions {
		f, err := tvmffi.NewFunction(func(a tvmffi.Args) (any, error) {
			runtime.Gosched()
			return nil, tvmffi.Errorf(tvmffi.ValueError, "number %d", a.Int(0))
		})
		require.NoError(t, err)
		defer f.Close()
		functions[i] = f
	}
	apply := must.Own(m.Function("apply"))(t)
	var wait sync.WaitGroup
	for i, f := range functions {
		wait.Go(func() {
			for k := range 200 {
				_, err := apply.Call(f, 1000*i+k)
				var e *tvmffi.Error
				if assert.ErrorAs(t, err, &e) {
					assert.Equal(t, fmt.Sprint("number ", 1000*i+k), e.Message)
				}
			}
		})
	}
	wait.Wait()
}

func TestCallRefusesUnalignedData(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	f := function(t, "vadd")
	good, bad := floats(16, 0), floats(16, 4)
	for i := range 3 {
		args := []any{good, good, good}
		args[i] = bad
		_, err := f.Call(args...)
		assert.ErrorIs(t, err, dlpack.ErrUnaligned)
		assert.ErrorContains(t, err, fmt.Sprintf("tvmffi: vadd: argument %d: data at %#x is not aligned to 64 bytes", i, &bad[0]))
	}
	must.Fail(f.Prepare(good, bad, good))(t, dlpack.ErrUnaligned)
	x := must.Own(dlpack.FromSlice(bad))(t)
	must.Fail(f.Call(x, good, good))(t, dlpack.ErrUnaligned)
	must.Fail(f.Call(good, good, tvmffi.UnsafeConstant(x)))(t, dlpack.ErrUnaligned)

	_, err := f.Call(bad[:0], good[:0], good[:0])
	assert.NoError(t, err, "there is nothing to load")
	lower := function(t, "vadd", tvmffi.Alignment(3)) // rounded up to 4
	_, err = lower.Call(bad, bad, bad)
	assert.NoError(t, err)
	aligned, copied, err := x.Align(64)
	require.NoError(t, err)
	defer aligned.Close()
	assert.True(t, copied)
	_, err = f.Call(good, good, aligned)
	assert.NoError(t, err, "the way out")
}

func TestCallRefusesWhatIsReadOnly(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	f, kept := function(t, "vadd"), function(t, "nop")
	x := floats(16, 0)
	r := must.Own(dlpack.FromReadOnly(x))(t)
	must.Fail(f.Call(x, r, x))(t, dlpack.ErrReadOnly)
	must.Fail(kept.Call(tvmffi.Keep(r)))(t, dlpack.ErrReadOnly)
	x[0] = 1
	y := floats(16, 0)
	must.Do(f.Call(tvmffi.UnsafeConstant(r), x, y))(t)
	assert.Equal(t, float32(2), y[0])
}

func TestCallRefusesWhatHasNoForm(t *testing.T) {
	f := function(t, "nop")
	for _, arg := range []any{struct{}{}, map[string]int{}, []string{"a"}, complex(1, 2), func() {}, new(int)} {
		_, err := f.Call(1, arg)
		assert.ErrorIs(t, err, tvmffi.ErrArgument)
		assert.ErrorContains(t, err, fmt.Sprintf("tvmffi: nop: argument 1: TVM-FFI cannot represent %T", arg))
	}
	for _, arg := range []any{(*dlpack.Tensor)(nil), (*tvmffi.Function)(nil), (*tvmffi.Module)(nil), (*tvmffi.Object)(nil), (*tvmffi.Shaped)(nil), tvmffi.Keep(nil), tvmffi.UnsafeConstant(nil)} {
		_, err := f.Call(arg)
		assert.ErrorIs(t, err, dlpack.ErrNull, "%T", arg)
	}
	must.Fail(f.Call(uint64(math.MaxInt64)+1))(t, dlpack.ErrOverflow)
	must.Fail(f.Call(make([]any, 256)...))(t, tvmffi.ErrArgument)
	_, err := f.Call(make([]any, 255)...)
	assert.NoError(t, err)
}

func TestCallRefusesWhatIsClosed(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	m := module(t)
	f := must.Do(m.Function("nop"))(t)
	g := must.Do(m.Function("nop"))(t)
	x := must.Do(dlpack.New(dlpack.Float32, 16))(t)
	p := must.Do(f.Prepare(x))(t)
	g.Close()
	g.Close()
	x.Close()
	for _, arg := range []any{g, x, tvmffi.Keep(x)} {
		_, err := f.Call(arg)
		assert.ErrorIs(t, err, dlpack.ErrClosed, "%T", arg)
	}
	f.Close()
	_, err := p.Call()
	assert.NoError(t, err, "it keeps the function and the tensor")
	p.Close()
	p.Close()
	must.Fail(p.Call())(t, dlpack.ErrClosed)
	must.Fail(f.Call())(t, dlpack.ErrClosed)
	must.Fail(f.Prepare())(t, dlpack.ErrClosed)
	m.Close()
	must.Fail(m.Function("nop"))(t, dlpack.ErrClosed)
}

// More slices than the call itself can pass.
func TestCallTakesManySlices(t *testing.T) {
	f := function(t, "firsts", tvmffi.Alignment(4))
	args := make([]any, 100)
	for i := range args {
		args[i] = []float32{float32(i)}
	}
	for range 3 {
		sum := must.Do(tvmffi.As[float64](f.Call(args...)))(t)
		assert.Equal(t, 4950.0, sum)
	}
}

func TestCallsRunAtOnce(t *testing.T) {
	f := function(t, "vadd")
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			x, y, z := floats(64, 0), floats(64, 0), floats(64, 0)
			for k := range 500 {
				x[63], y[63] = float32(i), float32(k)
				_, err := f.Call(x, y, z)
				assert.NoError(t, err)
				assert.Equal(t, float32(i+k), z[63])
			}
		})
	}
	wait.Wait()
}

func TestCloseWaitsForCalls(t *testing.T) {
	need(t)
	entered, leave := make(chan bool), make(chan bool)
	f, err := tvmffi.NewFunction(func(tvmffi.Args) (any, error) {
		close(entered)
		<-leave
		return "still there", nil
	})
	require.NoError(t, err)
	var wait sync.WaitGroup
	wait.Go(func() {
		text, err := tvmffi.As[string](f.Call())
		assert.NoError(t, err)
		assert.Equal(t, "still there", text)
	})
	<-entered
	f.Close()
	must.Fail(f.Call())(t, dlpack.ErrClosed)
	close(leave)
	wait.Wait()
}

func TestPreparedCallsSeeWhatChanges(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	f := function(t, "vadd")
	x, y := floats(64, 0), newTensor(t, dlpack.Float32, 64)
	z := make([]float32, 64)
	p := must.Own(function(t, "vadd", tvmffi.Alignment(4)).Prepare(x, y, z))(t)
	ys := must.Do(dlpack.Values[float32](y))(t)
	for i := range 20 {
		x[63], ys[63] = float32(i), 100
		runtime.GC()
		must.Do(p.Call())(t)
		assert.Equal(t, float32(100+i), z[63])
	}
	must.Do(f.Call(x, y, floats(64, 0)))(t)

	q := must.Own(function(t, "echo").Prepare("a string that is longer than seven"))(t)
	for range 3 {
		text := must.Do(tvmffi.As[string](q.Call()))(t)
		assert.Equal(t, "a string that is longer than seven", text)
	}
	r := must.Own(function(t, "fail").Prepare())(t)
	_, err := r.Call()
	assert.ErrorContains(t, err, "tvmffi: fail: KeyError: as asked for")
}

func TestPrepareRefusesBorrowedTensors(t *testing.T) {
	f := function(t, "nop")
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	b := must.Own(dlpack.Borrow(p.DLTensor(false), dlpack.AssumeWritable))(t)
	must.Do(f.Call(b))(t)
	must.Fail(f.Prepare(b))(t, dlpack.ErrBorrowed)
	must.Fail(f.Call(tvmffi.Keep(b)))(t, dlpack.ErrBorrowed)
}

// A forgotten prepared call releases its arguments: a lost pin would end the program.
func TestForgottenThingsAreCaught(t *testing.T) {
	before := dlpack.ReadStats().Exports
	func() {
		f := must.Do(module(t).Function("nop"))(t)
		x := newTensor(t, dlpack.Float32, 16)
		must.Do(f.Prepare(x, floats(16, 0)))(t)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return dlpack.ReadStats().Exports == before
	}, eventually, tick)
}

// Forgotten objects are not released on a goroutine of the runtime, so a deleter that blocks does not stop cleanups.
func TestForgottenThingsMayBlock(t *testing.T) {
	need(t)
	for _, test := range []struct {
		name string
		keep func(t *testing.T, x *dlpack.Tensor)
	}{
		{"an object", func(t *testing.T, x *dlpack.Tensor) {
			array := must.Own(tvmffi.Global("ffi.Array"))(t)
			must.Do(tvmffi.As[*tvmffi.Object](array.Call(tvmffi.Keep(x))))(t)
		}},
		{"a prepared call", func(t *testing.T, x *dlpack.Tensor) {
			f := must.Own(module(t).Function("nop"))(t)
			must.Do(f.Prepare(x))(t)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			loan := dlpacktest.Lend(t, 64)
			gate := loan.Block(t)
			func() {
				x := must.Do(dlpack.Lend(loan.Data(), 64, false, loan.Release(), loan.Context()))(t)
				defer x.Close()
				test.keep(t, x)
			}()
			collected := func(happened func() bool) {
				t.Helper()
				require.Eventually(t, func() bool { runtime.GC(); return happened() }, eventually, tick)
			}
			collected(func() bool { return gate.Waiting() == 1 })
			ran := make(chan bool, 1)
			runtime.AddCleanup(new([64]int), func(bool) { ran <- true }, true)
			collected(func() bool { return len(ran) == 1 })
			assert.Zero(t, loan.Releases())
			gate.Open()
			assert.Equal(t, 1, loan.Releases())
			background.Wait()
		})
	}
}

// The function keeps a tensor: the memory lives as long as the function holds it, through collections, and is released
// exactly once.
func TestFunctionsMayKeepTensors(t *testing.T) {
	keep, sum, letGo := function(t, "keep"), function(t, "kept_sum"), function(t, "let_go")
	t.Run("memory of Go's", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		func() {
			x := must.Do(dlpack.FromSlice(floats(1000, 0)))(t)
			defer x.Close()
			values := must.Do(dlpack.Values[float32](x))(t)
			values[999] = 5
			must.Do(keep.Call(tvmffi.Keep(x)))(t)
			values[0] = 2
		}()
		for range 20 {
			runtime.GC()
			_ = floats(1000, 0)
		}
		got := must.Do(tvmffi.As[float64](sum.Call()))(t)
		assert.Equal(t, 7.0, got)
		assert.NotZero(t, dlpack.ReadStats().Exports)
		must.Do(letGo.Call())(t)
	})
	t.Run("memory of C's", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{10}})
		x := must.Do(dlpack.Import(p.Managed()))(t)
		must.Do(keep.Call(tvmffi.Keep(x)))(t)
		x.Close()
		assert.Zero(t, p.Deletes())
		must.Do(letGo.Call())(t)
		assert.Equal(t, 1, p.Deletes())
	})
	t.Run("a view is not kept", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		_, err := keep.Call(newTensor(t, dlpack.Float32, 10))
		assert.ErrorContains(t, err, "TypeError: expected ffi.Tensor")
	})
	t.Run("and returned", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		x := newTensor(t, dlpack.Float32, 10)
		must.Do(keep.Call(tvmffi.Keep(x)))(t)
		y := must.Own(tvmffi.As[*dlpack.Tensor](function(t, "return_kept").Call()))(t)
		assert.Equal(t, x.Data(), y.Data())
	})
}

// A failure is a call with a refused tensor.
type failure struct {
	name   string
	tensor dlpacktest.Config
	text   string
	call   func(x *dlpack.Tensor) error
}

func (f failure) test(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, f.tensor)
	x := must.Do(dlpack.Import(p.Managed()))(t)
	exports := dlpack.ReadStats().Exports
	assert.ErrorContains(t, f.call(x), f.text)
	assert.Equal(t, exports, dlpack.ReadStats().Exports)
	assert.Zero(t, p.Deletes())
	x.Close()
	assert.Equal(t, 1, p.Deletes())
}

// A failed call changes no ownership: all counts are the same as before.
func TestFailuresGiveBackEverything(t *testing.T) {
	vadd, nop := function(t, "vadd"), function(t, "nop")
	good := floats(16, 0)
	for _, row := range []failure{
		{"wrong type", dlpacktest.Config{Shape: []int64{16}, Code: 0, Bits: 32, Lanes: 1}, "dtype is not float32", func(x *dlpack.Tensor) error { _, err := vadd.Call(x, good, good); return err }},
		{"wrong type, kept", dlpacktest.Config{Shape: []int64{16}, Code: 0, Bits: 32, Lanes: 1}, "dtype is not float32", func(x *dlpack.Tensor) error { _, err := vadd.Call(tvmffi.Keep(x), good, good); return err }},
		{"wrong shape", dlpacktest.Config{Shape: []int64{15}}, "Mismatched shape[0]", func(x *dlpack.Tensor) error { _, err := vadd.Call(good, x, good); return err }},
		{"wrong shape, kept", dlpacktest.Config{Shape: []int64{15}}, "Mismatched shape[0]", func(x *dlpack.Tensor) error { _, err := vadd.Call(good, tvmffi.Keep(x), good); return err }},
		{"wrong rank", dlpacktest.Config{Shape: []int64{4, 4}}, "not a vector", func(x *dlpack.Tensor) error { _, err := vadd.Call(good, x, good); return err }},
		{"on a device that is not there", dlpacktest.Config{Shape: []int64{16}, DeviceType: 2}, "not on the CPU", func(x *dlpack.Tensor) error { _, err := vadd.Call(good, good, x); return err }},
		{"on a device that is not there, kept", dlpacktest.Config{Shape: []int64{16}, DeviceType: 2}, "not on the CPU", func(x *dlpack.Tensor) error { _, err := vadd.Call(good, good, tvmffi.Keep(x)); return err }},
		{"misaligned behind it", dlpacktest.Config{Shape: []int64{16}}, "argument 1: data at", func(x *dlpack.Tensor) error { _, err := nop.Call(x, floats(16, 4)); return err }},
		{"misaligned behind it, kept", dlpacktest.Config{Shape: []int64{16}}, "argument 1: data at", func(x *dlpack.Tensor) error { _, err := nop.Call(tvmffi.Keep(x), floats(16, 4)); return err }},
		{"no form behind it", dlpacktest.Config{Shape: []int64{16}}, "argument 2: TVM-FFI cannot represent struct {}", func(x *dlpack.Tensor) error { _, err := nop.Call(tvmffi.Keep(x), x, struct{}{}); return err }},
		{"prepared, no form behind it", dlpacktest.Config{Shape: []int64{16}}, "argument 2: TVM-FFI cannot represent struct {}", func(x *dlpack.Tensor) error { _, err := nop.Prepare(tvmffi.Keep(x), x, struct{}{}); return err }},
		{"prepared, misaligned behind it", dlpacktest.Config{Shape: []int64{16}}, "argument 1: data at", func(x *dlpack.Tensor) error { _, err := nop.Prepare(tvmffi.Keep(x), floats(16, 4)); return err }},
		{"misaligned", dlpacktest.Config{Shape: []int64{16}, Shift: 4}, "argument 0: data at", func(x *dlpack.Tensor) error { _, err := nop.Call(x); return err }},
		{"misaligned, kept", dlpacktest.Config{Shape: []int64{16}, Shift: 4}, "argument 0: data at", func(x *dlpack.Tensor) error { _, err := nop.Call(tvmffi.Keep(x)); return err }},
	} {
		t.Run(row.name, row.test)
	}
	t.Run("padded, which TVM-FFI refuses", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		x := must.Own(dlpack.FromBytes(make([]byte, 4), dlpack.Spec{DType: dlpack.Int4, Shape: []int64{4}, Padded: true}))(t)
		_, err := function(t, "nop", tvmffi.Alignment(1)).Call(tvmffi.Keep(x))
		assert.ErrorContains(t, err, "argument 0: RuntimeError: Subbyte type padded is not yet supported")
		assert.Zero(t, dlpack.ReadStats().Exports)
	})
}

func TestReturnedTensorsAreReleasedOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	make, deletes := function(t, "make"), function(t, "deletes")
	count := func() int64 {
		return must.Do(tvmffi.As[int64](deletes.Call()))(t)
	}
	before := count()
	x := must.Do(tvmffi.As[*dlpack.Tensor](make.Call(100)))(t)
	values := must.Do(dlpack.Values[float32](x))(t)
	assert.Equal(t, float32(99), values[99])
	m := must.Do(x.Export())(t)
	x.Close()
	assert.Equal(t, before, count(), "a consumer has it")
	dlpack.Release(m)
	assert.Equal(t, before+1, count())

	_, err := make.Call(100, -1) // a rank that no tensor has
	assert.ErrorIs(t, err, dlpack.ErrLayout)
	assert.ErrorContains(t, err, "tvmffi: result: ndim = -1")
	assert.Equal(t, before+2, count())

	_, err = tvmffi.As[int64](make.Call(100)) // not the requested type
	assert.ErrorIs(t, err, tvmffi.ErrArgument)
	assert.Equal(t, before+3, count())

	_, err = function(t, "borrowed").Call()
	assert.ErrorIs(t, err, tvmffi.ErrArgument, "nothing would keep what it points to")
}

func TestLookupSaysWhatIsNotThere(t *testing.T) {
	m := module(t)
	must.Fail(m.Function("nothing"))(t, tvmffi.ErrNotFound)
	_, err := tvmffi.Global("nothing.at.all")
	assert.ErrorIs(t, err, tvmffi.ErrNotFound)
	assert.EqualError(t, err, `tvmffi: global: "nothing.at.all" is not in the global table`)
	_, err = tvmffi.LoadModule("testdata/nothing.so")
	var e *tvmffi.Error
	assert.ErrorAs(t, err, &e)
	_, err = tvmffi.LoadModule("testdata/kernels.c")
	assert.Error(t, err)
	f := must.Do(m.Function("nop"))(t)
	assert.Equal(t, "nop", f.Name())
	f.Close()
}

// A module that would call libtvm_runtime through a NULL pointer is not loaded until the pointer is set.
func TestParallelLoopsNeedTheRuntime(t *testing.T) {
	need(t)
	file, err := buildKernels("parallel.so", "-DWITHOUT_RUNTIME")
	require.NoError(t, err)
	for range 2 {
		_, err = tvmffi.LoadModule(file)
		assert.ErrorIs(t, err, tvmffi.ErrRuntime)
		assert.ErrorContains(t, err, "parallel.so calls libtvm_runtime, which is not loaded; call LoadRuntime first")
	}
	module(t)
}

func TestAsPassesErrorsOn(t *testing.T) {
	bad := errors.New("bad")
	_, err := tvmffi.As[int64](nil, bad)
	assert.Equal(t, bad, err)
	n, err := tvmffi.As[int64](int64(3), nil)
	assert.NoError(t, err)
	assert.EqualValues(t, 3, n)
	_, err = tvmffi.As[string](int64(3), nil)
	assert.EqualError(t, err, "tvmffi: result: got int64, want string")
}

func TestCallsAllocateNothing(t *testing.T) {
	f := function(t, "vadd")
	x, y, z := floats(16, 0), floats(16, 0), floats(16, 0)
	mm := function(t, "matmul")
	a, b, c := newTensor(t, dlpack.Float32, 16), newTensor(t, dlpack.Float32, 16), newTensor(t, dlpack.Float32, 16)
	call := map[string]func(){
		"slices":   func() { f.Call(x, y, z) },
		"matrices": func() { mm.Call(tvmffi.Shape(x, 4, 4), tvmffi.Shape(y, 4, 4), tvmffi.Shape(z, 4, 4)) },
		"tensors":  func() { f.Call(a, b, c) },
	}
	for name, call := range call {
		if allocations := testing.AllocsPerRun(100, call); !instrumented {
			assert.Zero(t, allocations, name)
		}
	}
}
