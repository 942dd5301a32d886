package gguf

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

// The causes of errors of this package. Further causes are [elements.ErrDType] for a tensor of unknown type,
// [elements.ErrSize] for a row that is not a whole number of blocks, [layout.ErrOverflow], and the errors of package dlpack.
var (
	// ErrLimit reports a header of more than [MaxHeader] bytes.
	ErrLimit = errors.New("header too long")
	// ErrOffsets reports tensors that overlap, or that are not aligned in the file.
	ErrOffsets = errors.New("misplaced tensor")
)

// newError returns an error at a byte of the file.
func newError(at int64, cause error, format string, args ...any) error {
	return &elements.Error{Format: "gguf", Offset: at, Where: fmt.Sprintf(format, args...), Err: cause}
}
