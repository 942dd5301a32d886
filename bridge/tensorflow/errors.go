package tensorflow

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The causes of errors of this package. Further causes are those of package elements, [dlpack.ErrValue] for a value that its
// type does not have, [layout.ErrNegative], [layout.ErrOverflow], and those of package dlpack.
var (
	// ErrWire reports bytes that are not a protocol buffer, and an empty message.
	ErrWire = errors.New("malformed protocol buffer")
	// ErrText reports a name that is not UTF-8, such as the name of a dimension, a type or an allocator.
	ErrText = errors.New("not UTF-8")
	// ErrRank reports an unknown rank where a known rank is required, or more dimensions than TensorFlow allows. It is
	// also [dlpack.ErrLayout].
	ErrRank = errtext.New(dlpack.ErrLayout, "unsupported rank")
	// ErrCount reports more values than the shape has elements, or half of a complex number.
	ErrCount = errors.New("number of values does not fit the shape")
	// ErrLimit reports a tensor whose repeated values would take more memory than [Limit] allows.
	ErrLimit = errors.New("more memory than is allowed")
	// ErrExport reports a tensor that [Export] refuses, because TensorFlow would refuse it, misread it or end the
	// process.
	ErrExport = errors.New("not accepted by TensorFlow")
)

// newError returns an error at byte at of the input. format and args make the text that names the offending field and
// its value.
func newError(at int, cause error, format string, args ...any) error {
	return &elements.Error{Format: "tensorflow", Offset: int64(at), Where: fmt.Sprintf(format, args...), Err: cause}
}
