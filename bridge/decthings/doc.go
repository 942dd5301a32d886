// Package decthings reads and writes tensors in the binary form of Decthings, and the rules that its
// methods put on them.
//
// A tensor is a byte for its type, a byte for its rank, a varint for each dimension, and the elements,
// row-major. Numbers (little-endian) and booleans become DLPack tensors; strings, binaries, images, audio
// and video become [elements.Elements]. Both alias their input; only numbers that are not aligned there are
// copied, and [Value] says so.
//
//	verb                              what you get
//	Decode, DecodeFirst, DecodeAll            values: of a buffer with one tensor, its first tensor, all of them
//	DecodeFrom, DecodeFirstFrom       the same of memory that is not Go's
//	AppendTensor, AppendElements      a tensor in its binary form, behind other bytes
//	Reader                            the tensors of an io.Reader one by one, placed so that nothing is copied
//	DecodeView, View                  what the bytes say, without cgo: the wire half
//	Rules                             types and shapes that are allowed
//
// # Dialects
//
// The document and the clients that are in use write types of variable size differently, and the bytes
// do not always tell which was meant. The [Dialect] is therefore never guessed: it is [Doc] unless another
// one is asked for. Numbers and booleans are the same in all.
//
// # What is refused
//
// Each value has one form here. What clients differ about is refused, in reading and in writing: varints
// longer than need be, booleans other than 0 and 1, text that is not UTF-8, section lengths that are not
// those of the section, and dimensions beyond 63 bits. What was read is therefore written back as the same
// bytes.
//
// # Memory
//
// Numbers and booleans take at most 4 times the memory of their bytes, which is a copy where they are not aligned.
// Strings, binaries and media take at most 32 times theirs, and rules 48 times: each element is a slice of 24 bytes,
// and a format a string of 16. The README of package bridge has the table of all decoders.
//
// Nobody may write to bytes while they are read: what is read of them then has any value, or is an error.
//
// # Design notes
//
// Nothing in the format can pad: a payload lies where its header ends. Instead the whole tensor is placed:
// where [AppendTensor] and [Reader] take new memory, the payload is aligned to 64 bytes, and the header
// lies before it.
//
// [Reader] gives the bytes of tensors, not tensors. So there is one decoder, and its options are not said
// twice; looking at a header a second time costs nothing beside reading it.
package decthings
