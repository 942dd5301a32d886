//go:build cgo

package nervana_test

import (
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/nervana"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func ExampleCompose() {
	t, _ := dlpack.FromSlice([]int32{1, 2, 3, 4}, 2, 2)
	defer t.Close()
	zero, _ := dlpack.New(dlpack.Int32)
	defer zero.Close()
	image, _ := nervana.Simple(0, t.Layout())
	padded, _ := image.Pad(1, [2]int64{1, 0}, [2]int64{1, 1})
	dst, _ := dlpack.New(dlpack.Int32, padded.Shape()...)
	show(dst, nervana.Compose(dst, padded, t, zero))
	// Output:
	// int32[3 4] on cpu
	// [[0 0 0 0]
	//  [0 1 2 0]
	//  [0 3 4 0]]
}

func ExampleDescription() {
	shape, _ := layout.ParsePartialShape("[?,3]")
	batch := &nervana.Description{DType: dlpack.Float32, Shape: shape, Role: nervana.Placeholder}
	last := batch.View(func(l *layout.Layout) error { return l.Slice(layout.All(), layout.At(-1)) })
	fmt.Println(batch, batch.Complete())

	// The same placeholder is bound to one input after another.
	for _, data := range [][]float32{{1, 2, 3, 4, 5, 6}, {7, 8, 9}} {
		t, _ := dlpack.FromSlice(data, int64(len(data)/3), 3)
		column, err := last.Bind(t)
		if err != nil {
			fmt.Println(err)
			return
		}
		value, _ := column.At(0)
		fmt.Println(column, value)
		column.Close()
		t.Close()
	}
	// Output:
	// float32 [?,3] placeholder nervana: describe: the shape [?,3] is not fully known; set Shape
	// float32[2] strides [3] on cpu [3 6] 3
	// float32[1] on cpu [9] 9
}

func ExampleDescription_Refine() {
	rows, _ := layout.ParsePartialShape("[4,?]")
	columns, _ := layout.ParsePartialShape("[?,3]")
	d := &nervana.Description{Shape: rows}
	fmt.Println(d.Refine(&nervana.Description{DType: dlpack.Float32, Shape: columns}))
	fmt.Println(d)
	fmt.Println(d.Refine(&nervana.Description{DType: dlpack.Int8}))
	// Output:
	// <nil>
	// float32 [4,3]
	// nervana: refine: data type float32 conflicts with int8
}

func ExampleDescription_Allocate() {
	shape, _ := layout.NewPartialShape(2, 3)
	d := &nervana.Description{DType: dlpack.Float32, Shape: shape, Role: nervana.Constant}
	if err := d.AlignRows(16); err != nil {
		fmt.Println(err)
		return
	}
	t, err := d.Allocate()
	if err != nil {
		fmt.Println(err)
		return
	}
	t.SetAt(1, 0, 0) // its value; from now on it is constant
	c, err := d.Bind(t)
	t.Close()
	defer c.Close()
	fmt.Println(c, err)
	// Output:
	// float32[2 3] strides [4 1] on cpu, read-only
	// [[1 0 0]
	//  [0 0 0]] <nil>
}

func ExampleDescription_AlignRows() {
	shape, _ := layout.NewPartialShape(4, 9)
	d := &nervana.Description{DType: dlpack.Float64, Shape: shape}
	err := d.AlignRows(32)
	fmt.Println(d, err)
	// Output: float64 [4,9] sizes [4 12] aligned to 32 bytes <nil>
}

func ExampleDescription_Bind() {
	t := matrix()
	defer t.Close()
	_, err := (&nervana.Description{DType: dlpack.Float32}).Bind(t)
	fmt.Println(err)
	show((&nervana.Description{Access: nervana.RTensor}).Bind(t))
	// Output:
	// nervana: bind: data type float32 conflicts with int32
	// int32[3 4] on cpu, read-only
	// [[ 0  1  2  3]
	//  [10 11 12 13]
	//  [20 21 22 23]]
}

func ExampleDescription_View() {
	buffer := &nervana.Description{DType: dlpack.Float32}
	flat := buffer.View(func(l *layout.Layout) error { return l.Reshape(-1) })
	fmt.Println(flat)
	shape, _ := layout.NewPartialShape(3, 4)
	buffer.Refine(&nervana.Description{Shape: shape})
	fmt.Println(flat, flat.Base() == buffer)
	// Output:
	// float32 <unknown>, a view
	// float32 [12], a view true
}

func ExampleDescription_Known() {
	shape, _ := layout.NewPartialShape(3, 4)
	buffer := &nervana.Description{DType: dlpack.Float32, Shape: shape}
	known, err := buffer.View(func(l *layout.Layout) error { return l.Transpose() }).Known()
	fmt.Println(known.DType, known.Shape, err)
	// Output: float32 [4,3] <nil>
}

func ExampleDescription_Layout() {
	shape, _ := layout.NewPartialShape(3, 4)
	buffer := &nervana.Description{Shape: shape, Order: []int{1, 0}}
	l, err := buffer.View(func(l *layout.Layout) error { return l.Flip(0) }).Layout()
	fmt.Println(l, err)
	// Output: shape [3 4] strides [-1 3] offset 2 <nil>
}

func ExampleDescription_Complete() {
	fmt.Println((&nervana.Description{DType: dlpack.Float32}).Complete())
	// Output: nervana: describe: the shape <unknown> is not fully known; set Shape
}

func ExampleDescribe() {
	t := matrix()
	defer t.Close()
	fmt.Println(nervana.Describe(t))
	// Output: int32 [3,4] l-tensor strides [4 1]
}

// matrix returns this matrix:
//
//	 0  1  2  3
//	10 11 12 13
//	20 21 22 23
func matrix() *dlpack.Tensor {
	t, err := dlpack.FromSlice([]int32{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}, 3, 4)
	if err != nil {
		panic(err)
	}
	return t
}

// show prints a view, and closes it.
func show(t *dlpack.Tensor, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(t)
}
