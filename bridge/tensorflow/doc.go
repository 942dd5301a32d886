// Package tensorflow decodes and encodes tensors as TensorFlow serializes them (TensorProto and the messages beside it), and
// exports tensors to TensorFlow in the same process. It is for programs that exchange files, requests or memory with
// TensorFlow without linking it.
//
//	t, err := tensorflow.DecodeTensor(data)              // an error for strings and the like, which Decode returns
//	defer t.Close()
//	out, err := tensorflow.AppendTensor(nil, result)     // the bytes that TensorFlow itself writes
//
// A TensorProto has a type, a shape, and elements: in tensor_content as they lie in memory, or one by one in a field of
// their type, whose last value stands for all elements that are missing. Elements that DLPack has a type for become DLPack
// tensors; strings, resources, variants and quantised numbers become [elements.Elements].
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
// A tensor aliases the message, and keeps it alive, if its elements lie there aligned and as they do in memory;
// otherwise it is a copy, and [Value] reports it. Elements alias the message too. Nobody may write to the message
// during decoding; otherwise the result is any value or an error.
//
// # Strictness
//
// Decoding rejects what some readers of TensorFlow reject and others ignore, unless the option [Lenient] is given. An
// error names the byte of the message at which it was found. Protocol buffers are read by their wire format, without
// generated code. No decoder recurses into messages inside a message: nested variants are decoded one by one, each when
// the caller asks for it.
//
// # Memory
//
// A value takes at most 4 times as much memory as its message, 8 times if integers of 64 bits are written as varints,
// and 32 times if each element has its own slice. A message may leave out values that repeat the last one; [Limit]
// bounds the memory that they take. The README of package bridge has the rule of all decoders.
//
// # Alignment
//
// TensorFlow computes only on memory that is aligned to 64 bytes, and ends the process on other memory. The elements in a
// message have any alignment, so that small tensors are mostly copied. Where the functions here take new memory, they place
// the whole message so that its elements are aligned. The option [Pad] aligns them within the message, for files and other
// memory whose beginning is aligned.
//
// A message that a program reads from the network into memory of its own is mostly copied too, because the length of its header decides
// where the elements lie. TensorFlow writes them last, so that they are aligned if the message ends at a multiple of 8 bytes. ReadTensor
// places a message so whose size is known.
//
// The padding is version_number = 0, as often and in as many bytes as needed (a varint may have ten). Parsers drop a field with
// its default value, whereas they would keep an unknown field and write it again.
//
// By default, strings are written in the field string_val, as tf.io.serialize_tensor writes them. [Content] writes them
// to tensor_content, as AsProtoTensorContent does, but TensorFlow's Python cannot read them there.
package tensorflow
