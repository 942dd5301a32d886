package safetensors

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

// The causes of errors of this package. Further causes are [elements.ErrDType] for a type that safetensors or DLPack lacks, [elements.ErrSize]
// for a tensor with another number of bytes than its shape requires, [layout.ErrNegative], [layout.ErrOverflow], and those of package dlpack.
var (
	// ErrHeader reports a header or an index that is not as the format requires.
	ErrHeader = errors.New("malformed header")
	// ErrTruncated reports a file that ends before its header or its tensors do.
	ErrTruncated = errors.New("file cut short")
	// ErrOffsets reports tensors that overlap, and bytes that belong to no tensor.
	ErrOffsets = errors.New("tensors do not fill the file")
	// ErrDuplicate reports two tensors, or two other members of the header, of one name.
	ErrDuplicate = errors.New("duplicate name")
	// ErrName reports a name that a tensor cannot have, or a text of the metadata that is not UTF-8.
	ErrName = errors.New("invalid name")
	// ErrNoName reports a name that no tensor of a file has.
	ErrNoName = errors.New("no tensor has this name")
)

// newError returns an error at a byte of the file.
func newError(at int64, cause error, format string, args ...any) error {
	return &elements.Error{Format: "safetensors", Offset: at, Where: fmt.Sprintf(format, args...), Err: cause}
}
