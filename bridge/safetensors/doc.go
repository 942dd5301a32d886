// Package safetensors decodes and encodes files in the format safetensors, which stores the weights of models. It is
// for programs that read untrusted files without copying the tensors.
//
//	f, err := safetensors.DecodeFile(data)        // checks the whole header; data is the content of the file, such as a mapping
//	v, err := f.Find("model.embed_tokens.weight") // its type, shape and place
//	t, err := v.Tensor()                          // the tensor, in the memory of data
//	defer t.Close()
//
// A file begins with the length of its header, in 8 bytes, and the header in JSON. The elements of all tensors follow
// without gaps, little-endian and row-major. The header names each tensor, and may have metadata: named texts. The
// specification is the README of https://github.com/huggingface/safetensors. This package was compared with the
// reference, version 0.8 of that library.
//
//	function                        result
//	DecodeFile, File.Find           descriptions of all tensors of a file, and of one; these need no cgo
//	View.Tensor, View.TensorFrom    the tensor of a description, for a file in Go memory or in other memory
//	AppendHeader                    the header for described tensors; it needs no cgo
//	AppendTensors, WriteTensors     a file, as bytes and to an io.Writer
//	DecodeIndex                     which file of a set has which tensor (model.safetensors.index.json); it needs no cgo
//
// # Ownership
//
// A tensor aliases the file, and keeps it alive. A tensor from [View.Tensor] is read-only without the option
// [Writable]. A tensor from [View.TensorFrom] is read-only if the input is read-only. A copy made by [Align] is
// writable. Decoding never reads the elements, so the cost depends only on the header.
//
// # Alignment
//
// The format aligns the first tensor to 8 bytes and orders tensors by the size of their type. In most files, each
// tensor is therefore aligned to its type if the file is aligned in memory. Older writers neither aligned nor ordered
// tensors, so a tensor may be unaligned. [dlpack.Tensor.Alignment] and [View.Alignment] return the alignment, and the
// option [Align] copies a tensor that is not aligned.
//
// With the option Align(n), a file begins with the tensors whose size is a multiple of n bytes. Each of these tensors
// is aligned to n bytes, and so is the first tensor after them. Other tensors may be unaligned, because the format
// forbids gaps.
//
// # Strictness
//
// Every number of a header is checked against the size of the file before it is used. Errors name the byte at fault.
// Like the Rust library of safetensors, this package refuses gaps between tensors, overlaps, bytes that belong to no
// tensor, and headers of more than [MaxHeader] bytes. It also refuses some files that the Rust library accepts, because
// two readers could understand them differently. These files have two members with the same name in an object, white space before the
// header, or white space other than spaces after the header. Or they have null as metadata, a list as a tensor's
// description, a size of 2^63 or more, or more than [dlpack.MaxRank] dimensions.
//
// # Memory
//
// A decoded header takes at most 32 bytes of memory for each byte of its text.
package safetensors
