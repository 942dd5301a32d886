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
// Errors: those of w, [io.ErrShortWrite], and [elements.ErrNil] if it is nil, after the name of the format.
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

// WriteTensor writes head, and then the elements of t in row-major order, which it copies first unless they lie so in memory.
//
// Ownership: t stays the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to the tensor. On error: those
// of [Write] and [AppendTensor].
func WriteTensor(format string, w io.Writer, t *dlpack.Tensor, head []byte) error {
	if !t.IsContiguous() {
		out, err := AppendTensor(format, nil, t, len(head), 0, 1)
		if err != nil {
			return err
		}
		copy(out, head)
		return Write(format, w, out)
	}
	if err := checkHost(format, t); err != nil {
		return err
	}
	bytes, err := t.AsBytes()
	if err != nil {
		return WithFormat(format, err)
	}
	defer bytes.Close()
	return dlpack.Read(bytes, func(data []byte) error { // which keeps the memory if another goroutine closes t
		if err := checkBools(format, t, data); err != nil {
			return err
		}
		return Write(format, w, head, data)
	})
}
