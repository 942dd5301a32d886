package main

import (
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// tensorProto returns a descriptor for protobuf-go with those fields of TensorFlow's TensorProto that the messages use.
func tensorProto() protoreflect.MessageDescriptor {
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(`
		name: "peer.proto" package: "peer" syntax: "proto3"
		message_type { name: "Dim"
			field { name: "size" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
			field { name: "name" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL } }
		message_type { name: "Shape"
			field { name: "dim" number: 2 type: TYPE_MESSAGE type_name: ".peer.Dim" label: LABEL_REPEATED }
			field { name: "unknown_rank" number: 3 type: TYPE_BOOL label: LABEL_OPTIONAL } }
		message_type { name: "Tensor"
			field { name: "dtype" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
			field { name: "tensor_shape" number: 2 type: TYPE_MESSAGE type_name: ".peer.Shape" label: LABEL_OPTIONAL }
			field { name: "tensor_content" number: 4 type: TYPE_BYTES label: LABEL_OPTIONAL }
			field { name: "float_val" number: 5 type: TYPE_FLOAT label: LABEL_REPEATED } }`), file); err != nil {
		panic(err)
	}
	return must(protodesc.NewFile(file, nil)).Messages().ByName("Tensor")
}

func decodeProto(messages [][]byte, mayCopy bool) func(n int) {
	return func(n int) {
		for i := range n {
			v := must(tensorflow.Decode(messages[i%len(messages)]))
			if v.Copied && !mayCopy {
				panic("copied")
			}
			v.Close()
		}
	}
}

func dynamic(messages [][]byte) func(n int) {
	md := tensorProto()
	return func(n int) {
		for i := range n {
			if err := proto.Unmarshal(messages[i%len(messages)], dynamicpb.NewMessage(md)); err != nil {
				panic(err)
			}
		}
	}
}

// copyingProto runs a reader written by hand with protowire, which copies the field tensor_content.
func copyingProto(message []byte) func(n int) {
	return func(n int) {
		for range n {
			var content []byte
			for rest := message; len(rest) > 0; {
				num, typ, size := protowire.ConsumeTag(rest)
				if size < 0 {
					panic(protowire.ParseError(size))
				}
				rest = rest[size:]
				if num == 4 && typ == protowire.BytesType {
					field, _ := protowire.ConsumeBytes(rest)
					content = append([]byte(nil), field...)
				}
				if size = protowire.ConsumeFieldValue(num, typ, rest); size < 0 {
					panic(protowire.ParseError(size))
				}
				rest = rest[size:]
			}
			if len(content) < 1<<20 {
				panic("the tensor has the wrong size")
			}
		}
	}
}

// smallProtos returns the paths for messages of 4 floats that follow each other as in a file. The data of every second
// message is aligned.
func smallProtos() []path {
	const tensors = 100_000
	one := newTensor(4)
	var all []byte
	messages := make([][]byte, tensors)
	size := len(must(tensorflow.AppendTensor(nil, one)))
	for range tensors {
		all = must(tensorflow.AppendTensor(all, one))
	}
	for i := range messages {
		messages[i] = all[i*size : (i+1)*size]
	}
	buffer := make([]byte, 0, size)
	return []path{
		{name: "tensorflow_decode_4_floats", counted: true, run: decodeProto(messages, true)},
		{name: "tensorflow_encode_4_floats", counted: true, run: func(n int) {
			for range n {
				must(tensorflow.AppendTensor(buffer, one))
			}
		}},
		{name: "dynamicpb_decode_4_floats", counted: true, run: dynamic(messages)},
	}
}

// largeProtos returns the paths for a message of 64 MiB. Paths that copy its data take milliseconds a round.
func largeProtos() []path {
	t := newTensor(16 << 20)
	values := must(dlpack.Values[float32](t))
	for i := range values {
		values[i] = float32(i)
	}
	data := must(tensorflow.AppendTensor(nil, t, tensorflow.Pad(64)))
	buffer := make([]byte, 0, len(data))
	little := must(tensorflow.AppendTensor(nil, newTensor(256), tensorflow.Pad(64)))
	return []path{
		{name: "tensorflow_decode_1KiB", run: decodeProto([][]byte{little}, false)},
		{name: "tensorflow_decode_64MiB", run: decodeProto([][]byte{data}, false)},
		{name: "tensorflow_copy_64MiB", run: copyingProto(data)},
		{name: "dynamicpb_decode_64MiB", run: dynamic([][]byte{data})},
		{name: "tensorflow_encode_64MiB", run: func(n int) {
			for range n {
				must(tensorflow.AppendTensor(buffer, t))
			}
		}},
	}
}

var protoTables = []table{
	{"TensorFlow: small tensors", "TensorProto messages of 4 float32 follow each other in memory. The data of every second message is aligned. protobuf-go is " +
		"timed only for decoding, so `encode` is compared with that time.",
		[]row{
			{path: "tensorflow_decode_4_floats", what: "decode", peer: "dynamicpb_decode_4_floats", aim: 3},
			{path: "tensorflow_encode_4_floats", what: "encode", peer: "dynamicpb_decode_4_floats"},
			{path: "dynamicpb_decode_4_floats", what: "protobuf-go, `dynamicpb`: decode", peers: true},
		}},
	{"TensorFlow: 64 MiB", "The message is one TensorProto, padded so that its data is aligned. The row of 1 KiB shows that the time to decode does not " +
		"depend on the size. The copying reader is a decoder written by hand with `protowire`. `encode` and `copy` write to existing " +
		"memory.",
		[]row{
			{path: "tensorflow_decode_64MiB", what: "decode", peer: "dynamicpb_decode_64MiB", aim: 500},
			{path: "tensorflow_decode_1KiB", what: "decode, 1 KiB"},
			{path: "tensorflow_encode_64MiB", what: "encode", peer: "memcpy_64MiB"},
			{path: "tensorflow_copy_64MiB", what: "a copying reader", peers: true},
			{path: "dynamicpb_decode_64MiB", what: "protobuf-go, `dynamicpb`: decode", peers: true},
			{path: "memcpy_64MiB", what: "Go's `copy`", peers: true},
		}},
}
