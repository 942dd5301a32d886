package tens

import (
	"errors"
	"fmt"
	"strconv"
)

// The causes of a refusal. Every error of this package is an [*Error] that wraps one of them, so that
// [errors.Is] tells faults apart and [errors.As] gives the place.
var (
	// ErrNil: a message, label or tensor that is nil.
	ErrNil = errors.New("nil")

	// Frames.
	ErrTooFewFrames = errors.New("too few frames")
	ErrPrefixShort  = errors.New("prefix too short")
	ErrBadMagic     = errors.New("prefix without the magic ZIO")
	ErrBadLevel     = errors.New("level not one of 0 to 8")
	ErrHeaderSize   = errors.New("header not of 24 bytes")
	ErrFormInvalid  = errors.New("form longer than four bytes")

	// Single-part form.
	ErrEncodingTruncated = errors.New("single-part form cut short")
	ErrFrameTooLarge     = errors.New("frame larger than the single-part form can say")

	// Label.
	ErrLabelNotJSON     = errors.New("not JSON")
	ErrLabelNotObject   = errors.New("label not an object")
	ErrLabelTooDeep     = errors.New("nested too deep")
	ErrDuplicateName    = errors.New("duplicate name")
	ErrAttributeInvalid = errors.New("attribute not to be written")

	// TENS.
	ErrTENSMissing     = errors.New("no attribute TENS")
	ErrTENSInvalid     = errors.New("attribute TENS invalid")
	ErrTensorInvalid   = errors.New("not an object")
	ErrMetadataInvalid = errors.New("metadata not an object")

	// Tensor.
	ErrShapeInvalid       = errors.New("shape invalid")
	ErrWordInvalid        = errors.New("word invalid")
	ErrDTypeInvalid       = errors.New("dtype not a string")
	ErrDTypeUnknown       = errors.New("dtype unknown")
	ErrDTypeWord          = errors.New("dtype has no such word")
	ErrOrderInvalid       = errors.New("order invalid")
	ErrAscendInvalid      = errors.New("ascend invalid")
	ErrPackingInvalid     = errors.New("packing not a string")
	ErrPackingUnsupported = errors.New("packing not supported")
	ErrPointerUnsupported = errors.New("pointer not supported")

	// The part of a tensor.
	ErrPartInvalid    = errors.New("part invalid")
	ErrPartOutOfRange = errors.New("part out of range")
	ErrSizeOverflow   = errors.New("size overflows 64 bits")
	ErrSizeMismatch   = errors.New("part and tensor differ in size")
)

// Error is a fault of a message and its place.
type Error struct {
	Kind      error  // the cause: one of the Err variables
	Tensor    int    // index in TENS.tensors, -1 where the fault lies in no tensor
	Attribute string // name of the attribute, "" where the fault lies in none
	Offset    int    // byte of the label (of the data in [ErrEncodingTruncated]), -1 where there is none
	Detail    string // what was found; what came from the message is quoted and cut
}

// Error gives the place first, then what was found, then the cause.
func (e *Error) Error() string {
	b := []byte("tens: ")
	if e.Tensor >= 0 {
		b = append(b, "tensor "...)
		b = strconv.AppendInt(b, int64(e.Tensor), 10)
		b = append(b, ": "...)
	}
	if e.Detail != "" {
		b = append(b, e.Detail...)
		b = append(b, ": "...)
	} else if e.Attribute != "" {
		b = append(b, quote([]byte(e.Attribute))...)
		b = append(b, ": "...)
	}
	b = fmt.Append(b, e.Kind)
	if e.Offset >= 0 {
		b = append(b, " (byte "...)
		b = strconv.AppendInt(b, int64(e.Offset), 10)
		b = append(b, ')')
	}
	return string(b)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Kind }

// fault is an error outside of tensors and labels.
func fault(kind error, detail string) *Error {
	return &Error{Kind: kind, Tensor: -1, Offset: -1, Detail: detail}
}

// quote makes untrusted text fit to stand in an error: quoted, and no longer than a few words.
func quote(text []byte) string {
	const most = 32
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "…"
	}
	return strconv.Quote(string(text))
}
