// Package capi is the C interface of dlbridge, declared in dlbridge.h, for programs in languages other than Go.
//
// Importing the package links the C interface into a program. Package libdlbridge imports it to build the shared library
// libdlbridge. Any other main package that is built with -buildmode=c-shared or c-archive may import it too, so that its
// process needs only one Go runtime. [Serve] is the body of the exported functions of such a program.
//
// # Design notes
//
// The C files without _cgo_export.h are plain C on the C core of package dlpack: tensors, access to messages, and the
// memory of values. They enter Go only through a function pointer (dlbcapi_counting), and never in a
// forked child. Therefore they work on any thread, at any time, and in a forked child. Those with the line
// "go:build !dlbridge_shared" make up libdlbridge_tensor, a library without Go (tensor.c of package libdlbridge). Decoding and
// encoding is done in Go: tens.c and elements.c check arguments and call the Go files of the same names. formats.h and formats.go
// have a row for each format.
//
// Go describes and C owns. During a call, Go reads the caller's frames and tensors through views that own nothing, and
// writes a description into C memory. C takes frames and tensors over after Go has returned, so that an error at any
// point leaves the caller the owner of everything. C keeps no Go pointer.
//
// The library recognises objects that were released or taken over. Messages and elements are in slabs that are never
// freed (registry.c). Tensors and frames are exports, whose control blocks are never freed either. A control block that
// is taken over is marked. Its deleter then has no effect, because only the former owner can have called it; the new
// owner ends the block itself (dlbcore_block_end).
//
// Reading an address without memory is a fault. In Go code, the fault becomes an error (see guard). The Go runtime ends
// the process when Go memory runs out. Therefore elements that are assembled, and long lists, are in C memory (see
// newList and payload.Scratch), and dlpack.RequireMemory checks all other memory that grows with the input in advance.
package capi

