// Package errtext makes the errors of formats, formats values for their texts, and cuts them, so that a long hostile
// input cannot make an error long.
package errtext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Kind says what an error of a format is about. The C functions return it as a code.
type Kind int

const (
	Layout   Kind = iota + 1 // a rank, shape or strides
	DType                    // a data type
	Argument                 // another argument of the function
)

type kindError struct {
	kind Kind
	text string
}

func (e *kindError) Error() string { return e.text }

// New returns a new error of a kind, for errors.Is.
func New(kind Kind, text string) error { return &kindError{kind, text} }

// KindOf returns the kind of the first error in the chain that has one, and 0 if there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*kindError](err); ok {
		return e.kind
	}
	return 0
}

// Shape formats the sizes of the first 16 dimensions, and the number of dimensions if there are more. It formats a
// copy, so that the shape of a caller can stay on the stack.
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
