//go:build cgo

package tensorflow

import (
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Value is a tensor that was read: a DLPack tensor, or elements that DLPack has no type for.
type Value struct {
	DType    DType
	Tensor   *dlpack.Tensor     // of types that DLPack has
	Elements *elements.Elements // of all others
	// Copied tells that the tensor has memory of its own: its elements are not aligned in the message, or
	// do not lie there as they do in memory.
	Copied bool
}

// Shape has the sizes of the dimensions.
func (v *Value) Shape() []int64 {
	switch {
	case v == nil:
		return nil
	case v.Tensor != nil:
		return v.Tensor.Shape()
	case v.Elements != nil:
		return v.Elements.Shape
	}
	return nil
}

// Close closes the tensor, if the value is one.
//
// Ownership, Lifetime, Threads, On error: as [dlpack.Tensor.Close].
func (v *Value) Close() error {
	if v == nil {
		return nil
	}
	return v.Tensor.Close()
}

// Writable says that the message is the caller's to write: tensors are not read-only.
func Writable() DecodeOption {
	return func(d decoding) decoding { d.writable = true; return d }
}

// Align asks for tensors aligned to n bytes, a power of two up to [dlpack.NewAlignment], instead of to what
// their elements need; 1 aliases the message wherever its elements lie.
func Align(n int) DecodeOption { return func(d decoding) decoding { d.align = n; return d } }

// Integers gives quantised numbers as tensors of the integers that they are stored as.
func Integers() DecodeOption {
	return func(d decoding) decoding { d.integers = true; return d }
}

// Decode reads a TensorProto. A tensor aliases the message where its elements lie there aligned and as they
// do in memory: in tensor_content, or in a packed field of floating-point numbers that has all of them. It
// is read-only without [Writable]. Copies are aligned to 64 bytes.
//
// Ownership: the caller closes the value; data stays the collector's. Lifetime: the value and exports of
// its tensor keep data. Threads: any. On error: as [DecodeView], [elements.ErrByteOrder], [dlpack.ErrUnaligned] for
// an alignment that cannot be had.
func Decode(data []byte, options ...DecodeOption) (Value, error) {
	d := decodingOf(options)
	return d.decode(data, nil)
}

// DecodeFrom is [Decode] of memory that is not Go's: of a one-dimensional uint8 tensor (see [dlpack.Lend]).
// Tensors are views of it, and read-only exactly when it is; copies lie in memory as of [dlpack.New].
//
// Ownership: data stays the caller's, who closes the value. Lifetime: a tensor keeps the memory; elements
// alias it, and need data to stay open. Threads: any. On error: as [Decode], [dlpack.ErrLayout] for data
// that is no row of bytes, [dlpack.ErrDevice], [dlpack.ErrClosed], [dlpack.ErrMemory].
func DecodeFrom(data *dlpack.Tensor, options ...DecodeOption) (Value, error) {
	if err := payload.CheckSource(data); err != nil {
		return Value{}, fmt.Errorf("tensorflow: %w", err)
	}
	bytes, _, err := data.UnsafeBytes()
	if err != nil {
		return Value{}, err
	}
	d := decodingOf(options)
	d.writable = !data.ReadOnly()
	return d.decode(bytes, data)
}

// decode reads a message that is Go's own memory or that of source.
func (d *decoding) decode(data []byte, source *dlpack.Tensor) (Value, error) {
	if err := payload.CheckAlign(d.align); err != nil {
		return Value{}, fmt.Errorf("tensorflow: %w", err)
	}
	var p tensorProto
	var view View
	size, fail := p.view(data, d, &view)
	if fail != nil {
		return Value{}, fail
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
			if fail := p.put(view.Data, d); fail != nil {
				return Value{}, fail
			}
		}
		view.Shape = p.shape.clone()
		v.Elements = view.AsElements()
		return v, nil
	}
	if err := payload.CheckByteOrder(dt.ItemSize()); err != nil {
		return Value{}, fmt.Errorf("tensorflow: %v: %w", view.DType, err)
	}
	s := dlpack.Spec{DType: dt, Shape: p.shape.dims(), ReadOnly: !d.writable, Padded: dt.IsSubByte()}
	align := d.align
	if align == 0 {
		align = naturalAlignment(dt)
	}
	// size is that of elements that do not lie in the message as they lie in memory and have to be put together.
	var err error
	switch {
	case size > 0 && source != nil:
		v.Copied = true
		v.Tensor, err = payload.OwnTensor(s, func(own []byte) error { return p.putInto(own, d) })
	case size > 0:
		v.Copied = true
		own := payload.Aligned(0, size, max(align, alignment))[:size]
		if err = p.putInto(own, d); err == nil {
			v.Tensor, err = dlpack.FromBytes(own, s)
		}
	case source != nil && !view.Aliases: // a tensor without elements has no place in the message
		if v.Tensor, err = dlpack.FromBytes(view.Data, s); err == nil {
			v.Tensor, err = payload.OwnCopy(v.Tensor, s)
		}
	default:
		offset := int64(payload.Address(view.Data) - payload.Address(data))
		v.Tensor, v.Copied, err = payload.View(view.Data, s, align, max(align, alignment), source, offset)
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// putInto is put with an error that may be nil.
func (p *tensorProto) putInto(data []byte, d *decoding) error {
	if fail := p.put(data, d); fail != nil {
		return fail
	}
	return nil
}

// naturalAlignment is what numbers of a type need, the two of a complex one each for itself.
func naturalAlignment(dt dlpack.DataType) int {
	if dt.Code() == dlpack.CodeComplex {
		return dt.ItemSize() / 2
	}
	return dt.ItemSize()
}
