package tensorflow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// Full is the length of an [Extent] that covers a whole dimension.
const Full = -1

// An Extent is the range of indices that a [TensorSlice] selects in one dimension: Length indices beginning at Start.
// Start must not be negative and Length must be positive. Extent{0, Full} covers the whole dimension, whatever its
// size.
type Extent struct{ Start, Length int64 }

// IsFull reports whether the extent covers the whole dimension.
func (e Extent) IsFull() bool { return e.Length == Full }

// End returns the index after the last index of the extent, and [Full] for a whole dimension.
func (e Extent) End() int64 {
	if e.IsFull() {
		return Full
	}
	return e.Start + e.Length
}

// of returns the extent in a dimension of size n: a full extent becomes an extent of n indices.
func (e Extent) of(n int64) Extent {
	if e.IsFull() {
		return Extent{0, n}
	}
	return e
}

// A TensorSlice is a box of indices, with one [Extent] for each dimension, such as the part of a variable that a
// checkpoint stores. It corresponds to TensorFlow's class of the same name, and has the same text form. A TensorSlice
// is immutable; its methods return new slices.
type TensorSlice struct{ extents []Extent }

// NewTensorSlice returns the slice with the given extents.
//
// Errors: [layout.ErrIndex] for an invalid extent, [layout.ErrOverflow] if its end does not fit in 63 bits.
func NewTensorSlice(extents ...Extent) (TensorSlice, error) {
	for d, e := range extents {
		if err := e.check(); err != nil {
			return TensorSlice{}, fmt.Errorf("tensorflow: tensor slice: dimension %d has start %d and length %d: %w", d, e.Start, e.Length, err)
		}
	}
	return TensorSlice{slices.Clone(extents)}, nil
}

func (e Extent) check() error {
	switch {
	case e == (Extent{0, Full}):
		return nil
	case e.Start < 0 || e.Length < 1:
		return layout.ErrIndex
	case e.Length > math.MaxInt64-e.Start:
		return layout.ErrOverflow
	}
	return nil
}

// ParseTensorSlice reads the text form of a slice, by the rules of TensorFlow's TensorSlice::Parse. Colons separate the
// extents; an extent is "-" for a whole dimension, or "start,length". Empty items between colons and between commas are
// skipped.
//
// Errors: [layout.ErrSyntax], and those of [NewTensorSlice].
func ParseTensorSlice(text string) (TensorSlice, error) {
	var s TensorSlice
	for item := range strings.SplitSeq(text, ":") {
		if item == "" {
			continue
		}
		e, err := parseExtent(item)
		if err != nil {
			return TensorSlice{}, fmt.Errorf("tensorflow: tensor slice: extent %.80q: %w", item, err)
		}
		s.extents = append(s.extents, e)
	}
	return s, nil
}

var errExtent = fmt.Errorf(`want "-" or "start,length": %w`, layout.ErrSyntax)

// parseExtent reads "-" or "start,length".
func parseExtent(item string) (e Extent, err error) {
	if item == "-" {
		return Extent{0, Full}, nil
	}
	count := 0
	for number := range strings.SplitSeq(item, ",") {
		if number == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.Trim(number, " \t\n\v\f\r"), 10, 64)
		if err != nil {
			return Extent{}, errExtent
		}
		if count++; count == 1 {
			e.Start = n
		} else {
			e.Length = n
		}
	}
	if count != 2 {
		return Extent{}, errExtent
	}
	if e.IsFull() { // "0,-1" has the fields of "-", and is invalid
		return Extent{}, layout.ErrIndex
	}
	return e, e.check()
}

// String returns the text form that TensorFlow prints, such as "-:0,10".
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

// Rank returns the number of dimensions.
func (s TensorSlice) Rank() int { return len(s.extents) }

// Extents returns a copy of the extents.
func (s TensorSlice) Extents() []Extent { return append([]Extent{}, s.extents...) }

// IsFull reports whether the slice covers every dimension completely.
func (s TensorSlice) IsFull() bool {
	return !slices.ContainsFunc(s.extents, func(e Extent) bool { return !e.IsFull() })
}

// Equal reports whether s and o have the same extents.
func (s TensorSlice) Equal(o TensorSlice) bool { return slices.Equal(s.extents, o.extents) }

// Extend returns the slice with whole dimensions added after its own dimensions, up to the given rank.
//
// Errors: [layout.ErrRank] for a rank below the rank of the slice or above [layout.MaxPartialRank].
func (s TensorSlice) Extend(rank int) (TensorSlice, error) {
	if rank < len(s.extents) || rank > layout.MaxPartialRank {
		return TensorSlice{}, fmt.Errorf("tensorflow: tensor slice: rank %d is not between %d and %d: %w", rank, len(s.extents), layout.MaxPartialRank, layout.ErrRank)
	}
	more := slices.Repeat([]Extent{{0, Full}}, rank-len(s.extents))
	return TensorSlice{slices.Concat(s.extents, more)}, nil
}

