//go:build cgo

package tvmffi

// #include <stdlib.h>
// #include "tvmffi.h"
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/panics"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A Handler is a Go function that TVM-FFI can call. It returns nil, a value that [Function.Call] lists as a result
// (except *[Error]), or any other integer, float or [Bytes]; a uintptr is returned as an integer. A result with a Close
// method is passed to the caller of the function and closed by this package. A string must be UTF-8 for Python to read
// it; [Bytes] may hold anything.
//
// A returned error is raised in the caller with its kind (see [Errorf]). If it is an error of package dlpack about a
// tensor of [Args.Tensor], the text names the argument. Remedies in the texts of dlbridge's errors name Python
// functions. A panic is raised as a RuntimeError. Its traceback in Python shows up to 16 Go frames, with functions,
// files and lines; [OnPanic] receives the whole stack. A panic in a goroutine that a handler has started ends the
// process, as in every Go program. If memory runs out, Go ends the process; [dlpack.New] instead returns an error if
// there is too little memory for a tensor.
//
// TVM-FFI does not tell a handler the following facts about its arguments, so a handler should document which arguments
// it accepts:
//
//   - Whether a tensor may be written. JAX's tensors must not be written. Read-only arrays of NumPy are never
//     passed.
//   - Whether PyTorch still has to conjugate or negate a tensor (conj, and imag of its result). Callers use
//     resolve_conj and resolve_neg.
//   - Whether a tensor requires a gradient.
//
// [dlbridge.wrap] of the Python package checks these facts.
//
// [dlbridge.wrap]: https://github.com/dlbridge/dlbridge/tree/main/bridge/python
type Handler func(a Args) (any, error)

// Serve calls a handler. A Go library that is built with -buildmode=c-shared becomes a module of TVM-FFI if its exported
// functions call Serve. Python loads the module with tvm_ffi.load_module. Each function has the form
//
//	//export __tvm_ffi_scale
//	func __tvm_ffi_scale(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
//		return tvmffi.Serve(scale, args, n, result)
//	}
//
// in a file of package main that imports "C". Callers use the name after __tvm_ffi_.
//
// If a handler calls [runtime.Goexit], as testing.T.FailNow does, it never returns to its caller. For a caller in Go, the
// resources of the call are released; if the caller is C, C++ or Python, Go ends the process.
//
// If the process has a version of libtvm_ffi that [Load] refuses, arguments may have another form. Serve then raises a
// RuntimeError without calling h.
//
// Ownership: args stay the caller's; the caller owns *result. Lifetime: args must be valid until Serve returns. Threads: any;
// on Linux, in a forked child of a process that has loaded Go, the function raises a RuntimeError without entering Go. On
// error: returns -1, leaves the error in the thread, and leaves *result unchanged.
func Serve(h Handler, args unsafe.Pointer, n int32, result unsafe.Pointer) (status int32) {
	if err := attachPresent(); err != nil { // this also restores Go's signal handler before h runs
		return refuse(err)
	}
	if result == nil {
		return -1
	}
	ended := false
	defer func() {
		if !ended { // The handler has called runtime.Goexit, so no caller sees a status.
			n := Args{call: result}.takeNote()
			n.end((*C.ffi_any)(result), nil, nil)
		}
	}()
	if args == nil || n < 0 {
		n = 0 // the handler reports missing arguments
	}
	status, err := handle(h, Args{args, int(n), result})
	ended = true
	if err != nil {
		status = finish(h, result, nil, err)
	}
	return status
}

// handle calls a handler, and stores its result. It returns the error for a panic. After runtime.Goexit it does not
// return. Only this distinguishes the two, because the value of a panic is nil after panic(nil) with
// GODEBUG=panicnil=1.
func handle(h Handler, a Args) (status int32, err error) {
	returned := false
	defer func() {
		if !returned {
			err = panicked(panics.Recovered(recover(), entryHandle))
		}
	}()
	v, failed := h(a)
	if v != nil || failed != nil || notes.live.Load() != 0 {
		status = finish(h, a.call, v, failed)
	}
	returned = true
	return status, nil
}

// finish ends a call: it stores the handler's result, or raises an error.
func finish(h Handler, result unsafe.Pointer, v any, err error) (status int32) {
	n := Args{call: result}.takeNote()
	if n.err != nil { // this error comes first, because the handler's error may be its consequence
		kind, text, _ := kindOf(n.err)
		err = Errorf(kind, "%s: %s", h.name(), text)
	}
	err = n.aboutArgument(h, err)
	if err = n.end((*C.ffi_any)(result), v, err); err != nil {
		raise(err)
		return -1
	}
	return 0
}

// aboutArgument returns the error of a handler. If package dlpack says which argument the error is about, the text has
// the index of that argument instead of the operation of package dlpack.
func (n *note) aboutArgument(h Handler, err error) error {
	e, ok := errors.AsType[*dlpack.Error](err)
	if !ok {
		return err
	}
	for _, c := range n.closers {
		if t, ok := c.value.(*dlpack.Tensor); !ok || !e.IsAbout(t) {
			continue
		}
		kind, text, backtrace := kindOf(err)
		named := fmt.Sprintf("argument %d: %s", c.index, e.Where)
		if text == e.Error() {
			text = h.name() + ": " + named
		} else {
			text = strings.Replace(text, e.Error(), named, 1)
		}
		return &Error{Kind: kind, Message: text, Backtrace: backtrace}
	}
	return err
}

// end stores the result of a call. It closes the result and the borrowed arguments of the call, even after a panic.
func (n *note) end(result *C.ffi_any, v any, err error) error {
	defer func() {
		for _, c := range n.closers {
			c.value.Close()
		}
	}()
	if v == nil {
		return err
	}
	defer dispose(v)
	if err == nil {
		err = store(result, v)
	}
	return err
}

// raise leaves an error in this thread for the caller of the function, with remedies for Python. It makes the texts
// valid UTF-8, because Python would otherwise raise an error about their encoding instead.
func raise(err error) {
	if !attached() { // nobody could read the error
		return
	}
	kind, message, backtrace := kindOf(err)
	kind, message, backtrace = validUTF8(kind), validUTF8(errtext.InPython(message)), validUTF8(backtrace)
	C.ffi_raise(chars(kind), C.size_t(len(kind)), chars(message), C.size_t(len(message)), chars(backtrace), C.size_t(len(backtrace)))
}

// refuse leaves an error in this thread for the caller of the function: the reason why libtvm_ffi cannot be used.
func refuse(why error) int32 {
	text := C.CString(newError(ErrLibrary, "serve: %v", why).Error())
	defer C.free(unsafe.Pointer(text))
	return int32(C.ffi_refuse(text))
}

func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// name returns the name of the handler's Go function without its package, such as "func1" for a function literal, or "nil".
func (h Handler) name() string {
	if h == nil {
		return "nil"
	}
	name := strings.TrimSuffix(runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name(), "[...]") // of a generic function
	return name[strings.LastIndexByte(name, '.')+1:]
}
