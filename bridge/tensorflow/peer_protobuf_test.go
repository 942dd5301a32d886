package tensorflow_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The messages of TensorFlow for protobuf-go, an independent decoder for comparison. Only the numbers and types of the
// fields are encoded.
var messages = map[string][]struct {
	name     string
	num      int32
	typ      descriptorpb.FieldDescriptorProto_Type
	repeated bool
	message  string
}{
	"Dim":   {{"size", 1, int64Type, false, ""}, {"name", 2, stringType, false, ""}},
	"Shape": {{"dim", 2, messageType, true, "Dim"}, {"unknown_rank", 3, boolType, false, ""}},
	"Tensor": {
		{"dtype", 1, int32Type, false, ""},
		{"tensor_shape", 2, messageType, false, "Shape"},
		{"version_number", 3, int32Type, false, ""},
		{"tensor_content", 4, bytesType, false, ""},
		{"float_val", 5, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, true, ""},
		{"double_val", 6, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, true, ""},
		{"int_val", 7, int32Type, true, ""},
		{"string_val", 8, bytesType, true, ""},
		{"scomplex_val", 9, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, true, ""},
		{"int64_val", 10, int64Type, true, ""},
		{"bool_val", 11, boolType, true, ""},
		{"dcomplex_val", 12, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, true, ""},
		{"half_val", 13, int32Type, true, ""},
		{"resource_handle_val", 14, bytesType, true, ""}, // messages, which stay unread
		{"variant_val", 15, bytesType, true, ""},         // likewise
		{"uint32_val", 16, descriptorpb.FieldDescriptorProto_TYPE_UINT32, true, ""},
		{"uint64_val", 17, descriptorpb.FieldDescriptorProto_TYPE_UINT64, true, ""},
		{"float8_val", 18, bytesType, false, ""},
	},
}

const (
	boolType    = descriptorpb.FieldDescriptorProto_TYPE_BOOL
	bytesType   = descriptorpb.FieldDescriptorProto_TYPE_BYTES
	int32Type   = descriptorpb.FieldDescriptorProto_TYPE_INT32
	int64Type   = descriptorpb.FieldDescriptorProto_TYPE_INT64
	messageType = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	stringType  = descriptorpb.FieldDescriptorProto_TYPE_STRING
)

func descriptor(t testing.TB, name string) protoreflect.MessageDescriptor {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("peer.proto"), Package: proto.String("peer"), Syntax: proto.String("proto3"),
	}
	for message, fields := range messages {
		m := &descriptorpb.DescriptorProto{Name: proto.String(message)}
		for _, f := range fields {
			field := &descriptorpb.FieldDescriptorProto{
				Name: proto.String(f.name), Number: proto.Int32(f.num), Type: f.typ.Enum(),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}
			if f.repeated {
				field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if f.message != "" {
				field.TypeName = proto.String(".peer." + f.message)
			}
			m.Field = append(m.Field, field)
		}
		file.MessageType = append(file.MessageType, m)
	}
	fd := must.Do(protodesc.NewFile(file, nil))(t)
	return fd.Messages().ByName(protoreflect.Name(name))
}

// peerRead returns a TensorProto as protobuf-go decodes it, and reports whether protobuf-go can decode it.
func peerRead(md protoreflect.MessageDescriptor, data []byte) (*dynamicpb.Message, error) {
	m := dynamicpb.NewMessage(md)
	return m, proto.Unmarshal(data, m)
}