/*
#cgo CFLAGS: -std=gnu11 -D_GNU_SOURCE -O2 -fno-omit-frame-pointer -I${SRCDIR}/../../include -I${SRCDIR}/../../dlpack/internal/core -I${SRCDIR}/../internal/segment
#include "message.h"

#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	_ "github.com/dlbridge/dlbridge/bridge/internal/segment" // handover.h
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	_ "github.com/dlbridge/dlbridge/include"        // dlbridge.h
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
	"github.com/dlbridge/dlbridge/tens"
)

// errMemory reports that C memory cannot be allocated.
var errMemory = errors.New("dlbridge: out of memory")

// injectFault is called with 1 at the beginning of every call from C, and with 2 just before a message or value is complete. Only
// tests set it: see fault_injection.go.
var injectFault func(at int)

// guard runs a call from C, sets e, which may be nil, and returns the code of the error. It also converts panics, which
// must not unwind into C, and faults in the caller's memory, such as a mapped file that was truncated. An error without
// a code of its own gets the given code.
func guard(e *C.dlb_error, code C.int32_t, call func() error) (status C.int32_t) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	returned := false
	defer func() {
		if returned {
			return
		}
		switch r := recover().(type) { // nil after panic(nil) with GODEBUG=panicnil=1, and after runtime.Goexit
		case interface{ Addr() uintptr }:
			status = report(e, C.DLB_ERROR_ARGUMENT, fmt.Sprintf("dlbridge: the memory at %#x cannot be accessed", r.Addr()))
		default:
			status = report(e, C.DLB_ERROR_INTERNAL, fmt.Sprintf("dlbridge: panic: %v", r))
		}
	}()
	if injectFault != nil {
		injectFault(1)
	}
	if err := call(); err != nil {
		status = report(e, codeOf(err, code), err.Error())
	} else if e != nil {
		e.code, e.message[0] = C.DLB_OK, 0
	}
	returned = true
	return status
}

func codeOf(err error, otherwise C.int32_t) C.int32_t {
	if errors.Is(err, errMemory) || errors.Is(err, dlpack.ErrMemory) {
		return C.DLB_ERROR_MEMORY
	}
	if otherwise == C.DLB_ERROR_FORMAT {
		return otherwise // every other error of a decoder is caused by its input
	}
	switch errtext.KindOf(err) {
	case errtext.Layout:
		return C.DLB_ERROR_LAYOUT
	case errtext.DType:
		return C.DLB_ERROR_DTYPE
	case errtext.Argument:
		return C.DLB_ERROR_ARGUMENT
	}
	for _, row := range []struct {
		cause error
		code  C.int32_t
	}{
		{dlpack.ErrNull, C.DLB_ERROR_NULL},
		{dlpack.ErrVersion, C.DLB_ERROR_VERSION},
		{dlpack.ErrDType, C.DLB_ERROR_DTYPE},
		{dlpack.ErrDevice, C.DLB_ERROR_DEVICE},
		{dlpack.ErrLayout, C.DLB_ERROR_LAYOUT},
		{dlpack.ErrOverflow, C.DLB_ERROR_OVERFLOW},
		{tens.ErrFrameTooLarge, C.DLB_ERROR_OVERFLOW},
		{dlpack.ErrReadOnly, C.DLB_ERROR_READONLY},
		{dlpack.ErrUnaligned, C.DLB_ERROR_UNALIGNED},
		{dlpack.ErrValue, C.DLB_ERROR_ARGUMENT},
		{dlpack.ErrClosed, C.DLB_ERROR_ARGUMENT},
		{dlpack.ErrBorrowed, C.DLB_ERROR_ARGUMENT},
		{layout.ErrNegative, C.DLB_ERROR_LAYOUT},
		{layout.ErrOverflow, C.DLB_ERROR_OVERFLOW},
	} {
		if errors.Is(err, row.cause) {
			return row.code
		}
	}
	return otherwise
}

// report sets a dlb_error, which may be nil, to a code and a text, and returns the code. A NUL in the text, with which a string of C
// ends, becomes "\x00". A text that is too long is cut between characters.
func report(e *C.dlb_error, code C.int32_t, text string) C.int32_t {
	if e == nil {
		return code
	}
	e.code = code
	text = strings.ReplaceAll(text, "\x00", `\x00`)
	room := unsafe.Slice((*byte)(unsafe.Pointer(&e.message[0])), len(e.message))
	if limit := len(room) - 1; len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	room[copy(room, text)] = 0
	return code
}

// view returns C memory as a slice, which is valid during the call.
func view(data unsafe.Pointer, size C.size_t) []byte {
	if size == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(data), int(size))
}

// maxGoList is the largest length of a list in Go memory.
const maxGoList = 1 << 10

// newList returns a list for n views of C memory. A long list is in C memory itself, because a failed allocation of Go
// memory would end the process. free must be called once, and the list must not be used afterwards. After an error free is
// nil.
func newList[T []byte | string](n int) (list []T, free func(), err error) {
	if n <= maxGoList {
		return make([]T, n), func() {}, nil
	}
	memory := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(*new(T))))
	if memory == nil {
		return nil, nil, errMemory
	}
	return unsafe.Slice((*T)(memory), n), func() { C.free(memory) }, nil
}

// viewList returns a list with the result of the argument view for each structure of C: a view of the memory to which the
// structure points. free must be called once, and the list must not be used afterwards (see newList). After an error free
// is nil.
func viewList[S any, T []byte | string](in []S, view func(S) T) (list []T, free func(), err error) {
	if list, free, err = newList[T](len(in)); err != nil {
		return nil, nil, err
	}
	for i := range in {
		list[i] = view(in[i])
	}
	return list, free, nil
}

// Upper bounds of the Go memory that a call uses, in bytes: for each byte of a label or of rules, and for each tensor and
// each dimension that it encodes.
const (
	perByte      = 48
	perTensor    = 1 << 10
	perDimension = 64
)

// limitOf returns the limit, in bytes of memory, that DLB_LIMIT has put into the options of a decoder, or the second
// argument if there is none.
func limitOf(options C.uint64_t, otherwise int64) int64 {
	if limit := options / limitUnit; limit > 0 {
		return int64(limit)
	}
	return otherwise
}

// limitUnit is the factor by which DLB_LIMIT multiplies a limit, so that it occupies the bits from 16 on. The 16 bits below
// hold the other options.
const limitUnit = 1 << 16

func viewText(b C.dlb_bytes) []byte { return view(unsafe.Pointer(b.data), b.size) }

// viewString returns C memory as a string, which is valid during the call.
func viewString(b C.dlb_bytes) string {
	text := viewText(b)
	return unsafe.String(unsafe.SliceData(text), len(text))
}
