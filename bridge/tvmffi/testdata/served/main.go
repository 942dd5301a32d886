// Served is a module of TVM-FFI written in Go. The Python tests call it.
package main

import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export __tvm_ffi_nop
func __tvm_ffi_nop(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(nop, args, n, result)
}

func nop(a tvmffi.Args) (any, error) { return nil, nil }

//export __tvm_ffi_scale
func __tvm_ffi_scale(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(scale, args, n, result)
}

// scale writes k x to y.
func scale(a tvmffi.Args) (any, error) {
	x, y, k := tvmffi.Slice[float32](a, 0), tvmffi.Slice[float32](a, 1), float32(a.Float(2))
	if err := a.Check(3); err != nil {
		return nil, err
	}
	if len(x) != len(y) {
		return nil, tvmffi.Errorf(tvmffi.ValueError, "scale: %d elements, and room for %d", len(x), len(y))
	}
	for i := range y {
		y[i] = k * x[i]
	}
	return nil, nil
}

//export __tvm_ffi_fail
func __tvm_ffi_fail(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(fail, args, n, result)
}

// fail raises an error of a kind, with the given bytes as its text if there are any, or panics.
func fail(a tvmffi.Args) (any, error) {
	if a.Len() > 1 {
		kind, text := a.String(0), a.Bytes(1)
		return nil, tvmffi.Errorf(kind, "%s", text)
	}
	switch kind := a.String(0); kind {
	case "plain":
		return nil, fmt.Errorf("as asked for")
	case "nil":
		var nothing *struct{ field int }
		nothing.field++
	case "index":
		return []int{}[a.Len()], nil
	case "panic":
		panic("as asked for")
	case "panic deep":
		outer()
	default:
		return nil, tvmffi.Errorf(kind, "as asked for")
	}
	return nil, nil
}

//go:noinline
func outer() { inner() }

//go:noinline
func inner() { panic("as asked for") }

//export __tvm_ffi_echo
func __tvm_ffi_echo(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(echo, args, n, result)
}

// echo returns its argument.
func echo(a tvmffi.Args) (any, error) { return a.Keep(0) }

//export __tvm_ffi_describe
func __tvm_ffi_describe(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(describe, args, n, result)
}

// describe returns a description of a tensor.
func describe(a tvmffi.Args) (any, error) {
	t := a.Tensor(0)
	if err := a.Check(1); err != nil {
		return nil, err
	}
	return fmt.Sprintf("%v%v%v %d", t.DType(), t.Shape(), t.Strides(), t.Data()), nil
}

//export __tvm_ffi_make
func __tvm_ffi_make(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(makeTensor, args, n, result)
}

// makeTensor makes a tensor of 0, 1, ..., n-1 in C memory or Go memory.
func makeTensor(a tvmffi.Args) (any, error) {
	n, ours := a.Int(0), a.Bool(1)
	if err := a.Check(2); err != nil {
		return nil, err
	}
	var t *dlpack.Tensor
	var err error
	if ours {
		t, err = dlpack.FromSlice(make([]float32, n))
	} else {
		t, err = dlpack.New(dlpack.Float32, n)
	}
	if err != nil {
		return nil, err
	}
	values, err := dlpack.Values[float32](t)
	for i := range values {
		values[i] = float32(i)
	}
	return t, err
}

var kept *dlpack.Tensor

//export __tvm_ffi_keep
func __tvm_ffi_keep(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(keep, args, n, result)
}

func keep(a tvmffi.Args) (_ any, err error) {
	kept, err = tvmffi.As[*dlpack.Tensor](a.Keep(0))
	return nil, err
}

//export __tvm_ffi_let_go
func __tvm_ffi_let_go(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(letGo, args, n, result)
}

// letGo returns the sum of the kept tensor after 20 collections, and releases it.
func letGo(a tvmffi.Args) (any, error) {
	for range 20 {
		runtime.GC()
	}
	values, err := dlpack.Values[float32](kept)
	sum := float32(0)
	for _, v := range values {
		sum += v
	}
	kept.Close()
	return sum, err
}

//export __tvm_ffi_let_go_elsewhere
func __tvm_ffi_let_go_elsewhere(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(letGoElsewhere, args, n, result)
}

// letGoElsewhere releases the kept value on a thread of Go, and waits until it is released.
func letGoElsewhere(a tvmffi.Args) (any, error) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- kept.Close()
	}()
	return nil, <-done
}

//export __tvm_ffi_apply_at_once
func __tvm_ffi_apply_at_once(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(applyAtOnce, args, n, result)
}

// applyAtOnce calls a function concurrently with 0, 1, ..., n-1, each on its own goroutine. It returns the sum, or the
// first error.
func applyAtOnce(a tvmffi.Args) (any, error) {
	f, n := a.Function(0), a.Int(1)
	if err := a.Check(2); err != nil {
		return nil, err
	}
	type one struct {
		n   int64
		err error
	}
	results := make(chan one)
	for i := range n {
		go func() {
			k, err := tvmffi.As[int64](f.Call(i))
			results <- one{k, err}
		}()
	}
	var all one
	for range n {
		r := <-results
		all.n += r.n
		if all.err == nil {
			all.err = r.err
		}
	}
	return all.n, all.err
}

//export __tvm_ffi_apply
func __tvm_ffi_apply(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(apply, args, n, result)
}

// apply calls a function with a number.
func apply(a tvmffi.Args) (any, error) {
	f, n := a.Function(0), a.Int(1)
	if err := a.Check(2); err != nil {
		return nil, err
	}
	return f.Call(n)
}

//export __tvm_ffi_apply_wrapped
func __tvm_ffi_apply_wrapped(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(applyWrapped, args, n, result)
}

// applyWrapped is apply, but wraps the error in another text.
func applyWrapped(a tvmffi.Args) (any, error) {
	v, err := apply(a)
	if err != nil {
		err = fmt.Errorf("called from Go: %w", err)
	}
	return v, err
}

//export __tvm_ffi_register
func __tvm_ffi_register(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(register, args, n, result)
}

// register registers a global function that returns twice its argument.
func register(a tvmffi.Args) (any, error) {
	return nil, tvmffi.Register(a.String(0), func(a tvmffi.Args) (any, error) { return 2 * a.Float(0), a.Check(1) })
}

//export __tvm_ffi_unregister
func __tvm_ffi_unregister(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(unregister, args, n, result)
}

func unregister(a tvmffi.Args) (any, error) { return nil, tvmffi.Unregister(a.String(0)) }

//export __tvm_ffi_text
func __tvm_ffi_text(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(text, args, n, result)
}

// text makes a string from any bytes.
func text(a tvmffi.Args) (any, error) { return string(a.Bytes(0)), nil }

//export __tvm_ffi_length
func __tvm_ffi_length(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(length, args, n, result)
}

// length returns the length of a string in Go.
func length(a tvmffi.Args) (any, error) { return len(a.String(0)), nil }

//export __tvm_ffi_collect
func __tvm_ffi_collect(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(collect, args, n, result)
}

// collect forces a collection after it has made garbage, which would reuse memory that was freed too early.
func collect(a tvmffi.Args) (any, error) {
	for range 64 {
		garbage = make([]float32, 1000)
	}
	runtime.GC()
	return nil, nil
}

var garbage []float32

//export __tvm_ffi_live
func __tvm_ffi_live(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return tvmffi.Serve(live, args, n, result)
}

// live returns the numbers of exports, imports and allocations.
func live(a tvmffi.Args) (any, error) {
	s := dlpack.ReadStats()
	return s.Exports + s.Imports + s.Allocations, nil
}

func main() {}
