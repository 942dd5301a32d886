//go:build cgo

package tvmffi_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
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

// ways lists the ways in which a tensor reaches a function. Each makes an argument of 16 float32 that begin shift bytes
// after a multiple of 64.
var ways = []struct {
	name string
	make func(t *testing.T, shift uintptr) any
}{
	{"slice", func(_ *testing.T, shift uintptr) any { return floats(16, shift) }},
	{"slice of another type", func(_ *testing.T, shift uintptr) any {
		return unsafe.Slice((*uint8)(unsafe.Pointer(&floats(16, shift)[0])), 64)
	}},
	{"slice with a shape", func(_ *testing.T, shift uintptr) any { return tvmffi.Shape(floats(16, shift), 4, 4) }},
	{"slice with many dimensions", func(_ *testing.T, shift uintptr) any {
		return tvmffi.Shape(floats(16, shift), 1, 2, 2, 2, 2)
	}},
	{"tensor", func(t *testing.T, shift uintptr) any { return fromSlice(t, floats(16, shift)) }},
	{"kept tensor", func(t *testing.T, shift uintptr) any { return tvmffi.Keep(fromSlice(t, floats(16, shift))) }},
	{"constant", func(t *testing.T, shift uintptr) any {
		x := must.Do(dlpack.FromReadOnly(floats(16, shift)))(t)
		t.Cleanup(func() { x.Close() })
		return tvmffi.UnsafeConstant(x)
	}},
	{"view of a tensor", func(t *testing.T, shift uintptr) any {
		x := newTensor(t, dlpack.Float32, 32)
		v := must.Do(x.View(dlpack.Spec{DType: dlpack.Float32, Shape: []int64{16}, ByteOffset: int64(shift)}))(t)
		t.Cleanup(func() { v.Close() })
		return v
	}},
	{"imported tensor", func(t *testing.T, shift uintptr) any {
		return imported(t, dlpacktest.Config{Shape: []int64{16}, Shift: int(shift)})
	}},
	{"imported tensor with a byte_offset", func(t *testing.T, shift uintptr) any {
		return imported(t, dlpacktest.Config{Shape: []int64{16}, ByteOffset: uint64(shift)})
	}},
	{"kept tensor with a byte_offset", func(t *testing.T, shift uintptr) any {
		return tvmffi.Keep(imported(t, dlpacktest.Config{Shape: []int64{16}, ByteOffset: uint64(shift)}))
	}},
	{"tensor that a function returned", func(t *testing.T, shift uintptr) any {
		f := serve(t, func(tvmffi.Args) (any, error) { return dlpack.FromSlice(floats(16, shift)) })
		x := must.Do(tvmffi.As[*dlpack.Tensor](f.Call()))(t)
		t.Cleanup(func() { x.Close() })
		return x
	}},
	{"borrowed tensor", func(t *testing.T, shift uintptr) any {
		return borrowed(t, dlpacktest.Config{Shape: []int64{16}, Shift: int(shift)})
	}},
	{"borrowed tensor with a byte_offset", func(t *testing.T, shift uintptr) any {
		return borrowed(t, dlpacktest.Config{Shape: []int64{16}, ByteOffset: uint64(shift)})
	}},
}

func fromSlice(t *testing.T, data []float32) *dlpack.Tensor {
	x := must.Do(dlpack.FromSlice(data))(t)
	t.Cleanup(func() { x.Close() })
	return x
}

func imported(t *testing.T, c dlpacktest.Config) *dlpack.Tensor {
	x := must.Do(dlpack.Import(dlpacktest.Produce(t, c).Managed()))(t)
	t.Cleanup(func() { x.Close() })
	return x
}

func borrowed(t *testing.T, c dlpacktest.Config) *dlpack.Tensor {
	x := must.Do(dlpack.Borrow(dlpacktest.Produce(t, c).DLTensor(false), dlpack.AssumeWritable))(t)
	t.Cleanup(func() { x.Close() })
	return x
}

