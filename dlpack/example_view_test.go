//go:build cgo

package dlpack_test

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// matrix is
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

// show prints a view and closes it.
func show(t *dlpack.Tensor, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(t)
}

func ExampleTensor_Apply() {
	t := matrix()
	defer t.Close()
	show(t.Apply(func(l *layout.Layout) error {
		return errors.Join(l.Transpose(1, 0), l.Slice(layout.From(2)), l.Flip(0))
	}))
	// Output:
	// int32[2 3] strides [-1 4] on cpu
	// [[ 3 13 23]
	//  [ 2 12 22]]
}

func ExampleTensor_Layout() {
	t := matrix()
	defer t.Close()
	fmt.Println(t.Layout())
	// Output: shape [3 4] strides [4 1] offset 0
}

func ExampleTensor_Slice() {
	t := matrix()
	defer t.Close()
	show(t.Slice(layout.From(1), layout.All().By(-2))) // t[1:, ::-2]
	// Output:
	// int32[2 2] strides [4 -2] on cpu
	// [[13 11]
	//  [23 21]]
}

func ExampleTensor_Index() {
	t := matrix()
	defer t.Close()
	show(t.Index(-1)) // t[-1]
	// Output: int32[4] on cpu [20 21 22 23]
}

func ExampleTensor_Narrow() {
	t := matrix()
	defer t.Close()
	show(t.Narrow(1, 1, 2))
	// Output:
	// int32[3 2] strides [4 1] on cpu
	// [[ 1  2]
	//  [11 12]
	//  [21 22]]
}

