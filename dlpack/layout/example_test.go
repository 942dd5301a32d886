package layout_test

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// matrix returns the layout of 3 rows of 4 elements.
func matrix() layout.Layout {
	l, _ := layout.New([]int64{3, 4}, nil, nil)
	return l
}

func ExampleAppendAligned() {
	fmt.Println(layout.AppendAligned(nil, []int64{2, 5}, nil, 4, 32)) // float32; rows are aligned to 32 bytes
	// Output: [2 8] <nil>
}

func ExampleAppendColumnMajor() {
	fmt.Println(layout.AppendColumnMajor(nil, []int64{5, 3, 2}))
	// Output: [1 5 15] <nil>
}

func ExampleAppendStrides() {
	fmt.Println(layout.AppendStrides(nil, []int64{5, 3, 2}, []int{1, 0, 2}))
	// Output: [2 10 1] <nil>
}

func ExampleCount() {
	fmt.Println(layout.Count([]int64{5, 3, 2}))
	fmt.Println(layout.Count([]int64{1 << 32, 1 << 32}))
	// Output:
	// 30 <nil>
	// 0 layout: shape[1] = 4294967296: overflow
}

func ExampleIsRowMajor() {
	fmt.Println(layout.IsRowMajor([]int64{3, 1, 4}, []int64{4, 99, 1})) // a stride without a second index does not matter
	// Output: true
}

func ExampleIsColumnMajor() {
	fmt.Println(layout.IsColumnMajor([]int64{3, 4}, []int64{1, 3}))
	// Output: true
}

func ExampleOverlaps() {
	fmt.Println(layout.Overlaps([]int64{3, 4}, []int64{0, 1})) // a broadcast
	fmt.Println(layout.Overlaps([]int64{3, 4}, []int64{1, 3}))
	// Output:
	// true
	// false
}

func ExampleLayout_OffsetOf() {
	fmt.Println(matrix().OffsetOf(2, 1))
	fmt.Println(matrix().OffsetOf(2, 4))
	// Output:
	// 9 <nil>
	// 0 layout: index[1] is 4, but dimension 1 has size 4
}

func ExampleLayout_Index() {
	l := matrix()
	fmt.Println(l.Index(-1), l)
	// Output: <nil> shape [4] strides [1] offset 8
}

func ExampleLayout_Narrow() {
	l := matrix()
	fmt.Println(l.Narrow(1, 1, 2), l)
	// Output: <nil> shape [3 2] strides [4 1] offset 1
}

func ExampleLayout_Split() {
	fmt.Println(matrix().Split(0, 1, 2))
	// Output: [shape [1 4] strides [4 1] offset 0 shape [2 4] strides [4 1] offset 4] <nil>
}

func ExampleLayout_Transpose() {
	l := matrix()
	fmt.Println(l.Transpose(1, 0), l)
	// Output: <nil> shape [4 3] strides [1 4] offset 0
}

func ExampleLayout_Flip() {
	l := matrix()
	fmt.Println(l.Flip(1), l)
	// Output: <nil> shape [3 4] strides [4 -1] offset 3
}

func ExampleLayout_Squeeze() {
	l, _ := layout.New([]int64{1, 3, 1}, nil, nil)
	fmt.Println(l.Squeeze(0), l)
	// Output: <nil> shape [3 1] strides [1 1] offset 0
}

func ExampleLayout_Expand() {
	l := matrix()
	fmt.Println(l.Expand(0, -1), l)
	// Output: <nil> shape [1 3 4 1] strides [12 4 1 1] offset 0
}

func ExampleLayout_BroadcastTo() {
	l := matrix()
	fmt.Println(l.BroadcastTo(2, 3, 4), l)
	// Output: <nil> shape [2 3 4] strides [0 4 1] offset 0
}

func ExampleLayout_Diagonal() {
	l := matrix()
	fmt.Println(l.Diagonal(1, 0, 1), l)
	// Output: <nil> shape [3] strides [5] offset 1
}

func ExampleLayout_FlatInner() {
	l, _ := layout.New([]int64{3, 4, 5}, nil, nil)
	fmt.Println(l.FlatInner(2), l)
	// Output: <nil> shape [12 5] strides [5 1] offset 0
}

func ExampleLayout_FlatOuter() {
	l, _ := layout.New([]int64{3, 4, 5}, nil, nil)
	fmt.Println(l.FlatOuter(2), l)
	// Output: <nil> shape [3 20] strides [20 1] offset 0
}

func ExampleLayout_FlatEnds() {
	l, _ := layout.New([]int64{2, 3, 4, 5}, nil, nil)
	fmt.Println(l.FlatEnds(1, 2), l)
	// Output: <nil> shape [6 20] strides [20 1] offset 0
}

func ExampleLayout_Bitcast() {
	l := matrix()
	fmt.Println(l.Bitcast(4, 8), l) // two elements of 4 bytes are one of 8
	// Output: <nil> shape [3 2] strides [2 1] offset 0
}

func ExampleParsePartialShape() {
	s, err := layout.ParsePartialShape("[4,?]")
	fmt.Println(s, s.IsFullyDefined(), err)
	// Output: [4,?] false <nil>
}

func ExamplePartialShape_CompatibleWith() {
	a, _ := layout.ParsePartialShape("[4,?]")
	b, _ := layout.ParsePartialShape("[?,3]")
	c, _ := layout.ParsePartialShape("[5,3]")
	fmt.Println(a.CompatibleWith(b), a.CompatibleWith(c))
	// Output: true false
}

func ExampleNewPartialShape() {
	batch, err := layout.NewPartialShape(-1, 224, 224, 3) // -1 is an unknown size
	if err != nil {
		fmt.Println(err)
		return
	}
	one, _ := layout.NewPartialShape(8, 224, 224, 3)
	fmt.Println(batch, one.Refines(batch), batch.Refines(one))
	other, _ := layout.NewPartialShape(8, 32, 32, 3)
	fmt.Println(one.Relax(other)) // the sizes on which both agree
	// Output:
	// [?,224,224,3] true false
	// [8,?,?,3]
}
