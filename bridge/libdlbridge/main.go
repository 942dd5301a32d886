//go:build cgo

// Command libdlbridge is the C shared library: package capi, linked as a shared library.
//
// build.sh builds it for installation. The result has a SONAME, exports only names that begin with dlb_, and is linked
// to libdlbridge_tensor, the library without Go. A plain `go build -buildmode=c-shared` makes a library that works the
// same, but contains libdlbridge_tensor. A program that loads both libraries then has two copies of libdlbridge_tensor,
// with separate counters.
package main

import _ "github.com/dlbridge/dlbridge/bridge/capi"

func main() {}
