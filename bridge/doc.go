// Package bridge makes DLPack tensors of the tensors in ZIO TENS messages, and messages of tensors,
// without copying payloads.
//
// [Decode] views the parts of a message that was read: each tensor aliases its part, order and ascend
// become strides, and the result is read-only unless the caller says that the frames are theirs to
// write. [Encode] goes the other way: the memory of a tensor is the payload part, if it has no gaps;
// a permuted or reversed layout travels as order and ascend. Only gaps, broadcasts and what JSON has no
// words for are compacted into new memory, and the report says which and why.
//
// The wire half ([DecodeTensor], [EncodeTensor]) needs no cgo: it says in DLPack's terms what a label says, and
// back.
//
// # The extension for data types
//
// The letters of TENS cannot say bfloat16, float8 and smaller, lanes, or elements of less than a byte.
// Such tensors have the dtype V (NumPy's kind for opaque bytes), a word of ceil(bits*lanes/8) bytes, and
// the attribute `"dlpack": [code, bits, lanes]` with DLPack's numbers. The part has product*word bytes,
// or, where elements below a byte are packed, ceil(product*bits*lanes/8); `[code, bits, lanes, 4]` says
// that each has bytes of its own (4 is DLPack's flag IS_SUBBYTE_TYPE_PADDED). Readers that do not know
// the attribute refuse V rather than misread it.
//
// # Memory
//
// What a label describes takes at most 40 times its text; payloads are not copied without [Align]. The README of this
// package has the table of all decoders: how much memory each may take for its input, in each language.
//
// # Order
//
// TENS lists dimensions from the fastest to the slowest; package layout from the slowest to the fastest.
// The order is turned round here and nowhere else.
package bridge
