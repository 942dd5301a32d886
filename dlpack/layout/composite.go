package layout

import (
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/internal/extent"
)

// A Composite is a view of several tensors: for each index it selects a tensor and an element of it.
// It consists of pieces, boxes of indices that are each a simple view of one tensor, and that cover
// each index once. The tensors are known by numbers, their sources. A Composite does not change.
//
// It is the complex view of the Nervana Graph documentation ("Implementation Details"): the source is
// the selection function, the layout of a piece the index translation function.
type Composite struct {
	shape  []int64
	pieces []Piece
}

// A Piece is a box of a [Composite] that one tensor fills.
type Piece struct {
	Start  []int64 // the first index of the box
	Source int     // the tensor
	View   Layout  // the elements of that tensor; its shape is that of the box
}

// Simple is the composite that is a view of one tensor.
//
// Errors: as [Layout.Span] and [Count].
func Simple(source int, view Layout) (Composite, error) {
	if _, _, err := view.Span(); err != nil {
		return Composite{}, err
	}
	view = view.Clone()
	c := Composite{shape: view.Shape}
	return c.with(Piece{Start: make([]int64, len(view.Shape)), Source: source, View: view})
}

// with adds a piece, if it has elements.
func (c Composite) with(p Piece) (Composite, error) {
	count, err := Count(p.View.Shape)
	if count > 0 {
		c.pieces = append(c.pieces, p)
	}
	return c, err
}

// Pad surrounds c with the first element in the memory of another tensor, of source fill: pads are the
// numbers of indices before and behind, for each dimension.
//
// Errors: [ErrRank] unless there are pads for each dimension, [ErrNegative], [ErrOverflow].
func (c Composite) Pad(fill int, pads ...[2]int64) (Composite, error) {
	rank := len(c.shape)
	if len(pads) != rank {
		return Composite{}, fmt.Errorf("layout: pads for %d dimensions of %d: %w", len(pads), rank, ErrRank)
	}
	padded := Composite{shape: slices.Clone(c.shape)}
	for d, pad := range pads {
		if pad[0] < 0 || pad[1] < 0 {
			return Composite{}, fmt.Errorf("layout: pads of dimension %d = %d, %d: %w", d, pad[0], pad[1], ErrNegative)
		}
		sum, fits1 := extent.Add(pad[0], pad[1])
		size, fits2 := extent.Add(c.shape[d], sum)
		if !fits1 || !fits2 {
			return Composite{}, fmt.Errorf("layout: pads of dimension %d = %d, %d: %w", d, pad[0], pad[1], ErrOverflow)
		}
		padded.shape[d] = size
	}
	if _, err := Count(padded.shape); err != nil {
		return Composite{}, err
	}

	shift := make([]int64, rank)
	for d, pad := range pads {
		shift[d] = pad[0]
	}
	padded.pieces = c.moved(shift)
	// The frame around the box in the middle: before and behind it along each dimension, as wide as
	// the box along those before and as the whole along those behind.
	start, size := make([]int64, rank), slices.Clone(padded.shape)
	none := 0 // sizes of 0: with any, a piece has nothing in it
	for _, n := range size {
		if n == 0 {
			none++
		}
	}
	resize := func(d int, n int64) {
		if size[d] == 0 {
			none--
		}
		if size[d] = n; n == 0 {
			none++
		}
	}
	for d, pad := range pads {
		for _, side := range []struct{ start, size int64 }{{0, pad[0]}, {pad[0] + c.shape[d], pad[1]}} {
			start[d] = side.start
			if resize(d, side.size); none > 0 {
				continue
			}
			box := Layout{Shape: size, Strides: make([]int64, rank)}.Clone()
			var err error
			if padded, err = padded.with(Piece{Start: slices.Clone(start), Source: fill, View: box}); err != nil {
				return Composite{}, err
			}
		}
		start[d] = pad[0]
		resize(d, c.shape[d])
	}
	return padded, nil
}

// moved is the pieces with a shift added to where they start.
func (c Composite) moved(shift []int64) []Piece {
	pieces := slices.Clone(c.pieces)
	for i := range pieces {
		start := slices.Clone(shift)
		for d, at := range pieces[i].Start {
			start[d] += at // within the shape that is being made
		}
		pieces[i].Start = start
	}
	return pieces
}

