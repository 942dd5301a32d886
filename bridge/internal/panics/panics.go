// Package panics describes where a panic began, and its value. It is used to make errors from panics in a program's
// functions.
package panics

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/dlpack/frames"
)

// A Panic is a recovered panic.
type Panic struct {
	value any
	exits bool // not a panic: runtime.Goexit ends the goroutine

	// Frames are at most 16 calls, from the panic outwards to the entry, without calls of the Go runtime. Calls of this
	// library are included only if the panic began in them, not if they called back into the program.
	Frames []runtime.Frame
	// More reports whether there are other frames, further out.
	More bool
	// Entry is the function of the entry, and "" if it is too far out.
	Entry string
}

const (
	mostFrames  = 16
	mostCallers = 64 // including frames of the runtime
)

// Recovered returns the panic with a value that recover has returned. It must be called by the deferred function that
// called recover. The entry is the innermost call of a function whose name in [runtime.Frame] begins with one of the
// entries.
func Recovered(value any, entries ...string) *Panic {
	p := &Panic{value: value}
	var callers [mostCallers]uintptr
	calls := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	inProgram := false         // a call of the program was met
	begun, more := false, true // the deferred function itself comes before the panic
	for more {
		var frame runtime.Frame
		frame, more = calls.Next()
		if ofRuntime(frame.Function) {
			p.exits = p.exits || !begun && frame.Function == "runtime.Goexit"
			begun = begun || p.exits || frame.Function == "runtime.gopanic"
			continue
		}
		if !begun {
			continue
		}
		for _, entry := range entries {
			if strings.HasPrefix(frame.Function, entry) {
				p.Entry = frame.Function
				return p
			}
		}
		if frames.OfLibrary(frame) && inProgram {
			continue
		}
		inProgram = !frames.OfLibrary(frame)
		if p.More = len(p.Frames) == mostFrames; !p.More {
			frame.Function = withoutExport(frame.Function)
			p.Frames = append(p.Frames, frame)
		}
	}
	p.More = true
	return p
}

func ofRuntime(function string) bool {
	return strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "internal/runtime/")
}

// withoutExport returns the name of a function as in its source. The compiler moves a function literal of an exported
// function into the function that cgo generates: main._cgoexp_HASH_scale.scale.func1 is main.scale.func1 in the source.
func withoutExport(function string) string {
	within, name, moved := strings.Cut(function, "._cgoexp_")
	if !moved {
		return function
	}
	_, name, moved = strings.Cut(name, ".")
	if !moved {
		return function
	}
	return within + "." + name
}

// Text returns the text of the value, cut to about most bytes, if it is an error, a string, a number or a bool, or has
// a method String. For other values, whose text may have any length, it returns the name of the type.
func (p *Panic) Text(most int) string {
	switch p.value.(type) {
	case nil, error, fmt.Stringer:
	default:
		if kind := reflect.TypeOf(p.value).Kind(); kind > reflect.Complex128 && kind != reflect.String {
			return fmt.Sprintf("a value of type %T", p.value)
		}
	}
	text := fmt.Sprint(p.value)
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

var hook atomic.Pointer[func(value any, stack []byte)]

// SetHook sets the function that Tell calls; nil sets none.
func SetHook(f func(value any, stack []byte)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// Tell calls the hook, if there is one, with the value and the stack. The stack is complete only if the deferred
// function that called recover calls Tell. Tell recovers a panic of the hook.
func (p *Panic) Tell() {
	f := hook.Load()
	if f == nil || p.exits {
		return
	}
	defer func() { _ = recover() }()
	(*f)(p.value, debug.Stack())
}
