package layout

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// An Index says which part of one dimension [Layout.Slice] selects. The zero Index is [All].
type Index struct { // four words, the most that the compiler keeps in registers
	start, stop int64
	skip        int64 // step - 1, so that the zero Index steps by 1
	kind        indexKind
}

type indexKind int64

const (
	givesStart indexKind = 1 << iota // a range may have start, stop, or both
	givesStop
	kindAt
	kindEllipsis
	kindNewAxis
)

// All returns the Index that selects a whole dimension, like ":" in Python.
func All() Index { return Index{} }

// At returns the Index that selects one index and removes the dimension; -1 is the last index.
func At(i int64) Index { return Index{kind: kindAt, start: i} }

// Range returns the Index that selects the indices from start up to, but not including, stop, like "start:stop" in
// Python. Negative numbers count from the end, and indices outside the dimension are left out.
func Range(start, stop int64) Index {
	return Index{start: start, stop: stop, kind: givesStart + givesStop}
}

// From returns the Index that selects start and all later indices, like "start:" in Python.
func From(start int64) Index { return Index{start: start, kind: givesStart} }

// Until returns the Index that selects the indices before stop, like ":stop" in Python.
func Until(stop int64) Index { return Index{stop: stop, kind: givesStop} }

// Ellipsis returns the Index that selects the whole of all dimensions that have no other Index, like "..." in Python.
func Ellipsis() Index { return Index{kind: kindEllipsis} }

// NewAxis returns the Index that inserts a dimension of size 1, like numpy.newaxis.
func NewAxis() Index { return Index{kind: kindNewAxis} }

// By returns x with the given step, like "start:stop:step" in Python. With a negative step, x runs backwards from its start to
// the index just above its stop. Its start is by default the last index of the dimension. A step does not change [At],
// [Ellipsis] and [NewAxis].
func (x Index) By(step int64) Index {
	x.skip = step - 1 // for the lowest int64 this wraps around; adding 1 restores it
	return x
}

// String returns the index in Python's notation, such as "1:7:2".
func (x Index) String() string {
	switch x.kind {
	case kindAt:
		return fmt.Sprint(x.start)
	case kindEllipsis:
		return "..."
	case kindNewAxis:
		return "None"
	}
	text := ":"
	if x.kind&givesStart != 0 {
		text = fmt.Sprint(x.start, ":")
	}
	if x.kind&givesStop != 0 {
		text = fmt.Sprint(text, x.stop)
	}
	if x.skip != 0 {
		text = fmt.Sprint(text, ":", x.skip+1)
	}
	return text
}

// of returns the first index that a range selects in a dimension of size n, and the number of indices. ok is false for a
// step of 0.
func (x *Index) of(n int64) (first, count int64, ok bool) {
	step := x.skip + 1
	if step == 0 {
		return 0, 0, false
	}
	// low and high are the bounds of start and stop. They differ between ranges that run forwards and backwards.
	low, high, sign := int64(0), n, int64(1)
	start, stop := low, high
	if step < 0 {
		low, high, sign = -1, n-1, -1
		start, stop = high, low
	}
	if x.kind&givesStart != 0 {
		start = min(max(fromStart(x.start, n), low), high)
	}
	if x.kind&givesStop != 0 {
		stop = min(max(fromStart(x.stop, n), low), high)
	}
	if (stop-start)*sign <= 0 {
		return 0, 0, true
	}
	return start, (stop-start-sign)/step + 1, true
}

// fromStart returns index i counted from the start of a dimension of size n. A negative i counts from the end.
func fromStart(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return i
}

// stretch returns stride×factor, or 0 if this does not fit in an int64, and whether it fits. For a dimension of at most one
// element it returns the stride unchanged, because this stride has no meaning.
func stretch(stride, factor, size int64) (stretched int64, fits bool) {
	if size <= 1 {
		return stride, true
	}
	if stretched, fits = extent.Mul(stride, factor); !fits {
		return 0, false
	}
	return stretched, true
}

// product returns a×b, or 0 if this does not fit in an int64. It is for strides without a meaning.
func product(a, b int64) int64 {
	if p, fits := extent.Mul(a, b); fits {
		return p
	}
	return 0
}
