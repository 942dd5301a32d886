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
	// ErrHeader reports a header that is not a dictionary as NumPy writes it, or that has more than 64 KiB.
	ErrHeader = errors.New("malformed header")
	// ErrTruncated reports a file that ends before its last element.
	ErrTruncated = errors.New("truncated")
	// ErrTrailing reports bytes after the last element.
	ErrTrailing = errors.New("trailing bytes")
	// ErrZip reports an npz file with a malformed directory, member header or deflated member, or whose headers differ from its directory.
	ErrZip = errors.New("malformed zip file")
	// ErrMethod reports a member of an npz file that is encrypted, or compressed by another method than deflate.
	ErrMethod = errors.New("unsupported compression")
	// ErrChecksum reports a member of an npz file whose bytes have another checksum than its directory says.
	ErrChecksum = errors.New("wrong checksum")
	// ErrDuplicate reports two arrays of one name.
	ErrDuplicate = errors.New("duplicate name")
	// ErrName reports a name that a member of an npz file cannot have.
	ErrName = errors.New("invalid name")
	// ErrNoName reports a name that no array of a file has.
	ErrNoName = errors.New("no array has this name")
	// ErrRank reports more than 64 dimensions, which is the most that NumPy has. It is also [dlpack.ErrLayout].
	ErrRank = errtext.New(dlpack.ErrLayout, "unsupported rank")
)

// newError returns an error at byte at of the input. format and args make the text that says where it is and what is there.
func newError(at int, cause error, format string, args ...any) *elements.Error {
	return &elements.Error{Format: "npy", Offset: int64(at), Where: fmt.Sprintf(format, args...), Err: cause}
}
