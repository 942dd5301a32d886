// Package tens decodes and encodes ZIO messages and the descriptions of the tensors in them, in pure Go. It opens no
// sockets and knows nothing of DLPack. Package bridge turns messages into DLPack tensors.
//
//	m, err := tens.Decode(frames) // as a socket has received them
//	if err != nil {
//		return err
//	}
//	label, err := m.DecodeLabel()
//	if err != nil {
//		return err
//	}
//	for _, t := range label.Tensors {
//		fmt.Println(t.Shape, len(m.Parts[t.Part])) // the shape, and the bytes of the elements
//	}
//
// # Mental model
//
// A message is a sequence of frames. The first frame is the prefix header: a level (0 to 8), a form of four bytes, and
// a label. The second frame is the coordinate header: the 64-bit numbers origin, granule and seqno. All other frames
// are the payload parts. A message is sent as separate frames (see [Decode] and [Message.Encode]), or as one frame in
// the packed form ([DecodePacked] and [Message.AppendPacked]). [DecodeAll] reads several messages in the packed form,
// one after another.
//
// A message carries tensors if its label is a JSON object with the attribute TENS ([Message.DecodeLabel] and
// [Message.EncodeLabel]). A [Tensor] says which part holds its elements, and where they are in that part. It is a
// description and owns nothing. The element with index i lies offset + Σ i[d]*strides[d] elements after the
// beginning of the tensor's part ([Tensor.Strides]). Elements are little-endian. A part may have any address: it need not be
// aligned.
//
//	frames ── Decode ─▶ Message ── DecodeLabel ─▶ Label ── Tensors[k] ──▶ Parts[Part], Strides
//	frames ◀─ Encode ── Message ◀─ EncodeLabel ── Label
//
// Decoding copies neither payloads nor JSON text. Labels, JSON text and parts alias the frames, which must stay
// unchanged while the decoded message is in use. Every value in a frame is checked before it is used. Each error is an
// [*Error], which names the place.
//
// Decoding a label or the packed form takes at most 32 bytes of memory for each byte of the input, and 64 KiB for each
// call. The README of package bridge has the rule of all decoders.
//
// # The specification and its gaps
//
// The specification is "ZIO Tensors" with the prefix and coordinate headers of ZIO. Where the specification leaves room, this package
// decides as follows:
//
//   - The attribute "order" lists the dimensions from the fastest to the slowest, like the ordering of Boost's general_storage_order. The
//     attribute "ascend" is indexed by dimension.
//   - The attribute "part" is the index of a payload part. The first part is 0. The default is the index of the tensor. A part
//     holds exactly the elements of its tensor. Several tensors may share a part.
//   - The attribute "pointer" is rejected and never followed. An empty packing is rejected.
//   - A tensor with a packing other than "dense" is kept ([Tensor.IsDense]), and its part is not checked. So the
//     other tensors of the message can still be read.
//   - Decoders also accept three forms that the Wire-Cell Toolkit sends. First, a TENS without the attribute tensors has no tensors.
//     The specification requires this attribute, and encoders always write it. Second, a label that is null has no tensors. Third, a
//     tensor that is only metadata is kept like a tensor of another packing ([Tensor.OnlyMetadata]). Its dtype is "?", its word is 0,
//     and its shape is [].
//   - Encoders write the metadata of a tensor as an object of scalars, and decoders accept any object. With Relay, a [Label] writes
//     decoded JSON text unchanged. Attributes that the specification does not define are kept.
//   - The dtypes are f (word 2, 4, 8), i and u (1, 2, 4, 8), c (8, 16), and b (1). A type without a letter has the dtype V and an
//     attribute [Dlpack]. Long doubles (f of word 16, c of word 32) are [ErrUnsupported].
//
// The packed form does not say where a message ends. Therefore a frame after the coordinate header is the prefix header
// of the next message if it begins with ZIO and a level. Encoders refuse a part that begins in this way.
//
// # Tensors in several parts
//
// The specification requires that a tensor can be spread across a message, but has no attribute for this. This package reads
// and writes the attribute "parts" of a tensor ([Tensor.Parts]). If its value N is at least 2, then N consecutive
// payload parts hold the elements. The attribute part is the number of the first of these parts.
//
// The tensor is cut along its slowest dimension with more than one index ([Tensor.Slowest]). Among the dimensions with
// more than one index, this is the last in the attribute order. Without this attribute it is the first. The parts,
// joined in order, have the bytes that a single part would have. If the dimension does not ascend, the first part
// therefore has the last indices. Every part holds a whole number of bytes, and at least one whole index of the
// dimension. The sizes of the parts therefore show where the cuts are, and add up to the size of the tensor. A tensor
// without elements is not cut. A tensor of packed elements (of less than a byte) is not cut if one index of the
// dimension does not fill whole bytes. Encoders always write the attribute part. Tensors may share parts. All tensors
// together may have at most 1024 pieces, plus four for each part of the message.
//
// Send these messages only to receivers that know the attribute "parts". Other readers find a first part that is
// smaller than the tensor. Readers that compare sizes reject this part. The specification's example for Boost does not
// compare sizes.
//
// # Labels
//
// Package strictjson reads the labels. With package encoding/json, reading a label would take several times as long as
// the rest of the decoding. That package also ignores case in names, and uses the last of two equal names. Because a
// label says how to read memory, this package rejects a text that two readers could read differently. Labels must not have duplicate names, text after the object,
// lone surrogates, or nesting beyond [MaxDepth]. Integers must not be written as 3.0, and attributes of the
// specification must not be null.
//
// Metadata and other attributes stay JSON text, which callers decode with the library of their choice. A round trip keeps every
// digit, and unused metadata costs only one scan.
//
// The name of a tensor is the text "name" in its metadata ([Tensor.Name], [Tensor.SetName]). [Label.Find] finds a tensor by its name. Names
// are a convention of dlbridge, in all its languages; the specification has none. Several tensors of a label may have the same name. Only
// Find then returns an error.
//
// Encoders write labels as the C++ implementation does: without white space and with sorted names. Equal [Label] values
// give equal bytes.
package tens
