// Package dlpack has only dlpack.h, the C header of the DLPack 1.3 standard. Go's tensors are in
// github.com/dlbridge/dlbridge/dlpack.
//
// Go packages whose C code includes the header import this package. The header is embedded, so that editing it rebuilds
// those packages. The Go file makes `go mod vendor` keep the folder.
package dlpack

import _ "embed"

//go:embed dlpack.h
var _ string
