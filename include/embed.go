// Package include has dlbridge.h, the header of the C interface.
//
// A C compiler finds the headers of a Go module that requires dlbridge, in the module cache or wherever a replace leads, with
//
//	cc -I"$(go list -m -f '{{.Dir}}' github.com/dlbridge/dlbridge)/include" -c program.c
//
// The package that implements the interface imports this one: the embedding makes an edited header
// rebuild it, and the Go file makes `go mod vendor` keep the folder.
package include

import _ "embed"

// Header is the text of dlbridge.h.
//
//go:embed dlbridge.h
var Header string
