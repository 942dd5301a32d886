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

// A DecodeOption changes how [Decode] and [DecodeParts] view a message.
type DecodeOption func(*decoding)

type decoding struct {
	writable bool
	align    int
	copies   int64 // bytes that Align may still copy
}

// Writable says that the frames are the caller's to write: the tensors are not read-only.
func Writable() DecodeOption { return func(d *decoding) { d.writable = true } }

// Align asks for tensors aligned to n bytes, a power of two up to [dlpack.NewAlignment]: those that are
// not are copied into memory of their own. They then have the flag [dlpack.IsCopied], and can be written,
// [Writable] or not. Parts that a socket received are aligned to 8 bytes at most, often to none. Any number of
// tensors may lie on one part, and each gets a copy of its own. Together the elements that are
// copied take at most four times the payload and 64 MiB: a message that needs more is refused by [dlpack.ErrMemory].
// What the copies take beside their elements is at most 32 times the text of the label.
func Align(n int) DecodeOption { return func(d *decoding) { d.align = n } }

// Decode views the tensors of a message. Each aliases its payload part, whatever its alignment
// ([dlpack.Tensor.Alignment] says): it has the part's memory, the strides that order and ascend say, and
// is read-only without [Writable]. A message of another form without tensors has none.
//
// Ownership: the caller closes every tensor; the parts stay the collector's. Lifetime: a tensor and its
// exports keep their part. Threads: any. On error: those of [tens.Message.DecodeLabel] and [DecodeTensor],
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

// DecodeParts views the tensors of a message whose payload lies in memory that is not Go's. parts are
// one-dimensional uint8 tensors, one for each payload part (see [dlpack.Lend]); the tensors are views of
// them, and read-only exactly when their part is. label is what [tens.Message.DecodeLabel] gave.
//
// Ownership: parts stay the caller's, who closes every tensor. Lifetime: a tensor keeps the memory of its
// part. Threads: any. On error: as [Decode], and [dlpack.ErrLayout] for a part that is no row of bytes.
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

// parts are payload parts in some memory.
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
		if o != nil { // nil changes nothing
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
	if rank := len(in.Shape); rank > dlpack.MaxRank { // for which DecodeTensor would take memory
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
