//go:build cgo

package tvmffi_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func serve(t testing.TB, h tvmffi.Handler) *tvmffi.Function {
	t.Helper()
	need(t)
	f := must.Do(tvmffi.NewFunction(h))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestHandlersReadWhatTheyAreGiven(t *testing.T) {
	callback := serve(t, func(a tvmffi.Args) (any, error) { return a.Int(0) + 1, nil })
	f := serve(t, func(a tvmffi.Args) (any, error) {
		assert.Equal(t, 12, a.Len())
		assert.EqualValues(t, -3, a.Int(0))
		assert.EqualValues(t, 1, a.Int(1))
		assert.Equal(t, 2.5, a.Float(2))
		assert.Equal(t, -3.0, a.Float(0))
		assert.True(t, a.Bool(1))
		assert.True(t, a.Bool(0))
		assert.Equal(t, "short", a.String(3))
		assert.Equal(t, "and longer than that", a.String(4))
		assert.Equal(t, []byte{1, 2}, a.Bytes(5))
		assert.Equal(t, []byte("and longer than that"), a.Bytes(6))
		assert.True(t, a.IsNil(7))
		assert.False(t, a.IsNil(0))
		assert.Equal(t, []float32{1, 2, 3, 4, 5, 6}, tvmffi.Slice[float32](a, 8))
		assert.Equal(t, []int64{2, 3}, a.Shape(8))
		assert.Equal(t, []bool{true, false}, tvmffi.Slice[bool](a, 9))
		n, err := tvmffi.As[int64](a.Function(10).Call(41))
		assert.NoError(t, err)
		assert.EqualValues(t, 42, n)
		x := a.Tensor(11)
		assert.Equal(t, []int64{4, -1}, x.Strides())
		assert.Equal(t, dlpack.Int16, x.DType())
		return nil, a.Check(12)
	})
	x := must.Own(dlpack.FromSlice(make([]int16, 8), 2, 4))(t)
	v := must.Own(x.View(dlpack.Spec{DType: dlpack.Int16, Shape: []int64{2, 3}, Strides: []int64{4, -1}, ByteOffset: 4}))(t)
	_, err := f.Call(-3, true, 2.5, "short", "and longer than that", tvmffi.Bytes{1, 2}, tvmffi.Bytes("and longer than that"), nil,
		tvmffi.Shape([]float32{1, 2, 3, 4, 5, 6}, 2, 3), []bool{true, false}, callback, v)
	require.NoError(t, err)
}

func TestHandlersSeeTheCallersMemory(t *testing.T) {
	x := make([]float64, 100)
	f := serve(t, func(a tvmffi.Args) (any, error) {
		values := tvmffi.Slice[float64](a, 0)
		assert.Same(t, &x[0], &values[0])
		values[99] = 7
		y := a.Tensor(0)
		assert.Equal(t, uintptr(unsafe.Pointer(&x[0])), y.Data())
		return nil, nil
	})
	must.Do(f.Call(x))(t)
	assert.Equal(t, 7.0, x[99])
	y := must.Own(dlpack.FromSlice(x))(t)
	must.Do(f.Call(tvmffi.Keep(y)))(t)
}

// The caller gets every kind of value that a handler returns.
type seconds int

func TestHandlersReturnEveryType(t *testing.T) {
	for _, row := range []struct {
		name         string
		result, want any
	}{
		{"nil", nil, nil},
		{"bool", true, true},
		{"false", false, false},
		{"int", -1, int64(-1)},
		{"int8", int8(-8), int64(-8)},
		{"uint16", uint16(65535), int64(65535)},
		{"uint64", uint64(math.MaxInt64), int64(math.MaxInt64)},
		{"float32", float32(0.5), 0.5},
		{"float64", 0.1, 0.1},
		{"named int", seconds(3), int64(3)},
		{"named float", celsius(0.5), 0.5},
		{"empty string", "", ""},
		{"short string", "abc", "abc"},
		{"long string", "abcdefghijklmnopq", "abcdefghijklmnopq"},
		{"bytes", []byte{1, 0, 2}, []byte{1, 0, 2}},
		{"Bytes", tvmffi.Bytes("a longer byte string"), []byte("a longer byte string")},
		{"data type", dlpack.Float8E5M2, dlpack.Float8E5M2},
		{"device", dlpack.Device{Type: dlpack.Metal, ID: 1}, dlpack.Device{Type: dlpack.Metal, ID: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := must.Do(serve(t, func(tvmffi.Args) (any, error) { return row.result, nil }).Call())(t)
			assert.Equal(t, row.want, got)
		})
	}
	for _, bad := range []any{struct{}{}, []float32{1}, complex(1, 1)} {
		_, err := serve(t, func(tvmffi.Args) (any, error) { return bad, nil }).Call()
		assert.ErrorContains(t, err, fmt.Sprintf("TypeError: tvmffi: result: TVM-FFI cannot represent %T", bad))
	}
	_, err := serve(t, func(tvmffi.Args) (any, error) { return uint64(math.MaxUint64), nil }).Call()
	assert.ErrorContains(t, err, "ValueError: tvmffi: result: 18446744073709551615 is more than 2^63-1")
}

func TestReturnedTensorsAreHandedOver(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	f := serve(t, func(tvmffi.Args) (any, error) { return dlpack.Import(p.Managed()) })
	x := must.Do(tvmffi.As[*dlpack.Tensor](f.Call()))(t)
	assert.Equal(t, uintptr(unsafe.Pointer(&p.Data()[0])), x.Data())
	assert.Zero(t, p.Deletes())
	x.Close()
	assert.Equal(t, 1, p.Deletes())

	readOnly := serve(t, func(tvmffi.Args) (any, error) { return dlpack.FromReadOnly(make([]float32, 4)) })
	_, err := readOnly.Call()
	assert.ErrorContains(t, err, "ValueError: tvmffi: result: the tensor is read-only")
	borrowed := serve(t, func(a tvmffi.Args) (any, error) { return a.Tensor(0), nil })
	_, err = borrowed.Call(make([]float32, 4))
	assert.ErrorContains(t, err, "borrowed")
	late := serve(t, func(a tvmffi.Args) (any, error) {
		a.Int(7) // it is missing
		return dlpack.New(dlpack.Float32, 4)
	})
	_, err = late.Call()
	assert.ErrorContains(t, err, "argument 7: it is missing")
}

func TestHandlersMayKeepTensors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	x := must.Own(dlpack.Import(p.Managed()))(t)
	var kept *dlpack.Tensor
	var lent *dlpack.Tensor
	f := serve(t, func(a tvmffi.Args) (_ any, err error) {
		lent = a.Tensor(0)
		kept, err = tvmffi.As[*dlpack.Tensor](a.Keep(0))
		return nil, err
	})
	_, err := f.Call(x)
	assert.ErrorContains(t, err, "argument 0: the tensor is borrowed for the call only")
	must.Do(f.Call(tvmffi.Keep(x)))(t)
	_, err = lent.Copy()
	assert.ErrorIs(t, err, dlpack.ErrClosed, "what was borrowed ended with the call")
	x.Close()
	assert.Zero(t, p.Deletes())
	_, err = dlpack.Values[float32](kept)
	assert.NoError(t, err)
	kept.Close()
	assert.Equal(t, 1, p.Deletes())

	text := must.Do(tvmffi.As[string](serve(t, func(a tvmffi.Args) (any, error) { return a.Keep(0) }).Call("some longer string")))(t)
	assert.Equal(t, "some longer string", text)
	_, err = serve(t, func(a tvmffi.Args) (any, error) { return a.Keep(1) }).Call("a")
	assert.ErrorContains(t, err, "argument 1: it is missing")
}

