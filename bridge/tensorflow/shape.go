package tensorflow

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// DecodeShape decodes a TensorShapeProto. Its rank or dimensions may be unknown. DecodeShape drops the names of
// dimensions, which have no meaning.
//
// Errors: an [*elements.Error] with [ErrWire], [ErrText], [ErrRank] for an unknown rank with dimensions, or more than
// [layout.MaxPartialRank] dimensions, [layout.ErrNegative] or [layout.ErrOverflow].
func DecodeShape(data []byte) (layout.PartialShape, error) {
	var s shapeProto
	if err := s.read(reader{data: data}); err != nil {
		return layout.PartialShape{}, err
	}
	return s.partial()
}

// AppendShape appends a shape as a TensorShapeProto: the inverse of [DecodeShape].
func AppendShape(dst []byte, s layout.PartialShape) []byte {
	if _, ranked := s.Rank(); !ranked {
		return append(dst, 3<<3|byte(protowire.VarintType), 1)
	}
	return appendDims(dst, s.Dims())
}

// A shapeProto has the fields of a TensorShapeProto (tensor_shape.proto).
type shapeProto struct {
	rank        int
	few         [8]int64 // the dimensions if there are at most 8
	many        []int64  // the dimensions if there are more
	unknownRank bool
	at          int // index in the input of the message, for errors
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

// partial returns the shape. Its rank or dimensions may be unknown.
func (s *shapeProto) partial() (layout.PartialShape, error) {
	if s.unknownRank && s.rank > 0 {
		return layout.PartialShape{}, newError(s.at, ErrRank, "unknown_rank is set, but the shape has %d dimensions", s.rank)
	}
	if s.unknownRank {
		return layout.PartialShape{}, nil
	}
	shape, err := layout.NewPartialShape(s.dims()...)
	if err != nil {
		return shape, newError(s.at, err, "shape")
	}
	return shape, nil
}

// read decodes a TensorShapeProto. If a message has two shapes, the dimensions of the second follow the dimensions of
// the first, as protocol buffers require.
func (s *shapeProto) read(r reader) error {
	s.at = r.base
	var f record
	for r.next(&f) {
		switch {
		case f.num == 2 && f.typ == protowire.BytesType:
			if s.rank == layout.MaxPartialRank {
				return newError(f.at, ErrRank, "more than %d dimensions", layout.MaxPartialRank)
			}
			size, err := readDim(f.sub())
			if err != nil {
				return err
			}
			s.add(size)
		case f.num == 3 && f.typ == protowire.VarintType:
			s.unknownRank = f.number() != 0
		}
	}
	return f.err
}

// readDim decodes a TensorShapeProto.Dim. The name of the dimension is dropped, but it must be UTF-8.
func readDim(r reader) (size int64, err error) {
	var f record
	for r.next(&f) {
		switch {
		case f.num == 1 && f.typ == protowire.VarintType:
			size = int64(f.number())
		case f.num == 2 && f.typ == protowire.BytesType:
			if !utf8.Valid(f.value) {
				return 0, newError(f.at, ErrText, "name of a dimension")
			}
		}
	}
	return size, f.err
}

// countOf returns the number of elements of a tensor with the given shape. On an error, d is the dimension at which it
// occurs. Like TensorFlow it multiplies from the first dimension on, so a shape with a 0 after an overflow is an error.
func countOf(shape []int64) (count int64, d int, err error) {
	count = 1
	for d, n := range shape {
		if n < 0 {
			return 0, d, layout.ErrNegative
		}
		var ok bool
		if count, ok = layout.Mul(count, n); !ok {
			return 0, d, layout.ErrOverflow
		}
	}
	return count, 0, nil
}

// sizeDims returns the size in bytes of the encoded dimensions of a TensorShapeProto.
func sizeDims(shape []int64) (n int) {
	for _, dim := range shape {
		n += 2 + sizeInt(dim)
	}
	return n
}

// sizeInt returns the size in bytes of an integer field whose number is below 16. A field with the integer 0 is
// omitted.
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
