package decthings

import (
	"errors"
	"fmt"
	"math"
)

// The causes of errors of this package, beside [dlpack.ErrValue] (a boolean other than 0 and 1, text that
// is not UTF-8), [layout.ErrOverflow], [bridge.ErrDType], [bridge.ErrElements] and those of package dlpack.
var (
	// ErrTruncated: bytes that end before their tensor does.
	ErrTruncated = errors.New("cut short")
	// ErrTrailing: bytes behind the tensor.
	ErrTrailing = errors.New("trailing bytes")
	// ErrType: an element type that Decthings does not have, or not for such elements.
	ErrType = errors.New("unknown element type")
	// ErrDialect: a dialect that is not known.
	ErrDialect = errors.New("unknown dialect")
	// ErrVarint: a varint that is longer than its value needs.
	ErrVarint = errors.New("varint longer than its value needs")
	// ErrSection: a section length that is not the length of the elements.
	ErrSection = errors.New("section length differs from what the elements take")
	// ErrFormat: a media format that the dialect cannot say, or an element too short to hold one.
	ErrFormat = errors.New("no media format")
	// ErrRank: more dimensions than 255.
	ErrRank = errors.New("too many dimensions")

	// ErrRules: rules that are none.
	ErrRules = errors.New("invalid rules")
	// ErrRuleType: a tensor whose type the rules do not allow.
	ErrRuleType = errors.New("type not allowed")
	// ErrRuleShape: a tensor whose shape the rules do not allow.
	ErrRuleShape = errors.New("shape not allowed")
)

// An Error says where in its input a tensor is malformed. errors.Is finds the cause.
type Error struct {
	Offset int64  // byte of the input, counted over all tensors of a stream
	Where  string // the offending field and its value
	Err    error  // the cause
}

func (e *Error) Error() string {
	return fmt.Sprintf("decthings: byte %d: %s: %v", e.Offset, e.Where, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fault(at int, cause error, format string, args ...any) *Error {
	return &Error{Offset: int64(at), Where: fmt.Sprintf(format, args...), Err: cause}
}

// behind says where a fault lies in a longer input.
func (e *Error) behind(start int64) *Error {
	e.Offset += min(start, math.MaxInt64-e.Offset)
	return e
}
