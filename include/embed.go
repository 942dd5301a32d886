// Package include has dlbridge.h, the header of the C interface.
//
// This command compiles a C program in a Go module that requires dlbridge. It finds the headers in the module cache, or
// in the folder of a replace directive:
//
//	cc -I"$(go list -m -f '{{.Dir}}' github.com/dlbridge/dlbridge)/include" -c program.c
//
// The package that implements the interface imports this package. The header is embedded, so that editing it rebuilds
// that package. The Go file makes `go mod vendor` keep the folder.
package include

import _ "embed"

// Header is the text of dlbridge.h.
//
//go:embed dlbridge.h
var Header string