func TestArgumentsThatDoNotAgreeAreErrors(t *testing.T) {
	x := make([]float32, 6)
	strided := func() *dlpack.Tensor {
		v := must.Do(dlpack.FromBytes(make([]byte, 64), dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2, 3}, Strides: []int64{6, 2}}))(t)
		t.Cleanup(func() { v.Close() })
		return v
	}()
	odd := func() *dlpack.Tensor {
		v := must.Do(dlpack.FromBytes(make([]byte, 64), dlpack.Spec{DType: dlpack.Float32, Shape: []int64{2}, ByteOffset: 1}))(t)
		t.Cleanup(func() { v.Close() })
		return v
	}()
	noBool := must.Own(dlpack.FromBytes([]byte{0, 1, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{3}}))(t)
	hostile := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}, DeviceType: 2})
	device := must.Own(dlpack.Borrow(hostile.DLTensor(false), dlpack.AssumeWritable))(t)
	for _, row := range []struct {
		name, kind, text string
		arg              any
		use              func(a tvmffi.Args)
	}{
		{"int for float", tvmffi.TypeError, "argument 0: it is a float, want an int", 1.5, func(a tvmffi.Args) { a.Int(0) }},
		{"float for string", tvmffi.TypeError, "argument 0: it is a string, want a float", "text", func(a tvmffi.Args) { a.Float(0) }},
		{"bool for None", tvmffi.TypeError, "argument 0: it is None, want a bool", nil, func(a tvmffi.Args) { a.Bool(0) }},
		{"string for bytes", tvmffi.TypeError, "argument 0: it is bytes, want a string", tvmffi.Bytes("abc"), func(a tvmffi.Args) { a.String(0) }},
		{"bytes for int", tvmffi.TypeError, "argument 0: it is an int, want bytes", 1, func(a tvmffi.Args) { a.Bytes(0) }},
		{"function for tensor", tvmffi.TypeError, "argument 0: it is a tensor, want a function", x, func(a tvmffi.Args) { a.Function(0) }},
		{"tensor for int", tvmffi.TypeError, "argument 0: it is an int, want a tensor", 1, func(a tvmffi.Args) { a.Tensor(0) }},
		{"slice for int", tvmffi.TypeError, "argument 0: it is an int, want a tensor", 1, func(a tvmffi.Args) { tvmffi.Slice[float32](a, 0) }},
		{"shape of an int", tvmffi.TypeError, "argument 0: it is an int, want a tensor", 1, func(a tvmffi.Args) { a.Shape(0) }},
		{"behind the last", tvmffi.TypeError, "argument 1: it is missing, want an int", 1, func(a tvmffi.Args) { a.Int(1) }},
		{"before the first", tvmffi.TypeError, "argument -1: it is missing, want an int", 1, func(a tvmffi.Args) { a.Int(-1) }},
		{"another element", tvmffi.TypeError, "argument 0: the tensor has float32, want int64", x, func(a tvmffi.Args) { tvmffi.Slice[int64](a, 0) }},
		{"gaps", tvmffi.ValueError, "argument 0: strides [6 2] of shape [2 3] are not row-major without gaps; contiguous() or numpy.ascontiguousarray makes them so", strided, func(a tvmffi.Args) { tvmffi.Slice[float32](a, 0) }},
		{"an odd address", tvmffi.ValueError, "is not aligned to 4 bytes", odd, func(a tvmffi.Args) { tvmffi.Slice[float32](a, 0) }},
		{"no bool", tvmffi.ValueError, "byte 2 of a bool tensor is 2", noBool, func(a tvmffi.Args) { tvmffi.Slice[bool](a, 0) }},
		{"on a device", tvmffi.ValueError, "memory on cuda:0 cannot be read", device, func(a tvmffi.Args) { tvmffi.Slice[float32](a, 0) }},
		{"one too many", tvmffi.TypeError, "takes 0 arguments, got 1", 1, func(a tvmffi.Args) { a.Check(0) }},
		{"the first of many", tvmffi.TypeError, "argument 0: it is an int, want a string", 1, func(a tvmffi.Args) { a.String(0); a.Bytes(0); a.Check(1) }},
		{"and a panic behind it", tvmffi.TypeError, "argument 0: it is an int, want a tensor", 1, func(a tvmffi.Args) { tvmffi.Slice[float32](a, 0)[3] = 1 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := serve(t, func(a tvmffi.Args) (any, error) {
				row.use(a)
				return nil, nil
			})
			_, err := f.Call(row.arg)
			var e *tvmffi.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.kind, e.Kind)
			assert.Contains(t, e.Message, row.text)
		})
	}
}

