//go:build cgo

package bridge_test

import (
	"fmt"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens"
)

func Example() {
	pixels, _ := dlpack.FromSlice([]uint8{1, 2, 3, 4, 5, 6}, 2, 3)
	defer pixels.Close()
	columns, _ := pixels.View(dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{3, 2}, Strides: []int64{1, 3}})
	defer columns.Close()

	msg, report, err := bridge.Encode([]*dlpack.Tensor{pixels, columns})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\ncopied: %q\n", msg.Label, report.Copied)

	received, err := tens.Decode(msg.Encode()) // on the other side of a socket
	if err != nil {
		fmt.Println(err)
		return
	}
	ts, err := bridge.Decode(received)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range ts {
		fmt.Println(t, t.Data() == pixels.Data())
		t.Close()
	}
	// Output:
	// {"TENS":{"metadata":{},"tensors":[{"dtype":"u","part":0,"shape":[2,3],"word":1},{"dtype":"u","order":[0,1],"part":1,"shape":[3,2],"word":1}]}}
	// copied: ["" ""]
	// uint8[2 3] on cpu, read-only
	// [[1 2 3]
	//  [4 5 6]] true
	// uint8[3 2] strides [1 3] on cpu, read-only
	// [[1 4]
	//  [2 5]
	//  [3 6]] true
}

func ExampleAlign() {
	frame := make([]byte, 9)
	msg := &tens.Message{Parts: [][]byte{frame[1:]}}
	_ = msg.EncodeLabel(&tens.Label{Tensors: []tens.Tensor{{Shape: []int64{2}, Word: 4, DType: 'f'}}})
	ts, err := bridge.Decode(msg, bridge.Align(64))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ts[0].Close()
	fmt.Println(ts[0].RequireAlign(64), ts[0].Flags()&dlpack.IsCopied != 0)
	// Output: <nil> true
}

func ExampleDecodeParts() {
	part, _ := dlpack.New(dlpack.Uint8, 8) // memory that is not Go's
	defer part.Close()
	label, _ := tens.DecodeLabel([]byte(`{"TENS":{"tensors":[{"shape":[2],"word":4,"dtype":"f"}],"metadata":{}}}`))
	ts, err := bridge.DecodeParts(label, []*dlpack.Tensor{part})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ts[0].Close()
	fmt.Println(ts[0])
	// Output: float32[2] on cpu [0 0]
}

func ExampleMetadata() {
	t, _ := dlpack.FromSlice([]float32{20.5, 21})
	defer t.Close()
	msg, _, err := bridge.Encode([]*dlpack.Tensor{t}, bridge.Metadata([]byte(`{"room":"north"}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	label, err := msg.DecodeLabel() // as a reader decodes it
	fmt.Printf("%s %v\n", label.Metadata, err)
	// Output: {"room":"north"} <nil>
}

func ExampleTensorMetadata() {
	x, _ := dlpack.FromSlice([]float32{20.5, 21})
	defer x.Close()
	y, _ := dlpack.FromSlice([]uint8{40, 41})
	defer y.Close()
	msg, _, err := bridge.Encode([]*dlpack.Tensor{x, y},
		bridge.TensorMetadata(0, []byte(`{"unit":"°C"}`)), bridge.TensorMetadata(1, []byte(`{"unit":"%"}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	label, err := msg.DecodeLabel()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range label.Tensors {
		fmt.Printf("%c %v %s\n", t.DType, t.Shape, t.Metadata)
	}
	// Output:
	// f [2] {"unit":"°C"}
	// u [2] {"unit":"%"}
}

func ExampleNames() {
	w, _ := dlpack.FromSlice([]float32{0.5, 2}, 1, 2)
	defer w.Close()
	b, _ := dlpack.FromSlice([]float32{1})
	defer b.Close()
	msg, _, err := bridge.Encode([]*dlpack.Tensor{w, b}, bridge.Names("w", "b"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", msg.Label)

	ts, err := bridge.Decode(msg) // as a reader does
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ts[0].Close()
	defer ts[1].Close()
	label, err := msg.DecodeLabel()
	if err != nil {
		fmt.Println(err)
		return
	}
	i, err := label.Find("b")
	fmt.Println(label.Tensors[i].Name(), ts[i], err)
	// Output:
	// {"TENS":{"metadata":{},"tensors":[{"dtype":"f","metadata":{"name":"w"},"part":0,"shape":[1,2],"word":4},{"dtype":"f","metadata":{"name":"b"},"part":1,"shape":[1],"word":4}]}}
	// b float32[1] on cpu, read-only [1] <nil>
}

func ExampleLabelAttributes() {
	t, _ := dlpack.FromSlice([]float32{20.5, 21})
	defer t.Close()
	own, err := tens.DecodeAttributes([]byte(`{"trace":"4bf92f","hops":2}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	msg, _, err := bridge.Encode([]*dlpack.Tensor{t}, bridge.LabelAttributes(own))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", msg.Label)
	label, err := msg.DecodeLabel()
	hops, ok := label.LabelExtra.Get("hops")
	fmt.Printf("%s %v %v\n", hops, ok, err)
	// Output:
	// {"TENS":{"metadata":{},"tensors":[{"dtype":"f","part":0,"shape":[2],"word":4}]},"hops":2,"trace":"4bf92f"}
	// 2 true <nil>
}

func ExampleDecode() {
	frames := [][]byte{
		[]byte(`ZIO0TENS{"TENS":{"tensors":[{"shape":[2,2],"word":1,"dtype":"u","order":[0,1]}],"metadata":{}}}`),
		make([]byte, tens.HeaderSize),
		{1, 2, 3, 4},
	}
	msg, err := tens.Decode(frames)
	if err != nil {
		fmt.Println(err)
		return
	}
	ts, err := bridge.Decode(msg, bridge.Writable())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ts[0].Close()
	err = dlpack.SetAt[uint8](ts[0], 42, 0, 1) // in the frame
	fmt.Println(ts[0], frames[2], err)
	// Output:
	// uint8[2 2] strides [1 2] on cpu
	// [[ 1 42]
	//  [ 2  4]] [1 2 42 4] <nil>
}

func ExampleEncode() {
	t, _ := dlpack.FromSlice([]uint8{1, 2, 3, 4, 5, 6}, 2, 3)
	defer t.Close()
	left, _ := t.Slice(layout.All(), layout.Until(2))
	defer left.Close()
	msg, report, err := bridge.Encode([]*dlpack.Tensor{t, left})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, part := range msg.Parts {
		fmt.Printf("%v %q\n", part, report.Copied[i])
	}
	// Output:
	// [1 2 3 4 5 6] ""
	// [1 2 4 5] "strides [3 1] of shape [2 2] leave gaps or share elements"
}

// Pieces of at most 16 bytes alias the tensor. Join copies them into one tensor again.
func ExampleSpread() {
	t, err := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	msg, _, err := bridge.Encode([]*dlpack.Tensor{t}, bridge.Spread(16))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", msg.Label)
	for _, options := range [][]bridge.DecodeOption{nil, {bridge.Join()}} {
		ts, err := bridge.Decode(msg, options...)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, t := range ts {
			fmt.Println(t.Shape(), t.Flags()&dlpack.IsCopied != 0)
			t.Close()
		}
	}
	// Output:
	// {"TENS":{"metadata":{},"tensors":[{"dtype":"f","part":0,"parts":2,"shape":[3,2],"word":4}]}}
	// [2 2] false
	// [1 2] false
	// [3 2] true
}
