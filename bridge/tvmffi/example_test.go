//go:build cgo

package tvmffi_test

import (
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The examples need libtvm_ffi: see TestMain. Some of them load the module of the tests, in testdata/kernels.c.

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// ok returns value after it has checked err. It keeps error handling out of the examples.
func ok[T any](value T, err error) T {
	check(err)
	return value
}

func ExampleLoad() {
	// Only needed if the library is not in one of the usual places.
	check(tvmffi.Load(os.Getenv("DLBRIDGE_TVM_FFI")))
	fmt.Println(filepath.Base(tvmffi.Path()))
	err := tvmffi.Load("/nonexistent/libtvm_ffi.so") // a process can have only one
	fmt.Println(errors.Is(err, tvmffi.ErrLibrary))
	// Output:
	// libtvm_ffi.so
	// true
}

func ExamplePath() {
	check(tvmffi.Load(""))
	fmt.Println(filepath.Base(tvmffi.Path()))
	// Output: libtvm_ffi.so
}

func ExampleLoadModule() {
	file := ok(kernels()) // a file written by TVM's export_library
	m, err := tvmffi.LoadModule(file)
	check(err)
	defer m.Close()
	vadd, err := m.Function("vadd")
	check(err)
	defer vadd.Close()
	x, err := dlpack.New(dlpack.Float32, 1024) // aligned as TVM's kernels require
	check(err)
	defer x.Close()
	values := ok(dlpack.Values[float32](x))
	values[1023] = 21
	_, err = vadd.Call(x, x, x)
	fmt.Println(values[1023], err)
	// Output: 42 <nil>
}

func ExampleLoadRuntime() {
	check(tvmffi.LoadRuntime("")) // before modules with parallel loops
}

func ExampleModule_Function() {
	m := ok(tvmffi.LoadModule(ok(kernels())))
	defer m.Close()
	f, err := m.Function("vadd", tvmffi.Alignment(4))
	check(err)
	defer f.Close()
	fmt.Println(f.Name())
	_, err = m.Function("vsub")
	fmt.Println(errors.Is(err, tvmffi.ErrNotFound))
	// Output:
	// vadd
	// true
}

// dot is a Go function that TVM-FFI can call.
func dot(a tvmffi.Args) (any, error) {
	x, y := tvmffi.Slice[float32](a, 0), tvmffi.Slice[float32](a, 1)
	if err := a.Check(2); err != nil {
		return nil, err
	}
	if len(x) != len(y) {
		return nil, tvmffi.Errorf(tvmffi.ValueError, "dot: %d elements and %d", len(x), len(y))
	}
	sum := float32(0)
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum, nil
}

func ExampleRegister() {
	check(tvmffi.Register("example.dot", dot))
	defer tvmffi.Unregister("example.dot")
	f, err := tvmffi.Global("example.dot", tvmffi.Alignment(4)) // like get_global_func in Python
	check(err)
	defer f.Close()
	sum, err := tvmffi.As[float64](f.Call([]float32{1, 2, 3}, []float32{4, 5, 6}))
	fmt.Println(sum, err)
	_, err = f.Call([]float32{1, 2, 3}, []float32{4})
	fmt.Println(err)
	_, err = f.Call([]float32{1, 2, 3}, "four")
	fmt.Println(err)
	// Output:
	// 32 <nil>
	// tvmffi: example.dot: ValueError: dot: 3 elements and 1
	// tvmffi: example.dot: TypeError: dot: argument 1: it is a string, want a tensor
}

func ExampleUnregister() {
	check(tvmffi.Register("example.dot", dot))
	fmt.Println(tvmffi.Unregister("example.dot"))
	fmt.Println(tvmffi.Unregister("example.dot"))
	// Output:
	// <nil>
	// tvmffi: unregister: "example.dot" is not in the global table
}

func ExampleGlobal() {
	array, err := tvmffi.Global("ffi.Array") // one of libtvm_ffi's own functions
	check(err)
	defer array.Close()
	size := ok(tvmffi.Global("ffi.ArraySize"))
	defer size.Close()
	list, err := tvmffi.As[*tvmffi.Object](array.Call(1, "two", 3.0))
	check(err)
	defer list.Close()
	fmt.Println(list)
	fmt.Println(size.Call(list))
	_, err = tvmffi.Global("no.such.function")
	fmt.Println(err)
	// Output:
	// TVM-FFI object of type 71
	// 3 <nil>
	// tvmffi: global: "no.such.function" is not in the global table
}

func ExampleServe() {
	// In package main of a library built with -buildmode=c-shared, which Python loads by
	// tvm_ffi.load_module, these three lines make lib.dot of the function dot.

	//   //export __tvm_ffi_dot
	//   func __tvm_ffi_dot(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	_ = func(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
		return tvmffi.Serve(dot, args, n, result)
	}
}