// The error of package dlpack names the wrong argument, even if the handler wraps it.
func TestErrorsOfHandlersNameTheArgument(t *testing.T) {
	for format, want := range map[string]string{"%w": "func1: argument 1: ", "axpy: %w": "axpy: argument 1: "} {
		f := serve(t, func(a tvmffi.Args) (any, error) {
			a.Tensor(0)
			_, err := dlpack.Values[int64](a.Tensor(1))
			return nil, fmt.Errorf(format, err)
		})
		_, err := f.Call([]float32{1}, []float32{2})
		var e *tvmffi.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, tvmffi.TypeError, e.Kind)
		assert.Equal(t, want+"the tensor has float32, want int64; astype() makes a copy of that type", e.Message)
	}
}

// dlTensor and ffiAny are a DLTensor and a TVMFFIAny.
type (
	dlTensor struct {
		data           unsafe.Pointer
		device         dlpack.Device
		ndim           int32
		dtype          dlpack.DataType
		shape, strides *int64
		byteOffset     uint64
	}
	ffiAny struct {
		kind int32
		size uint32
		bits uintptr
	}
)

type celsius float32

// Slices have every type, even types of the program, and any number of dimensions.
func TestSlicesAreOfAnyElement(t *testing.T) {
	sliceOf(t, []float32{1, 2})
	sliceOf(t, []float64{1, 2})
	sliceOf(t, []int{1, 2})
	sliceOf(t, []int8{1, 2})
	sliceOf(t, []int16{1, 2})
	sliceOf(t, []int32{1, 2})
	sliceOf(t, []int64{1, 2})
	sliceOf(t, []uint{1, 2})
	sliceOf(t, []uint8{1, 2})
	sliceOf(t, []uint16{1, 2})
	sliceOf(t, []uint32{1, 2})
	sliceOf(t, []uint64{1, 2})
	sliceOf(t, []bool{true, false})
	sliceOf(t, []complex64{1, 2})
	sliceOf(t, []complex128{1, 2})
	sliceOf(t, []celsius{1, 2})
}

