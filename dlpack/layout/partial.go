package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxRank is the most dimensions that TensorFlow's shapes have: those of a [PartialShape] and of
// [Layout.FlatInner] and its kin.
const MaxRank = 254

// Unknown is the size of a dimension of a [PartialShape] that is not known.
const Unknown = -1

// A PartialShape is what is known of a shape: nothing, the rank, or some or all sizes. The zero
// PartialShape has an unknown rank. A PartialShape does not change; methods return new ones.
//
// It is TensorFlow's PartialTensorShape, with its text and its limits: at most [MaxRank] dimensions,
// and where all sizes are known a number of elements that fits in 63 bits.
type PartialShape struct {
	dims   []int64
	ranked bool
}

// NewPartialShape is a shape of known rank; sizes may be [Unknown].
//
// Errors: [ErrRank] for more than [MaxRank] dimensions, [ErrNegative] for sizes below -1,
// [ErrOverflow].
func NewPartialShape(dims ...int64) (PartialShape, error) {
	return partialShape(slices.Clone(dims))
}

// partialShape takes over the slice.
func partialShape(dims []int64) (PartialShape, error) {
	if len(dims) > MaxRank {
		return PartialShape{}, fmt.Errorf("layout: partial shape: %d dimensions, at most %d: %w", len(dims), MaxRank, ErrRank)
	}
	for d, n := range dims {
		if n < Unknown {
			return PartialShape{}, fmt.Errorf("layout: partial shape[%d] = %d: %w", d, n, ErrNegative)
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

// ParsePartialShape reads what [PartialShape.String] prints: "<unknown>", "[]", "[4,?]". There may be
// spaces around the sizes.
//
// Errors: [ErrSyntax], and as [NewPartialShape].
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
	if n := strings.Count(list, ",") + 1; n > MaxRank {
		return PartialShape{}, fmt.Errorf("layout: partial shape: %d dimensions, at most %d: %w", n, MaxRank, ErrRank)
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

// String prints the shape as TensorFlow does: "[4,?]", and "<unknown>" for an unknown rank.
func (s PartialShape) String() string {
	if !s.ranked {
		return unknownRank
	}
	text := []byte{'['}
	for d, n := range s.dims {
		if d > 0 {
			text = append(text, ',')
		}
		if n == Unknown {
			text = append(text, '?')
			continue
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(append(text, ']'))
}

// Rank is the number of dimensions; ok is false where that is not known.
func (s PartialShape) Rank() (rank int, ok bool) { return len(s.dims), s.ranked }

// Dim is the size of dimension d, [Unknown] where it is not known.
func (s PartialShape) Dim(d int) int64 {
	if d < 0 || d >= len(s.dims) {
		return Unknown
	}
	return s.dims[d]
}

// Dims is a copy of the sizes, some of them perhaps [Unknown]. It is nil where the rank is not known.
func (s PartialShape) Dims() []int64 {
	if !s.ranked {
		return nil
	}
	return append([]int64{}, s.dims...)
}

// IsFullyDefined tells whether rank and sizes are known, so that the shape is one.
func (s PartialShape) IsFullyDefined() bool { return s.ranked && !slices.Contains(s.dims, Unknown) }

// Count is the number of elements; ok is false where it is not known.
func (s PartialShape) Count() (count int64, ok bool) {
	if !s.IsFullyDefined() {
		return 0, false
	}
	count, err := Count(s.dims)
	return count, err == nil
}

// Equal tells whether the same is known of both.
func (s PartialShape) Equal(o PartialShape) bool {
	return s.ranked == o.ranked && slices.Equal(s.dims, o.dims)
}

// CompatibleWith tells whether one shape can be both.
func (s PartialShape) CompatibleWith(o PartialShape) bool {
	_, _, ok := s.conflict(o)
	return ok
}

// conflict finds what is known to be different: a dimension of sizes m and n, or the ranks.
func (s PartialShape) conflict(o PartialShape) (m, n int64, ok bool) {
	if !s.ranked || !o.ranked {
		return 0, 0, true
	}
	if len(s.dims) != len(o.dims) {
		return int64(len(s.dims)), int64(len(o.dims)), false
	}
	for d, m := range s.dims {
		if n := o.dims[d]; m != n && m != Unknown && n != Unknown {
			return m, n, false
		}
	}
	return 0, 0, true
}

// Refines tells whether every shape that is s is o too.
func (s PartialShape) Refines(o PartialShape) bool {
	if !o.ranked {
		return true
	}
	if !s.ranked || len(s.dims) != len(o.dims) {
		return false
	}
	for d, n := range o.dims {
		if n != Unknown && n != s.dims[d] {
			return false
		}
	}
	return true
}

// Merge is what is known from both together.
//
// Errors: [ErrShape] unless they are compatible, [ErrOverflow].
func (s PartialShape) Merge(o PartialShape) (PartialShape, error) {
	if _, _, ok := s.conflict(o); !ok {
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

// Relax is what is known of a shape that may be either: TensorFlow's most_specific_compatible_shape.
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

// Concat is the dimensions of s and those of o behind them, of unknown rank if one of them is.
//
// Errors: [ErrRank] and [ErrOverflow] as for [NewPartialShape].
func (s PartialShape) Concat(o PartialShape) (PartialShape, error) {
	if !s.ranked || !o.ranked {
		return PartialShape{}, nil
	}
	return partialShape(slices.Concat(s.dims, o.dims))
}

// Replace puts other sizes in the place of dimensions i to j-1, as [slices.Replace]: that is also how
// to insert, append, set and remove dimensions. An unknown rank stays unknown.
//
// Errors: [ErrAxis] unless i and j are a range of dimensions, and as [NewPartialShape].
func (s PartialShape) Replace(i, j int, dims ...int64) (PartialShape, error) {
	if !s.ranked {
		return PartialShape{}, nil
	}
	if i < 0 || j < i || j > len(s.dims) {
		return PartialShape{}, fmt.Errorf("layout: partial shape: dimensions %d to %d of %d: %w", i, j, len(s.dims), ErrAxis)
	}
	return partialShape(slices.Concat(s.dims[:i], dims, s.dims[j:]))
}

// HasPrefix tells whether the first dimensions are those of prefix. It is false for unknown ranks.
func (s PartialShape) HasPrefix(prefix PartialShape) bool {
	n := len(prefix.dims)
	return s.ranked && prefix.ranked && n <= len(s.dims) && slices.Equal(s.dims[:n], prefix.dims)
}

// HasSuffix tells whether the last dimensions are those of suffix. It is false for unknown ranks.
func (s PartialShape) HasSuffix(suffix PartialShape) bool {
	n := len(s.dims) - len(suffix.dims)
	return s.ranked && suffix.ranked && n >= 0 && slices.Equal(s.dims[n:], suffix.dims)
}
