package payload

import (
	"fmt"
	"io"
	"math"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// alignment is the alignment of memory for messages that are read.
const alignment = 64

// Checked returns an io.Reader on r that returns an error if r returns an invalid count, on which package bufio would
// panic, or if r repeatedly returns nothing. If r returns an error together with bytes, the next Read returns the
// error.
func Checked(r io.Reader) io.Reader { return &checked{in: r} }

type checked struct {
	in   io.Reader
	late error
	idle int // how many reads in a row returned nothing
}

func (c *checked) Read(data []byte) (int, error) {
	const tries = 100 // as in package bufio
	if c.late != nil {
		return 0, c.late
	}
	n, err := c.in.Read(data)
	if n < 0 || n > len(data) {
		return 0, fmt.Errorf("the io.Reader returned %d, but was asked for %d bytes", n, len(data))
	}
	if n > 0 {
		c.idle, c.late = 0, err
		return n, nil
	}
	if c.idle++; err == nil && c.idle > tries {
		err = io.ErrNoProgress
	}
	return 0, err
}

// ReadMore appends n bytes of r to data. If there is an error, it also returns the bytes before the error. If it needs
// more memory, it doubles the memory as bytes arrive, or makes it up to three times as large if this is enough for all
// n bytes. In new memory the byte with the given index is aligned to 64 bytes; the index may be beyond the n bytes.
//
// Errors: [io.EOF] if r ends too early; the errors of r, which must come from [Checked]; [dlpack.ErrMemory].
func ReadMore(r io.Reader, data []byte, n uint64, index int) ([]byte, error) {
	const first = 16 << 10
	for n > 0 {
		have := len(data)
		step := max(have, first)
		if n <= 2*uint64(step) { // so that the data is not copied again for the last few bytes
			step = int(n)
		}
		if cap(data)-have < step {
			size := max(have+step, 2*have)
			if err := dlpack.RequireMemory(int64(size + alignment)); err != nil {
				return data, err
			}
			data = append(Aligned(index, size, alignment), data...)
		}
		got, err := fill(r, data[have:have+step])
		data = data[:have+got]
		if err != nil {
			return data, err
		}
		n -= uint64(step)
	}
	return data, nil
}

// fill reads until data is full or an error occurs. [io.ReadFull] is not suitable: it replaces [io.EOF] by an error
// that an io.Reader itself may return.
func fill(r io.Reader, data []byte) (got int, err error) {
	for got < len(data) && err == nil {
		var n int
		n, err = r.Read(data[got:])
		got += n
	}
	return got, err
}

// ReadMessage reads size bytes, or up to the end of r if size is negative. If the size is known, the end of the message
// is aligned to [alignment], so that elements at its end are aligned to their size. The memory is as for [ReadMore].
//
// Errors: those of r, [io.ErrUnexpectedEOF] if r ends before size bytes, [elements.ErrNil] if r is nil, and
// [dlpack.ErrMemory]. Each text begins with the name of the format.
func ReadMessage(format string, r io.Reader, size int64) ([]byte, error) {
	if r == nil {
		return nil, fmt.Errorf("%s: the io.Reader is %w", format, elements.ErrNil)
	}
	n, of := uint64(size), fmt.Sprintf(" of %d", size)
	if size < 0 {
		n, of = math.MaxUint64, ""
	}
	data, err := ReadMore(Checked(r), nil, n, int(size))
	if err == io.EOF {
		if size < 0 {
			return data, nil
		}
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%s: after %d%s bytes of the message: %w", format, len(data), of, err)
	}
	return data, nil
}