func sliceOf[T dlpack.Element](t *testing.T, from []T) {
	x := must.Do(dlpack.New(dlpack.DataTypeOf[T](), 2, 1, 64))(t)
	defer x.Close()
	values := must.Do(dlpack.Values[T](x))(t)
	copy(values, from)
	address := x.Data()
	at := func(h tvmffi.Handler, arg *dlTensor) int32 {
		result := new(ffiAny)
		defer runtime.KeepAlive(arg)
		return tvmffi.Serve(h, unsafe.Pointer(&ffiAny{kind: constant("FFI_DLTENSOR"), bits: uintptr(unsafe.Pointer(arg))}), 1, unsafe.Pointer(result))
	}
	for _, shape := range [][]int64{{128}, {2, 64}, {2, 1, 64}, {1}, {}} {
		t.Run(fmt.Sprintf("%T of %v", from, shape), func(t *testing.T) {
			d := &dlTensor{data: *(*unsafe.Pointer)(unsafe.Pointer(&address)), device: dlpack.Device{Type: dlpack.CPU}, dtype: x.DType(), ndim: int32(len(shape)), shape: unsafe.SliceData(shape)}
			count := 1
			for _, n := range shape {
				count *= int(n)
			}
			h := func(a tvmffi.Args) (any, error) {
				got := tvmffi.Slice[T](a, 0)
				if assert.Len(t, got, count) {
					assert.Same(t, &values[0], &got[0])
				}
				return nil, a.Check(1)
			}
			assert.Zero(t, at(h, d))
			refused := func(a tvmffi.Args) (any, error) {
				assert.Nil(t, tvmffi.Slice[T](a, 0))
				assert.Error(t, a.Check(1))
				return nil, nil
			}
			for _, wrong := range []dlpack.DataType{0, d.dtype ^ 0x10000, d.dtype ^ 0x800, d.dtype ^ 3} {
				d.dtype = wrong
				assert.NotZero(t, at(refused, d), "%v", wrong)
			}
		})
	}
}

func named(a tvmffi.Args) (any, error) { return nil, a.Check(3) }

