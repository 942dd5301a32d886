//go:build cgo

package dlpack

import (
	"iter"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Strided gives access to the elements of a tensor of any layout, without a copy. [ReadStrided] and [UseStrided] make it.
// [Strided.Rows] and [Strided.All] iterate over it, the last index fastest. Your own loop over two dimensions looks like this:
//
//	s0, s1 := x.Strides[0], x.Strides[1]
//	for i := range x.Shape[0] {
//		for j := range x.Shape[1] {
//			sum += x.Data[x.Start+i*s0+j*s1]
//		}
//	}
//
// Copy the strides to variables first, as above: the compiler cannot keep x.Strides[0] and x.Strides[1] in registers, and a loop that
// uses these can take several times as long.
//
// [Tensor.Contiguous] followed by [Read] can be much faster if each element is visited more than once. The same holds if the distance
// between the elements of a row is a power of two of at least 2 KiB. If a loop changes a variable at each element, such as a sum,
// declare the variable in the function that gets the Strided. A variable from outside can make the loop much slower.
type Strided[T Element] struct {
	Data    []T     // the memory from the lowest to the highest element; bytes between elements may have any value
	Start   int64   // the index in Data of element (0, ..., 0)
	Shape   []int64 // must not be changed, nor must Strides
	Strides []int64 // in elements; they may be negative or 0, and those of dimensions of size 1 may have any value
}

// ReadStrided is [Read] for any layout: it calls f with the elements, without a copy. f must not write to them.
//
// Ownership, Lifetime, Threads: as [Read], for the slices of the [Strided]. On error: as Read, without [ErrLayout].
func ReadStrided[T Element](t *Tensor, f func(elements Strided[T]) error) error {
	return during("read strided", t, false, strided[T], f)
}

// UseStrided is [Use] for any layout: it calls f with the elements, without a copy. f may read and write them, but must not write
// to the memory between them.
//
// Ownership, Lifetime, Threads: as [Use], for the slices of the [Strided]. On error: as Use, with [ErrLayout] only for elements
// that overlap.
func UseStrided[T Element](t *Tensor, f func(elements Strided[T]) error) error {
	return during("use strided", t, true, strided[T], f)
}

// strided returns the elements of a tensor. The caller keeps the memory alive.
func strided[T Element](op string, t *Tensor, write bool) (x Strided[T], err error) {
	if err := checkElements[T](op, t, write); err != nil {
		return x, err
	}
	if write && !t.rowMajor && layout.Overlaps(t.shape(), t.strides()) {
		return x, t.newError(op, ErrLayout, "elements overlap: strides %v of shape %v; Copy makes a tensor in which they do not",
			t.strides(), t.shape())
	}
	x.Shape, x.Strides = t.Shape(), t.Strides()
	if t.data == 0 {
		return x, nil
	}
	low, high := t.span()
	size := int64(unsafe.Sizeof(*new(T)))
	x.Data, x.Start = unsafe.Slice((*T)(core.Pointer(t.data+uintptr(low))), (high-low)/size), -low/size
	return x, nil
}

// Rows iterates over the rows: the elements along the last dimension, with the indices of the other dimensions. Each row is a slice of
// the tensor's memory. A tensor without dimensions is one row of one element; a tensor without elements has no rows. For rows of a few
// elements, such as the 3 of a pixel, the loop in the comment of [Strided] is faster. To get longer rows, join the last dimensions of
// the tensor with [Tensor.FlatOuter] first.
//
// Ownership: none, rows are views. Lifetime: an index is valid until the next row, and must not be changed; rows are valid as long as
// Data. Threads: as Data. On error: [ErrLayout] if the elements of a row have gaps between them.
func (x Strided[T]) Rows() (iter.Seq2[[]int64, []T], error) {
	n, stride := x.row()
	if n > 1 && stride != 1 && len(x.Data) > 0 {
		return nil, newError("rows", ErrLayout, "the elements of a row lie %d elements apart; Contiguous(RowMajor) puts them side by side, and All or the faster loop in the documentation of Strided reads them in place",
			stride)
	}
	return func(yield func([]int64, []T) bool) {
		c := x.first()
		for more := c.n > 0; more; more = c.next() {
			if !yield(c.index[:max(len(c.index)-1, 0)], x.Data[c.at:c.at+c.n:c.at+c.n]) {
				return
			}
		}
	}, nil
}

// All iterates over the elements with their indices. The loop in the comment of [Strided] is faster: about 6 times for rows of 3
// elements.
//
// Ownership: none. Lifetime: an index is valid until the next element, and must not be changed. Threads: as Data. On error: none.
func (x Strided[T]) All() iter.Seq2[[]int64, T] {
	return func(yield func([]int64, T) bool) { // inlined into the caller's loop: a call for each element would slow it down
		c := x.first()
		for more := c.n > 0; more; more = c.next() {
			at := c.at
			for i := range c.n {
				if len(c.index) > 0 {
					c.index[len(c.index)-1] = i
				}
				if !yield(c.index, x.Data[at]) {
					return
				}
				at += c.stride
			}
		}
	}
}

// row returns the number of elements of a row, and the distance between them.
func (x *Strided[T]) row() (n, stride int64) {
	if d := len(x.Shape) - 1; d >= 0 {
		return x.Shape[d], x.Strides[d]
	}
	return 1, 1
}

// A cursor goes from row to row of a Strided.
type cursor struct {
	index          []int64 // of an element of the row; the last number does not matter
	at             int64   // the index in Data of the first element of the row
	n, stride      int64   // the number of elements of a row, and the distance between them
	shape, strides []int64
}

// first returns the cursor of the first row. If there are no elements, n is 0.
func (x *Strided[T]) first() cursor {
	c := cursor{index: make([]int64, len(x.Shape)), at: x.Start, shape: x.Shape, strides: x.Strides}
	if len(x.Data) > 0 {
		c.n, c.stride = x.row()
	}
	return c
}

// next moves the cursor to the next row, and reports whether there is one.
func (c *cursor) next() bool {
	for d := len(c.index) - 2; d >= 0; d-- {
		if c.index[d]++; c.index[d] < c.shape[d] {
			c.at += c.strides[d]
			return true
		}
		c.index[d] = 0
		c.at -= (c.shape[d] - 1) * c.strides[d]
	}
	return false
}
