// Compiled calls the kernels of examples/tvm, which TVM has compiled, in ways that fail. The Python test runs it with
// the library of kernels as its argument.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

func main() {
	log.SetFlags(log.Lshortfile)
	file := os.Args[1]
	_, err := tvmffi.LoadModule(file)
	want(errors.Is(err, tvmffi.ErrRuntime), "a parallel loop is missed", err)
	_, err = tvmffi.LoadModule(file)
	want(errors.Is(err, tvmffi.ErrRuntime), "it is missed the second time", err)
	check(tvmffi.LoadRuntime(""))
	check(tvmffi.LoadRuntime(""))
	m, err := tvmffi.LoadModule(file)
	check(err)
	inParallel(m)
	failures(m)
	want(panics(), "a nil dereference is a panic with both libraries loaded", nil)
	m.Close()
	want(dlpack.ReadStats() == dlpack.Stats{}, fmt.Sprint("something is left: ", dlpack.ReadStats()), nil)
	fmt.Println("all held")
}

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func want(held bool, what string, err error) {
	if !held {
		log.Output(2, fmt.Sprint(what, ": ", err))
		os.Exit(1)
	}
}

// inParallel calls the kernel with a parallel loop concurrently from many goroutines, plain and prepared.
func inParallel(m *tvmffi.Module) {
	vadd, err := m.Function("vadd")
	check(err)
	defer vadd.Close()
	const n = 1 << 14
	var wait sync.WaitGroup
	for g := range 16 {
		wait.Go(func() {
			a, b, c := make([]float32, n), make([]float32, n), make([]float32, n)
			p, err := vadd.Prepare(a, b, c)
			check(err)
			defer p.Close()
			for k := range 200 {
				a[n-1], b[n-1] = float32(g), float32(k)
				if k%2 == 0 {
					_, err = vadd.Call(a, b, c)
				} else {
					_, err = p.Call()
				}
				check(err)
				want(c[n-1] == float32(g+k), "the sum is wrong", nil)
			}
		})
	}
	wait.Wait()
}

// failures makes calls that the kernel or this package refuses. Each call leaves all counts unchanged.
func failures(m *tvmffi.Module) {
	fmm, err := m.Function("fmm")
	check(err)
	defer fmm.Close()
	good := tensor(dlpack.Float32, 56, 56)
	defer good.Close()
	for _, row := range []struct {
		name, text string
		bad        func() *dlpack.Tensor
	}{
		{"shape", "Mismatched x.strides", func() *dlpack.Tensor { return tensor(dlpack.Float32, 56, 55) }},
		{"rank", "Mismatched x.ndim", func() *dlpack.Tensor { return tensor(dlpack.Float32, 3136) }},
		{"type", "Mismatched x.dtype", func() *dlpack.Tensor { return tensor(dlpack.Float64, 56, 56) }},
		{"no elements", "x data pointer is NULL", func() *dlpack.Tensor { return tensor(dlpack.Float32, 0, 56) }},
		{"strides", "Mismatched x.strides", func() *dlpack.Tensor { return view(tensor(dlpack.Float32, 56, 56), transposed) }},
		{"alignment", "is not aligned to 64 bytes", func() *dlpack.Tensor { return view(tensor(dlpack.Float32, 57, 56), shifted) }},
	} {
		for _, way := range []string{"a view", "kept", "prepared", "prepared and kept"} {
			x := row.bad()
			before := dlpack.ReadStats()
			arg := any(x)
			if strings.HasSuffix(way, "kept") {
				arg = tvmffi.Keep(x)
			}
			if strings.HasPrefix(way, "prepared") {
				p, prepared := fmm.Prepare(arg, good, good)
				if err = prepared; err == nil {
					_, err = p.Call()
					p.Close()
				}
			} else {
				_, err = fmm.Call(arg, good, good)
			}
			want(err != nil && strings.Contains(err.Error(), row.text), row.name+", "+way, err)
			want(dlpack.ReadStats() == before, row.name+", "+way+": something is left", nil)
			x.Close()
		}
	}
	for _, args := range [][]any{{}, {good, good}, {good, good, nil}, {good, good, 1}, {good, "x", good}, {good, good, good, good}} {
		_, err := fmm.Call(args...)
		var e *tvmffi.Error
		want(errors.As(err, &e) && e.Kind == tvmffi.TypeError, fmt.Sprint(args), err)
	}
	_, err = fmm.Call(good, tvmffi.Keep(good), good)
	check(err)
}

func tensor(dtype dlpack.DataType, shape ...int64) *dlpack.Tensor {
	t, err := dlpack.New(dtype, shape...)
	check(err)
	return t
}

var (
	transposed = dlpack.Spec{DType: dlpack.Float32, Shape: []int64{56, 56}, Strides: []int64{1, 56}}
	shifted    = dlpack.Spec{DType: dlpack.Float32, Shape: []int64{56, 56}, ByteOffset: 4}
)

func view(t *dlpack.Tensor, s dlpack.Spec) *dlpack.Tensor {
	defer t.Close()
	v, err := t.View(s)
	check(err)
	return v
}

func panics() (did bool) {
	defer func() { did = recover() != nil }()
	var nothing *struct{ field int }
	nothing.field++
	return false
}
