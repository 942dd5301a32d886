//go:build linux || darwin

package files

import (
	"errors"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
)

// The causes of errors of this package. Other errors come from the packages of the formats, elements, dlpack, and os, such as
// [os.ErrNotExist].
var (
	// ErrKind reports a file that cannot be mapped or replaced: it is not a regular file, or it is empty, or the system
	// cannot map files.
	ErrKind = errtext.New(errtext.ErrArgument, "not a regular file with contents")
	// ErrFormat reports a file in a format that this package does not read, or an option or a tensor that the format
	// does not support.
	ErrFormat = errtext.New(errtext.ErrArgument, "unsupported format")
	// ErrChanged reports a file that another program has changed while it was open, for example by making it shorter.
	ErrChanged = errors.New("file changed while it was open")
)
