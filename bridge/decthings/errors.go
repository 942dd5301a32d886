package decthings

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The causes of errors of this package. Further causes are those of package elements, [dlpack.ErrValue] for a boolean other
// than 0 and 1 and for text that is not UTF-8, [layout.ErrOverflow], and the errors of package dlpack. [errors.Is] also finds
// [dlpack.ErrDType] in ErrType and ErrRuleType, and [dlpack.ErrLayout] in ErrRank and ErrRuleShape.
var (
	// ErrTruncated reports an input that ends inside a tensor.
	ErrTruncated = errors.New("cut short")
	// ErrTrailing reports bytes after the tensor.
	ErrTrailing = errors.New("trailing bytes")
	// ErrType reports an element type that Decthings does not have, or that the given elements cannot have.
	ErrType = errtext.New(dlpack.ErrDType, "wrong element type")
	// ErrDialect reports an unknown dialect.
	ErrDialect = errors.New("unknown dialect")
	// ErrVarint reports a varint that is longer than its value needs.
	ErrVarint = errors.New("varint longer than its value needs")
	// ErrSection reports that the size before the elements is not the size of the elements. The dialects [Py004] and
	// [Rs015] write this size.
	ErrSection = errors.New("section length differs from the size of its elements")
	// ErrFormat reports a media format that the dialect cannot represent, or a media element too short to have one.
	ErrFormat = errors.New("not a media format")
	// ErrRank reports more than 255 dimensions.
	ErrRank = errtext.New(dlpack.ErrLayout, "more than 255 dimensions")

	// ErrRules reports invalid rules.
	ErrRules = errtext.New(errtext.ErrArgument, "invalid rules")
	// ErrRuleType reports a tensor whose type the rules do not allow.
	ErrRuleType = errtext.New(dlpack.ErrDType, "type not allowed")
	// ErrRuleShape reports a tensor whose shape the rules do not allow.
	ErrRuleShape = errtext.New(dlpack.ErrLayout, "shape not allowed")
)

// newError returns an error at byte at of the input. format and args make the text that names the offending field and
// its value.
func newError(at int, cause error, format string, args ...any) *elements.Error {
	return &elements.Error{Format: "decthings", Offset: int64(at), Where: fmt.Sprintf(format, args...), Err: cause}
}
