package nervana

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Walk visits the elements of several tensors of one shape together. It visits each index once. It is the flattening
// of the Nervana Graph documentation. It follows the order of the elements in memory instead of the order of the
// indices. It sorts the dimensions by their strides in all tensors. It reverses a dimension if its first nonzero
// stride, in the order of the tensors, is negative. It merges two dimensions into one if one counter is enough for both
// in every tensor.
//
// [Walk.Reset] prepares a Walk for its tensors. The zero Walk has no tensors.
//
//	var w nervana.Walk
//	if err := w.Reset(dst, src); err != nil { ... }
//	n, steps := w.Run()
//	for at := range w.Offsets(1) {
//		// n elements: dst from at[0] on, steps[0] apart, and src from at[1] on, steps[1] apart
//	}
//
// A Walk must not be copied after Reset, and only one goroutine may use it. The slices that its methods return belong to
// the Walk: they must not be changed, and are valid until the next Reset.
type Walk struct {
	// InOrder makes Reset keep the row-major order of the indices: dimensions are merged, but neither sorted nor
	// reversed.
	InOrder bool

	shape   []int64   // from the slowest dimension to the fastest
	strides [][]int64 // of each tensor
	start   []int64   // of each tensor; nil if there are no elements
	at      []int64   // the offsets that Offsets yields
	steps   []int64   // see Run

	inlineStrides [inlineTensors][]int64
	inlineNumbers [inlineTensors*(room+3) + room]int64
}

// A Walk stores its slices in itself, without allocating, for up to inlineTensors tensors with up to room dimensions of
// more than one element.
const (
	inlineTensors = 3
	room          = 8
)

// maxWide is the largest number of dimensions of more than one element that a shape can have, because the number of its
// elements fits in 63 bits.
const maxWide = 62

// Reset prepares w for tensors of one shape. The destination should come first: its memory is visited forwards. Reset
// allocates nothing for up to three tensors with up to eight dimensions of more than one element.
//
// Errors: [layout.ErrShape] for different shapes, and those of [layout.Layout.Span] and [layout.Count]. After an error
// w has no tensors.
func (w *Walk) Reset(layouts ...layout.Layout) error {
	w.clear()
	if len(layouts) == 0 {
		return nil
	}
	count, err := layout.Count(layouts[0].Shape)
	if err != nil {
		return err
	}
	for k := range layouts {
		if !slices.Equal(layouts[k].Shape, layouts[0].Shape) {
			return fmt.Errorf("nervana: walk: tensor %d has shape %v, but tensor 0 has %v: %w",
				k, slices.Clone(layouts[k].Shape), slices.Clone(layouts[0].Shape), layout.ErrShape)
		}
		if _, _, err := layouts[k].Span(); err != nil {
			return wrap(fmt.Sprintf("walk: tensor %d", k), err)
		}
	}
	if count == 0 {
		return nil
	}

	wide := make([]wideDimension, 0, maxWide)
	for d, n := range layouts[0].Shape {
		if n > 1 {
			weight := 0.0
			for k := range layouts {
				weight += math.Abs(float64(layouts[k].Strides[d]))
			}
			wide = append(wide, wideDimension{d, weight})
		}
	}
	if !w.InOrder {
		slices.SortStableFunc(wide, func(a, b wideDimension) int { return cmp.Compare(b.weight, a.weight) })
	}
	w.makeRoom(len(layouts), len(wide))
	for k := range layouts {
		w.start[k] = layouts[k].Offset
		for i, at := range wide {
			w.strides[k][i] = layouts[k].Strides[at.d]
		}
	}
	for i, at := range wide {
		w.shape[i] = layouts[0].Shape[at.d]
		if !w.InOrder {
			w.turn(i)
		}
	}
	w.merge()
	for k, strides := range w.strides {
		w.steps[k] = 1
		if fastest := len(strides) - 1; fastest >= 0 {
			w.steps[k] = strides[fastest]
		}
	}
	return nil
}

// clear makes w a walk without tensors.
func (w *Walk) clear() { *w = Walk{InOrder: w.InOrder} }

// A wideDimension is a dimension d of more than one element. Its weight is the sum of the absolute strides of all
// tensors along it. It may be rounded, because it affects only the order of the walk.
type wideDimension struct {
	d      int
	weight float64
}

// makeRoom sets the lengths of w's slices for n tensors of the given rank. The contents are undefined.
func (w *Walk) makeRoom(n, rank int) {
	if w.strides = w.inlineStrides[:]; n > inlineTensors {
		w.strides = make([][]int64, n)
	}
	w.strides = w.strides[:n]
	rest := w.inlineNumbers[:]
	if need := n*(rank+3) + rank; need > len(rest) {
		rest = make([]int64, need)
	}
	cut := func(size int) []int64 {
		piece := rest[:size:size]
		rest = rest[size:]
		return piece
	}
	w.shape, w.start, w.at, w.steps = cut(rank), cut(n), cut(n), cut(n)
	for k := range w.strides {
		w.strides[k] = cut(rank)
	}
}

// turn reverses dimension i if its first nonzero stride, in the order of the tensors, is negative.
func (w *Walk) turn(i int) {
	for _, strides := range w.strides {
		if strides[i] > 0 {
			return
		}
		if strides[i] < 0 {
			break
		}
	}
	for k, strides := range w.strides {
		w.start[k] += (w.shape[i] - 1) * strides[i] // does not overflow: the result is within the span
		strides[i] = -strides[i]
	}
}

