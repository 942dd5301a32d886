//go:build cgo

// Package formats has a table of the message formats of this module. Only tests import it. They test once, over All,
// the rules that every format must follow. A new format adds a file with its row; TestEveryFormatHasARow says what
// belongs there.
package formats

import (
	"bytes"
	"io"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// All has the rows.
var All []*Format

// add adds a row to All.
func add(f Format) *Format {
	All = append(All, &f)
	return &f
}

// A Named is a tensor or elements in a message. Its name is empty in formats that have none.
type Named struct {
	Name     string
	Tensor   *dlpack.Tensor
	Elements *elements.Elements
}

// A Format is the row of a format.
type Format struct {
	Folder  string // of the package, from the root of the module
	Title   string // of the column in the table of bridge/README.md
	Several bool   // a message may have several values
	// Common reports that the name is also an ordinary word or the name of a framework, so that only identifiers such
	// as dlb_NAME mean the format.
	Common bool

	// Encode returns the bytes of a message, and Decode its values. Decode also passes a nil option. Its tensors are
	// writable, and alias data where possible.
	Encode func(values ...Named) ([]byte, error)
	Decode func(data []byte) ([]Named, error)
	// DecodeTo writes the elements of a message to a sink. It is nil if the format has no such function.
	DecodeTo func(sink elements.Sink, data []byte) error
	// ReadTensor reads the message of a tensor from a stream, and WriteTensor writes it. They are nil if the format has
	// no such functions.
	ReadTensor  func(r io.Reader, size int64) (*dlpack.Tensor, error)
	WriteTensor func(w io.Writer, x *dlpack.Tensor) error
	// Header returns the bytes before the elements of a row-major tensor. It is nil if a message has more than these
	// bytes and the elements.
	Header func(dtype dlpack.DataType, shape []int64) ([]byte, error)

	// The errors for a data type, a rank and an element type that the format does not have. An error is nil if the
	// format has all of them, or has no elements.
	NoDType, NoRank, NoElements error
	// The error for a message that is larger than the format allows. It is nil if only memory is the limit.
	TooLarge error

	// Writers, Readers and Others have all functions of the package that take a tensor.
	Writers []Writer
	Readers []Reader
	Others  []Other
	// Payloads are functions that append a payload without a tensor.
	Payloads []Payload
	// Nils are uses of nil receivers and arguments.
	Nils []Nil
	// Samples are further messages that Readers accept. The key says what is special about the message.
	Samples map[string][]byte

	// Hostile returns inputs that need much memory for their size, by name. Measure requires that every function that
	// decodes an input takes memory in proportion to it. long says that the test may take seconds.
	Hostile func() map[string][]byte
	Measure func(t testing.TB, data []byte, long bool)

	// InC has the data for testing the C functions of the format in bridge/capi. It is nil for TENS, which has its own
	// tests there.
	InC *InC
}

// InC is the part of a row for the C functions.
type InC struct {
	// Commands are the commands of amplification.c that decode a message. The first has no options.
	Commands []Command
	// Seeds passes messages to f with the part to repeat, as [amplification.Repeat] does. It may be nil.
	Seeds func(f func(data []byte, at, size, times uint16))
	// Fixed has messages of elements of a fixed size, by name.
	Fixed map[string][]byte

	// Vectors returns messages that other programs have written. It is nil if there are none. DecodeView decodes a
	// message as C does with the same options. DecodeFirst decodes the first message of a stream, and is nil for a
	// format without streams.
	Vectors     func(t testing.TB) []Vector
	DecodeView  func(data []byte, options uint64) (View, error)
	DecodeFirst func(data []byte, options uint64) (View, int, error)
}

// A Command is a command of amplification.c with its options, and the number of bytes that the call may take for a
// message of any size.
type Command struct {
	Op      string
	Options uint64
	Limit   uint64
}

// A Vector is a message in a file, and the options with which C decodes it.
type Vector struct {
	Name, File string
	Options    uint64
	Written    []string // C's encodings of the value in hexadecimal, in each form
	Refused    bool
	Counts     []int // numbers of messages that the calls for a stream read
	Ends       []int // the ends of the accepted messages of the stream
}

// A View is a decoded message. Aliases reports whether Data lies in the message.
type View struct {
	DType    dlpack.DataType
	Shape    []int64
	Data     []byte
	Aliases  bool
	Elements *elements.Elements
}

// Name returns the name of the package. The texts of its errors begin with it.
func (f *Format) Name() string { return path.Base(f.Folder) }

// A Writer appends a tensor to bytes. Its name is the name of the function and, after a comma, what is special about
// the call. Size returns how many bytes Append will append.
type Writer struct {
	Name   string
	Append func(dst []byte, x *dlpack.Tensor) ([]byte, error)
	Size   func(x *dlpack.Tensor) (int, error)
}

// A Reader decodes a message in the memory of a one-dimensional tensor of bytes. It aligns to align bytes; if align is
// 0, it passes a nil option.
type Reader struct {
	Name string
	Read func(data *dlpack.Tensor, align int) (Value, error)
}

// A Value is the result of a Reader. Copied reports whether a tensor is a copy.
type Value struct {
	Tensor   *dlpack.Tensor
	Elements *elements.Elements
	Copied   bool
}

// An Other uses a tensor in another way. It fails the test unless the result is right, and returns the error of the
// function.
type Other struct {
	Name string
	Use  func(t testing.TB, x *dlpack.Tensor) error
}

// writeTensor returns an Other for write. It compares the bytes that write writes with the bytes that appendTo appends
// to nil.
func writeTensor(write func(w io.Writer, x *dlpack.Tensor) error, appendTo func(dst []byte, x *dlpack.Tensor) ([]byte, error)) Other {
	return Other{"WriteTensor", func(t testing.TB, x *dlpack.Tensor) error {
		var out bytes.Buffer
		err := write(&out, x)
		want, refused := appendTo(nil, x)
		require.Equal(t, refused, err)
		require.True(t, bytes.Equal(want, out.Bytes()))
		return err
	}}
}

// A Payload appends one element that consists of data.
type Payload struct {
	Name   string
	Append func(dst, data []byte) ([]byte, error)
}

// A Nil is a use of nil, and the error that it must return, if any.
type Nil struct {
	Name string
	Use  func() error
	Want error
}