// Concat joins composites along dimension axis.
//
// Errors: [ErrShape] for none, and where another dimension differs in size; [ErrAxis], [ErrOverflow].
func Concat(axis int, parts ...Composite) (Composite, error) {
	if len(parts) == 0 {
		return Composite{}, fmt.Errorf("layout: concat of nothing: %w", ErrShape)
	}
	rank := len(parts[0].shape)
	axis, err := dimension("concat", axis, rank)
	if err != nil {
		return Composite{}, err
	}
	joined := Composite{shape: slices.Clone(parts[0].shape)}
	joined.shape[axis] = 0
	shift := make([]int64, rank)
	for k, part := range parts {
		if len(part.shape) != rank {
			return Composite{}, fmt.Errorf("layout: concat: part %d has %d dimensions, part 0 has %d: %w", k, len(part.shape), rank, ErrShape)
		}
		for d, n := range part.shape {
			if d != axis && n != joined.shape[d] {
				return Composite{}, fmt.Errorf("layout: concat: shape[%d] of part %d is %d, of part 0 %d: %w", d, k, n, joined.shape[d], ErrShape)
			}
		}
		shift[axis] = joined.shape[axis]
		size, fits := extent.Add(shift[axis], part.shape[axis])
		if !fits {
			return Composite{}, fmt.Errorf("layout: concat: part %d: %w", k, ErrOverflow)
		}
		joined.shape[axis] = size
		joined.pieces = append(joined.pieces, part.moved(shift)...)
	}
	if _, err := Count(joined.shape); err != nil {
		return Composite{}, err
	}
	return joined, nil
}

// Shape is a copy of the shape.
func (c Composite) Shape() []int64 { return append([]int64{}, c.shape...) }

// Pieces is the pieces, without those that have no elements. They must not be changed.
func (c Composite) Pieces() []Piece { return c.pieces }

// OffsetOf selects the tensor, and where in its memory the element lies. As with [Layout.OffsetOf], no index counts
// from the end.
//
// Errors: [ErrRank] unless there is an index for each dimension, [ErrIndex] for one that is not in
// the shape.
func (c Composite) OffsetOf(index ...int64) (source int, offset int64, err error) {
	if len(index) != len(c.shape) {
		return 0, 0, fmt.Errorf("layout: index with %d entries for %d dimensions: %w", len(index), len(c.shape), ErrRank)
	}
	within := make([]int64, len(index))
pieces:
	for _, p := range c.pieces {
		for d, i := range index {
			// No overflow: starts are not negative, and a negative index is below them.
			if within[d] = i - p.Start[d]; i < p.Start[d] || within[d] >= p.View.Shape[d] {
				continue pieces
			}
		}
		offset, err = p.View.OffsetOf(within...)
		return p.Source, offset, err
	}
	return 0, 0, fmt.Errorf("layout: index %v of shape %v: %w", slices.Clone(index), c.shape, ErrIndex)
}

// Into evaluates the composite into a destination of its shape: it calls copy for each piece, with the
// part of the destination, the view of the source that belongs there, and the source. The layouts are
// only valid until copy returns. An error from copy ends it and is returned.
//
// Errors: [ErrShape] for a destination of another shape, and for the zero Composite, which has one index and nothing
// there; as [Layout.Span].
func (c Composite) Into(dst Layout, copy func(dst, src Layout, source int) error) error {
	if !slices.Equal(dst.Shape, c.shape) {
		return fmt.Errorf("layout: shape %v into %v: %w", c.shape, slices.Clone(dst.Shape), ErrShape)
	}
	if len(c.pieces) == 0 && len(c.shape) == 0 {
		return fmt.Errorf("layout: the zero Composite has nothing for its index: %w", ErrShape)
	}
	if _, _, err := dst.Span(); err != nil {
		return err
	}
	var part, view Layout
	for _, p := range c.pieces {
		part.Set(dst)
		for d, start := range p.Start {
			if err := part.Narrow(d, start, p.View.Shape[d]); err != nil {
				return err
			}
		}
		view.Set(p.View)
		if err := copy(part, view, p.Source); err != nil {
			return err
		}
	}
	return nil
}
