package decthings

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
)

// A Reader splits a stream into tensors.
type Reader struct {
	in      *bufio.Reader
	dialect Dialect
	err     error
	start   int64  // offset of the tensor in the stream
	view    View   // the type and shape of the tensor
	tensor  []byte // the bytes of the tensor that have arrived
	payload int    // index in tensor of the elements, which are aligned to 64 bytes
}

// NewReader returns a Reader of tensors that follow each other directly. It reads ahead, but never waits for more bytes
// than the current tensor has.
func NewReader(r io.Reader, d Dialect) *Reader {
	if r == nil {
		return &Reader{}
	}
	return &Reader{in: bufio.NewReader(payload.Checked(r)), dialect: d, err: d.check()}
}

// errPanicked reports that an earlier Next has not returned. It may have read part of a tensor, so the next byte of the
// stream may not be the first of a tensor. Next also returns this error if the io.Reader calls Next.
var errPanicked = errors.New("decthings: an earlier call of Next has not returned, for example because the io.Reader panicked")

// Next returns the bytes of the next tensor, for [Decode] or [DecodeView], in new memory. The payload is aligned to 64
// bytes in this memory, so decoding does not copy it. The memory depends on the number of bytes of the tensor that have
// arrived, not on the size that a header claims. It is at most five times this number, plus 64 KiB. A tensor may be as
// large as the stream; an [io.LimitReader] sets a limit.
//
// Errors: [io.EOF] after the last tensor; an [*elements.Error] with [ErrTruncated] or another error in a header or a length;
// [elements.ErrNil] without an io.Reader; [dlpack.ErrMemory] for a tensor that is larger than the memory; or an error of the
// io.Reader. After an error every call returns the same error.
func (r *Reader) Next() ([]byte, error) {
	if r == nil || r.in == nil {
		return nil, fmt.Errorf("decthings: the io.Reader is %w", elements.ErrNil)
	}
	if r.err != nil {
		return nil, r.err
	}
	r.err = errPanicked // stays set if next panics
	if r.err = r.next(); r.err != nil {
		r.tensor = nil
		return nil, r.err
	}
	tensor := r.tensor
	r.start += int64(len(tensor))
	r.tensor = nil
	return tensor[:len(tensor):len(tensor)], nil
}

// next reads the bytes of the next tensor into r.tensor.
func (r *Reader) next() error {
	head, err := r.in.Peek(2)
	if err == io.EOF && len(head) == 0 {
		return io.EOF
	}
	end := 2
	for i := 0; err == nil && Type(head[0]).valid() && i < int(head[1]); i++ {
		if head, err = r.in.Peek(end + 1); err == nil {
			end += widthVarint(head[end])
			head, err = r.in.Peek(end)
		}
	}
	if err != nil && err != io.EOF {
		return r.failed(err)
	}
	end, count, fail := r.view.header(head) // this also detects a truncated header
	if fail != nil {
		return fail.After(r.start)
	}
	r.payload = end
	if dt := r.view.Type.DataType(); dt != 0 {
		size := int64(dt.ItemSize())
		if count > math.MaxInt64/size {
			return newError(end, ErrTruncated, "%v%v needs %d elements of %d bytes", r.view.Type, errtext.Shape(r.view.Shape), count, size).After(r.start)
		}
		return r.readMore(uint64(end) + uint64(count*size))
	}
	if err := r.readMore(uint64(end)); err != nil {
		return err
	}
	if r.dialect != Doc {
		return r.readCounted("the length of the section")
	}
	for range count {
		if err := r.readCounted("the length of an element"); err != nil {
			return err
		}
	}
	return nil
}

// readCounted reads a varint and then the number of bytes that it gives. what names the varint in an error.
func (r *Reader) readCounted(what string) error {
	text, err := r.in.Peek(1)
	if err == nil {
		text, err = r.in.Peek(widthVarint(text[0]))
	}
	if err != nil && err != io.EOF {
		return r.failed(err)
	}
	n, size, cause := decodeVarint(text, 0)
	if cause != nil {
		return newError(len(r.tensor), cause, "%s, in dialect %v", what, r.dialect).After(r.start)
	}
	if err := r.readMore(uint64(size)); err != nil {
		return err
	}
	return r.readMore(n)
}

// readMore reads n more bytes of the tensor.
func (r *Reader) readMore(n uint64) (err error) {
	have := len(r.tensor)
	r.tensor, err = payload.ReadMore(r.in, r.tensor, n, r.payload)
	if err == io.EOF {
		return newError(len(r.tensor), ErrTruncated, "%d more bytes are expected", n-uint64(len(r.tensor)-have)).After(r.start)
	}
	if err != nil {
		return r.failed(err)
	}
	return nil
}

// failed returns an error of the io.Reader, or of memory, with its place.
func (r *Reader) failed(err error) error {
	return fmt.Errorf("decthings: in the tensor at byte %d: %w", r.start, err)
}
