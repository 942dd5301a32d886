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

// A DecodeOption changes how [Decode] and [DecodeParts] make the tensors of a message.
type DecodeOption func(*decoding)

type decoding struct {
	writable bool
	align    int
	join     bool
	budget   Budget // for copies and the descriptions of pieces
}

// Writable makes the tensors of [Decode] writable. The caller must be free to write to the frames. It does not affect
// [DecodeParts]: its tensors are read-only if their part is.
func Writable() DecodeOption { return func(d *decoding) { d.writable = true } }

// Align aligns the data of each tensor to n bytes, a power of two up to [dlpack.AllocAlignment]. A tensor that is not
// aligned in its part is copied. The copy has the flag [dlpack.IsCopied], and is writable even without [Writable].
// Parts received from a socket are aligned to 8 bytes at most, and often not at all.
//
// Several tensors may share a part; each then gets its own copy. The elements of all copies together take at most four
// times the size of the payload, plus 64 MiB. Decode returns [dlpack.ErrMemory] for a message that needs more. The
// other memory of the copies is at most 32 times the size of the label.
func Align(n int) DecodeOption { return func(d *decoding) { d.align = n } }

// Join makes one tensor of a tensor that lies in several parts: a row-major copy in new memory, aligned to
// [dlpack.AllocAlignment]. The copy has the flag [dlpack.IsCopied], and is writable even without [Writable]. Its size
// counts towards the same limit as the copies of [Align].
func Join() DecodeOption { return func(d *decoding) { d.join = true } }

// Decode returns the tensors of a message. Each tensor aliases its payload part, and has the strides that order and
// ascend describe. It may have any alignment, which [dlpack.Tensor.Alignment] returns. It is read-only without
// [Writable]. If the message has a form other than TENS and no tensors, the result is empty.
//
// A tensor that lies in several parts (see package tens) becomes one tensor for each of its pieces, in the order of the
// parts. The result may therefore have more tensors than the label. With [Join] the pieces become one tensor. Each
// piece has some of the indices of the slowest dimension. If that dimension does not ascend, the first piece has the
// last indices. Each piece counts as 512 bytes, plus 32 for each dimension, towards the limit of [Align].
//
// The entry in the result is nil for a tensor that cannot be read because its packing is not "dense", and for a tensor
// that is only metadata and has no elements. The methods of a nil tensor return errors. [tens.Tensor.Packing] of the
// label names the packing, and [tens.Tensor.OnlyMetadata] reports the second case.
//
// Ownership: the caller closes every tensor; the parts are Go memory. Lifetime: a tensor and its exports keep their
// part alive. Threads: any. On error: no tensor is made, and the error has the index of the tensor that caused it. Decode
// returns the errors of [tens.Message.DecodeLabel] and [DecodeTensor]; [elements.ErrSize]; [dlpack.ErrLayout] for more
// than [dlpack.MaxRank] dimensions; and, with [Align], [dlpack.ErrUnaligned] or [dlpack.ErrMemory].
func Decode(msg *tens.Message, options ...DecodeOption) ([]*dlpack.Tensor, error) {
	label, err := msg.DecodeLabel()
	if err != nil {
		return nil, err
	}
	d := decodingOf(options)
	return d.tensors(label, goParts{msg.Parts, !d.writable})
}

// DecodeParts is [Decode] for a message whose payload lies in memory that is not Go's. parts has a one-dimensional
// uint8 tensor for each payload part (see [dlpack.Lend]). The results are views of the parts; each is read-only if its
// part is. label is the result of [tens.Message.DecodeLabel].
//
// Ownership: parts stay the caller's; the caller closes them and the results. Lifetime: a tensor keeps the memory of
// its part alive. Threads: any. On error: as [Decode], [tens.ErrNil] for a nil label, and [dlpack.ErrLayout] for a part
// that is not a one-dimensional uint8 tensor without gaps.
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

// parts are the payload parts of a message, in Go memory or in other memory. The argument part is the index of a part.
// size returns its number of bytes, and view returns a view of it.
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
	payload := int64(0)
	for i := range from.count() {
		payload += from.size(i)
	}
	d.budget = NewBudget(payload, d.join)
	ts := make([]*dlpack.Tensor, 0, len(label.Tensors))
	for i := range label.Tensors {
		if !label.Tensors[i].IsDense() {
			ts = append(ts, nil)
			continue
		}
		var err error
		if ts, err = d.appendTensor(ts, &label.Tensors[i], from); err != nil {
			for _, t := range ts {
				t.Close()
			}
			return nil, fmt.Errorf("bridge: tensor %d: %w", i, err)
		}
	}
	return ts, nil
}

