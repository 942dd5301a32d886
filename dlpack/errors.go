package dlpack

import "errors"

// The causes of errors. Errors wrap one of them with the offending field and its value.
var (
	// ErrVersion: a major version of the ABI that is not known here.
	ErrVersion = errors.New("unknown major version")
	// ErrDType: a data type that cannot be carried, or not the one that was asked for.
	ErrDType = errors.New("unsupported data type")
	// ErrDevice: memory on a device where this cannot be done.
	ErrDevice = errors.New("unsupported device")
	// ErrLayout: a rank, shape or strides that cannot be carried, or not those that were asked for.
	ErrLayout = errors.New("unsupported layout")
	// ErrOverflow: a size, span or offset that does not fit in 63 bits, or memory of the host that reaches outside the
	// addresses from 4096 up to 2^63.
	ErrOverflow = errors.New("overflow")
	// ErrReadOnly: memory that must not be written.
	ErrReadOnly = errors.New("read-only")
	// ErrClosed: the reference has been closed, or is nil or a zero value.
	ErrClosed = errors.New("closed")
	// ErrUnaligned: an address that is no multiple of what its elements need.
	ErrUnaligned = errors.New("unaligned")
	// ErrNull: a NULL pointer where there must be one to something.
	ErrNull = errors.New("unexpected NULL")
	// ErrBorrowed: memory that is only borrowed, so that nothing would keep it.
	ErrBorrowed = errors.New("borrowed memory")
	// ErrMemory: more memory than there is to be had.
	ErrMemory = errors.New("out of memory")
	// ErrValue: bytes that are no value of their type.
	ErrValue = errors.New("invalid value")
)

// An Error says which operation refused what, and where. errors.Is finds the cause: [ErrLayout],
// [ErrDType] and so on.
type Error struct {
	Op    string // "import", "export", ...
	Where string // the offending field and its value
	Err   error  // the cause
}

func (e *Error) Error() string { return "dlpack: " + e.Op + ": " + e.Where }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
