// Package dlpackheader holds dlpack.h, the declarations of the DLPack 1.3 ABI.
//
// Packages that include the header from C import this one: the embedding makes an edited header
// rebuild them, and the Go file makes `go mod vendor` keep the folder.
package dlpackheader

import _ "embed"

// Source is the text of dlpack.h.
//
//go:embed dlpack.h
var Source string
