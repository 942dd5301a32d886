// Libtorch computes with libtorch on the memory of Go slices, and reads the results in Go, without a copy.
package main

import (
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/examples/libtorch/aten"
)

// lend returns a libtorch tensor over a slice.
func lend(data []float32, shape ...int64) (*aten.Tensor, error) {
	t, err := dlpack.FromSlice(data, shape...)
	if err != nil {
		return nil, err
	}
	defer t.Close() // libtorch has its own share
	return aten.From(t)
}

// show reads a libtorch tensor in Go, in place, after libtorch's own reference to it has ended.
func show(out io.Writer, name string, x *aten.Tensor, err error) error {
	if err != nil {
		return err
	}
	t, err := x.DLPack()
	x.Close()
	if err != nil {
		return err
	}
	defer t.Close()
	return dlpack.Read(t, func(values []float32) error {
		fmt.Fprintf(out, "%-20s %.3f %v\n", name, values, t.Shape())
		return nil
	})
}

func story(out io.Writer, modelFile string) error {
	model, err := aten.LoadModel(modelFile)
	if err != nil {
		return err
	}
	defer model.Close()
	a, b := []float32{1, 2, 3, 4, 5, 6}, []float32{1, 0, 0, 1, 1, 0}
	x, err := lend(a, 2, 3)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := lend(b, 3, 2)
	if err != nil {
		return err
	}
	defer y.Close()

	xy, err := x.MatMul(y)
	if err != nil {
		return err
	}
	defer xy.Close()
	soft, err := xy.Softmax(1)
	if err := show(out, "softmax(a b)", soft, err); err != nil {
		return err
	}
	if err := x.AddScalar(10); err != nil {
		return err
	}
	fmt.Fprintf(out, "%-20s %.3f\n", "a, after a += 10", a)
	a[0] = 100
	scores, err := model.Run(x)
	if err := show(out, "model(a), a[0] = 100", scores, err); err != nil {
		return err
	}
	back, err := x.DLPack()
	if err != nil {
		return err
	}
	defer back.Close()
	fmt.Fprintf(out, "%-20s %v\n", "a's own memory", back.Data() == uintptr(unsafe.Pointer(&a[0])))
	return nil
}

func main() {
	if err := story(os.Stdout, os.Getenv("LIBTORCH_MODEL")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