func TestErrorsOfHandlersHaveAKind(t *testing.T) {
	_, err := serve(t, named).Call()
	assert.ErrorContains(t, err, "TypeError: named: takes 3 arguments, got 0", "the handler's name is told")
	_, closed := dlpack.New(dlpack.DataType(0xff))
	require.ErrorIs(t, closed, dlpack.ErrDType)
	for _, row := range []struct {
		name          string
		err           error
		kind, message string
	}{
		{"of a kind", tvmffi.Errorf(tvmffi.IndexError, "%d is too much", 7), tvmffi.IndexError, "7 is too much"},
		{"wrapped", fmt.Errorf("row 3: %w", tvmffi.Errorf(tvmffi.KeyError, "no such key")), tvmffi.KeyError, "row 3: KeyError: no such key"},
		{"of no kind", errors.New("out of luck"), tvmffi.RuntimeError, "out of luck"},
		{"of a data type", closed, tvmffi.TypeError, closed.Error()},
		{"an unknown kind", tvmffi.Errorf("MyError", "mine"), "MyError", "mine"},
		{"empty", tvmffi.Errorf("", ""), "", ""},
		{"with a NUL", tvmffi.Errorf(tvmffi.ValueError, "a\x00b"), tvmffi.ValueError, "a\x00b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := serve(t, func(tvmffi.Args) (any, error) { return nil, row.err }).Call()
			var e *tvmffi.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.kind, e.Kind)
			assert.Equal(t, row.message, e.Message)
		})
	}
}

func panics() {
	var nothing *struct{ field int }
	nothing.field++
}

// A panic does not leave Go.
func TestPanicsOfHandlersBecomeErrors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	f := serve(t, func(a tvmffi.Args) (any, error) {
		a.Tensor(0)
		panics()
		return nil, nil
	})
	for range 3 {
		_, err := f.Call(make([]float32, 1))
		var e *tvmffi.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, tvmffi.RuntimeError, e.Kind)
		assert.Contains(t, e.Message, "panic: runtime error: invalid memory address or nil pointer dereference")
		assert.Regexp(t, `^  File ".*serve_test.go", line \d+, in .*tvmffi_test.panics\n`, e.Backtrace)
		assert.NotContains(t, e.Backtrace, "tvmffi.Serve")
	}
	_, err := serve(t, nil).Call()
	assert.ErrorContains(t, err, "panic: ")
	_, err = serve(t, func(tvmffi.Args) (any, error) { return explosive{}, nil }).Call()
	assert.ErrorContains(t, err, "panic: on the way out")
	_, err = serve(t, func(tvmffi.Args) (any, error) { return nil, explosive{} }).Call()
	assert.ErrorContains(t, err, "panic: in its own words")
}

//go:noinline
func deep(levels int, value any) {
	if levels > 0 {
		deep(levels-1, value)
		return
	}
	panic(value)
}

// The memory of the error of a panic is bounded.
func TestErrorsOfPanicsAreSmall(t *testing.T) {
	f := serve(t, func(a tvmffi.Args) (any, error) {
		deep(int(a.Int(0)), strings.Repeat("ö", int(a.Int(1))))
		return nil, nil
	})
	_, err := f.Call(5000, 1<<20)
	var e *tvmffi.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "panic: "+strings.Repeat("ö", 512)+"…", e.Message)
	assert.Equal(t, 16, strings.Count(e.Backtrace, "in github.com/dlbridge/dlbridge/bridge/tvmffi_test.deep\n"))
	assert.Equal(t, 16, strings.Count(e.Backtrace, "\n"))
	_, err = serve(t, func(tvmffi.Args) (any, error) { panic(make([]int, 1<<20)) }).Call()
	assert.ErrorContains(t, err, ": RuntimeError: panic: a value of type []int")
}

// The hook receives the value of a panic and the whole stack, and nothing else.
func TestOnPanic(t *testing.T) {
	var values []any
	var stack string
	tvmffi.OnPanic(func(value any, s []byte) { values, stack = append(values, value), string(s) })
	defer tvmffi.OnPanic(nil)
	_, err := serve(t, func(tvmffi.Args) (any, error) { deep(20, 7); return nil, nil }).Call()
	assert.ErrorContains(t, err, "panic: 7")
	_, err = serve(t, func(tvmffi.Args) (any, error) { return nil, errors.New("no panic") }).Call()
	assert.ErrorContains(t, err, "no panic")
	assert.Equal(t, []any{7}, values)
	assert.Equal(t, 21, strings.Count(stack, "tvmffi_test.deep("))
	assert.Contains(t, stack, "bridge/tvmffi/serve_test.go:")
}

// The value of a panic is nil then, as after runtime.Goexit.
func TestPanicsWithNilBecomeErrors(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	t.Setenv("GODEBUG", "panicnil=1")
	var lent *dlpack.Tensor
	_, err := serve(t, func(a tvmffi.Args) (any, error) {
		lent = a.Tensor(0)
		panic(nil)
	}).Call(make([]float32, 1))
	assert.ErrorContains(t, err, "panic: <nil>")
	must.Fail(lent.Copy())(t, dlpack.ErrClosed)
}

