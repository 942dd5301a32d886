package layout

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/dlbridge/dlbridge/internal/extent"
)

// A Walk visits the elements of several tensors of one shape together, each index once, in the order
// in which they lie in memory rather than that of their indices: the dimensions are ordered by their
// strides in all the tensors, turned so that the first tensor that moves moves forwards, and merged
// wherever one counter can serve for several in every tensor. A Walk is made for its tensors by
// [Walk.Reset]; the zero Walk is over none.
//
//	var w layout.Walk
//	if err := w.Reset(dst, src); err != nil { ... }
//	n, steps := w.Run()
//	for at := range w.Offsets(1) {
//		// n elements: dst from at[0] on, steps[0] apart, and src from at[1] on, steps[1] apart
//	}
//
// A Walk must not be copied after Reset, and is for one goroutine. What its methods return is the
// Walk's own and changes with the next Reset.
type Walk struct {
	// InOrder keeps to the row-major order of the indices: dimensions are merged, but neither ordered
	// nor turned. Reset looks at it.
	InOrder bool

	any     bool      // there are elements
	shape   []int64   // from the slowest dimension to the fastest
	strides [][]int64 // of each tensor
	numbers []int64   // backs the slices of int64
	start   []int64   // of each tensor
	at      []int64
	steps   []int64
	index   []int64

	inlineStrides [inlineTensors][]int64
	inlineNumbers [inlineTensors*(room+3) + 2*room]int64
}

// inlineTensors is how many tensors, of a rank of up to room, a Walk is over without allocating.
const inlineTensors = 3

// maxWide is how many dimensions of more than one element there can be: their count fits in 63 bits.
const maxWide = 62

// Reset makes w a walk over tensors of one shape. List what is written first: the first tensor is the
// one that is walked forwards. Reset allocates nothing for up to three tensors with up to eight
// dimensions of more than one element.
//
// Errors: [ErrShape] for different shapes, as [Layout.Span] and [Count]; the walk is then over none.
func (w *Walk) Reset(layouts ...Layout) error {
	w.clear()
	if len(layouts) == 0 {
		return nil
	}
	count, err := Count(layouts[0].Shape)
	if err != nil {
		return err
	}
	for k := range layouts {
		if !slices.Equal(layouts[k].Shape, layouts[0].Shape) {
			return fmt.Errorf("layout: walk: tensor %d of shape %v, tensor 0 of %v: %w",
				k, slices.Clone(layouts[k].Shape), slices.Clone(layouts[0].Shape), ErrShape)
		}
		if _, _, err := layouts[k].Span(); err != nil {
			return fmt.Errorf("%w (tensor %d of the walk)", err, k)
		}
	}
	if w.any = count > 0; !w.any {
		return nil
	}

	var wide [maxWide]wideDimension
	rank := 0
	for d, n := range layouts[0].Shape {
		if n > 1 {
			wide[rank] = wideDimension{d: d}
			for k := range layouts {
				wide[rank].weigh(layouts[k].Strides[d])
			}
			rank++
		}
	}
	if !w.InOrder {
		slices.SortStableFunc(wide[:rank], func(a, b wideDimension) int { return cmp.Compare(b.weight, a.weight) })
	}
	w.makeRoom(len(layouts), rank)
	for k := range layouts {
		w.start[k] = layouts[k].Offset
		for i, at := range wide[:rank] {
			w.strides[k][i] = layouts[k].Strides[at.d]
		}
	}
	for i, at := range wide[:rank] {
		w.shape[i] = layouts[0].Shape[at.d]
		if !w.InOrder {
			w.turn(i)
		}
	}
	w.merge()
	w.settle()
	return nil
}

// clear leaves a walk over nothing.
func (w *Walk) clear() { *w = Walk{InOrder: w.InOrder, numbers: w.numbers} }

// A wideDimension has more than one element; its weight is how far one step along it leads in all.
type wideDimension struct {
	d      int
	weight uint64
}

func (v *wideDimension) weigh(stride int64) {
	m := extent.Magnitude(stride)
	if v.weight > math.MaxUint64-m {
		v.weight = math.MaxUint64
		return
	}
	v.weight += m
}

