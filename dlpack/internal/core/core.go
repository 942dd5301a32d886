//go:build cgo

// Package core has the C sources of ownership, validation and copies.
package core

// #cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../../include
// #cgo LDFLAGS: -lpthread
import "C"

import _ "github.com/dlbridge/dlbridge/include/dlpack" // keeps the header in vendor folders and in the build's inputs
