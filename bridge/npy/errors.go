package npy

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The causes of errors of this package. Further causes are those of package elements, [layout.ErrNegative], [layout.ErrOverflow], and those
// of package dlpack.
var (
	// ErrMagic reports bytes that are not an npy file: they do not begin with "\x93NUMPY", or have a version other than 1.0, 2.0 and 3.0.
	ErrMagic = errors.New("not an npy file")
	// ErrTrailing reports bytes after the last element.
	ErrTrailing = errors.New("trailing bytes")
	// ErrZip reports an npz file with a malformed directory, member header or deflated member, or with headers that
	// differ from the directory.
	ErrZip = errors.New("malformed zip file")
	// ErrMethod reports a member of an npz file that is encrypted, or compressed by a method other than deflate.
	ErrMethod = errors.New("unsupported compression")
	// ErrChecksum reports a member of an npz file whose checksum differs from the one in the directory.
	ErrChecksum = errors.New("wrong checksum")
	// ErrRank reports more than 64 dimensions, NumPy's limit. It is also [dlpack.ErrLayout].
	ErrRank = errtext.New(dlpack.ErrLayout, "unsupported rank")
)

// newError returns an error at byte at of the input. format and args make the text that names the offending field and
// its value.
func newError(at int, cause error, format string, args ...any) *elements.Error {
	return &elements.Error{Format: "npy", Offset: int64(at), Where: fmt.Sprintf(format, args...), Err: cause}
}
