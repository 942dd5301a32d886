// Package capi is the C interface of dlbridge, declared in dlbridge.h, for programs that are not Go.
//
// The package is linked by importing it: package libdlbridge does, which makes the shared library
// libdlbridge, and any other main package that is built with -buildmode=c-shared or c-archive may do so
// to be a dlbridge library too, so that one process needs one Go runtime. It has nothing to call from Go.
//
// # Design notes
//
// Tensors, and messages once they are made, are C: tensor.c and tens_message.c stand on the C core that
// package dlpack brings along, and never enter Go. They work on any thread at any time, in a forked
// child too. Only reading and writing is Go's: tens.c, decthings.c and tensorflow.c
// check arguments and call the Go functions of the files of the same names.
//
// Go describes and C owns. While it is called, Go reads the caller's frames and tensors as views that
// own nothing, and leaves a description in C memory. The holds on frames and tensors are made in C
// afterwards, so that an error at any point leaves the caller everything. No Go pointer is kept in C.
//
// What a program holds of ours can be told from what it has given back, or handed over, already: messages and
// elements lie in slabs that are never freed (registry.c), tensors and frames that were handed out are exports, whose
// blocks are not either. A block that is taken over says so. Its deleter then does nothing, since that call can only
// come from the former holder; the hold ends the block by itself (core_block_end). A pointer into memory that is not there faults; where it is Go that follows it, the
// fault is an error like others. Go's own memory cannot run out without ending the process, so that elements that are put
// together, and long lists, are C memory (see newList, and payload.Scratch), and what else grows with the input is asked
// for before, by dlpack.RequireMemory.
package capi

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../../dlpack/internal/core
#include "capi.h"

#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	_ "github.com/dlbridge/dlbridge/include"        // dlbridge.h
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
	"github.com/dlbridge/dlbridge/tens"
)

// errMemory says that C has no memory left.
var errMemory = errors.New("dlbridge: out of memory")

// fault is called at the beginning of every call from C, with 1, and when a message is all but made, with
// 2. Only tests set it: see fault_injection.go.
var fault func(at int)

// guard runs a call from C. It is the one place where errors become codes, and where panics end: those
// must not unwind into C. So do faults, in memory of the caller's that is not what it was said to be: a file
// that was mapped and then cut, say. Errors that say nothing of their own are of the code given.
func guard(e *C.dlb_error, code C.int32_t, call func() error) (status C.int32_t) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			status = report(e, C.DLB_ERROR_ARGUMENT, fmt.Sprintf("dlbridge: the memory at %#x cannot be used", r.Addr()))
		default:
			status = report(e, C.DLB_ERROR_INTERNAL, fmt.Sprintf("dlbridge: panic: %v", r))
		}
	}()
	if fault != nil {
		fault(1)
	}
	if err := call(); err != nil {
		return report(e, codeOf(err, code), err.Error())
	}
	return report(e, C.DLB_OK, "")
}

func codeOf(err error, otherwise C.int32_t) C.int32_t {
	if errors.Is(err, errMemory) || errors.Is(err, dlpack.ErrMemory) {
		return C.DLB_ERROR_MEMORY
	}
	if otherwise == C.DLB_ERROR_FORMAT {
		return otherwise // whatever it is, it comes from the message
	}
	for _, row := range []struct {
		cause error
		code  C.int32_t
	}{
		{dlpack.ErrNull, C.DLB_ERROR_NULL},
		{dlpack.ErrVersion, C.DLB_ERROR_VERSION},
		{dlpack.ErrDType, C.DLB_ERROR_DTYPE},
		{elements.ErrDType, C.DLB_ERROR_DTYPE},
		{dlpack.ErrDevice, C.DLB_ERROR_DEVICE},
		{dlpack.ErrLayout, C.DLB_ERROR_LAYOUT},
		{dlpack.ErrOverflow, C.DLB_ERROR_OVERFLOW},
		{tens.ErrFrameTooLarge, C.DLB_ERROR_OVERFLOW},
		{dlpack.ErrReadOnly, C.DLB_ERROR_READONLY},
		{dlpack.ErrUnaligned, C.DLB_ERROR_UNALIGNED},
		{decthings.ErrRules, C.DLB_ERROR_ARGUMENT},
		{decthings.ErrType, C.DLB_ERROR_DTYPE},
		{decthings.ErrRuleType, C.DLB_ERROR_DTYPE},
		{decthings.ErrRuleShape, C.DLB_ERROR_LAYOUT},
		{decthings.ErrRank, C.DLB_ERROR_LAYOUT},
		{elements.ErrDType, C.DLB_ERROR_DTYPE},
		{tensorflow.ErrRank, C.DLB_ERROR_LAYOUT},
		{layout.ErrNegative, C.DLB_ERROR_LAYOUT},
		{layout.ErrOverflow, C.DLB_ERROR_OVERFLOW},
	} {
		if errors.Is(err, row.cause) {
			return row.code
		}
	}
	return otherwise
}

// report fills an error of C's, which may be nil. Text that is too long is cut between characters.
func report(e *C.dlb_error, code C.int32_t, text string) C.int32_t {
	if e == nil {
		return code
	}
	e.code = code
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

// view is C memory as a slice, for the time of a call.
func view(data unsafe.Pointer, size C.size_t) []byte {
	if size == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(data), int(size))
}

// littleList is the most items of a list that is Go's.
const littleList = 1 << 10

// newList returns a list for n views of C memory. A longer list is C memory itself, which may be missing without an end
// to the process. The list must not be used after free, which must be called once.
func newList[T []byte | string](n int) (list []T, free func(), err error) {
	if n <= littleList {
		return make([]T, n), func() {}, nil
	}
	memory := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(*new(T))))
	if memory == nil {
		return nil, nil, errMemory
	}
	return unsafe.Slice((*T)(memory), n), func() { C.free(memory) }, nil
}

// What a call may take of Go's memory for each byte of a label or of rules, and for each tensor and dimension that it
// encodes: no less than it does.
const (
	perByte      = 48
	perTensor    = 1 << 10
	perDimension = 64
)

func viewText(b C.dlb_bytes) []byte { return view(unsafe.Pointer(b.data), b.size) }

// viewString is C memory as a string, for the time of a call.
func viewString(b C.dlb_bytes) string {
	text := viewText(b)
	return unsafe.String(unsafe.SliceData(text), len(text))
}
