//go:build cgo

package decthings

import (
	"fmt"
	"iter"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Value is a tensor that was read: a DLPack tensor or elements that DLPack has no type for.
type Value struct {
	Type     Type
	Tensor   *dlpack.Tensor     // of numbers and booleans
	Elements *elements.Elements // of all other types
	// Copied tells that the tensor has memory of its own, since its elements are not aligned in the input.
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

// A DecodeOption changes how values are read.
type DecodeOption func(decoding) decoding

type decoding struct {
	dialect  Dialect
	writable bool
	align    int // 0: what the elements need
}

// In says in which dialect the input is written. The default is [Doc].
func In(dialect Dialect) DecodeOption {
	return func(d decoding) decoding { d.dialect = dialect; return d }
}

// Writable says that the input is the caller's to write: the tensors are not read-only.
func Writable() DecodeOption { return func(d decoding) decoding { d.writable = true; return d } }

// Align asks for tensors aligned to n bytes, a power of two up to [dlpack.NewAlignment], instead of to what
// their elements need; 1 aliases the input wherever they lie.
func Align(n int) DecodeOption { return func(d decoding) decoding { d.align = n; return d } }

func decodingOf(options []DecodeOption) (d decoding, err error) {
	for _, o := range options {
		if o == nil { // which changes nothing
			continue
		}
		d = o(d)
		if err := payload.CheckAlign(d.align); err != nil {
			return d, fmt.Errorf("decthings: %w", err)
		}
	}
	return d, d.dialect.check()
}

// Decode reads a buffer that is one tensor. The value aliases it where it is aligned, and is read-only
// without [Writable].
//
// Ownership: the caller closes the value; data stays the collector's. Lifetime: the value and exports of
// its tensor keep data. Threads: any. On error: as [DecodeFirst], and [ErrTrailing].
func Decode(data []byte, options ...DecodeOption) (Value, error) {
	v, n, err := DecodeFirst(data, options...)
	return closed(v, n, len(data), err)
}

// closed is a value that must have all of size bytes.
func closed(v Value, n, size int, err error) (Value, error) {
	if err == nil {
		err = whole(n, size)
	}
	if err != nil {
		v.Close()
		return Value{}, err
	}
	return v, nil
}

// DecodeFirst reads the first tensor in data, as [Decode] does, and returns how many bytes it has.
//
// Ownership, Lifetime, Threads: as [Decode]. On error: as [View.DecodeFirst], [elements.ErrByteOrder],
// [dlpack.ErrUnaligned] for an alignment that cannot be had, [dlpack.ErrMemory].
func DecodeFirst(data []byte, options ...DecodeOption) (v Value, n int, err error) {
	d, err := decodingOf(options)
	if err != nil {
		return Value{}, 0, err
	}
	var view View
	return d.decode(&view, data, nil)
}

// DecodeAll reads the tensors that data has one after another. After an error there is none.
//
// Ownership, Lifetime, Threads: as [Decode], of each value. On error: as [DecodeFirst]; the offset counts from
// the beginning of data.
func DecodeAll(data []byte, options ...DecodeOption) iter.Seq2[Value, error] {
	return func(yield func(Value, error) bool) {
		d, err := decodingOf(options)
		if err != nil {
			yield(Value{}, err)
			return
		}
		var view View
		for at := 0; at < len(data); {
			v, n, err := d.decode(&view, data[at:], nil)
			if fail, ok := err.(*elements.Error); ok {
				fail.After(int64(at))
			}
			if !yield(v, err) || err != nil {
				return
			}
			at += n
		}
	}
}

// DecodeFrom is [Decode] of memory that is not Go's: of a one-dimensional uint8 tensor (see [dlpack.Lend]). A
// tensor is a view of it, and read-only exactly when it is.
//
// Ownership: data stays the caller's, who closes the value. Lifetime: a tensor keeps the memory; elements
// alias it, and need data to stay open. Threads: any. On error: as [DecodeFirstFrom], and [ErrTrailing].
func DecodeFrom(data *dlpack.Tensor, options ...DecodeOption) (Value, error) {
	v, n, err := DecodeFirstFrom(data, options...)
	return closed(v, n, int(data.NumBytes()), err)
}

// DecodeFirstFrom is [DecodeFirst] of memory that is not Go's, as in [DecodeFrom].
//
// Ownership, Lifetime, Threads: as [DecodeFrom]. On error: as [DecodeFirst]; [dlpack.ErrLayout] or
// [dlpack.ErrDType] for data that is no row of bytes, [dlpack.ErrDevice], [dlpack.ErrClosed].
func DecodeFirstFrom(data *dlpack.Tensor, options ...DecodeOption) (v Value, n int, err error) {
	d, err := decodingOf(options)
	if err != nil {
		return Value{}, 0, err
	}
	if err := payload.CheckSource(data); err != nil {
		return Value{}, 0, fmt.Errorf("decthings: %w", err)
	}
	bytes, _, err := data.UnsafeBytes()
	if err != nil {
		return Value{}, 0, err
	}
	d.writable = !data.ReadOnly()
	var view View
	return d.decode(&view, bytes, data)
}

// decode reads the first tensor of data, which is Go's own memory or that of source.
func (d *decoding) decode(view *View, data []byte, source *dlpack.Tensor) (v Value, n int, err error) {
	n, fail := view.decode(data, d.dialect, nil)
	if fail != nil {
		return Value{}, 0, fail
	}
	v = Value{Type: view.Type, Elements: view.Elements}
	if view.Elements != nil {
		return v, n, nil
	}
	s := dlpack.Spec{DType: view.Type.DataType(), Shape: view.Shape, ReadOnly: !d.writable}
	size := s.DType.ItemSize()
	if err := payload.CheckByteOrder(size); err != nil {
		return Value{}, 0, fmt.Errorf("decthings: %v: %w", view.Type, err)
	}
	align := d.align
	if align == 0 {
		align = size
	}
	v.Tensor, v.Copied, err = payload.View(view.Data, s, align, align, source, int64(n-len(view.Data)))
	if err != nil {
		return Value{}, 0, err
	}
	return v, n, nil
}
