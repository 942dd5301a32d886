// Package errtext makes the errors of formats. It formats values for their texts and cuts long values, so that a long
// hostile input cannot make an error long.
package errtext

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrArgument is the cause of errors about an argument for which package dlpack has no error.
var ErrArgument = errors.New("invalid argument")

type causedError struct {
	cause error
	text  string
}

func (e *causedError) Error() string { return e.text }
func (e *causedError) Unwrap() error { return e.cause }

// New returns a new error with the given text. errors.Is also finds the cause: an error of package dlpack, or
// [ErrArgument]. The C functions return the code of the cause.
func New(cause error, text string) error { return &causedError{cause, text} }

// Quote returns untrusted text quoted, with non-printing characters escaped, and cut after 64 bytes.
func Quote[T ~string | ~[]byte](text T) string {
	const most = 64
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "…"
	}
	return strconv.Quote(string(text))
}

// Shape formats the sizes of the first 16 dimensions, and the number of dimensions if there are more. It formats a
// copy, so the shape of a caller can stay on the stack.
func Shape(shape []int64) string {
	const most = 16
	if len(shape) <= most {
		return fmt.Sprint(slices.Clone(shape))
	}
	return strings.TrimSuffix(fmt.Sprint(slices.Clone(shape[:most])), "]") + fmt.Sprintf(" ... of %d dimensions]", len(shape))
}

// List formats the first 32 items of a list, and an ellipsis if there are more.
func List[T any](list []T) string {
	const most = 32
	if len(list) > most {
		return strings.TrimSuffix(fmt.Sprint(list[:most]), "]") + " …]"
	}
	return fmt.Sprint(list)
}