// explosive panics in Close, after the handler that returned it has ended.
type explosive struct{}

func (explosive) Close() error  { panic("on the way out") }
func (explosive) Error() string { panic("in its own words") }

func TestRegisteredFunctionsAreGlobal(t *testing.T) {
	need(t)
	const name = "dlbridge.test.twice"
	twice := func(a tvmffi.Args) (any, error) { return 2 * a.Float(0), a.Check(1) }
	require.NoError(t, tvmffi.Register(name, twice))
	f := must.Own(tvmffi.Global(name))(t)
	got := must.Do(tvmffi.As[float64](f.Call(21)))(t)
	assert.Equal(t, 42.0, got)
	var e *tvmffi.Error
	assert.ErrorAs(t, tvmffi.Register(name, twice), &e, "the name is taken")
	require.NoError(t, tvmffi.Unregister(name))
	assert.ErrorIs(t, tvmffi.Unregister(name), tvmffi.ErrNotFound)
	must.Fail(tvmffi.Global(name))(t, tvmffi.ErrNotFound)
	_, err := f.Call(1)
	assert.NoError(t, err, "who has it keeps it")
	require.NoError(t, tvmffi.Register(name, twice), "it is free again")
	require.NoError(t, tvmffi.Unregister(name))
}

// Objects that a handler refers to are released after the last reference to the function is gone and another function
// is made.
func TestHandlersAreForgotten(t *testing.T) {
	need(t)
	var gone atomic.Int32
	func() {
		for range 3 { // the next function replaces only one of them
			big := new([1 << 10]byte)
			runtime.AddCleanup(big, func(int) { gone.Add(1) }, 0)
			f := must.Do(tvmffi.NewFunction(func(tvmffi.Args) (any, error) { return int(big[0]), nil }))(t)
			n := must.Do(tvmffi.As[int64](f.Call()))(t)
			assert.Zero(t, n)
			defer f.Close()
		}
	}()
	serve(t, named)
	require.Eventually(t, func() bool {
		runtime.GC()
		return gone.Load() == 3
	}, eventually, tick)
}

func TestHandlersAreCalledAtOnceAndInsideOneAnother(t *testing.T) {
	var down *tvmffi.Function
	down = serve(t, func(a tvmffi.Args) (any, error) {
		x, n := tvmffi.Slice[float64](a, 0), a.Int(1)
		if err := a.Check(2); err != nil || n == 0 {
			return x[0], err
		}
		return down.Call(a.Tensor(0), n-1)
	})
	apply := function(t, "apply", tvmffi.Alignment(8))
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			x := []float64{float64(i)}
			for range 50 {
				got, err := tvmffi.As[float64](apply.Call(down, tvmffi.Shape(x, 1), 20))
				assert.NoError(t, err)
				assert.Equal(t, x[0], got)
			}
		})
	}
	wait.Wait()
}

// A Go stack grows and moves while C code runs below it.
func TestStacksMayMoveDuringACall(t *testing.T) {
	var deep func(n int) int
	deep = func(n int) int {
		var room [512]byte
		if n == 0 {
			return int(room[0])
		}
		return deep(n-1) + int(room[n%512])
	}
	f := serve(t, func(a tvmffi.Args) (any, error) {
		x := tvmffi.Slice[float32](a, 0)
		deep(1000)
		runtime.GC()
		x[0]++
		return x[1], nil
	})
	done := make(chan bool)
	go func() {
		defer close(done)
		var x [4]float32
		x[1] = 7
		got, err := tvmffi.As[float64](f.Call(x[:]))
		assert.NoError(t, err)
		assert.Equal(t, 7.0, got)
		assert.Equal(t, float32(1), x[0])
	}()
	<-done
}

func nothing[T any](tvmffi.Args) (any, error) { return *new(T), nil }

func TestAHandlerHasTheNameOfItsFunction(t *testing.T) {
	need(t)
	for want, handler := range map[string]tvmffi.Handler{"nothing": nothing[int], "func1": func(tvmffi.Args) (any, error) { return nil, nil }} {
		f := must.Do(tvmffi.NewFunction(handler))(t)
		assert.Equal(t, want, f.Name())
		require.NoError(t, f.Close())
	}
}
