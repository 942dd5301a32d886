package elements

import (
	"errors"
	"fmt"
	"math"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The errors of several formats. The errors of a codec wrap one of these, one of its own package, or one of package
// dlpack or layout. ErrDType is also [dlpack.ErrDType], and ErrNil is also [dlpack.ErrNull].
var (
	// ErrNil reports a nil receiver or argument.
	ErrNil = errtext.New(dlpack.ErrNull, "nil")
	// ErrDType reports a data type that the format or DLPack does not have, or that the given elements cannot have.
	ErrDType = errtext.New(dlpack.ErrDType, "data type not representable")
	// ErrElements reports Elements whose number of values or formats is not the product of their shape.
	ErrElements = errors.New("elements do not fit their shape")
	// ErrSize reports a payload that is longer or shorter than the shape requires.
	ErrSize = errors.New("size differs from what the shape says")
)

// The errors of several file formats. The C functions report [ErrName], [ErrDuplicate] and [ErrNoName] as errors of an
// argument.
var (
	// ErrHeader reports a malformed header or index of files.
	ErrHeader = errors.New("malformed header")
	// ErrTruncated reports a file that ends before its header or its elements do.
	ErrTruncated = errors.New("file cut short")
	// ErrName reports a name of a tensor, of a file or in the metadata that the format does not allow. It also reports
	// other texts that are not UTF-8.
	ErrName = errtext.New(errtext.ErrArgument, "invalid name")
	// ErrDuplicate reports two tensors, or two other items of a header, that have the same name.
	ErrDuplicate = errtext.New(errtext.ErrArgument, "duplicate name")
	// ErrNoName reports a name that no tensor of a file has.
	ErrNoName = errtext.New(errtext.ErrArgument, "no tensor has this name")
)

// Error is an error in the input of a decoder, and its place. errors.Is finds the cause.
type Error struct {
	Format string // the name of the decoder's package
	Offset int64  // index of the byte in the input; in a stream, counted from the beginning of the stream
	Where  string // the offending field and its value
	Err    error  // the cause
}

// Error returns the place and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: byte %d: %s: %v", e.Format, e.Offset, e.Where, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// After adds start to the offset of the error and returns the same error. Use it if the decoder got input[start:]
// instead of the whole input. An offset that would overflow becomes the largest int64.
func (e *Error) After(start int64) *Error {
	e.Offset += min(start, math.MaxInt64-e.Offset)
	return e
}

// WithoutRemedy returns the text of an error of this module without its remedy, such as "; Convert makes a copy of that
// type". The remedy names Go functions and is for the programmer. A server can send the text without the remedy to its
// clients, to say what is wrong with their input. The error may be wrapped. For any other error WithoutRemedy returns
// the text unchanged, and for nil an empty text.
func WithoutRemedy(err error) string {
	if err == nil {
		return ""
	}
	return errtext.WithoutRemedies(err.Error())
}
