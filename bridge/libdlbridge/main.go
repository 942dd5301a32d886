// Command libdlbridge is the C shared library: package capi, linked as one.
//
// build.sh builds it as it is to be installed, with a SONAME, only dlb_* exported, and the C half in a library of its own,
// libdlbridge_tensor, that works without Go. A plain `go build -buildmode=c-shared` makes one library that works the same, is
// whole in itself, and so is another library to a program that also loads libdlbridge_tensor.
package main

import _ "github.com/dlbridge/dlbridge/bridge/capi"

func main() {}
