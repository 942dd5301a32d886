// Package tensorflow reads and writes tensors as TensorFlow serializes them, and exchanges them with
// TensorFlow in memory.
//
// A TensorProto has a type, a shape, and elements: as they lie in memory in tensor_content, or one by one in
// a field of their type, where the last one stands for all that are missing. Elements that DLPack has a type
// for become DLPack tensors, which alias the message where they can; strings, resources, variants and
// quantised numbers become [elements.Elements].
//
//	verb                              what you get
//	Decode, DecodeFrom                the value of a TensorProto, in Go's memory or another's
//	AppendTensor, AppendElements      a TensorProto, behind other bytes
//	DecodeView, View                  what the bytes say, without cgo: the wire half
//	Export                            a tensor for tf.experimental.dlpack.from_dlpack
//
// Protocol buffers are read by their wire format, without generated code: a message is gone through record
// by record, and nothing of it is copied that can be aliased. No reader goes deeper than its own message, so that
// nested variants are read one by one, each when it is asked for.
//
// # What is refused
//
// Reading is strict: what some readers of TensorFlow refuse and others pass over is refused, unless
// [Lenient] is given. Every error says at which byte. A message takes at most 4 times the memory of its bytes, 8 times
// where integers of 64 bits are written as varints, and 32 times where each element has its own slice. Values that are
// left out, since they repeat the last one, take more, and have a [Limit]. The README of package bridge has the table of
// all decoders.
//
// Nobody may write to bytes while they are read: what is read of them then has any value, or is an error.
//
// # Alignment
//
// TensorFlow computes on memory aligned to 64 bytes only, and ends the process on other. A message gives its
// elements the alignment it happens to have, so that small ones are mostly copied. Where the writers here
// take new memory, they place the whole message so that its elements are aligned; [Pad] places them in the
// message itself, for files and other memory that is aligned where it begins.
//
// # Design notes
//
// Padding is version_number = 0, said as often and in as many bytes as needed (a varint may have ten). An
// unknown field would do as well, but is kept by parsers and written again; a known field with its default
// leaves nothing behind, and its number is nobody else's.
//
// Strings are written in their field by default, other than by AsProtoTensorContent, because TensorFlow's
// Python cannot read them from tensor_content; tf.io.serialize_tensor does the same.
package tensorflow