func ExampleTensor_Split() {
	t := matrix()
	defer t.Close()
	parts, err := t.Split(0, 1, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range parts {
		show(part, nil)
	}
	// Output:
	// int32[1 4] on cpu
	// [[0 1 2 3]]
	// int32[2 4] on cpu
	// [[10 11 12 13]
	//  [20 21 22 23]]
}

func ExampleTensor_Transpose() {
	t := matrix()
	defer t.Close()
	show(t.Transpose())
	// Output:
	// int32[4 3] strides [1 4] on cpu
	// [[ 0 10 20]
	//  [ 1 11 21]
	//  [ 2 12 22]
	//  [ 3 13 23]]
}

func ExampleTensor_Reshape() {
	t := matrix()
	defer t.Close()
	show(t.Reshape(2, -1))
	columns, _ := t.Transpose()
	defer columns.Close()
	_, err := columns.Reshape(12)
	fmt.Println(err)
	// Output:
	// int32[2 6] on cpu
	// [[ 0  1  2  3 10 11]
	//  [12 13 20 21 22 23]]
	// dlpack: reshape: shape[0] = 12 spans elements of different strides: needs a copy; Contiguous makes one
}

func ExampleTensor_FlatInner() {
	t := matrix()
	defer t.Close()
	show(t.FlatInner(1))
	// Output: int32[12] on cpu [0 1 2 3 10 11 12 13 20 21 22 23]
}

func ExampleTensor_FlatOuter() {
	t := matrix()
	defer t.Close()
	show(t.FlatOuter(3))
	// Output:
	// int32[3 4 1] on cpu
	// [[[ 0]
	//   [ 1]
	//   [ 2]
	//   [ 3]]
	//
	//  [[10]
	//   [11]
	//   [12]
	//   [13]]
	//
	//  [[20]
	//   [21]
	//   [22]
	//   [23]]]
}

func ExampleTensor_FlatEnds() {
	t := matrix()
	defer t.Close()
	show(t.FlatEnds(1, 2))
	// Output:
	// int32[12 1] on cpu
	// [[ 0]
	//  [ 1]
	//  [ 2]
	//  [ 3]
	//  [10]
	//  [11]
	//  [12]
	//  [13]
	//  [20]
	//  [21]
	//  [22]
	//  [23]]
}

func ExampleTensor_Squeeze() {
	t, _ := dlpack.FromSlice([]int32{1, 2}, 1, 2, 1)
	defer t.Close()
	show(t.Squeeze(0))
	// Output:
	// int32[2 1] on cpu
	// [[1]
	//  [2]]
}

func ExampleTensor_Expand() {
	t := matrix()
	defer t.Close()
	row, _ := t.Index(1)
	defer row.Close()
	show(row.Expand(-1))
	// Output:
	// int32[4 1] on cpu
	// [[10]
	//  [11]
	//  [12]
	//  [13]]
}

func ExampleTensor_BroadcastTo() {
	t, _ := dlpack.FromSlice([]int32{1, 2})
	defer t.Close()
	show(t.BroadcastTo(3, 2))
	// Output:
	// int32[3 2] strides [0 1] on cpu, read-only
	// [[1 2]
	//  [1 2]
	//  [1 2]]
}

func ExampleTensor_Flip() {
	t, _ := dlpack.FromSlice([]int32{1, 2, 3})
	defer t.Close()
	show(t.Flip())
	// Output: int32[3] strides [-1] on cpu [3 2 1]
}

func ExampleTensor_Diagonal() {
	t := matrix()
	defer t.Close()
	show(t.Diagonal(1, 0, 1))
	// Output: int32[3] strides [5] on cpu [1 12 23]
}

func ExampleTensor_Windows() {
	t, _ := dlpack.FromSlice([]int32{1, 2, 3, 4})
	defer t.Close()
	show(t.Windows(0, 2, 1, 1))
	// Output:
	// int32[3 2] strides [1 1] on cpu, read-only
	// [[1 2]
	//  [2 3]
	//  [3 4]]
}

func ExampleTensor_Bitcast() {
	t, _ := dlpack.FromSlice([]float32{1, -2})
	defer t.Close()
	show(t.Bitcast(dlpack.Int32))
	b, _ := t.Bitcast(dlpack.BFloat16)
	defer b.Close()
	fmt.Println(b)
	// Output:
	// int32[2] on cpu [1065353216 -1073741824]
	// bfloat16[4] on cpu [0 1 0 -2]
}

func ExampleTensor_At() {
	t, _ := dlpack.New(dlpack.BFloat16, 2, 3)
	defer t.Close()
	t.SetAt(1.5, 1, 2)
	value, err := t.At(1, 2)
	fmt.Printf("%T %v %v\n", value, value, err)
	_, err = t.At(1, 3)
	fmt.Println(err)
	// Output:
	// float32 1.5 <nil>
	// dlpack: at: index[1] is 3, but dimension 1 has size 3
}

func ExampleTensor_SetAt() {
	t, _ := dlpack.New(dlpack.Int4, 3)
	defer t.Close()
	fmt.Println(t.SetAt(-8, 1))
	fmt.Println(t.SetAt(8, 1))
	// Output:
	// <nil>
	// dlpack: set at: 8 does not fit in int4
}

func ExampleAt() {
	t := matrix()
	defer t.Close()
	columns, _ := t.Transpose()
	defer columns.Close()
	value, err := dlpack.At[int32](columns, 3, 1)
	fmt.Println(value, err)
	// Output: 13 <nil>
}

func ExampleSetAt() {
	data := []float32{1, 2, 3}
	t, _ := dlpack.FromSlice(data)
	defer t.Close()
	err := dlpack.SetAt[float32](t, 20, 1)
	fmt.Println(data, err)
	// Output: [1 20 3] <nil>
}

func ExampleMakeDataType() {
	x2 := dlpack.MakeDataType(dlpack.CodeFloat4E2M1FN, 4, 2) // two numbers in each byte, as in PyTorch
	fmt.Println(x2, x2.ItemSize(), x2.Validate())
	fmt.Println(dlpack.MakeDataType(dlpack.CodeFloat, 24, 1).Validate())
	fmt.Println(dlpack.DataTypeOf[float64](), dlpack.DataTypeOf[bool]())
	// Output:
	// float4_e2m1fnx2 1 <nil>
	// dtype = (code 2, bits 24, lanes 1): float has 16, 32, 64 bits, not 24: unsupported data type
	// float64 bool
}
