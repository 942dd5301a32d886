//go:build cgo

package tvmffi

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/dlbridge/dlbridge/dlpack"
)

// The causes of errors, besides those of package dlpack: [dlpack.ErrUnaligned],
// [dlpack.ErrReadOnly], [dlpack.ErrClosed] and the others.
var (
	// ErrLibrary: libtvm_ffi or libtvm_runtime is not to be found, or is none that is known here.
	ErrLibrary = errors.New("library not loaded")
	// ErrNotFound: there is no function of that name.
	ErrNotFound = errors.New("no such function")
	// ErrRuntime: a module has parallel loops, and libtvm_runtime is not loaded ([LoadRuntime]).
	ErrRuntime = errors.New("libtvm_runtime is needed")
	// ErrArgument: a Go value that TVM-FFI has no form of, or too many of them.
	ErrArgument = errors.New("unsupported argument")
)

// The kinds of errors that Python has an exception for. Any other kind arrives there as a
// RuntimeError, also BufferError and OSError, until Python has told TVM-FFI of a class of that name:
// tvm_ffi.register_error("BufferError", BufferError).
const (
	RuntimeError   = "RuntimeError"
	ValueError     = "ValueError"
	TypeError      = "TypeError"
	AttributeError = "AttributeError"
	KeyError       = "KeyError"
	IndexError     = "IndexError"
	AssertionError = "AssertionError"
	MemoryError    = "MemoryError"
)

// An Error is one that crosses TVM-FFI: what a function that was called has raised, or what a Go
// function raises (see [Errorf]).
//
// What a Go function returns is raised with the kind it has, also where it came from a Python
// function that was called: a class that was registered with TVM-FFI arrives as itself, as a new
// exception with the same text and the traceback of both. Of any other class TVM-FFI keeps nothing
// but the text, when the Python function raises it: it is a RuntimeError before Go sees it.
type Error struct {
	Kind      string // ValueError and so on
	Message   string
	Backtrace string // of TVM-FFI's, the innermost call first; may be empty
	// Function is the name of the function that was called from Go, and empty elsewhere.
	Function string
}

func (e *Error) Error() string {
	text := e.Kind + ": " + e.Message
	if e.Function != "" {
		text = "tvmffi: " + e.Function + ": " + text
	}
	return text
}

// Errorf makes an error of a kind for a Go function to return: in Python it is the exception of
// that name. Errors without a kind become TypeErrors where the cause is [dlpack.ErrDType],
// MemoryErrors where it is [dlpack.ErrMemory], ValueErrors for the other causes of package dlpack,
// and RuntimeErrors otherwise.
func Errorf(kind, format string, values ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, values...)}
}

// A refusal is an error of this package: what, and the cause.
type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return "tvmffi: " + r.text }
func (r *refusal) Unwrap() error { return r.cause }

func deny(cause error, format string, values ...any) error {
	return &refusal{fmt.Sprintf(format, values...), cause}
}

// refuse is deny with a place in front of the text.
func refuse(where string, cause error, format string, values ...any) error {
	return deny(cause, "%s: %s", where, fmt.Sprintf(format, values...))
}

// at says at which place something of this package, or of package dlpack, was refused.
func at(place string, err error) error {
	var r *refusal
	var d *dlpack.Error
	switch {
	case errors.As(err, &r):
		return refuse(place, r.cause, "%s", r.text)
	case errors.As(err, &d):
		return refuse(place, d.Err, "%s", d.Where)
	}
	return refuse(place, err, "%v", err)
}

// kindOf says what an error that a Go function returned is for TVM-FFI.
func kindOf(err error) (kind, message, backtrace string) {
	var e *Error
	if errors.As(err, &e) {
		if error(e) == err {
			return e.Kind, e.Message, e.Backtrace
		}
		return e.Kind, err.Error(), e.Backtrace
	}
	kind = RuntimeError
	for _, row := range kinds {
		if errors.Is(err, row.cause) {
			kind = row.kind
			break
		}
	}
	return kind, err.Error(), ""
}

var kinds = []struct {
	cause error
	kind  string
}{
	{ErrArgument, TypeError},
	{dlpack.ErrDType, TypeError},
	{dlpack.ErrMemory, MemoryError},
	{dlpack.ErrVersion, ValueError},
	{dlpack.ErrDevice, ValueError},
	{dlpack.ErrLayout, ValueError},
	{dlpack.ErrOverflow, ValueError},
	{dlpack.ErrReadOnly, ValueError},
	{dlpack.ErrClosed, ValueError},
	{dlpack.ErrUnaligned, ValueError},
	{dlpack.ErrNull, ValueError},
	{dlpack.ErrBorrowed, ValueError},
	{dlpack.ErrValue, ValueError},
}

// panicked makes an error of a panic, with the Go frames from the panic to the function's entry.
func panicked(value any) error {
	var frames strings.Builder
	pcs := make([]uintptr, 64)
	more := true
	for stack := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]); more; {
		var frame runtime.Frame
		frame, more = stack.Next()
		if strings.HasSuffix(frame.Function, "tvmffi.Serve") {
			break
		}
		if !strings.HasPrefix(frame.Function, "runtime.") {
			fmt.Fprintf(&frames, "  File %q, line %d, in %s\n", frame.File, frame.Line, frame.Function)
		}
	}
	return &Error{Kind: RuntimeError, Message: fmt.Sprintf("panic: %v", value), Backtrace: frames.String()}
}
