package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Full is the length of an [Extent] that takes a dimension whole.
const Full = -1

// An Extent is the part of one dimension that a [TensorSlice] takes: from Start on, which is not
// negative, Length indices, which is positive; or the whole dimension, of whatever size, as
// Extent{0, Full}.
type Extent struct{ Start, Length int64 }

// IsFull tells whether the extent takes a dimension whole.
func (e Extent) IsFull() bool { return e.Length == Full }

// End is one past the last index, and [Full] for a whole dimension.
func (e Extent) End() int64 {
	if e.IsFull() {
		return Full
	}
	return e.Start + e.Length
}

// A TensorSlice is a box of indices: an [Extent] along each dimension. It does not change; methods
// return new ones. It is TensorFlow's TensorSlice, with its text.
type TensorSlice struct{ extents []Extent }

// NewTensorSlice is the slice with these extents.
//
// Errors: [ErrIndex] for an extent that is none, [ErrOverflow] where its end does not fit.
func NewTensorSlice(extents ...Extent) (TensorSlice, error) {
	for d, e := range extents {
		if err := e.check(); err != nil {
			return TensorSlice{}, fmt.Errorf("layout: tensor slice: dimension %d from %d, length %d: %w", d, e.Start, e.Length, err)
		}
	}
	return TensorSlice{slices.Clone(extents)}, nil
}

func (e Extent) check() error {
	if e == (Extent{0, Full}) {
		return nil
	}
	if e.Start < 0 || e.Length < 1 {
		return ErrIndex
	}
	if _, fits := add(e.Start, e.Length); !fits {
		return ErrOverflow
	}
	return nil
}

// ParseTensorSlice reads a slice as TensorFlow's TensorSlice::Parse does: the extents lie between
// colons, each is "-" for a whole dimension or "start,length". What is empty between colons and
// between commas is passed over.
//
// Errors: [ErrSyntax], and as [NewTensorSlice].
func ParseTensorSlice(text string) (TensorSlice, error) {
	var s TensorSlice
	for item := range strings.SplitSeq(text, ":") {
		if item == "" {
			continue
		}
		e := Extent{0, Full}
		if item != "-" {
			var ok bool
			if e, ok = parseExtent(item); !ok {
				return TensorSlice{}, fmt.Errorf("layout: tensor slice: extent %.80q: %w", item, ErrSyntax)
			}
			// "0,-1" says Full without being the text for it.
			if e.Length < 1 {
				return TensorSlice{}, fmt.Errorf("layout: tensor slice: extent %.80q: %w", item, ErrIndex)
			}
			if err := e.check(); err != nil {
				return TensorSlice{}, fmt.Errorf("layout: tensor slice: extent %.80q: %w", item, err)
			}
		}
		s.extents = append(s.extents, e)
	}
	return s, nil
}

func parseExtent(item string) (e Extent, ok bool) {
	count := 0
	for number := range strings.SplitSeq(item, ",") {
		if number == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.Trim(number, " \t\n\v\f\r"), 10, 64)
		if err != nil {
			return Extent{}, false
		}
		switch count {
		case 0:
			e.Start = n
		case 1:
			e.Length = n
		}
		count++
	}
	return e, count == 2
}

// String prints the slice as TensorFlow does: "-:0,10".
func (s TensorSlice) String() string {
	var text []byte
	for d, e := range s.extents {
		if d > 0 {
			text = append(text, ':')
		}
		if e.IsFull() {
			text = append(text, '-')
			continue
		}
		text = strconv.AppendInt(text, e.Start, 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, e.Length, 10)
	}
	return string(text)
}

// Rank is the number of dimensions.
func (s TensorSlice) Rank() int { return len(s.extents) }

// Extents is a copy of the extents.
func (s TensorSlice) Extents() []Extent { return append([]Extent{}, s.extents...) }

// IsFull tells whether all dimensions are taken whole.
func (s TensorSlice) IsFull() bool {
	return !slices.ContainsFunc(s.extents, func(e Extent) bool { return !e.IsFull() })
}

// Equal tells whether both have the same extents.
func (s TensorSlice) Equal(o TensorSlice) bool { return slices.Equal(s.extents, o.extents) }

// Extend is the slice with whole dimensions behind its own, up to a rank.
//
// Errors: [ErrRank] for a rank below that of the slice or above [MaxRank].
func (s TensorSlice) Extend(rank int) (TensorSlice, error) {
	if rank < len(s.extents) || rank > MaxRank {
		return TensorSlice{}, fmt.Errorf("layout: tensor slice of %d dimensions to %d: %w", len(s.extents), rank, ErrRank)
	}
	extents := slices.Clone(s.extents)
	for len(extents) < rank {
		extents = append(extents, Extent{0, Full})
	}
	return TensorSlice{extents}, nil
}

// Intersect is the indices that are in both slices; ok is false where there are none and for
// different ranks.
func (s TensorSlice) Intersect(o TensorSlice) (both TensorSlice, ok bool) {
	if len(s.extents) != len(o.extents) {
		return TensorSlice{}, false
	}
	extents := slices.Clone(s.extents)
	for d, e := range o.extents {
		switch {
		case e.IsFull():
		case extents[d].IsFull():
			extents[d] = e
		default:
			start, end := max(e.Start, extents[d].Start), min(e.End(), extents[d].End())
			if start >= end {
				return TensorSlice{}, false
			}
			extents[d] = Extent{start, end - start}
		}
	}
	return TensorSlice{extents}, true
}

