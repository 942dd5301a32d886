//go:build cgo

package tensorflow

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Value is a decoded tensor: a DLPack tensor, or elements of a type that DLPack does not have.
type Value struct {
	DType    DType
	Tensor   *dlpack.Tensor     // for types that DLPack has
	Elements *elements.Elements // for all other types
	// Copied reports whether the tensor is a copy, because its elements are not aligned in the message, or are encoded
	// differently in the message: as varints, in several records, or without repeated values. A copy may be written to.
	Copied bool
}

// Shape returns the sizes of the dimensions.
func (v *Value) Shape() []int64 {
	if v == nil {
		return nil
	}
	if v.Elements != nil {
		return v.Elements.Shape
	}
	return v.Tensor.Shape()
}

// Close closes the tensor, if there is one.
//
// Ownership, Lifetime, Threads, On error: as [dlpack.Tensor.Close].
func (v *Value) Close() error {
	if v == nil {
		return nil
	}
	return v.Tensor.Close()
}

// LogValue implements [slog.LogValuer]: a log line shows the type and a description of the tensor or elements, without
// their contents.
func (v Value) LogValue() slog.Value { return payload.LogValue(v.DType, v.Tensor, v.Elements) }

// Writable makes tensors of [Decode] that alias the message writable; copies are always writable. The caller must be
// free to write to the message. Writable does not affect [DecodeFrom]: its views are read-only if the message is.
func Writable() DecodeOption {
	return func(d decoding) decoding { d.writable = true; return d }
}

// Align aligns tensors to n bytes, a power of two up to [dlpack.AllocAlignment], instead of the alignment that their
// elements need. With 1 a tensor always aliases the message if its elements have the same form there as in memory.
func Align(n int) DecodeOption { return func(d decoding) decoding { d.align = n; return d } }

// Integers decodes quantised numbers as tensors of the integers that store them, instead of [elements.Elements].
func Integers() DecodeOption {
	return func(d decoding) decoding { d.integers = true; return d }
}

// Decode decodes a TensorProto. A tensor aliases the message if its elements are aligned in the message and have the
// same form as in memory. They have this form in tensor_content, and in a packed field of floating-point numbers that
// has all elements. The tensor is then read-only without [Writable]. Copies are writable. They are aligned to 64 bytes,
// or to the number of bytes of [Align] if it is larger.
//
// Ownership: the caller closes the value; data is Go memory. Lifetime: the value and exports of its tensor keep data alive.
// Threads: any. On error: as [DecodeView], [dlpack.ErrUnaligned] for
// an invalid alignment.
func Decode(data []byte, options ...DecodeOption) (Value, error) {
	d := decodingOf(options)
	return d.decode(data, nil)
}

// DecodeTensor is [Decode] for a message that must hold a tensor of a type that DLPack has. [dlpack.Tensor.Flags] has
// [dlpack.IsCopied] if the tensor is a copy.
//
// Ownership: the caller closes the tensor; data is Go memory. Lifetime, Threads: as [Decode]. On error: as [Decode], and
// [elements.ErrDType] for strings, resources and variants, and for quantised numbers without [Integers].
func DecodeTensor(data []byte, options ...DecodeOption) (*dlpack.Tensor, error) {
	v, err := Decode(data, options...)
	if err != nil {
		return nil, err
	}
	if v.Elements != nil {
		with := "Decode returns its Elements"
		if v.DType.Storage() != 0 {
			with += ", and the option Integers makes a tensor of the integers that store them"
		}
		return nil, fmt.Errorf("tensorflow: the message holds %v, whose type DLPack lacks; %s: %w", v.Elements, with, elements.ErrDType)
	}
	return v.Tensor, nil
}

