package tens_test

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/tens"
)

// frames returns the frames of a message with one tensor, as a peer might send them.
func frames() [][]byte {
	return [][]byte{
		[]byte(`ZIO0TENS{"TENS":{"metadata":{"run":7},"tensors":[{"dtype":"u","order":[0,1],"part":0,"shape":[2,3],"word":1}]}}`),
		tens.AppendHeader(nil, 1, 2, 3),
		{11, 21, 12, 22, 13, 23},
	}
}

func ExampleDecode() {
	m, err := tens.Decode(frames())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("level %d, form %s, seqno %d, %d part\n", m.Level, m.Form, m.Seqno, len(m.Parts))
	// Output: level 0, form TENS, seqno 3, 1 part
}

func ExampleDecodeAll() {
	var data []byte // for example a file to which messages are appended
	for seqno := range uint64(3) {
		m := &tens.Message{Form: [4]byte{'T', 'E', 'X', 'T'}, Seqno: seqno, Parts: [][]byte{[]byte("part")}}
		var err error
		if data, err = m.AppendPacked(data); err != nil {
			fmt.Println(err)
			return
		}
	}
	for m, err := range tens.DecodeAll(data) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("seqno %d, %d part\n", m.Seqno, len(m.Parts))
	}
	// Output:
	// seqno 0, 1 part
	// seqno 1, 1 part
	// seqno 2, 1 part
}

func ExampleMessage_DecodeLabel() {
	m, err := tens.Decode(frames())
	if err != nil {
		fmt.Println(err)
		return
	}
	label, err := m.DecodeLabel()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("metadata %s\n", label.Metadata)
	for _, t := range label.Tensors {
		part := m.Parts[t.Part]
		strides, offset, err := t.Strides()
		if err != nil {
			fmt.Println(err)
			return
		}
		for i := range t.Shape[0] {
			for j := range t.Shape[1] {
				fmt.Print(" ", part[offset+i*strides[0]+j*strides[1]])
			}
			fmt.Println()
		}
	}
	// Output:
	// metadata {"run":7}
	//  11 12 13
	//  21 22 23
}

func ExampleMessage_EncodeLabel() {
	form, err := tens.MakeForm("TENS")
	if err != nil {
		fmt.Println(err)
		return
	}
	part := binary.LittleEndian.AppendUint16(nil, 256)
	m := &tens.Message{Form: form, Parts: [][]byte{part}}
	label := &tens.Label{Tensors: []tens.Tensor{{Shape: []int64{1}, Word: 2, DType: 'u'}}}
	if err := m.EncodeLabel(label); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", m.Label)
	label.Tensors[0].Shape[0] = 2
	fmt.Println(m.EncodeLabel(label))
	// Output:
	// {"TENS":{"metadata":{},"tensors":[{"dtype":"u","part":0,"shape":[1],"word":2}]}}
	// tens: tensor 0: part 0 has 2 bytes, but the tensor needs 4: part and tensor differ in size
}

func ExampleMessage_Encode() {
	m := &tens.Message{Level: 3, Form: [4]byte{'T', 'E', 'X', 'T'}, Label: []byte("hello"), Parts: [][]byte{[]byte("part")}}
	for _, frame := range m.Encode() {
		fmt.Printf("%q\n", frame)
	}
	// Output:
	// "ZIO3TEXThello"
	// "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	// "part"
}

func ExampleMessage_Validate() {
	m := &tens.Message{Level: 9}
	err := m.Validate()
	fmt.Println(err, errors.Is(err, tens.ErrBadLevel))
	// Output: tens: level 9: level must be 0 to 8 true
}

func ExampleMessage_AppendPacked() {
	m := &tens.Message{Form: [4]byte{'T', 'E', 'X', 'T'}, Parts: [][]byte{[]byte("part")}}
	packed, err := m.AppendPacked(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q … %q\n", packed[:9], packed[34:])
	// Output: "\bZIO0TEXT" … "\x04part"
}

func ExampleMessage_PackedSize() {
	m := &tens.Message{Form: [4]byte{'T', 'E', 'X', 'T'}, Parts: [][]byte{make([]byte, 1000)}}
	fmt.Println(m.PackedSize())
	// Output: 1039 <nil>
}

func ExampleDecodePacked() {
	packed, err := tens.AppendFrames(nil, frames())
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := tens.DecodePacked(packed)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Parts[0])
	// Output: [11 21 12 22 13 23]
}

func ExampleMakeForm() {
	form, err := tens.MakeForm("OK")
	fmt.Printf("%q %v\n", form[:], err)
	_, err = tens.MakeForm("TENSOR")
	fmt.Println(err)
	// Output:
	// "OK  " <nil>
	// tens: form "TENSOR": form longer than four bytes
}

func ExampleAppendFrames() {
	data, err := tens.AppendFrames(nil, [][]byte{[]byte("one"), nil, []byte("three")})
	fmt.Printf("%q %v\n", data, err)
	// Output: "\x03one\x00\x05three" <nil>
}

func ExampleDecodeFrames() {
	frames, err := tens.DecodeFrames([]byte("\x03one\x00\x05three"))
	fmt.Printf("%q %v\n", frames, err)
	_, err = tens.DecodeFrames([]byte("\x03one\x00\x05th"))
	fmt.Println(err)
	// Output:
	// ["one" "" "three"] <nil>
	// tens: frame 2 is longer than the 3 bytes that are left: packed form cut short (byte 5)
}

