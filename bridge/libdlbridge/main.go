//go:build cgo

// Command libdlbridge is the C shared library: package capi, linked as a shared library.
//
// build.sh builds it for installation: with a SONAME, with only dlb_* exported, and with the C half in a library of its own,
// libdlbridge_tensor, that works without Go. A plain `go build -buildmode=c-shared` makes one library that works the same but
// contains the C half. A program that loads it and libdlbridge_tensor has two halves, with separate counters.
package main

import _ "github.com/dlbridge/dlbridge/bridge/capi"

func main() {}