// A tensor is checked on every way, and so are the arguments after it.
func TestEveryWayToAFunctionIsChecked(t *testing.T) {
	nop := function(t, "nop")
	array, err := tvmffi.Global("ffi.Array") // an object with the tensor in it
	require.NoError(t, err)
	defer array.Close()
	prepare := func(args ...any) error {
		p, err := nop.Prepare(args...)
		if errors.Is(err, dlpack.ErrBorrowed) { // it depends on the way
			_, err = nop.Call(args...)
		} else if err == nil {
			_, err = p.Call()
			p.Close()
		}
		return err
	}
	call := func(f *tvmffi.Function) func(args ...any) error {
		return func(args ...any) error {
			result, err := f.Call(args...)
			if o, is := result.(*tvmffi.Object); is {
				o.Close()
			}
			return err
		}
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			good, bad := way.make(t, 0), way.make(t, 4)
			many := make([]any, 20) // more than the call itself can pass
			for i := range many {
				many[i] = floats(16, 0)
			}
			for name, use := range map[string]func(args ...any) error{"call": call(nop), "prepare": prepare} {
				assert.NoError(t, use(good), name)
				assert.ErrorIs(t, use(bad), dlpack.ErrUnaligned, name)
				assert.ErrorIs(t, use(good, 1, bad), dlpack.ErrUnaligned, name)
				assert.NoError(t, use(append(many, good)...), name)
				assert.ErrorIs(t, use(append(many, bad)...), dlpack.ErrUnaligned, name)
			}
			if _, kept := good.(tvmffi.Kept); kept { // other arguments cannot be kept
				assert.NoError(t, call(array)(good))
				assert.ErrorIs(t, call(array)(bad), dlpack.ErrUnaligned)
			}
		})
	}
}

// The rule also applies to a handler's functions and tensors.
func TestCallsOfHandlersAreChecked(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	nop := function(t, "nop")
	passes := serve(t, func(a tvmffi.Args) (any, error) { return a.Function(0).Call(a.Tensor(1)) })
	keeps := serve(t, func(a tvmffi.Args) (any, error) {
		x, err := tvmffi.As[*dlpack.Tensor](a.Keep(1))
		if err != nil {
			return nil, err
		}
		defer x.Close()
		return a.Function(0).Call(tvmffi.Keep(x))
	})
	for _, f := range []*tvmffi.Function{passes, keeps} {
		for shift, text := range map[uintptr]string{0: "", 4: "is not aligned to 64 bytes"} {
			_, err := f.Call(nop, tvmffi.Keep(fromSlice(t, floats(16, shift))))
			if text == "" {
				assert.NoError(t, err)
				continue
			}
			assert.ErrorContains(t, err, text)
			var e *tvmffi.Error
			if assert.ErrorAs(t, err, &e) {
				assert.Equal(t, tvmffi.ValueError, e.Kind)
			}
		}
	}
}

// A tensor in the form before DLPack 1.0 does not say whether it may be written. TVM-FFI does not say it either, so the
// tensor is passed on, as by ExportLegacy.
func TestCallTakesWhatDoesNotSayWhetherItMayBeWritten(t *testing.T) {
	f := function(t, "increment", tvmffi.Alignment(4))
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}, Legacy: true})
	x := must.Own(dlpack.ImportLegacy(p.Managed()))(t)
	require.True(t, x.ReadOnly())
	before := *(*float32)(unsafe.Pointer(&p.Data()[0]))
	must.Do(f.Call(x))(t)
	assert.Equal(t, before+1, *(*float32)(unsafe.Pointer(&p.Data()[0])))
}

