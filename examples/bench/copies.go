package main

/*
#include "copies.h"
*/
import "C"

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// side is the number of rows and columns of the square matrices in kernels. Only the matrix of transpose_4_odd has one
// row and one column less.
const side = 4096

// A layoutOf describes a view of a row-major tensor. The view permutes the axes by order and then takes every step-th element of
// the last axis.
type layoutOf struct {
	name  string
	dtype dlpack.DataType
	shape []int64
	order []int
	step  int64
}

var kernels = []layoutOf{
	{"transpose_1", dlpack.Uint8, []int64{side, side}, []int{1, 0}, 1},
	{"transpose_2", dlpack.Int16, []int64{side, side}, []int{1, 0}, 1},
	{"transpose_4", dlpack.Float32, []int64{side, side}, []int{1, 0}, 1},
	{"transpose_8", dlpack.Float64, []int64{side, side}, []int{1, 0}, 1},
	{"transpose_16", dlpack.Complex128, []int64{side, side}, []int{1, 0}, 1},
	{"transpose_4_odd", dlpack.Float32, []int64{side - 1, side - 1}, []int{1, 0}, 1},
	{"nchw_3_channels", dlpack.Float32, []int64{32, 224, 224, 3}, []int{0, 3, 1, 2}, 1},
	{"nchw_64_channels", dlpack.Float32, []int64{32, 56, 56, 64}, []int{0, 3, 1, 2}, 1},
	{"nhwc_3_channels", dlpack.Float32, []int64{32, 3, 224, 224}, []int{0, 2, 3, 1}, 1},
	{"step_2", dlpack.Float32, []int64{side, side}, nil, 2},
	{"step_3", dlpack.Float32, []int64{side, side}, nil, 3},
	{"flip", dlpack.Float32, []int64{side, side}, nil, -1},
}

// views returns a view of new memory in the layout, and a row-major tensor of the same shape.
func (l layoutOf) views() (src, dst *dlpack.Tensor) {
	whole := touched(l.dtype, l.shape...)
	v := dlpack.Spec{DType: l.dtype}
	for d := range l.shape {
		at := d
		if l.order != nil {
			at = l.order[d]
		}
		v.Shape, v.Strides = append(v.Shape, l.shape[at]), append(v.Strides, whole.Stride(at))
	}
	last := len(v.Shape) - 1
	if l.step < 0 {
		v.ByteOffset = (v.Shape[last] - 1) * int64(l.dtype.ItemSize())
	}
	v.Strides[last] *= l.step
	v.Shape[last] = (v.Shape[last] + max(l.step, -l.step) - 1) / max(l.step, -l.step)
	defer whole.Close()
	return must(whole.View(v)), touched(l.dtype, v.Shape...)
}

// touched returns a new tensor whose memory has been written to, so that no copy pays for page faults.
func touched(dt dlpack.DataType, shape ...int64) *dlpack.Tensor {
	t := must(dlpack.New(dt, shape...))
	data, _, err := t.UnsafeBytes()
	if err != nil {
		panic(err)
	}
	for i := range data {
		data[i] = byte(i)
	}
	return t
}

func copyTo(src, dst *dlpack.Tensor) func(n int) {
	return func(n int) {
		for range n {
			if err := src.CopyTo(dst); err != nil {
				panic(err)
			}
		}
	}
}

// onOneCore returns a path that runs on one core.
func onOneCore(name string, run func(n int)) path {
	all := runtime.GOMAXPROCS(0)
	return path{name: name, before: func(int) { runtime.GOMAXPROCS(1) }, after: func(int) { runtime.GOMAXPROCS(all) }, run: run}
}

func reference(dst, src *dlpack.Tensor) {
	C.reference_transpose((*C.float)(start(dst)), (*C.float)(start(src)), side)
}

// start returns the address of the lowest byte of t.
func start(t *dlpack.Tensor) unsafe.Pointer {
	data, _, err := t.UnsafeBytes()
	if err != nil {
		panic(err)
	}
	return unsafe.Pointer(&data[0])
}

// copies times the copies, on one core unless the name ends in _all_cores. It times each layout separately, as
// copies.py does for NumPy and PyTorch, so that no layout finds elements of another layout in the caches. The transpose
// of 4 bytes and the contiguous copy are compared with C on the same memory. The contiguous copy is also compared with
// Go's copy.
func copies(batches int) {
	for _, l := range kernels {
		src, dst := l.views()
		paths := []path{onOneCore("copy_"+l.name, copyTo(src, dst))}
		if l.name == "transpose_4" {
			paths = append(paths,
				path{name: "copy_transpose_4_all_cores", run: copyTo(src, dst)},
				path{name: "c_transpose_4", run: func(n int) {
					for range n {
						reference(dst, src)
					}
				}})
		}
		measure(paths, batches)
		src.Close()
		dst.Close()
	}
	const size = 64 << 20
	src, dst := touched(dlpack.Uint8, size), touched(dlpack.Uint8, size)
	from, to := must(dlpack.Values[byte](src)), must(dlpack.Values[byte](dst))
	measure([]path{
		onOneCore("copy_contiguous", copyTo(src, dst)),
		{name: "copy_contiguous_all_cores", run: copyTo(src, dst)},
		{name: "go_copy", run: func(n int) {
			for range n {
				copy(to, from)
			}
		}},
		{name: "c_memcpy", run: func(n int) {
			for range n {
				C.plain_memcpy(start(dst), start(src), size)
			}
		}}}, batches)
}

// newCopies returns the paths that copy and convert a matrix on one core, to new memory and into existing memory.
// views.c does the same in C.
func newCopies() []path {
	const side = 512
	matrix := must(dlpack.New(dlpack.Float32, side, side))
	for i, values := 0, must(dlpack.Values[float32](matrix)); i < len(values); i++ {
		values[i] = float32(i % 1000)
	}
	transposed := must(matrix.Transpose(1, 0))
	closed := func(name string, make func() (*dlpack.Tensor, error)) path {
		return onOneCore(name, func(n int) {
			for range n {
				must(make()).Close()
			}
		})
	}
	convert := func(dtype dlpack.DataType) func() (*dlpack.Tensor, error) {
		return func() (*dlpack.Tensor, error) { return matrix.Convert(dtype) }
	}
	into := func(name string, src *dlpack.Tensor, dtype dlpack.DataType) path {
		dst := must(dlpack.New(dtype, side, side))
		return onOneCore(name, func(n int) {
			for range n {
				if err := src.ConvertTo(dst); err != nil {
					panic(err)
				}
			}
		})
	}
	return []path{
		into("go_copy_into", matrix, dlpack.Float32), into("go_copy_into_transposed", transposed, dlpack.Float32),
		into("go_copy_into_float64", matrix, dlpack.Float64),
		closed("go_copy_matrix", matrix.Copy), closed("go_copy_transposed", transposed.Copy), closed("go_convert_float64", convert(dlpack.Float64)),
		closed("go_convert_float16", convert(dlpack.Float16)), closed("go_convert_int32", convert(dlpack.Int32)),
	}
}

// checkReference panics unless the reference in C writes the same values as CopyTo.
func checkReference() {
	src, dst := kernels[2].views()
	values := must(dlpack.Values[float32](dst))
	if err := src.CopyTo(dst); err != nil {
		panic(err)
	}
	want := slices.Clone(values)
	clear(values)
	reference(dst, src)
	for i := range values {
		if math.Float32bits(values[i]) != math.Float32bits(want[i]) {
			panic("the reference and CopyTo write different values")
		}
	}
	src.Close()
	dst.Close()
}