// merge merges two dimensions if, in every tensor, one step along the slower dimension is as long as the whole faster
// dimension.
func (w *Walk) merge() {
	for i := len(w.shape) - 2; i >= 0; i-- {
		last := len(w.shape) - 1
		if w.InOrder {
			last = i + 1
		}
		for j := i + 1; j <= last; j++ {
			if w.continues(i, j) {
				w.shape[j] *= w.shape[i]
				w.shape = slices.Delete(w.shape, i, i+1)
				for k, strides := range w.strides {
					w.strides[k] = slices.Delete(strides, i, i+1)
				}
				break
			}
		}
	}
}

// continues reports whether, in every tensor, one step along dimension i is as long as the whole dimension j, so that
// one counter suffices for both.
func (w *Walk) continues(i, j int) bool {
	for _, strides := range w.strides {
		if end, fits := layout.Mul(strides[j], w.shape[j]); !fits || end != strides[i] {
			return false
		}
	}
	return true
}

// Shape returns the sizes of the dimensions of the walk, from the slowest to the fastest. No size is 1, except after
// [Walk.Part]. Without elements the result is nil.
func (w *Walk) Shape() []int64 { return w.shape }

// Strides returns the strides of tensor k along the dimensions of the walk. It returns nil if there is no tensor k or there
// are no elements.
func (w *Walk) Strides(k int) []int64 {
	if k < 0 || k >= len(w.strides) {
		return nil
	}
	return w.strides[k]
}

// Start returns the offset in each tensor at which the walk begins. Without elements the result is nil.
func (w *Walk) Start() []int64 { return w.start }

// Count returns the number of elements that the walk visits in each tensor.
func (w *Walk) Count() int64 {
	if w.start == nil {
		return 0
	}
	count := int64(1)
	for _, n := range w.shape {
		count *= n // does not overflow: Reset has counted the elements
	}
	return count
}

// Run returns the size of the fastest dimension, and the step in elements from one index to the next in each tensor. A walk
// without dimensions has one element: count and all steps are then 1. Without elements count is 0 and steps is nil.
func (w *Walk) Run() (count int64, steps []int64) {
	if w.start == nil {
		return 0, nil
	}
	if len(w.shape) == 0 {
		return 1, w.steps
	}
	return w.shape[len(w.shape)-1], w.steps
}

// Flat reports whether the whole walk is one run, so that one index i suffices for all tensors: element i of tensor k
// lies at offset Start()[k] + i×steps[k]. If all steps are 1, the tensors are flattenable in the sense of the Nervana
// Graph documentation: one integer is the offset into all of them. Without elements ok is false.
func (w *Walk) Flat() (count int64, steps []int64, ok bool) {
	if w.start == nil || len(w.shape) > 1 {
		return 0, nil, false
	}
	count, steps = w.Run()
	return count, steps, true
}

// Offsets returns an iterator over the indices of all dimensions except the inner fastest dimensions: with 1 it visits
// the beginnings of runs, with 2 it visits the beginnings of planes, and with 0 or less it visits all elements. It
// yields the offset in each tensor, in a slice that is valid until the next step.
//
// Only one iterator of a Walk may be in use at a time. A step allocates nothing.
func (w *Walk) Offsets(inner int) iter.Seq[[]int64] {
	return func(yield func(at []int64) bool) {
		if w.start == nil {
			return
		}
		outer := max(len(w.shape)-max(inner, 0), 0)
		var index [maxWide]int64
		at := w.at
		copy(at, w.start)
		for yield(at) {
			d := outer - 1
			for ; d >= 0 && index[d]+1 == w.shape[d]; d-- {
				for k, strides := range w.strides {
					at[k] -= index[d] * strides[d]
				}
				index[d] = 0
			}
			if d < 0 {
				return
			}
			index[d]++
			for k, strides := range w.strides {
				at[k] += strides[d]
			}
		}
	}
}

// Part narrows the walk to one of several parts of about the same size: part i, counted from 0. of is the number of
// parts. Several goroutines, each with its own Walk, can then share the work. The fastest dimension is divided only if
// no other dimension is long enough. A part may have no elements.
//
// Errors: [layout.ErrIndex] unless 0 ≤ i < of.
func (w *Walk) Part(i, of int) error {
	if i < 0 || i >= of {
		return fmt.Errorf("nervana: walk: part %d of %d does not exist: %w", i, of, layout.ErrIndex)
	}
	if w.start == nil || of == 1 {
		return nil
	}
	if len(w.shape) == 0 {
		if i > 0 {
			w.clear()
		}
		return nil
	}
	d := slices.IndexFunc(w.shape, func(n int64) bool { return n >= int64(of) })
	if d < 0 {
		d = slices.Index(w.shape, slices.Max(w.shape))
	}
	size, more := w.shape[d]/int64(of), w.shape[d]%int64(of)
	first := int64(i)*size + min(int64(i), more)
	if int64(i) < more {
		size++
	}
	if size == 0 {
		w.clear()
		return nil
	}
	for k, strides := range w.strides {
		w.start[k] += first * strides[d]
	}
	w.shape[d] = size
	return nil
}
