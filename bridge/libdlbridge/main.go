//go:build cgo

// Command libdlbridge is the C shared library: package capi, linked as a shared library.
//
// build.sh builds it for installation. The library then has a SONAME and exports only dlb_*, and the library without
// Go, libdlbridge_tensor, lies beside it. A plain `go build -buildmode=c-shared` makes one library that works in the
// same way but also contains the library without Go. A program that loads both this library and libdlbridge_tensor has
// two copies of the library without Go, with separate counters.
package main

import _ "github.com/dlbridge/dlbridge/bridge/capi"

func main() {}
