package tensorflow

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// DecodeShape decodes a TensorShapeProto, which may leave the rank or dimensions unknown. It drops the names of dimensions, which
// have no meaning.
//
// Errors: an [*elements.Error] with [ErrWire], [ErrText], [ErrRank] for an unknown rank with dimensions or more than
// [layout.MaxRank] of them, [layout.ErrNegative] or [layout.ErrOverflow].
func DecodeShape(data []byte) (layout.PartialShape, error) {
	shape, fail := readShape(reader{data: data})
	if fail != nil {
		return layout.PartialShape{}, fail
	}
	return shape, nil
}

// AppendShape appends a shape as a TensorShapeProto: the inverse of [DecodeShape].
func AppendShape(dst []byte, s layout.PartialShape) []byte {
	if _, ranked := s.Rank(); !ranked {
		return append(dst, 3<<3|byte(protowire.VarintType), 1)
	}
	return appendDims(dst, s.Dims())
}

func readShape(r reader) (layout.PartialShape, *elements.Error) {
	var s shapeProto
	if fail := s.read(r); fail != nil {
		return layout.PartialShape{}, fail
	}
	return s.partial()
}

// A shapeProto is a TensorShapeProto as it is written (tensor_shape.proto).
type shapeProto struct {
	rank        int
	few         [8]int64 // the dimensions, unless there are more of them than fit
	many        []int64
	unknownRank bool
	at          int // where it was read, for errors
}

func (s *shapeProto) dims() []int64 {
	if s.rank > len(s.few) {
		return s.many
	}
	return s.few[:s.rank]
}

func (s *shapeProto) clone() []int64 { return append([]int64{}, s.dims()...) }

func (s *shapeProto) add(size int64) {
	if s.rank < len(s.few) {
		s.few[s.rank] = size
	} else {
		if s.rank == len(s.few) {
			s.many = append(s.many, s.few[:]...)
		}
		s.many = append(s.many, size)
	}
	s.rank++
}

// partial is the shape where it need not be known.
func (s *shapeProto) partial() (layout.PartialShape, *elements.Error) {
	if s.unknownRank && s.rank > 0 {
		return layout.PartialShape{}, fault(s.at, ErrRank, "%d dimensions of an unknown rank", s.rank)
	}
	if s.unknownRank {
		return layout.PartialShape{}, nil
	}
	shape, err := layout.NewPartialShape(s.dims()...)
	if err != nil {
		return shape, fault(s.at, err, "shape")
	}
	return shape, nil
}

// read adds what a TensorShapeProto says: given twice, dimensions follow one another, as in any submessage.
func (s *shapeProto) read(r reader) *elements.Error {
	s.at = r.base
	var f record
	for {
		if fail := r.next(&f); fail != nil {
			return fail
		}
		switch {
		case f.num == 0:
			return nil
		case f.num == 2 && f.typ == protowire.BytesType:
			if s.rank == layout.MaxRank {
				return fault(f.at, ErrRank, "more than %d dimensions", layout.MaxRank)
			}
			size, fail := readDim(f.sub())
			if fail != nil {
				return fail
			}
			s.add(size)
		case f.num == 3 && f.typ == protowire.VarintType:
			s.unknownRank = f.number() != 0
		}
	}
}

// readDim reads a TensorShapeProto.Dim. Its name carries no meaning, but must be one.
func readDim(r reader) (size int64, fail *elements.Error) {
	var f record
	for {
		if fail := r.next(&f); fail != nil {
			return 0, fail
		}
		switch {
		case f.num == 0:
			return size, nil
		case f.num == 1 && f.typ == protowire.VarintType:
			size = int64(f.number())
		case f.num == 2 && f.typ == protowire.BytesType:
			if !utf8.Valid(f.value) {
				return 0, fault(f.at, ErrText, "name of a dimension")
			}
		}
	}
}

// countOf is the number of elements of a tensor's shape, which was read at an offset. TensorFlow multiplies
// from the first dimension on, so that a 0 behind an overflow does not help.
func countOf(shape []int64, at int) (int64, *elements.Error) {
	count := int64(1)
	for i, n := range shape {
		if n < 0 {
			return 0, fault(at, layout.ErrNegative, "tensor_shape.dim[%d].size = %d", i, n)
		}
		var ok bool
		if count, ok = layout.Mul(count, n); !ok {
			return 0, fault(at, layout.ErrOverflow, "tensor_shape.dim[%d].size = %d", i, n)
		}
	}
	return count, nil
}

// sizeDims is the size of the dimensions of a TensorShapeProto.
func sizeDims(shape []int64) (n int) {
	for _, dim := range shape {
		n += 2 + sizeInt(dim)
	}
	return n
}

// sizeInt is the size of a field of an integer with a number below 16, which 0 does not have.
func sizeInt(x int64) int {
	if x == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(x))
}

func appendInt(dst []byte, num protowire.Number, x int64) []byte {
	if x == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), uint64(x))
}

func appendDims(dst []byte, shape []int64) []byte {
	for _, dim := range shape {
		dst = append(dst, 2<<3|byte(protowire.BytesType), byte(sizeInt(dim)))
		dst = appendInt(dst, 1, dim)
	}
	return dst
}
