// Package bridge is the adapter between ZIO TENS messages (package tens) and DLPack tensors (package dlpack). It is for
// programs that receive or send such messages and compute on their tensors without copying the payloads.
//
//	msg, err := tens.Decode(frames)                                // frames as a socket delivered them
//	ts, err := bridge.Decode(msg)                                  // one dlpack.Tensor for each tensor of the label
//	reply, report, err := bridge.Encode([]*dlpack.Tensor{result})  // parts alias the memory of result
//	err = send(reply.Encode())
//
// [Decode] makes views of the payload parts: order and ascend become strides, and the tensors are read-only without
// [Writable]. [Encode] goes the other way: a payload part is the memory of its tensor if the layout has no gaps, and a
// permuted or reversed layout becomes order and ascend. Only tensors with gaps or broadcasts, and packed elements of
// less than a byte in another order than C order, are copied to new memory; the [Report] names them.
//
// [Relay] sends a message on that was decoded: with other tensors or the same, and all else as it came.
//
// [Names] gives the tensors names, by which [tens.Label.Find] finds them.
//
// [DecodeTensor] and [EncodeTensor] convert only the description of a tensor in a label, and need no cgo.
//
// # Ownership
//
// A decoded tensor keeps its part alive, and the caller closes it. The parts of an encoded message are slices of the
// tensors' memory, so that the tensors must stay open until the message has been sent.
//
// # The extension for data types
//
// The dtype letters of TENS have no bfloat16, float8 or smaller type, no lanes, and no packed elements of less than a
// byte. A tensor of such a type has the dtype V (NumPy's kind for opaque bytes), a word of ceil(bits*lanes/8) bytes,
// and the attribute "dlpack": [code, bits, lanes] with DLPack's numbers. Its part has word bytes for each element, or,
// if elements of less than a byte are packed, ceil(n*bits*lanes/8) bytes for n elements; [code, bits, lanes, 4] says
// that each such element has bytes of its own (4 is DLPack's flag IS_SUBBYTE_TYPE_PADDED). Readers that do not know the
// attribute reject V.
//
// # Tensors in several parts
//
// [Spread] cuts large tensors into several payload parts without copying them, described by the attribute "parts" of
// package tens. [Decode] returns a tensor for each piece, or with [Join] one copy of the whole. The attribute is an
// extension: send it only to receivers that know it. Others find a first part that is smaller than the tensor, and
// reject it if they compare sizes.
//
//	msg, _, err := bridge.Encode(ts, bridge.Spread(1<<20))  // parts of at most 1 MiB
//	whole, err := bridge.Decode(msg, bridge.Join())         // one tensor for each of ts
//
// # Memory
//
// A decoded label and its tensors take at most 40 times as much memory as the label has bytes. Payloads are copied only
// by [Align] and [Join]. The README of this package has the rule of all decoders: how much memory a call may take for its
// input, in each language.
//
// # Order
//
// The attribute order of TENS lists dimensions from the fastest to the slowest, and package layout lists them from the
// slowest to the fastest. Only this package converts one to the other.
package bridge
