//go:build cgo

package tvmffi_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The examples need libtvm_ffi, so that they have no output for `go test` to compare: the test
// below does.

func ExampleLoad() {
	// Only where the library is not in one of the usual places.
	if err := tvmffi.Load("/opt/tvm/lib/libtvm_ffi.so"); errors.Is(err, tvmffi.ErrLibrary) {
		fmt.Println(err)
	}
}

func ExampleLoadModule() {
	m, err := tvmffi.LoadModule("kernels.so") // written by TVM's export_library
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	vadd, err := m.Function("vadd")
	if err != nil {
		log.Fatal(err)
	}
	defer vadd.Close()
	x, _ := dlpack.New(dlpack.Float32, 1024) // aligned as TVM's kernels want it
	defer x.Close()
	if _, err := vadd.Call(x, x, x); err != nil {
		log.Fatal(err)
	}
}

func ExampleLoadRuntime() {
	if err := tvmffi.LoadRuntime(""); err != nil { // before modules with parallel loops
		log.Fatal(err)
	}
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
	if err := tvmffi.Register("example.dot", dot); err != nil {
		log.Fatal(err)
	}
	defer tvmffi.Unregister("example.dot")
	f, err := tvmffi.Global("example.dot", tvmffi.Alignment(4)) // as Python does by get_global_func
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	sum, err := tvmffi.As[float64](f.Call([]float32{1, 2, 3}, []float32{4, 5, 6}))
	fmt.Println(sum, err)
	_, err = f.Call([]float32{1, 2, 3}, []float32{4})
	fmt.Println(err)
	_, err = f.Call([]float32{1, 2, 3}, "four")
	fmt.Println(err)
	// 32 <nil>
	// tvmffi: example.dot: ValueError: dot: 3 elements and 1
	// tvmffi: example.dot: TypeError: dot: argument 1: it is a string, want a tensor
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

func ExampleShape() {
	f, err := tvmffi.NewFunction(func(a tvmffi.Args) (any, error) { return fmt.Sprint(a.Shape(0)), nil })
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Println(f.Call(tvmffi.Shape(make([]float64, 6), 2, 3)))
	// [2 3] <nil>
}

func ExampleFunction_Prepare() {
	f, err := tvmffi.NewFunction(dot)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	x := []float32{1, 2, 3}
	p, err := f.Prepare(x, x)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	for range 3 {
		fmt.Println(p.Call())
		x[0]++
	}
	// 14 <nil>
	// 17 <nil>
	// 22 <nil>
}

func ExampleKeep() {
	var kept *dlpack.Tensor
	keep, err := tvmffi.NewFunction(func(a tvmffi.Args) (_ any, err error) {
		kept, err = tvmffi.As[*dlpack.Tensor](a.Keep(0))
		return nil, err
	})
	if err != nil {
		log.Fatal(err)
	}
	defer keep.Close()
	x, err := dlpack.FromSlice([]float32{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	_, err = keep.Call(x) // a view ends with the call
	fmt.Println(err)
	_, err = keep.Call(tvmffi.Keep(x))
	x.Close()
	values, _ := dlpack.Values[float32](kept)
	fmt.Println(values, err)
	kept.Close()
	// tvmffi: func1: ValueError: tvmffi: argument 0: the tensor is lent for the call only
	// [1 2 3] <nil>
}

func ExampleUnsafeConstant() {
	f, err := tvmffi.NewFunction(dot)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	x, err := dlpack.FromReadOnly([]float32{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	_, err = f.Call(x, x)
	fmt.Println(err)
	fmt.Println(f.Call(tvmffi.UnsafeConstant(x), tvmffi.UnsafeConstant(x))) // dot only reads
	// tvmffi: dot: argument 0: the tensor is read-only, and a function cannot know
	// 14 <nil>
}

func TestExamplesPrintWhatTheySay(t *testing.T) {
	need(t)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	for name, example := range map[string]func(){
		"ExampleRegister":         ExampleRegister,
		"ExampleShape":            ExampleShape,
		"ExampleFunction_Prepare": ExampleFunction_Prepare,
		"ExampleKeep":             ExampleKeep,
		"ExampleUnsafeConstant":   ExampleUnsafeConstant,
	} {
		t.Run(name, func(t *testing.T) {
			_, body, found := strings.Cut(string(source), "func "+name+"() {\n")
			require.True(t, found)
			body, _, _ = strings.Cut(body, "\n}\n")
			var want strings.Builder // the comments that end it
			lines := strings.Split(body, "\n")
			first := len(lines)
			for strings.HasPrefix(lines[first-1], "\t// ") {
				first--
			}
			for _, line := range lines[first:] {
				want.WriteString(strings.TrimPrefix(line, "\t// ") + "\n")
			}
			assert.Equal(t, want.String(), printed(t, example))
		})
	}
}

func printed(t *testing.T, run func()) string {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	run()
	os.Stdout = stdout
	w.Close()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
