// Package bridge is the adapter between ZIO TENS messages (package tens) and DLPack tensors (package dlpack). It is for
// programs that receive or send such messages and compute on their tensors without copying the payloads.
//
//	msg, err := tens.Decode(frames)                                // frames as a socket delivered them
//	ts, err := bridge.Decode(msg)                                  // one dlpack.Tensor for each tensor of the label
//	reply, report, err := bridge.Encode([]*dlpack.Tensor{result})  // parts alias the memory of result
//	err = send(reply.Encode())
//
// [Decode] makes views of the payload parts. The attributes order and ascend become strides. The tensors are read-only
// without the option [Writable]. [Encode] does the inverse. If the layout has no gaps, the payload part is the memory
// of the tensor. A permuted or reversed layout becomes order and ascend. Encode copies a tensor only if it has gaps or
// broadcasts, or if its elements are packed, smaller than a byte and not in C order. The [Report] names the copied
// tensors.
//
// [Relay] forwards a decoded message, with the same tensors or other tensors. The rest of the message stays as it was
// received.
//
// [Names] assigns a name to each tensor; [tens.Label.Find] finds a tensor by its name.
//
// [DecodeTensor] and [EncodeTensor] convert only the description of a tensor in a label, and need no cgo.
//
// # Ownership
//
// A decoded tensor keeps its part alive. The caller must close the tensor. The parts of an encoded message are slices
// of the tensors' memory, so the tensors must stay open until the message has been sent.
//
// # The extension for data types
//
// TENS has no dtype letters for bfloat16, float8 and smaller types, for lanes, or for packed elements of less than a
// byte. A tensor of such a type has the dtype V (NumPy's kind for opaque bytes), a word of ceil(bits*lanes/8) bytes,
// and the attribute "dlpack": [code, bits, lanes] with DLPack's numbers. Its part has one word for each element. If
// elements of less than a byte are packed, the part has ceil(n*bits*lanes/8) bytes for n elements. If each such element
// has its own bytes, the attribute is [code, bits, lanes, 4] (4 is DLPack's flag IS_SUBBYTE_TYPE_PADDED). Readers that
// do not know the attribute reject V.
//
// # Tensors in several parts
//
// [Spread] cuts large tensors into several payload parts without copying them. The attribute "parts" of package tens
// describes the parts. [Decode] returns a tensor for each piece. With the option [Join], it returns one copy of the
// whole tensor. The attribute is an extension: send it only to receivers that know it. Other receivers find a first
// part that is too small for the tensor, and reject it if they compare sizes.
//
//	msg, _, err := bridge.Encode(ts, bridge.Spread(1<<20))  // parts of at most 1 MiB
//	whole, err := bridge.Decode(msg, bridge.Join())         // one tensor for each of ts
//
// # Memory
//
// A decoded label and its tensors take at most 40 bytes of memory for each byte of the label. Payloads are copied only
// if the option [Align] or [Join] is given. For each language, the README of this package says how much memory a decoder may
// take for its input.
//
// # Order
//
// The attribute order of TENS lists dimensions from the fastest to the slowest, and package layout lists them from the
// slowest to the fastest. Only this package converts between the two.
package bridge
