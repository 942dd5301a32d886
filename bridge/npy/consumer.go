//go:build cgo

package npy

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A DecodeOption changes how tensors are made from the arrays of a file.
type DecodeOption func(decoding) decoding

type decoding struct {
	writable bool
	align    int // 1 to alias any memory, 0 for the alignment of the elements
	dtype    dlpack.DataType
}

// Writable makes tensors that alias Go memory writable; without this option they are read-only. Copies are always
// writable. Nobody else may use the file. Writable does not affect [View.TensorFrom]: its views are read-only if their
// input is.
func Writable() DecodeOption { return func(d decoding) decoding { d.writable = true; return d } }

// Align copies an array that is not aligned to n bytes in the memory of the file. n is a power of two up to
// [dlpack.AllocAlignment]; 0 stands for the alignment that the elements need. Without Align the tensor of such an array
// aliases the file, and [View.Alignment] and [dlpack.Tensor.Alignment] return its alignment.
func Align(n int) DecodeOption {
	return func(d decoding) decoding { d.align = n; return d }
}

// As gives the elements a data type, as [View.As] does.
func As(dt dlpack.DataType) DecodeOption {
	return func(d decoding) decoding { d.dtype = dt; return d }
}

// Decode returns the array of an npy file as a tensor: [DecodeFile] and [View.Tensor].
//
// Ownership, Lifetime, Threads: as [View.Tensor]. On error: those of DecodeFile and View.Tensor.
func Decode(data []byte, options ...DecodeOption) (*dlpack.Tensor, error) {
	f, err := DecodeFile(data)
	if err != nil {
		return nil, err
	}
	return f.Tensors[0].Tensor(options...)
}

// DecodeFrom is [Decode] for a file in memory that is not Go's, such as a mapping: [DecodeFile] and [View.TensorFrom].
//
// Ownership, Lifetime, Threads: as [View.TensorFrom]. On error: those of DecodeFile and View.TensorFrom.
func DecodeFrom(file *dlpack.Tensor, options ...DecodeOption) (*dlpack.Tensor, error) {
	data, err := payload.Source("npy", file)
	if err != nil {
		return nil, err
	}
	defer payload.EndSource(file, nil)
	f, err := DecodeFile(data)
	if err != nil {
		return nil, err
	}
	return f.Tensors[0].TensorFrom(file, options...)
}

// Tensor returns a tensor on v.Data, which may have any address. It is read-only without [Writable]. It is a copy if
// the array is big-endian or compressed, or not aligned as [Align] requires. A copy has the flag [dlpack.IsCopied], and
// may be written to. Copying a member of an npz file also checks its checksum.
//
// Ownership: the caller closes the tensor; v.Data is Go memory, or memory that stays valid. Lifetime: the tensor and its exports keep the
// memory of the file alive if it is Go's. Threads: any. On error: [elements.ErrDType] for a type that [As] cannot give, v.Err,
// [elements.ErrNil] for a nil View, [ErrZip] or [ErrChecksum] for a compressed member that is malformed, [dlpack.ErrUnaligned] for an
// invalid alignment, [dlpack.ErrMemory].
func (v *View) Tensor(options ...DecodeOption) (*dlpack.Tensor, error) {
	return v.tensor(nil, nil, options)
}

// TensorFrom is [View.Tensor] for a file in memory that is not Go's, or that must be released: file is a
// one-dimensional uint8 tensor of the whole file (see [dlpack.Lend] and [dlpack.Tensor.OnRelease]). The result is a
// copy, or a view of file that is read-only if file is.
//
// Ownership: file stays the caller's, who closes the result. Lifetime: the result keeps the memory of the file alive.
// Threads: any. On error: as [View.Tensor], [dlpack.ErrLayout] for a file that is not a one-dimensional uint8 tensor
// without gaps, [elements.ErrTruncated] for a file that is shorter than the file of the View, [dlpack.ErrDevice],
// [dlpack.ErrClosed].
func (v *View) TensorFrom(file *dlpack.Tensor, options ...DecodeOption) (*dlpack.Tensor, error) {
	data, err := payload.Source("npy", file)
	if err != nil {
		return nil, err
	}
	defer payload.EndSource(file, nil)
	return v.tensor(file, data, options)
}

// tensor returns the tensor that v describes. It lies in file, whose memory is data, or in v.Data if file is nil.
func (v *View) tensor(file *dlpack.Tensor, data []byte, options []DecodeOption) (*dlpack.Tensor, error) {
	if v == nil {
		return nil, fmt.Errorf("npy: the View is %w", elements.ErrNil)
	}
	if v.Err != nil {
		return nil, v.Err
	}
	o := decoding{align: 1}
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			o = option(o)
		}
	}
	if err := payload.CheckAlign(o.align); err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	of := *v
	if file != nil {
		if err := of.move(data); err != nil {
			return nil, err
		}
	}
	if o.dtype != 0 {
		var err error
		if of, err = of.As(o.dtype); err != nil {
			return nil, err
		}
	}
	if o.align == 0 {
		o.align = payload.Alignment(of.DType)
	}
	s := dlpack.Spec{DType: of.DType, Shape: of.Shape, Strides: of.Strides(), Padded: of.DType.IsSubByte()}
	if of.Compressed || of.BigEndian || payload.IsMisaligned(of.Data, o.align) {
		s.Copied = true
		return of.copied(s)
	}
	s.ReadOnly = file == nil && !o.writable
	return payload.Place(file, data, of.Data, s, 1)
}

// copied returns a copy of the array, in the byte order of DLPack.
func (v *View) copied(s dlpack.Spec) (*dlpack.Tensor, error) {
	memory, err := dlpack.New(dlpack.Uint8, v.Size)
	if err != nil {
		return nil, payload.WithFormat("npy", err)
	}
	defer memory.Close()
	err = dlpack.Use(memory, func(to []byte) error {
		if err := v.read(to); err != nil {
			return err
		}
		if v.BigEndian {
			swap(to, payload.Alignment(v.DType))
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