// appendTensor appends the tensor that in describes. It appends the pieces instead if the tensor has several parts and
// Join is not set. On an error it returns the tensors appended so far; the caller closes them.
func (d *decoding) appendTensor(ts []*dlpack.Tensor, in *tens.Tensor, from parts) ([]*dlpack.Tensor, error) {
	if in.Parts > 1 {
		if in.Part < 0 || in.Parts > from.count()-in.Part {
			return ts, fmt.Errorf("part = %d and parts = %d, but the message has %d parts: %w", in.Part, in.Parts, from.count(), tens.ErrPartMissing)
		}
		if rank := len(in.Shape); rank > dlpack.MaxRank {
			return ts, errRank(rank)
		}
		if d.join {
			t, err := d.joined(in, from)
			if err != nil {
				return ts, err
			}
			return append(ts, t), nil
		}
	}
	for piece, err := range Pieces(in, from.size, &d.budget) {
		if err != nil {
			return ts, err
		}
		t, err := d.tensor(piece, from)
		if err != nil {
			return ts, err
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// joined returns a row-major copy of a tensor in several parts, which in describes.
func (d *decoding) joined(in *tens.Tensor, from parts) (*dlpack.Tensor, error) {
	for _, err := range Pieces(in, from.size, &d.budget) { // find an error before memory is allocated
		if err != nil {
			return nil, err
		}
	}
	what, err := DecodeTensor(in)
	if err != nil {
		return nil, err
	}
	memory, err := dlpack.New(dlpack.Uint8, what.NBytes)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	whole, err := memory.View(dlpack.Spec{DType: what.DType, Shape: in.Shape, Padded: what.Padded, Copied: true})
	if err == nil {
		err = fill(whole, what.Layout.Strides, in, from)
	}
	if err != nil {
		whole.Close()
		return nil, err
	}
	if d.align == 0 || whole.RequireAlign(d.align) == nil {
		return whole, nil
	}
	defer whole.Close()
	aligned, _, err := whole.Align(d.align)
	return aligned, err
}

// fill copies the pieces of the tensor that in describes to their places in whole. The tensor has the given strides.
func fill(whole *dlpack.Tensor, strides []int64, in *tens.Tensor, from parts) error {
	dim, _ := in.Slowest()
	start, left := int64(0), in.Shape[dim]
	for piece, err := range Pieces(in, from.size, nil) {
		if err != nil {
			return err
		}
		n := piece.Shape[dim]
		left -= n
		at := start
		if strides[dim] < 0 {
			at = left
		}
		start += n
		if err := copyPiece(whole, dim, at, piece, from); err != nil {
			return err
		}
	}
	return nil
}

// copyPiece copies a piece to whole, where it begins at index at of dimension dim.
func copyPiece(whole *dlpack.Tensor, dim int, at int64, piece *tens.Tensor, from parts) error {
	to, err := whole.Narrow(dim, at, piece.Shape[dim])
	if err != nil {
		return err
	}
	defer to.Close()
	t, err := view(piece, from)
	if err != nil {
		return err
	}
	defer t.Close()
	return t.CopyTo(to)
}

// DecodePiece is [DecodeTensor] for a tensor in one part of size bytes.
//
// Errors: those of [DecodeTensor]; [dlpack.ErrLayout] for more than [dlpack.MaxRank] dimensions; [elements.ErrSize].
func DecodePiece(t *tens.Tensor, size int64) (Description, error) {
	if t != nil && len(t.Shape) > dlpack.MaxRank { // DecodeTensor would allocate strides for all of them
		return Description{}, errRank(len(t.Shape))
	}
	what, err := DecodeTensor(t)
	if err == nil && size != what.NBytes {
		err = fmt.Errorf("part %d has %d bytes, but %v%s needs %d: %w", t.Part, size, what.DType, errtext.Shape(t.Shape), what.NBytes, elements.ErrSize)
	}
	return what, err
}

func errRank(rank int) error {
	return fmt.Errorf("rank %d is more than %d: %w", rank, dlpack.MaxRank, dlpack.ErrLayout)
}

// view returns the tensor that in describes, as a view of its only part.
func view(in *tens.Tensor, from parts) (*dlpack.Tensor, error) {
	if in.Part < 0 || in.Part >= from.count() {
		return nil, fmt.Errorf("part = %d, but the message has %d parts: %w", in.Part, from.count(), tens.ErrPartMissing)
	}
	what, err := DecodePiece(in, from.size(in.Part))
	if err != nil {
		return nil, err
	}
	return from.view(in.Part, dlpack.Spec{
		DType:      what.DType,
		Shape:      what.Layout.Shape,
		Strides:    what.Layout.Strides,
		ByteOffset: what.Layout.Offset * int64(what.DType.ItemSize()),
		Padded:     what.Padded,
	})
}

func (d *decoding) tensor(in *tens.Tensor, from parts) (*dlpack.Tensor, error) {
	t, err := view(in, from)
	if err != nil || d.align == 0 {
		return t, err
	}
	defer t.Close()
	if errors.Is(t.RequireAlign(d.align), dlpack.ErrUnaligned) {
		if !d.budget.take(t.NumBytes()) {
			return nil, errBudget("aligned copies need", "tensors that share a part alias it without Align")
		}
	}
	aligned, _, err := t.Align(d.align)
	return aligned, err
}
