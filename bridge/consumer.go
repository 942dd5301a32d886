//go:build cgo

package bridge

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// A DecodeOption changes how [Decode] and [DecodeParts] make tensors of a message.
type DecodeOption func(*decoding)

type decoding struct {
	writable bool
	align    int
	copies   int64 // how many more bytes Align may copy
}

// Writable makes tensors that are not read-only. The caller must own the frames.
func Writable() DecodeOption { return func(d *decoding) { d.writable = true } }

// Align makes tensors whose data is aligned to n bytes, a power of two up to [dlpack.NewAlignment]. A tensor that is not
// aligned in its part is copied; the copy has the flag [dlpack.IsCopied] and is writable, with [Writable] or without. Parts
// that a socket received are aligned to 8 bytes at most, and often not at all.
//
// Several tensors may share a part, and each gets a copy of its own. All copies together take at most four times the payload
// and 64 MiB; the error for a message that needs more is [dlpack.ErrMemory]. Beside their elements they take at most 32
// times the text of the label.
func Align(n int) DecodeOption { return func(d *decoding) { d.align = n } }

// Decode returns the tensors of a message. Each aliases its payload part, with the strides that order and ascend describe,
// whatever its alignment is ([dlpack.Tensor.Alignment] returns it). It is read-only without [Writable]. The result is empty
// for a message of another form than TENS that has no tensors.
//
// A tensor of a packing other than "dense" cannot be read: its entry is nil. The methods of a nil tensor return errors, and the label
// says which packing it has.
//
// Ownership: the caller closes every tensor; the parts are Go memory. Lifetime: a tensor and its exports keep their part
// alive. Threads: any. On error: those of [tens.Message.DecodeLabel] and [DecodeTensor],
// [elements.ErrSize], [elements.ErrByteOrder], [dlpack.ErrLayout] for more than [dlpack.MaxRank] dimensions, and [dlpack.ErrUnaligned]
// or [dlpack.ErrMemory] of [Align], with the index of the tensor; no tensor is made.
func Decode(msg *tens.Message, options ...DecodeOption) ([]*dlpack.Tensor, error) {
	label, err := msg.DecodeLabel()
	if err != nil {
		return nil, err
	}
	d := decodingOf(options)
	return d.tensors(label, goParts{msg.Parts, !d.writable})
}

// DecodeParts is [Decode] for a message whose payload lies in memory that is not Go's. parts has a one-dimensional uint8 tensor
// for each payload part (see [dlpack.Lend]). The results are views of the parts, and read-only if their part is. label is the
// result of [tens.Message.DecodeLabel].
//
// Ownership: parts stay the caller's; the caller closes them and the results. Lifetime: a tensor keeps the memory of its part alive. Threads:
// any. On error: as [Decode], and [dlpack.ErrLayout] for a part that is not a row of bytes.
func DecodeParts(label *tens.Label, parts []*dlpack.Tensor, options ...DecodeOption) ([]*dlpack.Tensor, error) {
	if label == nil {
		return nil, fmt.Errorf("bridge: label: %w", tens.ErrNil)
	}
	for i, part := range parts {
		if err := payload.CheckSource(part); err != nil {
			return nil, fmt.Errorf("bridge: part %d: %w", i, err)
		}
	}
	d := decodingOf(options)
	return d.tensors(label, tensorParts(parts))
}

// parts are the payload parts of a message, in Go memory or in other memory.
type parts interface {
	count() int
	size(part int) int64
	view(part int, s dlpack.Spec) (*dlpack.Tensor, error)
}

type goParts struct {
	bytes    [][]byte
	readOnly bool
}

func (p goParts) count() int          { return len(p.bytes) }
func (p goParts) size(part int) int64 { return int64(len(p.bytes[part])) }
func (p goParts) view(part int, s dlpack.Spec) (*dlpack.Tensor, error) {
	s.ReadOnly = p.readOnly
	return dlpack.FromBytes(p.bytes[part], s)
}

type tensorParts []*dlpack.Tensor

func (p tensorParts) count() int          { return len(p) }
func (p tensorParts) size(part int) int64 { return p[part].NumBytes() }
func (p tensorParts) view(part int, s dlpack.Spec) (*dlpack.Tensor, error) {
	return p[part].View(s)
}

func decodingOf(options []DecodeOption) (d decoding) {
	for _, o := range options {
		if o != nil { // a nil option changes nothing
			o(&d)
		}
	}
	return d
}

func (d *decoding) tensors(label *tens.Label, from parts) ([]*dlpack.Tensor, error) {
	d.copies = 64 << 20
	for i := range from.count() {
		d.copies += 4 * from.size(i)
	}
	ts := make([]*dlpack.Tensor, 0, len(label.Tensors))
	for i := range label.Tensors {
		if !label.Tensors[i].IsDense() {
			ts = append(ts, nil)
			continue
		}
		t, err := d.tensor(&label.Tensors[i], from)
		if err != nil {
			for _, t := range ts {
				t.Close()
			}
			return nil, fmt.Errorf("bridge: tensor %d: %w", i, err)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

func (d *decoding) tensor(in *tens.Tensor, from parts) (*dlpack.Tensor, error) {
	if err := payload.CheckByteOrder(in.Word); err != nil {
		return nil, err
	}
	if rank := len(in.Shape); rank > dlpack.MaxRank { // DecodeTensor would allocate strides for all of them
		return nil, fmt.Errorf("rank %d is more than %d: %w", rank, dlpack.MaxRank, dlpack.ErrLayout)
	}
	what, err := DecodeTensor(in)
	if err != nil {
		return nil, err
	}
	if in.Part < 0 || in.Part >= from.count() {
		return nil, fmt.Errorf("part %d of %d: %w", in.Part, from.count(), tens.ErrPartMissing)
	}
	if n := from.size(in.Part); n != what.NBytes {
		return nil, fmt.Errorf("part %d has %d bytes, %v%s takes %d: %w", in.Part, n, what.DType, errtext.Shape(in.Shape), what.NBytes, elements.ErrSize)
	}
	t, err := from.view(in.Part, dlpack.Spec{
		DType:      what.DType,
		Shape:      what.Layout.Shape,
		Strides:    what.Layout.Strides,
		ByteOffset: what.Layout.Offset * int64(what.DType.ItemSize()),
		Padded:     what.Padded,
	})
	if err != nil || d.align == 0 {
		return t, err
	}
	defer t.Close()
	if errors.Is(t.RequireAlign(d.align), dlpack.ErrUnaligned) {
		if d.copies -= t.NumBytes(); d.copies < 0 {
			return nil, fmt.Errorf("Align copies more than four times the payload and 64 MiB; tensors that share a part alias it without Align: %w", dlpack.ErrMemory)
		}
	}
	aligned, _, err := t.Align(d.align)
	return aligned, err
}
