package safetensors

import (
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// A reader reads JSON text that begins at byte start of a file.
type reader struct {
	strictjson.Scanner
	start int
}

// fail fails at a byte of the text.
func (r *reader) fail(at int, cause error, format string, args ...any) {
	r.Fail(newError(int64(r.start+at), cause, format, args...))
}

// err returns the first error as an error of this package.
func (r *reader) err() error {
	e, ok := r.Err.(*strictjson.Error)
	switch at := int64(r.start); {
	case !ok:
		return r.Err
	case e.Kind == strictjson.ErrDuplicateName:
		return newError(at+int64(e.Offset), elements.ErrDuplicate, "%s", e.Detail)
	default:
		return newError(at+int64(e.Offset), elements.ErrHeader, "%s: %v", e.Detail, e.Kind)
	}
}

// begins reports whether a value of the given kind follows. Otherwise it fails.
func (r *reader) begins(first byte, wanted string) bool {
	if r.Peek() == first {
		return true
	}
	r.wrong(wanted)
	return false
}

// wrong fails because the next value is not the wanted one.
func (r *reader) wrong(wanted string) {
	r.Peek()
	at := r.Pos
	if value := r.Raw(); r.Err == nil {
		r.fail(at, elements.ErrHeader, "%s instead of %s", errtext.Quote(value), wanted)
	}
}

// texts reads an object whose values are texts. check, which may be nil, returns "" for a valid text, and otherwise a
// description of the fault.
func (r *reader) texts(all map[string]string, check func(text string) string) {
	if !r.begins('{', "an object of strings") {
		return
	}
	last := "" // consecutive texts are often the same
	for r.Open(); r.Member(); {
		name := string(r.Name)
		if _, ok := all[name]; ok {
			r.Duplicate()
			return
		}
		if !r.begins('"', "a string") {
			return
		}
		at := r.Pos
		if text := r.Text(); string(text) != last {
			last = string(text)
		}
		if check != nil && r.Err == nil {
			if wrong := check(last); wrong != "" {
				r.fail(at, elements.ErrName, "%s %s", errtext.Quote(last), wrong)
			}
		}
		all[name] = last
	}
}
