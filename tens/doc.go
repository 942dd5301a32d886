// Package tens reads and writes ZIO messages and the tensors they carry, in pure Go.
//
// # Mental model
//
// A message is a sequence of frames. The first is the prefix header: a level, a form of four bytes, and a
// label. The second is the coordinate header: origin, granule, seqno. The rest are the payload parts. A
// message travels as many frames (see [Decode] and [Message.Encode]) or as one, in the single-part form
// ([DecodePacked] and [Message.AppendPacked]).
//
// A message carries tensors when its label is a JSON object with the attribute TENS ([Message.DecodeLabel] and
// [Message.EncodeLabel]). A [Tensor] says which part holds its elements and how they lie there; it is a
// description and owns nothing. Element i of a tensor lies at offset plus the sum of i[d] * strides[d]
// elements from the beginning of its part ([Tensor.Strides]), little-endian and at any address: a part
// need not be aligned.
//
//	frames ── Decode ─▶ Message ── DecodeLabel ─▶ Label ── Tensors[k] ──▶ Parts[Part], Strides
//	frames ◀─ Encode ── Message ◀─ EncodeLabel ── Label
//
// Nothing is copied: labels, JSON text and parts alias the frames, which must outlive what was parsed of
// them and stay as they are. Everything in a frame is checked before it is believed, and a fault is an
// [*Error] that says where it lies.
//
// A label, and the single-part form, take at most 32 times the memory of their bytes. The README of package bridge has
// the table of all decoders.
//
// # What is read and written
//
// The specification is "ZIO Tensors" with the prefix and coordinate headers of ZIO. It leaves room, which
// is filled so: order lists the dimensions from the fastest to the slowest (as the ordering of Boost's
// general_storage_order), ascend is indexed by dimension, part counts payload parts from 0 and is the
// tensor's own index by default, a part holds exactly the elements of its tensor, and any number of
// tensors may share one. The attribute pointer is refused and never followed, as is a packing other than
// "dense". Attributes that are not the specification's are kept. The dtypes are f (word 2, 4, 8), i and u
// (1, 2, 4, 8), c (8, 16), b (1), and V with an attribute [Dlpack], for what the letters cannot say; long
// doubles (f of word 16, c of word 32) are [ErrUnsupported]. To spread one tensor over several parts the
// schema has no means.
//
// # Design notes
//
// A scanner of our own reads labels. encoding/json takes several times as long as all else together,
// matches names without regard to case and lets the last of two equal names win; a label says how memory
// is to be read, so what two readers could read differently is refused: names twice, text behind the
// object, 3.0 for 3, null for an attribute, lone surrogates, nesting beyond [MaxDepth].
//
// JSON that is not ours stays text. Numbers in metadata need not fit a double, and whoever wants values
// knows which library they want them from. So a round trip keeps every digit, and metadata that nobody
// asks for costs one scan.
//
// Labels are written in one way: without white space, names sorted, as the C++ peer writes them. The order
// of attributes says nothing in JSON, and equal labels are then equal bytes.
//
// Errors have one type with a sentinel inside. A reader of hostile input wants to tell kinds apart, a
// person wants the tensor, the attribute and the byte.
package tens
