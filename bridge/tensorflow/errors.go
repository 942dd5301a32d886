package tensorflow

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge"
)

// The causes of errors of this package, beside [layout.ErrNegative], [layout.ErrOverflow],
// [bridge.ErrElements], [bridge.ErrByteOrder] and those of package dlpack.
var (
	// ErrWire: bytes that are no protocol buffer.
	ErrWire = errors.New("malformed protocol buffer")
	// ErrText: a name that is not UTF-8.
	ErrText = errors.New("not UTF-8")
	// ErrDType: a type that TensorFlow, DLPack or the elements at hand do not have. It is [bridge.ErrDType], the
	// same cause in every format.
	ErrDType = bridge.ErrDType
	// ErrRank: an unknown rank where it must be known, or more dimensions than TensorFlow has room for.
	ErrRank = errors.New("unsupported rank")
	// ErrSize: elements that take not the bytes there are.
	ErrSize = errors.New("size differs from what the shape says")
	// ErrCount: more values than elements, or half of a complex one.
	ErrCount = errors.New("number of values does not fit the shape")
	// ErrValue: a value that its type does not have.
	ErrValue = errors.New("value out of range")
	// ErrLimit: more memory than repeated values may take, see [Limit].
	ErrLimit = errors.New("more memory than is allowed")
	// ErrExport: a tensor that TensorFlow would refuse or end the process on.
	ErrExport = errors.New("not taken by TensorFlow")
)

// An Error says where in its input a message is malformed. errors.Is finds the cause.
type Error struct {
	Offset int    // byte of the input
	Where  string // the offending field and its value
	Err    error  // the cause
}

func (e *Error) Error() string {
	return fmt.Sprintf("tensorflow: byte %d: %s: %v", e.Offset, e.Where, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fault(at int, cause error, format string, args ...any) *Error {
	return &Error{Offset: at, Where: fmt.Sprintf(format, args...), Err: cause}
}