// ReadTensor reads a TensorProto of size bytes from r and decodes it as [DecodeTensor] does. If size is negative, it
// reads up to the end of r; otherwise it reads no more than size bytes. With net/http, r is the body of a request or
// response, and size is its ContentLength. The caller must bound the size of the body, for example by
// [http.MaxBytesReader]. [Limit] bounds the memory of repeated values. The tensor is writable, as with [Writable]. If
// size is given, a message that TensorFlow has written is not copied.
//
// The memory depends on the number of bytes that arrive, not on size. It is at most five times this number, plus 64
// KiB, plus the memory for decoding.
//
// Ownership: the caller closes the tensor. Lifetime: until its Close. Threads: any, but only one at a time may read r.
// On error: as [DecodeTensor]; the errors of r; [io.ErrUnexpectedEOF] if r ends before size bytes; [elements.ErrNil] if
// r is nil; [dlpack.ErrMemory].
//
// [http.MaxBytesReader]: https://pkg.go.dev/net/http#MaxBytesReader
func ReadTensor(r io.Reader, size int64, options ...DecodeOption) (*dlpack.Tensor, error) {
	data, err := payload.ReadMessage("tensorflow", r, size)
	if err != nil {
		return nil, err
	}
	return DecodeTensor(data, append([]DecodeOption{Writable()}, options...)...)
}

// DecodeFrom is [Decode] for a message in memory that is not Go's: a one-dimensional uint8 tensor (see [dlpack.Lend]).
// Each tensor is either a view of the message, which is read-only if the message is, or a copy in C memory, like the
// memory of [dlpack.New].
//
// Ownership: data stays the caller's, who closes the value. Lifetime: a tensor keeps the memory alive. [Value.Elements]
// alias the memory but do not keep it alive, so data must stay open while they are in use. Threads: any. On error: as
// [Decode], [dlpack.ErrLayout] for data that is not a one-dimensional uint8 tensor without gaps, [dlpack.ErrDevice],
// [dlpack.ErrClosed], [dlpack.ErrMemory].
func DecodeFrom(data *dlpack.Tensor, options ...DecodeOption) (Value, error) {
	bytes, err := payload.Source("tensorflow", data)
	if err != nil {
		return Value{}, err
	}
	d := decodingOf(options)
	d.writable = !data.ReadOnly()
	v, err := d.decode(bytes, data)
	payload.EndSource(data, v.Elements)
	return v, err
}

// decode decodes a message in the memory of source, or in Go memory if source is nil.
func (d *decoding) decode(data []byte, source *dlpack.Tensor) (Value, error) {
	if err := payload.CheckAlign(d.align); err != nil {
		return Value{}, fmt.Errorf("tensorflow: %w", err)
	}
	var p tensorProto
	var view View
	size, err := p.view(data, d, &view)
	if err != nil {
		return Value{}, err
	}
	v := Value{DType: view.DType, Elements: view.Elements}
	if v.Elements != nil {
		return v, nil
	}
	dt := view.DType.DataType()
	if d.integers {
		dt = view.DType.Storage()
	}
	if dt == 0 {
		if size > 0 {
			view.Data = memory(size)
			if err := p.put(view.Data, d); err != nil {
				return Value{}, err
			}
		}
		view.Shape = p.shape.clone()
		v.Elements = view.AsElements()
		return v, nil
	}
	s := dlpack.Spec{DType: dt, Shape: p.shape.dims(), Padded: dt.IsSubByte()}
	align := d.align
	if align == 0 {
		align = payload.Alignment(dt)
	}
	// size is 0 unless the elements must be assembled, because their form in the message differs from their form in
	// memory.
	v.Copied = size > 0 || payload.IsMisaligned(view.Data, align)
	s.Copied, s.ReadOnly = v.Copied, !d.writable && !v.Copied
	switch {
	case source != nil && !view.Aliases: // elements to assemble, or no elements and so no place in the message
		v.Tensor, err = payload.OwnTensor(s, func(own []byte) error { return p.put(own, d) })
	case size > 0:
		own := payload.Aligned(0, size, max(align, alignment))[:size]
		if err = p.put(own, d); err == nil {
			v.Tensor, err = dlpack.FromBytes(own, s)
		}
	default:
		v.Tensor, err = payload.Place(source, data, view.Data, s, max(align, alignment))
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}
