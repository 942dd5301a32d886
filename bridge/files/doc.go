// Package files opens files of tensors without copying them, and writes them. It is for programs that read models and arrays, also from
// people they do not trust, and hand the tensors to C, Python or other libraries.
//
//	f, err := files.Open("model.safetensors")       // maps the file, and checks all that it says about its tensors
//	defer f.Close()
//	for _, e := range f.Entries() { fmt.Println(e) } // names, types, shapes and places
//	t, err := f.Tensor("model.embed_tokens.weight") // a tensor in the memory of the file; nothing is read yet
//	defer t.Close()
//
//	err = files.Write("copy.safetensors", []files.Named{{Name: "weight", Tensor: t}})
//
// The formats are those of packages safetensors, npy (with npz) and gguf, which say what they accept. The contents of a file decide its
// format. Only this package opens files: the packages of the formats work on bytes in memory.
//
//	function                   result
//	Open, OpenSet              a file, and all files of an index of safetensors, as one File
//	File.Entries, File.Find    descriptions of all tensors, and of one; these need no cgo
//	File.Metadata              what the file says beside its tensors; needs no cgo
//	File.Tensor, File.Tensors  a tensor, and all of them, in the memory of the file
//	File.Copy                  a tensor in memory of its own, by reading the file
//	File.AppendBytes           the bytes of a tensor as they are in the file, by reading it; needs no cgo
//	File.Verify                ErrChanged if the file is not as it was when it was opened
//	Write                      a new file, in place of an old one of the name or of none
//
// # Ownership
//
// A File has a mapping of the file and a descriptor. Its tensors are views of the mapping, which stays until the File and the last tensor are
// closed. So they stay valid after Close of the File, and after the file was renamed, replaced or deleted. They are read-only, and the
// system enforces that: a consumer that writes nevertheless ends the process.
// With the option [Writable], for npy, they are writable, and what is written changes the file.
//
// # A file that changes
//
// The system lets other programs change a file that is mapped. What they write into it appears in the tensors. If they make it shorter, the
// pages behind its new end are gone, and to read them ends the process by SIGBUS. So a file should be replaced, as [Write] does, and not
// written to: tensors of the old file then stay as they are.
//
// This package's own reads of the mapping return [ErrChanged] for a page that is gone: in [Open], and where [File.Tensor] or [File.Copy]
// inflates elements or reverses their bytes. For all other tensors, Copy reads the file and not the mapping, as [File.AppendBytes] does. A Go
// program that reads tensors of files that others may cut can call [runtime/debug.SetPanicOnFault]; C has no equivalent. [File.Verify] checks
// afterwards whether a file has changed.
//
// # Strictness
//
// [Open] accepts regular files, and links to them. It refuses directories, FIFOs, sockets and devices before it opens them, and so never waits
// for them. It also refuses empty files, and files whose size the system reports as 0, such as those of /proc.
//
// # Memory
//
// Opening a file takes memory for the descriptions of its tensors: at most 16 times as many bytes as describe them in the file, beside what
// the package of the format takes. The elements take none until somebody reads them.
//
// The package needs Linux or macOS.
package files
