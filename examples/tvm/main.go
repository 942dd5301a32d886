// Tvm calls two kernels compiled by TVM, on buffers of Go.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
)

const n = 56

func main() {
	if _, err := tvmffi.LoadModule(os.Args[1]); errors.Is(err, tvmffi.ErrRuntime) {
		fmt.Println("vadd has a parallel loop, and needs libtvm_runtime first")
	}
	check(tvmffi.LoadRuntime(""))
	kernels, err := tvmffi.LoadModule(os.Args[1])
	check(err)
	defer kernels.Close()

	// This is memory with the alignment that TVM's vector instructions require, and Go slices over it.
	var t [3]*dlpack.Tensor
	var v [3][]float32
	for i := range t {
		t[i], err = dlpack.New(dlpack.Float32, n, n)
		check(err)
		defer t[i].Close()
		v[i], err = dlpack.Values[float32](t[i])
		check(err)
	}
	for i := range v[0] {
		v[0][i], v[1][i] = float32(i%7), float32(i%5)
	}
	fmm, err := kernels.Function("fmm")
	check(err)
	defer fmm.Close()
	_, err = fmm.Call(t[0], t[1], t[2])
	check(err)
	fmt.Println("fmm wrote x y to z; the largest difference from Go's own product is", difference(v[0], v[1], v[2]))

	// Plain slices also work if they are aligned, as large slices are. The arguments of a prepared call are checked
	// only once.
	a, b, c := make([]float32, 1<<20), make([]float32, 1<<20), make([]float32, 1<<20)
	for i := range a {
		a[i], b[i] = float32(i), 1
	}
	vadd, err := kernels.Function("vadd")
	check(err)
	defer vadd.Close()
	again, err := vadd.Prepare(a, b, c)
	check(err)
	defer again.Close()
	_, err = again.Call()
	check(err)
	fmt.Println("vadd wrote a + b to c:", c[0], c[1], "...", c[len(c)-1])

	_, err = fmm.Call(t[0], t[1], tvmffi.Shape(v[2][:n], 1, n))
	fmt.Println(err)
	_, err = vadd.Call(a[1:], b[1:], c[1:])
	fmt.Println("unaligned data is refused:", errors.Is(err, dlpack.ErrUnaligned))
}

func difference(x, y, z []float32) (worst float32) {
	for i := range n * n {
		sum := float32(0)
		for k := range n {
			sum += x[i/n*n+k] * y[k*n+i%n]
		}
		worst = max(worst, sum-z[i], z[i]-sum)
	}
	return worst
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
