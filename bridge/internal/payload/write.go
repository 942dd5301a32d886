//go:build cgo

package payload

import (
	"fmt"
	"io"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Write writes pieces of a message one after another.
//
// Errors: those of w, [io.ErrShortWrite], and [elements.ErrNil] if w is nil. Each text begins with the name of the
// format.
func Write(format string, w io.Writer, pieces ...[]byte) error {
	if w == nil {
		return fmt.Errorf("%s: the io.Writer is %w", format, elements.ErrNil)
	}
	for _, piece := range pieces {
		if len(piece) == 0 {
			continue
		}
		n, err := w.Write(piece)
		if err == nil && n != len(piece) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return fmt.Errorf("%s: the io.Writer: %w", format, err)
		}
	}
	return nil
}

// most is the largest number of bytes that is copied in one piece if elements are not in row-major order.
const most = 1 << 20

// WriteTensor writes head, and then the elements of t in row-major order. If they have this order in memory, it writes
// them directly from there. Otherwise it first copies them, in pieces of at most 1 MiB.
//
// Ownership: t stays the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to the tensor. On error: those
// of [Write] and [AppendTensor]. An error of AppendTensor comes before anything is written.
func WriteTensor(format string, w io.Writer, t *dlpack.Tensor, head []byte) error {
	if err := checkHost(format, t); err != nil {
		return err
	}
	var buffer []byte
	if t.DType() == dlpack.Bool {
		err := pieces(format, t, &buffer, func(data []byte) error { return checkBools(format, t, data) })
		if err != nil {
			return err
		}
	}
	if err := Write(format, w, head); err != nil {
		return err
	}
	return pieces(format, t, &buffer, func(data []byte) error { return Write(format, w, data) })
}

// pieces calls f with the elements of t in row-major order, one piece after the other. f must not keep a piece, because
// it may lie in buffer.
func pieces(format string, t *dlpack.Tensor, buffer *[]byte, f func(data []byte) error) error {
	if t.IsContiguous() {
		bytes, err := t.AsBytes()
		if err != nil {
			return WithFormat(format, err)
		}
		defer bytes.Close()
		return dlpack.Read(bytes, f) // keeps the memory if another goroutine closes t
	}
	size := t.NumBytes()
	if size <= most || t.DType().IsSubByte() && t.Flags()&dlpack.SubbytePadded == 0 { // a piece of packed elements may begin inside a byte
		data, err := AppendTensor(format, (*buffer)[:0], t, 0, 0, 1)
		if err != nil {
			return err
		}
		*buffer = data
		return f(data)
	}
	d := 0
	for t.Dim(d) == 1 {
		d++
	}
	n := t.Dim(d)
	step := max(1, most/(size/n))
	for i := int64(0); i < n; i += step {
		part, err := t.Narrow(d, i, min(step, n-i))
		if err != nil {
			return WithFormat(format, err)
		}
		err = pieces(format, part, buffer, f)
		part.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