// makeRoom makes the slices for n tensors of a rank, without contents.
func (w *Walk) makeRoom(n, rank int) {
	if w.strides = w.inlineStrides[:]; n > inlineTensors {
		w.strides = make([][]int64, n)
	}
	w.strides = w.strides[:n]
	if w.numbers == nil {
		w.numbers = w.inlineNumbers[:]
	}
	if need := n*(rank+3) + 2*rank; need > len(w.numbers) {
		w.numbers = make([]int64, need)
	}
	rest := w.numbers
	cut := func(size int) []int64 {
		piece := rest[:size:size]
		rest = rest[size:]
		return piece
	}
	w.shape, w.index = cut(rank), cut(rank)
	w.start, w.at, w.steps = cut(n), cut(n), cut(n)
	for k := range w.strides {
		w.strides[k] = cut(rank)
	}
}

// turn reverses a dimension along which the first tensor that moves at all moves backwards.
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
		w.start[k] += (w.shape[i] - 1) * strides[i] // within the span
		strides[i] = -strides[i]
	}
}

// merge merges each dimension with a faster one where that continues it in every tensor.
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
	w.index = w.index[:len(w.shape)]
}

// continues tells whether one step along dimension i leads to where dimension j ends.
func (w *Walk) continues(i, j int) bool {
	for _, strides := range w.strides {
		if end, fits := extent.Mul(strides[j], w.shape[j]); !fits || end != strides[i] {
			return false
		}
	}
	return true
}

// settle notes the steps of the inner run.
func (w *Walk) settle() {
	for k, strides := range w.strides {
		w.steps[k] = 1
		if len(strides) > 0 {
			w.steps[k] = strides[len(strides)-1]
		}
	}
}

// Shape is the sizes of the dimensions of the walk, from the slowest to the fastest, none of them 1.
// It is nil where there are no elements.
func (w *Walk) Shape() []int64 { return w.shape }

// Strides is the strides of tensor k along the dimensions of the walk. It is nil where there is no
// such tensor or no elements.
func (w *Walk) Strides(k int) []int64 {
	if k < 0 || k >= len(w.strides) {
		return nil
	}
	return w.strides[k]
}

// Start is where the walk begins, in each tensor. It is nil where there are no elements.
func (w *Walk) Start() []int64 { return w.start }

// Count is the number of elements of the walk, the same in each tensor.
func (w *Walk) Count() int64 {
	if !w.any {
		return 0
	}
	count := int64(1)
	for _, n := range w.shape {
		count *= n // no more than in the tensors
	}
	return count
}

// Run is the fastest dimension of the walk: how many elements it has, and from one to the next the
// step in each tensor. Where the walk has but one element that is 1, and the steps are 1.
func (w *Walk) Run() (count int64, steps []int64) {
	if !w.any {
		return 0, nil
	}
	if len(w.shape) == 0 {
		return 1, w.steps
	}
	return w.shape[len(w.shape)-1], w.steps
}

// Flat tells whether one run is the whole walk, so that a single index serves for all the tensors:
// element i of tensor k lies i×steps[k] behind Start()[k]. Where all steps are 1 the tensors are
// flattenable in the sense of the Nervana Graph documentation: one integer is the offset into all.
// It is false where there are no elements.
func (w *Walk) Flat() (count int64, steps []int64, ok bool) {
	if !w.any || len(w.shape) > 1 {
		return 0, nil, false
	}
	count, steps = w.Run()
	return count, steps, true
}

// Offsets visits the indices of all dimensions but the fastest inner ones: with 1 the beginnings of
// the runs, with 2 those of planes, with 0 or less the elements. It yields the offset in each tensor,
// in a slice that is only valid until the next step and must not be changed.
//
// One iteration of a Walk can go on at a time. A step allocates nothing.
func (w *Walk) Offsets(inner int) iter.Seq[[]int64] {
	return func(yield func(at []int64) bool) {
		if !w.any {
			return
		}
		outer := max(len(w.shape)-max(inner, 0), 0)
		index, at := w.index[:outer], w.at
		clear(index)
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

// Part narrows the walk to the i-th of so many parts of about the same size, for as many goroutines
// with a Walk each. The fastest dimension is only cut where there is no other long enough.
//
// Errors: [ErrIndex] unless 0 ≤ i < of.
func (w *Walk) Part(i, of int) error {
	if i < 0 || i >= of {
		return fmt.Errorf("layout: walk: part %d of %d: %w", i, of, ErrIndex)
	}
	if !w.any || of == 1 {
		return nil
	}
	if len(w.shape) == 0 {
		if i > 0 {
			w.clear()
		}
		return nil
	}
	d := 0
	for e, n := range w.shape {
		if n >= int64(of) {
			d = e
			break
		}
		if n > w.shape[d] {
			d = e
		}
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
