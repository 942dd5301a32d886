package tensorflow

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// DecodeSlice decodes a TensorSliceProto (tensor_slice.proto), which has a start and a length for each dimension. An
// absent length stands for the whole dimension; a length of 0 is an error.
//
// Errors: an [*elements.Error] with [ErrWire], [layout.ErrIndex] or [layout.ErrOverflow].
func DecodeSlice(data []byte) (TensorSlice, error) {
	var s TensorSlice
	var f record
	r := reader{data: data}
	for r.next(&f) {
		if f.num != 1 || f.typ != protowire.BytesType {
			continue
		}
		e, err := readExtent(f.sub())
		if err != nil {
			return TensorSlice{}, err
		}
		if err := e.check(); err != nil {
			return TensorSlice{}, newError(f.at, err, "extent %d has start %d and length %d", len(s.extents), e.Start, e.Length)
		}
		if s.extents == nil {
			s.extents = make([]Extent, 0, 1+r.count(1))
		}
		s.extents = append(s.extents, e)
	}
	if f.err != nil {
		return TensorSlice{}, f.err
	}
	return s, nil
}

// readExtent decodes a TensorSliceProto.Extent.
func readExtent(r reader) (Extent, error) {
	e := Extent{Length: Full}
	var f record
	for r.next(&f) {
		switch {
		case f.num == 1 && f.typ == protowire.VarintType:
			e.Start = int64(f.number())
		case f.num == 2 && f.typ == protowire.VarintType:
			if e.Length = int64(f.number()); e.Length < 1 {
				return e, newError(f.at, layout.ErrIndex, "the length of an extent is %d, but must be at least 1", e.Length)
			}
		}
	}
	return e, f.err
}

// AppendSlice appends a slice as a TensorSliceProto: the inverse of [DecodeSlice].
func AppendSlice(dst []byte, s TensorSlice) []byte {
	for _, e := range s.Extents() {
		if e.IsFull() {
			e.Length = 0 // a whole dimension is encoded without a length
		}
		dst = append(dst, 1<<3|byte(protowire.BytesType), byte(sizeInt(e.Start)+sizeInt(e.Length)))
		dst = appendInt(appendInt(dst, 1, e.Start), 2, e.Length)
	}
	return dst
}
