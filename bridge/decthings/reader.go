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
	"github.com/dlbridge/dlbridge/dlpack"
)

// Reader splits a stream into tensors.
type Reader struct {
	in      *bufio.Reader
	dialect Dialect
	err     error
	late    error // of the io.Reader, that came with the last bytes of what was asked for
	start   int64 // of the tensor in the stream
	view    View
	tensor  []byte // what has come of it
	payload int    // index in it that is aligned
}

// NewReader makes a Reader of tensors that follow one another without anything between them. It reads
// ahead, but never waits for more than the tensor that is asked for.
func NewReader(r io.Reader, d Dialect) *Reader {
	if r == nil {
		return &Reader{}
	}
	return &Reader{in: bufio.NewReader(checked{r}), dialect: d, err: d.check()}
}

// checked refuses counts that an io.Reader must not return: package bufio panics on them.
type checked struct{ io.Reader }

func (c checked) Read(data []byte) (int, error) {
	n, err := c.Reader.Read(data)
	if n < 0 || n > len(data) {
		return 0, fmt.Errorf("the io.Reader returned %d for %d bytes", n, len(data))
	}
	return n, err
}

// errPanicked: part of a tensor was read, and what follows is no beginning of another. Next also returns it where the
// io.Reader calls it.
var errPanicked = errors.New("decthings: an earlier Next has not returned, as after a panic of the io.Reader")

// Next returns the bytes of the next tensor, for [Decode] or [DecodeView], in new memory. The payload is aligned
// there to 64 bytes, so that nothing copies it again. Memory is taken as bytes arrive, whatever a header
// says is to come: at most five times the bytes of the tensor that have come, and 64 KiB. A tensor may be as large as the
// stream; an [io.LimitReader] bounds that.
//
// Errors: [io.EOF] behind the last tensor; an [*elements.Error] with [ErrTruncated], or with the fault of a header
// or a length; [elements.ErrNil] without an io.Reader; [dlpack.ErrMemory] for a tensor that there is no memory for; or what
// the io.Reader says. After an error there is no next tensor.
func (r *Reader) Next() ([]byte, error) {
	if r == nil || r.in == nil {
		return nil, fmt.Errorf("decthings: io.Reader: %w", elements.ErrNil)
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.late != nil {
		r.err = r.failed(r.late)
		return nil, r.err
	}
	r.err = errPanicked // unless next returns
	if r.err = r.next(); r.err != nil {
		r.tensor = nil
		return nil, r.err
	}
	tensor := r.tensor
	r.start += int64(len(tensor))
	r.tensor = nil
	return tensor[:len(tensor):len(tensor)], nil
}

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
	end, count, fail := r.view.header(head) // it also says where it ends too early
	if fail != nil {
		return fail.After(r.start)
	}
	r.payload = end
	if dt := r.view.Type.DataType(); dt != 0 {
		size := int64(dt.ItemSize())
		if count > math.MaxInt64/size {
			return fault(end, ErrTruncated, "%v%v takes %d elements of %d bytes", r.view.Type, errtext.Shape(r.view.Shape), count, size).After(r.start)
		}
		return r.take(uint64(end) + uint64(count*size))
	}
	if err := r.take(uint64(end)); err != nil {
		return err
	}
	if r.dialect != Doc {
		return r.takeCounted("length of the section")
	}
	for range count {
		if err := r.takeCounted("length of an element"); err != nil {
			return err
		}
	}
	return nil
}

// takeCounted takes a varint, and as many bytes as it says.
func (r *Reader) takeCounted(what string) error {
	text, err := r.in.Peek(1)
	if err == nil {
		text, err = r.in.Peek(widthVarint(text[0]))
	}
	if err != nil && err != io.EOF {
		return r.failed(err)
	}
	n, size, cause := decodeVarint(text, 0)
	if cause != nil {
		return fault(len(r.tensor), cause, "%s", what).After(r.start)
	}
	if err := r.take(uint64(size)); err != nil {
		return err
	}
	return r.take(n)
}

// take reads n more bytes of the tensor. New memory is twice as large as what has come, or three times where that is
// enough for the tensor.
func (r *Reader) take(n uint64) error {
	const first = 16 << 10
	for n > 0 {
		have := len(r.tensor)
		step := max(have, first)
		if n <= 2*uint64(step) { // not to copy it all again for the last few bytes
			step = int(n)
		}
		if cap(r.tensor)-have < step {
			size := max(have+step, 2*have)
			if err := dlpack.RequireMemory(int64(size + alignment)); err != nil {
				return r.failed(err)
			}
			r.tensor = append(payload.Aligned(r.payload, size, alignment), r.tensor...)
		}
		got, err := r.fill(r.tensor[have : have+step])
		r.tensor = r.tensor[:have+got]
		if err == io.EOF {
			return fault(have+got, ErrTruncated, "%d more bytes are to come", n-uint64(got)).After(r.start)
		}
		if err != nil {
			return r.failed(err)
		}
		n -= uint64(step)
	}
	return nil
}

// fill reads until data is full or an error ends it. [io.ReadFull] does not do: it goes on for ever where the io.Reader
// gives nothing, and makes another error of [io.EOF] that an io.Reader uses itself.
func (r *Reader) fill(data []byte) (got int, err error) {
	const tries = 100 // as package bufio
	for idle := 0; got < len(data); idle++ {
		if r.late != nil {
			return got, r.late
		}
		n, err := r.in.Read(data[got:])
		got += n
		if err != nil && err != io.EOF {
			r.late = err
		}
		if err != nil && got < len(data) {
			return got, err
		}
		if n > 0 {
			idle = 0
		}
		if idle == tries {
			return got, io.ErrNoProgress
		}
	}
	return got, nil
}

// failed is an error of the io.Reader, or of memory.
func (r *Reader) failed(err error) error {
	return fmt.Errorf("decthings: in the tensor at byte %d: %w", r.start, err)
}
