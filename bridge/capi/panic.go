//go:build cgo

package capi

import (
	"errors"
	"fmt"
	"path"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/bridge/internal/panics"
)

// OnPanic sets a hook, which is called with the value and the stack of each panic that becomes an error of C. The panic
// may be in a function that [Serve] calls, or in this library. The stack is the result of [runtime/debug.Stack]. nil
// removes the hook. By default there is no hook, and nothing is printed. A process has one hook; tvmffi.OnPanic sets
// it, too.
//
// The hook runs on the thread of the call, after the arguments of the function are closed and before the caller gets
// the error. Several threads may call it at the same time. It must not call [runtime.Goexit]. A panic of the hook
// itself is ignored.
//
// Some failures end the process without a call of the hook, because Go cannot recover from them: a panic in another
// goroutine that the function has started, a stack that is too large, or a map that two goroutines write at the same
// time.
//
// Ownership: the stack belongs to the hook; the value is the argument of the call of panic. Lifetime: the hook may keep
// both. Threads: any; a call that panics at the same time may use the previous hook. On error: cannot fail.
func OnPanic(hook func(value any, stack []byte)) { panics.SetHook(hook) }

// The reported stack of a panic ends at the function that made the call: Serve for a function of the program, and try for a function of
// this library. The constants are the beginnings of their names.
const (
	entryServe = "github.com/dlbridge/dlbridge/bridge/capi.Serve"
	entryTry   = "github.com/dlbridge/dlbridge/bridge/capi.try"
)

// The message of a dlb_error has 508 bytes. These bounds leave room for at least one frame, and for the name of a C
// function of up to 60 bytes in front.
const (
	mostPanicText = 240 // bytes of the text of a panic
	mostPanic     = 436 // bytes of the text and the frames
	mostFunction  = 96  // bytes of the name of a function
	mostFile      = 64  // bytes of the name of a file
)

// panicked calls the hook, and returns an error with a text and a line for each frame, innermost first. If not all
// frames fit, the last line is an ellipsis. A file name includes only its folder, because the function name has the
// path of the package.
func panicked(p *panics.Panic, text string) error {
	p.Tell()
	more := p.More
	for _, frame := range p.Frames {
		file := path.Join(path.Base(path.Dir(frame.File)), path.Base(frame.File))
		line := fmt.Sprintf("\n  in %s (%s:%d)", tail(frame.Function, mostFunction), tail(file, mostFile), frame.Line)
		if len(text)+len(line) > mostPanic {
			more = true
			break
		}
		text += line
	}
	if more {
		text += "\n  …"
	}
	return errors.New("dlbridge: " + text)
}

// tail returns the end of a text that is too long, behind an ellipsis.
func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	at := len(text) - most + len("…")
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return "…" + text[at:]
}