func ExampleSizeFrames() {
	fmt.Println(tens.SizeFrames([][]byte{make([]byte, 254), make([]byte, 255)}))
	// Output: 515 <nil>
}

func ExampleAppendPrefix() {
	prefix, err := tens.AppendPrefix(nil, 0, [4]byte{'F', 'L', 'O', 'W'}, []byte(`{"flow":"BOT"}`))
	fmt.Printf("%s %v\n", prefix, err)
	// Output: ZIO0FLOW{"flow":"BOT"} <nil>
}

func ExampleDecodePrefix() {
	level, form, label, err := tens.DecodePrefix([]byte(`ZIO0FLOW{"flow":"BOT"}`))
	fmt.Printf("%d %s %s %v\n", level, form, label, err)
	// Output: 0 FLOW {"flow":"BOT"} <nil>
}

func ExampleSizePrefix() {
	fmt.Println(tens.SizePrefix([]byte(`{"flow":"BOT"}`)))
	// Output: 22
}

func ExampleAppendHeader() {
	fmt.Println(tens.AppendHeader(nil, 1, 2, 3))
	// Output: [1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0 3 0 0 0 0 0 0 0]
}

func ExampleDecodeHeader() {
	header := []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}
	origin, granule, seqno, err := tens.DecodeHeader(header)
	fmt.Println(origin, granule, seqno, err)
	// Output: 1 2 3 <nil>
}

func ExampleDecodeLabel() {
	label, err := tens.DecodeLabel([]byte(`{"TENS":{"metadata":{"run":7},"tensors":[{"shape":[2,3],"word":4,"dtype":"f","unit":"mV"}]},"flow":"DAT"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	t := label.Tensors[0]
	fmt.Printf("%c%d %v in part %d\n", t.DType, t.Word, t.Shape, t.Part)
	fmt.Printf("%s %s %s\n", label.Metadata, t.Extra[0].Value, label.LabelExtra[0].Value)

	_, err = tens.DecodeLabel([]byte(`{"TENS":{"metadata":{},"tensors":[{"shape":[2,-3],"word":4,"dtype":"f"}]}}`))
	fmt.Println(err)
	// Output:
	// f4 [2 3] in part 0
	// {"run":7} "mV" "DAT"
	// tens: tensor 0: shape[1] = -3: shape invalid (byte 34)
}

func ExampleLabel_Append() {
	label := &tens.Label{
		Tensors:    []tens.Tensor{{Shape: []int64{3}, Word: 4, DType: 'f'}},
		LabelExtra: tens.Attributes{{Name: "flow", Value: []byte(`"DAT"`)}},
	}
	text, err := label.Append(nil)
	fmt.Printf("%s %v\n", text, err)
	// Output: {"TENS":{"metadata":{},"tensors":[{"dtype":"f","part":0,"shape":[3],"word":4}]},"flow":"DAT"} <nil>
}

func ExampleDecodeAttributes() {
	attributes, err := tens.DecodeAttributes([]byte(`{"flow":"DAT", "credit":3}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range attributes {
		fmt.Printf("%s = %s\n", a.Name, a.Value)
	}
	// Output:
	// flow = "DAT"
	// credit = 3
}

func ExampleAttributes_Get() {
	attributes := tens.Attributes{{Name: tens.Dlpack, Value: []byte("[4,16,1]")}}
	value, ok := attributes.Get(tens.Dlpack)
	fmt.Printf("%s %t\n", value, ok)
	// Output: [4,16,1] true
}

func ExampleTensor_NumElements() {
	fmt.Println((&tens.Tensor{Shape: []int64{2, 3}, Word: 4}).NumElements())
	// Output: 6 <nil>
}

func ExampleTensor_NumBytes() {
	fmt.Println((&tens.Tensor{Shape: []int64{2, 3}, Word: 4}).NumBytes())
	fmt.Println((&tens.Tensor{Shape: []int64{1 << 40, 1 << 40}, Word: 4}).NumBytes())
	// Output:
	// 24 <nil>
	// 0 tens: product of shape up to shape[1] = 1099511627776: size overflows 64 bits
}

func ExampleTensor_Strides() {
	t := tens.Tensor{Shape: []int64{2, 3}, Word: 4, Order: []int{0, 1}, Ascend: []bool{true, false}}
	fmt.Println(t.Strides())
	// Output: [1 -2] 4 <nil>
}

func ExampleTensor_AppendStrides() {
	t := tens.Tensor{Shape: []int64{2, 3}, Word: 4}
	var room [8]int64
	strides, offset, err := t.AppendStrides(room[:0])
	fmt.Println(strides, offset, err)
	// Output: [3 1] 0 <nil>
}

func ExampleError() {
	_, err := tens.DecodeLabel([]byte(`{"TENS":{"tensors":[{"shape":[2],"word":4,"dtype":"q"}]}}`))
	var fault *tens.Error
	if errors.As(err, &fault) {
		fmt.Println(fault.Tensor, fault.Attribute, errors.Is(err, tens.ErrDTypeUnknown))
	}
	// Output: 0 dtype true
}