func ExampleNewFunction() {
	f, err := tvmffi.NewFunction(dot)
	check(err)
	defer f.Close()
	fmt.Println(f.Call([]float32{1, 2, 3}, []float32{4, 5, 6}))
	// Output: 32 <nil>
}

func ExampleFunction_Call() {
	m := ok(tvmffi.LoadModule(ok(kernels())))
	defer m.Close()
	matmul := ok(m.Function("matmul"))
	defer matmul.Close()
	a, b := ok(dlpack.New(dlpack.Float32, 2, 2)), ok(dlpack.New(dlpack.Float32, 2, 2))
	defer a.Close()
	defer b.Close()
	copy(ok(dlpack.Values[float32](a)), []float32{1, 2, 3, 4})
	copy(ok(dlpack.Values[float32](b)), []float32{0, 1, 1, 0})
	c := make([]float32, 1024) // a whole page is aligned; less is aligned only by chance
	_, err := matmul.Call(a, b, tvmffi.Shape(c[:4], 2, 2))
	fmt.Println(c[:4], err)
	_, err = matmul.Call(a, b, tvmffi.Shape(c[1:5], 2, 2))
	fmt.Println(errors.Is(err, dlpack.ErrUnaligned))
	_, err = matmul.Call(a, b, tvmffi.Shape(c[:5], 2, 2))
	fmt.Println(err)
	// Output:
	// [2 1 4 3] <nil>
	// true
	// tvmffi: matmul: argument 2: the shape [2 2] has 4 elements, but the slice has 5
}

func ExampleAs() {
	f := ok(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) { return a.Keep(0) }))
	defer f.Close()
	n, err := tvmffi.As[int64](f.Call(42))
	fmt.Println(n, err)
	_, err = tvmffi.As[int64](f.Call("42"))
	fmt.Println(err)
	// Output:
	// 42 <nil>
	// tvmffi: result: got string, want int64
}

func ExampleErrorf() {
	f := ok(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) {
		return nil, tvmffi.Errorf(tvmffi.KeyError, "no %q", a.String(0)) // a KeyError in Python
	}))
	defer f.Close()
	_, err := f.Call("weights")
	var raised *tvmffi.Error
	fmt.Println(errors.As(err, &raised), raised.Kind, raised.Message)
	// Output: true KeyError no "weights"
}

func ExampleAlignment() {
	m := ok(tvmffi.LoadModule(ok(kernels())))
	defer m.Close()
	x := make([]float32, 1024)[1:] // a page, and 4 bytes
	for _, bytes := range []int{64, 4} {
		vadd := ok(m.Function("vadd", tvmffi.Alignment(bytes))) // 4 is enough without vector instructions
		_, err := vadd.Call(x, x, x)
		fmt.Println(bytes, errors.Is(err, dlpack.ErrUnaligned))
		vadd.Close()
	}
	// Output:
	// 64 true
	// 4 false
}

func ExampleShape() {
	f := ok(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) { return fmt.Sprint(a.Shape(0)), nil }))
	defer f.Close()
	fmt.Println(f.Call(tvmffi.Shape(make([]float64, 6), 2, 3)))
	// Output: [2 3] <nil>
}

func ExampleSlice() {
	halve := func(a tvmffi.Args) (any, error) {
		x := tvmffi.Slice[float64](a, 0) // the caller's memory
		for i := range x {
			x[i] /= 2
		}
		return nil, a.Check(1)
	}
	f := ok(tvmffi.NewFunction(halve))
	defer f.Close()
	x := []float64{1, 2, 3}
	_, err := f.Call(x)
	fmt.Println(x, err)
	_, err = f.Call([]float32{1})
	fmt.Println(err)
	// Output:
	// [0.5 1 1.5] <nil>
	// tvmffi: func1: TypeError: func1: argument 0: the tensor has float32, want float64; astype() makes a copy of that type
}

func ExampleFunction_Prepare() {
	f := ok(tvmffi.NewFunction(dot))
	defer f.Close()
	x := []float32{1, 2, 3}
	p, err := f.Prepare(x, x)
	check(err)
	defer p.Close()
	for range 3 {
		fmt.Println(p.Call())
		x[0]++
	}
	// Output:
	// 14 <nil>
	// 17 <nil>
	// 22 <nil>
}

