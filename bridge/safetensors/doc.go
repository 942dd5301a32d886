// Package safetensors decodes and encodes files in the format of safetensors, which holds the weights of models. It is for programs that
// read such files without copying the tensors, and that cannot trust them.
//
//	f, err := safetensors.DecodeFile(data)        // checks the whole header; data is the content of the file, such as a mapping
//	v, err := f.Find("model.embed_tokens.weight") // its type, shape and place
//	t, err := v.Tensor()                          // the tensor, in the memory of data
//	defer t.Close()
//
// A file has 8 bytes for the length of its header, the header in JSON, and the elements of all tensors without gaps, little-endian and
// row-major. The header names each tensor, and may have metadata: texts by their names. The specification is the README of
// https://github.com/huggingface/safetensors; this package was compared with version 0.8 of that library, the reference.
//
//	function                        result
//	DecodeFile, File.Find           descriptions of all tensors of a file, and of one; these need no cgo
//	View.Tensor, View.TensorFrom    the tensor of a description, for a file in Go memory or in other memory
//	AppendHeader                    the header for tensors that are described; it needs no cgo
//	AppendTensors, WriteTensors     a file, as bytes and to an io.Writer
//	DecodeIndex                     which file of a set has which tensor (model.safetensors.index.json); it needs no cgo
//
// # Ownership
//
// A tensor aliases the file, and keeps it alive. It is read-only unless the option [Writable] is given. The elements are never read while a
// file is decoded, so that a file of any size costs what its header costs.
//
// # Alignment
//
// The format aligns the first tensor to 8 bytes and orders tensors by the size of their type, so that in most files each tensor is aligned to
// its type, if the file itself is. Older writers did neither. A tensor that is not aligned is still returned, and
// [dlpack.Tensor.Alignment] and [View.Alignment] say so; the option [Align] copies it.
//
// With the option Align, files are written so that tensors are aligned to more bytes than their type needs. The format forbids gaps, so that
// this is possible only for tensors whose size is a multiple of these bytes, and one more; these come first.
//
// # Strictness
//
// Every number of a header is checked against the size of the file before it is used. Errors name the byte of the file. Like the reference,
// this package refuses gaps between tensors, overlaps, bytes that belong to no tensor, and headers of more than [MaxHeader] bytes. It also
// refuses what the reference accepts, and of which two readers may have different opinions: two tensors of one name, two metadata of one
// name, white space before the header, white space other than spaces after it, metadata that is null, a list in place of an object, a tensor
// named __metadata__, and more than [dlpack.MaxRank] dimensions.
//
// # Memory
//
// A decoded header takes at most 32 times as much memory as its text.
package safetensors
