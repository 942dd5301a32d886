package safetensors

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

// The causes of errors of this package. Further causes are [elements.ErrDType] for a type that safetensors or DLPack
// lacks, [elements.ErrSize] for a tensor with another number of bytes than its shape requires, [layout.ErrNegative],
// [layout.ErrOverflow], and those of package dlpack.
var (
	// ErrOffsets reports tensors that overlap, and bytes that belong to no tensor.
	ErrOffsets = errors.New("tensors do not fill the file")
)

// newError returns an error at a byte of the file.
func newError(at int64, cause error, format string, args ...any) error {
	return &elements.Error{Format: "safetensors", Offset: at, Where: fmt.Sprintf(format, args...), Err: cause}
}
