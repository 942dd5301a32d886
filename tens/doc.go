// Package tens decodes and encodes ZIO messages and the description of the tensors they carry, in pure Go. It opens no
// sockets and knows nothing of DLPack; package bridge makes DLPack tensors of the messages.
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
// A message is a sequence of frames. The first is the prefix header: a level (0 to 8), a form of four bytes, and a
// label. The second is the coordinate header: the 64-bit numbers origin, granule and seqno. The rest are the payload
// parts. A message travels as many frames (see [Decode] and [Message.Encode]) or as one, in the packed form
// ([DecodePacked] and [Message.AppendPacked]). [DecodeAll] reads several messages in that form, one after another.
//
// A message carries tensors if its label is a JSON object with the attribute TENS ([Message.DecodeLabel] and
// [Message.EncodeLabel]). A [Tensor] says which part holds its elements and how they lie there; it is a
// description and owns nothing. Element i of a tensor lies at offset plus the sum of i[d] * strides[d]
// elements from the beginning of its part ([Tensor.Strides]), little-endian and at any address: a part
// need not be aligned.
//
//	frames ── Decode ─▶ Message ── DecodeLabel ─▶ Label ── Tensors[k] ──▶ Parts[Part], Strides
//	frames ◀─ Encode ── Message ◀─ EncodeLabel ── Label
//
// Decoding copies neither payloads nor JSON text: labels, JSON text and parts alias the frames, which must stay
// unchanged for as long as the decoded message is in use. Every value in a frame is checked before it is used, and an
// error is an [*Error] that names the place.
//
// Decoding a label or the packed form takes at most 32 times as much memory as the input has bytes, and 64 KiB for
// each call. The README of package bridge has the rule of all decoders.
//
// # The specification and its gaps
//
// The specification is "ZIO Tensors" with the prefix and coordinate headers of ZIO. Where it leaves room, this package
// decides as follows. The attribute order lists the dimensions from the fastest to the slowest (like the ordering of
// Boost's general_storage_order). The attribute ascend is indexed by dimension. The attribute part counts payload parts
// from 0, and its default is the index of the tensor. A part holds exactly the elements of its tensor, and several
// tensors may share a part. The attribute pointer is rejected and never followed. A tensor of a packing other than
// "dense" is kept, and its part is not checked ([Tensor.IsDense]), so that the other tensors of the message can still
// be read. An empty packing is rejected. A TENS without the attribute tensors has no tensors, although the specification
// requires it; encoders always write it. Neither has a label that is null. A tensor that is only metadata, with the dtype
// "?", the word 0 and the shape [], is kept as one of another packing is ([Tensor.OnlyMetadata]). The Wire-Cell Toolkit
// sends all three. The metadata of a tensor is written as an object of scalars, and read as any
// object; Relay of a [Label] writes what was decoded as it came. Attributes that the specification does not have are kept. The dtypes are f (word 2, 4, 8), i and u (1, 2, 4,
// 8), c (8, 16), b (1), and V with an attribute [Dlpack], for types that have no letter; long doubles (f of word 16, c
// of word 32) are [ErrUnsupported].
//
// In the packed form, neither a message nor a part says whether another follows. There a frame behind the coordinate
// header that begins with ZIO and a level is the prefix header of another message, and a part that begins so is not written.
//
// # Tensors in several parts
//
// The specification requires that a tensor can be spread across a message, and has no attribute for it. This package reads and
// writes the attribute "parts" of a tensor, an integer N of at least 2 ([Tensor.Parts]): N consecutive payload parts, the first
// of which is part, hold the elements.
//
// The tensor is cut along its slowest dimension: the last one in order, or the first one without order, that has more
// than one index ([Tensor.Slowest]). The bytes of the parts, one after another, are the bytes that a single part would
// have; where the dimension does not ascend, the first part therefore has the last indices. Every part holds a whole
// number of indices of that dimension, at least one, and a whole number of bytes. The sizes of the parts therefore say
// where the cuts are, and add up to the size of the tensor. A tensor without elements is not cut, nor is one of packed
// elements (of less than a byte) if one index of the dimension does not take whole bytes. The attribute part is always
// written. Tensors may share parts, but together they may have at most four pieces for each part of the message and
// 1024 more.
//
// A reader that does not know the attribute finds a first part that is smaller than the tensor, and rejects it if it
// compares sizes. The example for Boost in the specification does not compare them, so that only receivers that know
// the attribute should get such messages.
//
// # Labels
//
// Package strictjson reads the labels. encoding/json would take several times as long as all other work of decoding; it
// also ignores case in names, and lets the last of two equal names win. A label says how memory is to be read, so that
// a text is rejected if two readers could read it differently: duplicate names, text after the object, 3.0 for 3, null
// for an attribute of the specification, lone surrogates, and nesting beyond [MaxDepth].
//
// Metadata and other attributes stay JSON text, which callers decode with the library of their choice. A round trip keeps every
// digit, and metadata that nobody asks for costs one scan.
//
// A tensor has a name if its metadata have a text "name" ([Tensor.Name], [Tensor.SetName]), and is found by it ([Label.Find]). Names are
// a convention of dlbridge, in all its languages; the specification has none. A label may have one name several times, which is no error until
// it is looked for.
//
// Labels are written in one way, as the C++ implementation writes them: without white space and with sorted names.
// Equal [Label] values give equal bytes.
package tens
