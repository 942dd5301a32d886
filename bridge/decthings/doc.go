// Package decthings decodes and encodes tensors in the binary form of Decthings. It also decodes and encodes the
// rules of a Decthings method, which declare the tensors that it accepts. The package is for programs that call or
// serve Decthings models.
//
//	t, err := decthings.DecodeTensor(data)                // an error for strings, media and the like, which Decode returns
//	defer t.Close()
//	reply, err := decthings.AppendTensor(nil, result)
//
// A tensor in the binary form has a byte for its type, a byte for its rank, a varint for each dimension, and the elements
// in row-major order. Numbers (little-endian) and booleans become DLPack tensors; strings, binaries, images, audio and
// video become [elements.Elements].
//
//	function                                  result
//	Decode, DecodeFirst, DecodeAll            the value of a buffer's only tensor, of its first tensor, or of each tensor
//	DecodeTensor                              the only tensor of a buffer, of numbers or booleans
//	ReadTensor, WriteTensor                   the only tensor of an io.Reader, such as a request body; a tensor, written to an io.Writer
//	DecodeFrom, DecodeFirstFrom               the same for an input in memory that is not Go's
//	AppendTensor, AppendElements              a tensor in its binary form
//	Reader                                    the bytes of each tensor of an io.Reader, aligned for decoding without a copy
//	DecodeView, View                          the header and the bytes of the elements; these need no cgo
//	Rules                                     types and shapes that a method accepts
//
// # Ownership
//
// A tensor aliases its input and keeps it alive. Only numbers that are not aligned in the input are copied. The field
// Copied of [Value] reports a copy. Elements alias their input too. Nobody may write to the input during decoding.
// Otherwise the result may be a wrong value or an error.
//
// # Dialects
//
// The published document and the clients in use encode types of variable size differently, and the bytes do not always
// show their dialect. This package never guesses the [Dialect]. The dialect is [Doc] unless the caller names another.
// Numbers and booleans are the same in all dialects.
//
// # Strictness
//
// Every value has exactly one valid encoding, so encoding a decoded tensor gives the same bytes. Decoding rejects
// varints longer than their value needs, booleans other than 0 and 1, text that is not UTF-8, section lengths that
// differ from the length of the section, and dimensions beyond 63 bits. Some clients accept such data.
//
// # Memory
//
// If numbers or booleans are not aligned, their copy takes at most 4 bytes of memory for each byte of the input.
// Strings, binaries and media take at most 32 bytes, and rules take at most 48. The reason is that an element is a
// slice of 24 bytes, and a format is a string of 16 bytes. The README of package bridge has the rule for all decoders.
//
// # Alignment
//
// The format has no padding: the payload directly follows its header. When [AppendTensor] and [Reader] allocate memory,
// they therefore place the whole tensor so that its payload is aligned to 64 bytes.
//
// If the size is known, [ReadTensor] places the tensor so that it ends at a multiple of 64 bytes. This aligns the
// elements to their size.
//
// [Reader] returns tensors as undecoded bytes, so that the package needs only one decoder with one set of options.
// Decoding the header a second time costs little compared with reading it from a stream.
package decthings
