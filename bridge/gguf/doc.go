// Package gguf decodes files in the format GGUF, in which llama.cpp, ollama and other programs store the weights of
// models. It is for programs that read untrusted files without copying the tensors. It does not write files.
//
//	f, err := gguf.DecodeFile(data)             // checks the whole header; data is the content of the file, such as a mapping
//	arch, ok := f.Value("general.architecture") // a string, a number, a bool or a slice
//	v, err := f.Find("token_embd.weight")       // its type, shape and place
//	t, err := v.Tensor()                        // the tensor, in the memory of data
//	defer t.Close()
//
// A file has a header, with metadata and the description of each tensor, and a data section with the elements of the
// tensors. The specification is docs/gguf.md of https://github.com/ggml-org/ggml. The package reads versions 2 and 3,
// little-endian. The package was compared with ggml 0.13.1 and with version 0.19 of the Python package gguf.
//
//	function                             result
//	DecodeFile, File.Find, File.Value    all descriptions and metadata of a file, one description, one value; these need no cgo
//	View.Tensor, View.TensorFrom         the tensor of a description, for a file in Go memory or in other memory
//
// # Types
//
// Tensors of the GGUF types F16, BF16, F32, F64 and I8 to I64 have the same type in DLPack, and the shape of their
// description. The other types are quantised: a row consists of blocks, and each block encodes a fixed number of
// elements in a fixed number of bytes. A quantised tensor has the type [dlpack.Uint8]. Its last dimension counts the
// bytes of a block, and the dimension before it counts the blocks of a row. The description has the name of the type
// and the shape in elements. A block of Q8_1 has 36 bytes, as in ggml; in the Python package, it has 40.
//
// GGUF lists the fastest dimension first. A description lists the fastest dimension last, as DLPack does.
//
// # Ownership
//
// Metadata, names and shapes are copied from the file. A tensor aliases the file, keeps it alive, and is read-only.
// Decoding never reads the elements, so the cost depends only on the header. Nobody may write to the header during
// [DecodeFile]. Otherwise it may return wrong descriptions or an error.
//
// # Alignment
//
// A file aligns its tensors to 32 bytes, or to the number of bytes in its metadata "general.alignment". The address of
// a tensor need not be a multiple of the size of its elements. [dlpack.Tensor.Alignment] and [View.Alignment] return
// the alignment, and the option [Align] copies a tensor that is not aligned.
//
// # Strictness
//
// Every count, length, size and offset is checked against the size of the file before it is used. Errors name the byte
// at fault. Gaps between tensors and bytes after them are accepted. This package refuses some files that other readers
// accept. It refuses tensors that overlap, are not aligned in the file, or have more than 4 dimensions. It refuses keys
// and names that are duplicate, empty or not UTF-8, keys longer than 65535 bytes, and names longer than 64 bytes. Bools
// must be 0 or 1. Arrays may be nested up to 8 deep. String values may be any bytes.
//
// # Memory
//
// A decoded header takes at most 12 bytes of memory for each of its bytes. A header has at most [MaxHeader] bytes.
package gguf
