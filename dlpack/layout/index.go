package layout

import (
	"fmt"

	"github.com/dlbridge/dlbridge/internal/extent"
)

// An Index is what [Layout.Slice] takes of one dimension. The zero Index is [All].
type Index struct { // four words, the most that the compiler keeps in registers
	start, stop int64
	skip        int64 // step - 1, so that the zero Index steps by 1
	kind        indexKind
}

type indexKind int64

const (
	givesStart indexKind = 1 << iota // of a range, which may give both
	givesStop
	kindAt
	kindEllipsis
	kindNewAxis
)

// All takes a dimension whole, as ":" in Python.
func All() Index { return Index{} }

// At takes one index, and the dimension away; -1 is the last one.
func At(i int64) Index { return Index{kind: kindAt, start: i} }

// Range takes the indices from start to one before stop, as "start:stop" in Python: negative numbers
// count from the end, and what lies outside of the dimension is left out.
func Range(start, stop int64) Index {
	return Index{start: start, stop: stop, kind: givesStart + givesStop}
}

// From takes the indices from start on, as "start:" in Python.
func From(start int64) Index { return Index{start: start, kind: givesStart} }

// Until takes the indices to one before stop, as ":stop" in Python.
func Until(stop int64) Index { return Index{stop: stop, kind: givesStop} }

// Ellipsis takes all the dimensions that the other indices leave whole, as "..." in Python.
func Ellipsis() Index { return Index{kind: kindEllipsis} }

// NewAxis takes nothing and makes a dimension of size 1, as numpy.newaxis.
func NewAxis() Index { return Index{kind: kindNewAxis} }

// By takes only each step-th index of a range. A negative step takes them backwards, from the start
// on, which is by default the end of the dimension then.
func (x Index) By(step int64) Index {
	x.skip = step - 1 // wraps around for the lowest step, and back again
	return x
}

// String prints the index as in Python: "1:7:2".
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

// of resolves a range of a dimension of size n: the first of the indices that it takes, and how many.
// ok is false for a step of 0.
func (x *Index) of(n int64) (first, count int64, ok bool) {
	step := x.skip + 1
	if step == 0 {
		return 0, 0, false
	}
	// The indices between which the range lies, when it runs forwards and when it runs backwards.
	low, high := int64(0), n
	start, stop := low, high
	if step < 0 {
		low, high = -1, n-1
		start, stop = high, low
	}
	if x.kind&givesStart != 0 {
		start = min(max(fromStart(x.start, n), low), high)
	}
	if x.kind&givesStop != 0 {
		stop = min(max(fromStart(x.stop, n), low), high)
	}
	way, size := stop-start, uint64(step)
	if step < 0 {
		way, size = -way, -size
	}
	if way <= 0 {
		return 0, 0, true
	}
	if size == 1 {
		return start, way, true
	}
	return start, int64(uint64(way-1)/size) + 1, true
}

// fromStart is an index of which negative ones count from the end.
func fromStart(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return i
}

// stretch is a stride times a factor, where a dimension of that size needs it: the stride of a
// dimension of 1 or no elements stays as it is.
func stretch(stride, factor, size int64) (stretched int64, fits bool) {
	if size <= 1 {
		return stride, true
	}
	return extent.Mul(stride, factor)
}

// product is a×b, or 0 where that does not fit: for strides that are not followed.
func product(a, b int64) int64 {
	if p, fits := extent.Mul(a, b); fits {
		return p
	}
	return 0
}