func TestZeroValuesAreClosed(t *testing.T) {
	nop := function(t, "nop")
	for name, use := range map[string]func() error{
		"a function":             func() error { _, err := new(tvmffi.Function).Call(1); return err },
		"a function, prepared":   func() error { _, err := new(tvmffi.Function).Prepare(1); return err },
		"a function's argument":  func() error { _, err := nop.Call(new(tvmffi.Function)); return err },
		"a module":               func() error { _, err := new(tvmffi.Module).Function("nop"); return err },
		"a module's argument":    func() error { _, err := nop.Call(new(tvmffi.Module)); return err },
		"an object's argument":   func() error { _, err := nop.Call(new(tvmffi.Object)); return err },
		"a call that is settled": func() error { _, err := new(tvmffi.Prepared).Call(); return err },
		"no function":            func() error { _, err := (*tvmffi.Function)(nil).Call(1); return err },
		"no function, prepared":  func() error { _, err := (*tvmffi.Function)(nil).Prepare(1); return err },
		"no module":              func() error { _, err := (*tvmffi.Module)(nil).Function("nop"); return err },
		"no call":                func() error { _, err := (*tvmffi.Prepared)(nil).Call(); return err },
	} {
		assert.ErrorIs(t, use(), dlpack.ErrClosed, name)
	}
	for _, c := range []interface{ Close() error }{
		new(tvmffi.Function), new(tvmffi.Module), new(tvmffi.Object), new(tvmffi.Prepared),
		(*tvmffi.Function)(nil), (*tvmffi.Module)(nil), (*tvmffi.Object)(nil), (*tvmffi.Prepared)(nil),
	} {
		assert.NoError(t, c.Close(), "%T", c)
	}
	assert.Equal(t, "function", (*tvmffi.Function)(nil).Name())
	assert.Zero(t, (*tvmffi.Object)(nil).TypeIndex())
	assert.Equal(t, "<nil>", (*tvmffi.Object)(nil).String())
	f, err := tvmffi.Global("ffi.Array", nil) // a nil option
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestNilResultsOfHandlersAreErrors(t *testing.T) {
	for _, bad := range []any{(*dlpack.Tensor)(nil), (*tvmffi.Function)(nil), (*tvmffi.Module)(nil), (*tvmffi.Object)(nil), (*int)(nil)} {
		_, err := serve(t, func(tvmffi.Args) (any, error) { return bad, nil }).Call()
		assert.ErrorContains(t, err, "ValueError: tvmffi: result: it is nil", "%T", bad)
		_, err = serve(t, func(tvmffi.Args) (any, error) { return bad, errors.New("out of luck") }).Call()
		assert.ErrorContains(t, err, "RuntimeError: out of luck", "%T", bad)
	}
}

func TestClosedResultsOfHandlersAreErrors(t *testing.T) {
	for _, bad := range []any{new(tvmffi.Function), new(tvmffi.Module), new(tvmffi.Object)} {
		_, err := serve(t, func(tvmffi.Args) (any, error) { return bad, nil }).Call()
		assert.ErrorContains(t, err, "tvmffi: result: it is closed", "%T", bad)
	}
}

// A value lent to a handler ends with the call, even if the handler's result is refused or panics.
func TestWhatIsLentEndsWithTheCall(t *testing.T) {
	need(t)
	for _, result := range []any{nil, 1, struct{}{}, (*dlpack.Tensor)(nil), explosive{}} {
		var lent *dlpack.Tensor
		var f *tvmffi.Function
		_, err := serve(t, func(a tvmffi.Args) (any, error) {
			lent, f = a.Tensor(0), a.Function(1)
			return result, nil
		}).Call(floats(16, 0), function(t, "nop"))
		t.Log(err)
		_, err = lent.Copy()
		assert.ErrorIs(t, err, dlpack.ErrClosed, "%T", result)
		_, err = f.Call()
		assert.ErrorIs(t, err, dlpack.ErrClosed, "%T", result)
	}
}

// Refused results are released: the producer's deleter runs once.
func TestRefusedResultsAreGivenBack(t *testing.T) {
	need(t)
	for name, h := range map[string]func(x *dlpack.Tensor) tvmffi.Handler{
		"an error beside it": func(x *dlpack.Tensor) tvmffi.Handler {
			return func(tvmffi.Args) (any, error) { return x, errors.New("out of luck") }
		},
		"an argument that was not there": func(x *dlpack.Tensor) tvmffi.Handler {
			return func(a tvmffi.Args) (any, error) { a.Int(3); return x, nil }
		},
		"padded, which TVM-FFI refuses": func(x *dlpack.Tensor) tvmffi.Handler {
			return func(tvmffi.Args) (any, error) { return x, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			c := dlpacktest.Config{Shape: []int64{4}}
			if name == "padded, which TVM-FFI refuses" {
				c.Code, c.Bits, c.Lanes, c.Flags = 0, 4, 1, uint64(dlpack.SubbytePadded)
			}
			p := dlpacktest.Produce(t, c)
			x := must.Do(dlpack.Import(p.Managed()))(t)
			_, err := serve(t, h(x)).Call()
			assert.Error(t, err)
			assert.Equal(t, 1, p.Deletes())
		})
	}
}

// No caller can crash a served function by a wrong description of its arguments.
func TestServeTrustsNoCount(t *testing.T) {
	need(t)
	for n, list := range map[int32]unsafe.Pointer{-1: unsafe.Pointer(new(ffiAny)), -1 << 31: nil, 0: nil, 1: nil, 1<<31 - 1: nil} {
		var err error
		status := tvmffi.Serve(func(a tvmffi.Args) (any, error) {
			assert.Zero(t, a.Len(), "%d arguments at %p", n, list)
			assert.False(t, a.IsNil(0))
			a.Tensor(1)
			err = a.Check(-1)
			return nil, nil
		}, list, n, unsafe.Pointer(new(ffiAny)))
		assert.EqualValues(t, -1, status)
		assert.ErrorContains(t, err, "argument 1: it is missing")
	}
	assert.EqualValues(t, -1, tvmffi.Serve(named, nil, 0, nil), "a result at NULL")
}

func TestArgumentsAtNullAreErrors(t *testing.T) {
	need(t)
	for name, use := range map[string]func(a tvmffi.Args) error{
		"function": func(a tvmffi.Args) error { a.Function(0); return nil },
		"tensor":   func(a tvmffi.Args) error { a.Tensor(0); return nil },
		"slice":    func(a tvmffi.Args) error { tvmffi.Slice[float32](a, 0); return nil },
		"shape":    func(a tvmffi.Args) error { a.Shape(0); return nil },
		"string":   func(a tvmffi.Args) error { _ = a.String(0); return nil },
		"bytes":    func(a tvmffi.Args) error { a.Bytes(0); return nil },
		"keep": func(a tvmffi.Args) error {
			v, err := a.Keep(0)
			assert.Nil(t, v)
			return err
		},
	} {
		kinds := []int32{constant("FFI_RAW_STRING"), constant("FFI_BYTE_ARRAY"), constant("FFI_MOVED")}
		for i := range int32(16) {
			kinds = append(kinds, constant("FFI_OBJECT")+i)
		}
		for _, kind := range kinds {
			arg := &ffiAny{kind: kind}
			status := tvmffi.Serve(func(a tvmffi.Args) (any, error) { return nil, use(a) }, unsafe.Pointer(arg), 1, unsafe.Pointer(new(ffiAny)))
			assert.EqualValues(t, -1, status, "%s of type %d", name, kind)
		}
	}
}

func TestErrorsNameArgumentsThatAreNoObjects(t *testing.T) {
	need(t)
	object := uintptr(unsafe.Pointer(new(ffiAny)))
	for kind, text := range map[int32]string{
		constant("FFI_MOVED"):     "argument 0: it is an object that the caller moves into the call, want a tensor; use Keep to accept it",
		constant("FFI_UNCHANGED"): "argument 0: it is the marker Unchanged, want a tensor",
		-1:                        "argument 0: it is a value of type -1, want a tensor", // TVM-FFI's number for "any type"
		math.MinInt32:             "argument 0: it is a value of type -2147483648, want a tensor",
		math.MaxInt32:             "argument 0: it is an object of type 2147483647, want a tensor",
	} {
		var err error
		arg := &ffiAny{kind: kind, bits: uintptr(unsafe.Pointer(&object))}
		tvmffi.Serve(func(a tvmffi.Args) (any, error) {
			a.Tensor(0)
			err = a.Check(1)
			return nil, nil
		}, unsafe.Pointer(arg), 1, unsafe.Pointer(new(ffiAny)))
		assert.ErrorContains(t, err, text)
	}
	runtime.KeepAlive(&object)
}

// Go has no value for the marker, nor for types that TVM-FFI does not have.
func TestValuesWithoutAFormInGoAreNotKept(t *testing.T) {
	need(t)
	for kind, text := range map[int32]string{
		constant("FFI_UNCHANGED"): "tvmffi: argument 0: Go cannot represent the marker Unchanged",
		-1:                        "tvmffi: argument 0: Go cannot represent a value of type -1",
		math.MinInt32:             "tvmffi: argument 0: Go cannot represent a value of type -2147483648",
	} {
		status := tvmffi.Serve(func(a tvmffi.Args) (any, error) {
			v, err := a.Keep(0)
			assert.Nil(t, v)
			assert.ErrorIs(t, err, tvmffi.ErrArgument)
			assert.ErrorContains(t, err, text)
			return nil, nil
		}, unsafe.Pointer(&ffiAny{kind: kind}), 1, unsafe.Pointer(new(ffiAny)))
		assert.Zero(t, status)
	}
}

func TestArgumentsThatLeadToNullAreNotKept(t *testing.T) {
	need(t)
	nothing := uintptr(0)
	bytes := struct {
		data uintptr
		size uint64
	}{0, 5}
	for name, arg := range map[string]*ffiAny{
		"bytes":                    {kind: constant("FFI_BYTE_ARRAY"), bits: uintptr(unsafe.Pointer(&bytes))},
		"an object that was moved": {kind: constant("FFI_MOVED"), bits: uintptr(unsafe.Pointer(&nothing))},
	} {
		var err error
		status := tvmffi.Serve(func(a tvmffi.Args) (any, error) {
			var v any
			v, err = a.Keep(0)
			return v, err
		}, unsafe.Pointer(arg), 1, unsafe.Pointer(new(ffiAny)))
		assert.EqualValues(t, -1, status, name)
		assert.ErrorIs(t, err, dlpack.ErrNull, name)
	}
	runtime.KeepAlive(&bytes)
	runtime.KeepAlive(&nothing)
}

// If a handler is called with the zero Args, for example in a test, this does not affect other calls.
func TestZeroArgsRememberNothing(t *testing.T) {
	var a tvmffi.Args
	assert.Zero(t, a.Int(0))
	assert.Nil(t, a.Tensor(0))
	assert.Nil(t, tvmffi.Slice[float32](a, 0))
	require.EqualError(t, a.Check(1), "TypeError: takes 1 argument, got 0")
	require.NoError(t, tvmffi.Args{}.Check(0), "of another handler")
	require.NoError(t, tvmffi.Args{}.Check(-1), "of another handler")
}

func TestPreparedCallsAreClosedOnce(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	f := function(t, "nop")
	for range 100 {
		p := must.Do(f.Prepare(floats(16, 0), "a string that is longer than seven"))(t)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() { assert.NoError(t, p.Close()) })
		}
		wait.Wait()
		must.Fail(p.Call())(t, dlpack.ErrClosed)
	}
}

