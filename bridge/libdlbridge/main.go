//go:build cgo

// Command libdlbridge is the C shared library: package capi, linked as a shared library.
//
// build.sh builds it for installation: with a SONAME, with only dlb_* exported, and with the library without Go beside
// it, libdlbridge_tensor. A plain `go build -buildmode=c-shared` makes one library that works the same but also
// contains the library without Go. A program that loads both it and libdlbridge_tensor has two copies of the library
// without Go, with separate counters.
package main

import _ "github.com/dlbridge/dlbridge/bridge/capi"

func main() {}