// Intersect returns the slice of the indices that both slices select. It returns false if they have no common index or
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

// Cover returns the smallest slice that contains both slices: TensorFlow's TensorSlice::UpdateToCover.
//
// Errors: [layout.ErrRank] for different ranks.
func (s TensorSlice) Cover(o TensorSlice) (TensorSlice, error) {
	if err := s.requireRank(len(o.extents)); err != nil {
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

func (s TensorSlice) requireRank(rank int) error {
	if len(s.extents) != rank {
		return fmt.Errorf("tensorflow: tensor slice: %.80v has rank %d instead of %d: %w", s, len(s.extents), rank, layout.ErrRank)
	}
	return nil
}

// Relative returns sub with its indices counted from the beginning of s: TensorFlow's TensorSlice::ComputeRelative.
// Unlike TensorFlow, it checks that sub lies within s.
//
// Errors: [layout.ErrRank] for different ranks, [layout.ErrIndex] if sub does not lie within s.
func (s TensorSlice) Relative(sub TensorSlice) (TensorSlice, error) {
	if err := s.requireRank(len(sub.extents)); err != nil {
		return TensorSlice{}, err
	}
	extents := slices.Clone(sub.extents)
	for d, base := range s.extents {
		if base.IsFull() {
			continue
		}
		e := &extents[d]
		if e.IsFull() || e.Start < base.Start || e.End() > base.End() {
			return TensorSlice{}, fmt.Errorf("tensorflow: tensor slice: %.80v does not lie within %.80v in dimension %d: %w", sub, s, d, layout.ErrIndex)
		}
		e.Start -= base.Start
	}
	return TensorSlice{extents}, nil
}

// AppendShape appends the shape of the part that the slice selects from a tensor of the given shape: TensorFlow's
// TensorSlice::SliceTensorShape.
//
// Errors: [layout.ErrRank] for a shape of another rank, [layout.ErrIndex] if an extent ends beyond the shape,
// [layout.ErrNegative].
func (s TensorSlice) AppendShape(dst, shape []int64) ([]int64, error) {
	if err := s.fits(shape); err != nil {
		return dst, err
	}
	for d, n := range shape {
		dst = append(dst, s.extents[d].of(n).Length)
	}
	return dst, nil
}

// fits returns an error unless a tensor of the given shape has every index that the slice selects.
func (s TensorSlice) fits(shape []int64) error {
	if err := s.requireRank(len(shape)); err != nil {
		return err
	}
	for d, n := range shape {
		if n < 0 {
			return fmt.Errorf("tensorflow: tensor slice: shape[%d] = %d: %w", d, n, layout.ErrNegative)
		}
	}
	for d, e := range s.extents {
		if e.End() > shape[d] {
			return fmt.Errorf("tensorflow: tensor slice: in dimension %d the slice goes from %d to %d, but the size is %d: %w", d, e.Start, e.End(), shape[d], layout.ErrIndex)
		}
	}
	return nil
}

// Fill sets starts[d] and sizes[d] to the first index and the number of indices that the slice selects in dimension d
// of the shape. Elements of starts and sizes beyond the rank of the shape become 0 and 1. It is TensorFlow's
// TensorSlice::FillIndicesAndSizes.
//
// Errors: those of [TensorSlice.AppendShape], and [layout.ErrRank] unless starts and sizes have the same length and it
// is at least the rank.
func (s TensorSlice) Fill(starts, sizes, shape []int64) error {
	if err := s.fits(shape); err != nil {
		return err
	}
	if len(starts) < len(shape) || len(starts) != len(sizes) {
		return fmt.Errorf("tensorflow: tensor slice: there are %d starts and %d sizes, but both numbers must be equal and at least the rank %d: %w", len(starts), len(sizes), len(shape), layout.ErrRank)
	}
	for d := range starts {
		e := Extent{0, 1}
		if d < len(shape) {
			e = s.extents[d].of(shape[d])
		}
		starts[d], sizes[d] = e.Start, e.Length
	}
	return nil
}

// View narrows the layout, in place, to the part that the slice selects. dlpack's Tensor.Apply accepts it:
// t.Apply(s.View).
//
// Errors: those of [TensorSlice.AppendShape] and [layout.Layout.Slice]; the layout is then unchanged.
func (s TensorSlice) View(l *layout.Layout) error {
	if err := s.fits(l.Shape); err != nil {
		return err
	}
	ranges := make([]layout.Index, len(s.extents))
	for d, e := range s.extents {
		if !e.IsFull() {
			ranges[d] = layout.Range(e.Start, e.End())
		}
	}
	return l.Slice(ranges...)
}
