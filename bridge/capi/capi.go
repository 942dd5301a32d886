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
	"syscall"
	"unicode/utf8"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/panics"
	_ "github.com/dlbridge/dlbridge/bridge/internal/segment" // handover.h
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	_ "github.com/dlbridge/dlbridge/include"        // dlbridge.h
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
	"github.com/dlbridge/dlbridge/tens"
)

// codedError is an error that has a code.
type codedError struct {
	error
	code C.int32_t
}

func (e *codedError) Unwrap() error { return e.error }

// errMemory reports that C memory cannot be allocated.
var errMemory = errors.New("dlbridge: out of memory")

// injectFault is called with 1 at the beginning of every call from C, and with 2 just before a message or value is complete. Only
// tests set it: see fault_injection.go.
var injectFault func(at int)

// guard runs a call from C, sets e, which may be nil, and returns the code of the error. An error without a code gets
// the given code. The text of an error begins with the name of the C function, which name returns.
func guard(name func() string, e *C.dlb_error, code C.int32_t, call func() error) C.int32_t {
	fault, err := try(call)
	if err != nil {
		if fault == C.DLB_OK {
			fault = codeOf(err, code)
		}
		return report(name, e, fault, err.Error())
	}
	if e != nil {
		e.code, e.message[0] = C.DLB_OK, 0
	}
	return C.DLB_OK
}

// try runs a call from C. It turns panics, which must not unwind into C, and faults in the caller's memory, such as a
// mapped file that was truncated, into errors, and returns their code.
func try(call func() error) (fault C.int32_t, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	returned := false
	defer func() {
		if returned {
			return
		}
		fault, err = caught(recover()) // nil after panic(nil) with GODEBUG=panicnil=1, and after runtime.Goexit
	}()
	if injectFault != nil {
		injectFault(1)
	}
	err = call()
	returned = true
	return C.DLB_OK, err
}

// caught returns the code and the error of a panic. A fault in this library is a fault in memory that C has passed, not
// a panic.
func caught(value any) (C.int32_t, error) {
	p := panics.Recovered(value, entryTry, entryServe)
	at, isFault := value.(interface{ Addr() uintptr })
	if !isFault {
		return C.DLB_ERROR_INTERNAL, panicked(p, "panic: "+p.Text(mostPanicText))
	}
	text := fmt.Sprintf("the memory at %#x cannot be accessed", at.Addr())
	if p.Entry == entryTry {
		return C.DLB_ERROR_ARGUMENT, errors.New("dlbridge: " + text)
	}
	return C.DLB_ERROR_ARGUMENT, panicked(p, text)
}

// of returns a function that returns op, the name of a C function.
func of(op *C.dlbcapi_name) func() string {
	return func() string { return C.GoString((*C.char)(unsafe.Pointer(op))) }
}

func codeOf(err error, otherwise C.int32_t) C.int32_t {
	if errors.Is(err, errMemory) || errors.Is(err, dlpack.ErrMemory) {
		return C.DLB_ERROR_MEMORY
	}
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code
	}
	if otherwise == C.DLB_ERROR_FORMAT {
		return otherwise // every other error of a decoder is caused by its input
	}
	for _, row := range []struct {
		cause error
		code  C.int32_t
	}{
		{errtext.ErrArgument, C.DLB_ERROR_ARGUMENT}, // first, because of rules that name an unknown type
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
		{elements.ErrHeader, C.DLB_ERROR_FORMAT},
		{elements.ErrTruncated, C.DLB_ERROR_FORMAT},
		{files.ErrChanged, C.DLB_ERROR_SYSTEM},
	} {
		if errors.Is(err, row.cause) {
			return row.code
		}
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return C.DLB_ERROR_SYSTEM
	}
	return otherwise
}

// report sets a dlb_error to a code and a text, and returns the code. It does not call name if the dlb_error is nil.
// The text begins with the name of the C function, if there is one, instead of "dlbridge", and its ways out name
// functions of C. A NUL in the text would end the C string; it becomes "\x00". A text that is too long is cut between
// characters.
func report(name func() string, e *C.dlb_error, code C.int32_t, text string) C.int32_t {
	if e == nil {
		return code
	}
	if name := name(); name != "" && !strings.HasPrefix(text, name+": ") {
		text = name + ": " + strings.TrimPrefix(text, "dlbridge: ")
	}
	e.code = code
	text = strings.ReplaceAll(errtext.InC(text), "\x00", `\x00`)
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

// newList returns a list for n views of C memory. A long list is itself in C memory, because a failed allocation of Go
// memory would end the process. free must be called once, and the list must not be used afterwards. After an error free
// is nil.
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

// viewList returns a list with view(s) for each structure s of C: a view of the memory to which s points. free must be
// called once, and the list must not be used afterwards (see newList). After an error free is nil.
func viewList[S any, T []byte | string](in []S, view func(S) T) (list []T, free func(), err error) {
	if list, free, err = newList[T](len(in)); err != nil {
		return nil, nil, err
	}
	for i := range in {
		list[i] = view(in[i])
	}
	return list, free, nil
}

// Upper bounds of the Go memory that a call uses, in bytes: for each byte of a label or of rules, and for each tensor
// and each dimension to encode.
const (
	perByte      = 48
	perTensor    = 1 << 10
	perDimension = 64
)

// limitOf returns the limit, in bytes of memory, that DLB_LIMIT has put into the options of a decoder, or the second
// argument if there is no limit.
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
