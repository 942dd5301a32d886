package strictjson

import (
	"errors"
	"fmt"
	"strconv"
)

// The causes of errors.
var (
	ErrSyntax        = errors.New("not JSON")
	ErrNotObject     = errors.New("not a JSON object")
	ErrTooDeep       = errors.New("nested too deep")
	ErrDuplicateName = errors.New("duplicate name")
)

// Error is an error in a JSON text.
type Error struct {
	Kind   error  // one of the Err variables
	Offset int    // index of a byte of the text
	Detail string // the offending text, quoted and shortened, and the expected text
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v (byte %d)", e.Detail, e.Kind, e.Offset) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Kind }

// Quote returns untrusted text in a form for errors: quoted, with non-printing characters escaped, and cut after 32
// bytes.
func Quote(text []byte) string {
	const most = 32
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "…"
	}
	return strconv.Quote(string(text))
}
