package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// MaxPartialRank is TensorFlow's limit on the number of dimensions. It applies to a [PartialShape] and to the results of
// [Layout.FlatInner], [Layout.FlatOuter] and [Layout.FlatEnds].
const MaxPartialRank = 254

// Unknown stands for an unknown size of a [PartialShape].
const Unknown = -1

// A PartialShape is a shape that need not be fully known. Its rank may be unknown, and so may some or all of its sizes.
// The rank of the zero PartialShape is unknown. A PartialShape is immutable; its methods return new values.
//
// It corresponds to TensorFlow's PartialTensorShape, with the same text and limits: at most [MaxPartialRank] dimensions and, if
// all sizes are known, a number of elements that fits in 63 bits.
type PartialShape struct {
	dims   []int64
	ranked bool
}

// NewPartialShape returns a shape of known rank. A size may be [Unknown].
//
// Errors: [ErrRank] for more than [MaxPartialRank] dimensions, [ErrNegative] for a size below -1, [ErrOverflow].
func NewPartialShape(dims ...int64) (PartialShape, error) {
	return partialShape(slices.Clone(dims))
}

// partialShape is [NewPartialShape] without a copy of dims.
func partialShape(dims []int64) (PartialShape, error) {
	if len(dims) > MaxPartialRank {
		return PartialShape{}, fmt.Errorf("layout: partial shape: %d dimensions, but at most %d are allowed: %w", len(dims), MaxPartialRank, ErrRank)
	}
	for d, n := range dims {
		if n < Unknown {
			return PartialShape{}, newError(ErrNegative, "partial shape[%d] is %d, must not be less than %d", d, n, Unknown)
		}
	}
	s := PartialShape{dims: dims, ranked: true}
	if s.IsFullyDefined() {
		if _, err := Count(dims); err != nil {
			return PartialShape{}, err
		}
	}
	return s, nil
}

// ParsePartialShape parses the text that [PartialShape.String] returns, such as "<unknown>", "[]" or "[4,?]". Spaces are
// allowed around the sizes.
//
// Errors: [ErrSyntax], and those of [NewPartialShape].
func ParsePartialShape(text string) (PartialShape, error) {
	if text == unknownRank {
		return PartialShape{}, nil
	}
	list, opened := strings.CutPrefix(text, "[")
	list, closed := strings.CutSuffix(list, "]")
	if !opened || !closed {
		return PartialShape{}, fmt.Errorf("layout: partial shape %.80q: %w", text, ErrSyntax)
	}
	if strings.TrimSpace(list) == "" {
		return partialShape(nil)
	}
	if n := strings.Count(list, ",") + 1; n > MaxPartialRank {
		return PartialShape{}, fmt.Errorf("layout: partial shape: %d dimensions, but at most %d are allowed: %w", n, MaxPartialRank, ErrRank)
	}
	var dims []int64
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		n := int64(Unknown)
		if item != "?" {
			u, err := strconv.ParseUint(item, 10, 63)
			if err != nil {
				return PartialShape{}, fmt.Errorf("layout: partial shape: size %d is %.40q: %w", len(dims), item, ErrSyntax)
			}
			n = int64(u)
		}
		dims = append(dims, n)
	}
	return partialShape(dims)
}

const unknownRank = "<unknown>"

// String returns the text that TensorFlow prints, such as "[4,?]", and "<unknown>" for an unknown rank.
func (s PartialShape) String() string {
	if !s.ranked {
		return unknownRank
	}
	return tensorFlowText.Replace(fmt.Sprint(s.dims))
}

// tensorFlowText turns package fmt's text for a list of sizes into TensorFlow's. The only negative size is [Unknown].
var tensorFlowText = strings.NewReplacer(" ", ",", fmt.Sprint(Unknown), "?")

// Rank returns the number of dimensions, and whether it is known.
func (s PartialShape) Rank() (rank int, ok bool) { return len(s.dims), s.ranked }

// Dim returns the size of dimension d. It returns [Unknown] if the size is unknown or there is no dimension d.
func (s PartialShape) Dim(d int) int64 {
	if d < 0 || d >= len(s.dims) {
		return Unknown
	}
	return s.dims[d]
}

// Dims returns a copy of the sizes, which may be [Unknown]. It returns nil if the rank is unknown.
func (s PartialShape) Dims() []int64 {
	if !s.ranked {
		return nil
	}
	return append([]int64{}, s.dims...)
}

