// Package dlpack has only dlpack.h, the C header of the DLPack 1.3 standard. Go's tensors are in
// github.com/dlbridge/dlbridge/dlpack.
//
// A Go package imports this package if its C code includes the header. The header is embedded, so that editing it rebuilds
// those packages. The Go file makes `go mod vendor` keep the folder.
package dlpack

import _ "embed"

//go:embed dlpack.h
var _ string
