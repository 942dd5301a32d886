//go:build cgo

package gorgonia_test

import (
	"errors"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/dlpack"
)

// gorgonia computes in the memory of a producer.
func ExampleDense() {
	t, _ := dlpack.New(dlpack.Float32, 2, 3) // or dlpack.Import, bridge.Decode, ...
	defer t.Close()
	dlpack.Use(t, func(values []float32) error {
		copy(values, []float32{1, 2, 3, 4, 5, 6})
		return nil
	})

	d, release, err := gorgonia.Dense(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	if _, err := d.MulScalar(float32(10), true, tensor.UseUnsafe()); err != nil {
		fmt.Println(err)
		return
	}
	sum, err := d.Sum(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t, sum.Data())
	// Output:
	// float32[2 3] on cpu
	// [[10 20 30]
	//  [40 50 60]] [50 70 90]
}

// A refusal names the call that makes the tensor acceptable.
func ExampleDense_refused() {
	t, _ := dlpack.FromSlice([]float64{1, 2, 3, 4, 5, 6})
	defer t.Close()
	v, _ := t.View(dlpack.Spec{DType: dlpack.Float64, Shape: []int64{3}, Strides: []int64{2}})
	defer v.Close()
	_, _, err := gorgonia.Dense(v)
	fmt.Println(err)

	c, _, _ := v.Contiguous(dlpack.RowMajor)
	defer c.Close()
	d, release, err := gorgonia.Dense(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	fmt.Println(d)
	// Output:
	// gorgonia: dense: strides [2] of shape [3] are not row-major without gaps; Contiguous(RowMajor) makes them so: unsupported layout
	// [1  3  5]
}

func ExampleAllowTransposed() {
	t, _ := dlpack.FromBytes([]byte{1, 2, 3, 4, 5, 6}, dlpack.Spec{
		DType: dlpack.Uint8, Shape: []int64{2, 3}, Strides: []int64{1, 2},
	})
	defer t.Close()
	_, _, err := gorgonia.Dense(t)
	fmt.Println(errors.Is(err, dlpack.ErrLayout))
	d, release, err := gorgonia.Dense(t, gorgonia.AllowTransposed)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	sums, _ := d.Sum(1)
	fmt.Println(d.Shape(), sums.Data())
	// Output:
	// true
	// (2, 3) [9 12]
}

// FromDense describes any layout of gorgonia without moving elements.
func ExampleFromDense() {
	d := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]int32{1, 2, 3, 4, 5, 6}))
	if err := d.T(); err != nil { // lazy: moves no elements
		fmt.Println(err)
		return
	}
	t, err := gorgonia.FromDense(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	m, err := t.Export() // for NumPy, PyTorch, C, ...
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dlpack.Release(m)
	fmt.Println(t)
	// Output:
	// int32[3 2] strides [1 3] on cpu
	// [[1 4]
	//  [2 5]
	//  [3 6]]
}