// IsFullyDefined reports whether the rank and all sizes are known.
func (s PartialShape) IsFullyDefined() bool { return s.ranked && !slices.Contains(s.dims, Unknown) }

// Count returns the number of elements, and whether it is known.
func (s PartialShape) Count() (count int64, ok bool) {
	if !s.IsFullyDefined() {
		return 0, false
	}
	count, err := Count(s.dims)
	return count, err == nil
}

// Equal reports whether both shapes have the same rank and sizes, known or unknown.
func (s PartialShape) Equal(o PartialShape) bool {
	return s.ranked == o.ranked && slices.Equal(s.dims, o.dims)
}

// CompatibleWith reports whether s and o agree in the rank, and in every size that both know.
func (s PartialShape) CompatibleWith(o PartialShape) bool {
	return !s.ranked || !o.ranked || slices.EqualFunc(s.dims, o.dims, func(m, n int64) bool {
		return m == n || m == Unknown || n == Unknown
	})
}

// Refines reports whether o allows every shape that s allows: s knows at least as much as o.
func (s PartialShape) Refines(o PartialShape) bool {
	return !o.ranked || s.ranked && slices.EqualFunc(s.dims, o.dims, func(m, n int64) bool { return m == n || n == Unknown })
}

// Merge returns the shape with everything that s or o knows.
//
// Errors: [ErrShape] unless the shapes are compatible, [ErrOverflow].
func (s PartialShape) Merge(o PartialShape) (PartialShape, error) {
	if !s.CompatibleWith(o) {
		return PartialShape{}, fmt.Errorf("layout: merge of %v and %v: %w", s, o, ErrShape)
	}
	if !s.ranked {
		return o, nil
	}
	dims := slices.Clone(s.dims)
	for d, n := range o.dims {
		dims[d] = max(n, dims[d])
	}
	return partialShape(dims)
}

// Relax returns the shape with everything that s and o agree on. It is TensorFlow's most_specific_compatible_shape.
func (s PartialShape) Relax(o PartialShape) PartialShape {
	if !s.ranked || !o.ranked || len(s.dims) != len(o.dims) {
		return PartialShape{}
	}
	dims := slices.Clone(s.dims)
	for d, n := range o.dims {
		if n != dims[d] {
			dims[d] = Unknown
		}
	}
	return PartialShape{dims: dims, ranked: true}
}

// Concat returns the dimensions of s followed by the dimensions of o. If either rank is unknown, the rank of the result
// is unknown.
//
// Errors: [ErrRank] and [ErrOverflow], as for [NewPartialShape].
func (s PartialShape) Concat(o PartialShape) (PartialShape, error) {
	if !s.ranked || !o.ranked {
		return PartialShape{}, nil
	}
	return partialShape(slices.Concat(s.dims, o.dims))
}

// Replace returns the shape with dimensions i to j-1 replaced by dims, as [slices.Replace] does. It can also insert, append,
// set and remove dimensions. An unknown rank stays unknown.
//
// Errors: [ErrAxis] unless 0 ≤ i ≤ j ≤ rank, and those of [NewPartialShape].
func (s PartialShape) Replace(i, j int, dims ...int64) (PartialShape, error) {
	if !s.ranked {
		return PartialShape{}, nil
	}
	if i < 0 || j < i || j > len(s.dims) {
		return PartialShape{}, fmt.Errorf("layout: partial shape: dimensions %d to %d are out of range for %s: %w", i, j, extent.Dimensions(len(s.dims)), ErrAxis)
	}
	return partialShape(slices.Concat(s.dims[:i], dims, s.dims[j:]))
}

// HasPrefix reports whether s begins with the dimensions of prefix. It returns false if either rank is unknown.
func (s PartialShape) HasPrefix(prefix PartialShape) bool {
	n := len(prefix.dims)
	return s.ranked && prefix.ranked && n <= len(s.dims) && slices.Equal(s.dims[:n], prefix.dims)
}

// HasSuffix reports whether s ends with the dimensions of suffix. It returns false if either rank is unknown.
func (s PartialShape) HasSuffix(suffix PartialShape) bool {
	n := len(s.dims) - len(suffix.dims)
	return s.ranked && suffix.ranked && n >= 0 && slices.Equal(s.dims[n:], suffix.dims)
}
