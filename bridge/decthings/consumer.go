//go:build cgo

package decthings

import (
	"fmt"
	"io"
	"iter"
	"log/slog"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// Value is a decoded tensor: a DLPack tensor, or elements of a type that DLPack does not have.
type Value struct {
	Type     Type
	Tensor   *dlpack.Tensor     // for numbers and booleans
	Elements *elements.Elements // for all other types
	// Copied reports whether the tensor is a copy, because its elements are not aligned in the input. A copy may be
	// written to.
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
func (v Value) LogValue() slog.Value { return payload.LogValue(v.Type, v.Tensor, v.Elements) }

// A DecodeOption changes how values are decoded.
type DecodeOption func(decoding) decoding

type decoding struct {
	dialect  Dialect
	writable bool
	align    int // 0 for the size of an element
}

// In sets the dialect of the input. The default is [Doc].
func In(dialect Dialect) DecodeOption {
	return func(d decoding) decoding { d.dialect = dialect; return d }
}

// Writable makes tensors that alias Go memory writable; without this option they are read-only. Copies are always
// writable. Nobody else may use the input. Writable does not affect [DecodeFrom] and [DecodeFirstFrom]: their views are
// read-only if their input is.
func Writable() DecodeOption { return func(d decoding) decoding { d.writable = true; return d } }

// Align aligns tensors to n bytes, a power of two up to [dlpack.AllocAlignment], instead of the size of an element.
// With 1 a tensor always aliases the input.
func Align(n int) DecodeOption { return func(d decoding) decoding { d.align = n; return d } }

func decodingOf(options []DecodeOption) (d decoding, err error) {
	for _, o := range options {
		if o == nil { // a nil option changes nothing
			continue
		}
		d = o(d)
		if err := payload.CheckAlign(d.align); err != nil {
			return d, fmt.Errorf("decthings: %w", err)
		}
	}
	return d, d.dialect.check()
}

// Decode decodes a buffer that has exactly one tensor. If the elements are aligned in the buffer, the value aliases the
// buffer and is read-only without [Writable]. Otherwise it is a copy, which may be written to.
//
// Ownership: the caller closes the value; data is Go memory. Lifetime: the value and exports of its tensor keep data alive.
// Threads: any. On error: as [DecodeFirst], and [ErrTrailing].
func Decode(data []byte, options ...DecodeOption) (Value, error) {
	v, n, err := DecodeFirst(data, options...)
	return wholeValue(v, n, len(data), err)
}

// DecodeTensor is [Decode] for a buffer that must hold numbers or booleans. [dlpack.Tensor.Flags] has [dlpack.IsCopied] if the tensor
// is a copy.
//
// Ownership: the caller closes the tensor; data is Go memory. Lifetime, Threads: as [Decode]. On error: as [Decode], and
// [elements.ErrDType] for all other types.
func DecodeTensor(data []byte, options ...DecodeOption) (*dlpack.Tensor, error) {
	v, err := Decode(data, options...)
	if err != nil {
		return nil, err
	}
	if v.Elements != nil {
		return nil, fmt.Errorf("decthings: the buffer holds %v, whose type DLPack lacks; Decode returns its Elements: %w", v.Elements, elements.ErrDType)
	}
	return v.Tensor, nil
}

// ReadTensor reads size bytes from r and decodes them as [DecodeTensor] does. If size is negative, it reads up to the
// end of r; otherwise it reads no more than size bytes. With net/http, r is the body of a request or response, and size
// is its ContentLength. The caller must bound the size of the body, for example by [http.MaxBytesReader]. The tensor is
// writable, as with [Writable]. If size is given, nothing is copied.
//
// The memory depends on the number of bytes that arrive, not on size. It is at most five times this number, plus 64
// KiB.
//
// Ownership: the caller closes the tensor. Lifetime: until its Close. Threads: any, but only one at a time may read r.
// On error: as [DecodeTensor]; the errors of r; [io.ErrUnexpectedEOF] if r ends before size bytes; [elements.ErrNil] if
// r is nil; [dlpack.ErrMemory].
//
// [http.MaxBytesReader]: https://pkg.go.dev/net/http#MaxBytesReader
func ReadTensor(r io.Reader, size int64, options ...DecodeOption) (*dlpack.Tensor, error) {
	data, err := payload.ReadMessage("decthings", r, size)
	if err != nil {
		return nil, err
	}
	return DecodeTensor(data, append([]DecodeOption{Writable()}, options...)...)
}

// wholeValue returns v if err is nil and v took all of the buffer: n equals size. Otherwise it closes v and returns an
// error.
func wholeValue(v Value, n, size int, err error) (Value, error) {
	if err == nil {
		err = whole(n, size)
	}
	if err != nil {
		v.Close()
		return Value{}, err
	}
	return v, nil
}

// DecodeFirst decodes the first tensor in data, as [Decode] does, and returns its size in bytes.
//
// Ownership, Lifetime, Threads: as [Decode]. On error: as [View.DecodeFirst],
// [dlpack.ErrUnaligned] for an invalid alignment, [dlpack.ErrMemory].
func DecodeFirst(data []byte, options ...DecodeOption) (v Value, n int, err error) {
	d, err := decodingOf(options)
	if err != nil {
		return Value{}, 0, err
	}
	var view View
	return d.decode(&view, data, nil)
}

// DecodeAll returns an iterator over the tensors that follow one another in data. It ends after an error.
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

// DecodeFrom is [Decode] for an input in memory that is not Go's: a one-dimensional uint8 tensor (see [dlpack.Lend]). A
// tensor is a view of the input, and read-only if the input is. If the elements are not aligned in the input, the
// tensor is a copy in C memory.
//
// Ownership: data stays the caller's, who closes the value. Lifetime: a tensor keeps the memory alive. [Value.Elements]
// alias the memory but do not keep it alive, so data must stay open while they are in use. Threads: any. On error: as
// [DecodeFirstFrom], and [ErrTrailing].
func DecodeFrom(data *dlpack.Tensor, options ...DecodeOption) (Value, error) {
	v, n, err := DecodeFirstFrom(data, options...)
	return wholeValue(v, n, int(data.NumBytes()), err)
}

// DecodeFirstFrom is [DecodeFirst] for an input in memory that is not Go's, as in [DecodeFrom].
//
// Ownership, Lifetime, Threads: as [DecodeFrom]. On error: as [DecodeFirst]; [dlpack.ErrLayout] for data that is not a
// one-dimensional uint8 tensor without gaps, [dlpack.ErrDevice], [dlpack.ErrClosed].
func DecodeFirstFrom(data *dlpack.Tensor, options ...DecodeOption) (v Value, n int, err error) {
	d, err := decodingOf(options)
	if err != nil {
		return Value{}, 0, err
	}
	bytes, err := payload.Source("decthings", data)
	if err != nil {
		return Value{}, 0, err
	}
	d.writable = !data.ReadOnly()
	var view View
	v, n, err = d.decode(&view, bytes, data)
	payload.EndSource(data, v.Elements)
	return v, n, err
}

// decode decodes the first tensor of data, which is the memory of source, or Go memory if source is nil.
func (d *decoding) decode(view *View, data []byte, source *dlpack.Tensor) (v Value, n int, err error) {
	if n, err = view.decode(data, d.dialect, nil); err != nil {
		return Value{}, 0, err
	}
	v = Value{Type: view.Type, Elements: view.Elements}
	if view.Elements != nil {
		return v, n, nil
	}
	s := dlpack.Spec{DType: view.Type.DataType(), Shape: view.Shape}
	size := s.DType.ItemSize()
	align := d.align
	if align == 0 {
		align = size
	}
	v.Copied = payload.IsMisaligned(view.Data, align)
	s.Copied, s.ReadOnly = v.Copied, !d.writable && !v.Copied
	if v.Tensor, err = payload.Place(source, data, view.Data, s, align); err != nil {
		return Value{}, 0, err
	}
	return v, n, nil
}
