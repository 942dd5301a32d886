// Package dlpack has dlpack.h, the C header of the DLPack 1.3 standard, and nothing for Go: tensors are in
// github.com/dlbridge/dlbridge/dlpack.
//
// Packages that include the header from C import this one: the embedding makes an edited header
// rebuild them, and the Go file makes `go mod vendor` keep the folder.
package dlpack

import _ "embed"

//go:embed dlpack.h
var _ string