// A callback closes its own prepared call: the arguments stay valid until the call ends.
func TestPreparedCallsMayBeClosedByWhatTheyCall(t *testing.T) {
	need(t)
	dlpacktest.CheckLeaks(t)
	producer := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
	x := must.Do(dlpack.Import(producer.Managed()))(t)
	var p *tvmffi.Prepared
	f := serve(t, func(a tvmffi.Args) (any, error) {
		deep, held := a.Int(1), a.Tensor(0)
		x.Close()
		p.Close()
		runtime.GC()
		assert.Zero(t, producer.Deletes())
		must.Fail(p.Call())(t, dlpack.ErrClosed)
		return int64(held.Rank()) + deep, nil
	})
	p = must.Do(f.Prepare(x, 7))(t)
	got := must.Do(tvmffi.As[int64](p.Call()))(t)
	assert.EqualValues(t, 8, got)
	assert.Equal(t, 1, producer.Deletes())
}

// Goroutines register and remove names while others look them up, call the functions they found, load modules and close
// them.
func TestFunctionsComeAndGoWhileTheyAreCalled(t *testing.T) {
	need(t)
	dlpacktest.CheckLeaks(t)
	file := func() string {
		module(t)
		return must.Do(kernels())(t)
	}()
	const found = 25 // how often each goroutine finds its name
	var registering, using sync.WaitGroup
	var stop atomic.Bool
	for i := range 4 {
		name := fmt.Sprint("dlbridge.test.comes.and.goes.", i%2) // two concurrent goroutines use the same name
		registering.Go(func() {
			for k := 0; !stop.Load(); k++ {
				if err := tvmffi.Register(name, func(a tvmffi.Args) (any, error) { return a.Int(0) + int64(k), a.Check(1) }); err != nil {
					var e *tvmffi.Error
					assert.ErrorAs(t, err, &e, "the other one has it")
				}
				runtime.Gosched()
				if err := tvmffi.Unregister(name); err != nil {
					assert.ErrorIs(t, err, tvmffi.ErrNotFound)
				}
			}
		})
		using.Go(func() {
			for n := 0; n < found; {
				f, err := tvmffi.Global(name)
				if err != nil {
					assert.ErrorIs(t, err, tvmffi.ErrNotFound)
					continue
				}
				n++
				got, err := tvmffi.As[int64](f.Call(1000))
				assert.NoError(t, err, "what was found stays, registered or not")
				assert.GreaterOrEqual(t, got, int64(1000))
				var calls sync.WaitGroup
				for range 3 { // while a goroutine closes it
					calls.Go(func() {
						got, err := tvmffi.As[int64](f.Call(1000))
						if err != nil {
							assert.ErrorIs(t, err, dlpack.ErrClosed)
							return
						}
						assert.GreaterOrEqual(t, got, int64(1000))
					})
				}
				calls.Go(func() { f.Close() })
				calls.Wait()
			}
		})
		using.Go(func() {
			for range 50 {
				m, err := tvmffi.LoadModule(file)
				if !assert.NoError(t, err) {
					return
				}
				f, err := m.Function("bits")
				m.Close()
				if assert.NoError(t, err) {
					n, err := tvmffi.As[int64](f.Call(42))
					assert.NoError(t, err)
					assert.EqualValues(t, 42, n)
					f.Close()
				}
			}
		})
	}
	using.Wait()
	stop.Store(true)
	registering.Wait()
	for i := range 2 {
		tvmffi.Unregister(fmt.Sprint("dlbridge.test.comes.and.goes.", i))
	}
}