// Cover is the smallest slice that has both: TensorFlow's TensorSlice::UpdateToCover.
//
// Errors: [ErrRank] for different ranks.
func (s TensorSlice) Cover(o TensorSlice) (TensorSlice, error) {
	if err := s.sameRank(len(o.extents)); err != nil {
		return TensorSlice{}, err
	}
	extents := slices.Clone(s.extents)
	for d, e := range o.extents {
		if e.IsFull() || extents[d].IsFull() {
			extents[d] = Extent{0, Full}
			continue
		}
		start, end := min(e.Start, extents[d].Start), max(e.End(), extents[d].End())
		extents[d] = Extent{start, end - start}
	}
	return TensorSlice{extents}, nil
}

func (s TensorSlice) sameRank(rank int) error {
	if len(s.extents) != rank {
		return fmt.Errorf("layout: tensor slice %.80v for %d dimensions: %w", s, rank, ErrRank)
	}
	return nil
}

// Relative is a slice within s, counted from the beginning of s: TensorFlow's
// TensorSlice::ComputeRelative. That does not ask whether sub lies within s; this does.
//
// Errors: [ErrRank] for different ranks, [ErrIndex] where sub reaches out of s.
func (s TensorSlice) Relative(sub TensorSlice) (TensorSlice, error) {
	if err := s.sameRank(len(sub.extents)); err != nil {
		return TensorSlice{}, err
	}
	extents := slices.Clone(sub.extents)
	for d, base := range s.extents {
		if base.IsFull() {
			continue
		}
		e := &extents[d]
		if e.IsFull() || e.Start < base.Start || e.End() > base.End() {
			return TensorSlice{}, fmt.Errorf("layout: tensor slice %.80v in %.80v, dimension %d: %w", sub, s, d, ErrIndex)
		}
		e.Start -= base.Start
	}
	return TensorSlice{extents}, nil
}

// AppendShape appends the shape of what the slice takes of a tensor: TensorFlow's
// TensorSlice::SliceTensorShape.
//
// Errors: [ErrRank] for another rank, [ErrIndex] where an extent reaches out of the shape,
// [ErrNegative].
func (s TensorSlice) AppendShape(dst, shape []int64) ([]int64, error) {
	if err := s.fits(shape); err != nil {
		return dst, err
	}
	for d, n := range shape {
		if e := s.extents[d]; !e.IsFull() {
			n = e.Length
		}
		dst = append(dst, n)
	}
	return dst, nil
}

// fits refuses a shape that the slice reaches out of.
func (s TensorSlice) fits(shape []int64) error {
	if err := s.sameRank(len(shape)); err != nil {
		return err
	}
	if _, err := isEmpty(shape); err != nil {
		return err
	}
	for d, e := range s.extents {
		if !e.IsFull() && e.End() > shape[d] {
			return fmt.Errorf("layout: tensor slice: dimension %d from %d to %d of %d: %w", d, e.Start, e.End(), shape[d], ErrIndex)
		}
	}
	return nil
}

// Fill writes for each dimension the first index and the number of indices that the slice takes of a
// shape. Where starts and sizes are longer than the shape, the rest is 0 and 1. It is TensorFlow's
// TensorSlice::FillIndicesAndSizes.
//
// Errors: [ErrRank] for another rank and for starts and sizes that are shorter or of different
// lengths, [ErrIndex] where an extent reaches out of the shape, [ErrNegative].
func (s TensorSlice) Fill(starts, sizes, shape []int64) error {
	if err := s.fits(shape); err != nil {
		return err
	}
	if len(starts) < len(shape) || len(starts) != len(sizes) {
		return fmt.Errorf("layout: tensor slice: %d starts, %d sizes for %d dimensions: %w", len(starts), len(sizes), len(shape), ErrRank)
	}
	for d := range starts {
		starts[d], sizes[d] = 0, 1
		if d >= len(shape) {
			continue
		}
		sizes[d] = shape[d]
		if e := s.extents[d]; !e.IsFull() {
			starts[d], sizes[d] = e.Start, e.Length
		}
	}
	return nil
}

// View makes the layout the part of it that the slice takes, in place.
//
// Errors: as [TensorSlice.AppendShape], [ErrOverflow].
func (s TensorSlice) View(l *Layout) error {
	if err := sameRank(l.Shape, l.Strides); err != nil {
		return err
	}
	if err := s.fits(l.Shape); err != nil {
		return err
	}
	var buf numbers
	sizes, steps := buf.draft(len(l.Shape))
	offset, fits := l.Offset, true
	for d, e := range s.extents {
		if e.IsFull() {
			e = Extent{0, l.Shape[d]}
		}
		if e.Start != 0 {
			offset, fits = forward(offset, fits, e.Start, l.Strides[d])
		}
		sizes[d], steps[d] = e.Length, l.Strides[d]
	}
	return l.take("tensor slice", sizes, steps, offset, fits)
}
