package dlpack

import "errors"

// The causes of errors. An error of this package wraps one of them and names the offending field and its value. If other
// causes are possible, the documentation of the function says so.
var (
	// ErrVersion reports an unknown major version of the ABI.
	ErrVersion = errors.New("unknown major version")
	// ErrDType reports a data type that DLPack cannot carry, or that the operation does not accept.
	ErrDType = errors.New("unsupported data type")
	// ErrDevice reports memory on a device that the operation does not support.
	ErrDevice = errors.New("unsupported device")
	// ErrLayout reports a rank, shape or strides that are invalid, or that the operation does not accept.
	ErrLayout = errors.New("unsupported layout")
	// ErrOverflow reports a size, span, offset or count above its limit, for example one that does not fit in 63 bits. It also
	// reports host memory that does not lie between the addresses 4096 and 2^63; a tensor without elements may have any address.
	ErrOverflow = errors.New("overflow")
	// ErrReadOnly reports memory that must not be written.
	ErrReadOnly = errors.New("read-only")
	// ErrClosed reports a Tensor that was closed, is nil or is the zero Tensor. [Import] also returns it for an export that was
	// released.
	ErrClosed = errors.New("closed")
	// ErrUnaligned reports an address that lacks the required alignment.
	ErrUnaligned = errors.New("unaligned")
	// ErrNull reports NULL or nil where an address, a function or an allocator is required. It also reports a managed tensor,
	// a shape or strides at an address below 4096.
	ErrNull = errors.New("unexpected NULL")
	// ErrBorrowed reports an export of borrowed memory: nothing would keep it alive.
	ErrBorrowed = errors.New("borrowed memory")
	// ErrMemory reports that there is not enough memory.
	ErrMemory = errors.New("out of memory")
	// ErrValue reports bytes that are not a value of their type, or a number that an element cannot hold.
	ErrValue = errors.New("invalid value")
)

// An Error reports the operation that failed and the offending field. errors.Is finds its cause, such as [ErrLayout] or [ErrDType]. All
// functions and methods of this package return an *Error if they fail, except [DataType.NumBytes] and [DataType.Validate]. [Read], [Use],
// [ReadStrided] and [UseStrided] return the error of the user's function unchanged; [Tensor.Apply] and [NewFrom] wrap that error. The text
// often ends with a remedy that names Go functions. WithoutRemedy of package elements removes the remedy, for texts that users of the
// program read.
type Error struct {
	Op    string // "import", "export", ...
	Where string // the offending field and its value
	Err   error  // the cause
	about any    // the *Tensor of IsAbout, or nil
}

func (e *Error) Error() string { return "dlpack: " + e.Op + ": " + e.Where }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
