// Package files opens files of tensors without copying them, and writes such files. It is for programs that read models
// and arrays, even from untrusted sources, and pass the tensors to C, Python or other libraries.
//
//	f, err := files.Open("model.safetensors")       // maps the file, and checks the descriptions of its tensors
//	defer f.Close()
//	for _, e := range f.Entries() { fmt.Println(e) } // names, types, shapes and places
//	t, err := f.Tensor("model.embed_tokens.weight") // a tensor in the memory of the file; nothing is read yet
//	defer t.Close()
//
//	err = files.Write("copy.safetensors", []files.Named{{Name: "weight", Tensor: t}})
//
// Packages safetensors, npy (with npz) and gguf implement the formats, and their documentation says which files they
// accept. The contents of a file decide its format. Only this package opens files: the packages of the formats work on
// bytes in memory.
//
//	function                   result
//	Open, OpenSet              one file, or all files of a safetensors index, as one File
//	File.Entries, File.Find    descriptions of all tensors, and of one; these need no cgo
//	File.Metadata              the metadata of the file; needs no cgo
//	File.Tensor, File.Tensors  a tensor, and all of them, in the memory of the file
//	File.Copy                  a copy of a tensor in new memory, read from the file
//	File.AppendBytes           the unchanged bytes of a tensor, read from the file; needs no cgo
//	File.Verify                ErrChanged if the file has changed since it was opened
//	Write                      a new file, which replaces an old file of the same name
//
// # Ownership
//
// A File has a mapping of the file and a descriptor. Its tensors are views of the mapping, which stays until the File
// and the last tensor are closed. So the tensors stay valid after the File is closed, and after the file is renamed,
// replaced or deleted. They are read-only, and the system enforces this: a consumer that writes to them ends the
// process. For npy files, the option [Writable] makes the tensors writable. Writing to them then changes the file.
//
// # A file that changes
//
// The system lets other programs change a mapped file. Bytes that these programs write into the file appear in the
// tensors. If they make the file shorter, the pages after its new end are gone, and reading them ends the process by
// SIGBUS. So replace a file, as [Write] does, instead of writing to it: tensors of the old file then stay unchanged.
//
// If this package itself reads a page that is gone, it returns [ErrChanged]. [Open] reads the mapping. [File.Tensor]
// and [File.Copy] read the mapping if they inflate elements or reverse their bytes. For all other tensors, Copy reads
// the file instead of the mapping. [File.AppendBytes] always reads the file. [Write] also returns an error if a page of
// a row-major tensor is gone. If it must copy a tensor because of its layout, C code does so, and SIGBUS ends the
// process. If other programs may shorten a file, a Go program that reads its tensors can call
// [runtime/debug.SetPanicOnFault]; C has no equivalent. [File.Verify] checks afterwards whether a file has changed.
//
// # Strictness
//
// [Open] accepts regular files and links to them. It refuses directories, FIFOs, sockets and devices before it opens
// them, so it never waits for them. It also refuses empty files, and files whose size the system reports as 0, such as
// the files of /proc.
//
// # Memory
//
// Opening a file takes memory for the descriptions of its tensors: at most 16 bytes for each byte of the descriptions
// in the file, plus the memory that the package of the format takes. The elements take no memory until they are read.
//
// The package needs Linux or macOS.
package files