func ExampleKeep() {
	var kept *dlpack.Tensor
	keep := ok(tvmffi.NewFunction(func(a tvmffi.Args) (_ any, err error) {
		kept, err = tvmffi.As[*dlpack.Tensor](a.Keep(0))
		return nil, err
	}))
	defer keep.Close()
	x := ok(dlpack.FromSlice([]float32{1, 2, 3}))
	_, err := keep.Call(x) // a view ends with the call
	fmt.Println(err)
	_, err = keep.Call(tvmffi.Keep(x))
	x.Close()
	fmt.Println(kept, err)
	kept.Close()
	// Output:
	// tvmffi: func1: ValueError: tvmffi: argument 0: the tensor is borrowed for the call only; tvm_ffi.from_dlpack makes one that can be kept
	// float32[3] on cpu [1 2 3] <nil>
}

func ExampleUnsafeConstant() {
	f := ok(tvmffi.NewFunction(dot))
	defer f.Close()
	x := ok(dlpack.FromReadOnly([]float32{1, 2, 3}))
	defer x.Close()
	_, err := f.Call(x, x)
	fmt.Println(err)
	fmt.Println(f.Call(tvmffi.UnsafeConstant(x), tvmffi.UnsafeConstant(x))) // dot only reads
	// Output:
	// tvmffi: dot: argument 0: the tensor is read-only, which TVM-FFI cannot express; UnsafeConstant passes it to functions that only read
	// 14 <nil>
}

func ExampleArgs() {
	show := func(a tvmffi.Args) (any, error) {
		fmt.Println(a.Len(), a.Int(0), a.Float(1), a.Bool(2), a.String(3), a.Bytes(4), a.IsNil(5))
		return nil, a.Check(6)
	}
	f := ok(tvmffi.NewFunction(show))
	defer f.Close()
	f.Call(1, 2.5, true, "four", tvmffi.Bytes{5}, nil)
	// Output: 6 1 2.5 true four [5] true
}

func ExampleArgs_Check() {
	area := func(a tvmffi.Args) (any, error) {
		width, height := a.Float(0), a.Float(1)
		if err := a.Check(2); err != nil { // the number and the types of the arguments
			return nil, err
		}
		return width * height, nil
	}
	f := ok(tvmffi.NewFunction(area))
	defer f.Close()
	fmt.Println(f.Call(2, 3.5))
	_, err := f.Call(2, "3.5")
	fmt.Println(err)
	_, err = f.Call(2)
	fmt.Println(err)
	// Output:
	// 7 <nil>
	// tvmffi: func1: TypeError: func1: argument 1: it is a string, want a float
	// tvmffi: func1: TypeError: func1: takes 2 arguments, got 1
}

func ExampleArgs_Tensor() {
	norm := func(a tvmffi.Args) (any, error) {
		x := a.Tensor(0) // any type and layout; it ends with the call
		if err := a.Check(1); err != nil {
			return nil, err
		}
		y, err := x.Convert(dlpack.Float64)
		if err != nil {
			return nil, err
		}
		defer y.Close()
		sum := 0.0
		err = dlpack.Read(y, func(values []float64) error {
			for _, v := range values {
				sum += v * v
			}
			return nil
		})
		return math.Sqrt(sum), err
	}
	f := ok(tvmffi.NewFunction(norm))
	defer f.Close()
	fmt.Println(f.Call([]int8{3, 4}))
	// Output: 5 <nil>
}

func ExampleArgs_Function() {
	apply := ok(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) { return a.Function(0).Call(a.Int(1)) }))
	defer apply.Close()
	double := ok(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) { return 2 * a.Int(0), a.Check(1) }))
	defer double.Close()
	fmt.Println(apply.Call(double, 21)) // in Python, apply(lambda n: 2 * n, 21)
	// Output: 42 <nil>
}

func ExampleArgs_Keep() {
	var last any
	swap := ok(tvmffi.NewFunction(func(a tvmffi.Args) (any, error) {
		before := last
		var err error
		last, err = a.Keep(0)
		return before, err
	}))
	defer swap.Close()
	for _, value := range []any{"a text", 2.5, nil} {
		fmt.Println(swap.Call(value))
	}
	// Output:
	// <nil> <nil>
	// a text <nil>
	// 2.5 <nil>
}
