package tensorflow

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// DecodeSlice reads a TensorSliceProto (tensor_slice.proto): a start and a length along each dimension,
// where a length that is absent, and not one of 0, takes the dimension whole.
//
// Errors: an [*elements.Error] with [ErrWire], [layout.ErrIndex] or [layout.ErrOverflow].
func DecodeSlice(data []byte) (TensorSlice, error) {
	var extents []Extent
	r := reader{data: data}
	var f record
	for {
		err := r.next(&f)
		switch {
		case err != nil:
			return TensorSlice{}, err
		case f.num == 1 && f.typ == protowire.BytesType:
			e, err := readExtent(f.sub())
			if err != nil {
				return TensorSlice{}, err
			}
			if _, err := NewTensorSlice(e); err != nil {
				return TensorSlice{}, fault(f.at, err, "extent %d", len(extents))
			}
			if extents == nil {
				extents = make([]Extent, 0, 1+r.count(1))
			}
			extents = append(extents, e)
		case f.num == 0:
			s, err := NewTensorSlice(extents...)
			if err != nil {
				return s, fault(0, err, "slice")
			}
			return s, nil
		}
	}
}

// readExtent reads a TensorSliceProto.Extent.
func readExtent(r reader) (Extent, error) {
	e := Extent{Length: Full}
	var f record
	for {
		err := r.next(&f)
		switch {
		case err != nil || f.num == 0:
			return e, err
		case f.num == 1 && f.typ == protowire.VarintType:
			e.Start = int64(f.number())
		case f.num == 2 && f.typ == protowire.VarintType:
			if e.Length = int64(f.number()); e.Length < 1 {
				return e, fault(f.at, layout.ErrIndex, "length = %d", e.Length)
			}
		}
	}
}

// AppendSlice appends a slice as a TensorSliceProto: the inverse of [DecodeSlice].
func AppendSlice(dst []byte, s TensorSlice) []byte {
	for _, e := range s.Extents() {
		if e.IsFull() {
			e.Length = 0 // which is not written
		}
		dst = append(dst, 1<<3|byte(protowire.BytesType), byte(sizeInt(e.Start)+sizeInt(e.Length)))
		dst = appendInt(appendInt(dst, 1, e.Start), 2, e.Length)
	}
	return dst
}
