//go:build cgo

package npy

import (
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// AppendTensor appends a tensor as an npy file, with the bytes that numpy.save writes, except for the type of
// float8_e5m2 (see Types in the package documentation). The order is column-major if the elements are in that order in
// memory, and otherwise row-major. If dst has too little capacity, AppendTensor allocates memory in which the elements
// are aligned to 64 bytes. If dst overlaps the memory of t, the result has new memory of any alignment.
//
// Ownership: t stays the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes to the tensor. On
// error: [elements.ErrDType] for a type that NumPy lacks, and for elements of less than a byte that are packed; [ErrRank]; [dlpack.ErrValue]
// for a boolean other than 0 and 1, [dlpack.ErrDevice], [dlpack.ErrClosed] or [dlpack.ErrMemory]; dst is then returned unchanged.
func AppendTensor(dst []byte, t *dlpack.Tensor) ([]byte, error) {
	head, rows, err := encode(t)
	if err != nil {
		return dst, err
	}
	defer rows.Close()
	out, err := payload.AppendTensor("npy", dst, rows, len(head), len(dst)+len(head), alignment)
	if err != nil {
		return dst, err
	}
	copy(out[len(dst):], head) // after the elements, because the header may overlap their source
	return out, nil
}

// WriteTensor writes to w the bytes that [AppendTensor] appends. If the elements are in the order of the file, it
// writes them directly from the memory of t. Otherwise it copies them first, in pieces of at most 1 MiB. [SizeTensor]
// returns the number of bytes beforehand.
//
// Ownership: t stays the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to the tensor. On error: those
// of [AppendTensor], before anything is written; those of w; [elements.ErrNil] if w is nil.
func WriteTensor(w io.Writer, t *dlpack.Tensor) error {
	head, rows, err := encode(t)
	if err != nil {
		return err
	}
	defer rows.Close()
	return payload.WriteTensor("npy", w, rows, head)
}

// SizeTensor returns how many bytes [AppendTensor] appends.
//
// Ownership: t stays the caller's. Lifetime: none. Threads: any. On error: [elements.ErrDType], [ErrRank], [dlpack.ErrClosed].
func SizeTensor(t *dlpack.Tensor) (int64, error) {
	head, rows, err := encode(t)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	return int64(len(head)) + t.NumBytes(), nil
}

// encode returns the header of a tensor, and rows, whose elements in row-major order follow the header in the file. The
// caller closes rows.
func encode(t *dlpack.Tensor) (head []byte, rows *dlpack.Tensor, err error) {
	if err := t.RequireOpen(); err != nil {
		return nil, nil, payload.WithFormat("npy", err)
	}
	if t.DType().IsSubByte() && t.Flags()&dlpack.SubbytePadded == 0 {
		return nil, nil, fmt.Errorf("npy: %s has packed elements, but NumPy needs a byte for each; Convert makes elements of whole bytes: %w", t, elements.ErrDType)
	}
	shape := t.Shape()
	fortran := !t.IsContiguous() && layout.IsColumnMajor(shape, t.Strides())
	if head, err = AppendHeader(nil, t.DType(), shape, fortran); err != nil {
		return nil, nil, err
	}
	if fortran {
		rows, err = t.Transpose()
	} else {
		rows, err = t.Share()
	}
	if err != nil {
		return nil, nil, payload.WithFormat("npy", err)
	}
	return head, rows, nil
}

// Named is a tensor and its name in an npz file.
type Named struct {
	Name   string // without ".npy"
	Tensor *dlpack.Tensor
}

// WriteZip writes tensors as an npz file to w, byte for byte as numpy.savez does, without compression. It writes
// elements as [WriteTensor] does. It first reads them once for their checksum, which precedes them in the file.
//
// Ownership: the tensors stay the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to
// the tensors. On error: before anything is written, the errors of [AppendTensor], [elements.ErrDuplicate], and
// [elements.ErrName] for a name that is not a relative path in UTF-8 or is longer than 64 KiB; later the errors of w.
// If w is nil, [elements.ErrNil].
func WriteZip(w io.Writer, tensors []Named) error {
	type member struct {
		written
		head []byte
		rows *dlpack.Tensor
	}
	members := make([]member, len(tensors))
	first := make(map[string]int, len(tensors))
	for i, t := range tensors {
		if name := t.Name + ".npy"; !payload.IsRelativePath(name) || len(name) > math.MaxUint16 {
			return fmt.Errorf("npy: the name %s of tensor %d must be a relative path in UTF-8 without \"..\", NUL and backslashes: %w", errtext.Quote(t.Name), i, elements.ErrName)
		}
		if k, ok := first[t.Name]; ok {
			return fmt.Errorf("npy: tensors %d and %d have the name %s: %w", k, i, errtext.Quote(t.Name), elements.ErrDuplicate)
		}
		first[t.Name] = i
		head, rows, err := encode(t.Tensor)
		if err != nil {
			return fmt.Errorf("npy: tensor %s: %w", errtext.Quote(t.Name), err)
		}
		defer rows.Close()
		crc := crc32.NewIEEE()
		if err := payload.WriteTensor("npy", crc, rows, head); err != nil {
			return fmt.Errorf("npy: tensor %s: %w", errtext.Quote(t.Name), err)
		}
		members[i] = member{written{name: t.Name + ".npy", size: uint64(len(head)) + uint64(rows.NumBytes()), crc: crc.Sum32()}, head, rows}
	}
	at := uint64(0)
	var directory []byte
	for i := range members {
		m := &members[i]
		m.offset = at
		head := append(m.appendLocal(nil), m.head...)
		if err := payload.WriteTensor("npy", w, m.rows, head); err != nil {
			return err
		}
		directory = m.appendEntry(directory)
		at += uint64(len(head)) + uint64(m.rows.NumBytes())
	}
	return payload.Write("npy", w, appendEnd(directory, uint64(len(members)), uint64(len(directory)), at))
}
