//go:build cgo

package tvmffi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dlbridge/dlbridge/bridge/internal/panics"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The causes of errors, in addition to those of package dlpack, such as [dlpack.ErrUnaligned], [dlpack.ErrReadOnly] and
// [dlpack.ErrClosed].
var (
	// ErrLibrary reports that libtvm_ffi or libtvm_runtime is not loaded or cannot be loaded, for example because it
	// was not found or has an unknown version, or because a path does not name a regular file.
	ErrLibrary = errors.New("library not loaded")
	// ErrNotFound reports that there is no function of the given name.
	ErrNotFound = errors.New("no such function")
	// ErrRuntime reports that a module calls libtvm_runtime, for example for parallel loops, but this library is not
	// loaded ([LoadRuntime]).
	ErrRuntime = errors.New("libtvm_runtime is needed")
	// ErrArgument reports a Go value that TVM-FFI cannot represent, too many arguments, or a result whose type is not the
	// type requested by [As].
	ErrArgument = errors.New("unsupported argument")
)

// The kinds of errors that arrive in Python as the exception of the same name. Errors of any other kind, including
// BufferError and OSError, arrive as a RuntimeError. They arrive as their own class once Python has registered a class
// of that name with TVM-FFI: tvm_ffi.register_error("BufferError", BufferError).
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

// An Error is an error that crosses TVM-FFI: an error that a called function has raised, or an error that a Go function raises
// (see [Errorf]).
//
// An Error that a Go function returns is raised with its kind, even if it came from a Python function that Go called. If the
// Python class of the error is registered with TVM-FFI, the error arrives as a new exception of that class, with the same
// text and both tracebacks. TVM-FFI turns exceptions of all other classes into RuntimeErrors with the same text before Go
// sees them.
type Error struct {
	Kind      string // ValueError and so on
	Message   string
	Backtrace string // in the form of TVM-FFI, the innermost call first; may be empty
	// Function is the name of the function that Go called, and is empty for other errors.
	Function string
}

func (e *Error) Error() string {
	text := e.Kind + ": " + e.Message
	if e.Function != "" {
		text = "tvmffi: " + e.Function + ": " + text
	}
	return text
}

// Errorf returns an *[Error] of the given kind, which a Go function can return. It formats like [fmt.Sprintf], which
// has no %w. An error that wraps an [*Error] is raised with its kind. Any other error is raised as a TypeError if its
// cause is [dlpack.ErrDType] or [ErrArgument], a MemoryError if it is [dlpack.ErrMemory], a ValueError for the other
// causes of package dlpack, and a RuntimeError otherwise.
func Errorf(kind, format string, values ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, values...)}
}

// A causedError is an error of this package: a text and a cause.
type causedError struct {
	text  string
	cause error
}

func (e *causedError) Error() string { return "tvmffi: " + e.text }
func (e *causedError) Unwrap() error { return e.cause }

func newError(cause error, format string, values ...any) error {
	return &causedError{fmt.Sprintf(format, values...), cause}
}

// at puts a place before the text of an error. An error of this package or of package dlpack keeps its cause; any other
// error becomes the cause.
func at(place string, err error) error {
	var r *causedError
	var d *dlpack.Error
	switch {
	case errors.As(err, &r):
		return newError(r.cause, "%s: %s", place, r.text)
	case errors.As(err, &d):
		return newError(d.Err, "%s: %s", place, d.Where)
	}
	return newError(err, "%s: %v", place, err)
}

var errNil = newError(dlpack.ErrNull, "it is nil; pass nil without a type for None")

func errClosed(where string) error { return newError(dlpack.ErrClosed, "%s: it is closed", where) }

func errNotLoaded(where string) error {
	return newError(ErrLibrary, "%s: libtvm_ffi is not loaded; call Load first", where)
}

// kindOf returns the kind, the message and the backtrace with which TVM-FFI raises an error that a Go function returned.
func kindOf(err error) (kind, message, backtrace string) {
	var e *Error
	if errors.As(err, &e) {
		if error(e) == err {
			return e.Kind, e.Message, e.Backtrace
		}
		return e.Kind, err.Error(), e.Backtrace
	}
	for _, row := range kinds {
		if slices.ContainsFunc(row.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			return row.kind, err.Error(), ""
		}
	}
	return RuntimeError, err.Error(), ""
}

// kinds gives a kind to errors that are not an [*Error], according to their causes. The first match counts.
var kinds = []struct {
	kind   string
	causes []error
}{
	{TypeError, []error{ErrArgument, dlpack.ErrDType}},
	{MemoryError, []error{dlpack.ErrMemory}},
	{ValueError, []error{
		dlpack.ErrVersion, dlpack.ErrDevice, dlpack.ErrLayout, dlpack.ErrOverflow, dlpack.ErrReadOnly, dlpack.ErrClosed,
		dlpack.ErrUnaligned, dlpack.ErrNull, dlpack.ErrBorrowed, dlpack.ErrValue,
	}},
}

// entryHandle is the beginning of the names of the functions that call handlers.
const entryHandle = "github.com/dlbridge/dlbridge/bridge/tvmffi.handle"

// mostPanic is the largest number of bytes of a panic's text in its error.
const mostPanic = 1 << 10

// panicked returns an error for a panic. Its backtrace has the Go frames from the panic to the entry of the handler.
func panicked(p *panics.Panic) error {
	p.Tell()
	var frames strings.Builder
	for _, frame := range p.Frames {
		fmt.Fprintf(&frames, "  File %q, line %d, in %s\n", frame.File, frame.Line, frame.Function)
	}
	return &Error{Kind: RuntimeError, Message: "panic: " + p.Text(mostPanic), Backtrace: frames.String()}
}

// OnPanic sets the hook: the function that is called for each panic of a handler, before the caller gets the error. A
// process has only one hook, so a call of this function replaces a hook set by OnPanic of package capi, and the other way
// round. The documentation of capi's OnPanic says what the hook receives and what it may do.
func OnPanic(hook func(value any, stack []byte)) { panics.SetHook(hook) }
