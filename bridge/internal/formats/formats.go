//go:build cgo

// Package formats is for tests, which alone import it: a table of the message formats of this module. What every format must do is
// tested once, over All. A new format adds a file with its row, and the row to All; TestEveryFormatHasARow says what belongs there.
package formats

import (
	"path"
	"testing"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// All has the rows in the order of the columns of bridge/README.md.
var All = []*Format{&TENS, &Decthings, &TensorFlow}

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

	// Encode returns the bytes of a message, and Decode its values. Decode also passes a nil option. Its tensors are writable, and
	// alias data where they can.
	Encode func(values ...Named) ([]byte, error)
	Decode func(data []byte) ([]Named, error)
	// DecodeTo writes the elements of a message to a sink; nil if it has none.
	DecodeTo func(sink elements.Sink, data []byte) error
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
