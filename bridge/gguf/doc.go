// Package gguf decodes files in the format GGUF, in which llama.cpp, ollama and others keep the weights of models. It is for programs that
// read such files without copying the tensors, and that cannot trust them. It does not write files.
//
//	f, err := gguf.DecodeFile(data)             // checks the whole header; data is the content of the file, such as a mapping
//	arch, ok := f.Value("general.architecture") // a string, a number, a bool or a slice
//	v, err := f.Find("token_embd.weight")       // its type, shape and place
//	t, err := v.Tensor()                        // the tensor, in the memory of data
//	defer t.Close()
//
// A file has a header with metadata and the description of each tensor, and a data section with their elements. The specification is
// docs/gguf.md of https://github.com/ggml-org/ggml. Versions 2 and 3 are read, little-endian. The package was compared with ggml 0.13.1
// and with version 0.19 of the Python package gguf.
//
//	function                             result
//	DecodeFile, File.Find, File.Value    all descriptions and metadata of a file, and one of them; these need no cgo
//	View.Tensor, View.TensorFrom         the tensor of a description, for a file in Go memory or in other memory
//
// # Types
//
// Tensors of F16, BF16, F32, F64 and I8 to I64 have that type and the shape of their description. The other types are quantised: a row consists
// of blocks, each of which encodes a fixed number of elements in a fixed number of bytes. Such a tensor has the type [dlpack.Uint8]. Its last
// dimension is the bytes of a block, and the one before it the blocks of a row. The description has the name of the type and the shape in
// elements. A block of Q8_1 has 36 bytes, as in ggml; the Python package has 40.
//
// GGUF lists the sizes of a tensor with the fastest dimension first. A description has them in the order of DLPack, the fastest last.
//
// # Ownership
//
// Metadata, names and shapes have memory of their own. A tensor aliases the file, keeps it alive, and is read-only. The elements are never
// read while a file is decoded, so that a file of any size costs what its header costs. Nobody may write to the header during DecodeFile;
// otherwise the result is any value or an error.
//
// # Alignment
//
// A file aligns its tensors to 32 bytes, or to the number of bytes that its metadata "general.alignment" has. A tensor whose address is no
// multiple of the size of its elements is still returned, and [dlpack.Tensor.Alignment] and [View.Alignment] say so; the option [Align]
// copies it.
//
// # Strictness
//
// Every count, length, size and offset is checked against the size of the file before it is used. Errors name the byte of the file. Gaps
// between tensors and bytes behind them are accepted. This package refuses what some readers accept: tensors that overlap or are not aligned
// in the file, duplicate or empty keys and names, keys and names that are not UTF-8 or longer than 65535 and 64 bytes, more than 4
// dimensions, and bools other than 0 and 1. Arrays may be nested up to 8 deep. String values can be any bytes.
//
// # Memory
//
// A decoded header takes at most 12 times as much memory as its bytes, of which it has at most [MaxHeader].
package gguf
