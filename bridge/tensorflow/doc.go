// Package tensorflow decodes and encodes tensors as TensorFlow serializes them (TensorProto and related messages), and
// exports tensors to TensorFlow in the same process. It is for programs that exchange files, requests or memory with
// TensorFlow without linking it.
//
//	t, err := tensorflow.DecodeTensor(data)              // an error for strings and the like, which Decode returns
//	defer t.Close()
//	out, err := tensorflow.AppendTensor(nil, result)     // the bytes that TensorFlow itself writes
//
// A TensorProto has a type, a shape and elements. The elements are in tensor_content in the same form as in memory, or
// they are separate values in a field of their type. The last value of this field stands for all missing elements.
// Elements of a DLPack type become DLPack tensors; strings, resources, variants and quantised numbers become
// [elements.Elements].
//
//	function                          result
//	DecodeTensor                      the tensor of a TensorProto in Go memory
//	ReadTensor, WriteTensor           a TensorProto, read from an io.Reader (such as a request body) or written to an io.Writer
//	Decode, DecodeFrom                the value of a TensorProto in Go memory, or in other memory
//	AppendTensor, AppendElements      a TensorProto
//	DecodeView, View                  the fields of a TensorProto; these need no cgo
//	DecodeShape, DecodeSlice, ...     the other messages: shapes, slices, descriptions, variants
//	Export                            a tensor for tf.experimental.dlpack.from_dlpack
//
// # Ownership
//
// If the elements are aligned in the message and have the same form as in memory, the tensor aliases the message and
// keeps it alive. Otherwise the tensor is a copy, and the field Copied of [Value] is true. Elements alias the message
// too. Nobody may write to the message during decoding. Otherwise the result may be a wrong value or an error.
//
// # Strictness
//
// Without the option [Lenient], decoding rejects even faults that only some readers of TensorFlow reject. An error
// names the byte of the message at which it was found. Protocol buffers are read by their wire format, without
// generated code. No decoder recurses into messages inside a message. A nested variant is decoded only when the caller
// asks for it.
//
// # Memory
//
// A value takes at most 4 bytes of memory for each byte of its message. It takes at most 8 bytes if integers of 64 bits
// are written as varints, and at most 32 if each element has its own slice. A message may leave out values that repeat
// the last value. [Limit] bounds the memory for these values. The README of package bridge has the rule for all
// decoders.
//
// # Alignment
//
// TensorFlow computes only on memory that is aligned to 64 bytes. Other memory makes it end the process. The elements
// in a message may have any alignment, so small tensors are mostly copied. When this package allocates memory, it
// places the whole message so that its elements are aligned. The option [Pad] aligns the elements within the message,
// for files and other memory whose beginning is aligned.
//
// If a program reads a message from the network into its own memory, the elements are mostly copied too, because their
// place depends on the length of the header. TensorFlow writes the elements last, so they are aligned if the message
// ends at a multiple of 8 bytes. If the size of a message is known, [ReadTensor] places the message in this way.
//
// The padding is the field version_number = 0, repeated as often as needed. Its varint may have up to ten bytes.
// Parsers drop a field with its default value. They would keep an unknown field and write it again.
//
// By default, strings are written in the field string_val, as tf.io.serialize_tensor writes them. [Content] writes
// strings to tensor_content, as AsProtoTensorContent does, but TensorFlow's Python cannot read strings in this field.
package tensorflow
