// Package capi is the C interface of dlbridge, declared in dlbridge.h, for programs that are not Go.
//
// The package is linked by importing it: package libdlbridge does, which makes the shared library
// libdlbridge, and any other main package that is built with -buildmode=c-shared or c-archive may do so
// to be a dlbridge library too, so that one process needs one Go runtime. It has nothing to call from Go.
package capi

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../../dlpack
#include "capi.h"
*/
import "C"

import (
	_ "github.com/dlbridge/dlbridge/dlpack"         // the C core
	_ "github.com/dlbridge/dlbridge/include"        // dlbridge.h
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
)
