// Package npy reads and writes arrays in NumPy's file formats, npy and npz. It is for programs that share arrays with
// Python in files.
//
//	t, err := npy.Decode(data)            // data is the whole file, read or mapped
//	defer t.Close()
//	err = npy.WriteTensor(file, result)   // for numpy.load
//
//	f, err := npy.DecodeZip(data)         // an npz file
//	v, err := f.Find("weights")
//	w, err := v.Tensor()
//
// An npy file has a header, which is a Python dictionary as text, and the elements of one array. An npz file is a zip
// file of npy files.
//
//	function                                  result
//	Decode, DecodeFrom                        the array as a tensor on the memory of the file
//	AppendTensor, WriteTensor, SizeTensor     a tensor as a file, as numpy.save writes it
//	WriteZip, Named                           tensors as an npz file, byte for byte as numpy.savez writes it
//	DecodeFile, DecodeZip, File, View         types, shapes, and where the elements lie; these need no cgo
//	AppendHeader                              the header for elements that the caller writes; it needs no cgo
//
// # Ownership
//
// A tensor aliases the file and keeps it alive, even if the elements are not aligned. [dlpack.Tensor.Alignment] and
// [View.Alignment] return the alignment, and [Align] copies an array that is not aligned. Big-endian arrays and
// deflated members of npz files are always copied. A copy has the flag [dlpack.IsCopied]. Nobody may write to the file
// during decoding.
//
// [DecodeFile] and [DecodeZip] read only headers, so a file of any size can be mapped into memory. [DecodeFrom] and
// [View.TensorFrom] are for mapped memory. Their argument is a tensor of bytes whose release ends the mapping. If a
// file becomes shorter while it is mapped, reading its elements ends the process.
//
// # Types
//
// NumPy has no names for the types of package ml_dtypes, and writes only their sizes: bfloat16 is "<V2", and most
// others are "<V1". A tensor of such an array has the type uint8 and one more dimension, unless the option [As] names
// the type. "<f1" is float8_e5m2. NumPy writes this name but cannot read it, so [AppendTensor] writes "<V1" instead.
// Decoding an array of Python objects, records, texts, dates or long doubles returns an error that names the type.
// Nothing is ever unpickled.
//
// # Strictness
//
// [DecodeFile] reads the headers of versions 1.0, 2.0 and 3.0 that NumPy writes. Such a header has each of the three
// keys once, in any order. Its strings have no escapes, and its numbers are decimal. It has at most 64 dimensions and
// 64 KiB. NumPy accepts more, such as comments, hexadecimal numbers, names of types, repeated keys, and bytes after the
// last element. Errors name the byte at fault.
//
// In an npz file, the header of each member must agree with the directory. Members must be stored or deflated, must
// precede the directory, and must not overlap. Each member must have a unique name: a relative path without "..". NumPy
// accepts members that reach beyond the file, and reads only the last of several members with the same name. The
// checksum of a member is checked when its elements are copied.
//
// # Memory
//
// Sizes are compared with the file before they are used. A description takes less than 4 bytes of memory for each byte
// of its header. A copy takes the size of the elements. An inflated member has exactly the size that its shape
// requires, which is at most 1032 times its size in the file. Together, the descriptions of an npz file take at most 32
// times the size of the file, plus 256 KiB to inflate headers.
package npy
