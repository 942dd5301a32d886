// Package tensorflow decodes and encodes tensors as TensorFlow serializes them (TensorProto and related messages), and
// exports tensors to TensorFlow in the same process. It is for programs that exchange files, requests or memory with
// TensorFlow without linking it.
//
//	t, err := tensorflow.DecodeTensor(data)              // an error for strings and the like, which Decode returns
//	defer t.Close()
//	out, err := tensorflow.AppendTensor(nil, result)     // the bytes that TensorFlow itself writes
//
// A TensorProto has a type, a shape and elements. The elements are in tensor_content in the same form as in memory, or
// one by one in a field of their type. The last value of that field stands for all missing elements. Elements of a
// DLPack type become DLPack tensors; strings, resources, variants and quantised numbers become [elements.Elements].
//
//	function                          result
//	DecodeTensor                      the tensor of a TensorProto in Go memory
//	ReadTensor, WriteTensor           a TensorProto from an io.Reader, such as the body of a request, and to an io.Writer
//	Decode, DecodeFrom                the value of a TensorProto in Go memory, or in other memory
//	AppendTensor, AppendElements      a TensorProto
//	DecodeView, View                  the fields of a TensorProto; these need no cgo
//	DecodeShape, DecodeSlice, ...     the other messages: shapes, slices, descriptions, variants
//	Export                            a tensor for tf.experimental.dlpack.from_dlpack
//
// # Ownership
//
// If the elements are aligned in the message and have the same form there as in memory, the tensor aliases the message
// and keeps it alive. Otherwise it is a copy; the field Copied of [Value] reports this. Elements alias the message too.
// Nobody may write to the message during decoding; otherwise the result is any value or an error.
//
// # Strictness
//
// Decoding rejects faults that some readers of TensorFlow reject and others ignore, unless the option [Lenient] is
// given. An error names the byte of the message at which it was found. Protocol buffers are read by their wire format,
// without generated code. No decoder recurses into messages inside a message: nested variants are decoded one by one,
// each when the caller asks for it.
//
// # Memory
//
// A value takes at most 4 times as much memory as its message, 8 times if integers of 64 bits are written as varints,
// and 32 times if each element has its own slice. A message may leave out values that repeat the last value; [Limit]
// bounds their memory. The README of package bridge has the rule for all decoders.
//
// # Alignment
//
// TensorFlow computes only on memory that is aligned to 64 bytes, and ends the process on other memory. The elements in
// a message may have any alignment, so small tensors are mostly copied. When this package allocates memory, it places
// the whole message so that its elements are aligned. The option [Pad] aligns them within the message, for files and
// other memory whose beginning is aligned.
//
// If a program reads a message from the network into its own memory, the elements are mostly copied too, because the
// length of the header decides their place. TensorFlow writes the elements last, so they are aligned if the message
// ends at a multiple of 8 bytes. ReadTensor places a message in this way if its size is known.
//
// The padding is the field version_number = 0, repeated as often and in as many bytes as needed (a varint may have
// ten). Parsers drop a field with its default value, whereas they keep an unknown field and write it again.
//
// By default, strings are written in the field string_val, as tf.io.serialize_tensor writes them. [Content] writes them
// to tensor_content, as AsProtoTensorContent does, but TensorFlow's Python cannot read them there.
package tensorflow
