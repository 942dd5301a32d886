//go:build cgo

package npy

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A DecodeOption changes how tensors are made of the arrays of a file.
type DecodeOption func(decoding) decoding

type decoding struct {
	writable bool
	align    int // 1 to alias any memory, 0 for what the elements need
	dtype    dlpack.DataType
}

// Writable makes the tensors writable that alias Go memory; without it they are read-only. Copies are writable anyway. Nobody else may
// use the file. It does not affect [DecodeFrom], whose views are read-only if their input is.
func Writable() DecodeOption { return func(d decoding) decoding { d.writable = true; return d } }

// Align copies an array that is not aligned to n bytes in the memory of the file, a power of two up to [dlpack.AllocAlignment]; 0 stands for
// the alignment that its elements need. Without it such a tensor aliases the file, and [dlpack.Tensor.Alignment] says how it is aligned.
func Align(n int) DecodeOption {
	return func(d decoding) decoding { d.align = n; return d }
}

// As gives the elements a data type, as [Description.As] does.
func As(dt dlpack.DataType) DecodeOption {
	return func(d decoding) decoding { d.dtype = dt; return d }
}

// Decode returns the array of an npy file as a tensor, which aliases the file and is read-only without [Writable]. A big-endian array is copied,
// and with [Align] one that is not aligned; the tensor then has the flag [dlpack.IsCopied], and may be written to.
//
// Ownership: the caller closes the tensor; data is Go memory. Lifetime: the tensor and its exports keep data alive. Threads: any. On error:
// those of [Parse]; [elements.ErrDType] for a type that [As] cannot give; [dlpack.ErrUnaligned] for an invalid alignment;
// [dlpack.ErrMemory].
func Decode(data []byte, options ...DecodeOption) (*dlpack.Tensor, error) {
	f, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return f.tensor(nil, &f.Tensors[0], options)
}

// DecodeFrom is [Decode] for a file in memory that is not Go's, such as a mapping: a one-dimensional uint8 tensor (see [dlpack.Lend]). The tensor
// is a view of it, and read-only if data is, or a copy.
//
// Ownership: data stays the caller's, who closes the tensor. Lifetime: the tensor keeps the memory alive. Threads: any. On error: as [Decode];
// [dlpack.ErrLayout] for data that is not a one-dimensional uint8 tensor without gaps, [dlpack.ErrDevice], [dlpack.ErrClosed].
func DecodeFrom(data *dlpack.Tensor, options ...DecodeOption) (*dlpack.Tensor, error) {
	bytes, err := payload.Source("npy", data)
	if err != nil {
		return nil, err
	}
	defer payload.EndSource(data, nil)
	f, err := Parse(bytes)
	if err != nil {
		return nil, err
	}
	return f.tensor(data, &f.Tensors[0], options)
}

// tensor returns the tensor that d describes, on the memory of source, or on Go memory if source is nil.
func (f *File) tensor(source *dlpack.Tensor, described *Description, options []DecodeOption) (*dlpack.Tensor, error) {
	o := decoding{align: 1}
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			o = option(o)
		}
	}
	if err := payload.CheckAlign(o.align); err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	d := *described
	if o.dtype != 0 {
		var err error
		if d, err = d.As(o.dtype); err != nil {
			return nil, err
		}
	}
	if o.align == 0 {
		o.align = payload.Alignment(d.DType)
	}
	s := dlpack.Spec{DType: d.DType, Shape: d.Shape, Strides: d.Strides(), Padded: d.DType.IsSubByte()}
	if !d.BigEndian && !payload.IsMisaligned(d.Data, o.align) {
		s.ReadOnly = source == nil && !o.writable
		return payload.Place(source, f.data, d.Data, s, 1)
	}
	s.Copied = true
	return f.copied(&d, s)
}

// copied returns a copy of the array that d describes, in the byte order of DLPack.
func (f *File) copied(d *Description, s dlpack.Spec) (*dlpack.Tensor, error) {
	memory, err := dlpack.New(dlpack.Uint8, d.Size)
	if err != nil {
		return nil, payload.WithFormat("npy", err)
	}
	defer memory.Close()
	err = dlpack.Use(memory, func(to []byte) error {
		copy(to, d.Data)
		if d.BigEndian {
			swap(to, payload.Alignment(d.DType))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return memory.View(s)
}

// swap reverses the bytes of each number of size bytes.
func swap(data []byte, size int) {
	switch size {
	case 2:
		for ; len(data) >= 2; data = data[2:] {
			binary.LittleEndian.PutUint16(data, bits.ReverseBytes16(binary.LittleEndian.Uint16(data)))
		}
	case 4:
		for ; len(data) >= 4; data = data[4:] {
			binary.LittleEndian.PutUint32(data, bits.ReverseBytes32(binary.LittleEndian.Uint32(data)))
		}
	case 8:
		for ; len(data) >= 8; data = data[8:] {
			binary.LittleEndian.PutUint64(data, bits.ReverseBytes64(binary.LittleEndian.Uint64(data)))
		}
	}
}
