// Package viewtest is for the tests of this module. It makes random layouts and random views. For comparison, it makes a
// simple model of each view. The model lists the positions of all elements.
package viewtest

import (
	"math/rand/v2"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Model lists the elements of a view: the position of each in memory, in row-major order of the indices.
type Model struct {
	Shape     []int64
	Positions []int64
}

// Of returns the model of a layout. The positions are offsets.
func Of(l layout.Layout) Model { return Model{slices.Clone(l.Shape), Offsets(l)} }

// Offsets returns the offset of each element, in row-major order of the indices.
func Offsets(l layout.Layout) []int64 {
	all := []int64{l.Offset}
	for d, n := range l.Shape {
		var next []int64
		for _, base := range all {
			for i := range n {
				next = append(next, base+i*l.Strides[d])
			}
		}
		all = next
	}
	return all
}

// Indices returns all indices of a shape, in row-major order.
func Indices(shape []int64) [][]int64 {
	all := [][]int64{{}}
	for _, n := range shape {
		var next [][]int64
		for _, index := range all {
			for i := range n {
				next = append(next, append(slices.Clone(index), i))
			}
		}
		all = next
	}
	return all
}

// Strided reports whether strides that are multiples of unit lead to all positions.
func (m Model) Strided(unit int64) bool {
	if len(m.Positions) == 0 {
		return true
	}
	l := layout.Layout{Shape: m.Shape, Strides: make([]int64, len(m.Shape)), Offset: m.Positions[0]}
	step := int64(1)
	for d, n := range slices.Backward(m.Shape) {
		if n > 1 {
			l.Strides[d] = m.Positions[step] - m.Positions[0]
		}
		if l.Strides[d]%unit != 0 {
			return false
		}
		step *= n
	}
	return slices.Equal(Offsets(l), m.Positions)
}

// gather returns a model of another shape. from maps an index of the result to an index of m; it may change its
// argument.
func (m Model) gather(shape []int64, from func(index []int64) []int64) Model {
	out := Model{Shape: slices.Clone(shape)}
	for _, index := range Indices(shape) {
		at := int64(0)
		for d, i := range from(index) {
			at = at*m.Shape[d] + i
		}
		out.Positions = append(out.Positions, m.Positions[at])
	}
	return out
}

// Random returns a small shape with strides that are dense, gapped, shared, reversed or arbitrary.
func Random(r *rand.Rand) (shape, strides []int64) {
	rank := r.IntN(5)
	shape, strides = make([]int64, rank), make([]int64, rank)
	step := int64(1)
	for _, d := range r.Perm(rank) {
		shape[d] = r.Int64N(5)
		if r.IntN(4) > 0 {
			shape[d] = max(shape[d], 1)
		}
		switch r.IntN(8) {
		case 0:
			strides[d] = r.Int64N(13) - 6
		case 1:
			strides[d] = -step
		default:
			strides[d] = step
		}
		step *= max(shape[d], 1)
	}
	return shape, strides
}
