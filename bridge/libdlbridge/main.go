// Command libdlbridge is the C shared library: package capi, linked as one.
//
// build.sh builds it as it is to be installed, with a SONAME and only dlb_* exported. A plain
// `go build -buildmode=c-shared` makes a library that works the same and has neither.
package main

import _ "github.com/dlbridge/dlbridge/bridge/capi"

func main() {}
