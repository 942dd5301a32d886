package nervana

import (
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Composite is a view of several tensors, such as a padded tensor or joined tensors. For each index it selects a
// tensor and an element of that tensor. It consists of pieces. A piece is a box of indices in which the composite is a
// simple view of one tensor; every index lies in exactly one piece. Each tensor is identified by a number, its source.
// A Composite is immutable.
//
// A Composite is the complex view of the Nervana Graph documentation ("Implementation Details"). The source is the
// result of the selection function, and the layout of a piece is the index translation function.
type Composite struct {
	shape  []int64
	pieces []piece
}

// A piece is a box of indices of a [Composite] whose elements come from one tensor.
type piece struct {
	start  []int64       // the first index of the box
	source int           // the number of the tensor
	view   layout.Layout // the elements of that tensor; it has the shape of the box
}

// Simple returns the composite that is a view of one tensor, whose number is source.
//
// Errors: the errors of [layout.Layout.Span] and [layout.Count].
func Simple(source int, view layout.Layout) (Composite, error) {
	if _, _, err := view.Span(); err != nil {
		return Composite{}, err
	}
	count, err := view.Count()
	if err != nil {
		return Composite{}, err
	}
	view = view.Clone()
	c := Composite{shape: view.Shape}
	if count > 0 {
		c.pieces = []piece{{start: make([]int64, len(view.Shape)), source: source, view: view}}
	}
	return c, nil
}

// Pad returns c with padding around it. pads[d] has the numbers of indices to add before and after dimension d. Every
// added index selects the element at offset 0 of the tensor whose source is fill.
//
// Errors: [layout.ErrRank] unless there is one pad for each dimension, [layout.ErrNegative], [layout.ErrOverflow].
func (c Composite) Pad(fill int, pads ...[2]int64) (Composite, error) {
	rank := len(c.shape)
	if len(pads) != rank {
		return Composite{}, fmt.Errorf("nervana: pad: there are %d pads, but the rank is %d: %w", len(pads), rank, layout.ErrRank)
	}
	padded, shift := Composite{shape: slices.Clone(c.shape)}, make([]int64, rank)
	for d, pad := range pads {
		if pad[0] < 0 || pad[1] < 0 {
			return Composite{}, fmt.Errorf("nervana: pad: the pads of dimension %d are %d and %d: %w", d, pad[0], pad[1], layout.ErrNegative)
		}
		sum, fits1 := layout.Add(pad[0], pad[1])
		size, fits2 := layout.Add(c.shape[d], sum)
		if !fits1 || !fits2 {
			return Composite{}, fmt.Errorf("nervana: pad: the pads of dimension %d are %d and %d: %w", d, pad[0], pad[1], layout.ErrOverflow)
		}
		padded.shape[d], shift[d] = size, pad[0]
	}
	count, err := layout.Count(padded.shape)
	if err != nil {
		return Composite{}, err
	}
	if count == 0 {
		return padded, nil
	}

	padded.pieces = c.moved(shift)
	// The other indices are a frame around c. For each dimension d it has a box before c and a box after c. Along the
	// dimensions before d these boxes are as wide as c, and along the dimensions after d as wide as the result.
	start, size := make([]int64, rank), slices.Clone(padded.shape)
	for d, pad := range pads {
		for _, side := range []struct{ start, size int64 }{{0, pad[0]}, {pad[0] + c.shape[d], pad[1]}} {
			if start[d], size[d] = side.start, side.size; side.size > 0 {
				box := layout.Layout{Shape: size, Strides: make([]int64, rank)}.Clone()
				padded.pieces = append(padded.pieces, piece{start: slices.Clone(start), source: fill, view: box})
			}
		}
		if c.shape[d] == 0 {
			break // the boxes along the other dimensions would be as wide as c along this one
		}
		start[d], size[d] = pad[0], c.shape[d]
	}
	return padded, nil
}

// moved returns the pieces of c, moved by shift[d] indices along each dimension d.
func (c Composite) moved(shift []int64) []piece {
	pieces := slices.Clone(c.pieces)
	for i := range pieces {
		start := slices.Clone(shift)
		for d, at := range pieces[i].start {
			start[d] += at // does not overflow: the result lies in the shape of the new composite
		}
		pieces[i].start = start
	}
	return pieces
}

// Concat returns the composites joined along dimension axis; -1 is the last dimension. The result takes memory in
// proportion to its number of pieces, which is the sum of the numbers of pieces of the parts.
//
// Errors: [layout.ErrShape] without parts, and if the parts differ in rank or in the size of another dimension;
// [layout.ErrAxis]; [layout.ErrOverflow].
func Concat(axis int, parts ...Composite) (Composite, error) {
	if len(parts) == 0 {
		return Composite{}, fmt.Errorf("nervana: concat: there are no parts: %w", layout.ErrShape)
	}
	rank := len(parts[0].shape)
	if axis < -rank || axis >= rank {
		return Composite{}, fmt.Errorf("nervana: concat: the dimension is %d, but the rank is %d: %w", axis, rank, layout.ErrAxis)
	}
	if axis < 0 {
		axis += rank
	}
	joined := Composite{shape: slices.Clone(parts[0].shape)}
	joined.shape[axis] = 0
	shift := make([]int64, rank)
	for k, part := range parts {
		if len(part.shape) != rank {
			return Composite{}, fmt.Errorf("nervana: concat: part %d has rank %d, but part 0 has %d: %w", k, len(part.shape), rank, layout.ErrShape)
		}
		for d, n := range part.shape {
			if d != axis && n != joined.shape[d] {
				return Composite{}, fmt.Errorf("nervana: concat: shape[%d] of part %d is %d, but of part 0 it is %d: %w", d, k, n, joined.shape[d], layout.ErrShape)
			}
		}
		shift[axis] = joined.shape[axis]
		size, fits := layout.Add(shift[axis], part.shape[axis])
		if !fits {
			return Composite{}, fmt.Errorf("nervana: concat: the sum of shape[%d] up to part %d: %w", axis, k, layout.ErrOverflow)
		}
		joined.shape[axis] = size
		joined.pieces = append(joined.pieces, part.moved(shift)...)
	}
	if _, err := layout.Count(joined.shape); err != nil {
		return Composite{}, err
	}
	return joined, nil
}

// Shape returns a copy of the shape.
func (c Composite) Shape() []int64 { return append([]int64{}, c.shape...) }

// OffsetOf returns the source that c selects for an index, and the offset of the element in the memory of that tensor.
// As in [layout.Layout.OffsetOf], negative indices do not count from the end.
//
// Errors: [layout.ErrRank] unless there is one index for each dimension, [layout.ErrIndex] for an index outside the
// shape.
func (c Composite) OffsetOf(index ...int64) (source int, offset int64, err error) {
	if len(index) != len(c.shape) {
		return 0, 0, fmt.Errorf("nervana: index: there are %d indices, but the rank is %d: %w", len(index), len(c.shape), layout.ErrRank)
	}
	within := make([]int64, len(index))
pieces:
	for _, p := range c.pieces {
		for d, i := range index {
			// The difference does not overflow where it matters: no start is negative, and a negative index fails the first test.
			if within[d] = i - p.start[d]; i < p.start[d] || within[d] >= p.view.Shape[d] {
				continue pieces
			}
		}
		offset, err = p.view.OffsetOf(within...)
		return p.source, offset, err
	}
	return 0, 0, fmt.Errorf("nervana: index: %v is outside of the shape %v: %w", slices.Clone(index), c.shape, layout.ErrIndex)
}

// Into calls copy once for each piece, so that copy can write the composite to a destination of the same shape. The
// arguments of copy are the layout of a part of the destination, the layout of the elements to write there, and their
// source. Both layouts are valid until copy returns. If copy returns an error, Into stops and returns it.
//
// Errors: [layout.ErrShape] for a destination of another shape, and for the zero Composite, because it has no elements;
// the errors of [layout.Layout.Span].
func (c Composite) Into(dst layout.Layout, copy func(dst, src layout.Layout, source int) error) error {
	if !slices.Equal(dst.Shape, c.shape) {
		return fmt.Errorf("nervana: the composite has shape %v, but the destination has %v: %w", c.shape, slices.Clone(dst.Shape), layout.ErrShape)
	}
	if len(c.pieces) == 0 && len(c.shape) == 0 {
		return fmt.Errorf("nervana: the zero Composite has no elements: %w", layout.ErrShape)
	}
	if _, _, err := dst.Span(); err != nil {
		return err
	}
	var part, view layout.Layout
	for _, p := range c.pieces {
		part.Set(dst)
		for d, start := range p.start {
			if err := part.Narrow(d, start, p.view.Shape[d]); err != nil {
				return err
			}
		}
		view.Set(p.view)
		if err := copy(part, view, p.source); err != nil {
			return err
		}
	}
	return nil
}