func TestCallsMayBeNestedDeep(t *testing.T) {
	var down *tvmffi.Function
	down = serve(t, func(a tvmffi.Args) (any, error) {
		if n := a.Int(0); n > 0 {
			return down.Call(n - 1)
		}
		return nil, tvmffi.Errorf(tvmffi.IndexError, "at the bottom")
	})
	_, err := down.Call(2000)
	var e *tvmffi.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, tvmffi.IndexError, e.Kind)
	assert.Contains(t, e.Message, "at the bottom")
}

// Functions in C++, with the types, exceptions and containers of TVM-FFI's headers.
func TestFunctionsInCxx(t *testing.T) {
	m := moduleOf(t, cxxKernels)
	of := func(name string) *tvmffi.Function { return functionOf(t, m, name, tvmffi.Alignment(4)) }
	kind := func(err error) string {
		var e *tvmffi.Error
		require.ErrorAs(t, err, &e)
		return e.Kind
	}
	t.Run("views", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		x, y := []float32{1, 2, 3}, newTensor(t, dlpack.Float32, 3)
		must.Do(of("scale").Call(x, y, 2))(t)
		values := must.Do(dlpack.Values[float32](y))(t)
		assert.Equal(t, []float32{2, 4, 6}, values)
		_, err := of("scale").Call(x[:2], y, 2.5)
		assert.ErrorContains(t, err, "ValueError: 2 elements, and room for 3")
	})
	t.Run("arguments that do not agree", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		y := newTensor(t, dlpack.Float32, 3)
		for _, args := range [][]any{{}, {y, y}, {y, y, "2"}, {nil, y, 2}, {tvmffi.Keep(y), 1, 2}, {y, tvmffi.Keep(y), nil}, {y, y, 1, 1}} {
			_, err := of("scale").Call(args...)
			assert.Equal(t, tvmffi.TypeError, kind(err), "%v", err)
		}
	})
	t.Run("exceptions", func(t *testing.T) {
		_, err := of("fail").Call(0)
		assert.Equal(t, tvmffi.IndexError, kind(err))
		_, err = of("fail").Call(1)
		assert.ErrorContains(t, err, "as asked for")
	})
	t.Run("Go's functions", func(t *testing.T) {
		echo := serve(t, func(a tvmffi.Args) (any, error) { return a.Keep(0) })
		n := must.Do(tvmffi.As[int64](of("apply").Call(echo, 7)))(t)
		assert.EqualValues(t, 7, n)
		_, err := of("apply").Call(echo, "seven")
		assert.Equal(t, tvmffi.TypeError, kind(err), "what was returned is no int")
		refuses := serve(t, func(a tvmffi.Args) (any, error) { return nil, tvmffi.Errorf(tvmffi.KeyError, "no %s", a.String(0)) })
		text := must.Do(tvmffi.As[string](of("caught").Call(refuses, "key")))(t)
		assert.Equal(t, "KeyError: no key", text)
		_, err = of("apply").Call(refuses, "key")
		assert.Equal(t, tvmffi.KeyError, kind(err), "through C++")
		through := serve(t, func(a tvmffi.Args) (any, error) { return of("fail").Call(a.Int(0)) })
		_, err = of("apply").Call(through, 0)
		assert.Equal(t, tvmffi.IndexError, kind(err), "through C++, Go and C++")
	})
	t.Run("containers", func(t *testing.T) {
		dlpacktest.CheckLeaks(t)
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{4}})
		x := must.Do(dlpack.Import(p.Managed()))(t)
		list := must.Do(tvmffi.As[*tvmffi.Object](of("list").Call(tvmffi.Keep(x))))(t)
		_, err := of("last").Call(list)
		assert.Equal(t, tvmffi.TypeError, kind(err), "they are not all tensors")
		item := must.Own(tvmffi.Global("ffi.ArrayGetItem"))(t)
		y := must.Do(tvmffi.As[*dlpack.Tensor](item.Call(list, 1)))(t)
		assert.Equal(t, x.Data(), y.Data())
		_, err = item.Call(list, 4)
		assert.Equal(t, tvmffi.IndexError, kind(err))
		y.Close()
		x.Close()
		assert.Zero(t, p.Deletes(), "the list has it")
		list.Close()
		assert.Equal(t, 1, p.Deletes())
	})
}
