package gguf

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

// The causes of errors of this package. Further causes are [elements.ErrDType] for an unknown type of a tensor, [elements.ErrSize] for a
// row that is no whole number of blocks, [layout.ErrOverflow], and those of package dlpack.
var (
	// ErrHeader reports a header that is not as the format requires.
	ErrHeader = errors.New("malformed header")
	// ErrTruncated reports a file that ends before its header or its tensors do.
	ErrTruncated = errors.New("file cut short")
	// ErrLimit reports a header of more than [MaxHeader] bytes.
	ErrLimit = errors.New("header too long")
	// ErrOffsets reports tensors that overlap, or that are not aligned in the file.
	ErrOffsets = errors.New("misplaced tensor")
	// ErrDuplicate reports two tensors of one name, or two metadata of one key.
	ErrDuplicate = errors.New("duplicate name")
	// ErrName reports a name of a tensor or a key that is empty, too long, or not UTF-8.
	ErrName = errors.New("invalid name")
	// ErrNoName reports a name that no tensor of a file has.
	ErrNoName = errors.New("no tensor has this name")
)

// newError returns an error at a byte of the file.
func newError(at int64, cause error, format string, args ...any) error {
	return &elements.Error{Format: "gguf", Offset: at, Where: fmt.Sprintf(format, args...), Err: cause}
}
