//go:build cgo

// Package formats is for tests, which alone import it: a table of the message formats of this module. What every format must do is
// tested once, over All. A new format adds a file with its row; TestEveryFormatHasARow says what belongs there.
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
	Folder  string // of its package, from the root of the module
	Title   string // of its column in the table of bridge/README.md
	Several bool   // a message may have several values
	// The name is also that of a framework or an ordinary word, so that only identifiers such as dlb_NAME mean the format.
	Common bool

	// Encode returns the bytes of a message, and Decode its values. Decode also passes a nil option. Its tensors are writable, and
	// alias data where they can.
	Encode func(values ...Named) ([]byte, error)
	Decode func(data []byte) ([]Named, error)
	// DecodeTo writes the elements of a message to a sink; nil if it has none.
	DecodeTo func(sink elements.Sink, data []byte) error
	// ReadTensor and WriteTensor read the message of a tensor from a stream, and write one; nil if it has none.
	ReadTensor  func(r io.Reader, size int64) (*dlpack.Tensor, error)
	WriteTensor func(w io.Writer, x *dlpack.Tensor) error
	// Header returns what stands before the elements of a row-major tensor; nil if that is not all that stands in a message.
	Header func(dtype dlpack.DataType, shape []int64) ([]byte, error)

	// The errors of a data type, of a rank and of a type of elements that it lacks; nil if it has all of them, or no elements.
	NoDType, NoRank, NoElements error
	// The error of a message that is larger than any may be; nil if only memory is the limit.
	TooLarge error

	// Writers, Readers and Others have all functions of the package that take a tensor.
	Writers []Writer
	Readers []Reader
	Others  []Other
	// Payloads are functions that append a payload without a tensor.
	Payloads []Payload
	// Nils are uses of nil receivers and arguments.
	Nils []Nil
	// Samples are further messages that Readers accept, by what is special about them.
	Samples map[string][]byte

	// Hostile returns inputs that need much memory for their size, by name, and Measure requires that every function that decodes
	// such an input takes memory in proportion to it. long says that the test may take seconds.
	Hostile func() map[string][]byte
	Measure func(t testing.TB, data []byte, long bool)

	// InC is what its C functions need in the tests of bridge/capi; nil for TENS, which has tests of its own there.
	InC *InC
}

// InC is the part of a row for the C functions.
type InC struct {
	// Commands are those of amplification.c that decode a message; the first is the plain one.
	Commands []Command
	// Seeds, which may be nil, passes messages to f, with the part that is to be repeated, as [amplification.Repeat] does.
	Seeds func(f func(data []byte, at, size, times uint16))
	// Fixed are messages of elements of a fixed size, by name.
	Fixed map[string][]byte

	// Vectors returns messages that other programs have written; nil if none are known. DecodeView decodes one as C does with the same options, and
	// DecodeFirst the first one of a stream; nil for a format without streams.
	Vectors     func(t testing.TB) []Vector
	DecodeView  func(data []byte, options uint64) (View, error)
	DecodeFirst func(data []byte, options uint64) (View, int, error)
}

// A Command is one of amplification.c, with its options, and how many bytes the call may take whatever the size of the message.
type Command struct {
	Op      string
	Options uint64
	Limit   uint64
}

// A Vector is a message in a file, and the options with which C decodes it.
type Vector struct {
	Name, File string
	Options    uint64
	Written    []string // what C encodes its value to, in hexadecimal: in each form
	Refused    bool
	Counts     []int // of a stream, which is read by calls for so many messages each
	Ends       []int // of the messages of the stream that are not refused
}

// A View is a decoded message. Aliases says that Data lies in the message.
type View struct {
	DType    dlpack.DataType
	Shape    []int64
	Data     []byte
	Aliases  bool
	Elements *elements.Elements
}

// Name is the name of the package, with which its errors begin.
func (f *Format) Name() string { return path.Base(f.Folder) }

// A Writer appends a tensor to bytes. Its name is that of the function, and what is special about the call behind a comma. Size
// says how many bytes Append will append.
type Writer struct {
	Name   string
	Append func(dst []byte, x *dlpack.Tensor) ([]byte, error)
	Size   func(x *dlpack.Tensor) (int, error)
}

// A Reader decodes a message in the memory of a one-dimensional tensor of bytes. It aligns to align bytes; with 0, it passes a nil
// option.
type Reader struct {
	Name string
	Read func(data *dlpack.Tensor, align int) (Value, error)
}

// A Value is what a Reader has decoded. Copied says that a tensor has memory of its own.
type Value struct {
	Tensor   *dlpack.Tensor
	Elements *elements.Elements
	Copied   bool
}

// An Other uses a tensor in another way. It fails the test unless the outcome is right, and returns the error of the function.
type Other struct {
	Name string
	Use  func(t testing.TB, x *dlpack.Tensor) error
}

// writeTensor returns the Other of a function that writes to an io.Writer what another one appends to nil.
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
