package tens

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// The causes of errors, for errors.Is. Every error of this package is an [*Error] that wraps one of them.
var (
	// ErrNil reports a nil message, label or tensor.
	ErrNil = errors.New("nil")
	// ErrInvalid reports a message, label or tensor that breaks the specification. The text of the error says which
	// rule is broken.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported reports an unknown dtype, a word that the dtype does not have, an empty packing, or the attribute
	// pointer. Package bridge also reports it for a packing other than "dense", and for a tensor that is only metadata.
	ErrUnsupported = errors.New("not supported")
	// ErrNoTENS reports a label without the attribute TENS. The message may be a valid message without tensors.
	ErrNoTENS = errors.New("no attribute TENS")
	// ErrNoName reports a name that no tensor of a label has.
	ErrNoName = errors.New("no tensor has this name")
	// ErrTruncated reports a packed form that ends inside a frame: more bytes may follow.
	ErrTruncated = errors.New("packed form cut short")
	// ErrFrameTooLarge reports a frame of more than 4 GiB - 1, which the packed form cannot hold.
	ErrFrameTooLarge = errors.New("frame too large for the packed form, which holds 4 GiB - 1; separate frames have no limit")
	// ErrPartMissing reports a tensor for which the message lacks a payload part.
	ErrPartMissing = errors.New("part out of range")
	// ErrSize reports a payload part that is longer or shorter than its tensor.
	ErrSize = errors.New("part and tensor differ in size")
)

// A rule is the error for one broken rule of the specification or of this package. It wraps ErrInvalid or
// ErrUnsupported, so that errors.Is finds that variable. The Kind of an [Error] is a rule or one of the variables above.
type rule struct {
	text  string
	cause error // ErrInvalid or ErrUnsupported
}

func (r *rule) Error() string { return r.text }
func (r *rule) Unwrap() error { return r.cause }

func invalid(text string) error     { return &rule{text, ErrInvalid} }
func unsupported(text string) error { return &rule{text, ErrUnsupported} }

var (
	// Frames.
	errTooFewFrames = invalid("too few frames")
	errPrefixShort  = invalid("prefix too short")
	errBadMagic     = invalid("prefix without the magic ZIO")
	errBadLevel     = invalid("level must be 0 to 8")
	errHeaderSize   = invalid("header must have 24 bytes")
	errFormInvalid  = invalid("form longer than four bytes")
	// errSecondMessage reports, in the packed form, the prefix header of a second message, or a part that would be
	// taken for one.
	errSecondMessage = invalid("more than one message")

	// The label as JSON.
	errLabelNotJSON     = invalid("not JSON")
	errLabelNotObject   = invalid("label not an object")
	errLabelTooDeep     = invalid("nested too deep")
	errDuplicateName    = invalid("duplicate name")
	errAttributeInvalid = invalid("attribute cannot be encoded")

	// The attribute TENS.
	errTENSInvalid     = invalid("attribute TENS invalid")
	errTensorInvalid   = invalid("tensor invalid")
	errMetadataInvalid = invalid("metadata invalid")

	// Names of tensors.
	errNameInvalid   = invalid("name invalid")
	errNameAmbiguous = invalid("several tensors have this name")

	// A tensor.
	errShapeInvalid       = invalid("shape invalid")
	errSizeOverflow       = invalid("size overflows 64 bits")
	errWordInvalid        = invalid("word invalid")
	errDTypeInvalid       = invalid("dtype not a string")
	errDTypeUnknown       = unsupported("dtype unknown")
	errDTypeWord          = unsupported("dtype has no such word")
	errOrderInvalid       = invalid("order invalid")
	errAscendInvalid      = invalid("ascend invalid")
	errPackingInvalid     = invalid("packing not a string of UTF-8")
	errPackingUnsupported = unsupported("packing not supported")
	errPointerUnsupported = unsupported("pointer not supported")
	errPartInvalid        = invalid("part invalid")
	errPartsInvalid       = invalid("parts invalid")
)

// Error is an error in a message, with its place.
type Error struct {
	Kind      error  // the cause, which is or wraps one of the Err variables
	Tensor    int    // index in TENS.tensors, -1 for an error outside the tensors
	Attribute string // name of the attribute, "" for an error outside the attributes
	Offset    int    // index of a byte of the label or, for [ErrTruncated], of the data; -1 if unknown
	Detail    string // the offending value; text of the message is quoted and shortened
}

// Error returns a text with the index of the tensor, the detail, the cause and the offset. If there is no detail, the
// text has the name of the attribute instead. It leaves out unknown fields.
func (e *Error) Error() string {
	b := []byte("tens: ")
	if e.Tensor >= 0 {
		b = fmt.Appendf(b, "tensor %d: ", e.Tensor)
	}
	if e.Detail != "" {
		b = append(b, e.Detail+": "...)
	} else if e.Attribute != "" {
		b = append(b, strictjson.Quote([]byte(e.Attribute))+": "...)
	}
	b = fmt.Append(b, e.Kind)
	if e.Offset >= 0 {
		b = fmt.Appendf(b, " (byte %d)", e.Offset)
	}
	return string(b)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Kind }

// newError returns an error that names no tensor, no attribute and no offset.
func newError(kind error, detail string) *Error {
	return &Error{Kind: kind, Tensor: -1, Offset: -1, Detail: detail}
}

// labelError converts an error of a [strictjson.Scanner] to an error in the tensor with the given index, or -1 for no
// tensor. It returns an [*Error] unchanged.
func labelError(err error, tensor int) *Error {
	e, ok := err.(*strictjson.Error)
	if !ok {
		return err.(*Error)
	}
	kind := errLabelNotJSON
	switch e.Kind {
	case strictjson.ErrNotObject:
		kind = errLabelNotObject
	case strictjson.ErrTooDeep:
		kind = errLabelTooDeep
	case strictjson.ErrDuplicateName:
		kind = errDuplicateName
	}
	return &Error{Kind: kind, Tensor: tensor, Offset: e.Offset, Detail: e.Detail}
}
